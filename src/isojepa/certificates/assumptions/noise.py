r"""Additive noise: is z' = m(z) + eta with noise eta that does not depend on z?

m is fitted on one part of the samples by `regression`; the residuals of the other part, over the deviation
that the fit's own error gives them, are compared with z, and with |z|, by the distance correlation of ranks
(`dependence`). Their first cosine is left out: it is what moves with the mean, which the fit has used up and
leaves with an error of its own. What remains is the residual's scale and shape. Permuting residuals against z
gives the p-value.

The effect is the ratio of noise variances: with z_j the dimension that the residual depends on most, its
octiles are ordered by the residual's variance in one part of the samples, and the variance of the top two is
compared with that of the bottom two in the other part. It is 1 for additive noise.
"""

import math

import numpy as np
import torch

from isojepa.certificates.assumptions.dependence import (
    COSINES,
    judge_pairs,
    pair_weights,
    rank_cosines,
    search_pairs,
)
from isojepa.certificates.assumptions.line import Assumption, bounded, chance, judge, unmeasured
from isojepa.certificates.assumptions.regression import fit_regression
from isojepa.certificates.assumptions.sample import FITTED, Sample, halves
from isojepa.statistics.intervals import Interval, reach_of

MEASURE = "largest noise variance over the smallest, along the worst dimension"
THRESHOLD = 1.5
_LEAST = 64  # pairs
_OUTPUTS = 64  # residuals looked at
_PAIRS = 64  # judged at most
_BINS, _EXTREME = 8, 2
_SHARE = 8  # samples per dimension to fit m on


def check_noise(sample: Sample, rows: int, draws: int, confidence: float) -> Assumption:
    """The line of additive noise, for a sample with both views."""
    name = "additive noise"
    z, z_next = sample.views
    search, judged = halves(len(z), rows // 2)
    search = slice(search.start, search.start + max(FITTED, _SHARE * sample.dim))
    z_fit, z_judge = z[search], z[judged]
    if len(z_judge) < _LEAST // 2 or len(z_fit) < 2 * sample.dim:
        reason = (
            f"{sample.count(len(z), 'pairs')} are too few to fit the mean step in {sample.dim} dimensions."
        )
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, "Take more pairs.")
    outputs = np.sort(torch.randperm(sample.dim, generator=sample.stream("outputs"))[:_OUTPUTS].numpy())
    fit = fit_regression(z_fit, z_next[search][:, outputs], sample.stream("mean step"))
    compared = min(len(z_fit), 2 * len(z_judge))
    residuals = [z_next[search][:compared, outputs] - fit(z_fit[:compared])]
    # new residuals have the error of the fit on top
    residuals.append((z_next[judged][:, outputs] - fit(z_judge)) / np.sqrt(1 + fit.errors(z_judge)))
    if _exact(residuals[1], z_next[judged][:, outputs]):
        reason = "The second view is a function of the first, with no noise that could be looked at."
        advice = "Take pairs farther apart, and check that the views are not the same array."
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, advice)
    return _judged(
        sample, residuals, [_with_norm(z_fit[:compared]), _with_norm(z_judge)], outputs, draws, confidence
    )


def _judged(
    sample: Sample,
    residuals: list[np.ndarray],
    inputs: list[np.ndarray],
    outputs: np.ndarray,
    draws: int,
    confidence: float,
) -> Assumption:
    """The line, from residuals and inputs of the samples that search and of those that judge."""
    count = len(outputs)
    i, j = np.meshgrid(np.arange(count), count + np.arange(inputs[0].shape[1]), indexing="ij")
    pairs = np.stack([i.ravel(), j.ravel()], 1)
    weights = pair_weights(COSINES, left_from=2)
    if len(pairs) > _PAIRS:
        searched = rank_cosines(np.concatenate([residuals[0], inputs[0]], axis=1), sample.stream("ties"), 3)
        pairs = search_pairs(searched, pairs, pair_weights(3, left_from=2), _PAIRS)
    features = rank_cosines(
        np.concatenate([residuals[1], inputs[1]], axis=1), sample.stream("ties", "judged")
    )
    groups = (np.arange(len(features)) >= count).astype(int)
    found = judge_pairs(features, pairs, groups, weights, draws, confidence, sample.stream("noise"))
    output, variable = pairs[int(found.squared.argmax())]
    along = int(variable) - count
    ratio, bins = variance_ratio(
        [inputs[0][:, along], inputs[1][:, along]],
        [residuals[0][:, output], residuals[1][:, output]],
        confidence,
    )
    n = len(residuals[1])
    detectable = math.exp(2 * math.sqrt(2 * 2 / (n * _EXTREME / _BINS)))  # two deviations of the logarithm
    verdict = judge(found.p, 1 - confidence, ratio.estimate, THRESHOLD, detectable, none=1.0)
    where = "the length of z" if along == sample.dim else sample.label(along)
    sentence = (
        f"The noise variance of {sample.label(int(outputs[output]))} along {where} is {ratio.estimate:.3g} "
        f"times as large where it seemed largest as where it seemed smallest ({chance(found.p)})"
    )
    advice = "" if verdict == "holds" else _ADVICE
    if found.p > 1 - confidence and verdict == "unclear":
        sentence += f"; {n} held-out pairs show only ratios above {detectable:.2g}"
        advice = "Take more pairs."
    low, high = bins
    return Assumption(
        "additive noise",
        sample.of,
        MEASURE,
        ratio.estimate,
        ratio,
        THRESHOLD,
        found.p,
        verdict,
        sentence + ".",
        advice,
        bounded(
            [(f"noise variance up to {edge:.3g} of {where}", v) for edge, v in zip(low, high, strict=True)]
        ),
    )


_ADVICE = (
    "Change coordinates so that the noise is the same everywhere, such as the logarithm of a quantity whose "
    "noise grows with it, or take pairs closer in time."
)


def variance_ratio(
    inputs: list[np.ndarray], residuals: list[np.ndarray], confidence: float
) -> tuple[Interval, tuple[np.ndarray, np.ndarray]]:
    """Largest over smallest variance of residuals along an input; ordered on one part, measured on the other.

    Args:
        inputs, residuals: of the part that orders and the part that measures, each (n,).
        confidence: of the interval.

    Returns:
        The ratio, and the upper edges and variances of all bins.
    """
    edges = np.quantile(inputs[0], np.arange(1, _BINS) / _BINS)
    squares = [residual**2 for residual in residuals]
    bins = [np.searchsorted(edges, x) for x in inputs]
    means = [_mean(squares[0][bins[0] == b]) for b in range(_BINS)]
    order = np.argsort(means)
    bottom, top = (squares[1][np.isin(bins[1], part)] for part in (order[:_EXTREME], order[-_EXTREME:]))
    measured = np.array([_mean(squares[1][bins[1] == b]) for b in range(_BINS)])
    edges = np.append(edges, inputs[0].max())
    if min(len(bottom), len(top)) < 2 or bottom.mean() <= 0:
        return Interval(math.nan, 0.0, math.inf), (edges, measured)
    log = math.log(top.mean() / bottom.mean())
    error = math.sqrt(sum(part.var(ddof=1) / (len(part) * part.mean() ** 2) for part in (top, bottom)))
    reach = reach_of(confidence) * error
    return Interval(math.exp(log), math.exp(log - reach), math.exp(log + reach)), (edges, measured)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _with_norm(z: np.ndarray) -> np.ndarray:
    return np.concatenate([z, np.linalg.norm(z, axis=1, keepdims=True)], axis=1)


def _exact(residual: np.ndarray, target: np.ndarray) -> bool:
    return bool((residual.std(0) <= 1e-4 * target.std(0)).all())
