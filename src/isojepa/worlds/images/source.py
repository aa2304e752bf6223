"""Images: pictures as a source, whose views are random crops.

All random numbers of a picture's views come from the stream of that picture in that epoch, in one call: a
crop is a function of (seed, epoch, picture), whatever the batch, the worker or the rank that cuts it.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch
from isojepa.worlds.images.pictures import Pictures, fingerprint
from isojepa.worlds.images.views import NUMBERS, Choice, Deferred, Views, draw, shorter_side
from isojepa.worlds.processes import check_samples
from isojepa.worlds.source import Facts, Streams


class Images:
    """Pictures as a finite source: each time a picture is taken, views of it are cut anew.

    Args:
        pictures: what views are cut from.
        views: how; by default `Views.for_size` of the pictures' shorter side.

    Raises:
        ValueError: there are no pictures, or the mean of the settings has other channels.

    Example:
        >>> import numpy as np
        >>> from isojepa.seeds import generator
        >>> from isojepa.worlds.images.pictures import Stack
        >>> source = Images(Stack(np.zeros((10, 28, 28), dtype=np.uint8)))
        >>> [tuple(view.shape) for view in source.sample(4, generator(0, "data")).views]
        [(4, 1, 28, 28), (4, 1, 28, 28), (4, 1, 16, 16), (4, 1, 16, 16)]
    """

    @checked
    def __init__(self, pictures: Pictures, views: Views | None = None) -> None:
        if not len(pictures):
            raise ValueError("pictures must be one at least, got none")
        self.pictures = pictures
        self.views = Views.for_size(shorter_side(pictures)) if views is None else views
        if self.views.mean is not None and len(self.views.mean) != pictures.channels:
            raise ValueError(
                f"mean must have a number for each of {pictures.channels} channels, got {self.views.mean}"
            )
        self.facts = Facts(
            shapes=shapes(self.views, pictures.channels),
            size=len(pictures),
            deferring=True,
            described=True,
            classes=None if pictures.labels is None else len(pictures.classes),
        )

    @cached_property
    def normalised_views(self) -> Views:
        """The settings with the mean and deviation that pixels are normalised by."""
        if self.views.mean is not None:
            return self.views
        return replace(self.views, mean=tuple(self.pictures.mean), std=tuple(self.pictures.std))

    def describe(self) -> dict[str, Any]:
        """Kind, mean and deviation that pixels are normalised by, files that were skipped, a fingerprint."""
        views = self.normalised_views
        return {
            "kind": "pictures",
            "mean": views.mean,
            "std": views.std,
            "skipped": self.pictures.skipped,
            "fingerprint": fingerprint(self.pictures),
        }

    @checked
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n pictures, with replacement, and views of them."""
        ids = torch.randint(len(self.pictures), (check_samples(n),), generator=generator)
        uniform = torch.rand(n, len(self.views.sizes), NUMBERS, generator=generator)
        return self._drawn(ids, uniform).to("cpu")

    def take(self, ids: Tensor, streams: Streams) -> Batch:
        """Views of the pictures of given numbers."""
        return self.defer(ids, streams).to("cpu")

    def defer(self, ids: Tensor, streams: Streams) -> Deferred:
        """The same, before the views are made."""
        uniform = torch.empty(len(ids), len(self.views.sizes) * NUMBERS)
        for row in range(len(ids)):
            torch.rand(uniform.shape[1], generator=streams.of(row), out=uniform[row])
        return self._drawn(ids, uniform.unflatten(1, (-1, NUMBERS)))

    def _drawn(self, ids: Tensor, uniform: Tensor) -> Deferred:
        images = self.pictures.read(ids)
        if isinstance(images, Tensor):
            sizes = torch.tensor([images.shape[-2:]]).expand(len(ids), 2)
        else:
            sizes = torch.tensor([image.shape[-2:] for image in images]).reshape(-1, 2)
        labels = None if self.pictures.labels is None else self.pictures.labels[ids]
        return Deferred(images, draw(uniform, sizes, self.views), self.normalised_views, labels, ids)

    def __repr__(self) -> str:
        return f"Images({self.pictures!r}, {self.views!r})"


def shapes(views: Views, channels: int) -> tuple[tuple[int, ...], ...]:
    """Shape of one picture in each view."""
    return tuple((channels, size, size) for size in views.sizes)


@register("world", "images")
@dataclass(frozen=True)
class ImagesSpec(Choice, Spec):
    """Random crops of pictures: a folder, arrays, IDX, Parquet or tar files, or a data set of torchvision."""

    data: str = ""
    """Where the pictures are."""
    split: str | None = None
    """Part of the data, where it has parts, e.g. train."""

    def resolve(self, context: Context) -> "ImagesSpec":
        """The same with every setting of the views written out; "auto" looks at the pictures' size."""
        if None not in self.changes.values() or (self.views == "auto" and not self.data):
            return self
        if self.views == "auto":
            source = context.source
            chosen = (source if isinstance(source, Images) else self.build(context)).views
        else:
            chosen = self.settings()
        return replace(self, **{name: getattr(chosen, name) for name in self.changes})

    def build(self, context: Context) -> Images:
        from isojepa.worlds.images.opening import open_pictures  # libraries of others, only where needed

        if not self.data:
            raise ValueError("data must say where the pictures are, got nothing")
        pictures = open_pictures(self.data, split=self.split)
        return Images(pictures, self.settings(pictures))

    def around(self, seed: int) -> Context:
        """Nothing where no data are named."""
        if not self.data:  # nothing is known of no pictures
            return Context(seed=seed)
        return Context.of(self.build(Context(seed=seed)), seed)
