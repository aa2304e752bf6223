r"""The functions of one family that correlate most across the views, fitted from sums over blocks of rows.

With f = v.phi(h) and pairs in either order, C0 = (Var phi + Var phi') / 2 and C1 the symmetrised covariance
of phi and phi', the correlation of f is v.C1 v / v.C0 v. The sums

    G+ = sum (phi + phi')(phi + phi')^T,      G- = sum (phi - phi')(phi - phi')^T,

each about its mean, give 4 C0 = G+ + G- and 4 C1 = G+ - G-. They are kept by block, so that any part of the
rows can fit and any other judge. The features are first turned to principal components, the linear ones ahead
and the rest by their variance, smooth ones first: fewer components are a stronger penalty.

Of k functions together, the correlation is sum_i C1_ii / sum_i C0_ii: never above that of the best of them,
and far surer where several correlate equally.
"""

import functools
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.certificates.correlation_functions import Family

_SIZES = (0, 6, 12, 24, 48, 96, 192, 256)  # components beside the linear ones
_SHARE = 8  # rows per component
_FITTED = 4  # parts of the rows whose sums are kept: those that are fitted to in turn
_PENALTY = 1e-6
_EMPTY = 1e-8  # variance of a component over the largest below which it is rounding


@dataclass(frozen=True)
class Functions:
    """Some functions of a family: weights (features, k) of its features."""

    family: Family
    weights: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values (n, k) at inputs (n, dim)."""
        values: np.ndarray = self.family.features(x) @ self.weights
        return values


class Fit:
    """One family's sums over all blocks, in principal components.

    Args:
        family: whose functions.
        blocks: pairs of inputs (n, dim), a block of successive rows each.
    """

    def __init__(self, family: Family, blocks: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self.family = family
        rows, first, products = [], [], []
        center = None
        for x, x_next in blocks:
            a, b = family.features(x), family.features(x_next)
            if center is None:  # near the means: sums about them lose no digits
                center = (a.mean(0) + b.mean(0)) / 2
            both = (a + b, a - b)
            both[0][...] -= 2 * center
            rows.append(len(a))
            first.append([part.sum(0) for part in both])
            products.append([part.T @ part for part in both])
        self.rows, self.first, self.products = np.array(rows), np.array(first) / 2, np.array(products) / 4
        self.basis = self._components()
        self.first = self.first @ self.basis
        self.products = self.basis.T @ self.products @ self.basis
        self.plain = min(family.plain, self.basis.shape[1])
        self.solved: dict[tuple[tuple[int, ...], int], np.ndarray] = {}
        self.summed = functools.lru_cache(maxsize=_FITTED)(self.moments)  # every size asks for the same

    def _components(self) -> np.ndarray:
        """Directions (features, components) of variance 1: the linear ones, then the rest without them."""
        upper, lower = self.moments(tuple(range(len(self.rows))))
        covariance = upper + lower
        plain = self.family.plain
        linear = np.zeros((len(covariance), plain))
        linear[:plain] = np.eye(plain)
        linear = _whitened(linear, covariance)
        if plain == len(covariance):
            return linear
        rest = np.eye(len(covariance))[:, plain:]
        rest = _whitened(rest - linear @ (linear.T @ covariance @ rest), covariance)
        most = min(_SIZES[-1], int(self.rows.sum()) // _SHARE)  # more are never tried
        return np.concatenate([linear, rest[:, :most]], axis=1)

    def moments(self, blocks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Covariances of the half sums and half differences over some blocks: C0 is their sum."""
        chosen = list(blocks)
        rows = self.rows[chosen].sum()
        first, products = self.first[chosen].sum(0) / rows, self.products[chosen].sum(0) / rows
        upper, lower = products - np.einsum("si,sj->sij", first, first)
        return upper, lower

    def sizes(self, rows: int) -> list[int]:
        """Numbers of components to try with some rows to fit them to."""
        room = max(self.plain, min(self.basis.shape[1], rows // _SHARE))
        return sorted({min(room, self.plain + size) for size in _SIZES})

    def counts(self, size: int) -> list[int]:
        """Numbers of functions to try; all linear ones together are among them."""
        return sorted({k for k in (1, 2, 4, 8, 16, 32, self.plain) if k <= size})

    def solve(self, blocks: tuple[int, ...], size: int) -> np.ndarray:
        """Weights (size, k) of the functions that correlate most in some blocks, best first."""
        if (blocks, size) not in self.solved:
            upper, lower = (part[:size, :size] for part in self.summed(blocks))
            both = upper + lower
            both[np.diag_indices(size)] += _PENALTY
            wanted = [size - max(self.counts(size)), size - 1]
            self.solved[blocks, size] = scipy.linalg.eigh(upper - lower, both, subset_by_index=wanted)[1][
                :, ::-1
            ]
        return self.solved[blocks, size]

    def judge(self, weights: np.ndarray, block: int) -> np.ndarray:
        """Sums over a block of rows: (4, k) of half sums, half differences, and their squares."""
        size = len(weights)
        first = self.first[block, :, :size] @ weights
        squares = [((part[:size, :size] @ weights) * weights).sum(0) for part in self.products[block]]
        return np.concatenate([first, squares])

    def functions(self, blocks: tuple[int, ...], size: int, count: int) -> Functions:
        """The functions fitted to some blocks, ready to be called."""
        return Functions(self.family, self.basis[:, :size] @ self.solve(blocks, size)[:, :count])


def _whitened(directions: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Principal components of variance 1 within the span of some directions, largest first."""
    values, vectors = scipy.linalg.eigh(directions.T @ covariance @ directions)
    keep = values > _EMPTY * max(values[-1], 0.0)
    whitened: np.ndarray = directions @ (vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1]
    return whitened
