"""A sweep: every run of some studies, trained and scored once, wherever there is room."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from isojepa.io import half_written, make_folder, write_text
from isojepa_lab.sweep.plan import Task
from isojepa_lab.sweep.screen import Screen
from isojepa_lab.sweep.tally import Tally
from isojepa_lab.sweep.work import NOTES, Ending

_PAUSE = 0.5  # seconds between two looks
_STALE = 3600.0  # seconds after which a note counts as abandoned


class Executor(Protocol):
    """Where runs are made."""

    elsewhere: list[Task]

    @property
    def running(self) -> list[Task]:
        """The runs under way."""

    def poll(self, seconds: float) -> list[tuple[Task, Ending]]:
        """Begin what can begin, wait a little, and return what ended."""

    @property
    def remark(self) -> str:
        """A remark for the display; may be empty."""

    def close(self) -> None:
        """Stop watching; on this machine, stop working too."""

    def advice(self) -> str:
        """A remark for the user who stopped the sweep."""


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended.

    Attributes:
        total: runs.
        before: runs that were done before.
        done: runs that are done now.
        failures: one line for each run that failed, by its record's name.
        stopped: whether it was interrupted.
    """

    total: int
    before: int
    done: int
    failures: dict[str, str]
    stopped: bool


def run_sweep(tasks: Sequence[Task], executor: Executor, tally: Tally, screen: Screen) -> Outcome:
    """Make every run that is not done.

    Args:
        tasks: the unfinished runs.
        executor: where they are made.
        tally: counts them.
        screen: shows them.
    """
    unfinished = {task.name for task in tasks}
    stopped = False
    try:
        with screen:
            while unfinished:
                for task, ending in executor.poll(_PAUSE):
                    unfinished.discard(task.name)
                    tally.end(task, ending)
                    screen.ended(task, tally)
                tally.note_running(executor.running)
                screen.refresh(tally, executor.running, executor.elsewhere, executor.remark)
    except KeyboardInterrupt:
        stopped = True
    finally:
        executor.close()
    return Outcome(tally.total, len(tally.before), tally.done, dict(tally.failures), stopped)


def prepare_folder(folder: str | Path) -> Path:
    """The folder of the records, made and tried.

    Raises:
        ValueError: it is a file, or the folder of its notes is a link.
        OSError: it cannot be written to.
    """
    path = Path(folder).absolute()
    for part in (path, *path.parents):
        if part.exists():
            if not part.is_dir():
                raise ValueError(f"records must be a folder, got the file {part}")
            break
    notes = make_folder(path / NOTES)
    write_text(notes / ".writable", "")
    (notes / ".writable").unlink(missing_ok=True)
    for name in os.listdir(notes):  # what a killed sweep left half written; another may be writing now
        note = notes / name
        with contextlib.suppress(OSError):
            if half_written(name) is not None and time.time() - note.lstat().st_mtime > _STALE:
                note.unlink()
    return path
