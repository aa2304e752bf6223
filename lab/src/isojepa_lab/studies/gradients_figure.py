"""The figure of the study of gradients: largest gradient by magnitude, pull on an outlier, moments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes


def draw(rows: Sequence[dict[str, Any]], bound: float) -> Figure:
    """Three panels: outlier, scale and the variance of the gradients of moments."""
    figure = Figure(figsize=(13, 4.8), dpi=85, layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, kind, title in (
        (panels[0], "outlier", "One outlier"),
        (panels[1], "scale", "All samples scaled"),
    ):
        subset = [row for row in rows if row["part"] == kind]
        for k, row in enumerate(subset):
            axes.loglog(
                row["magnitudes"],
                np.maximum(row["largest"], 1e-4),
                color=colormaps["tab20"](k % 20),
                linestyle="-" if k % 2 else "--",
                linewidth=2.2 if row["test"].startswith("epps") else 1.2,
                label=row["test"],
            )
        axes.axhline(bound, color=QUIET, linewidth=0.8, linestyle=":")
        axes.text(2.2e4, bound, "8σ²", fontsize=8, color=QUIET, va="center")
        axes.set_ylim(1e-4, 1e12)
        plain_axes(axes, title, "magnitude", "largest |dT/dx|")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False, labelcolor=INK)
    moments = [row for row in rows if row["part"] == "moments"]
    orders = [row["order"] for row in moments]
    axes = panels[2]
    axes.semilogy(orders[1:], [row["predicted"] for row in moments[1:]], color=QUIET, label="predicted")
    measured = [row["variance"] for row in moments[1:]]
    axes.semilogy(orders[1:], measured, "o", color=COLORS[1], markersize=5, label="measured")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    plain_axes(axes, "Gradient of the k-th moment", "order k", "variance")
    return figure
