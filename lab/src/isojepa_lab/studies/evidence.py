"""What a report is made from: the rows of a study at a scale, from records or from the file kept of them.

NAME.json holds one row per line, so that a change of one run is a change of one line. The config of a row is
what differs from the file's `defaults`, those of the package when it was written: rows stay what they were
when the defaults change. Numbers have nine digits, in a report made from records too: both say the same.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isojepa.config import Config
from isojepa.io import read_json, to_jsonable, write_text
from isojepa.terminal import shell_quote
from isojepa.training.run_directory import RunDirectory, record_id
from isojepa.validation import short_repr
from isojepa_lab.studies.cells import RECORDS, Row, is_computed
from isojepa_lab.studies.study import AnyStudy, collect, unique

_DIGITS = 9
_HEADER = {"study": str, "scale": str, "runs": int, "missing": int, "versions": list, "defaults": dict}


@dataclass(frozen=True)
class Evidence:
    """The rows of a study.

    Attributes:
        study: name of the study.
        scale: quick, standard or paper.
        rows: one for each cell whose record is there.
        runs: how many different runs the scale has.
        missing: how many of them are not there.
        versions: what trained them: each set of versions once.
        called: what the command line calls the study, if it is not its name: a file of the user's own.
    """

    study: str
    scale: str
    rows: Sequence[Row]
    runs: int
    missing: int
    versions: Sequence[Mapping[str, str]]
    called: str = ""

    @property
    def typed(self) -> str:
        """The command of the study."""
        return shell_quote(self.called or self.study)

    @property
    def sweep(self) -> str:
        """The command that makes the runs."""
        return f"isojepa sweep {self.typed} --scale {self.scale}"

    @property
    def gap(self) -> str:
        """What is missing and what makes it; nothing if all is there."""
        if not self.missing:
            return ""
        verb, them = ("is", "it") if self.missing == 1 else ("are", "them")
        return f"{self.missing} of {self.runs} runs {verb} missing; {self.sweep} makes {them}"

    @property
    def seconds(self) -> float:
        """Training time, of a run that several rows share once."""
        return sum({row.record: row.seconds for row in self.rows}.values())

    @property
    def computed(self) -> bool:
        """Whether the rows are those of computations: nothing was trained."""
        return any(is_computed(row.config) for row in self.rows)

    @property
    def endings(self) -> dict[str, int]:
        """How many runs ended how: status -> count, the most frequent first."""
        statuses = list({row.record: row.status for row in self.rows}.values())
        return {
            status: statuses.count(status)
            for status in sorted(set(statuses), key=statuses.count, reverse=True)
        }


def gather(
    study: AnyStudy,
    scale: str,
    folder: str | Path = RECORDS,
    called: str = "",
    kept: Path | None = None,
) -> Evidence:
    """Read the rows of a study from records.

    Args:
        study: whose cells are looked for.
        scale: quick, standard or paper.
        folder: of the records.
        called: see `Evidence`.
        kept: folder of an earlier report, whose rows stand where there is no record.

    Raises:
        ValueError: an unknown scale, cells that cannot be listed, or a kept file that cannot be read.
    """
    cells = study.plan(scale)
    stored, versions = ({}, []) if kept is None else rows_kept(study, kept)
    rows, missing = [], []
    for cell in cells:
        rows_of_cell, _ = collect([cell], folder)
        old = None if rows_of_cell else stored.get(record_id(cell.config.to_dict()))
        rows += rows_of_cell if old is None else [replace(old, labels=dict(cell.labels))]
        missing += [] if rows_of_cell or old else [cell]
    for record in dict.fromkeys(row.record for row in rows if row.path is not None):
        run_versions = (RunDirectory(Path(folder) / record).result or {}).get("versions")
        if run_versions and run_versions not in versions:
            versions.append(run_versions)
    return Evidence(
        study.name,
        scale,
        [replace(row, **rounded(_measured(row))) for row in rows],
        len(unique(cells)),
        len(unique(missing)),
        versions,
        called,
    )


def write_evidence(path: Path, evidence: Evidence) -> None:
    """Write the rows, one per line, with what they were made from."""
    defaults = {} if evidence.computed else to_jsonable(Config().to_dict())
    header = {name: getattr(evidence, name) for name in _HEADER if name != "defaults"}
    lines = [f'"{name}": {_json(value)},' for name, value in (header | {"defaults": defaults}).items()]
    rows = []
    for row in evidence.rows:
        rows.append(_json({**row.to_dict(), "config": _difference(to_jsonable(row.config), defaults)}))
    write_text(path, "\n".join(["{", *lines, '"rows": [', ",\n".join(rows), "]", "}"]) + "\n")


def read_evidence(path: Path, called: str = "") -> Evidence:
    """Read what `write_evidence` wrote; for `called` see `Evidence`.

    Raises:
        ValueError: the file is missing, damaged, or something else.
    """
    data = read_json(path)
    kinds = {**_HEADER, "rows": list}
    if not isinstance(data, dict) or not all(isinstance(data.get(key), kind) for key, kind in kinds.items()):
        raise ValueError(f"{path} does not hold the rows of a study, as isojepa study report writes them")
    for each in data["versions"]:
        if not isinstance(each, dict) or not all(isinstance(value, str) for value in each.values()):
            raise ValueError(f"{path}: versions must be objects of names and texts, got {short_repr(each)}")
    try:
        rows = [
            Row.from_dict({**row, "config": _merged(data["defaults"], row["config"])}) for row in data["rows"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has a row that cannot be read: {error}") from error
    header = {name: data[name] for name in _HEADER if name != "defaults"}
    return Evidence(rows=rows, called=called, **header)


def rows_kept(study: AnyStudy, folder: Path) -> tuple[dict[str, Row], list[Mapping[str, str]]]:
    """The rows that reports left in a folder, by what their runs are, and the versions that made them.

    Args:
        study: whose rows, or those of its sources.
        folder: of the reports; missing ones are skipped.

    Raises:
        ValueError: a file is damaged or holds something else.
    """
    rows_of_study = _reports(study, folder)
    rows = {record_id(row.config): row for evidence in rows_of_study for row in evidence.rows}
    versions: list[Mapping[str, str]] = []
    for version in (version for evidence in rows_of_study for version in evidence.versions):
        versions += [] if version in versions else [version]
    return rows, versions


def read_kept(study: AnyStudy, folder: Path, scale: str, called: str = "") -> Evidence:
    """Read what reports left in a folder: the rows of a study, or those of its sources that are its own.

    Args:
        study: whose rows.
        folder: of the reports.
        scale: told if there is nothing.
        called: see `Evidence`.

    Raises:
        ValueError: a file is damaged or holds the rows of something else, or the scales of sources differ.
    """
    reports = _reports(study, folder, called)
    if not reports:
        return Evidence(study.name, scale, [], 0, 0, [], called)
    if not study.sources:
        return reports[0]
    scales = {evidence.study: evidence.scale for evidence in reports}
    if len(set(scales.values())) > 1:
        scale_text = ", ".join(f"{name} is {scale}" for name, scale in scales.items())
        raise ValueError(f"{folder} holds rows of different scales: {scale_text}")
    cells = unique(study.plan(reports[0].scale))
    stored, versions = rows_kept(study, folder)
    named = [(stored.get(record_id(cell.config.to_dict())), cell) for cell in cells]
    rows = [replace(row, labels=dict(cell.labels)) for row, cell in named if row is not None]
    return Evidence(study.name, reports[0].scale, rows, len(cells), len(cells) - len(rows), versions, called)


def _reports(study: AnyStudy, folder: Path, called: str = "") -> list[Evidence]:
    """What reports left of a study, or of its sources.

    Raises:
        ValueError: a file is damaged or holds the rows of something else.
    """
    reports = []
    for name in study.sources or (study.name,):
        path = folder / f"{name}.json"
        if path.exists():
            reports.append(read_evidence(path, called))
            if reports[-1].study != name:
                raise ValueError(f"{path} holds the rows of study {reports[-1].study!r}, not of {name!r}")
    return reports


def common_settings(
    configs: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The settings that all configs share, and the values of those that vary, by dotted name.

    Settings that are None in all configs are left out.
    """
    values: dict[str, list[Any]] = {}
    for config in configs:
        for name, value in _flat(config):
            setting_values = values.setdefault(name, [])
            if value not in setting_values:
                setting_values.append(value)
    shared = {
        name: setting_values[0]
        for name, setting_values in values.items()
        if len(setting_values) == 1 and setting_values[0] is not None
    }
    return shared, {
        name: setting_values for name, setting_values in values.items() if len(setting_values) > 1
    }


def rounded(value: Any) -> Any:
    """Plain values whose floats have nine digits."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _measured(row: Row) -> dict[str, Any]:
    return {
        "scores": row.scores,
        "seconds": row.seconds,
        "loss": row.loss,
        "cpu_seconds": row.cpu_seconds,
    }


def _json(value: Any) -> str:
    return json.dumps(to_jsonable(value), ensure_ascii=False, allow_nan=False)


def _difference(config: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """What of a config is not as in the base; a section of other components, which has other keys, whole."""
    changes: dict[str, Any] = {}
    for name, value in config.items():
        other = base.get(name, {})
        alike = isinstance(value, dict) and value.keys() == other.keys()
        if alike and value.get("name") == other.get("name"):
            value = {key: entry for key, entry in value.items() if entry != other[key]}
        if value not in (other, {}) or name not in base:
            changes[name] = value
    return changes


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A config with changes made to it, the inverse of `_difference`.

    Raises:
        ValueError: the changes are none.
    """
    if not isinstance(changes, dict):
        raise ValueError(f"config must be an object, got {short_repr(changes)}")
    config = dict(base)
    for name, value in changes.items():
        part = isinstance(value, dict) and isinstance(base.get(name), dict)
        if part and "name" not in value:
            value = {**base[name], **value}
        config[name] = value
    return config


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
