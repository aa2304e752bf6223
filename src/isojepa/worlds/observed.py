"""Recorded observations of which nobody knows the states: pairs (x_t, x_{t + stride}) within each path."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.worlds.batch import Batch
from isojepa.worlds.recorded import Recorded, check_stride
from isojepa.worlds.source import Facts
from isojepa.worlds.trajectories import Trajectories, split_paths


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
            standardise=False,
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
