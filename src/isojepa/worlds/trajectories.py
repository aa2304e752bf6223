"""Arrays along several paths: one array (steps, paths, ...), or a list of (steps_i, ...) of unequal lengths.

Both are read the same way, by path and step, and neither is copied when it is memory-mapped. A list that
lies in memory is joined into one array, so that a batch is one look-up and not one per path.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.seeds import generator

_CHUNK = 1 << 20  # numbers that are read at once
_LARGEST = 1e100  # squares of larger numbers leave float64


class Trajectories:
    """Values at each step of each path.

    Args:
        name: what they are, for errors.
        values: (steps, paths, ...), (steps, dim) for one path, or a list of (steps_i, ...).

    Attributes:
        lengths: (paths,) steps of each path.
        shape: of one value, e.g. (dim,).
    """

    def __init__(
        self, name: str, values: np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor]
    ) -> None:
        self._block: np.ndarray | None = None  # (steps, columns, ...), a path each
        self._flat: np.ndarray | None = None  # (all steps, ...), paths one after the other
        self._list: list[np.ndarray] = []
        self._columns = np.zeros(0, dtype=np.int64)  # where each path is in the block
        if isinstance(values, np.ndarray | Tensor):
            block = _array(name, values)
            block = block[:, None] if block.ndim == 2 else block
            if block.ndim < 3 or 0 in block.shape:
                raise ValueError(
                    f"{name} must be (steps, paths, dim), (steps, dim) or a list of (steps, dim), "
                    f"got shape {tuple(values.shape)}"
                )
            self._block = block
            self._columns = np.arange(block.shape[1])
            self.lengths = np.full(block.shape[1], block.shape[0], dtype=np.int64)
            self.shape = tuple(block.shape[2:])
        else:
            self._read_list(name, values)
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._finite = False  # whether that is known

    @classmethod
    def of(cls, name: str, values: Any) -> "Trajectories":
        """The values themselves if they are trajectories already."""
        return values if isinstance(values, Trajectories) else cls(name, values)

    def _read_list(self, name: str, values: Sequence[np.ndarray] | Sequence[Tensor]) -> None:
        if not isinstance(values, Sequence) or not values:
            raise ValueError(f"{name} must be an array or a list of arrays, got {type(values).__name__}")
        paths = [_array(name, path) for path in values]
        shapes = {path.shape[1:] for path in paths}
        if len(shapes) > 1 or min(path.ndim for path in paths) < 2:
            raise ValueError(
                f"{name} must be (steps, dim) with one dim for all paths, got shapes "
                f"{', '.join(str(shape) for shape in sorted({path.shape for path in paths})[:4])}"
            )
        self.lengths = np.array([len(path) for path in paths], dtype=np.int64)
        self.shape = tuple(paths[0].shape[1:])
        if any(_mapped(path) for path in paths):
            self._list = paths
        else:
            self._flat = np.concatenate(paths)

    @property
    def longest(self) -> int:
        """Steps of the longest path."""
        return int(self.lengths.max())

    def gather(self, path: np.ndarray, step: np.ndarray) -> np.ndarray:
        """The values at steps of paths, both (n,): (n, ...)."""
        if self._block is not None:
            return np.asarray(self._block[step, self._columns[path]])
        if self._flat is not None:
            return np.asarray(self._flat[self._starts[path] + step])
        out = np.empty((len(path), *self.shape), dtype=self._list[0].dtype)
        order = np.argsort(path, kind="stable")
        edges = np.flatnonzero(np.diff(path[order])) + 1
        for rows in np.split(order, edges):
            out[rows] = self._list[path[rows[0]]][step[rows]]
        return out

    def subset(self, paths: np.ndarray) -> "Trajectories":
        """Some of the paths; nothing is copied."""
        part = copy(self)
        part.lengths, part._starts = self.lengths[paths], self._starts[paths]
        if self._block is not None:
            part._columns = self._columns[paths]
        if self._list:
            part._list = [self._list[path] for path in paths]
        return part

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each coordinate over all steps and paths, (dim,) float64.

        Raises:
            ValueError: a value is NaN or Inf, or too large to be squared.
        """
        count, mean, scatter = 0, np.zeros(self.shape), np.zeros(self.shape)
        for part in self._parts():
            if not np.isfinite(part).all():
                raise ValueError("states must be finite, got NaN or Inf")
            if np.abs(part).max(initial=0.0) > _LARGEST:
                raise ValueError(f"states must be below 1e100 in size, got {np.abs(part).max():.3g}")
            own = part.mean(0)
            own_scatter = ((part - own) ** 2).sum(0)
            total = count + len(part)
            # joining two samples' moments (Chan et al. 1983) keeps the digits that sums of squares lose
            scatter += own_scatter + (own - mean) ** 2 * count * len(part) / total
            mean += (own - mean) * len(part) / total
            count = total
        self._finite = True
        return mean, np.sqrt(scatter / count)

    def check_finite(self) -> None:
        """Read everything once, if nobody has yet, to see that it is finite."""
        if not self._finite:
            self.moments()

    def check_lengths(self, name: str, other: "Trajectories") -> None:
        """Say where these trajectories have other lengths than those they belong to."""
        if len(self.lengths) != len(other.lengths):
            raise ValueError(
                f"{name} must have as many paths as states, {len(other.lengths)}, got {len(self.lengths)}"
            )
        off = np.flatnonzero(self.lengths != other.lengths)
        if len(off):
            at = off[0]
            raise ValueError(
                f"{name} must have as many steps as states, {other.lengths[at]} in path {at}, "
                f"got {self.lengths[at]}"
            )

    def _parts(self) -> Iterator[np.ndarray]:
        """All values in float64, (n, ...), a part at a time, in the order of the memory."""
        if self._block is not None:
            whole = len(self._columns) == self._block.shape[1]
            rows = max(1, _CHUNK // (len(self._columns) * max(1, int(np.prod(self.shape)))))
            for start in range(0, len(self._block), rows):
                part = np.asarray(self._block[start : start + rows])
                part = part if whole else part[:, self._columns]
                yield part.astype(np.float64).reshape(-1, *self.shape)
            return
        for path, (start, length) in enumerate(zip(self._starts, self.lengths, strict=True)):
            own = self._list[path] if self._flat is None else self._flat[start : start + length]
            if length:
                yield np.asarray(own, dtype=np.float64)


def _array(name: str, values: np.ndarray | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    array = np.asanyarray(values)
    if array.dtype == object or not (
        np.issubdtype(array.dtype, np.number) or np.issubdtype(array.dtype, np.bool_)
    ):
        raise ValueError(f"{name} must be numbers, got {array.dtype}; pass unequal paths as a list")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise ValueError(f"{name} must be real, got {array.dtype}")
    return array


def _mapped(array: np.ndarray) -> bool:
    """Whether an array, or what it is a view of, is memory-mapped."""
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap):
            return True
        base = getattr(base, "base", None)
    return False


def split_paths(
    lengths: np.ndarray, stride: int, held_out: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the paths to train on and of those to hold out.

    Args:
        lengths: (paths,) steps of each.
        stride: of a pair; paths that are no longer have none, and are left out.
        held_out: share of the paths, in (0, 1).
        seed: shuffles them.

    Raises:
        ValueError: the share is no such number, or there are fewer than two paths.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie in (0, 1), got {held_out}")
    long = np.flatnonzero(lengths > stride)
    if len(long) < 2:
        raise ValueError(
            f"split needs at least 2 paths longer than the stride, got {len(long)}: cut a long path into "
            "several and pass them as a list"
        )
    count = min(max(1, round(held_out * len(long))), len(long) - 1)
    order = long[torch.randperm(len(long), generator=generator(seed, "split")).numpy()]
    return np.sort(order[count:]), np.sort(order[:count])
