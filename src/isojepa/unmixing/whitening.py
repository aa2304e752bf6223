"""Embeddings made white: a pass over all rows for mean, covariance and lagged covariance, then some of them.

Rows are read in pieces, so that files larger than memory will do. What is searched on are at most as many
rows as fit `_HELD` numbers, in blocks of successive rows from everywhere: rows along a path depend on their
neighbours, and what is said of them rests on blocks that hardly do, fewer where rows forget slowly.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.embeddings import Chunk, Embeddings
from isojepa.unmixing.rotations import Pass
from isojepa.unmixing.shapes import Shapes, sum_shapes

BLOCKS = 20  # half of them for each of two fits
_FEWEST = 2  # where rows depend on their neighbours for long: of two, hardly anything is beyond chance
_LONG = 3.0  # times that rows forget in a block, at least
_HELD = 1 << 27  # numbers of one view in memory
_READ = 1 << 22  # numbers read at once
_MOST = 200_000  # rows among which axes are searched,
_SQUARES = 8  # or so many times the square of the dimensions: in fewer, uniform latents were not found
_RANK = 1e-9  # of the largest variance, below which a direction does not vary
_FLAT = 1e-6  # variance of a white direction in half of the rows, below which it does not vary there
_STEEP = 100.0  # times that a direction of standardised rows is made larger, at most, in float32
_SLOW = 0.6  # mean correlation of a pair, from which an equation across views tells half of one within
_TAIL = 0.05  # share of a column's variance in one row, from which it is no variance
_MOVED = 0.5  # deviations between the means of both views, from which they are no pairs of one law
_NAMED = 8  # columns that a message names


@dataclass(frozen=True)
class Whitening:
    """What makes rows white, and their covariance with the rows of a lag later.

    Attributes:
        mean: (dim,) of the rows.
        matrix: (kept, dim) to white coordinates.
        inverse: (dim, kept) back.
        scale: (dim,) standard deviations of the columns.
        lagged: (kept, kept) symmetric, for each lag; none without second views.
        rows: how many there are.
    """

    mean: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray
    scale: np.ndarray
    lagged: tuple[np.ndarray, ...]
    rows: int

    def white(self, rows: np.ndarray) -> Tensor:
        """White rows, float32."""
        centered = torch.from_numpy(rows - self.mean)
        if self._is_mild:  # what a product in float32 loses is far below what such rows say
            turn = torch.from_numpy((self.matrix * self.scale).T.astype(np.float32))
            return centered.div_(torch.from_numpy(self.scale)).float() @ turn
        return (centered @ torch.from_numpy(self.matrix.T)).float()

    @property
    def is_slow(self) -> bool:
        """Whether a second view says of shapes much what the first does."""
        return bool(self.lagged) and float(np.trace(self.lagged[0])) >= _SLOW * len(self.matrix)

    @cached_property
    def _is_mild(self) -> bool:
        """Whether no direction of the standardised rows is so flat that float32 could not tell it."""
        return float(np.linalg.norm(self.matrix * self.scale, axis=1).max()) < _STEEP


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
        # a direction that varies in the other half alone stays without variance: the halves disagree on it
        matrix = (vectors / np.sqrt(np.maximum(values, _FLAT))) @ vectors.T
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
        dim: directions that are kept, the slowest, or without second views the leading principal ones; None
            for all.
        later: rows and those of other lags after them, in memory.

    Raises:
        ValueError: rows are not finite, too few, do not vary in a direction, or have tails without variance.
    """
    width = embeddings.dim
    _check_rows(len(embeddings), width)
    count, shift = 0, np.zeros(width)
    largest = np.zeros(width)
    squares, cross = np.zeros((width, width)), np.zeros((width, width))
    sums, powers = np.zeros((2, width)), np.zeros((2, width))
    for chunk in embeddings.chunks():
        if not len(chunk):  # all of them left out
            continue
        shift = shift if count else chunk.h.mean(0)
        views = [view - shift for view in _views(chunk)]
        for place, view in enumerate(views):
            square = view.T @ view
            squares += square
            sums[place] += view.sum(0)
            powers[place] += np.diag(square)
            largest = np.maximum(largest, np.maximum(view.max(0), -view.min(0)) ** 2)
        if len(views) == 2:
            cross += views[0].T @ views[1]
        count += len(chunk)
    _check_rows(count, width, " without NaN or Inf")
    views_seen = 2 if embeddings.paired else 1
    total = (sums[0] + sums[1]) / (views_seen * count)
    covariance = squares / (views_seen * count) - np.outer(total, total)
    _check_spread(covariance, shift, largest, views_seen * count)
    _check_views((powers - sums**2 / count)[:views_seen] / count, np.diag(covariance))
    scale = np.sqrt(np.diag(covariance))
    if embeddings.paired:
        _check_means(np.abs(sums[1] - sums[0]) / count, scale)
    # principal directions depend on the scales of the columns; where all are kept, those must not matter
    units = scale if dim is None or embeddings.paired else np.full(width, scale.max())
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    kept = width if dim is None else dim
    if kept > width:
        raise ValueError(f"dim must be at most the {width} dimensions that h has, got {kept}")
    spanned = int((values > _RANK * values[-1]).sum())
    if spanned < kept:
        raise ValueError(f"h must vary in every direction, got {spanned} of {width}: ask for dim={spanned}")
    first = spanned if embeddings.paired else kept
    values, vectors = values[::-1][:first], vectors[:, ::-1][:, :first]
    matrix = (vectors / np.sqrt(values)).T / units
    lagged = []
    if embeddings.paired:
        # about the mean of both views, as the covariance is: views that nearly agree tell by tiny numbers
        means = sums / count
        lagged.append(
            cross / count - np.outer(means[0], total) - np.outer(total, means[1]) + np.outer(total, total)
        )
    for rows, rows_later in later:
        lagged.append((rows - shift - total).T @ (rows_later - shift - total) / len(rows))
    inverse = vectors * np.sqrt(values) * units[:, None]
    turned = tuple(matrix @ ((one + one.T) / 2) @ matrix.T for one in lagged)
    if len(matrix) > kept:
        slow = np.linalg.eigh(turned[0])[1][:, ::-1][:, :kept]
        matrix, inverse = slow.T @ matrix, inverse @ slow
        turned = tuple(slow.T @ one @ slow for one in turned)
    return Whitening(shift + total, matrix, inverse, scale, turned, count)


def wanted_rows(dim: int) -> int:
    """Rows in which a search of so many axes finds them, roughly."""
    return _SQUARES * dim**2


def most_rows(dim: int) -> int:
    """Rows that are held to search so many axes among, at most."""
    return max(min(max(_MOST, wanted_rows(dim)), _HELD // dim), 4 * dim + BLOCKS)


def take_sample(embeddings: Embeddings, whitening: Whitening) -> Sample:
    """White rows that fit memory: all of them, or blocks of successive ones from everywhere.

    Raises:
        ValueError: too few of them are finite.
    """
    rows, kept = len(embeddings), len(whitening.matrix)
    each = min(rows, most_rows(kept)) // BLOCKS
    starts = np.linspace(0, rows - each, BLOCKS).round().astype(int)
    if each * BLOCKS >= rows - BLOCKS:  # all of them
        starts, each = np.arange(BLOCKS) * rows // BLOCKS, 0
    ends = starts + each if each else np.append(starts[1:], rows)
    first, second = [], []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        chunk = embeddings.rows(start, end)
        first.append(whitening.white(chunk.h))
        if chunk.h_next is not None:
            second.append(whitening.white(chunk.h_next))
    found = sum(map(len, first))
    _check_rows(found, kept, " without NaN or Inf among those that are searched")
    rows_of = torch.cat(first)
    block = np.arange(found) * _count_blocks(rows_of) // found  # of those left: others may be a whole block
    return Sample(rows_of, torch.cat(second) if second else None, block)


def _count_blocks(white: Tensor) -> int:
    """How many blocks of successive rows hardly depend on each other, at most `BLOCKS`.

    Rows are taken to forget as an autoregression does, n (1 - r) times among n, with r the correlation of
    neighbours: that of all directions together, or that of the slowest if it is beyond chance.
    """
    count, dim = white.shape
    near = (white[:-1].T @ white[1:]).double().numpy() / count
    slowest = float(np.linalg.eigvalsh((near + near.T) / 2)[-1])
    if slowest < 3 * np.sqrt(dim / count):  # as rows that do not depend on each other have it
        slowest = 0.0
    kept = min(max(float(np.trace(near)) / dim, slowest, 0.0), 1.0)
    return int(np.clip(count * (1 - kept) / _LONG, _FEWEST, BLOCKS)) // 2 * 2


def pass_over_all(embeddings: Embeddings, whitening: Whitening, views: int = 1) -> Pass:
    """A pass over all rows, of so many views, read in pieces."""
    return _pass_over(whitening, lambda: (_views(chunk)[:views] for chunk in embeddings.chunks()))


def passes_over_halves(embeddings: Embeddings, whitening: Whitening, sample: Sample) -> list[Pass]:
    """Passes over all rows that lie where every other block of a sample does, and over those between."""
    count = int(sample.block[-1]) + 1
    edges = (np.arange(count + 1) * len(embeddings) // count).tolist()
    rows = max(4 * embeddings.dim, _READ // embeddings.dim)

    def half(which: int) -> Iterator[list[np.ndarray]]:
        for block in range(which, count, 2):
            for start in range(edges[block], edges[block + 1], rows):
                yield [embeddings.rows(start, min(start + rows, edges[block + 1])).h]

    return [_pass_over(whitening, partial(half, which)) for which in (0, 1)]


def _pass_over(whitening: Whitening, chunks: Callable[[], Iterable[list[np.ndarray]]]) -> Pass:
    """A pass over rows, of one view or of two, which are read anew each time."""

    def one_pass(matrix: np.ndarray, scores: Tensor) -> Shapes:
        turn = torch.from_numpy((matrix @ whitening.matrix * whitening.scale).astype(np.float32))
        return sum_shapes(turn, _pieces(chunks(), whitening), scores)

    return one_pass


def _pieces(chunks: Iterable[list[np.ndarray]], whitening: Whitening) -> Iterator[tuple[Tensor, ...]]:
    """Rows standardised, float32, so many at once as stay near the processor."""
    width = len(whitening.mean)
    size = max(width, (1 << 20) // width)
    for views in chunks:
        rows = [((view - whitening.mean) / whitening.scale).astype(np.float32) for view in views]
        yield from zip(*(torch.from_numpy(view).split(size) for view in rows), strict=True)


def _views(chunk: Chunk) -> list[np.ndarray]:
    return [chunk.h] if chunk.h_next is None else [chunk.h, chunk.h_next]


def _check_rows(count: int, width: int, which: str = "") -> None:
    least = 2 * width + 20
    if count < least:
        raise ValueError(f"h must have at least {least} rows{which} to unmix {width} dimensions, got {count}")


def _check_spread(covariance: np.ndarray, shift: np.ndarray, largest: np.ndarray, count: int) -> None:
    """Say which columns are constant, and whether a single row makes up a variance."""
    variances = np.diag(covariance)
    rounding = (1e-12 * np.abs(shift)) ** 2 + 1e-200
    still = np.flatnonzero(variances <= rounding)
    if len(still):
        raise ValueError(f"h must vary in every column, got constant ones: {_named(still)}; leave them out")
    share = float((largest / (count * variances)).max())
    if share > _TAIL + 20 / count:
        raise ValueError(
            f"h must have tails with a variance to be made white, got one row of {count} with {share:.0%} of "
            "a column's: leave out what is no measurement, or bring ranks"
        )


def _check_views(variances: np.ndarray, together: np.ndarray) -> None:
    """Say which columns stand still in one view, or in each: (views, dim), and (dim,) of both together."""
    apart = np.flatnonzero(variances.max(0) < _FLAT * together)
    if len(apart):
        raise ValueError(
            "h and h_next must be two views of one thing, got columns that hardly vary in either and differ "
            f"between them: {_named(apart)}"
        )
    still = np.flatnonzero(variances.min(0) < _FLAT * variances.max(0))
    if len(still):
        raise ValueError(
            "h and h_next must be two views of one thing, got columns that vary in one of them alone: "
            f"{_named(still)}"
        )


def _check_means(differences: np.ndarray, scale: np.ndarray) -> None:
    """Say which columns have another mean in each view: (dim,) by how much, and their deviations."""
    share = differences / scale
    moved = np.flatnonzero(share > _MOVED)
    if len(moved):
        raise ValueError(
            f"h and h_next must have one law, got means that differ by up to {share.max():.2g} standard "
            f"deviations, in columns {_named(moved)}: both views of a stationary world have the same; if a "
            "drift is no part of it, subtract from each view its own mean"
        )


def _named(columns: np.ndarray) -> str:
    return ", ".join(map(str, columns[:_NAMED].tolist())) + (", ..." if len(columns) > _NAMED else "")
