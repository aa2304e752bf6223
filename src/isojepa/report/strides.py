"""Figures of episodes per stride: how far states move, and how normal and how correlated that is.

After figures traj_distributions and rho_vs_sigreg of Klindt, LeCun & Balestriero (2026).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from isojepa.certificates.audit import StrideRow
from isojepa.files import write_whole
from isojepa.report.charts import Chart, Reference, Series
from isojepa.report.colors import COLORS, INK, QUIET
from isojepa.report.drawing import plain_axes
from isojepa.seeds import generator
from isojepa.worlds.episodes import Episodes

_POINTS = 2000  # of a panel
_BAND = (0.005, 0.995)  # quantiles that a panel shows
_CELL = 1.75  # inches of a panel
_DECADES = 100.0  # largest over smallest value up to which 2 and 5 are ticks too
_SHOWN = 4  # dimensions of charts at most


def draw_distributions(
    episodes: Episodes,
    rows: Sequence[StrideRow],
    name: str = "qpos",
    labels: Sequence[str] = (),
    title: str = "",
    seed: int = 0,
) -> Figure:
    """States, their differences per stride, and both ends of pairs against each other, as clouds of points.

    Args:
        episodes: with a column of states of two dimensions or more, of which the first two are drawn.
        rows: of `stride_rows`, one column of panels for each.
        name: the column.
        labels: of the two dimensions.
        title: above everything.
        seed: draws the points.

    Raises:
        ValueError: the states have one dimension only.
    """
    if episodes.shape(name) == () or episodes.shape(name)[0] < 2:
        raise ValueError(f"{name} must have two dimensions or more, got shape {episodes.shape(name)}")
    one, two = labels if len(labels) == 2 else ("dimension 0", "dimension 1")
    count = len(rows)
    figure = Figure(figsize=(_CELL * (count + 1.5), _CELL * 2.2), dpi=150, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10, color=INK)
    places = figure.add_gridspec(2, count + 1, width_ratios=[1.5] + [1.0] * count)
    states = np.concatenate(episodes.vectors(name))[:, :2]
    points = states[_drawn(len(states), seed, "states")]
    left = plain_axes(figure.add_subplot(places[:, 0]), "states", one, two)
    left.plot(*points.T, ".", ms=1.2, alpha=0.5, color=COLORS[0], rasterized=True)
    for place, row in enumerate(rows, 1):
        first, second, _ = episodes.pairs(row.stride, name, 10, seed)
        chosen = _drawn(len(first), seed, row.stride)
        first, second = first[chosen, :2], second[chosen, :2]
        above = plain_axes(figure.add_subplot(places[0, place]), f"stride {row.stride}")
        step = second - first
        above.plot(*step.T, ".", ms=1.2, alpha=0.5, color=COLORS[0], rasterized=True)
        above.set_xlim(*_span(step[:, 0]))
        above.set_ylim(*_span(step[:, 1]))
        below = plain_axes(figure.add_subplot(places[1, place]))
        for dim, color in enumerate(COLORS[:2]):
            told = f"ρ = {row.rho[dim]:.3f}"
            below.plot(first[:, dim], second[:, dim], ".", ms=1.2, alpha=0.4, color=color, rasterized=True)
            below.text(
                0.04, 0.9 - 0.14 * dim, told, transform=below.transAxes, fontsize=7, color=color,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
            )  # fmt: skip
        if place == 1:
            above.set_ylabel(f"difference, {two}", fontsize=7, color=QUIET)
            below.set_ylabel("a stride later", fontsize=7, color=QUIET)
        above.set_xlabel(f"difference, {one}", fontsize=7, color=QUIET)
        below.set_xlabel("state", fontsize=7, color=QUIET)
        for axes in (above, below):
            axes.tick_params(labelsize=6)
            axes.xaxis.set_major_locator(MaxNLocator(3))
            axes.yaxis.set_major_locator(MaxNLocator(3))
    return figure


def draw_strides(rows: Sequence[StrideRow], labels: Sequence[str] = (), title: str = "") -> Figure:
    """SIGReg of the differences against the correlation, per dimension and together, a point for each stride.

    Args:
        rows: of `stride_rows`.
        labels: of the dimensions.
        title: above everything.
    """
    dims = min(len(rows[0].rho), _SHOWN)
    figure = Figure(figsize=(3.2 * (dims + 1), 3.1), dpi=150, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10, color=INK)
    for place, axes in enumerate(figure.subplots(1, dims + 1, squeeze=False)[0]):
        together = place == dims
        rho = [float(np.mean(row.rho)) if together else row.rho[place] for row in rows]
        values = [row.joint if together else row.sigreg[place] for row in rows]
        spread = [row.joint_spread if together else row.sigreg_spread[place] for row in rows]
        floor = rows[0].joint_floor if together else rows[0].floor
        name = "all together" if together else labels[place] if place < len(labels) else f"dimension {place}"
        axes.axhline(floor, color=COLORS[4], lw=1, ls=":", label="normal samples")
        axes.errorbar(rho, values, spread, fmt="o-", ms=4, lw=1, color=COLORS[0], elinewidth=1)
        axes.set_yscale("log")
        for x, y, row in zip(rho, values, rows, strict=True):
            axes.annotate(
                f"{row.stride}", (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7, color=INK
            )
        plain_axes(
            axes, name, "correlation across a stride", "SIGReg of the differences" if not place else ""
        )
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < _DECADES * low else (1.0,)))
        axes.yaxis.set_minor_locator(NullLocator())
        if not place:
            axes.legend(fontsize=7, frameon=False, labelcolor=INK)
    return figure


def stride_charts(rows: Sequence[StrideRow]) -> list[Chart]:
    """The same numbers over the stride, for a page."""
    places = [float(row.stride) for row in rows]
    dims = range(min(len(rows[0].rho), _SHOWN))
    correlations = [Series(f"dimension {dim}", [row.rho[dim] for row in rows], bridged=True) for dim in dims]
    normality = [Series(f"dimension {dim}", [row.sigreg[dim] for row in rows], bridged=True) for dim in dims]
    normality.append(Series("all together", [row.joint for row in rows], dashed=True, bridged=True))
    return [
        Chart(
            "stride-rho", "Correlation per stride", "", places, "stride", correlations, across_scale="log"
        ),
        Chart(
            "stride-sigreg", "SIGReg of the differences", "", places, "stride", normality, scale="log",
            across_scale="log", references=(Reference(rows[0].floor, "normal samples"),),
        ),
    ]  # fmt: skip


def write_figure(path: str | Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all."""
    write_whole(Path(path), FigureCanvasAgg(figure).print_png)


def _drawn(count: int, seed: int, *stream: str | int) -> np.ndarray:
    source = generator(seed, "figure", *stream)
    return np.asarray(torch.randperm(count, generator=source)[:_POINTS].numpy())


def _span(column: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(column, _BAND)
    margin = 0.1 * (high - low) or 1.0
    return float(low - margin), float(high + margin)
