"""Whose thumbnail is drawn first on a map: an order in which every beginning is spread over the whole map."""

import numpy as np

from isojepa.validation import validate_types


@validate_types
def spread_order(points: np.ndarray) -> np.ndarray:
    """The order of farthest points: the one nearest to the mean, then always the farthest from all before.

    Placing items in this order while there is room shows the outlines of a map with a few and fills it
    with more, whatever the zoom.

    Args:
        points: (n, 2) finite numbers.

    Returns:
        (n,) each number once.

    Raises:
        ValueError: points are no such thing.

    Example:
        >>> spread_order(np.array([[0.0, 0.0], [0.1, 0.0], [-4.0, 0.0], [5.0, 0.0]])).tolist()
        [1, 3, 2, 0]
    """
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError(f"points must be finite numbers (n, 2), got shape {points.shape}")
    order = np.empty(len(points), dtype=np.int64)
    if not len(points):
        return order
    distance = np.full(len(points), np.inf)
    current = int(np.square(points - points.mean(0)).sum(1).argmin())
    for place in range(len(points)):
        order[place] = current
        distance = np.minimum(distance, np.square(points - points[current]).sum(1))
        distance[current] = -1.0  # below what any other has, equal points included
        current = int(distance.argmax())
    return order
