"""Pictures and models to look at: made up, small, some of them hostile."""

import numpy as np
import torch

from isojepa.data.images.image_sets import Stack
from isojepa.encoders import Backbone

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "{{js}} & <b>bold</b>")


def pictures(count=60, size=24, classes=HOSTILE, channels=3, seed=0):
    """Noise with a bright square whose place is the class."""
    source = np.random.default_rng(seed)
    images = source.integers(0, 90, size=(count, size, size, channels)).astype(np.uint8)
    labels = np.arange(count) % max(1, len(classes))
    for image, label in zip(images, labels, strict=True):
        start = 2 + 6 * int(label)
        image[start : start + 8, start : start + 8] = 220
    return Stack(images, labels=labels if classes else None, classes=classes or None)


def convnet(channels=3, seed=0):
    return Backbone("convnet-8-16", in_channels=channels, seed=seed)


def vit(size=24):
    """A tiny ViT whose heads differ."""
    options = "depth=2, embed_dim=24, num_heads=2, patch_size=4"
    made = Backbone("vit_tiny_patch16_224", image_size=size, options=options).eval()
    with torch.no_grad():
        for parameter in made.body.blocks[-1].parameters():
            parameter.mul_(8)
    return made
