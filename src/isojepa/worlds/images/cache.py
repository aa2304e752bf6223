"""Pictures decoded once: a folder with their pixels, memory-mapped, and all that is known of them.

    pixels.bin    uint8, one picture after the other, each (channels, height, width), or each a JPEG file
    index.npy     int64 (pictures, 5): where each begins, channels, height, width, number of bytes
    labels.npy    int64 (pictures,), where there are labels
    names.json    names of the files
    header.json   mean and std over all pixels, classes, what was skipped and why, sizes of the files above

A cache belongs to one state of the data: its folder is named by a hash of their place, names, sizes and
times of change, of the size to which pictures were reduced, and of the version of this code; changed data
make a new one, and old ones may be deleted at any time. It is written beside its place and then renamed,
under a lock, so that several processes make it once and none sees half of one. At each opening sizes of
files are checked; what is cut short, missing or not ours is made anew.

Without an explicit place it lies in `isojepa/pictures` of the user's cache folder, $XDG_CACHE_HOME or
~/.cache. Decoded pictures take 5 to 20 times the space of their JPEG files. `largest` bounds it; a
compressed cache needs a tenth and decodes at each reading, which is for sets of millions; one for which
the disk has no room is refused as soon as that is seen.
"""

import contextlib
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.files import open_unfollowed, read_json
from isojepa.opening import parse_json, read_bytes
from isojepa.worlds.images.decoding import decode
from isojepa.worlds.images.filling import (
    FORMAT,
    HEADER,
    INDEX,
    LABELS,
    NAMES,
    PIXELS,
    digest,
    fill,
    workers,
)
from isojepa.worlds.images.origins import Origin, PicturesWarning

_NAMED = 3  # skipped files that a warning names


class BadCache(ValueError):
    """A cache that is damaged, or that something else made."""


class Cached:
    """Pictures of a cache; only those that are asked for are read from the disk.

    Args:
        folder: of the cache.

    Attributes:
        folder: of the cache.
        reasons: name and reason of skipped files, the first of them.
        (the others are those of `Pictures`)

    Raises:
        BadCache: it is damaged, or something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        header, index, labels = _opened(folder)
        self._index, self.compressed = index, bool(header["compressed"])
        self.channels = int(header["channels"])
        self.labels = None if labels is None else torch.from_numpy(labels)
        self.classes: tuple[str, ...] = tuple(header["classes"])
        self.mean, self.std = tuple(map(float, header["mean"])), tuple(map(float, header["std"]))
        self.skipped = int(header["skipped"])
        self.reasons: tuple[tuple[str, str], ...] = tuple((name, why) for name, why in header["reasons"])
        self.notice, self.data = str(header["notice"]), str(header["data"])
        sizes = np.unique(index[:, 2:4], axis=0)
        self.shape = (self.channels, int(sizes[0, 0]), int(sizes[0, 1])) if len(sizes) == 1 else None
        self._pixels = np.memmap(folder / PIXELS, dtype=np.uint8, mode="r")
        alike = not self.compressed and bool((index[:, 1] == self.channels).all())
        self._rows = self._pixels.reshape(len(index), *self.shape) if alike and self.shape else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, one for each picture."""
        return tuple(parse_json(read_bytes(self.folder / NAMES, None)))

    def __len__(self) -> int:
        return len(self._index)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The pictures of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        wanted = ids.numpy()
        order = np.argsort(wanted, kind="stable")  # a file is read front to back
        if self._rows is not None:
            rows = np.empty((len(wanted), *self._rows.shape[1:]), dtype=np.uint8)
            rows[order] = self._rows[wanted[order]]
            return torch.from_numpy(rows)
        found: list[Tensor] = [torch.empty(0)] * len(wanted)
        numbers = wanted[order].tolist()
        if self.compressed:
            with ThreadPoolExecutor(workers()) as pool:
                pictures = list(pool.map(self._picture, numbers))
        else:
            pictures = list(map(self._picture, numbers))
        for place, picture in zip(order.tolist(), pictures, strict=True):
            found[place] = picture.expand(self.channels, -1, -1).contiguous()  # grey among coloured ones
        return torch.stack(found) if self.shape is not None and found else found

    def __repr__(self) -> str:
        return (
            f"Cached({len(self)} pictures of {self.shape or 'different sizes'}, {len(self.classes)} classes)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Cached, (self.folder,)  # a worker opens the file; pixels are not sent to it

    def _picture(self, number: int) -> Tensor:
        stored = self._stored(number)
        if self.compressed:
            return decode(stored.tobytes())
        return torch.from_numpy(np.array(stored.reshape(self._index[number, 1:4])))

    def _stored(self, number: int) -> np.ndarray:
        start, count = self._index[number, [0, 4]].tolist()
        return np.asarray(self._pixels[start : start + count])


def default_cache() -> Path:
    """Where caches lie unless somebody says otherwise."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "isojepa" / "pictures"


def cached(
    origin: Origin, cache: Path | None = None, largest: int | None = None, compressed: bool = False
) -> Cached:
    """The pictures of an origin from its cache, which is made if there is none.

    Args:
        origin: where the pictures come from.
        cache: the folder of caches; None for the user's own.
        largest: pixels of the shorter side to which larger pictures are reduced.
        compressed: whether pictures are kept as JPEG files of quality 95 and decoded whenever they are read.

    Raises:
        ValueError: no picture can be read, or the disk has no room.
        OSError: the cache cannot be written.
    """
    root = (default_cache() if cache is None else Path(cache)).expanduser().resolve()
    key = digest(json.dumps([FORMAT, origin.identity, origin.classes, largest, compressed]).encode())
    folder = root / key
    found = _tried(folder)
    if found is None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            with locked(root / f"{key}.lock"):
                found = _tried(folder)  # somebody else may have made it meanwhile
                if found is None:
                    found = _made(origin, root, key, largest, compressed)
        except OSError as error:
            if isinstance(error, ValueError):  # of the data, told in words of its own
                raise
            raise OSError(
                error.errno,
                f"the decoded pictures of {origin.data} cannot be written to {root}: "
                f"{error.strerror or error}; choose another place by cache",
            ) from error
    _tell(found)
    return found


def _tried(folder: Path) -> Cached | None:
    try:
        return Cached(folder)
    except BadCache:
        return None


def _made(origin: Origin, root: Path, key: str, largest: int | None, compressed: bool) -> Cached:
    for left in root.glob(f".{key}.*.tmp"):  # of a process that was killed; the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    temporary = root / f".{key}.{secrets.token_hex(4)}.tmp"
    temporary.mkdir(mode=0o700)
    try:
        fill(temporary, origin, largest, compressed)
        if (root / key).exists():  # damaged, or not ours
            os.rename(root / key, temporary.with_suffix(".old.tmp"))
            shutil.rmtree(temporary.with_suffix(".old.tmp"), ignore_errors=True)
        try:
            os.rename(temporary, root / key)
        except OSError:  # a file system without locks, and somebody else was faster
            if _tried(root / key) is None:
                raise
        return Cached(root / key)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Inside, no other process holds the same lock; where the system has none, nothing is held."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    # never removed: a removed lock could be held twice
    with open(open_unfollowed(path, os.O_RDWR | os.O_CREAT), "rb+", buffering=0) as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(folder: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray | None]:
    """Header, index and labels of a cache, held against each other and against the sizes of its files."""
    try:
        header = read_json(folder / HEADER)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise BadCache(f"{folder} holds no whole cache of pictures")
        for name, size in header["sizes"].items():
            if (folder / name).stat().st_size != size:
                raise BadCache(f"{folder / name} has another size than it was written with")
        index = np.load(folder / INDEX, allow_pickle=False)
        labels = np.load(folder / LABELS, allow_pickle=False) if LABELS in header["sizes"] else None
    except BadCache:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCache(f"{folder} holds no whole cache of pictures: {error}") from error
    return header, index, labels


def _tell(pictures: Cached) -> None:
    """One warning of what was left out, at each opening."""
    from isojepa.terminal import visible

    told = [pictures.notice] if pictures.notice else []
    if pictures.skipped:
        named = [f"{name} ({why})" for name, why in pictures.reasons[:_NAMED]]
        more = pictures.skipped - len(named)
        told.append(
            f"{pictures.skipped} of {pictures.skipped + len(pictures)} pictures could not be read and are "
            f"left out: {'; '.join(named)}{f'; and {more} more' if more else ''}"
        )
    if told:
        warnings.warn(visible(f"{pictures.data}: {'; '.join(told)}"), PicturesWarning, stacklevel=3)
