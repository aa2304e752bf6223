"""Global and local crops of pictures of three classes, an encoder of them, and their source."""

import torch
from torch import nn

from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.encoders.model import Headed
from isojepa.seeds import borrowed, generator


def images(n: int = 12, seed: int = 0) -> Batch:
    """Two global and two local crops of pictures of three classes, which differ in brightness."""
    source = generator(seed, "images")
    labels = torch.randint(3, (n,), generator=source)
    views = [torch.randn(n, 1, size, size, generator=source) for size in (6, 6, 4, 4)]
    views = [0.3 * view + labels.view(-1, 1, 1, 1) - 1 for view in views]
    return Batch(tuple(views), global_views=2, labels=labels)


def encoder(seed: int = 0) -> Headed:
    with borrowed(seed, "encoder"):
        backbone = nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        return Headed(backbone, nn.Linear(5, 4))


class CropSource:
    """The source of `images`."""

    facts = Facts(shapes=((1, 6, 6), (1, 6, 6), (1, 4, 4), (1, 4, 4)), classes=3)

    def sample(self, n, generator):
        return images(n, int(torch.randint(2**31, (), generator=generator)))
