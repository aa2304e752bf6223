r"""Principal axes of two embeddings, and how they cross when rows are re-paired at random.

Centred rows are X = U S V' with U (n, r). Everything that canonical correlations and Procrustes distances
need of a pairing pi of the rows is C = U_1' P_pi U_2 (r1, r2). A draw of chance is a draw of C:

    up to 2,000 rows    a random permutation, all rows
    beyond              the corner (r1, r2) of a random rotation of the n - 1 dimensions of centred rows

Permutations and rotations give C the same mean and the same covariances, and where either embedding is
normal the same law; a corner of a rotation costs r^3 operations whatever n is. Draws on 2,000 of more rows
would tell the chance of 2,000 rows, which is larger: mean CCA of independent data of width 384 is 0.38
there, 0.12 at 20,000.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isojepa.align.metrics.inputs import centred
from isojepa.seeds import generator, numpy_generator

DRAWS = 24
PERMUTED = 2_000  # rows
_RANK = 1e-12  # a direction with less than this share of the largest variance is rounding


@dataclass(frozen=True)
class Axes:
    """Centred rows and their singular value decomposition, by way of the smaller Gram matrix.

    Attributes:
        rows: X (n, d), centred.
        sizes: S (r,), falling.
        vectors: V (d, r).
    """

    rows: Tensor
    sizes: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> "Axes":
        """Centre and decompose rows (n, d)."""
        x = centred(rows, scale=False)
        size = torch.linalg.vector_norm(x, ord=torch.inf)
        scaled = x / size if not 1e-100 < size < 1e100 else x
        wide = len(x) < x.shape[1]
        values, vectors = torch.linalg.eigh(scaled @ scaled.T if wide else scaled.T @ scaled)
        kept = values > _RANK * values[-1]
        sizes, vectors = values[kept].flip(0).sqrt(), vectors[:, kept].flip(1)
        if wide:
            vectors = scaled.T @ (vectors / sizes)
        return cls(x, sizes if scaled is x else sizes * size, vectors)

    def leading(self, share: float) -> "Axes":
        """The fewest axes that hold a share of the variance."""
        held = torch.cumsum(self.sizes**2, 0)
        count = int(torch.searchsorted(held / held[-1], share * (1 - 1e-12))) + 1
        return Axes(self.rows, self.sizes[:count], self.vectors[:, :count])

    @property
    def count(self) -> int:
        """How many axes there are."""
        return len(self.sizes)

    def basis(self) -> Tensor:
        """U (n, r)."""
        return self.rows @ (self.vectors / self.sizes)


def crossing(one: Axes, two: Axes, products: Tensor | None = None) -> Tensor:
    """C of rows as they are paired; `products` is X' Y, if it is known."""
    if products is None:
        products = one.rows.T @ two.rows
    return (one.vectors / one.sizes).T @ products @ (two.vectors / two.sizes)


def crossings(one: Axes, two: Axes, draws: int, seed: int) -> Iterator[Tensor]:
    """C of rows that are re-paired at random, as often as asked."""
    n = len(one.rows)
    if n > PERMUTED:
        rng = numpy_generator(seed, "rotations")
        for _ in range(draws):
            yield _corner(n - 1, one.count, two.count, rng)
        return
    source = generator(seed, "pairing")
    left, right = one.basis().T.contiguous(), two.basis()
    for _ in range(draws):
        yield left @ right[torch.randperm(n, generator=source)]


def singular_sum(crossed: Tensor) -> float:
    """The sum of singular values, to 8 digits: twice as fast as by their decomposition."""
    tall = len(crossed) > crossed.shape[1]
    values = torch.linalg.eigvalsh(crossed.T @ crossed if tall else crossed @ crossed.T)
    return float(values.clamp_min_(0).sqrt_().sum())


def draws_in_words(rows: int, draws: int) -> str:
    """Where chance comes from, for readers."""
    return f"{draws} draws on {rows} rows" if rows <= PERMUTED else f"{draws} rotations of {rows} rows"


def _corner(n: int, height: int, width: int, rng: np.random.Generator) -> Tensor:
    """The upper left (height, width) of a random orthogonal matrix (n, n): of Q of a normal matrix."""
    top = torch.from_numpy(rng.standard_normal((height, width)))
    rest = n - height  # rows of the normal matrix below; only their products are needed
    if rest > width:  # Bartlett's triangle
        factor = np.tril(rng.standard_normal((width, width)), -1)
        factor[np.diag_indices(width)] = np.sqrt(rng.chisquare(rest - np.arange(width)))
        below = torch.from_numpy(factor)
    else:
        below = torch.from_numpy(rng.standard_normal((width, rest)))
    r = torch.linalg.cholesky(top.T @ top + below @ below.T, upper=True)
    found: Tensor = torch.linalg.solve_triangular(r, top, upper=True, left=False)
    return found
