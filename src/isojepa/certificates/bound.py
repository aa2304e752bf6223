r"""Theorem 3 of Klindt, LeCun & Balestriero (2026) with confidence intervals; it needs no latents.

For embeddings h of a Gaussian world whose pairs have correlation rho,

    epsilon = |Cov(h) - I|_F
    delta   = E |h' - h|^2 - 2 (1 - rho) tr Cov(h)
    D       = delta / (2 rho (1 - rho))
    min over orthogonal Q of E |h - Q z|^2  <=  D + (epsilon + D)^2      for centered h.

The second term is the distance of the linear part A from the rotations, sum_i (1 - sigma_i)^2. It can be made
smaller (`sharper`). The nonlinear part has a covariance B with trace at most D, so A A^T = I + E - B with
|E|_F <= epsilon, and in the eigenvectors of A A^T its eigenvalues are 1 + e_i - b_i >= 0 with b_i >= 0,
sum b_i <= D and sum e_i^2 <= epsilon^2. f(m) = (1 - sqrt(1 - m))^2 is convex, so the worst case empties as
many directions as the budget allows, the largest k with k <= D + epsilon sqrt(k), and spends the rest on one
more:

    error <= D + k + f(min(1, D + epsilon sqrt(k + 1) - k)).

For epsilon + D <= 1, k = 0, and some maps attain it (`isojepa theory --only sharper-bound`). It grows
linearly in D where the published one grows as its square, so `per_dimension`, the share of variance that may
be wrong, is the sharper one divided by the dimension.

Estimation. delta is a mean over pairs, with both views used for the trace; the raw mean may fall below
zero by chance, so it stands beside its clipped value. The plain epsilon of a sample is far too large in
high dimension (about 10 for a perfect encoder at dimension 1024 with 10,000 samples). The debiased one
splits the samples into K blocks with covariances S_a and takes the mean of <S_a - I, S_b - I> over a != b,
which is unbiased for epsilon^2; it too may fall below zero by chance. Blocks are centered by the mean of
all rows, whose covariance, from the means of the blocks, is added again; neighboring blocks are not paired:
both matter where rows depend on each other.

Approximate: delta has a jackknife over the blocks, epsilon^2 the variance of a U-statistic (Hoeffding 1948,
eq. 5.13), which at epsilon = 0 is half of what a jackknife gives. Both bounds grow with epsilon^2 and with
delta, so their intervals run from the least to the largest value on the ellipse of the two, at the radius of
one quantity: if the bound were linear in them that is its own interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
import torch

from isojepa.certificates.pairs import PairRows, ViewMoments, read_moments
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import check_number, validate_types

MIN_PAIRS, MIN_BLOCKS = 8, 3
MIN_RHO = 1e-100  # the bound divides by rho
REFUTED_CONFIDENCE = 0.999  # at which delta below 0 is not put down to chance
_ANGLES = np.linspace(0, 2 * np.pi, 96, endpoint=False)  # of the ellipse


Lack = Literal["rho", "pairs", "world", "dimension"]


@dataclass(frozen=True)
class NoBound:
    """Why there is no bound.

    Attributes:
        lacks: what is missing, for programs: the pairs' correlation "rho", enough "pairs" of two views, a
            "world" that the theorem speaks of, or an embedding of the latents' "dimension".
        sentence: the same in words.
    """

    lacks: Lack
    sentence: str


@dataclass(frozen=True)
class Bound:
    """The terms of Theorem 3. Intervals of delta, D and epsilon^2 are raw: nothing in them is clipped.

    `bound` is the published one; `per_dimension` is `sharper` divided by the dimension. `refuted`: delta lies
    below 0 beyond chance. No embedding of a Gaussian world of correlation rho can do that, so rho is wrong or
    the world is another, and the bound means nothing.
    """

    rho: float
    epsilon_plain: float
    epsilon_squared: Interval
    epsilon: Interval
    delta: Interval
    delta_clipped: float
    d: Interval
    d_clipped: float
    bound: Interval
    per_dimension: Interval
    sharper: Interval
    refuted: bool


@validate_types
def measure_bound(h: np.ndarray, h_next: np.ndarray, rho: float, confidence: float = 0.95) -> Bound:
    """Measure Theorem 3's bound on the recovery error.

    Args:
        h, h_next: (n, dim) embeddings of the two views of n pairs.
        rho: correlation of the latents across a pair, in (0, 1), the same for all.
        confidence: of the intervals.

    Raises:
        ValueError: rho outside (0, 1), or too few pairs.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    rho = check_rho(rho)
    moments = read_moments(PairRows(h, h_next))
    missing = too_few(moments)
    if missing is not None:
        raise ValueError(f"the bound cannot be measured: {missing.sentence}")
    return bound_of(moments, rho, confidence)


def check_rho(rho: Any) -> float:
    """The correlation as a float in (0, 1)."""
    if isinstance(rho, np.ndarray | np.generic | torch.Tensor) and rho.ndim == 0:
        rho = rho.item()
    number = check_number("rho", rho, "lie in (0, 1)", lambda value: 0 < value < 1)
    if number < MIN_RHO:
        raise ValueError(f"rho must be at least {MIN_RHO:g}, or the bound leaves float64, got {number:g}")
    return number


def too_few(moments: ViewMoments) -> NoBound | None:
    """Why there are too few pairs for a bound; None if there are enough."""
    if moments.n < MIN_PAIRS:
        return NoBound("pairs", f"it needs at least {MIN_PAIRS} pairs, got {moments.n}")
    if sum(block.n > 1 for block in moments.blocks) < MIN_BLOCKS:  # rows left out may empty the others
        return NoBound(
            "pairs", f"its {moments.n} pairs lie too close together in the file to compare blocks of rows"
        )
    return None


def bound_of(moments: ViewMoments, rho: float, confidence: float) -> Bound:
    """Theorem 3's bound from the sums over both views."""
    return bounds_at(moments, confidence)(rho)


def bounds_at(moments: ViewMoments, confidence: float) -> Callable[[float], Bound]:
    """Theorem 3's bound as a function of rho: what does not depend on rho is computed once."""
    dim = len(moments.blocks[0].h)
    plain, squared, squared_error, influences, mean_variance = _epsilon(moments)
    squared_reach = _student(len(influences), confidence) * squared_error
    sizes = np.array([block.n for block in moments.blocks])
    n = int(sizes.sum())
    losses = np.array([block.loss for block in moments.blocks])
    spreads = moments.spreads() + 2 * sizes * mean_variance  # returns what centering took

    def at(rho: float) -> Bound:
        sums = losses - (1 - rho) * spreads
        left_out = (sums.sum() - sums) / (n - sizes)
        delta = from_blocks(sums.sum() / n, left_out, confidence)
        correlation = _correlation(influences, left_out) if len(influences) == len(left_out) else 0.0
        gain = 1 / (2 * rho * (1 - rho))
        # the ellipse of epsilon^2 and delta, its center first
        angles = np.stack(
            [np.cos(_ANGLES), correlation * np.cos(_ANGLES) + math.sqrt(1 - correlation**2) * np.sin(_ANGLES)]
        )
        ellipse = np.c_[np.zeros(2), angles]
        epsilons = np.sqrt(np.maximum(squared + squared_reach * ellipse[0], 0.0))
        ds = np.maximum(delta.estimate + (delta.high - delta.estimate) * ellipse[1], 0.0) * gain
        bound, sharp = _over(published(epsilons, ds)), _over(sharper(epsilons, ds, dim))
        return Bound(
            rho=rho,
            epsilon_plain=plain,
            epsilon_squared=Interval(squared, squared - squared_reach, squared + squared_reach),
            epsilon=Interval(*(math.sqrt(max(squared + s * squared_reach, 0.0)) for s in (0, -1, 1))),
            delta=delta,
            delta_clipped=max(delta.estimate, 0.0),
            d=delta.scaled(gain),
            d_clipped=max(delta.estimate, 0.0) * gain,
            bound=bound,
            per_dimension=sharp.scaled(1 / dim),
            sharper=sharp,
            refuted=from_blocks(delta.estimate, left_out, REFUTED_CONFIDENCE).high < 0,
        )

    return at


def published(epsilon: Any, d: Any) -> Any:
    """D + (epsilon + D)^2."""
    return d + (epsilon + d) ** 2


def sharper(epsilon: Any, d: Any, dim: float = math.inf) -> Any:
    """D + k + f(min(1, D + epsilon sqrt(k + 1) - k)), or the published one where that is smaller.

    The published one also holds where the budget empties every direction.

    Example:
        >>> float(sharper(0.0, 0.75, 4)), float(sharper(0.0, 2.75, 4)), float(published(0.0, 2.75))
        (1.0, 5.0, 10.3125)
    """
    epsilon, d = np.asarray(epsilon, dtype=np.float64), np.asarray(d, dtype=np.float64)
    root = (epsilon + np.sqrt(epsilon**2 + 4 * d)) / 2  # k = D + epsilon sqrt(k) at k = root^2
    k = np.floor(root**2)
    last = np.clip(d + epsilon * np.sqrt(k + 1) - k, 0.0, 1.0)
    worst = d + k + (1 - np.sqrt(1 - last)) ** 2
    return np.where(k < dim, np.minimum(worst, published(epsilon, d)), published(epsilon, d))


def _over(values: np.ndarray) -> Interval:
    """The value at the center of the ellipse, which comes first, and the range over all of it."""
    return Interval(float(values[0]), float(values.min()), float(values.max()))


def _student(blocks: int, confidence: float) -> float:
    return float(scipy.special.stdtrit(blocks - 1, 0.5 + confidence / 2))


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Of two statistics, from their values without each block; 0 where one never changes."""
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.clip(first @ second / scale, -1, 1)) if 0 < scale < math.inf else 0.0


def _epsilon(moments: ViewMoments) -> tuple[float, float, float, np.ndarray, float]:
    """Plain epsilon; debiased epsilon^2, its error, its values without each block; the mean's variance.

    Blocks are centered by the mean of all rows: their own means would take away the slow part of dependent
    rows. What the overall mean takes away is its covariance, from the means of the blocks. Neighboring blocks
    depend on each other and are not paired.
    """
    blocks = [block for block in moments.blocks if block.n > 1]
    count, dim = len(blocks), len(blocks[0].h)
    sizes = np.array([block.n for block in blocks])
    n = int(sizes.sum())
    sums = [np.stack([getattr(block, view) for block in blocks]) for view in ("h", "h_next")]
    means = [view.sum(0) / n for view in sums]
    centered = np.concatenate([view - np.outer(sizes, mean) for view, mean in zip(sums, means, strict=True)])
    of_mean = centered.T @ centered * count / (count - 1) / n**2 / 2
    off = np.empty((count, dim, dim))
    for index, block in enumerate(blocks):
        off[index] = block.products
        for view, mean in zip(sums, means, strict=True):
            cross = np.outer(view[index], mean)
            off[index] -= cross + cross.T - block.n * np.outer(mean, mean)
        off[index] = off[index] / (2 * block.n) + of_mean - np.eye(dim)
    flat = off.reshape(count, -1)
    plain = float(np.linalg.norm(moments.covariance() - np.eye(dim)))
    size = max(1.0, float(np.abs(flat).max()))  # fourth powers of huge numbers would overflow
    products = (flat / size) @ (flat / size).T
    gap = 2 if count >= 10 else 1
    paired = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) >= gap
    partners, pairs = paired.sum(1), int(paired.sum())
    rows, total = (products * paired).sum(1), float((products * paired).sum())
    estimate = total / pairs
    # products_ab = mean + g_a + g_b + e_ab, from which the variance of a weighted mean
    g = (rows / partners - estimate) * (count - 1) / (count - 2)
    e = (products - estimate - g[:, None] - g[None]) * paired
    var_e = (e**2).sum() / (pairs * max(count - 3, 1) / (count - 1))
    var_g = max((g**2).sum() / (count - 1) - var_e / (count - 2), 0.0)
    error = math.sqrt(4 * var_g * ((partners / pairs) ** 2).sum() + 2 * var_e / pairs)
    left_out = (total - 2 * rows) / (pairs - 2 * partners)
    return plain, estimate * size**2, error * size**2, left_out, float(np.trace(of_mean))
