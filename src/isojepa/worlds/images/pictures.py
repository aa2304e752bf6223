"""Pictures: a finite set of decoded images, by number, as views are cut from them and probes read them.

`Pictures` is what folders, files of arrays, shards and data sets of others are turned into; `Stack` is the
simplest of them, an array of pictures of one size, memory-mapped or not.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.seeds import generator

_MEASURED = 2_048  # pictures whose pixels give the mean and the standard deviation


class Pictures(Protocol):
    """A finite set of decoded images.

    Attributes:
        channels: 1 for grey, 3 for colour; of every picture.
        shape: (channels, height, width) where all pictures have one size; else None.
        labels: (pictures,) int64 where there are any.
        classes: names of the labels; empty where there are none.
        mean, std: of each channel, of values in [0, 1].
        skipped: how many files were left out because they could not be read.
    """

    @property
    def channels(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int, int] | None: ...

    @property
    def labels(self) -> Tensor | None: ...

    @property
    def classes(self) -> Sequence[str]: ...

    @property
    def mean(self) -> tuple[float, ...]: ...

    @property
    def std(self) -> tuple[float, ...]: ...

    @property
    def skipped(self) -> int: ...

    def __len__(self) -> int: ...

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The pictures of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        ...


class Stack:
    """Pictures of one size in one array, memory-mapped or not; only the rows asked for are read.

    Args:
        images: uint8, (pictures, height, width), (pictures, height, width, 1 or 3) or
            (pictures, 1 or 3, height, width).
        labels: (pictures,) whole numbers.
        classes: names of the labels, in their order; the numbers by default.

    Raises:
        ValueError: shapes or types are others.

    Example:
        >>> pictures = Stack(np.zeros((10, 28, 28), dtype=np.uint8), labels=np.arange(10) % 2)
        >>> len(pictures), pictures.shape, pictures.classes
        (10, (1, 28, 28), ('0', '1'))
    """

    @checked
    def __init__(
        self,
        images: np.ndarray | Tensor,
        labels: np.ndarray | Tensor | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self._images = images.numpy() if isinstance(images, Tensor) else images
        self._order, self.shape = _layout(self._images)
        self.channels = self.shape[0]
        self.labels, self.classes = named_labels(labels, len(self._images), classes)
        self.skipped = 0
        self.mean, self.std = moments(self)

    def __len__(self) -> int:
        return len(self._images)

    def read(self, ids: Tensor) -> Tensor:
        """The pictures of given numbers, uint8 (n, channels, height, width)."""
        wanted = ids.numpy()
        order = np.argsort(wanted, kind="stable")  # a file is read front to back
        rows = np.empty((len(wanted), *self._images.shape[1:]), dtype=np.uint8)
        rows[order] = self._images[wanted[order]]
        found = torch.from_numpy(rows)
        return {"hw": found.unsqueeze(1), "hwc": found.movedim(-1, 1), "chw": found}[self._order]

    def __repr__(self) -> str:
        return f"Stack({len(self)} pictures of {self.shape}, {len(self.classes)} classes)"


def named_labels(
    labels: np.ndarray | Tensor | None, size: int, classes: Sequence[str] | None
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Labels as int64 and the names of all of them.

    Raises:
        ValueError: there are not as many as pictures, they are no whole numbers, or one has no name.
    """
    if labels is None:
        return None, ()
    found = torch.as_tensor(np.ascontiguousarray(labels))
    if found.shape != (size,) or found.is_floating_point() or found.is_complex():
        raise ValueError(
            f"labels must be {size} whole numbers, one for each picture, got shape {tuple(found.shape)} "
            f"of {found.dtype}"
        )
    found = found.long()
    most = int(found.max()) if size else -1
    if size and int(found.min()) < 0:
        raise ValueError(f"labels must not be negative, got {int(found.min())}")
    names = tuple(map(str, range(most + 1))) if classes is None else tuple(classes)
    if most >= len(names):
        raise ValueError(f"labels must be below the {len(names)} classes, got {most}")
    return found, names


def moments(pictures: Pictures) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of values in [0, 1], from some thousand pictures."""
    if not len(pictures):
        raise ValueError("pictures must be one at least, got none")
    ids = torch.randperm(len(pictures), generator=generator(0, "moments"))[:_MEASURED]
    count, first, second = 0, torch.zeros(pictures.channels).double(), torch.zeros(pictures.channels).double()
    for part in ids.split(64):
        for picture in pictures.read(part):
            pixels = picture.flatten(1).double() / 255
            count += pixels.shape[1]
            first += pixels.sum(1)
            second += pixels.square().sum(1)
    mean = first / count
    std = (second / count - mean.square()).clamp_min(0).sqrt()
    return tuple(mean.tolist()), tuple(std.clamp_min(1 / 255).tolist())  # one colour: no division by 0


def _layout(images: np.ndarray) -> tuple[str, tuple[int, int, int]]:
    """How the axes of an array of pictures are ordered, and (channels, height, width)."""
    shape = images.shape
    if images.dtype != np.uint8:
        raise ValueError(f"images must be uint8, 0 to 255, got {images.dtype}")
    if not shape or not shape[0] or 0 in shape:
        raise ValueError(f"images must have pixels, got shape {shape}")
    if len(shape) == 3:
        return "hw", (1, shape[1], shape[2])
    if len(shape) == 4 and shape[3] in (1, 3):
        return "hwc", (shape[3], shape[1], shape[2])
    if len(shape) == 4 and shape[1] in (1, 3):
        return "chw", (shape[1], shape[2], shape[3])
    raise ValueError(
        "images must be (pictures, height, width), (pictures, height, width, 1 or 3) or "
        f"(pictures, 1 or 3, height, width), got {shape}"
    )
