r"""How much of one embedding another explains on states left out, by a linear map and by a rotation.

Each fold is predicted by a fit on the others: by ridge regression, its penalty by generalised
cross-validation, and by the nearest rotation with one scale, both between centered rows as they are. Of
squared residuals e_i and squared deviations s_i of the rows,

    R^2 = 1 - sum e_i / sum s_i,          influence of row i:  - (e_i - (1 - R^2) s_i) / mean(s)

and the standard error is that of the mean of the influences. A fit on m rows in p dimensions leaves more than
the best map would: about 1 + p / (m - p - 1) times as much for a linear map, 1 + p / 2m times for a rotation,
which has half as many numbers to find. `best` divides by that, to compare maps rather than sample sizes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from isojepa.alignment.canonical import fold_moments
from isojepa.alignment.fits import GramSpectrum, least_squares_matrix, procrustes_matrix
from isojepa.alignment.moments import PairMoments
from isojepa.alignment.pairs import folds
from isojepa.alignment.penalties import best_penalty, generalised
from isojepa.seeds import numpy_generator
from isojepa.statistics.intervals import Interval, from_samples


@dataclass(frozen=True)
class Explained:
    """A held-out R^2.

    Attributes:
        r2: with its interval.
        best: what the best map of this kind would explain, about.
    """

    r2: Interval
    best: float


@dataclass(frozen=True)
class Chance:
    """A held-out R^2 beside those of rows that were paired at random.

    Attributes:
        r2: of the true pairs, fitted on one half and scored on the other.
        mean, largest: of the random ones.
        p: share of the random ones that do as well, the true one counted.
        rows, draws: how many.
    """

    r2: float
    mean: float
    largest: float
    p: float
    rows: int
    draws: int


def explained(
    first: np.ndarray, second: np.ndarray, ids: Any, confidence: float, seed: int
) -> tuple[Explained, Explained, Explained]:
    """R^2 of the second by a linear map, of the first by one back, and of the second by a rotation."""
    count, p, q = len(first), first.shape[1], second.shape[1]
    residual, spread = np.empty((3, count)), np.empty((2, count))
    fitted = count
    for fold, moments in fold_moments(first, second, folds(count, 5, ids, seed)):
        x, y = first[fold.score] - moments.mean[:p], second[fold.score] - moments.mean[p:]
        for row, given, wanted, known in ((0, x, y, moments), (1, y, x, swapped(moments))):
            residual[row, fold.score] = ((wanted - given @ ridge_matrix(known).T) ** 2).sum(1)
        residual[2, fold.score] = ((y - x @ procrustes_matrix(moments, scaled=True).T) ** 2).sum(1)
        spread[0, fold.score], spread[1, fold.score] = (y**2).sum(1), (x**2).sum(1)
        fitted = min(fitted, moments.rows)
    more = [1 + width / max(fitted - width - 1, 1) for width in (p, q)] + [1 + max(p, q) / (2 * fitted)]
    found = []
    for row, other in ((0, 0), (1, 1), (2, 0)):
        interval = explained_share(residual[row], spread[other], ids, confidence)
        found.append(Explained(interval, 1 - (1 - interval.estimate) / more[row]))
    return found[0], found[1], found[2]


def explained_share(residual: np.ndarray, spread: np.ndarray, ids: Any, confidence: float) -> Interval:
    """1 - sum e_i / sum s_i with its interval.

    Args:
        residual, spread: (n,) squared residuals and squared deviations of the rows.
        ids: (n,) of their states, whose rows go together; None for one row each.
        confidence: of the interval.
    """
    total = float(spread.mean())
    rest = float(residual.mean()) / total
    influence = -(residual - rest * spread) / total
    return from_samples(influence if ids is None else _by_state(influence, ids), confidence, 1 - rest)


def by_chance(
    first: np.ndarray, second: np.ndarray, rotation: bool, draws: int, most: int, seed: int
) -> Chance:
    """The R^2 of true pairs beside those of random ones; rows of one half are paired within it."""
    rng = numpy_generator(seed, "chance")
    rows = rng.permutation(len(first))[:most]
    half = len(rows) // 2
    fit, score = rows[:half], rows[half:]
    x, y = first[fit] - first[fit].mean(0), second[fit] - second[fit].mean(0)
    a, b = first[score] - first[fit].mean(0), second[score] - second[fit].mean(0)
    moments = PairMoments.of(x, y)
    spectrum = GramSpectrum.of(moments.xx)
    total = float((b**2).sum())

    def r2(order: np.ndarray, other: np.ndarray) -> float:
        known = PairMoments(half, float(half), moments.mean, moments.products.copy(), moments.first)
        known.products[: moments.first, moments.first :] = x.T @ y[order]
        if rotation:
            matrix = procrustes_matrix(known, scaled=True)
        else:
            size = float(np.trace(known.xx)) / known.first
            matrix = spectrum.solve(known.xy, best_penalty(generalised(known, spectrum), size)).T
        return 1 - float(((b[other] - a @ matrix.T) ** 2).sum()) / total

    true = r2(np.arange(half), np.arange(len(score)))
    random = np.array([r2(rng.permutation(half), rng.permutation(len(score))) for _ in range(draws)])
    p = (1 + float((random >= true).sum())) / (1 + draws)
    return Chance(true, float(random.mean()), float(random.max()), p, len(rows), draws)


def budget(
    first: np.ndarray, second: np.ndarray, ids: Any, seed: int, steps: int = 8
) -> list[tuple[int, float, float]]:
    """R^2 by a linear map and by a rotation after more and more pairs, on one held-out fifth."""
    split = folds(len(first), 5, ids, seed)[0]
    order = numpy_generator(seed, "budget").permutation(split.fit)
    low = min(max(20, min(first.shape[1], second.shape[1]) // 2), len(order))
    rows = []
    for size in sorted({round(float(size)) for size in np.geomspace(low, len(order), steps)}):
        moments = PairMoments.of(first[order[:size]], second[order[:size]])
        x = first[split.score] - moments.mean[: moments.first]
        y = second[split.score] - moments.mean[moments.first :]
        total = float((y**2).sum())
        r2 = [
            1 - float(((y - x @ matrix.T) ** 2).sum()) / total
            for matrix in (ridge_matrix(moments), procrustes_matrix(moments, scaled=True))
        ]
        rows.append((size, r2[0], r2[1]))
    return rows


def ridge_matrix(moments: PairMoments) -> np.ndarray:
    """W (q, p) by ridge regression with a penalty from the moments."""
    size = float(np.trace(moments.xx)) / moments.first
    return least_squares_matrix(moments, best_penalty(generalised(moments), size))


def swapped(moments: PairMoments) -> PairMoments:
    """The same with first and second changed."""
    order = np.concatenate((np.arange(moments.first, len(moments.mean)), np.arange(moments.first)))
    return PairMoments(
        moments.rows,
        moments.weight,
        moments.mean[order],
        moments.products[np.ix_(order, order)],
        len(order) - moments.first,
    )


def _by_state(values: np.ndarray, ids: Any) -> np.ndarray:
    """Sums over the rows of each state, on the scale of a mean over rows: rows of a state go together."""
    states, state = np.unique(np.asarray(ids), return_inverse=True)
    return np.asarray(np.bincount(state, values) * (len(states) / len(values)))
