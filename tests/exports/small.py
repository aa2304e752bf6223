"""Small records of pictures, made by a few steps of training."""

import warnings

import numpy as np

from isojepa.config import Config
from isojepa.data.images.source import ImagesSpec
from isojepa.encoders.backbones import BackboneSpec
from isojepa.objectives.lejepa import ImageLeJEPASpec
from isojepa.runs import train
from isojepa.training import Recipe, RunWarning

SIDE = 32
RECIPE = Recipe(
    steps=2,
    batch=8,
    batch_start=None,
    learning_rate=1e-2,
    eval_every=1,
    eval_samples=16,
    accelerator="cpu",
)
NETWORKS = {
    "convnet": ("convnet-4-8", ""),
    "gridnet": ("gridnet-4-8", ""),
    "resnet18-small": ("resnet18-small-4", ""),
    "resnet": ("resnet18", "channels=(4, 4, 8, 8), stem_width=4"),
    "vit": ("vit_tiny_patch16_224", "embed_dim=24, depth=2, num_heads=2, patch_size=8, reg_tokens=4"),
    "convnext": ("convnext_atto", "dims=(4, 8, 8, 16), depths=(1, 1, 1, 1)"),
}


def pictures(path, channels=3, count=24):
    """An npz file of random pictures of two classes."""
    source = np.random.default_rng(0)
    images = source.integers(0, 256, (count, SIDE, SIDE, channels), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(count) % 2)
    return images


def record(folder, data, network="convnet", **changes):
    """A record of a network on pictures; `features` may be set."""
    backbone, options = NETWORKS[network]
    config = Config(
        ImagesSpec(data=str(data), views=str(SIDE), local_views=1, local_size=SIDE),
        BackboneSpec(backbone, "8-4", options=options, **changes),
        ImageLeJEPASpec(slices=4),
        RECIPE,
        seed=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # a few steps of a few pictures
        train(config, record=folder, progress=False)
    return folder
