"""Fewer dimensions than latents, and latents that are rarely active: are more of them kept than dimensions?

A linear map reads m of n white latents' variance off m dimensions, whatever the embedding. Superposed latents
are more than that: they lie along n directions of m dimensions and can be told apart because few are active
at a time, by a small network that reads them off the embedding.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa.config import Config
from isojepa.data.source import Source
from isojepa.encoders.model import embed
from isojepa.linear import held_out_r2, least_squares
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, curves_chart
from isojepa.seeds import generator
from isojepa.training.fine_tuning import fit_network
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.measured import mean, trend
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.scores import losses
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, asks, below
from isojepa_lab.studies.study import Study

NORMAL = "normal"
LAWS: dict[str, dict[str, Any]] = {  # of the hidden centers of a pair and of its noise
    NORMAL: {},
    "Laplace": {"law": "laplace"},
    "Student t 3": {"law": "student-t", "shape": 3.0},
    "sparse, 0.1": {"law": "sparse", "shape": 0.1},
    "sparse, 0.02": {"law": "sparse", "shape": 0.02},
}
SPARSE = ("sparse, 0.1", "sparse, 0.02")
OBJECTIVES = {
    "SIGReg": build_spec("objective", "lejepa", weight=2e-3),
    "whitening": build_spec("objective", "whitening", weight=0.1),
    "InfoNCE": build_spec("objective", "infonce", sigma="matched"),
}
DIMS = ((4, 2), (8, 4), (16, 8), (32, 16), (32, 8))  # latents, embedding
RHO = 0.95
SEEDS = 2
SAMPLES, NETWORK_STEPS = 40_000, 3_000
MORE = 0.05  # of R^2 that a network reads beyond a linear map: superposed
RISING = 0.005  # of R^2 in the last fifth of the steps


def cells(scale: str) -> list[Cell]:
    """Five laws, three objectives, half and a quarter of the dimensions; random weights beside."""
    if scale == "quick":
        quick = crossed(_config, law=SPARSE[0], objective="SIGReg", latents=4, dim=2, seed=0, trained=1)
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    runs: list[Cell] = []
    for latents, dim in DIMS:
        sizes = {"latents": latents, "dim": dim}
        runs += crossed(_config, law=LAWS, objective=OBJECTIVES, **sizes, seed=range(SEEDS), trained=1)
        runs += crossed(_config, law=LAWS, objective="SIGReg", **sizes, seed=range(SEEDS), trained=0)
    return runs


def _config(law: str, objective: str, latents: int, dim: int, seed: int, trained: int) -> Config:
    recipe = Recipe(steps=2000, batch=512, batch_start=None, learning_rate=5e-3, eval_every=200)
    if not trained:  # one step that moves nothing
        recipe = Recipe(steps=1, batch=512, batch_start=None, learning_rate=1e-12)
    return Config(
        world=build_spec(
            "world", process="noisy-copies", dim=latents, rho=RHO, mixing="identity", **LAWS[law]
        ),
        encoder=build_spec("encoder", "mlp", dim=dim, width=128, layers=3),
        objective=OBJECTIVES[objective],
        training=recipe,
        seed=seed,
    )


def measure(encoder: nn.Module, world: Source) -> Mapping[str, Any]:
    """What a linear map and a small network read of the latents, and where their directions lie."""
    batch = world.sample(2 * SAMPLES, generator(1, "superposition"))
    h, z = embed(encoder, batch.views[0]).double(), batch.latents[0].double()
    fit, test = slice(SAMPLES), slice(SAMPLES, None)
    network = fit_network(h[fit], z[fit], steps=NETWORK_STEPS, seed=1)
    with torch.no_grad():
        residual = z[test] - network(h[test].float()).double()
    read = 1 - (residual.square().mean(0) / z[test].var(0)).numpy()
    directions = least_squares(z.numpy(), h.numpy()).matrix.T  # (dim, latents)
    directions = directions / np.linalg.norm(directions, axis=0).clip(1e-12)
    cosines = directions.T @ directions
    overlap = (np.square(cosines).sum() - len(cosines)) / (len(cosines) * (len(cosines) - 1))
    return {
        "r2": held_out_r2(h.numpy(), z.numpy()),
        "network": float(read.mean()),
        "half": int((read > 0.5).sum()),
        "overlap": float(overlap),
        **losses(encoder, world),
    }


def _lines(rows: Rows) -> Lines:
    return rows.where(trained=1).lines(
        ["latents", "dim", "law", "objective"],
        *("r2", "network", "half", "overlap", "sigreg", "alignment"),
        seeds=len,
        trend=lambda own: trend(own, RISING),
        ratio=lambda own: own.label("dim") / own.label("latents"),
        more=lambda own: (mean(own, "network") or 0.0) - (mean(own, "r2") or 0.0),
        random=lambda own: rows.where(
            trained=0, **{name: own.label(name) for name in ("law", "latents", "dim")}
        ).mean("network"),
    )


def _charts(rows: Rows) -> list[Chart]:
    """What a network reads beyond a linear map, by the number of latents at half as many dimensions."""
    halves = rows.where(trained=1, dim=lambda dim: dim > 1)
    charts = []
    for (objective,), group in halves.by("objective").items():
        half = Rows(row for row in group if 2 * row.labels["dim"] == row.labels["latents"])
        charts.append(
            curves_chart(
                str(objective),
                "latents",
                "R² of z from h by a network",
                half.curves("latents", "network", "{law}"),
                scale="linear",
            )
        )
    return charts


STUDY = Study.of_file(
    __file__,
    title="Superposition",
    source="Klindt, LeCun & Balestriero (2026), Limitations: fewer dimensions than latents",
    cells=cells,
    score=measure,
    curve="r2",
    tables=TableSpec.named(runs=_lines),
    charts=[ChartSpec("network", _charts)],
    statements=Statement.named(
        sparse=asks(
            lambda rows: _lines(rows).where(law=SPARSE),
            "more",
            lambda more: more > MORE,
            "{law}, {objective}, {latents} in {dim} ({more:+.3f})",
            order="more",
        ),
        normal=asks(
            lambda rows: _lines(rows).where(law=NORMAL),
            "more",
            below(MORE),
            "{objective}, {latents} in {dim} ({more:+.3f})",
            order="more",
        ),
    ),
)
