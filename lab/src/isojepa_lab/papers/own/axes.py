"""Latents by name: trained encoders of Langevin worlds, unmixed and straightened, two to sixteen latents.

Every law that has a discrete spectrum, but for the normal one. Beside them laws with tails too heavy for one,
whose latents no embedding shows exactly, and worlds whose axes have no names: Gaussian latents and copulas,
of one rate. InfoNCE with the kernel that fits the world's correlation is what does best there (`objectives`).
"""

from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from isojepa.config import Config
from isojepa.encoders.coupling import FreeCouplingSpec
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.infonce import InfoNCESpec
from isojepa.registry import Spec
from isojepa.report.charts import Chart, Reference, curves_chart
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.own.axis_scores import PAIRS, SCORED, score
from isojepa_lab.papers.own.named_worlds import (
    COPULA,
    DISCRETE,
    GAUSSIAN,
    HEAVY,
    LANGEVIN,
    NORMAL,
    PLANE,
    world,
)
from isojepa_lab.papers.own.named_worlds import WIDE as MIXED
from isojepa_lab.studies.cells import Cell, Row, crossed
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Statement, asks, at_most
from isojepa_lab.studies.study import Study

TARGET = 0.99  # rank correlation of each latent with its axis, and R^2 once straightened
LOST = 0.5  # linear R^2 of a latent below which the embedding does not show it
SEEDS = range(3)
DIMS = (4, 8, 16)
# pairs of many latents carry more than a batch can show, unless they are further apart
RHO = {2: 0.9, 4: 0.9, 8: 0.9, 16: 0.8}
RECIPES: dict[int, tuple[Spec, Recipe]] = {
    2: (MLPSpec(width=48), Recipe(steps=1500, batch=512, learning_rate=1e-2)),
    4: (MLPSpec(width=128, layers=4), Recipe(steps=2500, batch=512, learning_rate=5e-3)),
    8: (MLPSpec(width=192, layers=4), Recipe(steps=6000, batch=512, learning_rate=3e-3)),
    16: (MLPSpec(width=256, layers=4), Recipe(steps=10_000, batch=512, learning_rate=3e-3)),
}
PERCEPTRON, FORMED = "GELU perceptron", "of its form"
# encoders of the form of what undoes a mixing, where a perceptron would need too many pairs
FORMS: dict[str, Spec] = {
    "affine-coupling": FreeCouplingSpec(layers=2, hidden=32),
    "additive-coupling": FreeCouplingSpec(layers=2),
}
FORM_RECIPE = Recipe(steps=3000, batch=512, learning_rate=6e-3)
FORM_STEPS = {("affine-coupling", 16): 4500}  # whose scales of so many latents take longer
LIFTS = ("lift", "steeper lift")
SINH = MLPSpec(width=64, layers=3, activation="sinh")
SINH_RECIPE = Recipe(batch=512, learning_rate=1e-2)
SINH_STEPS = 400  # for each latent
SINH_LONGER = {16: Recipe(steps=12_800, batch=1024, learning_rate=1e-2)}  # what is left turns axes of so many
FOUND_ON = {8: 200_000, 16: 1_600_000}  # pairs that axes of so many latents are found on
NEEDED = {8: ("steeper lift", *FORMS), 16: tuple(MIXED)}  # mixings, by latents, that are undone by such
BLIND = (GAUSSIAN, COPULA)


def cells(scale: str) -> list[Cell]:
    """Laws, mixings and dimensions, three seeds each; at paper scale also of what is shown beside them."""
    if scale == "quick":
        quick = _runs(LANGEVIN, "uniform", 2, "sinusoid", 0)
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    whole = scale == "paper"
    cells = _runs(LANGEVIN, DISCRETE, 2, PLANE, SEEDS)
    for dim in DIMS:
        needed = NEEDED.get(dim, ())
        cells += _runs(LANGEVIN, DISCRETE, dim, [name for name in MIXED if name not in needed], SEEDS)
        cells += _runs(LANGEVIN, DISCRETE, dim, needed, SEEDS, FORMED)
    # perceptrons all the same, to see what the form is worth
    cells += _runs(LANGEVIN, DISCRETE, 8, "steeper lift", SEEDS)
    cells += _runs(LANGEVIN, DISCRETE, 16, LIFTS if whole else "lift", SEEDS if whole else 0)
    cells += _runs(LANGEVIN, HEAVY, 2, PLANE, SEEDS if whole else 0)
    cells += _runs(GAUSSIAN, NORMAL, 2, PLANE, SEEDS)
    return cells + _runs(COPULA, DISCRETE, 2, PLANE, SEEDS if whole else 0)


def _runs(process: str, law: Any, dim: int, mixing: Any, seed: Any, encoder: str = PERCEPTRON) -> list[Cell]:
    return crossed(_config, process=process, law=law, dim=dim, mixing=mixing, encoder=encoder, seed=seed)


def _config(process: str, law: str, dim: int, mixing: str, encoder: str, seed: int) -> Config:
    if encoder == PERCEPTRON:
        spec, recipe = RECIPES[dim]
    elif mixing in LIFTS:
        spec = SINH
        recipe = SINH_LONGER.get(dim, replace(SINH_RECIPE, steps=SINH_STEPS * dim))
    else:
        spec = FORMS[mixing]
        recipe = replace(FORM_RECIPE, steps=FORM_STEPS.get((mixing, dim), FORM_RECIPE.steps))
    return Config(
        world=world(process, law, mixing, dim, RHO[dim]),
        encoder=spec,
        objective=InfoNCESpec(sigma="matched"),
        training=replace(recipe, eval_every=recipe.steps, eval_samples=2000),
        seed=seed,
    )


def _named_worlds(rows: Rows) -> Rows:
    """Worlds with names, once each, by encoders of the form of what undoes the mixing where it needs them."""
    selection = rows.where(process=LANGEVIN, law=tuple(DISCRETE))
    return Rows(row for row in selection if row.labels["encoder"] == FORMED or not _is_needed(row))


def _is_needed(row: Row) -> bool:
    return row.labels["mixing"] in NEEDED.get(int(row.labels["dim"]), ())


def _each(rows: Rows) -> Lines:
    """Worlds with names, each seed by itself."""
    return _named_worlds(rows).lines(
        ["dim", "law", "mixing", "seed"],
        *("rank", "r2", "linear", "straight", "named"),
        missing=lambda own: own.label("dim") - int(own[0].scores["named"]),
    )


def _worst(own: Rows) -> dict[str, Value]:
    """The least of each score over mixings and seeds, and how many axes have a name."""
    least = {name: min(own.values(name), default=None) for name in ("rank", "r2", "straight")}
    axes = sum(int(row.labels["dim"]) for row in own)
    return {**least, "runs": len(own), "named": sum(own.values("named")) / axes}


def _by_law(rows: Rows) -> Lines:
    heavy = rows.where(process=LANGEVIN, law=tuple(HEAVY))
    return Rows([*_named_worlds(rows), *heavy]).lines(["law", "dim"], _worst)


def _forms(rows: Rows) -> Lines:
    """Both kinds of encoders where there are both: the least over seeds, and the mean time to train."""
    return _compared(rows).lines(
        ["dim", "mixing", "law", "encoder"], _worst, seconds=lambda own: fmean(row.seconds for row in own)
    )


def _compared(rows: Rows) -> Rows:
    return Rows(row for row in rows.where(process=LANGEVIN, mixing=LIFTS) if _is_needed(row))


def _better(rows: Rows) -> Lines:
    """By how much the encoder of the form comes nearer to the latents than a perceptron of the same world."""
    lines = Lines()
    for (dim, mixing, law, seed), group in _compared(rows).by("dim", "mixing", "law", "seed").items():
        errors = {row.labels["encoder"]: 1 - row.scores["straight"] for row in group}
        if len(errors) == 2:
            line = {"dim": dim, "mixing": mixing, "law": law, "seed": seed}
            lines.append(line | {"ratio": errors[PERCEPTRON] / errors[FORMED]})
    return lines


def _blind(rows: Rows) -> Lines:
    selection = rows.where(process=BLIND)
    return selection.lines(
        ["process", "law"], _worst, any=lambda runs: sum(n > 0 for n in runs.values("named"))
    )


def _reaches(key: str) -> Judge:
    text = f"{{law}}, {{dim}} latents, {{mixing}}, seed {{seed}} ({{{key}:.4f}})"
    return asks(_each, key, lambda value: value >= TARGET, text)


def _numbers(rows: Rows) -> dict[str, Value]:
    lost = sum(r2 < LOST for r2 in rows.values("r2"))
    return {
        "pairs": PAIRS,
        "eight": FOUND_ON[8],
        "sixteen": FOUND_ON[16],
        "width": SINH.width,
        "scored": SCORED,
        "lost": lost or None,
        "limit": LOST,
    }


def _panels(rows: Rows) -> list[Chart]:
    named, target = _named_worlds(rows), [Reference(1 - TARGET, "target")]
    kinds = {"rank": "1 − rank correlation", "r2": "1 − R², linear map", "straight": "1 − R², straightened"}
    return [
        curves_chart(title, "latents", "mean over mixings and seeds", _left(named, name), references=target)
        for name, title in kinds.items()
    ]


def _left(rows: Rows, name: str) -> list[Any]:
    return rows.curves("dim", name, "{law}", height=lambda value: max(1 - value, 1e-6))


STUDY = Study.of_file(
    __file__,
    title="Latents by name",
    source="nothing published: what the converse of Theorem 2 leaves open outside the Gaussian",
    cells=cells,
    score=partial(score, pairs=FOUND_ON),
    tables=TableSpec.named(laws=_by_law, forms=_forms, each=_each, blind=_blind),
    charts=[ChartSpec("recovery", _panels, 3, (4.4, 4.4))],
    statements=Statement.named(
        rank=_reaches("rank"),
        straight=_reaches("straight"),
        named=asks(
            _each, "missing", at_most(0), "{law}, {dim} latents, {mixing}, seed {seed} ({named:.0f} named)"
        ),
        forms=asks(_better, "ratio", lambda ratio: ratio > 1, "{law}, {dim} latents, {mixing} ({ratio:.1f})"),
        blind=asks(_blind, "any", at_most(0), "{law} ({process}: {any} of {runs} runs)"),
    ),
    numbers=_numbers,
)
