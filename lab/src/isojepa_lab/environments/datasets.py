"""Data sets in which several observers see the same states: emoji, smallNORB, robomimic, recipes of views.

Emoji are drawn by several vendors: different observation functions of one state.

`tools/data emoji` fetches them: a folder for each vendor with train.npz and test.npz, 64 × 64 pixels,
matched by their code points (`names`). Skin tones of one emoji are one state (`states`), and the files' own
split goes by it: no base emoji is in both.

smallNORB: toys photographed by two cameras under 18 azimuths, 9 elevations and 6 lightings.

Its binary files come in threes, gzipped or not,

    smallnorb-...-training-dat.mat    uint8 (images, 2 cameras, 96, 96)
    smallnorb-...-training-cat.mat    int32 (images,)      category
    smallnorb-...-training-info.mat   int32 (images, 4)    instance, elevation, azimuth / 10°, lighting

and the same with testing, whose instances are others. A file begins with four bytes that say the type, the
number of dimensions and the size of each, of which three at least are written; all least significant first.
See LeCun, Huang & Bottou (2004).

Observers are azimuths (images matched by category, instance, elevation and lighting, as Social-JEPA does)
or the two cameras (matched by azimuth besides). Splits go by instance: the files' own where both are there.

robomimic's demonstrations: a robot seen by several cameras at the same moments.

    data/demo_0/obs/agentview_image    uint8 (steps, height, width, 3), one for each camera
    data/demo_1/...

Splits go by demonstration. `tools/data robomimic` fetches a small file of ten, with two cameras. Links to
other files are errors.

One set of images under two recipes of views: agents that saw the same images differently.

Appendix A.3 of Social-JEPA (Zhang et al., 2026): recipe A is a random resized crop of (0.2, 1), flip, color
jitter (0.4, 0.4, 0.4, 0.1) and grey with 0.2; recipe B has a Gaussian blur with 0.5 and solarization with
0.2 besides. Each image is a state. Agents are compared on one augmentation of each image by each
recipe, always the same one, or on the images themselves (`compare="whole"`).
"""

import gzip
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from isojepa.data.files import within
from isojepa.data.images.cache import natural
from isojepa.data.images.image_sets import ImageSet, Stack
from isojepa.data.images.source import ImageEnvironment, Observer
from isojepa.data.images.views import Augmented, Views, shorter_side
from isojepa.importing import install_hint
from isojepa.io import check_expanded, open_plain, plain_file, size_of
from isojepa.registry import register
from isojepa.validation import check_count, choose, short_repr, unknown

_ROWS = ("images", "labels", "names", "states", "subcategories")  # each as long as the others
_ARRAYS = (*_ROWS, "classes")
_LABELS = ("category", "subcategory")
_FILES = ("train.npz", "test.npz")


@register("environment", "emoji")
@dataclass(frozen=True)
class EmojiSpec(ImageEnvironment):
    """The same emoji drawn by two or three vendors; split by base emoji, as the files are."""

    vendors: tuple[str, ...] = ("google", "twitter")
    """Folders of the vendors: google, twitter, fluent."""
    labels: str = "category"
    """What labels are: category (10) or subcategory (99)."""

    def observed(self) -> tuple[Observer, ...]:
        """Every vendor's drawings of both files."""
        choose("labels", self.labels, dict.fromkeys(_LABELS))
        folder = self.folder()
        tables = [_Vendor(folder / vendor, vendor) for vendor in self.vendors]
        names = tables[0].classes if tables else ()
        if self.labels == "subcategory":
            names = tuple(sorted({word for table in tables for word in table.subcategories}))
        return tuple(table.observer(self.labels, names) for table in tables)

    def test_states(self) -> frozenset[int]:
        """Those of the files test.npz of all vendors."""
        found: set[int] = set()
        for vendor in self.vendors:
            found |= set(_arrays(self.folder() / vendor / "test.npz", ("states",))["states"].tolist())
        return frozenset(found)


class _Vendor:
    """The drawings of one vendor, of both files."""

    def __init__(self, folder: Path, name: str) -> None:
        parts = [_arrays(folder / file, _ARRAYS) for file in _FILES]
        split = [set(part["states"].tolist()) for part in parts]
        if split[0] & split[1]:
            both = min(split[0] & split[1])
            raise ValueError(f"{folder}: no state must be in train.npz and test.npz, got {both} in both")
        self.name, self.folder = name, folder
        self.arrays = {key: np.concatenate([part[key] for part in parts]) for key in _ROWS}
        self.classes = tuple(map(str, parts[0]["classes"]))
        if tuple(map(str, parts[1]["classes"])) != self.classes:
            raise ValueError(f"{folder}: train.npz and test.npz must have the same classes")
        self.subcategories = [str(word) for word in self.arrays["subcategories"]]

    def observer(self, labels: str, names: tuple[str, ...]) -> Observer:
        if labels == "category" and names != self.classes:
            raise ValueError(
                f"{self.folder}: vendors must have the same classes, got {short_repr(self.classes)}"
            )
        label_numbers = self.arrays["labels"]
        if labels == "subcategory":
            label_numbers = np.array([names.index(word) for word in self.subcategories])
        try:
            pictures = Stack(self.arrays["images"], label_numbers, names)
            keys, states = tuple(map(str, self.arrays["names"])), self.arrays["states"].astype(np.int64)
            return Observer(self.name, pictures, keys, torch.from_numpy(states))
        except ValueError as error:
            raise ValueError(f"{self.folder}: {error}") from error


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays of an npz file by name, as long as each other.

    Raises:
        ValueError: it is damaged or lacks one.
    """
    plain_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        check_expanded(declared, path.stat().st_size, "its arrays", "fetch it anew with tools/data emoji")
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise ValueError(f"it must hold {', '.join(names)}, got none of {', '.join(missing)}")
            arrays = {name: file[name] for name in names}
        lengths = {name: len(arrays[name]) for name in names if name in _ROWS}
        if len(set(lengths.values())) > 1 or arrays["states"].dtype.kind not in "iu":
            raise ValueError(f"its arrays must have equal lengths and states be whole numbers, got {lengths}")
        return arrays
    except MemoryError:
        raise
    except Exception as error:  # the readers of zip files and of arrays raise many kinds for damaged ones
        raise ValueError(f"{path} cannot be read as emoji: {error}") from error


CATEGORIES = ("animal", "human", "plane", "truck", "car")
_CAMERAS = ("left", "right")
_TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_MAX_DIMENSIONS = 8
_PARTS = ("training", "testing")
_INSTANCES = 1_000  # more than any set has; states number categories and instances


@register("environment", "smallnorb")
@dataclass(frozen=True)
class SmallNorbSpec(ImageEnvironment):
    """smallNORB's binary files: toys seen from different azimuths, or by two cameras."""

    observers: str = "azimuths"
    """Who observers are: azimuths or cameras."""
    azimuths: tuple[int, ...] = (0, 160)
    """Azimuths of the observers in degrees, from 0 to 340 in steps of 20."""
    camera: int = 0
    """The camera of observers that are azimuths: 0 or 1."""

    def observed(self) -> tuple[Observer, ...]:
        """The images of the training and testing files that are there."""
        choose("observers", self.observers, dict.fromkeys(("azimuths", "cameras")))
        if self.camera not in (0, 1):
            raise ValueError(f"camera must be 0 or 1, got {self.camera}")
        sets = _read_sets(self.folder())
        if self.observers == "cameras":
            return tuple(_observer(sets, name, number, None) for number, name in enumerate(_CAMERAS))
        return tuple(_observer(sets, f"{angle}°", self.camera, angle) for angle in self.azimuths)

    def test_states(self) -> frozenset[int] | None:
        """Those of the testing files, where the training ones are there too."""
        sets = _read_sets(self.folder())
        return frozenset(sets["testing"].states.tolist()) if len(sets) == 2 else None


@dataclass(frozen=True)
class _NorbSet:
    """The images of three files.

    Attributes:
        images: uint8 (images, 2, height, width).
        category: (images,).
        info: (images, 4) instance, elevation, azimuth in tens of degrees, lighting.
    """

    images: np.ndarray
    category: np.ndarray
    info: np.ndarray

    @property
    def states(self) -> np.ndarray:
        """Numbers of (category, instance)."""
        return np.asarray(self.category.astype(np.int64) * _INSTANCES + self.info[:, 0])


def _read_sets(folder: Path) -> dict[str, _NorbSet]:
    """The sets "training" and "testing" of a folder, those that are there.

    Raises:
        ValueError: there is none, one lacks a file, or files do not belong together.
    """
    found: dict[str, _NorbSet] = {}
    for part in _PARTS:
        paths = {kind: _path(folder, part, kind) for kind in ("dat", "cat", "info")}
        if not any(paths.values()):
            continue
        missing = [kind for kind, path in paths.items() if path is None]
        if missing:
            raise ValueError(f"{folder} must have the dat, cat and info files of {part}, got no {missing[0]}")
        images, category, info = (read_matrix(cast(Path, path)) for path in paths.values())
        shapes = [array.shape for array in (images, category, info)]
        fits = images.ndim == 4 and images.shape[1] == 2 and images.dtype == np.uint8
        if not fits or category.shape != (len(images),) or info.shape != (len(images), 4):
            raise ValueError(
                f"the {part} files of {folder} must be (pictures, 2, height, width), (pictures,) and "
                f"(pictures, 4), got {', '.join(map(str, shapes))}"
            )
        if not 0 <= int(category.min()) <= int(category.max()) < len(CATEGORIES):
            raise ValueError(
                f"the categories of {folder} must lie from 0 to 4, got {category.min()} to {category.max()}"
            )
        if not 0 <= int(info.min()) <= int(info.max()) < _INSTANCES:
            raise ValueError(f"the info of {folder} must be small numbers, got {info.min()} to {info.max()}")
        found[part] = _NorbSet(images, category, info)
    if not found:
        raise ValueError(f"{folder} must have smallNORB's files, such as *-training-dat.mat, got none")
    return found


def read_matrix(path: Path) -> np.ndarray:
    """The array of one of smallNORB's files, memory-mapped where it is not gzipped.

    Raises:
        ValueError: the file is damaged, or of another kind.
    """
    zipped = path.suffix.lower() == ".gz"
    with open_plain(path) as file:
        stored = path.stat().st_size
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if zipped else file
        try:
            magic, dimensions = _integers(stream, "<Ii")
            if magic not in _TYPES:
                raise ValueError(f"it must begin with one of smallNORB's numbers, got 0x{magic:08X}")
            if not 1 <= dimensions <= _MAX_DIMENSIONS:
                raise ValueError(f"it must have 1 to {_MAX_DIMENSIONS} dimensions, got {dimensions}")
            written = max(dimensions, 3)
            shape = _integers(stream, f"<{written}i")[:dimensions]
            if min(shape) < 1:
                raise ValueError(f"its sizes must be positive, got {shape}")
            kind, start = _TYPES[magic], 8 + 4 * written
            count = math.prod(shape) * kind.itemsize
            if zipped:
                check_expanded(count, stored, "it", "expand it with gunzip")
                values = np.frombuffer(_exactly(stream, count), dtype=kind)
                if stream.read(1):
                    raise ValueError(f"it has more bytes than its shape {shape} needs")
                return values.reshape(shape)
        except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise ValueError(f"{path} is no whole file of smallNORB: {error}") from error
    if stored - start != count:
        raise ValueError(
            f"{path} is no whole file of smallNORB: it says it has shape {shape}, but has "
            f"{stored - start} bytes in place of {count}"
        )
    return np.memmap(path, kind, "r", start, shape)


def _observer(sets: dict[str, _NorbSet], name: str, camera: int, azimuth: int | None) -> Observer:
    """Pictures of one camera, of one azimuth or of all."""
    images, labels, states, keys = [], [], [], []
    for norb in sets.values():
        degrees = 10 * norb.info[:, 2]
        if azimuth is not None and azimuth not in degrees:
            azimuths = map(str, np.unique(degrees))
            raise ValueError(unknown("azimuth", str(azimuth), azimuths))
        rows = np.arange(len(degrees)) if azimuth is None else np.flatnonzero(degrees == azimuth)
        images.append(norb.images[:, camera] if azimuth is None else norb.images[rows, camera])
        labels.append(np.asarray(norb.category[rows]))
        states.append(norb.states[rows])
        instance, elevation, angle, lighting = np.asarray(norb.info[rows]).T.tolist()
        others = [elevation, lighting] + ([angle] if azimuth is None else [])
        keys += list(zip(labels[-1].tolist(), instance, *others, strict=True))
    one = images[0] if len(images) == 1 else np.concatenate(images)
    pictures = Stack(one, np.concatenate(labels), CATEGORIES)
    return Observer(name, pictures, tuple(keys), torch.from_numpy(np.concatenate(states)))


def _path(folder: Path, part: str, kind: str) -> Path | None:
    ends = (f"{part}-{kind}.mat", f"{part}-{kind}.mat.gz")
    paths = sorted(entry for entry in folder.iterdir() if entry.name.lower().endswith(ends))
    plain = [entry for entry in paths if entry.suffix != ".gz"] or paths  # expanded ones are mapped
    if len(plain) > 1:
        raise ValueError(f"{folder} must have one {part}-{kind}.mat, got {', '.join(p.name for p in plain)}")
    return plain[0] if plain else None


def _integers(stream: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, _exactly(stream, struct.calcsize(layout)))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    content = stream.read(count)
    if len(content) != count:
        raise ValueError(f"it ends after {len(content)} of {count} bytes")
    return content


_IMAGE = "_image"
_MAX_BYTES = 8 << 30  # of images that are read into memory


@register("environment", "robomimic")
@dataclass(frozen=True)
class RobomimicSpec(ImageEnvironment):
    """A robot's demonstrations in robomimic's HDF5 files, seen by several cameras; split by demonstration."""

    cameras: tuple[str, ...] = ()
    """Names of the cameras, e.g. agentview; by default all that the file has."""
    demonstrations: int = 0
    """How many of the first demonstrations are read; 0 for all."""

    def observed(self) -> tuple[Observer, ...]:
        """The frames of each camera."""
        check_count("demonstrations", self.demonstrations, 0)
        path = self._path()
        frames, demos = _read_demonstrations(path, self.cameras, self.demonstrations)
        keys = tuple((demo, step) for demo, length in enumerate(demos) for step in range(length))
        states = torch.tensor([demo for demo, _ in keys])
        try:
            return tuple(Observer(name, Stack(images), keys, states) for name, images in frames.items())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _path(self) -> Path:
        """The file that data names, or the only one in the folder."""
        if self.data and not Path(self.data).expanduser().is_dir():
            return plain_file(Path(self.data).expanduser())
        paths = sorted(self.folder().glob("*.hdf5"))
        if len(paths) != 1:
            raise ValueError(f"data must name one .hdf5 file, got {len(paths)} in {self.data}")
        return paths[0]


def _read_demonstrations(
    path: Path, cameras: tuple[str, ...] = (), most: int = 0
) -> tuple[dict[str, np.ndarray], list[int]]:
    """Frames of each camera, all demonstrations one after the other, and the number of frames of each.

    Args:
        path: an HDF5 file.
        cameras: names of the cameras; all by default.
        most: how many of the first demonstrations are read; 0 for all.

    Raises:
        ValueError: it is damaged, holds something else, or is too large.
        ImportError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"reading {path} needs h5py: {install_hint('hdf5')}") from error
    plain_file(path)
    try:
        with h5py.File(path, "r") as file:
            return _read(h5py, file, path, cameras, most)
    except MemoryError:
        raise
    except Exception as error:  # h5py raises many kinds for damaged files
        raise ValueError(f"{path} cannot be read as robomimic's demonstrations: {error}") from error


def _read(
    h5py: Any, file: Any, path: Path, cameras: tuple[str, ...], most: int
) -> tuple[dict[str, np.ndarray], list[int]]:
    data = within(h5py, file, "data")
    demos = sorted((name for name in data if name.startswith("demo_")), key=natural)
    demos = demos[:most] if most else demos
    if not demos:
        raise ValueError("it must hold data/demo_0 and so on, got none")
    views = [within(h5py, within(h5py, data, demo), "obs") for demo in demos]
    available = [name.removesuffix(_IMAGE) for name in views[0] if name.endswith(_IMAGE)]
    missing = [name for name in cameras if name not in available]
    if missing or not available:
        raise ValueError(f"cameras must be among {', '.join(available) or 'none'}, got {missing or 'none'}")
    names = cameras or tuple(available)
    sets = {name: [within(h5py, view, name + _IMAGE) for view in views] for name in names}
    lengths = [len(one) for one in sets[names[0]]]
    total = 0
    for name, found in sets.items():
        for demo, one, length in zip(demos, found, lengths, strict=True):
            whole = isinstance(one, h5py.Dataset) and one.dtype == np.uint8 and one.ndim == 4
            if not whole or one.external or one.is_virtual or len(one) != length:
                raise ValueError(
                    f"{demo}/obs/{name}{_IMAGE} must be uint8 ({length}, height, width, 3), kept in the file"
                )
            total += int(one.size)
    if total > _MAX_BYTES:
        raise ValueError(
            f"its frames must take at most {size_of(_MAX_BYTES)}, got {size_of(total)}: set demonstrations"
        )
    check_expanded(total, path.stat().st_size, "its frames", "set demonstrations, the number that is read")
    return {name: np.concatenate([one[()] for one in found]) for name, found in sets.items()}, lengths


@register("environment", "recipes")
@dataclass(frozen=True)
class RecipesSpec(ImageEnvironment):
    """One set of images under recipes A and B of Social-JEPA, or others."""

    recipes: tuple[str, ...] = ("social-a", "social-b")
    """Settings of views by name, one for each observer."""
    size: int = 0
    """Side of the views in pixels; 0 goes by the images, at most what the recipe says."""
    split: str | None = None
    """Part of the data, where it has parts; train by default."""
    compare: str = "augmented"
    """What agents are compared on: augmented (one view of each recipe) or whole images."""

    def observed(self) -> tuple[Observer, ...]:
        """The same images with the views of each recipe."""
        from isojepa.data.images.source import open_images  # libraries of others, only where needed

        choose("compare", self.compare, dict.fromkeys(("augmented", "whole")))
        check_count("size", self.size, 0)
        if not self.data:
            raise ValueError("data must say where the pictures are, got nothing")
        pictures = open_images(Path(self.data), split=self.split)
        return tuple(
            self._observer(name, number, pictures) for number, name in enumerate(dict.fromkeys(self.recipes))
        )

    def _observer(self, name: str, number: int, pictures: ImageSet) -> Observer:
        views = Views.named(name)
        side = self.size or min(views.global_size, shorter_side(pictures))
        views = replace(views, global_size=side, local_size=min(views.local_size, side))
        numbers = torch.arange(len(pictures))
        compared = None
        if self.compare == "augmented":  # crops of the two recipes differ, as the recipes themselves do
            compared = Augmented(pictures, views, seed=self.seed * 1009 + number)
        return Observer(name, pictures, tuple(numbers.tolist()), numbers, views, compared)
