r"""Canonical correlations: their mean, SVCCA and PWCCA.

The canonical correlations rho_1 >= rho_2 >= ... of X and Y are the singular values of U_x' U_y, U the
principal axes of centred rows. With r = min(r1, r2) of them,

    mean CCA   sum_k rho_k / r
    SVCCA      the same, of the axes that hold 99 % of the variance of each side (Raghu et al., 2017)
    PWCCA      sum_k a_k rho_k / sum_k a_k with a_k = sum_j |h_k . x_j| over the columns x_j of one side, h_k
               its canonical variates of length 1 (Morcos et al., 2018). The first side weighs by default.

All lie between 0 and 1. None is changed by an invertible linear map but SVCCA, which is by one that changes
which axes hold the variance, and PWCCA, by one of the side that weighs. Chance is large: independent data
of widths d1, d2 has a mean squared correlation of max(d1, d2) / (n - 1) exactly. Axes with less than 1e-12
of the largest variance are left out. Intervals, from influence values (Romanazzi, 1992), cover what the
score tends to be at this number of rows; they hold the axes of SVCCA and the weights of PWCCA fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.metrics.comparison import Comparison, compared, null_of_draws
from isojepa.align.metrics.crossings import DRAWS, Axes, crossing, crossings, draws_in_words, singular_sum
from isojepa.align.metrics.inputs import Pair, check_options, read_pair
from isojepa.arguments import check_number, checked
from isojepa.certificates.intervals import from_samples
from isojepa.names import choose

VARIANCE = 0.99


@dataclass(frozen=True)
class _Score:
    """One of the three: which axes it looks at, and how it weighs their canonical correlations.

    Attributes:
        name: of the score.
        one, two: axes of both sides.
        weigh: weights (r,) from the left vectors (r1, r) of the crossing; None where all weigh alike.
    """

    name: str
    one: Axes
    two: Axes
    weigh: Callable[[Tensor], Tensor] | None = None

    def value(self, crossed: Tensor) -> float:
        """The score of a crossing (r1, r2)."""
        if self.weigh is None:
            return singular_sum(crossed) / min(crossed.shape)
        left, correlations, _ = torch.linalg.svd(crossed, full_matrices=False)
        return float(self.weigh(left) @ correlations)

    def influences(self, crossed: Tensor) -> tuple[float, np.ndarray]:
        """The score and what each row adds to it, to first order, (n,)."""
        left, correlations, right = torch.linalg.svd(crossed, full_matrices=False)
        weights = torch.full_like(correlations, 1 / len(correlations))
        if self.weigh is not None:
            weights = self.weigh(left)
        u = self.one.rows @ (self.one.vectors / self.one.sizes @ left)
        v = self.two.rows @ (self.two.vectors / self.two.sizes @ right.T)
        half = weights * correlations / 2
        added = (u * v) @ weights - u.square_() @ half - v.square_() @ half
        return float(weights @ correlations), len(u) * added.numpy()


@checked
def mean_cca(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Mean canonical correlation.

    Args:
        first, second: (n, d1) and (n, d2), n larger than both widths by 2 at least.
        confidence: of the interval.
        null: whether to work out chance.
        draws: of re-paired rows.
        seed: of the draws.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them, or have too few rows.
    """
    pair = read_pair(first, second, drop_constant=drop_constant)
    return score_of(pair, _plain(*_axes(pair)), None, confidence, null, draws, seed)


@checked
def svcca(
    first: Any,
    second: Any,
    *,
    variance: float = VARIANCE,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """SVCCA: mean canonical correlation of the axes that hold a share `variance` of each side's variance."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    return score_of(pair, _leading(*_axes(pair), variance), None, confidence, null, draws, seed)


@checked
def pwcca(
    first: Any,
    second: Any,
    *,
    weights: str = "first",
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """PWCCA: canonical correlations weighed by how much of a side they account for; `weights` says which."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    return score_of(pair, _weighted(*_axes(pair), weights), None, confidence, null, draws, seed)


def scores(one: Axes, two: Axes) -> dict[str, Callable[[], _Score]]:
    """Mean CCA, SVCCA and PWCCA of sides that are already decomposed; each may be refused when made."""
    return {
        "mean CCA": lambda: _plain(one, two),
        "SVCCA": lambda: _leading(one, two, VARIANCE),
        "PWCCA": lambda: _weighted(one, two, "first"),
    }


def score_of(
    pair: Pair,
    score: _Score,
    products: Tensor | None,
    confidence: float,
    null: bool,
    draws: int,
    seed: int,
) -> Comparison:
    """One of the scores, with interval and chance; `products` is X' Y, if it is known."""
    check_options(confidence, draws)
    value, influences = score.influences(crossing(score.one, score.two, products))
    interval = from_samples(influences, confidence, value)
    found = None
    if null:
        drawn = np.array([score.value(c) for c in crossings(score.one, score.two, draws, seed)])
        found = null_of_draws(value, drawn, True, draws_in_words(pair.rows, draws))
    return compared(score.name, interval, found, best=1.0, rows=pair.rows, note=pair.note)


def _axes(pair: Pair) -> tuple[Axes, Axes]:
    return Axes.of(pair.first), Axes.of(pair.second)


def _enough(name: str, one: Axes, two: Axes) -> None:
    n, most = len(one.rows), max(one.count, two.count)
    if n < most + 2:
        raise ValueError(
            f"{name} must have at least 2 rows more than dimensions, got {n} rows and {most} dimensions, "
            "where every correlation is 1: use more rows, SVCCA with a smaller variance, or unbiased CKA"
        )


def _plain(one: Axes, two: Axes) -> _Score:
    _enough("mean CCA", one, two)
    return _Score("mean CCA", one, two)


def _leading(one: Axes, two: Axes, variance: float) -> _Score:
    check_number("variance", variance, "lie in (0, 1]", lambda v: 0 < v <= 1)
    one, two = one.leading(variance), two.leading(variance)
    _enough("SVCCA", one, two)
    return _Score("SVCCA", one, two)


def _weighted(one: Axes, two: Axes, weights: str) -> _Score:
    _enough("PWCCA", one, two)
    one, two = choose("weights", weights, {"first": (one, two), "second": (two, one)})
    loadings = one.sizes[:, None] * one.vectors.T  # (r1, d1): U' X

    def weigh(left: Tensor) -> Tensor:
        sizes = (left.T @ loadings).abs().sum(1)
        return sizes / sizes.sum()

    return _Score("PWCCA", one, two, weigh)
