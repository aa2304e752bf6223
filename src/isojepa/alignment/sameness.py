r"""Agreement of two encoders, from paired rows and without labels.

    rotation    a rotation with one scale explains what a linear map explains
    linear      an invertible linear map explains each by the other, in every direction that carries variance
    partly      related, but one has what no linear map reads off the other
    unrelated   nothing is shared beyond wrong pairings
    too-few     the rows cannot tell

All scores are held out. The rules, in this order:

 1. Rows of one state (`ids`, or rows that repeat, `statistics.dependence`) count as one, their mean. Fewer
    states than 4 for each dimension and 60: too-few. Dimensions are those of the wider side with more than
    1e-8 of its largest variance; where they are too many, the first ones for which there are states, if these
    carry 99 % of the variance.
 2. `statistics.nulls.relation_test` asks whether the true pairing beats wrong ones, linearly or not: random
    pairings where one side is exchangeable, else shifts in time. p above the level: unrelated, or too-few
    where effective rows are too few for the width. Where rows are shifted their steps must be related too:
    a trend or a season in both is no relation.
 3. R^2 of at least 0.9 both ways, and at most a tenth of either side unshared, by variance and by number of
    directions: rotation or linear, unless the worst direction is warped: R^2 below 0.75 there, of which
    nonlinear regression gains 0.1. A rotation may lose 0.01 and a tenth of what the linear map leaves. (Of
    evenly spread singular values that allows kappa up to about 1.4.)
 4. Else partly, if the relation reaches regions that the fit has not seen, in at least 20 effective rows;
    where near rows agree and distant ones do not, as of few states seen often, too-few.

R^2 is of centered rows as they are: to scale the columns of one side is a linear map, not a rotation.
Dependent rows are scored by blocks of time with a gap around each; intervals leave out one of 5 to 20 blocks
in turn. A fit on m rows in p dimensions leaves about 1 + p / (m - p - 1) times what the best linear map
leaves, and 1 + p / 2m times for a rotation; `asymptotic` divides by that, to compare maps rather than sample
sizes.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.closed_forms import (
    GramSpectrum,
    PairMoments,
    best_penalty,
    canonical_variates,
    generalized_cross_validation,
    procrustes_matrix,
    ridge_matrix,
    split_moments,
    swapped,
    variates_of,
)
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import as_rows, check_pairs, constant
from isojepa.seeds import generator, numpy_generator
from isojepa.statistics.dependence import MIN_EFFECTIVE, RowDependence, state_means
from isojepa.statistics.intervals import Interval, from_blocks, r2_interval
from isojepa.statistics.nulls import relation_test, shrink_far
from isojepa.statistics.regression import NonlinearRegression
from isojepa.statistics.splits import Split, block_splits, random_folds
from isojepa.validation import check_number, validate_types

VERDICTS = {
    "rotation": "the same up to a rotation",
    "linear": "the same up to an invertible linear map",
    "partly": "partly the same",
    "unrelated": "unrelated",
    "too-few": "too few pairs to tell",
}
MAX_ROWS = 20_000  # evenly spaced rows that are compared

# Rules of the verdict.
MIN_R2 = 0.9  # both ways: below, a tenth of the variance is lost
MIN_WORST = 0.75  # R^2 of a direction that need not be looked at: two swirled ones of eight leave 0.9
MAX_UNSHARED = 0.1  # share of the variance and of the directions that one side may have for itself
MIN_WARP = 0.1  # R^2 that nonlinear regression gains in a direction that is warped, not noise
ROTATION_LOSS, ROTATION_SHARE = 0.01, 0.1  # R^2 that a rotation may lose, and share of the linear map's rest
LEVEL_PAIRINGS, LEVEL_SHIFTS = (
    0.02,
    0.04,
)  # of the relation test: false alarms within 5 % were measured with both
STEPS_LEVEL = 0.04  # of the relation of steps
SHARED, RELATED = 0.05, 0.15  # held-out correlation of a shared direction, and of one that shows a relation
STANDARD_ERRORS = 3.0  # that both exceed at least

_PER_DIMENSION, _EXTRA_STATES = 4, 60  # states that are required
_MIN_VARIANCE, _CARRIED = (
    1e-8,
    0.99,
)  # share of the largest variance that counts; share that few directions carry
_WORST_VARIANCE = 0.01  # share of the mean variance from which a direction can be the worst
_FOLDS, _MAX_BLOCKS = 5, 20  # random folds; blocks of intervals
_NULL_ROWS, _NULL_DRAWS = 2000, 99  # of R^2 by random pairings
_NONLINEAR_ROWS = 4000  # that the nonlinear map is fitted to and scored on
_HALVINGS, _REGION_ROWS, _BUFFER = (
    3,
    3000,
    8,
)  # 2^3 regions of so many rows; 1/8 of the rows around is left out
_BUDGETS, _ENOUGH_LOSS = 8, 0.01  # numbers of pairs; R^2 below the last at which pairs are enough
_REPORTED_CHANGE = 0.05  # of R^2 without one block, from which it is reported


def pairs_required(width: int) -> int:
    """States that a verdict about so many dimensions needs."""
    return _PER_DIMENSION * width + _EXTRA_STATES


def thresholds(states: int) -> tuple[float, float]:
    """Held-out correlations above which a direction is shared, and above which one shows a relation."""
    error = STANDARD_ERRORS / math.sqrt(states)
    return max(SHARED, error), max(RELATED, error)


@dataclass(frozen=True)
class HeldOutR2:
    """R^2 on states that were left out of the fit.

    Attributes:
        r2: with its interval; NaN ends below 20 effective rows.
        asymptotic: estimate for the best map of this kind, fitted on infinitely many rows.
    """

    r2: Interval
    asymptotic: float


@dataclass(frozen=True)
class PairingNull:
    """Held-out R^2 of true pairs beside that of random pairings.

    Attributes:
        r2: of the true pairs, fitted on one half and scored on the other.
        mean, largest: of the random pairings.
        p: share of all pairings that do as well as the true one.
        rows, draws: how many.
    """

    r2: float
    mean: float
    largest: float
    p: float
    rows: int
    draws: int


@dataclass(frozen=True)
class EncoderSide:
    """One of the two embeddings.

    Attributes:
        width: columns.
        dimensions: directions that were compared.
        constant: columns without spread, left out.
        unshared_variance: share of its variance in directions that the other does not have.
        unshared_directions: share of the directions that carry variance.
    """

    width: int
    dimensions: int
    constant: list[int]
    unshared_variance: float = 1.0
    unshared_directions: float = 1.0


@dataclass(frozen=True)
class EncoderComparison:
    """The verdict of `same`, and the numbers behind it.

    Attributes:
        verdict: "rotation", "linear", "partly", "unrelated" or "too-few".
        pairs, states: rows and states that were compared.
        required: states that a verdict needs at these widths.
        first, second: the two sides.
        effective: states that are nearly independent.
        linear, back, rotation: held-out R^2 of the second by a linear map, of the first by one back, of the
            second by a rotation; None where there are too few pairs.
        nonlinear: held-out R^2 of the second by nonlinear regression on the first (hinges, random cosines).
        worst: least held-out R^2 of any direction that carries variance, both ways.
        linear_chance: R^2 beside random pairings; None where successive states depend on each other.
        correlations: held-out canonical correlations, in the order of the fits.
        shared: number of shared directions.
        p: of the relation test.
        spectrum: singular values of the linear map, largest first, between the directions that were compared.
        condition: the largest of them over the smallest.
        budget: (pairs, R^2 by a linear map, by a rotation) after more and more pairs.
        pairs_needed: pairs after which R^2 of the verdict's map was within 0.01 of the last.
        influential: first and last state of the block that moves linear R^2 most, and R^2 without it.
        map: of the verdict's kind, fitted on all pairs; None if unrelated or too few.
        notes: what was left out, and why a verdict could not be reached.
    """

    verdict: str
    pairs: int
    states: int
    required: int
    first: EncoderSide
    second: EncoderSide
    effective: int
    linear: HeldOutR2 | None = None
    back: HeldOutR2 | None = None
    rotation: HeldOutR2 | None = None
    nonlinear: Interval | None = None
    worst: float | None = None
    linear_chance: PairingNull | None = None
    correlations: list[float] = field(default_factory=list, repr=False)
    shared: int = 0
    p: float = 1.0
    spectrum: list[float] = field(default_factory=list, repr=False)
    condition: float | None = None
    budget: list[tuple[int, float, float]] = field(default_factory=list, repr=False)
    pairs_needed: int | None = None
    influential: tuple[int, int, float] | None = None
    map: AlignmentMap | None = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        verdict = VERDICTS[self.verdict]
        if self.verdict == "too-few" or self.linear is None or self.back is None or self.rotation is None:
            if self.states < self.required:
                return f"{verdict}: {self.states} states, {self.required} are needed at this width"
            count = f"{self.effective} effective rows of {self.pairs}; " * (self.effective < self.pairs)
            return f"{verdict}: {count}{self.notes[-1]}"
        linear, back, rotation = (part.r2 for part in (self.linear, self.back, self.rotation))
        numbers = f"held-out R^2 {linear.estimate:.3f} by a linear map, {back.estimate:.3f} back"
        if self.verdict == "rotation":
            return (
                f"{verdict}: held-out R^2 {rotation.estimate:.3f} by a rotation, "
                f"{linear.estimate:.3f} by any linear map"
            )
        if self.verdict == "linear":
            return f"{verdict}: {numbers}, {rotation.estimate:.3f} by a rotation"
        if self.verdict == "partly":
            width = min(self.first.dimensions, self.second.dimensions)
            return f"{verdict}: {self.shared} of {width} directions are shared; {numbers}{self._nonlinear}"
        return f"{verdict}: {numbers}; p = {self.p:.2g} of any relation"

    @property
    def _nonlinear(self) -> str:
        if self.nonlinear is None or self.linear is None:
            return ""
        gain = self.nonlinear.estimate - self.linear.r2.estimate
        return f", {self.nonlinear.estimate:.3f} by a nonlinear map" * (gain > ROTATION_LOSS)

    def to_dict(self) -> dict[str, Any]:
        """Every number, for JSON; the map by its conditioning and spectrum."""
        numbers = asdict(
            self, dict_factory=lambda pairs: {name: value for name, value in pairs if name != "map"}
        )
        if self.map is not None:
            numbers["map"] = {
                "kind": self.map.kind,
                "condition": self.map.condition_,
                "orthogonality": self.map.orthogonality_,
                "singular_values": self.map.singular_values_.tolist(),
            }
        return {"sentence": self.sentence, **_without_nan(numbers)}


@validate_types
def same(
    first: Any, second: Any, *, ids: Any = None, confidence: float = 0.95, seed: int = 0
) -> EncoderComparison:
    """Test whether two embeddings of the same states agree, and up to which map.

    Rows are in the order of time, where there is one: dependence is measured in that order.

    Args:
        first, second: rows (n, p), (n, q), in one order.
        ids: (n,) state of each row; by default repeated rows are searched for.
        confidence: of the intervals.
        seed: draws folds and random pairings.

    Raises:
        ValueError: rows do not match, are not finite, or do not vary.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, turn = rng.normal(size=(300, 8)), np.linalg.qr(rng.normal(size=(8, 8)))[0]
        >>> same(z, 3 * z @ turn + 1).verdict, same(z, z @ rng.normal(size=(8, 8))).verdict
        ('rotation', 'linear')
        >>> same(z, rng.normal(size=(300, 8)), seed=1).verdict, same(z[:50], z[:50]).verdict
        ('unrelated', 'too-few')
    """
    check_number("confidence", confidence, "lie between 0 and 1", lambda value: 0 < value < 1)
    sides = check_pairs(first, second)
    labels = None if ids is None else _labels(ids, len(sides[0]))
    notes: list[str] = []
    if len(sides[0]) > MAX_ROWS:
        rows = np.linspace(0, len(sides[0]) - 1, MAX_ROWS).round().astype(int)
        notes.append(f"{MAX_ROWS} of {len(sides[0])} pairs, evenly spaced, were compared")
        sides = sides[0][rows], sides[1][rows]
        labels = None if labels is None else labels[rows]
    x, flat_x = _varied("first", sides[0], notes)
    y, flat_y = _varied("second", sides[1], notes)
    pairs, dependence = len(x), RowDependence.of(x, y, labels, seed)
    n, memory, effective = dependence.states, dependence.memory, dependence.effective
    if labels is None and n < pairs:
        notes.append(f"rows repeat: {n} states, each counts once")
    x, y = state_means(x, dependence.state), state_means(y, dependence.state)
    x, y, required = _reduced(x, y, notes)
    one = EncoderSide(sides[0].shape[1], x.shape[1], flat_x)
    two = EncoderSide(sides[1].shape[1], y.shape[1], flat_y)

    def too_few(*reasons: str) -> EncoderComparison:
        return EncoderComparison("too-few", pairs, n, required, one, two, effective, notes=[*notes, *reasons])

    if n < required:
        return too_few()
    p = relation_test(x, y, memory, seed)
    related = p <= (LEVEL_PAIRINGS if memory == 1 else LEVEL_SHIFTS)
    dependent = "successive rows depend on each other"
    if not related:
        enough = MIN_EFFECTIVE + 2 * min(max(x.shape[1], y.shape[1]), n // 10, 64) if memory > 1 else 0
        if effective < enough:
            return too_few(f"{dependent}: {_rows_advice(pairs, effective, enough)}")
    elif memory > 1:
        steps = relation_test(np.diff(x, axis=0), np.diff(y, axis=0), memory, seed)
        if steps > STEPS_LEVEL:
            return too_few("only slow movement is shared, such as a trend or a season, and no steps")
    if memory > 1:
        notes.append(f"{dependent}: {effective} of {pairs} count as independent")
    block = dependence.blocks
    splits = (
        random_folds(np.arange(n), _FOLDS, seed)
        if memory == 1
        else block_splits(n, int(block[-1]) + 1, min(2 * memory, n // 20))
    )
    scores = _Scores.of(x, y, splits, block, confidence, effective >= MIN_EFFECTIVE)
    correlations = canonical_variates(x, y, splits).correlations
    least, strong = thresholds(max(effective, 1))
    shared = correlations > least
    one, two = _unshared(x, y, shared, (one, two))
    nonlinear = _nonlinear_r2(x, y, memory, confidence, seed)
    verdict = "unrelated"
    if related:
        whole = (
            max(max(side.unshared_variance, side.unshared_directions) for side in (one, two)) <= MAX_UNSHARED
        )
        verdict = _verdict(scores, x, y, splits, seed) if whole else "partly"
    if verdict == "partly":
        strengths, tamed = correlations[: max(1, int(shared.sum()))], (shrink_far(x), shrink_far(y))
        linear_part = bool((correlations > strong).any())
        far = labels is not None or (
            min(_distant_gain(*both, strengths).low for both in (tamed, tamed[::-1])) > 0
            if linear_part
            else nonlinear.low > 0 and _distant_nonlinear(*tamed, seed).low > 0
        )
        if not far:
            verdict = "too-few"
            notes.append("near rows agree and distant ones do not, as of few states seen often: give ids")
        elif effective < MIN_EFFECTIVE:
            verdict = "too-few"
            notes.append(f"{dependent}: {_rows_advice(pairs, effective, MIN_EFFECTIVE)}")
    curve = _budget(x, y, splits[0], seed)
    spectrum = np.linalg.svd(ridge_matrix(PairMoments.of(x, y)), compute_uv=False)
    start, end, without = scores.influential
    if related and abs(without - scores.linear.r2.estimate) > _REPORTED_CHANGE:
        notes.append(f"without states {start} to {end} R^2 by a linear map is {without:.3f}")
    return EncoderComparison(
        verdict,
        pairs,
        n,
        required,
        one,
        two,
        effective,
        linear=scores.linear,
        back=scores.back,
        rotation=scores.rotation,
        nonlinear=nonlinear,
        worst=scores.worst,
        linear_chance=_random_pairings(x, y, seed) if memory == 1 else None,
        correlations=correlations.tolist(),
        shared=int(shared.sum()),
        p=p,
        spectrum=spectrum.tolist(),
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0 else None,
        budget=curve,
        pairs_needed=_pairs_needed(curve, verdict),
        influential=scores.influential,
        map=_fitted_map(verdict, *sides, max(1, int(shared.sum()))),
        notes=notes,
    )


@validate_types
def align(
    first: Any, second: Any, *, kind: str | None = None, ids: Any = None, seed: int = 0
) -> AlignmentMap:
    """Fit the map from one embedding to another, of the kind that `same` finds.

    Args:
        first, second: rows (n, p), (n, q), of the same states in one order.
        kind: of `AlignmentMap`; by default "scaled_procrustes" where `same` finds a rotation, else "ridge".
        ids: (n,) state of each row.
        seed: of the comparison.

    Returns:
        The map, fitted on all rows as they are, with `transform` and `inverse_transform`.

    Raises:
        ValueError: rows do not match, are not finite, or do not vary.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, turn = rng.normal(size=(300, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
        >>> fitted = align(z, 2 * z @ turn)
        >>> fitted.kind, bool(np.allclose(fitted.inverse_transform(2 * z @ turn), z))
        ('scaled_procrustes', True)
    """
    if kind is None:
        rotated = same(first, second, ids=ids, seed=seed).verdict == "rotation"
        kind = "scaled_procrustes" if rotated else "ridge"
    return AlignmentMap(kind, standardize=False, constant="ignore").fit(first, second)


@dataclass(frozen=True)
class _Scores:
    """Held-out R^2 by each kind of map, in the worst direction, and without the most influential block."""

    linear: HeldOutR2
    back: HeldOutR2
    rotation: HeldOutR2
    weakest: tuple["_WeakestDirection", "_WeakestDirection"]
    influential: tuple[int, int, float]

    @property
    def worst(self) -> float:
        """Least R^2 of any direction, both ways."""
        return min(side.worst for side in self.weakest)

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        splits: list[Split],
        block: np.ndarray,
        confidence: float,
        intervals: bool,
    ) -> "_Scores":
        n, p, q = len(x), x.shape[1], y.shape[1]
        forward, backward, rotated = np.empty((n, q)), np.empty((n, p)), np.empty((n, q))
        away_x, away_y, fitted = np.empty((n, p)), np.empty((n, q)), n
        for split, moments in split_moments(x, y, splits):
            rows, fitted = split.score, min(fitted, moments.rows)
            a, b = x[rows] - moments.mean[:p], y[rows] - moments.mean[p:]
            away_x[rows], away_y[rows] = a, b
            forward[rows] = b - a @ ridge_matrix(moments).T
            backward[rows] = a - b @ ridge_matrix(swapped(moments)).T
            rotated[rows] = b - a @ procrustes_matrix(moments, scaled=True).T
        growth = [1 + width / max(fitted - width - 1, 1) for width in (p, q)] + [1 + max(p, q) / (2 * fitted)]
        scores, spread = [], [(away**2).sum(1) for away in (away_y, away_x, away_y)]
        for residual, squares, factor in zip((forward, backward, rotated), spread, growth, strict=True):
            r2, left_out = r2_interval((residual**2).sum(1), squares, block, confidence)
            r2 = r2 if intervals else Interval(r2.estimate, math.nan, math.nan)
            scores.append((HeldOutR2(r2, 1 - (1 - r2.estimate) / factor), left_out))
        linear, left_out = scores[0]
        number = int(np.abs(left_out - linear.r2.estimate).argmax())
        rows = np.flatnonzero(block == number)
        weakest = _WeakestDirection.of(forward, away_y), _WeakestDirection.of(backward, away_x)
        moved = int(rows[0]), int(rows[-1]), float(left_out[number])
        return cls(linear, scores[1][0], scores[2][0], weakest, moved)


@dataclass(frozen=True)
class _WeakestDirection:
    """The direction that a linear map predicts worst, of those that carry a hundredth of the mean variance.

    Attributes:
        worst: least held-out R^2 of any direction.
        weights: (q,) of the worst one.
    """

    worst: float
    weights: np.ndarray

    @classmethod
    def of(cls, residual: np.ndarray, away: np.ndarray) -> "_WeakestDirection":
        values, vectors = scipy.linalg.eigh(away.T @ away)
        carries = values > _WORST_VARIANCE * values.mean()
        white = vectors[:, carries] / np.sqrt(values[carries])
        left, turned = scipy.linalg.eigh(white.T @ (residual.T @ residual) @ white)
        return cls(1 - float(left[-1]), white @ turned[:, -1])


def _verdict(scores: _Scores, x: np.ndarray, y: np.ndarray, splits: list[Split], seed: int) -> str:
    """The verdict on related rows."""
    linear, back, rotation = scores.linear, scores.back, scores.rotation
    if min(linear.r2.estimate, back.r2.estimate) < MIN_R2:
        return "partly"
    for side, source, target in zip(scores.weakest, (x, y), (y, x), strict=True):
        if side.worst < MIN_WORST:
            nonlinear = _nonlinear_share(source, target @ side.weights[:, None], splits, seed)
            if nonlinear > max(side.worst, 0.0) + MIN_WARP:
                return "partly"
    loss = ROTATION_LOSS + ROTATION_SHARE * (1 - linear.asymptotic)
    rotated = rotation.asymptotic >= linear.asymptotic - loss and rotation.r2.estimate >= MIN_R2
    return "rotation" if rotated else "linear"


def _nonlinear_share(x: np.ndarray, y: np.ndarray, splits: list[Split], seed: int) -> float:
    """Held-out R^2 of one direction (n, 1) by nonlinear regression."""
    residual, spread = _nonlinear_residuals(x, y, splits, seed)
    return 1 - float(residual.sum() / spread.sum())


def _nonlinear_residuals(
    x: np.ndarray, y: np.ndarray, splits: list[Split], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Squared residuals and squared deviations (n,) of held-out rows by nonlinear regression."""
    residual, spread = np.empty(len(y)), np.empty(len(y))
    for split in splits:
        regression = NonlinearRegression(x[split.fit], y[split.fit], generator(seed, "nonlinear"))
        target = y[split.score]
        residual[split.score] = ((target - regression(x[split.score])) ** 2).sum(1)
        spread[split.score] = ((target - y[split.fit].mean(0)) ** 2).sum(1)
    return residual, spread


def _nonlinear_r2(x: np.ndarray, y: np.ndarray, memory: int, confidence: float, seed: int) -> Interval:
    """Held-out R^2 of the second by nonlinear regression on the first."""
    thin = -(-len(x) // _NONLINEAR_ROWS)
    x, y = x[::thin], y[::thin]
    n = len(y)
    splits = (
        random_folds(np.arange(n), _FOLDS, seed)
        if memory == 1
        else block_splits(n, _FOLDS, min(2 * memory, n // 20))
    )
    residual, spread = _nonlinear_residuals(x, y, splits, seed)
    return r2_interval(residual, spread, np.arange(n) * _MAX_BLOCKS // n, confidence)[0]


def _regions(x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of 8 regions, halved along their widest directions, and rows to fit on that are far from each."""
    parts = [np.arange(len(x))]
    for _ in range(_HALVINGS):
        halves = []
        for part in parts:
            centered = x[part] - x[part].mean(0)
            order = part[np.argsort(centered @ scipy.linalg.eigh(centered.T @ centered)[1][:, -1])]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        parts = halves
    regions = []
    for part in parts:
        rest = np.setdiff1d(np.arange(len(x)), part)
        distance = scipy.spatial.cKDTree(x[part]).query(x[rest])[0]
        regions.append((part, rest[np.argsort(distance)[len(x) // _BUFFER :]]))
    return regions


def _distant_gain(
    x: np.ndarray, y: np.ndarray, correlations: np.ndarray, confidence: float = 0.95
) -> Interval:
    """Gain of canonical variates v of y from u of x in regions of x far from the rows of the fit.

    The gain is the mean of v^2 - (v - r u)^2 in 8 regions, with r held out on rows of all regions: about r^2
    where the relation is the same everywhere. Repeats of a state lie in one region, or among the rows around.

    Args:
        x, y: (n, p), (n, q).
        correlations: (k,) r of the largest canonical pairs.
        confidence: of the interval.
    """
    thin = max(1, len(x) // max(_REGION_ROWS, 4 * max(x.shape[1], y.shape[1])))
    x, y, gains = x[::thin], y[::thin], []
    for part, fit in _regions(x):
        u, v = variates_of(PairMoments.of(x[fit], y[fit]), x[part], y[part])
        guess, truth = u[:, : len(correlations)] * correlations, v[:, : len(correlations)]
        gains.append(float((truth**2 - (truth - guess) ** 2).mean()))
    return _mean_interval(np.array(gains), confidence)


def _distant_nonlinear(x: np.ndarray, y: np.ndarray, seed: int, confidence: float = 0.95) -> Interval:
    """R^2 of the second by nonlinear regression in regions of the first far from the rows of the fit."""
    thin = max(1, len(x) // _REGION_ROWS)
    x, y = x[::thin], y[::thin]
    total, gains = float(y.var(0).sum()), []
    for part, fit in _regions(x):
        regression = NonlinearRegression(x[fit], y[fit], generator(seed, "nonlinear"))
        away = y[part] - y[fit].mean(0)
        gains.append(float((away**2 - (y[part] - regression(x[part])) ** 2).sum(1).mean()) / total)
    return _mean_interval(np.array(gains), confidence)


def _mean_interval(values: np.ndarray, confidence: float) -> Interval:
    return from_blocks(float(values.mean()), (values.sum() - values) / (len(values) - 1), confidence)


def _random_pairings(x: np.ndarray, y: np.ndarray, seed: int) -> PairingNull:
    """R^2 of true pairs beside that of random ones; rows of one half are paired within it."""
    rng = numpy_generator(seed, "chance")
    rows = rng.permutation(len(x))[:_NULL_ROWS]
    half = len(rows) // 2
    fit, score = rows[:half], rows[half:]
    moments = PairMoments.of(x[fit], y[fit])
    p, spectrum = moments.first, GramSpectrum.of(moments.xx)
    size = float(np.trace(moments.xx)) / p
    a, b = x[score] - moments.mean[:p], y[score] - moments.mean[p:]
    centered, total = x[fit] - moments.mean[:p], float((b**2).sum())

    def r2(fitted: np.ndarray, scored: np.ndarray) -> float:
        moments.products[:p, p:] = centered.T @ y[fit[fitted]]
        penalty = best_penalty(generalized_cross_validation(moments, spectrum), size)
        return 1 - float(((b[scored] - a @ spectrum.solve(moments.xy, penalty)) ** 2).sum()) / total

    true = r2(np.arange(half), np.arange(len(score)))
    random = np.array([r2(rng.permutation(half), rng.permutation(len(score))) for _ in range(_NULL_DRAWS)])
    p_value = (1 + float((random >= true).sum())) / (1 + _NULL_DRAWS)
    return PairingNull(true, float(random.mean()), float(random.max()), p_value, len(rows), _NULL_DRAWS)


def _budget(x: np.ndarray, y: np.ndarray, split: Split, seed: int) -> list[tuple[int, float, float]]:
    """R^2 by a linear map and by a rotation after more and more pairs, on one held-out part."""
    order = numpy_generator(seed, "budget").permutation(split.fit)
    least = min(max(20, min(x.shape[1], y.shape[1]) // 2), len(order))
    curve = []
    for size in sorted({round(float(size)) for size in np.geomspace(least, len(order), _BUDGETS)}):
        moments = PairMoments.of(x[order[:size]], y[order[:size]])
        a, b = x[split.score] - moments.mean[: moments.first], y[split.score] - moments.mean[moments.first :]
        total = float((b**2).sum())
        linear, rotation = (
            1 - float(((b - a @ matrix.T) ** 2).sum()) / total
            for matrix in (ridge_matrix(moments), procrustes_matrix(moments, scaled=True))
        )
        curve.append((size, linear, rotation))
    return curve


def _pairs_needed(curve: list[tuple[int, float, float]], verdict: str) -> int | None:
    if verdict in ("unrelated", "too-few"):
        return None
    column = 2 if verdict == "rotation" else 1
    return next(row[0] for row in curve if row[column] >= curve[-1][column] - _ENOUGH_LOSS)


def _fitted_map(verdict: str, first: np.ndarray, second: np.ndarray, shared: int) -> AlignmentMap | None:
    """The map of a verdict, of rows with all their columns."""
    kind = {"rotation": "scaled_procrustes", "linear": "ridge", "partly": "low_rank"}.get(verdict)
    if kind is None:
        return None
    rank, penalty = (shared, 1e-6 * len(first)) if kind == "low_rank" else (None, None)
    return AlignmentMap(kind, standardize=False, rank=rank, ridge=penalty).fit(first, second)


def _rows_advice(rows: int, effective: int, enough: int) -> str:
    """Rows of the same kind that are needed at least, to one digit; for random walks no number is enough."""
    needed = rows * enough / max(effective, 1)
    digit = 10 ** math.floor(math.log10(needed))
    return f"about {math.ceil(needed / digit) * digit:,} rows are needed at least"


def _labels(ids: Any, rows: int) -> np.ndarray:
    labels = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    if labels.shape != (rows,):
        raise ValueError(f"ids must be as many as rows, {rows}, got shape {labels.shape}")
    return labels


def _varied(name: str, array: np.ndarray, notes: list[str]) -> tuple[np.ndarray, list[int]]:
    """Centered rows of the columns that vary, and the numbers of the others."""
    rows = as_rows(name, array)
    flat = constant(rows.std(0), rows.mean(0))
    if flat.all():
        raise ValueError(f"{name} must vary, got equal rows: the encoder has collapsed")
    if flat.any():
        notes.append(f"{int(flat.sum())} constant columns of {name} were left out")
    rows = rows[:, ~flat]
    return rows - rows.mean(0), np.flatnonzero(flat).tolist()


def _reduced(x: np.ndarray, y: np.ndarray, notes: list[str]) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows in directions that carry variance, and the states that so many need."""
    x, y = x - x.mean(0), y - y.mean(0)
    spectra = [GramSpectrum.of(rows.T @ rows) for rows in (x, y)]
    counts = [int((one.values > _MIN_VARIANCE * one.values[0]).sum()) for one in spectra]
    if len(x) < pairs_required(max(counts)):
        most = max((len(x) - _EXTRA_STATES) // _PER_DIMENSION, 1)
        if min(one.values[:most].sum() / one.values.sum() for one in spectra) >= _CARRIED:
            notes.append(
                f"{len(x)} states are too few for {max(counts)} dimensions: the first {most} principal "
                f"directions, which carry {_CARRIED:.0%} of the variance, were compared"
            )
            counts = [min(count, most) for count in counts]
    sides = [side @ one.vectors[:, :count] for side, one, count in zip((x, y), spectra, counts, strict=True)]
    return sides[0], sides[1], pairs_required(max(counts))


def _unshared(
    x: np.ndarray, y: np.ndarray, shared: np.ndarray, sides: tuple[EncoderSide, EncoderSide]
) -> tuple[EncoderSide, EncoderSide]:
    """Both sides with the shares of variance and of directions that are not shared."""
    moments = PairMoments.of(x, y)
    spectra = [GramSpectrum.of(products) for products in (moments.xx, moments.yy)]
    u, _, vt = np.linalg.svd(spectra[0].power(-0.5) @ moments.xy @ spectra[1].power(-0.5))
    completed = []
    for side, spectrum, directions in zip(sides, spectra, (u, vt.T), strict=True):
        carried = ((spectrum.power(0.5) @ directions) ** 2).sum(0)
        both = np.zeros(len(carried), bool)
        both[: len(shared)] = shared[: len(carried)]
        counted = carried > _WORST_VARIANCE * carried.mean()
        variance = float(carried[~both].sum() / carried.sum())
        directions_share = float((~both & counted).sum() / counted.sum())
        completed.append(EncoderSide(side.width, side.dimensions, side.constant, variance, directions_share))
    return completed[0], completed[1]


def _without_nan(value: Any) -> Any:
    """The same nested values with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
