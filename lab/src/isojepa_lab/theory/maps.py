"""Explicit maps of a Gaussian world and their exact numbers, by quadrature.

`measure` integrates over both views of a pair directly, so that what the theorems say of Hermite expansions
is compared with numbers that do not use them. Gauss-Hermite quadrature with m nodes is exact for polynomials
of degree below 2 m, up to rounding.

Two families keep N(0, I_2) and are not rotations:

    spiral   h(z) = R(rate |z|) z. Its expectations reduce to integrals over the radii of the two views,

                 E <h(z'), h(z)> = int int r r' cos(rate (r' - r)) q(r, r') dr dr',
                 q = (r r' / v) exp(-(r^2 + r'^2) / (2 v)) I_1(rho r r' / v),  v = 1 - rho^2.

    stream   the flow of dz/dt = (z1 z2, 1 - z1^2), whose Jacobian determinant is not constant: the field u
             satisfies div u = u . z, the condition for keeping N(0, I).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

Map = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Measured:
    """Exact numbers of a map h, centered.

    Attributes:
        covariance: (n, n) Cov(h).
        linear: (n, n) M = E h z^T.
        loss: E |h(z') - h(z)|^2.
        rho: the correlation of the pair.
    """

    covariance: np.ndarray
    linear: np.ndarray
    loss: float
    rho: float

    @property
    def epsilon(self) -> float:
        """|Cov(h) - I|_F."""
        return float(np.linalg.norm(self.covariance - np.eye(len(self.covariance))))

    @property
    def delta(self) -> float:
        """Loss above 2 (1 - rho) tr Cov(h)."""
        return self.loss - 2 * (1 - self.rho) * float(np.trace(self.covariance))

    @property
    def d(self) -> float:
        """D = delta / (2 rho (1 - rho))."""
        return self.delta / (2 * self.rho * (1 - self.rho))

    @property
    def nonlinear(self) -> float:
        """W = E |h - M z|^2 = tr Cov(h) - |M|_F^2."""
        return float(np.trace(self.covariance) - np.sum(self.linear**2))

    @property
    def error(self) -> float:
        """Smallest E |h - Q z|^2 over orthogonal Q: tr Cov(h) + n - 2 |M|_*, with the nuclear norm of M."""
        singular = np.linalg.svd(self.linear, compute_uv=False)
        return float(np.trace(self.covariance) + len(self.linear) - 2 * singular.sum())


def standard_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite nodes and weights for N(0, 1); exact for polynomials of degree below 2 count."""
    nodes, weights = special.roots_hermitenorm(count)
    return nodes, weights / weights.sum()


def grid(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count^dim, dim) and weights (count^dim,) for N(0, I)."""
    nodes, weights = standard_nodes(count)
    points = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape(-1, dim)
    products = np.stack(np.meshgrid(*[weights] * dim, indexing="ij"), -1).reshape(-1, dim).prod(1)
    return points, products


def normalized_hermite(degree: int, points: np.ndarray) -> np.ndarray:
    """He_k / sqrt(k!) for k = 0 .. degree: (degree + 1, *points.shape), by the three-term recurrence."""
    values = [np.ones_like(points), points]
    for k in range(1, degree):
        values.append((points * values[k] - math.sqrt(k) * values[k - 1]) / math.sqrt(k + 1))
    return np.stack(values[: degree + 1])


def measure(h: Map, dim: int, rho: float, nodes: int) -> Measured:
    """Integrate over z and the noise of the transition.

    Args:
        h: from (..., dim) to (..., dim); its mean is removed.
        dim: number of latents.
        rho: correlation of a pair.
        nodes: per axis; there are 2 dim axes.
    """
    z, weights = grid(dim, nodes)
    here = h(z)
    center = weights @ here
    here = here - center
    loss = 0.0
    for noise, weight in zip(z, weights, strict=True):
        there = h(rho * z + math.sqrt(1 - rho**2) * noise) - center
        loss += float(weight * (weights @ np.sum((there - here) ** 2, -1)))
    weighted = here * weights[:, None]
    return Measured(weighted.T @ here, weighted.T @ z, loss, rho)


def measure_spiral(rate: float, rho: float, nodes: int = 240, reach: float = 12.0) -> Measured:
    """The numbers of the spiral, from integrals over the radii.

    Args:
        rate: angle per unit of radius.
        rho: correlation of a pair.
        nodes: of Gauss-Legendre quadrature on [0, reach].
        reach: radius beyond which the Gaussian has no weight in float64.
    """
    nodes_legendre, weights = np.polynomial.legendre.leggauss(nodes)
    r, w = (nodes_legendre + 1) * reach / 2, weights * reach / 2
    radial = w * r**3 * np.exp(-(r**2) / 2) / 2
    cosine, sine = float(radial @ np.cos(rate * r)), float(radial @ np.sin(rate * r))
    v = 1 - rho**2
    a, b = r[:, None], r[None, :]
    # the scaled Bessel function and one exponent: neither factor overflows
    kernel = special.ive(1, rho * a * b / v) * np.exp(-(a**2 + b**2 - 2 * rho * a * b) / (2 * v))
    joint = w[:, None] * w[None, :] * (a * b) ** 2 / v * kernel
    correlation = float(np.sum(joint * np.cos(rate * (a - b))))
    rotation = np.array([[cosine, -sine], [sine, cosine]])
    return Measured(np.eye(2), rotation, 4 - 2 * correlation, rho)


def stream(z: np.ndarray, time: float = 1.0, steps: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Follow the flow that keeps N(0, I_2), with its Jacobian.

    Args:
        z: (points, 2).
        time: how long to flow.
        steps: of the fourth-order Runge-Kutta method.

    Returns:
        Where the points are, the Jacobians (points, 2, 2), and their log-determinants as the integral of the
        divergence, which does not use the Jacobians.
    """

    def field(state: np.ndarray) -> np.ndarray:
        x, y = state[:, 0], state[:, 1]
        jacobian = state[:, 2:6].reshape(-1, 2, 2)
        slope = np.stack([np.stack([y, x], -1), np.stack([-2 * x, np.zeros_like(x)], -1)], -2)
        moved = (slope @ jacobian).reshape(-1, 4)
        return np.concatenate([np.stack([x * y, 1 - x**2], -1), moved, y[:, None]], -1)

    start = np.broadcast_to(np.array([1.0, 0.0, 0.0, 1.0, 0.0]), (len(z), 5))
    state = np.concatenate([z, start], -1)
    step = time / steps
    for _ in range(steps):
        k1 = field(state)
        k2 = field(state + step / 2 * k1)
        k3 = field(state + step / 2 * k2)
        k4 = field(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state[:, :2], state[:, 2:6].reshape(-1, 2, 2), state[:, 6]
