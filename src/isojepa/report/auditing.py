"""The page of an audit: what made the actions, every line, strides, and what to record next."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from isojepa.certificates.audit import Audit
from isojepa.certificates.checks import CheckResult
from isojepa.certificates.strides import StrideRow
from isojepa.report.aligning.page import Part, cell, write_parts
from isojepa.report.charts import Chart, grid
from isojepa.report.glance import Tile
from isojepa.report.lines import signs
from isojepa.report.sections.assumptions import check_line
from isojepa.report.sections.lead import lead, notes, section
from isojepa.report.strides import stride_charts
from isojepa.report.study_page import Shown, ShownTable, table_section

_SECTIONS = {
    "actions": ("Actions", "What made the actions, and what they can show."),
    "states": ("Motion", "What is seen of the motion in a few states."),
    "latents": ("Assumptions", "Whether the states are those of a world that the theorems speak of."),
}
_TONES = {"fails": "poor", "unclear": "fair", "holds": "good"}


def write_audit(path: str | Path, found: Audit) -> int:
    """Write the page and return its size in bytes."""
    parts = [_lines(kind, [line for line in found.lines if line.of == kind]) for kind in _SECTIONS]
    if found.strides:
        parts.append(_strides(found.strides, found.stride))
    parts.append(_advice(found.advice))
    counts = {verdict: sum(line.verdict == verdict for line in found.lines) for verdict in _TONES}
    worst = next((verdict for verdict in _TONES if counts[verdict]), "holds")
    return write_parts(
        path,
        [part for part in parts if part.html],
        title=f"Audit of {Path(found.source).name}",
        badge=(_TONES[worst], f"{counts['fails']} of {len(found.lines)} fail"),
        verdict=signs(found.description),
        more=found.notes,
        facts=(f"{found.episodes:,} episodes", f"{found.steps:,} steps", *filter(None, found.names)),
        tiles={
            title: _tile(kind, [line for line in found.lines if line.of == kind])
            for kind, (title, _) in _SECTIONS.items()
            if any(line.of == kind for line in found.lines)
        },
        config={"file": found.source, "stride": found.stride, "actions": "; ".join(found.laws[:8])},
    )


def _tile(kind: str, lines: Sequence[CheckResult]) -> Tile:
    held = sum(line.verdict == "holds" for line in lines)
    worst = next(verdict for verdict in _TONES if any(line.verdict == verdict for line in lines))
    failing = [line.name for line in lines if line.verdict == "fails"]
    return Tile(
        kind, f"{held} of {len(lines)}", f"broken: {', '.join(failing)}" if failing else "hold", _TONES[worst]
    )


def _lines(kind: str, lines: Sequence[CheckResult]) -> Part:
    if not lines:
        return Part("")
    rows = [check_line(line, f"{kind}-{place}") for place, line in enumerate(lines)]
    title, sentence = _SECTIONS[kind]
    charts: list[Chart] = [chart for row in rows for chart in row.charts]
    body = f'<div class="checks">{"".join(row.html for row in rows)}</div>'
    return Part(section(kind, lead(title, sentence), body), charts)


def _strides(rows: Sequence[StrideRow], chosen: int) -> Part:
    charts = stride_charts(rows)
    dims = range(min(len(rows[0].rho), 4))
    columns = [("stride", True), ("pairs", True)]
    columns += [(f"ρ of {dim}", True) for dim in dims] + [(f"SIGReg of {dim}", True) for dim in dims]
    columns += [("SIGReg, together", True), ("of normal samples", True)]
    cells = [
        [
            Shown(str(row.stride), row.stride), Shown(f"{row.pairs:,}", row.pairs),
            *(cell(row.rho[dim]) for dim in dims), *(cell(row.sigreg[dim]) for dim in dims),
            cell(row.joint), cell(row.joint_floor),
        ]
        for row in rows
    ]  # fmt: skip
    words = "How far states move in a stride, and how normal their differences are."
    if chosen:
        words += f" The assumptions were checked at a stride of {chosen}."
    table = table_section(ShownTable("strides", "", columns, cells))
    return Part(section("strides", lead("Strides", words), grid(charts)) + table, charts)


def _advice(advice: Sequence[str]) -> Part:
    words = "What to record next so that the assumptions hold." if advice else "Nothing to be done."
    return Part(
        section("advice", lead("Next", words), notes(signs(escape(text, quote=False)) for text in advice))
    )
