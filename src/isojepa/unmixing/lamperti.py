"""The coordinate of constant diffusion of an axis, from the variance of its increments or from its law alone.

Every stationary, reversible diffusion y on the line is an increasing function of one with dz = (log p)' dt +
sqrt(2) dW (Lamperti 1962): z = integral of dy / sqrt(D(y)).

Increments. D(y) is the limit of E[(y' - y)^2 | y] / 2t for short times t. For other times that is biased: a
step sees the diffusion on its way, and the drift. But p, and with it every transition, is known once z is.
With dz/du = exp(g(u)) along the normal score u, the diffusion of z jumps between neighbouring cells, of
masses m and mean scores u_i, with

    conductance  phi(u_f) exp(-2 g(u_f)) / (u_{i+1} - u_i)      at the face f between i and i + 1,

and the eigenvectors of its generator give v(z) = E[(z' - z)^2 | z] after one lag. g is the one whose v is
what the pairs show, each cell weighted by its count: Newton's steps, with the exact derivative of the matrix
exponential (Daleckii & Krein 1965). Both sides of each pair count, for the process is reversible. No bias of
the lag remains but that of the cells, of order their width squared.

Eigenfunction. If y is itself the slowest eigenfunction its drift is -lambda y, and no flux means

    D(y) q(y) = lambda S(y),  S(y) = integral of w q(w) dw over w > y,  so  dz ~ sqrt(dF dy / S),

with q the density of y and F its distribution function: masses and distances, no density, at any lag.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.unmixing.scores import BLOCKS, Scores, Splines, left_out, normal_density

_STEPS = 25  # of Newton
_FREE = 8  # steps after which the penalty stays
_LONGEST = 1.0  # change of g in a step
_SETTLED = 1e-3  # change of z, in its deviations, that ends
_HALVINGS = 5


@dataclass(frozen=True, eq=False)
class Coordinate:
    """z at the knots of the scores, up to scale and origin; from increments, one lag is a unit of its time.

    Attributes:
        z: (K + 2,), increasing.
        left_out: (BLOCKS, K + 2) the same without each block, at the same values of the axis.
        settled: whether the steps ended by themselves.
    """

    z: np.ndarray
    left_out: np.ndarray
    settled: bool = True


def from_increments(scores: Scores) -> Coordinate:
    """The coordinate whose increments have the variance that the pairs show.

    Args:
        scores: of first and second values of n pairs, (2 n,): the second of pair i at n + i.
    """
    pairs = len(scores.u) // 2
    splines = Splines(scores.reach)
    basis, nodes = splines.basis(scores.edges), scores.knots[1:-1]
    counts = scores.tallied()
    # a pair with both sides in one cell is one increment there, counted twice
    both = np.tile(scores.cell[:pairs] == scores.cell[pairs:], 2)
    total = counts.sum(0)
    weights = total / (2 * (1 + scores.tallied(both).sum(0) / np.maximum(total, 1)))

    def misfit(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log of seen over expected variance by cell, its derivative, and squares by block and cell."""
        slope = np.exp(basis @ theta)
        z = _at_knots(slope * np.diff(nodes), scores.knots)
        each = scores.at(z)
        squares = scores.tallied(np.tile((each[pairs:] - each[:pairs]) ** 2, 2))
        conductance = normal_density(scores.edges) / slope**2 / np.diff(nodes)
        expected, by_conductance = _expected(z[1:-1], scores.mass, conductance)
        # a slope moves the places of both variances alike: only the jumps between them tell the two apart
        derivative = 2 * (by_conductance * conductance / expected[:, None]) @ basis
        return _log_ratio(squares.sum(0), total, expected), derivative, squares

    def cost(theta: np.ndarray, ratio: np.ndarray, penalty: float) -> float:
        return float(weights @ ratio**2 + penalty * theta @ splines.penalty @ theta)

    first, second = scores.u[:pairs], scores.u[pairs:]
    time = -math.log(float(np.corrcoef(first, second)[0, 1]))
    theta = np.full(splines.count, -0.5 * math.log(time))  # a normal law
    ratio, _, _ = misfit(theta)
    # Lamperti's formula as it stands is the first guess
    guess, penalty = splines.solve(splines.basis(nodes), -ratio / 2, weights)
    theta = theta + guess
    ratio, derivative, squares = misfit(theta)
    settled = False
    for step in range(_STEPS):
        kept = penalty if step >= _FREE else None
        target, penalty = splines.solve(derivative, derivative @ theta - ratio, weights, kept)
        way = (target - theta) * (1.0 if kept is None else 0.5)  # half steps end what goes round in circles
        way *= min(1.0, _LONGEST / max(float(np.abs(basis @ way).max()), 1e-300))
        before = cost(theta, ratio, penalty)
        for _ in range(_HALVINGS):
            ratio, derivative, squares = misfit(theta + way)
            if cost(theta + way, ratio, penalty) <= before + 1:  # 1 is noise: costs are chi-squares
                break
            way /= 2
        moved = _moved(np.exp(basis @ theta) * np.diff(nodes), basis @ way, scores.mass)
        theta = theta + way
        if moved <= _SETTLED:
            settled = True
            break
    return _without_blocks(scores, splines, theta, derivative, weights, penalty, squares, counts, settled)


def _without_blocks(
    scores: Scores,
    splines: Splines,
    theta: np.ndarray,
    derivative: np.ndarray,
    weights: np.ndarray,
    penalty: float,
    squares: np.ndarray,
    counts: np.ndarray,
    settled: bool,
) -> Coordinate:
    """The fit, and one Newton's step from it without each block, in cells that stay where they are in y."""
    basis, nodes = splines.basis(scores.edges), scores.knots[1:-1]
    slope = np.exp(basis @ theta)
    z = np.concatenate(([0.0], np.cumsum(slope * np.diff(nodes))))
    conductance = normal_density(scores.edges) / slope**2 / np.diff(nodes)
    sums, sizes = left_out(squares), left_out(counts)
    shares = np.maximum(sizes, 0.5) / np.maximum(sizes[0], 0.5)
    found = []
    at_all = np.zeros(0)
    for at in range(BLOCKS + 1):
        mass = scores.mass * shares[at]
        share = np.sqrt(shares[at][1:] * shares[at][:-1]) / mass.sum()
        expected, _ = _expected(z, mass / mass.sum(), conductance * share)
        ratio = _log_ratio(sums[at], sizes[at], expected)
        at_all = at_all if at else ratio
        # at the fit the penalty and the misfit balance: only what the block changes moves it
        moved, _ = splines.solve(derivative, at_all - ratio, weights, penalty)
        found.append(_at_knots(np.exp(basis @ (theta + moved)) * np.diff(nodes), scores.knots))
    return Coordinate(found[0], np.stack(found[1:]), settled)


def _moved(distances: np.ndarray, change: np.ndarray, mass: np.ndarray) -> float:
    """How far a change of g (K - 1,) moves z, in deviations of z: what it does to the ends counts little."""
    z, away = (np.concatenate(([0.0], np.cumsum(part))) for part in (distances, distances * change))
    deviation, moved = (math.sqrt(mass @ (part - mass @ part) ** 2) for part in (z, away))
    return moved / deviation


def _at_knots(distances: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(K + 2,) z from the distances (K - 1,) between the inner knots, with the same slope beyond them."""
    slopes = distances / np.diff(knots[1:-1])
    ends = slopes[[0, -1]] * np.diff(knots)[[0, -1]]
    return np.concatenate(([0.0], np.cumsum(np.concatenate((ends[:1], distances, ends[1:])))))


def _log_ratio(squares: np.ndarray, counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """log of seen over expected variance; 0 in cells without increments, which ties leave."""
    seen = (counts > 0) & (squares > 0) & (expected > 0)
    ratio = squares / np.where(seen, counts * expected, 1.0)
    return np.log(np.where(seen, ratio, 1.0))


def _expected(z: np.ndarray, mass: np.ndarray, conductance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[(z' - z)^2 | z] in each cell after a unit of time, and its derivative (K, K - 1) by conductance."""
    z, root = z - mass @ z, np.sqrt(mass)
    diagonal = np.zeros(len(z))
    diagonal[:-1] += conductance / mass[:-1]
    diagonal[1:] += conductance / mass[1:]
    values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, -conductance / (root[:-1] * root[1:]))
    values = np.maximum(values, 0.0)
    decay = np.exp(-values)
    powers = vectors.T @ (root[:, None] * np.stack((z, z**2), axis=1))
    means = (vectors @ (decay[:, None] * powers)) / root[:, None]
    expected = means[:, 1] - 2 * z * means[:, 0] + z**2
    # divided differences of exp(-value); the derivative where two are equal to rounding
    apart = values[:, None] - values
    near = np.abs(apart) < 1e-6
    divided = np.where(
        near, np.exp(-(values[:, None] + values) / 2), (decay - decay[:, None]) / np.where(near, 1.0, apart)
    )
    # the generator is the sum over faces of conductance b b', with b = 1 / root of the two cells beside it
    jumps = vectors[:-1].T / root[:-1] - vectors[1:].T / root[1:]
    by_first, by_second = (
        -(vectors @ (jumps * (divided @ (jumps * powers[:, [at]])))) / root[:, None] for at in (0, 1)
    )
    return expected, by_second - 2 * z[:, None] * by_first


def from_eigenfunction(scores: Scores, values: np.ndarray) -> Coordinate:
    """The coordinate in which the axis is the slowest eigenfunction, from its law alone.

    Args:
        scores: of the axis.
        values: (n,) of the axis, which the scores belong to.
    """
    keep = np.concatenate(([True], np.diff(scores.values) > 0))  # ties can hold two knots together
    y, knots = scores.values[keep], scores.knots[keep]
    count = len(y) - 1
    place = scores.block * count + np.searchsorted(y[1:-1], values)
    scale = float(np.abs(y).max())
    sizes = left_out(np.bincount(place, minlength=BLOCKS * count).reshape(BLOCKS, count))
    sums = left_out(np.bincount(place, values / scale, BLOCKS * count).reshape(BLOCKS, count))
    splines, steps = Splines(scores.reach), np.diff(knots)
    basis = splines.basis((knots[1:] + knots[:-1]) / 2)
    # given the counts, distances vary by 1 / sqrt(count), and z by half of that
    weights = 4.0 * sizes[0]
    found, penalty = [], None
    for size, total in zip(sizes, sums, strict=True):
        number = size.sum()
        mean = total.sum() / number
        below = np.concatenate(([0.0], np.cumsum(total - mean * size))) / number
        flux = -(below[1:] + below[:-1]) / 2
        seen = (size > 0) & (flux > 0)
        square = np.where(seen, size / number * np.diff(y) / scale / np.where(seen, flux, 1.0), 1.0)
        target = np.log(square) / 2 - np.log(steps)
        theta, penalty = splines.solve(basis, target, np.where(seen, weights, 0.0), penalty)
        z = np.concatenate(([0.0], np.cumsum(np.exp(basis @ theta) * steps)))
        found.append(np.interp(scores.knots, knots, z))
    return Coordinate(found[0], np.stack(found[1:]))
