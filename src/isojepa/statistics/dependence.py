r"""Dependent rows of two embeddings: successive steps, repeated states, a common clock.

Effective rows are those that are nearly independent in one of the two embeddings at least: a row of each
group of repeated states, and of these one in `memory` (`statistics.memory`).

The statistic of the shift test (`statistics.nulls`) is Pillai's trace, the sum of squared canonical
correlations inside the window.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory, repeated_states
from isojepa.statistics.nulls import PairingPlan

MIN_EFFECTIVE = 20  # rows; intervals of 20 blocks cover, those of 10 do not
_BLOCK = 5  # effective rows of a block
_PER_DIRECTION, _DIRECTIONS = 10, 64  # rows for each principal direction, and directions of the statistic


@dataclass(frozen=True)
class RowDependence:
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
    def of(
        cls, x: np.ndarray, y: np.ndarray, ids: np.ndarray | None = None, seed: int = 0
    ) -> "RowDependence":
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
    plan = PairingPlan.shifts(len(x))
    if plan is None:
        return 1.0
    window = _basis(x[plan.rows])
    return plan.p_value(
        np.array([((window.T @ _basis(y[partners])) ** 2).sum() for partners in plan.partners()])
    )


def _basis(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns (n, k) of centered rows: their largest principal directions."""
    u = scipy.linalg.svd(rows - rows.mean(0), full_matrices=False, overwrite_a=True)[0]
    return np.asarray(u[:, : min(max(2, len(rows) // _PER_DIRECTION), _DIRECTIONS)])
