"""Recovery: how far embeddings h are from a linear map, and from a rotation, of the latents z.

Every map is fitted on the first half of the samples and scored on the second, in one pass over both.

    r2_h_to_z            R^2 of z regressed on h: can the latents be read off linearly?
    r2_z_to_h            R^2 of h regressed on z: is the embedding nothing but the latents?
    r2_orthogonal        R^2 of z predicted by a rotation and translation of h
    gap                  r2_h_to_z - r2_orthogonal: what a linear map gains over a rotation
    orthogonality_error  |Q^T Q - I|_F / sqrt(n) of the fitted h ~ Q z; noise in the fit adds to it
    procrustes_error     E |h - E h - Q (z - E z)|^2 for the best orthogonal Q: the left side of Theorem 3

R^2 is the mean over dimensions. Intervals compare blocks of the half they are measured on. Reference:
Klindt, LeCun & Balestriero (2026), Appendix H.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.arguments import check_number, checked
from isojepa.certificates.embeddings import Chunk, Embeddings
from isojepa.certificates.intervals import Interval, from_blocks
from isojepa.certificates.views import block_edges
from isojepa.linear import Factor, LinearMap, nearest_rotation, r2_of


@dataclass(frozen=True)
class Recovery:
    """Held-out recovery of latents; the last four are None when h and z have different dimensions."""

    r2_h_to_z: Interval
    r2_z_to_h: Interval
    r2_per_latent: tuple[float, ...]
    r2_per_embedding: tuple[float, ...]
    r2_orthogonal: Interval | None
    gap: Interval | None
    orthogonality_error: Interval | None
    procrustes_error: Interval | None


@checked
def measure_recovery(h: np.ndarray, z: np.ndarray, confidence: float = 0.95) -> Recovery:
    """Measure how well h recovers z.

    Args:
        h: (n, m) embeddings.
        z: (n, d) latents.
        confidence: of the intervals.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    embeddings = Embeddings(h, z=z)
    reading = RecoveryReading(embeddings, block_edges(len(embeddings), embeddings.dim))
    for chunk in embeddings.chunks(reading.edges):
        reading.add(chunk)
    return reading.result(confidence)


class RecoveryReading:
    """Recovery measured while the rows pass by: maps are fitted when the first half has been seen.

    Args:
        embeddings: with latents.
        edges: row at which each block ends; one of them is the end of the first half.

    Raises:
        ValueError: fewer than 4 samples: a half would have no variance.
    """

    def __init__(self, embeddings: Embeddings, edges: tuple[int, ...]) -> None:
        n, latent_dim = len(embeddings), embeddings.latent_dim
        if latent_dim is None:
            raise ValueError("recovery needs latents")
        if n < 4:
            raise ValueError(
                f"at least 4 samples are needed to fit on one half and score on the other, got {n}"
            )
        self.edges = edges
        self._half = n // 2
        self._square = latent_dim == embeddings.dim
        self._factor: Factor | None = None
        self._blocks: list[_FitBlock] = []
        self._scores: dict[str, _Score] = {}

    def add(self, chunk: Chunk) -> None:
        """Add rows that lie within one block."""
        if not len(chunk):
            return
        if chunk.start < self._half:
            self._fit(chunk)
        else:
            self._score(chunk)

    def _fit(self, chunk: Chunk) -> None:
        h, z = _both(chunk)
        if self._factor is None:
            self._factor = Factor(h.mean(0), z.mean(0))
        self._factor.add(h, z)
        if self._square:
            if not self._blocks or chunk.start >= self._blocks[-1].end:
                self._blocks.append(_FitBlock(_block_end(self.edges, chunk.start), h.shape[1]))
            self._blocks[-1].add(h - self._factor.centre, z - self._factor.offset)

    def _score(self, chunk: Chunk) -> None:
        h, z = _both(chunk)
        if not self._scores:
            if self._factor is None or self._factor.n < 2:
                return  # told after the pass
            self._scores = self._fitted(self._factor)
        for score in self._scores.values():
            score.add(h, z, _block_end(self.edges, chunk.start))

    def _fitted(self, factor: Factor) -> dict[str, "_Score"]:
        """The maps of the first half, ready to be scored."""
        h_to_z, z_to_h = factor.maps()
        scores = {"h_to_z": _Score(h_to_z, True), "z_to_h": _Score(z_to_h, False)}
        if self._square:
            turn = nearest_rotation(factor.products())
            h_turned = LinearMap(turn, h_to_z.centre, h_to_z.offset)
            z_turned = LinearMap(turn.T, z_to_h.centre, z_to_h.offset)
            scores |= {"h_turned": _Score(h_turned, True), "z_turned": _Score(z_turned, False)}
        return scores

    def result(self, confidence: float) -> Recovery:
        """The recovery of all rows seen.

        Raises:
            ValueError: one of the halves has too few usable rows.
        """
        if not self._scores or self._scores["h_to_z"].n < 2:
            raise ValueError("at least 2 samples without NaN or Inf are needed in each half")
        if self._scores["h_to_z"].blocks < 2:
            raise ValueError(
                "samples without NaN or Inf lie too close together in the second half to compare blocks of it"
            )
        z_score, h_score = self._scores["h_to_z"], self._scores["z_to_h"]
        per_latent, per_embedding = z_score.per_output(), h_score.per_output()
        r2_h_to_z = from_blocks(per_latent.mean(), z_score.left_out(), confidence)
        r2_z_to_h = from_blocks(per_embedding.mean(), h_score.left_out(), confidence)
        orthogonal = gap = orthogonality = error = None
        if self._square:
            turned, back = self._scores["h_turned"], self._scores["z_turned"]
            r2_turned = turned.per_output().mean()
            orthogonal = from_blocks(r2_turned, turned.left_out(), confidence)
            gap = from_blocks(
                per_latent.mean() - r2_turned, z_score.left_out() - turned.left_out(), confidence
            )
            error = back.error(confidence)
            orthogonality = _orthogonality(self._blocks, confidence)
        return Recovery(
            r2_h_to_z=r2_h_to_z,
            r2_z_to_h=r2_z_to_h,
            r2_per_latent=tuple(per_latent.tolist()),
            r2_per_embedding=tuple(per_embedding.tolist()),
            r2_orthogonal=orthogonal,
            gap=gap,
            orthogonality_error=orthogonality,
            procrustes_error=error,
        )


def _block_end(edges: tuple[int, ...], row: int) -> int:
    """End of the block a row lies in."""
    return edges[bisect_right(edges, row)]


def _both(chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    assert chunk.z is not None
    return chunk.h, chunk.z


class _Score:
    """Held-out errors of one map, block by block."""

    def __init__(self, linear: LinearMap, to_latents: bool) -> None:
        self._map, self._to_latents = linear, to_latents
        self._blocks: dict[int, list[np.ndarray]] = {}  # rows, residuals, sums and squares about the offset
        self._first: np.ndarray | None = None  # row
        self._reach = np.zeros(len(linear.offset))  # largest distance from it, and largest value
        self._size = np.zeros(len(linear.offset))

    @property
    def n(self) -> int:
        return int(sum(block[0] for block in self._blocks.values()))

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    def add(self, h: np.ndarray, z: np.ndarray, block: int) -> None:
        x, y = (h, z) if self._to_latents else (z, h)
        residual = ((y - self._map(x)) ** 2).sum(0)
        about = y - self._map.offset
        sums = [np.array(len(y)), residual, about.sum(0), (about**2).sum(0)]
        found = self._blocks.get(block)
        self._blocks[block] = sums if found is None else [a + b for a, b in zip(found, sums, strict=True)]
        if self._first is None:
            self._first = about[0]
        self._reach = np.maximum(self._reach, np.abs(about - self._first).max(0))
        self._size = np.maximum(self._size, np.abs(y).max(0))

    def _totals(self) -> tuple[np.ndarray, ...]:
        n, residual, first, second = (np.stack(part) for part in zip(*self._blocks.values(), strict=True))
        return n[:, None].astype(float), residual, first, second

    def _r2(self, n: np.ndarray, residual: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        flat = self._reach <= 1e-12 * self._size  # what rounding leaves of a constant is no spread
        return r2_of(residual, np.where(flat, 0.0, second - first**2 / n))

    def per_output(self) -> np.ndarray:
        """(out,) R^2 of each output."""
        return self._r2(*(part.sum(0) for part in self._totals()))

    def left_out(self) -> np.ndarray:
        """(blocks,) mean R^2 without each block."""
        means: np.ndarray = self._r2(*(part.sum(0) - part for part in self._totals())).mean(1)
        return means

    def error(self, confidence: float) -> Interval:
        """Mean squared distance between outputs and predictions."""
        n, residual, *_ = self._totals()
        rows, sums = n[:, 0], residual.sum(1)
        left_out = (sums.sum() - sums) / (rows.sum() - rows)
        return from_blocks(sums.sum() / rows.sum(), left_out, confidence)


class _FitBlock:
    """Products of z with z and with h over one block of the fit half, about points near the means."""

    def __init__(self, end: int, dim: int) -> None:
        self.end = end
        self.n = 0
        self.h, self.z = np.zeros(dim), np.zeros(dim)
        self.zz, self.zh = np.zeros((dim, dim)), np.zeros((dim, dim))

    def add(self, h: np.ndarray, z: np.ndarray) -> None:
        self.n += len(h)
        self.h += h.sum(0)
        self.z += z.sum(0)
        self.zz += z.T @ z
        self.zh += z.T @ h


def _orthogonality(blocks: list[_FitBlock], confidence: float) -> Interval | None:
    """|Q^T Q - I|_F / sqrt(n) of the least-squares map h ~ Q z, with a jackknife interval."""
    dim = len(blocks[0].z)
    n = sum(block.n for block in blocks)
    if n < 2 * dim + 2 or len(blocks) < 2:
        return None  # fewer samples than unknowns: the map is not determined
    mean_z, mean_h = (sum(getattr(block, name) for block in blocks) / n for name in ("z", "h"))
    squares, products = sum(b.zz for b in blocks), sum(b.zh for b in blocks)

    def value(without: _FitBlock | None) -> float:
        """The error with all blocks or without one, centred by the mean of all."""
        rest = (n, mean_z * n, mean_h * n, squares, products)
        if without is not None:
            own = (without.n, without.z, without.h, without.zz, without.zh)
            rest = tuple(a - b for a, b in zip(rest, own, strict=True))
        rows, z, h, zz, zh = rest
        outer_z = np.outer(z, mean_z)
        zz = zz - outer_z - outer_z.T + rows * np.outer(mean_z, mean_z)
        zh = zh - np.outer(z, mean_h) - np.outer(mean_z, h) + rows * np.outer(mean_z, mean_h)
        q = torch.linalg.solve(torch.from_numpy(zz), torch.from_numpy(zh)).numpy()
        off = q @ q.T - np.eye(dim)
        size = max(1.0, float(np.abs(off).max()))  # squares of huge numbers would overflow
        return float(size * np.linalg.norm(off / size) / np.sqrt(dim))

    try:
        return from_blocks(value(None), np.array([value(block) for block in blocks]), confidence)
    except RuntimeError:  # latents that do not span their space determine no map
        return None
