r"""Intervals of the eigenvalues of a matrix that need not be symmetric, and of smooth functions of estimates.

With an error E of A, drawn many times, an eigenvalue moves by w^H E v / (w^H v) to first order, w and v its left
and right eigenvectors. That holds where it stands apart from the others by several times its own movement.
Where eigenvalues lie close they move together, as far as the root of |E| at a defective matrix; there the
eigenvalues of A + E are matched with those of A, and the quantile of their distance, widened, is the radius
of all of the cluster.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from isojepa.certificates.intervals import Interval

_APART = 4.0  # times its own movement, for an eigenvalue to be one by itself
_WIDER = 1.5  # the radius of a cluster, whose spread around the estimate is less than around the truth


@dataclass(frozen=True)
class Eigenvalue:
    """An eigenvalue with intervals of its parts; `alone` tells whether it stands apart from the others."""

    real: Interval
    imag: Interval
    modulus: Interval
    alone: bool

    @property
    def estimate(self) -> complex:
        """The eigenvalue of the fitted matrix."""
        return complex(self.real.estimate, self.imag.estimate)


def eigenvalue_intervals(
    matrix: np.ndarray, deviations: np.ndarray, confidence: float
) -> tuple[Eigenvalue, ...]:
    """Intervals of the eigenvalues, the largest modulus first.

    Args:
        matrix: (dim, dim), the estimate.
        deviations: (draws, dim, dim), of its error.
        confidence: of each interval.
    """
    values, right = np.linalg.eig(matrix)
    order = np.lexsort((-values.imag, -np.abs(values).round(12)))
    values, right = values[order], right[:, order]
    left = np.linalg.pinv(right)
    moved = np.einsum("ir,krc,ci->ki", left, deviations, right)
    radius = np.quantile(np.abs(moved), confidence, axis=0)
    distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
    alone = distances.min(1, initial=np.inf) > _APART * radius
    alone &= np.array([bool(alone[np.abs(values - value.conj()).argmin()]) for value in values])
    if not alone.all():
        together = _matched(values, np.linalg.eigvals(matrix + deviations))
        radius = np.where(alone, radius, _WIDER * np.quantile(together, confidence, axis=0))
        for i in np.flatnonzero(~alone):  # a cluster has one radius
            near = ~alone & (distances[i] <= 2 * radius[i])
            radius[i] = max(radius[i], radius[near].max(initial=0.0))
    return tuple(
        _eigenvalue(value, moved[:, i] if alone[i] else None, float(radius[i]), confidence)
        for i, value in enumerate(values)
    )


def smooth_intervals(
    estimate: np.ndarray, drawn: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of smooth functions of the estimates: their spread over draws, and their bias.

    Args:
        estimate: (...) the functions of the estimate.
        drawn: (draws, ...) of estimate and error.
        confidence: of each interval.
    """
    bias = drawn.mean(0) - estimate
    width = np.quantile(np.abs(drawn - drawn.mean(0)), confidence, axis=0)
    return estimate - np.maximum(bias, 0.0) - width, estimate - np.minimum(bias, 0.0) + width


def _matched(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(draws, dim) distance of each eigenvalue to the one it became in each draw."""
    distances = np.abs(values[None, :, None] - drawn[:, None, :])
    found = np.empty((len(drawn), len(values)))
    for k, table in enumerate(distances):
        rows, columns = linear_sum_assignment(table)
        found[k, rows] = table[rows, columns]
    return found


def _eigenvalue(value: complex, moved: np.ndarray | None, radius: float, confidence: float) -> Eigenvalue:
    size = abs(value)
    real_width = imag_width = size_width = radius
    if moved is not None:
        real_width = float(np.quantile(np.abs(moved.real), confidence))
        # a real eigenvalue that stands apart stays real: complex ones come in pairs
        imag_width = float(np.quantile(np.abs(moved.imag), confidence)) if value.imag else 0.0
        if size > 2 * radius:
            size_width = float(np.quantile(np.abs((np.conj(value) * moved).real) / size, confidence))
    return Eigenvalue(
        _between(value.real, real_width),
        _between(value.imag, imag_width),
        Interval(float(size), float(max(0.0, size - size_width)), float(size + size_width)),
        moved is not None,
    )


def _between(value: float, width: float) -> Interval:
    return Interval(float(value), float(value - width), float(value + width))
