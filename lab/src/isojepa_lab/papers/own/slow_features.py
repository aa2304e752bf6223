"""Slow feature analysis in closed form: of data, of polynomials or random cosines of them, and sequentially.

For pairs (x, x') of a stationary process and an expansion f of the observations

    minimise  E (y' - y)^2,  y = w . f(x),  subject to  E y = 0, E y^2 = 1, uncorrelated with those before,

a generalised eigenproblem  A w = delta B w,  A = E (f' - f)(f' - f)^T,  B the covariance of f over both views
(Wiskott & Sejnowski 2002). Directions in which the standardized f vary by less than `cutoff` of the largest
eigenvalue of B are left out. The expansions:

    none              linear SFA, which is TICA
    `Polynomials`     all monomials up to a degree, of whitened observations
    `Cosines`         cos(x . w / width + b) with normal w: random features of a Gaussian kernel (Rahimi &
                      Recht 2007), so that this is kernel SFA, approximately; the observations besides

`SequentialFeatures` is xSFA (Sprekeler, Zito & Wiskott 2014): the slowest feature is the first source; what
polynomials of the sources found so far predict linearly is taken away from the features; the slowest of what
is left is the next source. Harmonics and products of sources are then never mistaken for a source. It needs
sources of different rates. Only the slowest of the expanded features are kept for it, and residuals with
little variance left are not scaled up again: what is left of them is noise.
"""

import math
from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
import scipy

from isojepa.seeds import numpy_generator
from isojepa.validation import check_count

Expansion = Callable[[np.ndarray], np.ndarray]
CUTOFF = 1e-7  # of the largest variance: below it directions of the expansion are rounding
_ROWS = 10_000  # that are expanded at once


class Polynomials:
    """All monomials of degree 1 to `degree` of k variables: (n, k) to (n, m).

    Example:
        >>> Polynomials(2)(np.array([[2.0, 3.0]]))
        array([[2., 3., 4., 6., 9.]])
    """

    def __init__(self, degree: int) -> None:
        self.degree = check_count("degree", degree)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        columns = x.T
        columns_by_index: dict[tuple[int, ...], np.ndarray] = {
            (at,): column for at, column in enumerate(columns)
        }
        for degree in range(2, self.degree + 1):
            for term in combinations_with_replacement(range(len(columns)), degree):
                columns_by_index[term] = columns_by_index[term[:-1]] * columns[term[-1]]
        return np.stack(list(columns_by_index.values()), 1)


def largest_degree(dim: int, most: int) -> int:
    """The largest degree of which there are at most so many monomials of `dim` variables, at least 1.

    Example:
        >>> largest_degree(2, 5), largest_degree(16, 200)
        (2, 2)
    """
    degree = 1
    while math.comb(dim + degree + 1, dim) - 1 <= most:
        degree += 1
    return degree


class Cosines:
    """Random features of a Gaussian kernel, and the variables themselves: (n, k) to (n, k + count)."""

    def __init__(self, dim: int, count: int, width: float, seed: int) -> None:
        source = numpy_generator(seed, "cosines")
        self.frequencies = source.normal(size=(dim, check_count("count", count))) / width
        self.phases = source.uniform(0, 2 * np.pi, count)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate((x, np.cos(x @ self.frequencies + self.phases)), 1)


class SlowFeatures:
    """The slowest functions of observations among linear maps of an expansion; fitted when it is made.

    Args:
        x, x_next: (pairs, k) both views.
        count: of features.
        expansion: (n, k) to (n, m) of whitened observations; none is linear.
        cutoff: of eigenvalues of B.

    Attributes:
        delta: (count,) E (y' - y)^2 of each feature, ascending; 2 (1 - correlation).
    """

    def __init__(
        self,
        x: np.ndarray,
        x_next: np.ndarray,
        count: int,
        expansion: Expansion | None = None,
        cutoff: float = CUTOFF,
    ) -> None:
        self.expansion = expansion
        # the expansion is of white data: of a like size in every direction
        self.center = (x.mean(0) + x_next.mean(0)) / 2
        self.whitening = whitening(_covariance(x - self.center, x_next - self.center), cutoff)
        total, steps, mean = self._moments(x, x_next)
        scale = np.sqrt(np.maximum(np.diag(total), np.finfo(np.float64).tiny))
        white = whitening(total / np.outer(scale, scale), cutoff) / scale[:, None]
        self.delta, turn = scipy.linalg.eigh(
            white.T @ steps @ white, subset_by_index=(0, min(count, white.shape[1]) - 1)
        )
        self.mean, self.matrix = mean, white @ turn

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Features of observations (n, k): (n, count)."""
        pieces = np.array_split(x, max(1, len(x) // _ROWS))
        return np.concatenate([(self._expanded(piece) - self.mean) @ self.matrix for piece in pieces])

    def _expanded(self, x: np.ndarray) -> np.ndarray:
        white = (x - self.center) @ self.whitening
        return white if self.expansion is None else self.expansion(white)

    def _moments(self, x: np.ndarray, x_next: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Covariance of the expansion over both views, second moments of its steps, and its mean."""
        total: np.ndarray | float = 0.0
        steps: np.ndarray | float = 0.0
        mean: np.ndarray | float = 0.0
        for start in range(0, len(x), _ROWS):
            first, second = (self._expanded(rows[start : start + _ROWS]) for rows in (x, x_next))
            step = second - first
            total = total + first.T @ first + second.T @ second
            steps = steps + step.T @ step
            mean = mean + first.sum(0) + second.sum(0)
        mean = np.asarray(mean / (2 * len(x)))
        return np.asarray(total / (2 * len(x)) - np.outer(mean, mean)), np.asarray(steps / len(x)), mean


class SequentialFeatures:
    """Sources one by one: slowest features without what functions of earlier sources predict (xSFA).

    Args:
        x, x_next: (pairs, k) both views.
        count: of sources.
        expansion: see `SlowFeatures`.
        degree: of the polynomials of sources that are taken away.
        kept: how many of the slowest features of the expansion sources are looked for in.
        least: variance that a direction of the residuals must have left, of 1.
        cutoff: see `SlowFeatures`.
    """

    def __init__(
        self,
        x: np.ndarray,
        x_next: np.ndarray,
        count: int,
        expansion: Expansion | None = None,
        degree: int = 4,
        kept: int = 60,
        least: float = 0.1,
        cutoff: float = CUTOFF,
    ) -> None:
        self.features = SlowFeatures(x, x_next, kept, expansion, cutoff)
        self.functions = Polynomials(degree)
        self.stages: list[tuple[np.ndarray, np.ndarray]] = []
        first, second = self.features(x), self.features(x_next)
        sources, sources_next = np.empty((len(x), 0)), np.empty((len(x), 0))
        for _ in range(count):
            coefficients = self._predicting(sources, sources_next, first, second)
            rest, rest_next = (
                rows - self._functions(targets) @ coefficients
                for rows, targets in ((first, sources), (second, sources_next))
            )
            total, step = _covariance(rest, rest_next), rest_next - rest
            values, vectors = np.linalg.eigh(total)
            large = values > min(least, 0.5 * values[-1])  # something is always left to look in
            white = vectors[:, large] / np.sqrt(values[large])
            _, turn = scipy.linalg.eigh(white.T @ (step.T @ step) @ white, subset_by_index=(0, 0))
            self.stages.append((coefficients, white @ turn))
            sources, sources_next = (
                np.concatenate((targets, rest_target @ white @ turn), 1)
                for targets, rest_target in ((sources, rest), (sources_next, rest_next))
            )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Sources of observations (n, k): (n, count)."""
        features, sources = self.features(x), np.empty((len(x), 0))
        for coefficients, direction in self.stages:
            rest = features - self._functions(sources) @ coefficients
            sources = np.concatenate((sources, rest @ direction), 1)
        return sources

    def _functions(self, sources: np.ndarray) -> np.ndarray:
        """A constant and the polynomials of the sources."""
        ones = np.ones((len(sources), 1))
        return np.concatenate((ones, self.functions(sources)), 1) if sources.shape[1] else ones

    def _predicting(
        self, sources: np.ndarray, sources_next: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:
        """Coefficients of the least-squares prediction of the features from functions of the sources."""
        functions = [self._functions(coefficients) for coefficients in (sources, sources_next)]
        scale = np.sqrt(sum((one**2).mean(0) for one in functions) / 2)
        gram = sum((one / scale).T @ (one / scale) for one in functions)
        cross = sum((one / scale).T @ rows for one, rows in zip(functions, (first, second), strict=True))
        # polynomials of the same sources are nearly collinear: a little ridge
        ridge = 1e-8 * np.trace(gram) / len(gram) * np.eye(len(gram))
        coefficients: np.ndarray = scipy.linalg.solve(gram + ridge, cross, assume_a="pos") / scale[:, None]
        return coefficients


def whitening(covariance: np.ndarray, cutoff: float) -> np.ndarray:
    """(k, m) map to uncorrelated unit variances, of directions above a share of the largest variance."""
    values, vectors = np.linalg.eigh(covariance)
    large = values > cutoff * values[-1]
    components: np.ndarray = vectors[:, large] / np.sqrt(values[large])
    return components


def _covariance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Second moments over both views."""
    covariance: np.ndarray = (first.T @ first + second.T @ second) / (2 * len(first))
    return covariance
