"""The count of a sweep: what is done, what failed, and how much time is left."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep.estimate import Estimate, makespan
from isojepa_lab.sweep.plan import Task
from isojepa_lab.sweep.record_state import pace
from isojepa_lab.sweep.work import Ending, notes_path

_MAX_STEP_SHARE = 0.98  # share of a run that its steps make at most: it is scored too
_LOOK = 2.0  # seconds between two looks at the steps of running runs


class Tally:
    """Counts runs as they end.

    Args:
        tasks: all runs of the sweep.
        prices: what is left to do.
        folder: of the records.
        workers: how many runs compute at once.
    """

    def __init__(self, tasks: Sequence[Task], prices: Estimate, folder: Path, workers: int) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.folder, self.workers = folder, workers
        self.failures: dict[str, str] = {}
        self.before = {name for name in self.tasks if prices.states[name] == "done"}
        self._done = set(self.before)
        self._left = {name: prices.seconds[name] for name in self.tasks}
        begun = {name: self._share_done(name) for name in self.tasks if prices.states[name] == "started"}
        self._prices = {name: seconds / (1 - begun.get(name, 0.0)) for name, seconds in self._left.items()}
        self._whole = max(sum(self._left.values()), 1e-9)
        self._begun: dict[str, float] = {}
        self._at: dict[str, int] = {}  # steps that running runs have done
        self._first: dict[str, tuple[float, int]] = {}  # when a run was first seen to step, and where
        self._seconds: dict[str, float] = {}  # of a whole training, by how fast its steps were seen to go
        self._looked = 0.0

    @property
    def total(self) -> int:
        """Number of runs."""
        return len(self.tasks)

    @property
    def done(self) -> int:
        """Runs that are trained and scored."""
        return len(self._done)

    @property
    def over(self) -> int:
        """Runs that ended, well or not."""
        return len(self._done) + len(self.failures)

    def end(self, task: Task, ending: Ending) -> None:
        """Note how a run ended."""
        if ending.state == "failed":
            self.failures[task.name] = ending.error
        else:
            self._done.add(task.name)
        self._left[task.name] = 0.0

    def note_running(self, running: Sequence[Task]) -> None:
        """Start the clocks of runs that have begun, and see how fast they go."""
        now = time.monotonic()
        for task in running:
            self._begun.setdefault(task.name, now)
        if now - self._looked < _LOOK:
            return
        self._looked = now
        for task in running:
            step = self._at[task.name] = pace(task.path).step
            since, start = self._first.setdefault(task.name, (now, step))
            if step == 0 or start == 0:  # it is still starting
                self._first[task.name] = (now, step)
            elif step > start:
                self._seconds[task.name] = (now - since) / (step - start) * task.steps

    def running_for(self, task: Task) -> float:
        """Seconds since a run began."""
        return time.monotonic() - self._begun.get(task.name, time.monotonic())

    def waiting(self, running: Sequence[Task], elsewhere: Sequence[Task]) -> int:
        """Runs that have not begun."""
        return self.total - self.over - len(running) - len(elsewhere)

    def share(self, running: Sequence[Task]) -> float:
        """Share of the work that is done."""
        return min(1.0, max(0.0, 1 - sum(self._now(running).values()) / self._whole))

    def time_left(self, running: Sequence[Task]) -> str:
        """When it will be over, by the prices and by how the runs are seen to keep to them."""
        message = [
            self._seconds[name] / self._prices[name] for name in self._seconds if self._prices[name] > 0
        ]
        drift = statistics.median(message) if message else 1.0
        longest = makespan([drift * seconds for seconds in self._now(running).values()], self.workers)
        return f"about {clock(longest)} left" if longest >= 1 else ""

    def line(self, task: Task) -> str:
        """One line about a run that has ended."""
        width = len(str(self.total))
        head = f"[{self.over:{width}d}/{self.total}]"
        if task.name in self.failures:
            return f"{head} failed  {task.study}  {task.title}: {self.failures[task.name]}"
        record = RunDirectory(task.path)
        result, scores = record.result or {}, record.scores or {}
        r2 = scores.get("r2")
        message = f"R2 {r2:.4f}" if isinstance(r2, float) else "not scored" if "unscored" in scores else ""
        return (
            f"{head} {result.get('status', '?'):<9} {task.study}  {task.title}  {message}  "
            f"{result.get('seconds', 0.0):.1f} s  {task.path}"
        )

    def log_of(self, name: str) -> Path | None:
        """The log of a run that failed, if it has one."""
        log = notes_path(self.folder, name, "log")
        return log if log.exists() else None

    def _now(self, running: Sequence[Task]) -> dict[str, float]:
        """Seconds left of every run, by the steps that the running ones have done."""
        seconds = dict(self._left)
        for task in running:
            if seconds[task.name] and task.name in self._at:
                done = min(self._at[task.name] / task.steps, _MAX_STEP_SHARE)
                seconds[task.name] = self._prices[task.name] * (1 - done)
        return seconds

    def _share_done(self, name: str) -> float:
        task = self.tasks[name]
        return min(pace(task.path).step / task.steps, _MAX_STEP_SHARE)


def clock(seconds: float) -> str:
    """A duration, rounded for reading.

    Example:
        >>> clock(7.31), clock(75), clock(7300)
        ('7 s', '1 min 15 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
