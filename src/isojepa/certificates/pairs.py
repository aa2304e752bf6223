"""Rows of a certificate: embeddings of pairs, with latents where they are known, and their second moments.

A `PairRows` is made from arrays, from paths whose successive steps are pairs, from files, or by an encoder in
a world. Arrays on the disk stay there. `PairRows.blocks` streams every row once, in pieces that fit memory
and are checked on the way; `ViewMoments` sums them up, block by block. Everything else uses a sample of
stated size in memory (`PairRows.sample`, `PairRows.rows`).

Rows are cut into blocks in their own order. Every interval compares blocks, so rows that depend on their
neighbors, as along a recorded path, widen it as they should, as long as a block is long against the memory
of the path.
"""

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arrays import (
    NotFinite,
    check_dense,
    check_size,
    forget_pages,
    largest,
    real_rows,
    take_rows,
    to_float64,
)
from isojepa.data.array_files import read_array, read_named, split_name, warn
from isojepa.data.batch import Batch
from isojepa.data.source import Source, Streams, finite, held_out, moving, ordered
from isojepa.data.trajectories import Trajectories
from isojepa.encoders.model import embed
from isojepa.seeds import generator
from isojepa.statistics.intervals import BLOCKS, Interval, from_blocks
from isojepa.validation import validate_types

ArrayLike = Tensor | np.ndarray | Sequence[Any] | str | os.PathLike[str]
"""An array, a list of paths of unequal lengths, or the name of a file."""

MAX_BLOCK_NUMBERS = 4_000_000  # read at once
MAX_DIM_OF_ALL_BLOCKS = 1024  # above it half as many blocks, whose covariances are kept
MEMORIES_PER_PATH = 4.0  # times the latents decorrelate along a trajectory drawn from a world
MAX_PATH_ROWS, MAX_PATH_NUMBERS = 100_000, 10_000_000  # of all trajectories together
_NAMES = {"h": "embeddings", "h_next": "next", "z": "latents", "z_next": "latents_next"}


@dataclass(frozen=True)
class RowBlock:
    """Successive rows in memory, float64 and finite; `start` is the index of the first that was read."""

    h: np.ndarray
    h_next: np.ndarray | None = None
    z: np.ndarray | None = None
    z_next: np.ndarray | None = None
    start: int = 0

    def __len__(self) -> int:
        return len(self.h)


class PairRows:
    """Embeddings of pairs, with latents where they are known.

    The arrays may be anything with a shape, a dtype and slices of rows: NumPy arrays, memory maps, tensors,
    HDF5 datasets.

    Args:
        h: (n, m).
        h_next: (n, m), or None when only single views are known.
        z: (n, d), or None when there are no labels.
        z_next: (n, d) latents of the second view, or None.
        drop: leave out rows with NaN or Inf in any array, instead of refusing them.
        paths: (steps, paths, m) the rows along paths of one length, where they come from paths.

    Attributes:
        dropped: rows left out by the last complete pass over `blocks`.

    Raises:
        ValueError: the arrays have other shapes, too few rows, or no real numbers.
    """

    @validate_types
    def __init__(
        self,
        h: Any,
        h_next: Any = None,
        z: Any = None,
        z_next: Any = None,
        drop: bool = False,
        paths: np.ndarray | None = None,
    ) -> None:
        arrays = {"h": h, "h_next": h_next, "z": z, "z_next": z_next}
        self._arrays = {
            name: real_rows(_NAMES[name], value) for name, value in arrays.items() if value is not None
        }
        self.drop, self.dropped, self.paths = drop, 0, paths
        for name, value in self._arrays.items():
            if len(value) != len(self):
                raise ValueError(
                    f"embeddings and {_NAMES[name]} must have equal lengths, got {len(self)} and "
                    f"{len(value)}: row i of each must belong to the same sample"
                )
        if z_next is not None and z is None:
            raise ValueError("latents_next goes with latents, got it alone")
        for first, second, words in (("h", "h_next", ""), ("z", "z_next", "latents of ")):
            shapes = [tuple(self._arrays[name].shape) for name in (first, second) if name in self._arrays]
            if len(set(shapes)) > 1:
                raise ValueError(f"{words}both views must have one shape, got {shapes[0]} and {shapes[1]}")

    def __len__(self) -> int:
        return len(self._arrays["h"])

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return int(self._arrays["h"].shape[1])

    @property
    def latent_dim(self) -> int | None:
        """Dimension of the latents; None without them."""
        return int(self._arrays["z"].shape[1]) if "z" in self._arrays else None

    @property
    def paired(self) -> bool:
        """Whether second views are known."""
        return "h_next" in self._arrays

    def array(self, name: str) -> Any:
        """The array h, h_next, z or z_next as the user passed it; None without one."""
        return self._arrays.get(name)

    def blocks(self, cuts: tuple[int, ...] = ()) -> Iterator[RowBlock]:
        """Every row once, in order, in pieces that fit memory.

        Args:
            cuts: rows at which a piece must end, ascending.

        Raises:
            NotFinite: a row holds NaN or Inf and `drop` is False; raised after the last row.
            ValueError: a number is too large to be raised to the fourth power.
        """
        width = sum(int(value.shape[1]) for value in self._arrays.values())
        size = max(4 * width, MAX_BLOCK_NUMBERS // width)
        bad, rows = dict.fromkeys(self._arrays, 0), 0
        for start, stop in _pieces(len(self), size, cuts):
            block = self._read(slice(start, stop), bad)
            rows += len(block)
            yield block
        for name, count in bad.items():
            if count and not self.drop:
                raise NotFinite(
                    f"{_NAMES[name]} must be finite, got NaN or Inf in {count} of {len(self)} samples: "
                    "repair them, or leave those rows out with drop=True (--drop-bad-rows)"
                )
        self.dropped = len(self) - rows

    def whole(self) -> np.ndarray:
        """All embeddings of the first view, checked."""
        return np.concatenate([block.h for block in self.blocks()])

    def rows(self, start: int, stop: int) -> RowBlock:
        """The rows from `start` to before `stop`, without those that are not finite."""
        return self._read(slice(start, stop))

    def sample(self, count: int) -> RowBlock:
        """At most `count` rows at even distances, without those that are not finite."""
        return self._read(np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(int)))

    def _read(self, index: slice | np.ndarray, bad: dict[str, int] | None = None) -> RowBlock:
        """The rows that are finite in every array; adds the number of others to `bad`."""
        parts = {name: to_float64(take_rows(value, index)) for name, value in self._arrays.items()}
        for value in self._arrays.values():
            forget_pages(value)
        keep = np.ones(len(parts["h"]), bool)
        for name, part in parts.items():
            size = largest(part)
            if not np.isfinite(size):  # without a look at every number where all are finite
                numbers = np.isfinite(part).all(1)
                keep &= numbers
                size = largest(part[numbers])
                if bad is not None:
                    bad[name] += int((~numbers).sum())
            check_size(_NAMES[name], size)
        if not keep.all():
            parts = {name: part[keep] for name, part in parts.items()}
        return RowBlock(**parts, start=index.start if isinstance(index, slice) else 0)


def _pieces(n: int, size: int, cuts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start = 0
    for end in (*cuts, n):
        while start < end:
            stop = start + math.ceil((end - start) / math.ceil((end - start) / size))
            yield start, stop
            start = stop


def read_pairs(
    source: Any,
    h_next: Any = None,
    z: Any = None,
    z_next: Any = None,
    *,
    trajectory: bool = False,
    drop: bool = False,
) -> PairRows:
    """Rows from arrays or files.

    A file of embeddings may hold second views and latents too; arguments override them.

    Args:
        source: (n, m) embeddings, (steps, paths, m), a list of paths (steps_i, m), or files of them.
        h_next, z, z_next: what belongs to them; paths bring their own second views.
        trajectory: the rows of (n, m) are the successive steps of one path.
        drop: leave out rows with NaN or Inf.

    Raises:
        ValueError: the shapes do not go together, or a file cannot be read or holds no embeddings.
    """
    values = {"h": source, "h_next": h_next, "z": z, "z_next": z_next}
    if _is_file(source):
        arrays = read_named(Path(source), " (and next=, latents= likewise)")
        if "h" not in arrays:
            raise ValueError(f"{source} must hold embeddings 'h', got {', '.join(arrays)}")
        values["h"] = arrays["h"]
        values = {name: arrays.get(name) if value is None else value for name, value in values.items()}
    values = {name: _read_files(value) for name, value in values.items()}
    h = values["h"]
    listed = _is_paths(h)
    shape = () if listed else _shape(h)
    if trajectory and not listed and len(shape) not in (2, 3):
        raise ValueError(f"a trajectory must be (steps, dim) or (steps, paths, dim), got shape {shape}")
    if not (trajectory or listed or len(shape) == 3):
        return PairRows(**values, drop=drop)
    if values["h_next"] is not None or values["z_next"] is not None:
        raise ValueError("trajectories bring their own second views, the next steps: leave next out")
    if len(shape) == 3 and (shape[0] < 2 or 0 in shape):
        raise ValueError(
            f"trajectories must have at least 2 steps, 1 path and 1 dimension, got shape {shape}"
        )
    paths = _to_paths(h)
    latents = None if values["z"] is None else _to_paths(values["z"])
    if latents is not None:
        _check_lengths(paths, latents)
    views = join_paths("embeddings", paths)
    z_first, z_second = (None, None) if latents is None else join_paths("latents", latents)
    block = _to_numpy(h) if len(shape) == 3 else _equal_paths(paths)
    return PairRows(*views, z_first, z_second, drop, block)


def is_run_directory(source: Any) -> bool:
    """Whether a source names a folder, which can only be a run directory."""
    return _is_file(source) and split_name(Path(source))[0].is_dir()


def join_paths(name: str, paths: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Each step of paths (steps_i, dim) with the next, path after path, (pairs, dim) each.

    Raises:
        ValueError: dimensions differ, there are no numbers, or no path has two steps.
    """
    arrays = [_to_numpy(path) for path in paths]
    longest = Trajectories(name, arrays).longest  # checks their shapes
    if longest < 2:
        raise ValueError(f"{name} must have a path of 2 steps at least, got {longest}")
    arrays = [path for path in arrays if len(path) > 1]
    return np.concatenate([path[:-1] for path in arrays]), np.concatenate([path[1:] for path in arrays])


def _equal_paths(paths: Sequence[np.ndarray]) -> np.ndarray:
    """(steps, paths, dim) the first steps of all paths that are long enough; of all lengths, the fullest.

    Paths then stay independent of one another, as pieces of one path would not be.
    """
    lengths = np.array([len(path) for path in paths])
    steps = max(
        sorted(set(lengths.tolist()), reverse=True), key=lambda steps: steps * (lengths >= steps).sum()
    )
    block = np.stack([path[: max(2, steps)] for path in paths if len(path) >= max(2, steps)], axis=1)
    steps, count = block.shape[:2]
    if steps * count < lengths.sum():
        warn(
            f"the spectrum without latents looks at the first {steps} steps of {count} of the {len(paths)} "
            f"paths, {count * steps} of {lengths.sum()} steps: it compares paths of one length; all else "
            "uses every step"
        )
    return block


def _check_lengths(paths: Sequence[Any], latents: Sequence[Any]) -> None:
    counts = [[len(path) for path in one] for one in (paths, latents)]
    if counts[0] != counts[1]:
        equal = [a == b for a, b in zip(*counts, strict=False)]
        at = equal.index(False) if False in equal else min(map(len, counts))
        steps = [one[at] if at < len(one) else "no path" for one in counts]
        raise ValueError(
            f"latents must have as many steps as embeddings in each path, {steps[0]} in path {at}, "
            f"got {steps[1]}"
        )


def _to_paths(value: Any) -> list[np.ndarray]:
    """A list of paths, of (steps, dim), (steps, paths, dim) or a list of them."""
    if _is_paths(value):
        return [_to_numpy(path) for path in value]
    array = _to_numpy(value)
    return [array] if array.ndim < 3 else list(np.moveaxis(array, 1, 0))


def _is_paths(value: Any) -> bool:
    """Whether a value is a list of paths, each an array (steps, dim) of its own."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(path, Tensor | np.ndarray) and path.ndim == 2 for path in value)
    )


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _read_files(value: Any) -> Any:
    """Arrays in place of the names of their files."""
    if _is_file(value):
        return read_array(Path(value))
    if isinstance(value, list | tuple) and value and all(map(_is_file, value)):
        return [read_array(Path(path)) for path in value]
    return value


def _shape(source: Any) -> tuple[int, ...]:
    if source is None:
        raise ValueError("embeddings must be an array (samples, dim), got None")
    try:
        return tuple(np.shape(source))
    except ValueError as error:
        raise ValueError(
            "embeddings must be one array, (samples, dim) or (steps, paths, dim), or a list of arrays "
            "(steps, dim), one for each path, got a list of something else"
        ) from error


def _to_numpy(value: Any) -> np.ndarray:
    """An array or tensor as an array of its own type, where NumPy has it."""
    if isinstance(value, Tensor):
        check_dense("embeddings", value)
        value = value.detach().cpu()
        return to_float64(value) if value.dtype == torch.bfloat16 else value.numpy()
    return to_float64(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)


def default_samples(dim: int) -> int:
    """Pairs to draw for a certificate: many in few dimensions, where they cost nothing."""
    return max(20_000, min(100_000, 3_200_000 // dim))


def embed_pairs(
    encoder: Callable[[Tensor], Tensor],
    world: Source,
    samples: int | None,
    seed: int,
    drop: bool = False,
    rho: float | None = None,
) -> PairRows:
    """Embeddings of fresh pairs of a world, and of trajectories where the world has them.

    Args:
        encoder: of the observations.
        world: with pairs.
        samples: their number; by default `default_samples`.
        seed: draws them.
        drop: leave out rows with NaN or Inf.
        rho: correlation of the pairs, for the length of the trajectories; None for no trajectories.

    Raises:
        ValueError: the world gives no pairs.
    """
    dim = world.facts.dim
    batch = draw_pairs(world, default_samples(dim or 1) if samples is None else samples, seed)
    if len(batch.views) < 2:
        raise ValueError(f"a certificate needs two views of each state, got {len(batch.views)}")
    h, h_next = (embed(encoder, view) for view in batch.views[:2])
    z, z_next = (None, None) if batch.z is None else batch.z[:2]
    paths = None
    if rho is not None and dim is not None and moving(world):
        rate = -math.log(min(max(rho, 1e-300), 1 - 1e-15))  # rho may be rounded to 0 or 1
        steps = int(np.clip(MEMORIES_PER_PATH / rate, 16, 256))
        count = max(100, min(MAX_PATH_ROWS, MAX_PATH_NUMBERS // dim) // steps)
        x = world.trajectory(count, steps, generator(seed, "trajectories")).x
        paths = embed(encoder, x.flatten(0, 1)).unflatten(0, x.shape[:2]).double().numpy()
    return PairRows(h, h_next, z, z_next, drop, paths)


def draw_pairs(world: Source, count: int, seed: int) -> Batch:
    """Fresh pairs of a world; of a finite set each state once at most: a second look is no evidence.

    Where a world holds states out from training, of those.
    """
    source, world = generator(seed, "certify"), held_out(world)
    if finite(world):
        ids = torch.randperm(world.facts.size or 0, generator=source)[:count].sort().values
        return world.take(ids, Streams(seed, torch.zeros_like(ids), ids))
    return (world.in_order() if ordered(world) else world).sample(count, source)


def block_edges(n: int, dim: int) -> tuple[int, ...]:
    """Row at which each block ends: both halves have up to 20 blocks, fewer in many dimensions."""
    count = BLOCKS if dim <= MAX_DIM_OF_ALL_BLOCKS else BLOCKS // 2
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


class ViewMoments:
    """Second moments of both views, block by block.

    Args:
        edges: row at which each block ends; two neighboring blocks are joined.
        dim: of the embeddings.
    """

    def __init__(self, edges: tuple[int, ...], dim: int) -> None:
        self.edges = edges
        self.views = 1
        self._centers: tuple[np.ndarray, np.ndarray] | None = None
        self._blocks = [
            Sums(0, np.zeros(dim), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0, 0.0)
            for _ in range(max(1, len(edges) // 2))
        ]

    def add(self, rows: RowBlock) -> None:
        """Add rows that lie within one block."""
        if not len(rows):
            return
        if self._centers is None:  # near the means: sums about them lose no digits to a large offset
            second = rows.h if rows.h_next is None else rows.h_next
            self._centers = rows.h.mean(0), second.mean(0)
        block = self._blocks[min(bisect_right(self.edges, rows.start) // 2, len(self._blocks) - 1)]
        h = rows.h - self._centers[0]
        block.n += len(h)
        block.h += h.sum(0)
        block.products += h.T @ h
        block.squares += float(np.vdot(h, h))
        if rows.h_next is None:
            return
        self.views = 2
        h_next = rows.h_next - self._centers[1]
        block.h_next += h_next.sum(0)
        block.products += h_next.T @ h_next
        block.squares += float(np.vdot(h_next, h_next))
        block.cross += float(np.vdot(h, h_next))
        h_next += self._centers[1] - self._centers[0]
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

    def covariance(self) -> np.ndarray:
        """Mean of the views' covariances, each with divisor n - 1."""
        h, h_next, products = (sum(getattr(b, name) for b in self.blocks) for name in _VECTORS)
        means = np.outer(h, h) + np.outer(h_next, h_next)
        return np.asarray((products - means / self.n) / (self.views * max(self.n - 1, 1)))

    def spreads(self) -> np.ndarray:
        """(blocks,) sums of |h - E h|^2 + |h' - E h'|^2 with the means of all rows."""
        n, squares, _, h, h_next = self._stacked()
        mean, mean_next = h.sum(0) / n.sum(), h_next.sum(0) / n.sum()
        shifts = 2 * (h @ mean + h_next @ mean_next) - n * (mean @ mean + mean_next @ mean_next)
        return np.asarray(squares - shifts)

    def correlation(self, confidence: float) -> Interval | None:
        """Correlation of the two views over all dimensions together; None without pairs or without spread."""
        sums = self._stacked()
        if self.views < 2 or len(sums[0]) < 3 or not self.spreads().sum() > 0:
            return None
        # of all rows, then without each block
        totals = (np.concatenate((part.sum(0)[None], part.sum(0) - part)) for part in sums)
        n, squares, cross, h, h_next = totals
        cross = cross - (h * h_next).sum(1) / n
        spread = squares - ((h**2).sum(1) + (h_next**2).sum(1)) / n
        values = np.where(spread > 0, 2 * cross / np.where(spread > 0, spread, 1.0), 0.0)
        return from_blocks(float(values[0]), values[1:], confidence)

    def _stacked(self) -> tuple[np.ndarray, ...]:
        """Rows, squares, cross products and sums of both views of each block."""
        names = ("n", "squares", "cross", "h", "h_next")
        return tuple(np.array([getattr(block, name) for block in self.blocks]) for name in names)


_VECTORS = ("h", "h_next", "products")


def read_moments(pairs: PairRows) -> ViewMoments:
    """Read all rows once."""
    edges = block_edges(len(pairs), pairs.dim)
    moments = ViewMoments(edges, pairs.dim)
    for block in pairs.blocks(edges):
        moments.add(block)
    return moments
