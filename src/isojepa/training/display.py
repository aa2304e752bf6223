"""The progress bar of a run: steps, time left, loss terms and held-out R^2, on standard error."""

import sys
from collections.abc import Mapping
from types import TracebackType

from isojepa.training.records import GAUGES


class Bar:
    """A rich progress bar, or nothing.

    Args:
        steps: length of the run.
        done: steps already done.
        show: whether to draw it; None draws it when standard error is a terminal.
    """

    def __init__(self, steps: int, done: int, show: bool | None) -> None:
        # slow to import: only for those who train
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from isojepa.terminal import Console

        visible = sys.stderr.isatty() if show is None else show
        self._progress = Progress(
            TextColumn("training", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}", markup=False),
            console=Console(stderr=True),
            disable=not visible,
        )
        self._task = self._progress.add_task("training", total=steps, completed=done, terms="")

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def move(self, step: int) -> None:
        """Show the number of steps done."""
        self._progress.update(self._task, completed=step)

    def show(self, row: Mapping[str, float]) -> None:
        """Show the latest metrics."""
        shown = {name: value for name, value in row.items() if name not in ("step", *GAUGES)}
        self._progress.update(self._task, terms="  ".join(f"{k} {v:.4g}" for k, v in shown.items()))
