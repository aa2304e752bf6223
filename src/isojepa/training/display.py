"""The progress of a run: steps, time left, speed, loss terms and scores, on standard error."""

import math
import sys
import time
from collections.abc import Mapping
from types import TracebackType

from isojepa.terminal import Console, PlainProgress
from isojepa.training.records import GAUGES

_SECOND = 1.0  # between two measurements of the speed


class Bar:
    """A rich progress bar on a terminal, else a line every few seconds.

    Args:
        steps: length of the run.
        done: steps already done.
        show: whether to draw the bar; None draws it on a terminal and prints lines elsewhere.
    """

    def __init__(self, steps: int, done: int, show: bool | None) -> None:
        # slow to import: only for those who train
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        visible = sys.stderr.isatty() if show is None else show
        self._progress = Progress(
            TextColumn("training", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            TextColumn("{task.fields[terms]}", markup=False),
            console=Console(stderr=True),
            disable=not visible,
        )
        self._plain = PlainProgress("training: step", done) if show is None and not visible else None
        self._steps, self._terms = steps, ""
        self._task = self._progress.add_task("training", total=steps, completed=done, terms="", speed="")
        self._states, self._since = 0, time.monotonic()
        self._speed = math.nan

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def speed(self) -> dict[str, float]:
        """States per second, by the name that loggers show; nothing before the first second."""
        return {} if math.isnan(self._speed) else {"states_per_second": self._speed}

    def move(self, step: int, states: int) -> None:
        """Show the number of steps done, of which the last took so many states."""
        self._states += states
        passed = time.monotonic() - self._since
        if passed >= _SECOND:
            self._speed = self._states / passed
            self._states, self._since = 0, time.monotonic()
            self._progress.update(self._task, speed=f"{self._speed:,.0f}/s")
        self._progress.update(self._task, completed=step)
        if self._plain is not None:
            self._plain.update(step, self._steps, self._terms)

    def show(self, row: Mapping[str, float]) -> None:
        """Show the latest metrics."""
        shown = {name: value for name, value in row.items() if name not in ("step", *GAUGES)}
        self._terms = "  ".join(f"{k} {v:.4g}" for k, v in shown.items())
        self._progress.update(self._task, terms=self._terms)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)
