"""Recovery: how far embeddings h are from a linear map, and from a rotation, of the latents z.

Every map is fitted on the first half of the samples and scored on the second, in one pass over both.

    r2_h_to_z            R^2 of z regressed on h: can the latents be read off linearly?
    r2_z_to_h            R^2 of h regressed on z: is the embedding nothing but the latents?
    r2_orthogonal        R^2 of z predicted by a rotation and translation of h
    gap                  r2_h_to_z - r2_orthogonal: what a linear map gains over a rotation
    orthogonality_error  |Q^T Q - I|_F / sqrt(n) of the fitted h ~ Q z; noise in the fit adds to it
    procrustes_error     E |h - E h - Q (z - E z)|^2 for the best orthogonal Q: the left side of Theorem 3

R^2 is the mean over dimensions. The numbers are those of the fitted map on rows it has not seen; the
intervals are for the best map of all rows there could be, see `map_errors`. Where too few rows decide, they
say nothing, and `few` names them. Reference: Klindt, LeCun & Balestriero (2026), Appendix H.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.certificates.embeddings import Chunk, Embeddings
from isojepa.certificates.map_errors import Fit, Halves, Quantity, Scores, gap_of
from isojepa.certificates.views import block_edges
from isojepa.linear import Factor, LinearMap, nearest_rotation
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import check_number, validate_types

_KEPT = 1 << 22  # numbers of the first half that are kept to score them too


@dataclass(frozen=True)
class Recovery:
    """Held-out recovery of latents.

    Attributes:
        r2_h_to_z, r2_z_to_h: R^2 of one regressed on the other.
        r2_per_latent, r2_per_embedding: the same for each output.
        r2_orthogonal, gap, orthogonality_error, procrustes_error: None where h and z have other dimensions.
        few: names of the numbers above for which there are too few rows: their intervals hold all that the
            number can be.
    """

    r2_h_to_z: Interval
    r2_z_to_h: Interval
    r2_per_latent: tuple[float, ...]
    r2_per_embedding: tuple[float, ...]
    r2_orthogonal: Interval | None
    gap: Interval | None
    orthogonality_error: Interval | None
    procrustes_error: Interval | None
    few: tuple[str, ...] = ()


@validate_types
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
        self._maps: dict[str, Halves] = {}
        width = embeddings.dim + latent_dim
        self._kept: list[tuple[np.ndarray, np.ndarray, int]] | None = (
            [] if self._half * width <= _KEPT else None
        )

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
            self._blocks[-1].add(h - self._factor.center, z - self._factor.offset)
        if self._kept is not None:
            self._kept.append((h, z, _block_end(self.edges, chunk.start)))

    def _score(self, chunk: Chunk) -> None:
        h, z = _both(chunk)
        if not self._maps:
            if self._factor is None or self._factor.n < 2:
                return  # told after the pass
            self._maps = self._fitted(self._factor)
        for name, one in self._maps.items():
            one.other.add(*((h, z) if name in _TO_LATENTS else (z, h)), _block_end(self.edges, chunk.start))

    def _fitted(self, factor: Factor) -> dict[str, Halves]:
        """The maps of the first half, ready to be scored."""
        h_to_z, z_to_h = factor.maps()
        linear = {"h_to_z": h_to_z, "z_to_h": z_to_h}
        if self._square:
            turn = nearest_rotation(factor.products())
            linear["h_turned"] = LinearMap(turn, h_to_z.center, h_to_z.offset)
            linear["z_turned"] = LinearMap(turn.T, z_to_h.center, z_to_h.offset)
        maps = {}
        for name, one in linear.items():
            fit = Fit(one, factor.n, *factor.errors(one, back=name not in _TO_LATENTS))
            own = None if self._kept is None else Scores(fit)
            for h, z, block in self._kept or ():
                own.add(*((h, z) if name in _TO_LATENTS else (z, h)), block)  # type: ignore[union-attr]
            maps[name] = Halves(fit, own, Scores(fit))
        self._kept = None
        return maps

    def result(self, confidence: float) -> Recovery:
        """The recovery of all rows seen.

        Raises:
            ValueError: one of the halves has too few usable rows.
        """
        if not self._maps or self._maps["h_to_z"].other.n < 2:
            raise ValueError("at least 2 samples without NaN or Inf are needed in each half")
        if self._maps["h_to_z"].other.blocks < 2:
            raise ValueError(
                "samples without NaN or Inf lie too close together in the second half to compare blocks of it"
            )
        maps = self._maps
        found = {
            "r2_h_to_z": _r2(maps["h_to_z"], confidence),
            "r2_z_to_h": _r2(maps["z_to_h"], confidence),
        }
        orthogonality = None
        if self._square:
            found["r2_orthogonal"] = _r2(maps["h_turned"], confidence)
            found["gap"] = gap_of(maps["h_to_z"], maps["h_turned"], confidence)
            found["procrustes_error"] = maps["z_turned"].interval("error", confidence)
            orthogonality = _orthogonality(self._blocks, confidence)
        few = tuple(
            name for name, of in _JUDGED.items() if name in found and any(maps[m].few(q) for m, q in of)
        )
        found |= {name: _anything(name, found[name].estimate) for name in few}
        return Recovery(
            r2_h_to_z=found["r2_h_to_z"],
            r2_z_to_h=found["r2_z_to_h"],
            r2_per_latent=tuple(maps["h_to_z"].other.per_output().tolist()),
            r2_per_embedding=tuple(maps["z_to_h"].other.per_output().tolist()),
            r2_orthogonal=found.get("r2_orthogonal"),
            gap=found.get("gap"),
            orthogonality_error=orthogonality,
            procrustes_error=found.get("procrustes_error"),
            few=few,
        )


_TO_LATENTS = ("h_to_z", "h_turned")
_JUDGED: dict[str, tuple[tuple[str, Quantity], ...]] = {  # the maps that a number rests on
    "r2_h_to_z": (("h_to_z", "r2"),),
    "r2_z_to_h": (("z_to_h", "r2"),),
    "r2_orthogonal": (("h_turned", "r2"),),
    "gap": (("h_to_z", "r2"), ("h_turned", "r2")),
    "procrustes_error": (("z_turned", "error"),),
}


def _r2(halves: Halves, confidence: float) -> Interval:
    """R^2 in place of 1 - R^2, with the mean of what was held out as its estimate."""
    share = halves.interval("r2", confidence)
    return Interval(float(halves.other.per_output().mean()), 1 - share.high, 1 - share.low)


def _anything(name: str, estimate: float) -> Interval:
    """The interval that too few rows allow: all that the number can be."""
    low, high = _RANGES[name]
    return Interval(estimate, min(low, estimate), max(high, estimate))


_RANGES = {
    "r2_h_to_z": (0.0, 1.0),  # the best map is no worse than a constant
    "r2_z_to_h": (0.0, 1.0),
    "r2_orthogonal": (-math.inf, 1.0),
    "gap": (0.0, math.inf),
    "procrustes_error": (0.0, math.inf),
}


def _block_end(edges: tuple[int, ...], row: int) -> int:
    """End of the block a row lies in."""
    return edges[bisect_right(edges, row)]


def _both(chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    assert chunk.z is not None
    return chunk.h, chunk.z


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
        """The error with all blocks or without one, centered by the mean of all."""
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
