r"""Which components the data identify, and which only span a block that stays a rotation.

A search always returns axes. They are found on every other block of rows and judged on the blocks between,
and the other way round. Two components are distinguished

    by shape   if kappa_i + kappa_j (`rotations`) exceeds 0 beyond chance, and the departure of one of the two
               from normal, 1 - corr(y, normal scores of y)^2, is at least the tolerance: the least nonlinear
               energy with which a function of a normal latent can have this distribution;
    by rate    if their correlations across a pair differ beyond chance, and their rates -log c by a factor of
               exp(5 tolerance) or more (energy t of degree k in an embedding of equal rates raises a rate by
               (k - 1) t);

and if both halves found the same two components. Chance is `LEVEL` over all pairs together, by Student's t
over blocks. Components that are not distinguished form a block.

The world's departure. An encoder that has not converged leaves y = g(u) of a latent u. With pairs, the
function f(y) that predicts itself best is asked instead: it is the same for every increasing g, and if a
normal process lies behind y it is the normal score s itself (Mehler). f is the solution of C v = c G v
nearest to s, with C_jk = E He_j(s) He_k(s') and G_jk = E He_j(s) He_k(s), He of degree <= 7; its departure
is 1 - corr(f, s)^2, with a jackknife over blocks for bias and error. So warped normal latents of one rate
have no world's departure: an encoder of a Gaussian world can make the same rows on arbitrary axes.

Dependence. A component is identified only if the upper 95 % end of its dependence on every other one lies
below `MAX_DEPENDENCE`. The dependence of two components is the correlation of the two functions that share
most (the maximal correlation of Gebelein 1941, restricted to white polynomials of degree <= 4), found on one
half of the rows and measured on the other. Its standard error is 1 / sqrt(effective rows), n over the smaller
`measure_memory` of the two. A slower component keeps its name if the faster ones that depend on it are
functions of it (harmonics); two halves of a circle are not.

Independence is also tested by HSIC (Gretton et al. 2008) with the kernel sum_w cos(w (y - y')), w = 1 .. 6,
by permutation of thinned rows at `LEVEL_HSIC` over all pairs. The parts of the covariance of waves by which
a small angle between the two changes it are left out.
"""

import itertools
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.certificates.spectrum import hermite_polynomials
from isojepa.linear import nearest_rotation
from isojepa.seeds import generator, numpy_generator
from isojepa.statistics.memory import measure_memory
from isojepa.unmixing.monotone import normal_scores
from isojepa.unmixing.rotations import (
    MIN_ACROSS,
    Rotation,
    Sample,
    find_rotation,
    refine_rotation,
    rotate,
    score,
    squares_correlate,
    sufficient_rows,
)

# Thresholds of the verdict
LEVEL = 1e-3  # chance that any of all pairs is distinguished by mistake
MIN_STABILITY = 0.9  # cosine of a component with itself in both halves
MAX_MIXING = 0.15  # cosine between a component of one half and another of the other: above, they are mixed
RATE_TOLERANCES = 5.0  # tolerances by which log rates must differ: rates react to energy of several degrees
STRONG_DEPARTURE = 0.025  # counts without pairs: encoders of copula worlds were seen to leave up to 0.02
DEPARTURE_ERRORS = 3.0  # standard errors of a world's departure
MAX_DEPENDENCE = 0.165  # upper end: encoders that show all latents leave up to 0.155, a split circle 0.17
CONFIDENCE_ERRORS = 1.645  # one-sided 95 %
MIN_NOTABLE_DEPENDENCE, NOTABLE_ERRORS = 0.1, 4.0  # dependence that is reported
MIN_RATE_RATIO = 1.2  # of two dependent components, from which the slower one keeps its name,
MIN_FUNCTION_SHARE = 0.5  # if this share of the dependence is the faster one being a function of it
LEVEL_HSIC = 0.01

# Limits of the computation
_MAX_RANKED_ROWS = 20_000
_DEPARTURE_NUMBERS, _DEPENDENCE_NUMBERS = 1 << 22, 1 << 21
_MAX_ANGLE_EXCESS, _PRIOR_PAIRS = 50.0, 8.0  # a pair beyond the first is no chance; pairs counted besides
_DEGREE, _FAR_SCORE, _FAR_ROWS = 7, 3.5, 40  # scores are cut where so many rows are farther
_MIN_PAIR_ERRORS = 5.0  # standard errors of a correlation of 0, below which pairs are unrelated
_MIN_EIGENVALUE_GAP = 1e-9
_SHARED_DEGREE, _CLIP, _SHARED_RIDGE, _MIN_SCALE, _SQUARINGS = 4, 4.0, 0.03, 0.5, 4
_DRAWS, _HSIC_ROWS, _MIN_HSIC_ROWS, _HSIC_PAIRS = 299, 5_000, 100, 64
_WAVES, _MIN_WAVE_SCALE, _MEAN_COSINES, _MIN_REMAINDER = np.arange(1.0, 7.0), 0.2, 16, 0.05

BLIND_SPOT = " In a Gaussian world of one rate, and in a copula world of one rate, nothing could."


class Cause(StrEnum):
    """Why a component is not identified, or not linearized."""

    ALIKE = "alike"
    """Neither shape nor rate distinguishes it from others, in any number of rows."""
    FEW_ROWS = "few rows"
    """Too few rows, or too few effective ones, show what distinguishes it."""
    DEPENDENT = "dependent"
    """It depends on another component."""
    BENT = "bent"
    """It is identified, and could not be linearized."""


@dataclass(frozen=True)
class Evidence:
    """Measurements of components, all (dim,) or (dim, dim) for pairs.

    Attributes:
        by_shape, by_rate: pairs distinguished by either.
        together: pairs in one block, reflexive.
        stability: cosine of each component between the two halves.
        departure: from the normal distribution.
        world_departure: of it the world's; NaN where unknown.
        doubted: departures that may be the encoder's.
        correlation: across a pair; None without second views.
        dependence, upper: correlation of the functions of a pair that share most, and its upper end.
        notable: components whose largest dependence is beyond chance.
        carried: [i, j] correlation of a function of i with j itself.
        rejected: pairs whose independence HSIC rejects.
        unexplained: [i, j] also without the mean of j given i.
        effective: (dim, dim) effective rows of a pair.
        excess: factor by which squared angles between halves exceed those of independent rows.
    """

    by_shape: np.ndarray
    by_rate: np.ndarray
    together: np.ndarray
    stability: np.ndarray
    departure: np.ndarray
    world_departure: np.ndarray
    doubted: np.ndarray
    correlation: np.ndarray | None
    dependence: np.ndarray
    upper: np.ndarray
    notable: np.ndarray
    carried: np.ndarray
    rejected: np.ndarray
    unexplained: np.ndarray
    effective: np.ndarray
    excess: float

    def order(self, identified: np.ndarray) -> np.ndarray:
        """Identified components first, the slowest or least normal leading; then blocks, the largest last."""
        within = -self.departure if self.correlation is None else -self.correlation
        first = np.where(self.together, within, np.inf).min(1)  # of each block
        return np.lexsort((within, first, self.together.sum(1), ~identified))

    def identify(self, i: int, tolerance: float, rows: int) -> tuple[str, Cause | None, str]:
        """What identifies a component, a key of `IDENTIFIED_BY`; or "none" with the cause and the reason."""
        dim = len(self.together)
        if dim == 1:
            return "alone", None, ""
        others = np.arange(dim) != i
        if self.together[i].sum() > 1:
            return "none", *self._block_reason(i, tolerance)
        if self.stability[i] < MIN_STABILITY:
            reason = "two halves of the rows give other directions: too few rows for what distinguishes it"
            return "none", Cause.FEW_ROWS, reason
        strong = self.dependence[i] > MAX_DEPENDENCE
        if strong.any() and not self._leads(i, strong):
            reason = (
                f"it depends on another component (a function of it by {self.dependence[i].max():.2f}), as "
                "no independent latent would"
            )
            return "none", Cause.DEPENDENT, reason
        unsure = others & ~strong & (self.upper[i] > MAX_DEPENDENCE)
        if unsure.any():
            return "none", Cause.FEW_ROWS, self._rows_reason(i, unsure, rows)
        shape, rate = self.by_shape[i][others].all(), self.by_rate[i][others].all()
        # a shape is that of a latent only if components are independent; rates bear what an encoder leaves
        rejected = self.rejected[i] & strong if rate else self.rejected[i]
        if rejected.any() and not self._explained(i):
            reason = "it is not independent of another component: their waves correlate beyond chance (HSIC)"
            return "none", Cause.DEPENDENT, reason
        if shape and rate:
            return "shape or rate", None, ""
        return "shape" if shape else "rate" if rate else "shape and rate", None, ""

    def _block_reason(self, i: int, tolerance: float) -> tuple[Cause, str]:
        block = self.together[i]
        inside = block & (np.arange(len(block)) != i)
        if (self.by_shape | self.by_rate)[i][inside].all():
            reason = "two halves of the rows give other components: too few rows for what distinguishes them"
            return Cause.FEW_ROWS, reason
        least = max(tolerance, 1e-12)
        doubted = bool((self.doubted & (self.departure >= least))[block].any())
        if doubted:
            shape = "whose departure from normal may be the encoder's, as the other's,"
        elif self.departure[block].max() >= least:
            shape = "that is normal, as the other's, for all that these rows show,"
        else:
            shape = f"within {tolerance:g} of normal, as the other's,"
        rate = "no second views to compare rates" if self.correlation is None else "rates that do not differ"
        advice = "; tolerance=0 trusts such shapes: right if no encoder left them" if doubted else ""
        return Cause.ALIKE, f"a distribution {shape} and {rate}{advice}"

    def _rows_reason(self, i: int, unsure: np.ndarray, rows: int) -> str:
        j = int(np.where(unsure, self.upper[i], -np.inf).argmax())
        room = MAX_DEPENDENCE - max(float(self.dependence[i, j]), 0.0)
        factor = (CONFIDENCE_ERRORS / max(room, 0.01)) ** 2 / self.effective[i, j]
        return (
            f"its dependence on another component may be as large as {self.upper[i, j]:.2f} (95 %), above "
            f"{MAX_DEPENDENCE:g}, in {self.effective[i, j]:,.0f} effective rows: about "
            f"{int(np.ceil(rows * max(factor, 1.1))):,} rows would decide"
        )

    def _leads(self, i: int, strong: np.ndarray) -> bool:
        """Whether all components that depend on this one are faster and functions of it."""
        if self.correlation is None:
            return False
        rate = _rates(self.correlation)
        faster = rate > MIN_RATE_RATIO * rate[i]
        functions = self.carried[i] > MIN_FUNCTION_SHARE * self.dependence[i]
        return bool((faster & functions)[strong].all())

    def _explained(self, i: int) -> bool:
        """Whether all components that HSIC rejects are harmonics of this one, perhaps mixed with a latent."""
        rejected = self.rejected[i]
        strong = self.dependence[i] > MAX_DEPENDENCE
        return not self.unexplained[i][rejected].any() and strong[rejected].all() and self._leads(i, strong)


def few_rows(rows: int, dim: int) -> str:
    """A sentence on rows that are few for a search of so many dimensions, or nothing."""
    needed = sufficient_rows(dim)
    if rows >= needed:
        return ""
    return f" In {rows:,} rows a search can miss components of {dim} dimensions: bring {needed:,} or more."


def find_halves(sample: Sample, rng: np.random.Generator, tolerance: float) -> tuple[Rotation, Rotation]:
    """Components of every other block of rows and of those between, each from its own start.

    Shapes that pairs of the other half show not to be the world's are left out: what an encoder left must not
    outweigh the rates.
    """
    rotations = []
    for which in (0, 1):
        half, white = sample.half(which).whitened()
        lagged = half.lagged()
        rotation = find_rotation([half.first], lagged, rng)
        matrix = nearest_rotation(rotation.matrix @ white)
        if tolerance > 0 and sample.second is not None:
            false = _refuted(_world_departures(sample.half(1 - which), matrix), tolerance)
            if false.any():
                correlated = squares_correlate(half.first, rotation.matrix)
                rotation = refine_rotation(rotation.matrix, [half.first], lagged, correlated, ~false)
                matrix = nearest_rotation(rotation.matrix @ white)
        rotations.append(replace(rotation, matrix=matrix))
    return rotations[0], rotations[1]


def search_views(sample: Sample, lagged: tuple[np.ndarray, ...]) -> list[Tensor]:
    """The views whose shapes are used: both where pairs correlate enough."""
    slow = bool(lagged) and float(np.trace(lagged[0])) >= MIN_ACROSS * len(lagged[0])
    return [sample.first] if sample.second is None or not slow else [sample.first, sample.second]


def measure_evidence(
    sample: Sample, halves: tuple[Rotation, Rotation], rotation: Rotation, tolerance: float
) -> Evidence:
    """Compare the components of all rows with those that each half of the rows found.

    Args:
        sample: white rows.
        halves: rotations of `sample.half(0)` and of `sample.half(1)`.
        rotation: of all rows.
        tolerance: nonlinear energy that an encoder may have left.
    """
    dim = len(rotation.matrix)
    matches = [
        scipy.optimize.linear_sum_assignment(-np.abs(rotation.matrix @ half.matrix.T))[1] for half in halves
    ]
    kappa, correlations, departure = [], [], np.zeros(dim)
    for which, (half, match) in enumerate(zip(halves, matches, strict=True)):
        other = sample.half(1 - which)
        matrix, scores = half.matrix[match], half.scores[:, torch.from_numpy(match)]
        kappa += [_kappa(rotate(other.first[rows], matrix), scores) for rows in _slices(other.block)]
        if other.second is not None:
            correlations += [
                _pair_correlation(rotate(other.first[rows], matrix), rotate(other.second[rows], matrix))
                for rows in _slices(other.block)
            ]
        departure += departures(_thinned(other.first, matrix, _MAX_RANKED_ROWS)) / 2
    cosines = np.abs(halves[0].matrix[matches[0]] @ halves[1].matrix[matches[1]].T)
    stability = np.diag(cosines).copy()
    unstable = stability < MIN_STABILITY
    # unstable components may be any rotation of one another
    mixed = (np.maximum(cosines, cosines.T) > MAX_MIXING) | (unstable[:, None] & unstable)
    world = None
    if tolerance > 0 and sample.second is not None:
        world = _world_departures(sample, rotation.matrix)
    credited = shown_departures(departure, world, tolerance) if tolerance > 0 else departure
    by_shape = beyond_chance(np.stack(kappa), 1.0) & (np.maximum(credited[:, None], credited) >= tolerance)
    by_rate, correlation = np.zeros((dim, dim), bool), None
    if correlations:
        correlation = np.mean(correlations, axis=0)
        log_rates = np.log(_rates(correlation))
        differ = np.abs(log_rates[:, None] - log_rates) > RATE_TOLERANCES * tolerance
        by_rate = beyond_chance(np.stack(correlations), -1.0) & differ
    apart = (by_shape | by_rate) & ~mixed
    np.fill_diagonal(apart, False)
    groups = scipy.sparse.csgraph.connected_components(~apart, directed=False)[1]
    thinned = _thinned(sample.first, rotation.matrix, _MAX_RANKED_ROWS)
    step = max(1, sample.first.numel() // _DEPENDENCE_NUMBERS)
    dependence, carried = shared_functions(
        rotate(sample.first[::step], rotation.matrix), sample.block[::step]
    )
    used = len(sample.first[::step])
    effective = np.minimum(_effective_rows(sample.first, rotation.matrix), used)
    errors = 1 / np.sqrt(effective)
    rejected, unexplained = reject_independence(thinned)
    return Evidence(
        by_shape=by_shape,
        by_rate=by_rate,
        together=groups[:, None] == groups,
        stability=stability,
        departure=departure,
        world_departure=np.full(dim, np.nan)
        if world is None
        else np.where(np.isfinite(world[1]), world[0], np.nan),
        doubted=(departure >= tolerance) & (credited < tolerance),
        correlation=correlation,
        dependence=dependence,
        upper=dependence + CONFIDENCE_ERRORS * errors,
        notable=(dependence > np.maximum(MIN_NOTABLE_DEPENDENCE, NOTABLE_ERRORS * errors)).any(1),
        carried=carried,
        rejected=rejected,
        unexplained=unexplained,
        effective=effective,
        excess=_angle_excess(cosines, halves, matches, len(sample.first)),
    )


def _rates(correlation: np.ndarray) -> np.ndarray:
    return np.asarray(-np.log(np.clip(correlation, 1e-3, 1 - 1e-9)))


def _slices(block: np.ndarray) -> list[slice]:
    edges = np.flatnonzero(np.diff(block, prepend=-1, append=-1)).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def _thinned(white: Tensor, matrix: np.ndarray, count: int) -> np.ndarray:
    """Evenly spaced rows along the components, (about count, dim) float64."""
    return np.asarray(rotate(white[:: max(1, len(white) // count)], matrix).T.double().numpy())


def _kappa(y: Tensor, scores: Tensor) -> np.ndarray:
    g, slope = score(y, scores)
    return np.asarray((slope - (g * y).mean(1, dtype=torch.float64)).numpy())


def _pair_correlation(y: Tensor, later: Tensor) -> np.ndarray:
    square = ((y * y).mean(1, dtype=torch.float64) + (later * later).mean(1, dtype=torch.float64)) / 2
    # a block of a few rows of few levels may be 0 throughout
    return np.asarray(((y * later).mean(1, dtype=torch.float64) / square.clamp_min(1e-300)).numpy())


def beyond_chance(values: np.ndarray, sign: float) -> np.ndarray:
    """Pairs whose mean over blocks (blocks, dim) of value_i + sign value_j is not 0; a sum must exceed 0."""
    blocks, dim = values.shape
    mean, covariance = values.mean(0), np.cov(values.T).reshape(dim, dim) / blocks
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance + 2 * sign * covariance, 1e-300))
    reach = float(scipy.special.stdtrit(blocks - 1, 1 - LEVEL / max(2, dim * (dim - 1))))
    value = mean[:, None] + sign * mean
    return np.asarray((value if sign > 0 else np.abs(value)) > reach * error)


def _angle_excess(
    cosines: np.ndarray, halves: tuple[Rotation, Rotation], matches: list[np.ndarray], rows: int
) -> float:
    information = np.minimum(
        *(half.information[np.ix_(match, match)] for half, match in zip(halves, matches, strict=True))
    )
    off = ~np.eye(len(cosines), dtype=bool) & (cosines < MAX_MIXING)
    # both halves have half of the rows, and both err; a pair counts twice
    squares = np.minimum(cosines**2 * information * rows / 4, _MAX_ANGLE_EXCESS)[off]
    return max(1.0, float((squares.sum() / 2 + _PRIOR_PAIRS) / (len(squares) / 2 + _PRIOR_PAIRS)))


def departures(y: np.ndarray) -> np.ndarray:
    """(dim,) 1 - corr(y, normal scores of y)^2 of columns (n, dim); 0 for constant ones."""
    scores = scipy.special.ndtri((np.arange(len(y)) + 0.5) / len(y))
    ordered = np.sort(y.T)
    ordered -= ordered.mean(1, keepdims=True)
    squares = (ordered**2).sum(1)
    constant = squares <= np.finfo(np.float64).tiny
    explained = (ordered @ scores) ** 2 / ((scores @ scores) * np.where(constant, 1.0, squares))
    return np.where(constant, 0.0, 1 - explained)


def _world_departures(sample: Sample, matrix: np.ndarray) -> np.ndarray:
    """(2, dim) the world's departure of each component, and its error."""
    assert sample.second is not None  # its callers have pairs
    count = max(_MAX_RANKED_ROWS, _DEPARTURE_NUMBERS // len(matrix))
    y, later = (_thinned(view, matrix, count).T for view in (sample.first, sample.second))
    block = sample.block[:: max(1, len(sample.block) // count)]
    return np.array([world_departure(*views, block) for views in zip(y, later, strict=True)]).T


def world_departure(y: np.ndarray, y_next: np.ndarray, block: np.ndarray) -> tuple[float, float]:
    """The departure of the function of a component that predicts itself best, and its standard error.

    Args:
        y, y_next: (n,) both views.
        block: (n,) block of each pair, ascending.

    Returns:
        The estimate, which chance can make slightly negative, and an error of inf where pairs show nothing.
    """
    scores = normal_scores(np.concatenate((y, y_next)))
    if len(scores) * scipy.special.ndtr(-_FAR_SCORE) >= _FAR_ROWS:
        scores = scores.clip(-_FAR_SCORE, _FAR_SCORE)
    table = np.stack(hermite_polynomials(scores, _DEGREE)[1:])
    first, second = table[:, : len(y)], table[:, len(y) :]
    unknown = 0.0, float("inf")
    if abs(first[0] @ second[0]) < _MIN_PAIR_ERRORS * np.sqrt(len(y)):
        return unknown
    blocks = _slices(block)
    cross = np.stack([first[:, rows] @ second[:, rows].T for rows in blocks])
    cross = (cross + cross.transpose(0, 2, 1)) / 2
    square = np.stack(
        [sum(view[:, rows] @ view[:, rows].T for view in (first, second)) / 2 for rows in blocks]
    )
    values = _eigen_departures(*(np.concatenate((s.sum(0)[None], s.sum(0) - s)) for s in (cross, square)))
    if not np.isfinite(values).all():
        return unknown
    whole, without, count = values[0], values[1:], len(blocks)
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    return float(whole - (count - 1) * (without.mean() - whole)), float(error)


def _eigen_departures(cross: np.ndarray, square: np.ndarray) -> np.ndarray:
    """1 - corr(f, s)^2 of the eigenfunction f nearest to s, of each of several; NaN where undefined."""
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(square))
    except np.linalg.LinAlgError:  # fewer levels than degrees
        return np.full(len(square), np.nan)
    values, vectors = np.linalg.eigh(inverse @ cross @ inverse.transpose(0, 2, 1))
    shares = vectors[:, 0] ** 2  # Cholesky's first direction is that of s
    nearest = shares.argmax(1)[:, None]
    gaps = np.abs(values - np.take_along_axis(values, nearest, 1))
    np.put_along_axis(gaps, nearest, np.inf, 1)
    return np.where(gaps.min(1) < _MIN_EIGENVALUE_GAP, np.nan, 1 - shares.max(1))


def shown_departures(departure: np.ndarray, world: np.ndarray | None, tolerance: float) -> np.ndarray:
    """(dim,) the departure of each component that is shown to be the world's; 0 where it is not.

    Few pairs may show it of all components together and not of each: a strong one counts then, unless it is
    refuted. Without pairs a strong one counts.

    Args:
        departure: (dim,) of the components.
        world: (2, dim) the world's, and its errors; None without pairs.
        tolerance: nonlinear energy that an encoder may have left.
    """
    strong = departure >= STRONG_DEPARTURE
    if world is None:
        return np.where(strong, departure, 0.0)
    estimate, error = world
    sure = (estimate >= tolerance) & (estimate > DEPARTURE_ERRORS * error)
    measurable = strong & np.isfinite(error)
    weights = 1 / np.maximum(error[measurable], 1e-12) ** 2
    jointly = weights @ estimate[measurable] > DEPARTURE_ERRORS * np.sqrt(weights.sum())
    # equal views, unrelated pairs and distributions of a few levels show nothing of it
    credible = np.isinf(error) | (jointly & ~_refuted(world, tolerance))
    return np.where(sure, estimate, np.where(strong & credible, departure, 0.0))


def _refuted(world: np.ndarray, tolerance: float) -> np.ndarray:
    return np.asarray(world[0] + DEPARTURE_ERRORS * world[1] < tolerance)


def _effective_rows(white: Tensor, matrix: np.ndarray) -> np.ndarray:
    """(dim, dim) effective rows of each pair of components: nearly independent in one of the two.

    The memory of a component is that of consecutive rows, or if it is longer than they show, of spaced ones.
    """
    memory = np.ones(len(matrix))
    for step in {1, max(1, len(white) // _MAX_RANKED_ROWS)}:
        y = rotate(white[::step][:_MAX_RANKED_ROWS], matrix).double().numpy()
        spaced = [measure_memory(one[:, None], None, generator(0, "memory")) for one in y]
        memory = np.maximum(memory, [step * rows if rows > 1 else 1 for rows in spaced])
    return np.asarray(len(white) / np.minimum(memory[:, None], memory))


def shared_functions(y: Tensor, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of functions of every two components, held out.

    Args:
        y: (dim, n) components.
        block: (n,) block of each row, from 0.

    Returns:
        (dim, dim) of the two functions that share most; and [i, j] of a function of i with j itself.
    """
    odd = block % 2 == 1
    sizes = [len(odd) - int(odd.sum()), int(odd.sum())]
    y = y[:, torch.from_numpy(np.argsort(odd, kind="stable"))].float()
    both = _white_products(y, sizes)
    turns = both, both[::-1]
    shared = torch.stack([_held_out(*turn) for turn in turns]).mean(0)
    # the first polynomial is the component itself, which whitening only rescales
    firsts = [(fit[..., 0], test[..., 0]) for fit, test in turns]
    carried = torch.stack(
        [(fit * test).sum(2) / torch.linalg.vector_norm(fit, dim=2).clamp_min(1e-12) for fit, test in firsts]
    )
    return shared.numpy(), carried.mean(0).fill_diagonal_(0).numpy()


def _white_products(y: Tensor, sizes: list[int]) -> list[Tensor]:
    """(dim, dim, degree, degree) products of white polynomials of every two components, by half."""
    dim, n = y.shape
    y = y - y.mean(1, keepdim=True)
    y = (y / y.std(1, keepdim=True).clamp_min(1e-30)).clamp_(-_CLIP, _CLIP)
    table = torch.stack(hermite_polynomials(y, _SHARED_DEGREE)[1:], 1).reshape(dim * _SHARED_DEGREE, n)
    table -= table.mean(1, keepdim=True)
    products = [(half @ half.T).double() / half.shape[1] for half in table.split(sizes, 1)]
    whole = sum(size * product for size, product in zip(sizes, products, strict=True)) / n
    shape = dim, _SHARED_DEGREE, dim, _SHARED_DEGREE
    gram = whole.reshape(shape).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    # polynomials that hardly vary count little: on two levels they show traces of other components
    scale = gram.diagonal(dim1=1, dim2=2).clamp_min(0).sqrt().clamp_min(_MIN_SCALE)
    gram = gram / (scale[:, :, None] * scale[:, None]) + _SHARED_RIDGE * torch.eye(_SHARED_DEGREE)
    root = torch.linalg.cholesky(gram)
    white = torch.linalg.solve_triangular(root, torch.diag_embed(1 / scale), upper=False)
    return [torch.einsum("iab,ibjc,jdc->ijad", white, product.reshape(shape), white) for product in products]


def _held_out(fit: Tensor, test: Tensor) -> Tensor:
    """(dim, dim) correlations on the second half of the functions that share most on the first."""
    dim = len(fit)
    i, j = torch.triu_indices(dim, dim, 1)
    fit, test = fit[i, j], test[i, j]
    power = fit.mT @ fit
    for _ in range(_SQUARINGS):
        power = power / power.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-30)[:, None, None]
        power = power @ power
    right = torch.nn.functional.normalize(power.sum(2, keepdim=True), dim=1)
    left_functions = torch.nn.functional.normalize(fit @ right, dim=1)
    correlations = torch.zeros(dim, dim, dtype=test.dtype)
    correlations[i, j] = correlations[j, i] = (left_functions.mT @ test @ right)[:, 0, 0]
    return correlations


def reject_independence(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of components (n, dim) whose independence HSIC rejects, and [i, j] also without E[y_j | y_i].

    One row of two is judged, fewer where rows depend on their neighbors; of many pairs those that share most
    in the other rows.
    """
    n, dim = y.shape
    rejected, unexplained = np.zeros((dim, dim), bool), np.zeros((dim, dim), bool)
    memory = measure_memory(y, None, generator(0, "independence", "memory"))
    judged = np.arange(1, n, max(2, memory, n // _HSIC_ROWS))
    if dim == 1 or len(judged) < _MIN_HSIC_ROWS:
        return rejected, unexplained
    pairs = np.stack(np.triu_indices(dim, 1), axis=1)
    if len(pairs) > _HSIC_PAIRS:
        waves = _Waves.of(y[judged - 1])
        parts = np.array_split(pairs, -(-len(pairs) // _HSIC_PAIRS))
        shared = np.concatenate([_hsic(waves, part, 0)[0] for part in parts])
        pairs = pairs[np.argsort(-shared)[:_HSIC_PAIRS]]
    y = y[judged]
    for i, j in pairs[_depends(y, pairs)]:
        rejected[i, j] = rejected[j, i] = True
        for one, other in ((i, j), (j, i)):
            rank = np.argsort(np.argsort(y[:, one], kind="stable"))
            cosines = np.cos(np.pi * np.outer((rank + 0.5) / len(y), np.arange(1, _MEAN_COSINES + 1)))
            target = y[:, other] - y[:, other].mean()
            remainder = target - cosines @ (cosines.T @ target) * 2 / len(y)
            if remainder.var() > _MIN_REMAINDER * target.var():
                columns = np.stack((y[:, one], remainder), axis=1)
                unexplained[one, other] = _depends(columns, np.array([[0, 1]]))[0]
    return rejected, unexplained


def _depends(y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(pairs,) whether each depends beyond chance, all pairs together."""
    scores = _hsic(_Waves.of(y), pairs, _DRAWS)
    return np.asarray(scores[0] > np.quantile(scores[1:].max(1), 1 - LEVEL_HSIC))


class _Waves(NamedTuple):
    """Standardized components (dim, n, 1), their waves (dim, n, 12), and slopes of those; float32."""

    z: Tensor
    values: Tensor
    slopes: Tensor

    @classmethod
    def of(cls, y: np.ndarray) -> "_Waves":
        """Waves of components (n, dim)."""
        z = ((y - y.mean(0)) / y.std(0)).T[..., None]
        sine, cosine = np.sin(z * _WAVES), np.cos(z * _WAVES)
        values = np.concatenate((sine, cosine), axis=-1)
        slopes = np.concatenate((_WAVES * cosine, -_WAVES * sine), axis=-1)
        scale = np.maximum(values.std(1, keepdims=True), _MIN_WAVE_SCALE)
        values = (values - values.mean(1, keepdims=True)) / scale
        return cls(*(torch.from_numpy(part).float() for part in (z, values, slopes / scale)))


def _hsic(waves: _Waves, pairs: np.ndarray, draws: int) -> np.ndarray:
    """(1 + draws, pairs) squared covariances of waves, of the rows as they are and re-paired."""
    i, j = torch.from_numpy(pairs.T)
    first, second, count = waves.values[i], waves.values[j], waves.values.shape[1]
    # how a little of either component on the other changes the covariances
    changes = (waves.slopes[i] * waves.z[j]).mT @ second, first.mT @ (waves.slopes[j] * waves.z[i])
    basis = torch.linalg.qr(torch.stack([change.flatten(1) for change in changes], 2))[0]
    rng = numpy_generator(0, "independence", "orders")
    scores = []
    for draw in range(draws + 1):
        order = torch.from_numpy(rng.permutation(count) if draw else np.arange(count))
        covariance = (first.mT @ second[:, order]).flatten(1) / count
        scores.append(covariance.square().sum(1) - (covariance[:, None] @ basis).square().sum((1, 2)))
    return torch.stack(scores).numpy()
