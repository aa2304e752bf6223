"""The report of a study in Markdown."""

import re
from itertools import chain

from isojepa.report.study_page import LEGEND, MARKS
from isojepa_lab.studies.evidence import Evidence
from isojepa_lab.studies.findings import Findings, Table, text_of
from isojepa_lab.studies.formatting import how_made
from isojepa_lab.studies.results import markdown_table
from isojepa_lab.studies.study import AnyStudy


def markdown_page(study: AnyStudy, evidence: Evidence, findings: Findings) -> str:
    """The whole page: what was found, the verdict first, and how it was made, with the claim."""
    parts = [
        f"# {study.title}",
        f"> {evidence.gap}." if evidence.gap else "",
        *(_story(study.name, findings) if findings.body else _summary_first(study.name, findings)),
        "## How it was made",
        "\n".join(f"- {what}: {how}" for what, how in how_made(study, evidence).items()),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _story(study: str, findings: Findings) -> list[str]:
    """The body as it stands."""
    parts: list[str] = []
    pictures = 0
    for block in findings.body:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, Table):
            parts += _parts(study, block)
        else:
            parts += _picture(study, block.name, block.caption, pictures)
            pictures += 1
    return parts


def _summary_first(study: str, findings: Findings) -> list[str]:
    """Summary, first picture, tables, other pictures, notes."""
    pictures = [
        _picture(study, picture.name, picture.caption, index)
        for index, picture in enumerate(findings.pictures)
    ]
    tables = [part for table in findings.tables for part in _parts(study, table)]
    first, others = chain(*pictures[:1]), chain(*pictures[1:])
    notes = ["## Notes", *findings.notes] if findings.notes else []
    return [*findings.summary, *first, *tables, *others, *notes]


def picture_stem(study: str, picture: str, index: int) -> str:
    """Name of a picture's files, without the suffix: the first has the study's own."""
    return study if index == 0 else f"{study}-{picture}"


def is_marked(table: Table) -> bool:
    """Whether a column says which numbers lie outside the published spread."""
    return any(row.get("mark") in MARKS for row in table.rows)


def _picture(study: str, name: str, caption: str, index: int) -> list[str]:
    return [f"![{_line(caption)}]({picture_stem(study, name, index)}.png)", _line(caption)]


def _parts(study: str, table: Table) -> list[str]:
    rows = [
        [_cell(text_of(row.get(column.key), column.form)) for column in table.columns] for row in table.rows
    ]
    file = f"{study}-{table.name}.csv"
    return [
        f"## {table.title}" if table.title else "",
        markdown_table([_cell(column.title) for column in table.columns], rows),
        table.note,
        LEGEND if is_marked(table) else "",
        f"All digits: [{file}]({file})",
    ]


def _cell(text: str) -> str:
    """A text in one line that is neither HTML nor the end of its cell."""
    return re.sub(r"\\*\||<(?=[A-Za-z/!?])", _escaped, _line(MARKS.get(text, text)))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{character}" for character in found[0])


def _line(text: str) -> str:
    return " ".join(text.split())
