"""Undo the increasing warp y = f(z) of one axis, without labels.

z is taken to follow a stationary, reversible diffusion of constant strength, dz = (log p)' dt + sqrt(2) dW
with any p. Every diffusion on the line has a coordinate in which that is so (Lamperti 1962), so it cannot be
tested: what comes out is the coordinate of constant diffusion, and that this is the latent one means is an
assumption. What is true without it is the order of the values.

    "increments"      from the variance of the increments of pairs, any lag: depends on the ranks alone
    "eigenfunction"   from the law of y alone, if y is the slowest eigenfunction of its diffusion, as the axes
                      of a best-aligned white embedding are
    "law"             z = F^-1(rank) for a law that is known or assumed

`isojepa.unmixing.lamperti` has the formulas. Intervals come from leaving out each of 20 blocks of successive
rows. They hold what a sample of this size leaves open, not what the assumption does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.distributions import NormalScores
from isojepa.distributions.densities import Density
from isojepa.statistics.intervals import from_blocks
from isojepa.unmixing.lamperti import Coordinate, from_eigenfunction, from_increments
from isojepa.unmixing.scores import BLOCKS, Scores, left_out
from isojepa.unmixing.values import as_numbers, check_levels, read_pairs, tail_index
from isojepa.validation import check_number, choose, short_repr, validate_types

_NEAR = 0.5  # correlation of pairs whose increments say something
_EQUAL = 1 - 1e-9  # correlation of pairs that are equal to rounding
_TRUE_ANYWAY = "what holds without this is the order of values"
_ASSUMPTIONS = {
    "increments": "the latent is the coordinate in which the axis diffuses equally strongly everywhere; "
    + _TRUE_ANYWAY,
    "eigenfunction": "the axis is the slowest eigenfunction of its diffusion, and the latent is the "
    f"coordinate in which that is equally strong everywhere; {_TRUE_ANYWAY}",
    "law": f"the latent has the law that was given; {_TRUE_ANYWAY}",
}


@dataclass(frozen=True, eq=False)
class Warp:
    """An increasing map from an axis y to a latent z of mean 0 and variance 1 on the data.

    Attributes:
        y: (k,) knots, increasing.
        z: (k,) values at them, increasing.
        low, high: (k,) ends of the interval of each value.
        method: "increments", "eigenfunction" or "law".
        assumption: what must be true for z to be the latent.
        reason: why this method and no other.
        agreement: squared correlation with the result of another method: of "eigenfunction", or, where it is
            the method, of "increments". None where there is no other.
        diffusion: of z per unit of time, dz = ... + sqrt(2 diffusion) dW; None without pairs.

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
            given = np.asarray(getattr(self, name))
            if given.dtype.kind not in "fiu" or given.ndim != 1 or len(given) < 2:
                raise ValueError(f"{name} must be at least 2 numbers, got {short_repr(getattr(self, name))}")
            if given.shape != np.shape(self.y) or not np.isfinite(given).all():
                raise ValueError(f"{name} must be finite, one for each of {np.size(self.y)} knots")
            object.__setattr__(self, name, given.astype(np.float64))
        for name in ("y", "z"):
            if not (np.diff(getattr(self, name)) > 0).all():
                raise ValueError(f"{name} must increase from knot to knot")
        if not ((self.low <= self.z) & (self.z <= self.high)).all():
            raise ValueError("low and high must enclose z at every knot")
        choose("method", self.method, _ASSUMPTIONS)
        for name in ("assumption", "reason"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be text, got {short_repr(getattr(self, name))}")
        if self.agreement is not None:
            check_number("agreement", self.agreement, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        if self.diffusion is not None:
            check_number("diffusion", self.diffusion, "be positive", lambda value: value > 0)

    def __call__(self, y: Any) -> np.ndarray:
        """z of each y, of any shape, float64; beyond the knots on the line of the last two.

        Raises:
            ValueError: a value is no finite number.
        """
        return _along(as_numbers("y", y), self.y, self.z)

    def inverse(self, z: Any) -> np.ndarray:
        """y of each z, of any shape: the exact inverse."""
        return _along(as_numbers("z", z), self.z, self.y)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, from which `from_dict` makes the same warp."""
        arrays = {name: getattr(self, name).tolist() for name in ("y", "z", "low", "high")}
        plain = ("method", "assumption", "reason", "agreement", "diffusion")
        return {**arrays, **{name: getattr(self, name) for name in plain}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Warp":
        """The warp of a dict that `to_dict` wrote.

        Raises:
            ValueError: something is missing, unknown, or not what a warp has.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"a warp must be a mapping, got {short_repr(values)}")
        names = cls.__dataclass_fields__.keys()
        if set(values) != set(names):
            raise ValueError(f"a warp must have {', '.join(names)}, got {short_repr(list(values))}")
        return cls(**values)


@validate_types
def dewarp(
    y: Any = None,
    y_next: Any = None,
    *,
    paths: Any = None,
    method: str | None = None,
    law: Density | None = None,
    lag: float = 1.0,
    confidence: float = 0.95,
) -> Warp:
    """Undo the warp of one axis, up to its sign, scale and origin.

    Args:
        y: (n,) values of the axis, at least 1,000, of many levels. Of any increasing function of the axis the
            result is the same, except with "eigenfunction".
        y_next: (n,) values `lag` later, row by row.
        paths: in place of both: (steps, paths), or a list of (steps_i,), neighbours `lag` apart.
        method: "increments", "eigenfunction" or "law". By default "law" if one is given, else "increments" if
            there are pairs whose normal scores correlate by at least 0.5, else "eigenfunction".
        law: of z, for "law": anything with `log_density` and `support`.
        lag: time between the two of a pair: the unit of `diffusion`, nothing else depends on it.
        confidence: of the intervals.

    Raises:
        ValueError: values are too few, constant, not finite, of few levels, or of different lengths; pairs
            are missing or too far apart for "increments"; the tails are too heavy for "eigenfunction", which
            has a variance: Hill's estimate of their index is more than two standard errors below 2.

    Example:
        >>> from isojepa.distributions import Uniform
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import Langevin
        >>> z, z_next = Langevin(dim=1, law=Uniform(), rho=0.9).sample(20_000, generator(0, "data"))
        >>> warp = dewarp(z[:, 0].exp(), z_next[:, 0].exp())
        >>> warp.method, bool(np.corrcoef(warp(z[:, 0].exp()), z[:, 0])[0, 1] > 0.999)
        ('increments', True)
    """
    check_number("lag", lag, "be positive and finite", lambda value: value > 0)
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    if method is not None:
        choose("method", method, _ASSUMPTIONS)
    first, second = read_pairs(y, y_next, paths)
    block = np.arange(len(first)) * BLOCKS // len(first)
    both = first if second is None else np.concatenate((first, second))
    check_levels(both)
    scores = Scores.of(both, block if second is None else np.tile(block, 2))
    correlation = None
    if second is not None:
        correlation = float(np.corrcoef(scores.u[: len(first)], scores.u[len(first) :])[0, 1])
    method, reason = _choose_method(method, law, correlation)
    index, error = tail_index(both)
    heavy = index + 2 * error < 2
    if method == "eigenfunction" and heavy:
        raise ValueError(
            f"y must have a variance to be an eigenfunction, got tails of index {index:.2g} +- {error:.1g}, "
            "below 2: bring pairs that are near each other, or a law, for which only ranks matter"
        )
    near = correlation is not None and _NEAR <= correlation <= _EQUAL
    increments = from_increments(scores) if near and method != "law" else None
    eigenfunction = None if heavy else from_eigenfunction(scores, both)
    if method == "law":
        assert law is not None  # _choose_method refuses that
        found, other = _from_law(scores, law), eigenfunction
    elif method == "increments":
        assert increments is not None  # the same
        found, other = increments, eigenfunction
        if not found.settled:
            reason += ", though the steps of the fit did not end: take the result as rough"
    else:
        assert eigenfunction is not None  # raised above
        found, other = eigenfunction, increments
    z = scores.at(found.z)
    center, scale = float(z.mean()), float(z.std())
    agreement = None if other is None else float(np.corrcoef(z, scores.at(other.z))[0, 1]) ** 2
    diffusion = 1 / (scale**2 * lag) if method == "increments" else None
    return _warp(scores, found, (center, scale), confidence, method, reason, agreement, diffusion)


def _choose_method(method: str | None, law: Density | None, correlation: float | None) -> tuple[str, str]:
    """The method, and why."""
    asked = method is not None
    if method == "law" and law is None:
        raise ValueError("method 'law' needs a law, got none")
    if law is not None and method not in (None, "law"):
        raise ValueError(f"a law is used by method 'law' alone, got method {method!r} with one")
    if law is not None:
        return "law", "a law was given"
    if correlation is None:
        if method == "increments":
            raise ValueError("method 'increments' needs pairs, y and y_next, or paths, got values alone")
        return "eigenfunction", "it was asked for" if asked else "there are no pairs"
    told = f"normal scores of the pairs correlate by {correlation:.3g}"
    if method == "eigenfunction":
        return method, "it was asked for"
    if correlation > _EQUAL:
        raise ValueError(f"pairs must differ, got equal ones: {told}")
    if correlation >= _NEAR:
        return "increments", "it was asked for" if asked else f"{told}, at least {_NEAR}"
    if asked:
        raise ValueError(
            f"pairs must be near each other for method 'increments': {told}, below {_NEAR}; "
            "use a shorter lag, or another method"
        )
    return "eigenfunction", f"{told}, below {_NEAR}: too far apart for 'increments'"


def _from_law(scores: Scores, law: Density) -> Coordinate:
    """z = F^-1(rank), with the ranks without each block."""
    to_z = NormalScores(law).to_z
    below = np.cumsum(left_out(scores.tallied()), axis=1)
    # how far leaving out a block moves the scores of the edges, and so those of the knots between them
    shares = (below[:, :-1] + 0.5) / (below[:, -1:] + 1)
    shift = scipy.special.ndtri(shares) - scipy.special.ndtri(shares[0])
    moved = [scores.knots + np.interp(scores.knots, scores.edges, row) for row in shift]
    found = [to_z(torch.from_numpy(np.maximum.accumulate(row))).numpy() for row in moved]
    return Coordinate(found[0], np.stack(found[1:]))


def _warp(
    scores: Scores,
    found: Coordinate,
    standard: tuple[float, float],
    confidence: float,
    method: str,
    reason: str,
    agreement: float | None,
    diffusion: float | None,
) -> Warp:
    """The warp of a coordinate, with intervals at its knots."""
    center, scale = standard
    z = (found.z - center) / scale
    # each left-out coordinate in its own units: mean 0 and variance 1 over the rows that are left
    mass = left_out(scores.tallied())[1:]
    mass = mass / mass.sum(1, keepdims=True)
    inner = found.left_out[:, 1:-1]
    middle = (inner * mass).sum(1)
    spread = np.sqrt(((inner - middle[:, None]) ** 2 * mass).sum(1))
    others = (found.left_out - middle[:, None]) / spread[:, None]
    ends = [from_blocks(at, column, confidence) for at, column in zip(z, others.T, strict=True)]
    low, high = (np.array([getattr(end, name) for end in ends]) for name in ("low", "high"))
    keep = [0]
    for at in range(1, len(z)):  # ties and rounding can hold knots together
        if scores.values[at] > scores.values[keep[-1]] and z[at] > z[keep[-1]]:
            keep.append(at)
    return Warp(
        y=scores.values[keep],
        z=z[keep],
        low=low[keep],
        high=high[keep],
        method=method,
        assumption=_ASSUMPTIONS[method],
        reason=reason,
        agreement=None if agreement is None else min(max(agreement, 0.0), 1.0),
        diffusion=diffusion,
    )


def _along(at: np.ndarray, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The line through the knots, which goes on as it ends."""
    found = np.interp(at, x, values)
    first, last = (values[1] - values[0]) / (x[1] - x[0]), (values[-1] - values[-2]) / (x[-1] - x[-2])
    found = np.where(at < x[0], values[0] + first * (at - x[0]), found)
    return np.asarray(np.where(at > x[-1], values[-1] + last * (at - x[-1]), found))
