"""A batch: views of some states, with latents, labels, actions and ids where they exist."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.validation import validate_fields


@dataclass(frozen=True)
class Batch:
    """Views of a batch of states. Only the views always exist; the rest is None if unknown.

    Args:
        views: each (batch, ...); shapes may differ from view to view.
        global_views: how many of the first views make the center; 0 stands for all.
        z: latents of the views, each (batch, dim).
        labels: (batch, ...) for evaluations and supervised baselines; no other objective looks at them.
        actions: (batch, ...) what was done between the views.
        ids: (batch,) which state the views are of: what pairs and splits go by.

    Raises:
        ValueError: there is no view, or lengths differ.

    Example:
        >>> batch = Batch((torch.zeros(4, 3, 32, 32), torch.zeros(4, 3, 16, 16)), global_views=1)
        >>> len(batch), batch.z is None
        (4, True)
    """

    views: tuple[Tensor, ...]
    global_views: int = 0
    z: tuple[Tensor, ...] | None = None
    labels: Tensor | None = None
    actions: Tensor | None = None
    ids: Tensor | None = None

    def __post_init__(self) -> None:
        validate_fields(self)
        if not self.views:
            raise ValueError("a batch must have at least one view, got none")
        if not 0 <= self.global_views <= len(self.views):
            raise ValueError(
                f"global_views must lie between 0 and the {len(self.views)} views, got {self.global_views}"
            )
        if self.global_views == 0:
            object.__setattr__(self, "global_views", len(self.views))
        lengths = {name: len(part) for name, part in self._named()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the parts of a batch must have equal lengths, got {lengths}")

    def __len__(self) -> int:
        return len(self.views[0])

    @property
    def latents(self) -> tuple[Tensor, ...]:
        """The latents of the views.

        Raises:
            ValueError: they are unknown.
        """
        if self.z is None:
            raise ValueError("the latents of this batch must be known, got a source that has none")
        return self.z

    def rows(self, index: slice | Tensor) -> "Batch":
        """Some of the states."""
        return self._map(lambda part: part[index])

    def to(self, device: torch.device | str) -> "Batch":
        """The same on a device; copied asynchronously if the memory is pinned."""
        if all(part.device == torch.device(device) for _, part in self._named()):
            return self
        return self._map(lambda part: part.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """The same in pinned memory, from which a device copies by itself; what torch's loaders call."""
        return self._map(lambda part: part.pin_memory())

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        labels, actions, ids = (
            None if part is None else change(part) for part in (self.labels, self.actions, self.ids)
        )
        z = None if self.z is None else tuple(map(change, self.z))
        views = tuple(map(change, self.views))
        return Batch(views, self.global_views, z, labels, actions, ids)

    def _named(self) -> list[tuple[str, Tensor]]:
        parts = [(f"views[{i}]", view) for i, view in enumerate(self.views)]
        parts += [(f"z[{i}]", latents) for i, latents in enumerate(self.z or ())]
        others = (("labels", self.labels), ("actions", self.actions), ("ids", self.ids))
        return parts + [(name, part) for name, part in others if part is not None]
