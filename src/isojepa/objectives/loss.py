"""What an objective returns: a total to minimise, with named terms.

Losses of views (view, batch, dim) always have

total = weight * regularizer + (1 - weight) * alignment
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.arguments import check_number


@dataclass(frozen=True)
class Loss:
    """The total to minimise, with its named terms (detached from nothing: they carry gradients)."""

    total: Tensor
    terms: Mapping[str, Tensor]


class Regularizer(Protocol):
    """Keeps embeddings from collapsing: (..., batch, dim) to a scalar."""

    def __call__(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor: ...


def combine(weight: float, alignment: Tensor, regularizer: Tensor, **more: Tensor) -> Loss:
    """Join the two terms by the one convention of the package."""
    total = weight * regularizer + (1 - weight) * alignment
    return Loss(total, {"alignment": alignment, "regularizer": regularizer, **more})


def check_weight(weight: float) -> float:
    """Return the weight, or say that it must lie in [0, 1]."""
    return check_number("weight", weight, "lie in [0, 1]", lambda value: 0 <= value <= 1)


def check_views(views: Any, generator: Any = None) -> Tensor:
    """Return the views, or say what is wrong with their shape, or with how the loss was called.

    Args:
        views: what was given as the embeddings (view, batch, dim).
        generator: what was given after them.
    """
    if isinstance(generator, Tensor) or isinstance(views, list | tuple):
        raise ValueError(
            f"views must be one tensor (view, batch, dim), got {_told(views, generator)}: "
            "write loss(torch.stack((h, h_next)))"
        )
    if not isinstance(views, Tensor) or views.ndim != 3 or views.shape[0] < 2:
        raise ValueError(
            "views must be (view, batch, dim) with at least 2 views, got "
            f"{_told(views)}: of two embeddings (batch, dim), torch.stack((h, h_next))"
        )
    check_floats("views", views)
    check_generator(generator)
    check_samples(views)
    return views


def check_floats(name: str, x: Any) -> Tensor:
    """Return a tensor of floating point numbers that has data, or say what it is."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} must be a tensor of floating point numbers, got {kind}")
    if x.is_meta or x.layout is not torch.strided:
        told = "one without data" if x.is_meta else x.layout
        raise ValueError(f"{name} must be a dense tensor of plain numbers, got {told}")
    return x


def check_alone(embeddings: Any, generator: Any) -> None:
    """Say how to call a regularizer that was given two embeddings."""
    if isinstance(generator, Tensor) or isinstance(embeddings, list | tuple):
        raise ValueError(
            f"embeddings must be one tensor (..., batch, dim), got {_told(embeddings, generator)}: of two "
            "views, write regularizer(torch.stack((h, h_next))), which is the mean over both"
        )
    check_generator(generator)


def check_generator(generator: Any) -> None:
    """Say that what is drawn comes from a generator of torch."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator or None, got {type(generator).__name__}")


def _told(*given: Any) -> str:
    """Shapes of tensors, kinds of other things, for messages."""
    parts = [part for part in given if part is not None]
    told = [
        f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__ for part in parts
    ]
    return " and ".join(told)


def at_least_float32(x: Tensor) -> Tensor:
    """Sums over a batch need more digits than half precision has."""
    return x if x.dtype == torch.float64 else x.float()


def check_samples(embeddings: Tensor) -> Tensor:
    """Return the embeddings, or say that a statistic needs at least two samples, on all ranks together."""
    check_floats("embeddings", embeddings)
    known = embeddings.ndim >= 2 and embeddings.shape[-1] >= 1
    if not known or ranks.count(embeddings.shape[-2], embeddings.device) < 2:
        raise ValueError(
            f"embeddings must be (..., batch, dim) with at least 2 samples, got {tuple(embeddings.shape)}"
        )
    return embeddings
