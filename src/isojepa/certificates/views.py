"""Sums over both views of the pairs, block by block: what bound, correlation and spread are computed from.

Rows are cut into blocks in their own order. Every interval compares blocks, so rows that depend on their
neighbours, as along a recorded path, widen it as they should, as long as a block is long against the memory
of the path.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from isojepa.certificates.embeddings import Chunk, Embeddings
from isojepa.statistics.intervals import Interval, from_blocks

_BLOCKS = 20


def block_edges(n: int, dim: int) -> tuple[int, ...]:
    """Row at which each block ends: both halves have up to 20 blocks, fewer in many dimensions."""
    count = _BLOCKS if dim <= 1024 else _BLOCKS // 2
    halves = (np.arange(n // 2), np.arange(n // 2, n))
    return tuple(
        int(block[-1]) + 1
        for half in halves
        for block in np.array_split(half, max(1, min(count, len(half))))
        if len(block)
    )


@dataclass
class Sums:
    """Sums over one block of pairs, about fixed centers; `products` and `squares` add both views."""

    n: int
    h: np.ndarray
    h_next: np.ndarray
    products: np.ndarray
    squares: float
    cross: float  # of h . h'
    loss: float  # of |h' - h|^2


class Views:
    """Sums over the views of all pairs.

    Args:
        edges: row at which each block ends; two neighbouring blocks are joined.
        dim: of the embeddings.
    """

    def __init__(self, edges: tuple[int, ...], dim: int) -> None:
        self.edges = edges
        self.count = 1  # views
        self._centres: tuple[np.ndarray, np.ndarray] | None = None
        self._blocks = [
            Sums(0, np.zeros(dim), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0, 0.0)
            for _ in range(max(1, len(edges) // 2))
        ]

    def add(self, chunk: Chunk) -> None:
        """Add rows that lie within one block."""
        if not len(chunk):
            return
        if self._centres is None:  # near the means: sums about them lose no digits to a large offset
            second = chunk.h if chunk.h_next is None else chunk.h_next
            self._centres = chunk.h.mean(0), second.mean(0)
        block = self._blocks[min(bisect_right(self.edges, chunk.start) // 2, len(self._blocks) - 1)]
        h = chunk.h - self._centres[0]
        block.n += len(h)
        block.h += h.sum(0)
        block.products += h.T @ h
        block.squares += float(np.vdot(h, h))
        if chunk.h_next is None:
            return
        self.count = 2
        h_next = chunk.h_next - self._centres[1]
        block.h_next += h_next.sum(0)
        block.products += h_next.T @ h_next
        block.squares += float(np.vdot(h_next, h_next))
        block.cross += float(np.vdot(h, h_next))
        h_next += self._centres[1] - self._centres[0]
        h_next -= h
        block.loss += float(np.vdot(h_next, h_next))

    @property
    def blocks(self) -> list[Sums]:
        """The blocks that have rows."""
        return [block for block in self._blocks if block.n]

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(block.n for block in self._blocks)

    def covariance(self, block: Sums | None = None) -> np.ndarray:
        """Mean of the views' covariances, each with divisor n - 1; of one block, or of all rows."""
        if block is None:
            block = _joined(self.blocks)
        means = np.outer(block.h, block.h) + np.outer(block.h_next, block.h_next)
        return (block.products - means / block.n) / (self.count * max(block.n - 1, 1))

    def spreads(self) -> np.ndarray:
        """(blocks,) sums of |h - E h|^2 + |h' - E h'|^2 with the means of all rows."""
        n = self.n
        mean, mean_next = (sum(getattr(b, name) for b in self.blocks) / n for name in ("h", "h_next"))
        return np.array(
            [
                b.squares
                - 2 * (b.h @ mean + b.h_next @ mean_next)
                + b.n * (mean @ mean + mean_next @ mean_next)
                for b in self.blocks
            ]
        )

    def correlation(self, confidence: float) -> Interval | None:
        """Correlation of the two views over all dimensions together; None without pairs or without spread."""
        blocks = self.blocks
        if self.count < 2 or len(blocks) < 3 or not self.spreads().sum() > 0:
            return None
        total = _joined(blocks)

        def value(sums: Sums) -> float:
            cross = sums.cross - sums.h @ sums.h_next / sums.n
            spread = sums.squares - (sums.h @ sums.h + sums.h_next @ sums.h_next) / sums.n
            return float(2 * cross / spread) if spread > 0 else 0.0

        return from_blocks(value(total), np.array([value(_without(total, b)) for b in blocks]), confidence)


def read_views(embeddings: Embeddings) -> Views:
    """Read all rows once."""
    edges = block_edges(len(embeddings), embeddings.dim)
    views = Views(edges, embeddings.dim)
    for chunk in embeddings.chunks(edges):
        views.add(chunk)
    return views


def _joined(blocks: list[Sums]) -> Sums:
    return Sums(*(sum(getattr(b, name) for b in blocks) for name in Sums.__dataclass_fields__))


def _without(total: Sums, block: Sums) -> Sums:
    """Scalars and means without one block; the products are left out."""
    return Sums(
        total.n - block.n,
        total.h - block.h,
        total.h_next - block.h_next,
        total.products,
        total.squares - block.squares,
        total.cross - block.cross,
        total.loss - block.loss,
    )
