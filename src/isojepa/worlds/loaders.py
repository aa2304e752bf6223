"""torch's DataLoaders as sources: sets that can be looked up, and streams that can only be followed.

Of a set with items by number in plain or shuffled order, the training loop takes the items itself, with the
loader's own `collate_fn`: epochs, batches, ranks and going on after a stop are then as for any finite set,
and the loader's order and processes are not asked. Whatever is random in an item's transforms comes from a
stream of the seed, as far as it draws from torch's generator.

A stream (an IterableDataset, or a sampler of one's own) is read in the order in which it comes. It cannot be
gone back in: a run on it goes on from its weights, but not with the batches that it would have seen.
"""

from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from isojepa import ranks
from isojepa.seeds import borrowed
from isojepa.worlds.arguments import check_count
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts, Streams
from isojepa.worlds.views import as_batch


def plain_order(loader: "DataLoader[Any]") -> bool:
    """Whether a loader goes through a set by number, in order or shuffled, and each item once."""
    if isinstance(loader.dataset, IterableDataset) or not isinstance(loader.batch_sampler, BatchSampler):
        return False
    sampler, items = loader.sampler, cast(Sized, loader.dataset)
    if isinstance(sampler, RandomSampler):
        return not sampler.replacement and sampler.num_samples == len(items)
    return isinstance(sampler, SequentialSampler)


class Loaded:
    """The set behind a DataLoader: a finite set of states.

    Args:
        loader: in plain or shuffled order.

    Raises:
        ValueError: its items are no views, or there are none.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> Loaded(DataLoader(TensorDataset(torch.zeros(6, 2), torch.ones(6, 2)))).facts.size
        6
    """

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self._set = cast(Any, loader.dataset)
        self._collate = loader.collate_fn
        self.batch_size = loader.batch_size
        size = len(self._set)
        if not size:
            raise ValueError("a DataLoader must have states, got an empty set")
        one = self.take(torch.zeros(1, dtype=torch.int64))
        self.facts = Facts(
            dim=None if one.z is None else int(one.z[0].shape[1]),
            shapes=tuple(tuple(view.shape[1:]) for view in one.views),
            size=size,
        )

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n states, with replacement."""
        ids = torch.randint(len(self._set), (check_count(n),), generator=generator)
        seed = int(torch.randint(1 << 31, (), generator=generator))
        return self.take(ids, Streams(seed, torch.zeros_like(ids), ids))

    def take(self, ids: Tensor, streams: Streams | None = None) -> Batch:
        """The states of given numbers; what is random in one comes from its stream."""
        items = []
        for row, index in enumerate(ids.tolist()):
            if streams is None:
                items.append(self._set[index])
                continue
            with borrowed(streams.seed, "views", int(streams.epochs[row]), index):
                items.append(self._set[index])
        batch = as_batch(self._collate(items))
        if batch.ids is not None:
            return batch
        return Batch(batch.views, batch.global_views, batch.z, batch.labels, batch.actions, ids)

    def __repr__(self) -> str:
        return f"Loaded({type(self._set).__name__} of {len(self._set)} states)"


class Streamed:
    """Batches of a DataLoader in the order in which they come, from the start again at its end.

    Args:
        loader: any.

    Raises:
        ValueError: its batches are no views, or there are none.
    """

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self._loader = loader
        self.batch_size = loader.batch_size
        self._batches: Iterator[Any] = iter(())
        self._rest: Batch | None = None
        first = self._following()
        self._rest = first
        self.facts = Facts(
            dim=None if first.z is None else int(first.z[0].shape[1]),
            shapes=tuple(tuple(view.shape[1:]) for view in first.views),
        )

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """The next n states; the generator is not asked."""
        if ranks.world_size() > 1:
            raise ValueError(
                "a stream of batches must be read on one rank, since each rank would see another: give the "
                f"DataLoader a set with items by number, got {type(self._loader.dataset).__name__}"
            )
        parts, missing = [], check_count(n)
        while missing:
            part = self._rest if self._rest is not None else self._following()
            parts.append(part.rows(slice(0, missing)))
            self._rest = part.rows(slice(missing, None)) if len(part) > missing else None
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _following(self) -> Batch:
        found = next(self._batches, None)
        if found is None:
            self._batches = iter(self._loader)
            found = next(self._batches, None)
        if found is None:
            raise ValueError("a DataLoader must give batches, got none")
        return as_batch(found)

    def __repr__(self) -> str:
        return f"Streamed({type(self._loader.dataset).__name__})"


def _joined(parts: list[Batch]) -> Batch:
    def along(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if values[0] is None:
            return None
        if isinstance(values[0], Tensor):
            return torch.cat(values)
        return tuple(torch.cat(views) for views in zip(*values, strict=True))

    return Batch(
        along("views"), parts[0].global_views, along("z"), along("labels"), along("actions"), along("ids")
    )
