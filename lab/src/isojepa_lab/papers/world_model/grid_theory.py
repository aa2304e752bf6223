r"""What the loss alone prefers on the plane, by quadrature: no encoder, no training, no noise.

By symmetry look among the maps h(z) = c(|z|) z that turn with the plane. With u = |z|^2 / 2 and the Laguerre
polynomials L_k of order 1,

    h = sum_k a_k psi_k,      psi_k(z) = z L_k(u) / sqrt(k + 1),      E psi_j psi_k = delta_jk per coordinate,

and psi_k has Hermite degree 2k + 1, so that in a Gaussian world of correlation r

    alignment = sum_k a_k^2 (1 - r^(2k+1)) / 2            (mean squared distance to the center of two views)
    SIGReg    = \int (n (phi - e^{-t^2/2})^2 + 1 - phi^2) w(t) dt,      phi(t) = E J_0(t |h|),

the second being the expectation over batches of n, of the quadrature that training uses. The minimum over
a_0, ..., a_K of weight * SIGReg + (1 - weight) * alignment gives what a perfect optimizer would reach:

    R^2 of z from h = a_0^2 / sum a_k^2,      |Q^T Q - I|_F / sqrt 2 = |a_0^2 - 1|,

Q = a_0 I being the linear part of h.

A map that does not turn with the plane might do better still; the search starts from several scales and may
miss a lower valley, so these are losses that can be reached, not proven minima.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import eval_genlaguerre, j0, j1, roots_laguerre

from isojepa.objectives.gaussianity.epps_pulley import Grid

TERMS = 6
_NODES = 96
_KNOTS, _T_MAX = 17, 5.0  # of the published and of our SIGReg
_STARTS = (0.05, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class Preferred:
    """The map of least loss.

    Attributes:
        loss, alignment, sigreg: at the minimum.
        r2: of z from h, by a linear map; 0 where nothing is left of h.
        variance: of one coordinate of h.
        orthogonality: |Q^T Q - I|_F / sqrt(2) of its linear part.
    """

    loss: float
    alignment: float
    sigreg: float
    r2: float
    variance: float
    orthogonality: float


@lru_cache(maxsize=1024)
def preferred(weight: float, correlation: float, batch: int = 256, terms: int = TERMS) -> Preferred:
    """The map that minimises weight * SIGReg + (1 - weight) * alignment on the plane.

    Args:
        weight: of SIGReg, in [0, 1].
        correlation: of the latents across a pair, in (0, 1).
        batch: n, with which SIGReg grows.
        terms: number of coefficients; 1 allows scaling alone.

    Example:
        >>> round(preferred(0.5, 0.95).r2, 3)
        0.999
    """
    best = min(
        (_descend(weight, correlation, batch, terms, start) for start in _STARTS), key=lambda one: one[0]
    )
    loss, a = best
    variance = float((a**2).sum())
    return Preferred(
        loss=loss,
        alignment=_alignment(a, correlation),
        sigreg=_sigreg(a, batch)[0],
        r2=float(a[0] ** 2 / variance) if variance > 1e-6 else 0.0,
        variance=variance,
        orthogonality=float(abs(a[0] ** 2 - 1)),
    )


def least_sigreg(batch: int = 256) -> float:
    """The least expectation of SIGReg over batches of n: at phi = n / (n - 1) e^{-t^2/2}, cut at 1."""
    _, target, weights = Grid.trapezoid(_KNOTS, _T_MAX).table
    phi = np.minimum(target * batch / (batch - 1), 1.0)
    return float(weights @ (batch * (phi - target) ** 2 + 1 - phi**2))


@lru_cache(maxsize=64)
def spiral_correlation(
    correlation: float, rate: float = np.pi, samples: int = 200_000, seed: int = 0
) -> float:
    """Correlation across a pair of the spiral's observations, which are N(0, I) themselves.

    z' given z has mean r z; the spiral turns z by rate |z|, so the correlation is
    E |z| |z'| cos(angle between them + rate (|z| - |z'|)) / 2, a mean over pairs.
    """
    source = np.random.Generator(np.random.PCG64(seed))
    z = source.standard_normal((samples, 2))
    z_next = correlation * z + np.sqrt(1 - correlation**2) * source.standard_normal((samples, 2))
    one, other = z @ [1, 1j], z_next @ [1, 1j]
    turned = one * np.conj(other) * np.exp(1j * rate * (abs(one) - abs(other)))
    return float(turned.real.mean() / 2)


def _descend(weight: float, r: float, batch: int, terms: int, start: float) -> tuple[float, np.ndarray]:
    """The minimum reached from a scaled identity, and its coefficients."""
    rates = (1 - r ** (2 * np.arange(terms) + 1)) / 2

    def loss(a: np.ndarray, scale: float) -> tuple[float, np.ndarray]:
        value, slope = _sigreg(a, batch)
        total = weight * value + (1 - weight) * float(rates @ a**2)
        return total / scale, (weight * slope + (1 - weight) * 2 * rates * a) / scale

    first = np.zeros(terms)
    first[0] = start
    scale = loss(first, 1.0)[0]  # the stopping rule is absolute, and losses go down to 1e-6
    optimum = minimize(
        loss, first, args=(scale,), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500}
    )
    return float(optimum.fun * scale), np.asarray(optimum.x)


def _alignment(a: np.ndarray, r: float) -> float:
    return float((a**2 * (1 - r ** (2 * np.arange(len(a)) + 1))).sum() / 2)


def _sigreg(a: np.ndarray, batch: int) -> tuple[float, np.ndarray]:
    """Expected SIGReg of h, and its gradient in a."""
    t, target, weights = Grid.trapezoid(_KNOTS, _T_MAX).table
    mass, basis = _basis(len(a))
    radius = basis @ a  # signed: J_0 is even
    phase = t[:, None] * radius
    phi = j0(phase) @ mass
    slope = -(t[:, None] * j1(phase) * mass) @ basis  # of phi at each t, in a
    value = weights @ (batch * (phi - target) ** 2 + 1 - phi**2)
    return float(value), np.asarray((weights * (2 * batch * (phi - target) - 2 * phi)) @ slope)


@lru_cache(maxsize=8)
def _basis(terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Mass of the nodes of u ~ Exp(1), and |z| L_k(u) / sqrt(k + 1) there: (node, term)."""
    u, mass = roots_laguerre(_NODES)
    order = np.arange(terms)
    return mass, np.sqrt(2 * u)[:, None] * eval_genlaguerre(order, 1, u[:, None]) / np.sqrt(order + 1)
