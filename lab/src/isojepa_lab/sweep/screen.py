"""Display of a sweep: one screen on a terminal, one line per finished run elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isojepa.terminal import Console
from isojepa_lab.sweep.plan import Task
from isojepa_lab.sweep.record_state import pace
from isojepa_lab.sweep.tally import Tally, clock

_SHOWN = 16  # running runs at most


class Screen(Protocol):
    """Shows a running sweep."""

    def __enter__(self) -> "Screen": ...
    def __exit__(self, *_: object) -> None: ...
    def ended(self, task: Task, tally: Tally) -> None:
        """A run has ended; the tally knows how."""

    def refresh(self, tally: Tally, running: Sequence[Task], elsewhere: Sequence[Task], remark: str) -> None:
        """Time has passed."""


class Lines:
    """One plain line per finished run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._remark = ""

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ended(self, task: Task, tally: Tally) -> None:
        self._console.print(tally.line(task), soft_wrap=True)

    def refresh(self, tally: Tally, running: Sequence[Task], elsewhere: Sequence[Task], remark: str) -> None:
        if remark and not running and remark != self._remark:  # while anything runs, waiting is no news
            self._remark = remark
            self._console.print(remark, soft_wrap=True)


class Dashboard:
    """One screen: counts, bar, time left, and what every worker does."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._console = console

    def __enter__(self) -> "Dashboard":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def ended(self, task: Task, tally: Tally) -> None:
        if tally.failures.get(task.name):
            self._console.print(tally.line(task), style="red", soft_wrap=True)

    def refresh(self, tally: Tally, running: Sequence[Task], elsewhere: Sequence[Task], remark: str) -> None:
        self._live.update(draw(tally, running, elsewhere, remark))


def draw(
    tally: Tally, running: Sequence[Task], elsewhere: Sequence[Task], remark: str = ""
) -> RenderableType:
    """The screen at one moment."""
    head = Table.grid(padding=(0, 2))
    counts = Text.assemble(
        (f"{tally.done} done", "green"),
        (f"  {len(running)} running", "cyan"),
        (f"  {len(tally.failures)} failed", "red" if tally.failures else "dim"),
        f"  {tally.waiting(running, elsewhere)} waiting",
    )
    if elsewhere:
        counts.append(f"  {len(elsewhere)} held by other processes", "yellow")
    bar = ProgressBar(total=1.0, completed=tally.share(running), width=24)
    head.add_row(bar, f"{tally.over} of {tally.total}", tally.time_left(running))
    body = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for title in ("study", "run", "step", "R2", "time"):
        right = title in ("step", "R2", "time")
        body.add_column(title, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for task in running[:_SHOWN]:
        at = pace(task.path)
        step = f"{at.step}/{task.steps}"
        r2 = "" if at.r2 is None else f"{at.r2:.4f}"
        if at.step >= task.steps:
            step = "scoring"
        body.add_row(task.study, task.title, step, r2, clock(tally.running_for(task)))
    if len(running) > _SHOWN:
        body.add_row("", f"and {len(running) - _SHOWN} more", "", "", "")
    parts: list[RenderableType] = [counts, head, body]
    return Group(*parts, Text(remark, style="dim")) if remark else Group(*parts)


def choose_screen(console: Console) -> Screen:
    """The screen that fits where the output goes."""
    return Dashboard(console) if console.is_terminal else Lines(console)
