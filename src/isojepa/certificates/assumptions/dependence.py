r"""Independence across dimensions, by the distance correlation of ranks.

Let u and v in (0, 1) be the ranks of two variables over n samples. The centered distance kernel of the
uniform law has the eigenfunctions sqrt(2) cos(k pi u) with eigenvalues 2 / (k pi)^2, so that with

    c_kl = mean of 2 cos(k pi u) cos(l pi v)

the squared distance correlation (Szekely, Rizzo & Bakirov 2007) of the ranks is

    dCor^2 = sum_kl c_kl^2 / (k l)^2  /  sum_k k^-4,

computed here with k, l <= 4: the others have next to no weight. It is 0 for independent variables and 1 for
monotone functions of each other. Under independence the c_kl are uncorrelated with mean 0 and variance
1 / (n - 1), so that the bias is known and removed:
(dCor^2 - b) / (1 - b) with b = sum_kl (k l)^-2 / ((n - 1) sum_k k^-4).

Ranks make the test exact: under independence every order of every dimension is equally likely, so the law of
all statistics together comes from permuting the samples of each dimension by itself. Two statistics are
judged, the largest over pairs and their sum, each at half the level. Where there are many pairs, those to be
judged are chosen on one half of the samples and judged on the other.

Pairs see pairwise dependence only; that one dimension is a function of several is seen by `dimension`.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.certificates.assumptions.line import Assumption, bounded, chance, judge, unmeasured
from isojepa.certificates.assumptions.sample import LEAST, Sample, halves
from isojepa.statistics.intervals import Interval, from_blocks

MEASURE = "largest distance correlation of the ranks of two dimensions"
THRESHOLD = 0.2
COSINES = 4
_PAIRS = 64  # judged at most
_SCANNED = 1024  # variables whose pairs are all looked at in the search
_BLOCKS = 20
_CORRELATED = 0.7  # share of the dependence from which it counts as a correlation


@dataclass(frozen=True)
class Dependence:
    """A test of pairs of variables.

    Attributes:
        squared: (pairs,) squared distance correlation, without bias: below 0 by chance.
        p: of the largest and the sum together.
        detectable: squared distance correlation that chance alone reaches at the level.
    """

    squared: np.ndarray
    p: float
    detectable: float


def rank_cosines(x: np.ndarray, source: torch.Generator, count: int = COSINES) -> np.ndarray:
    """Orthonormal functions of the ranks of x (n, variables): (variables, n, count), of mean 0.

    Ties are broken at random, for each variable by itself: one order for all would make them depend.
    """
    variables, n = x.shape[1], len(x)
    columns = np.ascontiguousarray(x.T)
    order = np.argsort(columns, axis=1)
    tied = (np.diff(np.take_along_axis(columns, order, axis=1), axis=1) == 0).any(1)
    for column in np.flatnonzero(tied):
        start = torch.randperm(n, generator=source).numpy()
        order[column] = start[np.argsort(columns[column, start], kind="stable")]
    angles = np.pi * (np.arange(n) + 0.5) / n
    table = np.sqrt(2) * np.cos(angles[:, None] * np.arange(1, count + 1))
    features = np.empty((variables, n, count))
    for variable in range(variables):
        features[variable, order[variable]] = table
    return features


def pair_weights(count: int = COSINES, left_from: int = 1) -> np.ndarray:
    """Weights (count, count) of the c_kl^2, over their sum for equal variables.

    Args:
        count: cosines of each variable.
        left_from: the first cosine of the left variable that counts.
    """
    inverse = 1.0 / np.arange(1, count + 1) ** 2
    left = np.where(np.arange(1, count + 1) >= left_from, inverse, 0.0)
    weights: np.ndarray = np.outer(left, inverse) / (left * inverse).sum()
    return weights


def pair_values(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sums of c_kl^2 for features (pairs, n, cosines) of both sides: (pairs,)."""
    products = np.matmul(left.transpose(0, 2, 1), right) / left.shape[1]
    values: np.ndarray = np.einsum("pkl,kl->p", products**2, weights)
    return values


def judge_pairs(
    features: np.ndarray,
    pairs: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    draws: int,
    confidence: float,
    source: torch.Generator,
) -> Dependence:
    """Judge pairs of variables by permutation.

    Args:
        features: (variables, n, cosines) of `rank_cosines`.
        pairs: (pairs, 2) of variables.
        groups: (variables,): those of one group keep their common order, those of different groups are
            independent under the null.
        weights: of `pair_weights`.
        draws: permutations.
        confidence: one minus the level.
        source: draws them.
    """
    used, place = np.unique(pairs, return_inverse=True)
    left, right = place.reshape(pairs.shape).T
    features, (kinds, group) = features[used], np.unique(groups[used], return_inverse=True)
    members = [np.flatnonzero(group == kind) for kind in range(len(kinds))]
    n = features.shape[1]
    seen = pair_values(features[left], features[right], weights)
    null = np.empty((draws, len(pairs)))
    moved = features.copy()
    for draw in range(draws):
        for kind in range(1, len(kinds)):  # orders relative to those of the first group
            order = torch.randperm(n, generator=source).numpy()
            for variable in members[kind]:
                np.take(features[variable], order, axis=0, out=moved[variable])
        null[draw] = pair_values(moved[left], moved[right], weights)
    ps = [
        (1 + int((of(null, 1) >= of(seen[None], 1) - 1e-12).sum())) / (1 + draws)
        for of in ((np.max,) if len(pairs) == 1 else (np.max, np.sum))
    ]
    critical = float(np.quantile(null.max(1), confidence))
    return Dependence(_debias(seen, n, weights), min(1.0, len(ps) * min(ps)), _debias(critical, n, weights))


def search_pairs(features: np.ndarray, pairs: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """The pairs that depend most, on samples that do not judge them.

    Args:
        features: (variables, n, cosines).
        pairs: (pairs, 2).
        weights: of `pair_weights`.
        most: how many to return.
    """
    if len(pairs) <= most:
        return pairs
    values = all_values(features, weights, np.unique(pairs[:, 0]))
    return pairs[np.argsort(-values[pairs[:, 0], pairs[:, 1]], kind="stable")[:most]]


def all_values(features: np.ndarray, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Weighted sums of c_kl^2 of the variables in `rows` with all, for a search: float32.

    Args:
        features: (variables, n, cosines).
        weights: of `pair_weights`.
        rows: variables.

    Returns:
        (variables, variables), filled in the given rows only.
    """
    variables, n, count = features.shape
    flat = features.transpose(1, 0, 2).reshape(n, -1).astype(np.float32)
    values = np.zeros((variables, variables), np.float32)
    for part in np.array_split(rows, max(1, len(rows) // 128)):
        columns = (part[:, None] * count + np.arange(count)).reshape(-1)
        products = (flat[:, columns].T @ flat / n).reshape(len(part), count, variables, count)
        values[part] = np.einsum("ikjl,kl->ij", products**2, weights.astype(np.float32))
    return values


def check_independence(sample: Sample, rows: int, draws: int, confidence: float) -> Assumption:
    """The line of independence.

    For latents with both views, pairs across the views count too: each latent moves by itself.
    """
    name, dim = "independence", sample.dim
    if dim < 2:
        return Assumption(
            name, sample.of, MEASURE, 0.0, None, THRESHOLD, None, "holds", "One dimension is alone.", ""
        )
    chosen = np.sort(torch.randperm(dim, generator=sample.stream("dimensions"))[:_SCANNED].numpy())
    across = sample.of == "latents" and sample.z_next is not None
    views = sample.views if across else (sample.z,)
    x = np.concatenate([view[:rows, chosen] for view in views], axis=1)
    count = len(chosen)
    i, j = np.triu_indices(count, 1)
    both = [(i, j), (i, j + count), (j, i + count)] if across else [(i, j)]
    pairs = np.concatenate([np.stack(pair, 1) for pair in both])
    weights = pair_weights()
    if len(pairs) > _PAIRS:
        search, judge_on = halves(len(x), rows)
        if len(x) < 2 * LEAST:
            reason = (
                f"{sample.count(len(x), 'samples')} are too few to search {len(pairs)} pairs of dimensions."
            )
            return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, "Take more samples.")
        pairs = search_pairs(
            rank_cosines(x[search], sample.stream("ties"), 3), pairs, pair_weights(3), _PAIRS
        )
        x = x[judge_on]
    features = rank_cosines(x, sample.stream("ties", "judged"))
    found = judge_pairs(
        features, pairs, np.arange(x.shape[1]) % count, weights, draws, confidence, sample.stream("orders")
    )
    worst = int(found.squared.argmax())
    names = [_pair_label(sample, chosen, count, pair) for pair in pairs]
    left, right = features[pairs[worst]]
    interval = _interval(left, right, weights, confidence)
    value, detectable = _root(found.squared[worst]), _root(found.detectable)
    verdict = judge(found.p, 1 - confidence, value, THRESHOLD, detectable)
    products = left.T @ right / len(left)
    linear = products[0, 0] ** 2 * weights[0, 0] > _CORRELATED * (products**2 * weights).sum()
    sentence = f"{names[worst]} depend most: distance correlation {value:.3g} ({chance(found.p)})"
    if not value:
        sentence = f"no two dimensions depend on each other more than by chance ({chance(found.p)})"
    advice = "" if verdict == "holds" else _advice(sample.of, bool(linear))
    if found.p > 1 - confidence and verdict == "unclear":
        sentence += f"; {sample.count(len(x), 'samples')} show only values above {detectable:.2g}"
        advice = "Take more samples."
    detail = [(names[k], _root(found.squared[k])) for k in np.argsort(-found.squared)]
    return Assumption(
        name,
        sample.of,
        MEASURE,
        value,
        interval,
        THRESHOLD,
        found.p,
        verdict,
        sentence[0].upper() + sentence[1:] + ".",
        advice,
        bounded([("raw squared value", found.squared[worst]), *detail]),
    )


def _debias(value: Any, n: int, weights: np.ndarray) -> Any:
    """Squared distance correlations without the part that independent variables show too."""
    bias = weights.sum() / (n - 1)
    return (value - bias) / (1 - bias)


def _interval(left: np.ndarray, right: np.ndarray, weights: np.ndarray, confidence: float) -> Interval:
    """Of the distance correlation of one pair, with its ranks as they are."""
    n = len(left)
    edges = np.linspace(0, n, min(_BLOCKS, n // 2) + 1).astype(int)
    parts = np.stack([left[a:b].T @ right[a:b] for a, b in itertools.pairwise(edges)])
    kept = (n - np.diff(edges))[:, None, None]
    left_out = np.einsum("bkl,kl->b", ((parts.sum(0) - parts) / kept) ** 2, weights)
    whole = float(((parts.sum(0) / n) ** 2 * weights).sum())
    squared = from_blocks(whole, left_out, confidence)
    low, middle, high = (_root(_debias(value, n, weights)) for value in (squared.low, whole, squared.high))
    return Interval(middle, low, high)


def _pair_label(sample: Sample, chosen: np.ndarray, count: int, pair: np.ndarray) -> str:
    words = [
        sample.label(int(chosen[variable % count])) + (" of the next view" if variable >= count else "")
        for variable in pair
    ]
    return " and ".join(words)


def _advice(of: str, linear: bool) -> str:
    if linear:
        return f"The dependence is mostly a correlation: whiten the {of}, and check again."
    if of == "latents":
        return "Replace the dependent latents by independent ones, or merge them: no rotation separates them."
    return "Train longer or raise the weight of the regularizer: Gaussian embeddings would be independent."


def _root(value: float) -> float:
    return float(np.sqrt(max(float(value), 0.0)))
