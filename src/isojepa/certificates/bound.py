r"""Theorem 3 of Klindt, LeCun & Balestriero (2026) with confidence intervals; it needs no latents.

For embeddings h of a Gaussian world whose pairs have correlation rho,

    epsilon = |Cov(h) - I|_F
    delta   = E |h' - h|^2 - 2 (1 - rho) tr Cov(h)
    D       = delta / (2 rho (1 - rho))
    min over orthogonal Q of E |h - Q z|^2  <=  D + (epsilon + D)^2      for centered h.

Estimation. delta is a mean over pairs, with both views used for the trace; the raw mean may fall below
zero by chance, so it is kept beside its clipped value. The plain epsilon of a sample is far too large in
high dimension (about 10 for a perfect encoder at dimension 1024 with 10,000 samples). The debiased one
splits the samples into K blocks with covariances S_a and takes the mean of <S_a - I, S_b - I> over a != b,
which is unbiased for epsilon^2; it too may fall below zero by chance. Intervals are jackknives over the
blocks.

The published second term can be made up to four times smaller: with s = epsilon + D <= 1, all of s may sit in
one singular value of the linear part, which is then sqrt(1 - s), so

    error <= D + (1 - sqrt(1 - s))^2,

and some maps attain it (`isojepa theory --only sharper-bound`). It is `sharper`, beside the published one.

Both bounds grow with epsilon and with D, so an interval runs from the value at both lower ends
to that at both upper ends, each end at half the error probability (Bonferroni).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isojepa.certificates.embeddings import Embeddings, check_rho
from isojepa.certificates.views import Views, read_views
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import check_number, validate_types

LEAST = 8  # pairs
SURE = 0.999  # confidence at which delta below 0 is no longer put down to chance


Lack = Literal["rho", "pairs", "world", "dimension"]


@dataclass(frozen=True)
class NoBound:
    """Why there is no bound.

    Attributes:
        lacks: what is wanting, for programs: the pairs' correlation "rho", enough "pairs" of two views, a
            "world" that the theorem speaks of, or an embedding of the latents' "dimension".
        sentence: the same for people.
    """

    lacks: Lack
    sentence: str


@dataclass(frozen=True)
class Bound:
    """The terms of Theorem 3. Intervals of delta, D and epsilon^2 are raw: nothing in them is clipped.

    `refuted` tells that delta lies below 0 beyond chance. No embedding of a Gaussian world of correlation rho
    can do that, so rho is wrong or the world is another, and the bound means nothing.
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
    views = read_views(Embeddings(h, h_next))
    missing = too_few(views)
    if missing is not None:
        raise ValueError(f"the bound cannot be measured: {missing.sentence}")
    return bound_of(views, rho, confidence)


def too_few(views: Views) -> NoBound | None:
    """Why there are too few pairs for a bound; None if there are enough."""
    if views.n < LEAST:
        return NoBound("pairs", f"it needs at least {LEAST} pairs, got {views.n}")
    if sum(block.n > 1 for block in views.blocks) < 3:  # rows that were left out may empty the others
        return NoBound(
            "pairs", f"its {views.n} pairs lie too close together in the file to compare blocks of rows"
        )
    return None


def bound_of(views: Views, rho: float, confidence: float) -> Bound:
    """Theorem 3's bound from the sums over both views."""
    return bounds_at(views, confidence)(rho)


def bounds_at(views: Views, confidence: float) -> Callable[[float], Bound]:
    """Theorem 3's bound as a function of rho: what does not depend on rho is computed once."""
    joint = 0.5 + confidence / 2  # two quantities, each with half the error probability
    plain, squared, squared_wide = _epsilon(views, confidence, joint)
    dim = len(views.blocks[0].h)

    def at(rho: float) -> Bound:
        delta, delta_wide, delta_sure = _delta(views, rho, confidence, joint, SURE)
        gain = 1 / (2 * rho * (1 - rho))
        ends = (
            (_root(squared.estimate), max(delta.estimate, 0.0) * gain),
            (_root(squared_wide.low), max(delta_wide.low, 0.0) * gain),
            (_root(squared_wide.high), max(delta_wide.high, 0.0) * gain),
        )
        bound = Interval(*(published(epsilon, d) for epsilon, d in ends))
        return Bound(
            rho=rho,
            epsilon_plain=plain,
            epsilon_squared=squared,
            epsilon=Interval(_root(squared.estimate), _root(squared.low), _root(squared.high)),
            delta=delta,
            delta_clipped=max(delta.estimate, 0.0),
            d=delta.scaled(gain),
            d_clipped=max(delta.estimate, 0.0) * gain,
            bound=bound,
            per_dimension=bound.scaled(1 / dim),
            sharper=Interval(*(sharper(epsilon, d) for epsilon, d in ends)),
            refuted=delta_sure.high < 0,
        )

    return at


def published(epsilon: float, d: float) -> float:
    """D + (epsilon + D)^2."""
    return d + (epsilon + d) ** 2


def sharper(epsilon: float, d: float) -> float:
    """D + (1 - sqrt(1 - epsilon - D))^2; the published one where epsilon + D is above 1."""
    s = epsilon + d
    return d + (1 - math.sqrt(1 - s)) ** 2 if s <= 1 else published(epsilon, d)


def _root(squared: float) -> float:
    return float(np.sqrt(max(squared, 0.0)))


def _delta(views: Views, rho: float, *confidences: float) -> list[Interval]:
    """delta, unbiased, at each confidence.

    The mean of |h' - h|^2 - (1 - rho) (|h|^2 + |h'|^2) with both views centered; the factor n / (n - 1)
    returns the degree of freedom that centring took.
    """
    sizes = np.array([block.n for block in views.blocks])
    n = sizes.sum()
    losses = np.array([block.loss for block in views.blocks])
    sums = losses - (1 - rho) * views.spreads() * n / (n - 1)
    left_out = (sums.sum() - sums) / (n - sizes)
    return [from_blocks(sums.sum() / n, left_out, confidence) for confidence in confidences]


def _epsilon(views: Views, confidence: float, joint: float) -> tuple[float, Interval, Interval]:
    """Plain epsilon of all samples, and debiased epsilon^2 at two confidences."""
    blocks = [block for block in views.blocks if block.n > 1]
    identity = np.eye(len(blocks[0].h))
    plain = float(np.linalg.norm(views.covariance() - identity))
    off = np.stack([views.covariance(block) - identity for block in blocks]).reshape(len(blocks), -1)
    products = off @ off.T
    pairs = products - np.diag(np.diag(products))
    total, count = pairs.sum(), len(blocks)
    estimate = total / (count * (count - 1))
    left_out = (total - 2 * pairs.sum(1)) / ((count - 1) * (count - 2))
    return plain, from_blocks(estimate, left_out, confidence), from_blocks(estimate, left_out, joint)
