"""Arguments that all processes take, checked the same way."""

import math
import numbers
from collections.abc import Sequence
from typing import Any


def check_dim(dim: int) -> int:
    """A number of coordinates: a positive integer."""
    if not _whole(dim):
        raise ValueError(f"dim must be a positive integer, got {dim!r}")
    return int(dim)


def check_count(n: int) -> int:
    """A number of samples or steps: a positive integer."""
    if not _whole(n):
        raise ValueError(f"the number of samples must be a positive integer, got {n!r}")
    return int(n)


def _whole(value: Any) -> bool:
    return isinstance(value, numbers.Real) and 1 <= float(value) < math.inf and float(value).is_integer()


def check_lag(lag: float) -> float:
    """A time between two views: positive and finite."""
    if not (isinstance(lag, numbers.Real) and 0 < float(lag) < math.inf):
        raise ValueError(f"lag must be positive and finite, got {lag!r}")
    return lag


def check_rho(rho: float | Sequence[float], dim: int) -> float | tuple[float, ...]:
    """A correlation in (0, 1), or one per coordinate."""
    if hasattr(rho, "tolist"):  # an array or tensor
        rho = rho.tolist()
    given = rho if isinstance(rho, Sequence) and not isinstance(rho, str) else (rho,)
    for value in given:
        if not isinstance(value, numbers.Real):
            raise ValueError(f"rho must be a number or one per dimension, got {rho!r}")
    if isinstance(rho, Sequence):
        values = tuple(float(r) for r in rho)
        if len(values) != dim:
            raise ValueError(f"rho must have one value or {dim}, one per dimension, got {len(values)}")
    else:
        values = (float(rho),)
    for value in values:
        if not 0 < value < 1:
            raise ValueError(f"rho must lie in (0, 1), got {value}")
    return values if isinstance(rho, Sequence) else values[0]
