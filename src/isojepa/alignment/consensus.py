r"""Generalised orthogonal Procrustes analysis: rotations of several embeddings into one space.

For rows Z_1 .. Z_m of the same n states, centered, of widths d_i, and h the largest of them, find Q_i (d_i,
h) with orthonormal rows for which

    loss = sum_i |Z_i Q_i - M|^2 / n,     M = mean_i Z_i Q_i

is least. |Z_i Q_i| is given, so that this is to make the agreement sum_{i<j} tr(Q_i^T C_ij Q_j) largest, with
C_ij = Z_i^T Z_j / n: rows are read once. A narrower embedding is one that was padded by columns of zeros.

Q_i is in turn the best for the others, U V^T of the singular value decomposition of sum_{j != i} C_ij Q_j, so
that the loss never rises (Gower 1975; ten Berge 1977). That finds a local optimum; of several beginnings the
best end is taken: the leading eigenvectors of the matrix of all C_ij, each block made orthogonal, which are
exact where the embeddings are rotations of each other and are the solution of MAXVAR generalised canonical
correlations (Kettenring 1971) where they are white; and rotations to each of the
first four embeddings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

_RISE, _SWEEPS = 1e-12, 2000  # smallest relative rise of the agreement that goes on; most sweeps
_FEW, _CENTRES = 10, 4  # sweeps after which beginnings are compared; embeddings that one begins at


@dataclass(frozen=True)
class Consensus:
    """Rotations into one space, whose axes are the principal ones of M.

    Attributes:
        rotations: (d_i, h) of each.
        losses: after each sweep, the beginning's first.
        converged: whether it stopped by itself.
    """

    rotations: list[np.ndarray]
    losses: list[float]
    converged: bool


def find_consensus(rows: Sequence[np.ndarray]) -> Consensus:
    """Generalised Procrustes analysis of centered rows (n, d_i) in float64.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(50, 3)) * [3, 2, 1]
        >>> turned = [z @ np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(4)]
        >>> found = find_consensus([part - part.mean(0) for part in turned])
        >>> found.converged, abs(found.losses[-1]) < 1e-9
        (True, True)
    """
    widths = [part.shape[1] for part in rows]
    wide = torch.from_numpy(np.concatenate(rows, axis=1))
    products = (wide.T @ wide).numpy() / len(rows[0])
    work = Sweeps(products, widths)
    found = []
    for begin in work.beginnings():
        ends = [work.loss(begin)]
        turned = begin
        for _ in range(_FEW):
            turned = work.sweep(turned)
            ends.append(work.loss(turned))
        found.append((turned, ends))
    best, losses = min(found, key=lambda pair: pair[1][-1])
    converged = False
    for _ in range(_SWEEPS):
        best = work.sweep(best)
        losses.append(work.loss(best))
        if losses[-2] - losses[-1] <= _RISE * work.size:
            converged = True
            break
    return Consensus(work.on_axes(best), losses, converged)


class Sweeps:
    """What every sweep over the embeddings needs.

    Args:
        products: (sum d_i, sum d_i) of all columns, over the number of rows.
        widths: d_i.
    """

    def __init__(self, products: np.ndarray, widths: Sequence[int]) -> None:
        ends = np.cumsum([0, *widths])
        self.products, self.width = products, max(widths)
        self.places = [slice(start, end) for start, end in pairwise(ends)]
        self.size = float(np.trace(products))

    def sweep(self, rotations: np.ndarray) -> np.ndarray:
        """Each in turn the best for the others; stacked, (sum d_i, h)."""
        turned = rotations.copy()
        for place in self.places:
            theirs = self.products[place] @ turned - self.products[place, place] @ turned[place]
            turned[place] = orthonormal(theirs)
        return turned

    def loss(self, rotations: np.ndarray) -> float:
        """sum_i |Z_i Q_i - M|^2 / n."""
        common = float((rotations * (self.products @ rotations)).sum()) / len(self.places)
        return self.size - common

    def beginnings(self) -> list[np.ndarray]:
        """Stacked rotations to start from."""
        _, vectors = torch.linalg.eigh(torch.from_numpy(self.products))
        leading = vectors.numpy()[:, ::-1][:, : self.width]
        found = [np.concatenate([orthonormal(leading[place]) for place in self.places])]
        for center in self.places[:_CENTRES]:
            one = np.eye(center.stop - center.start, self.width)
            found.append(
                np.concatenate(
                    [
                        one if place == center else orthonormal(self.products[place, center] @ one)
                        for place in self.places
                    ]
                )
            )
        return found

    def on_axes(self, rotations: np.ndarray) -> list[np.ndarray]:
        """The same in the principal axes of M, which turns all alike; the largest entries are positive."""
        common = rotations.T @ self.products @ rotations
        _, axes = np.linalg.eigh((common + common.T) / 2)
        turned = rotations @ axes[:, ::-1]
        largest = turned[np.abs(turned).argmax(0), np.arange(self.width)]
        turned = turned * np.where(largest < 0, -1.0, 1.0)
        return [turned[place] for place in self.places]


def orthonormal(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal rows, or columns if there are more rows."""
    u, _, vt = torch.linalg.svd(torch.from_numpy(np.ascontiguousarray(matrix)), full_matrices=False)
    return np.asarray((u @ vt).numpy())
