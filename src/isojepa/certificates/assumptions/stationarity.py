r"""Stationarity: do both views have one law?

With x from the first view and y from the second, in dimensions scaled by their common deviations, the energy
distance (Szekely & Rizzo 2004) over twice the distance between the views is

    H = (2 E|x - y| - E|x - x~| - E|y - y~|) / (2 E|x - y|),

which is 0 only for equal laws. Two normal laws of d independent dimensions, apart by a small shift s of the
mean, have H = s^2 / (4 d) + O(s^4). The effect is therefore given as the equivalent shift sqrt(4 d H), in
standard deviations: that of the mean which would be as far.

The energy distance is the squared length of the mean of D_i = phi(x_i) - phi(y_i) for a feature map phi, over
pairs i. Swapping the views of a pair turns the sign of D_i. The test draws signs at random: exact where pairs
are exchangeable, as in every reversible stationary process, and right for many pairs whenever the laws are
equal, since the mean of the D_i is then 0 and signs leave their covariance as it is. The dependence within a
pair is left as it is.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from isojepa.certificates.assumptions.line import FAILS, Assumption, bounded, chance, judge, unmeasured
from isojepa.certificates.assumptions.sample import Sample
from isojepa.statistics.intervals import Interval, from_blocks

MEASURE = "difference between the views, as a shift of the mean in standard deviations"
THRESHOLD = 0.1
_BLOCKS = 20
_ADVICE = (
    "Take both views from one period, or remove the drift: subtract a running mean, or divide by a running "
    "deviation."
)


def check_stationarity(sample: Sample, rows: int, draws: int, confidence: float) -> Assumption:
    """The line of stationarity, for a sample with both views."""
    if sample.halted:
        sentence = f"Dimension {sample.halted[0]} is constant in a view, and not the same in the other."
        line = unmeasured("stationarity", sample.of, MEASURE, THRESHOLD, sentence, _ADVICE)
        return replace(line, verdict=FAILS)
    x, y = (view[:rows] for view in sample.views)
    n, dim = x.shape
    gram, between = gram_of_pairs(x, y)
    scale = 4 * dim / (2 * between)
    np.fill_diagonal(gram, 0.0)  # what is left is unbiased, and the diagonal does not see signs
    total = gram.sum()
    signs = torch.randint(0, 2, (draws, n), generator=sample.stream("swaps")).numpy() * 2.0 - 1
    null = ((signs @ gram) * signs).sum(1)
    p = (1 + int((null >= total - 1e-12 * abs(total)).sum())) / (1 + draws)
    squared = _interval(gram, scale, confidence)
    value = _root(squared.estimate)
    detectable = _root(scale * float(np.quantile(null, confidence)) / (n * (n - 1)))
    verdict = judge(p, 1 - confidence, value, THRESHOLD, detectable)
    sentence = f"The views differ as by a shift of {value:.3g} standard deviations ({chance(p)})"
    if verdict == "holds" and p > 1 - confidence:
        sentence = f"Both views have one law, as far as {sample.count(n, 'pairs')} show: {_lower(sentence)}"
    elif verdict == "holds":
        sentence += ": beyond chance, but too little to matter"
    advice = "" if verdict == "holds" else _ADVICE
    if p > 1 - confidence and verdict == "unclear":
        sentence += f"; {sample.count(n, 'pairs')} show only shifts above {detectable:.2g}"
        advice = "Take more pairs."
    return Assumption(
        "stationarity",
        sample.of,
        MEASURE,
        value,
        Interval(value, _root(squared.low), _root(squared.high)),
        THRESHOLD,
        p,
        verdict,
        sentence + ".",
        advice,
        bounded([("raw squared shift", squared.estimate), *_per_dimension(sample)]),
    )


def gram_of_pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Products <D_i, D_j> of all pairs i, j, and the mean distance between the views.

    The mean of the products is the energy distance of x (n, dim) from y (n, dim).
    """
    across = _distances(x, y)
    n = len(x)
    between = (across.sum() - np.trace(across)) / (n * (n - 1))
    gram = across + across.T
    gram -= _distances(x, x)
    gram -= _distances(y, y)
    return gram, float(between)


def _distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.shape[1] == 1:
        apart: np.ndarray = np.abs(x - y.T)
        return apart
    squared = x @ (-2 * y.T)  # one array of this size, written over: fresh memory costs more than arithmetic
    squared += (x**2).sum(1)[:, None]
    squared += (y**2).sum(1)
    if x is y:
        np.fill_diagonal(squared, 0.0)
    distances: np.ndarray = np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared)
    return distances


def _interval(gram: np.ndarray, scale: float, confidence: float) -> Interval:
    """Of the squared shift: the mean product off the diagonal, and that without each block of pairs."""
    n = len(gram)
    edges = np.linspace(0, n, min(_BLOCKS, n // 2) + 1).astype(int)
    inside = np.add.reduceat(np.add.reduceat(gram, edges[:-1], axis=0), edges[:-1], axis=1)
    kept = n - np.diff(edges)
    left_out = (inside.sum() - 2 * inside.sum(1) + np.diag(inside)) / (kept * (kept - 1))
    return from_blocks(inside.sum() / (n * (n - 1)), left_out, confidence).scaled(scale)


def _per_dimension(sample: Sample) -> list[tuple[str, float]]:
    """Shift of the mean of each dimension, largest first."""
    first, second = sample.views
    shift = second.mean(0) - first.mean(0)
    return [(f"shift of {sample.label(j)}", shift[j]) for j in np.argsort(-np.abs(shift))[:63]]


def _root(value: float) -> float:
    return math.sqrt(max(value, 0.0))


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
