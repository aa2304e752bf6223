"""Files that are either whole or not there: atomic writes, and JSON.

Everything is written under a temporary name in the same folder and then renamed, so a reader never sees
half a file and a full disk or a killed process leaves the old one untouched.
"""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isojepa.opening import parse_json, read_bytes


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Replace a file atomically.

    Args:
        path: the file to create or replace; its folder is made.
        write: writes the content to the temporary path it is given.

    Raises:
        OSError: the content could not be written, e.g. the disk is full; the old file is unchanged.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(None, f"cannot write {path}: it is not a plain file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # some writers make files that only their owner may read
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"cannot write {path}: {reason}; what was there before is intact"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # e.g. its folder is a file: the error above says so
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    write_whole(path, lambda temporary: _keep(temporary.write_text(text, encoding="utf-8")))


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically; indented, keys in the order given, NaN and Inf as strings."""
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: the file is missing, no plain file, too large, or not JSON.
    """
    content = read_bytes(path)
    try:
        return parse_json(content)
    except ValueError as error:
        raise ValueError(f"{path} is not a whole JSON file: {error}") from error


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold: tuples to lists, non-finite numbers to their names."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "item"):  # a number of numpy or torch
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _keep(_: int) -> None:
    """Drop the character count that `write_text` returns."""
