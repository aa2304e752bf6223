r"""Nearest neighbors of every row among the others, exact, block by block.

Squared distances |x|^2 + |y|^2 - 2 x.y are first taken in float32, which is twice as fast. Of each row more
candidates are kept than are asked for, and ranked again by the sum of (x - y)^2 in float64. A bound of the
rounding error then proves that no other row can be nearer; rows for which it does not are
searched again in float64, with more candidates, in the end with all of them. Among rows at the same
distance the one with the smaller number comes first, so that duplicated rows give the same answer
everywhere.
"""

import math

import torch
from torch import Tensor

_BLOCK = 1 << 24  # distances at once
_SPARE = 14  # candidates beyond those asked for
_RANKED = 1 << 18  # coordinates of candidates at once: they fit into a cache


def nearest(rows: Tensor, k: int) -> Tensor:
    """The k nearest other rows of each row, the nearest first.

    Args:
        rows: (n, d), float64.
        k: at most n - 1.

    Returns:
        (n, k) row numbers.

    Example:
        >>> nearest(torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64), 1)[:, 0]
        tensor([1, 0, 1])
    """
    size = float(torch.linalg.vector_norm(rows, ord=torch.inf))
    # a power of 2: distances that are equal stay equal
    x = rows * 2.0 ** -math.frexp(size)[1] if not 1e-100 < size < 1e100 else rows
    found = torch.empty(len(x), k, dtype=torch.int64)
    open_rows = torch.arange(len(x))
    spare = _SPARE
    for dtype in (torch.float32, torch.float64):
        open_rows = _search(x, open_rows, k, spare, dtype, found)
        if len(open_rows) == 0:
            return found
        spare *= 16
    _compare_all(x, open_rows, k, found)
    return found


def _search(x: Tensor, open_rows: Tensor, k: int, spare: int, dtype: torch.dtype, found: Tensor) -> Tensor:
    """Write the neighbors of open rows into `found`; return the rows for which there is no proof."""
    n, d = x.shape
    kept = min(n - 1, k + spare)
    middle = x - x.mean(0)
    size = float(torch.linalg.vector_norm(middle, ord=torch.inf)) or 1.0
    keys = (middle / size).to(dtype)
    lengths = keys.square().sum(1)
    longest = float(lengths.max())
    # of a sum of d products and two lengths, in the worst case: the lengths of rows bound all of them; and of
    # taking the mean from rows that are far from 0
    offset = float(torch.linalg.vector_norm(x, ord=torch.inf)) / size
    bound = 4 * (d + 4) * torch.finfo(dtype).eps * longest
    bound = (bound + 16 * torch.finfo(x.dtype).eps * offset * (d * longest) ** 0.5) * size**2
    left = []
    for part in open_rows.split(max(1, _BLOCK // n)):
        squares = torch.addmm(lengths[None], keys[part], keys.T, alpha=-2)  # less the query's own length
        squares[torch.arange(len(part)), part] = torch.inf
        near, places = squares.topk(kept, dim=1, largest=False)
        exact, places = _ranked(x, part, places, k)
        found[part] = places
        if kept < n - 1:
            nearest_left_out = (near[:, -1].double() + lengths[part].double()) * size**2
            left.append(part[exact[:, -1] + bound >= nearest_left_out])
    return torch.cat(left) if left else open_rows[:0]


def _ranked(x: Tensor, part: Tensor, places: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest of candidates (m, c) by distance in float64, then by number."""
    places = places.sort(dim=1).values  # the sort below is stable
    step = max(1, _RANKED // (places.shape[1] * x.shape[1]))
    squares = torch.cat(
        [
            (x[some] - x[rows, None]).square_().sum(2)
            for rows, some in zip(part.split(step), places.split(step), strict=True)
        ]
    )
    squares, order = squares.sort(dim=1, stable=True)
    return squares[:, :k], places.gather(1, order[:, :k])


def _compare_all(x: Tensor, open_rows: Tensor, k: int, found: Tensor) -> None:
    everyone = torch.arange(len(x))
    for row in open_rows.tolist():
        others = everyone[everyone != row]
        squares = (x[others] - x[row]).square_().sum(1)
        found[row] = others[squares.sort(stable=True).indices[:k]]
