r"""What jointly Gaussian pairs say of an encoder: one that loses nothing is a rotation.

Let h = h(z) be white, with pairs (h, h') that are jointly Gaussian and Cov(h', h) = r I. Its transition
operator has the eigenvalues r^d on the Hermite polynomials of degree d in h (Mehler). If h loses nothing,
functions of h are functions of z, and the operator is that of z in other coordinates: the spectra are equal,

    sum_d C(n+d-1, d) r^d = (1 - r)^(-n) = (1 - rho)^(-n),        so r = rho,

and E h_i(z') h_i(z) = sum_d w_d rho^d = rho leaves no share w_d to degrees above one: h = Q z. A map that
keeps N(0, I) and is no rotation has pairs that are not jointly Gaussian, although each view is. For the
spiral h = R(rate |z|) z, the functions |h|^m cos(m arg h) correlate across the views by

    E (r r')^m cos(m rate (r' - r)) / E r^(2m),

with m = 1 its own correlation r, m = 2 one of degree 2, and |h|^2 = |z|^2 the other: rho^2, and not r^2.

The step behind `certificates/joint_gaussianity.py`.
"""

import math
from collections.abc import Callable

import numpy as np
import sympy as sp
from scipy import special

from isojepa_lab.theory.algebra import hermite, pair
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.maps import grid, measure_spiral

rho, r = sp.symbols("rho r", positive=True)


def same(degree: int) -> int:
    """The degree itself."""
    return degree


@check(
    "joint-gaussian",
    theorem="forward",
    step="Addition",
    method="symbolic; quadrature",
    covers="all dimensions by traces; slices to degree {degree}; spirals of rates {rates}",
    note="""Not in the paper. That equal spectra follow from equal information is the unitary equivalence of
    the two operators, which is used and not derived. An encoder that drops a latent has jointly Gaussian
    pairs too: loss cannot be seen from h.""",
)
def joint_gaussian(
    degree: int = 4, rates: tuple[float, ...] = (0.5, 2.0), exponent: Callable[[int], int] = same
) -> Parts:
    """Jointly Gaussian pairs of an encoder that loses nothing are those of a rotation.

    E He_d(u.h') He_d(u.h) = r^d d!, (1-r)^(-n) = (1-rho)^(-n) gives r = rho and h = Q z
    """
    ring = pair(2)
    u, v = ((3 * p[0] + 4 * p[1]) / 5 for p in (ring.z_next, ring.z))  # one of two latents: a dropped one too
    for d in range(1, degree + 1):
        slices = ring.mean(hermite(d, u) * hermite(d, v))
        power = ring.rho ** exponent(d) * math.factorial(d)
        yield vanishes(f"degree {d} of a slice correlates by r^{d}", slices - power)
    n = sp.Symbol("n", integer=True, positive=True)
    for size in range(1, 5):
        trace = sp.series((1 - r) ** (-size), r, 0, degree + 1).removeO()
        terms = [trace.coeff(r, k) - sp.binomial(size + k - 1, k) for k in range(degree + 1)]
        yield vanishes(f"trace in dimension {size}: (1-r)^(-{size})", *terms)
    equal = sp.solve(sp.Eq(n * sp.log(1 - r), n * sp.log(1 - rho)), r)
    yield vanishes("equal traces leave r = rho alone", *[value - rho for value in equal])
    for k in range(2, degree + 3):
        quotient, rest = sp.div(sp.Poly(rho - rho**k, rho), sp.Poly(rho * (1 - rho), rho))
        positive = rest.is_zero and all(c > 0 for c in quotient.coeffs())
        yield holds(f"degree {k} correlates by less than rho: no share is left to it", positive)
    for number in (0.5, 0.9):
        still = [turning_correlation(0.0, number, order) for order in (1, 2)]
        correlations = [*still, radius_correlation(number)]
        expected = [number, number**2, number**2]
        yield close(f"rho {number}: a rotation has degree 2 at r^2", correlations, expected, 1e-9)
        for rate in rates:
            first, second = (turning_correlation(rate, number, order) for order in (1, 2))
            by_loss = 1 - measure_spiral(rate, number).loss / 4
            yield close(f"rho {number}, spiral {rate}: r is that of its loss", first, by_loss, 1e-9)
            gaps = (radius_correlation(number) - first**2, first**2 - second)
            yield at_least(f"rho {number}, spiral {rate}: degree 2 lies above r^2 and below", gaps, 0.01)


def turning_correlation(
    rate: float, number: float, order: int, nodes: int = 240, reach: float = 12.0
) -> float:
    """Correlation of |h|^m cos(m arg h) of a spiral across the views, by integrals over both radii.

    Args:
        rate: angle per unit of radius.
        number: correlation of a pair.
        order: m.
        nodes: of Gauss-Legendre quadrature on [0, reach].
        reach: radius beyond which the Gaussian has no weight in float64.
    """
    legendre, weights = np.polynomial.legendre.leggauss(nodes)
    radius, w = (legendre + 1) * reach / 2, weights * reach / 2
    v = 1 - number**2
    a, b = radius[:, None], radius[None, :]
    kernel = special.ive(order, number * a * b / v) * np.exp(-(a**2 + b**2 - 2 * number * a * b) / (2 * v))
    joint = w[:, None] * w[None, :] * (a * b) ** (order + 1) / v * kernel
    mean = float(np.sum(joint * np.cos(order * rate * (a - b))))
    return mean / float(2**order * math.factorial(order))  # E r^(2m) of two normal coordinates


def radius_correlation(number: float, nodes: int = 4) -> float:
    """Correlation of |z|^2 across the views, which the spiral keeps, by exact quadrature over pairs."""
    z, weights = grid(4, nodes)
    later = number * z[:, :2] + math.sqrt(1 - number**2) * z[:, 2:]
    products = ((z[:, :2] ** 2).sum(1) - 2) * ((later**2).sum(1) - 2)
    return float(weights @ products) / 4
