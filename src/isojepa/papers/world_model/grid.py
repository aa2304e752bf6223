"""Weight against correlation on the spiral, with what the loss itself prefers at each place (`grid_theory`).

The published pairs are noisy copies, so that their rho stands for a correlation of rho^2; ours correlate by
rho. SIGReg is n times a distance, so a weight means the same only at the same batch, 256 here as there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.papers.world_model.grid_theory import least_sigreg, preferred, spiral_correlation
from isojepa.registry import changed, make
from isojepa.report.charts import Chart, Curve, HeatMap, curves_chart
from isojepa.studies.findings import Value
from isojepa.studies.lines import by_label, heat_map
from isojepa.studies.measured import grouped, mean, measured, select, spread
from isojepa.studies.settings import OURS, PUBLISHED, PUBLISHED_OBJECTIVES, published_plane, shortened
from isojepa.studies.specs import ChartSpec, Lines, Rows, TableSpec
from isojepa.studies.statements import HOLDS, Judgement, Statement, judge_lines, judged, verdict_of
from isojepa.studies.study import Cell, Row, Study
from isojepa.training.recipe import Recipe

WEIGHTS = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)
RHOS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
BATCH, SEEDS, PAPER_SEEDS = 256, 2, 3
SPOTS = ((1e-3, 0.95), (5e-1, 0.95))  # where the published settings are run too: the best, the collapsed
NULL = 1.0594  # SIGReg of 256 samples of N(0, I)
CUTS = (0.5, 0.8, 0.95, 0.99)
MANY = 10  # places from which the published settings get heat maps of their own
LEAST = 1e-4  # of 1 - R^2 that is drawn
RISE = 0.005  # a smaller fall of R^2 is put down to the seeds
SCORES = ("r2", "r2_grid", "r2_orthogonal", "error", "bound")


def cells(scale: str) -> list[Cell]:
    """Ours on the whole grid; the published settings at a few points, at paper scale on the whole grid."""
    if scale == "quick":
        quick = [_ours(weight, rho, 0) for weight in (1e-3, 5e-1) for rho in (0.5, 0.95)]
        return [Cell(shortened(cell.trained, 200), cell.labels) for cell in quick]
    grid = [(weight, rho) for weight in WEIGHTS for rho in RHOS]
    seeds = PAPER_SEEDS if scale == "paper" else SEEDS
    ours = [_ours(weight, rho, seed) for weight, rho in grid for seed in range(seeds)]
    if scale == "standard":
        return ours + [_published(weight, rho, 0) for weight, rho in SPOTS]
    return ours + [_published(weight, rho, seed) for weight, rho in grid for seed in range(seeds)]


def _ours(weight: float, rho: float, seed: int) -> Cell:
    # At small weights the embedding first shrinks, and must find what the views share before nothing is left
    # of it: a narrower or deeper encoder, or half the learning rate, often does not.
    recipe = Recipe(
        steps=3000, batch=BATCH, batch_start=None, learning_rate=6e-3, eval_every=1000, eval_samples=2000
    )
    objective = LeJEPASpec(weight=weight, slices=16)
    config = Config(make("world", rho=rho), MLPSpec(width=128, layers=4), objective, recipe, seed=seed)
    return Cell(config, {"settings": OURS, "weight": weight, "rho": rho, "seed": seed})


def _published(weight: float, rho: float, seed: int) -> Cell:
    objective = changed(PUBLISHED_OBJECTIVES["SIGReg"], weight=weight)
    config = published_plane(make("world", process="noisy-copies", rho=rho), objective, seed)
    return Cell(config, {"settings": PUBLISHED, "weight": weight, "rho": rho, "seed": seed})


def places(rows: Rows, settings: str = OURS) -> Lines:
    """By weight and rho: means over seeds beside what the loss prefers; None where it prefers to collapse."""
    groups = sorted(grouped(select(rows, settings=settings), "weight", "rho").items())
    power = 1 if settings == OURS else 2  # published pairs correlate by the square
    return [_place(float(weight), float(rho), own, power) for (weight, rho), own in groups]


def _place(weight: float, rho: float, own: Sequence[Row], power: int) -> dict[str, Any]:
    best = preferred(weight, rho**power, BATCH)
    terms = [(measured(row, "sigreg"), measured(row, "alignment")) for row in own]
    losses = [weight * s + (1 - weight) * a for s, a in terms if s is not None and a is not None]
    alignment, spiral = mean(own, "alignment"), spiral_correlation(rho**power)
    return {
        "weight": weight,
        "rho": rho,
        "runs": len(own),
        "r2_std": spread(own, "r2"),
        **{name: mean(own, name) for name in SCORES},
        "r2_preferred": best.r2 if best.variance > 0.01 else None,  # else nothing is left of the map
        "orthogonality": mean(own, "orthogonality_error"),
        "orthogonality_preferred": best.orthogonality,
        "loss": fmean(losses) if losses else None,
        # of the measured alignment with the least SIGReg there is, which no noise of SIGReg enters
        "loss_least": None if alignment is None else weight * least_sigreg(BATCH) + (1 - weight) * alignment,
        "loss_preferred": best.loss,
        "loss_spiral": weight * NULL + (1 - weight) * (1 - spiral) / 2,
    }


Found = tuple[str, Iterable[bool]]  # what was found at the places of a published statement, and its answers


def _range(lines: Lines, key: str) -> str:
    found = [line[key] for line in lines if line[key] is not None]
    low, high = (f"{end(found):.3f}" if found else "not measured" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def _best(lines: Lines) -> Found:
    found = f"R² {_range(lines, 'r2')}; in-sample on the published grid of points {_range(lines, 'r2_grid')}"
    return found, (line["r2"] > 0.97 for line in lines)


def _orthogonality(lines: Lines) -> Found:
    known = [line["orthogonality"] for line in lines if line["orthogonality"] is not None]
    return f"orthogonality error {_range(lines, 'orthogonality')}", (0.1 <= error <= 0.2 for error in known)


def _both(lines: Lines) -> Found:
    high = [line for line in lines if line["r2"] > 0.96]
    good = [line in high and (line["orthogonality"] or 1.0) < 0.2 for line in lines]
    return f"both at {sum(good)} of {len(lines)} places, R² alone at {len(high)}", good


def _nothing(lines: Lines) -> Found:
    top = max(lines, key=lambda line: line["r2"])["rho"]
    return f"R² {_range(lines, 'r2')}, highest at ρ {top:g}", (line["r2"] < 0.1 for line in lines)


def _insufficient(lines: Lines) -> Found:
    turned = max(
        (line["r2_orthogonal"] for line in lines if line["r2_orthogonal"] is not None), default=float("nan")
    )
    return f"R² {_range(lines, 'r2')}; by a rotation at most {turned:.3f}", (
        line["r2"] < 0.9 for line in lines
    )


def _monotone(lines: Lines) -> Found:
    steps = [(b["r2"] - a["r2"], a, b["rho"]) for a, b in pairwise(lines) if a["weight"] == b["weight"]]
    falls = sorted((step for step in steps if step[0] < -RISE), key=lambda step: step[0])
    found = f"R² falls at {len(falls)} of {len(steps)} steps of ρ"
    for fall, a, high in falls[:1]:
        found += f", most by {-fall:.3f} (weight {a['weight']:g}, ρ {a['rho']:g} to {high:g})"
    return found, (step[0] >= -RISE for step in steps)


def _degrades(lines: Lines) -> Found:
    found, good = [], []
    for weight in sorted({line["weight"] for line in lines}):
        own = {line["rho"]: line["r2"] for line in lines if line["weight"] == weight}
        if len(own) > 2 and 0.99 in own:
            peak = max(own, key=lambda rho: own[rho])
            found.append(f"weight {weight:g}: peak {own[peak]:.3f} at ρ {peak:g}, {own[0.99]:.3f} at 0.99")
            good.append(own[peak] - own[0.99] > 0.01)
    return "; ".join(found), good


Claim = tuple[Callable[[Lines], Found], Sequence[float], Sequence[float]]  # asked at these weights and rhos
CLAIMS: dict[str, Claim] = {
    "R² > 0.97 at weights 1e-3 and 5e-3 with ρ 0.9 and 0.95": (_best, WEIGHTS[3:5], RHOS[4:6]),
    "orthogonality error about 0.15 there": (_orthogonality, WEIGHTS[3:5], RHOS[4:6]),
    "R² > 0.96 and orthogonality error < 0.2 at weights 1e-3 to 1e-2 with ρ 0.8 to 0.95": (
        _both,
        WEIGHTS[3:6],
        RHOS[3:6],
    ),
    "R² about 0 at weight 0.5, whatever ρ": (_nothing, WEIGHTS[8:], RHOS),
    "at weights up to 1e-2 R² grows with ρ": (_monotone, WEIGHTS[:6], RHOS),
    "at weights 5e-2 and 1e-1 R² peaks at a moderate ρ and is lower at 0.99": (_degrades, WEIGHTS[6:8], RHOS),
    "weights below 1e-4 are not enough, whatever ρ": (_insufficient, WEIGHTS[:2], RHOS),
}


def ask(rows: Rows) -> Lines:
    """Every published statement with what the runs say of it; those about no place of theirs are left out."""
    answers = []
    for settings in (OURS, PUBLISHED):
        known = [line for line in places(rows, settings) if line["r2"] is not None]
        for claim, (judge, weights, rhos) in CLAIMS.items():
            lines = [line for line in known if line["weight"] in weights and line["rho"] in rhos]
            found, truths = judge(lines) if lines else ("", ())
            if answered := list(truths):
                answer = {"statement": claim, "settings": settings, "places": len(lines), "found": found}
                answers.append({**answer, "verdict": verdict_of(answered)})
    return answers


def _heat_maps(rows: Rows) -> list[HeatMap]:
    panels = []
    for settings, trained, at in ((OURS, "trained", ""), (PUBLISHED, "published settings", " at ρ²")):
        lines = places(rows, settings)
        if settings == PUBLISHED and len(lines) < MANY and places(rows):
            continue
        for key, title, color in (("r2", "R² of z from h", 1), ("orthogonality", "Orthogonality error", 2)):
            for name, told in ((key, trained), (f"{key}_preferred", f"what the loss prefers{at}")):
                words = {"title": f"{title}, {told}", "across": "ρ", "up": "weight of SIGReg"}
                panels.append(heat_map(lines, "rho", "weight", name, color=color, **words))
    return panels


def _height(r2: float | None) -> float | None:
    return None if r2 is None else max(1 - r2, LEAST)


def _cuts(rows: Rows) -> list[Chart]:
    panels = []
    for rho in CUTS:
        own = select(rows, settings=OURS, rho=rho)
        line = {one["weight"]: _height(one["r2_preferred"]) for one in places(own)}
        shown = [Curve("what the loss prefers", line, 2)] if own else []
        for (seed,), some in grouped(own, "seed").items():
            points = {weight: _height(r2) for weight, r2 in by_label(some, "weight", "r2").items()}
            shown.append(Curve(f"trained, seed {seed}", points, 1, "dots"))
        panels.append(curves_chart(f"ρ = {rho:g}", "weight of SIGReg", "1 − R²", shown))
    return panels


def _published_claims(settings: str) -> Callable[[Rows], Judgement]:
    """All published statements together."""

    def judge(rows: Rows) -> Judgement:
        asked = [one for one in ask(rows) if one["settings"] == settings]
        return judge_lines(asked, lambda one: one["verdict"] == HOLDS)

    return judge


def _agreement(above: bool) -> Callable[[Rows], Judgement]:
    """Whether training finds what the loss prefers, if it prefers anything, at small or at large weights."""

    def judge(rows: Rows) -> Judgement:
        lines = [line for line in places(rows) if None not in (line["r2_preferred"], line["orthogonality"])]
        own = [line for line in lines if (line["weight"] > 1e-2) == above]
        far = [
            (line["r2"] - line["r2_preferred"], line["orthogonality"] - line["orthogonality_preferred"])
            for line in own
        ]
        r2, orthogonality = (
            (median(map(abs, ends)) for ends in zip(*far, strict=True)) if far else (None, None)
        )
        return judged((abs(gap) < 0.05 for gap, _ in far), r2=r2, orthogonality=orthogonality)

    return judge


def _optimiser(rows: Rows) -> Judgement:
    """Whether training ends without recovery where no SIGReg could bring its loss to the preferred one."""
    lines = [
        line for line in places(rows) if line["weight"] >= 0.5 and None not in (line["loss"], line["r2"])
    ]
    worst = max(lines, key=lambda line: line["loss"] - line["loss_preferred"], default={})
    return judged(
        (line["r2"] < 0.5 and line["loss_least"] > line["loss_preferred"] for line in lines), **worst
    )


def _label_free(rows: Rows) -> Judgement:
    """Whether the weight of the smallest bound is that of the smallest error, rho by rho."""
    known = [line for line in places(rows) if None not in (line["bound"], line["error"])]
    lines = []
    for rho in sorted({line["rho"] for line in known}):
        own = [line for line in known if line["rho"] == rho]
        chosen, best = (min(own, key=lambda line: line[key]) for key in ("bound", "error"))
        cost = chosen["error"] / max(best["error"], math.ulp(1.0))
        lines += [{"same": chosen is best, "cost": cost}] if len(own) > 1 else []
    return judge_lines(lines, lambda line: line["same"], "{cost:.2f}", "cost")


def _numbers(rows: Rows) -> dict[str, Value]:
    own, places_found = places(rows), {}
    for key in ("r2", "r2_orthogonal"):
        known = [line for line in own if line[key] is not None]
        top = max(known, key=lambda line: line[key], default=None)
        told = "{" + key + ":.4f}, is at weight {weight:g} and ρ {rho:g}"
        places_found[f"top_{key}"] = None if top is None else told.format_map(top)
    dead = sum(line["r2_preferred"] is None for line in own)
    return {**places_found, "dead": dead or None, "places": len(own), "spots": len(places(rows, PUBLISHED))}


STUDY = Study(
    name="grid",
    title="Weight against correlation",
    source="Klindt, LeCun & Balestriero (2026), Appendix H, grid search",
    cells=cells,
    story=Path(__file__).with_suffix(".md"),
    tables=TableSpec.named(
        statements=ask, places=places, published_settings=lambda rows: places(rows, PUBLISHED)
    ),
    charts=[
        ChartSpec("heat_maps", _heat_maps, columns=2),
        ChartSpec("cuts", _cuts, columns=4, size=(3.4, 3.4)),
    ],
    statements=Statement.named(
        published=_published_claims(OURS),
        again=_published_claims(PUBLISHED),
        small=_agreement(above=False),
        large=_agreement(above=True),
        optimiser=_optimiser,
        label_free=_label_free,
    ),
    numbers=_numbers,
)
