"""Scores of two embeddings with an interval and what chance gives: raw, and after the map between them was
undone.

Algorithm 1 of Social-JEPA: states are split, both sides are standardized and a map is fitted on one half,
and everything is scored on the other. Scores that need a common space are taken between the first embedding
and the second in its coordinates (Equation 5), and beside it between both as they are.

Every score (`alignment.scores`) is treated alike. Its interval comes from leaving out one of 5 to 20 blocks
of consecutive states in turn. Chance is what wrong pairings give (`statistics.nulls`): random ones, or
shifts in time where successive states depend on each other in both embeddings. For scores of second moments
p is the larger of that of the rows and that of the rows with outliers shrunk. Rows of one state count as
one, their mean.

    calibrated = (value - chance) / (best - chance)

is 0 at chance and 1 at the best possible value. It is never clipped: worse than chance is below 0.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import read_sides, split_states, state_ids
from isojepa.alignment.scores import (
    DISTANCES,
    MOMENT_SCORES,
    NEIGHBORS,
    PAIRWISE_ROWS,
    DistanceScores,
    DistanceSide,
    FittedScores,
    MapScores,
    MomentScores,
    NeighborScores,
    NeighborSide,
    blocks_of,
    thin,
)
from isojepa.statistics.dependence import MIN_EFFECTIVE, RowDependence, state_means
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.statistics.nulls import MIN_SHIFTS, Null, PairingPlan, tame
from isojepa.terminal import aligned
from isojepa.validation import check_count, check_number, choose, validate_types

KS = (1, 5, 10, 20, 50)
K = 10
DRAWS = 99
MIN_DRAWS = 9
_MAX_PRODUCTS, _MIN_COSTLY_DRAWS = 3e10, 19  # products of numbers in all wrong pairings; draws beyond that
_CCA = ("mean CCA", "SVCCA", "PWCCA")
_LOWER_IS_BETTER = ("MSE", "angular Procrustes", "orthogonal Procrustes")
_GAP = 20  # at most one in so many states is left out between those that are fitted on and those scored


class FittedMap(Protocol):
    """A map from the first embedding to the second and back, such as `AlignmentMap`."""

    def transform(self, X: Any) -> np.ndarray:
        """Rows of the first as the second would give them."""
        ...

    def inverse_transform(self, Y: Any) -> np.ndarray:
        """Rows of the second in the coordinates of the first."""
        ...


@dataclass(frozen=True)
class ScoreComparison:
    """One score of two embeddings.

    Attributes:
        name: of the score.
        value: of the rows as they are paired.
        interval: of the value at this number of rows; NaN where too few rows are effective.
        chance: mean of the score of wrong pairings; None if there is none.
        chance_spread: its standard deviation.
        p: one-sided probability that wrong pairings score at least as well.
        calibrated: 0 at chance, 1 at the best possible value.
        best: the best possible value.
        higher_is_better: whether larger values mean more alike.
        rows: how many rows the value comes from.
        subsample: whether rows were left out to save time, of the value or of chance.
        null: how chance was obtained.
        note: anything else a reader must know; mostly empty.
    """

    name: str
    value: float
    interval: Interval
    chance: float | None
    chance_spread: float | None
    p: float | None
    calibrated: float | None
    best: float
    higher_is_better: bool
    rows: int
    subsample: bool
    null: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON; numbers that are not finite are None."""
        plain = dataclasses.asdict(self) | {"interval": [self.interval.low, self.interval.high]}
        return {key: _finite(value) for key, value in plain.items()}

    def __str__(self) -> str:
        text = f"{self.name} {self.interval}"
        if self.chance is None or self.p is None or self.calibrated is None:
            return text
        return f"{text}, chance {self.chance:.4g}, p {self.p:.2g}, calibrated {self.calibrated:.4g}"


@dataclass(frozen=True)
class Comparisons:
    """Scores by name.

    Attributes:
        raw: between the two as they are, standardized.
        aligned: after the map: MSE and R2 of the map itself, the others between the first and the second in
            its coordinates.
        map: the map.
        fitted: states that it was fitted on here; 0 for a map that was passed in.
        scored: states that everything is scored on.
        effective: states, of fitted and scored ones, that are nearly independent.
        left_out: scores that could not be had, with the reason.
    """

    raw: dict[str, ScoreComparison]
    aligned: dict[str, ScoreComparison]
    map: FittedMap
    fitted: int
    scored: int
    effective: int
    left_out: dict[str, str]

    @property
    def dependence(self) -> str:
        """What depends on each other, and what follows; empty for independent states."""
        states = self.fitted + self.scored
        if self.effective >= states:
            return ""
        text = f"Rows depend on each other: {self.effective} effective rows of {states}; chance is of shifts."
        if self.effective * self.scored < MIN_EFFECTIVE * states:
            text += f" They are too few for intervals, which need {MIN_EFFECTIVE} that are scored."
        return text

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per score and space, for JSON, CSV or a data frame."""
        return [
            {"space": space, **comparison.to_dict()}
            for space, scores in (("raw", self.raw), ("aligned", self.aligned))
            for comparison in scores.values()
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
            for space, scores in (("aligned", self.aligned), ("raw", self.raw)):
                if name in scores:
                    lines.append((name, space, *_cells(scores[name])))
        text = aligned(lines, left=2)
        text += [f"{name} left out: {reason}" for name, reason in self.left_out.items()]
        text += [self.dependence] if self.dependence else []
        return "\n".join(text)

    def __str__(self) -> str:
        return self.table()


@validate_types
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

    Args:
        first, second: (n, d1) and (n, d2), rows of the same states in one order, if possible that of time.
        map: a map from first to second that was fitted on other rows: then all rows are scored. By default a
            ridge map is fitted on half of the states, and the other half is scored.
        ids: (n,) states; rows of one state count as one, their mean. By default repeated rows are detected.
        ks: numbers of neighbors for NO@k and NOS@k.
        k: of mutual and cycle k-NN.
        confidence: of the intervals.
        null: whether to work out what chance gives.
        draws: of random pairings; rows that depend on each other have up to 198 shifts in their place.
        seed: of split and pairings.
        drop_constant: leave out constant columns rather than raise an error.

    Raises:
        ValueError: the arrays do not match, the ids do not fit, or a k is too large.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> scores = compare(x, x @ np.diag([1.0, 2.0, 3.0]), ks=(1, 5))
        >>> scores.scored, round(scores.aligned["R2"].value, 3), round(scores.aligned["NO@5"].value, 2) > 0.9
        (100, 1.0, True)
    """
    x, y, note, dependence = _states(
        first, second, ids, confidence, draws, seed, drop_constant and map is None
    )
    n, memory = dependence.states, dependence.memory
    fitted = 0
    if map is None:
        fit, score = _split(n, memory, seed)
        map = AlignmentMap("ridge").fit(x[fit], y[fit])
        fitted = len(fit)
    else:
        fit, score = np.arange(0), np.arange(n)
    effective = len(score) * dependence.effective // n
    engine = _Engine(len(score), memory, effective, confidence, null, draws, seed, note)
    ks, k = check_ks(ks, len(score)), check_ks((check_count("k", k),), len(score))[0]
    moves = _standardized(x, y, map)
    scores = engine.of_map(moves, fit, score, float(getattr(map, "ridge_", 0.0)))
    one, two, back, _ = (rows[score] for rows in moves)
    raw = engine.of_pair(one, two, ks, k, tuple(MOMENT_SCORES))
    common = tuple(name for name in MOMENT_SCORES if name not in _CCA)
    aligned_scores = engine.of_pair(one, back, ks, k, common)
    # states between the parts count for neither
    effective = (fitted + len(score)) * dependence.effective // n
    return Comparisons(raw, scores | aligned_scores, map, fitted, len(score), effective, engine.left_out)


@validate_types
def measure(
    score: str,
    first: Any,
    second: Any,
    *,
    ids: Any = None,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> ScoreComparison:
    """One score of all rows as they are, with interval and chance.

    Args:
        score: CKA, unbiased CKA, mean CCA, SVCCA, PWCCA, angular Procrustes, orthogonal Procrustes, DSC,
            RSA, or with a number of neighbors NO@10, NOS@10, mutual k-NN@10, cycle k-NN@10.
        first, second, ids, confidence, null, draws, seed, drop_constant: as for `compare`.

    Raises:
        ValueError: there is no such score, or it cannot be had of these rows.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> round(measure("CKA", x, -2 * x).value, 6), measure("NO@5", x, x).value
        (1.0, 1.0)
    """
    x, y, note, dependence = _states(first, second, ids, confidence, draws, seed, drop_constant)
    engine = _Engine(
        len(x), dependence.memory, dependence.effective, confidence, null, draws, seed, note, strict=True
    )
    family, _, neighbors = score.partition("@")
    if not neighbors:
        choose("score", score, dict.fromkeys((*MOMENT_SCORES, *DISTANCES)))
        return (
            engine.of_distances(score, x, y)
            if score in DISTANCES
            else engine.of_moments(x, y, (score,))[score]
        )
    choose("score", family, dict.fromkeys(NEIGHBORS))
    (k,) = check_ks((int(neighbors) if neighbors.isdecimal() else 0,), len(x))
    overlaps = () if family == "cycle k-NN" else (k,)
    cycle = k if family == "cycle k-NN" else None
    return engine.of_neighbors(x, y, overlaps, cycle, cosine=family in ("mutual k-NN", "cycle k-NN"))[score]


def check_ks(ks: Sequence[int], rows: int) -> tuple[int, ...]:
    """Numbers of neighbors that there are.

    Raises:
        ValueError: there is none, or one that is not between 1 and rows - 1.
    """
    numbers = tuple(check_count("k", k) for k in ks)
    if not numbers or max(numbers) >= rows:
        raise ValueError(
            f"k must be less than the {rows} rows, which have {rows - 1} neighbors each, got "
            f"{max(numbers) if numbers else 'none'}: use more rows or a smaller k"
        )
    return numbers


@dataclass(frozen=True)
class _Engine:
    """Intervals and chance of all scores of n states, and what was left out."""

    n: int
    memory: int
    effective: int
    confidence: float
    null: bool
    draws: int
    seed: int
    note: str
    strict: bool = False
    left_out: dict[str, str] = field(default_factory=dict)
    sides: dict[Any, Any] = field(default_factory=dict)

    def plan(self, n: int, cost: int = 1) -> PairingPlan | None:
        """Wrong pairings of n states; fewer where one costs many products of numbers."""
        if not self.null:
            return None
        draws = min(self.draws, max(_MIN_COSTLY_DRAWS, int(_MAX_PRODUCTS / cost)))
        if self.memory == 1:
            return PairingPlan.permutations(n, draws, self.seed)
        return PairingPlan.shifts(n, max(draws, MIN_SHIFTS))

    @property
    def blocks(self) -> list[np.ndarray]:
        """Blocks of consecutive states that are left out in turn."""
        return list(blocks_of(self.n, min(max(self.n // self.memory // 5, 5), 20)))

    def comparison(
        self,
        name: str,
        value: float,
        without: np.ndarray,
        null: Null | None,
        true: float,
        subsample: bool = False,
    ) -> ScoreComparison:
        """A score from its values without blocks and its null; `true` is its value where that was drawn."""
        best = 0.0 if name in _LOWER_IS_BETTER else 1.0
        interval = Interval(value, math.nan, math.nan)
        if self.effective >= min(MIN_EFFECTIVE, self.n) and np.isfinite(without).all():
            interval = from_blocks(value, without, self.confidence)
            if name not in ("R2", "unbiased CKA", "DSC", "RSA"):  # none of the others is negative
                interval = Interval(value, max(0.0, interval.low), interval.high)
            if best == 1:
                interval = Interval(value, interval.low, min(max(1.0, value), interval.high))
        calibrated = None
        if null is not None:
            room = best - null.mean
            calibrated = (true - null.mean) / room if room else math.nan
        return ScoreComparison(
            name=name,
            value=value,
            interval=interval,
            chance=None if null is None else null.mean,
            chance_spread=None if null is None else null.spread,
            p=None if null is None else null.p,
            calibrated=calibrated,
            best=best,
            higher_is_better=best > 0,
            rows=self.n,
            subsample=subsample,
            null=null.how if null is not None else "too few rows" if self.null else "not asked for",
            note=self.note,
        )

    def of_pair(
        self, x: np.ndarray, y: np.ndarray, ks: Sequence[int], k: int, names: Sequence[str]
    ) -> dict[str, ScoreComparison]:
        """All scores of two sides, of those of moments the named ones."""
        scores = self.of_moments(x, y, names)
        for name in DISTANCES:
            self._try(scores, name, partial(self.of_distances, name, x, y))
        scores |= self.of_neighbors(x, y, ks, None, cosine=False)
        return scores | self.of_neighbors(x, y, (k,), k, cosine=True)

    def of_moments(self, x: np.ndarray, y: np.ndarray, names: Sequence[str]) -> dict[str, ScoreComparison]:
        """Scores of second moments; p is the larger of that of the rows and of rows with outliers shrunk."""
        scores, whole = MomentScores(x, y, names), dict[str, float]()
        for name in names:
            self._try(whole, name, partial(scores.whole, name))
        without, plan = scores.without(self.blocks), self.plan(self.n, x.size * y.shape[1])
        nulls = []
        if plan is not None:
            one, two = (self._side((id(rows), "tame"), partial(tame, rows)) for rows in (x, y))
            nulls = [scores.null(plan), MomentScores(one, two, names).null(plan)]
        comparisons = {}
        for name, value in whole.items():
            place = scores.names.index(name)
            null, true = _larger_p(plan, [drawn[:, place] for drawn in nulls], name not in _LOWER_IS_BETTER)
            if null is not None and plan is not None and name == "orthogonal Procrustes":
                grows = math.sqrt(self.n / len(plan.rows))  # as the root of the number of rows
                null = dataclasses.replace(null, mean=grows * null.mean, spread=grows * null.spread)
                true *= grows
            comparisons[name] = self.comparison(name, value, without[:, place], null, true)
        return comparisons

    def of_distances(self, name: str, x: np.ndarray, y: np.ndarray) -> ScoreComparison:
        """DSC or RSA."""
        kind = DISTANCES[name]
        one, two = (self._side((id(rows), kind), partial(DistanceSide, rows, kind)) for rows in (x, y))
        scores, plan = DistanceScores(one, two), self.plan(len(one.few))
        null, true = _larger_p(plan, [] if plan is None else [scores.null(plan)], True)
        subsample = len(one.chosen) < self.n
        return self.comparison(name, scores.whole(), scores.without(self.blocks), null, true, subsample)

    def of_neighbors(
        self, x: np.ndarray, y: np.ndarray, ks: Sequence[int], cycle: int | None, *, cosine: bool
    ) -> dict[str, ScoreComparison]:
        """NO@k and NOS@k, or by cosine mutual and cycle k-NN."""
        most = max((*ks, cycle or 1))
        one, two = (
            self._side((id(rows), cosine), partial(NeighborSide, rows, most, cosine)) for rows in (x, y)
        )
        scores = NeighborScores(one, two, ks, cycle)
        whole, without = scores.whole(), scores.without(self.blocks)
        rows = thin(self.n, PAIRWISE_ROWS)
        plan = self.plan(len(rows))
        pairings = None if plan is None else scores.null(plan, rows)
        names = [f"mutual k-NN@{k}" if cosine else f"NO@{k}" for k in ks]
        names += [] if cycle is None else [f"cycle k-NN@{cycle}"]
        comparisons = {}
        for place, name in enumerate(names):
            columns = [] if pairings is None else [pairings[:, place]]
            null, true = _larger_p(plan, columns, True)
            if null is not None and plan is not None and plan.steps is None and place < len(ks):
                exact = ks[place] / (self.n - 1)  # a wrong neighbor is any other row
                null, true = dataclasses.replace(null, mean=exact), float(whole[place])
            one = self.comparison(
                name, float(whole[place]), without[:, place], null, true, len(rows) < self.n
            )
            comparisons[name] = one
        if not cosine:
            comparisons |= {f"NOS@{k}": _disagreement(comparisons[f"NO@{k}"], f"NOS@{k}") for k in ks}
        return comparisons

    def of_map(
        self, moves: tuple[np.ndarray, ...], fit: np.ndarray, score: np.ndarray, penalty: float
    ) -> dict[str, ScoreComparison]:
        """MSE and R2 of a map on the scored rows; chance by maps fitted anew, if the map was fitted here."""
        x, y, _, predicted = moves
        scores = MapScores(predicted[score], y[score])
        whole, without = scores.whole(), scores.without(self.blocks)
        nulls: list[np.ndarray] = []
        parts = [len(part) for part in (fit, score) if len(part)]
        plan = self.plan(min(parts), min(parts) * x.shape[1] * y.shape[1])
        if plan is not None and len(fit):
            plans = _plans(plan, len(fit), len(score))
            for one, two in ((x, y), (tame(x), tame(y))):
                sides = one[fit], one[score], two[fit], two[score]
                nulls.append(FittedScores(*sides, penalty).null(plans))
            plan = plans[1]
        elif plan is not None:
            nulls.append(scores.null(plan))
        comparisons = {}
        for place, name in enumerate(("MSE", "R2")):
            null, true = _larger_p(plan, [drawn[:, place] for drawn in nulls], name == "R2")
            comparisons[name] = self.comparison(name, float(whole[place]), without[:, place], null, true)
        return comparisons

    def _side(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What several scores need of one embedding, made once; the caller holds the rows."""
        if key not in self.sides:
            self.sides[key] = make()
        return self.sides[key]

    def _try(self, scores: dict[str, Any], name: str, score: Callable[[], Any]) -> None:
        try:
            scores[name] = score()
        except ValueError as error:
            if self.strict:
                raise
            self.left_out[name] = str(error)


def _states(
    first: Any, second: Any, ids: Any, confidence: float, draws: int, seed: int, drop_constant: bool
) -> tuple[np.ndarray, np.ndarray, str, RowDependence]:
    """Rows of both sides, one for each state, a note, and how states depend on each other."""
    check_number("confidence", confidence, "lie between 0 and 1", lambda v: 0 < v < 1)
    check_count("draws", draws, MIN_DRAWS)
    x, y, note = read_sides(first, second, least=8, drop_constant=drop_constant)
    labels = None if ids is None else state_ids("ids", ids)
    if labels is not None and len(labels) != len(x):
        raise ValueError(f"ids must be as many as rows, {len(x)}, got {len(labels)}")
    dependence = RowDependence.of(x, y, labels, seed)
    if dependence.states < len(x):
        note = "; ".join(
            filter(None, (note, f"{dependence.states} states of {len(x)} rows: means of each are scored"))
        )
        x, y = state_means(x, dependence.state), state_means(y, dependence.state)
        if len(x) < 8:
            raise ValueError(f"at least 8 states are needed, got {len(x)}: bring more states")
    return x, y, note, dependence


def _split(n: int, memory: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States to fit on and to score on: random halves, or halves of the time with a gap between."""
    if memory == 1:
        split = split_states(n, seed=seed)
        return split.fit, split.score
    gap = min(2 * memory, n // _GAP)
    return np.arange(n // 2 - gap), np.arange(n // 2, n)


def _plans(plan: PairingPlan, fitted: int, scored: int) -> tuple[PairingPlan, PairingPlan]:
    """Pairings of both parts: random within each, or shifted by the same steps."""
    if plan.steps is None:
        return (
            PairingPlan.permutations(fitted, plan.draws, plan.seed),
            PairingPlan.permutations(scored, plan.draws, plan.seed + 1),
        )
    reach = int(np.abs(plan.steps).max())
    one, two = (PairingPlan(np.arange(reach, n - reach), plan.steps, plan.draws) for n in (fitted, scored))
    return one, two


def _larger_p(plan: PairingPlan | None, drawn: list[np.ndarray], higher: bool) -> tuple[Null | None, float]:
    """The null of the first scores (1 + draws,), p the largest of all; and their true score."""
    if plan is None or not all(np.isfinite(scores).all() for scores in drawn[:1]):
        return None, math.nan
    nulls = [plan.null(scores, higher) for scores in drawn if np.isfinite(scores).all()]
    return dataclasses.replace(nulls[0], p=max(null.p for null in nulls)), float(drawn[0][0])


def _disagreement(overlap: ScoreComparison, name: str) -> ScoreComparison:
    """NOS@k = 1 - NO@k."""
    interval = overlap.interval
    return dataclasses.replace(
        overlap,
        name=name,
        value=1 - overlap.value,
        interval=Interval(1 - overlap.value, 1 - interval.high, 1 - interval.low),
        chance=None if overlap.chance is None else 1 - overlap.chance,
        best=0.0,
        higher_is_better=False,
    )


def _standardized(x: np.ndarray, y: np.ndarray, map: FittedMap) -> tuple[np.ndarray, ...]:
    """First, second, second in the coordinates of the first, and first in those of the second.

    Scaled by statistics of the map if it has them.
    """
    back = np.asarray(map.inverse_transform(y), dtype=np.float64)
    there = np.asarray(map.transform(x), dtype=np.float64)
    if isinstance(map, AlignmentMap):
        mean_in, scale_in, mean_out, scale_out = map.mean_in_, map.scale_in_, map.mean_out_, map.scale_out_
    else:
        mean_in, scale_in, mean_out, scale_out = x.mean(0), x.std(0), y.mean(0), y.std(0)
    one, two = (x - mean_in) / scale_in, (y - mean_out) / scale_out
    return one, two, (back - mean_in) / scale_in, (there - mean_out) / scale_out


def _cells(comparison: ScoreComparison) -> tuple[str, ...]:
    low, high = comparison.interval.low, comparison.interval.high
    cells = [f"{comparison.value:.4g}", f"[{low:.4g}, {high:.4g}]" if math.isfinite(low) else ""]
    for number, form in ((comparison.chance, ".4g"), (comparison.p, ".2g"), (comparison.calibrated, ".3f")):
        cells.append("" if number is None else format(number, form))
    return tuple(cells)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
