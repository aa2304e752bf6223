"""How a cache of pictures is written: every item of an origin decoded once, by several threads, in its order.

Pillow lets go of Python's lock while it decodes, so threads are enough. Mean and standard deviation are
those of all pixels of all pictures, of each channel, of values in [0, 1]; a grey picture among coloured
ones counts in all three.

A compressed cache holds each picture as a JPEG file of quality 95 without subsampling, a tenth of the size or
less; the moments, and that a picture can be read, are those of what was decoded before.
"""

import hashlib
import io
import os
import shutil
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from isojepa.files import write_json, write_whole
from isojepa.opening import size_of
from isojepa.worlds.images.decoding import BadPicture, pillow
from isojepa.worlds.images.origins import Item, Label, Origin, numbered
from isojepa.worlds.images.progress import bar

FORMAT = "isojepa pictures 2"  # another number where the files, or what is decoded, change
HEADER, PIXELS, INDEX, LABELS, NAMES = "header.json", "pixels.bin", "index.npy", "labels.npy", "names.json"
FILES = (PIXELS, INDEX, LABELS, NAMES)
_TOLD = 20  # skipped files whose reasons are kept
_LOOK = 256  # pictures after which the room on the disk is looked at again
_QUALITY = 95  # of JPEG; above it files grow and nothing is seen
_LEAST_STD = 1 / 255  # of pictures of one colour: nobody divides by 0


@dataclass(frozen=True)
class Stored:
    """One picture as it goes into the file.

    Attributes:
        content: its pixels, or its JPEG file.
        shape: (channels, height, width).
        sums: of the values and of their squares, for each channel.
    """

    content: bytes
    shape: tuple[int, ...]
    sums: list[tuple[int, int]]


def fill(folder: Path, origin: Origin, largest: int | None, compressed: bool) -> None:
    """Write the cache of an origin into an empty folder.

    Raises:
        ValueError: no picture can be read, or the disk has no room for all.
    """
    sums = _Sums()
    index: list[tuple[int, ...]] = []
    labels: list[Label] = []
    names: list[str] = []
    reasons: list[tuple[str, str]] = []
    start = skipped = done = 0
    with bar("decoding", origin.total) as advance, open(folder / PIXELS, "xb") as file:
        for count, (item, found) in enumerate(_decoded(origin.items(), largest, compressed), 1):
            done += item.size
            advance(item.size)
            if isinstance(found, BadPicture):
                skipped += 1
                if len(reasons) < _TOLD:
                    reasons.append((_told(item.name), _told(str(found))))
                continue
            file.write(found.content)
            index.append((start, *found.shape, len(found.content)))
            labels.append(item.label)
            names.append(_told(item.name))
            sums.add(found)
            start += len(found.content)
            if not count % _LOOK:
                _check_room(folder, origin, start, start * max(0.0, origin.total / done - 1) if done else 0.0)
        file.flush()
        os.fsync(file.fileno())
    if not index:
        why = f"; the first, {reasons[0][0]}: {reasons[0][1]}" if reasons else ""
        raise ValueError(f"{origin.data} must hold pictures that can be read, got {skipped} that cannot{why}")
    numbers, classes, notice = numbered(labels, origin.classes)
    _save(folder / INDEX, np.array(index, dtype=np.int64))
    if numbers is not None:
        _save(folder / LABELS, numbers)
    write_json(folder / NAMES, names)
    mean, std = sums.moments()
    header = {
        "format": FORMAT,
        "data": _told(origin.data),
        "largest": largest,
        "compressed": compressed,
        "pictures": len(index),
        "channels": len(mean),
        "mean": mean,
        "std": std,
        "classes": list(map(_told, classes)),
        "skipped": skipped,
        "reasons": reasons,
        "notice": notice,
        "sizes": {name: (folder / name).stat().st_size for name in FILES if (folder / name).exists()},
    }
    write_json(folder / HEADER, header)


def digest(content: bytes) -> str:
    """A hash that names content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def workers() -> int:
    """Threads that decode."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _decoded(
    items: Iterable[Item], largest: int | None, compressed: bool
) -> Iterator[tuple[Item, Stored | BadPicture]]:
    """Each item with its picture, or with what is wrong with it, in order; a few at a time are in memory."""
    bombs = pillow().DecompressionBombWarning  # whose pictures are refused and counted
    waiting: deque[tuple[Item, Future[Stored | BadPicture]]] = deque()
    with warnings.catch_warnings(), ThreadPoolExecutor(workers()) as pool:
        warnings.simplefilter("ignore", bombs)
        try:
            for item in items:
                waiting.append((item, pool.submit(_read, item, largest, compressed)))
                if len(waiting) >= 4 * workers():
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _read(item: Item, largest: int | None, compressed: bool) -> Stored | BadPicture:
    try:
        picture = item.read(largest)
        content = _jpeg(picture) if compressed else picture.numpy().tobytes()
        return Stored(content, tuple(picture.shape), _sums(picture.numpy()))
    except BadPicture as error:
        return error
    except OSError as error:  # removed or unreadable
        return BadPicture(error.strerror or str(error))


def _jpeg(picture: Tensor) -> bytes:
    """A picture as a JPEG file."""
    image = pillow().fromarray(picture[0].numpy() if len(picture) == 1 else picture.movedim(0, -1).numpy())
    file = io.BytesIO()
    try:
        image.save(file, "JPEG", quality=_QUALITY, subsampling=0)
    except OSError as error:
        raise BadPicture(f"it cannot be compressed: {error}") from error  # a side of more than 65,500 pixels
    return file.getvalue()


def _sums(pixels: np.ndarray) -> list[tuple[int, int]]:
    """Sums of the values and of their squares in each channel; exact, as whole numbers."""
    return [
        (int(channel.sum(dtype=np.int64)), int(np.square(channel, dtype=np.uint32).sum(dtype=np.int64)))
        for channel in pixels
    ]


class _Sums:
    """Sums over all pictures, for mean and standard deviation."""

    def __init__(self) -> None:
        self._colour, self._first, self._second, self._count = False, [0, 0, 0], [0, 0, 0], 0

    def add(self, picture: Stored) -> None:
        """Count one picture."""
        self._colour |= len(picture.sums) == 3
        self._count += picture.shape[1] * picture.shape[2]
        for channel in range(3):
            first, second = picture.sums[channel % len(picture.sums)]
            self._first[channel] += first
            self._second[channel] += second

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel, of values in [0, 1]."""
        mean, std = [], []
        for first, second in list(zip(self._first, self._second, strict=True))[: 3 if self._colour else 1]:
            variance = (second * self._count - first * first) / self._count**2
            mean.append(first / self._count / 255)
            std.append(max(variance**0.5 / 255, _LEAST_STD))
        return mean, std


def _check_room(folder: Path, origin: Origin, written: int, missing: float) -> None:
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise ValueError(
            f"the decoded pictures of {origin.data} must fit on the disk of {folder.parent}: they would "
            f"take about {size_of(int(written + missing))}, and {size_of(free + written)} are free; reduce "
            "them by largest, keep them compressed by compressed=True, or choose another place by cache"
        )


def _told(name: str) -> str:
    """A name as text: names of files may hold bytes that are none."""
    return name.encode("utf-8", "backslashreplace").decode()


def _save(path: Path, array: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.save(file, array)

    write_whole(path, write)
