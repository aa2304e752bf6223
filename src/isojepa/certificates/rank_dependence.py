r"""Two checks by the distance correlation of ranks: independence of dimensions, and additive noise.

Let u and v in (0, 1) be the ranks of two variables over n samples. The centered distance kernel of the
uniform distribution has the eigenfunctions sqrt(2) cos(k pi u) with eigenvalues 2 / (k pi)^2, so that with

    c_kl = mean of 2 cos(k pi u) cos(l pi v)

the squared distance correlation (Szekely, Rizzo & Bakirov 2007) of the ranks is

    dCor^2 = sum_kl c_kl^2 / (k l)^2  /  sum_k k^-4,

computed here with k, l <= 4: the others have next to no weight. It is 0 for independent variables and 1 for
monotone functions of each other. Under independence the c_kl are uncorrelated with mean 0 and variance
1 / (n - 1), so the bias is known and removed: (dCor^2 - b) / (1 - b) with b = sum_kl (k l)^-2 / ((n - 1)
sum_k k^-4).

**Independence.** Under independence every order of every dimension is equally likely, so the joint null
distribution of all pairs comes from permuting the samples of each dimension by itself. The largest value and
the sum over pairs are judged together. Where there are many pairs, those to be judged are chosen on one half
of the samples. Pairs show pairwise dependence only; `dimension` finds a dimension that is a function of
several.

**Additive noise.** Is z' = m(z) + eta with noise eta that does not depend on z? m is fitted on one part of
the samples; residuals of the other part, over the deviation that the error of the fit gives them, are
compared with z and |z|. The first cosine of residuals is left out: it moves with the mean, which has the
error of the fit. What remains is their scale and shape. Permuting residuals against z gives the p-value. The
effect is the ratio of noise variances between the two octiles of the worst dimension where they are largest
and the two where they are smallest, ordered on one part of the samples and measured on the other.
"""

import math

import numpy as np
import torch

from isojepa.certificates.assumptions import MIN_ROWS, Sample, root
from isojepa.certificates.checks import HOLDS, Effect, check
from isojepa.statistics.families import joint_p
from isojepa.statistics.intervals import Interval, jackknife, reach_of
from isojepa.statistics.regression import NonlinearRegression

MAX_DISTANCE_CORRELATION = 0.2  # that of normal variables correlated by about 0.2, 5 % of the variance
MAX_NOISE_RATIO = 1.5  # chance alone gives 1.3 with a thousand pairs
LINEAR_FRACTION = 0.7  # of the dependence, from which the advice calls it a correlation

COSINES = 4
MIN_FITTED_ROWS = 4096  # rows of a regression, or more in many dimensions
_SEARCH_COSINES = 3
_MAX_PAIRS = 64  # judged
_MAX_VARIABLES = 1024  # whose pairs are all searched
_MAX_OUTPUTS = 64  # residuals
_MIN_PAIRS = 32  # that judge the noise
_ROWS_PER_DIMENSION = 8  # to fit the mean step
_BINS, _EXTREME_BINS = 8, 2


def rank_cosines(x: np.ndarray, source: torch.Generator, count: int = COSINES) -> np.ndarray:
    """Orthonormal functions of the ranks of x (n, variables): (variables, n, count), of mean 0.

    Ties are broken at random, for each variable by itself: one order for all would make them depend.
    """
    n = len(x)
    table = np.sqrt(2) * np.cos(np.pi * (np.arange(n)[:, None] + 0.5) / n * np.arange(1, count + 1))
    features = np.empty((x.shape[1], n, count))
    for column, target in zip(x.T, features, strict=True):
        order = np.argsort(column)
        if (np.diff(column[order]) == 0).any():
            start = torch.randperm(n, generator=source).numpy()
            order = start[np.argsort(column[start], kind="stable")]
        target[order] = table
    return features


def pair_weights(count: int = COSINES, left_from: int = 1) -> np.ndarray:
    """Weights (count, count) of the c_kl^2, over their sum for equal variables.

    Args:
        count: cosines of each variable.
        left_from: the first cosine of the left variable that counts.
    """
    inverse = 1.0 / np.arange(1, count + 1) ** 2
    left = inverse * (np.arange(1, count + 1) >= left_from)
    weights: np.ndarray = np.outer(left, inverse) / (left * inverse).sum()
    return weights


def pair_values(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sums of c_kl^2 for features (pairs, n, cosines) of both sides: (pairs,)."""
    products = np.matmul(left.transpose(0, 2, 1), right) / left.shape[1]
    values: np.ndarray = np.einsum("pkl,kl->p", products**2, weights)
    return values


def all_values(x: np.ndarray, source: torch.Generator, left: int, left_from: int = 1) -> np.ndarray:
    """Weighted sums of c_kl^2 of the first `left` columns of x (n, variables) with all, for a search."""
    features = rank_cosines(x, source, _SEARCH_COSINES).astype(np.float32)
    flat = features.transpose(1, 0, 2).reshape(len(x), -1)
    products = flat[:, : left * _SEARCH_COSINES].T @ flat / len(x)
    products = products.reshape(left, _SEARCH_COSINES, -1, _SEARCH_COSINES)
    weights = pair_weights(_SEARCH_COSINES, left_from).astype(np.float32)
    return np.asarray(np.einsum("ikjl,kl->ij", products**2, weights))


def permute_pairs(
    features: np.ndarray,
    pairs: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    sample: Sample,
    source: torch.Generator,
) -> tuple[np.ndarray, float, float]:
    """Test pairs of variables by permutation.

    Args:
        features: (variables, n, cosines) of `rank_cosines`.
        pairs: (pairs, 2) of variables.
        groups: (variables,): those of one group keep their common order, those of different groups are
            independent under the null.
        weights: of `pair_weights`.
        sample: with draws and level.
        source: draws permutations.

    Returns:
        Squared distance correlations (pairs,) without bias, p of the largest and the sum together, and the
        distance correlation that chance alone reaches at the level.
    """
    used, place = np.unique(pairs, return_inverse=True)
    left, right = place.reshape(pairs.shape).T
    features, (kinds, group) = features[used], np.unique(groups[used], return_inverse=True)
    n, moved = features.shape[1], features.copy()
    values = pair_values(features[left], features[right], weights)
    null = np.empty((sample.draws, len(pairs)))
    for draw in range(sample.draws):
        for kind in range(1, len(kinds)):  # orders relative to those of the first group
            order = torch.randperm(n, generator=source).numpy()
            for variable in np.flatnonzero(group == kind):
                np.take(features[variable], order, axis=0, out=moved[variable])
        null[draw] = pair_values(moved[left], moved[right], weights)
    p, _ = joint_p(np.array([values.max(), values.sum()]), np.stack([null.max(1), null.sum(1)], 1))
    critical = np.quantile(null.max(1), [sample.confidence])
    return _debias(values, n, weights), p, root(_debias(critical, n, weights)[0])


def search_pairs(x: np.ndarray, pairs: np.ndarray, source: torch.Generator, left_from: int = 1) -> np.ndarray:
    """At most 64 of the pairs (pairs, 2) of columns of x (n, variables), those that depend most."""
    if len(pairs) <= _MAX_PAIRS:
        return pairs
    values = all_values(x, source, 1 + pairs[:, 0].max(), left_from)
    return pairs[np.argsort(-values[tuple(pairs.T)], kind="stable")[:_MAX_PAIRS]]


def _debias(values: np.ndarray, n: int, weights: np.ndarray) -> np.ndarray:
    """Squared distance correlations without the part that independent variables show too."""
    bias = weights.sum() / (n - 1)
    return np.asarray((values - bias) / (1 - bias))


@check(
    "independence",
    measure="largest distance correlation of the ranks of two dimensions",
    threshold=MAX_DISTANCE_CORRELATION,
    more="Take more samples.",
    advice={
        "latents": "Replace the dependent latents by independent ones, or merge them: no rotation separates "
        "them.",
        "embeddings": "Train longer or raise the weight of the regularizer: Gaussian embeddings would be "
        "independent.",
    },
)
def independence(sample: Sample) -> Effect:
    """Are dimensions independent? For latents also across the views: each latent moves by itself."""
    if sample.dim < 2:
        return Effect("There is one dimension", 0.0, verdict=HOLDS)
    chosen = np.sort(
        torch.randperm(sample.dim, generator=sample.stream("dimensions"))[:_MAX_VARIABLES].numpy()
    )
    across = sample.of == "latents" and sample.z_next is not None
    x = np.hstack([view[: sample.rows, chosen] for view in (sample.views if across else (sample.z,))])
    count = len(chosen)
    i, j = np.triu_indices(count, 1)
    ends = [(i, j), (i, j + count), (j, i + count)] if across else [(i, j)]
    pairs = np.hstack([np.stack(end) for end in ends]).T
    if len(pairs) > _MAX_PAIRS:
        if len(x) < 2 * MIN_ROWS:
            few = sample.count(len(x), "samples")
            return Effect(
                f"{few} are too few to search {len(pairs)} pairs of dimensions", advice="Take more samples."
            )
        half = len(x) // 2
        pairs, x = search_pairs(x[half:], pairs, sample.stream("ties")), x[:half]
    features, weights = rank_cosines(x, sample.stream("ties", "judged")), pair_weights()
    squared, p, detectable = permute_pairs(
        features, pairs, np.arange(x.shape[1]) % count, weights, sample, sample.stream("orders")
    )
    worst = int(squared.argmax())
    left, right = features[pairs[worst]]

    def value_of(rows: np.ndarray) -> float:
        return float(pair_values(left[None, rows], right[None, rows], weights)[0])

    interval = jackknife(value_of, len(x), sample.confidence)
    ends_of = _debias(np.array([interval.low, interval.high]), len(x), weights)
    products = (left.T @ right / len(left)) ** 2 * weights
    labels = [
        " and ".join(
            sample.label(int(chosen[variable % count])) + (" of the next view" if variable >= count else "")
            for variable in pair
        )
        for pair in pairs
    ]
    value = root(squared[worst])
    text = f"{labels[worst].capitalize()} depend most: distance correlation {value:.3g}"
    return Effect(
        text if value else "No two dimensions depend on each other more than by chance",
        value,
        Interval(value, *(root(end) for end in ends_of)),
        p,
        detectable,
        [
            ("raw squared value", squared[worst]),
            *((labels[k], root(squared[k])) for k in np.argsort(-squared)),
        ],
        sample.count(len(x), "samples"),
        advice=f"The dependence is mostly a correlation: whiten the {sample.of}, and check again."
        if products[0, 0] > LINEAR_FRACTION * products.sum() and p <= sample.level
        else None,
    )


@check(
    "additive noise",
    measure="largest noise variance over the smallest, along the worst dimension",
    threshold=MAX_NOISE_RATIO,
    pairs=True,
    neutral=1.0,
    advice="Change coordinates so that the noise is the same everywhere, such as the logarithm of a quantity "
    "whose noise grows with it, or take pairs closer in time.",
)
def additive_noise(sample: Sample) -> Effect:
    """Does the noise of a step not depend on where it starts?"""
    z, z_next = sample.views
    dim = sample.dim
    search, judged = sample.halves(sample.rows // 2)
    search = slice(search.start, search.start + max(MIN_FITTED_ROWS, _ROWS_PER_DIMENSION * dim))
    if judged.stop < _MIN_PAIRS or len(z[search]) < 2 * dim:
        few = sample.count(len(z), "pairs")
        return Effect(
            f"{few} are too few to fit the mean step in {dim} dimensions", advice="Take more pairs."
        )
    outputs = np.sort(torch.randperm(dim, generator=sample.stream("outputs"))[:_MAX_OUTPUTS].numpy())
    fit = NonlinearRegression(z[search], z_next[search][:, outputs], sample.stream("mean step"))
    compared = slice(search.start, search.start + min(len(z[search]), 2 * judged.stop))
    residuals = [z_next[part][:, outputs] - fit(z[part]) for part in (compared, judged)]
    residuals[1] /= np.sqrt(1 + fit.relative_variance(z[judged]))  # new residuals have the fit's error on top
    if (residuals[1].std(0) <= 1e-4 * z_next[judged][:, outputs].std(0)).all():
        text = "The second view is a function of the first, with no noise that could be looked at"
        return Effect(text, advice=_NO_NOISE)
    inputs = [np.c_[z[part], np.linalg.norm(z[part], axis=1)] for part in (compared, judged)]
    count = len(outputs)
    pairs = np.argwhere(np.ones((count, dim + 1))) + np.array([0, count])
    pairs = search_pairs(np.hstack([residuals[0], inputs[0]]), pairs, sample.stream("ties"), left_from=2)
    features = rank_cosines(np.hstack([residuals[1], inputs[1]]), sample.stream("ties", "judged"))
    groups = (np.arange(len(features)) >= count).astype(int)
    squared, p, _ = permute_pairs(
        features, pairs, groups, pair_weights(left_from=2), sample, sample.stream("noise")
    )
    output, variable = pairs[int(squared.argmax())]
    along = int(variable) - count
    ratio, (edges, variances) = variance_ratio(
        [part[:, along] for part in inputs], [part[:, output] for part in residuals], sample.confidence
    )
    where = "the length of z" if along == dim else sample.label(along)
    return Effect(
        f"The noise variance of {sample.label(int(outputs[output]))} along {where} is {ratio.estimate:.3g} "
        "times as large where it seemed largest as where it seemed smallest",
        ratio.estimate,
        ratio,
        p,
        math.exp(2 * math.sqrt(2 / (judged.stop * _EXTREME_BINS / _BINS) * 2)),  # two deviations of the log
        [
            (f"noise variance up to {edge:.3g} of {where}", v)
            for edge, v in zip(edges, variances, strict=True)
        ],
        sample.count(judged.stop, "held-out pairs"),
    )


_NO_NOISE = "Take pairs farther apart, and check that the views are not the same array."


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
    squares, bins = [r**2 for r in residuals], [np.searchsorted(edges, x) for x in inputs]
    means = [
        np.bincount(b, s, _BINS) / np.maximum(np.bincount(b, minlength=_BINS), 1)
        for b, s in zip(bins, squares, strict=True)
    ]
    order = np.argsort(means[0])
    low, high = (squares[1][np.isin(bins[1], k)] for k in (order[:_EXTREME_BINS], order[-_EXTREME_BINS:]))
    table = np.append(edges, inputs[0].max()), means[1]
    if min(len(low), len(high)) < 2 or low.mean() <= 0:
        return Interval(math.nan, 0.0, math.inf), table
    log = math.log(high.mean() / low.mean())
    error = math.sqrt(sum(part.var(ddof=1) / (len(part) * part.mean() ** 2) for part in (high, low)))
    reach = reach_of(confidence) * error
    return Interval(math.exp(log), math.exp(log - reach), math.exp(log + reach)), table
