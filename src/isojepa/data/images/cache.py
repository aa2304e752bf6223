"""Decode images once into a cache on disk.

Images decoded once: a folder with their pixels, memory-mapped, and all that is known of them.

    pixels.bin    uint8, one image after the other, each (channels, height, width), or each a JPEG file
    index.npy     int64 (images, 5): where each begins, channels, height, width, number of bytes
    labels.npy    int64 (images,), where there are labels
    names.json    names of the files
    header.json   mean and std over all pixels, classes, what was skipped and why, sizes of the files above

A cache belongs to one state of the data: its folder is named by a hash of their place, names, sizes and
times of change, of the size to which images were reduced, and of the version of this code; changed data
make a new one, and old ones may be deleted at any time. It is written beside its place and then renamed,
under a lock, so that several processes make it once and none sees half of one. At each opening sizes of
files are checked; what is cut short, missing or not ours is made anew.

Without an explicit place it lies in `isojepa/pictures` of the user's cache folder, $XDG_CACHE_HOME or
~/.cache. Decoded images take 5 to 20 times the space of their JPEG files. `largest` bounds it; a
compressed cache needs a tenth and decodes at each reading, which is for sets of millions; one for which
the disk has no room is refused as soon as that is seen.

One image from the bytes of a file: uint8 (1 or 3, height, width), whatever the file had.

    grey, one bit                  1 channel; 0 and 255 for one bit
    16 bits, one channel           1 channel; v -> round(255 v / 65535), scaled and never clipped
    32-bit integers                as 16 bits, if all values are within them; else refused
    floating point                 1 channel; v -> round(255 v), if all values lie in [0, 1]; else refused
    RGB, palette, CMYK, YCbCr      3 channels; of 16 bits a channel the upper eight
    transparent in any form        laid over white, with as many channels as without
    turned by EXIF orientation     upright
    several frames                 the first

Colour profiles are not applied. Nothing is expanded before its size is known: an image of more pixels
than `MOST_PIXELS` is refused, as is every file that cannot be read to its end, by one type of error,
`BadImage`, so that callers can count it and continue. Only the formats of `FORMATS` are tried:
Pillow knows others that run programs.

The bar of long work on images: how much is done and the time left, on standard error.

Images before they are decoded: a stream of them with names and labels, and what it is known by.

Folders, Parquet files and shards are each turned into an `Origin`; the cache decodes it. An item that is
known to be lost, such as the rest of a shard that was cut, is an item too, whose reading raises
`BadImage`: so it is counted and told with those that turn out to be damaged.

How a cache of images is written: every item of an origin decoded once, by several threads, in its order.

Pillow lets go of Python's lock while it decodes, so threads are enough. Mean and standard deviation are
those of all pixels of all images, of each channel, of values in [0, 1]; a grey image among colored
ones counts in all three.

A compressed cache holds each image as a JPEG file of quality 95 without subsampling, a tenth of the size or
less; the moments, and that an image can be read, are those of what was decoded before.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from isojepa.importing import install_hint
from isojepa.io import open_unfollowed, parse_json, read_bytes, read_json, size_of, write_json, write_whole
from isojepa.terminal import Console, PlainProgress

MOST_PIXELS = 89_000_000  # 270 MB when expanded; of more than 89.5 million Pillow itself warns
MOST_BYTES = 1 << 29  # of one file
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif"),
)
_WHITE = 255


class BadImage(ValueError):
    """An image that cannot be read, and why; readers of many count and skip it."""


def decode(content: bytes, largest: int | None = None) -> Tensor:
    """The image of a file.

    Args:
        content: of the file.
        largest: pixels of the shorter side to which a larger image is reduced, sides in proportion; JPEG
            files are then expanded to a fraction of their size only.

    Returns:
        uint8 (1 or 3, height, width).

    Raises:
        BadImage: it is no image, damaged, cut short, or has too many pixels.
        ImportError: Pillow is not installed.

    Example:
        >>> decode(b"no picture")
        Traceback (most recent call last):
        ...
        isojepa.data.images.cache.BadImage: it is of no format that is read here, or has no header
        >>> file = io.BytesIO()
        >>> pillow().new("LA", (3, 2)).save(file, "PNG")  # 3 wide, 2 high, all of it transparent
        >>> decode(file.getvalue())[0].tolist()
        [[255, 255, 255], [255, 255, 255]]
    """
    library = pillow()
    try:
        with library.open(io.BytesIO(content), formats=_formats(library)) as image:
            return pixels(image, largest)
    except BadImage:
        raise
    except library.DecompressionBombError:
        raise BadImage(_too_many("far more")) from None
    except library.UnidentifiedImageError:
        raise BadImage("it is of no format that is read here, or has no header") from None
    except MemoryError:
        raise  # the machine's fault, not the image's
    except Exception as error:  # damaged files make Pillow raise whatever its parsers stumble over
        raise BadImage(" ".join(str(error).split()) or type(error).__name__) from error


def pixels(image: Any, largest: int | None = None) -> Tensor:
    """The pixels of an image that Pillow has opened, by the rules above.

    Args:
        image: a `PIL.Image.Image`.
        largest: as of `decode`.

    Raises:
        BadImage: it has none or too many, or values whose range is not known.
    """
    from PIL import ImageOps

    width, height = image.size
    if not 0 < width * height <= MOST_PIXELS:
        raise BadImage(_too_many(f"{width} × {height}"))
    if largest is not None and min(width, height) > largest:
        image.draft(
            None, _reduced(width, height, largest)
        )  # JPEG: by 2, 4 or 8 while decoding; others: nothing
    image.load()
    image = _plain(ImageOps.exif_transpose(image))
    if largest is not None and min(image.size) > largest:
        image = image.resize(
            _reduced(image.width, image.height, largest),
            resample=pillow().Resampling.BICUBIC,
            reducing_gap=3.0,
        )
    array = torch.from_numpy(np.array(image, dtype=np.uint8))
    return array.unsqueeze(0) if array.ndim == 2 else array.movedim(-1, 0).contiguous()


def pillow() -> Any:
    """Pillow's module `Image`.

    Raises:
        ImportError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"reading pictures needs Pillow: {install_hint('vision')}") from error
    return Image


def _formats(library: Any) -> list[str]:
    """Those of the formats that this Pillow was built with."""
    library.init()
    return [name for name in FORMATS if name in library.OPEN]


def _plain(image: Any) -> Any:
    """The same image in grey or RGB of eight bits."""
    mode = image.mode
    if mode == "F" or mode.startswith("I"):
        return _scaled(image)
    grey = mode in ("1", "L", "LA", "La")
    if image.has_transparency_data or mode in ("La", "RGBa"):
        image = image.convert("LA").convert("RGBA") if grey else image.convert("RGBA")
        ground = pillow().new("RGBA", image.size, (_WHITE, _WHITE, _WHITE, 255))
        ground.alpha_composite(image)
        image = ground
    return image.convert("L" if grey else "RGB")


def _scaled(image: Any) -> Any:
    """An image of more than eight bits a pixel, scaled to eight."""
    values = np.asarray(image)
    if image.mode == "F":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise BadImage(
                "it has numbers outside [0, 1], whose range is unknown: write it with 8 or 16 bits"
            )
        return pillow().fromarray(np.rint(values * 255).astype(np.uint8))
    if values.min() < 0 or values.max() > 65_535:
        raise BadImage("it has values outside 0 to 65535, whose range is unknown: write it with 8 or 16 bits")
    return pillow().fromarray(((values.astype(np.int32) * 255 + 32_767) // 65_535).astype(np.uint8))


def _reduced(width: int, height: int, largest: int) -> tuple[int, int]:
    """Width and height when the shorter side is `largest`, the other in proportion."""
    shorter = min(width, height)
    return max(1, round(width * largest / shorter)), max(1, round(height * largest / shorter))


def _too_many(got: str) -> str:
    return f"it must have between 1 and {MOST_PIXELS} pixels, got {got}"


@contextlib.contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A rich progress bar if standard error is a terminal, else a line every few seconds.

    Args:
        what: is done, in a word or two.
        total: units of work, whatever they are.

    Yields:
        A function to be called with the units that were done since it was last called.
    """
    if not sys.stderr.isatty():
        plain, finished = PlainProgress(what), 0

        def advance(done: int) -> None:
            nonlocal finished
            finished += done
            plain.update(finished, total)

        yield advance
        return
    # slow to import: only for those who wait
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what, markup=False), BarColumn(24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


Label = str | int | None
_SPARSE = 1_000  # numbers beyond ten times as many as images, and this, are names and no counts


class ImagesWarning(UserWarning):
    """Something in a set of images was not used; the message says what and why."""


@dataclass(frozen=True)
class Item:
    """One image that is not decoded yet.

    Attributes:
        name: of its file, or its key.
        read: decodes it, given the shorter side to which it may be reduced; raises BadImage.
        label: a class by name or number; None where there is none.
        size: units of work, in which the origin's total is counted.
    """

    name: str
    read: Callable[[int | None], Tensor]
    label: Label = None
    size: int = 1


@dataclass(frozen=True)
class Origin:
    """A set of images that is not decoded yet.

    Attributes:
        data: where it is, for messages.
        identity: JSON value that changes with the set and with its content.
        items: goes through all of them, each time from the start.
        total: the sum of their sizes, or nearly.
        classes: names of the labels in their order, where the data have an order of their own.
    """

    data: str
    identity: Any
    items: Callable[[], Iterator[Item]]
    total: int
    classes: tuple[str, ...] | None = None


def lost(name: str, reason: str, size: int = 0) -> Item:
    """An item that is known to be lost, and why."""

    def read(largest: int | None) -> NoReturn:
        raise BadImage(reason)

    return Item(name, read, None, size)


def identity_of(paths: Sequence[Path], root: Path) -> list[Any]:
    """What files are known by: where they are, their names, sizes and times of change.

    The place belongs to it since files of other data may have the same names, sizes and times: packages
    give all their files one time, and MNIST's files are as long as those of Fashion-MNIST.
    """
    stats = [(path, path.stat()) for path in paths]
    return [
        str(root.resolve()),
        *([str(path.relative_to(root)), stat.st_size, stat.st_mtime_ns] for path, stat in stats),
    ]


def natural(name: str) -> tuple[Any, ...]:
    """What names are sorted by: numbers in them as numbers, letters without regard to case, then as they are.

    Example:
        >>> sorted(["b10", "b9", "B1", "a"], key=natural)
        ['a', 'B1', 'b9', 'b10']
    """
    parts = re.split(r"([0-9]+)", name)
    return (*map(_sortable, parts), (0, 0, name))


def numbered(
    labels: Sequence[Label], classes: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...], str]:
    """Labels as numbers, the names of all of them, and a sentence where labels were left out.

    Hubs write negative numbers for unknown labels. Labels that only some images have
    are left out, as is a single class, from which there is nothing to learn.

    Raises:
        ValueError: a label is none of the classes.
    """
    values = [None if isinstance(label, int) and label < 0 else label for label in labels]
    missing = sum(label is None for label in values)
    if missing:
        some = missing < len(values)
        return (
            None,
            (),
            f"labels are left out, since {missing} of {len(values)} pictures have none" if some else "",
        )
    whole = [label for label in values if isinstance(label, int)]
    if len(whole) == len(values) and max(whole) < 10 * len(whole) + _SPARSE:
        names = tuple(map(str, range(max(whole) + 1))) if classes is None else tuple(classes)
        numbers = np.array(whole, dtype=np.int64)
        if max(whole) >= len(names):
            raise ValueError(f"labels must be below the {len(names)} classes, got {max(whole)}")
    else:
        words = list(map(str, values))
        names = tuple(sorted(set(words), key=natural)) if classes is None else tuple(classes)
        places = {name: place for place, name in enumerate(names)}
        strange = sorted(set(words) - set(places))
        if strange:
            raise ValueError(f"labels must be among the {len(names)} classes, got {strange[0]!r}")
        numbers = np.array([places[word] for word in words], dtype=np.int64)
    if len(names) == 1:
        return (
            None,
            (),
            f"all pictures are of one class, {names[0]!r}: they are taken as pictures without labels",
        )
    return numbers, names, ""


def _sortable(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 0, 0, part.lower()
    digits = part.lstrip("0")
    return 1, len(digits), digits  # Python makes no integer of thousands of digits


FORMAT = "isojepa pictures 2"  # another number where the files, or what is decoded, change
HEADER, PIXELS, INDEX, LABELS, NAMES = "header.json", "pixels.bin", "index.npy", "labels.npy", "names.json"
FILES = (PIXELS, INDEX, LABELS, NAMES)
_MAX_REASONS = 20  # of skipped files
_LOOK = 256  # images after which the room on the disk is looked at again
_QUALITY = 95  # of JPEG; above it files grow and nothing is seen
_MIN_STD = 1 / 255  # of constant channels: no division by 0


@dataclass(frozen=True)
class _Stored:
    """One image as it goes into the file.

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
        ValueError: no image can be read, or the disk has no room for all.
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
            if isinstance(found, BadImage):
                skipped += 1
                if len(reasons) < _MAX_REASONS:
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
) -> Iterator[tuple[Item, _Stored | BadImage]]:
    """Each item with its image, or with what is wrong with it, in order; a few at a time are in memory."""
    bombs = pillow().DecompressionBombWarning  # whose images are refused and counted
    waiting: deque[tuple[Item, Future[_Stored | BadImage]]] = deque()
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


def _read(item: Item, largest: int | None, compressed: bool) -> _Stored | BadImage:
    try:
        picture = item.read(largest)
        content = _jpeg(picture) if compressed else picture.numpy().tobytes()
        return _Stored(content, tuple(picture.shape), _sums(picture.numpy()))
    except BadImage as error:
        return error
    except OSError as error:  # removed or unreadable
        return BadImage(error.strerror or str(error))


def _jpeg(picture: Tensor) -> bytes:
    """An image as a JPEG file."""
    image = pillow().fromarray(picture[0].numpy() if len(picture) == 1 else picture.movedim(0, -1).numpy())
    file = io.BytesIO()
    try:
        image.save(file, "JPEG", quality=_QUALITY, subsampling=0)
    except OSError as error:
        raise BadImage(f"it cannot be compressed: {error}") from error  # a side of more than 65,500 pixels
    return file.getvalue()


def _sums(pixels: np.ndarray) -> list[tuple[int, int]]:
    """Sums of the values and of their squares in each channel; exact, as whole numbers."""
    return [
        (int(channel.sum(dtype=np.int64)), int(np.square(channel, dtype=np.uint32).sum(dtype=np.int64)))
        for channel in pixels
    ]


class _Sums:
    """Sums over all images, for mean and standard deviation."""

    def __init__(self) -> None:
        self._colour, self._first, self._second, self._count = False, [0, 0, 0], [0, 0, 0], 0

    def add(self, picture: _Stored) -> None:
        """Count one image."""
        self._colour |= len(picture.sums) == 3
        self._count += picture.shape[1] * picture.shape[2]
        for channel in range(3):
            first, second = picture.sums[channel % len(picture.sums)]
            self._first[channel] += first
            self._second[channel] += second

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation per channel, for values in [0, 1]."""
        mean, std = [], []
        for first, second in list(zip(self._first, self._second, strict=True))[: 3 if self._colour else 1]:
            variance = (second * self._count - first * first) / self._count**2
            mean.append(first / self._count / 255)
            std.append(max(variance**0.5 / 255, _MIN_STD))
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
    """A file name as text; undecodable bytes are replaced."""
    return name.encode("utf-8", "backslashreplace").decode()


def _save(path: Path, array: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.save(file, array)

    write_whole(path, write)


_NAMED = 3  # skipped files that a warning names


class _BadCache(ValueError):
    """A cache that is damaged, or that something else made."""


class Cached:
    """Pictures of a cache; only those that are asked for are read from the disk.

    Args:
        folder: of the cache.

    Attributes:
        folder: of the cache.
        reasons: name and reason of skipped files, the first of them.
        (the others are those of `ImageSet`)

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
        """Names of the files, one for each image."""
        return tuple(parse_json(read_bytes(self.folder / NAMES, None)))

    def __len__(self) -> int:
        return len(self._index)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The images of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        positions = ids.numpy()
        order = np.argsort(positions, kind="stable")  # a file is read front to back
        if self._rows is not None:
            rows = np.empty((len(positions), *self._rows.shape[1:]), dtype=np.uint8)
            rows[order] = self._rows[positions[order]]
            return torch.from_numpy(rows)
        tensors: list[Tensor] = [torch.empty(0)] * len(positions)
        numbers = positions[order].tolist()
        if self.compressed:
            with ThreadPoolExecutor(workers()) as pool:
                pictures = list(pool.map(self._picture, numbers))
        else:
            pictures = list(map(self._picture, numbers))
        for place, picture in zip(order.tolist(), pictures, strict=True):
            tensors[place] = picture.expand(self.channels, -1, -1).contiguous()  # grey among colored ones
        return torch.stack(tensors) if self.shape is not None and tensors else tensors

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
    """The default folder of caches."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "isojepa" / "pictures"


def cached(
    origin: Origin, cache: Path | None = None, largest: int | None = None, compressed: bool = False
) -> Cached:
    """The images of an origin from its cache, which is made if there is none.

    Args:
        origin: where the images come from.
        cache: the folder of caches; None for the user's own.
        largest: pixels of the shorter side to which larger images are reduced.
        compressed: whether images are kept as JPEG files of quality 95 and decoded whenever they are read.

    Raises:
        ValueError: no image can be read, or the disk has no room.
        OSError: the cache cannot be written.
    """
    root = (default_cache() if cache is None else Path(cache)).expanduser().resolve()
    key = digest(json.dumps([FORMAT, origin.identity, origin.classes, largest, compressed]).encode())
    folder = root / key
    pictures = _tried(folder)
    if pictures is None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            with locked(root / f"{key}.lock"):
                pictures = _tried(folder)  # another process may have made it meanwhile
                if pictures is None:
                    pictures = _made(origin, root, key, largest, compressed)
        except OSError as error:
            if isinstance(error, ValueError):  # of the data, told in words of its own
                raise
            raise OSError(
                error.errno,
                f"the decoded pictures of {origin.data} cannot be written to {root}: "
                f"{error.strerror or error}; choose another place by cache",
            ) from error
    _warn_skipped(pictures)
    return pictures


def _tried(folder: Path) -> Cached | None:
    try:
        return Cached(folder)
    except _BadCache:
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
        except OSError:  # a file system without locks: another process was faster
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
            raise _BadCache(f"{folder} holds no whole cache of pictures")
        for name, size in header["sizes"].items():
            if (folder / name).stat().st_size != size:
                raise _BadCache(f"{folder / name} has another size than it was written with")
        index = np.load(folder / INDEX, allow_pickle=False)
        labels = np.load(folder / LABELS, allow_pickle=False) if LABELS in header["sizes"] else None
    except _BadCache:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _BadCache(f"{folder} holds no whole cache of pictures: {error}") from error
    return header, index, labels


def _warn_skipped(pictures: Cached) -> None:
    """One warning of what was left out, at each opening."""
    from isojepa.terminal import escape_control

    notices = [pictures.notice] if pictures.notice else []
    if pictures.skipped:
        named = [f"{name} ({why})" for name, why in pictures.reasons[:_NAMED]]
        more = pictures.skipped - len(named)
        notices.append(
            f"{pictures.skipped} of {pictures.skipped + len(pictures)} pictures could not be read and are "
            f"left out: {'; '.join(named)}{f'; and {more} more' if more else ''}"
        )
    if notices:
        warnings.warn(escape_control(f"{pictures.data}: {'; '.join(notices)}"), ImagesWarning, stacklevel=3)
