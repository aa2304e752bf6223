"""Linear maps between two samples: least squares, orthogonal Procrustes, and their held-out R^2. float64.

A map is fitted on one half of the samples and scored on the other: 10,000 samples in 1,024 dimensions give
an in-sample R^2 of about 0.10 by chance.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg


@dataclass(frozen=True)
class LinearMap:
    """y ~ (x - centre) matrix + offset, for rows x.

    Attributes:
        matrix: (in, out).
        centre: (in,).
        offset: (out,).
    """

    matrix: np.ndarray
    centre: np.ndarray
    offset: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map rows (n, in) to (n, out)."""
        return (x - self.centre) @ self.matrix + self.offset


def least_squares(x: np.ndarray, y: np.ndarray) -> LinearMap:
    """The affine map from x (n, in) to y (n, out) of least squared error.

    Columns are scaled and the factorisation reveals rank, so a collapsed dimension is ignored and the fit
    does not depend on the units of x.
    """
    centre, offset = x.mean(0), y.mean(0)
    centred = x - centre
    scale = np.sqrt((centred**2).mean(0))
    # a column whose spread is rounding noise against its size carries nothing
    scale = np.where(scale > 1e-12 * (np.abs(centre) + scale), scale, np.inf)
    scaled_matrix, *_ = scipy.linalg.lstsq(
        centred / scale, y - offset, cond=1e-12, lapack_driver="gelsy", check_finite=False
    )
    return LinearMap(scaled_matrix / scale[:, None], centre, offset)


def procrustes(x: np.ndarray, y: np.ndarray) -> LinearMap:
    """The orthogonal map, with translation, from x (n, dim) to y (n, dim) of least squared error."""
    centre, offset = x.mean(0), y.mean(0)
    u, _, vt = scipy.linalg.svd((x - centre).T @ (y - offset), check_finite=False)
    return LinearMap(u @ vt, centre, offset)


def halves(n: int) -> tuple[slice, slice]:
    """The half a map is fitted on and the half it is scored on.

    Raises:
        ValueError: fewer than 4 samples: a half would have no variance.
    """
    if n < 4:
        raise ValueError(f"at least 4 samples are needed to fit on one half and score on the other, got {n}")
    return slice(0, n // 2), slice(n // 2, n)


def errors(y: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared residuals and squared deviations from the mean, each (n, out)."""
    deviation = y - y.mean(0)
    # the mean of equal numbers need not round back to them: what is left of a constant is no spread
    deviation[:, np.abs(deviation).max(0) <= 1e-12 * np.abs(y).max(0)] = 0.0
    return (y - predicted) ** 2, deviation**2


def r2_of(residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """R^2 of each output from sums or means (out,); an output without spread scores 0."""
    flat = spread <= np.finfo(np.float64).tiny
    return np.where(flat, 0.0, 1 - residual / np.where(flat, 1.0, spread))


def spread(h: np.ndarray) -> tuple[float, float]:
    """Smallest and mean variance over the principal directions of h (n, dim)."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(h, rowvar=False)))
    return float(values[0]), float(values.mean())


def collapsed(smallest: float, mean: float) -> bool:
    """Whether a direction has next to no variance: a thousandth of the mean, or all of them none."""
    return smallest < 1e-3 * mean or mean < 1e-6


def held_out_r2(x: np.ndarray, y: np.ndarray) -> float:
    """Mean over outputs of the held-out R^2 of y (n, out) regressed on x (n, in).

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 2))
        >>> round(held_out_r2(x, x @ [[1.0, 2.0], [0.0, 1.0]]), 6)
        1.0
    """
    fit, score = halves(len(x))
    residual, spread = errors(y[score], least_squares(x[fit], y[fit])(x[score]))
    return float(r2_of(residual.sum(0), spread.sum(0)).mean())
