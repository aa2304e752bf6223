"""Loggers: where a run's metrics go besides its record. They need the extra "loggers"."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from isojepa.importing import install_hint


class Logger(Protocol):
    """Receives every row of metrics."""

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`."""
        ...

    def close(self) -> None:
        """Flush and release."""
        ...


class TensorBoard:
    """Scalars in a TensorBoard event file, opened at the first row.

    Args:
        folder: where the event file is written.

    Raises:
        ImportError: tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(f"TensorBoard needs: {install_hint('loggers')}") from error
        self._open: Callable[[int], Any] = lambda step: SummaryWriter(str(folder), purge_step=step)
        self._writer: SummaryWriter | None = None

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`. A resumed run replaces the rows it repeats."""
        step = int(row["step"])
        if self._writer is None:
            self._writer = self._open(step)
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and release."""
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A Weights & Biases run, begun at the first row.

    Args:
        project: project name.
        folder: where wandb keeps its files.
        config: hyperparameters displayed with the run.
        mode: "online", or "offline" to write locally and sync later.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(
        self,
        project: str = "isojepa",
        folder: str | Path = ".",
        config: Mapping[str, Any] | None = None,
        mode: str = "online",
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ImportError(f"Weights & Biases needs: {install_hint('loggers')}") from error
        settings: dict[str, Any] = {
            "project": project,
            "dir": str(folder),
            "config": dict(config or {}),
            "mode": mode,
        }
        self._begin: Callable[[], Any] = lambda: wandb.init(**settings)
        self._run: Any = None

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`."""
        if self._run is None:
            self._run = self._begin()
        self._run.log({k: v for k, v in row.items() if k != "step"}, step=int(row["step"]))

    def close(self) -> None:
        """Flush and release."""
        if self._run is not None:
            self._run.finish()
