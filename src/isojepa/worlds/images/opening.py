"""Open images by path: files, folders, data sets of torchvision, and clips.

Pictures from whatever somebody has: a folder, numpy's files, IDX, Parquet, shards, or a data set object.

    a folder of pictures, one folder for each class or none     folders.py
    .npy, .npz                                                  arrays.py
    IDX files, gzipped or not, or a folder of them              idx.py
    .parquet, or a folder of them                               parquet.py
    .tar, .tar.gz, .tgz shards, or a folder of them             shards.py
    an object with a length and items by number                 datasets.py

What is compressed picture by picture is decoded once (cache.py); the others are read as they are.

Splits are folders called train, val or test (or valid, validation, dev, training, testing), or files with
such a word in their names; npz files may hold several. Where there are splits and none is chosen, it is
train.

A clip: frames in their order, of a folder, an array or an animated picture.
"""

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from isojepa.arguments import check_count, checked
from isojepa.names import shown
from isojepa.opening import plain_file, read_bytes
from isojepa.worlds.images.cache import (
    MOST_BYTES,
    SUFFIXES,
    BadPicture,
    Cached,
    Origin,
    cached,
    natural,
    pillow,
    pixels,
)
from isojepa.worlds.images.formats import (
    NAME,
    SHARDS,
    dataset_pictures,
    folder_origin,
    idx_pictures,
    is_dataset,
    npy_pictures,
    npz_pictures,
    npz_splits,
    parquet_origin,
    shard_origin,
)
from isojepa.worlds.images.pictures import Part, Pictures, Stack

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
_TAKEN = (
    "a folder of pictures (one folder for each class, or none), .npy, .npz, IDX or .parquet files, .tar "
    "shards, or a folder of them"
)
_WHOLE = ""  # the split of data that have none
_DECODED = {"parquet": parquet_origin, "shard": shard_origin}
Ways = dict[str, Callable[[], Pictures]]
Keep = Callable[[Origin], Cached]


@checked
def open_pictures(
    data: Any,
    *,
    split: str | None = None,
    cache: Path | None = None,
    largest: int | None = None,
    compressed: bool = False,
) -> Pictures:
    """The pictures of a folder, of files, or of a data set object.

    Args:
        data: a path, or an object with a length and items by number, such as torchvision's data sets.
        split: "train", "val" or "test", or the name of a folder; None for train where there are splits, else
            all.
        cache: the folder that what is decoded is kept in; None for the user's own (`default_cache`).
        largest: pixels of the shorter side to which larger pictures are reduced when they are decoded; None
            keeps them.
        compressed: whether decoded pictures are kept as JPEG files of quality 95, for sets that are too large
            to be kept as pixels; they are then decoded at each reading.

    Raises:
        ValueError: there is nothing that can be read, or no such split.
        ImportError: a library is missing; the message names the command that installs it.

    Example:
        >>> import numpy as np, tempfile
        >>> place = Path(tempfile.mkdtemp(), "pictures.npy")
        >>> np.save(place, np.zeros((5, 8, 8, 3), dtype=np.uint8))
        >>> open_pictures(place)
        Stack(5 pictures of (3, 8, 8), 0 classes)
    """
    if largest is not None:
        check_count("largest", largest)
    if not isinstance(data, str | Path):
        if not is_dataset(data):
            raise ValueError(
                f"data must be {_TAKEN}, or a data set with a length and items, got {shown(data)}"
            )
        if split is not None:
            raise ValueError(f"split must be None for a data set object, which is one split, got {split!r}")
        return dataset_pictures(data, cache=cache, largest=largest, compressed=compressed)
    path = Path(data).expanduser()
    ways = _ways(path, split, partial(cached, cache=cache, largest=largest, compressed=compressed))
    return _chosen(ways, path, split)


@checked
def splits(data: Path) -> tuple[str, ...]:
    """The splits that a folder or file has, train, val and test first; none where it is one set.

    Raises:
        ValueError: there is nothing that can be read.
    """
    return _ordered(_ways(Path(data).expanduser(), None, cached))


def _ordered(ways: Ways) -> tuple[str, ...]:
    named = filter(None, ways)
    return tuple(sorted(named, key=lambda name: (["train", "val", "test", name].index(name), name)))


def _chosen(ways: Ways, path: Path, split: str | None) -> Pictures:
    """The split that was asked for, or train, or the only one."""
    wanted = _WHOLE if split is None else SPLITS.get(split.lower(), split)
    if split is None and _WHOLE not in ways:
        wanted = "train" if "train" in ways or len(ways) != 1 else next(iter(ways))
    if wanted not in ways:
        told = ", ".join(_ordered(ways)) or "none"
        raise ValueError(f"split must be one that {path} has ({told}), got {split!r}")
    return ways[wanted]()


def _ways(path: Path, split: str | None, keep: Keep) -> Ways:
    """How each split of the data is opened; `keep` decodes an origin once."""
    if not path.is_dir():
        plain_file(path)
        kind = _kind(path)
        if kind in (None, "picture"):
            raise ValueError(f"data must be {_TAKEN}, got the file {path}")
        ways = _files({kind: [path]}, path.parent, keep)
        if len(ways) == 1 and split is None:
            return {_WHOLE: next(iter(ways.values()))}
        return ways
    folders = [entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    named = {SPLITS[entry.name.lower()]: entry for entry in folders if entry.name.lower() in SPLITS}
    chosen = [] if split is None else [entry for entry in folders if entry.name == split]
    if named and len(named) == len(folders):
        return {name: _below(entry, keep) for name, entry in named.items()}
    if split is not None and (chosen or SPLITS.get(split.lower()) in named):
        entry = chosen[0] if chosen else named[SPLITS[split.lower()]]
        return {SPLITS.get(split.lower(), split): _below(entry, keep)}
    kinds: dict[str, list[Path]] = {}
    for entry in sorted(path.iterdir(), key=lambda entry: natural(entry.name)):
        kind = None if entry.name.startswith(".") or not entry.is_file() else _kind(entry)
        if kind is not None:
            kinds.setdefault(kind, []).append(entry)
    if not kinds and [entry.name for entry in folders] == ["data"]:  # as the hubs lay their files out
        below = _ways(path / "data", split, keep)
        if set(below) != {_WHOLE}:
            return below
    if not kinds or (folders and set(kinds) == {"picture"}):
        return {_WHOLE: lambda: keep(folder_origin(path))}
    if len(kinds) > 1:
        told = ", ".join(f"{paths[0].name} ({kind})" for kind, paths in kinds.items())
        raise ValueError(f"{path} must hold files of one kind, got {told}: name the file that is meant")
    return _files(kinds, path, keep)


def _below(folder: Path, keep: Keep) -> Callable[[], Pictures]:
    return lambda: _chosen(_ways(folder, None, keep), folder, None)


def _files(kinds: dict[str, list[Path]], root: Path, keep: Keep) -> Ways:
    """How each split of files of one kind is opened."""
    ((kind, paths),) = kinds.items()
    if kind == "picture":
        return {_WHOLE: lambda: keep(folder_origin(root))}
    groups: dict[str, list[Path]] = {}
    for path in paths:
        groups.setdefault(_split(path), []).append(path)
    ways: Ways = {}
    for name, group in groups.items():
        if kind in _DECODED:
            ways[name] = partial(_decoded, kind, group, root, keep)
        elif kind == "npz":
            path = _only(group)
            inside = npz_splits(path) if not name else ()
            ways |= {part: partial(npz_pictures, path, part) for part in inside} or {
                name: partial(npz_pictures, path)
            }
        elif kind == "npy":
            images = _only([path for path in group if "labels" not in path.name] or group)
            ways[name] = partial(npy_pictures, images)
        else:
            ways[name] = _idx(group)
    return ways


def _decoded(kind: str, paths: list[Path], root: Path, keep: Keep) -> Pictures:
    return keep(_DECODED[kind](paths, root))


def _idx(group: list[Path]) -> Callable[[], Pictures]:
    found = [path for path in group if "images" in path.name.lower()] or group
    images = _only([path for path in found if path.suffix != ".gz"] or found)  # expanded ones are mapped
    beside = sorted(entry for entry in images.parent.iterdir() if NAME.fullmatch(entry.name))
    stem = _stem(images)
    labels = next((path for path in beside if _stem(path) == stem and "labels" in path.name.lower()), None)
    return lambda: idx_pictures(images, labels)


def _stem(path: Path) -> str:
    found = NAME.fullmatch(path.name)
    return "" if found is None else found["split"].lower()


def _only(paths: list[Path]) -> Path:
    if len(paths) > 1:
        told = ", ".join(path.name for path in paths[:4])
        raise ValueError(
            f"{paths[0].parent} must hold one such file for each split, got {told}: name one of them"
        )
    return paths[0]


def _split(path: Path) -> str:
    """The split that a file's name tells of."""
    words = re.split(r"[^a-z0-9]+", path.name.partition(".")[0].lower())
    known = (SPLITS.get(word, SPLITS.get(word.rstrip("0123456789"))) for word in words)  # train000 too
    return next(filter(None, known), _WHOLE)


def _kind(path: Path) -> str | None:
    name = path.name.lower()
    if NAME.fullmatch(name):
        return "idx"
    if name.endswith(SHARDS):
        return "shard"
    kinds = {".parquet": "parquet", ".npz": "npz", ".npy": "npy", **dict.fromkeys(SUFFIXES, "picture")}
    return kinds.get(path.suffix.lower())


_ANIMATED = {".gif": "GIF", ".webp": "WEBP", ".png": "PNG", ".apng": "PNG"}
_MOST_FRAMES = 10_000
_MOST_PIXELS = 400_000_000  # of the frames that are kept


@checked
def open_clip(data: str | Path, frames: int = 16) -> Pictures:
    """Frames of a clip, evenly over its length.

    Args:
        data: a folder of pictures, whose order is that of their names (2 before 10), an npy array
            (frames, height, width, channels), or an animated GIF, WebP or PNG file.
        frames: how many; all where there are not more.

    Raises:
        ValueError: there is nothing that can be read, or too much of it.
        ImportError: Pillow is not installed.

    Example:
        >>> import numpy as np, tempfile
        >>> place = Path(tempfile.mkdtemp(), "clip.npy")
        >>> np.save(place, np.zeros((50, 8, 8, 3), dtype=np.uint8))
        >>> len(open_clip(place, 5))
        5
    """
    check_count("frames", frames)
    path = Path(data).expanduser()
    if path.suffix.lower() in _ANIMATED and path.is_file():
        return _animated(path, frames)
    whole = open_pictures(path)
    return Part(whole, _evenly(len(whole), frames))


def _evenly(count: int, frames: int) -> torch.Tensor:
    """Numbers of frames at even distances, the first and the last among them."""
    return torch.linspace(0, count - 1, min(frames, count)).round().long()


def _animated(path: Path, frames: int) -> Pictures:
    content = read_bytes(path, MOST_BYTES)
    library = pillow()
    found = []
    try:
        with library.open(io.BytesIO(content), formats=[_ANIMATED[path.suffix.lower()]]) as image:
            count = getattr(image, "n_frames", 1)
            wanted = _evenly(count, frames).tolist()
            width, height = image.size
            if count > _MOST_FRAMES or width * height * len(wanted) > _MOST_PIXELS:
                raise BadPicture(
                    f"it must have at most {_MOST_FRAMES} frames, and {_MOST_PIXELS} pixels in those that "
                    f"are looked at, got {count} frames of {width} × {height}"
                )
            for number in wanted:
                image.seek(number)
                found.append(pixels(image.copy()))
    except MemoryError:
        raise  # the machine's fault, not the clip's
    except Exception as error:  # damaged files make Pillow raise whatever its parsers stumble over
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"clip {path} cannot be read: {told}") from error
    most = max(len(frame) for frame in found)  # grey among coloured ones
    return Stack(torch.stack([frame.expand(most, -1, -1) for frame in found]).contiguous())
