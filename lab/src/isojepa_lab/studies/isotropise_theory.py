r"""What theory says of a law of pairs, without training.

Slow features. The best whitened embedding under alignment is made of the first eigenfunctions of the
symmetrised transition: in a basis b of polynomials, (C' + C'^T) a / 2 = lambda C a with C = Cov(b(z)) over
both ends and C' = Cov(b(z), b(z')). If those are not linear in z, or belong to one latent only, the latents
are not recovered however well one trains.

Ceiling. A linear map of an embedding that is exactly N(0, I) is Gaussian. Of all Gaussians coupled to a
latent z_i the monotone image correlates best, so R^2 is at most (\int F^{-1}(q) Phi^{-1}(q) dq)^2 /
Var(z_i): 1 for a Gaussian, 2/pi for a fair coin.
"""

import itertools
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.stats

from isojepa.linear import errors, halves, least_squares, r2_of


def slow_features(
    z: np.ndarray, z_next: np.ndarray, weights: np.ndarray, count: int, degree: int = 8
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Eigenvalues, descending, and the first `count` eigenfunctions as a function (n, dim) -> (n, count).

    Args:
        z, z_next: (n, dim) ends of pairs.
        weights: (n,).
        count: how many eigenfunctions.
        degree: largest total degree of the polynomials.
    """
    low, high = np.minimum(z.min(0), z_next.min(0)), np.maximum(z.max(0), z_next.max(0))
    powers = [p for p in itertools.product(range(degree + 1), repeat=z.shape[1]) if 0 < sum(p) <= degree]

    def basis(points: np.ndarray) -> np.ndarray:
        scaled = 2 * (points - low) / (high - low) - 1
        tables = [np.polynomial.legendre.legvander(column, degree) for column in scaled.T]
        out = np.ones((len(points), len(powers)))
        for column, power in enumerate(powers):
            for axis, k in enumerate(power):
                out[:, column] *= tables[axis][:, k]
        return out

    share = weights / weights.sum()
    first, second = basis(z), basis(z_next)
    mean = share @ (first + second) / 2
    first, second = first - mean, second - mean
    covariance = ((first * share[:, None]).T @ first + (second * share[:, None]).T @ second) / 2
    product = (first * share[:, None]).T @ second
    # polynomials nearly coincide where the data are thin: a small ridge keeps the problem definite
    ridge = 1e-8 * np.trace(covariance) / len(powers) * np.eye(len(powers))
    values, vectors = scipy.linalg.eigh((product + product.T) / 2, covariance + ridge)
    chosen = vectors[:, ::-1][:, :count]
    return values[::-1], lambda points: (basis(points) - mean) @ chosen


def ceiling(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Largest R^2 of each latent (n, dim) from a Gaussian embedding, under the weights (n,)."""
    share = weights / weights.sum()
    values = []
    for column in z.T:
        order = np.argsort(column)
        mass = share[order]
        level = np.cumsum(mass) - mass / 2  # the middle of each sample's share
        gaussian = scipy.stats.norm.ppf(np.clip(level, 1e-12, 1 - 1e-12))
        centered = column[order] - mass @ column[order]
        values.append((mass @ (centered * gaussian)) ** 2 / (mass @ centered**2))
    return np.array(values)


def r2_per_latent(h: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Held-out R^2 of each latent (n, dim) regressed on h (n, m): fitted on one half, scored on the other."""
    fit, score = halves(len(h))
    residual, spread = errors(z[score], least_squares(h[fit], z[fit])(h[score]))
    return r2_of(residual.sum(0), spread.sum(0))
