"""Which objective shows latents by name: the trade between whitening, SIGReg and InfoNCE.

A white embedding of a Langevin world is Q phi(z): nonlinear, but with distributions that identify axes.
SIGReg makes it normal, which takes the cue away. InfoNCE has a kernel of one width for all increments,
which in these worlds
are equally large everywhere: it leaves latents nearly straight. One thing is varied at a time.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from isojepa.certificates.eigenfunctions import predict_r2
from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.registry import Spec, build_spec
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.own import axis_scores
from isojepa_lab.papers.own.named_worlds import DISCRETE, LANGEVIN, law_of, world
from isojepa_lab.papers.world_model.scaling import learning_rate
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Judgement, Statement, asks, at_most, judge_lines
from isojepa_lab.studies.study import Study

WHITENING, SIGREG, INFONCE = "whitening", "SIGReg", "InfoNCE"
WEIGHTS = {WHITENING: (0.1, 0.35, 0.7), SIGREG: (1e-4, 2e-3, 5e-2), INFONCE: (0.5,)}
OWN = {WHITENING: 0.35, SIGREG: 2e-3, INFONCE: 0.5}  # where something else is varied
LAWS = (*DISCRETE, "Laplace")
MIXING, LAW, RHO, DIM, FRESH = "sinusoid", "uniform", 0.9, 2, 0
SEEDS = 3  # at paper scale
RHOS = (0.5, 0.7, 0.9, 0.95, 0.99)
PAIRS = (1_000, 3_000, 10_000, 30_000)
EMBEDDINGS = (1, 2, 3, 4, 6)  # dimensions, of two latents
DIMS = (4, 16, 64, 256)
# pairs that axes of so many latents are found on: of 256, 100,000 show none
FOUND_ON = {64: 131_072, 256: 524_288}
TARGET = 0.99  # rank correlation of the latent that is found least
_ALIKE = 1e-3  # of rank correlations
_R2_TOLERANCE = 0.01  # of R^2
_SCORES = ("rank", "r2", "straight")
_PARTS = {  # label and name of what is varied
    "weight": ("weight", "weight of the regularizer"),
    "rho": ("rho", "correlation of a pair"),
    "pairs": ("pairs", "pairs to train on"),
    "embedding": ("embedding", "dimensions of the embedding"),
    "dim": ("dim", "latents"),
}
BASE = {"law": LAW, "dim": DIM, "rho": RHO, "pairs": FRESH, "embedding": DIM}


def cells(scale: str) -> list[Cell]:
    """Weights and laws, then everything else at one law and the weight of each objective."""
    if scale == "quick":
        quick = _runs("weight", WHITENING, 0.35) + _runs("weight", SIGREG, 2e-3)
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    seeds = range(SEEDS if scale == "paper" else 1)
    varied: dict[str, Any] = {"rho": RHOS, "pairs": PAIRS, "embedding": EMBEDDINGS}
    cells = []
    for name, weights in WEIGHTS.items():
        cells += _runs("weight", name, weights, seed=seeds, law=LAWS)
        for part, values in varied.items():
            cells += _runs(part, name, OWN[name], seed=seeds, **{part: values})
        cells += _runs("dim", name, OWN[name], dim=DIMS, embedding=0)  # 0: as many as latents
    return cells


def _runs(part: str, objective: str, weight: Any, **varied: Any) -> list[Cell]:
    labels = {"part": part, "objective": objective, "weight": weight, **BASE, "seed": 0}
    return crossed(_config, **{**labels, **varied})


def _config(
    part: str,
    objective: str,
    weight: float,
    law: str,
    dim: int,
    rho: float,
    pairs: int,
    embedding: int,
    seed: int,
) -> Config:
    mixing = MIXING if dim == 2 else "additive-coupling"
    where, settings = world(LANGEVIN, law, mixing, dim, rho), _objective(objective, weight, dim)
    if part == "dim":  # encoders that can undo the coupling, as in the study of scaling
        encoder: Spec = build_spec("encoder", "free-coupling", layers=2)
        recipe = Recipe(steps=2500, learning_rate=learning_rate(dim))
        if objective == INFONCE:
            recipe = replace(recipe, batch=256 if dim <= 128 else 128, learning_rate=2 * learning_rate(dim))
    else:
        encoder, recipe = MLPSpec(dim=embedding, width=48), Recipe(steps=1800, batch=1024)
        if objective == INFONCE:
            recipe = Recipe(steps=1500, batch=512)
    recipe = replace(recipe, pairs=pairs or None, eval_every=recipe.steps, eval_samples=max(2000, 4 * dim))
    return Config(where, encoder, settings, recipe, seed=seed)


def _objective(name: str, weight: float, dim: int) -> Spec:
    plane = dim == 2
    spec: Spec
    if name == WHITENING:
        spec = build_spec("objective", "whitening", weight=weight if plane else 0.1)
    elif name == SIGREG:
        spec = build_spec("objective", "lejepa", weight=weight if plane else 1e-3)
    elif plane:
        spec = build_spec("objective", "infonce", weight=weight, sigma="matched")
    else:  # subspaces that fill the space: whole pairs carry more than a batch can show
        settings = {"sigma": "matched", "k": 4, "weight": 0.2, "slices": max(8, dim // 4)}
        spec = build_spec("objective", "sliced-infonce", **settings)
    return spec


def _lines(rows: Rows, part: str, *labels: str) -> Lines:
    """Lines of one part of the study, by objective and some labels."""
    selection = rows.where(part=part)
    return selection.lines(["objective", *labels], *_SCORES, named=_named, runs=len)


def _named(own: Rows) -> float:
    """The share of latents that have an axis with a name."""
    return sum(own.values("named")) / sum(int(row.labels["dim"]) for row in own)


def _weights(rows: Rows) -> Lines:
    return _lines(rows, "weight", "weight", "law")


def _predicted(rows: Rows) -> Lines:
    """Whitening against the best white embedding, which theory knows from the law alone."""
    lines = _lines(rows.where(objective=WHITENING, weight=OWN[WHITENING]), "weight", "law")
    predicted = lines.where(law=tuple(DISCRETE))
    return Lines(line | {"predicted": predict_r2(law_of(line["law"])), "after": 1.0} for line in predicted)


def _best(rows: Rows) -> Lines:
    """The weight of each objective whose worst latent is recovered best, law by law."""
    table = Lines()
    for law in LAWS:
        line: dict[str, Any] = {"law": law}
        for name in WEIGHTS:
            lines = _weights(rows).where(law=law, objective=name).known("rank")
            if lines:
                best = max(lines, key=lambda one: one["rank"])
                line |= {
                    name: best["rank"],
                    f"{name} straight": best["straight"],
                    f"{name} weight": best["weight"],
                }
        table.append(line)
    return table.known(*WEIGHTS)


def _leads(name: str, over: str) -> Judge:
    """Whether one objective finds latents by rank at least as well as another, law by law."""

    def judge(rows: Rows) -> Judgement:
        lines = Lines(line | {"first": line[name], "second": line[over]} for line in _best(rows))
        text = "{law} ({first:.4f} and {second:.4f})"
        return judge_lines(lines, lambda line: line["first"] >= line["second"] - _ALIKE, text, "first")

    return judge


def _reaches(part: str, label: str, text: str, objective: str = INFONCE) -> Judge:
    lines = lambda rows: _lines(rows.where(objective=objective), part, label)  # noqa: E731
    return asks(lines, "rank", lambda rank: rank >= TARGET, text + " ({rank:.4f})")


def _panels(rows: Rows) -> list[Chart]:
    lines = _predicted(rows)
    before = {line["predicted"]: line["r2"] for line in lines}
    after = {line["predicted"]: line["straight"] for line in lines}
    ends = {end: end for end in (min(before, default=0.9), max(before, default=1.0))}
    straight = [
        Curve("as predicted", ends, 0),
        Curve("linear map", before, 1, "dots"),
        Curve("straightened", after, 2, "dots"),
    ]
    linear = {"scale": "linear", "across_scale": "linear"}
    panels = [curves_chart("Whitening, law by law", "R² predicted from the law", "R²", straight, **linear)]
    for part, (label, across) in _PARTS.items():
        selection = rows.where(part=part, law=LAW)
        curves = selection.curves(label, "rank", "{objective}", height=lambda rank: max(1 - rank, 1e-5))
        panels.append(curves_chart(f"By {across}", across, "1 − rank correlation", curves))
    return panels


STUDY = Study.of_file(
    __file__,
    title="Which objective shows latents by name",
    source="nothing published: worlds of our own in which the truth is known",
    cells=cells,
    score=partial(axis_scores.score, pairs=FOUND_ON),
    tables=TableSpec.named(
        best=_best,
        weights=_weights,
        predicted=_predicted,
        rho=lambda rows: _lines(rows, "rho", "rho"),
        pairs=lambda rows: _lines(rows, "pairs", "pairs"),
        embedding=lambda rows: _lines(rows, "embedding", "embedding"),
        dim=lambda rows: _lines(rows, "dim", "dim"),
    ),
    charts=[ChartSpec("trade", _panels, 3, (4.4, 4.0), legend="own")],
    statements=Statement.named(
        infonce=_leads(INFONCE, WHITENING),
        whitening=_leads(WHITENING, SIGREG),
        predicted=asks(
            lambda rows: Lines(
                line | {"off": abs(line["r2"] - line["predicted"])} for line in _predicted(rows)
            ),
            "off",
            at_most(_R2_TOLERANCE),
            "{law} ({r2:.4f}, predicted {predicted:.4f})",
        ),
        rho=_reaches("rho", "rho", "{rho:g}"),
        pairs=_reaches("pairs", "pairs", "{pairs:,}"),
        embedding=_reaches("embedding", "embedding", "{embedding}"),
        dim=_reaches("dim", "dim", "{dim}"),
        whitened=_reaches("dim", "dim", "{dim}", WHITENING),
    ),
)
