"""Data that users bring to `fit` and `certify`, as a source: pairs of arrays, datasets and DataLoaders.

    (x, x_next)              two arrays or tensors, (states, ...) each: `Arrays`
    {"x": ..., "x_next": ...}  the same by name; also z and z_next, the latents, and labels
    a DataLoader or Dataset  whose items are such pairs, such dicts, or (views, label) with a list of views

A single view with a label has nothing that is alike: it is refused, with what to do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from isojepa.worlds.arrays import Arrays
from isojepa.worlds.loaders import Loaded, Streamed, plain_order
from isojepa.worlds.source import Source, check_source
from isojepa.worlds.views import NAMES

_TOGETHER = 64  # items of a stream that are put together at a time


def as_source(value: Any, name: str = "world") -> Source:
    """The source itself, or one made of pairs, a dataset or a DataLoader.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> import torch
        >>> as_source((torch.zeros(10, 3), torch.ones(10, 3)))
        Arrays(10 states, views=[(3,), (3,)])
    """
    if isinstance(value, Source):
        return value
    if isinstance(value, DataLoader):
        return Loaded(value) if plain_order(value) else Streamed(value)
    if isinstance(value, Dataset):
        return as_source(DataLoader(value, batch_size=_TOGETHER), name)
    if isinstance(value, Mapping):
        return _by_name(value, name)
    if isinstance(value, list | tuple) and len(value) > 1 and all(map(_is_array, value)):
        return _pairs(value, name)
    if _is_array(value):
        raise ValueError(
            f"{name} must be pairs, (x, x_next), got one array of shape {tuple(value.shape)}: what are the "
            "two views of each state? Of a recorded path, isojepa.worlds.Observed(x) pairs the steps"
        )
    return check_source(value, name)


def own_batch(value: Any) -> int | None:
    """The batch size that a DataLoader was made with; None for everything else."""
    return value.batch_size if isinstance(value, DataLoader) else None


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _pairs(views: Sequence[Any], name: str, **more: Any) -> Arrays:
    first = views[0]
    if any(view.ndim < 2 or len(view) != len(first) for view in views):
        raise ValueError(
            f"{name} must be pairs (x, x_next) of arrays (states, ...) with equal lengths, got shapes "
            f"{', '.join(str(tuple(view.shape)) for view in views)}"
        )
    return Arrays(tuple(views), **more)


def _by_name(arrays: Mapping[Any, Any], name: str) -> Arrays:
    strange = sorted(set(map(str, arrays)) - set(NAMES))
    if strange or "x" not in arrays or "x_next" not in arrays:
        raise ValueError(
            f"{name} must be a dict with x and x_next, and where known z, z_next and labels, got "
            f"{', '.join(map(str, arrays)) or 'an empty one'}"
        )
    both = arrays.get("z"), arrays.get("z_next")
    if (both[0] is None) != (both[1] is None):
        raise ValueError(f"{name} must have z and z_next, or neither, got one")
    return _pairs(
        (arrays["x"], arrays["x_next"]),
        name,
        latents=None if both[0] is None else both,
        labels=arrays.get("labels"),
    )
