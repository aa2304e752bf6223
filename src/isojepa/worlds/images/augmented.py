"""Pictures as one recipe of views shows them: one crop of each, always the same.

What an agent trained under a recipe is shown afterwards, where two agents are compared on augmentations of
the same pictures.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.seeds import generator
from isojepa.worlds.images.deferred import Deferred
from isojepa.worlds.images.draws import NUMBERS, draw
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.images.views import Views


class Augmented:
    """One global view of each picture, as uint8; a function of the seed and the picture's number.

    Mean and deviation are those of the pictures, which a model that was trained on views of them is fed by.

    Args:
        pictures: what views are cut from.
        views: how; the first of its views is taken.
        seed: any integer.

    Example:
        >>> from isojepa.worlds.images.pictures import Stack
        >>> whole = Stack(torch.zeros(3, 40, 30, dtype=torch.uint8))
        >>> Augmented(whole, Views.for_size(28)).read(torch.tensor([1, 2])).shape
        torch.Size([2, 1, 28, 28])
    """

    @checked
    def __init__(self, pictures: Pictures, views: Views, *, seed: int = 0) -> None:
        self._whole, self.seed = pictures, seed
        self.views = replace(views, mean=(0.0,) * pictures.channels, std=(1.0,) * pictures.channels)
        self.channels = pictures.channels
        self.shape = (pictures.channels, views.global_size, views.global_size)
        self.labels, self.skipped = pictures.labels, pictures.skipped
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = pictures.mean, pictures.std

    def __len__(self) -> int:
        return len(self._whole)

    def read(self, ids: Tensor) -> Tensor:
        """The views of the pictures of given numbers, uint8 (n, channels, size, size)."""
        count = len(self.views.sizes)
        uniform = torch.stack(
            [
                torch.rand(count, NUMBERS, generator=generator(self.seed, "augmented", number))
                for number in ids.tolist()
            ]
        )
        images = self._whole.read(ids)
        sizes = torch.tensor([image.shape[-2:] for image in images])
        drawn = draw(uniform, sizes, self.views)
        seen = Deferred(images, drawn, self.views, None, ids).made()[0]
        return (seen * 255).round().clamp(0, 255).to(torch.uint8)

    def __repr__(self) -> str:
        return f"Augmented({self._whole!r}, {self.views!r})"
