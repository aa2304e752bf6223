"""The figure of the study of unrolling: half circle, samples before and after, table of cells, long runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes

Rows = Sequence[Mapping[str, Any]]


def draw(rows: Rows, clouds: Mapping[str, Tensor]) -> Figure:
    """Four blocks; clouds are the two coordinates by statistic, with the start first."""
    figure = Figure(figsize=(14, 13), dpi=72, layout="constrained")
    parts: Any = figure.subfigures(3, 1, height_ratios=(1, 1.05, 1.1))
    top, middle, bottom = parts
    left_axes, right = top.subplots(1, 2)
    _circle(left_axes, [row for row in rows if row["part"] == "half circle"])
    _long(right, [row for row in rows if row["part"] == "long"])
    cells = [row for row in rows if row["part"] == "cell"]
    last = max(row["dim"] for row in cells)
    fewest = min(row["slices"] for row in cells)
    middle.suptitle(f"The two coordinates in {last} dimensions, {fewest} directions a step", fontsize=10)
    for axes, (name, points) in zip(middle.subplots(2, 5).ravel(), clouds.items(), strict=False):
        axes.scatter(points[:, 0], points[:, 1], s=5, color=COLORS[0])
        axes.set(xlim=(-4, 4), ylim=(-4, 4), aspect="equal", xticks=[], yticks=[])
        subset = [r for r in cells if r["test"] == name and r["dim"] == last and r["slices"] == fewest]
        text = (
            f"{name}\nsquares {subset[0]['squares']:.2f}, blur {subset[0]['blur']:.2f}"
            if subset
            else "before"
        )
        plain_axes(axes, text)
        axes.title.set_fontsize(8.5)
    first, second = bottom.subplots(1, 2)
    _heat(first, cells, "squares", "Correlation of squares at the end (X: 1, Gaussian: 0)")
    _heat(second, cells, "blur", "What blur alone leaves, ρ⁴")
    return figure


def _circle(axes: Axes, rows: Rows) -> None:
    for k, row in enumerate(rows):
        ratio = np.maximum(row["ratio"], 1e-2)
        color = colormaps["tab10"](k)
        axes.semilogy(row["angles"], ratio, color=color, linewidth=1.3, label=row["test"])
    axes.set_xticks([0, 45, 90, 135, 180])
    plain_axes(axes, "The X on the half circle", "angle", "statistic / its mean for a Gaussian")
    axes.legend(fontsize=7, frameon=False, labelcolor=INK, ncol=3, loc="upper center")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 30)


def _long(axes: Axes, rows: Rows) -> None:
    dims = list(dict.fromkeys(row["dim"] for row in rows))
    for row in rows:
        color = COLORS[2 * dims.index(row["dim"]) + (row["test"] != rows[0]["test"])]
        name = f"{row['test']}, d = {row['dim']}"
        axes.plot([0, *row["step"]], [1, *row["squares"]], color=color, linewidth=1.4, label=name)
        axes.plot([0, *row["step"]], [1, *row["blur"]], color=color, linewidth=1, linestyle=":")
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_ylim(-0.3, 1.45)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, ncol=2, loc="upper center")
    plain_axes(
        axes,
        "Long runs at a small rate, 16 directions (dotted: blur alone)",
        "step",
        "correlation of squares",
    )


def _heat(axes: Axes, cells: Rows, key: str, title: str) -> None:
    tests = list(dict.fromkeys(row["test"] for row in cells))
    kinds = list(dict.fromkeys((row["dim"], row["slices"]) for row in cells))
    values = {(row["test"], row["dim"], row["slices"]): row[key] for row in cells}
    grid = np.array([[values[test, *kind] for kind in kinds] for test in tests])
    axes.imshow(grid, cmap="RdYlGn_r", vmin=0, vmax=1, aspect="auto", alpha=0.75)
    for (i, j), value in np.ndenumerate(grid):
        text = "div." if math.isnan(value) else f"{value:.2f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color=INK)
    plain_axes(axes, title, "dimension / directions")
    axes.set_xticks(range(len(kinds)), labels=[f"{dim}\n{slices}" for dim, slices in kinds])
    axes.set_yticks(range(len(tests)), labels=tests)
