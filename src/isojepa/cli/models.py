"""Models as people name them on the command line: a record, a backbone of timm, an encoder of one's own."""

import re
from pathlib import Path
from typing import Any

from torch import nn

from isojepa import runs
from isojepa.cli.callables import is_callable_name, load_callable
from isojepa.cli.printing import out
from isojepa.worlds.images.pictures import Pictures

NORMALS = {  # mean and deviation; those of ImageNet are what most published backbones are trained with
    "data": None,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
FILES = (".npz", ".safetensors", ".pt", ".pth", ".h5", ".hdf5")  # of arrays; none is a model
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")  # as names of backbones are


def open_model(
    source: Path,
    *,
    channels: int,
    size: int | None = None,
    weights: Path | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Any:
    """The model that a person named.

    Args:
        source: a record's folder, file.py:function, or the name of a backbone.
        channels: of the pictures that it will see.
        size: of them, for a backbone that is built for one; its own by default.
        weights: of a backbone, which has random ones by default.
        seed: draws those.
        quiet: whether nothing is said of how weights were matched.

    Raises:
        ValueError: there is no such model, or weights are given for one that has its own.
    """
    text = str(source)
    made = is_callable_name(text) or source.is_dir()
    if made and weights is not None:
        raise ValueError("weights go with a backbone of timm, got a source that has its own")
    if is_callable_name(text):
        return load_callable(text)
    if source.is_dir():
        return runs.load(source)
    if not _NAME.fullmatch(text) or source.suffix in (*FILES, ".npy", ".py"):
        raise ValueError(f"{text} does not exist; an encoder of your own is file.py:function")
    return _backbone(text, channels, size, weights, seed, quiet)


def normals(name: str, pictures: Pictures) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation that pictures are normalised by: one of `NORMALS`.

    Raises:
        ValueError: they are of colours, and the pictures are grey.
    """
    mean, std = NORMALS[name] or (pictures.mean, pictures.std)
    if len(mean) != pictures.channels:
        raise ValueError("normalize by imagenet needs colours, got grey pictures: add --channels 3")
    return mean, std


def _backbone(
    name: str, channels: int, size: int | None, weights: Path | None, seed: int, quiet: bool
) -> nn.Module:
    from isojepa.encoders.backbones import Backbone
    from isojepa.encoders.weights import load_weights

    backbone = Backbone(name, in_channels=channels, image_size=size, seed=seed)
    if weights is not None:
        matched = load_weights(backbone.body, weights)
        if not quiet:
            left = f", {len(matched.left_out)} of the file left out" if matched.left_out else ""
            out.print(f"Weights of {weights} matched by {matched.by}{left}.", markup=False)
    return backbone
