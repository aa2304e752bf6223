"""Models as people name them on the command line: a record, a backbone of timm, an encoder of one's own."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from isojepa import runs
from isojepa.cli.callables import is_callable_name, load_callable
from isojepa.cli.printing import out
from isojepa.exports.inputs import Input, input_of, known_of
from isojepa.training.records import Record
from isojepa.worlds.images.choice import shorter_side
from isojepa.worlds.images.parts import Part
from isojepa.worlds.images.pictures import Pictures

NORMALS = {  # mean and deviation; those of ImageNet are what most published backbones are trained with
    "auto": None,
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


@dataclass(frozen=True)
class Seen:
    """A model, and how pictures are shown to it.

    Attributes:
        model: what `open_model` gives.
        channels, size: of the pictures.
        mean, std: that they are normalised by.
    """

    model: Any
    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def takes(self, pictures: Pictures) -> Pictures:
        """Pictures with the channels that the model takes."""
        return pictures if pictures.channels == self.channels else Part(pictures, channels=self.channels)


def see(
    source: Path,
    pictures: Pictures,
    *,
    size: int | None = None,
    channels: int | None = None,
    normalize: str = "auto",
    weights: Path | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Seen:
    """A model that a person named, and how it is shown pictures: as its record was, else as they are.

    Args:
        source, weights, seed, quiet: as of `open_model`.
        pictures: whose size, channels and colours count where nothing else says.
        size: side of the square that pictures are cut to.
        channels: 1 or 3.
        normalize: one of `NORMALS`.
    """
    given = trained_on(source)
    own = pictures.channels if given is None else given.shape[0]
    channels = channels or (3 if weights is not None else own)
    shown = pictures if pictures.channels == channels else Part(pictures, channels=channels)
    mean, std = normals(normalize, shown, given)
    size = size or (shorter_side(shown) if given is None else given.shape[-1])
    model = open_model(source, channels=channels, size=size, weights=weights, seed=seed, quiet=quiet)
    return Seen(model, channels, size, mean, std)


def trained_on(source: Path) -> Input | None:
    """What the pictures were that a record was trained on; None of other models, and where it does not tell.

    Raises:
        ValueError: what it tells is damaged.
    """
    if not source.is_dir():
        return None
    record = Record.open(source)
    known = known_of((record.result or {}).get("source") or {}, record.path)
    given = input_of(known, None) if known.get("shapes") else None
    return given if given is not None and given.pictures else None


def normals(
    name: str, pictures: Pictures, given: Input | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation that pictures are normalised by: one of `NORMALS`.

    Args:
        name: "auto" for those that a record was trained with, where it tells them, else the data's.
        pictures: with the channels that the model takes.
        given: what the record was trained on.

    Raises:
        ValueError: they are of colours, and the pictures are grey.
    """
    if name == "auto" and given is not None and given.mean is not None and given.std is not None:
        mean, std = given.mean, given.std
    else:
        mean, std = NORMALS[name] or (pictures.mean, pictures.std)
    if len(mean) != pictures.channels:
        took = "imagenet needs colours" if name == "imagenet" else f"the record's needs {len(mean)} channels"
        raise ValueError(
            f"normalize by {took}, got pictures of {pictures.channels}: add --channels {len(mean)}"
        )
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
