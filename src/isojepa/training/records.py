"""A record: the folder that a run leaves.

    config.json            what was asked for, with the format's number and the package's version
    metrics.jsonl          one row per evaluation; a function of the config alone, so it holds no times
    result.json            how it ended: status, reason, last metrics, seconds, versions
    encoder.safetensors    the trained weights
    checkpoint/            the state to go on from, while the run is unfinished

Nothing in a record is ever unpickled. Its id is a hash of its config, so the same command finds its own
record again, skips it when it is done and goes on with it when it is not.
"""

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from isojepa.files import plain, read_json, write_json, write_whole
from isojepa.version import __version__

FORMAT = 1


class Record:
    """One run's folder.

    Args:
        path: the folder.

    Raises:
        ValueError: there is a config that this version cannot read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        header = self._header()
        number = header.get("format", 0) if header else FORMAT
        if number > FORMAT:
            raise ValueError(
                f"record {self.path} has format {number}, written by isojepa {header.get('isojepa')}; "
                f"isojepa {__version__} reads formats up to {FORMAT}: upgrade isojepa to open it"
            )

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
        elif record.config != wanted:
            raise ValueError(
                f"record {record.path} was made with another config ({_difference(record.config, wanted)}); "
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
        return (self.path / "config.json").exists()

    @property
    def config(self) -> dict[str, Any]:
        """The config the run was asked for."""
        return {key: value for key, value in self._header().items() if key not in ("format", "isojepa")}

    @property
    def result(self) -> dict[str, Any] | None:
        """How the run ended; None while it has not."""
        path = self.path / "result.json"
        return read_json(path) if path.exists() else None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a torn last line, from a killed process, is left out."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines[:-1] if line]  # what follows the last newline is torn

    @property
    def metrics_size(self) -> int:
        """Bytes of metrics.jsonl so far."""
        path = self.path / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the metrics."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as out:
            out.write(json.dumps(plain(dict(row)), allow_nan=False) + "\n")

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

    def save_encoder(self, weights: Mapping[str, Tensor]) -> None:
        """Write the trained weights."""
        save_tensors(self.path / "encoder.safetensors", weights)

    def load_encoder(self) -> dict[str, Tensor]:
        """Read the trained weights.

        Raises:
            ValueError: the file is missing or damaged.
        """
        return load_tensors(self.path / "encoder.safetensors")[0]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the record against a second process that would train it too.

        The lock goes with the process, however it ends. Where the system has none, nothing is held.

        Raises:
            ValueError: another process holds it.
        """
        try:
            import fcntl
        except ImportError:  # not a POSIX system
            yield
            return
        with open(self.path / "config.json") as file:  # written once and never replaced
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ValueError(f"record {self.path} is being trained by another process") from error
            yield

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write how the run ended."""
        write_json(self.path / "result.json", {**result, "versions": versions()})

    def _header(self) -> dict[str, Any]:
        path = self.path / "config.json"
        if not path.exists():
            return {}
        header = read_json(path)
        if not isinstance(header, dict):
            raise ValueError(f"{path} must hold a JSON object, got {type(header).__name__}")
        return header


def record_id(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that depend on the config alone, not on the order of its keys."""
    text = json.dumps(plain(dict(config)), sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


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
    from safetensors import safe_open

    if not path.exists():
        raise ValueError(f"{path} does not exist")
    try:
        with safe_open(path, framework="pt") as file:
            notes = dict(file.metadata() or {})
        return load_file(path), notes
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error


def _difference(old: Any, new: Any, where: str = "") -> str:
    """Name the first setting in which two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if old.get(key) != new.get(key):
                return _difference(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    return f"{where}: {old!r} there, {new!r} asked for"
