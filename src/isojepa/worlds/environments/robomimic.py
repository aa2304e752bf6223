"""robomimic's demonstrations: a robot seen by several cameras at the same moments.

    data/demo_0/obs/agentview_image    uint8 (steps, height, width, 3), one for each camera
    data/demo_1/...

Splits go by demonstration. `tools/data robomimic` fetches a small file of ten, with two cameras. Files with
links to other files are refused.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count
from isojepa.importing import install_hint
from isojepa.opening import check_expanded, plain_file, size_of
from isojepa.registry import register
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.episodes.files import within
from isojepa.worlds.images.cache import natural
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Stack

_IMAGE = "_image"
_MOST = 8 << 30  # bytes of pictures that are read into memory


@register("environment", "robomimic")
@dataclass(frozen=True)
class RobomimicSpec(PictureEnvironment):
    """A robot's demonstrations in robomimic's HDF5 files, seen by several cameras; split by demonstration."""

    cameras: tuple[str, ...] = ()
    """Names of the cameras, e.g. agentview; by default all that the file has."""
    demonstrations: int = 0
    """How many of the first demonstrations are read; 0 for all."""

    def observed(self) -> tuple[Observer, ...]:
        """The frames of each camera."""
        check_count("demonstrations", self.demonstrations, 0)
        path = self._path()
        frames, demos = read_demonstrations(path, self.cameras, self.demonstrations)
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
        found = sorted(self.folder().glob("*.hdf5"))
        if len(found) != 1:
            raise ValueError(f"data must name one .hdf5 file, got {len(found)} in {self.data}")
        return found[0]


def read_demonstrations(
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
    known = [name.removesuffix(_IMAGE) for name in views[0] if name.endswith(_IMAGE)]
    missing = [name for name in cameras if name not in known]
    if missing or not known:
        raise ValueError(f"cameras must be among {', '.join(known) or 'none'}, got {missing or 'none'}")
    names = cameras or tuple(known)
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
    if total > _MOST:
        raise ValueError(
            f"its frames must take at most {size_of(_MOST)}, got {size_of(total)}: set demonstrations"
        )
    check_expanded(total, path.stat().st_size, "its frames", "set demonstrations, the number that is read")
    return {name: np.concatenate([one[()] for one in found]) for name, found in sets.items()}, lengths
