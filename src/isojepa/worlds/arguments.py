"""Arguments that all processes take, checked the same way."""

from collections.abc import Sequence


def check_dim(dim: int) -> int:
    """A number of coordinates: a positive integer."""
    if int(dim) != dim or dim < 1:
        raise ValueError(f"dim must be a positive integer, got {dim}")
    return int(dim)


def check_count(n: int) -> int:
    """A number of samples or steps: a positive integer."""
    if int(n) != n or n < 1:
        raise ValueError(f"the number of samples must be a positive integer, got {n}")
    return int(n)


def check_rho(rho: float | Sequence[float], dim: int) -> float | tuple[float, ...]:
    """A correlation in (0, 1), or one per coordinate."""
    if hasattr(rho, "tolist"):  # an array or tensor
        rho = rho.tolist()
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
