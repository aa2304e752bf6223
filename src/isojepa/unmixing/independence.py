r"""Which axes depend on each other: HSIC of bounded waves of the values, by permutation.

The Hilbert-Schmidt criterion (Gretton et al. 2008) with the kernel sum_w cos(w (y - y')), w = 1 .. 6, of axes
of variance 1 is the sum of the squared covariances C of their sines and cosines. Values, and not ranks: in
ranks an error of an axis, however small, shows within the levels of a law of few values. The parts of C by
which a little of either axis on the other changes it are left out: angles err, and white rows have no
correlations where latents have those of chance.

One row of two is judged, and fewer where rows depend on their neighbors. The level is that of all pairs
together; where there are many, those to be judged are chosen on the other rows. A harmonic of an axis, or a
mixture of one with another latent, depends on it by its mean alone: so the same is asked of what is left of
each axis when its mean along another is taken out.
"""

from dataclasses import dataclass

import numpy as np
import torch

from isojepa.certificates.rank_dependence import rank_cosines
from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory

LEVEL = 0.01  # of all pairs together
_DRAWS = 299
_ROWS = 5_000  # that judge, at most
_LEAST = 100  # rows that judge, at least
_PAIRS = 64  # judged at most
_WAVES = np.arange(1.0, 7.0)
_SPREAD = 0.2  # of a wave, at least: of few values one may be constant but for the error of the angles
_MEANS = 16  # cosines of the ranks of one axis, by which the mean of another is taken out
_ALL = 0.05  # share of the variance below which a mean explains another axis


@dataclass(frozen=True)
class Independence:
    """Pairs of axes, (dim, dim) each.

    Attributes:
        rejected: whether independence is.
        unexplained: [i, j], for those: whether also what is left of j without its mean along i depends on i.
    """

    rejected: np.ndarray
    unexplained: np.ndarray


def judge_independence(y: np.ndarray) -> Independence:
    """Judge pairs of axes.

    Args:
        y: (n, dim) rows along the axes, in their own order.
    """
    n, dim = y.shape
    rejected, unexplained = np.zeros((dim, dim), bool), np.zeros((dim, dim), bool)
    memory = measure_memory(y, None, generator(0, "independence", "memory"))
    judged = np.arange(1, n, max(2, memory, n // _ROWS))
    if dim == 1 or len(judged) < _LEAST:
        return Independence(rejected, unexplained)
    pairs = np.stack(np.triu_indices(dim, 1), axis=1)
    if len(pairs) > _PAIRS:
        pairs = pairs[np.argsort(-_Waves(y[judged - 1], pairs).shared())[:_PAIRS]]
    for i, j in pairs[_depend(y[judged], pairs)]:
        rejected[i, j] = rejected[j, i] = True
        for one, other in ((i, j), (j, i)):
            cosines = rank_cosines(y[judged][:, [one]], generator(0, "independence", "mean"), _MEANS)[0]
            target = y[judged, other] - y[judged, other].mean()
            left = target - cosines @ (cosines.T @ target) / len(judged)
            if left.var() > _ALL * target.var():
                both = np.stack((y[judged, one], left), axis=1)
                unexplained[one, other] = _depend(both, np.array([[0, 1]]))[0]
    return Independence(rejected, unexplained)


def _depend(y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(pairs,) whether each depends beyond chance."""
    waves = _Waves(y, pairs)
    source = generator(0, "independence", "orders")
    null = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        orders = [torch.randperm(len(y), generator=source).numpy() for _ in range(y.shape[1])]
        null[draw] = waves.shared(orders).max()
    return np.asarray(waves.shared() > np.quantile(null, 1 - LEVEL))


class _Waves:
    """Sines and cosines of axes (n, dim), and what pairs of axes share of them."""

    def __init__(self, y: np.ndarray, pairs: np.ndarray) -> None:
        z = ((y - y.mean(0)) / y.std(0)).T
        angles = z[..., None] * _WAVES
        sine, cosine = np.sin(angles), np.cos(angles)
        waves = np.concatenate((sine, cosine), axis=-1)
        slopes = np.concatenate((_WAVES * cosine, -_WAVES * sine), axis=-1)
        scale = np.maximum(waves.std(1, keepdims=True), _SPREAD)
        slopes = slopes / scale
        self._values, self._pairs = (waves - waves.mean(1, keepdims=True)) / scale, pairs
        along = []
        for i, j in pairs:
            mixed = (
                self._products(slopes[i] * z[j][:, None], self._values[j]),
                self._products(self._values[i], slopes[j] * z[i][:, None]),
            )
            along.append(np.linalg.qr(np.stack([part.ravel() for part in mixed], axis=1))[0])
        self._along = along

    def shared(self, orders: list[np.ndarray] | None = None) -> np.ndarray:
        """(pairs,) squared covariances but for those left out; rows of each axis in an order of its own."""
        values = self._values
        if orders is not None:
            values = np.stack([one[order] for one, order in zip(values, orders, strict=True)])
        shared = []
        for (i, j), along in zip(self._pairs, self._along, strict=True):
            covariance = self._products(values[i], values[j])
            shared.append((covariance**2).sum() - ((covariance.ravel() @ along) ** 2).sum())
        return np.array(shared)

    @staticmethod
    def _products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(first.T @ second / len(first))
