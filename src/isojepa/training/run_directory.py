"""Run directory: everything that a run leaves.

    config.json            the resolved config, with format number and package version
    metrics.jsonl          one row per evaluation; a function of the config alone, so it holds no times
    result.json            outcome: status, reason, last metrics, seconds, versions
    encoder.safetensors    trained weights; one file per model, by its name
    objective.safetensors  those of the objective, if it has any
    scores.json            what a sweep measured of the trained encoder
    checkpoint/            the state to resume from, while the run is unfinished

Nothing in it is ever unpickled. Its id is a hash of its config without the settings that may differ when
the run resumes on another machine, such as the device. The same command finds its own run directory again,
returns at once if the run is done, and resumes it otherwise. Weights and checkpoints carry the id.

A folder that holds anything else raises an error. Only the names above are ever written or removed, never
through a link, and only by the process that holds the lock.
"""

import contextlib
import functools
import hashlib
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isojepa.io import (
    check_file,
    check_folder,
    half_written,
    open_unfollowed,
    read_bytes,
    read_json,
    to_jsonable,
    write_json,
)
from isojepa.training.checkpoints import OWNER, load_tensors, save_tensors
from isojepa.training.recipe import EXECUTION
from isojepa.version import __version__

FORMAT = 2
HEADER = ("format", "isojepa")  # keys of config.json besides the config


def without_header(content: Mapping[str, Any]) -> dict[str, Any]:
    """The config in the content of a record's config.json.

    Raises:
        ValueError: this version does not read the format.
    """
    number = content.get("format")
    if type(number) is not int or number < FORMAT:
        raise ValueError(f"format must be {FORMAT}, got {number!r}: delete its folder to train again")
    if number > FORMAT:
        raise ValueError(
            f"it has format {number}, written by isojepa {content.get('isojepa')}; isojepa {__version__} "
            f"reads format {FORMAT}: upgrade isojepa to open it"
        )
    return {key: value for key, value in content.items() if key not in HEADER}


def record_id(config: Mapping[str, Any]) -> str:
    """Hash of a config: twelve hex digits, independent of the order of keys."""
    text = json.dumps(identity(to_jsonable(dict(config))), sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def identity(config: dict[str, Any]) -> dict[str, Any]:
    """The config without settings that may differ when a run resumes elsewhere, such as the device.

    How the models of a run from Python are rebuilt is excluded too: their initial weights are compared.
    """
    if config.get("made_from") == "python":
        config = {key: value for key, value in config.items() if key != "models"}
    training = config.get("training")
    if not isinstance(training, dict):
        return config
    return {**config, "training": {key: value for key, value in training.items() if key not in EXECUTION}}


def difference(old: Any, new: Any, where: str = "") -> str:
    """Name the first setting in which two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if old.get(key) != new.get(key):
                return difference(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    return f"{where}: {old!r} there, {new!r} requested"


STATUSES = ("done", "diverged", "collapsed")  # how a run may end
_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # JSON has no numbers for them


def check_result(result: Any) -> None:
    """Check the content of result.json.

    Raises:
        ValueError: an entry is missing or has another type.
    """
    if not isinstance(result, dict):
        raise ValueError(f"it must hold a JSON object, got {type(result).__name__}")
    for name in ("status", "reason", "seconds"):
        if name not in result:
            raise ValueError(f"it has no {name}")
    if result["status"] not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {result['status']!r}")
    if not isinstance(result["reason"], str):
        raise ValueError(f"reason must be text, got {result['reason']!r}")
    for name in ("seconds", "cpu_seconds", "steps", "ranks"):
        value = result.get(name, 0)
        if not _is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a nonnegative number, got {value!r}")
    resumed_at = result.get("resumed_at", [])
    if not isinstance(resumed_at, list) or not all(type(step) is int for step in resumed_at):
        raise ValueError(f"resumed_at must list steps, got {resumed_at!r}")
    for name in ("metrics", "versions", "source"):
        if not isinstance(result.get(name) or {}, dict):
            raise ValueError(f"{name} must be an object, got {result[name]!r}")


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """Rows of metrics without a torn last line, which a killed process leaves.

    Raises:
        ValueError: a line is not a row, or rows are not in the order of their steps.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):  # what follows the last newline is torn
        if not line:
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {error}") from error
        rows.append(_row(row, number, rows[-1]["step"] if rows else 0))
    return rows


def _row(row: Any, number: int, before: int) -> dict[str, Any]:
    """A row with NaN and Inf as floats."""
    if not isinstance(row, dict):
        raise ValueError(f"line {number} must be a JSON object, got {type(row).__name__}")
    step = row.get("step")
    if not isinstance(step, int) or isinstance(step, bool) or step <= before:
        raise ValueError(f"line {number}: step must be an integer above {before}, got {step!r}")
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[name] = _NAMES.get(value, value) if isinstance(value, str) else value
        if not _is_number(found[name]):
            raise ValueError(f"line {number}: {name} must be a number, got {value!r}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and (not isinstance(value, int) or abs(value) < 1 << 1023)


LOCK = ".lock"
WEIGHTS = ".safetensors"
CHECKPOINT = "checkpoint"
FILES = (
    "result.json",
    "metrics.jsonl",
    "scores.json",
    "report.html",
    "picture.png",
    "look.html",
    "config.json",
)
_PAGES = ("report.html", "picture.png", "look.html")  # written by other commands than training
_FOLDERS = (CHECKPOINT, "tensorboard", "wandb")
_UNFINISHED = re.compile(r"\.tmp[0-9A-Za-z]{6}")  # temporary files of safetensors


def check_claim(folder: Path) -> None:
    """Check that a folder is a run directory, or may become one.

    Raises:
        ValueError: it is a file, or holds other files.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ValueError(f"a record must be a folder, got the file {folder}")
    if not folder.is_dir() or os.path.lexists(folder / "config.json"):
        return
    for name in sorted(os.listdir(folder)):
        if name != LOCK and half_written(name) != "config.json":  # left by a start that was killed
            raise ValueError(
                f"{folder} is not empty and no record: it holds {name!r} and no config.json; nothing in it "
                "was touched: choose another folder, or empty this one"
            )


def remove_half_written(folder: Path) -> None:
    """Remove unfinished writes of files of a run directory, and nothing else."""
    if not folder.is_dir():
        return
    for name in os.listdir(folder):
        whole = half_written(name)
        ours = whole is not None and (whole in FILES or whole.endswith(WEIGHTS))
        if ours or _UNFINISHED.fullmatch(name):
            with contextlib.suppress(OSError):  # a folder with that name is not ours
                (folder / name).unlink(missing_ok=True)


def check_plain(folder: Path) -> None:
    """Check that the files that a run reads and changes are regular files and folders.

    Raises:
        NotPlain: one of them is a link, a pipe or a device.
    """
    for name in sorted(os.listdir(folder)):
        if name in _FOLDERS:
            check_folder(folder / name)
        elif (name in FILES and name not in _PAGES) or name.endswith(WEIGHTS):
            check_file(folder / name)
    check_file(folder / CHECKPOINT / f"state{WEIGHTS}")


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint, and its folder if it is empty.

    Raises:
        NotPlain: the checkpoint's folder is a link.
    """
    checkpoint = folder / CHECKPOINT
    check_folder(checkpoint)
    (checkpoint / f"state{WEIGHTS}").unlink(missing_ok=True)
    remove_half_written(checkpoint)
    with contextlib.suppress(OSError):  # it holds other files, or does not exist
        checkpoint.rmdir()


def remove_run(folder: Path, parts: Sequence[str]) -> None:
    """Remove the files of a run except its config, and nothing else.

    Args:
        folder: the run directory.
        parts: names of its weights files.
    """
    remove_checkpoint(folder)
    for name in (*FILES, *(f"{part}{WEIGHTS}" for part in parts)):
        if name != "config.json":
            (folder / name).unlink(missing_ok=True)


PARTS = (
    "objective",
    "checkpoint",
    "config",
    "result",
    "metrics",
    "scores",
)  # reserved: no model can have them
METRICS = 100 << 20  # maximum bytes of metrics.jsonl: hundreds of thousands of rows
# entries of a row of metrics besides loss and scores
GAUGES = ("smallest_variance", "mean_variance", "dead_fraction", "gradient_norm", "learning_rate")


class RunDirectoryLocked(ValueError):
    """Another process holds the run directory."""


class RunDirectory:
    """A run directory; see the module for its files.

    Args:
        path: the folder, which need not exist.

    Raises:
        ValueError: it has a config that this version cannot read.
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
    def start(cls, path: str | Path, config: Mapping[str, Any]) -> "RunDirectory":
        """Open or create the run directory of a config; see `held`."""
        with cls.held(path, config) as record:
            return record

    @classmethod
    @contextlib.contextmanager
    def held(cls, path: str | Path, config: Mapping[str, Any]) -> Iterator["RunDirectory"]:
        """Context manager: open or create the run directory of a config, under its lock.

        Raises:
            ValueError: the folder holds the run of another config, or other files.
            RunDirectoryLocked: another process holds it.
        """
        folder = Path(path)
        check_claim(folder)  # before anything is made there
        folder.mkdir(parents=True, exist_ok=True)
        with cls(folder).locked():
            check_claim(folder)
            record = cls(folder)  # read again under the lock
            record._claim(to_jsonable(dict(config)))
            yield record

    def _claim(self, wanted: dict[str, Any]) -> None:
        """Write the config if there is none; else check that it is the same."""
        if not self.exists:
            self._write_config(wanted)
        elif identity(self.config) != identity(wanted):
            mismatch = difference(identity(self.config), identity(wanted))
            raise ValueError(
                f"record {self.path} was made with another config ({mismatch}); "
                "choose another folder, or delete it"
            )
        check_plain(self.path)

    def _write_config(self, wanted: dict[str, Any]) -> None:
        write_json(self.path / "config.json", {"format": FORMAT, "isojepa": __version__, **wanted})
        self._config = wanted

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """Open a run directory that must exist.

        Raises:
            ValueError: the folder is not a run directory.
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
        """The resolved config of the run, as plain values."""
        return {} if self._config is None else self._config

    @property
    def id(self) -> str:
        """Hash of its config."""
        return record_id(self.config)

    @property
    def result(self) -> dict[str, Any] | None:
        """Outcome of the run; None while it is unfinished."""
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
        """Measurements of a sweep on the trained encoder, or None."""
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
        """Write measurements on the trained encoder."""
        write_json(self.path / "scores.json", dict(scores))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Rows of metrics.jsonl without a torn last line, which a killed process leaves.

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
        """Content of metrics.jsonl."""
        try:
            return read_bytes(self.path / "metrics.jsonl", METRICS)
        except FileNotFoundError:
            return b""

    @property
    def metrics_size(self) -> int:
        """Size of metrics.jsonl in bytes."""
        path = self.path / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the metrics."""
        descriptor = open_unfollowed(self.path / "metrics.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(descriptor, "a", encoding="utf-8") as out:
            out.write(json.dumps(to_jsonable(dict(row)), allow_nan=False) + "\n")
            out.flush()
            os.fsync(out.fileno())  # a checkpoint must not outlive the rows it counts

    def rewind(self, size: int) -> list[dict[str, Any]]:
        """Truncate the metrics written after a checkpoint; see `check_rows`."""
        rows = self.check_rows(size)
        if self.metrics_size > size:
            descriptor = open_unfollowed(self.path / "metrics.jsonl", os.O_WRONLY)
            try:
                os.ftruncate(descriptor, size)
            finally:
                os.close(descriptor)
        return rows

    def check_rows(self, size: int) -> list[dict[str, Any]]:
        """Rows of metrics up to a checkpoint.

        Args:
            size: size of the file at the checkpoint, in bytes.

        Raises:
            ValueError: the file is shorter, or damaged.
        """
        path, content = self.path / "metrics.jsonl", self.metrics_content
        again = f"delete {self.checkpoint} to start the run again"
        if len(content) < size:
            raise ValueError(f"{path} is shorter than at its checkpoint; {again}")
        try:
            return rows_of(content[:size])
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; {again}") from error

    def save_weights(self, part: str, module: nn.Module) -> None:
        """Write the trained weights of a model by its name, or of the "objective", if it has any."""
        weights = module.state_dict()
        if weights:
            save_tensors(self.path / f"{part}{WEIGHTS}", weights, {OWNER: self.id})

    def load_weights(self, part: str, module: nn.Module) -> None:
        """Load the trained weights of a part into a module.

        Raises:
            ValueError: the file is missing or damaged, or belongs to another run or module.
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
        """File with the weights of a part; the checkpoint while the run is unfinished."""
        return self.path / f"{part}{WEIGHTS}" if self.result is not None else self.checkpoint

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models of the run; the first is the one used after training."""
        named = self.config.get("encoder")
        several = self.config.get("made_from") == "python" and isinstance(named, dict)
        return tuple(map(str, named)) if several and named else ("encoder",)

    @property
    def checkpoint(self) -> Path:
        """The file with the state to resume from."""
        return self.path / CHECKPOINT / f"state{WEIGHTS}"

    def drop_checkpoint(self) -> None:
        """Remove the checkpoint. Needs the lock."""
        remove_checkpoint(self.path)

    def clean(self) -> None:
        """Remove leftovers of a killed process: partial files, a finished run's checkpoint. Needs the
        lock."""
        remove_half_written(self.path)
        if os.path.lexists(self.path / "result.json"):
            self.drop_checkpoint()
        else:
            check_folder(self.checkpoint.parent)
            remove_half_written(self.checkpoint.parent)

    def replace(self, config: Mapping[str, Any]) -> None:
        """Remove the run and its pages, and start one of another config. Needs the lock."""
        remove_run(self.path, (*self.models, "objective"))
        self._result = None
        self._write_config(to_jsonable(dict(config)))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Context manager: lock the run directory against a second training process.

        The lock ends with the process. Systems without file locks are not protected.

        Raises:
            RunDirectoryLocked: another process holds it.
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
                raise RunDirectoryLocked(f"record {self.path} is being trained by another process") from error
            except OSError:
                pass  # a file system without locks
            yield

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the outcome of the run."""
        whole = to_jsonable({**result, "versions": versions(), "commit": source_commit()})
        write_json(self.path / "result.json", whole)
        self._result = whole


def versions() -> dict[str, str]:
    """Versions of package, torch and Python, the machine type and the number of threads."""
    return {
        "isojepa": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }


@functools.cache
def source_commit() -> str | None:
    """Commit of the checkout that the package is imported from, with "+" if files differ; else None.

    Read once per process, whose modules are those of its start.
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
