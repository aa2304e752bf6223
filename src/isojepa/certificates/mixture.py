r"""Curves that are non-negative mixtures of known ones: sum_d s_d b_d(t) with s_d >= 0 and sum_d s_d = 1.

A correlation curve is such a mixture: b_d(r) = r^d over correlations, or b_d(k) = e^{-K d k} over lags. The
shares are those of least squares in the metric of a working covariance of the curve's errors, which is cheap
to have nearly right and, being only a choice of weights, cannot make the answer wrong. Uncertainty comes from
curves redrawn by a bootstrap, fitted in the same way.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.certificates.intervals import Interval

_EXACT = 1e5  # weight of the sum's row against rows of unit error


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


def percentile_interval(estimate: float, draws: np.ndarray, confidence: float) -> Interval:
    """The middle of the redrawn values; it always holds the estimate itself."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(estimate), float(min(low, estimate)), float(max(high, estimate)))
