"""Splits of rows for held-out scores: by state, and by blocks of time with gaps between.

A row may be scored only by a fit that saw neither its state nor the rows next to it. Independent states are
split at random; rows that depend on their neighbors are split into blocks of successive rows, and a gap
around the scored block is left out of the fit.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from isojepa.seeds import numpy_generator


@dataclass(frozen=True)
class Split:
    """Rows that are fitted on and rows that are scored on.

    Attributes:
        fit, score: row numbers, in order.
    """

    fit: np.ndarray
    score: np.ndarray


def random_folds(state: np.ndarray, count: int, seed: int) -> list[Split]:
    """Splits by state, each state scored in exactly one.

    Args:
        state: (rows,) state of each row, numbered from 0.
        count: number of folds.
        seed: draws them, stream "folds".

    Raises:
        ValueError: there are fewer states than folds.
    """
    states = int(state.max()) + 1
    if states < count:
        raise ValueError(f"at least {count} states are needed for {count} folds, got {states}")
    fold = np.empty(states, np.int64)
    fold[numpy_generator(seed, "folds").permutation(states)] = np.arange(states) % count
    return [Split(np.flatnonzero(fold[state] != k), np.flatnonzero(fold[state] == k)) for k in range(count)]


def block_splits(rows: int, count: int, gap: int) -> list[Split]:
    """Splits that score each of `count` blocks of successive rows by a fit at least `gap` rows away.

    Example:
        >>> [split.fit.tolist() for split in block_splits(6, 3, 1)]
        [[3, 4, 5], [0, 5], [0, 1, 2]]
    """
    edges = np.linspace(0, rows, count + 1).astype(int)
    numbers = np.arange(rows)
    splits = []
    for start, end in pairwise(edges):
        far = (numbers < start - gap) | (numbers >= end + gap)
        splits.append(Split(numbers[far], numbers[start:end]))
    return splits
