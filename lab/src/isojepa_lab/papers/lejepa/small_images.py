"""Small pictures and a small network: what studies of LeJEPA on a processor have in common.

Training pictures are split by a fixed draw into those that runs see and those that settings are chosen by;
the test split only reports.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.data.images.source import Images, open_images
from isojepa.data.images.views import Views
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.layers import Projector
from isojepa.encoders.model import Headed
from isojepa.objectives import SIGReg
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.probes import LinearProbe, features_of
from isojepa.probes.linear import choose_logistic, examples
from isojepa.seeds import generator
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe

FASHION, QUICKDRAW = "fashion-mnist", "quickdraw"
VALIDATION = {FASHION: 10_000, QUICKDRAW: 3_450}  # training pictures that no run is trained on
PROBED = 10_000  # training pictures of a probe
PENALTIES = (1e-1, 1e-2, 1e-3)
CURVE_PENALTY, CURVE_SAMPLES, CURVE_POINTS = 1e-2, 5_000, 10  # of the probe while a run trains
SIDE = 28


class ImageSplit(NamedTuple):
    """Pictures to train on, to choose settings by, and to report."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet


@cache
def pictures(data: str) -> ImageSplit:
    """The split of a data set that `tools/data` fetched.

    Raises:
        ValueError: it is not there.
    """
    folder = Path("data") / data
    if not folder.exists():
        raise ValueError(f"{folder} does not exist: fetch it with `python tools/data {data}`")
    whole, test = (open_images(str(folder), split=split) for split in ("train", "test"))
    order = torch.randperm(len(whole), generator=generator(0, "small images", "validation", data))
    size = VALIDATION[data]
    return ImageSplit(ImageSubset(whole, order[size:]), ImageSubset(whole, order[:size]), test)


def views_of(count: int) -> Views:
    """Two global views and local ones, as many as `count` in all."""
    return Views(**{**vars(Views.for_size(SIDE)), "local_views": count - 2})


def network(data: str, projector: str, seed: int, backbone: str = "gridnet", options: str = "") -> Headed:
    """A `gridnet`, or a model of timm behind a black border of two pixels, with random weights."""
    channels = pictures(data).train.channels
    if backbone == "gridnet":
        body = Backbone(backbone, in_channels=channels, seed=seed)
    else:
        model = Backbone(backbone, in_channels=channels, image_size=32, options=options, seed=seed)
        body = Backbone(nn.Sequential(nn.ZeroPad2d(2), model), in_channels=channels, image_size=SIDE)
    return Headed(body, Projector(body.num_features, projector, seed))


def train(model: nn.Module, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train by LeJEPA: the last window's loss, how the run ended, and a small probe's accuracy by step."""
    data = pictures(settings["data"])
    recipe = Recipe(
        steps=settings["steps"],
        batch=settings["batch"],
        batch_start=None,
        learning_rate=settings["rate"],
        weight_decay=0.05,
        warmup=0.05,
        beta2=0.999,
        eval_every=max(1, settings["steps"] // CURVE_POINTS),
        precision=settings.get("precision", "bfloat16"),
    )
    regularizer = SIGReg(slices=settings["slices"], knots=settings["knots"])
    look = LinearProbe(data.train, data.validation, samples=CURVE_SAMPLES, penalties=(CURVE_PENALTY,))
    run = fit(
        model,
        Images(data.train, views_of(settings["views"])),
        ImageLeJEPA(settings["weight"], regularizer),
        recipe=recipe,
        evaluations=(look,),
        seed=settings["seed"],
        progress=False,
    )
    curve = [[row["step"], row["probe"]] for row in run.metrics]
    return {"loss": run.metrics[-1]["loss"], "ended": run.status, "curve": curve}


def probes(model: nn.Module, data: str) -> dict[str, float]:
    """One linear probe of frozen features: its accuracy on validation and on test pictures."""
    split = pictures(data)
    few = ImageSubset(split.train, torch.arange(min(PROBED, len(split.train))))
    x, *held = (features_of(model, part) for part in (few, split.validation, split.test))
    labels = [part.labels for part in (split.validation, split.test)]
    _, classifier = choose_logistic(examples(x, few.labels, held[0], labels[0]), PENALTIES)
    rows = zip(("validation", "test"), held, labels, strict=True)
    return {name: float((classifier(part) == np.asarray(published)).mean()) for name, part, published in rows}
