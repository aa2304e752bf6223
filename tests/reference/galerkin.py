"""Eigenvalues of a law's generator by another road: Galerkin with Legendre polynomials, weak form, dense."""

import itertools

import numpy as np
import scipy.linalg
from numpy.polynomial import legendre


def galerkin_eigenvalues(log_density, low, high, count, degree=60, points=800, kink=None):
    """Minimise the Rayleigh quotient of p f'^2 over p f^2 among polynomials of a degree on [low, high].

    Between kinks the integrals are by Gauss-Legendre; `kink` splits them.
    """
    knots = [low, *([] if kink is None else [kink]), high]
    nodes, weights = np.polynomial.legendre.leggauss(points // (len(knots) - 1))
    z = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in itertools.pairwise(knots)])
    w = np.concatenate([(b - a) / 2 * weights for a, b in itertools.pairwise(knots)])
    s = (2 * z - low - high) / (high - low)
    p = np.exp(log_density(z) - log_density(z).max()) * w
    basis = legendre.legvander(s, degree)
    slopes = np.column_stack([legendre.legval(s, legendre.legder(row)) for row in np.eye(degree + 1)]) * (
        2 / (high - low)
    )
    # orthonormalise in L2(p) by QR: monomials and even Legendre polynomials are ill conditioned there
    _, r = np.linalg.qr(np.sqrt(p)[:, None] * basis)
    slopes = scipy.linalg.solve_triangular(r, (np.sqrt(p)[:, None] * slopes).T, trans="T").T
    return scipy.linalg.eigvalsh(slopes.T @ slopes)[: count + 1]
