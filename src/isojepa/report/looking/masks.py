"""Where attention is: the fewest patches that hold a given share of it (Figure 13 of LeJEPA)."""

import numpy as np

from isojepa.validation import check_number, validate_types


@validate_types
def kept_mass(weights: np.ndarray, share: float = 0.6) -> np.ndarray:
    """The largest weights of each map that together are at least a share of its sum.

    Args:
        weights: (..., height, width), none negative; scaled as one likes.
        share: in (0, 1].

    Returns:
        Of the same shape, whether a place is among the fewest that hold the share; of equal weights the
        first in reading order. Where all weights are 0, none is.

    Raises:
        ValueError: a weight is negative or not finite, or the share is out of its range.

    Example:
        >>> kept_mass(np.array([[0.5, 0.1], [0.3, 0.1]]), 0.7).tolist()
        [[True, False], [True, False]]
    """
    share = check_number("share", share, "lie in (0, 1]", lambda value: 0 < value <= 1)
    if weights.ndim < 2 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"weights must be finite, not negative (..., height, width), got {weights.shape}")
    flat = weights.reshape(*weights.shape[:-2], -1).astype(np.float64)
    order = np.argsort(-flat, axis=-1, kind="stable")
    ranked = np.take_along_axis(flat, order, -1)
    before = np.cumsum(ranked, -1) - ranked
    target_mass = share * flat.sum(-1, keepdims=True)
    rounding = 1 - 1e-12  # a sum that reaches the share but for its last bit has reached it
    selected = np.zeros(flat.shape, dtype=bool)
    np.put_along_axis(selected, order, before < target_mass * rounding, -1)
    return selected.reshape(weights.shape)
