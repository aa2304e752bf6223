"""Which states a step sees, and which of them a rank.

Step s of a run sees batch_at(s) states on all ranks together; a rank takes its share of them, in the order
of ranks. An endless source is drawn whole on every rank from the stream ("data", s) of the seed, and cut. A
finite set is gone through in epochs: the order of epoch e comes from the stream ("order", e), what is
random in the views of a state from a stream of its own, so a rank loads only its share. Nothing depends on
the number of ranks or loading processes.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from isojepa.seeds import generator
from isojepa.training.recipe import Recipe
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Finite, Source, Streams, finite


def share(size: int, rank: int, ranks: int) -> slice:
    """The rows of one rank among `size`: shares differ by one at most, the first are the larger.

    Example:
        >>> [share(8, rank, 3) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
    """
    base, more = divmod(size, ranks)
    start = rank * base + min(rank, more)
    return slice(start, start + base + (rank < more))


class Shares:
    """The batches of one rank, step after step.

    Args:
        source: where states come from.
        recipe: how many at each step.
        seed: of the run.
        rank, ranks: which of how many.
        pin: whether to load into pinned memory, from which a device copies by itself.
    """

    def __init__(
        self, source: Source, recipe: Recipe, seed: int, rank: int = 0, ranks: int = 1, pin: bool = False
    ) -> None:
        if recipe.batch_at(0) < 2 * ranks and ranks > 1:
            raise ValueError(
                f"the first batch must have 2 states at least for each of {ranks} ranks, "
                f"got {recipe.batch_at(0)}"
            )
        self.source, self.recipe, self.seed = source, recipe, seed
        self.rank, self.ranks, self.pin = rank, ranks, pin
        self._fixed = None
        if recipe.pairs is not None:
            self._fixed = source.sample(recipe.pairs, generator(seed, "training-set"))

    def from_step(self, start: int) -> Iterator[Batch]:
        """The batches from a step on."""
        if self._fixed is None and finite(self.source):
            yield from self._loaded(_Epochs(self.source, self), start)
            return
        for step in range(start, self.recipe.steps):
            yield self._drawn(step)

    def _drawn(self, step: int) -> Batch:
        size, source = self.recipe.batch_at(step), generator(self.seed, "data", step)
        if self._fixed is None:
            batch = self.source.sample(size, source)
            return batch if self.ranks == 1 else batch.rows(share(size, self.rank, self.ranks))
        chosen = torch.randperm(len(self._fixed), generator=source)[:size]  # no pair twice in a batch
        return self._fixed.rows(chosen[share(len(chosen), self.rank, self.ranks)])

    def _loaded(self, epochs: "_Epochs", start: int) -> Iterator[Batch]:
        steps = range(start, self.recipe.steps)
        workers = self.recipe.workers
        loader: DataLoader[Batch] = DataLoader(
            epochs,
            batch_size=None,
            sampler=steps,
            num_workers=workers,
            collate_fn=_same,
            pin_memory=self.pin,
            generator=generator(self.seed, "loader"),  # or it would draw from the global one
        )
        yield from loader


class _Epochs(Dataset[Batch]):
    """A rank's share of a finite set at each step."""

    def __init__(self, source: Finite, shares: Shares) -> None:
        size = source.facts.size
        if not size:
            raise ValueError(f"a finite source must have states, got {size}")
        self.source, self.size, self.seed = source, size, shares.seed
        self.rank, self.ranks = shares.rank, shares.ranks
        sizes = [shares.recipe.batch_at(step) for step in range(shares.recipe.steps)]
        self.ends = list(accumulate(sizes))  # places in the endless row of epochs
        self.sizes = sizes

    def __getitem__(self, step: int) -> Batch:
        mine = share(self.sizes[step], self.rank, self.ranks)
        start = self.ends[step] - self.sizes[step]
        places = torch.arange(start + mine.start, start + mine.stop)
        epochs = places // self.size
        ids = torch.cat(
            [
                _order(self.seed, int(epoch), self.size)[places[epochs == epoch] % self.size]
                for epoch in epochs.unique()
            ]
        )
        return self.source.take(ids, Streams(self.seed, epochs, ids))


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, size: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "order", epoch))


def _same(batch: Any) -> Any:
    return batch
