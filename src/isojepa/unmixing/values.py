"""Values of one axis as people hand them in, checked before use: alone, in pairs, or along paths."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isojepa.certificates.embeddings import check_dense
from isojepa.validation import short_repr

LEAST = 1000  # values
_LEVELS = 200  # distinct values
_ATOM = 0.05  # largest share of one value
_LARGEST = 1e100  # squares of larger numbers leave float64


def read_pairs(y: Any, y_next: Any, paths: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """First and second values (n,) of pairs, or the values alone.

    Args:
        y, y_next: (n,) each.
        paths: in place of both: (steps, paths), or a list of (steps_i,).

    Raises:
        ValueError: they are not that, not finite, or too few.
    """
    if (y is None) == (paths is None) or (paths is not None and y_next is not None):
        given = [name for name, part in (("y", y), ("y_next", y_next), ("paths", paths)) if part is not None]
        raise ValueError(f"give y, or y and y_next, or paths, got {' and '.join(given) or 'none'}")
    if paths is None:
        first, second = _column("y", y), None if y_next is None else _column("y_next", y_next)
        if second is not None and len(second) != len(first):
            raise ValueError(f"y and y_next must be equally long, got {len(first)} and {len(second)}")
    else:
        # paths one after the other, so that a block is a stretch of time
        listed = isinstance(paths, Sequence) and not isinstance(paths, str)
        block = None if listed else as_numbers("paths", paths)
        if block is not None and block.ndim not in (1, 2):
            raise ValueError(f"paths must be (steps, paths) or a list of (steps,), got shape {block.shape}")
        parts = [_column(f"paths[{at}]", part) for at, part in enumerate(paths)] if block is None else []
        parts = parts if block is None else list(np.atleast_2d(block.T))
        first = np.concatenate([part[:-1] for part in parts]) if parts else np.zeros(0)
        second = np.concatenate([part[1:] for part in parts]) if parts else np.zeros(0)
    if len(first) < LEAST:
        what = "values" if second is None else "pairs"
        raise ValueError(f"at least {LEAST} {what} are needed to undo a warp, got {len(first)}")
    return first, second


def _column(name: str, values: Any) -> np.ndarray:
    column = as_numbers(name, values)
    if column.ndim != 1:
        raise ValueError(f"{name} must be (n,), one axis at a time, got shape {column.shape}")
    return column


def as_numbers(name: str, values: Any) -> np.ndarray:
    """Finite numbers of any shape, float64.

    Raises:
        ValueError: they are something else.
    """
    if isinstance(values, torch.Tensor):
        check_dense(name, values)
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    try:
        given = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        given = np.array(None)
    if given.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {short_repr(values)}")
    found: np.ndarray = given.astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(found)).sum())} NaN or Inf")
    check_size(name, found)
    return found


def check_size(name: str, values: np.ndarray) -> None:
    """That the squares of finite numbers are numbers.

    Raises:
        ValueError: one of them is too large.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST:
        raise ValueError(f"{name} must be below 1e100 in size, got {largest:.3g}")


def check_levels(values: np.ndarray) -> None:
    """That the values are many different ones.

    Raises:
        ValueError: they are all equal, few, or one of them is too frequent.
    """
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        raise ValueError(f"y must vary, got {len(values)} times {values[0]:.6g}")
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] > ordered[:-1])))
    if len(starts) < _LEVELS:
        raise ValueError(
            f"y has {len(starts)} distinct values: at least {_LEVELS} are needed, for a discrete latent has "
            "no diffusion to undo a warp by"
        )
    counts = np.diff(np.append(starts, len(ordered)))
    most = int(counts.argmax())
    if counts[most] > _ATOM * len(ordered):
        raise ValueError(
            f"y must be continuous, got the value {ordered[starts[most]]:.6g} in "
            f"{counts[most] / len(ordered):.1%} of the rows, above {_ATOM:.0%}: what is flat cannot be undone"
        )


def tail_index(values: np.ndarray) -> tuple[float, float]:
    """Hill's (1975) estimate of the index of the tails, from the sqrt(n) values farthest from the median.

    Below 2 a law has no variance.

    Returns:
        The estimate and its standard error.
    """
    away = np.abs(values - np.median(values))
    count = math.isqrt(len(values))
    farthest = np.sort(np.partition(away, -count - 1)[-count - 1 :])
    mean = float(np.log(farthest[1:] / farthest[0]).mean())
    index = 1 / max(mean, 1e-300)
    return index, index / math.sqrt(count)
