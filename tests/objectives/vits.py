"""A small vision transformer and small pictures, for masked objectives."""

import torch

from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.encoders import Backbone, Headed, Projector
from isojepa.seeds import generator
from tests.vision import timm_or_skip

OPTIONS = "patch_size=4, embed_dim=16, depth=2, num_heads=2"
DIM, PIXELS, GRID = 16, 3 * 4 * 4, (4, 4)


def vit(projector: str = "none", options: str = OPTIONS, **settings) -> Backbone | Headed:
    """16 patches of 16 pixels, 16 dimensions."""
    timm_or_skip()
    backbone = Backbone("vit_tiny_patch16_224", image_size=16, options=options, **settings)
    return backbone if projector == "none" else Headed(backbone, Projector(16, projector))


def pictures(n: int = 6, seed: int = 0, dtype: torch.dtype = torch.float32, local: int = 8) -> Batch:
    """Two global views and a local one."""
    source = generator(seed, "pictures")
    views = [torch.randn(n, 3, size, size, generator=source, dtype=dtype) for size in (16, 16, local)]
    return Batch(tuple(views), global_views=2)


class Pictures:
    """The source of `pictures`."""

    facts = Facts(shapes=((3, 16, 16), (3, 16, 16), (3, 8, 8)))

    def sample(self, n, generator):
        return pictures(n, int(torch.randint(2**31, (), generator=generator)))
