"""Files that are either whole or not there: atomic writes, and JSON.

Everything is written under a temporary name in the same folder and then renamed, so a reader never sees
half a file and a full disk or a killed process leaves the old one untouched. Nothing is written through a
link. What is only read may be a link to a plain file.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isojepa.opening import NotPlain, expect_kind, parse_json, read_bytes

_POSIX = os.name == "posix"
_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC if _POSIX else 0
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")  # what `write_whole` calls an unfinished file


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Replace a file atomically.

    Args:
        path: the file to create or replace; its folder is made.
        write: writes the content to the temporary path it is given, where an empty file is.

    Raises:
        NotPlain: there is a link, a folder or a device of that name.
        OSError: the content could not be written, e.g. the disk is full; the old file is unchanged.
    """
    try:
        check_file(path)
    except NotPlain as error:
        raise NotPlain(f"cannot write {path}: {error}") from error
    temporary, ours = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp"), False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _SAFELY, 0o666))
        ours = True
        write(temporary)
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"cannot write {path}: {reason}; what was there before is intact"
        ) from error
    finally:
        if ours:
            with contextlib.suppress(OSError):  # the error above says more
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


def open_unfollowed(path: Path, flags: int) -> int:
    """A descriptor of a plain file that is no link, made if `flags` allow it.

    Raises:
        NotPlain: it is a link, a pipe, a device or a folder.
        OSError: it cannot be opened.
    """
    check_file(path)
    return os.open(path, flags | _SAFELY, 0o666)


def open_new(path: Path) -> int:
    """A descriptor of a new, empty file to write; one that was there, or a link, is removed first.

    Raises:
        OSError: a folder is there, or it cannot be made.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _SAFELY, 0o666)


def make_folder(path: Path, mode: int = 0o777) -> Path:
    """Make a folder and those above it if there are none.

    Raises:
        NotPlain: there is a link or a file of that name.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode, parents=True)
    check_folder(path)
    return path


def make_private(path: Path) -> Path:
    """Make a folder that nobody else may look into, and those above it if there are none.

    Raises:
        NotPlain: it is a link or a file, belongs to somebody else, or others may write to it.
    """
    make_folder(path, 0o700)
    if not _POSIX:
        return path
    found = os.lstat(path)
    if found.st_uid != os.geteuid():
        raise NotPlain(f"{path} must belong to you, got a folder of user {found.st_uid}: delete or rename it")
    if found.st_mode & 0o022:
        raise NotPlain(f"{path} must be writable by you alone, got mode {found.st_mode & 0o777:o}: delete it")
    os.chmod(path, 0o700)
    return path


def check_file(path: Path) -> None:
    """See that there is a plain file of that name, or nothing.

    Raises:
        NotPlain: it is a link, a pipe, a device or a folder.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        expect_kind(_looked(path), stat.S_IFREG, path)


def check_folder(path: Path) -> None:
    """See that there is a folder of that name which is no link, or nothing.

    Raises:
        NotPlain: it is something else.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        expect_kind(_looked(path), stat.S_IFDIR, path)


def half_written(name: str) -> str | None:
    """Of which file a name is that of a write which was not finished; None if it is no such name."""
    found = _TEMPORARY.fullmatch(name)
    return None if found is None else found[1]


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


def _looked(path: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # told by whoever makes it
            raise FileNotFoundError(error.errno, error.strerror) from error
        raise
    except ValueError as error:  # no system takes a null character
        raise NotPlain(f"{path} cannot be the name of a file: {error}") from error


def _keep(_: int) -> None:
    """Drop the character count that `write_text` returns."""
