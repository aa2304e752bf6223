r"""The strength of ridge regression: by leaving out each pair in closed form, or from moments alone.

With x^T x = V diag(s) V^T and t = x V, leverage and residual of row i at penalty lambda are

    l_i = 1/n + sum_j t_ij^2 / (s_j + lambda)          e_i = y_i - W(lambda) x_i

and its residual if it had not been fitted on is e_i / (1 - l_i), exactly: the sum of their squares is
minimised. Means are fitted, scales are held. Where rows are gone (a streamed fit) or too many to be read once
more for each penalty, leverages are replaced by their mean, which is generalised cross-validation (Golub,
Heath & Wahba 1979) and needs moments alone.
"""

from collections.abc import Callable

import numpy as np

from isojepa.alignment.fits import GramSpectrum
from isojepa.alignment.moments import PairMoments

LEAVE_ONE_OUT, GENERALISED = "leave-one-out", "generalised cross-validation"
_DECADES = np.arange(-8, 4)  # of penalty / n, where columns have variance 1


def leave_one_out(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, moments: PairMoments
) -> Callable[[float], float]:
    """The sum of squared left-out residuals as a function of the penalty.

    Args:
        x, y: rows (n, p), (n, q), centered and scaled as the moments are.
        weights: (n,), or None.
        moments: of the rows.
    """
    spectrum = GramSpectrum.of(moments.xx)
    root = np.ones(len(x)) if weights is None else np.sqrt(weights)
    t, y = (x * root[:, None]) @ spectrum.vectors, y * root[:, None]
    squares, projected = t**2, spectrum.vectors.T @ moments.xy
    mean = root**2 / moments.weight

    def error(penalty: float) -> float:
        leverage = mean + squares @ (1 / (spectrum.values + penalty))
        residual = y - t @ (projected / (spectrum.values + penalty)[:, None])
        return float(((residual**2).sum(1) / np.maximum(1 - leverage, 1e-9) ** 2).sum())

    return error


def generalised(moments: PairMoments, spectrum: GramSpectrum | None = None) -> Callable[[float], float]:
    """The criterion of generalised cross-validation as a function of the penalty.

    Args:
        moments: of the rows.
        spectrum: of their x^T x, if it is known.
    """
    spectrum = GramSpectrum.of(moments.xx) if spectrum is None else spectrum
    along = ((spectrum.vectors.T @ moments.xy) ** 2).sum(1)
    total = float(np.trace(moments.yy))

    def error(penalty: float) -> float:
        s = spectrum.values
        residual = total - float((along * (s + 2 * penalty) / (s + penalty) ** 2).sum())
        freedom = 1 + float((s / (s + penalty)).sum())
        return max(residual, 0.0) / max(1 - freedom / moments.rows, 1e-9) ** 2

    return error


def best_penalty(error: Callable[[float], float], size: float) -> float:
    """The penalty of least error: by decades, then by fifths of the decades around the best.

    Args:
        error: of a penalty.
        size: mean eigenvalue of x^T x, which penalties are multiples of.
    """
    tried = {float(power): error(size * 10.0**power) for power in _DECADES}
    best = min(tried, key=lambda power: tried[power])
    for power in best + np.array([-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8]):
        tried[float(power)] = error(size * 10.0**power)
    return float(size * 10.0 ** min(tried, key=lambda power: tried[power]))
