r"""Invert the increasing warp y = f(z) of one component, without labels.

z is taken to follow a stationary, reversible diffusion of constant strength, dz = (log p)' dt + sqrt(2) dW,
with any density p. Every diffusion on the line has a coordinate in which that holds, z = integral of dy /
sqrt(D(y)) (Lamperti 1962), so it cannot be tested: the result is the coordinate of constant diffusion, and
that this is the latent one means is an assumption. The order of the values is right without it.

Normal scores u = Phi^-1(rank) do not change under increasing functions of y. The coordinate is dz/du =
exp(g(u)), with g in cubic B-splines: constant for the normal distribution, -u^2 / 2 + constant for the
uniform one. Third differences of the coefficients are penalized, with a tenth of the penalty of the largest
marginal likelihood: z is an average of slopes, for which less is better. Cells are cut at equal parts of
phi(u)^(1/3) (Panter & Dite 1951).

"increments": D(y) is the limit of E[(y' - y)^2 | y] / 2t for short times t. For other times that is biased.
But p, and with it every transition, is known once z is: the diffusion of z jumps between neighboring cells,
of masses m and mean scores u_i, with

    conductance  phi(u_f) exp(-2 g(u_f)) / (u_{i+1} - u_i)      at the face f between i and i + 1,

and its generator gives v(z) = E[(z' - z)^2 | z] after one lag. g is the one whose v is that of the pairs,
each cell weighted by its count: Newton's steps, with the exact derivative of the matrix exponential
(Daleckii & Krein 1965). Both sides of a pair count, as the process is reversible. The remaining bias is of
the order of the squared width of the cells. Only ranks matter, and any lag will do.

"eigenfunction": if y is the slowest eigenfunction of its diffusion, as the components of a best-aligned white
embedding are, its drift is -lambda y, and no flux means D(y) q(y) = lambda S(y), S(y) = integral of w q(w) dw
over w > y, so dz ~ sqrt(dF dy / S) from the distribution of y alone.

Intervals come from leaving out each of `BLOCKS` blocks of consecutive rows. They hold the sampling error, not
that of the assumption.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.arrays import check_dense
from isojepa.statistics.intervals import from_blocks
from isojepa.validation import check_number, choose, short_repr, validate_type, validate_types

BLOCKS = 20
MIN_ROWS, MIN_LEVELS = 1000, 200
MAX_ATOM = 0.05  # share of one value: what is flat cannot be inverted
MAX_SIZE = 1e100  # squares of larger numbers leave float64
MIN_CORRELATION, MAX_CORRELATION = 0.5, 1 - 1e-9  # of pairs whose increments can be used
MIN_TAIL_INDEX = 2.0  # below it there is no variance, and no eigenfunction
_MIN_CELLS, _MAX_CELLS, _CELL_VALUES = 24, 128, 80
_TAIL_VALUES = 20  # beyond which the slope is constant
_END_GAP = 0.01  # of the extremes from the means of the last cells, in u, at least
_SPACING = 0.15  # of the knots of splines, in u
_PENALTIES, _PENALTY_FRACTION = [10.0**power for power in np.arange(2.0, -7.0, -0.5)], 0.1
_STEPS, _FREE_STEPS, _HALVINGS = 25, 8, 5  # of Newton; those with a new penalty; of one step
_MAX_CHANGE, _SETTLED = 1.0, 1e-3  # of g in a step; of z, in standard deviations, that ends
_ORDER = "the order of values holds without this"
_ASSUMPTIONS = {
    "increments": "the latent is the coordinate in which the component diffuses equally strongly "
    f"everywhere; {_ORDER}",
    "eigenfunction": "the component is the slowest eigenfunction of its diffusion, and the latent is the "
    f"coordinate in which that is equally strong everywhere; {_ORDER}",
}


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """An increasing map from a component y to a latent z of mean 0 and variance 1 on the data.

    Attributes:
        y, z: (k,) knots and values at them, increasing.
        low, high: (k,) ends of the interval of each value.
        method: "increments" or "eigenfunction".
        assumption: under which z is the latent.
        reason: why this method was used.
        agreement: squared correlation with the result of the other method, "eigenfunction" or "increments";
            None where there is no other.
        diffusion: of z per lag, dz = ... + sqrt(2 diffusion) dW; None without pairs.

    Raises:
        ValueError: knots or values do not increase, or something is not finite.
    """

    y: np.ndarray
    z: np.ndarray
    low: np.ndarray
    high: np.ndarray
    method: str
    assumption: str
    reason: str
    agreement: float | None = None
    diffusion: float | None = None

    def __post_init__(self) -> None:
        for name in ("y", "z", "low", "high"):
            values = as_numbers(name, getattr(self, name))
            if values.ndim != 1 or len(values) < 2 or values.shape != np.shape(self.y):
                raise ValueError(f"{name} must be finite, one for each of at least 2 knots")
            if name in ("y", "z") and not (np.diff(values) > 0).all():
                raise ValueError(f"{name} must increase from knot to knot")
            object.__setattr__(self, name, values)
        if not ((self.low <= self.z) & (self.z <= self.high)).all():
            raise ValueError("low and high must enclose z at every knot")
        choose("method", self.method, _ASSUMPTIONS)
        for name in ("assumption", "reason", "agreement", "diffusion"):
            validate_type(
                name, getattr(self, name), str if name in ("assumption", "reason") else float | None
            )

    def __call__(self, y: Any) -> np.ndarray:
        """z of each y, of any shape, float64; beyond the knots on the line of the last two."""
        return _interpolate(as_numbers("y", y), self.y, self.z)

    def inverse(self, z: Any) -> np.ndarray:
        """y of each z, of any shape: the exact inverse."""
        return _interpolate(as_numbers("z", z), self.z, self.y)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_dict` makes the same map."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "MonotoneMap":
        """The map of a dict that `to_dict` wrote.

        Raises:
            ValueError: something is missing, unknown, or invalid.
        """
        names = cls.__dataclass_fields__.keys()
        if not isinstance(values, Mapping) or set(values) != set(names):
            raise ValueError(f"a map must have {', '.join(names)}, got {short_repr(values)}")
        return cls(**values)


@validate_types
def invert_warp(
    y: Any,
    y_next: Any = None,
    *,
    method: str | None = None,
    confidence: float = 0.95,
) -> MonotoneMap:
    """Invert the warp of one component, up to sign, scale and origin.

    Args:
        y: (n,) values of the component, at least 1,000, of many levels. Of any increasing function of it the
            result is the same, except with "eigenfunction".
        y_next: (n,) values one lag later, row by row.
        method: "increments" or "eigenfunction". By default "increments" if there are pairs whose normal
            scores correlate by at least 0.5, else "eigenfunction".
        confidence: of the intervals.

    Raises:
        ValueError: values are too few, constant, not finite, of few levels, or of different lengths; pairs
            are missing or too far apart for "increments"; tails are too heavy for "eigenfunction", which has
            a variance: Hill's estimate of their index is more than two standard errors below 2.

    Example:
        >>> from isojepa.distributions import Uniform
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import Langevin
        >>> z, z_next = Langevin(dim=1, law=Uniform(), rho=0.9).sample(20_000, generator(0, "data"))
        >>> to_latent = invert_warp(z[:, 0].exp(), z_next[:, 0].exp())
        >>> to_latent.method, bool(np.corrcoef(to_latent(z[:, 0].exp()), z[:, 0])[0, 1] > 0.999)
        ('increments', True)
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    if method is not None:
        choose("method", method, _ASSUMPTIONS)
    views = [_column("y", y)] + ([] if y_next is None else [_column("y_next", y_next)])
    count = len(views[0])
    if len(views[-1]) != count:
        raise ValueError(f"y and y_next must be equally long, got {count} and {len(views[1])}")
    if count < MIN_ROWS:
        raise ValueError(f"at least {MIN_ROWS} values are needed to invert a warp, got {count}")
    values = np.concatenate(views)
    _check_levels(values)
    scores = Scores.of(values, np.tile(np.arange(count) * BLOCKS // count, len(views)))
    correlation = None
    if y_next is not None:
        correlation = float(np.corrcoef(scores.u[:count], scores.u[count:])[0, 1])
    index, error = _tail_index(values)
    heavy = index + 2 * error < MIN_TAIL_INDEX
    near = correlation is not None and MIN_CORRELATION <= correlation <= MAX_CORRELATION
    method, reason = _choose_method(method, correlation)
    if method == "eigenfunction" and heavy:
        raise ValueError(
            f"y must have a variance to be an eigenfunction, got tails of index {index:.2g} +- {error:.1g}, "
            "below 2: bring pairs that are near each other, of which only ranks matter"
        )
    coordinates = {}
    if near:
        coordinates["increments"], settled = _from_increments(scores)
        if method == "increments" and not settled:
            reason += ", though the steps of the fit did not end: take the result as rough"
    if not heavy:
        coordinates["eigenfunction"] = _from_eigenfunction(scores, values)
    knots = coordinates.pop(method)
    agreement = None
    z = scores.at(knots[0])
    for other in coordinates.values():
        agreement = min(max(float(np.corrcoef(z, scores.at(other[0]))[0, 1]), 0.0) ** 2, 1.0)
    # each coordinate in its own units, mean 0 and variance 1 over the rows that it is of
    mass = left_out(scores.tally())
    mass = mass / mass.sum(1, keepdims=True)
    mass[0] = scores.mass
    inner = knots[:, 1:-1]
    mean = (inner * mass).sum(1)
    scale = np.sqrt(((inner - mean[:, None]) ** 2 * mass).sum(1))
    mean[0], scale[0] = z.mean(), z.std()
    knots = (knots - mean[:, None]) / scale[:, None]
    keep = [0]
    for at in range(1, knots.shape[1]):  # ties and rounding can hold knots together
        if scores.values[at] > scores.values[keep[-1]] and knots[0, at] > knots[0, keep[-1]]:
            keep.append(at)
    intervals = [from_blocks(column[0], column[1:], confidence) for column in knots.T[keep]]
    return MonotoneMap(
        y=scores.values[keep],
        z=knots[0, keep],
        low=np.array([interval.low for interval in intervals]),
        high=np.array([interval.high for interval in intervals]),
        method=method,
        assumption=_ASSUMPTIONS[method],
        reason=reason,
        agreement=agreement,
        diffusion=float(1 / scale[0] ** 2) if method == "increments" else None,
    )


def _choose_method(method: str | None, correlation: float | None) -> tuple[str, str]:
    """The method, and why."""
    if method == "eigenfunction":
        return method, "the caller chose it"
    if correlation is None:
        if method == "increments":
            raise ValueError("method 'increments' needs pairs, y and y_next, got values alone")
        return "eigenfunction", "there are no pairs"
    measured = f"normal scores of the pairs correlate by {correlation:.3g}"
    if correlation > MAX_CORRELATION:
        raise ValueError(f"pairs must differ, got equal ones: {measured}")
    if correlation >= MIN_CORRELATION:
        return "increments", f"{measured}, at least {MIN_CORRELATION}"
    if method == "increments":
        raise ValueError(
            f"pairs must be near each other for method 'increments': {measured}, below {MIN_CORRELATION}; "
            "use a shorter lag, or another method"
        )
    return "eigenfunction", f"{measured}, below {MIN_CORRELATION}: too far apart for 'increments'"


def as_numbers(name: str, values: Any) -> np.ndarray:
    """Finite numbers of any shape, float64, whose squares are numbers."""
    if isinstance(values, torch.Tensor):
        check_dense(name, values)
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    try:
        numbers = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        numbers = np.array(None)
    if numbers.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {short_repr(values)}")
    numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(numbers)).sum())} NaN or Inf")
    check_size(name, numbers)
    return numbers


def check_size(name: str, values: np.ndarray) -> None:
    """Refuse numbers whose squares are none."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > MAX_SIZE:
        raise ValueError(f"{name} must be below {MAX_SIZE:g} in size, got {largest:.3g}")


def _column(name: str, values: Any) -> np.ndarray:
    column = as_numbers(name, values)
    if column.ndim != 1:
        raise ValueError(f"{name} must be (n,), one component at a time, got shape {column.shape}")
    return column


def _check_levels(values: np.ndarray) -> None:
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        raise ValueError(f"y must vary, got {len(values)} times {values[0]:.6g}")
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) < MIN_LEVELS:
        raise ValueError(
            f"y has {len(levels)} distinct values: at least {MIN_LEVELS} are needed, for a discrete latent "
            "has no diffusion to invert a warp by"
        )
    most = int(counts.argmax())
    if counts[most] > MAX_ATOM * len(values):
        raise ValueError(
            f"y must be continuous, got the value {levels[most]:.6g} in {counts[most] / len(values):.1%} of "
            f"the rows, above {MAX_ATOM:.0%}: what is flat cannot be inverted"
        )


def _tail_index(values: np.ndarray) -> tuple[float, float]:
    """Hill's (1975) index of the tails, from the sqrt(n) values farthest from the median, and its error."""
    distances = np.abs(values - np.median(values))
    count = math.isqrt(len(values))
    farthest = np.sort(np.partition(distances, -count - 1)[-count - 1 :])
    index = 1 / max(float(np.log(farthest[1:] / farthest[0]).mean()), 1e-300)
    return index, index / math.sqrt(count)


def _interpolate(at: np.ndarray, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear interpolation, continued with the slope of either end."""
    first, last = (values[1] - values[0]) / (x[1] - x[0]), (values[-1] - values[-2]) / (x[-1] - x[-2])
    inside = np.interp(at, x, values)
    inside = np.where(at < x[0], values[0] + first * (at - x[0]), inside)
    return np.asarray(np.where(at > x[-1], values[-1] + last * (at - x[-1]), inside))


@dataclass(frozen=True, eq=False)
class Scores:
    """Values of one component by rank.

    Attributes:
        u: (n,) normal scores; ties share one.
        block: (n,) which of `BLOCKS` blocks of consecutive rows a value belongs to.
        cell: (n,) which of K cells.
        edges: (K - 1,) inner ends of the cells, in u.
        mass: (K,) of the cells.
        knots: (K + 2,) in u, ascending: the smallest score, the means of the cells, the largest.
        values: (K + 2,) of the component at the knots.
        reach: |u| beyond which slopes are constant.
    """

    u: np.ndarray
    block: np.ndarray
    cell: np.ndarray
    edges: np.ndarray
    mass: np.ndarray
    knots: np.ndarray
    values: np.ndarray
    reach: float

    @classmethod
    def of(cls, values: np.ndarray, block: np.ndarray) -> "Scores":
        """Scores of values (n,), each in a block."""
        n, u = len(values), normal_scores(values)
        count, reach = int(np.clip(n // _CELL_VALUES, _MIN_CELLS, _MAX_CELLS)), -_quantile(_TAIL_VALUES / n)
        wide = math.sqrt(3.0)  # phi^(1/3) is a normal density of variance 3
        end = float(scipy.special.ndtr(reach / wide))
        edges = wide * np.asarray(scipy.special.ndtri(np.linspace(1 - end, end, count + 1)[1:-1]))
        outer = np.concatenate(([-np.inf], edges, [np.inf]))
        mass = np.diff(scipy.special.ndtr(outer))
        means = -np.diff(_normal_density(outer)) / mass
        # values that are equal at an end share a score, which may lie within the last cell
        ends = min(u.min(), means[0] - _END_GAP), max(u.max(), means[-1] + _END_GAP)
        knots = np.concatenate((ends[:1], means, ends[1:]))
        at_knots = np.interp(scipy.special.ndtr(knots) * n - 0.5, np.arange(n), np.sort(values))
        return cls(u, block, np.searchsorted(edges, u), edges, mass, knots, at_knots, reach)

    def tally(self, weights: np.ndarray | None = None) -> np.ndarray:
        """(BLOCKS, K) number of values, or sum of weights (n,), by block and cell."""
        count = len(self.mass)
        table: np.ndarray = np.bincount(self.block * count + self.cell, weights, BLOCKS * count)
        return table.reshape(BLOCKS, count)

    def at(self, z: np.ndarray) -> np.ndarray:
        """(n,) z of each value, from z at the knots (K + 2,)."""
        return np.asarray(np.interp(self.u, self.knots, z))


def normal_scores(values: np.ndarray) -> np.ndarray:
    """(n,) Phi^-1 of the ranks of values; ties share one."""
    return np.asarray(scipy.special.ndtri((scipy.stats.rankdata(values) - 0.5) / len(values)))


def left_out(table: np.ndarray) -> np.ndarray:
    """(BLOCKS + 1, ...) sums over all blocks, and over all but each, from sums by block (BLOCKS, ...)."""
    total = table.sum(0)
    return np.concatenate((total[None], total - table))


def _quantile(probability: float) -> float:
    return float(scipy.special.ndtri(probability))


def _normal_density(u: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi))


class _Splines:
    """Cubic B-splines of u, constant beyond `reach`, with a penalized third derivative."""

    def __init__(self, reach: float) -> None:
        steps = max(4, round(2 * reach / _SPACING))
        width = 2 * reach / steps
        self._knots = -reach + width * np.arange(-3, steps + 4)
        third = np.diff(np.eye(steps + 3), 3, axis=0) / width**2.5
        self.penalty = third.T @ third

    def basis(self, u: np.ndarray) -> np.ndarray:
        """(len(u), J) values of the splines."""
        inside = np.clip(u, self._knots[3], self._knots[-4])
        return np.asarray(scipy.interpolate.BSpline.design_matrix(inside, self._knots, 3).toarray())

    def solve(
        self, design: np.ndarray, target: np.ndarray, weights: np.ndarray, penalty: float | None = None
    ) -> tuple[np.ndarray, float]:
        """Penalized least squares of target (m,) on design (m, J), weights 1 / variance; and the penalty."""
        gram, moment = design.T @ (weights[:, None] * design), design.T @ (weights * target)
        count = len(gram)

        def solution(weight: float) -> tuple[np.ndarray, float]:
            """For one penalty, and its log evidence."""
            # stiffer by a rounding: where a spline has next to no weight, all are equally good
            factor = scipy.linalg.cho_factor(
                gram + weight * self.penalty + 1e-12 * np.trace(gram) * np.eye(count)
            )
            theta = scipy.linalg.cho_solve(factor, moment)
            misfit = weights @ (target - design @ theta) ** 2 + weight * theta @ self.penalty @ theta
            determinant = 2 * np.log(np.diag(factor[0])).sum()
            return theta, float((count - 3) * math.log(weight) - determinant - misfit) / 2

        if penalty is None:
            penalty = _PENALTY_FRACTION * max(_PENALTIES, key=lambda weight: solution(weight)[1])
        return solution(penalty)[0], penalty


def _from_increments(scores: Scores) -> tuple[np.ndarray, bool]:
    """(BLOCKS + 1, K + 2) z at the knots, of all rows and without each block; whether the steps ended.

    Args:
        scores: of first and second values of n pairs, (2 n,): the second of pair i at n + i.
    """
    pairs = len(scores.u) // 2
    splines = _Splines(scores.reach)
    nodes = scores.knots[1:-1]
    widths, basis, density = np.diff(nodes), splines.basis(scores.edges), _normal_density(scores.edges)
    counts = scores.tally()
    total = counts.sum(0)
    # a pair with both sides in one cell is one increment there, counted twice
    twice = np.tile(scores.cell[:pairs] == scores.cell[pairs:], 2)
    weights = total / (2 * (1 + scores.tally(twice).sum(0) / np.maximum(total, 1)))

    def misfit(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log of measured over expected variance by cell, its derivative, and squares by block and cell."""
        slope = np.exp(basis @ theta)
        z = _at_knots(slope * widths, scores.knots)
        each = scores.at(z)
        squares = scores.tally(np.tile((each[pairs:] - each[:pairs]) ** 2, 2))
        conductance = density / slope**2 / widths
        expected, by_conductance = expected_increments(z[1:-1], scores.mass, conductance)
        # a slope moves the places of both variances alike: only the jumps between them distinguish the two
        derivative = 2 * (by_conductance * conductance / expected[:, None]) @ basis
        return _log_ratio(squares.sum(0), total, expected), derivative, squares

    def cost(theta: np.ndarray, ratio: np.ndarray, penalty: float) -> float:
        return float(weights @ ratio**2 + penalty * theta @ splines.penalty @ theta)

    time = -math.log(float(np.corrcoef(scores.u[:pairs], scores.u[pairs:])[0, 1]))
    theta = np.full(len(splines.penalty), -0.5 * math.log(time))  # a normal distribution
    # Lamperti's formula as it stands is the first guess
    change, penalty = splines.solve(splines.basis(nodes), -misfit(theta)[0] / 2, weights)
    theta = theta + change
    ratio, derivative, squares = misfit(theta)
    settled = False
    for step in range(_STEPS):
        fixed = penalty if step >= _FREE_STEPS else None
        target, penalty = splines.solve(derivative, derivative @ theta - ratio, weights, fixed)
        way = (target - theta) * (1.0 if fixed is None else 0.5)  # half steps end cycles
        way *= min(1.0, _MAX_CHANGE / max(float(np.abs(basis @ way).max()), 1e-300))
        before = cost(theta, ratio, penalty)
        for _ in range(_HALVINGS):
            ratio, derivative, squares = misfit(theta + way)
            if cost(theta + way, ratio, penalty) <= before + 1:  # 1 is noise: costs are chi-squares
                break
            way /= 2
        distances = np.exp(basis @ theta) * widths
        deviation, moved = (_deviation(part, scores.mass) for part in (distances, distances * (basis @ way)))
        theta = theta + way
        if moved <= _SETTLED * deviation:
            settled = True
            break
    # one Newton's step from the fit without each block, in cells that stay where they are in y
    slope = np.exp(basis @ theta)
    z = np.concatenate(([0.0], np.cumsum(slope * widths)))
    sums, sizes = left_out(squares), left_out(counts)
    shares = np.maximum(sizes, 0.5) / np.maximum(sizes[0], 0.5)
    ratios = []
    for share, sums_left, sizes_left in zip(shares, sums, sizes, strict=True):
        mass = scores.mass * share
        conductance = density / slope**2 / widths * np.sqrt(share[1:] * share[:-1]) / mass.sum()
        expected, _ = expected_increments(z, mass / mass.sum(), conductance)
        ratios.append(_log_ratio(sums_left, sizes_left, expected))
    # at the fit the penalty and the misfit balance: only what the block changes moves it
    moves = [splines.solve(derivative, ratios[0] - ratio, weights, penalty)[0] for ratio in ratios]
    knots = [_at_knots(np.exp(basis @ (theta + move)) * widths, scores.knots) for move in moves]
    return np.stack(knots), settled


def _deviation(distances: np.ndarray, mass: np.ndarray) -> float:
    """Standard deviation of the nodes (K,) at distances (K - 1,); few values lie at the ends."""
    z = np.concatenate(([0.0], np.cumsum(distances)))
    return math.sqrt(mass @ (z - mass @ z) ** 2)


def _at_knots(distances: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(K + 2,) z from the distances (K - 1,) between the inner knots, with the same slope beyond them."""
    slopes = distances / np.diff(knots[1:-1])
    ends = slopes[[0, -1]] * np.diff(knots)[[0, -1]]
    return np.concatenate(([0.0], np.cumsum(np.concatenate((ends[:1], distances, ends[1:])))))


def _log_ratio(squares: np.ndarray, counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """log of measured over expected variance; 0 in cells without increments, which ties leave."""
    filled = (counts > 0) & (squares > 0) & (expected > 0)
    return np.log(np.where(filled, squares / np.where(filled, counts * expected, 1.0), 1.0))


def expected_increments(
    z: np.ndarray, mass: np.ndarray, conductance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[(z' - z)^2 | z] in each cell after a unit of time, and its derivative (K, K - 1) by conductance."""
    z, root = z - mass @ z, np.sqrt(mass)
    diagonal = np.zeros(len(z))
    diagonal[:-1] += conductance / mass[:-1]
    diagonal[1:] += conductance / mass[1:]
    values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, -conductance / (root[:-1] * root[1:]))
    values = np.maximum(values, 0.0)
    decay = np.exp(-values)
    powers = vectors.T @ (root[:, None] * np.stack((z, z**2), axis=1))
    means = (vectors @ (decay[:, None] * powers)) / root[:, None]
    expected = means[:, 1] - 2 * z * means[:, 0] + z**2
    # divided differences of exp(-value); the derivative where two are equal to rounding
    gaps = values[:, None] - values
    near = np.abs(gaps) < 1e-6
    divided = np.where(
        near, np.exp(-(values[:, None] + values) / 2), (decay - decay[:, None]) / np.where(near, 1.0, gaps)
    )
    # the generator is the sum over faces of conductance b b', with b = 1 / root of the two cells beside it
    jumps = vectors[:-1].T / root[:-1] - vectors[1:].T / root[1:]
    by_first, by_second = (
        -(vectors @ (jumps * (divided @ (jumps * powers[:, [at]])))) / root[:, None] for at in (0, 1)
    )
    return expected, by_second - 2 * z[:, None] * by_first


def _from_eigenfunction(scores: Scores, values: np.ndarray) -> np.ndarray:
    """(BLOCKS + 1, K + 2) z at the knots, in which values (n,) are the slowest eigenfunction."""
    distinct = np.concatenate(([True], np.diff(scores.values) > 0))  # ties can hold two knots together
    y, knots = scores.values[distinct], scores.knots[distinct]
    count = len(y) - 1
    place = scores.block * count + np.searchsorted(y[1:-1], values)
    scale = float(np.abs(y).max())
    sizes = left_out(np.bincount(place, minlength=BLOCKS * count).reshape(BLOCKS, count))
    sums = left_out(np.bincount(place, values / scale, BLOCKS * count).reshape(BLOCKS, count))
    splines, steps = _Splines(scores.reach), np.diff(knots)
    basis = splines.basis((knots[1:] + knots[:-1]) / 2)
    weights = 4.0 * sizes[0]  # given the counts, distances vary by 1 / sqrt(count), and z by half of that
    coordinates, penalty = [], None
    for size, total in zip(sizes, sums, strict=True):
        number = size.sum()
        below = np.concatenate(([0.0], np.cumsum(total - total.sum() / number * size))) / number
        flux = -(below[1:] + below[:-1]) / 2
        filled = (size > 0) & (flux > 0)
        square = np.where(filled, size / number * np.diff(y) / scale / np.where(filled, flux, 1.0), 1.0)
        target = np.log(square) / 2 - np.log(steps)
        theta, penalty = splines.solve(basis, target, np.where(filled, weights, 0.0), penalty)
        z = np.concatenate(([0.0], np.cumsum(np.exp(basis @ theta) * steps)))
        coordinates.append(np.interp(scores.knots, knots, z))
    return np.stack(coordinates)
