"""The report of a study as files: NAME.json, .md, .csv for each table, .png and .svg for each picture, .html.

All of them are functions of the rows: made again from NAME.json they have the same bytes. A study that reads
the runs of others leaves no rows: theirs hold them.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from isojepa.io import write_text, write_whole
from isojepa.report.drawing import draw_panels
from isojepa.report.study_page import (
    Shown,
    ShownBlock,
    ShownPicture,
    ShownPlot,
    ShownTable,
    write_story_page,
    write_study_page,
)
from isojepa.report.template import duration
from isojepa_lab.studies.evidence import Evidence, rounded, write_evidence
from isojepa_lab.studies.findings import Block, Column, Findings, Picture, Plot, Table, Value, text_of
from isojepa_lab.studies.formatting import how_made, settings_of
from isojepa_lab.studies.markdown import is_marked, markdown_page, picture_stem
from isojepa_lab.studies.results import write_figure
from isojepa_lab.studies.study import AnyStudy, blame

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_LARGEST_PNG = 200_000  # bytes of a file with all colors
_LARGEST_SVG = 400_000  # bytes; a picture with more points than that is kept as PNG alone

_LARGEST_INSIDE = 100_000  # characters of an SVG in the page; a sharp PNG takes about as many
_SHARPER = 1.5  # pixels of the page's PNG for one of the file's


@dataclass(frozen=True)
class Written:
    """What a report left.

    Attributes:
        findings: what the study found.
        files: in the order they were written.
    """

    findings: Findings
    files: Sequence[Path]


def write_report(study: AnyStudy, evidence: Evidence, out: Path) -> Written:
    """Ask a study what its rows say, and write it.

    Args:
        study: whose report it is.
        evidence: its rows, at least one.
        out: folder of the files.

    Raises:
        ValueError: there are no rows, the study cannot summarize them, or names of it, of its tables or
            of its pictures clash or do not fit in a file's name.
    """
    if not evidence.rows:
        raise ValueError(
            f"a report needs at least one run of {study.name} at scale {evidence.scale}; "
            f"{evidence.sweep} makes them"
        )
    if not _NAME.fullmatch(study.name):
        raise ValueError(f"the name of a study must be letters, digits, - and _, got {study.name!r}")
    findings = _ask(study, evidence)
    _check_names(findings)
    files = []
    if not study.sources:  # whose rows are kept by its sources
        files.append(out / f"{study.name}.json")
        write_evidence(files[0], evidence)
    for table in findings.tables:
        files.append(out / f"{study.name}-{table.name}.csv")
        write_text(files[-1], _csv(table))
    pictures = []
    for index, picture in enumerate([*findings.pictures, *map(_drawn, findings.plots)]):
        buffer, written = _draw(out, picture_stem(study.name, picture.name, index), picture)
        pictures.append(buffer)
        files += written
    files.append(out / f"{study.name}.md")
    write_text(files[-1], markdown_page(study, evidence, findings))
    files.append(out / f"{study.name}.html")
    _write_page(files[-1], study, evidence, findings, pictures)
    return Written(findings, files)


def _ask(study: AnyStudy, evidence: Evidence) -> Findings:
    try:
        findings = study.report(evidence.rows)
    except Exception as error:  # whatever a study of the user's own raises
        raise ValueError(f"study {study.name!r} cannot report its rows: {blame(error)}") from error
    if not isinstance(findings, Findings):
        raise ValueError(f"the report of study {study.name!r} must return Findings, got {findings!r}")
    return findings


def _check_names(findings: Findings) -> None:
    named: tuple[tuple[str, Sequence[Table | Picture | Plot]], ...] = (
        ("table", findings.tables),
        ("picture", [*findings.pictures, *findings.plots]),
    )
    for kind, items in named:
        names = [item.name for item in items]
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"the name of a {kind} must be letters, digits, - and _, got {name!r}")
            if names.count(name) > 1:
                raise ValueError(f"the names of a study's {kind}s must differ, got {name!r} twice")


def _drawn(plot: Plot) -> Picture:
    figure = draw_panels(plot.panels, plot.columns, plot.size, plot.legend)
    return Picture(plot.name, plot.caption, figure)


def _csv(table: Table) -> str:
    text = io.StringIO()
    keys = [column.key for column in table.columns]
    writer = csv.DictWriter(text, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rounded(dict(row)) for row in table.rows)
    return text.getvalue()


def _draw(out: Path, stem: str, picture: Picture) -> tuple[ShownPicture, list[Path]]:
    png, vector = out / f"{stem}.png", out / f"{stem}.svg"
    write_figure(png, picture.figure)
    if png.stat().st_size > _LARGEST_PNG:
        small, _ = _small_png(picture.figure, 1.0)
        write_whole(png, lambda path: _write(path, small))
    buffer = io.StringIO()
    # a fixed salt and no date: the same figure is the same file
    with matplotlib.rc_context({"svg.hashsalt": stem}):
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = re.sub(r"(?s)\s*<metadata>.*?</metadata>", "", buffer.getvalue())
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    files = [png]
    if len(svg.encode()) <= _LARGEST_SVG:
        write_text(vector, svg)
        files.append(vector)
    else:
        vector.unlink(missing_ok=True)  # one of an earlier, smaller picture
    if len(svg) <= _LARGEST_INSIDE:
        return ShownPicture(picture.name, picture.caption, svg), files
    return ShownPicture(picture.name, picture.caption, *_small_png(picture.figure, _SHARPER)), files


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _small_png(figure: Figure, sharper: float) -> tuple[bytes, int]:
    """A figure of 256 colors, with more pixels than its own size has, and its width at that size."""
    buffer, small = io.BytesIO(), io.BytesIO()
    figure.savefig(buffer, format="png", dpi=sharper * figure.dpi)
    image = Image.open(buffer).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue(), round(image.width / sharper)


def _write_page(
    path: Path, study: AnyStudy, evidence: Evidence, findings: Findings, pictures: Sequence[ShownPicture]
) -> None:
    runs = evidence.runs - evidence.missing
    spent = f"{duration(evidence.seconds)} of {'computing' if evidence.computed else 'training'}"
    page: dict[str, Any] = {
        "name": f"Study {study.name}, scale {evidence.scale}",
        "title": study.title,
        "facts": [fact for fact in (f"{runs} runs", spent, study.source) if fact],
        "warning": evidence.gap,
        "made": how_made(study, evidence),
        "settings": settings_of([row.config for row in evidence.rows]),
    }
    if findings.body:
        write_story_page(path, **page, body=list(map(_shown_block, findings.body)))
        return
    tables = [_shown(table) for table in findings.tables]
    write_study_page(
        path, **page, summary=findings.summary, tables=tables, pictures=pictures, notes=findings.notes
    )


def _shown_block(block: Block) -> ShownBlock:
    if isinstance(block, str):
        return block
    if isinstance(block, Table):
        return _shown(block)
    return ShownPlot(block.name, block.caption, block.panels)


def _shown(table: Table) -> ShownTable:
    numeric = [_holds_numbers(table, column) for column in table.columns]
    rows = [
        [
            Shown(text_of(row.get(column.key), column.form), _number(row.get(column.key)))
            for column in table.columns
        ]
        for row in table.rows
    ]
    columns = [(column.title, is_number) for column, is_number in zip(table.columns, numeric, strict=True)]
    return ShownTable(table.name, table.title, columns, rows, table.note, is_marked(table))


def _holds_numbers(table: Table, column: Column) -> bool:
    column_values = [row[column.key] for row in table.rows if row.get(column.key) is not None]
    return bool(column_values) and all(_number(value) is not None for value in column_values)


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
