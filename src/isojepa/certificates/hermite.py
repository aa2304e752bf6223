r"""Hermite energies of a function of Gaussian latents, with the latents at hand.

With z ~ N(0, I) and the orthonormal polynomials H_a(z) = prod_j He_{a_j}(z_j) / sqrt(a_j!), every h of finite
variance is sum_a c_a H_a (Klindt, LeCun & Balestriero 2026, Appendix A). Its energy at degree d is

    w_d = sum over |a| = d of c_a^2,        w_0 = (E h)^2,        sum over d >= 1 of w_d = Var h.

`quadrature_energy` integrates c_a = E[h H_a] with the tensor Gauss-Hermite rule, for a function that can be
called anywhere; it is run at two orders, and their difference is its error.

`regression_energy` estimates c_a^2 from samples without bias. Least squares on the other half of the samples
give a guess b; with q = (h - b.H) H_a, whose mean is c_a - b_a,

    c_a^2 = b_a^2 + 2 b_a E q + (E q)^2,

and (E q)^2 is estimated by the mean of q_i q_j over i != j. Given b every term is unbiased, whatever b is; a
good b makes the variance small. Values below zero by chance are kept. What lies above the degree is likewise

    E (h - b.H)^2 - sum_a (c_a - b_a)^2,

and the variance is the sum of all, which for a polynomial is far more exact than the samples' own variance.
High polynomials have heavy tails, so a guess of all degrees can be worse than one of degree 1. It is used
only where it makes the linear share far more certain, so that the choice itself does not bias the answer.
Intervals: jackknife over blocks, with b held fixed. Those of high degrees need thousands of samples, since in
fewer the tails are seldom seen.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
from torch import Tensor

from isojepa.certificates.embeddings import NotFinite

_Values = TypeVar("_Values", np.ndarray, Tensor)

ORDERS = {1: (256, 192), 2: (128, 96), 3: (48, 36)}  # points per dimension, and those of the comparison
BLOCKS = 20  # of the jackknife, per half
LARGEST = 4000  # features: least squares is cubic in them
PER_FEATURE = 10  # samples
_CELLS = 4_000_000  # numbers held at once
_CLEARLY = 0.3  # ratio of two errors that no chance explains
_NEGLIGIBLE = 1e-30  # weight of a quadrature point that is not evaluated


@dataclass(frozen=True)
class Quadrature:
    """Energies by quadrature.

    Attributes:
        energy: (m, degree + 1).
        variance: (m,).
        coarse_energy, coarse_variance: the same at the lower order.
        points: evaluated at the higher order.
    """

    energy: np.ndarray
    variance: np.ndarray
    coarse_energy: np.ndarray
    coarse_variance: np.ndarray
    points: int


@dataclass(frozen=True)
class Regression:
    """Unbiased energies from samples; raw, so that values below zero can occur.

    Attributes:
        energy: (m, degree + 2); the last is what lies above the degree.
        left_out: (blocks, m, degree + 2), each block of samples left out in turn.
    """

    energy: np.ndarray
    left_out: np.ndarray


def multi_indices(dim: int, degree: int) -> np.ndarray:
    """All multi-indices of total degree up to `degree`, by degree: (count, dim).

    Example:
        >>> multi_indices(2, 1).tolist()
        [[0, 0], [1, 0], [0, 1]]
    """
    rows = [
        np.bincount(chosen, minlength=dim) if chosen else np.zeros(dim, dtype=np.int64)
        for total in range(degree + 1)
        for chosen in itertools.combinations_with_replacement(range(dim), total)
    ]
    return np.stack(rows)


def feature_count(dim: int, degree: int) -> int:
    """How many multi-indices there are."""
    return math.comb(dim + degree, degree)


def hermite_polynomials(x: _Values, degree: int) -> list[_Values]:
    """He_k(x) / sqrt(k!) for k = 0 .. degree, of an array or a tensor."""
    found = [0 * x + 1, x][: degree + 1]
    for k in range(1, degree):
        # He_{k+1} = x He_k - k He_{k-1}, each divided by the root of its factorial
        found.append((x * found[k] - math.sqrt(k) * found[k - 1]) / math.sqrt(k + 1))
    return found


def hermite_table(x: np.ndarray, degree: int) -> np.ndarray:
    """`hermite_polynomials` of an array, in a new last axis."""
    return np.stack(hermite_polynomials(x, degree), -1)


def features(z: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """H_a(z) for latents (n, dim) and multi-indices (count, dim): (n, count)."""
    table = hermite_table(z, int(indices.max(initial=0)))
    values = np.ones((len(z), len(indices)))
    for j in range(z.shape[1]):
        used = np.flatnonzero(indices[:, j])  # in many dimensions nearly all powers are zero
        values[:, used] *= table[:, j, indices[used, j]]
    return values


def quadrature_energy(
    function: Callable[[np.ndarray], np.ndarray], dim: int, degree: int, order: int | None = None
) -> Quadrature:
    """Integrate the energies of a function in one to three dimensions.

    Args:
        function: maps (n, dim) latents to (n, m).
        dim: number of latents, at most 3.
        degree: the highest to compute.
        order: points per dimension; the comparison has three quarters of them.

    Raises:
        ValueError: more than 3 dimensions, too few points for the degree, or values that are not finite.
    """
    if dim not in ORDERS:
        raise ValueError(f"quadrature needs at most {max(ORDERS)} latents, got {dim}: pass method='curve'")
    fine, coarse = ORDERS[dim] if order is None else (int(order), 3 * int(order) // 4)
    if coarse < degree + 1:
        raise ValueError(f"order must be above 4/3 of the degree + 1 = {degree + 1}, got {fine}")
    energy, variance, points = _integrate(function, dim, degree, fine)
    coarse_energy, coarse_variance, _ = _integrate(function, dim, degree, coarse)
    return Quadrature(energy, variance, coarse_energy, coarse_variance, points)


def _integrate(
    function: Callable[[np.ndarray], np.ndarray], dim: int, degree: int, order: int
) -> tuple[np.ndarray, np.ndarray, int]:
    nodes, weights = scipy.special.roots_hermitenorm(order)
    weights = weights / weights.sum()
    weight = np.array([1.0])
    points = np.zeros((1, 0))
    for _ in range(dim):
        weight = np.outer(weight, weights).ravel()
        points = np.c_[np.repeat(points, order, axis=0), np.tile(nodes, len(points))]
        kept = weight > _NEGLIGIBLE
        weight, points = weight[kept], points[kept]
    indices = multi_indices(dim, degree)
    coefficients = squares = None
    for part in _parts(len(points), len(indices)):
        h = finite_values(function, points[part])
        weighted = weight[part, None] * h
        moment, square = features(points[part], indices).T @ weighted, (weighted * h).sum(0)
        coefficients = moment if coefficients is None else coefficients + moment
        squares = square if squares is None else squares + square
    if coefficients is None or squares is None:
        raise ValueError("quadrature needs at least one point, got none")
    return _by_degree(coefficients**2, indices, degree), squares - coefficients[0] ** 2, len(points)


def finite_values(function: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Values (n, m) of a function at latents (n, dim), checked.

    Raises:
        NotFinite: there are values that are not finite.
        ValueError: another shape.
    """
    h = np.asarray(function(z), dtype=np.float64)
    if h.ndim != 2 or len(h) != len(z) or h.shape[1] < 1:
        raise ValueError(f"the function must map ({len(z)}, {z.shape[1]}) to ({len(z)}, m), got {h.shape}")
    if not np.isfinite(h).all():
        bad = int((~np.isfinite(h)).any(1).sum())
        raise NotFinite(f"the function must be finite, got NaN or Inf at {bad} of {len(z)} latents")
    return h


def regression_energy(h: np.ndarray, z: np.ndarray, degree: int) -> Regression:
    """Estimate the energies of embeddings h (n, m) of independent latents z (n, dim) that are N(0, I).

    Raises:
        ValueError: too few samples for the number of features; the message says what to pass instead.
    """
    n, dim = z.shape
    check_features(n, dim, degree)
    indices = multi_indices(dim, degree)
    plain = _regress(h, z, indices, degree, 1)
    full = _regress(h, z, indices, degree, degree) if degree > 1 else plain
    return full if _linear_error(full) < _CLEARLY * _linear_error(plain) else plain


def _regress(h: np.ndarray, z: np.ndarray, indices: np.ndarray, degree: int, up_to: int) -> Regression:
    """Energies with a guess of some degree."""
    n = len(z)
    halves = (slice(0, n // 2), slice(n // 2, n))
    scored = [
        _score(h[own], z[own], _guess(h[other], z[other], indices, up_to), indices)
        for own, other in (halves, halves[::-1])
    ]
    means = [_energies(_totals(sums), guess, indices, degree) for sums, guess in scored]
    blocks = []
    for half, (sums, guess) in enumerate(scored):
        for block in range(BLOCKS):
            own = _energies(_totals(sums, leave_out=block), guess, indices, degree)
            blocks.append((own + means[1 - half]) / 2)
    return Regression((means[0] + means[1]) / 2, np.stack(blocks))


def _linear_error(found: Regression) -> float:
    """Spread of the pooled linear share over the blocks left out."""
    pooled = found.left_out[..., 1:].sum(1)
    return float((pooled[:, 0] / pooled.sum(1)).std())


def check_features(n: int, dim: int, degree: int) -> None:
    """Say what to pass instead where n samples cannot carry the features of a degree.

    Raises:
        ValueError: fewer than 10 samples per feature, or more than 4000 features.
    """
    room = min(LARGEST, n // PER_FEATURE)
    count = feature_count(dim, degree)
    if count <= room and n >= 4 * BLOCKS:
        return
    fitting = max((d for d in range(degree) if feature_count(dim, d) <= room), default=0)
    need = max(PER_FEATURE * count, 4 * BLOCKS)
    advice = [f"degree={fitting}"] if fitting else []
    advice += [f"at least {need} samples"] if count <= LARGEST else []
    advice += ["the encoder with its world and method='curve'"]
    raise ValueError(
        f"degree must leave {PER_FEATURE} samples per feature and at most {LARGEST} features, got "
        f"{count} features of degree {degree} in {dim} dimensions for {n} samples: pass {' or '.join(advice)}"
    )


def _guess(h: np.ndarray, z: np.ndarray, indices: np.ndarray, up_to: int) -> np.ndarray:
    """Least-squares coefficients (count, m) of the features up to a degree; the others are zero."""
    used = indices[indices.sum(1) <= up_to]
    count = len(used)
    gram, moment = np.zeros((count, count)), np.zeros((count, h.shape[1]))
    for part in _parts(len(z), count):
        values = features(z[part], used)
        gram += values.T @ values
        moment += values.T @ h[part]
    gram[np.diag_indices(count)] += 1e-9 * np.trace(gram) / count  # keeps them finite
    guess = np.zeros((len(indices), h.shape[1]))
    guess[:count] = scipy.linalg.solve(gram, moment, assume_a="pos")
    return guess


_Sums = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _score(h: np.ndarray, z: np.ndarray, guess: np.ndarray, indices: np.ndarray) -> tuple[_Sums, np.ndarray]:
    """Per block: samples, sum of q, sum of q^2 and sum of squared residuals, with q = (h - guess.H) H."""
    shape = (BLOCKS, len(indices), h.shape[1])
    number, left = np.zeros(BLOCKS), np.zeros((BLOCKS, h.shape[1]))
    first, second = np.zeros(shape), np.zeros(shape)
    for block, rows in enumerate(np.array_split(np.arange(len(z)), BLOCKS)):
        number[block] = len(rows)
        for part in _parts(len(rows), len(indices)):
            values = features(z[rows[part]], indices)
            residual = h[rows[part]] - values @ guess
            first[block] += values.T @ residual
            second[block] += (values**2).T @ residual**2
            left[block] += (residual**2).sum(0)
    return (number, first, second, left), guess


def _totals(sums: _Sums, leave_out: int | None = None) -> _Sums:
    kept = np.arange(BLOCKS) != (-1 if leave_out is None else leave_out)
    return tuple(part[kept].sum(0) for part in sums)


def _energies(totals: _Sums, guess: np.ndarray, indices: np.ndarray, degree: int) -> np.ndarray:
    """(m, degree + 2) unbiased energies per degree and above."""
    n, first, second, left = totals
    pairs = (first**2 - second) / (n * (n - 1))  # mean of q_i q_j over i != j
    energy = _by_degree(guess**2 + 2 * guess * first / n + pairs, indices, degree)
    energies: np.ndarray = np.c_[energy, left / n - pairs.sum(0)]
    return energies


def _by_degree(squares: np.ndarray, indices: np.ndarray, degree: int) -> np.ndarray:
    """Sum (count, m) over the multi-indices of each degree: (m, degree + 1)."""
    totals = np.zeros((degree + 1, squares.shape[1]))
    np.add.at(totals, indices.sum(1), squares)
    return totals.T


def _parts(n: int, width: int) -> list[slice]:
    step = max(1, _CELLS // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
