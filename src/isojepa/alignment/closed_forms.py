r"""Linear maps between two embeddings in closed form, from second moments of pairs of rows.

Moments of centered x (n, p), y (n, q) are gathered in one pass (Chan, Golub & LeVeque 1983). With S = x^T
y, the map y ~ W x, W (q, p), is

    ols                W = S^T (x^T x)^+                          least squares (Equations 3 and 15)
    ridge              W = S^T (x^T x + lambda I)^-1              Equations 4 and 16
    procrustes         W = V U^T, where S = U D V^T               the best with orthonormal columns or rows
    scaled_procrustes  W = s V U^T, s = tr D / |x U V^T|^2        the same with one scale
    cca                W = (y^T y)^(1/2) V U^T (x^T x)^(-1/2)     canonical variates matched one to one, as if
                       where U D V^T is the whitened S            each pair correlated perfectly
    low_rank           W = P_r S^T (x^T x)^+, P_r the first r     reduced-rank regression; r by the rank
                       principal directions of the fitted y       selection criterion unless given

(Zhang et al. 2026, "Social-JEPA", Equations 3, 4, 14 to 16; Gower & Dijksterhuis 2004; Bunea, She & Wegkamp
2011 for the rank.) Inverses leave out directions with less than 1e-12 of the largest variance.

**Penalty of ridge.** With x^T x = V diag(s) V^T and t = x V, row i has leverage and residual

    l_i = 1/n + sum_j t_ij^2 / (s_j + lambda)          e_i = y_i - W(lambda) x_i

and left-out residual e_i / (1 - l_i), exactly; the sum of their squares is minimized. Where rows are not
available (a streamed fit), all leverages are replaced by their mean: generalized cross-validation (Golub,
Heath & Wahba 1979).

**Canonical variates.** Held-out rows have the variates u = x (x^T x)^(-1/2) U and v = y (y^T y)^(-1/2) V of
fits on other rows. In-sample correlations D are near 1 for unrelated data in few rows; those of held-out
u_j, v_j are not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.statistics.splits import Split


@dataclass
class PairMoments:
    """Counts, means and centered products of pairs.

    Attributes:
        rows: number of rows that counted.
        weight: sum of their weights.
        mean: (p + q,) of both, side by side.
        products: (p + q, p + q) centered.
        first: p.
    """

    rows: int
    weight: float
    mean: np.ndarray
    products: np.ndarray
    first: int

    @classmethod
    def empty(cls, first: int, second: int) -> "PairMoments":
        """Of no rows."""
        width = first + second
        return cls(0, 0.0, np.zeros(width), np.zeros((width, width)), first)

    def add(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Join rows x (n, p), y (n, q) of float64 with weights (n,)."""
        both = np.concatenate((x, y), axis=1)
        if weights is not None:
            counted = weights > 0
            both, weights = both[counted], weights[counted]
        if not len(both):
            return
        weight = float(len(both)) if weights is None else float(weights.sum())
        mean = both.mean(0) if weights is None else weights @ both / weight
        both -= mean
        if weights is not None:
            both *= np.sqrt(weights)[:, None]
        new = torch.from_numpy(both)
        self.join(PairMoments(len(both), weight, mean, (new.T @ new).numpy(), self.first))

    def join(self, other: "PairMoments") -> None:
        """Add the moments of other rows."""
        total = self.weight + other.weight
        if not total:
            return
        step = other.mean - self.mean
        self.products += other.products
        self.products += np.outer(step, step) * (self.weight * other.weight / total)
        self.mean = self.mean + step * (other.weight / total)
        self.weight, self.rows = total, self.rows + other.rows

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> "PairMoments":
        """Of rows x (n, p), y (n, q)."""
        moments = cls.empty(x.shape[1], y.shape[1])
        moments.add(x, y, weights)
        return moments

    @classmethod
    def without_each(cls, parts: Sequence["PairMoments"]) -> list["PairMoments"]:
        """Of all parts but the first, but the second, ..."""
        totals = []
        for left_out in range(len(parts)):
            rest = cls.empty(parts[0].first, len(parts[0].mean) - parts[0].first)
            for number, part in enumerate(parts):
                if number != left_out:
                    rest.join(part)
            totals.append(rest)
        return totals

    @property
    def xx(self) -> np.ndarray:
        """Centered products of x, (p, p)."""
        return self.products[: self.first, : self.first]

    @property
    def yy(self) -> np.ndarray:
        """Centered products of y, (q, q)."""
        return self.products[self.first :, self.first :]

    @property
    def xy(self) -> np.ndarray:
        """Centered products of x and y, (p, q)."""
        return self.products[: self.first, self.first :]

    @property
    def scale(self) -> np.ndarray:
        """Standard deviations of all columns, (p + q,)."""
        return np.sqrt(np.diagonal(self.products) / max(self.weight, np.finfo(np.float64).tiny))

    def scaled(self, scale: np.ndarray) -> "PairMoments":
        """Those of the columns divided by scales (p + q,)."""
        return PairMoments(
            self.rows, self.weight, self.mean / scale, self.products / np.outer(scale, scale), self.first
        )


KINDS = {
    "ols": "least squares",
    "ridge": "least squares with a penalty",
    "procrustes": "the nearest rotation",
    "scaled_procrustes": "the nearest rotation and one scale",
    "cca": "canonical variates matched one to one",
    "low_rank": "least squares of few directions",
}
_CUT = 1e-12


@dataclass(frozen=True)
class GramSpectrum:
    """Eigenvalues and eigenvectors of x^T x, those that rounding leaves, largest first.

    Attributes:
        values: (r,).
        vectors: (p, r).
    """

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, products: np.ndarray) -> "GramSpectrum":
        """Of centered products (p, p)."""
        values, vectors = (part.numpy() for part in torch.linalg.eigh(torch.from_numpy(products)))
        significant = values > _CUT * max(values[-1], 0.0)
        return cls(values[significant][::-1], vectors[:, significant][:, ::-1])

    def solve(self, target: np.ndarray, penalty: float = 0.0) -> np.ndarray:
        """(x^T x + penalty I)^-1 target, (p, q)."""
        return np.asarray((self.vectors / (self.values + penalty)) @ (self.vectors.T @ target))

    def power(self, exponent: float) -> np.ndarray:
        """The symmetric power of x^T x, (p, p)."""
        return np.asarray((self.vectors * self.values**exponent) @ self.vectors.T)


def least_squares_matrix(moments: PairMoments, penalty: float = 0.0) -> np.ndarray:
    """W (q, p) of ols, and of ridge with its penalty."""
    matrix: np.ndarray = GramSpectrum.of(moments.xx).solve(moments.xy, penalty).T
    return matrix


def procrustes_matrix(moments: PairMoments, scaled: bool = False) -> np.ndarray:
    """W (q, p) with orthonormal rows or columns, times one scale if asked for."""
    u, d, vt = np.linalg.svd(moments.xy, full_matrices=False)
    rotation = u @ vt  # (p, q): x rotation is nearest to y
    if not scaled:
        return np.asarray(rotation.T)
    size = float(((rotation.T @ moments.xx) * rotation.T).sum())
    return np.asarray(rotation.T * (float(d.sum()) / size if size > 0 else 0.0))


def cca_matrix(moments: PairMoments, rank: int | None) -> np.ndarray:
    """W (q, p) that takes each canonical variate of x for its partner."""
    first, second = GramSpectrum.of(moments.xx), GramSpectrum.of(moments.yy)
    whitened = first.power(-0.5) @ moments.xy @ second.power(-0.5)
    u, _, vt = np.linalg.svd(whitened, full_matrices=False)
    rank = min(len(first.values), len(second.values)) if rank is None else rank
    return np.asarray((second.power(0.5) @ vt[:rank].T) @ (u[:, :rank].T @ first.power(-0.5)))


def low_rank_matrix(moments: PairMoments, rank: int | None, penalty: float = 0.0) -> tuple[np.ndarray, int]:
    """W (q, p) of a given or chosen rank, and the rank."""
    whole = least_squares_matrix(moments, penalty)
    fitted = whole @ moments.xx @ whole.T
    values, vectors = np.linalg.eigh((fitted + fitted.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    if rank is None:
        used, width = len(GramSpectrum.of(moments.xx).values), len(moments.yy)
        noise = max(float(np.trace(moments.yy)) - float(values.sum()), 0.0)
        noise /= width * max(moments.rows - 1 - used, 1)
        rank = max(1, int((values > 2 * noise * (width + used)).sum()))
    top = vectors[:, :rank]
    return np.asarray(top @ (top.T @ whole)), rank


_DECADES = np.arange(-8, 4)  # of penalty / n, where columns have variance 1


def leave_one_out(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, moments: PairMoments
) -> Callable[[float], float]:
    """The sum of squared left-out residuals as a function of the penalty.

    Args:
        x, y: rows (n, p), (n, q), centered and scaled as the moments are.
        weights: (n,), or None.
        moments: of the rows.
    """
    spectrum = GramSpectrum.of(moments.xx)
    root = np.ones(len(x)) if weights is None else np.sqrt(weights)
    t, y = (x * root[:, None]) @ spectrum.vectors, y * root[:, None]
    squares, projected = t**2, spectrum.vectors.T @ moments.xy
    mean = root**2 / moments.weight

    def error(penalty: float) -> float:
        leverage = mean + squares @ (1 / (spectrum.values + penalty))
        residual = y - t @ (projected / (spectrum.values + penalty)[:, None])
        return float(((residual**2).sum(1) / np.maximum(1 - leverage, 1e-9) ** 2).sum())

    return error


def generalized_cross_validation(
    moments: PairMoments, spectrum: GramSpectrum | None = None
) -> Callable[[float], float]:
    """The criterion of generalized cross-validation as a function of the penalty.

    Args:
        moments: of the rows.
        spectrum: of their x^T x, if it is known.
    """
    spectrum = GramSpectrum.of(moments.xx) if spectrum is None else spectrum
    along = ((spectrum.vectors.T @ moments.xy) ** 2).sum(1)
    total = float(np.trace(moments.yy))

    def error(penalty: float) -> float:
        s = spectrum.values
        residual = total - float((along * (s + 2 * penalty) / (s + penalty) ** 2).sum())
        freedom = 1 + float((s / (s + penalty)).sum())
        return max(residual, 0.0) / max(1 - freedom / moments.rows, 1e-9) ** 2

    return error


def best_penalty(error: Callable[[float], float], size: float) -> float:
    """The penalty of least error: by decades, then by fifths of the decades around the best.

    Args:
        error: of a penalty.
        size: mean eigenvalue of x^T x, which penalties are multiples of.
    """
    errors = {float(power): error(size * 10.0**power) for power in _DECADES}
    best = min(errors, key=lambda power: errors[power])
    for power in best + np.array([-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8]):
        errors[float(power)] = error(size * 10.0**power)
    return float(size * 10.0 ** min(errors, key=lambda power: errors[power]))


@dataclass(frozen=True)
class Variates:
    """Held-out canonical variates of all rows.

    Attributes:
        first, second: (n, r), the j-th columns belong together; of variance near 1.
        weights: (n,) by which rows count.
    """

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray

    @property
    def correlations(self) -> np.ndarray:
        """(r,) held out, of either sign."""
        u, v = self.standard()
        return np.asarray((self.weights[:, None] * u * v).sum(0) / self.weights.sum())

    def standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Both sides with weighted mean 0 and variance 1."""
        return _standard(self.first, self.weights), _standard(self.second, self.weights)


def canonical_variates(
    first: np.ndarray,
    second: np.ndarray,
    splits: Sequence[Split],
    weights: np.ndarray | None = None,
    floor: float = 1e-8,
) -> Variates:
    """Canonical variates of each row by fits that left it out.

    Args:
        first, second: rows (n, p), (n, q) in float64.
        splits: each row is scored in one of them.
        weights: (n,) of the rows in the fits.
        floor: fraction of the largest variance below which a direction is left out.
    """
    parts = []
    for split, moments in split_moments(first, second, splits, weights):
        parts.append((split.score, *variates_of(moments, first[split.score], second[split.score], floor)))
    rank = min(part[1].shape[1] for part in parts)
    u, v = np.empty((len(first), rank)), np.empty((len(first), rank))
    for rows, one, two in parts:
        u[rows], v[rows] = one[:, :rank], two[:, :rank]
    return Variates(u, v, np.ones(len(first)) if weights is None else weights)


def variates_of(
    moments: PairMoments, first: np.ndarray, second: np.ndarray, floor: float = 1e-8
) -> tuple[np.ndarray, np.ndarray]:
    """Canonical variates (n, r) of rows (n, p), (n, q), of the moments of other rows."""
    white = [_whitening(products, moments.weight, floor) for products in (moments.xx, moments.yy)]
    u, _, vt = np.linalg.svd(white[0].T @ moments.xy @ white[1] / moments.weight, full_matrices=False)
    left, right = first - moments.mean[: moments.first], second - moments.mean[moments.first :]
    return left @ (white[0] @ u), right @ (white[1] @ vt.T)


def split_moments(
    first: np.ndarray, second: np.ndarray, splits: Sequence[Split], weights: np.ndarray | None = None
) -> list[tuple[Split, PairMoments]]:
    """Each split with the moments of the rows that are fitted on."""

    def moments(rows: np.ndarray) -> PairMoments:
        return PairMoments.of(first[rows], second[rows], None if weights is None else weights[rows])

    if all(len(split.fit) + len(split.score) == len(first) for split in splits):
        rest = PairMoments.without_each([moments(split.score) for split in splits])
    else:  # rows in the gaps are neither scored nor fitted on
        rest = [moments(split.fit) for split in splits]
    return list(zip(splits, rest, strict=True))


def _whitening(products: np.ndarray, weight: float, floor: float) -> np.ndarray:
    """(p, r) that makes rows white."""
    spectrum = GramSpectrum.of(products / weight)
    significant = spectrum.values > floor * spectrum.values[0]
    return np.asarray(spectrum.vectors[:, significant] / np.sqrt(spectrum.values[significant]))


def _standard(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    share = (weights / weights.sum())[:, None]
    centered = rows - (share * rows).sum(0)
    return np.asarray(centered / np.sqrt((share * centered**2).sum(0)).clip(np.finfo(np.float64).tiny))


def ridge_matrix(moments: PairMoments) -> np.ndarray:
    """W (q, p) by ridge regression, its penalty by generalized cross-validation."""
    spectrum = GramSpectrum.of(moments.xx)
    size = float(np.trace(moments.xx)) / moments.first
    penalty = best_penalty(generalized_cross_validation(moments, spectrum), size)
    return np.asarray(spectrum.solve(moments.xy, penalty).T)


def swapped(moments: PairMoments) -> PairMoments:
    """The moments with first and second exchanged."""
    order = np.concatenate((np.arange(moments.first, len(moments.mean)), np.arange(moments.first)))
    products = moments.products[np.ix_(order, order)]
    width = len(order) - moments.first
    return PairMoments(moments.rows, moments.weight, moments.mean[order], products, width)
