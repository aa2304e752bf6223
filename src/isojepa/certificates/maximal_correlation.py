r"""Where rho comes from: the largest correlation across the views over all functions of the embedding.

Every function of the embedding is a function of the latents, so in a Gaussian world of correlation rho it
correlates across the views by at most rho, and if the encoder loses nothing the largest over all functions,
the maximal correlation of Hirschfeld, Gebelein and Renyi, is rho.

The rows are cut into blocks of successive ones and these into four folds. For each fold the functions are
chosen without it: family, number of components and number of functions by fitting on two of the other folds
and judging on the third, all three ways; then they are fitted to all three and scored on the fold itself.
What a function scores on rows that had no part in it is right on average about its correlation, which is at
most rho: so the lower end is a lower confidence bound on rho, whatever was chosen. There is no upper bound:
no finite class of functions gives one.

Many rows: functions are fitted to some stretches of them and scored on others. Many dimensions: functions of
the 64 slowest linear directions of one half of the rows are scored on the other.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from isojepa.certificates.bound import SURE
from isojepa.certificates.correlation_fits import Fit
from isojepa.certificates.correlation_functions import (
    Inputs,
    PlaneScreen,
    plane_families,
    standard_families,
)
from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.views import Views, read_views
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.statistics.slowness import slow_to_fast

_FOLDS, _BLOCKS = 4, 20  # blocks of all folds together
_LEAST = 200  # pairs below which only the embedding itself is looked at
_KEPT = 64  # dimensions that functions are made of
_FITTED, _SCORED = 40_000, 400_000  # rows at most, where there are more
_NUMBERS = 1 << 23  # held at once
_CAUTION = 2.0  # standard errors taken off when functions are chosen
_NEARLY = 1 - 1e-12


@dataclass(frozen=True)
class MaximalCorrelation:
    """What `estimate_correlation` found.

    Attributes:
        pairs: rows that fitted or scored functions.
        linear: the embedding's own correlation over all dimensions together.
        value: the estimate. `low` is a lower confidence bound on the maximal correlation; `high` is the upper
            end of the estimate's interval and no upper bound on rho.
        family: the functions that won, in plain words.
        confidence: of the interval's ends.
        sure: a lower confidence bound beyond chance (`bound.SURE`): a rho below it is wrong.
    """

    pairs: int
    linear: Interval
    value: Interval
    family: str
    confidence: float
    sure: float


def estimate_correlation(
    h: Any, h_next: Any = None, *, views: Views | None = None, confidence: float = 0.95, seed: int = 0
) -> MaximalCorrelation:
    """Estimate the maximal correlation of pairs from the embeddings of both views.

    Args:
        h: (n, m) embeddings of the first view, in the order of time where they come from paths; array,
            tensor, memory map, or `Embeddings` of both views.
        h_next: (n, m) of the second view; left out where h is `Embeddings`.
        views: the sums of a pass over all rows, where they have been made already.
        confidence: of the interval, two-sided; its lower end is a bound at this confidence.
        seed: draws the functions to choose from.

    Raises:
        ValueError: there are no pairs, too few of them, or nothing varies.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> z, z_next = OrnsteinUhlenbeck(dim=1, rho=0.9).sample(2000, generator(0, "data"))
        >>> found = estimate_correlation(z**3, z_next**3)
        >>> found.linear.high < 0.9 and 0.88 < found.value.low < 0.9 < found.value.high
        True
    """
    embeddings = h if isinstance(h, Embeddings) else Embeddings(h, h_next)
    if not embeddings.paired:
        raise ValueError("the correlation across views needs both views of each pair, got one")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    views = views or read_views(embeddings)
    linear, surely = views.correlation(confidence), views.correlation(SURE)
    if linear is None or surely is None:
        raise ValueError(
            f"the correlation across views needs 6 pairs that vary, got {len(embeddings)} of which none do"
            if len(embeddings) >= 6
            else f"the correlation across views needs at least 6 pairs, got {len(embeddings)}"
        )
    itself = "the embedding itself, all dimensions together"
    n = len(embeddings)
    if n < _LEAST or not linear.estimate < _NEARLY:
        return MaximalCorrelation(n, linear, linear, itself, confidence, surely.low)
    whole = n <= 2 * _FITTED and embeddings.dim <= _KEPT
    scored = _cross_fitted(embeddings, seed) if whole else _split(embeddings, seed)
    if scored is None:
        return MaximalCorrelation(n, linear, linear, itself, confidence, surely.low)
    found = scored.interval(confidence)
    # each end at half of what may go wrong, so that the larger of two lower bounds is one
    value = Interval(*(max(getattr(linear, end), getattr(found, end)) for end in ("estimate", "low", "high")))
    family = scored.words if found.estimate > linear.estimate else itself
    sure = max(surely.low, scored.interval(SURE).low)
    return MaximalCorrelation(scored.pairs, linear, value, family, confidence, sure)


@dataclass(frozen=True)
class _Scored:
    """Sums over blocks of rows that had no part in the functions.

    Attributes:
        folds: per fold its rows (blocks,) and the sums (blocks, 4, k) of half sums, half differences and
            their squares.
        words: the functions.
        pairs: rows used in all.
    """

    folds: list[tuple[np.ndarray, np.ndarray]]
    words: str
    pairs: int

    def interval(self, confidence: float) -> Interval:
        """Of the correlation, by leaving out blocks, on the scale where it is nearly normal."""
        left_out = [
            self._value((fold, block))
            for fold, (rows, _) in enumerate(self.folds)
            for block in range(len(rows))
        ]
        found = from_blocks(self._value(), np.array(left_out), confidence)
        return Interval(*(math.tanh(end) for end in (found.estimate, found.low, found.high)))

    def _value(self, skip: tuple[int, int] | None = None) -> float:
        """Fisher's transform of the correlation, without one block of one fold."""
        upper = lower = 0.0
        for fold, (rows, sums) in enumerate(self.folds):
            kept = np.arange(len(rows)) != (skip[1] if skip is not None and skip[0] == fold else -1)
            total, n = sums[kept].sum(0), rows[kept].sum()
            variances = (total[2:] - total[:2] ** 2 / n).mean(1)  # each view about its own mean
            upper, lower = upper + variances[0], lower + variances[1]
        return math.atanh(min(max(ratio(upper, lower), -_NEARLY), _NEARLY))


def _cross_fitted(embeddings: Embeddings, seed: int) -> _Scored | None:
    """Functions of each fold are fitted to the other three."""
    h, h_next = _pairs(embeddings, 0, len(embeddings))
    n = len(h)
    if n < _LEAST:
        return None
    inputs = Inputs(np.concatenate([h, h_next]))
    x, x_next = inputs(h), inputs(h_next)
    edges = np.linspace(0, n, _BLOCKS + 1).astype(int)
    search = _Search(inputs, [(x[a:b], x_next[a:b]) for a, b in itertools.pairwise(edges)], seed)
    folds = _in_folds(range(_BLOCKS))
    scored, words = [], []
    for own in folds:
        rest = [fold for fold in folds if fold is not own]
        choice = search.choose(rest)
        weights = choice.fit.solve(_joined(rest), choice.size)[:, : choice.count]
        sums = np.stack([choice.fit.judge(weights, block) for block in own])
        scored.append((choice.fit.rows[list(own)], sums))
        words.append(choice.fit.family.words)
    return _Scored(scored, _listed(words), n)


def _split(embeddings: Embeddings, seed: int) -> _Scored | None:
    """Functions are fitted to stretches of the first half of the rows, and scored on the second."""
    n, dim = len(embeddings), embeddings.dim
    most = min(_FITTED, max(_LEAST, _NUMBERS // dim))
    fitted = [_pairs(embeddings, *part) for part in _stretches(0, n // 2, most)]
    h, h_next = (np.concatenate(views) for views in zip(*fitted, strict=True))
    pairs = len(h)
    if pairs < _LEAST // 2:
        return None
    directions = slow_to_fast(h, h_next)[0][:, :_KEPT] if dim > _KEPT else None
    inputs = Inputs(np.concatenate([h, h_next]), directions)
    del h, h_next
    blocks = [(inputs(first), inputs(second)) for first, second in fitted]
    del fitted
    search = _Search(inputs, blocks, seed)
    folds = _in_folds(range(len(blocks)))
    choice = search.choose(folds)
    functions = choice.fit.functions(_joined(folds), choice.size, choice.count)
    rows, sums = [], []
    for start, stop in _stretches(n // 2, n, _SCORED):
        total, count = np.zeros((4, choice.count)), 0
        step = max(1, _NUMBERS // max(dim, 512))
        for first in range(start, stop, step):
            a, b = (functions(inputs(h)) for h in _pairs(embeddings, first, min(stop, first + step)))
            half = np.stack([(a + b) / 2, (a - b) / 2])
            total += np.concatenate([half.sum(1), (half**2).sum(1)])
            count += len(a)
        rows.append(count)
        sums.append(total)
    return _Scored([(np.array(rows), np.stack(sums))], choice.fit.family.words, pairs + sum(rows))


def _pairs(embeddings: Embeddings, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Both views of successive rows, without those that are not finite."""
    part = embeddings.rows(start, stop)
    if part.h_next is None:
        raise ValueError("both views of each pair are needed, got one")
    return part.h, part.h_next


def _in_folds(blocks: range) -> list[tuple[int, ...]]:
    return [tuple(int(block) for block in part) for part in np.array_split(np.array(blocks), _FOLDS)]


def _joined(folds: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(itertools.chain.from_iterable(folds)))


def _stretches(start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """Stretches of successive rows at even distances, one per block, of at most so many rows together."""
    edges = np.linspace(start, stop, _BLOCKS + 1).astype(int)
    return [(int(a), int(min(b, a + max(1, most // _BLOCKS)))) for a, b in itertools.pairwise(edges)]


def _listed(words: list[str]) -> str:
    return "; ".join(dict.fromkeys(words))


@dataclass(frozen=True)
class _Choice:
    """Functions to be scored: of which fit, with how many components, how many of them."""

    fit: Fit
    size: int
    count: int


class _Search:
    """All families over the same blocks of rows.

    Args:
        inputs: what functions are made of.
        blocks: pairs of inputs (n, 2 dim), a block of successive rows each.
        seed: draws the functions.
    """

    def __init__(self, inputs: Inputs, blocks: list[tuple[np.ndarray, np.ndarray]], seed: int) -> None:
        self.inputs, self.blocks, self.seed = inputs, blocks, seed
        self.fits = [Fit(family, blocks) for family in standard_families(inputs, seed)]
        self.screen: PlaneScreen | None = None
        self._planes: dict[tuple[int, int], list[Fit]] = {}
        if inputs.dim > 2:
            self.screen = PlaneScreen(inputs.dim)
            for x, x_next in blocks:
                self.screen.add(x[:, inputs.dim :], x_next[:, inputs.dim :])

    def choose(self, folds: list[tuple[int, ...]]) -> _Choice:
        """What would promise most, seen from some folds alone."""
        fits = self.fits
        if self.screen is not None:
            plane = self.screen.best(_joined(folds))
            if plane not in self._planes:
                families = plane_families(self.inputs, plane, self.seed)
                self._planes[plane] = [Fit(family, self.blocks) for family in families]
            fits = fits + self._planes[plane]
        choices = [judged for fit in fits for judged in _judged(fit, folds)]
        return max(choices, key=lambda judged: judged[0])[1]


def _judged(fit: Fit, folds: list[tuple[int, ...]]) -> Iterator[tuple[float, _Choice]]:
    """What each choice of a fit promises, judged on each fold by functions fitted to the others."""
    parts = [_joined([fold for fold in folds if fold is not own]) for own in folds]
    fewest = min(int(fit.rows[list(part)].sum()) for part in parts)
    for size in fit.sizes(fewest):
        sums = np.stack(
            [
                fit.judge(fit.solve(part, size), block)[
                    2:
                ]  # features are centered: means need not be removed
                for own, part in zip(folds, parts, strict=True)
                for block in own
            ]
        )
        for count in fit.counts(size):
            upper, lower = sums[:, :, :count].sum(2).T
            left_out = [ratio(upper.sum() - u, lower.sum() - v) for u, v in zip(upper, lower, strict=True)]
            error = float(np.std(left_out)) * math.sqrt(len(left_out) - 1)
            yield ratio(upper.sum(), lower.sum()) - _CAUTION * error, _Choice(fit, size, count)


def ratio(upper: float, lower: float) -> float:
    """Correlation from the variances of half sums and half differences."""
    return float((upper - lower) / (upper + lower)) if upper + lower > 0 else 0.0
