"""Fine-tuning: all of a pretrained backbone learns from labels, its early layers slower than its late ones.

The learning rate of layer l of L, counted from the input, is multiplied by

    decay ** (L - l + 1),   l = 1 .. L,

and that of the new linear head by 1 (Clark et al., 2020, for text; Bao et al., 2022, for ViTs). Layers are
those that a model of timm names itself (`group_matcher`): the stem, each block, the last norm. Of other
modules each part that holds parameters is one, in the order in which they were made; parts of a Sequential
count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.arguments import check_number, checked
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.model import Headed, as_model, evaluating
from isojepa.evaluations.features import features_of
from isojepa.evaluations.few_shot import common_labels
from isojepa.evaluations.probes import Score, score_of
from isojepa.objectives.supervised import Supervised
from isojepa.training.loop import fit
from isojepa.training.recipe import Settings
from isojepa.training.run import Run
from isojepa.vision import import_timm
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.images.source import Images
from isojepa.worlds.images.views import Views, shorter_side

_FEWEST = 3  # layers of a model; some of timm's, such as LeViT, name parts that they do not have


class LayerDecay(nn.Module):
    """A backbone whose early layers learn slower.

    Args:
        backbone: a `Model` or any module; of a `Headed` one only its backbone is taken.
        decay: factor from a layer to the one before, in (0, 1].

    Example:
        >>> model = LayerDecay(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), decay=0.5)
        >>> sorted(set(model.learning_rates().values()))
        [0.25, 0.5]
    """

    @checked
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
        found = import_timm("models").group_parameters(module, matcher, reverse=True)
        layers = _numbered({name: found[name] for name, _ in module.named_parameters()})
        if len(set(layers.values())) >= _FEWEST:
            return layers
    parts = _parts(module)
    return _numbered(
        {
            name: max((i for i, part in enumerate(parts) if name.startswith(part)), default=-1)
            for name, _ in module.named_parameters()
        }
    )


def _parts(module: nn.Module, prefix: str = "") -> list[str]:
    """Beginnings of the names of each layer's parameters, in order."""
    found: list[str] = []
    for name, part in module.named_children():
        if next(part.parameters(), None) is None:
            continue
        deeper = isinstance(part, nn.Sequential) or type(part).__module__.startswith("isojepa.")
        found += _parts(part, f"{prefix}{name}.") if deeper and _holds(part) else [f"{prefix}{name}."]
    return found


def _holds(module: nn.Module) -> bool:
    """Whether a module's parameters are all in its children."""
    return next(module.parameters(recurse=False), None) is None and any(module.children())


def _numbered(layers: Mapping[str, int]) -> dict[str, int]:
    """The same layers by numbers without gaps."""
    numbers = {layer: number for number, layer in enumerate(sorted(set(layers.values())))}
    return {name: numbers[layer] for name, layer in layers.items()}


@dataclass(frozen=True)
class FineTuning:
    """A fine-tuned model.

    Attributes:
        score: on the test pictures.
        run: of the training.
        model, head: what was trained; `head(model(x))` are the logits.
    """

    score: Score
    run: Run
    model: nn.Module
    head: nn.Module


def plain_crops(
    size: int, mean: tuple[float, ...] | None = None, std: tuple[float, ...] | None = None
) -> Views:
    """What is seen of training pictures by default: two crops of (0.6, 1), mirrored or not."""
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


@checked
def fine_tune(
    model: nn.Module,
    train: Pictures,
    test: Pictures,
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
        model: pretrained; trained in place. Of a `Headed` one the projector is left out.
        train, test: pictures with labels of the same classes.
        decay: factor on the learning rate from a layer to the one before.
        views: what is seen of training pictures; by default `plain_crops` at their shorter side.
        seed: draws the head, the pictures and the crops.
        record: folder of the run; none keeps everything in memory.
        progress: draw a progress bar; by default when standard error is a terminal.
        settings: of the recipe, e.g. `steps=500`; where nothing is said AdamW at 5e-4 with weight decay 0.05.

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
