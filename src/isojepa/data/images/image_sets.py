"""Sets of images: stacks in memory, splits and parts, shuffled patches or pixels.

Images: a finite set of decoded images, by number, as views are cut from them and probes read them.

`ImageSet` is what folders, files of arrays, shards and data sets of others are turned into; `Stack` is the
simplest of them, an array of images of one size, memory-mapped or not.

Parts of a set of images.

A part keeps mean and standard deviation from the whole set, so that both are normalized alike. Splits go by
state: what shows one thing, such as the skin tones of one emoji, lies on one side.

Images of which the spatial structure is destroyed: patches or pixels change places.

Social-JEPA's ablations shuffle patches and pixels and do not say whether all images are shuffled alike.
The default is a permutation for each image: no position means anything any more, and what is left of a
image are its patches, or its colors. `fixed` takes one permutation for all images: neighbors are torn
apart, but each place still means the same in every image, and nothing is lost to a network without
convolutions. Permutations follow from the seed and the image's number; the same image is always shuffled
the same way. Views are cut from shuffled images.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.data.observers import held_out_rows
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

_MEASURED = 2_048  # images whose pixels give the mean and the standard deviation


class ImageSet(Protocol):
    """A finite set of decoded images.

    Attributes:
        channels: 1 for grey, 3 for color; of every image.
        shape: (channels, height, width) where all images have one size; else None.
        labels: (images,) int64 where there are any.
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
        """The images of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        ...


class Stack:
    """Pictures of one size in one array, memory-mapped or not; only the rows asked for are read.

    Args:
        images: uint8, (images, height, width), (images, height, width, 1 or 3) or
            (images, 1 or 3, height, width).
        labels: (images,) whole numbers.
        classes: names of the labels, in their order; the numbers by default.

    Raises:
        ValueError: shapes or types are others.

    Example:
        >>> pictures = Stack(np.zeros((10, 28, 28), dtype=np.uint8), labels=np.arange(10) % 2)
        >>> len(pictures), pictures.shape, pictures.classes
        (10, (1, 28, 28), ('0', '1'))
    """

    @validate_types
    def __init__(
        self,
        images: np.ndarray | Tensor,
        labels: np.ndarray | Tensor | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self._images = images.numpy() if isinstance(images, Tensor) else images
        self._order, self.shape = _layout(self._images)
        self.channels = self.shape[0]
        self.labels, self.classes = _named_labels(labels, len(self._images), classes)
        self.skipped = 0
        self.mean, self.std = moments(self)

    def __len__(self) -> int:
        return len(self._images)

    def read(self, ids: Tensor) -> Tensor:
        """The images of given numbers, uint8 (n, channels, height, width)."""
        numbers = ids.numpy()
        order = np.argsort(numbers, kind="stable")  # a file is read front to back
        rows = np.empty((len(numbers), *self._images.shape[1:]), dtype=np.uint8)
        rows[order] = self._images[numbers[order]]
        stack = torch.from_numpy(rows)
        return {"hw": stack.unsqueeze(1), "hwc": stack.movedim(-1, 1), "chw": stack}[self._order]

    def __repr__(self) -> str:
        return f"Stack({len(self)} pictures of {self.shape}, {len(self.classes)} classes)"


def _named_labels(
    labels: np.ndarray | Tensor | None, size: int, classes: Sequence[str] | None
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Labels as int64 and the names of all of them.

    Raises:
        ValueError: there are not as many as images, they are no whole numbers, or one has no name.
    """
    if labels is None:
        return None, ()
    numbers = torch.as_tensor(np.ascontiguousarray(labels))
    if numbers.shape != (size,) or numbers.is_floating_point() or numbers.is_complex():
        raise ValueError(
            f"labels must be {size} whole numbers, one for each picture, got shape {tuple(numbers.shape)} "
            f"of {numbers.dtype}"
        )
    numbers = numbers.long()
    most = int(numbers.max()) if size else -1
    if size and int(numbers.min()) < 0:
        raise ValueError(f"labels must not be negative, got {int(numbers.min())}")
    names = tuple(map(str, range(most + 1))) if classes is None else tuple(classes)
    if most >= len(names):
        raise ValueError(f"labels must be below the {len(names)} classes, got {most}")
    return numbers, names


def moments(pictures: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, for values in [0, 1], from some thousand images."""
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
    return tuple(mean.tolist()), tuple(
        std.clamp_min(1 / 255).tolist()
    )  # a constant channel: no division by 0


def _layout(images: np.ndarray) -> tuple[str, tuple[int, int, int]]:
    """How the axes of an array of images are ordered, and (channels, height, width)."""
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


_LUMA = (0.299, 0.587, 0.114)  # of ITU-R 601, by which Pillow turns colors into grey


class ImageSubset:
    """Some of the images of a set, in a given order, as grey or as color.

    Args:
        pictures: the whole.
        ids: (n,) numbers of the images; None for all.
        channels: 1 or 3, to which images are turned; None as they are.

    Raises:
        ValueError: a number is none of an image, or channels are neither 1 nor 3.

    Example:
        >>> from isojepa.data.images import Stack
        >>> grey = torch.arange(4, dtype=torch.uint8).view(4, 1, 1)
        >>> pictures = Stack(grey, labels=torch.tensor([0, 1, 0, 1]))
        >>> part = ImageSubset(pictures, torch.tensor([3, 0]), channels=3)
        >>> part.read(torch.tensor([0, 1])).tolist(), part.labels.tolist()
        ([[[[3]], [[3]], [[3]]], [[[0]], [[0]], [[0]]]], [1, 0])
    """

    @validate_types
    def __init__(self, pictures: ImageSet, ids: Tensor | None = None, channels: int | None = None) -> None:
        ids = torch.arange(len(pictures)) if ids is None else ids.long()
        if ids.ndim != 1 or not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= len(pictures):
            raise ValueError(
                f"ids must be numbers of pictures, one at least, each from 0 to {len(pictures) - 1}, got "
                f"{'none' if not ids.numel() else f'some from {int(ids.min())} to {int(ids.max())}'}"
            )
        if channels not in (None, 1, 3):
            raise ValueError(f"channels must be 1 or 3, got {channels}")
        self._whole, self._ids = pictures, ids
        self.channels = pictures.channels if channels is None else channels
        self.shape = None if pictures.shape is None else (self.channels, *pictures.shape[1:])
        self.labels = None if pictures.labels is None else pictures.labels[ids]
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = (self._turned_moment(value) for value in (pictures.mean, pictures.std))
        self.skipped = pictures.skipped

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The images of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        content = self._whole.read(self._ids[ids])
        return (
            self._turned(content)
            if isinstance(content, Tensor)
            else [self._turned(picture) for picture in content]
        )

    def __repr__(self) -> str:
        return f"ImageSubset({len(self)} of {self._whole!r}, channels={self.channels})"

    def _turned(self, picture: Tensor) -> Tensor:
        if picture.shape[-3] == self.channels:
            return picture
        if self.channels == 3:
            return picture.expand(*picture.shape[:-3], 3, *picture.shape[-2:]).contiguous()
        weights = torch.tensor(_LUMA).view(3, 1, 1)
        return (picture.float() * weights).sum(-3, keepdim=True).round().to(torch.uint8)

    def _turned_moment(self, value: Sequence[float]) -> tuple[float, ...]:
        if len(value) == self.channels:
            return tuple(value)
        if self.channels == 3:
            return (value[0],) * 3
        # of grey, approximately: channels are treated as fully correlated
        return (sum(weight * entry for weight, entry in zip(_LUMA, value, strict=True)),)


@validate_types
def divide(
    pictures: ImageSet, held_out: float = 0.1, seed: int = 0, states: Tensor | Sequence[int] | None = None
) -> tuple[ImageSubset, ImageSubset]:
    """Two parts of a set, to learn from and to choose by; the same for the same seed.

    Args:
        pictures: the whole.
        held_out: the share of states that goes into the second part, in (0, 1).
        seed: any integer.
        states: (images,) which of them show one thing; each by itself by default.

    Raises:
        ValueError: the share is not in (0, 1), states are not one for each image, or are fewer than two.
    """
    groups = torch.arange(len(pictures)) if states is None else torch.as_tensor(states)
    if groups.shape != (len(pictures),):
        raise ValueError(
            f"states must be {len(pictures)} numbers, one for each picture, got {tuple(groups.shape)}"
        )
    aside = held_out_rows(groups, held_out, seed)
    return ImageSubset(pictures, (~aside).nonzero()[:, 0]), ImageSubset(pictures, aside.nonzero()[:, 0])


def fingerprint(pictures: ImageSet) -> str:
    """A short hash of a set, by which ranks verify that they have the same one.

    Of its length, sizes, mean and std, classes, labels, and the pixels of its first and last image.
    """
    ends = pictures.read(torch.tensor([0, len(pictures) - 1]))
    facts = [
        len(pictures),
        pictures.channels,
        pictures.shape,
        pictures.mean,
        pictures.std,
        list(pictures.classes),
    ]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=8)
    for picture in ends:
        digest.update(picture.contiguous().numpy().tobytes())
    if pictures.labels is not None:
        digest.update(pictures.labels.contiguous().numpy().tobytes())
    return digest.hexdigest()


class Shuffled:
    """Pictures whose square patches have changed places.

    Args:
        pictures: the whole ones.
        patch: side of a patch in pixels; 1 shuffles pixels. What is left at the right and lower edges where
            patches do not fill an image stays where it is.
        fixed: one permutation for all images of one size, in place of one for each.
        seed: any integer.
        stream: other numbers give other permutations with the same seed.

    Raises:
        ValueError: the patch is not positive, or does not fit into the images twice.

    Example:
        >>> from isojepa.data.images.image_sets import Stack
        >>> whole = Stack(torch.arange(16, dtype=torch.uint8).view(1, 4, 4))
        >>> Shuffled(whole, patch=2).read(torch.tensor([0]))[0, 0].flatten().sort().values.tolist()[:5]
        [0, 1, 2, 3, 4]
    """

    @validate_types
    def __init__(
        self, pictures: ImageSet, patch: int, *, fixed: bool = False, seed: int = 0, stream: int = 0
    ) -> None:
        self.patch = check_count("patch", patch)
        shape = pictures.shape
        if shape is not None and (shape[1] // patch) * (shape[2] // patch) < 2:
            raise ValueError(f"patch must fit into pictures of {shape[1]} × {shape[2]} twice, got {patch}")
        self._whole, self.fixed, self.seed, self.stream = pictures, fixed, seed, stream
        self.channels, self.shape = pictures.channels, shape
        self.labels, self.skipped = pictures.labels, pictures.skipped
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = pictures.mean, pictures.std  # no pixel is lost

    def __len__(self) -> int:
        return len(self._whole)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The images of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        content = self._whole.read(ids)
        rows = [self._mixed(picture, number) for picture, number in zip(content, ids.tolist(), strict=True)]
        return torch.stack(rows) if isinstance(content, Tensor) and rows else rows or content

    def __repr__(self) -> str:
        return f"Shuffled({self._whole!r}, patch={self.patch}, fixed={self.fixed})"

    def _mixed(self, picture: Tensor, number: int) -> Tensor:
        side, (channels, height, width) = self.patch, picture.shape
        down, across = height // side, width // side
        stream = ("shuffle", self.stream, -1 if self.fixed else number)
        order = torch.randperm(down * across, generator=generator(self.seed, *stream))
        inner = picture[:, : down * side, : across * side]
        patches = inner.reshape(channels, down, side, across, side).permute(1, 3, 0, 2, 4)
        moved = patches.reshape(down * across, channels, side, side)[order]
        result = picture.clone()
        result[:, : down * side, : across * side] = (
            moved.view(down, across, channels, side, side).permute(2, 0, 3, 1, 4).reshape(inner.shape)
        )
        return result
