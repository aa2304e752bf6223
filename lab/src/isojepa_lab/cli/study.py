"""The command `study`: what studies there are, what one is, and its report from records."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.text import Text

from isojepa.cli.printing import Column, out, print_json, print_table

if TYPE_CHECKING:  # matplotlib and all studies: only for those who ask
    from isojepa_lab.studies.evidence import Evidence
    from isojepa_lab.studies.study import AnyStudy

_ALL = "all"


@dataclass
class StudyReport:
    """Write the report of studies from the records of their runs: page, Markdown, tables, pictures, rows.

    isojepa study report grid

    isojepa study report all --scale paper --out runs/reports

    isojepa study report grid --from docs/results    # again, from the rows kept there

    isojepa study report grid --kept docs/results    # from records, and from kept rows where there are none
    """

    names: tyro.conf.Positional[tuple[str, ...]]
    """Studies, `isojepa study list`; all; or a Python file of your own that defines STUDY."""
    scale: str = "standard"
    """Which of the study's runs: quick, standard or paper."""
    records: Path = Path("runs/studies")
    """Folder of the records."""
    out: Path = Path("docs/results")
    """Folder of the report's files."""
    source: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Rows of an earlier report in place of records: its NAME.json, or the folder of it."""
    kept: Path | None = None
    """Folder of an earlier report, whose rows stand where there is no record."""
    json: bool = False
    """Print what was written as JSON."""

    def run(self) -> int:
        from isojepa_lab.studies.writing import write_report
        from isojepa_lab.sweep.plan import find_called

        lines, empty = [], []
        for name, study in find_called(self.names):
            evidence = self._evidence(name, study)
            if not evidence.rows:
                empty.append(evidence)
                continue
            written = write_report(study, evidence, self.out)
            lines.append(
                {
                    "study": study.name,
                    "scale": evidence.scale,
                    "runs": evidence.runs,
                    "missing": evidence.missing,
                    "summary": list(written.findings.summary),
                    "files": [str(path) for path in written.files],
                }
            )
            if not self.json:
                _tell(study, evidence, written.files, written.findings.summary)
        if self.json:
            print_json(lines)
        if empty and not (lines and _ALL in self.names):
            raise ValueError(self._nothing(empty))
        if empty and not self.json:
            out.print(self._nothing(empty), style="dim")
        return 0

    def _evidence(self, name: str, study: "AnyStudy") -> "Evidence":
        from isojepa_lab.studies.evidence import gather, read_evidence, read_kept

        called = "" if name == study.name else name
        if self.source is None:
            return gather(study, self.scale, self.records, called, self.kept)
        if self.kept is not None:
            raise ValueError("kept fills up records: give it, or from, not both")
        if self.source.is_dir():
            return read_kept(study, self.source, self.scale, called)
        evidence = read_evidence(self.source, called)
        if evidence.study != study.name:
            message = f"{self.source} holds the rows of study {evidence.study!r}, not of {study.name!r}"
            raise ValueError(f"{message}, which reads those of a folder" if study.sources else message)
        return evidence

    def _nothing(self, empty: "Sequence[Evidence]") -> str:
        names = " ".join(evidence.typed for evidence in empty)
        if self.source is not None:
            return f"{self.source} holds no row of {names}"
        return (
            f"{self.records} holds no run of {names} at scale {self.scale}; "
            f"isojepa sweep {names} --scale {self.scale} makes them"
        )


@dataclass
class StudyList:
    """Name the studies, with what they are about and how many runs each scale has."""

    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        from isojepa_lab.studies.catalogue import STUDIES
        from isojepa_lab.studies.study import SCALES
        from isojepa_lab.sweep.plan import find_studies

        rows: list[dict[str, Any]] = [
            {"name": study.name, "about": STUDIES[study.name], "runs": _runs(study)}
            for study in find_studies((_ALL,))
        ]
        if self.json:
            print_json(rows)
            return 0
        print_table(
            (Column("study"), Column("about", prose=True), *(Column(scale, right=True) for scale in SCALES)),
            [
                (Text(row["name"], style="bold"), row["about"], *map(str, row["runs"].values()))
                for row in rows
            ],
        )
        out.print(
            "\nRuns per scale; studies share runs. Next: isojepa study show NAME, isojepa sweep NAME, "
            "isojepa study report NAME",
            style="dim",
        )
        return 0


@dataclass
class StudyShow:
    """Tell what a study claims, beside what it stands, and what it runs."""

    name: tyro.conf.Positional[str]
    """Study, `isojepa study list`, or a Python file of your own that defines STUDY."""
    scale: str = "standard"
    """Scale whose settings are printed: quick, standard or paper."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        from isojepa_lab.studies.formatting import settings_of
        from isojepa_lab.sweep.plan import find_studies

        if self.name == _ALL:
            raise ValueError("isojepa study show takes one study; isojepa study list names them all")
        (study,) = find_studies((self.name,))
        cells = study.plan(self.scale)
        settings = settings_of([cell.config.to_dict() for cell in cells])
        labels: dict[str, list[Any]] = {}
        for cell in cells:
            for key, value in cell.labels.items():
                group_labels = labels.setdefault(key, [])
                if value not in group_labels:
                    group_labels.append(value)
        if self.json:
            about = {"name": study.name, "title": study.title, "claim": study.claim, "source": study.source}
            print_json({**about, "runs": _runs(study), "labels": labels, "settings": settings})
            return 0
        out.print(Text.assemble((study.title, "bold"), "  ", (study.name, "dim"), "\n"))
        out.print(study.claim)
        out.print(Text.assemble("\n", ("Beside:", "dim"), f" {study.source}"))
        counts = ", ".join(f"{count} at {scale}" for scale, count in _runs(study).items())
        out.print(Text.assemble(("Runs:", "dim"), f"   {counts}\n"))
        lines: list[tuple[Text, str]] = []
        for key, values in labels.items():
            texts = list(map(str, values))
            joint = "; " if any(", " in text for text in texts) else ", "
            lines.append((Text(key, style="bold"), joint.join(texts)))
        lines += [(Text(key, style="dim"), text) for key, text in settings.items()]
        message = f"At scale {self.scale}: labels, settings that vary, settings that all runs share."
        out.print(message, style="dim")
        print_table((Column(), Column(prose=True)), lines)
        return 0


@dataclass
class StudyClaims:
    """Write the papers' claims beside what rows and theory say of each: verdict, numbers, seeds, length.

    isojepa study claims

    isojepa study claims --json
    """

    results: Path = Path("docs/results")
    """Folder of the reports whose rows decide."""
    out: Path = Path("docs/claims.md")
    """Page to write."""
    json: bool = False
    """Print the claims as JSON."""

    def run(self) -> int:
        from isojepa.io import write_text
        from isojepa_lab.studies.claims import judge_claims, markdown

        with out.status("judging claims: rows of each study, then the theory"):
            claims = judge_claims(self.results)
        write_text(self.out, markdown(claims))
        if self.json:
            print_json([asdict(claim) for claim in claims])
            return 0
        counts = Counter(claim.verdict for claim in claims)
        small = sum(bool(claim.small) for claim in claims)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        out.print(f"{len(claims)} claims: {verdicts}; {small} on small evidence. Wrote {self.out}")
        return 0


@dataclass
class Study:
    """List studies; write their reports and the papers' claims.

    `isojepa sweep NAME` makes the runs; `isojepa study report NAME` makes tables, figures and a page of them.
    """

    command: Annotated[
        Annotated[StudyReport, tyro.conf.subcommand("report")]
        | Annotated[StudyList, tyro.conf.subcommand("list")]
        | Annotated[StudyShow, tyro.conf.subcommand("show")]
        | Annotated[StudyClaims, tyro.conf.subcommand("claims")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> int:
        return self.command.run()


def _runs(study: "AnyStudy") -> dict[str, int]:
    from isojepa_lab.studies.study import SCALES, unique

    return {scale: len(unique(study.plan(scale))) for scale in SCALES}


def _tell(study: "AnyStudy", evidence: "Evidence", files: Sequence[Path], summary: Sequence[str]) -> None:
    out.print(Text.assemble((study.title, "bold"), "  ", (f"{study.name}, scale {evidence.scale}", "dim")))
    for paragraph in summary[:1]:
        out.print(paragraph)
    if evidence.gap:
        out.print(evidence.gap, style="yellow")
    page = next(path for path in files if path.suffix == ".html")
    size = sum(path.stat().st_size for path in files) / 1e3
    out.print(f"Wrote {page} and {len(files) - 1} files beside it, {size:.0f} kB in all.\n", style="dim")
