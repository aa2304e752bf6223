r"""Do features explain residuals? Sums of products between groups of rows, with random signs of the groups.

With residuals e (n, k) and whitened features phi (n, m) of the rows, in groups that are nearly independent,

    T = sum over groups g != h of S_g . S_h,    S_g = sum over rows i of g of e_i phi_i^T.

Its mean is 0 if E[e phi] = 0, for noise of any distribution, also one that depends on phi; else T over the
number of pairs of rows estimates, without bias, the variance of e that phi explains (Bierens 1982, Journal of
Econometrics 20, for one frequency at a time). The null gives the groups random signs, which is exact where
S_g is symmetric about 0, and approximate in the number of groups elsewhere.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from isojepa.seeds import numpy_generator
from isojepa.statistics.families import joint_p
from isojepa.statistics.intervals import Interval, from_blocks

MIN_EPISODES = 30  # that are groups themselves; fewer are cut into pieces of successive rows
MAX_GROUPS = 64
_DRAWS = 999


class Explained(NamedTuple):
    """The explained fraction, its interval and p, the fraction that chance reaches, and the kernel."""

    fraction: float
    interval: Interval
    p: float
    by_chance: float
    best: int


def group_edges(episode: np.ndarray) -> np.ndarray:
    """Rows at which groups begin, and the end: episodes if there are 30, else pieces of successive rows.

    Args:
        episode: (n,) of each row; rows of an episode stand together.

    Example:
        >>> group_edges(np.repeat(np.arange(32), 2))[:4]
        array([0, 2, 4, 6])
    """
    n, starts = len(episode), np.flatnonzero(np.diff(episode, prepend=-1))
    whole = len(starts) >= MIN_EPISODES
    even = np.linspace(0, n, min(MAX_GROUPS, len(starts) if whole else n) + 1)
    if not whole:
        return np.unique(even.round().astype(np.int64))
    return np.append(np.unique(starts[np.searchsorted(starts, even[:-1], side="right") - 1]), n)


def whiten(
    values: np.ndarray, least: float = 1e-8, scale: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uncorrelated columns of variance 1, their variances, and the directions that do not vary.

    Args:
        values: (n, k).
        least: variance, in units of the scale, up to which a direction does not vary.
        scale: (k,) of the columns; by default their standard deviation.
    """
    scale = values.std(0) if scale is None else scale
    scale = np.where(scale > 0, scale, 1.0)
    standard = (values - values.mean(0)) / scale
    variances, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    varies = variances > least
    white = standard @ (vectors[:, varies] / np.sqrt(variances[varies]))
    return white, variances[varies], (vectors[:, ~varies] / scale[:, None]).T


def group_products(
    residual: np.ndarray, features: np.ndarray, group: np.ndarray, leverage: np.ndarray | float = 0.0
) -> np.ndarray:
    """(k, groups, groups) S_g . S_h of each column of the residual.

    Args:
        residual: (n, k).
        features: (n, m); they are whitened.
        group: (n,) whole numbers from 0, ascending.
        leverage: (n,) of the rows in the fit that left the residual. A residual is 1 - leverage times as
            large as the error; the diagonal corrects the sum for what is missing in the squares.
    """
    white = whiten(features)[0]
    bounds = np.searchsorted(group, np.arange(group[-1] + 2))
    sums = np.stack([residual[i:j].T @ white[i:j] for i, j in pairwise(bounds)], axis=1)
    products = sums @ sums.transpose(0, 2, 1)
    lack = residual**2 * ((white**2).sum(1) * leverage / np.maximum(1 - leverage, 1e-3))[:, None]
    diagonal = np.arange(len(bounds) - 1)
    for column, one in zip(lack.T, products, strict=True):
        one[diagonal, diagonal] = -np.bincount(group, column)
    return np.asarray(products)


def group_pairs(group: np.ndarray) -> np.ndarray:
    """(groups, groups) pairs of rows of different groups."""
    sizes = np.bincount(group)
    return np.asarray(np.outer(sizes, sizes) * (1 - np.eye(len(sizes))))


def explained_fraction(
    kernels: Sequence[np.ndarray], pairs: np.ndarray, weights: np.ndarray, confidence: float, seed: int
) -> Explained:
    """The fraction that features explain, its interval by leaving out groups, and p.

    Of several kernels p is that of the largest standardized sum, and the fraction is of that one.

    Args:
        kernels: each (k, groups, groups) sums of products.
        pairs: (groups, groups) how many products each sum has.
        weights: (k,) turn sums over the columns of the residual into a fraction.
        confidence: of the interval, and of the fraction that chance reaches.
        seed: draws the signs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, group = rng.normal(size=(640, 1)), np.repeat(np.arange(64), 10)
        >>> e = x**2 - 1 + np.sqrt(2) * rng.normal(size=x.shape)
        >>> kernel, pairs = group_products(e / e.std(), x**2, group), group_pairs(group)
        >>> round(explained_fraction([kernel], pairs, np.ones(1), 0.95, 0).fraction, 1)
        0.5
    """
    rng = numpy_generator(seed, "signs of groups")
    signs = rng.choice((-1.0, 1.0), (_DRAWS, len(pairs)))

    def null(products: np.ndarray) -> np.ndarray:
        return np.asarray(((signs @ products) * signs).sum(1) - np.trace(products))

    totals = [kernel.sum(0) for kernel in kernels]
    scores = np.array([total.sum() for total in totals])
    p, best = joint_p(scores, np.stack([null(total) for total in totals], axis=1))
    parts = (np.tensordot(weights, kernels[best], 1), pairs)
    above, below = (part.sum() - part.sum(0) - part.sum(1) for part in parts)
    fraction = float(parts[0].sum() / pairs.sum())
    return Explained(
        fraction,
        from_blocks(fraction, above / np.maximum(below, 1), confidence),
        p,
        float(np.quantile(null(parts[0]), confidence) / pairs.sum()),
        best,
    )
