"""Recorded episodes with actions as a source: windows of successive observations and what was done between.

A window lies within one episode. Its k + 1 observations are the views of a batch, in the order of time; its k
actions are `batch.actions`, (batch, k, dim): action i leads from view i to view i + 1. Windows are drawn at
random with replacement, all alike. Observations stay where they are, memory-mapped or not.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts
from isojepa.worlds.trajectories import Trajectories, split_paths


class Windows:
    """Windows of recorded observations and actions.

    Args:
        observations: (steps, paths, ...), or (steps, dim) for one path, or a list of (steps_i, ...).
        actions: in the same form, of as many steps or one fewer: action t leaves step t, so the last one of a
            path leads nowhere, is not looked at and may be NaN.
        length: actions in a window, one fewer than its views.
        states: in the same form as the observations: what was true, where it is known.
        ordered: give the drawn windows path after path; see `in_order`.
        transform: applied to observations (batch, ...) as they are drawn; by default they become float32.
        held_out: windows of other episodes, which training never sees.
        bounds: (low, high) of the actions, (dim,) each, where they are known; of one-hot actions low is the
            number of the first.

    Raises:
        ValueError: there are no actions or none that varies, lengths differ, values are missing, or no path
            is long enough.

    Example:
        >>> from isojepa.seeds import generator
        >>> x, a = np.arange(60.0).reshape(20, 3, 1), np.arange(120.0).reshape(20, 3, 2)
        >>> batch = Windows(x, a, length=3).sample(5, generator(0, "data"))
        >>> len(batch.views), tuple(batch.actions.shape)
        (4, (5, 3, 2))
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        *,
        length: int = 1,
        states: Any = None,
        ordered: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
        held_out: "Windows | None" = None,
        bounds: tuple[Any, Any] | None = None,
    ) -> None:
        if actions is None:
            raise ValueError("actions must be recorded, got None: without them, use isojepa.worlds.Observed")
        self.observations = Trajectories.of("observations", observations)
        self.actions = Trajectories.of("actions", actions)
        self.states = None if states is None else Trajectories.of("states", states)
        self.length = check_count("length", length)
        self.ordered, self.transform = ordered, transform
        self.aside, self.bounds = held_out, bounds
        if self.observations.longest <= self.length:
            raise ValueError(
                f"length must be less than the {self.observations.longest} steps of the longest path, "
                f"got {length}"
            )
        if self.states is not None:
            self.states.check_lengths("states", self.observations)
        self._check_actions()
        self._ends = np.cumsum(np.maximum(self.observations.lengths - self.length, 0))
        shape = tuple(
            self._seen(np.array([int(self._ends.searchsorted(0, "right"))]), np.zeros(1, int)).shape
        )
        self.facts = Facts(
            dim=None if self.states is None else int(self.states.shape[0]),
            shapes=(shape[1:],) * (self.length + 1),
            ordered=True,
            actions=int(self.actions.shape[0]),
            described=True,
            holding=held_out is not None,
        )

    @property
    def paths(self) -> int:
        """Number of paths."""
        return len(self.observations.lengths)

    @property
    def windows(self) -> int:
        """Number of different windows."""
        return int(self._ends[-1])

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n windows; their ids are the numbers of their paths."""
        index = torch.randint(self.windows, (check_count("the number of samples", n),), generator=generator)
        chosen = (index.sort().values if self.ordered else index).numpy()
        path = np.searchsorted(self._ends, chosen, side="right")
        first = chosen - np.concatenate(([0], self._ends))[path]
        steps = [first + k for k in range(self.length + 1)]
        taken = np.stack([self.actions.gather(path, step) for step in steps[:-1]], axis=1)
        z = None
        if self.states is not None:
            z = tuple(_floats(self.states.gather(path, step)) for step in steps)
        views = tuple(self._seen(path, step) for step in steps)
        return Batch(views, z=z, actions=_floats(taken), ids=torch.from_numpy(path))

    def held_out(self) -> "Windows":
        """Windows of the episodes that training never sees; these where none are held out."""
        return self if self.aside is None else self.aside

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """One of each episode, see `episode_hashes`."""
        return tuple(episode_hashes(self.observations, self.actions))

    def describe(self) -> dict[str, Any]:
        """What a run directory keeps of the data: the hashes of the episodes."""
        return {"kind": "episodes", "episodes": list(self.hashes)}

    def with_length(self, length: int) -> "Windows":
        """The same recording in windows of another length."""
        return self._copy(np.arange(self.paths), self.ordered, length)

    def in_order(self) -> "Windows":
        """The same recording, whose windows come path after path."""
        return self._copy(np.arange(self.paths), ordered=True)

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Windows", "Windows"]:
        """Split by path into what is trained on and what is held out.

        Args:
            held_out: share of the paths, in (0, 1).
            seed: shuffles the paths.
        """
        train, other = split_paths(self.observations.lengths, self.length, held_out, seed)
        return self._copy(train, self.ordered), self._copy(other, self.ordered)

    def _copy(self, paths: np.ndarray, ordered: bool, length: int = 0) -> "Windows":
        aside = self.aside if self.aside is None or not length else self.aside.with_length(length)
        return Windows(
            self.observations.subset(paths),
            self.actions.subset(paths),
            length=length or self.length,
            states=None if self.states is None else self.states.subset(paths),
            ordered=ordered,
            transform=self.transform,
            held_out=aside,
            bounds=self.bounds,
        )

    def _seen(self, path: np.ndarray, step: np.ndarray) -> Tensor:
        x = torch.from_numpy(np.ascontiguousarray(self.observations.gather(path, step)))
        x = x.float() if self.transform is None else self.transform(x)
        if not torch.isfinite(x).all():
            raise ValueError("observations must be finite, got NaN or Inf among those drawn")
        return x

    def _check_actions(self) -> None:
        """Say which actions are missing, wherever a step follows, or that none of them varies."""
        if len(self.actions.shape) != 1:
            raise ValueError(f"actions must be vectors, got shape {self.actions.shape} at each step")
        lengths, done = self.observations.lengths, self.actions.lengths
        if len(lengths) != len(done):
            raise ValueError(
                f"actions must have as many paths as observations, {len(lengths)}, got {len(done)}"
            )
        off = np.flatnonzero((done != lengths) & (done != lengths - 1))
        if len(off):
            raise ValueError(
                f"actions must have as many steps as observations or one fewer, {lengths[off[0]]} in path "
                f"{off[0]}, got {done[off[0]]}"
            )
        low, high = np.full(self.actions.shape, np.inf), np.full(self.actions.shape, -np.inf)
        for path, length in enumerate(lengths):
            taken = self.actions.gather(np.full(length - 1, path), np.arange(length - 1))
            if not np.isfinite(taken).all():
                step, column = np.argwhere(~np.isfinite(taken))[0]
                raise ValueError(
                    f"actions must be finite wherever a step follows, got NaN or Inf in column {column} at "
                    f"path {path}, step {step}: cut the path there"
                )
            low, high = (
                np.minimum(low, taken.min(0, initial=np.inf)),
                np.maximum(high, taken.max(0, initial=-np.inf)),
            )
        if not (high > low).any():
            raise ValueError("actions must vary in a column at least, got the same action at every step")


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values)).float()


def episode_hashes(observations: Trajectories, actions: Trajectories) -> Iterable[str]:
    """A hash of each episode: its observations and the actions between them, 16 hex digits.

    Two copies of an episode have one hash, also if one of them was stored in float64.
    """
    for path, length in enumerate(observations.lengths):
        digest = hashlib.blake2b(digest_size=8)
        for values, rows in ((observations, length), (actions, length - 1)):
            part = values.gather(np.full(rows, path), np.arange(rows))
            part = part.astype(np.float32) if part.dtype.kind == "f" else part
            digest.update(np.ascontiguousarray(part).tobytes())
        yield digest.hexdigest()
