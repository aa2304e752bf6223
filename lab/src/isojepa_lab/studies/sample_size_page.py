"""What the runs on finite training sets say, in sentences, tables and a figure."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import linregress

from isojepa.report.colors import INK, QUIET
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Column, Findings, Picture, Table
from isojepa_lab.studies.measured import grouped, measured, told, unscored
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.sample_size import ENDLESS, OBJECTIVES, WORLDS
from isojepa_lab.studies.study import Row

Point = dict[str, Any]
GOAL = 0.99
_ABOVE_FLOOR = 3.0  # 1 - R^2 over that of fresh pairs, from which the training set decides it
_ROOM = 0.1  # largest 1 - R^2 of a slope: beyond, little is learned yet


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, figure and sentences of the rows."""
    scored = [row for row in rows if measured(row, "r2") is not None]
    points = summaries(scored)
    if not points:
        return Findings(["No run is there yet that could be scored."], notes=[told(rows)])
    curves = [curve(group) for group in _by_curve(points).values()]
    picture = Picture(
        "pairs",
        "Left: what a linear map does not read off the embedding, on fresh pairs, against the number of "
        "training pairs; the level of endless data is dotted, 1 / N dashed. Middle: Theorem 3's error, "
        "filled, and its bound, hollow. Right: loss on fresh pairs less the loss in training, per loss on "
        "fresh pairs.",
        draw(points),
    )
    sentences = [_rate(curves), _needed(curves), _gap(points), _bound(scored)]
    return Findings(
        [text for text in sentences if text], [_curve_table(curves), _table(points)], [picture], _notes(rows)
    )


def summaries(rows: Sequence[Row]) -> list[Point]:
    """One mapping per world, objective and size: medians over seeds, as a local minimum is no trend."""
    summary_rows = []
    for (world, objective, pairs), group in grouped(rows, "world", "objective", "pairs").items():
        fresh = _median(map(fresh_loss, group))
        training = _median(map(training_loss, group))
        summary_rows.append(
            {
                "world": world,
                "objective": objective,
                "pairs": pairs,
                "size": f"{pairs:,}" if pairs else "endless",
                "runs": len(group),
                "r2": _median(measured(row, "r2") for row in group),
                "r2_low": min(measured(row, "r2") or 0.0 for row in group),
                "r2_high": max(measured(row, "r2") or 0.0 for row in group),
                "error": _median(measured(row, "error") for row in group),
                "bound": _median(measured(row, "bound") for row in group),
                "training": training,
                "fresh": fresh,
                "gap": None if fresh is None or training is None else fresh - training,
                "holds": _count(row.scores.get("holds") for row in group),
            }
        )
    return sorted(
        summary_rows,
        key=lambda one: (
            [*WORLDS, one["world"]].index(one["world"]),
            [*OBJECTIVES, one["objective"]].index(one["objective"]),
            one["pairs"] == ENDLESS,
            one["pairs"],
        ),
    )


def fresh_loss(row: Row) -> float | None:
    """The loss of a row's objective on fresh pairs, from the scores; None where it was not measured."""
    objective = row.config["objective"]
    weight, alignment = objective.get("weight"), measured(row, "alignment")
    regularizer = measured(row, "whitening" if objective["name"] == "whitening" else "sigreg")
    if weight is None or alignment is None or regularizer is None:
        return None
    return float(weight * regularizer + (1 - weight) * alignment)


def training_loss(row: Row) -> float | None:
    """The loss in training, without what whitening charges a batch for being finite.

    Mean and covariance of b white Gaussian samples in d dimensions cost (d + 2) / b on average, and
    (d + 2) / b (1 - b / N) when the b are drawn from N that cost nothing.
    """
    objective, world = row.config["objective"], row.config["world"]
    if row.loss is None or objective["name"] != "whitening" or objective.get("weight") is None:
        return row.loss
    recipe = Recipe(**row.config["training"])
    pairs = recipe.pairs or math.inf
    last = range(recipe.steps - (recipe.steps - 1) % recipe.eval_every - 1, recipe.steps)
    sizes = [min(recipe.batch_at(step), pairs) for step in last]
    noise = fmean((world["dim"] + 2) / size * (1 - size / pairs) for size in sizes)
    return float(row.loss - objective["weight"] * noise)


def curve(points: Sequence[Point]) -> Point:
    """Slope of log(1 - R^2) over log N, where the training set decides, and the pairs that R^2 0.99 takes.

    Args:
        points: of one world and objective.
    """
    finite = sorted((one for one in points if one["pairs"] != ENDLESS), key=lambda one: one["pairs"])
    floor = next((1 - one["r2"] for one in points if one["pairs"] == ENDLESS), None)
    chosen = [one for one in finite if _ABOVE_FLOOR * (floor or 0.0) < 1 - one["r2"] < _ROOM]
    slope = error = None
    if len(chosen) >= 3:
        x, y = np.log([one["pairs"] for one in chosen]), np.log([1 - one["r2"] for one in chosen])
        fit = linregress(x, y)
        slope, error = float(fit.slope), float(fit.stderr)
    good = [one["r2"] > GOAL for one in finite]
    needed = next((one["pairs"] for i, one in enumerate(finite) if all(good[i:])), None)
    ever = next((one["pairs"] for one, fine in zip(finite, good, strict=True) if fine), None)
    return {
        "world": points[0]["world"],
        "objective": points[0]["objective"],
        "slope": slope,
        "slope_error": error,
        "from": chosen[0]["pairs"] if slope is not None else None,
        "to": chosen[-1]["pairs"] if slope is not None else None,
        "floor": floor,
        "needed": needed,
        "first": ever,
        "best": min((1 - one["r2"] for one in finite), default=None),
    }


def _by_curve(points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    by_curve: dict[tuple[str, str], list[Point]] = {}
    for one in points:
        by_curve.setdefault((one["world"], one["objective"]), []).append(one)
    return by_curve


def _median(values: Any) -> float | None:
    finite = [value for value in values if value is not None]
    return median(finite) if finite else None


def _count(values: Any) -> str | None:
    flags = [bool(value) for value in values if value is not None]
    return f"{sum(flags)} of {len(flags)}" if flags else None


def _curve_table(curves: Sequence[Point]) -> Table:
    columns = [
        Column("world", "world and encoder"),
        Column("objective", "objective"),
        Column("slope", "slope", "+.2f"),
        Column("slope_error", "± error", ".2f"),
        Column("from", "from pairs", ",d"),
        Column("to", "to pairs", ",d"),
        Column("needed", f"pairs for R² > {GOAL:g}", ",d"),
        Column("best", "least 1 − R²", ".1e"),
        Column("floor", "endless data", ".1e"),
    ]
    note = (
        "Slope of log(1 − R²) over log N by least squares on medians over seeds, where 1 − R² is below "
        f"{_ROOM:g} and above {_ABOVE_FLOOR:g} times that of endless data: there the training set decides. "
        "Pairs for an R²: the least size from which on every larger one passes it."
    )
    return Table("curves", "How recovery grows with the training set", columns, curves, note)


def _table(points: Sequence[Point]) -> Table:
    columns = [
        Column("world", "world and encoder"),
        Column("objective", "objective"),
        Column("size", "training pairs"),
        Column("runs", "runs", "d"),
        Column("r2", "R²", ".5f"),
        Column("r2_low", "lowest", ".5f"),
        Column("error", "error", ".2e"),
        Column("bound", "bound", ".2e"),
        Column("holds", "bound holds"),
        Column("training", "training loss", ".4f"),
        Column("fresh", "fresh loss", ".4f"),
        Column("gap", "difference", "+.4f"),
    ]
    note = (
        "Medians over seeds; all but the training loss on fresh pairs. The training loss is the mean over "
        "the last tenth of the steps, without what whitening charges a batch for being finite. SIGReg's "
        "value depends on the batch, so differences of a thousandth mean nothing."
    )
    return Table("sizes", "Every size", columns, points, note)


def _rate(curves: Sequence[Point]) -> str:
    with_slope = [one for one in curves if one["slope"] is not None]
    if not with_slope:
        return ""
    parts = [
        f"{one['slope']:+.2f} ± {one['slope_error']:.2f} for {one['world']} under {one['objective']} "
        f"({one['from']:,} to {one['to']:,} pairs)"
        for one in with_slope
    ]
    matched = [one["slope"] for one in with_slope if "matched" in one["world"]]
    near = matched and all(abs(slope + 1) < 0.35 for slope in matched)
    start = (
        "**With a matched encoder 1 − R² falls about as 1 / N.**"
        if near
        else "**How fast 1 − R² falls with the number of pairs depends on encoder and objective.**"
    )
    return f"{start} The slope in log-log is {'; '.join(parts)}."


def _needed(curves: Sequence[Point]) -> str:
    parts = []
    for one in curves:
        place = f"{one['world']} under {one['objective']}"
        if one["needed"] is not None:
            parts.append(f"{one['needed']:,} for {place}")
        elif one["first"] is not None:
            parts.append(f"{one['first']:,}, though not every larger set does, for {place}")
        elif one["best"] is not None:
            parts.append(f"more than there were for {place} (least 1 − R² {one['best']:.3f})")
    return f"**Pairs that R² > {GOAL:g} takes**: {'; '.join(parts)}." if parts else ""


def _gap(points: Sequence[Point]) -> str:
    with_gap = [one for one in points if one["gap"] is not None and one["pairs"] != ENDLESS]
    if not with_gap:
        return ""
    sizes = [one["pairs"] for one in with_gap]
    small = [one for one in with_gap if one["pairs"] == min(sizes)]
    parts = [
        f"{one['training']:.4f} in training and {one['fresh']:.4f} on fresh pairs for {one['world']} under "
        f"{one['objective']}"
        for one in small
    ]
    by_heart = any(one["gap"] > 0.5 * one["fresh"] for one in small)
    start = (
        "Small sets are learned by heart." if by_heart else "Even the smallest set is not learned by heart."
    )
    text = f"**{start}** With {min(sizes):,} pairs the loss is {'; '.join(parts)}."
    if max(sizes) > min(sizes):
        apart = max(abs(one["gap"]) for one in with_gap if one["pairs"] == max(sizes))
        text += f" With {max(sizes):,} pairs the two differ by {apart:.4f} at most."
    return text


def _bound(rows: Sequence[Row]) -> str:
    with_bound = [row for row in rows if row.scores.get("holds") is not None]
    if not with_bound:
        return ""
    held = sum(bool(row.scores["holds"]) for row in with_bound)
    ratios = [
        bound / error
        for row in with_bound
        if (bound := measured(row, "bound")) is not None and (error := measured(row, "error"))
    ]
    start = (
        "**The bound holds on fresh pairs" if held == len(with_bound) else "**The bound does not always hold"
    )
    middle = f", {median(ratios):.0f} times the error at the median" if ratios else ""
    text = f"{start}**: in {held} of {len(with_bound)} runs, overfitted ones included{middle}."
    if held == len(with_bound):
        text += (
            " It grows with the error, so an encoder that has learned its pairs by heart is not certified."
        )
    return text


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        told(rows),
        "Batches are drawn from the training set without repetition within a batch; a set smaller than the "
        "batch is one batch. No early stopping and no weight decay: both would help the small sets.",
        "The matched encoder has the mixing's own form, so what it misses is estimation. Its 1 − R² falls "
        "until the optimizer's noise is left, which endless data has too.",
    ]
    missing = len(unscored(rows))
    return [*notes, f"{missing} runs could not be scored and are left out."] if missing else notes


def draw(points: Sequence[Point]) -> Figure:
    """1 - R^2, error and bound, and the gap between training and fresh pairs, over the training pairs."""
    figure = Figure(figsize=(13, 4.0), dpi=100, layout="constrained")
    recovery, bounds, gaps = figure.subplots(1, 3)
    colors = dict(zip(WORLDS, COLORS, strict=False))
    sizes = sorted({one["pairs"] for one in points if one["pairs"] != ENDLESS})
    for (world, objective), group in _by_curve(points).items():
        finite = [one for one in group if one["pairs"] != ENDLESS]
        across, color = [one["pairs"] for one in finite], colors.get(world, QUIET)
        style = "-" if objective == "SIGReg" else "--"
        marker = "o" if objective == "SIGReg" else "s"
        recovery.plot(
            across,
            [1 - one["r2"] for one in finite],
            style,
            marker=marker,
            color=color,
            markersize=4,
            linewidth=1,
            label=f"{world}, {objective}",
        )
        for one in group:
            if one["pairs"] == ENDLESS and sizes:
                level = [1 - one["r2"]] * 2
                recovery.plot([sizes[0], sizes[-1]], level, ":", color=color, linewidth=0.8)
        for name, fill in (("error", color), ("bound", "none")):
            bounds.plot(
                across,
                [math.nan if one[name] is None else one[name] for one in finite],
                style,
                marker=marker,
                color=color,
                markerfacecolor=fill,
                markersize=4,
                linewidth=1 if name == "error" else 0.5,
            )
        relative = [
            one["gap"] / one["fresh"] if one["gap"] is not None and one["fresh"] else math.nan
            for one in finite
        ]
        gaps.plot(across, relative, style, marker=marker, color=color, markersize=4, linewidth=1)
    if sizes:
        recovery.plot(
            sizes, [0.5 * sizes[0] / size for size in sizes], "--", color=QUIET, linewidth=0.8, zorder=1
        )
    for axes in (recovery, bounds):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    gaps.set_xscale("log", base=2)
    gaps.axhline(0, color=QUIET, linewidth=0.8)
    plain_axes(recovery, "1 − R² on fresh pairs", "training pairs")
    plain_axes(bounds, "error (filled) and bound (hollow)", "training pairs")
    plain_axes(gaps, "(fresh loss − training loss) / fresh loss", "training pairs")
    recovery.legend(fontsize=7, frameon=False, labelcolor=INK, loc="upper right")
    return figure
