"""Eigenvalues and eigenfunctions of the reversible diffusion with a given stationary law.

For a density p on the line the generator of the Langevin process with unit diffusion is

    L f = (1 / p) (p f')' = f'' + (log p)' f',     -L phi_k = lambda_k phi_k,   0 = lambda_0 < lambda_1 < ...

with no flux p f' at the ends. E phi_j phi_k = delta_jk under p, corr(phi_k(z_0), phi_k(z_t)) = exp(-lambda_k
t), and phi_k has exactly k zeros (Sturm's oscillation theorem), so phi_1 is monotone. It is the first thing a
whitened, aligned embedding learns; it is affine for the normal law alone, where phi_k is Hermite's polynomial
and lambda_k = k (Sprekeler, Zito & Wiskott 2014; Klindt, LeCun & Balestriero 2026, Appendix B).

Finite volumes on N equal cells of the coordinate s of `isojepa.laws.domains`: masses m = p z'(s) at the
middles, conductances k = p / z'(s) at the faces. The symmetric tridiagonal matrix with

    off-diagonal  -k_f / sqrt(m_i m_{i+1}),      diagonal  (k_left + k_right) / m_i

needs only differences of log p, annihilates sqrt(m) exactly, and has errors O(N^-2) for smooth p. N doubles,
with Richardson's extrapolation, until two extrapolations agree; then the domain grows until that changes
nothing. What is left is reported in `error`.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isojepa.arguments import checked
from isojepa.laws.densities import Density
from isojepa.laws.domains import (
    DROP,
    Domain,
    SpectrumWarning,
    checked_support,
    continuum,
    find_domain,
    log_density_of,
)

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
        centred = self.z - self.mass @ self.z
        found: np.ndarray = (self.values @ (self.mass * centred)) / np.sqrt(self.mass @ centred**2)
        found[0] = 0.0
        return found


@checked
def eigensystem(law: Density, count: int = 6, tolerance: float = 1e-8) -> Eigensystem:
    """The first eigenvalues and eigenfunctions of a law.

    Args:
        law: anything with `log_density` and `support`, of mean about 0 and variance about 1. The density need
            not be normalised.
        count: number of eigenfunctions beside the constant.
        tolerance: of the eigenvalues, relative to max(1, eigenvalue).

    Raises:
        ValueError: the density is not positive and finite on an interval, or an argument is out of range.

    Warns:
        SpectrumWarning: the spectrum is continuous from some point on, or the tolerance was not reached.

    Example:
        >>> from isojepa.laws import Normal
        >>> bool(np.allclose(eigensystem(Normal(), count=3).eigenvalues, [0, 1, 2, 3], atol=1e-8))
        True
    """
    if int(count) != count or not 1 <= count <= 64:
        raise ValueError(f"count must be an integer in 1..64, got {count}")
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    drop, domain = DROP, find_domain(law)
    begins = continuum(law)
    found = _refine(law, domain, count, tolerance)
    for _ in range(4):
        wider = find_domain(law, _GROWTH * drop)
        growth = float(np.ptp(wider.nodes(1)) / np.ptp(found.domain.nodes(1)))
        if growth < 1.001:
            found.error = np.maximum(found.error, _wall(law, found, count))
            break
        half = round(found.cells * growth / 2)
        after = _Level.extrapolated(
            _Level.at(law, wider, half, count), _Level.at(law, wider, 2 * half, count)
        )
        moved = np.abs(after.eigenvalues - found.eigenvalues)
        found.error = np.maximum(found.error, moved)
        if np.isfinite(begins) or (moved <= tolerance * np.maximum(1, found.eigenvalues)).all():
            break
        drop *= _GROWTH
        found = _refine(law, wider, count, tolerance)
    return _finish(found, begins, tolerance)


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
    seen = np.abs(vectors) > 1e-3 * np.abs(vectors).max(0)
    last = len(root) - 1 - np.argmax(seen[::-1], axis=0)
    signs = np.sign(vectors[last, np.arange(count + 1)])
    values: np.ndarray = (vectors * signs / root[:, None]).T
    values[0] = 1.0
    return values


def _sign_changes(values: np.ndarray, mass: np.ndarray) -> int:
    weighed = np.sqrt(mass) * values
    signs = np.sign(weighed[np.abs(weighed) > _SEEN * np.abs(weighed).max()])
    return int((signs[1:] != signs[:-1]).sum())
