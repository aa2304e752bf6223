"""Arguments that all processes take, checked the same way."""

from collections.abc import Sequence

from isojepa import arguments
from isojepa.names import shown


def check_dim(dim: int) -> int:
    """A number of coordinates: a positive integer."""
    return arguments.check_count("dim", dim)


def check_count(n: int) -> int:
    """A number of samples or steps: a positive integer."""
    return arguments.check_count("the number of samples", n)


def check_lag(lag: float) -> float:
    """A time between two views: positive and finite."""
    arguments.check_number("lag", lag, "be positive and finite", lambda value: value > 0)
    return lag


def check_rho(rho: float | Sequence[float], dim: int) -> float | tuple[float, ...]:
    """A correlation in (0, 1), or one per coordinate."""
    if hasattr(rho, "tolist"):  # an array or tensor
        rho = rho.tolist()
    given = rho if isinstance(rho, Sequence) and not isinstance(rho, str) else (rho,)
    for value in given:
        if arguments.as_float(value) is None:
            raise ValueError(f"rho must be a number or one per dimension, got {shown(rho)}")
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
