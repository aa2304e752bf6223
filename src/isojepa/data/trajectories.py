"""Recorded trajectories of states or observations as sources of pairs.

Arrays along several paths: one array (steps, paths, ...), or a list of (steps_i, ...) of unequal lengths.

Both are read the same way, by path and step, and neither is copied when it is memory-mapped. A list that
lies in memory is joined into one array, so that a batch is one look-up and not one per path.

Recorded trajectories as a world: pairs (z_t, z_{t + stride}) within each path.

A pair lies within one path, never across two. Pairs are drawn at random with replacement, all alike or with
a weight each. With a probability `swap` its two ends change places; at 1/2 the law of pairs is symmetric in
time and hence stationary whatever the recording was. LeJEPA's alignment does not see the difference.

States and observations stay where they are, memory-mapped or not; only what is drawn is read, and the
states once to find their mean and spread and that they are finite. Standardised states are z = (state -
mean) / std.

Recorded observations with unknown states: pairs (x_t, x_{t + stride}) within each path.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.source import Facts, Source
from isojepa.data.world import World
from isojepa.seeds import generator
from isojepa.validation import as_float, validate_types

_CHUNK = 1 << 20  # numbers that are read at once
_MAX_VALUE = 1e100  # squares of larger numbers leave float64


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
        """Mean and standard deviation per coordinate over all steps and paths, (dim,) float64.

        Raises:
            ValueError: a value is NaN or Inf, or too large to be squared.
        """
        count, mean, scatter = 0, np.zeros(self.shape), np.zeros(self.shape)
        for part in self._parts():
            if not np.isfinite(part).all():
                raise ValueError("states must be finite, got NaN or Inf")
            if np.abs(part).max(initial=0.0) > _MAX_VALUE:
                raise ValueError(f"states must be below 1e100 in size, got {np.abs(part).max():.3g}")
            part_mean = part.mean(0)
            part_scatter = ((part - part_mean) ** 2).sum(0)
            total = count + len(part)
            # joining two samples' moments (Chan et al. 1983) keeps the digits that sums of squares lose
            scatter += part_scatter + (part_mean - mean) ** 2 * count * len(part) / total
            mean += (part_mean - mean) * len(part) / total
            count = total
        self._finite = True
        return mean, np.sqrt(scatter / count)

    def check_finite(self) -> None:
        """Check that all values are finite; reads everything at most once."""
        if not self._finite:
            self.moments()

    def check_lengths(self, name: str, other: "Trajectories") -> None:
        """Raise if these trajectories differ in length from those of the states."""
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
            values = self._list[path] if self._flat is None else self._flat[start : start + length]
            if length:
                yield np.asarray(values, dtype=np.float64)


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


Arrays = np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor] | Trajectories
_RECORDED_CHUNK = 1 << 16  # pairs that are read at once
_MAX_PAIRS = 1_000_000  # unweighted pairs that a correlation is measured on


@dataclass(frozen=True)
class Standardizer:
    """z = (state - mean) / std for each coordinate, and back.

    Attributes:
        mean, std: (dim,), float64.
    """

    mean: np.ndarray
    std: np.ndarray

    def apply(self, states: np.ndarray) -> np.ndarray:
        """Standardise states (..., dim)."""
        return np.asarray((np.asarray(states, dtype=np.float64) - self.mean) / self.std)

    def restore(self, z: np.ndarray) -> np.ndarray:
        """The states (..., dim) of standardized ones."""
        return np.asarray(np.asarray(z, dtype=np.float64) * self.std + self.mean)


class Recorded:
    """Pairs from recorded trajectories: a process whose latents are the recorded states.

    Args:
        states: (steps, paths, dim), or (steps, dim) for one path, or a list of (steps_i, dim).
        observations: what was seen at each state: (steps, paths, ...) or a list of (steps_i, ...).
        stride: steps between the two ends of a pair; one number for all coordinates.
        weights: (pairs,) how often each pair is drawn, relative to the others; the pairs of the first path
            come first, in the order of time (see `locate`).
        swap: probability in [0, 1/2] that the two ends of a pair change places.
        standardize: give every coordinate mean 0 and variance 1; or the standardizer of other data.
        ordered: give the drawn pairs path after path, in the order of time; see `in_order`.
        transform: applied to observations (batch, ...) as they are drawn, e.g. to scale pixels; by default
            they become float32.

    Raises:
        ValueError: shapes do not match, states are not finite or constant, or no path is long enough.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data.processes import GoalReaching
        >>> paths = GoalReaching().trajectory(50, 40, generator(0, "data"))
        >>> z, z_next = Recorded(paths, stride=8).sample(16, generator(1, "data"))
        >>> z.shape
        torch.Size([16, 2])
    """

    def __init__(
        self,
        states: Arrays,
        observations: Arrays | None = None,
        *,
        stride: int = 1,
        weights: np.ndarray | Tensor | None = None,
        swap: float = 0.0,
        standardize: bool | Standardizer = True,
        ordered: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if states is None:
            raise ValueError(
                "states must be recorded, got None: of observations alone, use "
                "isojepa.data.Observed(observations)"
            )
        self.states = Trajectories.of("states", states)
        if len(self.states.shape) != 1:
            raise ValueError(f"states must be vectors, got shape {self.states.shape} at each step")
        self.observations = None if observations is None else Trajectories.of("observations", observations)
        if self.observations is not None:
            self.observations.check_lengths("observations", self.states)
        self.stride = check_stride(stride, self.states.longest)
        if not 0 <= swap <= 0.5:
            raise ValueError(f"swap must lie in [0, 1/2], got {swap}")
        self.swap, self.transform, self.ordered = float(swap), transform, ordered
        counts = np.maximum(self.states.lengths - self.stride, 0)
        self._ends = np.cumsum(counts)
        self.standardizer = _standardizer(self.states, standardize)
        self._refit = standardize is True  # a part of these paths then has a standardizer of its own
        self.weights = None if weights is None else _check_weights(weights, self.pairs)
        self._cumulative = None if self.weights is None else torch.from_numpy(np.cumsum(self.weights))

    @property
    def dim(self) -> int:
        """Number of state coordinates."""
        return int(self.states.shape[0])

    @property
    def paths(self) -> int:
        """Number of paths."""
        return len(self.states.lengths)

    @property
    def pairs(self) -> int:
        """Number of different pairs."""
        return int(self._ends[-1])

    @property
    def gaussian(self) -> bool:
        """False: recorded states are never exactly N(0, I)."""
        return False

    @cached_property
    def correlation(self) -> float | tuple[float, ...]:
        """Correlation of each coordinate across a pair, as measured; on a million pairs if there are more."""
        total, products = 0.0, np.zeros((5, self.dim))
        index = None
        if self.weights is None and self.pairs > _MAX_PAIRS:
            index = np.linspace(0, self.pairs - 1, _MAX_PAIRS).astype(np.int64)
        for z, z_next, weight in self.chunks(index):
            terms = np.stack((z, z_next, z**2, z_next**2, z * z_next))
            products += np.einsum("n,knd->kd", weight, terms)
            total += weight.sum()
        first, second, square, square_next, cross = products / total
        spread = np.sqrt((square - first**2) * (square_next - second**2))
        values = tuple(((cross - first * second) / np.where(spread > 0, spread, np.nan)).tolist())
        return values[0] if self.dim == 1 else values

    def locate(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The path and the first step of pairs by their number in [0, pairs)."""
        path = np.searchsorted(self._ends, index, side="right")
        before = np.concatenate(([0], self._ends))[path]
        return path, index - before

    def states_at(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of pairs by number, standardized: each (n, dim), float64."""
        path, step = self.locate(index)
        first, second = self.states.gather(path, step), self.states.gather(path, step + self.stride)
        return self.standardizer.apply(first), self.standardizer.apply(second)

    def chunks(self, index: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Both ends and the weight of all pairs, or of the numbered ones, a part at a time."""
        count = self.pairs if index is None else len(index)
        for start in range(0, count, _RECORDED_CHUNK):
            stop = min(start + _RECORDED_CHUNK, count)
            part = np.arange(start, stop) if index is None else index[start:stop]
            weight = np.ones(len(part)) if self.weights is None else self.weights[part]
            yield (*self.states_at(part), weight)

    def draw(self, n: int, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw n pairs: their paths, and the steps of their first and second view."""
        if int(n) != n or n < 1:
            raise ValueError(f"the number of samples must be a positive integer, got {n}")
        if self._cumulative is None:
            index = torch.randint(self.pairs, (int(n),), generator=generator)
        else:
            place = torch.rand(int(n), generator=generator, dtype=torch.float64) * self._cumulative[-1]
            # right: a pair of weight 0 is never drawn; the product may round up to the very end
            index = torch.searchsorted(self._cumulative, place, right=True)
            index = index.clamp_max(self._last)
        path, first = self.locate((index.sort().values if self.ordered else index).numpy())
        second = first + self.stride
        if self.swap > 0:
            turned = (torch.rand(int(n), generator=generator) < self.swap).numpy()
            first, second = np.where(turned, second, first), np.where(turned, first, second)
        return path, first, second

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs of standardized states, each (n, dim), float32."""
        path, first, second = self.draw(n, generator)
        return self.latents(path, first), self.latents(path, second)

    def latents(self, path: np.ndarray, step: np.ndarray) -> Tensor:
        """Standardised states at steps of paths: (n, dim), float32."""
        return torch.from_numpy(self.standardizer.apply(self.states.gather(path, step))).float()

    def observed(self, path: np.ndarray, step: np.ndarray) -> Tensor:
        """Observations at steps of paths: (n, ...)."""
        if self.observations is None:
            raise ValueError("observations must be given to Recorded to be drawn, got none")
        x = torch.from_numpy(np.ascontiguousarray(self.observations.gather(path, step)))
        x = x.float() if self.transform is None else self.transform(x)
        if not torch.isfinite(x).all():
            raise ValueError("observations must be finite, got NaN or Inf among those drawn")
        return x

    def world(self, mixing: Callable[[Tensor], Tensor] | None = None) -> Source:
        """What `fit` and `certify` take: the recorded observations, or the states through a mixing."""
        if mixing is not None or self.observations is None:
            return World(self, mixing)
        return RecordedWorld(self)

    def reweighted(self, weights: np.ndarray | Tensor | None, swap: float | None = None) -> "Recorded":
        """The same trajectories with other weights."""
        return self._copy(weights=weights, swap=self.swap if swap is None else swap)

    def in_order(self) -> "Recorded":
        """The same pairs drawn path after path: blocks of rows are then pieces of paths.

        A certificate asks for it: it fits on some paths and scores on others, and its intervals compare
        blocks, which shows how much the paths differ.
        """
        return self._copy(ordered=True)

    def strided(self, stride: int) -> "Recorded":
        """The same trajectories with another stride; weights belong to pairs and are dropped."""
        return self if stride == self.stride else self._copy(stride=stride, weights=None)

    def standardized(self, standardizer: Standardizer) -> "Recorded":
        """The same trajectories in the units of other data."""
        return self._copy(standardize=standardizer)

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Recorded", "Recorded"]:
        """Split by path into what is trained on and what is held out, standardized alike.

        The standardizer is that of the first part, so that training uses nothing of the second.

        Args:
            held_out: share of the paths, in (0, 1).
            seed: shuffles the paths.
        """
        first, other = split_paths(self.states.lengths, self.stride, held_out, seed)
        train = self._subset(first, True if self._refit else self.standardizer)
        return train, self._subset(other, train.standardizer)

    def _subset(self, paths: np.ndarray, standardize: bool | Standardizer) -> "Recorded":
        weights = None
        if self.weights is not None:
            starts = np.concatenate(([0], self._ends))
            weights = np.concatenate([self.weights[starts[p] : starts[p + 1]] for p in paths])
        observations = None if self.observations is None else self.observations.subset(paths)
        return self._copy(
            states=self.states.subset(paths),
            observations=observations,
            weights=weights,
            standardize=standardize,
        )

    def _copy(self, **changes: Any) -> "Recorded":
        arguments: dict[str, Any] = {
            "states": self.states,
            "observations": self.observations,
            "stride": self.stride,
            "weights": self.weights,
            "swap": self.swap,
            "standardize": self.standardizer,
            "ordered": self.ordered,
            "transform": self.transform,
        }
        other = Recorded(**(arguments | changes))
        other._refit = self._refit
        return other

    @cached_property
    def _last(self) -> int:
        """The last pair of positive weight."""
        return self.pairs - 1 if self.weights is None else int(np.flatnonzero(self.weights)[-1])

    def __repr__(self) -> str:
        weighting = "alike" if self.weights is None else "weighted"
        return (
            f"Recorded(paths={self.paths}, steps={int(self.states.lengths.sum())}, dim={self.dim}, "
            f"stride={self.stride}, pairs={weighting}, swap={self.swap:g})"
        )


class RecordedWorld:
    """Recorded states with the observations that were recorded beside them.

    It cannot be observed at other states than the recorded ones.

    Args:
        recorded: trajectories with observations.

    Example:
        >>> states = np.random.default_rng(0).normal(size=(30, 4, 2))
        >>> world = RecordedWorld(Recorded(states, observations=np.tanh(states)))
        >>> world.facts.shapes
        ((2,), (2,))
    """

    @validate_types
    def __init__(self, recorded: Recorded) -> None:
        if recorded.observations is None:
            raise ValueError("recorded must carry observations, got states only: use World with a mixing")
        self.recorded = recorded
        first = recorded.locate(np.zeros(1, dtype=np.int64))
        self._shape = tuple(recorded.observed(*first).shape[1:]) or (1,)

    @cached_property
    def facts(self) -> Facts:
        """What is known of the recording."""
        return Facts(
            dim=self.recorded.dim,
            correlation=self.recorded.correlation,
            gaussian=self.recorded.gaussian,
            shapes=(self._shape, self._shape),
            ordered=True,
        )

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n pairs."""
        path, first, second = self.recorded.draw(n, generator)
        ends = ((path, first), (path, second))
        return Batch(
            tuple(self.recorded.observed(*end) for end in ends),
            z=tuple(self.recorded.latents(*end) for end in ends),
            ids=torch.from_numpy(path),
        )

    def in_order(self) -> "RecordedWorld":
        """The same recording, whose pairs come path after path."""
        return RecordedWorld(self.recorded.in_order())

    def __repr__(self) -> str:
        return f"RecordedWorld({self.recorded!r})"


def check_stride(stride: int, longest: int) -> int:
    """Return the steps between the ends of a pair, or say what is wrong with them."""
    if np.ndim(stride) != 0:
        raise ValueError(
            "stride must be one number: both ends of a pair are whole states, so coordinates cannot have "
            f"strides of their own, got {stride}"
        )
    number = as_float(stride)
    if number is None or not number.is_integer() or number < 1:
        raise ValueError(f"stride must be a positive integer, got {stride}")
    if stride >= longest:
        raise ValueError(f"stride must be below the {longest} steps of the longest path, got {stride}")
    return int(stride)


def _check_weights(weights: np.ndarray | Tensor, pairs: int) -> np.ndarray:
    values = np.array(weights, dtype=np.float64)
    if values.shape != (pairs,):
        raise ValueError(f"weights must be one per pair, ({pairs},), got shape {values.shape}")
    if not np.isfinite(values).all() or values.min() < 0 or values.sum() <= 0:
        raise ValueError(
            f"weights must be finite, not negative and not all 0, got {values.min()} to {values.max()}"
        )
    return np.asarray(values / values.sum())


def _standardizer(states: Trajectories, standardize: bool | Standardizer) -> Standardizer:
    if isinstance(standardize, Standardizer):
        if standardize.mean.shape != states.shape or standardize.std.shape != states.shape:
            raise ValueError(
                f"standardize must be of {states.shape[0]} coordinates, got {standardize.mean.shape}"
            )
        states.check_finite()
        return standardize
    mean, std = states.moments()
    if not standardize:
        return Standardizer(np.zeros_like(mean), np.ones_like(std))
    flat = np.flatnonzero(std <= 1e-9 * (np.abs(mean) + std))
    if len(flat):
        raise ValueError(
            f"states must vary in every dimension, got a constant dimension {flat[0]}: leave it out"
        )
    return Standardizer(mean, std)


class Observed:
    """Recorded observations as a source: it trains, and is certified, without latents.

    Observations stay where they are, memory-mapped or not; only what is drawn is read.

    Args:
        observations: (steps, paths, ...), or (steps, dim) for one path, or a list of (steps_i, ...).
        stride: steps between the two views of a pair.
        swap: probability in [0, 1/2] that the two views change places, see `Recorded`.
        ordered: give the drawn pairs path after path; see `in_order`.
        transform: applied to observations (batch, ...) as they are drawn; by default they become float32.

    Raises:
        ValueError: shapes do not match, or no path is long enough.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(30, 4, 3))
        >>> Observed(x, stride=2).facts.shapes
        ((3,), (3,))
    """

    def __init__(
        self,
        observations: Any,
        *,
        stride: int = 1,
        swap: float = 0.0,
        ordered: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.observations = Trajectories.of("observations", observations)
        self.stride = check_stride(stride, self.observations.longest)
        # the steps' numbers stand for states: pairs, weights and order are found as for those
        places = [np.zeros((length, 1)) for length in self.observations.lengths]
        self._pairs = Recorded(
            places,
            self.observations,
            stride=stride,
            swap=swap,
            standardize=False,
            ordered=ordered,
            transform=transform,
        )
        self.swap, self.ordered, self.transform = swap, ordered, transform
        shape = tuple(self._pairs.observed(*self._pairs.locate(np.zeros(1, dtype=np.int64))).shape[1:])
        self.facts = Facts(shapes=(shape, shape), ordered=True)

    @property
    def paths(self) -> int:
        """Number of paths."""
        return self._pairs.paths

    @property
    def pairs(self) -> int:
        """Number of different pairs."""
        return self._pairs.pairs

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n pairs."""
        path, first, second = self._pairs.draw(n, generator)
        views = tuple(self._pairs.observed(path, step) for step in (first, second))
        return Batch(views, ids=torch.from_numpy(path))

    def in_order(self) -> "Observed":
        """The same recording, whose pairs come path after path: a block of rows is then a piece of time."""
        return self._copy(self.observations, ordered=True)

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Observed", "Observed"]:
        """Split by path into what is trained on and what is held out.

        Args:
            held_out: share of the paths, in (0, 1).
            seed: shuffles the paths.
        """
        parts = split_paths(self.observations.lengths, self.stride, held_out, seed)
        train, other = map(self.observations.subset, parts)
        return self._copy(train, self.ordered), self._copy(other, self.ordered)

    def _copy(self, observations: Trajectories, ordered: bool) -> "Observed":
        return Observed(
            observations, stride=self.stride, swap=self.swap, ordered=ordered, transform=self.transform
        )

    def __repr__(self) -> str:
        steps = int(self.observations.lengths.sum())
        return f"Observed(paths={self.paths}, steps={steps}, stride={self.stride}, swap={self.swap:g})"
