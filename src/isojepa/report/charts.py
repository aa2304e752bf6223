"""Charts: what a figure shows, as data. One script draws them in the page, `isojepa.report.drawing` in files.

A chart has one row of places x and some series over it, drawn as lines, with a band where they have
intervals, as dots with error bars, or as stems from zero; reference lines go across. A heat map has a
number for each of its rows and columns. Pointing at a chart, or the arrow keys, read the values at the
nearest place. Three scales:

    linear   from the smallest to the largest value
    log      the same for positive values of several magnitudes
    nines    -log10(1 - value): 0.99 and 0.999 are as far apart as 0.9 and 0.99
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from isojepa.report.numbers import finite
from isojepa.statistics.intervals import Interval

MAGNITUDES = 100.0  # largest over smallest value from which a chart is logarithmic


@dataclass(frozen=True)
class Series:
    """Values over the places of a chart.

    Attributes:
        name: in the legend and in the read-out.
        values: one for each place; what is None or not finite is a gap.
        kind: line, dots or stems.
        ends: low and high end of each value's interval, a band around a line; None without intervals.
        dashed, dotted: whether the line is.
        color: number of its color, from 1 to 6, 0 for grey; by default its place among the series.
        bridged: whether a line continues across gaps, with a dot at each value.
    """

    name: str
    values: Sequence[float | None]
    kind: str = "line"
    ends: tuple[Sequence[float | None], Sequence[float | None]] | None = None
    dashed: bool = False
    color: int | None = None
    dotted: bool = False
    bridged: bool = False


@dataclass(frozen=True)
class Reference:
    """A line across a chart at one value; its name, if it has one, is in the legend."""

    value: float
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """One figure of the page.

    Attributes:
        name: its id in the page.
        title, note: above it; plain text.
        x: places, ascending.
        across: what the places are, e.g. "step".
        series: drawn in this order.
        scale: linear, log or nines.
        unit: format of values: number, r2 or percent.
        labels: a name for each place, where it is not a number.
        zero: whether zero must be in view.
        across_scale: linear or log, of the places.
        up: what the values are; told beside the axis of a file.
        references: lines across.
    """

    name: str
    title: str
    note: str
    x: Sequence[float]
    across: str
    series: Sequence[Series]
    scale: str = "linear"
    unit: str = "number"
    labels: Sequence[str] | None = None
    zero: bool = False
    across_scale: str = "linear"
    up: str = ""
    references: Sequence[Reference] = ()

    @property
    def empty(self) -> bool:
        return not any(finite(value) is not None for one in self.series for value in one.values)

    def figure(self) -> str:
        """The place in the page where the script draws it."""
        return _place(self.name, self.title, self.note, "chart", "; arrow keys read the values")

    def data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "x": [_short(place) for place in self.x],
            "across": self.across,
            "scale": self.scale,
            "unit": self.unit,
            "zero": self.zero,
            "labels": None if self.labels is None else list(self.labels),
            "acrossScale": self.across_scale,
            "references": [{"value": one.value, "name": one.name} for one in self.references],
            "series": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "dashed": one.dashed,
                    "dotted": one.dotted,
                    "bridged": one.bridged,
                    "color": place if one.color is None else one.color,
                    "values": list(map(_short, one.values)),
                    "ends": None if one.ends is None else [list(map(_short, end)) for end in one.ends],
                }
                for place, one in enumerate(self.series, 1)
            ],
        }


@dataclass(frozen=True)
class HeatMap:
    """Numbers over two things, each as a color.

    Attributes:
        name: its id in the page.
        title, note: above it; plain text.
        columns, rows: names, from left to right and from bottom to top.
        across, up: what they are.
        values: one list for each row; what is None or not finite stays empty.
        low, high: what has no and all of the color.
        digits: after the point.
        color: number of its color, from 1 to 6.
    """

    name: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[str]
    across: str
    up: str
    values: Sequence[Sequence[float | None]]
    low: float = 0.0
    high: float = 1.0
    digits: int = 3
    color: int = 1

    @property
    def empty(self) -> bool:
        return not any(finite(value) is not None for line in self.values for value in line)

    def figure(self) -> str:
        """The place in the page where the script draws it."""
        return _place(self.name, self.title, self.note, "chart heat", "")

    def data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "columns": list(self.columns),
            "rows": list(self.rows),
            "across": self.across,
            "up": self.up,
            "low": self.low,
            "high": self.high,
            "digits": self.digits,
            "color": self.color,
            "heat": [list(map(_short, line)) for line in self.values],
        }


Panel = Chart | HeatMap


@dataclass(frozen=True)
class Part:
    """A piece of the page: markup, and the charts whose places are in it."""

    html: str
    charts: Sequence[Chart] = ()


def with_intervals(name: str, intervals: Sequence[Interval], color: int | None = None) -> Series:
    """Dots with error bars."""
    ends = [one.low for one in intervals], [one.high for one in intervals]
    return Series(name, [one.estimate for one in intervals], "dots", ends, color=color)


@dataclass(frozen=True)
class Curve:
    """A series by itself: value by place, whatever places the other curves of its chart have.

    Attributes:
        name, color: as of a `Series`.
        points: place -> value.
        style: solid, dashed or dotted lines, or dots.
    """

    name: str
    points: Mapping[float, float | None]
    color: int | None = None
    style: str = "solid"


def curves_chart(title: str, across: str, up: str, curves: Sequence[Curve], **options: Any) -> Chart:
    """A chart of curves, both axes logarithmic unless the options, those of a `Chart`, say otherwise."""
    places = sorted({place for one in curves for place in one.points})
    series = [
        Series(
            one.name,
            [one.points.get(place) for place in places],
            "dots" if one.style == "dots" else "line",
            dashed=one.style == "dashed",
            color=one.color,
            dotted=one.style == "dotted",
            bridged=True,
        )
        for one in curves
    ]
    scales = {"scale": "log", "across_scale": "log"}
    return Chart("", title, "", places, across, series, up=up, **(scales | options))


def scale_for(values: Sequence[float]) -> str:
    """Logarithmic for positive values of several magnitudes."""
    finite_values = [value for value in values if math.isfinite(value)]
    if finite_values and min(finite_values) > 0 and max(finite_values) > MAGNITUDES * min(finite_values):
        return "log"
    return "linear"


def grid(charts: Sequence[Panel], *others: str) -> str:
    """The charts and other figures side by side, charts with nothing to show left out."""
    figures = "".join(chart.figure() for chart in charts if not chart.empty) + "".join(others)
    return f'<div class="charts">{figures}</div>' if figures else ""


def chart_data(charts: Sequence[Panel]) -> Mapping[str, Any]:
    """All charts by name."""
    return {chart.name: chart.data() for chart in charts if not chart.empty}


def _place(name: str, title: str, note: str, kind: str, hint: str) -> str:
    small = f" <small>{escape(note)}</small>" if note else ""
    return (
        f'<figure><h3>{escape(title)}{small}</h3><div class="legend"></div>'
        f'<div class="{kind}" id="{escape(name)}" tabindex="0" role="group" '
        f'aria-label="{escape(title + hint)}"></div></figure>'
    )


def _short(value: float | None) -> float | None:
    """Eight digits: more do not show, and take room."""
    number = finite(value)
    return None if number is None else float(f"{number:.8g}")
