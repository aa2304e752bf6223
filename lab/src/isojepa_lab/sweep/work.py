"""One run of a sweep, in any executor: train it and score it, or compute it, and leave a record."""

import os
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isojepa.arrays import NotFinite
from isojepa.config import Config
from isojepa.io import make_folder, open_unfollowed, write_json, write_text
from isojepa.runs import load_run, record_path, train
from isojepa.terminal import escape_control
from isojepa.training.run import RunWarning
from isojepa.training.run_directory import RunDirectory, RunDirectoryLocked
from isojepa_lab.studies.catalogue import STUDIES
from isojepa_lab.studies.cells import Asked, Cell, Computation, record_of
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Study
from isojepa_lab.sweep.plan import find_studies
from isojepa_lab.sweep.record_state import repair, state_of

NOTES = ".sweep"  # beside the records: logs, times, jobs
_PATIENCE = 2.0  # seconds: others look at a lock for a moment only


@dataclass(frozen=True)
class Ending:
    """How one attempt at a run ended.

    Attributes:
        state: "done", "held" by another process, or "failed".
        error: one line when it failed.
    """

    state: str
    error: str = ""


def notes_path(folder: str | Path, name: str, suffix: str) -> Path:
    """A file of the sweep about one record: its "log", its "failed" line or its "json" of times."""
    return Path(folder) / NOTES / f"{name}.{suffix}"


def work(config: Asked, folder: str | Path, study: str = "") -> RunDirectory:
    """Train what a config describes and score it, or compute what a study measures; only what is missing.

    A run that collapsed or diverged is a result: it is scored where its embeddings are finite, and its scores
    say why not where they are not.

    Args:
        config: the run.
        folder: of the records.
        study: name or file of the study that measures it; the general scores of a config need none.

    Raises:
        RecordHeld: another process works on the record.
        ValueError: the config cannot be built, or the record is not this config's.
    """
    path = record_of(config, folder)
    if isinstance(config, Computation):
        _patiently(lambda: _compute(config, path, study))
        return RunDirectory(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        _patiently(lambda: _prepare(config, path))
        if RunDirectory(path).scores is None:
            _patiently(lambda: _train(config, folder))
            _patiently(lambda: _score(path, folder, study))
    return RunDirectory(path)


def attempt(config: Asked, folder: str | Path, study: str = "") -> Ending:
    """`work`, whose failure is reported in one line and written to the run's log with its traceback."""
    name = record_of(config, folder).name
    failed = notes_path(folder, name, "failed")
    failed.unlink(missing_ok=True)
    try:
        work(config, folder, study)
    except RunDirectoryLocked:
        return Ending("held")
    except Exception as error:  # one run that fails must not stop the others
        line = " ".join(f"{error}".split()) or type(error).__name__
        if not isinstance(error, ValueError | OSError):
            line = f"{type(error).__name__}: {line}"
        log = notes_path(folder, name, "log")
        make_folder(log.parent)
        with open(open_unfollowed(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8") as out:
            out.write(traceback.format_exc())
        write_text(failed, line + "\n")
        return Ending("failed", line)
    return Ending("done")


def _prepare(config: Config, path: Path) -> None:
    """Make the record, or mend it, with no other process beside."""
    with RunDirectory.held(path, config.to_dict()) as record:
        record.clean()
        for messages in repair(record):
            print(escape_control(f"{path}: {messages}"), flush=True)


def _compute(computation: Computation, path: Path, study: str) -> None:
    """Compute missing results, under the record's lock; the result is written last and makes it whole."""
    with RunDirectory.held(path, computation.to_dict()) as record:
        record.clean()
        if state_of(path) == "done":
            return
        (result_study,) = find_studies((study or computation.study,))
        if not isinstance(result_study, Study) or result_study.measure is None:
            raise ValueError(f"study {result_study.name!r} must have a measure, for it has computations")
        started, spent = time.monotonic(), time.process_time()
        scores = result_study.measure(Cell(computation, {}))
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - spent
        record.save_scores(scores)
        times = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        record.finish({"status": "done", "reason": "", **times, "resumed_at": []})


def _train(config: Config, folder: str | Path) -> None:
    if RunDirectory(record_path(config, folder)).result is not None:
        return
    train(config, folder, progress=False)


def _score(path: Path, folder: str | Path, study: str) -> None:
    record = RunDirectory(path)
    with record.locked():
        if record.scores is not None:
            return
        started = time.monotonic()
        encoder, world, _ = load_run(path)
        result = record.result or {}
        measured = _study_of(study)
        try:
            scores = dict((score if measured is None else measured.score)(encoder, world))
        except (ValueError, np.linalg.LinAlgError) as error:
            if result["status"] == "done" and not isinstance(error, NotFinite):
                raise
            scores = {"unscored": str(error)}
        if measured is not None and (name := measured.curve) is not None:
            scores["curve"] = [[row["step"], row[name]] for row in record.metrics if name in row]
        record.save_scores(scores)
        times = {"scoring": time.monotonic() - started, "training": result["seconds"]}
        write_json(notes_path(folder, path.name, "json"), times)


def _study_of(name: str) -> Study | None:
    """The study that measures a run; None for a run of no known study, which has the general scores."""
    if name in STUDIES or Path(name).suffix == ".py":
        (study,) = find_studies((name,))
        return study if isinstance(study, Study) else None
    return None


def _patiently(do: Callable[[], None]) -> None:
    """Try again for a moment when another process holds the record: it may only be looking."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            do()
            return
        except RunDirectoryLocked:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
