"""What both pages are put together from: the template, tiles, tables, and charts as data.

The pages are `assets/aligning.html` with the style sheets and scripts beside it put inside. What is drawn
travels as JSON in a script element that the browser does not run; the pages load nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from isojepa.io import write_text
from isojepa.report.charts import Panel, chart_data
from isojepa.report.glance import Tile
from isojepa.report.numbers import finite, near_one, number, short
from isojepa.report.page import bind, panel_data
from isojepa.report.panels import Panels
from isojepa.report.sections.training import config_rows
from isojepa.report.study_page import Shown
from isojepa.report.template import asset, json_text, page
from isojepa.version import __version__

_STYLES = ("page.css", "plots.css", "lines.css", "study.css", "aligning.css")
_ROUNDING = 1e-16
_SCRIPTS = ("start.js", "panels.js", "scales.js", "charts.js", "end.js")


@dataclass(frozen=True)
class Part:
    """A section: its HTML, the charts whose places are in it, and the points that it shows."""

    html: str
    charts: Sequence[Panel] = ()
    panels: Panels | None = None


def write_parts(
    path: str | Path,
    parts: Sequence[Part],
    *,
    title: str,
    badge: tuple[str, str],
    verdict: str,
    more: Sequence[str],
    facts: Sequence[str],
    tiles: Mapping[str, Tile],
    config: Mapping[str, Any],
) -> int:
    """Write a page and return its size in bytes; all text is plain and escaped here.

    Args:
        path: the HTML file to create or replace.
        parts: sections in their order; one at most has points.
        title, verdict: the name of the page, and its headline.
        badge: tone and word.
        more: paragraphs below the headline.
        facts: a few words each.
        tiles: by what they are called.
        config: what the page was made from; may be nested.
    """
    points = next((part.panels for part in parts if part.panels is not None), None)
    data = {**panel_data(points), "charts": chart_data([chart for part in parts for chart in part.charts])}
    text = page(
        "aligning.html",
        {
            "css": asset(*_STYLES),
            # a block: names that both scripts have stay apart
            "js": f"{asset(*_SCRIPTS)}{{\n{asset('sort.js')}}}\n",
            "data": json_text(data),
            "title": escape(title),
            "badge": f'<span class="badge {badge[0]}">{escape(badge[1])}</span>',
            "verdict": bind(escape(verdict)),
            "more": bind("".join(f'<p class="more">{escape(text)}</p>' for text in more)),
            "facts": escape(" · ".join(facts)),
            "tiles": bind("".join(_tile(name, tile) for name, tile in tiles.items())),
            "sections": bind("\n\n".join(part.html for part in parts if part.html)),
            "config": config_rows({**config, "isojepa": __version__}),
        },
    )
    write_text(Path(path), text)
    return len(text.encode())


def cell(value: float | None) -> Shown:
    """A number of a table; a dash for what is missing, a word for what is infinite."""
    if value is None:
        return Shown("–")
    finite_value = finite(value)
    if finite_value is not None and abs(finite_value) < _ROUNDING:
        return Shown("0", finite_value)
    return Shown(number(value), finite_value) if finite_value is not None else Shown(number(value))


def chance_cell(p: float | None) -> Shown:
    """A probability of a table."""
    return cell(p) if p is None or p >= _ROUNDING else Shown(f"< {short(_ROUNDING)}", p)


def r2_text(value: float) -> str:
    """An R^2 as a reader sees it: what is nearly none is 0.000.

    Example:
        >>> r2_text(-0.00008), r2_text(0.9999), r2_text(-1.5)
        ('0.000', '0.999900', '−1.5')
    """
    return (
        f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−") if abs(value) < 0.1 else near_one(value)
    )


def p_text(p: float) -> str:
    """A probability; values below rounding are marked as such."""
    return f"p < {short(_ROUNDING)}" if p < _ROUNDING else f"p = {short(p)}"


def note(text: str) -> str:
    """Small print."""
    return f'<p class="note">{escape(text)}</p>'


def _tile(name: str, tile: Tile) -> str:
    return (
        f'<a class="tile {tile.tone}" href="#{tile.section}"><span>{escape(name)}</span>'
        f"<b>{escape(tile.value)}</b><small>{escape(tile.says)}</small></a>"
    )
