r"""Numbers of a few hundred embeddings that show collapse, cheaply.

With the variances v_1 >= ... >= v_d of rows h (n, d) along their principal directions,

    effective_rank      e^H with the entropy H of p_k = sqrt(v_k) / sum_j sqrt(v_j): RankMe (Garrido,
                        Balestriero, Najman & LeCun 2023) of centred rows; from 1 to min(n - 1, d)
    smallest_variance   v_d, or NaN where n < 2 d, which cannot show it
    mean_variance       the mean of v
    mean_length         |mean of h|
    gaussianity         the sliced Epps-Pulley statistic that SIGReg minimises, on fixed directions and on at
                        most 512 rows: about 1.06 for N(0, I), growing with their number for anything else
    gaussianity_p       its p-value, by simulation
    alignment           mean squared distance of views from their centre, over batch and dimensions
    disagreement        that distance as a share of the variance of all rows: 0 for views that agree, 1 for
                        views that have nothing in common
    nonfinite           share of rows with NaN or Inf, which the others leave out

Rows are taken as independent. Several views of one state among them are not, and make p too small.
"""

import math

import numpy as np
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.objectives.alignment import to_centre
from isojepa.objectives.gaussianity import Sliced

NAMES = (
    "effective_rank",
    "gaussianity",
    "gaussianity_p",
    "alignment",
    "disagreement",
    "smallest_variance",
    "mean_variance",
    "mean_length",
    "nonfinite",
)
_TESTED = 512  # rows of the Gaussianity test at most
_LEAST = 16  # and at least


def measure(
    h: Tensor, views: Tensor | None = None, *, standardize: bool = False, slices: int = 64, draws: int = 199
) -> dict[str, float]:
    """The numbers of rows and, where there are any, of views.

    Args:
        h: (rows, dim).
        views: (view, batch, dim), at least two.
        standardize: test for a normal law of any mean and covariance in place of N(0, I).
        slices: directions of the test.
        draws: simulations behind its p-value, made once for each size.

    Example:
        >>> row = measure(torch.randn(512, 8, generator=torch.Generator().manual_seed(0)))
        >>> 7.5 < row["effective_rank"] < 8, row["gaussianity_p"] > 0.01
        (True, True)
    """
    row = dict.fromkeys(NAMES, math.nan)
    good = torch.isfinite(h).all(1)
    row["nonfinite"] = 1 - float(good.double().mean()) if len(h) else 0.0
    h = h[good]
    with ranks.alone(), torch.no_grad():  # one rank measures its own rows; the others do not wait for it
        if len(h) >= 2:
            row |= _spread(h.double())
            row["gaussianity"], row["gaussianity_p"] = _gaussianity(
                h, Sliced(None, slices, standardize=standardize), draws
            )
        if views is not None and len(views) >= 2:
            row |= _agreement(views.double())
    return row


def variances(h: Tensor) -> np.ndarray:
    """Variances of rows (n, dim) along their principal directions, descending: min(n, dim) in float64."""
    centred = h - h.mean(0)
    square = centred.T @ centred if len(h) > h.shape[1] else centred @ centred.T  # the smaller has them all
    values = torch.linalg.eigvalsh(square / max(1, len(h) - 1)).flip(0).clamp(min=0)
    found: np.ndarray = values.numpy()
    return found


def effective_rank(variances: np.ndarray) -> float:
    """e^H of the square roots of variances as shares; 0 if there are none.

    Example:
        >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 6)
        2.0
    """
    # half the digits of the largest eigenvalue are lost in roots: less is rounding
    deviations = np.sqrt(np.where(variances > 1e-14 * variances.max(initial=0.0), variances, 0.0))
    shares = deviations[deviations > 0] / max(deviations.sum(), np.finfo(float).tiny)
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def _spread(h: Tensor) -> dict[str, float]:
    n, dim = h.shape
    found = variances(h)
    return {
        "effective_rank": effective_rank(found),
        "smallest_variance": float(found[-1]) if n >= 2 * dim else math.nan,
        "mean_variance": float(found.sum()) / dim,
        "mean_length": float(h.mean(0).norm()),
    }


def _gaussianity(h: Tensor, test: Sliced, draws: int) -> tuple[float, float]:
    """Statistic and p-value, of so many rows that few sizes have to be simulated: a power of two."""
    if len(h) < _LEAST:
        return math.nan, math.nan
    n = min(_TESTED, 1 << (len(h).bit_length() - 1))
    sample = h[-n:].float()
    try:
        value = test.statistic(sample)
        p = test.null(n, h.shape[1], draws).pvalue(value, test.two_sided)
    except ValueError:  # a covariance that nobody can whiten
        return math.nan, math.nan
    return float(value), float(p)


def _agreement(views: Tensor) -> dict[str, float]:
    views = views[:, torch.isfinite(views).all(-1).all(0)]
    count, n, dim = views.shape
    if n < 2:
        return {}
    apart = float(to_centre(views))
    total = float((views - views.mean((0, 1))).square().sum()) / (count * n * dim)
    # independent views lie (V - 1) / V of the variance from their centre
    share = apart * count / (count - 1) / total if total > 0 else math.nan
    return {"alignment": apart, "disagreement": share}
