r"""Held-out canonical variates: what two embeddings share, one direction at a time, without optimism.

With whitened products (x^T x)^(-1/2) x^T y (y^T y)^(-1/2) = U D V^T of the rows that are fitted on, the rows
that are left out have the variates

    u = x (x^T x)^(-1/2) U        v = y (y^T y)^(-1/2) V

of which the j-th of one side goes with the j-th of the other and with no other. D itself, the correlations in
sample, is near 1 for unrelated data as soon as there are few rows for the dimensions; the correlation of u_j
and v_j on rows that were left out is not. Every row is left out once; what is left of directions with less
than `floor` of the largest variance is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.fits import GramSpectrum
from isojepa.alignment.moments import PairMoments
from isojepa.alignment.pairs import Split, folds
from isojepa.statistics.intervals import Interval, from_blocks

_REGIONS, _REGION_ROWS = 3, 3000  # halvings into regions, rows
_BUFFER = 8  # one in so many rows, those next to a region, is left out


@dataclass(frozen=True)
class Variates:
    """Held-out canonical variates of all rows.

    Attributes:
        first, second: (n, r), the j-th columns belong together; of variance near 1.
        weights: (n,) by which rows count.
    """

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray

    @property
    def correlations(self) -> np.ndarray:
        """(r,) held out, of either sign."""
        u, v = self.standard()
        return np.asarray((self.weights[:, None] * u * v).sum(0) / self.weights.sum())

    def standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Both sides with weighted mean 0 and variance 1."""
        return _standard(self.first, self.weights), _standard(self.second, self.weights)


def canonical_variates(
    first: np.ndarray,
    second: np.ndarray,
    ids: Any = None,
    weights: np.ndarray | None = None,
    count: int = 5,
    seed: int = 0,
    floor: float = 1e-8,
) -> Variates:
    """Canonical variates of each row, fitted on the other folds.

    Args:
        first, second: rows (n, p), (n, q) in float64.
        ids: (n,) states that folds go by.
        weights: (n,) of the rows in the fits.
        count: of folds.
        seed: draws the folds.
        floor: share of the largest variance below which a direction is left out.
    """
    counted = np.ones(len(first)) if weights is None else weights
    parts = []
    for fold, moments in fold_moments(first, second, folds(len(first), count, ids, seed), weights):
        parts.append((fold.score, *variates_of(moments, first[fold.score], second[fold.score], floor)))
    rank = min(part[1].shape[1] for part in parts)
    found = Variates(np.empty((len(first), rank)), np.empty((len(first), rank)), counted)
    for rows, u, v in parts:
        found.first[rows], found.second[rows] = u[:, :rank], v[:, :rank]
    return found


def variates_of(
    moments: PairMoments, first: np.ndarray, second: np.ndarray, floor: float = 1e-8
) -> tuple[np.ndarray, np.ndarray]:
    """Canonical variates (n, r) of rows (n, p), (n, q), of the moments of other rows."""
    white = [_whitening(products, moments.weight, floor) for products in (moments.xx, moments.yy)]
    u, _, vt = np.linalg.svd(white[0].T @ moments.xy @ white[1] / moments.weight, full_matrices=False)
    left, right = first - moments.mean[: moments.first], second - moments.mean[moments.first :]
    return left @ (white[0] @ u), right @ (white[1] @ vt.T)


def fold_moments(
    first: np.ndarray, second: np.ndarray, splits: Sequence[Split], weights: np.ndarray | None = None
) -> list[tuple[Split, PairMoments]]:
    """Each of the folds of all rows with the moments of the rows that are fitted on."""
    parts = [
        PairMoments.of(
            first[fold.score], second[fold.score], None if weights is None else weights[fold.score]
        )
        for fold in splits
    ]
    return list(zip(splits, PairMoments.without_each(parts), strict=True))


def _whitening(products: np.ndarray, weight: float, floor: float) -> np.ndarray:
    """(p, r) that makes rows white."""
    spectrum = GramSpectrum.of(products / weight)
    kept = spectrum.values > floor * spectrum.values[0]
    return np.asarray(spectrum.vectors[:, kept] / np.sqrt(spectrum.values[kept]))


def _standard(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    share = (weights / weights.sum())[:, None]
    centered = rows - (share * rows).sum(0)
    return np.asarray(centered / np.sqrt((share * centered**2).sum(0)).clip(np.finfo(np.float64).tiny))


def distant_gain(
    x: np.ndarray, y: np.ndarray, correlations: np.ndarray, confidence: float = 0.95
) -> Interval:
    """What canonical variates v of y gain from u of x in regions of x far from the rows of the fit.

    The gain is the mean of v^2 - (v - r u)^2 in 8 regions, with r held out on rows of all regions: about r^2
    where the relation is the same everywhere. Repeats of a state lie in one region, or among the rows next to
    it, which are left out.

    Args:
        x, y: (n, p), (n, q).
        correlations: (k,) r of the largest canonical pairs.
        confidence: of the interval.
    """
    thin = max(1, len(x) // max(_REGION_ROWS, 4 * max(x.shape[1], y.shape[1])))
    x, y = x[::thin], y[::thin]
    n, parts = len(x), [np.arange(len(x))]
    for _ in range(_REGIONS):
        halves = []
        for part in parts:
            centered = x[part] - x[part].mean(0)
            order = part[np.argsort(centered @ scipy.linalg.eigh(centered.T @ centered)[1][:, -1])]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        parts = halves
    gains = np.empty(len(parts))
    for place, part in enumerate(parts):
        rest = np.setdiff1d(np.arange(n), part)
        apart = scipy.spatial.cKDTree(x[part]).query(x[rest])[0]
        fit = rest[np.argsort(apart)[n // _BUFFER :]]
        u, v = variates_of(PairMoments.of(x[fit], y[fit]), x[part], y[part])
        guess, truth = u[:, : len(correlations)] * correlations, v[:, : len(correlations)]
        gains[place] = (truth**2 - (truth - guess) ** 2).mean()
    left_out = (gains.sum() - gains) / (len(parts) - 1)
    return from_blocks(float(gains.mean()), left_out, confidence)
