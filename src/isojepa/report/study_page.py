"""The page of a study: what was found, tables that sort, pictures, and how it was made.

One self-contained HTML file in the look of the certificate's page. Pictures are inside as data, and charts as
numbers that the page's script draws; the page loads nothing, and its Content-Security-Policy forbids it to.
Prose is Markdown, whose HTML is shown as text.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt

from isojepa.io import write_text
from isojepa.report.charts import Panel, chart_data, grid
from isojepa.report.numbers import signed
from isojepa.report.sections.training import config_rows
from isojepa.report.template import asset, json_text, page

MARKS = {"above": "▲ above", "below": "▼ below"}
LEGEND = (
    "▲ above, ▼ below: our mean lies outside the published spread, more than two published standard "
    "deviations from the published mean; whether that is better depends on the quantity."
)
_LONG = 40  # characters of a text that may wrap
_PROSE = MarkdownIt("commonmark", {"html": False}).enable("table")


@dataclass(frozen=True)
class Shown:
    """One cell of a table.

    Attributes:
        text: what is read.
        value: what a column of numbers is sorted by; None for text and for what is missing.
    """

    text: str
    value: float | None = None


@dataclass(frozen=True)
class ShownTable:
    """A table as the page shows it.

    Attributes:
        name: its id in the page.
        title, note: above and below it; the note is Markdown.
        columns: title and whether it holds numbers.
        rows: one cell for each column.
        marked: whether a column says which numbers lie outside the published spread.
    """

    name: str
    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[Shown]]
    note: str = ""
    marked: bool = False


@dataclass(frozen=True)
class ShownPicture:
    """A figure.

    Attributes:
        name: its id in the page.
        caption: what it shows; Markdown.
        drawing: an SVG as text, or a PNG as bytes.
        width: pixels that a PNG takes in the page; it may have more of them, for fine screens.
    """

    name: str
    caption: str
    drawing: str | bytes
    width: int = 0


@dataclass(frozen=True)
class ShownPlot:
    """Charts that the page's script draws.

    Attributes:
        name: its id in the page.
        caption: what they show; Markdown.
        panels: side by side.
    """

    name: str
    caption: str
    panels: Sequence[Panel]


ShownBlock = str | ShownTable | ShownPlot


def write_study_page(
    path: Path,
    *,
    name: str,
    title: str,
    facts: Sequence[str],
    warning: str,
    summary: Sequence[str],
    tables: Sequence[ShownTable],
    pictures: Sequence[ShownPicture],
    notes: Sequence[str],
    made: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    """Write the page of a study.

    Args:
        path: the HTML file to create or replace.
        name, title: of the study.
        facts: a few words each, below the title.
        warning: what is missing; may be empty.
        summary: paragraphs in Markdown; the first is the answer.
        tables, pictures: in their order; the first picture comes before the tables.
        notes: paragraphs in Markdown.
        made: how it was made: what -> how; the values are Markdown.
        settings: of the runs: name -> value.
    """
    summary_section = f'<section id="found" class="prose"><h2>What was found</h2>{_prose(summary)}</section>'
    parts = [
        summary_section,
        *map(_picture, pictures[:1]),
        *map(table_section, tables),
        *map(_picture, pictures[1:]),
    ]
    if notes:
        parts.append(f'<section id="notes" class="prose"><h2>Notes</h2>{_prose(notes)}</section>')
    _write(path, name, title, facts, warning, parts, made, settings)


def write_story_page(
    path: Path,
    *,
    name: str,
    title: str,
    facts: Sequence[str],
    warning: str,
    body: Sequence[ShownBlock],
    made: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    """Write the page of a study that has a story.

    Args:
        path, name, title, facts, warning, made, settings: as of `write_study_page`.
        body: paragraphs in Markdown, tables and charts in reading order.
    """
    parts: list[str] = []
    charts: list[Panel] = []
    prose: list[str] = []
    for block in [*body, None]:
        if isinstance(block, str):
            prose.append(block)
            continue
        if prose:  # paragraphs that follow each other are one section
            place = ' id="found"' if not parts else ""
            parts.append(f'<section{place} class="prose">{_prose(prose)}</section>')
            prose = []
        if isinstance(block, ShownTable):
            parts.append(table_section(block))
        elif block is not None:
            panels = [replace(panel, name=f"{block.name}-{k}") for k, panel in enumerate(block.panels, 1)]
            charts += panels
            caption = _PROSE.render(block.caption)
            plot = f"{grid(panels)}<figcaption>{caption}</figcaption>"
            parts.append(f'<section id="chart-{escape(block.name)}"><figure>{plot}</figure></section>')
    _write(path, name, title, facts, warning, parts, made, settings, charts)


def _write(
    path: Path,
    name: str,
    title: str,
    facts: Sequence[str],
    warning: str,
    parts: Sequence[str],
    made: Mapping[str, str],
    settings: Mapping[str, str],
    charts: Sequence[Panel] = (),
) -> None:
    styles, script = ["page.css", "lines.css", "study.css"], asset("sort.js")
    if charts:
        styles.insert(1, "plots.css")
        drawing = asset("start.js", "scales.js", "charts.js", "end.js")
        script += f"{{\n{drawing}}}\n"  # a block: names that both scripts have stay apart
    text = page(
        "study.html",
        {
            "css": asset(*styles),
            "js": script,
            "data": json_text({"charts": chart_data(charts)}),
            "name": escape(name),
            "title": escape(title),
            "facts": escape(" · ".join(facts)),
            "warning": f'<p class="warning">{escape(warning)}.</p>' if warning else "",
            "sections": "\n\n".join(parts),
            "made": "\n".join(
                f"<tr><th scope=row>{escape(what)}</th><td>{_PROSE.renderInline(how)}</td></tr>"
                for what, how in made.items()
            ),
            "settings": config_rows(settings),
        },
    )
    write_text(path, text)


def _prose(paragraphs: Sequence[str]) -> str:
    return "".join(_PROSE.render(paragraph) for paragraph in paragraphs)


def _picture(picture: ShownPicture) -> str:
    if isinstance(picture.drawing, str):
        source = "data:image/svg+xml," + quote(picture.drawing, safe=" /:;=,.()'!*-_~@$+?")
    else:
        source = "data:image/png;base64," + base64.b64encode(picture.drawing).decode()
    width = f' width="{picture.width}"' if picture.width else ""
    caption = _PROSE.render(picture.caption)
    return (
        f'<section id="picture-{escape(picture.name)}"><figure><div class="picture">'
        f'<img src="{escape(source, quote=True)}"{width} alt="{escape(picture.caption)}"></div>'
        f"<figcaption>{caption}</figcaption></figure></section>"
    )


def table_section(table: ShownTable) -> str:
    """A section with a table that `sort.js` sorts."""
    head = "".join(
        f"<th scope=col{' class=number' if numeric else ''}><button type=button>"
        f"{escape(title) or '<span class=none>mark</span>'}</button></th>"
        for title, numeric in table.columns
    )
    numeric = [is_number for _, is_number in table.columns]
    rows = "\n".join(
        f"<tr>{''.join(_cell(cell, kind) for cell, kind in zip(row, numeric, strict=True))}</tr>"
        for row in table.rows
    )
    notes = [table.note] * bool(table.note) + [LEGEND] * table.marked
    note = f'<div class="note">{_prose(notes)}</div>' if notes else ""
    title = f"<h2>{escape(table.title)}</h2>" if table.title else ""
    return (
        f'<section id="table-{escape(table.name)}">{title}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title or table.name)}">'
        f'<table class="numbers"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
        f"{note}</section>"
    )


def _cell(cell: Shown, numeric: bool) -> str:
    if cell.text in MARKS:
        return f'<td><span class="mark {cell.text}">{MARKS[cell.text]}</span></td>'
    if not numeric:
        long = " class=long" if len(cell.text) > _LONG else ""
        return f"<td{long}>{escape(cell.text)}</td>"
    if cell.value is None:
        return f'<td class="number none">{escape(cell.text)}</td>'
    value = "" if math.isnan(cell.value) else f' data-value="{_sortable(cell.value)}"'
    return f"<td class=number{value}>{escape(signed(cell.text))}</td>"


def _sortable(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.9g}"
