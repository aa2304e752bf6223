r"""Curves that are non-negative mixtures of known ones: sum_d s_d b_d(t) with s_d >= 0 and sum_d s_d = 1.

A correlation curve is such a mixture: b_d(r) = r^d over correlations, or b_d(k) = e^{-K d k} over lags. The
shares are those of least squares in the metric of a working covariance of the curve's errors, which is cheap
to have nearly right and, being only a choice of weights, cannot make the answer wrong. Uncertainty comes from
curves redrawn by a bootstrap, fitted in the same way.

Percentiles of redrawn shares are no interval where a share is 0 or 1: they gather below an estimate that is
itself below 1 by chance. So the share of the first column gets the interval of all values that a test does
not reject: for each, the best mixture that has it, and how much worse than the best of all it fits, against
how much worse it fits to itself plus redrawn errors.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.statistics.intervals import Interval

_EXACT = 1e5  # weight of the sum's row against rows of unit error
_FINE = 2e-3  # to which the ends of an interval of a share are found
_ROUNDING = 1e-6  # of a misfit


@dataclass(frozen=True)
class Whitener:
    """Turns errors of a curve into ones of unit covariance.

    Attributes:
        factor: (t, t), the inverse of the Cholesky factor of the working covariance.
    """

    factor: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray, ridge: float = 1e-6) -> "Whitener":
        """Of a working covariance (t, t), with a ridge relative to its mean variance."""
        level = max(float(np.trace(covariance)) / len(covariance), np.finfo(float).tiny)
        lower = np.linalg.cholesky(covariance / level + ridge * np.eye(len(covariance)))
        inverse = scipy.linalg.solve_triangular(lower, np.eye(len(covariance)), lower=True)
        return cls(inverse / np.sqrt(level))

    def square(self, error: np.ndarray) -> np.ndarray:
        """Squared length of errors (..., t)."""
        squared: np.ndarray = ((error @ self.factor.T) ** 2).sum(-1)
        return squared


def fit_shares(basis: np.ndarray, curve: np.ndarray, whitener: Whitener) -> tuple[np.ndarray, float]:
    """Shares of one curve, and its squared misfit in the whitener's metric.

    Args:
        basis: (t, columns).
        curve: (t,), divided by the variance.
        whitener: the metric.
    """
    shares, misfits = fit_many(basis, curve[None], whitener)
    return shares[0], float(misfits[0])


def fit_many(basis: np.ndarray, curves: np.ndarray, whitener: Whitener) -> tuple[np.ndarray, np.ndarray]:
    """Shares (count, columns) and squared misfits (count,) of curves (count, t)."""
    rows = whitener.factor @ basis
    scale = _EXACT * max(1.0, float(np.abs(rows).max()) ** 0.5)
    matrix = np.vstack((rows, np.full((1, basis.shape[1]), scale)))
    targets = np.hstack((curves @ whitener.factor.T, np.full((len(curves), 1), scale)))
    shares, lengths = np.empty((len(curves), basis.shape[1])), np.empty(len(curves))
    for index, target in enumerate(targets):
        shares[index], lengths[index] = scipy.optimize.nnls(matrix, target, maxiter=50 * len(matrix.T))
    return shares / shares.sum(1, keepdims=True), lengths**2  # the sum is 1 but for rounding


def _fixed(
    basis: np.ndarray, curves: np.ndarray, whitener: Whitener, first: float
) -> tuple[np.ndarray, np.ndarray]:
    """Shares and squared misfits of curves (count, t) by mixtures whose first share is given."""
    rows = whitener.factor @ basis
    scale = _EXACT * max(1.0, float(np.abs(rows).max()) ** 0.5)
    matrix = np.vstack((rows[:, 1:], np.full((1, basis.shape[1] - 1), scale)))
    left = curves @ whitener.factor.T - first * rows[:, 0]
    targets = np.hstack((left, np.full((len(curves), 1), scale * (1 - first))))
    shares, lengths = np.empty((len(curves), basis.shape[1] - 1)), np.empty(len(curves))
    for index, target in enumerate(targets):
        shares[index], lengths[index] = scipy.optimize.nnls(matrix, target, maxiter=50 * len(matrix.T))
    return np.c_[np.full(len(curves), first), shares], lengths**2


def share_interval(
    basis: np.ndarray, curve: np.ndarray, errors: np.ndarray, whitener: Whitener, confidence: float
) -> Interval:
    """All first shares that a test does not reject, with the best one.

    Args:
        basis: (t, columns).
        curve: (t,).
        errors: (draws, t) redrawn errors of the curve, as large as its own.
        whitener: the metric.
        confidence: of the interval.
    """
    shares, least = fit_shares(basis, curve, whitener)
    best = float(shares[0])

    def kept(first: float) -> bool:
        own, misfit = _fixed(basis, curve[None], whitener, first)
        redrawn = basis @ own[0] + errors
        worse = _fixed(basis, redrawn, whitener, first)[1] - fit_many(basis, redrawn, whitener)[1]
        return float(misfit[0]) - least <= max(float(np.quantile(worse, confidence)), _ROUNDING * least)

    return Interval(best, _farthest(kept, best, 0.0), _farthest(kept, best, 1.0))


def _farthest(kept: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last value on the way from one that is kept to one that may not be."""
    if kept(outside):
        return outside
    while abs(outside - inside) > _FINE:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if kept(middle) else (inside, middle)
    return outside


def percentile_interval(estimate: float, draws: np.ndarray, confidence: float) -> Interval:
    """The middle of the redrawn values; it always holds the estimate itself."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(estimate), float(min(low, estimate)), float(max(high, estimate)))
