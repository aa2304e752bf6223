r"""The closed forms: from moments of pairs to the matrix W of z2 ~ W z1, in each of six ways.

With centered x (n, p), y (n, q), S = x^T y and W (q, p):

    ols                W = S^T (x^T x)^+                          least squares (equations 3 and 15)
    ridge              W = S^T (x^T x + lambda I)^-1              equations 4 and 16
    procrustes         W = V U^T, where S = U D V^T               the best with orthonormal columns or rows
    scaled_procrustes  W = s V U^T, s = tr D / |x U V^T|^2        one scale besides
    cca                W = (y^T y)^(1/2) V U^T (x^T x)^(-1/2)     canonical variates matched one to one, as if
                       where U D V^T is the whitened S            each pair correlated perfectly
    low_rank           W = P_r S^T (x^T x)^+, P_r the first r     reduced-rank regression; r by the rank
                       principal directions of the fitted y       selection criterion unless given

(Zhang et al. 2026, "Social-JEPA", equations 3, 4, 14 to 16; Gower & Dijksterhuis 2004; Bunea, She & Wegkamp
2011 for the rank.) Directions of x with less than 1e-12 of the largest variance are left out of inverses:
products in float64 know no more of them.
"""

from dataclasses import dataclass

import numpy as np
import torch

from isojepa.alignment.moments import PairMoments

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
        kept = values > _CUT * max(values[-1], 0.0)
        return cls(values[kept][::-1], vectors[:, kept][:, ::-1])

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
