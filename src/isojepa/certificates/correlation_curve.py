r"""Hermite energies in any dimension, from the correlation curve of a function of Gaussian latents.

For z and eta independent N(0, I), Mehler's formula makes the curve of each embedding dimension a power series
with the energies as its coefficients:

    C(r) = Cov( h(z), h(r z + sqrt(1 - r^2) eta) ) = sum over d >= 1 of w_d r^d,         C(1) = Var h.

Negative r tell odd degrees from even ones. All r share z and eta, so their errors are nearly the same and
cancel in the fit, whose metric is the measured covariance of C(r)/C(1). The shares are non-negative and add
up to one; columns beyond the wanted degree, up to a few hundred, take what is above it. Intervals: bootstrap
over blocks of latents.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.certificates.hermite import finite_values
from isojepa.certificates.mixture import Whitener, fit_many, fit_shares
from isojepa.seeds import generator

CORRELATIONS = (0.15, 0.35, 0.55, 0.7, 0.82, 0.91, 0.97)  # each with both signs
DRAWS = 300
_BLOCKS = 100
_RIDGE = 1e-4  # a linear function's errors are all alike: their covariance has rank one
_HIGHEST = 400  # degree of the last column but that of all above


@dataclass(frozen=True)
class CurveEnergy:
    """Shares of the variance per degree from a correlation curve.

    Attributes:
        mean, variance: (m,) of the embedding.
        shares: (m, degree) of each dimension, degrees 1 .. degree; of a constant dimension all 0.
        pooled: (degree + 1,) of all dimensions together; the last is what lies above.
        draws: (draws, degree + 1) the same, bootstrapped.
        correlations: (t,).
        curve: (t,) pooled C(r) / C(1).
    """

    mean: np.ndarray
    variance: np.ndarray
    shares: np.ndarray
    pooled: np.ndarray
    draws: np.ndarray
    correlations: np.ndarray
    curve: np.ndarray


def curve_energy(
    function: Callable[[np.ndarray], np.ndarray], dim: int, degree: int, samples: int, seed: int
) -> CurveEnergy:
    """Measure the correlation curve of a function and split it into degrees.

    Args:
        function: maps (n, dim) latents to (n, m).
        dim: number of latents.
        degree: the highest to tell apart.
        samples: latents; each is seen at 15 correlations.
        seed: draws them.

    Raises:
        ValueError: fewer than 1000 samples, or values that are not finite.
    """
    if samples < 1000:
        raise ValueError(f"samples must be at least 1000 for a correlation curve, got {samples}")
    correlations = np.array([sign * r for r in CORRELATIONS for sign in (1, -1)])
    source = generator(seed, "spectrum", "curve")
    z, eta = (torch.randn(samples, dim, generator=source, dtype=torch.float64).numpy() for _ in range(2))
    h = finite_values(function, z)
    mean, variance = h.mean(0), h.var(0, ddof=1)
    if not variance.sum() > 0:
        raise ValueError("the function must vary, got a constant")
    centered = h - mean
    blocks = np.array_split(np.arange(samples), _BLOCKS)
    products = np.empty((len(correlations) + 1, samples))  # summed over the dimensions
    sums = np.empty((len(correlations), h.shape[1]))
    products[-1] = (centered**2).sum(1)
    for index, r in enumerate(correlations):
        other = finite_values(function, r * z + np.sqrt(1 - r**2) * eta)
        product = centered * (other - other.mean(0))
        products[index], sums[index] = product.sum(1), product.sum(0)
    curve = products[:-1].sum(1) / products[-1].sum()
    influence = products[:-1] - curve[:, None] * products[-1]
    whitener = Whitener.of(np.atleast_2d(np.cov(influence)), _RIDGE)
    basis, degrees = _basis(correlations, degree)
    counts = np.stack([products[:, block].sum(1) for block in blocks])
    drawn = _redrawn(counts, generator(seed, "spectrum", "bootstrap"))
    pooled = _grouped(fit_shares(basis, curve, whitener)[0][None], degrees, degree)[0]
    draws = _grouped(fit_many(basis, drawn, whitener)[0], degrees, degree)
    squares = (centered**2).sum(0)
    varies = squares > 1e-20 * (np.abs(mean) ** 2 * samples + squares.max())
    own = sums[:, varies] / squares[varies]
    shares = np.zeros((h.shape[1], degree))
    shares[varies] = _grouped(fit_many(basis, own.T, whitener)[0], degrees, degree)[:, :degree]
    return CurveEnergy(mean, variance, shares, pooled, draws, correlations, curve)


def _basis(correlations: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns r^d for all degrees to a little above the wanted one, then fewer; the last is 0 for |r| < 1."""
    degrees = list(range(1, degree + 9))
    while degrees[-1] < _HIGHEST:
        step = round(1.35 * degrees[-1])
        degrees += [step, step + 1]  # an even and an odd one
    powers = correlations[:, None] ** np.array(degrees)
    return np.c_[powers, np.zeros(len(correlations))], np.array([*degrees, np.iinfo(np.int64).max])


def _grouped(shares: np.ndarray, degrees: np.ndarray, degree: int) -> np.ndarray:
    """(count, degree + 1): the wanted degrees, and the sum of those above."""
    above = shares[:, degrees > degree].sum(1, keepdims=True)
    return np.hstack((shares[:, :degree], above))


def _redrawn(counts: np.ndarray, source: torch.Generator) -> np.ndarray:
    """Curves (DRAWS, t) of blocks drawn with replacement, from their sums (blocks, t + 1)."""
    picked = torch.randint(len(counts), (DRAWS, len(counts)), generator=source).numpy()
    times = np.stack([np.bincount(row, minlength=len(counts)) for row in picked])
    totals = times @ counts
    curves: np.ndarray = totals[:, :-1] / totals[:, -1:]
    return curves
