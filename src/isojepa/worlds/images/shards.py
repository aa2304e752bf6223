"""WebDataset shards: tar files in which the files of one sample follow each other and share a name.

    0001.jpg, 0001.cls, 0002.jpg, 0002.cls, ...     or .json with "label", "cls" or "class" in it

What stands before the first dot of a file's name is the sample's key, what stands behind the last its
kind. Shards are read front to back with Python's own `tarfile`; the library called webdataset is made for
streams over networks, and is not needed for files. Only plain members are looked at, and only in memory:
links, devices and paths are never followed or made.

Of a shard that was cut, all samples that are whole are used; the rest is counted as one that is lost,
since nobody knows how many there were.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from isojepa.opening import open_plain, parse_json
from isojepa.worlds.images.decoding import MOST_BYTES, SUFFIXES, BadPicture, decode
from isojepa.worlds.images.origins import Item, Label, Origin, identity_of, lost

SHARDS = (".tar", ".tar.gz", ".tgz")
_CLASS, _NOTES = "cls", "json"
_NAMES = ("label", "cls", "class", "class_name")  # of the label in a sample's notes
_TEXT = 1 << 20  # bytes of a label or of notes
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)  # no sparse files, which may say that they are endless


def shard_origin(paths: Sequence[Path], root: Path) -> Origin:
    """The pictures of shards, in the order given.

    Args:
        paths: the shards.
        root: a folder above all of them.
    """

    def items() -> Iterator[Item]:
        for path in paths:
            yield from _items(path)

    return Origin(
        data=str(root if len(paths) > 1 else paths[0]),
        identity=["shards", *identity_of(paths, root)],
        items=items,
        total=sum(path.stat().st_size for path in paths),
    )


class _Bounded(io.RawIOBase):
    """A gzipped file, never read in larger pieces than a picture may have: it may expand without end."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise tarfile.ReadError(f"a piece of it must have at most {MOST_BYTES} bytes, got {size}")
        return self._file.read(size)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()


def _items(path: Path) -> Iterator[Item]:
    """The samples of a shard, and one that is lost if it was cut."""
    before: set[str] = set()
    key, parts, end = "", dict[str, Any](), 0
    reason = ""
    members = _members(path)
    while True:
        try:
            found = next(members, None)
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            found, reason = None, " ".join(str(error).split())
        if found is None:
            break
        member, content = found
        stem, _, kinds = Path(member.name).name.partition(".")
        name = str(Path(member.name).parent / stem)
        if name != key or not kinds:
            yield from _sample(path, key, parts, end)
            before = set(parts) or before
            key, parts, end = name, {}, 0
        parts[kinds.rpartition(".")[2].lower()] = content
        end += 512 + member.size
    if not reason or set(parts) >= before:  # else the sample's label may be in the part that is lost
        yield from _sample(path, key, parts, end)
    if reason:
        yield lost(
            path.name, f"the shard is cut or damaged, and what follows {key or 'its start'} is lost: {reason}"
        )


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes | BadPicture]]:
    """The plain members of a shard that tell something of a picture, with their content.

    Raises:
        tarfile.TarError, OSError, EOFError, zlib.error, ValueError: the shard ends before its end.
    """
    with open_plain(path) as plain:
        file: Any = plain if path.suffix.lower() == ".tar" else _Bounded(gzip.GzipFile(fileobj=plain))
        with tarfile.open(fileobj=file, mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it would keep all that it has seen
                kind = "." + member.name.rpartition(".")[2].lower()
                if member.type not in _PLAIN or kind not in (*SUFFIXES, f".{_CLASS}", f".{_NOTES}"):
                    continue
                most = MOST_BYTES if kind in SUFFIXES else _TEXT
                if member.size > most:
                    yield member, BadPicture(f"it must have at most {most} bytes, got {member.size}")
                    continue
                content = archive.extractfile(member)
                read = b"" if content is None else content.read()
                if len(read) < member.size:
                    raise tarfile.ReadError("unexpected end of data")
                yield member, read
            file.seek(archive.offset)  # tarfile takes a cut header, or none, for the end
            if file.read(512) != bytes(512):
                raise tarfile.ReadError("it has no mark of its end")


def _sample(path: Path, key: str, parts: dict[str, Any], size: int) -> Iterator[Item]:
    picture = next((kind for kind in parts if f".{kind}" in SUFFIXES), None)
    if picture is not None:
        yield Item(f"{path.name}:{key}", _Reader(parts[picture]), _label(parts), size)


class _Reader:
    """Decodes one member."""

    def __init__(self, content: bytes | BadPicture) -> None:
        self._content = content

    def __call__(self, largest: int | None) -> Tensor:
        if isinstance(self._content, BadPicture):
            raise self._content
        return decode(self._content, largest)


def _label(parts: dict[str, Any]) -> Label:
    """The class of a sample from its own file, or from its notes."""
    if isinstance(parts.get(_CLASS), bytes):
        text = parts[_CLASS].decode("utf-8", "backslashreplace").strip()
        return int(text) if text.isdecimal() and len(text) < 10 else text or None
    if isinstance(parts.get(_NOTES), bytes):
        try:
            notes = parse_json(parts[_NOTES])
        except ValueError:
            return None
        value = (
            next((notes[name] for name in _NAMES if name in notes), None) if isinstance(notes, dict) else None
        )
        return (
            value
            if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
            else None
        )
    return None
