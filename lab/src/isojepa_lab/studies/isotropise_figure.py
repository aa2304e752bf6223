"""The figure of the study of isotropised pairs: what was recovered, against what the weights did."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.isotropise_findings import average, score, select
from isojepa_lab.studies.isotropise_page import objectives
from isojepa_lab.studies.results import COLORS, plain_axes

Rows = Sequence[Mapping[str, Any]]
_FAST = 1  # the latent that is lost first


def draw(rows: Rows) -> Figure:
    """Recovery by dose for two weights; its cost; strides; a long stride; theory against training."""
    figure = Figure(figsize=(13.5, 8), dpi=90, layout="constrained")
    (one, two, cost), (strides, long, theory) = figure.subplots(2, 3)
    names = objectives(rows)
    _by_dose(one, rows, 8, names[0])
    _by_dose(two, rows, 8, names[min(1, len(names) - 1)])
    _cost(cost, rows)
    _strides(strides, rows, names[:2])
    _by_dose(long, rows, 64, names[-1])
    _theory(theory, rows)
    return figure


def _methods(rows: Rows, stride: int) -> list[str]:
    methods = dict.fromkeys(row["method"] for row in rows if row["stride"] == stride)
    return [name for name in methods if name not in ("data", "ideal")]


def _colors(rows: Rows) -> dict[str, str]:
    return dict(zip(_methods(rows, 8), COLORS, strict=False))


def _by_dose(axes: Axes, rows: Rows, stride: int, objective: str) -> None:
    baseline = select(rows, "data", 0.0, stride)
    colors = _colors(rows)
    for method in _methods(rows, stride):
        strengths = sorted({row["strength"] for row in rows if row["method"] == method})
        for law, line in (("data", "-"), ("gaussian", ":")):
            points = [(0.0, *score(baseline, objective, law, _FAST))]
            for strength in strengths:
                subset = select(rows, method, strength, stride)
                points.append((strength, *score(subset, objective, law, _FAST)))
            finite = np.array([point for point in points if not np.isnan(point[1])])
            if not len(finite):
                continue
            label = method if law == "data" else None
            axes.plot(finite[:, 0], finite[:, 1], line, color=colors[method], linewidth=1.6, label=label)
            if law == "data":
                axes.errorbar(
                    finite[:, 0],
                    finite[:, 1],
                    finite[:, 2],
                    fmt="o",
                    color=colors[method],
                    markersize=4,
                    capsize=2,
                )
    ideal = score(select(rows, "ideal", 1.0, stride), objective, "data", _FAST)[0]
    if not np.isnan(ideal):
        axes.axhline(ideal, color=QUIET, linewidth=0.9, linestyle="--")
        axes.annotate("ideal", (1.0, ideal), fontsize=8, color=QUIET, ha="right", va="bottom")
    plain_axes(axes, f"Wrist, {objective}, stride {stride}", "strength", "held-out R² (dotted: Gaussian law)")
    axes.set_ylim(-0.05, 1.08)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")


def _cost(axes: Axes, rows: Rows) -> None:
    for method, color in _colors(rows).items():
        points = []
        for strength in sorted({row["strength"] for row in rows if row["method"] == method}):
            subset = [row for row in select(rows, method, strength, 8) if "effective_pairs" in row]
            if subset:
                share = average(subset, "effective_pairs") / average(subset, "pairs")
                points.append((100 * share, 1000 * average(subset, "gaussianity")))
        start = select(rows, "data", 0.0, 8)
        points.insert(0, (100.0, 1000 * average(start, "gaussianity")))
        finite = np.array(points)
        axes.semilogx(
            finite[:, 0], finite[:, 1], "o-", color=color, markersize=4, linewidth=1.4, label=method
        )
    axes.invert_xaxis()
    ticks = [100, 30, 10, 3, 1, 0.3]
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    plain_axes(axes, "What a dose costs", "effective pairs, %", "distance from a Gaussian, thousandths")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _strides(axes: Axes, rows: Rows, names: Sequence[str]) -> None:
    strides = sorted({row["stride"] for row in rows if row["method"] == "data"})
    for name, color in zip(names, COLORS, strict=False):
        for latent, line in ((0, ":"), (_FAST, "-")):
            values = np.array([score(select(rows, "data", 0.0, at), name, "data", latent) for at in strides])
            label = f"{name}, {('shoulder', 'wrist')[latent]}"
            axes.errorbar(
                strides, values[:, 0], values[:, 1], fmt="o" + line, color=color, markersize=4, label=label
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(strides, labels=[str(at) for at in strides])
    plain_axes(axes, "The data as they are, by stride", "stride", "held-out R²")
    axes.set_ylim(-0.05, 1.08)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")


def _theory(axes: Axes, rows: Rows) -> None:
    for name, color in zip(objectives(rows), COLORS, strict=False):
        subset = [row for row in rows if name in row["r2"] and "predicted" in row]
        predicted = [np.mean(row["predicted"]["data"]) for row in subset]
        measured = [np.mean(row["r2"][name]["data"]) for row in subset]
        axes.plot(predicted, measured, "o", color=color, markersize=4, alpha=0.7, label=name)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8)
    plain_axes(
        axes, "First eigenfunctions against training, each run", "predicted mean R²", "measured mean R²"
    )
    axes.set_xlim(0.3, 1.03)
    axes.set_ylim(0.0, 1.03)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
