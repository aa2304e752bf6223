"""Loggers: where a run's metrics go besides its record. They need `pip install "isojepa[loggers]"`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """Receives every row of metrics."""

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`."""
        ...

    def close(self) -> None:
        """Flush and release."""
        ...


class TensorBoard:
    """Scalars in a TensorBoard event file.

    Args:
        folder: where the event file is written.

    Raises:
        ImportError: tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError('TensorBoard needs: pip install "isojepa[loggers]"') from error
        self._writer = SummaryWriter(str(folder))

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`."""
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        """Flush and release."""
        self._writer.close()


class WeightsAndBiases:
    """A Weights & Biases run.

    Args:
        project: project name.
        folder: where wandb keeps its files.
        config: shown beside the run.
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
            raise ImportError('Weights & Biases needs: pip install "isojepa[loggers]"') from error
        self._run = wandb.init(
            project=project,
            dir=str(folder),
            config=dict(config or {}),
            mode=mode,  # type: ignore[arg-type]
        )

    def log(self, row: Mapping[str, float]) -> None:
        """Take one row; it has an entry `step`."""
        self._run.log({k: v for k, v in row.items() if k != "step"}, step=int(row["step"]))

    def close(self) -> None:
        """Flush and release."""
        self._run.finish()
