"""How lines of an audit are judged by an interval, and directions of actions in words."""

import numpy as np

from isojepa.certificates.assumptions.line import FAILS, HOLDS, UNCLEAR
from isojepa.statistics.intervals import Interval, from_blocks

BLOCKS = 20
_HEAVY = 0.2  # share of the largest weight from which a part of a direction is named


def judge_interval(interval: Interval, threshold: float) -> str:
    """The verdict on a value whose interval is known: clear only where all of it lies on one side."""
    return FAILS if interval.low > threshold else HOLDS if interval.high <= threshold else UNCLEAR


def blocks_of(numbers: np.ndarray) -> list[np.ndarray]:
    """Which rows are left when each of some blocks of episodes is left out: masks (rows,).

    Args:
        numbers: (rows,) of the episode of each row.
    """
    _, place = np.unique(numbers, return_inverse=True)
    count = min(BLOCKS, int(place.max()) + 1)
    return [place % count != block for block in range(count)] if count > 1 else []


def jackknifed(values: list[float], whole: float, confidence: float) -> Interval:
    """The interval of a statistic from those without each block; of no width where there are no blocks."""
    return (
        from_blocks(whole, np.array(values), confidence) if len(values) > 1 else Interval(whole, whole, whole)
    )


def direction(weights: np.ndarray, noun: str = "action") -> str:
    """A direction in words: its heavy parts, e.g. "0.71 action 0 - 0.71 action 1".

    Example:
        >>> direction(np.array([0.6, -0.8, 0.01]))
        '0.60 action 0 - 0.80 action 1'
    """
    weights = weights if weights[np.abs(weights).argmax()] >= 0 or (weights > 0).any() else -weights
    heavy = np.flatnonzero(np.abs(weights) >= _HEAVY * np.abs(weights).max())
    if len(heavy) == 1:
        return f"{noun} {heavy[0]}"
    words = ""
    for at in heavy[:6]:
        sign = "-" if weights[at] < 0 else "+" if words else ""
        words += f" {sign} " if words else sign
        words += f"{abs(weights[at]):.2f} {noun} {at}"
    return words + (" ..." if len(heavy) > 6 else "")
