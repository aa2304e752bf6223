"""smallNORB: toys photographed by two cameras under 18 azimuths, 9 elevations and 6 lightings.

Its binary files come in threes, gzipped or not,

    smallnorb-...-training-dat.mat    uint8 (pictures, 2 cameras, 96, 96)
    smallnorb-...-training-cat.mat    int32 (pictures,)      category
    smallnorb-...-training-info.mat   int32 (pictures, 4)    instance, elevation, azimuth / 10°, lighting

and the same with testing, whose instances are others. A file begins with four bytes that say the type, the
number of dimensions and the size of each, of which three at least are written; all least significant first.
See LeCun, Huang & Bottou (2004).

Observers are azimuths (pictures matched by category, instance, elevation and lighting, as Social-JEPA does)
or the two cameras (matched by azimuth besides). Splits go by instance: the files' own where both are there.
"""

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from isojepa.names import choose, unknown
from isojepa.opening import check_expanded, open_plain
from isojepa.registry import register
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Stack

CATEGORIES = ("animal", "human", "plane", "truck", "car")
CAMERAS = ("left", "right")
_TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_MOST_DIMENSIONS = 8
_PARTS = ("training", "testing")
_INSTANCES = 1_000  # more than any set has; states number categories and instances


@register("environment", "smallnorb")
@dataclass(frozen=True)
class SmallNorbSpec(PictureEnvironment):
    """smallNORB's binary files: toys seen from different azimuths, or by two cameras."""

    observers: str = "azimuths"
    """Who observers are: azimuths or cameras."""
    azimuths: tuple[int, ...] = (0, 160)
    """Azimuths of the observers in degrees, from 0 to 340 in steps of 20."""
    camera: int = 0
    """The camera of observers that are azimuths: 0 or 1."""

    def observed(self) -> tuple[Observer, ...]:
        """The pictures of the training and testing files that are there."""
        choose("observers", self.observers, dict.fromkeys(("azimuths", "cameras")))
        if self.camera not in (0, 1):
            raise ValueError(f"camera must be 0 or 1, got {self.camera}")
        sets = read_sets(self.folder())
        if self.observers == "cameras":
            return tuple(_observer(sets, name, number, None) for number, name in enumerate(CAMERAS))
        return tuple(_observer(sets, f"{angle}°", self.camera, angle) for angle in self.azimuths)

    def test_states(self) -> frozenset[int] | None:
        """Those of the testing files, where the training ones are there too."""
        sets = read_sets(self.folder())
        return frozenset(sets["testing"].states.tolist()) if len(sets) == 2 else None


@dataclass(frozen=True)
class NorbSet:
    """The pictures of three files.

    Attributes:
        images: uint8 (pictures, 2, height, width).
        category: (pictures,).
        info: (pictures, 4) instance, elevation, azimuth in tens of degrees, lighting.
    """

    images: np.ndarray
    category: np.ndarray
    info: np.ndarray

    @property
    def states(self) -> np.ndarray:
        """Numbers of (category, instance)."""
        return np.asarray(self.category.astype(np.int64) * _INSTANCES + self.info[:, 0])


def read_sets(folder: Path) -> dict[str, NorbSet]:
    """The sets "training" and "testing" of a folder, those that are there.

    Raises:
        ValueError: there is none, one lacks a file, or files do not belong together.
    """
    found: dict[str, NorbSet] = {}
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
        found[part] = NorbSet(images, category, info)
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
            if not 1 <= dimensions <= _MOST_DIMENSIONS:
                raise ValueError(f"it must have 1 to {_MOST_DIMENSIONS} dimensions, got {dimensions}")
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
                    raise ValueError(f"it says it has shape {shape}, but goes on")
                return values.reshape(shape)
        except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise ValueError(f"{path} is no whole file of smallNORB: {error}") from error
    if stored - start != count:
        raise ValueError(
            f"{path} is no whole file of smallNORB: it says it has shape {shape}, but has "
            f"{stored - start} bytes in place of {count}"
        )
    return np.memmap(path, kind, "r", start, shape)


def _observer(sets: dict[str, NorbSet], name: str, camera: int, azimuth: int | None) -> Observer:
    """Pictures of one camera, of one azimuth or of all."""
    images, labels, states, keys = [], [], [], []
    for found in sets.values():
        degrees = 10 * found.info[:, 2]
        if azimuth is not None and azimuth not in degrees:
            known = map(str, np.unique(degrees))
            raise ValueError(unknown("azimuth", str(azimuth), known))
        rows = np.arange(len(degrees)) if azimuth is None else np.flatnonzero(degrees == azimuth)
        images.append(found.images[:, camera] if azimuth is None else found.images[rows, camera])
        labels.append(np.asarray(found.category[rows]))
        states.append(found.states[rows])
        instance, elevation, angle, lighting = np.asarray(found.info[rows]).T.tolist()
        others = [elevation, lighting] + ([angle] if azimuth is None else [])
        keys += list(zip(labels[-1].tolist(), instance, *others, strict=True))
    one = images[0] if len(images) == 1 else np.concatenate(images)
    pictures = Stack(one, np.concatenate(labels), CATEGORIES)
    return Observer(name, pictures, tuple(keys), torch.from_numpy(np.concatenate(states)))


def _path(folder: Path, part: str, kind: str) -> Path | None:
    ends = (f"{part}-{kind}.mat", f"{part}-{kind}.mat.gz")
    found = sorted(entry for entry in folder.iterdir() if entry.name.lower().endswith(ends))
    plain = [entry for entry in found if entry.suffix != ".gz"] or found  # expanded ones are mapped
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
