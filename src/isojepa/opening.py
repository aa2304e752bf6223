"""Read untrusted files: regular files only, with size limits.

A pipe may never end, a device has no end, and a few bytes may stand for gigabytes. Whoever opens a file by a
name that a person gave asks here first; what is refused is told before anything is read.
"""

import json
import os
import stat
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np

CONFIG = 1 << 18  # bytes of a config; YAML is read slowly
TEXT = 32 << 20  # bytes of a file of JSON or YAML; as Python objects up to 25 times as many
EXPANDED = 1 << 30  # bytes that a file may expand to whatever its size
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
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Missing(f"{name} does not exist") from error
    except OSError as error:
        raise ValueError(f"{name} cannot be opened: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ValueError(f"{name} cannot be the name of a file: {error}") from error
    expect_kind(found, stat.S_IFREG, path)
    return path


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        Missing, NotPlain, ValueError: as of `plain_file`.
        OSError: it cannot be opened.
    """
    return open(plain_file(path), "rb")


def read_bytes(path: Path, most: int | None = TEXT) -> bytes:
    """The content of a plain file.

    Args:
        path: the file.
        most: bytes that it may have; None for any number.

    Raises:
        ValueError: it is not there, no plain file, or larger.
    """
    with open_plain(path) as file:
        content = file.read() if most is None else file.read(most + 1)  # some files tell no size
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
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):
                raise ValueError(f"a mapping has a key twice{node.start_mark}")
            return found

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
    if declared > EXPANDED and declared > _RATIO * stored:
        raise ValueError(
            f"{what} must expand to at most {size_of(EXPANDED)} or {_RATIO} times its size in the file, "
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
    """A number of bytes as a person would say it."""
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
    wanted = "a plain file" if kind == stat.S_IFREG else "a folder"
    got = _KINDS.get(stat.S_IFMT(found.st_mode), "a file")
    hint = ", which is not followed: put what it names in its place" if stat.S_ISLNK(found.st_mode) else ""
    raise NotPlain(f"{path} must be {wanted}, got {got}{hint}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in whole if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return whole
