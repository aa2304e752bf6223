r"""Intervals of the eigenvalues of a matrix that need not be symmetric, and of smooth functions of estimates.

With an error E of A, drawn many times, an eigenvalue moves by w^H E v / (w^H v) to first order, w and v its
left and right eigenvectors. That holds where it stands apart from the others by several times its own
movement. Where eigenvalues lie close they move together, as far as the root of |E| at a defective matrix;
there the eigenvalues of A + E are matched with those of A, and the quantile of their distance, widened, is
the radius of all of the cluster.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.certificates.dynamics.singular import joint_reach
from isojepa.statistics.intervals import Interval

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
        confidence: of all intervals together.
    """
    values, right = np.linalg.eig(matrix)
    order = np.lexsort((-values.imag, -np.abs(values).round(12)))
    values, right = values[order].astype(complex), right[:, order]
    moved = np.einsum("ir,krc,ci->ki", np.linalg.pinv(right), deviations, right)
    radius = joint_reach(moved, confidence)
    distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
    alone = distances.min(1, initial=np.inf) > _APART * radius
    alone &= np.array([bool(alone[np.abs(values - value.conj()).argmin()]) for value in values])
    if not alone.all():
        together = _matched(values, np.linalg.eigvals(matrix + deviations))
        radius = np.where(alone, radius, _WIDER * joint_reach(together, confidence))
        for i in np.flatnonzero(~alone):  # a cluster has one radius
            near = ~alone & (distances[i] <= 2 * radius[i])
            radius[i] = max(radius[i], radius[near].max(initial=0.0))
    return tuple(
        _eigenvalue(complex(value), float(one), widths if apart else None)
        for value, one, widths, apart in zip(
            values, radius, _widths(values, moved, confidence), alone, strict=True
        )
    )


def smooth_intervals(
    estimate: np.ndarray, drawn: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of smooth functions of the estimates: their spread over draws, and their bias.

    Args:
        estimate: (...) the functions of the estimate.
        drawn: (draws, ...) of estimate and error.
        confidence: of all intervals together.
    """
    bias = drawn.mean(0) - estimate
    width = joint_reach(drawn - drawn.mean(0), confidence)
    return estimate - np.maximum(bias, 0.0) - width, estimate - np.minimum(bias, 0.0) + width


def _widths(values: np.ndarray, moved: np.ndarray, confidence: float) -> np.ndarray:
    """(dim, 3) how far real part, imaginary part and modulus move, to first order and all together."""
    along = (np.conj(values) * moved).real / np.where(np.abs(values) > 0, np.abs(values), 1.0)
    return joint_reach(np.stack((moved.real, moved.imag, along), axis=-1), confidence)


def _matched(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(draws, dim) distance of each eigenvalue to the one it became in each draw."""
    distances = np.abs(values[None, :, None] - drawn[:, None, :])
    found = np.empty((len(drawn), len(values)))
    for k, table in enumerate(distances):
        rows, columns = scipy.optimize.linear_sum_assignment(table)
        found[k, rows] = table[rows, columns]
    return found


def _eigenvalue(value: complex, radius: float, widths: np.ndarray | None) -> Eigenvalue:
    """An eigenvalue with its own widths, or, in a cluster, the cluster's radius in all directions."""
    size = abs(value)
    real, imag, along = (radius,) * 3 if widths is None else map(float, widths)
    if widths is not None and not value.imag:
        imag = 0.0  # a real eigenvalue that stands apart stays real: complex ones come in pairs
    if size <= 2 * radius:
        along = radius
    return Eigenvalue(
        Interval(value.real, value.real - real, value.real + real),
        Interval(value.imag, value.imag - imag, value.imag + imag),
        Interval(size, max(0.0, size - along), size + along),
        widths is not None,
    )
