"""A record: the folder that a run leaves.

    config.json            what was asked for, with the format's number and the package's version
    metrics.jsonl          one row per evaluation; a function of the config alone, so it holds no times
    result.json            how it ended: status, reason, last metrics, seconds, versions
    encoder.safetensors    the trained weights; one file for each model, by its name
    objective.safetensors  those of the objective, if it learns any
    scores.json            what a sweep measured of the trained encoder
    checkpoint/            the state to go on from, while the run is unfinished

Nothing in a record is ever unpickled. Its id is a hash of its config, so the same command finds its own
record again, skips it when it is done and goes on with it when it is not.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from isojepa.files import plain, read_json, write_json, write_whole
from isojepa.training.formats import FORMAT, HEADER, migrate
from isojepa.training.recipe import EXECUTION
from isojepa.version import __version__

# in a row of metrics, besides loss and scores
PARTS = ("objective", "checkpoint", "config", "result", "metrics", "scores")  # names that no model can have
_HASH = re.compile(r"[0-9a-f]{12}")
_known: dict[str, str] = {}  # folders of records and their ids
GAUGES = ("smallest_variance", "mean_variance", "gradient_norm", "learning_rate")


class RecordHeld(ValueError):
    """Another process works on the record."""


class Record:
    """One run's folder.

    Args:
        path: the folder.

    Attributes:
        format: of its config, as it was written.

    Raises:
        ValueError: there is a config that this version cannot read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.format = FORMAT
        self._config: dict[str, Any] | None = None
        self._result: dict[str, Any] | None = None
        file = self.path / "config.json"
        if not file.exists():
            return
        header = read_json(file)
        if not isinstance(header, dict):
            raise ValueError(f"{file} must hold a JSON object, got {type(header).__name__}")
        number = header.get("format", 1)
        if not isinstance(number, int):
            raise ValueError(f"{file}: format must be an integer, got {number!r}")
        if number > FORMAT:
            raise ValueError(
                f"record {self.path} has format {number}, written by isojepa {header.get('isojepa')}; "
                f"isojepa {__version__} reads formats up to {FORMAT}: upgrade isojepa to open it"
            )
        self.format = number
        self._config = migrate({key: value for key, value in header.items() if key not in HEADER}, number)

    @classmethod
    def start(cls, path: str | Path, config: Mapping[str, Any]) -> "Record":
        """Open the record of a config at a path, creating it if there is none.

        Raises:
            ValueError: the folder holds the record of another config.
        """
        record = cls(path)
        wanted = plain(dict(config))
        if not record.exists:
            write_json(record.path / "config.json", {"format": FORMAT, "isojepa": __version__, **wanted})
            record._config = wanted
        elif _identity(record.config) != _identity(wanted):
            difference = _difference(_identity(record.config), _identity(wanted))
            raise ValueError(
                f"record {record.path} was made with another config ({difference}); "
                "choose another folder, or delete it"
            )
        return record

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
        """The config the run was asked for, in the newest format."""
        return {} if self._config is None else self._config

    @property
    def id(self) -> str:
        """What its config is named by; the folder of a record of an older format has its older name."""
        return record_id(self.config)

    @property
    def result(self) -> dict[str, Any] | None:
        """How the run ended; None while it has not."""
        if self._result is not None:
            return self._result
        path = self.path / "result.json"
        if not path.exists():
            return None
        result = read_json(path)
        if not isinstance(result, dict) or not {"status", "reason", "seconds"} <= set(result):
            raise ValueError(f"{path} is not a run's result; delete it to run the training again")
        self._result = result
        return result

    @property
    def scores(self) -> dict[str, Any] | None:
        """What a sweep measured of the trained encoder; None if it has not."""
        path = self.path / "scores.json"
        if not path.exists():
            return None
        scores = read_json(path)
        if not isinstance(scores, dict):
            raise ValueError(f"{path} does not hold scores; delete it to have the encoder scored again")
        return scores

    def save_scores(self, scores: Mapping[str, Any]) -> None:
        """Write what was measured of the trained encoder."""
        write_json(self.path / "scores.json", dict(scores))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a torn last line, from a killed process, is left out."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8").split("\n")
        try:
            # what follows the last newline is torn
            return [_numbers(json.loads(line)) for line in lines[:-1] if line]
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    @property
    def metrics_size(self) -> int:
        """Bytes of metrics.jsonl so far."""
        path = self.path / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the metrics."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as out:
            out.write(json.dumps(plain(dict(row)), allow_nan=False) + "\n")
            out.flush()
            os.fsync(out.fileno())  # a checkpoint must not outlive the rows it counts

    def rewind(self, size: int) -> None:
        """Forget the metrics written after a checkpoint.

        Raises:
            ValueError: the file is shorter than the checkpoint says.
        """
        if self.metrics_size < size:
            raise ValueError(
                f"{self.path / 'metrics.jsonl'} is shorter than its checkpoint says; delete the record "
                "to start the run again"
            )
        if self.metrics_size > size:
            os.truncate(self.path / "metrics.jsonl", size)

    def save_weights(self, part: str, module: nn.Module) -> None:
        """Write the trained weights of a part, a model by its name or "objective"; nothing if it has none."""
        weights = module.state_dict()
        if weights:
            save_tensors(self.path / f"{part}.safetensors", weights)

    def load_weights(self, part: str, module: nn.Module) -> None:
        """Put the trained weights of a part into a module.

        Raises:
            ValueError: the file is missing or damaged, or belongs to another module.
        """
        if not module.state_dict():
            return
        path = self.path / f"{part}.safetensors"
        try:
            module.load_state_dict(load_tensors(path)[0])
        except RuntimeError as error:
            raise ValueError(f"{path} does not fit the {part} of its config: {error}") from error

    def clean(self) -> None:
        """Remove what a killed process left half written. Call it under the lock."""
        for leftover in self.path.rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)

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
        with open(self.path / ".lock", "a") as file:  # never removed: a removed lock could be held twice
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecordHeld(f"record {self.path} is being trained by another process") from error
            except OSError:
                pass  # a file system without locks
            yield

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write how the run ended."""
        whole = {**result, "versions": versions()}
        write_json(self.path / "result.json", whole)
        self._result = plain(whole)


def record_id(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that depend on the config alone, not on the order of its keys."""
    text = json.dumps(_identity(plain(dict(config))), sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def find_record(folder: str | Path, name: str) -> Path:
    """The folder of a record by its id: of that name, or of the older name of a record of an older format."""
    path = Path(folder) / name
    if (path / "config.json").exists() or not Path(folder).is_dir():
        return path
    return _aliases(Path(folder)).get(name, path)


def _aliases(folder: Path) -> dict[str, Path]:
    """The records of a folder whose names are not their ids, by id; what was read once is not read again."""
    found = {}
    for entry in os.scandir(folder):
        if not _HASH.fullmatch(entry.name) or not entry.is_dir():
            continue
        if entry.path not in _known:
            with contextlib.suppress(ValueError, OSError):
                _known[entry.path] = Record(entry.path).id
        name = _known.get(entry.path, entry.name)
        if name != entry.name:
            found[name] = Path(entry.path)
    return found


def _identity(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what may differ when a run goes on elsewhere: the device, the checkpoints' pace.

    Nor does it matter how the models of a run from Python can be made again: their weights are compared.
    """
    if config.get("made_from") == "python":
        config = {key: value for key, value in config.items() if key != "models"}
    training = config.get("training")
    if not isinstance(training, dict):
        return config
    return {**config, "training": {key: value for key, value in training.items() if key not in EXECUTION}}


def versions() -> dict[str, str]:
    """What made a result: the package, torch, Python, the machine's kind and the number of threads."""
    return {
        "isojepa": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors and text notes to one safetensors file, atomically."""
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(whole, temporary, metadata=dict(notes or {}))
        except SafetensorError as error:  # wraps the system's error, e.g. a full disk
            raise OSError(str(error)) from error

    write_whole(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and text notes from a safetensors file.

    Raises:
        ValueError: the file is missing, truncated or not a safetensors file.
    """
    try:
        content = path.read_bytes()  # opened once: a run may replace the file while we look at it
        tensors = load(content)  # checks that the header is whole
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist") from error
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error
    return tensors, header.get("__metadata__", {})


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose NaN and Inf, for which JSON has names only, are numbers again."""
    return {key: float(value) if value in ("nan", "inf", "-inf") else value for key, value in row.items()}


def _difference(old: Any, new: Any, where: str = "") -> str:
    """Name the first setting in which two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if old.get(key) != new.get(key):
                return _difference(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    return f"{where}: {old!r} there, {new!r} asked for"
