"""Components against true latents: which component is which latent, and how well.

    MCC              mean over latents of |correlation| with its partner, under the best one-to-one assignment
                     (Hyvarinen & Morioka 2016): of ranks (Spearman), which no increasing map changes, and of
                     values (Pearson). Partners are those of the largest sum of |rank correlations| in
                     both. A latent without a partner counts as 0: there are fewer components.
    disentanglement  1 - entropy over latents of how much each component is used for them, weighted by its use
    completeness     1 - entropy over components of how much each is used for a latent, mean over latents
                     (Eastwood & Williams 2018), from R = |coefficients| of the linear regression of the
                     standardized latents on the standardized components
    linear_r2        held-out R^2 of each latent from all components together

A rotation of the latents has linear_r2 1 and an MCC that is far from it. Intervals of both MCCs come from
leaving out each of 20 blocks of successive rows, with the partners found anew.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.pairs import as_rows, check_varied
from isojepa.linear import errors, halves, least_squares, r2_of
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.unmixing.monotone import BLOCKS, check_size
from isojepa.validation import check_number, validate_types

MIN_ROWS = 100  # rows
_ADVICE = "leave them out"


@dataclass(frozen=True)
class Partner:
    """The partner of one latent.

    Attributes:
        latent: its column.
        component: column of its partner; None where there are fewer components than latents.
        sign: 1 or -1: whether the component increases with the latent.
        rank: Spearman's correlation, with its sign.
        linear: Pearson's correlation, with its sign.
        linear_r2: held-out R^2 of the latent from all components.
    """

    latent: int
    component: int | None
    sign: int
    rank: float
    linear: float
    linear_r2: float


@dataclass(frozen=True, eq=False)
class Matching:
    """Components matched with latents.

    Attributes:
        rank: MCC of ranks.
        linear: MCC of values, with the same partners.
        partners: of each latent.
        disentanglement, completeness: in [0, 1].
        linear_r2: mean over latents of the held-out R^2 from all components.
        importance: (components, latents) |coefficients| of the regression.
    """

    rank: Interval
    linear: Interval
    partners: tuple[Partner, ...]
    disentanglement: float
    completeness: float
    linear_r2: float
    importance: np.ndarray

    def __str__(self) -> str:
        return (
            f"MCC {self.rank} by rank, {self.linear} linear; disentanglement {self.disentanglement:.4g}, "
            f"completeness {self.completeness:.4g}; linear R^2 {self.linear_r2:.4g}"
        )


@validate_types
def match_latents(components: Any, latents: Any, confidence: float = 0.95) -> Matching:
    """Match components with true latents.

    Args:
        components: (n, k), n at least 100.
        latents: (n, d) of the same rows; d may be more or less than k.
        confidence: of the intervals.

    Raises:
        ValueError: rows do not match, are too few, not finite, or a column is constant.

    Example:
        >>> latents = np.random.default_rng(0).normal(size=(1000, 3))
        >>> matching = match_latents(-np.exp(latents[:, ::-1]), latents)
        >>> [partner.component for partner in matching.partners], matching.rank.estimate
        ([2, 1, 0], 1.0)
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    components, latents = as_rows("components", components), as_rows("latents", latents)
    if len(components) != len(latents):
        raise ValueError(
            f"components and latents must have the same rows, got {len(components)} and {len(latents)}"
        )
    if len(components) < MIN_ROWS:
        raise ValueError(f"components and latents must have at least {MIN_ROWS} rows, got {len(components)}")
    for name, rows in (("components", components), ("latents", latents)):
        check_size(name, rows)
        check_varied(name, rows.std(0), rows.mean(0), _ADVICE)
    first, second = _standard(components), _standard(latents)
    rank = _correlations(_standard(_ranks(components)), _standard(_ranks(latents)))
    linear = _correlations(first, second)
    pairs = [_assign(table) for table in rank]
    # a row for all data, and one without each block
    scores = np.array([[_mean(of[at], pairs[at]) for of in (rank, linear)] for at in range(BLOCKS + 1)])
    r2 = _held_out(first, second)
    importance = np.abs(least_squares(first, second).matrix)
    disentanglement, completeness = _entropies(importance)
    return Matching(
        rank=from_blocks(scores[0, 0], scores[1:, 0], confidence),
        linear=from_blocks(scores[0, 1], scores[1:, 1], confidence),
        partners=tuple(_partner(at, int(one), rank[0], linear[0], r2) for at, one in enumerate(pairs[0])),
        disentanglement=disentanglement,
        completeness=completeness,
        linear_r2=float(r2.mean()),
        importance=importance,
    )


def _ranks(rows: np.ndarray) -> np.ndarray:
    """Ranks within each column, ties sharing their mean."""
    return np.asarray(scipy.stats.rankdata(rows, axis=0), np.float64)


def _standard(rows: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1."""
    centered = rows - rows.mean(0)
    standard: np.ndarray = centered / centered.std(0)
    return standard


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(BLOCKS + 1, k, d) correlations over all rows, and without each block, of standardized columns.

    Ranks are those among all rows: among the rest they differ by next to a constant factor.
    """
    ends = np.linspace(0, len(first), BLOCKS + 1).astype(int)
    blocks = [slice(start, stop) for start, stop in pairwise(ends)]
    tables = []
    total = len(first), first.sum(0), second.sum(0), (first**2).sum(0), (second**2).sum(0), first.T @ second
    for block in (slice(0, 0), *blocks):
        x, y = first[block], second[block]
        n, x_sum, y_sum = total[0] - len(x), total[1] - x.sum(0), total[2] - y.sum(0)
        x_square, y_square = total[3] - (x**2).sum(0), total[4] - (y**2).sum(0)
        x_scale, y_scale = (
            np.sqrt(np.maximum(square / n - (part / n) ** 2, np.finfo(np.float64).tiny))
            for square, part in ((x_square, x_sum), (y_square, y_sum))
        )
        covariance = (total[5] - x.T @ y) / n - np.outer(x_sum, y_sum) / n**2
        tables.append(np.clip(covariance / np.outer(x_scale, y_scale), -1.0, 1.0))
    return np.stack(tables)


def _assign(table: np.ndarray) -> np.ndarray:
    """(d,) component of each latent, -1 for none, with the largest sum of |correlations|."""
    components, latents = scipy.optimize.linear_sum_assignment(-np.abs(table))
    partner = np.full(table.shape[1], -1)
    partner[latents] = components
    return partner


def _mean(table: np.ndarray, partner: np.ndarray) -> float:
    """Mean over latents of |correlation| with their partner; 0 for a latent that has none."""
    latent = np.flatnonzero(partner >= 0)
    return float(np.abs(table[partner[latent], latent]).sum() / len(partner))


def _partner(latent: int, component: int, rank: np.ndarray, linear: np.ndarray, r2: np.ndarray) -> Partner:
    linear_r2 = float(r2[latent])
    if component < 0:
        return Partner(latent, None, 1, 0.0, 0.0, linear_r2)
    by_rank, by_value = float(rank[component, latent]), float(linear[component, latent])
    return Partner(latent, component, 1 if by_rank >= 0 else -1, by_rank, by_value, linear_r2)


def _held_out(components: np.ndarray, latents: np.ndarray) -> np.ndarray:
    """(d,) R^2 of each latent on the half of the rows held out from the regression."""
    fit, score = halves(len(components))
    predicted = least_squares(components[fit], latents[fit])(components[score])
    residual, spread = errors(latents[score], predicted)
    return r2_of(residual.sum(0), spread.sum(0))


def _entropies(importance: np.ndarray) -> tuple[float, float]:
    """Disentanglement and completeness of an importance matrix (components, latents)."""
    use = importance.sum(1)
    by_component = 1 - _entropy(importance)  # of each axis, over latents
    by_latent = 1 - _entropy(importance.T)
    total = float(use.sum())
    disentanglement = float(use @ by_component) / total if total > 0 else 0.0
    return disentanglement, float(by_latent.mean())


def _entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy of each row's shares, in units of the largest; 0 for one column, 1 for a row without weight."""
    rows, count = weights.shape
    if count == 1:
        return np.zeros(rows)
    total = weights.sum(1, keepdims=True)
    share = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / count)
    entropy: np.ndarray = scipy.special.entr(share).sum(1) / np.log(count)
    return np.asarray(np.clip(entropy, 0.0, 1.0))
