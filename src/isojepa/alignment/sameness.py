r"""Are two encoders the same? A straight answer from paired rows, without labels.

    rotation    a rotation and one scale explain what a linear map explains
    linear      an invertible linear map explains each by the other, in all directions that carry variance
    partly      some directions are shared, others are not
    unrelated   nothing is shared that chance would not give
    too-few     there are not enough pairs for the width to tell

All numbers are of states that were left out (`explained`, `canonical`). The rules, in this order:

 1. Fewer states than 4 for each dimension and 60 more: too-few. Dimensions are those of the wider side with
    more than 1e-8 of its largest variance; where they are too many, the first for which there are states
    enough, if these carry 99 % of the variance.
 2. Rows of one state (`ids`, or rows that repeat, `dependent_rows`) count as one. Where successive states
    depend on each other in both, the shift test replaces random pairings, folds are blocks of successive
    states, and fewer than 20 effective rows are too few, as are rows of which only the levels go together
    and not the steps.
 3. No canonical pair has a held-out correlation above 0.15 and three standard errors, or none correlates
    beyond chance (the largest, corrected for their number, at 0.001) and R^2 is not above that of 99 random
    pairings: unrelated.
 4. A direction is shared where that correlation exceeds 0.05 and three standard errors. Both R^2 at least
    0.9, and at most a tenth of either side unshared, by variance and by number (directions with less than a
    hundredth of the mean variance are not counted): rotation or linear. Else partly; or too-few where near
    rows agree but a map does not reach regions that it was not fitted in, as of few states seen often.
 5. R^2 by a rotation below that by a linear map by at most 0.01 and a tenth of what the linear map leaves:
    rotation. (Of singular values spread evenly, that allows kappa up to about 1.4.) Else linear.

R^2 is of centered rows as they are: scaling the columns of one side is a linear map, not a rotation.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.canonical import canonical_variates, distant_gain
from isojepa.alignment.explained import Chance, Explained, budget, by_chance, explained, ridge_matrix
from isojepa.alignment.fits import GramSpectrum
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.moments import PairMoments
from isojepa.alignment.rows import as_rows, check_pairs, constant
from isojepa.statistics.dependence import (
    MIN_EFFECTIVE,
    RowDependence,
    shift_test,
    state_means,
)
from isojepa.validation import check_number, validate_types

VERDICTS = {
    "rotation": "the same up to a rotation",
    "linear": "the same up to an invertible linear map",
    "partly": "partly the same",
    "unrelated": "unrelated",
    "too-few": "too few pairs to tell",
}
MOST = 20_000  # rows that are looked at
_PER_DIMENSION, _BESIDES = 4, 60
_FLOOR, _CARRIED = 1e-8, 0.99
_SIGNIFICANT, _P = 1e-3, 0.01
_SHARED, _ERRORS = 0.05, 3.0
_STRONG = 0.15
MIN_R2 = 0.9  # held out, both ways, of what is named a rotation or a linear map
_UNSHARED, _COUNTED = 0.1, 0.01
_SHIFT_P = 0.04  # of the shift test, whose bound is about twice too large
_TURNED, _SHARE = 0.01, 0.1
_DRAWS, _ROTATIONS, _NULL_ROWS = 99, 19, 2000
_ENOUGH = 0.01  # of R^2 below the last at which pairs were enough


def pairs_required(width: int) -> int:
    """States that a verdict about so many dimensions needs."""
    return _PER_DIMENSION * width + _BESIDES


def thresholds(states: int) -> tuple[float, float]:
    """Held-out correlations above which a direction is shared, and above which one shows a relation."""
    chance = _ERRORS / float(np.sqrt(states))
    return max(_SHARED, chance), max(_STRONG, chance)


@dataclass(frozen=True)
class EncoderSide:
    """What of one embedding is shared.

    Attributes:
        width: columns as given.
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
class Sameness:
    """The answer, and every number behind it.

    Attributes:
        verdict: "rotation", "linear", "partly", "unrelated" or "too-few".
        pairs, states: rows and states that were compared.
        required: states that a verdict needs at these widths.
        first, second: what of each side is shared.
        effective: states that are nearly independent.
        linear, back, rotation: held-out R^2 of the second by a linear map, of the first by one back, of the
            second by a rotation; None where there are too few pairs.
        linear_chance, rotation_chance: the same beside random pairings; None where successive states depend
            on each other.
        correlations: held-out canonical correlations, in the order of the fits.
        shared: number of shared directions.
        p: that the largest correlation is chance, corrected for their number.
        spectrum: singular values of the linear map, largest first, between the directions that were compared.
        condition: the largest of them over the smallest.
        budget: (pairs, R^2 by a linear map, by a rotation) after more and more pairs.
        pairs_needed: pairs after which R^2 of the verdict's map was within 0.01 of the last.
        map: of the verdict's kind, fitted on all pairs; None if unrelated or too few.
        notes: what was left out.
    """

    verdict: str
    pairs: int
    states: int
    required: int
    first: EncoderSide
    second: EncoderSide
    effective: int
    linear: Explained | None = None
    back: Explained | None = None
    rotation: Explained | None = None
    linear_chance: Chance | None = None
    rotation_chance: Chance | None = None
    correlations: list[float] = field(default_factory=list, repr=False)
    shared: int = 0
    p: float = 1.0
    spectrum: list[float] = field(default_factory=list, repr=False)
    condition: float | None = None
    budget: list[tuple[int, float, float]] = field(default_factory=list, repr=False)
    pairs_needed: int | None = None
    map: AlignmentMap | None = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        said = VERDICTS[self.verdict]
        if self.verdict == "too-few" or self.linear is None or self.back is None or self.rotation is None:
            if self.states < self.required:
                return f"{said}: {self.states} states, {self.required} are needed at this width"
            count = f"{self.effective} effective rows of {self.pairs}; " * (self.effective < self.pairs)
            return f"{said}: {count}{self.notes[-1]}"
        linear, back, turned = (part.r2 for part in (self.linear, self.back, self.rotation))
        numbers = f"held-out R^2 {linear.estimate:.3f} by a linear map, {back.estimate:.3f} back"
        if self.verdict == "rotation":
            return (
                f"{said}: held-out R^2 {turned.estimate:.3f} by a rotation, {linear.estimate:.3f} by any map"
            )
        if self.verdict == "linear":
            return f"{said}: {numbers}, {turned.estimate:.3f} by a rotation"
        if self.verdict == "partly":
            wide = min(self.first.dimensions, self.second.dimensions)
            return f"{said}: {self.shared} of {wide} directions are shared; {numbers}"
        return f"{said}: {numbers}; no direction correlates (p = {self.p:.2g})"

    def to_dict(self) -> dict[str, Any]:
        """Every number, for JSON; the map by its conditioning and spectrum."""
        found = asdict(
            self, dict_factory=lambda pairs: {name: value for name, value in pairs if name != "map"}
        )
        if self.map is not None:
            found["map"] = {
                "kind": self.map.kind,
                "condition": self.map.condition_,
                "orthogonality": self.map.orthogonality_,
                "singular_values": self.map.singular_values_.tolist(),
            }
        return {"sentence": self.sentence, **found}


@validate_types
def same(first: Any, second: Any, *, ids: Any = None, confidence: float = 0.95, seed: int = 0) -> Sameness:
    """Whether two embeddings of the same states are the same, and up to what.

    Rows are in the order of time, where there is one: dependence is measured in that order.

    Args:
        first, second: rows (n, p), (n, q), in one order.
        ids: (n,) which state each row is of; by default rows that repeat are searched for.
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
    given = check_pairs(first, second)
    named = None if ids is None else _named(ids, len(given[0]))
    notes: list[str] = []
    if len(given[0]) > MOST:
        rows = np.linspace(0, len(given[0]) - 1, MOST).round().astype(int)
        notes.append(f"{MOST} of {len(given[0])} pairs, evenly spaced, were compared")
        given = given[0][rows], given[1][rows]
        named = None if named is None else named[rows]
    x, flat_x = _varied("first", given[0], notes)
    y, flat_y = _varied("second", given[1], notes)
    dependence = RowDependence.of(x, y, named, seed)
    states, effective = dependence.states, dependence.effective
    if named is None and states < len(x):
        notes.append(f"rows repeat: {states} states were seen, each counts once")
    x, y, required = _reduced(x, y, states, notes)
    left = EncoderSide(given[0].shape[1], x.shape[1], flat_x)
    right = EncoderSide(given[1].shape[1], y.shape[1], flat_y)

    def too_few(*reasons: str) -> Sameness:
        return Sameness("too-few", len(x), states, required, left, right, effective, notes=[*notes, *reasons])

    if states < required:
        return too_few()
    means = state_means(x, dependence.state), state_means(y, dependence.state)
    groups = dependence.state if states < len(x) else None
    linear_chance = rotation_chance = None
    if dependence.memory > 1:
        if effective < MIN_EFFECTIVE:
            advice = _rows_advice(len(x), effective, MIN_EFFECTIVE)
            return too_few(f"successive rows depend on each other: {advice}")
        p = shift_test(*means)
        enough = MIN_EFFECTIVE + 2 * min(max(x.shape[1], y.shape[1]), states // 10)
        if p > _SHIFT_P and effective < enough:
            advice = _rows_advice(len(x), effective, enough)
            return too_few(f"successive rows depend on each other, and these are wide: {advice}")
        if p <= _SHIFT_P < shift_test(*(np.diff(side, axis=0) for side in means)):
            return too_few("only slow movement is shared, such as a trend or a season, and no steps")
        groups = dependence.blocks[dependence.state]
        notes.append(f"successive rows depend on each other: {effective} of {len(x)} count as independent")
    linear, back, rotation = explained(x, y, groups, confidence, seed)
    correlations = canonical_variates(x, y, groups, seed=seed).correlations
    least, strong = thresholds(effective)
    if dependence.memory > 1:
        related = p <= _SHIFT_P
    else:
        strongest = float(correlations.max()) * np.sqrt(states)
        p = min(1.0, len(correlations) * float(scipy.stats.norm.sf(strongest)))
        linear_chance = by_chance(*means, False, _DRAWS, _NULL_ROWS, seed)
        rotation_chance = by_chance(*means, True, _ROTATIONS, _NULL_ROWS, seed)
        related = p < _SIGNIFICANT or linear_chance.p <= _P
    shared = correlations > least
    related &= bool((correlations > strong).any())
    left, right = _unshared(x, y, shared, (left, right))
    verdict = _verdict(related, linear, back, rotation, (left, right))
    if verdict == "partly":
        strengths = correlations[: max(1, int(shared.sum()))]
        if min(distant_gain(*side, strengths).low for side in (means, means[::-1])) <= 0:
            verdict = "too-few"
            notes.append("near rows agree and distant ones do not, as of few states seen often: give ids")
    curve = budget(x, y, groups, seed)
    spectrum = np.linalg.svd(ridge_matrix(PairMoments.of(x, y)), compute_uv=False)
    kind = {"rotation": "scaled_procrustes", "linear": "ridge", "partly": "low_rank"}.get(verdict)
    fitted = None
    if kind is not None:
        # the map is for rows as they are given, constant columns and all
        rank = max(1, int(shared.sum())) if kind == "low_rank" else None
        penalty = 1e-6 * len(x) if kind == "low_rank" else None
        fitted = AlignmentMap(kind, standardise=False, rank=rank, ridge=penalty)
        fitted.fit(*given)
    return Sameness(
        verdict,
        len(x),
        states,
        required,
        left,
        right,
        effective,
        linear=linear,
        back=back,
        rotation=rotation,
        linear_chance=linear_chance,
        rotation_chance=rotation_chance,
        correlations=correlations.tolist(),
        shared=int(shared.sum()),
        p=p,
        spectrum=spectrum.tolist(),
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0 else None,
        budget=curve,
        pairs_needed=_needed(curve, verdict),
        map=fitted,
        notes=notes,
    )


def _verdict(
    related: bool,
    linear: Explained,
    back: Explained,
    rotation: Explained,
    sides: tuple[EncoderSide, EncoderSide],
) -> str:
    if not related:
        return "unrelated"
    whole = max(max(side.unshared_variance, side.unshared_directions) for side in sides) <= _UNSHARED
    if not whole or min(linear.r2.estimate, back.r2.estimate) < MIN_R2:
        return "partly"
    slack = _TURNED + _SHARE * (1 - linear.best)
    turned = rotation.best >= linear.best - slack and rotation.r2.estimate >= MIN_R2
    return "rotation" if turned else "linear"


def _rows_advice(rows: int, effective: int, enough: int) -> str:
    """Rows of the same kind that are needed at least, to one digit; of walks no number is enough."""
    needed = rows * enough / max(effective, 1)
    digit = 10 ** math.floor(math.log10(needed))
    return f"about {math.ceil(needed / digit) * digit:,} rows are needed at least"


def _named(ids: Any, rows: int) -> np.ndarray:
    named = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    if named.shape != (rows,):
        raise ValueError(f"ids must be as many as rows, {rows}, got shape {named.shape}")
    return named


def _varied(name: str, array: np.ndarray, notes: list[str]) -> tuple[np.ndarray, list[int]]:
    """Centered rows of the columns that vary, and which do not."""
    rows = as_rows(name, array)
    flat = constant(rows.std(0), rows.mean(0))
    if flat.all():
        raise ValueError(f"{name} must vary, got equal rows: the encoder has collapsed")
    if flat.any():
        notes.append(f"{int(flat.sum())} constant columns of {name} were left out")
    return rows[:, ~flat] - rows[:, ~flat].mean(0), np.flatnonzero(flat).tolist()


def _reduced(
    x: np.ndarray, y: np.ndarray, states: int, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows in directions that carry variance, and the states that so many need."""
    spectra = [GramSpectrum.of(rows.T @ rows) for rows in (x, y)]
    kept = [int((one.values > _FLOOR * one.values[0]).sum()) for one in spectra]
    if states < pairs_required(max(kept)):
        most = max((states - _BESIDES) // _PER_DIMENSION, 1)
        if min(one.values[:most].sum() / one.values.sum() for one in spectra) >= _CARRIED:
            notes.append(
                f"{states} states are too few for {max(kept)} dimensions: the first {most} principal "
                f"directions, which carry {_CARRIED:.0%} of the variance, were compared"
            )
            kept = [min(count, most) for count in kept]
    found = [rows @ one.vectors[:, :count] for rows, one, count in zip((x, y), spectra, kept, strict=True)]
    return found[0], found[1], pairs_required(max(kept))


def _unshared(
    x: np.ndarray, y: np.ndarray, shared: np.ndarray, sides: tuple[EncoderSide, EncoderSide]
) -> tuple[EncoderSide, EncoderSide]:
    """Both sides with the shares of variance and of directions that are not shared."""
    moments = PairMoments.of(x, y)
    spectra = [GramSpectrum.of(products) for products in (moments.xx, moments.yy)]
    u, _, vt = np.linalg.svd(spectra[0].power(-0.5) @ moments.xy @ spectra[1].power(-0.5))
    found = []
    for side, spectrum, directions in zip(sides, spectra, (u, vt.T), strict=True):
        carried = ((spectrum.power(0.5) @ directions) ** 2).sum(0)
        theirs = np.zeros(len(carried), bool)
        theirs[: len(shared)] = shared[: len(carried)]
        counted = carried > _COUNTED * carried.mean()
        found.append(
            EncoderSide(
                side.width,
                side.dimensions,
                side.constant,
                float(carried[~theirs].sum() / carried.sum()),
                float((~theirs & counted).sum() / counted.sum()),
            )
        )
    return found[0], found[1]


def _needed(curve: list[tuple[int, float, float]], verdict: str) -> int | None:
    if verdict in ("unrelated", "too-few"):
        return None
    column = 2 if verdict == "rotation" else 1
    last = curve[-1][column]
    return next(row[0] for row in curve if row[column] >= last - _ENOUGH)
