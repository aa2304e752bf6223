"""Weights as functions of a pair: the methods behind `isotropise`.

Each takes a sample of pairs in the coordinates of the target, in which the wanted law of a pair is that of
the Ornstein-Uhlenbeck process of unit variance, and returns a function that gives log-weights to any pair.
All are symmetric in the two ends: features are even in the step v.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from isojepa.isotropise.pair_law import turn
from isojepa.isotropise.tilting import fit_tilt

_NUMBERS = 20_000_000  # entries of the largest feature matrix
_BINS = 16  # of each coordinate, equally likely under the target
_LEAST_ENDS = 20  # ends of pairs in a bin
_NEIGHBOURS = 32
_REFERENCE = 50_000  # pairs of the density estimate
_MOST_REWEIGHTED = 6  # coordinates: the density estimate has twice as many dimensions
_MOST_JOINT, _MOST_PAIRED = 3, 8  # coordinates whose moments are all taken, and those taken two by two


@dataclass(frozen=True)
class Frame:
    """Coordinates in which the target is N(0, I) and its correlation rho.

    Attributes:
        mean: (dim,) of the states.
        matrix: (dim, dim) whitens them and divides by the scale.
        scale: (dim,) standard deviations of the target in whitened coordinates.
        rho: correlation aimed at.
    """

    mean: np.ndarray
    matrix: np.ndarray
    scale: np.ndarray
    rho: float

    def enter(self, z: np.ndarray, z_next: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of pairs in these coordinates."""
        return (z - self.mean) @ self.matrix, (z_next - self.mean) @ self.matrix


@dataclass(frozen=True)
class Sample:
    """Pairs (n, dim) in the frame's coordinates with base weights (n,) that sum to 1."""

    z: np.ndarray
    z_next: np.ndarray
    base: np.ndarray
    frame: Frame

    def thinned(self, count: int) -> "Sample":
        """At most `count` of the pairs, evenly spaced."""
        if count >= len(self.z):
            return self
        rows = np.linspace(0, len(self.z) - 1, count).astype(np.int64)
        base = self.base[rows]
        return Sample(self.z[rows], self.z_next[rows], base / base.sum(), self.frame)


class Weigher(Protocol):
    """A fitted method."""

    @property
    def missed(self) -> float: ...

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs in the frame's coordinates, up to a constant."""
        ...


@dataclass(frozen=True)
class Tilted:
    """Log-weights linear in features of the pair."""

    features: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    missed: float

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        return np.asarray(self.features(z, z_next) @ self.coefficients)


def rates(sample: Sample, strength: float) -> Tilted:
    """One rate for all directions: first and second moments of (u, v) are those of N(0, I)."""
    return _by_moments(sample, strength, degree=2)


def moments(sample: Sample, strength: float) -> Tilted:
    """Moments of (u, v) up to degree four are those of N(0, I), as many as the dimension allows."""
    return _by_moments(sample, strength, degree=4)


def exponents(dim: int, degree: int) -> np.ndarray:
    """Exponents (features, 2 dim) of the monomials in (u, v) that are even in v.

    All of them up to 3 coordinates; those of at most two coordinates at once up to 8; beyond, those of single
    coordinates, with all products of degree two.
    """
    together = dim if dim <= _MOST_JOINT else 2 if dim <= _MOST_PAIRED else 1
    found = set()
    for total in range(1, degree + 1):
        span = max(together, 2) if total == 2 else together
        for coordinates in itertools.combinations(range(dim), min(span, dim)):
            columns = [*coordinates, *(dim + i for i in coordinates)]
            for chosen in itertools.combinations_with_replacement(columns, total):
                powers = np.bincount(chosen, minlength=2 * dim)
                if powers[dim:].sum() % 2 == 0:
                    found.add(tuple(powers.tolist()))
    return np.array(sorted(found), dtype=np.int64)


def marginals(sample: Sample, strength: float) -> Tilted:
    """The two ends of the pairs, taken together, are normal in each coordinate, up to bins."""
    edges = [_edges(np.concatenate((a, b))) for a, b in zip(sample.z.T, sample.z_next.T, strict=True)]

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        columns = []
        for axis, inner in enumerate(edges):
            places = np.searchsorted(inner, z[:, axis]), np.searchsorted(inner, z_next[:, axis])
            # the last bin follows from the others
            columns += [((places[0] == k) * 0.5 + (places[1] == k) * 0.5) for k in range(len(inner))]
        return np.stack(columns, 1)

    target = np.concatenate([np.diff(scipy.special.ndtr(inner), prepend=0.0) for inner in edges])
    thin = sample.thinned(_NUMBERS // len(target))
    tilt = fit_tilt(features(thin.z, thin.z_next), target, thin.base, strength)
    return Tilted(features, tilt.coefficients, tilt.missed)


@dataclass(frozen=True)
class Ratio:
    """strength * log of the normal density over a nearest-neighbour estimate of the data's."""

    tree: "scipy.spatial.cKDTree"
    rho: float
    strength: float
    missed: float = 0.0

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        y = np.hstack(turn(z, z_next, self.rho))
        reach = min(_NEIGHBOURS, self.tree.n)
        radius = np.asarray(self.tree.query(y, k=[reach])[0])[:, 0]
        # the density is k / (n volume r^d); constants cancel; equal points would make it infinite
        log_density = -y.shape[1] * np.log(np.maximum(radius, 1e-9))
        return np.asarray(self.strength * (-(y**2).sum(1) / 2 - log_density))


def reweight(sample: Sample, strength: float) -> Ratio:
    """The density ratio of the pair law, in few dimensions.

    Raises:
        ValueError: there are too many coordinates for a density estimate.
    """
    dim = sample.z.shape[1]
    if dim > _MOST_REWEIGHTED:
        raise ValueError(
            f"method 'reweight' estimates a density and takes at most {_MOST_REWEIGHTED} coordinates, got "
            f"{dim}: give a proxy of fewer, or use 'moments'"
        )
    thin = sample.thinned(_REFERENCE)
    rows = np.arange(len(thin.z))
    if np.ptp(thin.base) > 0:  # points of one weight in place of weighted ones
        places = (rows + 0.5) / len(rows)
        rows = np.searchsorted(np.cumsum(thin.base), places).clip(max=len(rows) - 1)
    u, v = turn(thin.z[rows], thin.z_next[rows], thin.frame.rho)
    # with every pair its reverse, so that the estimate is symmetric in time
    tree = scipy.spatial.cKDTree(np.concatenate((np.hstack((u, v)), np.hstack((u, -v)))))
    return Ratio(tree, sample.frame.rho, strength)


WEIGHERS: dict[str, Callable[[Sample, float], Weigher]] = {
    "rates": rates,
    "moments": moments,
    "marginals": marginals,
    "reweight": reweight,
}


def _by_moments(sample: Sample, strength: float, degree: int) -> Tilted:
    powers = exponents(sample.z.shape[1], degree)
    rho = sample.frame.rho

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        return _monomials(np.hstack(turn(z, z_next, rho)), powers)

    # E y^k of a standard normal: (k - 1)!! for even k, 0 for odd
    normal = np.array([math.prod(range(k - 1, 0, -2)) if k % 2 == 0 else 0.0 for k in range(degree + 1)])
    thin = sample.thinned(_NUMBERS // len(powers))
    tilt = fit_tilt(features(thin.z, thin.z_next), normal[powers].prod(1), thin.base, strength)
    return Tilted(features, tilt.coefficients, tilt.missed)


def _monomials(y: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(n, features) products of powers of the columns of y."""
    table = [np.ones_like(y), y]
    for _ in range(2, int(powers.max()) + 1):
        table.append(table[-1] * y)
    out = np.ones((len(y), len(powers)))
    for column, row in enumerate(powers):
        for axis in np.flatnonzero(row):
            out[:, column] *= table[row[axis]][:, axis]
    return out


def _edges(ends: np.ndarray) -> np.ndarray:
    """Inner edges of bins equally likely under N(0, 1), without those that hold next to no data."""
    inner = scipy.special.ndtri(np.arange(1, _BINS) / _BINS)
    while len(inner):
        counts = np.bincount(np.searchsorted(inner, ends), minlength=len(inner) + 1)
        least = int(counts.argmin())
        if counts[least] >= _LEAST_ENDS:
            break
        # join the poorest bin to the poorer of its neighbours
        left = least > 0 and (least == len(inner) or counts[least - 1] <= counts[least + 1])
        inner = np.delete(inner, least - 1 if left else least)
    return np.asarray(inner)
