"""All comparisons of two embeddings at once: raw, and after the map between them was undone.

Algorithm 1 of Social-JEPA: pairs are split by state, both sides are standardised and a map is fitted on one
half, and everything is scored on the other. Scores that need a common space are taken between the first
embedding and the second in its coordinates (Equation 5), and beside it between both as they are. What
several scores need, such as principal axes, ranks of distances and neighbours, is computed once.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.dependent_rows import MIN_EFFECTIVE, Dependence
from isojepa.align.maps import AlignmentMap
from isojepa.align.metrics.cca import score_of, scores
from isojepa.align.metrics.cka import Gram, cka_of
from isojepa.align.metrics.comparison import Comparison
from isojepa.align.metrics.crossings import DRAWS, Axes
from isojepa.align.metrics.distances import Ranks, correlation_of, groups
from isojepa.align.metrics.inputs import Pair, check_options, read_pair
from isojepa.align.metrics.neighbors import (
    KS,
    K,
    check_ks,
    cycle_of,
    directions,
    disagreement,
    overlaps_of,
)
from isojepa.align.metrics.procrustes import distances
from isojepa.align.metrics.regression import Map, Regression, scores_of_map
from isojepa.align.metrics.search import neighbours
from isojepa.align.pairs import split_states, state_ids
from isojepa.arguments import check_count, checked
from isojepa.certificates.intervals import Interval
from isojepa.terminal import aligned


@dataclass(frozen=True)
class Comparisons:
    """Scores by name.

    Attributes:
        raw: between the two as they are, standardised.
        aligned: after the map: MSE and R2 of the map itself, the others between the first and the second in
            its coordinates.
        map: the map.
        fitted: rows that it was fitted on here; 0 for a map that was handed in.
        scored: rows that everything is scored on.
        effective: rows, of those that were given, that are nearly independent.
        left_out: scores that could not be had, with the reason.
    """

    raw: dict[str, Comparison]
    aligned: dict[str, Comparison]
    map: Map
    fitted: int
    scored: int
    effective: int
    left_out: dict[str, str]

    @property
    def dependence(self) -> str:
        """Why scores have no interval and no chance; empty where they have."""
        if self.effective == self.fitted + self.scored:
            return ""
        few = f", too few to tell, {MIN_EFFECTIVE} are needed" if self.effective < MIN_EFFECTIVE else ""
        return (
            f"Rows depend on each other: {self.effective} effective rows{few}. Intervals, chance and p would "
            "assume independent rows, and are left out."
        )

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per score and space, for JSON, CSV or a data frame."""
        return [
            {"space": space, **comparison.to_dict()}
            for space, found in (("raw", self.raw), ("aligned", self.aligned))
            for comparison in found.values()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {
            "fitted": self.fitted,
            "scored": self.scored,
            "effective": self.effective,
            "raw": {name: comparison.to_dict() for name, comparison in self.raw.items()},
            "aligned": {name: comparison.to_dict() for name, comparison in self.aligned.items()},
            "left_out": dict(self.left_out),
        }

    def table(self) -> str:
        """A table in plain text: value with interval, chance, p and calibrated value, aligned and raw."""
        lines: list[tuple[str, ...]] = [("score", "space", "value", "interval", "chance", "p", "calibrated")]
        for name in dict.fromkeys((*self.aligned, *self.raw)):
            for space, found in (("aligned", self.aligned), ("raw", self.raw)):
                if name in found:
                    lines.append((name, space, *_cells(found[name])))
        text = aligned(lines, left=2)
        text += [f"{name} left out: {reason}" for name, reason in self.left_out.items()]
        text += [self.dependence] if self.dependence else []
        return "\n".join(text)

    def __str__(self) -> str:
        return self.table()


@checked
def compare(
    first: Any,
    second: Any,
    *,
    map: Any = None,
    ids: Any = None,
    ks: Sequence[int] = KS,
    k: int = K,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparisons:
    """Every score of two embeddings of the same states.

    Where rows depend on each other in both, as successive steps or repeated states do, scores have no
    interval and no chance: these would assume independent rows.

    Args:
        first, second: (n, d1) and (n, d2), rows of the same states in one order, if possible that of time.
        map: a map from first to second that was fitted on other rows: then all rows are scored. By default a
            ridge map is fitted on half of the states, and the other half is scored.
        ids: (n,) states; the split goes by them.
        ks: numbers of neighbours for NO@k and NOS@k.
        k: of mutual and cycle k-NN.
        confidence: of the intervals.
        null: whether to work out what chance gives.
        draws: of re-paired rows, for the scores that need them.
        seed: of split, groups and draws.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them, the ids do not fit, or a k is too large.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> found = compare(x, x @ np.diag([1.0, 2.0, 3.0]), ks=(1, 5))
        >>> found.scored, round(found.aligned["R2"].value, 3), round(found.aligned["NO@5"].value, 2) > 0.9
        (100, 1.0, True)
    """
    check_options(confidence, draws)
    pair = read_pair(first, second, least=8, drop_constant=drop_constant and map is None)
    named = None if ids is None else state_ids("ids", ids)
    if named is not None and len(named) != pair.rows:
        raise ValueError(f"ids must be as many as rows, {pair.rows}, got {len(named)}")
    effective = Dependence.of(pair.first.numpy(), pair.second.numpy(), named, seed).effective
    independent = effective == pair.rows
    null &= independent
    fitted = 0
    if map is None:
        split = split_states(pair.rows, ids, seed=seed)
        at = torch.from_numpy(split.fit)
        map = AlignmentMap("ridge").fit(pair.first[at].numpy(), pair.second[at].numpy())
        regression = Regression.of(pair, split, map.ridge_ or None)
        told = regression.scores(ids, confidence, null, seed, pair.note)
        at, fitted = torch.from_numpy(split.score), len(split.fit)
        del regression
        pair = Pair(pair.first[at], pair.second[at], pair.note)
    else:
        told = scores_of_map(pair, map, ids, confidence, null)
    ks = check_ks(ks, pair.rows)
    check_ks((check_count("k", k),), pair.rows)
    work = _Work(confidence, null, draws, seed, ks, k)
    x, y, back = _standardised(pair, map)
    one = _Side.of(x, work)
    raw = work.shared(Pair(x, y, pair.note), one, _Side.of(y, work), canonical=True)
    aligned = {comparison.name: comparison for comparison in told}
    aligned |= work.shared(Pair(x, back, pair.note), one, _Side.of(back, work), canonical=False)
    if not independent:
        raw, aligned = (
            {name: _without_interval(one) for name, one in scores.items()} for scores in (raw, aligned)
        )
    return Comparisons(raw, aligned, map, fitted, pair.rows, effective, work.left_out)


def _without_interval(comparison: Comparison) -> Comparison:
    interval = Interval(comparison.value, math.nan, math.nan)
    return dataclasses.replace(comparison, interval=interval)


@dataclass(frozen=True)
class _Side:
    """One embedding with all that its scores share."""

    gram: Gram
    axes: Axes
    distances: Ranks
    profiles: Ranks | None
    near: Tensor
    near_by_cosine: Tensor

    @classmethod
    def of(cls, rows: Tensor, work: "_Work") -> "_Side":
        places = groups(len(rows), work.seed)
        profiles = Ranks.of(rows, places, "correlation") if rows.shape[1] > 2 else None
        return cls(
            Gram.of(rows),
            Axes.of(rows),
            Ranks.of(rows, places, "euclidean"),
            profiles,
            neighbours(rows, min(max(work.ks) + 1, len(rows) - 1)),
            neighbours(directions(rows), min(work.k + 1, len(rows) - 1)),
        )


@dataclass(frozen=True)
class _Work:
    """Settings that all scores share, and what was left out."""

    confidence: float
    null: bool
    draws: int
    seed: int
    ks: tuple[int, ...]
    k: int
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def shared(self, pair: Pair, one: _Side, two: _Side, canonical: bool) -> dict[str, Comparison]:
        """All scores of two sides; canonical correlations, which no map changes much, where asked for."""
        common = self.confidence, self.null
        drawn = (*common, self.draws, self.seed)
        products = one.axes.rows.T @ two.axes.rows
        found: list[Comparison] = []
        for name, unbiased in (("CKA", False), ("unbiased CKA", True)):
            arguments = (pair, one.gram, two.gram, unbiased, *common, self.seed)
            self._try(found, name, functools.partial(cka_of, *arguments))
        if canonical:
            for name, make in scores(one.axes, two.axes).items():
                self._try(found, name, functools.partial(_made, pair, make, products, *drawn))
        found.append(correlation_of("DSC", pair, one.distances, two.distances, *common))
        if one.profiles is None or two.profiles is None:
            self.left_out["RSA"] = "rows must have at least 3 columns to be correlated"
        else:
            found.append(correlation_of("RSA", pair, one.profiles, two.profiles, *common))
        overlaps = overlaps_of("NO", pair, one.near, two.near, self.ks, *common)
        found += [*overlaps, *(disagreement(overlap) for overlap in overlaps)]
        cosine = one.near_by_cosine, two.near_by_cosine
        found += overlaps_of("mutual k-NN", pair, *cosine, (self.k,), *common)
        found.append(cycle_of(pair, cosine[0], cosine[1], self.k, *drawn))
        sides = one.axes.rows, two.axes.rows
        found += distances(pair, sides, *drawn, axes=(one.axes, two.axes), products=products)
        return {comparison.name: comparison for comparison in found}

    def _try(self, found: list[Comparison], name: str, score: Callable[[], Comparison]) -> None:
        try:
            found.append(score())
        except ValueError as error:
            self.left_out[name] = str(error)


def _made(
    pair: Pair,
    make: Callable[[], Any],
    products: Tensor,
    confidence: float,
    null: bool,
    draws: int,
    seed: int,
) -> Comparison:
    return score_of(pair, make(), products, confidence, null, draws, seed)


def _standardised(pair: Pair, map: Map) -> tuple[Tensor, Tensor, Tensor]:
    """First, second, and second in the coordinates of the first, by statistics of the map if it has them."""
    back = torch.from_numpy(np.asarray(map.inverse_transform(pair.second.numpy()), dtype=np.float64))
    if isinstance(map, AlignmentMap):
        parts = map.mean_in_, map.scale_in_, map.mean_out_, map.scale_out_
        mean_in, scale_in, mean_out, scale_out = (torch.from_numpy(np.asarray(part)) for part in parts)
    else:
        mean_in, scale_in = pair.first.mean(0), pair.first.std(0)
        mean_out, scale_out = pair.second.mean(0), pair.second.std(0)
    return (
        (pair.first - mean_in) / scale_in,
        (pair.second - mean_out) / scale_out,
        (back - mean_in) / scale_in,
    )


def _cells(comparison: Comparison) -> tuple[str, ...]:
    low, high = comparison.interval.low, comparison.interval.high
    cells = [f"{comparison.value:.4g}", f"[{low:.4g}, {high:.4g}]" if math.isfinite(low) else ""]
    for number, form in ((comparison.chance, ".4g"), (comparison.p, ".2g"), (comparison.calibrated, ".3f")):
        cells.append("" if number is None else format(number, form))
    return tuple(cells)
