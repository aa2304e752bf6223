"""Files: reading untrusted ones with limits, writing atomically, JSON and YAML.

**Reading.** A pipe may never end, a device has no end, and a few bytes may stand for gigabytes. Every file
whose name comes from a user is opened here: regular files only, with limits on the bytes read and on the
size that a compressed file expands to. Whatever breaks a limit raises an error before anything is read.

**Writing.** Content goes to a temporary name in the same folder, which is then renamed: a reader never sees
half a file, and a full disk or a killed process leaves the old one untouched. Nothing is written through a
link. A file that is only read may be a link to a regular file.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np


MAX_CONFIG_BYTES = 1 << 18  # bytes of a config; YAML is read slowly
MAX_TEXT_BYTES = 32 << 20  # bytes of a file of JSON or YAML; as Python objects up to 25 times as many
MAX_EXPANDED_BYTES = 1 << 30  # bytes that a file may expand to whatever its size
_RATIO = 100  # beyond that, how many times its size: numbers that were measured compress to a half or so
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlain(OSError, ValueError):
    """What should be a plain file or folder is something else, such as a link or a pipe."""


class Missing(FileNotFoundError, ValueError):
    """There is no file of that name."""


def plain_file(path: Path) -> Path:
    """The path, if it names a plain file or a link to one.

    Raises:
        Missing: it does not exist.
        NotPlain: it is a pipe, a device or a folder.
        ValueError: it cannot be looked at.
    """
    name = str(path) if str(path).strip() else repr(str(path))  # blanks alone would not be seen
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Missing(f"{name} does not exist") from error
    except OSError as error:
        raise ValueError(f"{name} cannot be opened: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ValueError(f"{name} cannot be the name of a file: {error}") from error
    expect_kind(status, stat.S_IFREG, path)
    return path


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        Missing, NotPlain, ValueError: as of `plain_file`.
        OSError: it cannot be opened.
    """
    return open(plain_file(path), "rb")


def read_bytes(path: Path, most: int | None = MAX_TEXT_BYTES) -> bytes:
    """The content of a plain file.

    Args:
        path: the file.
        most: bytes that it may have; None for any number.

    Raises:
        ValueError: it is not there, no plain file, or larger.
    """
    with open_plain(path) as file:
        content = file.read() if most is None else file.read(most + 1)  # some files have no size
    if most is not None and len(content) > most:
        raise ValueError(f"{path} must have at most {size_of(most)}, got more")
    return content


def parse_json(content: bytes) -> Any:
    """The value of JSON in UTF-8, in which no object may have a name twice.

    Raises:
        ValueError: it is not JSON, or nested too deeply, or has a number of too many digits.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_yaml(content: bytes) -> Any:
    """The value of YAML in UTF-8 without aliases, by which a few lines could stand for gigabytes.

    Raises:
        ValueError: it is not YAML, or not of the part of it that is taken here.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()  # type: ignore[no-untyped-call]
                raise ValueError(f"an alias, *{event.anchor}, is not taken here: write its value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            mapping = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):
                raise ValueError(f"a mapping has a key twice{node.start_mark}")
            return mapping

    try:
        return yaml.load(content.decode("utf-8"), Loader)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except Exception as error:  # it raises many kinds for what its tags do not fit
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error


def check_expanded(declared: int, stored: int, what: str, instead: str) -> None:
    """Refuse what would expand to far more than its file holds.

    Args:
        declared: bytes that it would take.
        stored: bytes that it takes in the file.
        what: what it is called.
        instead: how to write it so that it can be read in pieces.

    Raises:
        ValueError: it is too large.
    """
    if declared > MAX_EXPANDED_BYTES and declared > _RATIO * stored:
        raise ValueError(
            f"{what} must expand to at most {size_of(MAX_EXPANDED_BYTES)} or {_RATIO} times its size in the "
            f"file, "
            f"got {size_of(declared)} from {size_of(stored)}: {instead}"
        )


def check_stored(path: Path) -> None:
    """Refuse a zip file of torch whose parts are compressed: torch stores them as they are.

    Raises:
        ValueError: a part is compressed, or the file is damaged.
    """
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            compressed = any(item.compress_type != zipfile.ZIP_STORED for item in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is cut short or damaged: {error}") from error
    if compressed:
        raise ValueError("its parts are compressed, which torch does not do")


def npy_header(name: str, file: Any, size: int) -> tuple[tuple[int, ...], Any, "np.dtype[Any]", int]:
    """Shape, order and kind of numbers of an npy file, and where they begin.

    Args:
        name: of the array.
        file: open at its beginning.
        size: bytes that it has.

    Raises:
        ValueError: it is no array of plain numbers or text, or declares another size than it has.
    """
    import numpy as np

    try:
        version = np.lib.format.read_magic(file)
    except ValueError as error:
        raise ValueError(f"{name!r} is no array") from error
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"{name!r} is an array of plain numbers in no version that is known, {version}")
    shape, fortran, dtype = read[version](file)
    start = file.tell()
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"{name!r} must hold numbers, got {dtype}")
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size - start:
        raise ValueError(f"{name!r} says it has shape {shape} of {dtype}, but has {size - start} bytes")
    return shape, "F" if fortran else "C", dtype, start


def size_of(count: int) -> str:
    """A number of bytes in human-readable form."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def expect_kind(found: os.stat_result, kind: int, path: Path) -> None:
    """See that what was found is of a kind: `stat.S_IFREG` or `stat.S_IFDIR`.

    Raises:
        NotPlain: it is of another.
    """
    if stat.S_IFMT(found.st_mode) == kind:
        return
    expected = "a plain file" if kind == stat.S_IFREG else "a folder"
    got = _KINDS.get(stat.S_IFMT(found.st_mode), "a file")
    hint = ", which is not followed: put what it names in its place" if stat.S_ISLNK(found.st_mode) else ""
    raise NotPlain(f"{path} must be {expected}, got {got}{hint}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in whole if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return whole


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
    write_text(path, json.dumps(to_jsonable(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


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
    """Make a folder that other users cannot read, and its parents.

    Raises:
        NotPlain: it is a link or a file, belongs to another user, or others may write to it.
    """
    make_folder(path, 0o700)
    if not _POSIX:
        return path
    status = os.lstat(path)
    if status.st_uid != os.geteuid():
        raise NotPlain(
            f"{path} must belong to you, got a folder of user {status.st_uid}: delete or rename it"
        )
    if status.st_mode & 0o022:
        raise NotPlain(
            f"{path} must be writable by you alone, got mode {status.st_mode & 0o777:o}: delete it"
        )
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
    match = _TEMPORARY.fullmatch(name)
    return None if match is None else match[1]


def to_jsonable(value: Any) -> Any:
    """Turn a value into what JSON can hold: tuples to lists, non-finite numbers to their names."""
    if isinstance(value, dict):
        return {str(key): to_jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(entry) for entry in value]
    if hasattr(value, "item"):  # a number of numpy or torch
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _looked(path: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # raised again when the file is made
            raise FileNotFoundError(error.errno, error.strerror) from error
        raise
    except ValueError as error:  # no system takes a null character
        raise NotPlain(f"{path} cannot be the name of a file: {error}") from error


def _keep(_: int) -> None:
    """Drop the character count that `write_text` returns."""
