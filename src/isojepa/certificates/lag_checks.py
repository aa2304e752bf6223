r"""Whether an autocorrelation curve may be read as Hermite degrees at all. Each check gives sentences.

The marginals. A function y of Gaussian latents with the share s of its variance linear correlates by sqrt(s)
with a Gaussian, its own linear part. No Gaussian correlates more with y than the one coupled to it by
quantiles, so

    s  <=  W(y) = corr(y, normal scores of y)^2,

which is the statistic of Shapiro and Francia. It bounds the linear share from above without any decay: W is
0.70 for z^2 and 0.90 for a product z1 z2. A curve that claims more is read at the wrong rate, e.g. that of an
embedding of degree 2 alone, or the latents are not Gaussian.

Unequal rates. If directions decay differently, either they hold other degrees, and then a curve is a mixture
of exponentials at multiples of one rate, or their latents have other rates, and then each is one exponential.
The two are compared by their misfits; where they tie, a Gaussian marginal speaks for another rate.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.certificates.lag_curves import Curves
from isojepa.certificates.lag_fit import Metric, basis
from isojepa.certificates.lag_law import JointLaw
from isojepa.certificates.mixture import fit_many, fit_shares, percentile_interval
from isojepa.objectives.gaussianity import ShapiroWilk
from isojepa.objectives.gaussianity.univariate import normal_scores
from isojepa.statistics.intervals import Interval, from_blocks

_BLOCKS = 20
_TESTED = 1000  # samples of the test of Gaussianity
_SEEN = 20_000  # samples of W
_WIDEST = 64  # dimensions of the test of reversibility
_SIGNIFICANT = 0.01
_CHANCE = 5.0  # what W of Gaussians falls short of 1 by, times the number of samples; 3 is seldom
_DECIDED = 6.0  # difference of misfits that decides between two readings
_GAUSSIAN = 0.985  # W above which a marginal counts as Gaussian


@dataclass(frozen=True)
class Marginals:
    """What the marginals say of the linear share.

    Attributes:
        ceiling: the linear share can be no larger; pooled over coordinates or principal directions.
        slowest: the same of the slowest function alone.
        p: of the least Gaussian of the functions tested, times their number.
        samples: nearly independent samples of the p-value.
    """

    ceiling: float
    slowest: float
    p: float
    samples: int


def quantile_correlation(y: np.ndarray) -> np.ndarray:
    """W of samples (n, k): squared correlation with normal scores, (k,); 1 for one that does not vary."""
    n = len(y)
    scores = normal_scores(n)
    centered = np.sort(y, axis=0) - y.mean(0)
    energy = (centered**2).sum(0)
    flat = energy <= 1e-20 * (y**2).sum(0)
    return np.where(flat, 1.0, (scores @ centered) ** 2 / np.where(flat, 1.0, energy * (scores @ scores)))


def measure_marginals(h: np.ndarray, slow: np.ndarray, lag: int, seed: int) -> Marginals:
    """W of the embedding (steps, paths, dim) and of its slow functions; p from steps three decays apart."""
    few = _thinned(h, max(1, h.shape[0] * h.shape[1] // _SEEN))
    variance = few.var(0)
    _, vectors = np.linalg.eigh(np.atleast_2d(np.cov(few, rowvar=False)))
    turned = few @ vectors
    pooled = [
        float((quantile_correlation(few) * variance).sum() / variance.sum()),
        float((quantile_correlation(turned) * turned.var(0)).sum() / turned.var(0).sum()),
    ]
    function = slow[..., :1]
    half = function.shape[1] // 2  # its sign is free in each half
    both = [
        float(quantile_correlation(_thinned(part, max(1, part.shape[0] * part.shape[1] // _SEEN)))[0])
        for part in (function[:, :half], function[:, half:])
    ]
    apart = h[:: 3 * lag].reshape(-1, h.shape[2])
    apart = apart[:, variance > 1e-12 * variance.max()]
    apart = apart[:: math.ceil(len(apart) / _TESTED)][:, :_WIDEST]
    if len(apart) < 20:
        return Marginals(min(pooled), min(both), 1.0, len(apart))
    p = ShapiroWilk().pvalue(torch.from_numpy(np.ascontiguousarray(apart)), draws=499, seed=seed)
    return Marginals(min(pooled), min(both), min(1.0, float(p.min()) * len(p)), len(apart))


def _thinned(h: np.ndarray, stride: int) -> np.ndarray:
    """Every so many rows, over all paths and times alike."""
    return h.swapaxes(0, 1).reshape(-1, h.shape[2])[::stride]


def check_marginals(marginals: Marginals, claimed: float) -> list[str]:
    """Does the curve claim more than the marginals allow, by more than the error of W?

    Args:
        marginals: what they allow.
        claimed: lower end of the linear share.
    """
    if claimed <= marginals.ceiling + _CHANCE / max(marginals.samples, 1):
        return []
    return [
        f"The decay would make the embedding {100 * claimed:.0f} % linear, but its marginals are not "
        f"Gaussian and allow at most {100 * marginals.ceiling:.1f} %: it may be of degree 2 alone, which "
        "decays like a linear one of twice the rate, or the latents are not Gaussian; pass the rate if you "
        "know it."
    ]


def check_law(law: JointLaw) -> list[str]:
    """Do the slow functions fix the rate: are they Gaussian along the paths, and seen well enough?"""
    if law.differs:
        return [
            "The slowest functions of the embedding are not Gaussian along the paths (excess kurtosis "
            f"{law.kurtosis.estimate:.2g}, by squares a lag apart {law.squares.estimate:.2g}), so none of "
            "them need be linear, and one of degree 2 decays like a linear one of twice the rate: pass the "
            "rate if you know it."
        ]
    if not law.gaussian:
        return [
            "The rate cannot be found: a linear embedding decays like a quadratic one of half the rate, and "
            f"these data rule out quadratic functions of up to {law.latents:.0f} latents, where {law.wanted} "
            f"are asked for; record about {law.more} times as much, or pass the rate if you know it."
        ]
    return []


def check_shape(curves: Curves, limited: bool) -> list[str]:
    """Does the pooled curve fall to near 0, and stay there?"""
    values, errors = curves.values[0], curves.draws[:, 0].std(0)
    reasons = []
    if limited and values[-1] > 0.5:
        reasons.append(
            f"The curve has only fallen to {values[-1]:.2f} at the longest usable lag, {curves.lags[-1]}: "
            "record longer paths, or keep only every few steps."
        )
    low = int(np.argmin(values + 3 * errors))
    if values[low] + 3 * errors[low] < -0.02:
        reasons.append(
            f"The curve falls below 0, to {values[low]:.2f} at lag {curves.lags[low]}: the world oscillates, "
            "which no reversible process does; the degrees cannot be read off it."
        )
    rises = np.diff(values) - 4 * np.sqrt(errors[1:] ** 2 + errors[:-1] ** 2)
    if len(rises) and rises.max() > 0.02:
        reasons.append("The curve rises again: the world oscillates or is periodic.")
    if values[0] < 0.1:
        reasons.append(
            f"After the shortest lag, {curves.lags[0]}, the correlation is only {values[0]:.2f}: "
            "record more densely in time, or the embedding is mostly noise."
        )
    return reasons


def check_reversible(h: np.ndarray, lag: int) -> list[str]:
    """Is the lagged covariance symmetric, as that of a reversible process is?"""
    _, paths, dim = h.shape
    if dim < 2:
        return []
    flat = h.reshape(-1, dim)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    kept = np.flatnonzero(values > 1e-8 * values[-1])[::-1][:_WIDEST]
    white = h @ (vectors[:, kept] / np.sqrt(values[kept]))
    if paths >= _BLOCKS:
        parts = np.array_split(white, _BLOCKS, axis=1)
    else:
        parts = [part for part in np.array_split(white, _BLOCKS, axis=0) if len(part) > 2 * lag]
    if len(parts) < 5:
        return []
    lagged = [np.einsum("tni,tnj->ij", part[:-lag], part[lag:]) / part[lag:, :, 0].size for part in parts]
    skew = np.stack([(matrix - matrix.T) / 2 for matrix in lagged]).reshape(len(parts), -1)
    products = skew @ skew.T
    off = products - np.diag(np.diag(products))
    count, total = len(parts), off.sum()
    left_out = (total - 2 * off.sum(1)) / ((count - 1) * (count - 2))
    square = from_blocks(total / (count * (count - 1)), left_out, 1 - _SIGNIFICANT)
    size = float(np.linalg.norm(np.mean(lagged, axis=0)))
    effect = math.sqrt(max(square.estimate, 0.0)) / size
    if square.low > 0 and effect > 0.1:
        return [
            f"Time has a direction: the antisymmetric part of the lagged covariance is {effect:.2f} of the "
            "whole, and 0 for a reversible process; the degrees assume one."
        ]
    return []


def check_stationary(h: np.ndarray, lag: int) -> list[str]:
    """Are mean and variance the same early and late?"""
    steps, paths, _ = h.shape
    if steps < 4:
        return []
    energy = (h**2).sum(2)
    early, late = energy[: steps // 2].mean(), energy[-(steps // 2) :].mean()
    shift = float(
        ((h[: steps // 2].mean((0, 1)) - h[-(steps // 2) :].mean((0, 1))) ** 2).sum() / energy.mean()
    )
    independent = max(2.0, paths * max(1.0, steps / (4 * lag)))
    spread = 5 * float(energy.std() / energy.mean()) * math.sqrt(2 / independent)
    if abs(early - late) / energy.mean() > max(0.2, spread) or shift > max(0.1, 40 / independent):
        return [
            f"Mean or variance change along the paths (variance {early:.3g} early, {late:.3g} late): leave "
            "out the start, or the process is not stationary."
        ]
    return []


def direction_rates(curves: Curves, first: int, confidence: float) -> tuple[Interval, ...]:
    """Decay rate of each curve from `first` on, between the shortest lag and that where it is near 0.4.

    A ratio of two lags, in which noise cancels; NaN for a curve that is not positive there.
    """
    found = []
    for values, draws in zip(curves.values[first:], curves.draws[:, first:].swapaxes(0, 1), strict=True):
        at = max(1, int(np.argmin(np.abs(values - 0.4 * values[0])))) if len(values) > 1 else 0
        span = curves.lags[at] - curves.lags[0]
        if span == 0 or values[at] <= 0 or values[0] <= 0:
            found.append(Interval(math.nan, math.nan, math.nan))
            continue
        redrawn = np.log(np.maximum(draws[:, 0], 1e-6) / np.maximum(draws[:, at], 1e-6)) / span
        rate = float(np.log(values[0] / values[at]) / span)
        found.append(percentile_interval(rate, redrawn, confidence))
    return tuple(found)


def check_rates(
    rates: tuple[Interval, ...], values: np.ndarray, metric: Metric, rate: float, gaussian: np.ndarray
) -> list[str]:
    """Do the directions decay at other rates, or do they hold other degrees?

    Args:
        rates: of each direction.
        values: (directions, t) their curves.
        metric: of these curves.
        rate: the one that all are read at.
        gaussian: (directions,) W of each.
    """
    known = [one for one in rates if not math.isnan(one.estimate)]
    if len(known) < 2:
        return []
    slow, fast = min(known, key=lambda one: one.estimate), max(known, key=lambda one: one.estimate)
    if fast.low < 1.1 * slow.high:
        return []
    by_degree = fit_many(basis(rate, metric.lags, metric.degree), values, metric.whitener)[1]
    by_rate = np.array([_single(curve, metric) for curve in values])
    gain = float(((by_degree - by_rate) / metric.dispersion).sum())
    faster = np.array([one.low > 1.1 * slow.high for one in rates])
    normal = bool((gaussian[faster] > _GAUSSIAN).all())
    if gain > _DECIDED or (gain > -_DECIDED and normal):
        sure = "each as one exponential" if gain > _DECIDED else "with Gaussian marginals"
        return [
            f"The directions decay at rates from {slow.estimate:.3g} to {fast.estimate:.3g} per step, "
            f"{sure}: their latents have unequal rates, and degrees look like rates; measure groups of "
            "directions of one rate by themselves."
        ]
    return []


def _single(curve: np.ndarray, metric: Metric) -> float:
    """Least misfit of one exponential and noise, over its rate."""
    at = int(np.argmin(np.abs(curve - 0.4)))
    middle = -math.log(min(max(float(curve[at]), 1e-3), 1 - 1e-6)) / metric.lags[at]
    misfits = [
        fit_shares(np.c_[np.exp(-one * metric.lags), np.zeros(len(metric.lags))], curve, metric.whitener)[1]
        for one in middle * np.geomspace(0.6, 1.4, 81)
    ]
    return min(misfits)
