"""The bound of Theorem 5, random series of harmonics on circle and sphere, and their reconstruction.

Symbols as in `sphere_bound.py`: K is the dimension of the space around the sphere, α the smoothness.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln

from isojepa.seeds import generator

Array = NDArray[np.float64]


def log_constant(dim: int, alpha: float) -> float:
    """Natural logarithm of C(K, α), with K = dim."""
    half = (dim - 1) / 2
    return (
        2 * alpha * math.log(2)
        + half * math.log(math.pi)
        + float(gammaln(alpha + half) - gammaln(alpha) - gammaln(half))
        - math.log(dim - 1)
    )


def directions_needed(dim: int, alpha: float) -> float:
    """Decimal logarithm of the number of directions at which the bound reaches ‖g‖²."""
    return max(log_constant(dim, alpha) * (dim - 1) / (2 * alpha) / math.log(10), 0.0)


def multiplicity(dim: int, degrees: int) -> Array:
    """Number of harmonics of each degree up to `degrees`, on the circle (K = 2) or the sphere (K = 3)."""
    degree = np.arange(degrees + 1, dtype=np.float64)
    return np.asarray(np.where(degree > 0, 2.0, 1.0) if dim == 2 else 2 * degree + 1)


def variances(dim: int, alpha: float, degree: Array) -> Array:
    """Variance of a coefficient of each degree."""
    return np.asarray(np.maximum(degree + (dim - 2) / 2, 1) ** (-2 * alpha - (dim - 1)))


def directions(dim: int, count: int, kind: str, draw: torch.Generator) -> Array:
    """Unit vectors, randomly rotated.

    Args:
        dim: 2 or 3.
        count: how many.
        kind: "random", or "low-discrepancy": multiples of the golden angle, on the sphere Fibonacci's spiral.
        draw: source of randomness.

    Returns:
        (count, dim).
    """
    if kind == "random":
        normal = torch.randn(count, dim, generator=draw, dtype=torch.float64)
        units: np.ndarray = (normal / normal.norm(dim=1, keepdim=True)).numpy()
        return units
    turn = np.arange(count) * math.pi * (3 - math.sqrt(5))
    if dim == 2:
        points = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    else:
        height = 1 - (2 * np.arange(count) + 1) / count
        radius = np.sqrt(1 - height**2)
        points = np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)
    rotation = torch.linalg.qr(torch.randn(dim, dim, generator=draw, dtype=torch.float64)).Q.numpy()
    turned: np.ndarray = points @ rotation
    return turned


def kernel(cosines: Array, energies: Array, dim: int) -> Array:
    """Covariance of the random series at two directions with these cosines between them.

    By the addition theorem it is Σ_l energies_l P_l, with P_l of Chebyshev (K = 2) or Legendre (K = 3).

    Args:
        cosines: of any shape.
        energies: variance of the part of each degree.
        dim: 2 or 3.
    """
    if dim == 2:
        return np.asarray(np.polynomial.chebyshev.chebval(cosines, energies))
    return np.asarray(np.polynomial.legendre.legval(cosines, energies))


def harmonics(points: Array, degrees: int) -> list[tuple[Array, Array]]:
    """Real harmonics at points of the circle or sphere, orthonormal under the uniform law.

    Args:
        points: (point, 2) or (point, 3), unit vectors.
        degrees: highest degree.

    Returns:
        Blocks of one order m each: the degrees (function,) and the values (function, point).
    """
    azimuth = np.arctan2(points[:, 1], points[:, 0])
    if points.shape[1] == 2:
        blocks = [(np.zeros(1), np.ones((1, len(points))))]
        for m in range(1, degrees + 1):
            waves = np.stack([np.cos(m * azimuth), np.sin(m * azimuth)])
            blocks.append((np.full(2, float(m)), math.sqrt(2) * waves))
        return blocks
    height = points[:, 2]
    sine = np.sqrt(np.maximum(1 - height**2, 0.0))
    sector = np.ones(len(points))  # normalized associated Legendre function with l = m
    blocks = []
    for m in range(degrees + 1):
        if m > 0:
            sector = sector * sine * math.sqrt((2 * m + 1) / (2 * m))
        values = [sector]
        before = np.zeros_like(sector)
        for degree in range(m + 1, degrees + 1):
            # three-term recurrence in the degree, stable upwards
            up = math.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            down = math.sqrt(((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1))
            before, after = values[-1], up * (height * values[-1] - down * before)
            values.append(after)
        block = np.stack(values)
        orders = np.arange(m, degrees + 1, dtype=np.float64)
        if m == 0:
            blocks.append((orders, block))
        else:
            waves = math.sqrt(2) * np.stack([np.cos(m * azimuth), np.sin(m * azimuth)])
            both = (block[None] * waves[:, None]).reshape(-1, len(points))
            blocks.append((np.tile(orders, 2), both))
    return blocks


def errors(
    seed: int, dim: int, alpha: float, kind: str, counts: tuple[int, ...], degrees: int, functions: int
) -> list[float]:
    """Mean squared error of the interpolant over all directions, in units of the functions' Sobolev norm.

    The norm is Σ (1 + l (l + K - 2))^α c², with coefficients c under the uniform law of directions.

    Args:
        seed: of functions and directions.
        dim: K, 2 or 3.
        alpha: smoothness.
        kind: of directions.
        counts: numbers of directions.
        degrees: highest degree of the series.
        functions: how many are drawn.

    Returns:
        One error per count, averaged over functions.
    """
    source = generator(seed, "sphere bound", dim, str(alpha), kind)
    sets = [directions(dim, count, kind, source) for count in counts]
    test = directions(dim, 500, "random", source)
    everywhere = np.concatenate([*sets, test])
    values = np.zeros((len(everywhere), functions))
    norm = np.zeros(functions)
    for degree, block in harmonics(everywhere, degrees):
        normal = torch.randn(len(degree), functions, generator=source, dtype=torch.float64).numpy()
        coefficients = normal * np.sqrt(variances(dim, alpha, degree))[:, None]
        values += block.T @ coefficients
        norm += (1 + degree * (degree + dim - 2)) ** alpha @ coefficients**2
    energies = multiplicity(dim, degrees) * variances(dim, alpha, np.arange(degrees + 1.0))
    truth, errors_by_degree, start = values[-len(test) :], [], 0
    for points in sets:
        block_values = values[start : start + len(points)]
        start += len(points)
        gram = kernel(points @ points.T, energies, dim)
        gram[np.diag_indices_from(gram)] += 1e-14 * gram[0, 0]  # two random directions may almost coincide
        weights = cho_solve(cho_factor(gram), block_values)
        error = kernel(test @ points.T, energies, dim) @ weights - truth
        errors_by_degree.append(float(np.mean(error**2 / norm)))
    return errors_by_degree
