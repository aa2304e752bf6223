"""Recorded trajectories as a world: pairs (z_t, z_{t + stride}) of paths that somebody has.

A pair lies within one path, never across two. Pairs are drawn at random with replacement, all alike or with
a weight each. With a probability `swap` its two ends change places; at 1/2 the law of pairs is symmetric in
time and hence stationary whatever the recording was. LeJEPA's alignment does not see the difference.

States and observations stay where they are, memory-mapped or not; only what is drawn is read, and the
states once to find their mean and spread and that they are finite. Standardised states are z = (state -
mean) / std.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import as_float, checked
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts, Source
from isojepa.worlds.trajectories import Trajectories, split_paths
from isojepa.worlds.world import World

Arrays = np.ndarray | Tensor | Sequence[np.ndarray] | Sequence[Tensor] | Trajectories
_CHUNK = 1 << 16  # pairs that are read at once
_ENOUGH = 1_000_000  # unweighted pairs that a correlation is measured on


@dataclass(frozen=True)
class Standardiser:
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
        """The states (..., dim) of standardised ones."""
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
        standardise: give every coordinate mean 0 and variance 1; or the standardiser of other data.
        ordered: give the drawn pairs path after path, in the order of time; see `in_order`.
        transform: applied to observations (batch, ...) as they are drawn, e.g. to scale pixels; by default
            they become float32.

    Raises:
        ValueError: shapes do not match, states are not finite or constant, or no path is long enough.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.worlds.goals import GoalReaching
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
        standardise: bool | Standardiser = True,
        ordered: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if states is None:
            raise ValueError(
                "states must be recorded, got None: of observations alone, use "
                "isojepa.worlds.Observed(observations)"
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
        self.standardiser = _standardiser(self.states, standardise)
        self._refit = standardise is True  # a part of these paths then has a standardiser of its own
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
        if self.weights is None and self.pairs > _ENOUGH:
            index = np.linspace(0, self.pairs - 1, _ENOUGH).astype(np.int64)
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
        """Both ends of pairs by number, standardised: each (n, dim), float64."""
        path, step = self.locate(index)
        first, second = self.states.gather(path, step), self.states.gather(path, step + self.stride)
        return self.standardiser.apply(first), self.standardiser.apply(second)

    def chunks(self, index: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Both ends and the weight of all pairs, or of the numbered ones, a part at a time."""
        count = self.pairs if index is None else len(index)
        for start in range(0, count, _CHUNK):
            stop = min(start + _CHUNK, count)
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
        """Draw n pairs of standardised states, each (n, dim), float32."""
        path, first, second = self.draw(n, generator)
        return self.latents(path, first), self.latents(path, second)

    def latents(self, path: np.ndarray, step: np.ndarray) -> Tensor:
        """Standardised states at steps of paths: (n, dim), float32."""
        return torch.from_numpy(self.standardiser.apply(self.states.gather(path, step))).float()

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

    def standardised(self, standardiser: Standardiser) -> "Recorded":
        """The same trajectories in the units of other data."""
        return self._copy(standardise=standardiser)

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Recorded", "Recorded"]:
        """Split by path into what is trained on and what is held out, standardised alike.

        The standardiser is that of the first part, so that nothing of the second is known in training.

        Args:
            held_out: share of the paths, in (0, 1).
            seed: shuffles the paths.
        """
        kept, other = split_paths(self.states.lengths, self.stride, held_out, seed)
        train = self._subset(kept, True if self._refit else self.standardiser)
        return train, self._subset(other, train.standardiser)

    def _subset(self, paths: np.ndarray, standardise: bool | Standardiser) -> "Recorded":
        weights = None
        if self.weights is not None:
            starts = np.concatenate(([0], self._ends))
            weights = np.concatenate([self.weights[starts[p] : starts[p + 1]] for p in paths])
        seen = None if self.observations is None else self.observations.subset(paths)
        return self._copy(
            states=self.states.subset(paths), observations=seen, weights=weights, standardise=standardise
        )

    def _copy(self, **changes: Any) -> "Recorded":
        given: dict[str, Any] = {
            "states": self.states,
            "observations": self.observations,
            "stride": self.stride,
            "weights": self.weights,
            "swap": self.swap,
            "standardise": self.standardiser,
            "ordered": self.ordered,
            "transform": self.transform,
        }
        other = Recorded(**(given | changes))
        other._refit = self._refit
        return other

    @cached_property
    def _last(self) -> int:
        """The last pair of positive weight."""
        return self.pairs - 1 if self.weights is None else int(np.flatnonzero(self.weights)[-1])

    def __repr__(self) -> str:
        drawn = "alike" if self.weights is None else "weighted"
        return (
            f"Recorded(paths={self.paths}, steps={int(self.states.lengths.sum())}, dim={self.dim}, "
            f"stride={self.stride}, pairs={drawn}, swap={self.swap:g})"
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

    @checked
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


def _standardiser(states: Trajectories, standardise: bool | Standardiser) -> Standardiser:
    if isinstance(standardise, Standardiser):
        if standardise.mean.shape != states.shape or standardise.std.shape != states.shape:
            raise ValueError(
                f"standardise must be of {states.shape[0]} coordinates, got {standardise.mean.shape}"
            )
        states.check_finite()
        return standardise
    mean, std = states.moments()
    if not standardise:
        return Standardiser(np.zeros_like(mean), np.ones_like(std))
    flat = np.flatnonzero(std <= 1e-9 * (np.abs(mean) + std))
    if len(flat):
        raise ValueError(
            f"states must vary in every dimension, got a constant dimension {flat[0]}: leave it out"
        )
    return Standardiser(mean, std)
