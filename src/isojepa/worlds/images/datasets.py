"""Data sets of others, torchvision's among them: whatever has a length and gives (picture, label) by number.

Items are a picture alone, (picture, label, ...) or a dict with "image" (or "img") and "label"; a picture
is one of Pillow's, an array or tensor of uint8, or a tensor of numbers in [0, 1], as torchvision's
`ToTensor` makes. All items are decoded once. What such an object holds cannot be told from outside, so
what is decoded is kept only under a `key` that the caller vouches for; without one it lies in a temporary
folder for as long as it is used.

Give the data set without random transforms: views are cut later, from the whole picture.
"""

import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.worlds.images.cache import Cached, cached
from isojepa.worlds.images.decoding import BadPicture, pillow, pixels
from isojepa.worlds.images.origins import Item, Label, Origin, lost

_PICTURES, _LABELS = ("image", "img", "pixel_values"), ("label", "labels", "fine_label", "target")


def is_dataset(value: Any) -> bool:
    """Whether something has items by number and a length, as torchvision's data sets have."""
    kind = type(value)
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not isinstance(value, str | bytes | dict)
    )


def dataset_pictures(
    dataset: Any,
    *,
    key: str | None = None,
    cache: Path | None = None,
    largest: int | None = None,
    compressed: bool = False,
) -> Cached:
    """The pictures of a data set.

    Args:
        dataset: has a length and items by number.
        key: names the data, so that they are decoded once for all runs; another one when they change.
        cache: the folder of caches, for data with a key; None for the user's own.
        largest: pixels of the shorter side to which larger pictures are reduced.
        compressed: whether they are kept as JPEG files.

    Raises:
        ValueError: it is no such thing, or none of its pictures can be read.

    Example:
        >>> pictures = dataset_pictures([(torch.zeros(3, 8, 8), 0), (torch.ones(3, 8, 8), 1)])
        >>> len(pictures), pictures.shape, pictures.classes, pictures.mean
        (2, (3, 8, 8), ('0', '1'), (0.5, 0.5, 0.5))
    """
    if not is_dataset(dataset):
        raise ValueError(f"dataset must have a length and items by number, got a {type(dataset).__name__}")
    name = type(dataset).__name__
    names = getattr(dataset, "classes", None)  # torchvision's name them so
    listed = isinstance(names, list | tuple) and all(isinstance(entry, str) for entry in names)
    origin = Origin(
        data=f"data set {name}",
        identity=["dataset", key, name, len(dataset)],
        items=lambda: _items(dataset),
        total=len(dataset),
        classes=tuple(names) if listed and names else None,
    )
    if key is not None:
        return cached(origin, cache, largest, compressed)
    folder = tempfile.TemporaryDirectory(prefix="isojepa-pictures-")
    found = cached(origin, Path(folder.name), largest, compressed)
    weakref.finalize(found, folder.cleanup)
    return found


def _items(dataset: Any) -> Iterator[Item]:
    # fetched here, in one thread: nobody promised that a data set may be read by several
    for number in range(len(dataset)):
        try:
            picture, label = _parts(dataset[number])
        except Exception as error:  # whatever somebody's reader raises for a damaged file
            yield lost(f"item {number}", f"{type(error).__name__}: {error}", 1)
            continue
        yield Item(f"item {number}", _Reader(picture), label)


def _parts(item: Any) -> tuple[Any, Label]:
    if isinstance(item, dict):
        picture = next((item[name] for name in _PICTURES if name in item), None)
        label = next((item[name] for name in _LABELS if name in item), None)
    elif isinstance(item, list | tuple):
        picture, label = item[0], item[1] if len(item) > 1 else None
    else:
        picture, label = item, None
    if isinstance(label, Tensor | np.ndarray | np.generic):
        found = np.asarray(label)
        label = found.item() if found.size == 1 else None
    return picture, label if isinstance(label, str | int) else None


class _Reader:
    """Turns one item's picture into uint8."""

    def __init__(self, picture: Any) -> None:
        self._picture = picture

    def __call__(self, largest: int | None) -> Tensor:
        picture = self._picture
        if isinstance(picture, np.ndarray | Tensor):
            picture = _image(picture)
        if not isinstance(picture, pillow().Image):
            raise BadPicture(
                f"it must be a picture of Pillow, an array or a tensor, got {type(picture).__name__}"
            )
        return pixels(picture, largest)


def _image(values: np.ndarray | Tensor) -> Any:
    """A picture of Pillow from an array (height, width[, channels]) or a tensor (channels, height, width)."""
    found = (
        values.detach().cpu()
        if isinstance(values, Tensor)
        else torch.from_numpy(np.ascontiguousarray(values))
    )
    if found.is_floating_point():
        if not bool(((found >= 0) & (found <= 1)).all()):
            raise BadPicture(
                "its numbers must lie in [0, 1]: take the normalisation out of the data set's transforms"
            )
        found = (found * 255).round().to(torch.uint8)
    if found.dtype != torch.uint8 or found.ndim not in (2, 3):
        raise BadPicture(
            f"it must be uint8 of two or three dimensions, got {found.dtype} of {tuple(found.shape)}"
        )
    if found.ndim == 3 and isinstance(values, Tensor):
        found = found.movedim(0, -1)
    if found.ndim == 3 and found.shape[-1] == 1:
        found = found[..., 0]
    if found.ndim == 3 and found.shape[-1] not in (3, 4):
        raise BadPicture(f"it must have 1, 3 or 4 channels, got {found.shape[-1]}")
    return pillow().fromarray(np.ascontiguousarray(found.numpy()))
