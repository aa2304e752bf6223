"""From 2 to 1,024 latents: noisy copies, as published, seen through a coupling that the encoder can undo.

Couplings preserve volume: such an encoder cannot collapse, and alignment alone finds the inverse, which is
why the published weight of 1e-6 worked. Two controls say so: alignment without any regularizer, and a free
encoder, which ends with a linear map. A world is a seed of the mixing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec, FreeCouplingSpec
from isojepa.objectives import matched_sigma
from isojepa.objectives.infonce import InfoNCESpec, SlicedInfoNCESpec
from isojepa.objectives.lejepa import LeJEPASpec, WhiteningSpec
from isojepa.objectives.vicreg import VICRegSpec
from isojepa.registry import Spec, changed, make
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.studies.findings import Value, compare
from isojepa.studies.lines import by_label, curves, pivot
from isojepa.studies.measured import cpu_seconds, grouped, lowest_loss, mean, pairs_of, select, values
from isojepa.studies.published import Published, published_scaling, read_published
from isojepa.studies.settings import OURS, PUBLISHED, PUBLISHED_RECIPE, PUBLISHED_SIGMA, shortened
from isojepa.studies.specs import ChartSpec, Lines, Rows, TableSpec
from isojepa.studies.statements import Judgement, Statement, judge_lines, judge_values
from isojepa.studies.study import Cell, Row, Study
from isojepa.training.recipe import Recipe

DIMS = tuple(2**power for power in range(1, 11))
RHO = 0.95  # of each copy: the copies correlate by its square
LAYERS = 4
SUBSPACE = 4  # dimension of the slices of InfoNCE: their information is below the logarithm of the batch
PUBLISHED_DIMS = 256  # up to which the published settings are run at standard scale, in one world
ATTEMPTS = 3  # encoders per world up to 32 latents, as published
METHODS = {
    "SIGReg": LeJEPASpec(weight=1e-4, slices=64),
    "whitening": WhiteningSpec(weight=1e-3),
    "VICReg": VICRegSpec(weight=1e-2),
    "InfoNCE, published width": InfoNCESpec(sigma=PUBLISHED_SIGMA),
    "InfoNCE, matched width": InfoNCESpec(sigma="matched"),
    # at 0.5, the usual InfoNCE, the noise of random subspaces costs R^2 from 128 latents on
    "InfoNCE, sliced": SlicedInfoNCESpec(sigma="matched", k=SUBSPACE, weight=0.2),
}
CONTROL, CONTROL_DIMS = "alignment alone", (2, 8, 64, 256)
FREE, FREE_DIMS = "free encoder", (2, 8, 64)
FREE_METHODS = {
    f"SIGReg at the published weight, {FREE}": LeJEPASpec(weight=1e-6, slices=64),
    f"SIGReg, {FREE}": LeJEPASpec(weight=1e-3, slices=512),
    f"whitening, {FREE}": WhiteningSpec(weight=0.1),
}
PUBLISHED_METHODS = {
    "SIGReg": LeJEPASpec(weight=1e-6, slices=256),
    "whitening": WhiteningSpec(weight=1e-6),
    "InfoNCE, published width": METHODS["InfoNCE, published width"],
}
BESIDE = {"SIGReg": "sigreg", "whitening": "vicreg", "InfoNCE": "infonce"}  # its "VICReg" whitens
FIRST = 64  # dimension from which the cost must grow no faster than the encoder's operations
LEAST = 1e-7  # of 1 - R^2 that is drawn


def learning_rate(dim: int) -> float:
    """Ours: 1e-2 up to 16 latents, from there on falling with the third root of the dimension."""
    return float(1e-2 * min(1.0, (16 / dim) ** (1 / 3)))


def cells(scale: str) -> list[Cell]:
    """All dimensions and methods; at paper scale the published settings beside ours, each in five worlds."""
    if scale == "quick":
        quick = [_ours("SIGReg", dim, 0) for dim in (2, 8)] + [_ours("InfoNCE, matched width", 2, 0)]
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    whole = scale == "paper"
    # R^2 varies less between worlds the more latents they have
    worlds = {dim: 5 if whole else 3 if dim <= 128 else 2 if dim <= 256 else 1 for dim in DIMS}
    found = [_ours(method, dim, world) for dim in DIMS for method in METHODS for world in range(worlds[dim])]
    for dim in CONTROL_DIMS:
        found += [_changed(CONTROL, dim, world) for world in range(1 if dim > 64 else 3)]
    found += [_changed(method, dim, 0) for dim in FREE_DIMS for method in FREE_METHODS]
    recipe = replace(PUBLISHED_RECIPE, eval_every=5000)
    return found + [
        _cell(method, PUBLISHED, PUBLISHED_METHODS[method], recipe, dim, world, attempt)
        for dim in DIMS
        if whole or dim <= PUBLISHED_DIMS
        for method in (PUBLISHED_METHODS if whole else ("SIGReg",))
        for world in range(5 if whole else 1)
        for attempt in range(ATTEMPTS if whole and dim <= 32 else 1)
    ]


def _ours(method: str, dim: int, world: int) -> Cell:
    recipe, objective = Recipe(steps=2500, learning_rate=learning_rate(dim), eval_every=2500), METHODS[method]
    if objective.name == "infonce":
        recipe = replace(recipe, batch=512)  # similarities grow with the square of it
    if objective.name == "sliced-infonce":
        # subspaces that fill the space, or most directions are not seen in a step
        objective = changed(objective, slices=max(8, dim // SUBSPACE))
        recipe = replace(recipe, batch=256 if dim <= 128 else 128, learning_rate=2 * learning_rate(dim))
        if dim > 512:  # still rising after 2,500 steps of so small a batch
            recipe = replace(recipe, steps=5000, eval_every=5000)
    return _cell(method, OURS, objective, recipe, dim, world, 0)


def _changed(method: str, dim: int, world: int) -> Cell:
    """Ours with SIGReg, but without its weight, or with a free encoder."""
    cell = _ours("SIGReg", dim, world)
    encoder, objective = cell.trained.encoder, changed(cell.trained.objective, weight=0.0)
    if method in FREE_METHODS:
        encoder, objective = FreeCouplingSpec(layers=LAYERS), FREE_METHODS[method]
    config = replace(cell.trained, encoder=encoder, objective=objective)
    return Cell(config, {**cell.labels, "method": method})


def _cell(
    method: str, settings: str, objective: Spec, recipe: Recipe, dim: int, world: int, attempt: int
) -> Cell:
    config = Config(
        world=make(
            "world",
            process="noisy-copies",
            dim=dim,
            rho=RHO,
            mixing="additive-coupling",
            mixing_layers=LAYERS,
            mixing_seed=world,
        ),
        encoder=CouplingSpec(layers=LAYERS),
        objective=objective,
        training=replace(recipe, eval_samples=max(2000, 4 * dim)),
        seed=1000 * attempt + world,
    )
    return Cell(
        config, {"settings": settings, "method": method, "dim": dim, "world": world, "attempt": attempt}
    )


def best_of(rows: Rows) -> list[Row]:
    """Of several encoders of one world, the one of lowest training loss; worlds are never chosen between."""
    return lowest_loss(rows, "settings", "method", "dim", "world")


def beside(method: str, dim: int) -> Published | None:
    """What was published of a method's kind at a dimension."""
    kind = next((kind for name, kind in BESIDE.items() if method.startswith(name)), "")
    known = {row["dim"] for row in read_published("identifiability_scaling") if row["method"] == kind}
    return published_scaling(kind, dim) if FREE not in method and dim in known else None


def operations(dim: int) -> float:
    """Floating-point operations of the encoder for one pair: two views, forward and backward."""
    return 2 * 3 * 2 * LAYERS * (dim / 2) ** 2


def _every(rows: Rows) -> Lines:
    """By method, settings and dimension: all numbers, with what was published of them."""
    groups = grouped(best_of(rows), "method", "settings", "dim")
    methods, lines = list(dict.fromkeys(method for method, _, _ in groups)), []
    for (method, settings, dim), own in sorted(
        groups.items(), key=lambda one: (methods.index(one[0][0]), one[0][1:])
    ):
        line: dict[str, Any] = {"method": method, "settings": settings, "dim": dim, "worlds": len(own)}
        line |= {name: mean(own, name) for name in ("r2", "r2_z_to_h", "alignment", "sigreg", "whitening")}
        line["orthogonality"] = mean(own, "orthogonality_error")
        holds = [bool(row.scores["holds"]) for row in own if row.scores.get("holds") is not None]
        line["holds"] = f"{sum(holds)} of {len(holds)}" if holds else None
        line |= {"pairs": fmean(map(pairs_of, own)) / 1e6, "seconds": cpu_seconds(own)}
        known, found = beside(str(method), int(dim)), values(own, "r2")
        if known is not None:
            line |= {
                "orthogonality_published": known.orthogonality_error,
                "alignment_published": known.alignment_loss,
            }
        if known is not None and found:
            line |= compare(found, known.r2_h_to_z, known.r2_h_to_z_std, known.runs, known.r2_rounding)
        lines.append(line)
    return lines


def _methods(rows: Rows) -> Lines:
    """R^2 by dimension and method, as in the published Table 1."""
    own = select(best_of(rows), settings=OURS)
    seen = by_label(own, "dim", "r2_x_to_z")
    return [{**line, "observed": seen[line["dim"]]} for line in pivot(own, ["dim"], "{method}", "r2")]


def _cost(rows: Rows) -> Lines:
    """Measured time per pair against the encoder's operations, both relative to 64 latents."""
    own = grouped(select(rows, method="SIGReg", settings=OURS), "dim")
    times = {
        int(dim): (cpu_seconds(some), fmean(map(pairs_of, some))) for (dim,), some in sorted(own.items())
    }
    spent = {dim: 1e6 * seconds / pairs for dim, (seconds, pairs) in times.items() if seconds is not None}
    lines = [{"dim": dim, "operations": operations(dim) / 1e6, "microseconds": spent[dim]} for dim in spent]
    for line in lines if FIRST in spent else []:
        line["predicted"] = spent[FIRST] * operations(int(line["dim"])) / operations(FIRST)
        line["ratio"] = line["microseconds"] / line["predicted"]
    return lines


def _information(rows: Rows) -> Lines:
    """Why InfoNCE fails: the information of a pair, and what a batch can show of it."""
    own = [row for row in best_of(rows) if str(row.labels["method"]).startswith("InfoNCE")]
    seen, nats = by_label(own, "dim", "r2_x_to_z"), -math.log(1 - RHO**4) / 2
    shown = math.log(max((row.config["training"]["batch"] for row in own), default=1))
    lines = pivot(select(own, settings=OURS), ["dim"], "{method}", "r2")
    extra = [{"information": line["dim"] * nats, "observed": seen[line["dim"]]} for line in lines]
    return [line | more | {"shown": shown} for line, more in zip(lines, extra, strict=True)]


def _panels(rows: Rows) -> list[Chart]:
    """1 - R^2 by method: objectives of batch statistics, and contrastive ones."""
    best, panels = best_of(rows), []
    seen = {dim: 1 - (r2 or 0) for dim, r2 in by_label(best, "dim", "r2_x_to_z").items()}
    for title, contrastive in (("Batch statistics", False), ("Contrastive", True)):
        own = [row for row in best if str(row.labels["method"]).startswith("InfoNCE") == contrastive]
        shown = [Curve("observations", seen, 0)]
        for settings, name in ((OURS, "{method}"), (PUBLISHED, "{method}, published settings")):
            some, dashed = select(own, settings=settings), {PUBLISHED: "dashed"}
            shown += curves(some, "dim", "r2", name, dashed, lambda r2: max(1 - r2, LEAST))
        for color, method in enumerate(
            m for m in PUBLISHED_METHODS if m.startswith("InfoNCE") == contrastive
        ):
            known = {dim: beside(method, dim) for dim in DIMS}
            points = {dim: 1 - one.r2_h_to_z for dim, one in known.items() if one is not None}
            shown.append(Curve(f"{method.split(',')[0]}, published", points, color + 1, "dotted"))
        panels.append(curves_chart(title, "latents", "1 − R² of z from h", shown))
    return panels


def _ours_of(rows: Rows, *parts: str) -> Lines:
    """The lines of our settings whose method is, or ends with, one of some names."""
    own = [line for line in _every(rows) if line["settings"] == OURS and line["r2"] is not None]
    return [line for line in own if line["method"].endswith(parts)]


def _met(rows: Rows) -> Judgement:
    text = "{method} at {dim} ({r2:.6f} against {published:.6f})"
    lines = _ours_of(rows, "SIGReg", "whitening")
    return judge_lines(lines, lambda line: line["r2"] >= line["published"] - 5e-7, text, "r2")


def _control(rows: Rows) -> Judgement:
    """Whether alignment alone leaves as little as alignment with SIGReg."""
    lines = [line for line in _methods(rows) if None not in (line.get(CONTROL), line.get("SIGReg"))]
    left = [{"dim": line["dim"], "alone": 1 - line[CONTROL], "held": 1 - line["SIGReg"]} for line in lines]
    text = "{dim}: {alone:.1e} and {held:.1e}"
    return judge_lines(left, lambda line: line["alone"] < 3 * line["held"] + 1e-6, text)


def _recovers(*parts: str) -> Callable[[Rows], Judgement]:
    text = "{method} at {dim} ({r2:.4f})"
    return lambda rows: judge_lines(_ours_of(rows, *parts), lambda line: line["r2"] > 0.99, text, "r2")


def _growth(rows: Rows) -> Judgement:
    lines = [line for line in _cost(rows) if "ratio" in line and line["dim"] > FIRST]
    return judge_lines(lines, lambda line: line["ratio"] <= 1, "{ratio:.2f} at {dim}")


def _noise(rows: Rows) -> Judgement:
    """Whether 1 - R^2 is in proportion to the number of latents."""
    rates = {line["dim"]: (1 - line["r2"]) / line["dim"] for line in _ours_of(rows, "SIGReg")}
    found = [rate / rates[FIRST] for rate in rates.values()] if rates.get(FIRST) else []
    return judge_values(found, lambda rate: 0.5 < rate < 2)


def _numbers(rows: Rows) -> dict[str, Value]:
    pairs = {name: [pairs_of(row) / 1e6 for row in select(rows, settings=name)] for name in (OURS, PUBLISHED)}
    return {
        "dropped": len(rows) - len(best_of(rows)),
        "pairs": ", ".join(f"{name} {fmean(own):.2f} million" for name, own in pairs.items() if own) or None,
        "negative": sum(r2 < 0 for r2 in values(rows, "r2")) or None,
        "aligned": (1 - RHO**2) / 2,
        "sigma": matched_sigma(RHO**2),
    }


STUDY = Study(
    name="scaling",
    title="From 2 to 1,024 latents",
    source="Klindt, LeCun & Balestriero (2026), Table 1 and Appendix H, scaling",
    cells=cells,
    story=Path(__file__).with_suffix(".md"),
    tables=[
        *TableSpec.named(methods=_methods, details=_every, cost=_cost, information=_information),
        TableSpec("published", lambda rows: [line for line in _every(rows) if "ours" in line]),
    ],
    charts=[ChartSpec("recovery", _panels, size=(5.0, 5.6), legend="own")],
    statements=Statement.named(
        met=_met,
        control=_control,
        free=_recovers(FREE),
        infonce=_recovers("InfoNCE, published width", "InfoNCE, matched width"),
        sliced=_recovers("InfoNCE, sliced"),
        growth=_growth,
        noise=_noise,
    ),
    numbers=_numbers,
)
