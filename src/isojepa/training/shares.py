"""Which states a step sees, and which of them a rank.

Step s of a run sees batch_at(s) states on all ranks together. They are cut into the parts that gradients
accumulate over, and of each part a rank takes its share, in the order of ranks: the parts are the same on any
number of ranks. An endless source is drawn whole on every rank from the stream ("data", s) of the seed, and
cut. A finite set is gone through in epochs: the order of epoch e comes from the stream ("order", e), what is
random in the views of a state from a stream of its own, so a rank loads only its share. Nothing depends on
the number of ranks or loading processes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from isojepa.seeds import generator
from isojepa.training.recipe import Recipe
from isojepa.training.team import BROKEN, FINE, Team
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Finite, Pending, Source, Streams, deferring, finite


def share(size: int, rank: int, ranks: int) -> slice:
    """The rows of one rank among `size`: shares differ by one at most, the first are the larger.

    Example:
        >>> [share(8, rank, 3) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
    """
    base, more = divmod(size, ranks)
    start = rank * base + min(rank, more)
    return slice(start, start + base + (rank < more))


def check_alike(team: Team, source: Source, tried: Batch) -> None:
    """See that all ranks have the same source, by its facts and by states that all of them drew alike.

    Raises:
        ValueError: on every rank, if one has another.
    """
    if team.size == 1:
        return
    facts = (source.facts.size, source.facts.classes, [tuple(view.shape) for view in tried.views])
    rows = torch.stack([view.double().flatten(1).mean(1) for view in tried.views])
    first_facts, first_rows = team.by_first(lambda: (facts, rows))
    # machines may differ in the last bits of what they draw
    alike = facts == first_facts and torch.allclose(rows, first_rows, rtol=1e-4, atol=1e-5, equal_nan=True)
    if team.gravest(FINE if alike else BROKEN) == BROKEN:
        raise ValueError(
            "all ranks must see the same data, but what one of them drew differs from the first's: see that "
            f"files are the same on every machine (rank {team.rank} has {source.facts.size or 'endless'} "
            "states)"
        )


def shares(size: int, rank: int, ranks: int, parts: int = 1) -> list[slice]:
    """The rows of one rank in each of the parts, one after the other, of a batch.

    Example:
        >>> shares(8, 1, 2, parts=2)
        [slice(2, 4, None), slice(6, 8, None)]
    """
    ends = [round(part * size / parts) for part in range(parts + 1)]
    found = []
    for start, end in pairwise(ends):
        mine = share(end - start, rank, ranks)
        found.append(slice(start + mine.start, start + mine.stop))
    return found


class Shares:
    """The batches of one rank, step after step, each in the parts that gradients accumulate over.

    Args:
        source: where states come from.
        recipe: how many at each step.
        seed: of the run.
        rank, ranks: which of how many.
        pin: whether to load into pinned memory, from which a device copies by itself.
        defer: whether views are made by the device that uses them, where the source can leave that to it.
    """

    def __init__(
        self,
        source: Source,
        recipe: Recipe,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        pin: bool = False,
        defer: bool = False,
    ) -> None:
        smallest = min(recipe.batch_at(0), recipe.pairs or recipe.batch)
        parts = recipe.accumulate
        if smallest < 2 * parts:
            raise ValueError(
                f"accumulate must leave 2 states at least in each part of {smallest}, got {parts}"
            )
        if smallest < 2 * parts * ranks:
            cut = f" in each of {parts} parts" if parts > 1 else ""
            raise ValueError(
                f"the first batch must have 2 states at least for each of {ranks} ranks{cut}, got {smallest}"
            )
        self.source, self.recipe, self.seed = source, recipe, seed
        self.rank, self.ranks, self.pin, self.defer = rank, ranks, pin, defer
        self._fixed = None
        if recipe.pairs is not None:
            self._fixed = source.sample(recipe.pairs, generator(seed, "training-set"))

    def from_step(self, start: int) -> Iterator[Sequence[Pending]]:
        """The batches from a step on."""
        if self._fixed is None and finite(self.source):
            yield from self._loaded(_Epochs(self.source, self), start)
            return
        for step in range(start, self.recipe.steps):
            yield self._drawn(step)

    def _drawn(self, step: int) -> list[Batch]:
        size, source = self.recipe.batch_at(step), generator(self.seed, "data", step)
        if self._fixed is None:
            batch = self.source.sample(size, source)
            if self.ranks == self.recipe.accumulate == 1:
                return [batch]
            return [batch.rows(rows) for rows in self.rows(size)]
        chosen = torch.randperm(len(self._fixed), generator=source)[:size]  # no pair twice in a batch
        return [self._fixed.rows(chosen[rows]) for rows in self.rows(len(chosen))]

    def rows(self, size: int) -> list[slice]:
        """This rank's rows in each part of a batch."""
        return shares(size, self.rank, self.ranks, self.recipe.accumulate)

    def _loaded(self, epochs: "_Epochs", start: int) -> Iterator[list[Pending]]:
        steps = range(start, self.recipe.steps)
        workers = self.recipe.workers
        loader: DataLoader[list[Pending]] = DataLoader(
            epochs,
            batch_size=None,
            sampler=steps,
            num_workers=workers,
            collate_fn=_same,
            pin_memory=self.pin,
            generator=generator(self.seed, "loader"),  # or it would draw from the global one
        )
        yield from loader


class _Epochs(Dataset[list[Pending]]):
    """A rank's share of a finite set at each step."""

    def __init__(self, source: Finite, shares: Shares) -> None:
        size = source.facts.size
        if not size:
            raise ValueError(f"a finite source must have states, got {size}")
        self.source, self.size, self.seed = source, size, shares.seed
        self.rows, self.defer = shares.rows, shares.defer
        sizes = [shares.recipe.batch_at(step) for step in range(shares.recipe.steps)]
        self.ends = list(accumulate(sizes))  # places in the endless row of epochs
        self.sizes = sizes

    def __getitem__(self, step: int) -> list[Pending]:
        start = self.ends[step] - self.sizes[step]
        return [self._taken(start + rows.start, start + rows.stop) for rows in self.rows(self.sizes[step])]

    def _taken(self, start: int, stop: int) -> Pending:
        """The states from one place in the endless row to another."""
        places = torch.arange(start, stop)
        epochs = places // self.size
        ids = torch.cat(
            [
                _order(self.seed, int(epoch), self.size)[places[epochs == epoch] % self.size]
                for epoch in epochs.unique()
            ]
        )
        streams = Streams(self.seed, epochs, ids)
        if self.defer and deferring(self.source):
            return self.source.defer(ids, streams)
        return self.source.take(ids, streams)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, size: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "order", epoch))


def _same(batch: Any) -> Any:
    return batch
