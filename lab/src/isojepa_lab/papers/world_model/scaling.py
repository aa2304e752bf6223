"""From 2 to 1,024 latents: noisy copies, as published, seen through a coupling that the encoder can undo.

Couplings preserve volume: such an encoder cannot collapse, and alignment alone finds the inverse, which is
why the published weight of 1e-6 worked. Two controls say so: alignment without any regularizer, and a free
encoder, which ends with a linear map. A world is a seed of the mixing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

from isojepa.config import Config
from isojepa.objectives import matched_sigma
from isojepa.registry import Spec, build_spec, replace_settings
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.findings import Value, compare
from isojepa_lab.studies.measured import cpu_seconds, lowest_loss, microseconds_a_pair, pairs_of, share
from isojepa_lab.studies.published import Published, published_scaling, read_published
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import OURS, PUBLISHED, PUBLISHED_RECIPE, PUBLISHED_SIGMA, shortened
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import (
    Judge,
    Judgement,
    Statement,
    asks,
    at_most,
    below,
    judge_lines,
    judge_values,
)
from isojepa_lab.studies.study import Study

DIMS = tuple(2**power for power in range(1, 11))
RHO = 0.95  # of each copy: the copies correlate by its square
LAYERS = 4
SUBSPACE = 4  # dimension of the slices of InfoNCE: their information is below the logarithm of the batch
PUBLISHED_DIMS = 256  # up to which the published settings are run at standard scale, in one world
ATTEMPTS = 3  # encoders per world up to 32 latents, as published
METHODS = {
    "SIGReg": build_spec("objective", "lejepa", weight=1e-4, slices=64),
    "whitening": build_spec("objective", "whitening", weight=1e-3),
    "VICReg": build_spec("objective", "vicreg", weight=1e-2),
    "InfoNCE, published width": build_spec("objective", "infonce", sigma=PUBLISHED_SIGMA),
    "InfoNCE, matched width": build_spec("objective", "infonce", sigma="matched"),
    # at 0.5, the usual InfoNCE, the noise of random subspaces costs R^2 from 128 latents on
    "InfoNCE, sliced": build_spec("objective", "sliced-infonce", sigma="matched", k=SUBSPACE, weight=0.2),
}
CONTROL, CONTROL_DIMS = "alignment alone", (2, 8, 64, 256)  # SIGReg without its weight
FREE, FREE_DIMS = "free encoder", (2, 8, 64)
FREE_METHODS = {
    f"SIGReg at the published weight, {FREE}": build_spec("objective", "lejepa", weight=1e-6, slices=64),
    f"SIGReg, {FREE}": build_spec("objective", "lejepa", weight=1e-3, slices=512),
    f"whitening, {FREE}": build_spec("objective", "whitening", weight=0.1),
}
OUR_METHODS = METHODS | FREE_METHODS | {CONTROL: replace_settings(METHODS["SIGReg"], weight=0.0)}
PUBLISHED_METHODS = {
    "SIGReg": build_spec("objective", "lejepa", weight=1e-6, slices=256),
    "whitening": build_spec("objective", "whitening", weight=1e-6),
    "InfoNCE, published width": METHODS["InfoNCE, published width"],
}
LONG = replace(PUBLISHED_RECIPE, eval_every=5000)
CONTRASTIVE = tuple(method for method in METHODS if method.startswith("InfoNCE"))
PANELS = {
    "Batch statistics": tuple(method for method in OUR_METHODS if method not in CONTRASTIVE),
    "Contrastive": CONTRASTIVE,
}
BESIDE = {"SIGReg": "sigreg", "whitening": "vicreg", "InfoNCE": "infonce"}  # its "VICReg" whitens
FIRST = 64  # dimension from which the cost must grow no faster than the encoder's operations
LARGER = tuple(dim for dim in DIMS if dim > FIRST)
LEAST = 1e-7  # of 1 - R^2 that is drawn


def cells(scale: str) -> list[Cell]:
    """All dimensions and methods; at paper scale the published settings beside ours, each in five worlds."""
    if scale == "quick":
        quick = _runs(OURS, (2, 8), "SIGReg") + _runs(OURS, 2, "InfoNCE, matched width")
        return [Cell(shortened(cell.trained, 60), cell.labels) for cell in quick]
    whole, cells = scale == "paper", []
    for dim in DIMS:
        # R^2 varies less between worlds the more latents they have
        cells += _runs(OURS, dim, METHODS, 5 if whole else 3 if dim <= 128 else 2 if dim <= 256 else 1)
    for dim in CONTROL_DIMS:
        cells += _runs(OURS, dim, CONTROL, 1 if dim > 64 else 3)
    cells += _runs(OURS, FREE_DIMS, FREE_METHODS)
    for dim in DIMS if whole else ():
        cells += _runs(PUBLISHED, dim, PUBLISHED_METHODS, 5, ATTEMPTS if dim <= 32 else 1)
    return cells if whole else cells + _runs(PUBLISHED, (d for d in DIMS if d <= PUBLISHED_DIMS), "SIGReg")


def _runs(settings: str, dim: Any, method: Any, worlds: int = 1, attempts: int = 1) -> list[Cell]:
    counts = {"world": range(worlds), "attempt": range(attempts)}
    return crossed(_config, settings=settings, dim=dim, method=method, **counts)


def _config(settings: str, dim: int, method: str, world: int, attempt: int) -> Config:
    mixing: dict[str, Any] = {"mixing": "additive-coupling", "mixing_layers": LAYERS, "mixing_seed": world}
    objective, recipe = _ours(method, dim) if settings == OURS else (PUBLISHED_METHODS[method], LONG)
    return Config(
        world=build_spec("world", process="noisy-copies", dim=dim, rho=RHO, **mixing),
        encoder=build_spec(
            "encoder", "free-coupling" if method in FREE_METHODS else "coupling", layers=LAYERS
        ),
        objective=objective,
        training=replace(recipe, eval_samples=max(2000, 4 * dim)),
        seed=1000 * attempt + world,
    )


def _ours(method: str, dim: int) -> tuple[Spec, Recipe]:
    objective, rate = OUR_METHODS[method], learning_rate(dim)
    recipe = Recipe(steps=2500, learning_rate=rate, eval_every=2500)
    if objective.name == "infonce":
        recipe = replace(recipe, batch=512)  # similarities grow with the square of it
    if objective.name == "sliced-infonce":
        # subspaces that fill the space, or most directions are not seen in a step
        objective = replace_settings(objective, slices=max(8, dim // SUBSPACE))
        recipe = replace(recipe, batch=256 if dim <= 128 else 128, learning_rate=2 * rate)
        if dim > 512:  # still rising after 2,500 steps of so small a batch
            recipe = replace(recipe, steps=5000, eval_every=5000)
    return objective, recipe


def learning_rate(dim: int) -> float:
    """Ours: 1e-2 up to 16 latents, from there on falling with the third root of the dimension."""
    return float(1e-2 * min(1.0, (16 / dim) ** (1 / 3)))


def best_of(rows: Rows) -> Rows:
    """Of several encoders of one world, the one of lowest training loss; worlds are never chosen between."""
    return Rows(lowest_loss(rows, "settings", "method", "dim", "world"))


def beside(method: str, dim: int) -> Published | None:
    """What was published of a method's kind at a dimension."""
    kind = next((kind for name, kind in BESIDE.items() if method.startswith(name)), "")
    dims = {row["dim"] for row in read_published("identifiability_scaling") if row["method"] == kind}
    return published_scaling(kind, dim) if FREE not in method and dim in dims else None


def operations(dim: int) -> float:
    """Floating-point operations of the encoder for one pair: two views, forward and backward."""
    return 2 * 3 * 2 * LAYERS * (dim / 2) ** 2


def _every(rows: Rows) -> Lines:
    """By method, settings and dimension: all numbers, with what was published of them."""
    return best_of(rows).lines(
        ["method", "settings", "dim"],
        *("r2", "r2_z_to_h", "alignment", "sigreg", "whitening"),
        _compared,
        orthogonality="orthogonality_error",
        worlds=len,
        holds=lambda own: share(own, "holds"),
        pairs=lambda own: fmean(map(pairs_of, own)) / 1e6,
        seconds=cpu_seconds,
    )


def _compared(own: Rows) -> dict[str, Value]:
    published, measured = beside(own.label("method"), own.label("dim")), own.values("r2")
    if published is None:
        return {}
    numbers = (published.r2_h_to_z, published.r2_h_to_z_std, published.runs, published.r2_rounding)
    line = compare(measured, *numbers) if measured else {}
    line["orthogonality_published"] = published.orthogonality_error
    return line | {"alignment_published": published.alignment_loss}


def _methods(rows: Rows) -> Lines:
    """R^2 by dimension and method, as in the published Table 1."""
    return best_of(rows).where(settings=OURS).pivot(["dim"], "{method}", "r2", observed="r2_x_to_z")


def _cost(rows: Rows) -> Lines:
    """Measured time per pair against the encoder's operations, both relative to 64 latents."""
    selection = rows.where(method="SIGReg", settings=OURS)
    lines = selection.lines(["dim"], microseconds=microseconds_a_pair).known("microseconds")
    for line in lines:
        line["operations"] = operations(line["dim"]) / 1e6
        for first in lines.where(dim=FIRST):
            line["predicted"] = first["microseconds"] * operations(line["dim"]) / operations(FIRST)
            line["ratio"] = line["microseconds"] / line["predicted"]
    return lines


def _information(rows: Rows) -> Lines:
    """Why InfoNCE fails: the information of a pair, and what a batch can show of it."""
    selection, nats = best_of(rows).where(settings=OURS, method=CONTRASTIVE), -math.log(1 - RHO**4) / 2
    log_batch = math.log(max((row.config["training"]["batch"] for row in selection), default=1))
    lines = selection.pivot(["dim"], "{method}", "r2", observed="r2_x_to_z")
    return Lines(line | {"information": line["dim"] * nats, "shown": log_batch} for line in lines)


def _panels(rows: Rows) -> list[Chart]:
    """1 - R^2 by method: objectives of batch statistics, and contrastive ones."""
    best, panels = best_of(rows), []
    scales: dict[str, Any] = {"height": lambda r2: max(1 - r2, LEAST)}
    for title, methods in PANELS.items():
        selection, curves = (
            best.where(method=methods),
            best.curves("dim", "r2_x_to_z", "observations", **scales),
        )
        curves += selection.where(settings=OURS).curves("dim", "r2", "{method}", **scales)
        again, name = selection.where(settings=PUBLISHED), "{method}, published settings"
        curves += again.curves("dim", "r2", name, {PUBLISHED: "dashed"}, **scales)
        for color, method in enumerate((one for one in PUBLISHED_METHODS if one in methods), 1):
            published = {dim: beside(method, dim) for dim in DIMS}
            points = {dim: 1 - one.r2_h_to_z for dim, one in published.items() if one is not None}
            curves.append(Curve(f"{method.split(',')[0]}, published", points, color, "dotted"))
        panels.append(curves_chart(title, "latents", "1 − R² of z from h", curves))
    return panels


def _ours_of(*ends: str) -> Callable[[Rows], Lines]:
    """The lines of our settings whose method is, or ends with, one of some names."""
    return lambda rows: _every(rows).where(settings=OURS, method=lambda method: method.endswith(ends))


def _alone(rows: Rows) -> Lines:
    """What alignment leaves alone, what with SIGReg, and how much more than three times as much that is."""
    lines = _methods(rows).known(CONTROL, "SIGReg")
    errors = [(line["dim"], 1 - line[CONTROL], 1 - line["SIGReg"]) for line in lines]
    return Lines({"dim": dim, "alone": one, "held": two, "more": one - 3 * two} for dim, one, two in errors)


def _recovers(*ends: str) -> Judge:
    return asks(_ours_of(*ends), "r2", lambda r2: r2 > 0.99, "{method} at {dim} ({r2:.4f})")


def _as_published(rows: Rows) -> Judgement:
    """Whether InfoNCE at the published width succeeds and fails where the published runs do."""
    lines = _ours_of("InfoNCE, published width")(rows).known("r2", "published")
    text = "{dim} ({r2:.4f} against {published:.4f})"
    return judge_lines(lines, lambda line: (line["r2"] > 0.99) == (line["published"] > 0.99), text)


def _noise(rows: Rows) -> Judgement:
    """Whether 1 - R^2 is in proportion to the number of latents."""
    rates = {line["dim"]: (1 - line["r2"]) / line["dim"] for line in _ours_of("SIGReg")(rows).known("r2")}
    ratios = [rate / rates[FIRST] for rate in rates.values()] if rates.get(FIRST) else []
    return judge_values(ratios, lambda rate: 0.5 < rate < 2)


def _numbers(rows: Rows) -> dict[str, Value]:
    pairs = {name: [pairs_of(row) / 1e6 for row in rows.where(settings=name)] for name in (OURS, PUBLISHED)}
    return {
        "dropped": len(rows) - len(best_of(rows)),
        "pairs": ", ".join(f"{name} {fmean(pair):.2f} million" for name, pair in pairs.items() if pair)
        or None,
        "negative": sum(r2 < 0 for r2 in rows.values("r2")) or None,
        "aligned": (1 - RHO**2) / 2,
        "sigma": matched_sigma(RHO**2),
    }


STUDY = Study.of_file(
    __file__,
    title="From 2 to 1,024 latents",
    source="Klindt, LeCun & Balestriero (2026), Table 1 and Appendix H, scaling",
    cells=cells,
    tables=TableSpec.named(
        methods=_methods,
        details=_every,
        cost=_cost,
        information=_information,
        published=lambda rows: _every(rows).known("ours"),
    ),
    charts=[ChartSpec("recovery", _panels, size=(5.0, 5.6), legend="own")],
    statements=Statement.named(
        met=asks(
            _ours_of("SIGReg", "whitening"),
            "difference",
            lambda more: more >= -5e-7,
            "{method} at {dim} ({r2:.6f} against {published:.6f})",
            order="r2",
        ),
        control=asks(_alone, "more", below(1e-6), "{dim}: {alone:.1e} and {held:.1e}"),
        free=_recovers(FREE),
        infonce=_recovers("InfoNCE, published width", "InfoNCE, matched width"),
        published=_as_published,
        sliced=_recovers("InfoNCE, sliced"),
        growth=asks(lambda rows: _cost(rows).where(dim=LARGER), "ratio", at_most(1), "{ratio:.2f} at {dim}"),
        noise=_noise,
    ),
    numbers=_numbers,
)
