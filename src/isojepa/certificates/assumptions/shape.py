r"""Gaussianity: is the law normal, whatever its mean and covariance?

Each direction is centered and scaled by itself and judged by the Epps-Pulley statistic, whose law for normal
samples with estimated mean and deviation is, for many samples, sum_k weight_k chi^2_1: the weights are the
eigenvalues, under the quadrature's weights, of

    e^{-(s-t)^2/2} - (1 + s t + (s t)^2 / 2) e^{-(s^2+t^2)/2}         (Baringhaus & Henze 1988).

For few samples the law is simulated. The directions are the dimensions as they are, and those that a search
on one half of the samples finds least Gaussian, judged on the other half. The p-value is the smallest times
the number of directions.

The effect is the bend: 1 - corr(x, q)^2 with q the normal quantiles at the ranks of x, less what normal
samples show of it. A monotone map that makes the direction Gaussian, as an encoder with Gaussian embeddings
does, is nonlinear by that share of the variance, so that a linear probe misses it: 4.5 % for a uniform law.
"""

import functools
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa import ranks
from isojepa.certificates.assumptions.line import Assumption, bounded, chance, judge
from isojepa.certificates.assumptions.sample import Sample
from isojepa.certificates.gaussianity import worst_slices
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.objectives.gaussianity.statistic import LimitDistribution, NullDistribution
from isojepa.objectives.gaussianity.univariate import normal_scores
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks

MEASURE = "share of a direction's variance that bends away when it is made Gaussian"
THRESHOLD = 0.01
_LIMIT_FROM = 512  # samples from which the limit law is used
_SIMULATED, _SEED = 9_999, 0
_SEARCHED = 4  # directions
_SEARCHED_LEAST, _SEARCHED_MOST, _WORK = 2000, 8192, 1 << 27  # samples to search on, by their size
_SHARE = 4  # samples per dimension, to whiten before the search
_BLOCKS = 20


@dataclass(frozen=True)
class Directions:
    """Directions found on one half of the samples, and the projections of the other half on them.

    Attributes:
        weights: (dim, k).
        projections: (n, k).
    """

    weights: np.ndarray
    projections: np.ndarray


@ranks.alone()  # these are all the samples, also in a distributed job
def search_directions(sample: Sample, rows: int) -> Directions:
    """The least Gaussian directions, found on one half and projected on the other."""
    dim = sample.dim
    half = min(len(sample) // 2, max(_SEARCHED_LEAST, min(_SEARCHED_MOST, _WORK // (dim * min(dim, 256)))))
    judged, x = slice(0, min(half, rows)), sample.z[half : 2 * half]
    center = x.mean(0)
    if len(x) >= _SHARE * dim:
        values, vectors = scipy.linalg.eigh((x - center).T @ (x - center) / len(x))
        keep = values > 1e-9 * values[-1]
        whitening = vectors[:, keep] / np.sqrt(values[keep])
    else:
        whitening = np.diag(1 / np.maximum(x.std(0), 1e-300))
    both = np.concatenate([x, sample.z[:half]])
    found = worst_slices(torch.from_numpy((both - center) @ whitening).float(), _SEARCHED, seed=sample.seed)
    weights = whitening @ np.stack([one.direction for one in found], 1).astype(np.float64)
    return Directions(weights, sample.z[judged] @ weights)


def check_gaussianity(sample: Sample, directions: Directions, rows: int, confidence: float) -> Assumption:
    """The line of Gaussianity."""
    coordinates = sample.z[:rows]
    ps = np.concatenate([normal_pvalues(coordinates), normal_pvalues(directions.projections)])
    p = min(1.0, len(ps) * float(ps.min()))
    worst = int(ps.argmin())
    searched = worst >= sample.dim
    x = directions.projections[:, worst - sample.dim] if searched else coordinates[:, worst]
    interval = _interval(x, confidence)
    quantile = 1 - (1 - confidence) / len(ps)
    detectable = max(
        float(np.quantile(_bends(len(part)), quantile) - _bends(len(part)).mean())
        for part in ((coordinates,) if sample.of == "latents" else (coordinates, directions.projections))
    )
    verdict = judge(p, 1 - confidence, interval.estimate, THRESHOLD, detectable)
    where = "a direction that was searched for" if searched else sample.label(worst)
    bends = f"by {100 * interval.estimate:.2f} % of its variance when it is made Gaussian"
    if interval.estimate <= 0:
        bends = "no more than normal samples do"
    sentence = f"The least Gaussian direction, {where}, bends {bends} ({chance(p)})"
    advice = "" if verdict == "holds" else _ADVICE[sample.of]
    if p > 1 - confidence and verdict == "unclear":
        sentence += (
            f"; {sample.count(len(coordinates), 'samples')} show only bends above {100 * detectable:.2g} %"
        )
        advice = "Take more samples."
    order = np.argsort(ps[: sample.dim])
    detail = [(f"p of searched direction {k}", value) for k, value in enumerate(ps[sample.dim :])]
    detail += [(f"p of {sample.label(k)}", ps[k]) for k in order]
    return Assumption(
        "Gaussianity",
        sample.of,
        MEASURE,
        interval.estimate,
        interval,
        THRESHOLD,
        p,
        verdict,
        sentence + ".",
        advice,
        bounded(detail),
    )


_ADVICE = {
    "latents": "Expect a monotone function of each latent in place of the latent: read it with a nonlinear "
    "probe, or change the latents' coordinates so that they are Gaussian.",
    "embeddings": "Train longer or raise the weight of the regularizer; if it stays, the latents may be "
    "non-Gaussian or fewer than the embedding's dimensions.",
}


@ranks.alone()
def normal_pvalues(x: np.ndarray) -> np.ndarray:
    """p-value of each column of x (n, k) for a normal law of any mean and deviation."""
    n = len(x)
    deviation = x.std(0)
    centered = (x - x.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    values = EppsPulley().statistic(torch.from_numpy(centered).double())  # float32 would compile, for seconds
    law = _limit() if n >= _LIMIT_FROM else _simulated(n)
    return law.pvalue(values).numpy()


def bend(x: np.ndarray) -> np.ndarray:
    """1 - corr^2 of sorted columns (n, k) with normal quantiles."""
    n = len(x)
    q = normal_scores(n)
    centered = x - x.mean(0)
    bends: np.ndarray = 1 - (q @ centered) ** 2 / ((q @ q) * (centered**2).sum(0))
    return bends


def normal_bend(n: int) -> float:
    """What `bend` is on average for n normal samples."""
    return float(_bends(n).mean())


@functools.cache
def _limit() -> LimitDistribution:
    t, phi, weights = EppsPulley().grid.table
    minus, plus = (np.exp(-((t[:, None] + sign * t) ** 2) / 2) for sign in (-1, 1))
    root, product, st = np.sqrt(np.outer(weights, weights)), np.outer(phi, phi), np.outer(t, t)
    cosines = scipy.linalg.eigh(root * ((minus + plus) / 2 - product * (1 + st**2 / 2)), eigvals_only=True)
    sines = scipy.linalg.eigh(root * ((minus - plus) / 2 - product * st), eigvals_only=True)
    spectrum = np.concatenate((cosines, sines))
    return LimitDistribution(tuple(spectrum[spectrum > 1e-12 * spectrum.max()]))


@functools.lru_cache(maxsize=16)
def _simulated(n: int) -> NullDistribution:
    """The law of the statistic for few samples, whose mean and deviation are estimated."""
    source = generator(_SEED, "shape", n)
    values = []
    for _ in range(10):
        x = torch.randn(n, (_SIMULATED + 9) // 10, generator=source).double()
        values.append(EppsPulley().statistic((x - x.mean(0)) / x.std(0, unbiased=False)))
    return NullDistribution(np.sort(torch.cat(values).double().numpy()))


@functools.lru_cache(maxsize=16)
def _bends(n: int) -> np.ndarray:
    """Bends of normal samples."""
    x = torch.randn(n, 1000, generator=generator(_SEED, "bends", n), dtype=torch.float64)
    return bend(x.sort(0).values.numpy())


def _interval(x: np.ndarray, confidence: float) -> Interval:
    """Of the bend of x (n,) without that of normal samples, by leaving out each of some blocks."""
    bias = normal_bend(len(x))
    blocks = np.arange(len(x)) % min(_BLOCKS, len(x) // 2)
    left_out = [bend(np.sort(x[blocks != block])[:, None])[0] for block in range(blocks.max() + 1)]
    whole = bend(np.sort(x)[:, None])[0]
    raw = from_blocks(whole, np.array(left_out), confidence)
    return Interval(raw.estimate - bias, raw.low - bias, raw.high - bias)
