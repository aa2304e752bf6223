"""Weight against correlation on the spiral, with what the loss itself prefers at each place (`grid_theory`).

The published pairs are noisy copies, so that their rho stands for a correlation of rho^2; ours correlate by
rho. SIGReg is n times a distance, so a weight means the same only at the same batch, 256 here as there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from isojepa.config import Config
from isojepa.registry import build_spec, replace_settings
from isojepa.report.charts import Chart, Curve, HeatMap, curves_chart
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.world_model.grid_theory import least_sigreg, preferred, spiral_correlation
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.measured import spread
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import OURS, PUBLISHED, PUBLISHED_OBJECTIVES, published_plane, shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec, heat_map
from isojepa_lab.studies.statements import (
    FAILS,
    HOLDS,
    IN_PART,
    Judge,
    Judgement,
    Statement,
    judge_lines,
    judged,
    verdict_of,
)
from isojepa_lab.studies.study import Study

WEIGHTS = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)
RHOS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
BATCH, SEEDS, PAPER_SEEDS = 256, 2, 3
SPOTS, SPOTS_RHO = (1e-3, 5e-1), 0.95  # where the published settings are run too: the best, the collapsed
NULL = 1.0594  # SIGReg of 256 samples of N(0, I)
CUTS = (0.5, 0.8, 0.95, 0.99)
MANY = 10  # places from which the published settings get heat maps of their own
LEAST = 1e-4  # of 1 - R^2 that is drawn
RISE = 0.005  # a smaller fall of R^2 is put down to the seeds


def cells(scale: str) -> list[Cell]:
    """Ours on the whole grid; the published settings at a few points, at paper scale on the whole grid."""
    if scale == "quick":
        quick = crossed(_config, settings=OURS, weight=(1e-3, 5e-1), rho=(0.5, 0.95), seed=0)
        return [Cell(shortened(cell.trained, 200), cell.labels) for cell in quick]
    if scale == "paper":
        both = (OURS, PUBLISHED)
        return crossed(_config, settings=both, weight=WEIGHTS, rho=RHOS, seed=range(PAPER_SEEDS))
    spots = crossed(_config, settings=PUBLISHED, weight=SPOTS, rho=SPOTS_RHO, seed=0)
    return crossed(_config, settings=OURS, weight=WEIGHTS, rho=RHOS, seed=range(SEEDS)) + spots


def _config(settings: str, weight: float, rho: float, seed: int) -> Config:
    if settings == PUBLISHED:
        objective = replace_settings(PUBLISHED_OBJECTIVES["SIGReg"], weight=weight)
        return published_plane(build_spec("world", process="noisy-copies", rho=rho), objective, seed)
    # At small weights the embedding first shrinks, and must find what the views share before nothing is left
    # of it: a narrower or deeper encoder, or half the learning rate, often does not.
    encoder, objective = (
        build_spec("encoder", "mlp", width=128, layers=4),
        build_spec("objective", weight=weight, slices=16),
    )
    recipe = Recipe(
        steps=3000, batch=BATCH, batch_start=None, learning_rate=6e-3, eval_every=1000, eval_samples=2000
    )
    return Config(build_spec("world", rho=rho), encoder, objective, recipe, seed=seed)


def places(rows: Rows, settings: str = OURS) -> Lines:
    """By weight and rho: means over seeds beside what the loss prefers; None where it prefers to collapse."""
    return rows.where(settings=settings).lines(
        ["weight", "rho"],
        *("r2", "r2_grid", "r2_orthogonal", "error", "bound"),
        _losses,
        runs=len,
        r2_std=lambda own: spread(own, "r2"),
        orthogonality="orthogonality_error",
    )


def _losses(own: Rows) -> dict[str, Any]:
    """Losses of the rows of a place, and what the loss prefers there."""
    weight, rho = float(own.label("weight")), float(own.label("rho"))
    correlation = rho if own.label("settings") == OURS else rho**2  # of the published pairs
    best, alignment = preferred(weight, correlation, BATCH), own.mean("alignment")

    def loss(sigreg: float | None) -> float | None:
        if sigreg is None or alignment is None:
            return None
        return weight * sigreg + (1 - weight) * alignment

    return {
        "r2_preferred": best.r2 if best.variance > 0.01 else None,  # else nothing is left of the map
        "orthogonality_preferred": best.orthogonality,
        "loss": loss(own.mean("sigreg")),
        # of the measured alignment with the least SIGReg there is, which no noise of SIGReg enters
        "loss_least": loss(least_sigreg(BATCH)),
        "loss_preferred": best.loss,
        "loss_spiral": weight * NULL + (1 - weight) * (1 - spiral_correlation(correlation)) / 2,
    }


Found = tuple[str, Iterable[bool]]  # what was found at the places of a published statement, and its answers


def _limit(key: str, test: Callable[[float], bool], text: str) -> Callable[[Lines], Found]:
    """Whether a number passes a test at all places, and a text with ranges by key.

    It may name `top` too, the rho of the highest R^2, and `turned`, the highest R^2 by a rotation.
    """

    def judge(lines: Lines) -> Found:
        ranges = {name: _range(lines, name) for name in ("r2", "r2_grid", "orthogonality")}
        top = max(lines, key=lambda line: line["r2"])["rho"]
        turned = max((line["r2_orthogonal"] for line in lines.known("r2_orthogonal")), default=math.nan)
        return text.format(**ranges, top=top, turned=turned), (test(line[key]) for line in lines.known(key))

    return judge


def _range(lines: Lines, key: str) -> str:
    values = [line[key] for line in lines.known(key)]
    low, high = (f"{end(values):.3f}" if values else "not measured" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def _both(lines: Lines) -> Found:
    high = [line for line in lines if line["r2"] > 0.96]
    good = [line in high and (line["orthogonality"] or 1.0) < 0.2 for line in lines]
    return f"both at {sum(good)} of {len(lines)} places, R² alone at {len(high)}", good


def _monotone(lines: Lines) -> Found:
    steps = [(b["r2"] - a["r2"], a, b["rho"]) for a, b in pairwise(lines) if a["weight"] == b["weight"]]
    falls = sorted((step for step in steps if step[0] < -RISE), key=lambda step: step[0])
    message = f"R² falls at {len(falls)} of {len(steps)} steps of ρ"
    for fall, a, high in falls[:1]:
        message += f", most by {-fall:.3f} (weight {a['weight']:g}, ρ {a['rho']:g} to {high:g})"
    return message, (step[0] >= -RISE for step in steps)


def _degrades(lines: Lines) -> Found:
    falls, good = [], []
    for weight in sorted({line["weight"] for line in lines}):
        r2_by_rho = {line["rho"]: line["r2"] for line in lines.where(weight=weight)}
        if len(r2_by_rho) > 2 and 0.99 in r2_by_rho:
            peak = max(r2_by_rho, key=lambda rho: r2_by_rho[rho])
            falls.append(
                f"weight {weight:g}: peak {r2_by_rho[peak]:.3f} at ρ {peak:g}, {r2_by_rho[0.99]:.3f} at 0.99"
            )
            good.append(r2_by_rho[peak] - r2_by_rho[0.99] > 0.01)
    return "; ".join(falls), good


_best = _limit("r2", lambda r2: r2 > 0.97, "R² {r2}; in-sample on the published grid of points {r2_grid}")
_right = _limit("orthogonality", lambda far: 0.1 <= far <= 0.2, "orthogonality error {orthogonality}")
_nothing = _limit("r2", lambda r2: r2 < 0.1, "R² {r2}, highest at ρ {top:g}")
_little = _limit("r2", lambda r2: r2 < 0.9, "R² {r2}; by a rotation at most {turned:.3f}")
GOOD = "R² > 0.96 and orthogonality error < 0.2 at weights 1e-3 to 1e-2 with ρ 0.8 to 0.95"
CLAIMS: dict[str, tuple[Callable[[Lines], Found], Sequence[float], Sequence[float]]] = {
    # asked at these weights and rhos
    "R² > 0.97 at weights 1e-3 and 5e-3 with ρ 0.9 and 0.95": (_best, WEIGHTS[3:5], RHOS[4:6]),
    "orthogonality error about 0.15 there": (_right, WEIGHTS[3:5], RHOS[4:6]),
    GOOD: (_both, WEIGHTS[3:6], RHOS[3:6]),
    "R² about 0 at weight 0.5, whatever ρ": (_nothing, WEIGHTS[8:], RHOS),
    "at weights up to 1e-2 R² grows with ρ": (_monotone, WEIGHTS[:6], RHOS),
    "at weights 5e-2 and 1e-1 R² peaks at a moderate ρ and is lower at 0.99": (_degrades, WEIGHTS[6:8], RHOS),
    "weights below 1e-4 are not enough, whatever ρ": (_little, WEIGHTS[:2], RHOS),
}


def ask(rows: Rows) -> Lines:
    """Every published statement with what the runs say of it; those about no place of theirs are left out."""
    answers = Lines()
    for settings in (OURS, PUBLISHED):
        for claim, (judge, weights, rhos) in CLAIMS.items():
            lines = places(rows, settings).known("r2").where(weight=weights, rho=rhos)
            verdict, truths = judge(lines) if lines else ("", ())
            if answered := list(truths):
                answer = {"statement": claim, "settings": settings, "places": len(lines), "found": verdict}
                answers.append({**answer, "verdict": verdict_of(answered)})
    return answers


def _heat_maps(rows: Rows) -> list[HeatMap]:
    panels = []
    for settings, trained, at in ((OURS, "trained", ""), (PUBLISHED, "published settings", " at ρ²")):
        lines = places(rows, settings)
        if settings == PUBLISHED and len(lines) < MANY and places(rows):
            continue
        for key, title, color in (("r2", "R² of z from h", 1), ("orthogonality", "Orthogonality error", 2)):
            for name, heading in ((key, trained), (f"{key}_preferred", f"what the loss prefers{at}")):
                words = {"title": f"{title}, {heading}", "across": "ρ", "up": "weight of SIGReg"}
                panels.append(heat_map(lines, "rho", "weight", name, color=color, **words))
    return panels


def _height(r2: float | None) -> float | None:
    return None if r2 is None else max(1 - r2, LEAST)


def _cuts(rows: Rows) -> list[Chart]:
    panels = []
    for rho in CUTS:
        selection = rows.where(settings=OURS, rho=rho)
        line = {one["weight"]: _height(one["r2_preferred"]) for one in places(selection)}
        curves = [Curve("what the loss prefers", line, 2)] if selection else []
        for (seed,), some in selection.by("seed").items():
            points = {weight: _height(r2) for weight, r2 in some.points("weight", "r2").items()}
            curves.append(Curve(f"trained, seed {seed}", points, 1, "dots"))
        panels.append(curves_chart(f"ρ = {rho:g}", "weight of SIGReg", "1 − R²", curves))
    return panels


def _claims(settings: str) -> Judge:
    """All published statements together."""

    def judge(rows: Rows) -> Judgement:
        verdicts = [line["verdict"] for line in ask(rows).where(settings=settings).known("verdict")]
        partly, bad = verdicts.count(IN_PART), verdicts.count(FAILS)
        return judged((verdict == HOLDS for verdict in verdicts), partly=partly, bad=bad)

    return judge


def _agreement(*weights: float) -> Judge:
    """Whether training finds what the loss prefers at some weights, if it prefers anything."""

    def judge(rows: Rows) -> Judgement:
        lines = places(rows).where(weight=weights).known("r2_preferred", "orthogonality")
        keys = ("r2", "orthogonality")
        far = {key: [abs(line[key] - line[f"{key}_preferred"]) for line in lines] for key in keys}
        medians = {key: median(gaps) if gaps else None for key, gaps in far.items()}
        return judged((gap < 0.05 for gap in far["r2"]), **medians)

    return judge


def _optimizer(rows: Rows) -> Judgement:
    """Whether training ends without recovery where no SIGReg could bring its loss to the preferred one."""
    lines = places(rows).where(weight=WEIGHTS[8:]).known("loss", "r2")
    worst: dict[str, Any] = max(lines, key=lambda line: line["loss"] - line["loss_preferred"], default={})
    fails = (line["r2"] < 0.5 and line["loss_least"] > line["loss_preferred"] for line in lines)
    return judged(fails, **worst)


def _label_free(rows: Rows) -> Judgement:
    """Whether the weight of the smallest bound is that of the smallest error, rho by rho."""
    lines = []
    for rho in RHOS:
        measured = places(rows).where(rho=rho).known("bound", "error")
        if len(measured) > 1:
            chosen, best = (min(measured, key=lambda line: line[key]) for key in ("bound", "error"))
            cost = chosen["error"] / max(best["error"], math.ulp(1.0))
            lines.append({"same": chosen is best, "cost": cost})
    return judge_lines(lines, lambda line: line["same"], "{cost:.2f}", "cost")


def _numbers(rows: Rows) -> dict[str, Value]:
    at_bound, facts = places(rows), dict[str, Value]()
    for key in ("r2", "r2_orthogonal"):
        top = max(at_bound.known(key), key=lambda line: line[key], default=None)
        template = "{" + key + ":.4f}, is at weight {weight:g} and ρ {rho:g}"
        facts[f"top_{key}"] = None if top is None else template.format_map(top)
    dead = sum(line["r2_preferred"] is None for line in at_bound)
    return {**facts, "dead": dead or None, "places": len(at_bound), "spots": len(places(rows, PUBLISHED))}


STUDY = Study.of_file(
    __file__,
    title="Weight against correlation",
    source="Klindt, LeCun & Balestriero (2026), Appendix H, grid search",
    cells=cells,
    tables=TableSpec.named(
        statements=ask, places=places, published_settings=lambda rows: places(rows, PUBLISHED)
    ),
    charts=[
        ChartSpec("heat_maps", _heat_maps, columns=2),
        ChartSpec("cuts", _cuts, columns=4, size=(3.4, 3.4)),
    ],
    statements=Statement.named(
        published=_claims(OURS),
        again=_claims(PUBLISHED),
        small=_agreement(*WEIGHTS[:6]),
        large=_agreement(*WEIGHTS[6:]),
        optimizer=_optimizer,
        label_free=_label_free,
    ),
    numbers=_numbers,
)
