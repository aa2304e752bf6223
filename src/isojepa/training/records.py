"""A record: the folder that a run leaves.

    config.json            what was asked for, with the format's number and the package's version
    metrics.jsonl          one row per evaluation; a function of the config alone, so it holds no times
    result.json            how it ended: status, reason, last metrics, seconds, versions
    encoder.safetensors    the trained weights; one file for each model, by its name
    objective.safetensors  those of the objective, if it learns any
    scores.json            what a sweep measured of the trained encoder
    checkpoint/            the state to go on from, while the run is unfinished

Nothing in a record is ever unpickled. Its id is a hash of its config, so the same command finds its own
record again, skips it when it is done and goes on with it when it is not. Weights and checkpoints carry the
id of their record.

A folder that holds anything but a record is refused. Only names of this list are ever written or removed in
one, never through a link, and only by who holds the record's lock.
"""

import contextlib
import functools
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isojepa.files import check_folder, open_unfollowed, plain, read_json, write_json
from isojepa.opening import read_bytes
from isojepa.training.contents import check_result, rows_of
from isojepa.training.folders import (
    CHECKPOINT,
    LOCK,
    WEIGHTS,
    check_claim,
    check_plain,
    remove_checkpoint,
    remove_half_written,
    remove_run,
)
from isojepa.training.identity import FORMAT, difference, identity, record_id, without_header
from isojepa.training.tensors import OWNER, load_tensors, save_tensors
from isojepa.version import __version__

PARTS = ("objective", "checkpoint", "config", "result", "metrics", "scores")  # names that no model can have
METRICS = 100 << 20  # bytes of metrics.jsonl at most: hundreds of thousands of rows
# in a row of metrics, besides loss and scores
GAUGES = ("smallest_variance", "mean_variance", "dead_fraction", "gradient_norm", "learning_rate")


class RecordHeld(ValueError):
    """Another process works on the record."""


class Record:
    """One run's folder.

    Args:
        path: the folder.

    Raises:
        ValueError: there is a config that this version cannot read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._config: dict[str, Any] | None = None
        self._result: dict[str, Any] | None = None
        file = self.path / "config.json"
        if not os.path.lexists(file):
            return
        try:
            content = read_json(file)
            if not isinstance(content, dict):
                raise ValueError(f"{file} must hold a JSON object, got {type(content).__name__}")
        except ValueError as error:
            again = f"put a copy of it back, or delete {self.path} to have it run again"
            raise ValueError(f"{error}; {again}") from error
        try:
            self._config = without_header(content)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error

    @classmethod
    def start(cls, path: str | Path, config: Mapping[str, Any]) -> "Record":
        """Open the record of a config at a path, creating it if there is none; see `held`."""
        with cls.held(path, config) as record:
            return record

    @classmethod
    @contextlib.contextmanager
    def held(cls, path: str | Path, config: Mapping[str, Any]) -> Iterator["Record"]:
        """Open the record of a config at a path, creating it if there is none, and hold it.

        Raises:
            ValueError: the folder holds the record of another config, or something else than a record.
            RecordHeld: another process holds it.
        """
        folder = Path(path)
        check_claim(folder)  # before anything is made there
        folder.mkdir(parents=True, exist_ok=True)
        with cls(folder).locked():
            check_claim(folder)
            record = cls(folder)  # as it is now that nobody else changes it
            record._claim(plain(dict(config)))
            yield record

    def _claim(self, wanted: dict[str, Any]) -> None:
        """Write the config if there is none; else see that it is the same."""
        if not self.exists:
            self._write_config(wanted)
        elif identity(self.config) != identity(wanted):
            told = difference(identity(self.config), identity(wanted))
            raise ValueError(
                f"record {self.path} was made with another config ({told}); "
                "choose another folder, or delete it"
            )
        check_plain(self.path)

    def _write_config(self, wanted: dict[str, Any]) -> None:
        write_json(self.path / "config.json", {"format": FORMAT, "isojepa": __version__, **wanted})
        self._config = wanted

    @classmethod
    def open(cls, path: str | Path) -> "Record":
        """Open a record that must exist.

        Raises:
            ValueError: the folder is not a record.
        """
        record = cls(path)
        if not record.exists:
            raise ValueError(f"{record.path} is not a record: it has no config.json")
        return record

    @property
    def exists(self) -> bool:
        """Whether the folder holds a config."""
        return self._config is not None

    @property
    def config(self) -> dict[str, Any]:
        """The config the run was asked for, as plain values."""
        return {} if self._config is None else self._config

    @property
    def id(self) -> str:
        """The hash of its config."""
        return record_id(self.config)

    @property
    def result(self) -> dict[str, Any] | None:
        """How the run ended; None while it has not."""
        if self._result is not None:
            return self._result
        path = self.path / "result.json"
        if not os.path.lexists(path):
            return None
        try:
            result: dict[str, Any] = read_json(path)
            check_result(result)
        except ValueError as error:
            raise ValueError(
                f"{path} is not a run's result ({error}); delete it to run the training again"
            ) from error
        self._result = result
        return result

    @property
    def scores(self) -> dict[str, Any] | None:
        """What a sweep measured of the trained encoder; None if it has not."""
        path = self.path / "scores.json"
        if not os.path.lexists(path):
            return None
        try:
            scores = read_json(path)
            if not isinstance(scores, dict):
                raise ValueError(f"it must hold a JSON object, got {type(scores).__name__}")
        except ValueError as error:
            raise ValueError(
                f"{path} does not hold scores ({error}); delete it to have the encoder scored again"
            ) from error
        return scores

    def save_scores(self, scores: Mapping[str, Any]) -> None:
        """Write what was measured of the trained encoder."""
        write_json(self.path / "scores.json", dict(scores))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a torn last line, from a killed process, is left out.

        Raises:
            ValueError: it is damaged.
        """
        try:
            return rows_of(self.metrics_content)
        except ValueError as error:
            again = "result.json beside it" if self.result else "the record"
            raise ValueError(
                f"{self.path / 'metrics.jsonl'} is damaged: {error}; delete {again} to run the training again"
            ) from error

    @property
    def metrics_content(self) -> bytes:
        """Bytes of metrics.jsonl so far."""
        try:
            return read_bytes(self.path / "metrics.jsonl", METRICS)
        except FileNotFoundError:
            return b""

    @property
    def metrics_size(self) -> int:
        """How many bytes metrics.jsonl has."""
        path = self.path / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the metrics."""
        descriptor = open_unfollowed(self.path / "metrics.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(descriptor, "a", encoding="utf-8") as out:
            out.write(json.dumps(plain(dict(row)), allow_nan=False) + "\n")
            out.flush()
            os.fsync(out.fileno())  # a checkpoint must not outlive the rows it counts

    def rewind(self, size: int) -> list[dict[str, Any]]:
        """Forget the metrics written after a checkpoint; see `check_rows`."""
        rows = self.check_rows(size)
        if self.metrics_size > size:
            descriptor = open_unfollowed(self.path / "metrics.jsonl", os.O_WRONLY)
            try:
                os.ftruncate(descriptor, size)
            finally:
                os.close(descriptor)
        return rows

    def check_rows(self, size: int) -> list[dict[str, Any]]:
        """The rows of metrics that a checkpoint counted.

        Args:
            size: bytes that were there.

        Raises:
            ValueError: they are not there, or damaged.
        """
        path, content = self.path / "metrics.jsonl", self.metrics_content
        again = f"delete {self.checkpoint} to start the run again"
        if len(content) < size:
            raise ValueError(f"{path} is shorter than its checkpoint says; {again}")
        try:
            return rows_of(content[:size])
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; {again}") from error

    def save_weights(self, part: str, module: nn.Module) -> None:
        """Write the trained weights of a part, a model by its name or "objective"; nothing if it has none."""
        weights = module.state_dict()
        if weights:
            save_tensors(self.path / f"{part}{WEIGHTS}", weights, {OWNER: self.id})

    def load_weights(self, part: str, module: nn.Module) -> None:
        """Put the trained weights of a part into a module.

        Raises:
            ValueError: the file is missing or damaged, or belongs to another record or module.
        """
        if not module.state_dict():
            return
        path = self.path / f"{part}{WEIGHTS}"
        try:
            weights, _ = load_tensors(path, self.id)
        except ValueError as error:
            again = self.path / "result.json"
            raise ValueError(f"{error}; delete {again} to run the training again") from error
        try:
            module.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(f"{path} does not fit the {part} of its config: {error}") from error

    def weights(self, part: str) -> Path:
        """The file with the weights of a part; the checkpoint of a run that is not finished."""
        return self.path / f"{part}{WEIGHTS}" if self.result is not None else self.checkpoint

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models of the run, the first of which is the one that is used afterwards."""
        named = self.config.get("encoder")
        several = self.config.get("made_from") == "python" and isinstance(named, dict)
        return tuple(map(str, named)) if several and named else ("encoder",)

    @property
    def checkpoint(self) -> Path:
        """The file with the state to go on from."""
        return self.path / CHECKPOINT / f"state{WEIGHTS}"

    def drop_checkpoint(self) -> None:
        """Remove the checkpoint. Call it under the lock."""
        remove_checkpoint(self.path)

    def clean(self) -> None:
        """Remove what a killed process left, half files and a finished run's checkpoint; under the lock."""
        remove_half_written(self.path)
        if os.path.lexists(self.path / "result.json"):
            self.drop_checkpoint()
        else:
            check_folder(self.checkpoint.parent)
            remove_half_written(self.checkpoint.parent)

    def replace(self, config: Mapping[str, Any]) -> None:
        """Remove the run and what was made of it, and begin one of another config. Call it under the lock."""
        remove_run(self.path, (*self.models, "objective"))
        self._result = None
        self._write_config(plain(dict(config)))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the record against a second process that would train it too.

        The lock goes with the process, however it ends. Where the system has none, nothing is held.

        Raises:
            RecordHeld: another process holds it.
        """
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            yield
            return
        # never removed: a removed lock could be held twice
        with open(open_unfollowed(self.path / LOCK, os.O_RDWR | os.O_CREAT), "rb+", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecordHeld(f"record {self.path} is being trained by another process") from error
            except OSError:
                pass  # a file system without locks
            yield

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write how the run ended."""
        whole = plain({**result, "versions": versions(), "commit": source_commit()})
        write_json(self.path / "result.json", whole)
        self._result = whole


def versions() -> dict[str, str]:
    """What made a result: the package, torch, Python, the machine's kind and the number of threads."""
    return {
        "isojepa": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }


@functools.cache
def source_commit() -> str | None:
    """Commit of the checkout that the package is imported from, "+" behind it if files differ; else None.

    Read once, when the process first asks: the modules in memory are those of its start.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        commit, changes = (
            subprocess.check_output(["git", *words], cwd=root, text=True, stderr=subprocess.DEVNULL).strip()
            for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "-uno", "src"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+" if changes else commit
