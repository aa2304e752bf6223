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

from isojepa.align.fits import Spectrum
from isojepa.align.moments import Moments
from isojepa.align.pairs import Split, folds


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
    moments: Moments, first: np.ndarray, second: np.ndarray, floor: float = 1e-8
) -> tuple[np.ndarray, np.ndarray]:
    """Canonical variates (n, r) of rows (n, p), (n, q), of the moments of other rows."""
    white = [_whitening(products, moments.weight, floor) for products in (moments.xx, moments.yy)]
    u, _, vt = np.linalg.svd(white[0].T @ moments.xy @ white[1] / moments.weight, full_matrices=False)
    left, right = first - moments.mean[: moments.first], second - moments.mean[moments.first :]
    return left @ (white[0] @ u), right @ (white[1] @ vt.T)


def fold_moments(
    first: np.ndarray, second: np.ndarray, splits: Sequence[Split], weights: np.ndarray | None = None
) -> list[tuple[Split, Moments]]:
    """Each of the folds of all rows with the moments of the rows that are fitted on."""
    parts = [
        Moments.of(first[fold.score], second[fold.score], None if weights is None else weights[fold.score])
        for fold in splits
    ]
    return list(zip(splits, Moments.without_each(parts), strict=True))


def _whitening(products: np.ndarray, weight: float, floor: float) -> np.ndarray:
    """(p, r) that makes rows white."""
    spectrum = Spectrum.of(products / weight)
    kept = spectrum.values > floor * spectrum.values[0]
    return np.asarray(spectrum.vectors[:, kept] / np.sqrt(spectrum.values[kept]))


def _standard(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    share = (weights / weights.sum())[:, None]
    centred = rows - (share * rows).sum(0)
    return np.asarray(centred / np.sqrt((share * centred**2).sum(0)).clip(np.finfo(np.float64).tiny))
