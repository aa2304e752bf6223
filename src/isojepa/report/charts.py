"""Charts: what a figure shows, as data that one script in the page draws.

A chart has one row of places x and some series over it, drawn as lines, as dots with error bars, or as stems
from zero. Pointing at it, or the arrow keys, read the values at the nearest place. Three scales:

    linear   from the smallest to the largest value
    log      the same for positive values of several magnitudes
    nines    -log10(1 - value): 0.99 and 0.999 are as far apart as 0.9 and 0.99
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from isojepa.certificates.intervals import Interval
from isojepa.report.numbers import finite

MAGNITUDES = 100.0  # largest over smallest value from which a chart is logarithmic


@dataclass(frozen=True)
class Series:
    """Values over the places of a chart.

    Attributes:
        name: in the legend and in the read-out.
        values: one for each place; what is None or not finite is a gap.
        kind: line, dots or stems.
        ends: low and high end of each value's interval; None without intervals.
        dashed: whether the line is.
        color: number of its colour, from 1 to 6; by default its place among the series.
    """

    name: str
    values: Sequence[float | None]
    kind: str = "line"
    ends: tuple[Sequence[float | None], Sequence[float | None]] | None = None
    dashed: bool = False
    color: int | None = None


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
        unit: how values are told: number, r2 or percent.
        labels: a name for each place, where it is not a number.
        zero: whether zero must be in view.
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

    @property
    def empty(self) -> bool:
        return not any(finite(value) is not None for one in self.series for value in one.values)

    def figure(self) -> str:
        """The place in the page where the script draws it."""
        title, note = escape(self.title), escape(self.note)
        small = f" <small>{note}</small>" if note else ""
        return (
            f'<figure><h3>{title}{small}</h3><div class="legend"></div>'
            f'<div class="chart" id="{escape(self.name)}" tabindex="0" role="group" '
            f'aria-label="{title}; arrow keys read the values"></div></figure>'
        )

    def data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "x": [_short(place) for place in self.x],
            "across": self.across,
            "scale": self.scale,
            "unit": self.unit,
            "zero": self.zero,
            "labels": None if self.labels is None else list(self.labels),
            "series": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "dashed": one.dashed,
                    "color": one.color or place,
                    "values": list(map(_short, one.values)),
                    "ends": None if one.ends is None else [list(map(_short, end)) for end in one.ends],
                }
                for place, one in enumerate(self.series, 1)
            ],
        }


@dataclass(frozen=True)
class Part:
    """A piece of the page: markup, and the charts whose places are in it."""

    html: str
    charts: Sequence[Chart] = ()


def with_intervals(name: str, intervals: Sequence[Interval], color: int | None = None) -> Series:
    """Dots with error bars."""
    ends = [one.low for one in intervals], [one.high for one in intervals]
    return Series(name, [one.estimate for one in intervals], "dots", ends, color=color)


def scale_for(values: Sequence[float]) -> str:
    """Logarithmic for positive values of several magnitudes."""
    known = [value for value in values if math.isfinite(value)]
    if known and min(known) > 0 and max(known) > MAGNITUDES * min(known):
        return "log"
    return "linear"


def grid(charts: Sequence[Chart], *others: str) -> str:
    """The charts and other figures side by side, charts with nothing to show left out."""
    figures = "".join(chart.figure() for chart in charts if not chart.empty) + "".join(others)
    return f'<div class="charts">{figures}</div>' if figures else ""


def chart_data(charts: Sequence[Chart]) -> Mapping[str, Any]:
    """All charts by name."""
    return {chart.name: chart.data() for chart in charts if not chart.empty}


def _short(value: float | None) -> float | None:
    """Eight digits: more do not show, and take room."""
    known = finite(value)
    return None if known is None else float(f"{known:.8g}")
