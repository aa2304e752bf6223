"""Agents that never see each other's pictures: trained apart by one of six objectives, and then related.

Each is a small vision transformer. At checkpoints the features of paired states are kept, so that what
relates two agents can be followed through training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa import runs
from isojepa.alignment import compare, layer_cka
from isojepa.alignment.maps import AlignmentMap
from isojepa.config import Config
from isojepa.data.images.image_sets import ImageSubset
from isojepa.data.images.source import ImageObservers, Images
from isojepa.encoders.depth import layer_rows
from isojepa.encoders.model import Model
from isojepa.probes import features_of, linear_probe
from isojepa.registry import build_spec
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.social.apart import turned_orthogonality
from isojepa_lab.stress import StressCurve

JEPA, RANDOM = "I-JEPA", "random weights"
SINGLE = {JEPA: "masked", "MAE": "mae", "autoencoder": "autoencoder", RANDOM: "random"}  # no projector
OBJECTIVES = SINGLE | {"LeJEPA": "lejepa-images", "SimCLR": "simclr"}
DECODER = {"decoder_width": 64, "decoder_depth": 1, "decoder_heads": 4}
OPTIONS: dict[str, dict[str, Any]] = {"mae": {"patch": 4, **DECODER}, "autoencoder": DECODER}
NETWORK = "patch_size=4,depth=3,embed_dim=128,num_heads=4"
RATE, LOOKS, APART = 1e-3, 10, 1000  # LOOKS: checkpoints; APART: between the seeds of two agents
LAYER_ROWS = 2000  # pictures whose layers are compared


@dataclass
class Checkpoints:
    """Features of paired states while an agent trains, and a probe of them; an `Evaluation`."""

    fitted: ImageSubset
    held: ImageSubset
    features: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    name: str = "checkpoints"
    primary: str = "probe"
    every: int | None = None

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Keep the features, and score the probe."""
        model = next(iter(models.values()))
        x, test_x = (features_of(model, part) for part in (self.fitted, self.held))
        self.features.append((x, test_x))
        accuracy = linear_probe(x, self.fitted.labels, test_x, self.held.labels, penalties=(1e-2,)).accuracy
        return {"probe": accuracy}


def train_agent(
    seen: ImageObservers, number: int, look: Checkpoints, asked: Mapping[str, Any]
) -> tuple[nn.Module, list[tuple[int, float, float]]]:
    """One agent: its model, and step, loss and probe at each checkpoint."""
    objective, seed = OBJECTIVES[asked["method"]], asked["seed"] + APART * number
    single = objective in SINGLE.values()
    name = seen.names[number]
    views = replace(seen.source(name).views, global_views=1 if single else 2, local_views=0)
    source = Images(seen.pictures(name, "train"), views)
    projector = "none" if single else "256-64"
    spec = build_spec(
        "encoder", "backbone", backbone="vit_tiny_patch16_224", projector=projector, options=NETWORK
    )
    context = runs.context_of(Config(build_spec("world", "images"), spec, seed=seed), source)
    model: nn.Module = spec.build(context)
    steps = asked["steps"] if objective != "random" else 1
    recipe = Recipe(
        steps=steps,
        batch=asked["batch"],
        batch_start=None,
        learning_rate=RATE if objective != "random" else 1e-12,
        weight_decay=0.05,
        warmup=0.05,
        eval_every=max(1, steps // LOOKS),
        precision="bfloat16",
    )
    loss = build_spec("objective", objective, **OPTIONS.get(objective, {})).resolve(context).build(context)
    run = fit(model, source, loss, recipe=recipe, evaluations=(look,), seed=seed, progress=False)
    return model, [(row["step"], row.get("loss", 0.0), row["probe"]) for row in run.metrics]


def related(fitted: Sequence[np.ndarray], held: Sequence[np.ndarray], ids: np.ndarray) -> dict[str, Any]:
    """Algorithm 1: a ridge map of standardized rows, its metrics on held-out states, and its spectrum."""
    keep = [rows.std(0) > 1e-6 * rows.std() for rows in fitted]
    x, y = (rows[:, columns] for rows, columns in zip(fitted, keep, strict=True))
    a, b = (rows[:, columns] for rows, columns in zip(held, keep, strict=True))
    fitted_map = AlignmentMap("ridge").fit(x, y)
    scores = compare(a, b, map=fitted_map, ids=ids, ks=(10,))
    return {
        "r2": scores.aligned["R2"].value,
        "mse": scores.aligned["MSE"].value / b.shape[1],
        "dsc": scores.aligned["DSC"].value,
        "nos": scores.aligned["NOS@10"].value,
        "cka": scores.raw["unbiased CKA"].value,
        "condition": fitted_map.condition_,
        "orthogonality": turned_orthogonality(fitted_map),
        "spectrum": [float(f"{value:.4g}") for value in fitted_map.singular_values_],
    }


def points_of(curve: StressCurve) -> list[list[Any]]:
    """Setting, metric, value and prediction of each point."""
    return [[point.x, point.metric, point.value, point.predicted] for point in curve.points]


def layers_of(agents: Sequence[nn.Module], parts: Sequence[ImageSubset]) -> list[list[float]]:
    """Unbiased CKA between the layers of the agents."""
    rows = []
    for model, part in zip(agents, parts, strict=True):
        x = part.read(torch.arange(min(LAYER_ROWS, len(part))))
        scaled = (torch.as_tensor(x).float() / 255 - part.mean[0]) / part.std[0]
        rows.append([layer.numpy() for layer in layer_rows(model, scaled).values()])
    return [[float(value) for value in line] for line in layer_cka(*rows)]


def at_checkpoints(looks: Sequence[Checkpoints], losses: Sequence[Any]) -> list[list[float]]:
    """Step, mean loss, mean probe and R^2 between the agents at each checkpoint (Appendix D.5)."""
    lines = []
    for index, (first, second) in enumerate(zip(*(look.features for look in looks), strict=True)):
        fitted = AlignmentMap("ridge").fit(first[0], second[0])
        step, loss, probe = (fmean(values) for values in zip(*(one[index] for one in losses), strict=True))
        lines.append([step, loss, probe, fitted.score(first[1], second[1])])
    return lines
