"""Supervised training by the one loop: fine-tuning of a backbone, and small regression networks.

**Fine-tuning.** All of a pretrained backbone learns from labels, its early layers slower than its late
ones. The learning rate of layer l of L, counted from the input, is multiplied by

    decay ** (L - l + 1),   l = 1 .. L,

and that of the new linear head by 1 (Clark et al., 2020, for text; Bao et al., 2022, for ViTs). Layers are
those that a timm model names itself (`group_matcher`): the stem, each block, the last norm. In other
modules each child that holds parameters is a layer, in order of construction; children of a Sequential
count separately.

**Regression.** `fit_network` fits an MLP between standardized columns by least squares, for policies and
transitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.data.batch import Batch
from isojepa.data.images.image_sets import ImageSet
from isojepa.data.images.source import Images
from isojepa.data.images.views import Views, shorter_side
from isojepa.data.source import Facts
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import Headed, as_model, evaluating
from isojepa.importing import import_timm
from isojepa.objectives.objective import Loss, Models, Objective
from isojepa.objectives.supervised import Supervised
from isojepa.probes.features import features_of
from isojepa.probes.few_shot import common_labels
from isojepa.probes.linear import Score, score_of
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe, Settings
from isojepa.training.run import Run
from isojepa.validation import check_number, validate_types

_MIN_LAYERS = 3  # fewer means that a timm model's matcher names parts that it lacks, as LeViT's does


class LayerDecay(nn.Module):
    """A backbone whose early layers learn slower.

    Args:
        backbone: a `Model` or any module; of a `Headed` one only its backbone is taken.
        decay: factor between the learning rates of successive layers, in (0, 1].

    Example:
        >>> model = LayerDecay(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), decay=0.5)
        >>> sorted(set(model.learning_rates().values()))
        [0.25, 0.5]
    """

    @validate_types
    def __init__(self, backbone: nn.Module, decay: float = 0.75) -> None:
        super().__init__()
        self.backbone = backbone.backbone if isinstance(backbone, Headed) else backbone
        self.decay = check_number("decay", decay, "lie in (0, 1]", lambda value: 0 < value <= 1)

    def features(self, x: Tensor) -> Tensor:
        """Those of the backbone."""
        return as_model(self.backbone).features(x)

    embed = features

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Those of the backbone."""
        return as_model(self.backbone).tokens(x, mask)

    def forward(self, x: Tensor) -> Tensor:
        """The features."""
        return self.features(x)

    def learning_rates(self) -> Mapping[str, float]:
        """Factors on the learning rate by names of parameters."""
        layers = layers_of(self.backbone)
        count = max(layers.values(), default=0) + 1
        return {f"backbone.{name}": self.decay ** (count - layer) for name, layer in layers.items()}


def layers_of(module: nn.Module) -> dict[str, int]:
    """The layer, from 0, of each parameter of a module by name."""
    if isinstance(module, Backbone):
        inner = {f"body.{name}": layer for name, layer in layers_of(module.body).items()}
        last = max(inner.values(), default=-1) + 1
        return {name: inner.get(name, last) for name, _ in module.named_parameters()}
    if type(module).__module__.startswith("timm."):
        matcher: Any = module.group_matcher(coarse=False)  # type: ignore[operator]
        groups = import_timm("models").group_parameters(module, matcher, reverse=True)
        layers = _numbered({name: groups[name] for name, _ in module.named_parameters()})
        if len(set(layers.values())) >= _MIN_LAYERS:
            return layers
    parts = _parts(module)
    return _numbered(
        {
            name: max((i for i, part in enumerate(parts) if name.startswith(part)), default=-1)
            for name, _ in module.named_parameters()
        }
    )


def _parts(module: nn.Module, prefix: str = "") -> list[str]:
    """Prefix of the parameter names of each layer, in order."""
    prefixes: list[str] = []
    for name, part in module.named_children():
        if next(part.parameters(), None) is None:
            continue
        deeper = isinstance(part, nn.Sequential) or type(part).__module__.startswith("isojepa.")
        prefixes += _parts(part, f"{prefix}{name}.") if deeper and _holds(part) else [f"{prefix}{name}."]
    return prefixes


def _holds(module: nn.Module) -> bool:
    """Whether a module's parameters are all in its children."""
    return next(module.parameters(recurse=False), None) is None and any(module.children())


def _numbered(layers: Mapping[str, int]) -> dict[str, int]:
    """Renumber layers without gaps."""
    numbers = {layer: number for number, layer in enumerate(sorted(set(layers.values())))}
    return {name: numbers[layer] for name, layer in layers.items()}


@dataclass(frozen=True)
class FineTuning:
    """A fine-tuned model.

    Attributes:
        score: on the test images.
        run: the training run.
        model, head: the trained modules; `head(model(x))` are the logits.
    """

    score: Score
    run: Run
    model: nn.Module
    head: nn.Module


def plain_crops(
    size: int, mean: tuple[float, ...] | None = None, std: tuple[float, ...] | None = None
) -> Views:
    """Default augmentation of training images: two crops of scale (0.6, 1) with horizontal flips."""
    return Views(
        2,
        0,
        global_size=size,
        global_scale=(0.6, 1.0),
        jitter=0,
        grey=0,
        blur=0,
        solarize=0,
        mean=mean,
        std=std,
    )


@validate_types
def fine_tune(
    model: nn.Module,
    train: ImageSet,
    test: ImageSet,
    *,
    decay: float = 0.75,
    views: Views | None = None,
    seed: int = 0,
    record: str | Path | None = None,
    progress: bool | None = None,
    **settings: Unpack[Settings],
) -> FineTuning:
    """Train all of a model on labels, and score it.

    Args:
        model: pretrained; trained in place. The projector of a `Headed` model is not used.
        train, test: images with labels of the same classes.
        decay: factor between the learning rates of successive layers.
        views: augmentation of training images; by default `plain_crops` at their shorter side.
        seed: draws the head, the images and the crops.
        record: run directory; None keeps everything in memory.
        progress: draw a progress bar; by default when standard error is a terminal.
        settings: settings of the recipe, e.g. `steps=500`; by default AdamW at 5e-4 with weight decay 0.05.

    Raises:
        ValueError: labels are missing or differ, or a setting is out of range.
    """
    y, test_y = common_labels(train, test)
    if views is None:
        views = plain_crops(shorter_side(train))
    tuned = LayerDecay(model, decay)
    if next(tuned.parameters(), None) is None:
        raise ValueError("model must have weights to fine-tune, got one without parameters")
    blank = torch.zeros(2, train.channels, views.global_size, views.global_size)
    with evaluating(tuned), torch.no_grad():
        dim = tuned(blank.to(next(tuned.parameters()).device)).shape[1]
    objective = Supervised(int(y.max()) + 1, dim, seed)
    defaults: Settings = {"learning_rate": 5e-4, "weight_decay": 0.05, "batch": 128, "batch_start": None}
    whole: Settings = {**defaults, **settings}
    run = fit(tuned, Images(train, views), objective, seed=seed, record=record, progress=progress, **whole)
    x = features_of(tuned, test, views.global_size, mean=views.mean or train.mean, std=views.std or train.std)
    with torch.no_grad():
        logits = objective.head.cpu()(torch.from_numpy(x))
    predicted: np.ndarray = logits.argmax(1).numpy()
    return FineTuning(score_of("fine-tuned", predicted, test_y, int(y.max()) + 1), run, tuned, objective.head)


class StandardizedNetwork(nn.Module):
    """A network between standardized columns, called with unstandardized x (n, in); returns y (n, out).

    Args:
        inner: network between standardized columns.
        x, y: samples that define mean and standard deviation; a constant column is only centered.
    """

    def __init__(self, inner: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.inner = inner
        for name, rows in (("x", x), ("y", y)):
            deviation = rows.std(0)
            self.register_buffer(f"{name}_mean", rows.mean(0))
            self.register_buffer(f"{name}_scale", torch.where(deviation > 1e-8, deviation, 1.0))

    x_mean: Tensor
    x_scale: Tensor
    y_mean: Tensor
    y_scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Predictions (n, out)."""
        h: Tensor = self.inner((x - self.x_mean) / self.x_scale)
        return h * self.y_scale + self.y_mean

    def maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight (out, in) and bias (out,) of each linear map from x to y as they are; GELU is between them.

        Standardizing is affine, hence part of the first and the last map: the same function, up to rounding.

        Raises:
            ValueError: the network within is no `MLP`.
        """
        if not isinstance(self.inner, MLP):
            raise ValueError(f"inner must be an MLP to have maps, got {type(self.inner).__name__}")
        maps = [
            (part.weight.detach().double(), part.bias.detach().double())
            for part in self.inner.body
            if isinstance(part, nn.Linear)
        ]
        weight, bias = maps[0]
        weight = weight / self.x_scale
        maps[0] = weight, bias - weight @ self.x_mean.double()
        weight, bias = maps[-1]
        maps[-1] = weight * self.y_scale[:, None], bias * self.y_scale + self.y_mean
        return [(weight.to(self.x_mean), bias.to(self.x_mean)) for weight, bias in maps]


def fit_network(
    x: Tensor, y: Tensor, *, width: int = 64, layers: int = 3, steps: int = 1000, seed: int = 0
) -> StandardizedNetwork:
    """Fit a network by least squares on standardized columns; returned in evaluation mode.

    Args:
        x: (n, in).
        y: (n, out).
        width, layers: of the network.
        steps: of training, of 512 rows each.
        seed: draws weights and rows.
    """
    x, y = x.float(), y.float()
    inner = MLP(x.shape[1], y.shape[1], width, layers, seed)
    network = StandardizedNetwork(inner, x, y)
    rows = _Rows((x - network.x_mean) / network.x_scale, (y - network.y_mean) / network.y_scale)
    recipe = Recipe(steps=steps, batch=512, batch_start=None, learning_rate=3e-3, accelerator="cpu")
    fit(inner, rows, _Squares(), recipe=recipe, evaluations=(), seed=seed, progress=False)
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class _Rows:
    """Rows x with the rows y that belong to them, drawn with replacement."""

    x: Tensor
    y: Tensor

    @property
    def facts(self) -> Facts:
        return Facts(shapes=(tuple(self.x.shape[1:]),))

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        chosen = torch.randint(len(self.x), (n,), generator=generator)
        return Batch((self.x[chosen],), actions=self.y[chosen])


class _Squares(Objective):
    """Mean squared error of the first model's output against the batch's actions."""

    prevents_collapse = False

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        assert batch.actions is not None
        predicted: Tensor = next(iter(models.values())).embed(batch.views[0])
        error = (predicted - batch.actions).square().mean()
        return Loss(error, {"error": error})
