"""What a study is: a claim, the runs that test it, and what is found in their records.

A study is one Python file that says what is measured and how rows become lines, curves and verdicts, and one
Markdown file beside it, its story, that has all its words. `Study` is that form. `ReportStudy` is the form
that studies had before, whose report is a function of its own; no new study needs it.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from isojepa.config import Config, config_from
from isojepa.data.source import Source
from isojepa.io import to_jsonable
from isojepa.training.run_directory import RunDirectory, record_id
from isojepa.validation import choose
from isojepa_lab.studies.cells import RECORDS, Cell, Computation, Label, Row, numbers, record_of
from isojepa_lab.studies.findings import Findings, Value
from isojepa_lab.studies.rows import Rows
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement
from isojepa_lab.studies.story import Story, render_story

__all__ = [
    "RECORDS",
    "SCALES",
    "AnyStudy",
    "Cell",
    "Computation",
    "Label",
    "ReportStudy",
    "Row",
    "Study",
    "blame",
    "collect",
    "unique",
]

T = TypeVar("T")
_REMEMBERED = 1 << 14  # configs
SCALES = {
    "quick": "a few short runs, to see that everything works",
    "standard": "all cells, with our settings and the seeds or steps that the conclusion needs",
    "paper": "all cells with the published steps and seeds beside ours",
}


@dataclass(frozen=True)
class Study:
    """A claim and the runs that test it.

    Attributes:
        name: of the study, its module and its files.
        title: of its page.
        source: the published table or figure it stands beside.
        cells: scale ("quick", "standard" or "paper") -> the runs.
        story: a Markdown file with all words of the study; see `isojepa_lab.studies.story`.
        measure: what is done for a cell that has a `Computation`: cell -> scores. Without it every cell has a
            config, which is trained and scored.
        score: what is measured of a trained encoder in its world; by default
            `isojepa_lab.studies.scores.score`. Its configs must then be no other study's: a record has one
            set of scores.
        curve: a number measured while its encoders train, e.g. "r2": its values join the scores as `curve`,
            [step, value] each.
        tables, charts, statements: what the story shows by name.
        numbers: rows -> what the story's sentences name besides.
        sources: studies all of whose runs it reads, if it makes none of its own: their rows are its rows.
    """

    name: str
    title: str
    source: str
    cells: Callable[[str], Sequence[Cell]]
    story: Path
    measure: Callable[[Cell], Mapping[str, Any]] | None = None
    score: Callable[[nn.Module, Source], Mapping[str, Any]] = score
    curve: str | None = None
    tables: Sequence[TableSpec] = ()
    charts: Sequence[ChartSpec] = ()
    statements: Sequence[Statement] = ()
    numbers: Callable[[Rows], Mapping[str, Value]] = lambda rows: {}
    sources: Sequence[str] = ()

    @classmethod
    def of_file(cls, file: str, **parts: Any) -> "Study":
        """The study of a Python file, which has its name, as has the story beside it."""
        path = Path(file)
        return cls(name=path.stem, story=path.with_suffix(".md"), **parts)

    @property
    def claim(self) -> str:
        """What it says: the first paragraph of the story."""
        return Story.read(self.story).claim

    def plan(self, scale: str) -> list[Cell]:
        """The cells of a scale; see `ReportStudy.plan`.

        Raises:
            ValueError: there is no such scale, or the cells cannot be listed.
        """
        return _plan(self, scale, computed=self.measure is not None)

    def report(self, rows: Sequence[Row]) -> Findings:
        """The story of the rows.

        Raises:
            ValueError: the story names a missing part, or lacks a required one.
        """
        story, numbers = Story.read(self.story), self.numbers(Rows(rows))
        return render_story(story, rows, self.tables, self.charts, self.statements, numbers)


@dataclass(frozen=True)
class ReportStudy:
    """A claim and the runs that test it, with a report that is a function of its own.

    Attributes:
        name, title, source, cells, sources: as of a `Study`.
        claim: what it says, in a few sentences.
        report: rows -> what was found.
    """

    name: str
    title: str
    claim: str
    source: str
    cells: Callable[[str], Sequence[Cell]]
    report: Callable[[Sequence[Row]], Findings]
    sources: Sequence[str] = ()

    def plan(self, scale: str) -> list[Cell]:
        """The cells of a scale, their configs as a record gives them back: 1 where a float belongs is 1.0.

        Raises:
            ValueError: there is no such scale, or the cells cannot be listed.
        """
        return _plan(self, scale, computed=False)


AnyStudy = Study | ReportStudy


def blame(error: Exception) -> str:
    """What went wrong in code of a study, with the line: it may be a file of the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}{where}"


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Cells with different configs, in their order and each at its first mention: the runs to be made."""
    unique_cells: dict[str, Cell] = {}
    for cell in cells:
        config = cell.config
        name = _name(config) if isinstance(config, Config) else record_id(config.to_dict())
        unique_cells.setdefault(name, cell)
    return list(unique_cells.values())


def collect(cells: Iterable[Cell], folder: str | Path = RECORDS) -> tuple[list[Row], list[Cell]]:
    """The rows of the cells whose records are finished and scored, and the cells whose are not.

    A record that is damaged, or of another config than its name says, counts as missing: a sweep mends it or
    reports what is wrong with it.
    """
    rows, missing = [], []
    for cell in cells:
        row = _row(cell, record_of(cell.config, folder))
        if row is None:
            missing.append(cell)
        else:
            rows.append(row)
    return rows, missing


def _plan(study: AnyStudy, scale: str, computed: bool) -> list[Cell]:
    choose("scale", scale, SCALES)
    try:
        return [_checked(cell, study.name, computed) for cell in study.cells(scale)]
    except Exception as error:  # whatever a study of the user's own raises
        raise ValueError(f"study {study.name!r} cannot list its cells: {blame(error)}") from error


def _checked(cell: Cell, study: str, computed: bool) -> Cell:
    """The cell, whose config must have the name it will have after its way through JSON to a worker."""
    expected = Computation if computed else Config
    if not (
        isinstance(cell, Cell) and isinstance(cell.config, expected) and isinstance(cell.labels, Mapping)
    ):
        raise ValueError(f"a cell must be a Cell of a {expected.__name__} and labels, got {cell!r}")
    config = cell.config
    if isinstance(config, Computation):
        return replace(cell, config=Computation(to_jsonable(dict(config.settings)), study, config.seconds))
    return replace(cell, config=_as_recorded(config))


def _once(made: Callable[[Config], T]) -> Callable[[Config], T]:
    """What is made of a config, made once: studies share runs, and list them for every scale."""
    remembered = lru_cache(maxsize=_REMEMBERED)(made)

    def found(config: Config) -> T:
        try:
            return remembered(config)
        except TypeError:  # a component of the user's own may hold a list, which has no hash
            return made(config)

    return found


@_once
def _as_recorded(config: Config) -> Config:
    """A config as a record gives it back."""
    return config_from(to_jsonable(config.to_dict()))


@_once
def _name(config: Config) -> str:
    """The id of a config's record."""
    return record_id(config.to_dict())


def _row(cell: Cell, path: Path) -> Row | None:
    try:
        record = RunDirectory(path)
        result, scores = record.result, record.scores
        if result is None or scores is None or record.id != record_id(cell.config.to_dict()):
            return None
        return Row(
            labels=dict(cell.labels),
            config=cell.config.to_dict(),
            scores=numbers(scores),
            status=str(result["status"]),
            steps=int(result.get("steps", 0)),
            seconds=float(result["seconds"]),
            loss=numbers((result.get("metrics") or {}).get("loss")),
            record=path.name,
            cpu_seconds=None if (spent := result.get("cpu_seconds")) is None else float(spent),
            resumed_at=result.get("resumed_at"),
            commit=result.get("commit"),
            path=path,
        )
    except (ValueError, TypeError, AttributeError, KeyError):  # a file that holds something else
        return None
