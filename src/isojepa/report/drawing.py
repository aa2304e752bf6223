"""Charts as figures: the same data that the page's script draws, for PNG and SVG files."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from isojepa.report.charts import Chart, HeatMap, Panel, Series
from isojepa.report.colors import COLORS, FRAME, INK, QUIET
from isojepa.report.numbers import finite
from isojepa.validation import choose

LEGENDS = {"shared": "one below all panels", "own": "one below each panel"}
_EMPTY = "#eef0f2"  # of a heat map, where there is no number
_DARK = 0.85  # share of a color on which ink is hard to read
_DECADES = 300.0  # largest over smallest value up to which 2 and 5 are ticks too
_TICKS = 8  # places that are named one by one
_CLOUD = 100  # places from which none is: powers of ten are
_LETTERS = 14  # of a legend in an inch, about


def draw_panels(
    panels: Sequence[Panel], columns: int = 3, size: tuple[float, float] = (4.4, 4.0), legend: str = "shared"
) -> Figure:
    """Draw charts and heat maps side by side, those with nothing to show left out.

    Args:
        panels: what to draw, from left to right and from top to bottom.
        columns: panels in a row.
        size: width and height of a panel in inches.
        legend: one of `LEGENDS`; a chart of one series needs none.

    Raises:
        ValueError: an unknown place of the legend.
    """
    choose("legend", legend, LEGENDS)
    panels_drawn = [panel for panel in panels if not panel.empty]
    across = max(1, min(columns, len(panels_drawn)))
    down = max(1, math.ceil(len(panels_drawn) / across))
    figure = Figure(figsize=(across * size[0], down * size[1]), dpi=100, layout="constrained")
    if not panels_drawn:
        return figure
    places = figure.subplots(down, across, squeeze=False).flat
    keys: dict[str, Artist] = {}
    for panel, axes in zip(panels_drawn, places, strict=False):
        if isinstance(panel, HeatMap):
            _heat(axes, panel)
            continue
        _chart(axes, panel)
        handles, names = axes.get_legend_handles_labels()
        keys |= dict(zip(names, handles, strict=True))
        if legend == "own" and len(names) > 1:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": _columns(names, size[0])}
            axes.legend(fontsize=7.5, frameon=False, labelcolor=INK, **below)
    for axes in list(places):  # what the last row has too many
        axes.set_visible(False)
    if legend == "shared" and len(keys) > 1:
        figure.legend(
            keys.values(),
            keys.keys(),
            loc="outside lower center",
            ncols=_columns(keys, across * size[0]),
            fontsize=8,
            frameon=False,
            labelcolor=INK,
        )
    return figure


def _columns(names: Iterable[str], width: float) -> int:
    """Columns of a legend in a width in inches."""
    return max(1, int(width * _LETTERS / (max(map(len, names)) + 6)))


def plain_axes(axes: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Give axes the quiet look that all figures share."""
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=9, color=QUIET)
    axes.set_ylabel(y, fontsize=9, color=QUIET)
    axes.tick_params(labelsize=8, colors=QUIET, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FRAME)
    return axes


def _chart(axes: Axes, chart: Chart) -> None:
    for reference in chart.references:
        axes.axhline(
            _height(reference.value, chart), color=QUIET, lw=0.9, ls=":", label=reference.name or None
        )
    for place, series in enumerate(chart.series, 1):
        _series(axes, chart, series, place if series.color is None else series.color)
    if chart.across_scale == "log":
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        if len(chart.x) < _CLOUD:
            step = math.ceil(len(chart.x) / _TICKS)
            axes.xaxis.set_major_locator(FixedLocator(list(chart.x[::step])))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif chart.labels is not None:
        axes.set_xticks(list(chart.x), labels=list(chart.labels))
    if chart.scale == "log":
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < _DECADES * low:  # powers of ten would be too few
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    elif chart.scale == "nines":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{1 - 10**-height:.6g}"))
    if chart.zero:
        axes.set_ylim(bottom=0)
    plain_axes(axes, chart.title, chart.across, chart.up)
    axes.grid(axis="y", color=FRAME, linewidth=0.6)
    axes.set_axisbelow(True)


def _series(axes: Axes, chart: Chart, series: Series, color: int) -> None:
    ink = QUIET if color == 0 else COLORS[(color - 1) % len(COLORS)]
    points = [(x, _height(v, chart), i) for i, (x, v) in enumerate(zip(chart.x, series.values, strict=True))]
    finite_points = [(x, y, i) for x, y, i in points if not math.isnan(y)]
    line = finite_points if series.bridged else points
    if series.kind == "line":
        style = ":" if series.dotted else "--" if series.dashed else "-"
        marker = "o" if series.bridged and not series.dotted and color else ""
        xs, ys = [x for x, _, _ in line], [y for _, y, _ in line]
        axes.plot(xs, ys, style, marker=marker, ms=4, lw=1.4, color=ink, label=series.name)
        if series.ends is not None:
            low, high = ([_height(v, chart) for v in end] for end in series.ends)
            axes.fill_between(list(chart.x), low, high, color=ink, alpha=0.18, lw=0)
        return
    xs, ys = [x for x, _, _ in finite_points], [y for _, y, _ in finite_points]
    if series.kind == "stems":
        axes.vlines(
            xs, 0 if chart.scale == "linear" else axes.get_ylim()[0], ys, color=ink, lw=1.2, alpha=0.5
        )
    if series.ends is not None:
        low, high = ([_height(end[i], chart) for _, _, i in finite_points] for end in series.ends)
        axes.vlines(xs, low, high, color=ink, lw=1.2)
    axes.plot(xs, ys, "o", ms=4, color=ink, alpha=0.85, label=series.name)


def _height(value: float | None, chart: Chart) -> float:
    """Where a value is drawn; NaN for a gap."""
    number = finite(value)
    if number is None or (chart.scale == "log" and number <= 0):
        return math.nan
    return -math.log10(max(1 - number, 1e-6)) if chart.scale == "nines" else number


def _heat(axes: Axes, heat: HeatMap) -> None:
    ink = COLORS[(heat.color - 1) % len(COLORS)]
    colors = LinearSegmentedColormap.from_list("heat", ["#ffffff", ink])
    cells = [[math.nan if (one := finite(value)) is None else one for value in line] for line in heat.values]
    table = np.array(cells)
    axes.set_facecolor(_EMPTY)
    axes.imshow(table, cmap=colors, vmin=heat.low, vmax=heat.high, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        missing = math.isnan(value)
        dark = not missing and value - heat.low > _DARK * (heat.high - heat.low)
        text = "–" if missing else f"{value:.{heat.digits}f}"
        color = QUIET if missing else "white" if dark else INK
        axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=color)
    axes.set_xticks(range(len(heat.columns)), labels=list(heat.columns))
    axes.set_yticks(range(len(heat.rows)), labels=list(heat.rows))
    plain_axes(axes, heat.title, heat.across, heat.up)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
