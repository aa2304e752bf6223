"""Encoders that do not have the form of the mixing: residual perceptrons of 8, 32 and 128 latents.

The published scaling experiment has the matched coupling as encoder, which preserves volume and is unmixed by
alignment alone. Here nothing is matched. SIGReg's weight is the one whose label-free bound is lowest.
"""

from statistics import fmean
from typing import Any

from isojepa.config import Config
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, curves_chart
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.measured import spread, trend
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, asks, judge_lines
from isojepa_lab.studies.study import Study

MIXINGS: dict[str, dict[str, Any]] = {
    "additive coupling": {"mixing": "additive-coupling", "mixing_layers": 4},
    "lift": {"mixing": "lift"},
    "perceptron": {"mixing": "perceptron"},
}
SIGREG, WHITENING, INFONCE, UNTRAINED = "SIGReg", "whitening", "sliced InfoNCE", "random weights"
WEIGHTS = {8: (1e-4, 1e-3, 1e-2), 32: (1e-4, 1e-3, 1e-2), 128: (1e-3, 1e-2)}
SIZES = {8: (128, 4000), 32: (256, 6000), 128: (384, 4000)}  # latents: width, steps
SEEDS = {8: 3, 32: 3, 128: 1}
RATES = {8: 5e-3, 32: 3e-3, 128: 2e-3}
RHO, BATCH, BLOCKS = 0.95, 512, 4
PASS = 0.99  # R^2
RISING = 0.002  # of R^2 in the last fifth of the steps


def cells(scale: str) -> list[Cell]:
    """Every mixing, dimension and objective; SIGReg at several weights."""
    if scale == "quick":
        quick = crossed(_config, mixing="lift", objective=SIGREG, weight=1e-3, latents=8, seed=0)
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    runs: list[Cell] = []
    for latents in SIZES:
        seeds = range(3 if scale == "paper" else SEEDS[latents])
        where: dict[str, Any] = {"mixing": MIXINGS, "latents": latents, "seed": seeds}
        runs += crossed(_config, objective=SIGREG, weight=WEIGHTS[latents], **where)
        for objective, weight in ((WHITENING, 0.1), (INFONCE, 0.2), (UNTRAINED, 0.0)):
            runs += crossed(_config, objective=objective, weight=weight, **where)
    return runs


def _config(mixing: str, objective: str, weight: float, latents: int, seed: int) -> Config:
    objectives = {
        SIGREG: build_spec("objective", "lejepa", weight=weight),
        UNTRAINED: build_spec("objective", "lejepa"),
        WHITENING: build_spec("objective", "whitening", weight=weight),
        INFONCE: build_spec(
            "objective", "sliced-infonce", sigma="matched", k=4, weight=weight, slices=max(8, latents // 4)
        ),
    }
    width, steps = SIZES[latents]
    recipe = Recipe(
        steps=steps,
        batch=BATCH,
        batch_start=None,
        learning_rate=RATES[latents],
        eval_every=steps // 20,
        eval_samples=4000,
    )
    if objective == UNTRAINED:  # one step that moves nothing
        recipe = Recipe(steps=1, batch=BATCH, batch_start=None, learning_rate=1e-12, eval_samples=4000)
    return Config(
        world=build_spec("world", dim=latents, rho=RHO, mixing_seed=seed, **MIXINGS[mixing]),
        encoder=build_spec("encoder", "residual-mlp", width=width, blocks=BLOCKS),
        objective=objectives[objective],
        training=recipe,
        seed=seed,
    )


def _chosen(rows: Rows) -> Rows:
    """Rows of SIGReg at the weight of the lowest bound, for each mixing and number of latents, and others."""
    chosen = Rows(row for row in rows if row.labels["objective"] != SIGREG)
    for places in rows.where(objective=SIGREG).by("mixing", "latents").values():
        bounds = {weight: group.mean("bound") for (weight,), group in places.by("weight").items()}
        finite = {weight: bound for weight, bound in bounds.items() if bound is not None}
        if finite:
            chosen += places.where(weight=min(finite, key=lambda weight: finite[weight]))
    return Rows(chosen)


def _pairs(rows: Rows) -> float | None:
    """Millions of pairs until R^2 passes 0.99, a mean over seeds; None where a seed does not get there."""
    reached = []
    for row in rows:
        steps = [step for step, r2 in row.scores.get("curve") or () if r2 >= PASS]
        if not steps:
            return None
        reached.append(min(steps) * BATCH / 1e6)
    return fmean(reached) if reached else None


def _lines(rows: Rows) -> Lines:
    return rows.where(objective=lambda name: name != UNTRAINED).lines(
        ["mixing", "latents", "objective", "weight"],
        *("r2", "bound", "error", "sigreg"),
        seeds=len,
        spread=lambda own: spread(own, "r2"),
        trend=lambda own: trend(own, RISING),
        observed="r2_x_to_z",
        pairs=_pairs,
        minutes=lambda own: own.mean("r2") and fmean(row.seconds for row in own) / 60,
    )


def _best(rows: Rows) -> Lines:
    chosen = _chosen(rows)
    return chosen.where(objective=lambda name: name != UNTRAINED).pivot(
        ["mixing", "latents"], "{objective}", "r2"
    )


def _label_free(rows: Rows) -> Judgement:
    """Whether the weight of the lowest bound is, of those tried, the one of the highest R^2."""
    lines = Lines()
    for (mixing, latents), group in rows.where(objective=SIGREG).by("mixing", "latents").items():
        by_weight = {weight: part.mean("r2") for (weight,), part in group.by("weight").items()}
        scores = {weight: r2 for weight, r2 in by_weight.items() if r2 is not None}
        if len(scores) > 1 and group.mean("bound") is not None:
            weight = _chosen(group)[0].labels["weight"]
            best = max(scores, key=lambda one: scores[one])
            lines.append(
                {
                    "mixing": mixing,
                    "latents": latents,
                    "weight": weight,
                    "r2": scores[weight],
                    "best": best,
                    "best_r2": scores[best],
                }
            )
    text = "{mixing}, {latents} ({weight:g}: {r2:.4f}, best {best:g}: {best_r2:.4f})"
    return judge_lines(lines, lambda line: line["best_r2"] - line["r2"] <= RISING, text)


def _charts(rows: Rows) -> list[Chart]:
    return [
        curves_chart(
            str(mixing),
            "latents",
            "1 − R² of z from h",
            group.curves("latents", "r2", "{objective}", height=lambda r2: max(1e-6, 1 - r2)),
        )
        for (mixing,), group in _chosen(rows).by("mixing").items()
    ]


STUDY = Study.of_file(
    __file__,
    title="Encoders of no matched form",
    source="Klindt, LeCun & Balestriero (2026), Table 1, whose encoders are matched to the mixing",
    cells=cells,
    curve="r2",
    tables=TableSpec.named(best=_best, runs=_lines),
    charts=[ChartSpec("recovery", _charts)],
    statements=Statement.named(
        recovered=asks(
            lambda rows: _lines(_chosen(rows)).where(objective=SIGREG),
            "r2",
            lambda r2: r2 >= PASS,
            "{mixing}, {latents} latents ({r2:.4f})",
        ),
        label_free=_label_free,
    ),
)
