"""The figure of the study of the quadrature: errors by knots, and the statistic of a shifted sample."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes


def draw(rows: Sequence[dict[str, Any]], shifts: dict[str, Any]) -> Figure:
    """One panel per rule with a line per law, and one for the shift."""
    rules = list(dict.fromkeys(row["t_max"] for row in rows))
    figure = Figure(figsize=(12, 8), dpi=85, layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    laws = list(dict.fromkeys(row["law"] for row in rows))
    shades = {law: colormaps["turbo"](0.05 + 0.9 * k / max(1, len(laws) - 1)) for k, law in enumerate(laws)}
    for axes, t_max in zip(panels, rules, strict=False):
        subset = [row for row in rows if row["t_max"] == t_max]
        for row in subset:
            axes.loglog(
                np.array(row["knots"]) - 1,
                np.maximum(row["errors"], 1e-16),
                "o-",
                color=shades[row["law"]],
                markersize=3,
                linewidth=1.2,
                label=row["law"],
            )
        intervals = np.array(subset[0]["knots"]) - 1.0
        axes.loglog(
            intervals, (intervals / intervals[0]) ** -2, color=QUIET, linestyle="--", label="quadratic"
        )
        axes.axvline(16, color=QUIET, linewidth=0.8, linestyle=":")
        axes.set_ylim(1e-16, 1e2)
        axes.set_xticks([4, 8, 16, 32, 64, 128], labels=["5", "9", "17", "33", "65", "129"])
        axes.minorticks_off()
        title = "Gauss-Hermite" if t_max is None else f"Trapezoid rule, t_max {t_max:g}"
        plain_axes(axes, title, "knots", "relative error")
    handles, labels = panels[0].get_legend_handles_labels()
    axes = panels[4]
    axes.axis("off")
    axes.legend(handles, labels, loc="center", fontsize=9, frameon=False, labelcolor=INK)
    axes = panels[5]
    styles = {"closed form": (INK, "-"), "16 knots": (COLORS[2], "-"), "17 knots": (COLORS[1], "-")}
    styles["33 knots"] = (COLORS[0], "--")
    for name, (color, style) in styles.items():
        axes.plot(shifts["shifts"], shifts[name], color=color, linestyle=style, linewidth=1.3, label=name)
    plain_axes(axes, "A Gaussian sample, moved by c; t_max 5", "shift c", "statistic")
    axes.set_ylim(0, 2.3 * max(shifts["closed form"]))
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper left", ncol=2)
    return figure
