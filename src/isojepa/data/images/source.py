"""Images as a source whose views are random crops, and `open_images`, which reads images of any format.

All random numbers of an image's views come from the stream of that image in that epoch, in one call: a crop
is a function of (seed, epoch, image), independent of the batch, worker and rank.

    a folder of images, one folder for each class or none       decoded once into a cache
    .parquet; .tar, .tar.gz, .tgz shards                        decoded once into a cache
    an object with a length and items by number                 decoded once into a cache
    .npy, .npz; IDX files, gzipped or not                       read or memory-mapped

Splits are folders called train, val or test (or valid, validation, dev, training, testing), or files with
such a word in their names; npz files may hold several. The default split is train if there are splits.
`open_clip` reads a clip, frames in order, from a folder, an array or an animated image.

Images of the same states by several observers: matched by key, split by state.

A key identifies the content of an image, e.g. the code points of an emoji or the time of a frame: images of
two observers with equal keys are one pair. Splits go by state, e.g. the base emoji or the drive: all images
of a state are on one side, for every observer.

The environment `cameras` reads folders of synchronized cameras:

    DATA/front/drive-1/000017.jpg      a folder per camera, in it one per drive or scene
    DATA/rear/drive-1/000017.jpg       frames are matched by drive and name, whatever their endings
    DATA/front/1532402927612.png       or none: then `together` consecutive frames, by name, are one state

Splits go by drive: neighboring frames are nearly the same image. Frames that only one camera has are
trained on and left out of pairs. Where cameras take frames at slightly different times, as those of
nuScenes do, name them by a common time.
"""

import io
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.images.cache import (
    MOST_BYTES,
    SUFFIXES,
    BadImage,
    Cached,
    Item,
    Origin,
    cached,
    natural,
    pillow,
    pixels,
)
from isojepa.data.images.formats import (
    NAME,
    SHARDS,
    dataset_images,
    folder_origin,
    idx_images,
    is_dataset,
    npy_images,
    npz_images,
    npz_splits,
    parquet_origin,
    shard_origin,
)
from isojepa.data.images.image_sets import ImageSet, ImageSubset, Shuffled, Stack, fingerprint
from isojepa.data.images.views import NUMBERS, AugmentationOverrides, Deferred, Views, draw, shorter_side
from isojepa.data.observers import Paired, Pairs, check_split, held_out_rows, observer_number
from isojepa.data.processes import check_samples
from isojepa.data.source import Facts, Streams
from isojepa.io import plain_file, read_bytes
from isojepa.registry import Context, Spec, register
from isojepa.validation import check_count, choose, short_repr, validate_types


class Images:
    """Pictures as a finite source: each time an image is taken, views of it are cut anew.

    Args:
        pictures: what views are cut from.
        views: how; by default `Views.for_size` of the images' shorter side.

    Raises:
        ValueError: there are no images, or the mean of the settings has other channels.

    Example:
        >>> import numpy as np
        >>> from isojepa.seeds import generator
        >>> from isojepa.data.images.image_sets import Stack
        >>> source = Images(Stack(np.zeros((10, 28, 28), dtype=np.uint8)))
        >>> [tuple(view.shape) for view in source.sample(4, generator(0, "data")).views]
        [(4, 1, 28, 28), (4, 1, 28, 28), (4, 1, 16, 16), (4, 1, 16, 16)]
    """

    @validate_types
    def __init__(self, pictures: ImageSet, views: Views | None = None) -> None:
        if not len(pictures):
            raise ValueError("pictures must be one at least, got none")
        self.pictures = pictures
        self.views = Views.for_size(shorter_side(pictures)) if views is None else views
        if self.views.mean is not None and len(self.views.mean) != pictures.channels:
            raise ValueError(
                f"mean must have a number for each of {pictures.channels} channels, got {self.views.mean}"
            )
        self.facts = Facts(
            shapes=shapes(self.views, pictures.channels),
            size=len(pictures),
            deferring=True,
            described=True,
            classes=None if pictures.labels is None else len(pictures.classes),
        )

    @cached_property
    def normalized_views(self) -> Views:
        """The settings with the mean and standard deviation by which pixels are normalized."""
        if self.views.mean is not None:
            return self.views
        return replace(self.views, mean=tuple(self.pictures.mean), std=tuple(self.pictures.std))

    def describe(self) -> dict[str, Any]:
        """Kind, mean and std by which pixels are normalized, number of skipped files, fingerprint."""
        views = self.normalized_views
        return {
            "kind": "pictures",
            "mean": views.mean,
            "std": views.std,
            "skipped": self.pictures.skipped,
            "fingerprint": fingerprint(self.pictures),
        }

    @validate_types
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n images, with replacement, and views of them."""
        ids = torch.randint(len(self.pictures), (check_samples(n),), generator=generator)
        uniform = torch.rand(n, len(self.views.sizes), NUMBERS, generator=generator)
        return self._drawn(ids, uniform).to("cpu")

    def take(self, ids: Tensor, streams: Streams) -> Batch:
        """Views of the images of given numbers."""
        return self.defer(ids, streams).to("cpu")

    def defer(self, ids: Tensor, streams: Streams) -> Deferred:
        """The same, before the views are made."""
        uniform = torch.empty(len(ids), len(self.views.sizes) * NUMBERS)
        for row in range(len(ids)):
            torch.rand(uniform.shape[1], generator=streams.of(row), out=uniform[row])
        return self._drawn(ids, uniform.unflatten(1, (-1, NUMBERS)))

    def _drawn(self, ids: Tensor, uniform: Tensor) -> Deferred:
        images = self.pictures.read(ids)
        if isinstance(images, Tensor):
            sizes = torch.tensor([images.shape[-2:]]).expand(len(ids), 2)
        else:
            sizes = torch.tensor([image.shape[-2:] for image in images]).reshape(-1, 2)
        labels = None if self.pictures.labels is None else self.pictures.labels[ids]
        return Deferred(images, draw(uniform, sizes, self.views), self.normalized_views, labels, ids)

    def __repr__(self) -> str:
        return f"Images({self.pictures!r}, {self.views!r})"


def shapes(views: Views, channels: int) -> tuple[tuple[int, ...], ...]:
    """Shape of one image in each view."""
    return tuple((channels, size, size) for size in views.sizes)


@register("world", "images")
@dataclass(frozen=True)
class ImagesSpec(AugmentationOverrides, Spec):
    """Random crops of images: a folder, arrays, IDX, Parquet or tar files, or a data set of torchvision."""

    data: str = ""
    """Where the images are."""
    split: str | None = None
    """Part of the data, where it has parts, e.g. train."""

    def resolve(self, context: Context) -> "ImagesSpec":
        """The same with every setting of the views written out; "auto" looks at the images' size."""
        if None not in self.changes.values() or (self.views == "auto" and not self.data):
            return self
        if self.views == "auto":
            source = context.source
            chosen = (source if isinstance(source, Images) else self.build(context)).views
        else:
            chosen = self.settings()
        return replace(self, **{name: getattr(chosen, name) for name in self.changes})

    def build(self, context: Context) -> Images:
        from isojepa.data.images.source import open_images  # libraries of others, only where needed

        if not self.data:
            raise ValueError("data must say where the pictures are, got nothing")
        pictures = open_images(self.data, split=self.split)
        return Images(pictures, self.settings(pictures))

    def around(self, seed: int) -> Context:
        """Nothing where no data are named."""
        if not self.data:  # nothing is known of no images
            return Context(seed=seed)
        return Context.of(self.build(Context(seed=seed)), seed)


SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
_SUPPORTED = (
    "a folder of pictures (one folder for each class, or none), .npy, .npz, IDX or .parquet files, .tar "
    "shards, or a folder of them"
)
_WHOLE = ""  # the split of data that have none
_DECODED = {"parquet": parquet_origin, "shard": shard_origin}
_Ways = dict[str, Callable[[], ImageSet]]
Keep = Callable[[Origin], Cached]


@validate_types
def open_images(
    data: Any,
    *,
    split: str | None = None,
    cache: Path | None = None,
    largest: int | None = None,
    compressed: bool = False,
) -> ImageSet:
    """The images of a folder, of files, or of a data set object.

    Args:
        data: a path, or an object with a length and items by number, such as torchvision's data sets.
        split: "train", "val" or "test", or the name of a folder; None for train where there are splits, else
            all.
        cache: the folder that what is decoded is kept in; None for the user's own (`default_cache`).
        largest: pixels of the shorter side to which larger images are reduced when they are decoded; None
            keeps them.
        compressed: whether decoded images are kept as JPEG files of quality 95, for sets that are too large
            to be kept as pixels; they are then decoded at each reading.

    Raises:
        ValueError: there is nothing that can be read, or no such split.
        ImportError: a library is missing; the message names the command that installs it.

    Example:
        >>> import numpy as np, tempfile
        >>> place = Path(tempfile.mkdtemp(), "pictures.npy")
        >>> np.save(place, np.zeros((5, 8, 8, 3), dtype=np.uint8))
        >>> open_images(place)
        Stack(5 pictures of (3, 8, 8), 0 classes)
    """
    if largest is not None:
        check_count("largest", largest)
    if not isinstance(data, str | Path):
        if not is_dataset(data):
            raise ValueError(
                f"data must be {_SUPPORTED}, or a data set with a length and items, got {short_repr(data)}"
            )
        if split is not None:
            raise ValueError(f"split must be None for a data set object, which is one split, got {split!r}")
        return dataset_images(data, cache=cache, largest=largest, compressed=compressed)
    path = Path(data).expanduser()
    ways = _ways(path, split, partial(cached, cache=cache, largest=largest, compressed=compressed))
    return _chosen(ways, path, split)


@validate_types
def splits(data: Path) -> tuple[str, ...]:
    """The splits that a folder or file has, train, val and test first; none where it is one set.

    Raises:
        ValueError: there is nothing that can be read.
    """
    return _ordered(_ways(Path(data).expanduser(), None, cached))


def _ordered(ways: _Ways) -> tuple[str, ...]:
    named = filter(None, ways)
    return tuple(sorted(named, key=lambda name: (["train", "val", "test", name].index(name), name)))


def _chosen(ways: _Ways, path: Path, split: str | None) -> ImageSet:
    """The split that was asked for, or train, or the only one."""
    name = _WHOLE if split is None else SPLITS.get(split.lower(), split)
    if split is None and _WHOLE not in ways:
        name = "train" if "train" in ways or len(ways) != 1 else next(iter(ways))
    if name not in ways:
        available = ", ".join(_ordered(ways)) or "none"
        raise ValueError(f"split must be one that {path} has ({available}), got {split!r}")
    return ways[name]()


def _ways(path: Path, split: str | None, keep: Keep) -> _Ways:
    """How each split of the data is opened; `keep` decodes an origin once."""
    if not path.is_dir():
        plain_file(path)
        kind = _kind(path)
        if kind in (None, "picture"):
            raise ValueError(f"data must be {_SUPPORTED}, got the file {path}")
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
        files = ", ".join(f"{paths[0].name} ({kind})" for kind, paths in kinds.items())
        raise ValueError(f"{path} must hold files of one kind, got {files}: name the file that is meant")
    return _files(kinds, path, keep)


def _below(folder: Path, keep: Keep) -> Callable[[], ImageSet]:
    return lambda: _chosen(_ways(folder, None, keep), folder, None)


def _files(kinds: dict[str, list[Path]], root: Path, keep: Keep) -> _Ways:
    """How each split of files of one kind is opened."""
    ((kind, paths),) = kinds.items()
    if kind == "picture":
        return {_WHOLE: lambda: keep(folder_origin(root))}
    groups: dict[str, list[Path]] = {}
    for path in paths:
        groups.setdefault(_split(path), []).append(path)
    ways: _Ways = {}
    for name, group in groups.items():
        if kind in _DECODED:
            ways[name] = partial(_decoded, kind, group, root, keep)
        elif kind == "npz":
            path = _only(group)
            inside = npz_splits(path) if not name else ()
            ways |= {part: partial(npz_images, path, part) for part in inside} or {
                name: partial(npz_images, path)
            }
        elif kind == "npy":
            images = _only([path for path in group if "labels" not in path.name] or group)
            ways[name] = partial(npy_images, images)
        else:
            ways[name] = _idx(group)
    return ways


def _decoded(kind: str, paths: list[Path], root: Path, keep: Keep) -> ImageSet:
    return keep(_DECODED[kind](paths, root))


def _idx(group: list[Path]) -> Callable[[], ImageSet]:
    candidates = [path for path in group if "images" in path.name.lower()] or group
    images = _only(
        [path for path in candidates if path.suffix != ".gz"] or candidates
    )  # expanded ones are mapped
    beside = sorted(entry for entry in images.parent.iterdir() if NAME.fullmatch(entry.name))
    stem = _stem(images)
    labels = next((path for path in beside if _stem(path) == stem and "labels" in path.name.lower()), None)
    return lambda: idx_images(images, labels)


def _stem(path: Path) -> str:
    match = NAME.fullmatch(path.name)
    return "" if match is None else match["split"].lower()


def _only(paths: list[Path]) -> Path:
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths[:4])
        raise ValueError(
            f"{paths[0].parent} must hold one such file for each split, got {names}: name one of them"
        )
    return paths[0]


def _split(path: Path) -> str:
    """The split named in a file's name."""
    words = re.split(r"[^a-z0-9]+", path.name.partition(".")[0].lower())
    splits = (SPLITS.get(word, SPLITS.get(word.rstrip("0123456789"))) for word in words)  # train000 too
    return next(filter(None, splits), _WHOLE)


def _kind(path: Path) -> str | None:
    name = path.name.lower()
    if NAME.fullmatch(name):
        return "idx"
    if name.endswith(SHARDS):
        return "shard"
    kinds = {".parquet": "parquet", ".npz": "npz", ".npy": "npy", **dict.fromkeys(SUFFIXES, "picture")}
    return kinds.get(path.suffix.lower())


_ANIMATED = {".gif": "GIF", ".webp": "WEBP", ".png": "PNG", ".apng": "PNG"}
_MAX_FRAMES = 10_000
_MAX_PIXELS = 400_000_000  # of the frames that are kept


@validate_types
def open_clip(data: str | Path, frames: int = 16) -> ImageSet:
    """Frames of a clip, evenly over its length.

    Args:
        data: a folder of images, whose order is that of their names (2 before 10), an npy array
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
    whole = open_images(path)
    return ImageSubset(whole, _evenly(len(whole), frames))


def _evenly(count: int, frames: int) -> torch.Tensor:
    """Numbers of frames at even distances, the first and the last among them."""
    return torch.linspace(0, count - 1, min(frames, count)).round().long()


def _animated(path: Path, frames: int) -> ImageSet:
    content = read_bytes(path, MOST_BYTES)
    library = pillow()
    images = []
    try:
        with library.open(io.BytesIO(content), formats=[_ANIMATED[path.suffix.lower()]]) as image:
            count = getattr(image, "n_frames", 1)
            numbers = _evenly(count, frames).tolist()
            width, height = image.size
            if count > _MAX_FRAMES or width * height * len(numbers) > _MAX_PIXELS:
                raise BadImage(
                    f"it must have at most {_MAX_FRAMES} frames, and {_MAX_PIXELS} pixels in those that "
                    f"are looked at, got {count} frames of {width} × {height}"
                )
            for number in numbers:
                image.seek(number)
                images.append(pixels(image.copy()))
    except MemoryError:
        raise  # the machine's fault, not the clip's
    except Exception as error:  # damaged files make Pillow raise whatever its parsers stumble over
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"clip {path} cannot be read: {reason}") from error
    most = max(len(frame) for frame in images)  # grey among colored ones
    return Stack(torch.stack([frame.expand(most, -1, -1) for frame in images]).contiguous())


@dataclass(frozen=True)
class Observer:
    """What one observer saw.

    Attributes:
        name: of the observer.
        pictures: what it is trained on.
        keys: what each image shows, each once.
        states: (images,) numbers of the states, which splits go by.
        views: how views are cut for training; by the images' size where None.
        compared: what is embedded afterwards in place of the images, as many; None for the same.

    Raises:
        ValueError: lengths differ, or a key occurs twice.
    """

    name: str
    pictures: ImageSet
    keys: tuple[Hashable, ...]
    states: Tensor
    views: Views | None = None
    compared: ImageSet | None = None

    def __post_init__(self) -> None:
        lengths = [len(self.pictures), len(self.keys), len(self.states)]
        lengths += [] if self.compared is None else [len(self.compared)]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"observer {self.name!r} must have a key and a state for each picture, got {lengths}"
            )
        if len(set(self.keys)) < len(self.keys):
            seen: set[Hashable] = set()
            twice = next(key for key in self.keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(
                f"observer {self.name!r} must show each thing once, got {short_repr(twice)} twice"
            )


class ImageObservers:
    """Observers whose observations are images.

    Args:
        observers: two at least, with different names.
        held_out: share of the states that are the split "test", in (0, 1).
        seed: chooses them.
        test: the states of the split "test", where they are given, in place of `held_out` and `seed`.

    Raises:
        ValueError: there are fewer than two observers, names are the same, or two observers say that one
            thing belongs to different states.

    Example:
        >>> import numpy as np
        >>> from isojepa.data.images.image_sets import Stack
        >>> grey = np.zeros((4, 8, 8), dtype=np.uint8)
        >>> states = torch.tensor([0, 0, 1, 1])
        >>> first = Observer("left", Stack(grey), ("a", "b", "c", "d"), states)
        >>> second = Observer("right", Stack(grey[:3]), ("d", "b", "a"), states[[3, 1, 0]])
        >>> observers = ImageObservers([first, second], held_out=0.5)
        >>> observers.pairs("left", "right", split=None).ids.tolist()
        [0, 0, 1]
    """

    @validate_types
    def __init__(
        self,
        observers: Sequence[Observer],
        *,
        held_out: float = 0.2,
        seed: int = 0,
        test: Collection[int] | None = None,
    ) -> None:
        self.observers = tuple(observers)
        self.names = tuple(observer.name for observer in self.observers)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(
                f"observers must be two at least with different names, got {', '.join(self.names) or 'none'}"
            )
        self._rows = [{key: row for row, key in enumerate(one.keys)} for one in self.observers]
        self._check_states()
        every = torch.cat([observer.states for observer in self.observers]).unique()
        if test is None:
            self.test = frozenset(every[held_out_rows(every, held_out, seed)].tolist())
        else:
            self.test = frozenset(int(state) for state in test)

    def pictures(self, observer: int | str, split: str | None = "train") -> ImageSubset:
        """The images of one observer, of a split."""
        one = self._one(observer)
        return ImageSubset(one.pictures, self._split(one, split))

    def states(self, observer: int | str, split: str | None = "train") -> Tensor:
        """The state of each of `pictures`."""
        one = self._one(observer)
        return one.states[self._split(one, split)]

    def source(self, observer: int | str, split: str | None = "train") -> Images:
        """What one agent is trained on: views of its own images alone."""
        return Images(self.pictures(observer, split), self._one(observer).views)

    def pairs(self, first: int | str, second: int | str, split: str | None = "test") -> Pairs[ImageSubset]:
        """Pictures of the same things by two observers, in the order of the first.

        Raises:
            ValueError: they have no thing in common.
        """
        rows, others = self._matched(first, second, split)
        one, two = self._one(first), self._one(second)
        parts = [
            ImageSubset(each.pictures if each.compared is None else each.compared, found)
            for each, found in ((one, rows), (two, others))
        ]
        return Pairs(parts[0], parts[1], one.states[rows], labels=parts[0].labels)

    def paired(self, first: int | str, second: int | str, split: str | None = "train") -> Paired:
        """A source with the views of both observers of the same things."""
        rows, others = self._matched(first, second, split)
        one, two = self._one(first), self._one(second)
        return Paired(
            Images(ImageSubset(one.pictures, rows), one.views),
            Images(ImageSubset(two.pictures, others), two.views),
            ids=one.states[rows],
        )

    def shuffled(self, patch: int, *, fixed: bool = False, seed: int = 0) -> "ImageObservers":
        """The same observers, of whose images the spatial structure is destroyed: see `Shuffled`.

        Each observer has permutations of its own.
        """
        changed = []
        for number, one in enumerate(self.observers):
            shuffle = partial(Shuffled, patch=patch, fixed=fixed, seed=seed, stream=number)
            compared = None if one.compared is None else shuffle(one.compared)
            changed.append(replace(one, pictures=shuffle(one.pictures), compared=compared))
        return ImageObservers(changed, test=self.test)

    def __repr__(self) -> str:
        counts = ", ".join(f"{one.name}: {len(one.pictures)}" for one in self.observers)
        return f"ImageObservers({counts})"

    def _one(self, observer: int | str) -> Observer:
        return self.observers[observer_number(observer, self.names)]

    def _split(self, one: Observer, split: str | None) -> Tensor:
        """Rows of a split."""
        if check_split(split) is None:
            return torch.arange(len(one.states))
        aside = torch.isin(one.states, torch.tensor(sorted(self.test), dtype=torch.int64))
        rows = (aside if split == "test" else ~aside).nonzero()[:, 0]
        if not len(rows):
            raise ValueError(f"split {split!r} must have pictures, got none of observer {one.name!r}")
        return rows

    def _matched(self, first: int | str, second: int | str, split: str | None) -> tuple[Tensor, Tensor]:
        one, two = observer_number(first, self.names), observer_number(second, self.names)
        theirs = self._rows[two]
        both = [
            (row, theirs[self.observers[one].keys[row]])
            for row in self._split(self.observers[one], split).tolist()
            if self.observers[one].keys[row] in theirs
        ]
        if not both:
            raise ValueError(
                f"observers {self.names[one]!r} and {self.names[two]!r} must have seen the same things, "
                f"got none in common{'' if split is None else f' in split {split!r}'}"
            )
        rows, others = torch.tensor(both).T
        return rows, others

    def _check_states(self) -> None:
        known: dict[Hashable, int] = {}
        for one in self.observers:
            for key, state in zip(one.keys, one.states.tolist(), strict=True):
                if known.setdefault(key, state) != state:
                    raise ValueError(
                        f"observers must agree which state {short_repr(key)} is, got {known[key]}, {state}"
                    )


_SHUFFLES = ("none", "patch", "pixel")


@dataclass(frozen=True)
class ImageEnvironment(Spec):
    """What environments of images share: where they are, how states are split, and the ablations."""

    data: str = ""
    """Folder of the files."""
    held_out: float = 0.2
    """Share of the states that are held out for the split test."""
    seed: int = 0
    """Chooses the states that are held out."""
    shuffle: str = "none"
    """Ablation: none, patch (patches change places) or pixel (pixels do)."""
    patch: int = 8
    """Side of the patches that change places, in pixels."""
    fixed: bool = False
    """One permutation for all images of an observer, in place of one for each image."""

    def observed(self) -> tuple[Observer, ...]:
        """The observers, before anything is shuffled."""
        raise NotImplementedError(f"{type(self).__name__} must define observed()")

    def test_states(self) -> frozenset[int] | None:
        """The states of the split test, where the data say so themselves; asked after `observed`."""
        return None

    def build(self, context: Context) -> ImageObservers:
        """Open or render the images, and match them."""
        choose("shuffle", self.shuffle, dict.fromkeys(_SHUFFLES))
        check_count("patch", self.patch)
        observers = ImageObservers(
            self.observed(), held_out=self.held_out, seed=self.seed, test=self.test_states()
        )
        if self.shuffle == "none":
            return observers
        return observers.shuffled(
            1 if self.shuffle == "pixel" else self.patch, fixed=self.fixed, seed=self.seed
        )

    def folder(self) -> Path:
        """The folder of the files.

        Raises:
            ValueError: it is not given, or no folder.
        """
        if not self.data:
            raise ValueError(f"data must name the folder of environment {self.name!r}, got nothing")
        folder = Path(self.data).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data of environment {self.name!r} must be a folder, got {self.data}")
        return folder


@register("environment", "cameras")
@dataclass(frozen=True)
class CamerasSpec(ImageEnvironment):
    """Folders of synchronised cameras, whose frames are matched by name and split by drive."""

    cameras: tuple[str, ...] = ()
    """Folders of the cameras; by default all that there are."""
    together: int = 100
    """Frames in a row that are one state where there are no folders of drives."""
    largest: int | None = None
    """Pixels of the shorter side to which larger frames are reduced."""
    cache: str | None = None
    """Folder that decoded frames are kept in; by default the user's own."""

    def observed(self) -> tuple[Observer, ...]:
        """The frames of each camera, decoded once."""
        check_count("together", self.together)
        root = self.folder()
        folders = sorted(
            (entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")),
            key=natural,
        )
        missing = [name for name in self.cameras if name not in folders]
        if missing:
            raise ValueError(
                f"cameras must be folders of {root} ({', '.join(folders) or 'none'}), got {missing[0]!r}"
            )
        names = self.cameras or tuple(folders)
        place = None if self.cache is None else Path(self.cache)
        opened = [cached(_unlabelled(folder_origin(root / name)), place, self.largest) for name in names]
        keys = [[_moment(name) for name in pictures.names] for pictures in opened]
        states = self._states({key for each in keys for key in each})
        return tuple(
            Observer(name, pictures, tuple(mine), torch.tensor([states[key] for key in mine]))
            for name, pictures, mine in zip(names, opened, keys, strict=True)
        )

    def _states(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The number of each moment's drive, or of its stretch of frames where there are no drives."""
        ordered = sorted(keys, key=lambda key: (natural(key[0]), natural(key[1])))
        drives = {drive: number for number, drive in enumerate(dict.fromkeys(drive for drive, _ in ordered))}
        if list(drives) == [""]:
            return {key: place // self.together for place, key in enumerate(ordered)}
        return {key: drives[key[0]] for key in ordered}


def _moment(name: str) -> tuple[str, str]:
    """Drive and moment of a frame, from the name of its file."""
    path = PurePosixPath(name)
    return ("" if str(path.parent) == "." else str(path.parent)), path.stem


def _unlabelled(origin: Origin) -> Origin:
    """The same without labels: folders are drives, and no classes."""

    def items() -> Iterator[Item]:
        return (replace(item, label=None) for item in origin.items())

    return replace(origin, identity=["camera", origin.identity], items=items, classes=None)
