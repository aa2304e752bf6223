r"""Dependence of the rows of two embeddings: successive steps, repeated states, a common clock.

Rows of one state count as one, their mean. Where both embeddings have a memory, a score of them varies as
if there were

    n_eff = n / (1 + 2 sum_k rho_x(k) rho_y(k))

independent rows, with rho the autocorrelation of the slowest direction of each side, found on one half of
the rows and read on the other. It is centered by the median of the half where it was found, so that a
wandering level stays visible. The sum ends at the first lag of five times the correlation time so far.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory, repeated_states

MIN_EFFECTIVE = 20  # rows; intervals of 20 blocks cover, those of 10 do not
_BLOCK = 5  # nearly independent rows of a block
_SLOW_LAG = 3  # steps over which the slowest direction moves least
_PER_DIRECTION = 10  # rows for each principal direction that is searched
_CLIPPED = 6.0  # standard deviations at which rows are cut before the search
_WINDOW = 5.0  # correlation times over which autocorrelations are summed


@dataclass(frozen=True)
class RowDependence:
    """Dependence of the rows of two embeddings.

    Attributes:
        state: (n,) state of each row, numbered in order of first appearance.
        states: number of them.
        memory: states of which one is nearly independent of the next; 1 if all are.
        effective: number of independent states that scores of the two embeddings vary like.
    """

    state: np.ndarray
    states: int
    memory: int
    effective: int

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
        means = state_means(x, state), state_means(y, state)
        memory = min(measure_memory(rows, None, generator(seed, "memory")) for rows in means)
        return cls(state, states, memory, states if memory == 1 else effective_rows(*means))

    @property
    def blocks(self) -> np.ndarray:
        """(states,) block of each state: 5 to 20 of successive states, long against the memory."""
        count = min(max(self.states // self.memory // _BLOCK, 5), 20)
        return np.arange(self.states) * count // self.states


def effective_rows(x: np.ndarray, y: np.ndarray) -> int:
    """Number of independent rows that scores of rows (n, p), (n, q) vary like; at least 1.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(2, 2000, 2))
        >>> paths = scipy.signal.lfilter([1], [1, -0.9], noise, axis=1)
        >>> 100 < effective_rows(*paths) < 400  # 2000 / (1 + 2 * 0.81 / 0.19) = 210
        True
    """
    lags = max(len(x) // 4, 1)
    products = np.ones(lags)
    for rows in (x, y):
        halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        slow = [_slow_autocorrelation(*halves, lags), _slow_autocorrelation(*halves[::-1], lags)]
        products = products * np.mean(slow, 0)
    tau = 1.0
    for lag, sums in enumerate(1 + 2 * np.cumsum(products), start=1):
        tau = max(1.0, float(sums))
        if lag >= _WINDOW * tau:
            break
    return max(1, int(len(x) / tau))


def _slow_autocorrelation(search: np.ndarray, other: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelations (lags,) of the slowest direction of some rows, on other rows."""
    center = np.median(search, 0)
    values, vectors = scipy.linalg.eigh((search - center).T @ (search - center))
    count = min(len(values), max(2, len(search) // _PER_DIRECTION))
    varied = values[-count:] > 1e-12 * max(float(values[-1]), np.finfo(float).tiny)
    if not varied.any():
        return np.zeros(lags)
    white = vectors[:, -count:][:, varied] / np.sqrt(values[-count:][varied] / len(search))
    z = ((search - center) @ white).clip(-_CLIPPED, _CLIPPED)
    steps = z[_SLOW_LAG:] - z[:-_SLOW_LAG]
    covariance = z.T @ z + 1e-9 * np.trace(z.T @ z) / z.shape[1] * np.eye(z.shape[1])
    slowest = scipy.linalg.eigh(steps.T @ steps, covariance)[1][:, 0]
    path = ((other - center) @ white).clip(-_CLIPPED, _CLIPPED) @ slowest
    size = scipy.fft.next_fast_len(2 * len(path), real=True)
    products = scipy.fft.irfft(np.abs(scipy.fft.rfft(path, size)) ** 2, size)[: lags + 1]
    counts = len(path) - np.arange(len(products))
    correlations = products / np.maximum(counts, 1) / max(float(products[0]) / len(path), 1e-300)
    padded = np.zeros(lags)
    padded[: len(correlations) - 1] = correlations[1:]
    return padded


def state_means(rows: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Mean of the rows of each state, (states, p)."""
    if len(rows) == state.max() + 1:
        return rows
    count = np.bincount(state)
    return np.stack([np.bincount(state, column) / count for column in rows.T], 1)
