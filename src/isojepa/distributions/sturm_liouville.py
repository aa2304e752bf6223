"""Eigenfunctions of reversible diffusions: domains, cells, and the Sturm-Liouville problem.

Eigenvalues and eigenfunctions of the reversible diffusion with a given stationary law.

For a density p on the line the generator of the Langevin process with unit diffusion is

    L f = (1 / p) (p f')' = f'' + (log p)' f',     -L phi_k = lambda_k phi_k,   0 = lambda_0 < lambda_1 < ...

with no flux p f' at the ends. E phi_j phi_k = delta_jk under p, corr(phi_k(z_0), phi_k(z_t)) = exp(-lambda_k
t), and phi_k has exactly k zeros (Sturm's oscillation theorem), so phi_1 is monotone. It is the first thing a
whitened, aligned embedding learns; it is affine for the normal law alone, where phi_k is Hermite's polynomial
and lambda_k = k (Sprekeler, Zito & Wiskott 2014; Klindt, LeCun & Balestriero 2026, Appendix B).

Finite volumes on N equal cells of the coordinate s of a domain: masses m = p z'(s) at the
middles, conductances k = p / z'(s) at the faces. The symmetric tridiagonal matrix with

    off-diagonal  -k_f / sqrt(m_i m_{i+1}),      diagonal  (k_left + k_right) / m_i

needs only differences of log p, annihilates sqrt(m) exactly, and has errors O(N^-2) for smooth p. N doubles,
with Richardson's extrapolation, until two extrapolations agree; then the domain grows until that changes
nothing. What is left is reported in `error`.

Where a density lives on the line, a coordinate that resolves it, and how fast its tails fall.

A density p is known by log p alone, so far tails do not underflow. The domain of drop T is the interval where
log p is within T of its maximum, cut to the support. On it the coordinate s with

    z(s) = median + S sinh(s),   S twice the interquartile range,

is even near the middle and logarithmic far out: one grid serves light and heavy tails. Between two finite
ends the coordinate is z itself.

The generator f'' + (log p)' f' has the spectrum of the Schroedinger operator -f'' + V f with the potential
V = s^2 / 4 + s' / 2, s = (log p)'. Where V stays bounded far out, the spectrum above its limit is continuous
(Persson 1960). With log p ~ -|z|^b the potential diverges exactly for b > 1, i.e. where the score does; the
exponent is read off as b = d log|log p| / d log|z| where p has dropped by e^-10000, and b <= 1.005 counts as
bounded.

A law cut into cells, and the reversible jump process between them.

The line is cut where equal shares of p^(1/3) lie, which for a given number of cells makes the variance
within them smallest (Panter & Dite 1951), mixed with a small share of even cells so that tails stay resolved.
With the mass m_i and the mean c_i of each cell and the density p_f at each face, jumps go at the rates

    i -> i + 1:  p_f / (m_i (c_{i+1} - c_i)),        i + 1 -> i:  p_f / (m_{i+1} (c_{i+1} - c_i)).

They are reversible with respect to m whatever the cells are, and approach the Langevin diffusion of
`isojepa.distributions.sturm_liouville` like the square of the cells' width. For a normal law c is an
eigenvector with the eigenvalue 1 exactly, since p' = -z p. The transition matrix over a time t is symmetric
up to the masses and comes from the eigenvectors of a symmetric tridiagonal matrix.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isojepa.distributions.densities import Density
from isojepa.validation import validate_types

_FALL = 1.0  # of log p at least, at the farthest place that is looked at
DROP = 50.0  # e^-50 of the peak: far beyond what the first eigenfunctions weigh
_FAR_DROP = 1e4
_EXPONENT = 1.005  # above it the score diverges; slowly varying factors move the estimate by about 0.001
_STEP = 1e-3  # relative, of the differences that read the exponent off
_PROBES = 4001
_FARTHEST = 45.0  # sinh of it is 2e19


class SpectrumWarning(UserWarning):
    """Eigenvalues that are not what was asked for: a continuous spectrum, or too coarse a grid."""


@dataclass(frozen=True)
class Domain:
    """An interval with a coordinate s on it.

    Attributes:
        low, high: its ends in z.
        center, scale: of the coordinate z = center + scale sinh(s); scale inf for z = center + s.
        drop: log p at the ends is this far below its maximum, but at ends of the support.
    """

    low: float
    high: float
    center: float
    scale: float
    drop: float

    def to_z(self, s: np.ndarray) -> np.ndarray:
        """z of s."""
        return self.center + (s if math.isinf(self.scale) else self.scale * np.sinh(s))

    def to_s(self, z: np.ndarray) -> np.ndarray:
        """s of z."""
        offset = np.asarray(z, np.float64) - self.center
        return offset if math.isinf(self.scale) else np.arcsinh(offset / self.scale)

    def log_slope(self, s: np.ndarray) -> np.ndarray:
        """log dz/ds."""
        return np.zeros_like(s) if math.isinf(self.scale) else np.log(self.scale * np.cosh(s))

    def nodes(self, cells: int) -> np.ndarray:
        """The ends and middles of equal cells in s: (2 cells + 1,), middles at the odd places."""
        low, high = self.to_s(np.array([self.low, self.high]))
        return np.linspace(low, high, 2 * cells + 1)


def log_density_of(law: Density, z: np.ndarray) -> np.ndarray:
    """log p at z, checked.

    Raises:
        ValueError: the law gives another shape, NaN or +inf.
    """
    values = np.asarray(law.log_density(z), np.float64)
    if values.shape != z.shape:
        raise ValueError(f"log_density must keep the shape {z.shape}, got {values.shape}")
    if np.isnan(values).any() or (values == np.inf).any():
        worst = z[np.isnan(values) | (values == np.inf)][0]
        raise ValueError(f"log_density must be a number or -inf, got NaN or inf at z = {worst:.6g}")
    return values


def find_domain(law: Density, drop: float = DROP) -> Domain:
    """The interval where log p is within `drop` of its maximum.

    Raises:
        ValueError: the support is no interval, or the density is zero wherever it was looked at.
    """
    low, high = checked_support(law)
    probes = _probes(low, high)
    values = log_density_of(law, probes)
    if not np.isfinite(values).any():
        raise ValueError(
            f"the density must be positive somewhere on its support, got support ({low}, {high})"
        )
    for end, value in ((low, values[0]), (high, values[-1])):
        if math.isinf(end) and value >= values.max() - _FALL:
            raise ValueError(f"the density must fall to 0 towards {end:g}, got one without a finite integral")
    inside = np.flatnonzero(values >= values.max() - drop)
    level = float(values.max()) - drop
    first, last = int(inside[0]), int(inside[-1])
    left_end = low if first == 0 else _crossing(law, probes[first], probes[first - 1], level)
    right = high if last == len(probes) - 1 else _crossing(law, probes[last], probes[last + 1], level)
    left_end = float(probes[0]) if math.isinf(left_end) else left_end
    right = float(probes[-1]) if math.isinf(right) else right
    if math.isfinite(low) and math.isfinite(high):
        return Domain(left_end, right, (left_end + right) / 2, math.inf, drop)
    first_quarter, median, last_quarter = _quartiles(probes, values)
    return Domain(left_end, right, median, 2 * (last_quarter - first_quarter), drop)


def checked_support(law: Density) -> tuple[float, float]:
    """The support of a law.

    Raises:
        ValueError: the law has none, or its ends are not in order.
    """
    if not hasattr(law, "log_density") or not hasattr(law, "support"):
        raise ValueError(f"law must have log_density and support, got {type(law).__name__}")
    if isinstance(law, type):
        raise ValueError(f"law must be an object, got the class {law.__name__}: write {law.__name__}()")
    try:
        low, high = (float(end) for end in law.support)
    except (TypeError, ValueError) as error:
        raise ValueError(f"support must be an interval (low, high), got {law.support!r}") from error
    if not low < high:
        raise ValueError(f"support must be an interval (low, high) with low < high, got ({low}, {high})")
    return low, high


def continuum(law: Density) -> float:
    """Where the continuous spectrum of the generator begins; inf if there is none.

    Read off the tails as the module says; for a law that was given as numbers alone it is an estimate.
    """
    low, high = checked_support(law)
    probes = _probes(low, high)
    values = log_density_of(law, probes)
    top, begins = float(values.max()), math.inf
    for end, outward, heights in ((low, probes[::-1], values[::-1]), (high, probes, values)):
        if math.isfinite(end):
            continue
        far = int(np.flatnonzero(heights >= top - _FAR_DROP)[-1])
        z = float(outward[far])
        if far + 1 < len(outward):
            z = _crossing(law, z, float(outward[far + 1]), top - _FAR_DROP)
        inner, here = top - log_density_of(law, np.array([z * (1 - _STEP), z]))
        if inner > 0 and np.log(here / inner) <= -_EXPONENT * math.log1p(-_STEP):
            begins = min(begins, max(_potential(law, z), 0.0))
    return begins


def _potential(law: Density, z: float) -> float:
    """V at z, by central differences."""
    step = _STEP * abs(z)
    a, b, c = log_density_of(law, np.array([z - step, z, z + step]))
    score, bend = (c - a) / (2 * step), (c - 2 * b + a) / step**2
    return float(score**2 / 4 + bend / 2)


def _probes(low: float, high: float) -> np.ndarray:
    """Points to look at: even near the middle, logarithmic far out, inside the support."""
    if math.isfinite(low) and math.isfinite(high):
        edges = np.linspace(low, high, 2 * _PROBES + 1)
        return edges[1::2]
    far = np.sinh(np.linspace(0, _FARTHEST, _PROBES))
    near = np.linspace(0, 10, _PROBES)[1:]
    reach = np.union1d(far, near)
    if math.isfinite(low):
        return low + reach[1:]
    if math.isfinite(high):
        return high - reach[:0:-1]
    return np.concatenate((-reach[:0:-1], reach))


def _crossing(law: Density, inside: float, outside: float, level: float) -> float:
    """The point between two where log p falls below a level, by cutting into 64 again and again."""
    for _ in range(9):
        points = np.linspace(inside, outside, 65)
        fallen = log_density_of(law, points[1:-1]) < level
        first = int(np.argmax(fallen)) + 1 if fallen.any() else 64
        inside, outside = float(points[first - 1]), float(points[first])
    return inside


def _quartiles(z: np.ndarray, values: np.ndarray) -> list[float]:
    """Quartiles of the density on the points z, by the trapezoid rule."""
    density = np.exp(values - values.max())
    mass = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(z))))
    quartiles: list[float] = np.interp([0.25, 0.5, 0.75], mass / mass[-1], z).tolist()
    return quartiles


_FIRST, _LAST = 512, 1 << 15  # cells of the coarsest and of the finest grid
_GROWTH = 1.6  # of the drop that defines the domain
_STEEP = 4.0  # a change of log p within half a cell that no grid resolves; such ends are cut off
_SEEN = 1e-9  # of the largest sqrt(m) |phi|: below it signs are rounding


@dataclass(frozen=True)
class Eigensystem:
    """The first eigenvalues and eigenfunctions of a law.

    Attributes:
        eigenvalues: (count + 1,), beginning with 0.
        error: (count + 1,) estimates of their absolute errors, from finer grids and larger domains.
        zeros: sign changes of each eigenfunction; k for phi_k.
        continuum: where the continuous spectrum begins, inf if there is none. Eigenvalues at or above it
            belong to the law cut to the domain.
        converged: whether every error is within the tolerance and every phi_k has k zeros.
        low, high: the domain.
        z: (n,) points at which the functions are known.
        mass: (n,) probabilities of the cells around them.
        values: (count + 1, n) eigenfunctions at these points.
    """

    eigenvalues: np.ndarray
    error: np.ndarray
    zeros: tuple[int, ...]
    continuum: float
    converged: bool
    low: float
    high: float
    z: np.ndarray
    mass: np.ndarray
    values: np.ndarray
    _splines: tuple[Domain, "scipy.interpolate.CubicSpline"]

    @property
    def count(self) -> int:
        """Number of eigenfunctions beside the constant."""
        return len(self.eigenvalues) - 1

    @property
    def discrete(self) -> bool:
        """Whether there is no continuous spectrum."""
        return bool(np.isinf(self.continuum))

    def __call__(self, k: int, z: ArrayLike) -> np.ndarray:
        """phi_k at z; beyond the domain, where p is below e^-50 of its peak, the value at its end.

        Raises:
            ValueError: k is not among the eigenfunctions that were computed.
        """
        if not 0 <= k <= self.count:
            raise ValueError(f"k must lie in 0..{self.count}, got {k}")
        domain, spline = self._splines
        inside = np.clip(np.asarray(z, np.float64), self.z[0], self.z[-1])
        return np.asarray(spline(domain.to_s(inside))[..., k])

    def coefficients(self) -> np.ndarray:
        """(count + 1,) the correlations of z with each phi_k; the first is 0."""
        centered = self.z - self.mass @ self.z
        projections: np.ndarray = (self.values @ (self.mass * centered)) / np.sqrt(self.mass @ centered**2)
        projections[0] = 0.0
        return projections


@validate_types
def eigensystem(law: Density, count: int = 6, tolerance: float = 1e-8) -> Eigensystem:
    """The first eigenvalues and eigenfunctions of a law.

    Args:
        law: anything with `log_density` and `support`, of mean about 0 and variance about 1. The density need
            not be normalized.
        count: number of eigenfunctions beside the constant.
        tolerance: of the eigenvalues, relative to max(1, eigenvalue).

    Raises:
        ValueError: the density is not positive and finite on an interval, or an argument is out of range.

    Warns:
        SpectrumWarning: the spectrum is continuous from some point on, or the tolerance was not reached.

    Example:
        >>> from isojepa.distributions import Normal
        >>> bool(np.allclose(eigensystem(Normal(), count=3).eigenvalues, [0, 1, 2, 3], atol=1e-8))
        True
    """
    if int(count) != count or not 1 <= count <= 64:
        raise ValueError(f"count must be an integer in 1..64, got {count}")
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    drop, domain = DROP, find_domain(law)
    begins = continuum(law)
    solution = _refine(law, domain, count, tolerance)
    for _ in range(4):
        wider = find_domain(law, _GROWTH * drop)
        growth = float(np.ptp(wider.nodes(1)) / np.ptp(solution.domain.nodes(1)))
        if growth < 1.001:
            solution.error = np.maximum(solution.error, _wall(law, solution, count))
            break
        half = round(solution.cells * growth / 2)
        after = _Level.extrapolated(
            _Level.at(law, wider, half, count), _Level.at(law, wider, 2 * half, count)
        )
        moved = np.abs(after.eigenvalues - solution.eigenvalues)
        solution.error = np.maximum(solution.error, moved)
        if np.isfinite(begins) or (moved <= tolerance * np.maximum(1, solution.eigenvalues)).all():
            break
        drop *= _GROWTH
        solution = _refine(law, wider, count, tolerance)
    return _finish(solution, begins, tolerance)


def _wall(law: Density, found: "_Level", count: int) -> np.ndarray:
    """How much eigenvalues owe to where a wall too steep for the grid is cut; 0 at ends of the support."""
    if (found.domain.low, found.domain.high) == checked_support(law):
        return np.zeros(count + 1)
    inner = _Level.at(law, find_domain(law, 0.01), found.cells, count)
    outer = _Level.at(law, found.domain, found.cells, count)
    moved: np.ndarray = np.abs(inner.eigenvalues - outer.eigenvalues)
    return moved


def _finish(found: "_Level", begins: float, tolerance: float) -> Eigensystem:
    zeros = tuple(_sign_changes(row, found.mass) for row in found.values)
    precise = bool((found.error <= tolerance * np.maximum(1, found.eigenvalues)).all())
    converged = precise and zeros == tuple(range(len(zeros)))
    if np.isfinite(begins):
        warnings.warn(
            f"the spectrum is continuous from {begins:.3g} on: this tail is no lighter than exponential, and "
            f"eigenvalues there belong to the law cut to [{found.domain.low:.4g}, {found.domain.high:.4g}]",
            SpectrumWarning,
            stacklevel=3,
        )
    elif not converged:
        warnings.warn(
            f"eigenvalues have errors up to {found.error.max():.2g}, above the tolerance {tolerance:.2g}"
            if not precise
            else f"eigenfunctions must have 0, 1, 2, ... zeros, got {zeros}",
            SpectrumWarning,
            stacklevel=3,
        )
    s = found.s
    return Eigensystem(
        eigenvalues=found.eigenvalues,
        error=found.error,
        zeros=zeros,
        continuum=begins,
        converged=converged and bool(np.isinf(begins)),
        low=found.domain.low,
        high=found.domain.high,
        z=found.domain.to_z(s),
        mass=found.mass,
        values=found.values,
        _splines=(found.domain, scipy.interpolate.CubicSpline(s, found.values.T)),
    )


@dataclass
class _Level:
    """Eigenvalues and eigenfunctions on one grid, or extrapolated from two."""

    domain: Domain
    cells: int
    s: np.ndarray
    mass: np.ndarray
    eigenvalues: np.ndarray
    values: np.ndarray
    error: np.ndarray

    @classmethod
    def at(cls, law: Density, domain: Domain, cells: int, count: int) -> "_Level":
        """Solve on a grid of equal cells in s."""
        nodes = domain.nodes(cells)
        log_p = log_density_of(law, domain.to_z(nodes[1:-1]))
        slope = domain.log_slope(nodes[1:-1])
        log_m, log_k = (log_p + slope)[::2], (log_p - slope)[1::2]
        keep = _resolved(log_p)
        if keep.stop - keep.start <= count + 2:
            raise ValueError(
                f"the density must be resolved by {cells} cells on its domain, got steeper walls"
            )
        s, log_m, log_k = nodes[1::2][keep], log_m[keep], log_k[keep.start : keep.stop - 1]
        width = nodes[2] - nodes[0]
        log_m, log_k = log_m - log_m.max(), log_k - log_m.max() - 2 * np.log(width)
        values = _eigenvectors(log_m, log_k, count)
        mass = np.exp(log_m)
        mass /= mass.sum()
        # the quotient in fluxes: differences of phi, so small eigenvalues keep their digits
        flux = np.exp(log_k + np.log(mass[0]) - log_m[0]) * np.diff(values) ** 2
        return cls(domain, cells, s, mass, flux.sum(1), values, np.full(count + 1, np.inf))

    @classmethod
    def extrapolated(cls, coarse: "_Level", fine: "_Level", factor: np.ndarray | float = 4.0) -> "_Level":
        """Richardson: errors fall by `factor` from the coarse to the fine grid."""
        gain = np.asarray(factor, np.float64) - 1
        eigenvalues = fine.eigenvalues + (fine.eigenvalues - coarse.eigenvalues) / gain
        inside = np.clip(fine.s, coarse.s[0], coarse.s[-1])
        before = scipy.interpolate.CubicSpline(coarse.s, coarse.values.T)(inside).T
        gain = np.broadcast_to(gain, eigenvalues.shape)[:, None]
        # beyond the last coarse middle there is nothing to extrapolate from
        both = (fine.s >= coarse.s[0]) & (fine.s <= coarse.s[-1])
        values = fine.values + np.where(both, (fine.values - before) / gain, 0.0)
        values /= np.sqrt((fine.mass * values**2).sum(1, keepdims=True))
        return cls(fine.domain, fine.cells, fine.s, fine.mass, eigenvalues, values, fine.error.copy())


def _refine(law: Density, domain: Domain, count: int, tolerance: float) -> _Level:
    """Double the grid until two extrapolations agree."""
    cells = _FIRST * max(1, round(count / 8))
    levels = [_Level.at(law, domain, cells, count), _Level.at(law, domain, 2 * cells, count)]
    best = _Level.extrapolated(levels[0], levels[1])
    while True:
        cells = 2 * levels[-1].cells
        levels.append(_Level.at(law, domain, cells, count))
        previous, latest = (
            levels[-2].eigenvalues - levels[-3].eigenvalues,
            levels[-1].eigenvalues - levels[-2].eigenvalues,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = previous / latest
        # smooth densities give 4; kinks and walls less, where the observed ratio serves (Aitken)
        factor = np.where(np.abs(ratio - 4) < 0.5, 4.0, np.where(ratio > 1.5, ratio, np.inf))
        after = _Level.extrapolated(levels[-2], levels[-1], np.where(np.isfinite(factor), factor, 1e300))
        change = np.abs(after.eigenvalues - best.eigenvalues)
        best = after
        # matched factors leave less than the last change; unmatched ones all of the last difference
        best.error = np.where(np.isfinite(factor), change, np.abs(latest))
        best.error[0] = 0.0
        if (best.error <= tolerance * np.maximum(1, best.eigenvalues)).all() or cells >= _LAST:
            return best


def _resolved(log_p: np.ndarray) -> slice:
    """The cells between the outermost that a grid resolves, from log p at middles and inner faces in turn.

    Raises:
        ValueError: the density vanishes between two places where it does not.
    """
    middles = log_p[::2]
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(log_p)).reshape(-1, 2)
    steep = np.asarray(~(change < _STEEP).all(1))  # also where -inf minus -inf is undefined
    peak = int(np.argmax(middles))
    before, after = np.flatnonzero(steep[:peak]), np.flatnonzero(steep[peak:])
    start = int(before[-1]) + 1 if len(before) else 0
    stop = peak + int(after[0]) + 1 if len(after) else len(middles)
    # beyond a steep face there must be next to nothing
    outside = np.concatenate((middles[:start], middles[stop:]))
    if len(outside) and outside.max() > middles[peak] - 1:
        raise ValueError("the density must be positive on one interval, got a gap inside its support")
    return slice(start, stop)


def _eigenvectors(log_m: np.ndarray, log_k: np.ndarray, count: int) -> np.ndarray:
    """(count + 1, n) eigenfunctions of the matrix of the module, of unit norm, positive at the right end."""
    diagonal = np.zeros(len(log_m))
    diagonal[:-1] += np.exp(log_k - log_m[:-1])
    diagonal[1:] += np.exp(log_k - log_m[1:])
    between = -np.exp(log_k - (log_m[:-1] + log_m[1:]) / 2)
    _, vectors = scipy.linalg.eigh_tridiagonal(diagonal, between, select="i", select_range=(0, count))
    root = np.exp((log_m - np.logaddexp.reduce(log_m)) / 2)  # sqrt of the masses, of norm 1
    # a nearly degenerate pair may come mixed: of its plane, keep what is orthogonal to the constant
    plane = vectors[:, :2] - np.outer(root, root @ vectors[:, :2])
    first, *_ = scipy.linalg.qr(plane, mode="economic", pivoting=True)
    vectors = np.column_stack((root, first[:, 0], vectors[:, 2:]))
    significant = np.abs(vectors) > 1e-3 * np.abs(vectors).max(0)
    last = len(root) - 1 - np.argmax(significant[::-1], axis=0)
    signs = np.sign(vectors[last, np.arange(count + 1)])
    values: np.ndarray = (vectors * signs / root[:, None]).T
    values[0] = 1.0
    return values


def _sign_changes(values: np.ndarray, mass: np.ndarray) -> int:
    weighed = np.sqrt(mass) * values
    signs = np.sign(weighed[np.abs(weighed) > _SEEN * np.abs(weighed).max()])
    return int((signs[1:] != signs[:-1]).sum())


PIECES = 16  # equally likely pieces of each cell, within which a draw is uniform
_FINE = 64  # points per cell from which masses and means are summed
_EVEN = 0.1  # share of the cells that is even in the domain's coordinate
_TAIL = 1e-12  # mass beyond which there is only the last cell: less would drown in rounding


@dataclass(frozen=True)
class Cells:
    """A law cut into K cells, with the spectrum of the jumps between them.

    Attributes:
        faces: (K - 1,) inner ends of the cells.
        mass: (K,) probabilities.
        means: (K,) of z within each cell, centered and divided by the law's deviation.
        pieces: (K, PIECES + 1) ends of the equally likely pieces of each cell.
        within: share of the variance of z that lies within cells.
        blur: the same without the two outermost cells, which hold the tails.
        eigenvalues: (K,) of the jumps' generator, in increasing order from 0.
        vectors: (K, K) orthonormal columns; sqrt(mass) is the first.
    """

    faces: np.ndarray
    mass: np.ndarray
    means: np.ndarray
    pieces: np.ndarray
    within: float
    blur: float
    eigenvalues: np.ndarray
    vectors: np.ndarray

    def correlation(self, time: float) -> float:
        """Correlation of z with itself a time later."""
        return float(self._shares() @ np.exp(-self.eigenvalues * time))

    def time_of(self, rho: float) -> float:
        """The time after which the correlation of z is rho, below 1 - within."""
        shares = self._shares()
        if self.eigenvalues[1] <= 1e-14 * self.eigenvalues[-1]:  # rounding: eigenvalues below are unknown
            raise ValueError("the law must not fall into parts that are never left, got wells too deep")

        def excess(time: float) -> float:
            return float(shares @ np.exp(-self.eigenvalues * time)) - rho

        high = 1.0 / float(self.eigenvalues[1])
        while excess(high) > 0:
            high *= 2
        return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=1000))

    def _shares(self) -> np.ndarray:
        """Shares of the variance of z by eigenvector; they sum to 1 - within."""
        shares: np.ndarray = (self.vectors.T @ (np.sqrt(self.mass) * self.means)) ** 2
        shares[0] = 0.0
        return shares

    def transition(self, time: float) -> np.ndarray:
        """(K, K) probabilities of jumping from each cell to each other within a time."""
        half = self.vectors * np.exp(-self.eigenvalues * time / 2)
        root = np.sqrt(self.mass)
        # exact probabilities are positive: what is below 0 is rounding, of order 1e-16
        joint = np.maximum(half @ half.T, 0.0) * np.outer(root, root)
        joint = (joint + joint.T) / 2
        transition: np.ndarray = joint / joint.sum(1, keepdims=True)
        return transition


def cut(law: Density, count: int) -> Cells:
    """Cut a law into cells.

    Args:
        law: anything with `log_density` and `support`.
        count: number of cells; fewer where some would be empty.

    Raises:
        ValueError: the density is not positive and finite on an interval.
    """
    domain = find_domain(law)
    nodes = domain.nodes(_FINE * count)
    ends, middles = nodes[::2], nodes[1::2]
    log_p = log_density_of(law, domain.to_z(middles))
    positive = np.flatnonzero(np.isfinite(log_p))
    if len(positive) < positive[-1] - positive[0] + 1:
        raise ValueError("the density must be positive on one interval, got a gap inside its support")
    weight = np.exp(log_p - log_p.max() + domain.log_slope(middles))
    share = weight / weight.sum()
    z = domain.to_z(middles)
    below = np.concatenate(([0.0], np.cumsum(share)))
    spread = np.exp((log_p - log_p.max()) / 3 + domain.log_slope(middles))
    even = ((below[1:] > _TAIL) & (_reversed_sum(share) > _TAIL)).astype(np.float64)
    density = (1 - _EVEN) * spread / spread.sum() + _EVEN * even / even.sum()
    place = np.cumsum(density * (even > 0)) / (density * (even > 0)).sum()
    inner = np.unique(np.searchsorted(place, np.arange(1, count) / count) + 1)
    inner = inner[(inner > 0) & (inner < len(share))]
    starts = np.concatenate(([0], inner))
    mass = np.add.reduceat(share, starts)
    means = np.add.reduceat(share * z, starts) / mass
    center = share @ z
    variance = float(share @ (z - center) ** 2)
    faces = domain.to_z(ends[inner])
    # p at the faces in the units of `share`: probability per length
    log_total = math.log(weight.sum() * (ends[1] - ends[0]))
    at_faces = np.exp(log_density_of(law, faces) - log_p.max() - log_total)
    eigenvalues, vectors = _spectrum(mass, at_faces / np.diff(means))
    cell = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(share))))
    inside = np.add.reduceat(share * (z - means[cell]) ** 2, starts) / variance
    return Cells(
        faces=faces,
        mass=mass,
        means=(means - center) / math.sqrt(variance),
        pieces=_pieces(domain.to_z(ends), share, starts),
        within=float(inside.sum()),
        blur=float(inside[1:-1].sum()),
        eigenvalues=eigenvalues,
        vectors=vectors,
    )


def _reversed_sum(share: np.ndarray) -> np.ndarray:
    return np.cumsum(share[::-1])[::-1]


def _spectrum(mass: np.ndarray, conductance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the jumps, the constant one exact."""
    diagonal = np.zeros(len(mass))
    diagonal[:-1] += conductance / mass[:-1]
    diagonal[1:] += conductance / mass[1:]
    between = -conductance / np.sqrt(mass[:-1] * mass[1:])
    eigenvalues, vectors = scipy.linalg.eigh_tridiagonal(diagonal, between)
    eigenvalues[0] = 0.0
    vectors[:, 0] = np.sqrt(mass)
    return np.maximum(eigenvalues, 0.0), vectors


def _pieces(ends: np.ndarray, share: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(K, PIECES + 1) points that cut every cell into equally likely pieces."""
    table = np.empty((len(starts), PIECES + 1))
    stops = np.concatenate((starts[1:], [len(share)]))
    for row, start, stop in zip(table, starts, stops, strict=True):
        below = np.concatenate(([0.0], np.cumsum(share[start:stop])))
        row[:] = np.interp(np.linspace(0, below[-1], PIECES + 1), below, ends[start : stop + 1])
    return table


def alias_tables(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables to draw from many discrete laws in constant time (Walker 1977), built for all of them at once.

    A column drawn uniformly is kept with the probability `keep` and replaced by `other` else. Light columns
    are filled up by heavy ones in the order of their places (Huebschle-Schneider & Sanders 2022).

    Args:
        rows: (n, K) probabilities, each row of sum 1.

    Returns:
        keep (n, K) float64 and other (n, K) int32.
    """
    n, count = rows.shape
    weights = np.concatenate((rows * (count / rows.sum(1, keepdims=True)), np.zeros((n, 1))), axis=1)
    heavy = weights > 1
    places = np.arange(count + 1)
    heavy[:, -1] = True
    next_heavy = np.minimum.accumulate(np.where(heavy, places, count)[:, ::-1], axis=1)[:, ::-1]
    heavy[:, -1] = False
    next_light = np.minimum.accumulate(np.where(heavy, count, places)[:, ::-1], axis=1)[:, ::-1]
    keep = np.ones((n, count + 1))
    other = np.broadcast_to(places, (n, count + 1)).astype(np.int32)
    row = np.arange(n)
    light, big = next_light[:, 0].copy(), next_heavy[:, 0].copy()
    rest = weights[row, big]
    for _ in range(count):
        fill = (rest > 1) & (light < count)  # the heavy column gives to a light one
        drop = ~fill & (big < count)  # the heavy column has become light: the next one gives to it
        at = row[fill], light[fill]
        keep[at], other[at] = weights[at], big[fill]
        rest[fill] += weights[at] - 1
        light[fill] = next_light[at[0], at[1] + 1]
        at = row[drop], big[drop]
        after = next_heavy[at[0], at[1] + 1]
        keep[at] = np.where(after < count, rest[drop], 1.0)
        other[at] = np.where(after < count, after, at[1])
        rest[drop] += weights[at[0], after] - 1
        big[drop] = after
    return np.ascontiguousarray(keep[:, :-1]), np.ascontiguousarray(other[:, :-1])
