"""Exact Gaussian expectations of polynomials, and Hermite polynomials.

Standard Gaussians z, eta make a pair z' = rho z + sigma eta with sigma^2 = 1 - rho^2. In a polynomial ring
over the rationals, an expectation replaces every power of a Gaussian variable by its moment,

    E x^m = (m - 1)!! = m! / (2^(m/2) (m/2)!)  for even m, 0 for odd m,

and sigma occurs in even powers only. All results are exact.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp
from sympy.polys.rings import PolyElement, PolyRing, ring

MultiIndex = tuple[int, ...]


@cache
def rodrigues(degree: int) -> sp.Poly:
    """The probabilist's Hermite polynomial He_k(x) = (-1)^k e^(x^2/2) (d/dx)^k e^(-x^2/2)."""
    x = sp.Symbol("x", real=True)
    derivative = sp.diff(sp.exp(-(x**2) / 2), x, degree)
    return sp.Poly(sp.expand(sp.simplify((-1) ** degree * sp.exp(x**2 / 2) * derivative)), x)


def hermite(degree: int, argument: Any) -> Any:
    """He_k of an element of a ring, by Horner's rule on the coefficients of `rodrigues`."""
    value = argument * 0
    for coefficient in rodrigues(degree).all_coeffs():
        value = value * argument + int(coefficient)
    return value


def moment(power: int) -> int:
    """E x^m of a standard Gaussian."""
    return 0 if power % 2 else int(sp.factorial2(power - 1))


def multi_indices(dim: int, degree: int, lowest: int = 0) -> list[MultiIndex]:
    """All multi-indices of `dim` entries with lowest <= |alpha| <= degree, by degree."""
    every = itertools.product(range(degree + 1), repeat=dim)
    return sorted((a for a in every if lowest <= sum(a) <= degree), key=lambda a: (sum(a), a))


def factorial(alpha: MultiIndex) -> int:
    """alpha! = alpha_1! ... alpha_n!, the squared norm of He_alpha."""
    return int(sp.prod([sp.factorial(entry) for entry in alpha]))


@dataclass(frozen=True)
class Pair:
    """The polynomial ring of a Gaussian pair, with names for what else occurs in it.

    Attributes:
        ring: over the rationals, in rho, sigma, z, eta and the extra symbols.
        rho: the correlation.
        z, z_next: lists of the coordinates of the two views.
        extra: the extra symbols, e.g. coefficients of an unknown map.
    """

    ring: PolyRing
    rho: PolyElement
    z: list[PolyElement]
    z_next: list[PolyElement]
    extra: list[PolyElement]

    def mean(self, polynomial: PolyElement) -> PolyElement:
        """Take the expectation over z and eta, with sigma^2 = 1 - rho^2."""
        dim = len(self.z)
        total = self.ring.zero
        noise = 1 - self.rho**2
        for powers, coefficient in polynomial.terms():
            weight = coefficient
            for power in powers[2 : 2 + 2 * dim]:
                weight *= moment(power)
                if not weight:
                    break
            else:
                sigmas = powers[1]
                if sigmas % 2:  # an odd power of sigma comes with an odd power of some eta
                    raise ArithmeticError(f"sigma must occur in even powers, got {sigmas}")
                rest = (powers[0], 0, *([0] * (2 * dim)), *powers[2 + 2 * dim :])
                total += self.ring.from_dict({rest: weight}) * noise ** (sigmas // 2)
        return total

    def basis(self, alpha: MultiIndex, point: Sequence[PolyElement]) -> PolyElement:
        """He_alpha of a point, not normalized: its squared norm is alpha!."""
        value = self.ring.one
        for degree, coordinate in zip(alpha, point, strict=True):
            value *= hermite(degree, coordinate)
        return value

    def combine(
        self,
        indices: Sequence[MultiIndex],
        coefficients: Sequence[PolyElement],
        point: Sequence[PolyElement],
    ) -> PolyElement:
        """Sum of coefficient times He_alpha."""
        terms = zip(indices, coefficients, strict=True)
        return sum((c * self.basis(alpha, point) for alpha, c in terms), self.ring.zero)


def pair(dim: int, extra: Sequence[str] = ()) -> Pair:
    """Make the ring of a pair of `dim` coordinates.

    Args:
        dim: number of latents.
        extra: names of further symbols.
    """
    z = [f"z{i}" for i in range(dim)]
    eta = [f"eta{i}" for i in range(dim)]
    made, rho, sigma, *others = ring(["rho", "sigma", *z, *eta, *extra], sp.QQ)
    first, noise, rest = others[:dim], others[dim : 2 * dim], others[2 * dim :]
    z_next = [rho * a + sigma * b for a, b in zip(first, noise, strict=True)]
    return Pair(made, rho, first, z_next, rest)
