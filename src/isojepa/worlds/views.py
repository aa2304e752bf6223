"""The batches of somebody's DataLoader as ours: which of its parts are views, and which is a label."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from isojepa.worlds.batch import Batch

NAMES = ("x", "x_next", "z", "z_next", "labels")


def as_batch(given: Any) -> Batch:
    """A batch of two views or more.

    Understood are (x, x_next), dicts with x and x_next, (views, label) with a list of views, and a `Batch`.

    Raises:
        ValueError: it is none of these; a view and a label are not two views.
    """
    if isinstance(given, Batch):
        return given
    if isinstance(given, Mapping):
        return _by_name(given)
    if isinstance(given, list | tuple) and len(given) > 1:
        if isinstance(given[0], list | tuple) and all(isinstance(view, Tensor) for view in given[0]):
            return Batch(tuple(map(_plain, given[0])), labels=given[1])
        if all(isinstance(part, Tensor) for part in given):
            return _of_tensors(given)
    raise ValueError(
        "a DataLoader must give pairs (x, x_next), dicts with x and x_next, or (views, label) with a list of "
        f"views, got {_told(given)}"
    )


def _of_tensors(given: Any) -> Batch:
    first, second = given[:2]
    if first.shape == second.shape and len(given) == 2 and first.ndim > 1:
        return Batch((_plain(first), _plain(second)))
    if first.shape == second.shape and len(given) == 3 and given[2].ndim == 1 and first.ndim > 1:
        return Batch((_plain(first), _plain(second)), labels=given[2])
    raise ValueError(
        f"a DataLoader must give two views of each state, got {_told(given)}: with one view and a label, let "
        "the dataset give (augment(x), augment(x)), or pairs of neighbours in time, (x, x_next)"
    )


def _by_name(given: Mapping[Any, Any]) -> Batch:
    strange = sorted(set(map(str, given)) - set(NAMES))
    if strange or "x" not in given or "x_next" not in given:
        raise ValueError(
            "a DataLoader's dicts must have x and x_next, and where known z, z_next and labels, got "
            f"{', '.join(map(str, given))}"
        )
    z = (_plain(given["z"]), _plain(given["z_next"])) if "z" in given and "z_next" in given else None
    return Batch((_plain(given["x"]), _plain(given["x_next"])), z=z, labels=given.get("labels"))


def _plain(view: Any) -> Tensor:
    if not isinstance(view, Tensor):
        raise ValueError(f"a view must be a tensor (batch, ...), got {type(view).__name__}")
    return view.float() if view.dtype == torch.float64 else view


def _told(given: Any) -> str:
    """Kinds and shapes, for messages."""
    if isinstance(given, list | tuple):
        return f"({', '.join(map(_told, given[:4]))}{', ...' if len(given) > 4 else ''})"
    return f"a tensor {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
