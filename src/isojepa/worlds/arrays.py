"""Views that somebody has as arrays: a finite set of states, gone through in epochs.

Nothing is copied: memory-mapped arrays stay on the disk, and only the rows of a batch are read.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.worlds.arguments import check_count
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts, Streams

Array = np.ndarray | Tensor


class Arrays:
    """A finite set of states, each with its views.

    Args:
        views: each (states, ...), two at least; shapes may differ from view to view.
        latents: of each view, (states, dim), where they are known.
        labels: (states, ...).
        ids: (states,) which rows belong together, for splits; the row's number by default.
        global_views: how many of the first views make the centre; 0 stands for all.
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

    @checked
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
        given = (*self.views, *(self.latents or ()), labels, ids)
        lengths = [len(array) for array in given if array is not None]
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
        return self.take(torch.randint(len(self.views[0]), (check_count(n),), generator=generator))

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
