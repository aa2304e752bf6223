"""Data that users pass, as sources: arrays, data sets and DataLoaders.

Views given as arrays: a finite set of states, visited in epochs.

Nothing is copied: memory-mapped arrays stay on the disk, and only the rows of a batch are read.

The batches of a DataLoader: which of their parts are views, and which is a label.

torch's DataLoaders as sources: sets that can be looked up, and streams that can only be followed.

Of a set with items by number in plain or shuffled order, the training loop takes the items itself, with the
loader's own `collate_fn`: epochs, batches, ranks and going on after a stop are then as for any finite set,
and the loader's order and processes are not asked. Whatever is random in an item's transforms comes from a
stream of the seed, as far as it draws from torch's generator.

A stream (an IterableDataset, or a user's sampler) is read in its own order and cannot be rewound: a resumed
run continues from its weights, but not with the same batches.

Data that users bring to `fit` and `certify`, as a source: pairs of arrays, datasets and DataLoaders.

    (x, x_next)              two arrays or tensors, (states, ...) each: `Arrays`
    {"x": ..., "x_next": ...}  the same by name; also z and z_next, the latents, and labels
    a DataLoader or Dataset  whose items are such pairs, such dicts, or (views, label) with a list of views

A single view with a label has nothing that is alike: it is refused, with what to do.
"""

from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.data.processes import check_samples
from isojepa.data.source import Facts, Source, Streams, check_source
from isojepa.seeds import borrowed
from isojepa.validation import validate_types

Array = np.ndarray | Tensor


class Arrays:
    """A finite set of states, each with its views.

    Args:
        views: each (states, ...), two at least; shapes may differ from view to view.
        latents: of each view, (states, dim), where they are known.
        labels: (states, ...).
        ids: (states,) which rows belong together, for splits; the row's number by default.
        global_views: how many of the first views make the center; 0 stands for all.
        correlation: of the latents across the views, where it is known.
        gaussian: whether the latents are known to be N(0, I).

    Raises:
        ValueError: lengths differ, or there are no rows.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 3)).astype("float32")
        >>> source = Arrays((x, x + 0.1))
        >>> source.facts.size
        100
    """

    @validate_types
    def __init__(
        self,
        views: Sequence[Array],
        *,
        latents: Sequence[Array] | None = None,
        labels: Array | None = None,
        ids: Array | None = None,
        global_views: int = 0,
        correlation: float | tuple[float, ...] | None = None,
        gaussian: bool | None = None,
    ) -> None:
        self.views = tuple(views)
        if len(self.views) < 2 or not len(self.views[0]):
            raise ValueError(f"views must be two arrays or more with rows, got {len(self.views)}")
        self.latents = None if latents is None else tuple(latents)
        if self.latents is not None and len(self.latents) != len(self.views):
            raise ValueError(
                f"latents must be one array for each of {len(self.views)} views, got {len(self.latents)}"
            )
        if not 0 <= global_views <= len(self.views):
            raise ValueError(
                f"global_views must lie between 0 and the {len(self.views)} views, got {global_views}"
            )
        self.labels, self.ids, self.global_views = labels, ids, global_views
        size = len(self.views[0])
        arrays = (*self.views, *(self.latents or ()), labels, ids)
        lengths = [len(array) for array in arrays if array is not None]
        if set(lengths) != {size}:
            raise ValueError(f"views, latents, labels and ids must have equal lengths, got {lengths}")
        self.facts = Facts(
            dim=None if self.latents is None else int(self.latents[0].shape[1]),
            correlation=correlation,
            gaussian=gaussian,
            shapes=tuple(tuple(view.shape[1:]) for view in self.views),
            size=size,
        )

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n states, with replacement."""
        return self.take(torch.randint(len(self.views[0]), (check_samples(n),), generator=generator))

    def take(self, ids: Tensor, streams: Streams | None = None) -> Batch:
        """The states of given numbers; nothing is random in their views."""
        return Batch(
            tuple(_rows(view, ids) for view in self.views),
            self.global_views,
            z=None if self.latents is None else tuple(_rows(array, ids) for array in self.latents),
            labels=None if self.labels is None else _rows(self.labels, ids),
            ids=ids if self.ids is None else _rows(self.ids, ids),
        )

    def __repr__(self) -> str:
        return f"Arrays({len(self.views[0])} states, views={[tuple(v.shape[1:]) for v in self.views]})"


def _rows(array: Array, ids: Tensor) -> Tensor:
    if isinstance(array, Tensor):
        rows = array[ids]
    else:
        order = np.argsort(ids.numpy(), kind="stable")  # a file is read front to back
        rows = torch.empty((len(ids), *array.shape[1:]), dtype=torch.from_numpy(array[:0].copy()).dtype)
        rows[torch.from_numpy(order)] = torch.from_numpy(np.ascontiguousarray(array[ids.numpy()[order]]))
    return rows.float() if rows.dtype == torch.float64 else rows


NAMES = ("x", "x_next", "z", "z_next", "labels")


def _as_batch(given: Any) -> Batch:
    """A batch of two views or more.

    Understood are (x, x_next), dicts with x and x_next, (views, label) with a list of views, and a `Batch`.

    Raises:
        ValueError: it is none of these; a view and a label are not two views.
    """
    if isinstance(given, Batch):
        return given
    if isinstance(given, Mapping):
        return _by_name(given)
    if isinstance(given, list | tuple) and len(given) > 1:
        if isinstance(given[0], list | tuple) and all(isinstance(view, Tensor) for view in given[0]):
            return Batch(tuple(map(_plain, given[0])), labels=given[1])
        if all(isinstance(part, Tensor) for part in given):
            return _of_tensors(given)
    raise ValueError(
        "a DataLoader must give pairs (x, x_next), dicts with x and x_next, or (views, label) with a list of "
        f"views, got {_told(given)}"
    )


def _of_tensors(given: Any) -> Batch:
    first, second = given[:2]
    if first.shape == second.shape and len(given) == 2 and first.ndim > 1:
        return Batch((_plain(first), _plain(second)))
    if first.shape == second.shape and len(given) == 3 and given[2].ndim == 1 and first.ndim > 1:
        return Batch((_plain(first), _plain(second)), labels=given[2])
    raise ValueError(
        f"a DataLoader must give two views of each state, got {_told(given)}: with one view and a label, let "
        "the dataset give (augment(x), augment(x)), or pairs of neighbors in time, (x, x_next)"
    )


def _by_name(given: Mapping[Any, Any]) -> Batch:
    strange = sorted(set(map(str, given)) - set(NAMES))
    if strange or "x" not in given or "x_next" not in given:
        raise ValueError(
            "a DataLoader's dicts must have x and x_next, and where known z, z_next and labels, got "
            f"{', '.join(map(str, given))}"
        )
    z = (_plain(given["z"]), _plain(given["z_next"])) if "z" in given and "z_next" in given else None
    return Batch((_plain(given["x"]), _plain(given["x_next"])), z=z, labels=given.get("labels"))


def _plain(view: Any) -> Tensor:
    if not isinstance(view, Tensor):
        raise ValueError(f"a view must be a tensor (batch, ...), got {type(view).__name__}")
    return view.float() if view.dtype == torch.float64 else view


def _told(given: Any) -> str:
    """Kinds and shapes, for messages."""
    if isinstance(given, list | tuple):
        return f"({', '.join(map(_told, given[:4]))}{', ...' if len(given) > 4 else ''})"
    return f"a tensor {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__


def _plain_order(loader: "DataLoader[Any]") -> bool:
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
        ids = torch.randint(len(self._set), (check_samples(n),), generator=generator)
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
        batch = _as_batch(self._collate(items))
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
        parts, missing = [], check_samples(n)
        while missing:
            part = self._rest if self._rest is not None else self._following()
            parts.append(part.rows(slice(0, missing)))
            self._rest = part.rows(slice(missing, None)) if len(part) > missing else None
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _following(self) -> Batch:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self._loader)
            batch = next(self._batches, None)
        if batch is None:
            raise ValueError("a DataLoader must give batches, got none")
        return _as_batch(batch)

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


_TOGETHER = 64  # items of a stream that are put together at a time


def as_source(value: Any, name: str = "world") -> Source:
    """The source itself, or one made of pairs, a dataset or a DataLoader.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> import torch
        >>> as_source((torch.zeros(10, 3), torch.ones(10, 3)))
        Arrays(10 states, views=[(3,), (3,)])
    """
    if isinstance(value, Source):
        return value
    if isinstance(value, DataLoader):
        return Loaded(value) if _plain_order(value) else Streamed(value)
    if isinstance(value, Dataset):
        return as_source(DataLoader(value, batch_size=_TOGETHER), name)
    if isinstance(value, Mapping):
        return _brought_by_name(value, name)
    if isinstance(value, list | tuple) and len(value) > 1 and all(map(_is_array, value)):
        return _pairs(value, name)
    if _is_array(value):
        raise ValueError(
            f"{name} must be pairs, (x, x_next), got one array of shape {tuple(value.shape)}: what are the "
            "two views of each state? Of a recorded path, isojepa.data.Observed(x) pairs the steps"
        )
    return check_source(value, name)


def own_batch(value: Any) -> int | None:
    """The batch size that a DataLoader was made with; None for everything else."""
    return value.batch_size if isinstance(value, DataLoader) else None


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _pairs(views: Sequence[Any], name: str, **more: Any) -> Arrays:
    first = views[0]
    if any(view.ndim < 2 or len(view) != len(first) for view in views):
        raise ValueError(
            f"{name} must be pairs (x, x_next) of arrays (states, ...) with equal lengths, got shapes "
            f"{', '.join(str(tuple(view.shape)) for view in views)}"
        )
    return Arrays(tuple(views), **more)


def _brought_by_name(arrays: Mapping[Any, Any], name: str) -> Arrays:
    strange = sorted(set(map(str, arrays)) - set(NAMES))
    if strange or "x" not in arrays or "x_next" not in arrays:
        raise ValueError(
            f"{name} must be a dict with x and x_next, and where known z, z_next and labels, got "
            f"{', '.join(map(str, arrays)) or 'an empty one'}"
        )
    both = arrays.get("z"), arrays.get("z_next")
    if (both[0] is None) != (both[1] is None):
        raise ValueError(f"{name} must have z and z_next, or neither, got one")
    return _pairs(
        (arrays["x"], arrays["x_next"]),
        name,
        latents=None if both[0] is None else both,
        labels=arrays.get("labels"),
    )
