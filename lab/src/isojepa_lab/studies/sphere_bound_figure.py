"""The figure of the study of the sphere: the bound, what it asks for, and two measurements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.sphere_bound_series import directions_needed, log_constant

SMOOTHNESS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Four panels, of which the last two show the rows of the study."""
    figure = Figure(figsize=(11, 9), dpi=90, layout="constrained")
    panels = figure.subplots(2, 2)
    shades = [colormaps["coolwarm"](k / (len(SMOOTHNESS) - 1)) for k in range(len(SMOOTHNESS))]
    counts = np.logspace(0, 4, 100)
    for alpha, shade in zip(SMOOTHNESS, shades, strict=True):
        bound = np.exp(log_constant(3, alpha)) * counts**-alpha
        panels[0, 0].loglog(counts, bound, color=shade, label=f"α = {alpha:g}")
        dims = np.unique(np.logspace(np.log10(2), np.log10(512), 60).astype(int))
        needed = [directions_needed(int(dim), alpha) for dim in dims]
        panels[0, 1].loglog(dims, needed, color=shade, label=f"α = {alpha:g}")
    panels[0, 0].axhline(1, color=QUIET, linewidth=0.8, linestyle=":")
    panels[0, 0].set_ylim(1e-10, 1e8)
    plain_axes(panels[0, 0], "The bound for K = 3", "directions |A|", "C(K, α) |A|^(−2α/(K−1))")
    plain_axes(
        panels[0, 1], "Directions until the bound is ‖g‖²", "dimension K", "log10 of the number of directions"
    )
    for axes in panels[0]:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    for axes, dim in zip(panels[1], (2, 3), strict=True):
        _measured(axes, [row for row in rows if row["dim"] == dim])
        name = "circle, K = 2" if dim == 2 else "sphere, K = 3"
        plain_axes(axes, f"Measured on the {name}", "directions |A|", "mean squared error / ‖g‖²")
    return figure


def _measured(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    """Points of the measurement, the predicted slope through the low-discrepancy ones, and the bound."""
    handles = []
    for alpha, color in zip(dict.fromkeys(row["alpha"] for row in rows), COLORS, strict=False):
        subset = [row for row in rows if row["alpha"] == alpha]
        for row in subset:
            filled = row["directions"] == "low-discrepancy"
            face = color if filled else "white"
            axes.loglog(row["counts"], row["errors"], "o", color=color, markerfacecolor=face, markersize=5)
            if filled:
                counts = np.array(row["counts"], dtype=float)
                height = np.exp(np.mean(np.log(row["errors"]) - row["predicted"] * np.log(counts)))
                axes.loglog(counts, height * counts ** row["predicted"], color=color, linewidth=1)
                axes.loglog(counts, row["bounds"], color=color, linewidth=1, linestyle=":")
        slope = subset[0]["predicted"]
        handles.append(Line2D([], [], color=color, label=f"α = {alpha:g}, slope −{-slope:g}"))
    handles += [
        Line2D([], [], color=QUIET, marker="o", linestyle="none", label="low-discrepancy"),
        Line2D([], [], color=QUIET, marker="o", linestyle="none", markerfacecolor="white", label="random"),
        Line2D([], [], color=QUIET, linestyle=":", label="bound"),
    ]
    axes.set_xticks([8, 16, 32, 64, 128, 256, 512], labels=["8", "16", "32", "64", "128", "256", "512"])
    axes.minorticks_off()
    axes.set_xlim(min(rows[0]["counts"]) / 1.2, max(rows[0]["counts"]) * 1.2)
    axes.legend(handles=handles, fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
