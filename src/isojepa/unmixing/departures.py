r"""How far the law of an axis is from normal: as the encoder left it, and as the world has it.

    departure          1 - corr(y, s)^2,   s = Phi^-1(rank of y):   0 for a normal law
    world_departure    1 - corr(f(y), s)^2,   f(y) the function of y that is its own best prediction

An encoder that is not done leaves y = g(u) of a latent that is u. What it left is a function of one axis,
and does not matter to functions of that axis: f is the same whatever g, if g increases. If a normal process
lies behind the axis, f(y) is s itself (Mehler), and the world's departure is 0, however far the encoder's y
is from normal. In a Langevin world f is the slowest eigenfunction of the law, which only one law has normal.

f is looked for among polynomials of s up to degree `_DEGREE`, of which Hermite's He_k are a basis: with
C_jk = E He_j(s) He_k(s') symmetric and G_jk = E He_j(s) He_k(s), it is the solution of C v = c G v that is
nearest to s. The departure of a projection is the smaller one. The standard error and the correction of the
bias, which any noise has here, come from leaving out each block of rows. Among many rows the largest scores
are cut, which takes next to nothing from f and much from the error of high degrees.
"""

import numpy as np
import scipy

from isojepa.certificates.spectrum import hermite_polynomials
from isojepa.unmixing.scores import normal_scores

STRONG = 0.025  # departure that needs no pairs: encoders of copula worlds were seen to leave up to 0.02
_SURE = 3.0  # standard errors
_DEGREE = 7
_FAR = 3.5  # score beyond which a score counts as that: high powers of larger ones are those of few rows,
_BEYOND = 40  # where so many are, at least, on each side: cut at the last few, polynomials tell less
_CHANCE = 5.0  # standard errors of a correlation of 0, below which pairs say nothing of each other
_APART = 1e-9  # eigenvalues that are no further apart tell nothing of their vectors: equal views


def departures(y: np.ndarray) -> np.ndarray:
    """(dim,) how far columns are from normal, 1 - corr(y, normal scores of y)^2; 0 if they stand still."""
    scores = scipy.special.ndtri((np.arange(len(y)) + 0.5) / len(y))
    ordered = np.sort(y.T)  # the values of an axis stand together in memory
    ordered -= ordered.mean(1, keepdims=True)
    squares = np.einsum("ij,ij->i", ordered, ordered)
    still = squares <= np.finfo(np.float64).tiny
    explained = (ordered @ scores) ** 2 / ((scores @ scores) * np.where(still, 1.0, squares))
    return np.where(still, 0.0, 1 - explained)


def world_departure(y: np.ndarray, y_next: np.ndarray, block: np.ndarray) -> tuple[float, float]:
    """The departure of the function of an axis that predicts itself best, and its standard error.

    Args:
        y, y_next: (n,) both views.
        block: (n,) to which each pair belongs, ascending.

    Returns:
        The estimate, which chance can make slightly negative, and an error of inf where nothing is told.
    """
    scores = normal_scores(np.concatenate((y, y_next)))
    if len(scores) * scipy.special.ndtr(-_FAR) >= _BEYOND:
        scores = scores.clip(-_FAR, _FAR)
    table = np.stack(hermite_polynomials(scores, _DEGREE)[1:])
    first, second = table[:, : len(y)], table[:, len(y) :]
    if abs(first[0] @ second[0]) < _CHANCE * np.sqrt(len(y)):
        return 0.0, float("inf")
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    ends = np.append(starts[1:], len(y))
    crossed, own = [], []
    for start, end in zip(starts, ends, strict=True):
        one, other = first[:, start:end], second[:, start:end]
        product = one @ other.T
        crossed.append((product + product.T) / 2)
        own.append((one @ one.T + other @ other.T) / 2)
    crosses, squares = np.stack(crossed), np.stack(own)
    cross, square = crosses.sum(0), squares.sum(0)
    found = _departures(np.stack((cross, *(cross - crosses))), np.stack((square, *(square - squares))))
    if not np.isfinite(found).all():
        return 0.0, float("inf")
    whole, without, count = found[0], found[1:], len(starts)
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    return float(whole - (count - 1) * (without.mean() - whole)), float(error)


def shown_departures(departure: np.ndarray, world: np.ndarray | None, tolerance: float) -> np.ndarray:
    """(dim,) the departure of each axis that is the world's, as far as rows show; 0 where they do not.

    Few pairs may show it of all axes together and not of each: a strong one counts then, unless refuted.
    Without pairs a strong one counts as it is.

    Args:
        departure: (dim,) of the axes themselves.
        world: (2, dim) the world's, and its errors; None without pairs.
        tolerance: what an encoder may have left.
    """
    strong = departure >= STRONG
    if world is None:
        return np.where(strong, departure, 0.0)
    estimate, error = world
    sure = (estimate >= tolerance) & (estimate > _SURE * error)
    asked = strong & np.isfinite(error)
    weights = 1 / np.maximum(error[asked], 1e-12) ** 2
    together = weights @ estimate[asked] > _SURE * np.sqrt(weights.sum())
    # equal views, pairs that say nothing of each other and laws of a few levels tell nothing of it
    told = np.isinf(error) | (together & ~refuted_departures(world, tolerance))
    return np.where(sure, estimate, np.where(strong & told, departure, 0.0))


def refuted_departures(world: np.ndarray, tolerance: float) -> np.ndarray:
    """(dim,) whether pairs show that a departure is not the world's."""
    estimate, error = world
    return np.asarray(estimate + _SURE * error < tolerance)


def _departures(cross: np.ndarray, square: np.ndarray) -> np.ndarray:
    """1 - corr(f, s)^2 of the eigenfunction f that is nearest to s, of each of several; NaN where none is."""
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(square))
    except np.linalg.LinAlgError:  # a law of fewer levels than degrees
        return np.full(len(square), np.nan)
    values, vectors = np.linalg.eigh(inverse @ cross @ inverse.transpose(0, 2, 1))
    shares = vectors[:, 0] ** 2  # Cholesky's first direction is that of s
    nearest = shares.argmax(1)[:, None]
    apart = np.abs(values - np.take_along_axis(values, nearest, 1))
    np.put_along_axis(apart, nearest, np.inf, 1)
    return np.where(apart.min(1) < _APART, np.nan, 1 - shares.max(1))
