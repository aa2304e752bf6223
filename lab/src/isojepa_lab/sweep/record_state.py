"""How far a record is, whether a process holds it, and what can be repaired of a damaged one.

A run is a function of its config, so whatever a record holds beyond config.json can be made again: a file
that a full disk or a crash left torn is removed under the record's lock, and what it held is computed anew.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from isojepa.io import open_unfollowed, to_jsonable
from isojepa.training import checkpoints
from isojepa.training.checkpoints import load_tensors
from isojepa.training.run_directory import CHECKPOINT, LOCK, RunDirectory

T = TypeVar("T")
STATES = ("done", "trained", "started", "new")  # scored; not scored; not trained to the end; not begun


def state_of(path: Path) -> str:
    """One of `STATES`.

    What cannot be read, or is of another config than its name says, counts as started: a worker mends it or
    says what is wrong.
    """
    try:
        if not (path / "config.json").exists():
            return "new"
        record = RunDirectory(path)
        if record.result is None:
            return "started"
        if record.scores is None:
            return "trained"
        return "done" if record.id == path.name else "started"
    except (ValueError, OSError):
        return "started"


def is_held(path: Path) -> bool:
    """Whether a process, on this machine or on another that shares the disk, works on the record now."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return False
    try:
        with open(open_unfollowed(path / LOCK, os.O_RDONLY)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such record, or a file system without locks
        return False
    return False


def tidy(paths: Iterable[Path]) -> None:
    """Remove the checkpoints of finished records, which a process that was killed at their end has left."""
    for path in paths:
        if os.path.lexists(path / CHECKPOINT):
            with contextlib.suppress(ValueError, OSError):  # held by another process, or no plain folder
                record = RunDirectory.open(path)
                with record.locked():
                    record.clean()


def repair(record: RunDirectory) -> list[str]:
    """Remove what is torn, under the lock; returns one sentence for each file.

    A torn config.json is not repaired: the folder may be something else altogether.
    """
    messages: list[str] = []
    path = record.path
    _, scores_error = _read(lambda: record.scores)
    if scores_error:
        (path / "scores.json").unlink()
        messages.append("scores.json was torn: the encoder is scored again")
    result, result_error = _read(lambda: record.result)
    if result is None and not result_error and (path / "scores.json").exists():
        (path / "scores.json").unlink()
        messages.append("scores.json was of a result that is gone: the run resumes")
    torn_weights = "" if result is None else _torn_weights(record)
    metrics, metrics_error = _read(lambda: record.metrics)
    if result is not None and not metrics_error:
        last = to_jsonable((metrics or [{}])[-1])  # in a result NaN has its name
        metrics_error = "" if (result.get("metrics") or {}) == last else "rows are missing"
    if result_error or torn_weights or metrics_error:
        for name in ("result.json", "scores.json", "metrics.jsonl"):
            (path / name).unlink(missing_ok=True)
        record.drop_checkpoint()
        bad = "result.json" if result_error else torn_weights or "metrics.jsonl"
        return [*messages, f"{bad} was torn: the run starts again"]
    if result is None and record.checkpoint.exists():
        steps = float(record.config["training"]["steps"])
        _, error = _read(lambda: _check_checkpoint(record, steps))
        if error:
            record.drop_checkpoint()
            messages.append(f"the checkpoint was torn ({error}): the run starts again")
    return messages


@dataclass(frozen=True)
class Pace:
    """Where a run is.

    Attributes:
        step: steps that are known to be done.
        r2: held-out R^2 at the last evaluation; None before the first.
    """

    step: int
    r2: float | None


def pace(path: Path) -> Pace:
    """Where a run is, by its last row of metrics and its checkpoint's note; nothing that is torn disturbs."""
    step: int = 0
    r2: float | None = None
    row = _last_row(path / "metrics.jsonl")
    with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
        step = int(row["step"])
        r2 = float(row["r2"])  # a row may have none: its step counts all the same
    return Pace(max(step, _noted_step(path / "checkpoint" / "state.safetensors")), r2)


def _torn_weights(record: RunDirectory) -> str:
    """The name of a file of weights that is not whole or not there; empty if all are."""
    names = {"encoder.safetensors", *(file.name for file in record.path.glob("*.safetensors"))}
    torn = [name for name in sorted(names) if _read(partial(load_tensors, record.path / name, record.id))[1]]
    return torn[0] if torn else ""


def _check_checkpoint(record: RunDirectory, steps: float) -> None:
    """Check that a run can resume from its checkpoint."""
    progress = checkpoints.read_checkpoint(record.checkpoint, record.id, steps).progress
    record.check_rows(progress.metrics_size)


def _read(read: Callable[[], T]) -> tuple[T | None, str]:
    """What a reader gives, and why it could not."""
    try:
        return read(), ""
    except ValueError as error:
        return None, str(error)


def _last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a file of JSON lines, read from its end."""
    with contextlib.suppress(OSError, ValueError):
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8192))
            lines = file.read().split(b"\n")[:-1]
        row = json.loads(lines[-1]) if lines else {}
        return row if isinstance(row, dict) else {}
    return {}


def _noted_step(path: Path) -> int:
    """The step in the header of a checkpoint, without its tensors."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, 1 << 20)))
        return int(header["__metadata__"]["step"])
    return 0
