"""Latents by name: trained encoders of Langevin worlds, unmixed and straightened, two to sixteen latents.

Every law that has a discrete spectrum, but for the normal one. Beside them laws with tails too heavy for one,
whose latents no embedding shows exactly, and worlds whose axes have no names: Gaussian latents and copulas,
of one rate. InfoNCE with the kernel that fits the world's correlation is what does best there (`objectives`).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from isojepa.config import Config
from isojepa.encoders.coupling import FreeCouplingSpec
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.infonce import InfoNCESpec
from isojepa.papers.own.axis_scores import PAIRS, SCORED, score
from isojepa.papers.own.named_worlds import COPULA, DISCRETE, GAUSSIAN, HEAVY, LANGEVIN, NORMAL, PLANE, world
from isojepa.papers.own.named_worlds import WIDE as MIXED
from isojepa.registry import Spec
from isojepa.report.charts import Chart, Reference, curves_chart
from isojepa.studies.cells import Cell, crossed
from isojepa.studies.findings import Value
from isojepa.studies.rows import Lines, Rows
from isojepa.studies.settings import shortened
from isojepa.studies.specs import ChartSpec, TableSpec
from isojepa.studies.statements import Judge, Statement, asks, at_most
from isojepa.studies.study import Study
from isojepa.training.recipe import Recipe

TARGET = 0.99  # rank correlation of each latent with its axis, and R^2 once straightened
LOST = 0.5  # linear R^2 of a latent below which the embedding does not show it
SEEDS = range(3)
DIMS = {4: range(1), 8: SEEDS, 16: range(1)}  # seeds at standard scale
# pairs of many latents tell more than a batch can show, unless they are further apart
RHO = {2: 0.9, 4: 0.9, 8: 0.9, 16: 0.8}
RECIPES: dict[int, tuple[Spec, Recipe]] = {
    2: (MLPSpec(width=48), Recipe(steps=1500, batch=512, learning_rate=1e-2)),
    4: (MLPSpec(width=128, layers=4), Recipe(steps=2500, batch=512, learning_rate=5e-3)),
    8: (MLPSpec(width=192, layers=4), Recipe(steps=6000, batch=512, learning_rate=3e-3)),
    16: (MLPSpec(width=256, layers=4), Recipe(steps=10_000, batch=512, learning_rate=3e-3)),
}
# encoders of the form of a mixing, for whose products of many latents a perceptron needs too long
MATCHED: dict[str, Spec] = {
    "affine-coupling": FreeCouplingSpec(layers=2, hidden=32),
    "additive-coupling": FreeCouplingSpec(layers=2),
}
MATCHED_RECIPE = Recipe(steps=3000, batch=512, learning_rate=6e-3)
EACH = 25_000  # pairs for each latent, that axes of many are found on
MANY = 8  # latents, from which couplings have an encoder of their form
BLIND = (GAUSSIAN, COPULA)
FEWER = tuple(name for name in MIXED if name != "steeper lift")  # of sixteen latents, at standard scale


def cells(scale: str) -> list[Cell]:
    """Laws, mixings and dimensions; at paper scale three seeds and all mixings of everything."""
    if scale == "quick":
        quick = crossed(_config, process=LANGEVIN, law="uniform", dim=2, mixing="sinusoid", seed=0)
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    whole = scale == "paper"
    found = _runs(LANGEVIN, DISCRETE, 2, PLANE, SEEDS)
    for dim, seeds in DIMS.items():
        mixings = MIXED if whole or dim < max(DIMS) else FEWER
        found += _runs(LANGEVIN, DISCRETE, dim, mixings, SEEDS if whole else seeds)
    found += _runs(LANGEVIN, HEAVY, 2, PLANE, SEEDS if whole else 0)
    found += _runs(GAUSSIAN, NORMAL, 2, PLANE, SEEDS)
    return found + _runs(COPULA, DISCRETE, 2, PLANE, SEEDS if whole else 0)


def _runs(process: str, law: Any, dim: int, mixing: Any, seed: Any) -> list[Cell]:
    return crossed(_config, process=process, law=law, dim=dim, mixing=mixing, seed=seed)


def _config(process: str, law: str, dim: int, mixing: str, seed: int) -> Config:
    encoder, recipe = RECIPES[dim]
    if dim >= MANY and mixing in MATCHED:
        encoder, recipe = MATCHED[mixing], MATCHED_RECIPE
    return Config(
        world=world(process, law, mixing, dim, RHO[dim]),
        encoder=encoder,
        objective=InfoNCESpec(sigma="matched"),
        training=replace(recipe, eval_every=recipe.steps, eval_samples=2000),
        seed=seed,
    )


def _named_worlds(rows: Rows) -> Rows:
    return rows.where(process=LANGEVIN, law=tuple(DISCRETE))


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
    return rows.where(process=LANGEVIN).lines(["law", "dim"], _worst)


def _blind(rows: Rows) -> Lines:
    own = rows.where(process=BLIND)
    return own.lines(["process", "law"], _worst, any=lambda runs: sum(n > 0 for n in runs.values("named")))


def _reaches(key: str) -> Judge:
    text = f"{{law}}, {{dim}} latents, {{mixing}}, seed {{seed}} ({{{key}:.4f}})"
    return asks(_each, key, lambda value: value >= TARGET, text)


def _numbers(rows: Rows) -> dict[str, Value]:
    lost = sum(r2 < LOST for r2 in rows.values("r2"))
    return {
        "pairs": PAIRS,
        "more": EACH,
        "many": MANY,
        "scored": SCORED,
        "lost": lost or None,
        "limit": LOST,
    }


def _panels(rows: Rows) -> list[Chart]:
    own, target = _named_worlds(rows), [Reference(1 - TARGET, "target")]
    kinds = {"rank": "1 − rank correlation", "r2": "1 − R², linear map", "straight": "1 − R², straightened"}
    return [
        curves_chart(title, "latents", "mean over mixings and seeds", _left(own, name), references=target)
        for name, title in kinds.items()
    ]


def _left(rows: Rows, name: str) -> list[Any]:
    return rows.curves("dim", name, "{law}", height=lambda value: max(1 - value, 1e-6))


STUDY = Study.of_file(
    __file__,
    title="Latents by name",
    source="nothing published: what the converse of Theorem 2 leaves open outside the Gaussian",
    cells=cells,
    score=partial(score, each=EACH),
    tables=TableSpec.named(laws=_by_law, each=_each, blind=_blind),
    charts=[ChartSpec("recovery", _panels, 3, (4.4, 4.4))],
    statements=Statement.named(
        rank=_reaches("rank"),
        straight=_reaches("straight"),
        named=asks(
            _each, "missing", at_most(0), "{law}, {dim} latents, {mixing}, seed {seed} ({named:.0f} named)"
        ),
        blind=asks(_blind, "any", at_most(0), "{law} ({process}: {any} of {runs} runs)"),
    ),
    numbers=_numbers,
)
