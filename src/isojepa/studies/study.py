"""What a study is: a claim, the runs that test it, and what is found in their records.

A study lists cells. A cell is a config with labels, and becomes one record, named by a hash of the config
alone: studies that share a run share its record, whatever folder of records they are given.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from isojepa.config import Config, config_from
from isojepa.files import plain
from isojepa.names import choose
from isojepa.runs import record_path
from isojepa.studies.findings import Findings
from isojepa.training.formats import format_of, migrate
from isojepa.training.records import Record, record_id

Label = str | int | float
SCALES = {
    "quick": "a few short runs, to see that everything works",
    "standard": "all cells, with our settings and the seeds or steps that the conclusion needs",
    "paper": "all cells with the published steps and seeds beside ours",
}
RECORDS = Path("runs/studies")
_KINDS = {"labels": dict, "scores": dict, "status": str, "steps": int, "seconds": int | float, "record": str}


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        config: what is trained.
        labels: what tables and figures group by, e.g. {"mixing": "spiral", "objective": "SIGReg", "seed": 0}.
    """

    config: Config
    labels: Mapping[str, Label]


@dataclass(frozen=True)
class Row:
    """A finished run: its cell, how it ended and what was measured of it.

    Attributes:
        labels: of the cell.
        config: of the cell, as plain values.
        scores: see `isojepa.studies.scores`.
        status: "done", "collapsed" or "diverged".
        steps, seconds: how long it trained.
        cpu_seconds: processor time of it; None in records from before it was kept.
        loss: the last window's mean loss in training; None if the run diverged before the first.
        record: name of the record's folder.
        path: where the record is; None if the row comes from a file of rows.
    """

    labels: dict[str, Label]
    config: dict[str, Any]
    scores: dict[str, Any]
    status: str
    steps: int
    seconds: float
    loss: float | None
    record: str
    cpu_seconds: float | None = None
    path: Path | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self.values()

    def values(self) -> dict[str, Any]:
        """What is kept of the row: all but where its record is."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "path"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Row":
        """The row of plain values; the config is filled up with what was left out, and NaN is a number again.

        Raises:
            ValueError: something is missing or unknown.
        """
        try:
            row = cls(**data)
        except TypeError as error:
            raise ValueError(f"not a row of a study: {error}") from error
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(row, name), kind):
                raise ValueError(f"not a row of a study: {name} is {value!r}")
        return replace(
            row,
            config=config_from(migrate(row.config, format_of(row.config))).to_dict(),
            labels=_numbers(row.labels),
            scores=_numbers(row.scores),
            loss=_numbers(row.loss),
        )


@dataclass(frozen=True)
class Study:
    """A claim and the runs that test it.

    Attributes:
        name: of the study, its module and its files.
        title: of its page.
        claim: what it says, in a few sentences.
        source: the published table or figure it stands beside.
        cells: scale ("quick", "standard" or "paper") -> the runs.
        report: rows -> what was found.
        sources: studies all of whose runs it reads, if it makes none of its own: their rows are its rows.
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
        choose("scale", scale, SCALES)
        try:
            return [_checked(cell) for cell in self.cells(scale)]
        except Exception as error:  # whatever a study of the user's own raises
            raise ValueError(f"study {self.name!r} cannot list its cells: {blame(error)}") from error


def blame(error: Exception) -> str:
    """What went wrong in code of a study, with the line: it may be a file of the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}{where}"


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Cells with different configs, in their order and each at its first mention: the runs to be made."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(record_path(cell.config).name, cell)
    return list(found.values())


def collect(cells: Iterable[Cell], folder: str | Path = RECORDS) -> tuple[list[Row], list[Cell]]:
    """The rows of the cells whose records are finished and scored, and the cells whose are not.

    A record that is damaged, or of another config than its name says, counts as missing: a sweep mends it or
    tells what is wrong with it.
    """
    rows, missing = [], []
    for cell in cells:
        row = _row(cell, record_path(cell.config, folder))
        if row is None:
            missing.append(cell)
        else:
            rows.append(row)
    return rows, missing


def _checked(cell: Cell) -> Cell:
    """The cell, whose config must have the name it will have after its way through JSON to a worker."""
    if not (isinstance(cell, Cell) and isinstance(cell.config, Config) and isinstance(cell.labels, Mapping)):
        raise ValueError(f"a cell must be a Cell of a Config and labels, got {cell!r}")
    return replace(cell, config=config_from(plain(cell.config.to_dict())))


def _row(cell: Cell, path: Path) -> Row | None:
    try:
        record = Record(path)
        result, scores = record.result, record.scores
        if result is None or scores is None or record.id != record_id(cell.config.to_dict()):
            return None
        return Row(
            labels=dict(cell.labels),
            config=cell.config.to_dict(),
            scores=_numbers(scores),
            status=str(result["status"]),
            steps=int(result.get("steps", 0)),
            seconds=float(result["seconds"]),
            loss=_numbers((result.get("metrics") or {}).get("loss")),
            record=path.name,
            cpu_seconds=None if (spent := result.get("cpu_seconds")) is None else float(spent),
            path=path,
        )
    except (ValueError, TypeError, AttributeError, KeyError):  # a file that holds something else
        return None


def _numbers(value: Any) -> Any:
    """Plain values with the names that JSON holds for NaN and Inf turned into numbers."""
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value
