"""Models as people name them on the command line: a record, a backbone of timm, an encoder of one's own."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa import runs
from isojepa.cli.callables import load_callable
from isojepa.cli.printing import out
from isojepa.evaluations.probes import held_out
from isojepa.exports.subject import Input, input_of, known_of
from isojepa.importing import is_callable_name
from isojepa.seeds import generator
from isojepa.training.records import Record
from isojepa.worlds.images.opening import open_pictures, splits
from isojepa.worlds.images.pictures import Part, Pictures
from isojepa.worlds.images.views import shorter_side

NORMALS = {  # mean and deviation; those of ImageNet are what most published backbones are trained with
    "auto": None,
    "data": None,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
FILES = (".npz", ".safetensors", ".pt", ".pth", ".h5", ".hdf5")  # of arrays; none is a model
_HELD_OUT = 0.2  # share of each class that probes are scored on, where there are no test pictures
MIN_PER_CLASS = 5  # pictures of the largest class, of which that share is one at least
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")  # as names of backbones are


def open_model(
    source: Path,
    *,
    channels: int,
    size: int | None = None,
    weights: Path | None = None,
    seed: int = 0,
    quiet: bool = False,
    trust: tuple[str, ...] = (),
) -> Any:
    """The model that a person named.

    Args:
        source: a record's folder, file.py:function, or the name of a backbone.
        channels: of the pictures that it will see.
        size: of them, for a backbone that is built for one; its own by default.
        weights: of a backbone, which has random ones by default.
        seed: draws those.
        quiet: whether nothing is said of how weights were matched.
        trust: as of `runs.load`.

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
        return runs.load(source, trust=trust)
    check_exists(source)
    return _backbone(text, channels, size, weights, seed, quiet)


def check_exists(source: Path) -> None:
    """See that a source which is neither a folder nor file.py:function may be the name of a backbone.

    Raises:
        ValueError: it is the path of something that does not exist.
    """
    text = str(source)
    if source.is_dir() or is_callable_name(text):
        return
    if not _NAME.fullmatch(text) or source.suffix in (*FILES, ".npy", ".py"):
        raise ValueError(
            f"{text} does not exist: give a record's folder, a backbone of timm or file.py:function"
        )


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
    trust: tuple[str, ...] = (),
) -> Seen:
    """A model that a person named, and how it is shown pictures: as its record was, else as they are.

    Args:
        source, weights, seed, quiet, trust: as of `open_model`.
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
    model = open_model(
        source, channels=channels, size=size, weights=weights, seed=seed, quiet=quiet, trust=trust
    )
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


def probe_sets(
    data: Path, train: Pictures | None = None, *, test: Path | None = None, seed: int = 0
) -> tuple[Pictures, Pictures]:
    """Pictures with labels that probes are fitted to, and those that they are scored on.

    Args:
        data: of the first; its split test or val is scored, else a fifth of each class.
        train: the pictures of `data`, if they are open.
        test: the pictures that are scored, in place of a part of `data`.
        seed: draws the fifth.

    Raises:
        ValueError: there are no labels, or no class has five pictures.
    """
    train = open_pictures(data) if train is None else train
    if test is not None:
        return train, open_pictures(test, split="test" if "test" in splits(test) else None)
    parts = splits(data)
    held = [name for name in ("test", "val") if name in parts and len(parts) > 1]
    if held:
        return train, open_pictures(data, split=held[0])
    if train.labels is None:
        raise ValueError(f"a probe needs labels, got {data} without any")
    aside = held_out(train.labels.numpy(), _HELD_OUT, generator(seed, "aside"))
    if not aside.any():
        raise ValueError(f"{data} must have {MIN_PER_CLASS} pictures of some class at least, or give --test")
    fit, score = (Part(train, torch.from_numpy(np.flatnonzero(rows))) for rows in (~aside, aside))
    return fit, score


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
