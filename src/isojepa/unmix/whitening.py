"""Embeddings made white: a pass over all rows for mean, covariance and lagged covariance, then some of them.

Rows are read in pieces, so that files larger than memory will do. What is searched on are at most as many
rows as fit `_HELD` numbers, in blocks of successive rows from everywhere: rows along a path depend on their
neighbours, and what is said of them rests on blocks that hardly do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.embeddings import Chunk, Embeddings
from isojepa.unmix.rotations import Pass
from isojepa.unmix.shapes import Shapes, measure_shapes

BLOCKS = 20  # half of them for each of two fits
_HELD = 1 << 26  # numbers of one view in memory
_MOST = 200_000  # rows among which axes are searched
_RANK = 1e-9  # of the largest variance, below which a direction does not vary
_TAIL = 0.05  # share of a column's variance in one row, from which it is no variance
_NAMED = 8  # columns that a message names


@dataclass(frozen=True)
class Whitening:
    """What makes rows white, and their covariance with the rows of a lag later.

    Attributes:
        mean: (dim,) of the rows.
        matrix: (kept, dim) to white coordinates.
        inverse: (dim, kept) back.
        lagged: (kept, kept) symmetric, for each lag; none without second views.
        rows: how many there are.
    """

    mean: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray
    lagged: tuple[np.ndarray, ...]
    rows: int

    def white(self, rows: np.ndarray) -> Tensor:
        """White rows, float32."""
        return torch.from_numpy(((rows - self.mean) @ self.matrix.T).astype(np.float32))


@dataclass(frozen=True)
class Sample:
    """White rows in memory, in blocks: those of a block stand together.

    Attributes:
        first: (n, kept) float32.
        second: (n, kept) of the second views; None without them.
        block: (n,) to which each row belongs, ascending from 0.
    """

    first: Tensor
    second: Tensor | None
    block: np.ndarray

    def half(self, which: int) -> "Sample":
        """The rows of every other block, from block 0 or from block 1 on."""
        keep = torch.from_numpy(self.block % 2 == which)
        second = None if self.second is None else self.second[keep]
        return Sample(self.first[keep], second, self.block[keep.numpy()])

    def whitened(self) -> tuple["Sample", np.ndarray]:
        """The same rows, white among themselves, and the matrix (kept, kept) that makes them so."""
        views = [view for view in (self.first, self.second) if view is not None]
        covariance = np.mean([(view.T @ view).double().numpy() / len(view) for view in views], axis=0)
        values, vectors = np.linalg.eigh(covariance)
        matrix = (vectors / np.sqrt(values)) @ vectors.T
        turn = torch.from_numpy(matrix).to(self.first.dtype)
        first, *second = (view @ turn for view in views)
        return Sample(first, second[0] if second else None, self.block), matrix

    def lagged(self) -> list[np.ndarray]:
        """The symmetric covariance of both views, if there are two."""
        if self.second is None:
            return []
        cross = (self.first.T @ self.second).double().numpy() / len(self.first)
        return [(cross + cross.T) / 2]


def whiten(
    embeddings: Embeddings, dim: int | None = None, later: Sequence[tuple[np.ndarray, np.ndarray]] = ()
) -> Whitening:
    """Read all rows once.

    Args:
        embeddings: rows, with second views or without.
        dim: leading principal directions that are kept; None for all.
        later: rows and those of other lags after them, in memory.

    Raises:
        ValueError: rows are not finite, too few, do not vary in a direction, or have tails without variance.
    """
    width = embeddings.dim
    if len(embeddings) < 2 * width + 20:
        raise ValueError(
            f"h must have more rows than that to unmix {width} dimensions, at least {2 * width + 20}, got "
            f"{len(embeddings)}"
        )
    count, shift = 0, None
    total, largest = np.zeros(width), np.zeros(width)
    squares, cross = np.zeros((width, width)), np.zeros((width, width))
    sums = [np.zeros(width), np.zeros(width)]
    for chunk in embeddings.chunks():
        shift = chunk.h.mean(0) if shift is None else shift
        views = [view - shift for view in _views(chunk)]
        for place, view in enumerate(views):
            squares += view.T @ view
            sums[place] += view.sum(0)
            largest = np.maximum(largest, (view**2).max(0, initial=0.0))
        if len(views) == 2:
            cross += views[0].T @ views[1]
        count += len(chunk)
    if shift is None or count < 2:
        raise ValueError(f"h must have rows without NaN or Inf, got {count}")
    views_seen = 2 if embeddings.paired else 1
    total = (sums[0] + sums[1]) / (views_seen * count)
    covariance = squares / (views_seen * count) - np.outer(total, total)
    _check_spread(covariance, shift, largest, views_seen * count)
    values, vectors = np.linalg.eigh(covariance)
    kept = width if dim is None else dim
    if kept > width:
        raise ValueError(f"dim must be at most the {width} dimensions that h has, got {kept}")
    spanned = int((values > _RANK * values[-1]).sum())
    if spanned < kept:
        raise ValueError(f"h must vary in every direction, got {spanned} of {width}: ask for dim={spanned}")
    values, vectors = values[::-1][:kept], vectors[:, ::-1][:, :kept]
    matrix = (vectors / np.sqrt(values)).T
    lagged = []
    if embeddings.paired:
        lagged.append(cross / count - np.outer(sums[0], sums[1]) / count**2)
    for first, second in later:
        lagged.append((first - first.mean(0)).T @ (second - second.mean(0)) / len(first))
    turned = tuple(matrix @ ((one + one.T) / 2) @ matrix.T for one in lagged)
    return Whitening(shift + total, matrix, vectors * np.sqrt(values), turned, count)


def take_sample(embeddings: Embeddings, whitening: Whitening) -> Sample:
    """White rows that fit memory: all of them, or blocks of successive ones from everywhere."""
    rows, kept = len(embeddings), len(whitening.matrix)
    each = min(rows, _MOST, _HELD // kept) // BLOCKS
    starts = np.linspace(0, rows - each, BLOCKS).round().astype(int)
    if each * BLOCKS >= rows - BLOCKS:  # all of them
        starts, each = np.arange(BLOCKS) * rows // BLOCKS, 0
    ends = starts + each if each else np.append(starts[1:], rows)
    first, second, block = [], [], []
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        chunk = embeddings.rows(start, end)
        first.append(whitening.white(chunk.h))
        if chunk.h_next is not None:
            second.append(whitening.white(chunk.h_next))
        block.append(np.full(len(chunk), index))
    return Sample(torch.cat(first), torch.cat(second) if second else None, np.concatenate(block))


def pass_over_all(embeddings: Embeddings, whitening: Whitening) -> Pass:
    """A pass over all rows, read in pieces."""

    def one_pass(matrix: np.ndarray, scores: Tensor) -> Shapes:
        turn = torch.from_numpy((matrix @ whitening.matrix).T.astype(np.float32).copy())
        kept = len(matrix)
        products, slopes, count = np.zeros((kept, kept)), np.zeros(kept), 0
        for piece in _pieces(embeddings, whitening.mean):
            found = measure_shapes(piece @ turn, scores)
            products += found[0].double().numpy()
            slopes += found[1].double().numpy()
            count += len(piece)
        return Shapes(products / count, slopes / count)

    return one_pass


def _pieces(embeddings: Embeddings, mean: np.ndarray) -> Iterator[Tensor]:
    """All rows of the first view, centred, float32, so many at once as stay near the processor."""
    for chunk in embeddings.chunks():
        rows = torch.from_numpy((chunk.h - mean).astype(np.float32))
        yield from rows.split(max(len(mean), (1 << 19) // len(mean)))


def _views(chunk: Chunk) -> list[np.ndarray]:
    return [chunk.h] if chunk.h_next is None else [chunk.h, chunk.h_next]


def _check_spread(covariance: np.ndarray, shift: np.ndarray, largest: np.ndarray, count: int) -> None:
    """Say which columns are constant, and whether a single row makes up a variance."""
    variances = np.diag(covariance)
    rounding = (1e-7 * np.abs(shift)) ** 2 + 1e-200
    still = np.flatnonzero(variances <= rounding)
    if len(still):
        named = ", ".join(map(str, still[:_NAMED].tolist())) + (", ..." if len(still) > _NAMED else "")
        raise ValueError(f"h must vary in every column, got constant ones: {named}; leave them out")
    share = float((largest / (count * variances)).max())
    if share > _TAIL + 20 / count:
        raise ValueError(
            f"h must have tails with a variance to be made white, got one row of {count} with {share:.0%} of "
            "a column's: leave out what is no measurement, or bring ranks"
        )
