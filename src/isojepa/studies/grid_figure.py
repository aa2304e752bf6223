"""Figures of the grid: heat maps of what was reached and of what the loss prefers, and cuts at some rhos."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa.studies.results import COLORS, plain_axes

Map = Mapping[tuple[float, float], float | None]  # (weight, rho) -> value

_GOOD = LinearSegmentedColormap.from_list("good", ["#ffffff", "#cfe0f3", COLORS[0]])
_BAD = LinearSegmentedColormap.from_list("bad", ["#ffffff", "#f6d9c6", COLORS[1]])
_LEAST = 1e-4  # of 1 - R^2 that is drawn


def heat_maps(columns: Sequence[tuple[str, Map, Map]]) -> Figure:
    """R^2 above, orthogonality error below, one column each for what was reached and what is preferred.

    Args:
        columns: title, R^2 and orthogonality error by place. A place without a value stays grey.
    """
    figure = Figure(figsize=(1.2 + 4.4 * len(columns), 8.2), dpi=100, layout="constrained")
    panels = figure.subplots(2, len(columns), squeeze=False)
    for index, (title, r2, error) in enumerate(columns):
        _heat(panels[0, index], r2, f"R² of z from h\n{title}", _GOOD)
        _heat(panels[1, index], error, f"Orthogonality error\n{title}", _BAD)
    return figure


def cuts(cut: Mapping[float, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """1 - R^2 over the weight, one panel per rho.

    Args:
        cut: rho -> "trained" and "preferred" -> (weight, R^2).
    """
    figure = Figure(figsize=(max(1, len(cut)) * 3.4, 3.4), dpi=100, layout="constrained")
    if not cut:
        return figure
    panels = figure.subplots(1, len(cut), squeeze=False, sharey=True)[0]
    for axes, (rho, lines) in zip(panels, cut.items(), strict=True):
        line = sorted(lines.get("preferred", ()))
        axes.plot(
            [weight for weight, _ in line],
            [max(1 - r2, _LEAST) for _, r2 in line],
            color=COLORS[1],
            linewidth=1.4,
            label="what the loss prefers",
        )
        points = lines.get("trained", ())
        axes.plot(
            [weight for weight, _ in points],
            [max(1 - r2, _LEAST) for _, r2 in points],
            "o",
            color=COLORS[0],
            markersize=4,
            alpha=0.8,
            label="trained, each seed",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain_axes(axes, f"ρ = {rho:g}", "weight of SIGReg", "1 − R²" if axes is panels[0] else "")
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
    return figure


def _heat(axes: Axes, values: Map, title: str, colors: LinearSegmentedColormap) -> None:
    weights = sorted({weight for weight, _ in values})
    rhos = sorted({rho for _, rho in values})
    table = np.full((len(weights), len(rhos)), np.nan)
    for (weight, rho), value in values.items():
        if value is not None:
            table[weights.index(weight), rhos.index(rho)] = value
    axes.set_facecolor("#eef0f2")
    if table.size:
        axes.imshow(np.clip(table, 0, 1), cmap=colors, vmin=0, vmax=1, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            ink = "white" if value > 0.85 else INK
            axes.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize=7.5, color=ink)
        else:
            axes.text(column, row, "–", ha="center", va="center", fontsize=7.5, color=QUIET)
    axes.set_xticks(range(len(rhos)), labels=[f"{rho:g}" for rho in rhos])
    axes.set_yticks(range(len(weights)), labels=[f"{weight:g}" for weight in weights])
    plain_axes(axes, title, "ρ", "weight of SIGReg")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
