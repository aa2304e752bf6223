r"""Where rho comes from, the bound for every rho, and the lower bound on rho from the embeddings.

Theorem 3 turns rho into a promise: D = t (rho - r) / (rho (1 - rho)) for an embedding of trace t whose views
correlate by r. D grows with rho and is 0 at rho = r, so a rho that is too small promises too much, and a
certificate states its origin:

    world    the world that made the pairs knows it
    design   the pairs were made so: added noise, augmentations of known strength
    states   it was measured on true states of the world
    rate     a time step and a known rate: rho = exp(-rate)
    given    the user passed it without its origin
    data     it was estimated from the embeddings

The estimate. Every function of the embedding is a function of the latents, so in a Gaussian world it
correlates across the views by at most rho, and if the encoder loses nothing the largest over all functions,
the maximal correlation of Hirschfeld, Gebelein and Renyi, is rho. With f = v.phi(h) and pairs in either
order, C0 = (Var phi + Var phi') / 2 and C1 the symmetrized covariance of phi and phi', the correlation of f
is v.C1 v / v.C0 v, a generalized eigenproblem; of k functions together it is sum C1_ii / sum C0_ii. Families
of phi, made of the normal scores s of each dimension, which bound heavy tails:

    linear    the dimensions as they are
    scores    s
    waves     s, cos(w.s + b) with random w (Rahimi & Recht 2007), cos(k pi u) and s_j cos(k pi u) with u the
    rank
              of |s|: of all dimensions up to 8, and from 3 dimensions on of the plane whose dimensions bend
              most

Rows are cut into blocks of successive ones and these into four folds. For each fold, family, number of
components and of functions are chosen on the other three, by fitting to two and judging on the third; they
are then fitted to all three and scored on the fold. A score on rows without part in the function is right on
average about a correlation that is at most rho: its lower end is a lower confidence bound on rho. There is no
upper bound: no finite class of functions gives one.
"""

import itertools
import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy
import torch

from isojepa.certificates.bound import REFUTED_CONFIDENCE, bounds_at, check_rho
from isojepa.certificates.pairs import PairRows, ViewMoments, read_moments
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.statistics.slowness import slow_to_fast
from isojepa.validation import choose

RhoOrigin = Literal["world", "design", "states", "rate", "given", "data"]
OUTSIDE = ("world", "design", "states", "rate")  # origins independent of the embedding
STATED: dict[str, RhoOrigin] = {"design": "design", "states": "states", "rate": "rate"}  # by who gives rho
WORDS: dict[str, str] = {
    "world": "the world's own",
    "design": "from how the pairs were made",
    "states": "measured on true states",
    "rate": "from a time step and a known rate",
    "given": "given without its origin",
    "data": "estimated from the embeddings themselves",
}
assert set(WORDS) == set(get_args(RhoOrigin))

MIN_PAIRS = 200  # below which only the embedding itself is examined
_FOLDS, _BLOCKS = 4, 20  # blocks of all folds together
_MAX_PAIRS, _MAX_NUMBERS = 40_000, 1 << 23  # pairs that functions are fitted to and scored on; numbers held
_MAX_DIM = 64  # dimensions that functions are made of; of more, the slowest directions
_MAX_WAVE_DIM = 8  # dimensions up to which waves of all of them are tried
_LENGTHS, _PLANE_LENGTHS = (1.6, 0.8, 0.4), (1.6, 0.6)  # of waves, in standard deviations
_WAVES = 160  # of each length
_RADIAL_WAVES = 6
_SIZES = (0, 6, 12, 24, 48, 96, 192, 256)  # principal components beside the linear ones
_COUNTS = (1, 4, 16)  # functions together; all linear ones are another choice
_PAIRS_PER_COMPONENT = 8
_CAUTION = 2.0  # standard errors subtracted when functions are chosen
_PENALTY, _EMPTY = 1e-6, 1e-8  # ridge; variance over the largest that is rounding
_ALMOST_ONE = 1 - 1e-12
_POINTS, _MAX_RHO = 25, 1 - 1e-6  # of the curve


@dataclass(frozen=True)
class BoundCurve:
    """Theorem 3's bound for every rho that the pairs leave possible.

    Attributes:
        rho: from the correlation of the views to where the whole variance may be wrong.
        estimate, high: share of each dimension's variance that may be wrong, and its upper end.
        promise: the largest share that a certificate may promise.
        ends: largest rho with an upper end within the promise; None without one.
    """

    rho: tuple[float, ...]
    estimate: tuple[float, ...]
    high: tuple[float, ...]
    promise: float
    ends: float | None


@dataclass(frozen=True)
class MaximalCorrelation:
    """The estimate of `estimate_correlation`.

    Attributes:
        pairs: rows that fitted and scored functions.
        linear: the embedding's own correlation over all dimensions together.
        value: the estimate. `low` is a lower confidence bound on the maximal correlation; `high` is the upper
            end of the estimate's interval and no upper bound on rho.
        family: the chosen functions, in words.
        confidence: of the interval's ends.
        sure: the lower bound at `bound.REFUTED_CONFIDENCE`: a rho below it is wrong.
    """

    pairs: int
    linear: Interval
    value: Interval
    family: str
    confidence: float
    sure: float


def resolve_rho(rho: Any, rho_from: str | None, rate: Any) -> tuple[float, RhoOrigin] | None:
    """The user's correlation and its origin; None without one.

    Raises:
        ValueError: rho is not in (0, 1), the rate not positive, or the origin none that can be stated.
    """
    if rate is not None:
        if rho is not None:
            raise ValueError("rate stands in the place of rho: give one of them")
        if not (isinstance(rate, numbers.Real) and 0 < float(rate) < math.inf):
            raise ValueError(f"rate must be positive and finite, got {rate!r}")
        rho = math.exp(-float(rate))
    if rho is None:
        if rho_from is not None:
            raise ValueError(f"rho_from states where rho comes from, got {rho_from!r} without a rho")
        return None
    # a rate may be the embedding's own decay just as a rho may be its own correlation
    return check_rho(rho), "given" if rho_from is None else choose("rho_from", rho_from, STATED)


def bound_curve(moments: ViewMoments, confidence: float, promise: float) -> BoundCurve | None:
    """The curve of an embedding; None where its views do not correlate."""
    correlation = moments.correlation(confidence)
    if correlation is None or not 0 < correlation.estimate < _MAX_RHO:
        return None
    start, bound = correlation.estimate, bounds_at(moments, confidence)

    def reaches(share: float) -> float | None:
        """The rho at which the upper end has grown to a share; None if it is above from the start."""
        if bound(start).per_dimension.high > share:
            return None
        if bound(_MAX_RHO).per_dimension.high <= share:
            return _MAX_RHO
        return float(
            scipy.optimize.brentq(
                lambda rho: bound(rho).per_dimension.high - share, start, _MAX_RHO, xtol=1e-6
            )
        )

    end = reaches(1.0)
    rho = np.linspace(start, _MAX_RHO if end is None else end, _POINTS)
    shares = [bound(float(one)).per_dimension for one in rho]
    return BoundCurve(
        rho=tuple(rho.tolist()),
        estimate=tuple(share.estimate for share in shares),
        high=tuple(share.high for share in shares),
        promise=promise,
        ends=reaches(promise),
    )


def estimate_correlation(
    h: Any, h_next: Any = None, *, moments: ViewMoments | None = None, confidence: float = 0.95, seed: int = 0
) -> MaximalCorrelation:
    """Estimate the maximal correlation of pairs from the embeddings of both views.

    Args:
        h: (n, m) embeddings of the first view, in the order of time where they come from paths; array,
            tensor, memory map, or `PairRows` of both views.
        h_next: (n, m) of the second view; left out where h is `PairRows`.
        moments: the sums of a pass over all rows, where they exist already.
        confidence: of the interval, two-sided; its lower end is a bound at this confidence.
        seed: draws the functions to choose from.

    Raises:
        ValueError: there are no pairs, too few of them, or nothing varies.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> z, z_next = OrnsteinUhlenbeck(dim=1, rho=0.9).sample(2000, generator(0, "data"))
        >>> maximal = estimate_correlation(z**3, z_next**3)
        >>> maximal.linear.high < 0.9 and 0.88 < maximal.value.low < 0.9 < maximal.value.high
        True
    """
    pair_rows = h if isinstance(h, PairRows) else PairRows(h, h_next)
    if not pair_rows.paired:
        raise ValueError("the correlation across views needs both views of each pair, got one")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    moments = moments or read_moments(pair_rows)
    linear, beyond_chance = moments.correlation(confidence), moments.correlation(REFUTED_CONFIDENCE)
    n = len(pair_rows)
    if linear is None or beyond_chance is None:
        raise ValueError(
            f"the correlation across views needs 6 pairs that vary, got {n} of which none do"
            if n >= 6
            else f"the correlation across views needs at least 6 pairs, got {n}"
        )
    itself = "the embedding itself, all dimensions together"
    blocks = _sample(pair_rows) if n >= MIN_PAIRS and linear.estimate < _ALMOST_ONE else []
    pairs = sum(len(first) for first, _ in blocks)
    if pairs < MIN_PAIRS / 2:
        return MaximalCorrelation(n, linear, linear, itself, confidence, beyond_chance.low)
    folds, families = _cross_fit(blocks, seed)
    scored = _interval(folds, confidence)
    # each end at half of the error probability, so that the larger of two lower bounds is one
    value = Interval(
        *(max(getattr(linear, end), getattr(scored, end)) for end in ("estimate", "low", "high"))
    )
    family = "; ".join(dict.fromkeys(families)) if scored.estimate > linear.estimate else itself
    refuted_below = max(beyond_chance.low, _interval(folds, REFUTED_CONFIDENCE).low)
    return MaximalCorrelation(pairs, linear, value, family, confidence, refuted_below)


_Block = tuple[np.ndarray, np.ndarray]  # both views of successive rows


def _sample(pair_rows: PairRows) -> list[_Block]:
    """Stretches of successive rows at even distances, one for each block.

    Of many dimensions, the slowest directions of the first half of the rows, in the second half.
    """
    n, dim = len(pair_rows), pair_rows.dim
    rows = min(_MAX_PAIRS, max(MIN_PAIRS, _MAX_NUMBERS // dim))
    if dim <= _MAX_DIM:
        return _stretches(pair_rows, 0, n, rows)
    first = _stretches(pair_rows, 0, n // 2, rows)
    h, h_next = (np.concatenate(view) for view in zip(*first, strict=True))
    if len(h) < MIN_PAIRS / 2:
        return []
    directions = slow_to_fast(h, h_next)[0][:, :_MAX_DIM]
    second = _stretches(pair_rows, n // 2, n, rows)
    return [(a @ directions, b @ directions) for a, b in second]


def _stretches(pair_rows: PairRows, start: int, stop: int, most: int) -> list[_Block]:
    edges = np.linspace(start, stop, _BLOCKS + 1).astype(int)
    blocks = []
    for first, last in itertools.pairwise(edges):
        part = pair_rows.rows(int(first), int(min(last, first + max(1, most // _BLOCKS))))
        if part.h_next is not None:
            blocks.append((part.h, part.h_next))
    return blocks


@dataclass(frozen=True)
class _Choice:
    """Functions to be scored: of which family, with how many components, how many of them."""

    family: "_Family"
    size: int
    count: int


def _cross_fit(blocks: list[_Block], seed: int) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
    """Rows (blocks,) and sums (blocks, 4, k) of each fold, by functions fitted to the others; their words."""
    x, scores, names = _inputs(blocks)
    dim = x[0][0].shape[1]
    families = [
        _Family("linear functions of the embedding", dim, x),
        _Family("sums of monotone functions of the dimensions", dim, scores),
    ]
    if dim <= _MAX_WAVE_DIM:
        families += _wave_families("waves over all dimensions", scores, tuple(range(dim)), _LENGTHS, seed)
    bends = [_bends(*block) for block in scores] if dim > 2 else []
    planes: dict[tuple[int, int], list[_Family]] = {}
    folds = [tuple(int(b) for b in fold) for fold in np.array_split(np.arange(len(blocks)), _FOLDS)]
    results, words = [], []
    for fold in folds:
        rest = [other for other in folds if other is not fold]
        candidates = list(families)
        if dim > 2:
            plane = _bent_plane([bends[block] for block in _joined(rest)])
            if plane not in planes:
                text = f"waves over dimensions {names[plane[0]]} and {names[plane[1]]}"
                planes[plane] = _wave_families(text, scores, plane, _PLANE_LENGTHS, seed)
            candidates += planes[plane]
        choices = [judged for family in candidates for judged in _judge(family, rest)]
        choice = max(choices, key=lambda judged: judged[0])[1]
        weights = choice.family.solve(_joined(rest), choice.size)[:, : choice.count]
        sums = np.stack([choice.family.sums(weights, block) for block in fold])
        results.append((choice.family.rows[list(fold)], sums))
        words.append(choice.family.words)
    return results, words


def _inputs(blocks: list[_Block]) -> tuple[list[_Block], list[_Block], list[int]]:
    """Standardized dimensions and their normal scores, by block, and the numbers of those that vary.

    Both views are ranked together and over all rows, which does not look across the views.
    """
    edges = np.cumsum([0, *(len(first) for first, _ in blocks)])
    both = np.concatenate([first for first, _ in blocks] + [second for _, second in blocks])
    center, scale = both.mean(0), both.std(0)
    varies = scale > 1e-12 * (np.abs(center) + scale)
    both = (both[:, varies] - center[varies]) / scale[varies]
    scores = np.stack([_normal_scores(column) for column in both.T], axis=1)
    n = edges[-1]

    def cut(values: np.ndarray) -> list[_Block]:
        return [(values[a:b], values[n + a : n + b]) for a, b in itertools.pairwise(edges)]

    return cut(both), cut(scores), np.flatnonzero(varies).tolist()


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks; ties share the mean of their ranks."""
    _, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    scores: np.ndarray = scipy.special.ndtri((ranks - 0.5) / len(x))[index]
    return scores


def _wave_families(
    words: str, scores: list[_Block], columns: tuple[int, ...], lengths: tuple[float, ...], seed: int
) -> list["_Family"]:
    """Normal scores of some dimensions with random waves, the shortest with waves of the radius."""
    dim = len(columns)
    families = []
    for length in lengths:
        source = generator(seed, "maximal correlation", f"{length:g}", *columns)
        frequencies = torch.randn((dim, _WAVES), generator=source, dtype=torch.float64).numpy()
        frequencies /= length * math.sqrt(max(1.0, dim / 2))
        phases = 2 * np.pi * torch.rand(_WAVES, generator=source, dtype=torch.float64).numpy()
        radial = range(1, 1 + (_RADIAL_WAVES if length == lengths[-1] else 0))

        def features(
            view: np.ndarray,
            frequencies: np.ndarray = frequencies,
            phases: np.ndarray = phases,
            radial: range = radial,
        ) -> np.ndarray:
            s = view[:, columns]
            # of the radius, in ranks: planes that rotate with it
            level = np.pi * scipy.special.gammainc(dim / 2, (s**2).sum(1, keepdims=True) / 2)
            waves = [np.cos(k * level) for k in radial]
            # torch has vectorized cosines on every processor, numpy only with AVX-512
            cosines = torch.from_numpy(s @ frequencies + phases).cos_().numpy()
            return np.concatenate([s, *[s * wave for wave in waves], *waves, cosines], axis=1)

        families.append(_Family(words, dim, [(features(a), features(b)) for a, b in scores]))
    return families


def _bends(s: np.ndarray, s_next: np.ndarray) -> np.ndarray:
    """Moments (2, 3, dim, dim) of products of degree 2 and 3 with either view, and lag and variance sums.

    In a world whose embedding is linear, e = s' - r s is independent of s. Where two dimensions are a bent
    image of a plane, e depends on their products; the correlations with e, squared and added, rank the
    planes.
    """
    a, b = np.concatenate([s, s_next]), np.concatenate([s_next, s])
    second, third = (a**2 - 1) / math.sqrt(2), (a**3 - 3 * a) / math.sqrt(6)
    moments = [
        [(e * second).T @ a, (e * a).T @ second, e.T @ third, (e * a).T @ a, e.T @ second] for e in (b, a)
    ]
    plain = np.stack([(b * a).sum(0), (a**2).sum(0)])
    lag = np.broadcast_to(plain[:, None, :, None], (2, 1, s.shape[1], s.shape[1]))
    return np.concatenate([np.array(moments), lag], axis=1)


def _bent_plane(moments: list[np.ndarray]) -> tuple[int, int]:
    """The plane that bends most."""
    total = np.sum(moments, axis=0)
    dim = total.shape[-1]
    r = total[0, -1] / np.maximum(total[1, -1], 1e-300)
    score = ((total[0, :-1] - r * total[1, :-1]) ** 2).sum(0)
    place = int(np.argmax(np.triu(score + score.T, 1) - np.tri(dim)))
    return place // dim, place % dim


class _Family:
    """Functions of one family: sums of their features' moments by block, in principal components.

    The sums G+ = sum (phi + phi')(phi + phi')^T / 4 and G- = sum (phi - phi')(phi - phi')^T / 4, each about
    its mean, give 2 C0 = G+ + G- and 2 C1 = G+ - G-, so that any part of the rows can fit and any other
    judge. The components are the linear ones, then the rest by variance, smooth ones first.

    Args:
        words: the functions, in words.
        linear: how many of the first features are linear.
        features: both views (n, p) of each block.
    """

    def __init__(self, words: str, linear: int, features: list[_Block]) -> None:
        self.words = words
        center = (features[0][0].mean(0) + features[0][1].mean(0)) / 2  # sums about the means lose no digits
        rows, first, products = [], [], []
        for a, b in features:
            halves = ((a + b) / 2 - center, (a - b) / 2)
            rows.append(len(a))
            first.append([half.sum(0) for half in halves])
            products.append([half.T @ half for half in halves])
        self.rows, self._first, self._products = np.array(rows), np.array(first), np.array(products)
        upper, lower = self._moments(tuple(range(len(rows))))
        basis = _components(upper + lower, linear, int(self.rows.sum()) // _PAIRS_PER_COMPONENT)
        self._linear = min(linear, basis.shape[1])
        self._first, self._products = self._first @ basis, basis.T @ self._products @ basis
        self._solutions: dict[tuple[tuple[int, ...], int], np.ndarray] = {}

    def _moments(self, blocks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Covariances of half sums and half differences over some blocks."""
        chosen = list(blocks)
        rows = self.rows[chosen].sum()
        first, products = self._first[chosen].sum(0) / rows, self._products[chosen].sum(0) / rows
        upper, lower = products - np.einsum("si,sj->sij", first, first)
        return upper, lower

    def sizes(self, rows: int) -> list[int]:
        """Numbers of components to try with some rows to fit them to."""
        room = max(self._linear, min(self._first.shape[2], rows // _PAIRS_PER_COMPONENT))
        return sorted({min(room, self._linear + size) for size in _SIZES})

    def counts(self, size: int) -> list[int]:
        """Numbers of functions to try."""
        return sorted({count for count in (*_COUNTS, self._linear) if count <= size})

    def solve(self, blocks: tuple[int, ...], size: int) -> np.ndarray:
        """Weights (size, k) of the functions that correlate most in some blocks, best first."""
        if (blocks, size) not in self._solutions:
            upper, lower = (part[:size, :size] for part in self._moments(blocks))
            both = upper + lower
            both[np.diag_indices(size)] += _PENALTY
            top = [size - max(self.counts(size)), size - 1]
            vectors = scipy.linalg.eigh(upper - lower, both, subset_by_index=top)[1]
            self._solutions[blocks, size] = vectors[:, ::-1]
        return self._solutions[blocks, size]

    def sums(self, weights: np.ndarray, block: int) -> np.ndarray:
        """(4, k) sums over a block of half sums, half differences, and their squares."""
        size = len(weights)
        first = self._first[block, :, :size] @ weights
        squares = [((part[:size, :size] @ weights) * weights).sum(0) for part in self._products[block]]
        return np.concatenate([first, squares])


def _components(covariance: np.ndarray, linear: int, most: int) -> np.ndarray:
    """Directions (features, components) of variance 1: the linear ones, then the rest without them."""
    first = np.zeros((len(covariance), linear))
    first[:linear] = np.eye(linear)
    first = _whitened(first, covariance)
    rest = np.eye(len(covariance))[:, linear:]
    if not rest.size:
        return first
    rest = _whitened(rest - first @ (first.T @ covariance @ rest), covariance)
    return np.concatenate([first, rest[:, : min(_SIZES[-1], most)]], axis=1)


def _whitened(directions: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Principal components of variance 1 within the span of some directions, largest first."""
    values, vectors = scipy.linalg.eigh(directions.T @ covariance @ directions)
    usable = values > _EMPTY * max(values[-1], 0.0)
    whitened: np.ndarray = directions @ (vectors[:, usable] / np.sqrt(values[usable]))[:, ::-1]
    return whitened


def _judge(family: _Family, folds: list[tuple[int, ...]]) -> Iterator[tuple[float, _Choice]]:
    """What each choice of a family promises, judged on each fold by functions fitted to the others."""
    parts = [_joined([other for other in folds if other is not fold]) for fold in folds]
    for size in family.sizes(min(int(family.rows[list(part)].sum()) for part in parts)):
        # features are centered: means need not be removed
        sums = np.stack(
            [
                family.sums(family.solve(part, size), block)[2:]
                for fold, part in zip(folds, parts, strict=True)
                for block in fold
            ]
        )
        for count in family.counts(size):
            upper, lower = sums[:, :, :count].sum(2).T
            value = _ratio(upper.sum(), lower.sum())
            left_out = _ratio(upper.sum() - upper, lower.sum() - lower)
            error = float(np.std(left_out)) * math.sqrt(len(left_out) - 1)
            yield float(value) - _CAUTION * error, _Choice(family, size, count)


def _interval(folds: list[tuple[np.ndarray, np.ndarray]], confidence: float) -> Interval:
    """Correlation of scored functions: jackknife on Fisher's scale, where it is nearly normal."""

    def transformed(skip: tuple[int, int] | None = None) -> float:
        variances = np.zeros(2)
        for fold, (rows, sums) in enumerate(folds):
            used = np.arange(len(rows)) != (skip[1] if skip is not None and skip[0] == fold else -1)
            total, n = sums[used].sum(0), rows[used].sum()
            variances += (total[2:] - total[:2] ** 2 / n).mean(1)  # each view about its own mean
        return math.atanh(float(np.clip(_ratio(*variances), -_ALMOST_ONE, _ALMOST_ONE)))

    left_out = [
        transformed((fold, block)) for fold, (rows, _) in enumerate(folds) for block in range(len(rows))
    ]
    interval = from_blocks(transformed(), np.array(left_out), confidence)
    return Interval(*(math.tanh(end) for end in (interval.estimate, interval.low, interval.high)))


def _ratio(upper: Any, lower: Any) -> Any:
    """Correlation from the variances of half sums and half differences."""
    total = upper + lower
    return np.where(total > 0, (upper - lower) / np.where(total > 0, total, 1.0), 0.0)


def _joined(folds: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(itertools.chain.from_iterable(folds)))
