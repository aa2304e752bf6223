"""Views made where they are used: pictures and what was drawn for them, until somebody asks for the batch.

What is random is drawn from the row's own stream before anything is copied; the views follow from pictures
and draws on any device. A worker that serves a device reads pictures and draws, and sends uint8 pixels, a
fraction of the bytes of the views; the device cuts and colours them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isojepa.worlds.batch import Batch
from isojepa.worlds.images.colour import recolour
from isojepa.worlds.images.draws import Draws
from isojepa.worlds.images.resample import normalised, resized_crops
from isojepa.worlds.images.views import Views


@dataclass(frozen=True)
class Deferred:
    """Pictures with what was drawn for their views; `to(device)` makes them there.

    Attributes:
        images: uint8, (n, channels, height, width), or n of (channels, height, width).
        draws: boxes, flips and colours of each view.
        views: the settings, with the mean and deviation that pixels are normalised by.
        labels: (n,) where there are any.
        ids: (n,) which pictures they are.
    """

    images: Tensor | list[Tensor]
    draws: Draws
    views: Views
    labels: Tensor | None
    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: slice | Tensor) -> "Deferred":
        """Some of the pictures."""
        if isinstance(self.images, Tensor):
            images: Tensor | list[Tensor] = self.images[index]
        else:
            images = [self.images[row] for row in torch.arange(len(self))[index].tolist()]
        return self._with(images, lambda part: part[index])

    def to(self, device: torch.device | str) -> Batch:
        """The batch, its views made on a device."""
        there = self._copied(lambda part: part.to(device, non_blocking=True))
        if not isinstance(self.images, Tensor):  # boxes are read one by one: where nobody waits for them
            there = replace(there, draws=replace(there.draws, boxes=self.draws.boxes))
        return Batch(there.made(), self.views.global_views, labels=there.labels, ids=there.ids)

    def pin_memory(self) -> "Deferred":
        """The same in pinned memory, from which a device copies by itself; what torch's loaders call."""
        return self._copied(lambda part: part.pin_memory())

    def made(self) -> tuple[Tensor, ...]:
        """The views, each (n, channels, size, size) float32, where the pictures are."""
        settings = self.views
        found = []
        for view, size in enumerate(settings.sizes):
            cut = resized_crops(self.images, self.draws.boxes[:, view], size, self.draws.flip[:, view])
            seen = recolour(cut, self.draws.colours(view), settings.kernel_for(size))
            found.append(normalised(seen, settings.mean or (0.0,), settings.std or (1.0,)))
        return tuple(found)

    def _copied(self, copy: Callable[[Tensor], Tensor]) -> "Deferred":
        images = copy(self.images) if isinstance(self.images, Tensor) else list(map(copy, self.images))
        return self._with(images, copy)

    def _with(self, images: Tensor | list[Tensor], change: Callable[[Tensor], Tensor]) -> "Deferred":
        labels = None if self.labels is None else change(self.labels)
        return Deferred(images, self.draws.map(change), self.views, labels, change(self.ids))
