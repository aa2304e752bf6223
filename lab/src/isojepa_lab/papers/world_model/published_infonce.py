"""InfoNCE at the published settings: 20,000 steps, kernel exp(-d^2 / 2), 2 to 64 latents.

The published losses are those of h = z under this kernel, not under the exp(-d^2) of the text. Up to 32
latents each world has three encoders, of which the one of lowest training loss counts, as published.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from isojepa.config import Config
from isojepa.data.processes import NoisyCopies
from isojepa.data.source import Source
from isojepa.encoders.model import embed
from isojepa.objectives.infonce import contrast
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.seeds import generator
from isojepa_lab.papers.world_model.scaling import ATTEMPTS, LAYERS, PUBLISHED_METHODS, RHO
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.measured import lowest_loss, spread, trend
from isojepa_lab.studies.published import published_scaling
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.settings import PUBLISHED_RECIPE, shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, asks, at_most, judge_lines
from isojepa_lab.studies.study import Study

DIMS = (2, 4, 8, 16, 32, 64)
WORLDS = 3
TRAINED, UNTRAINED = "InfoNCE", "random weights"
METHOD = "InfoNCE, published width"
PASS = 0.99  # R^2 of a run that recovered the latents
CLOSE = 0.05  # of R^2, and of the loss in nats
BATCH = 256
LOSS_BATCHES = 40
RISING = 0.002  # of R^2 in the last fifth of the steps


def cells(scale: str) -> list[Cell]:
    """Three worlds in each dimension; encoders as published, and one of random weights."""
    if scale == "quick":
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in _runs(2, TRAINED)]
    runs: list[Cell] = []
    for dim in DIMS:
        runs += _runs(dim, TRAINED, WORLDS, ATTEMPTS if dim <= 32 else 1)
        runs += _runs(dim, UNTRAINED, WORLDS)
    return runs


def _runs(dim: int, encoder: str, worlds: int = 1, attempts: int = 1) -> list[Cell]:
    return crossed(_config, encoder=encoder, dim=dim, world=range(worlds), attempt=range(attempts))


def _config(encoder: str, dim: int, world: int, attempt: int) -> Config:
    mixing: dict[str, Any] = {"mixing": "additive-coupling", "mixing_layers": LAYERS, "mixing_seed": world}
    recipe = replace(PUBLISHED_RECIPE, eval_every=1000, eval_samples=4000)
    if encoder == UNTRAINED:  # one step that moves nothing
        recipe = replace(recipe, steps=1, learning_rate=1e-12)
    return Config(
        world=build_spec("world", process="noisy-copies", dim=dim, rho=RHO, **mixing),
        encoder=build_spec("encoder", "coupling", layers=LAYERS),
        objective=PUBLISHED_METHODS[METHOD],
        training=recipe,
        seed=1000 * attempt + world,
    )


def measure(encoder: nn.Module, world: Source) -> Mapping[str, Any]:
    """The scores of every study, and InfoNCE of fresh pairs in batches of the published size."""
    views = world.sample(LOSS_BATCHES * BATCH, generator(1, "infonce")).views
    embeddings = torch.stack([embed(encoder, view) for view in views])
    return {**score(encoder, world), "infonce": infonce(embeddings)}


def infonce(views: torch.Tensor) -> float:
    """InfoNCE in nats, kernel exp(-d^2 / 2), of views (view, pairs, dim) in batches of the published size."""
    alignment, regularizer = contrast(views.unflatten(1, (-1, BATCH)).double())
    return float(alignment + regularizer) + torch.tensor(float(BATCH)).log().item()


@cache
def loss_of_latents(dim: int) -> float:
    """InfoNCE of h = z."""
    z = NoisyCopies(dim, RHO).sample(LOSS_BATCHES * BATCH, generator(1, "infonce", dim))
    return infonce(torch.stack(z))


def _best(rows: Rows) -> Rows:
    """Of the trained encoders of each world, the one of lowest training loss."""
    return Rows(lowest_loss(rows.where(encoder=TRAINED), "dim", "world"))


def _by_dim(rows: Rows) -> Lines:
    untrained = rows.where(encoder=UNTRAINED)

    def published(dim_rows: Rows) -> dict[str, Any]:
        published = published_scaling("infonce", dim_rows.label("dim"))
        r2, loss = dim_rows.mean("r2"), dim_rows.mean("infonce")
        return {
            "published": published.r2_h_to_z,
            "published_spread": published.r2_h_to_z_std,
            "published_loss": published.regularizer_loss,
            "published_orthogonality": published.orthogonality_error,
            "gap": None if r2 is None else abs(r2 - published.r2_h_to_z),
            "loss_gap": None if loss is None else abs(loss - published.regularizer_loss),
            "latents": loss_of_latents(published.dim),
            "untrained": untrained.where(dim=published.dim).mean("r2"),
        }

    return _best(rows).lines(
        ["dim"],
        "r2",
        "infonce",
        published,
        spread=lambda own: spread(own, "r2"),
        orthogonality="orthogonality_error",
        observed="r2_x_to_z",
        worlds=len,
        trend=lambda own: trend(own, RISING),
    )


def _charts(rows: Rows) -> list[Chart]:
    trained = _best(rows)
    ours = Curve("ours", {x: y for x, y in trained.points("dim", "r2").items() if y is not None}, 1)
    published: dict[float, float | None] = {dim: published_scaling("infonce", dim).r2_h_to_z for dim in DIMS}
    by_dim = [ours, Curve("published", published, 1, "dotted")]
    linear: dict[str, Any] = {"scale": "linear"}
    steps = []
    for index, ((dim,), dim_rows) in enumerate(trained.by("dim").items()):
        values: dict[float, list[float]] = {}
        for row in dim_rows:
            for step, value in row.scores.get("curve") or ():
                values.setdefault(step, []).append(value)
        steps.append(Curve(f"{dim} latents", {x: sum(y) / len(y) for x, y in values.items()}, index + 1))
    return [
        curves_chart("Recovery", "latents", "R² of z from h", by_dim, **linear),
        curves_chart(
            "While training", "steps", "R² of z from h", steps, scale="linear", across_scale="linear"
        ),
    ]


STUDY = Study.of_file(
    __file__,
    title="InfoNCE at the published settings",
    source="Klindt, LeCun & Balestriero (2026), Table 1 and Appendix H, the table of InfoNCE",
    cells=cells,
    score=measure,
    curve="r2",
    tables=TableSpec.named(dims=_by_dim),
    charts=[ChartSpec("recovery", _charts)],
    statements=Statement.named(
        alike=lambda rows: judge_lines(
            _by_dim(rows).known("r2"),
            lambda line: (line["r2"] > PASS) == (line["published"] > PASS),
            "{dim} ({r2:.4f}, published {published:.4f})",
        ),
        close=asks(_by_dim, "gap", at_most(CLOSE), "{dim} ({r2:.4f}, published {published:.4f})"),
        loss=asks(
            _by_dim, "loss_gap", at_most(CLOSE), "{dim} ({infonce:.3f}, published {published_loss:.3f})"
        ),
    ),
)
