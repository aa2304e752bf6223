r"""Dependent rows of two embeddings: successive steps, repeated states, a common clock.

Effective rows are those that are nearly independent in one of the two embeddings at least: a row of each
group of repeated states, and of these one in `memory` (`certificates.assumptions.memory`).

The shift test pairs the rows r .. n - r of one side with those of the other s steps on, |s| <= r. Of K shifts
to each side and the true one, m have a statistic as large as the true one; p = m / (K + 1) bounds the level
for every autocorrelation, random walks included (Harris 2020, arXiv:2012.06862; Yuan & Shou 2024). The
statistic is Pillai's trace, the sum of squared canonical correlations inside the window.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.align.canonical import variates_of
from isojepa.align.moments import Moments
from isojepa.certificates.assumptions.memory import measure_memory, repeated_states
from isojepa.certificates.intervals import Interval, from_blocks
from isojepa.seeds import generator

MIN_EFFECTIVE = 20  # rows; intervals of 20 blocks cover, those of 10 do not
_BLOCK = 5  # effective rows of a block
_SHIFTS = 99  # to each side; the smallest p is 1 in 100
_PER_DIRECTION, _DIRECTIONS = 10, 64  # rows for each principal direction, and directions of the statistic
_REGIONS, _REGION_ROWS = 3, 3000  # halvings into regions, rows
_BUFFER = 8  # one in so many rows, those next to a region, is left out


@dataclass(frozen=True)
class Dependence:
    """How rows of two embeddings depend on each other.

    Attributes:
        state: (n,) state of each row, numbered in order of first appearance.
        states: number of them.
        memory: states of which one is nearly independent of the next; 1 if all are.
    """

    state: np.ndarray
    states: int
    memory: int

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, ids: np.ndarray | None = None, seed: int = 0) -> "Dependence":
        """Measure it on rows (n, p), (n, q); states are searched for where no ids (n,) are given."""
        labels = repeated_states(x, y) if ids is None else ids
        if labels is None:
            state = np.arange(len(x))
        else:
            _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
            state = np.argsort(np.argsort(first))[inverse]
        states = int(state.max()) + 1
        means = [state_means(rows, state) for rows in (x, y)]
        memory = min(measure_memory(rows, None, generator(seed, "memory")) for rows in means)
        return cls(state, states, memory)

    @property
    def effective(self) -> int:
        """Rows that are nearly independent."""
        return self.states // self.memory

    @property
    def blocks(self) -> np.ndarray:
        """(states,) block of each state: 5 to 20 of successive states, long against the memory."""
        count = min(max(self.effective // _BLOCK, 5), 20)
        return np.arange(self.states) * count // self.states


def state_means(rows: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Mean of the rows of each state, (states, p)."""
    if len(rows) == state.max() + 1:
        return rows
    count = np.bincount(state)
    return np.stack([np.bincount(state, column) / count for column in rows.T], 1)


def shift_test(x: np.ndarray, y: np.ndarray) -> float:
    """p of rows (n, p), (n, q) in the order of time: that other shifts of y go with x as well.

    Example:
        >>> walk = lambda seed: np.random.default_rng(seed).normal(size=(400, 2)).cumsum(0)
        >>> shift_test(walk(0), walk(0)) < 0.02, shift_test(walk(0), walk(1)) > 0.05
        (True, True)
    """
    n = len(x)
    count = min(_SHIFTS, n // 4)
    step = max(1, n // (4 * count))
    reach = count * step
    window = _basis(x[reach : n - reach])
    scores = [
        float(((window.T @ _basis(y[reach + shift : n - reach + shift])) ** 2).sum())
        for shift in range(-reach, reach + 1, step)
    ]
    larger = sum(score >= scores[count] - 1e-12 for score in scores)
    return min(1.0, larger / (count + 1))


def _basis(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns (n, k) of centered rows: their largest principal directions."""
    u = scipy.linalg.svd(rows - rows.mean(0), full_matrices=False, overwrite_a=True)[0]
    return np.asarray(u[:, : min(max(2, len(rows) // _PER_DIRECTION), _DIRECTIONS)])


def distant_gain(
    x: np.ndarray, y: np.ndarray, correlations: np.ndarray, confidence: float = 0.95
) -> Interval:
    """What canonical variates v of y gain from u of x in regions of x far from the rows of the fit.

    The gain is the mean of v^2 - (v - r u)^2 in 8 regions, with r held out on rows of all regions: about r^2
    where the relation is the same everywhere. Repeats of a state lie in one region, or among the rows next to
    it, which are left out.

    Args:
        x, y: (n, p), (n, q).
        correlations: (k,) r of the largest canonical pairs.
        confidence: of the interval.
    """
    thin = max(1, len(x) // max(_REGION_ROWS, 4 * max(x.shape[1], y.shape[1])))
    x, y = x[::thin], y[::thin]
    n, parts = len(x), [np.arange(len(x))]
    for _ in range(_REGIONS):
        halves = []
        for part in parts:
            centered = x[part] - x[part].mean(0)
            order = part[np.argsort(centered @ scipy.linalg.eigh(centered.T @ centered)[1][:, -1])]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        parts = halves
    gains = np.empty(len(parts))
    for place, part in enumerate(parts):
        rest = np.setdiff1d(np.arange(n), part)
        apart = scipy.spatial.cKDTree(x[part]).query(x[rest])[0]
        fit = rest[np.argsort(apart)[n // _BUFFER :]]
        u, v = variates_of(Moments.of(x[fit], y[fit]), x[part], y[part])
        guess, truth = u[:, : len(correlations)] * correlations, v[:, : len(correlations)]
        gains[place] = (truth**2 - (truth - guess) ** 2).mean()
    left_out = (gains.sum() - gains) / (len(parts) - 1)
    return from_blocks(float(gains.mean()), left_out, confidence)
