"""From studies to runs: which cells are asked for, and the one record that each of them has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isojepa.importing import import_file
from isojepa.training.run_directory import record_id
from isojepa.validation import choose, unknown
from isojepa_lab.studies.catalogue import STUDIES, find_study
from isojepa_lab.studies.cells import Cell, Computation, Label, record_of
from isojepa_lab.studies.evidence import rows_kept
from isojepa_lab.studies.study import SCALES, AnyStudy, ReportStudy, Study, unique


@dataclass(frozen=True)
class Task:
    """One run of a sweep.

    Attributes:
        config: what is trained or computed, a `Config` or a `Computation`.
        labels: of the first cell that asks for it.
        study: the first study that asks for it.
        path: folder of its record.
        called: by what another process finds the study: its name, or its file.
    """

    config: Any
    labels: Mapping[str, Label]
    study: str
    path: Path
    called: str = ""

    @property
    def name(self) -> str:
        """Name of the record's folder."""
        return self.path.name

    @property
    def computed(self) -> bool:
        """Whether it is a computation: nothing is trained."""
        return isinstance(self.config, Computation)

    @property
    def steps(self) -> int:
        """Steps of training; a computation is one."""
        return 1 if self.computed else int(self.config.training.steps)

    @property
    def request(self) -> dict[str, Any]:
        """What another process needs to know of it, as plain values."""
        return {"run": self.config.to_dict(), "study": self.called or self.study}

    @property
    def title(self) -> str:
        """The labels in one line."""
        message = " ".join(f"{key}={value}" for key, value in self.labels.items())
        return " ".join(message.split()) or self.name


@dataclass(frozen=True)
class Plan:
    """The cells of one study that a sweep was asked for; `called` is as of a `Task`."""

    study: str
    cells: Sequence[Cell]
    called: str = ""

    def names(self) -> set[str]:
        """Names of the records."""
        return {record_of(cell.config).name for cell in self.cells}


def find_studies(names: Sequence[str]) -> list[AnyStudy]:
    """The studies of names, of Python files that define STUDY, or of `all`, each once.

    Raises:
        ValueError: there is no such study, the file defines none, or two studies have one name.
    """
    return [study for _, study in find_called(names)]


def find_called(names: Sequence[str]) -> list[tuple[str, AnyStudy]]:
    """`find_studies`, with what the command line calls each: its name, or its file."""
    if not names:
        raise ValueError(f"name at least one study: {', '.join(STUDIES)}, all, or a file.py with a STUDY")
    studies: dict[str, tuple[str, AnyStudy]] = {}
    files: set[Path] = set()
    for name in names:
        if name == "all":
            called = [(all_studies, find_study(all_studies)) for all_studies in STUDIES]
        elif name in STUDIES:
            called = [(name, find_study(name))]
        elif not name.endswith(".py"):
            raise ValueError(unknown("study", name, [*STUDIES, "all", "file.py"]))
        elif Path(name).resolve() in files:  # executed once
            continue
        else:
            files.add(Path(name).resolve())
            called = [(name, _from_file(Path(name)))]
        for title, study in called:
            if studies.setdefault(study.name, (title, study))[1].cells is not study.cells:
                raise ValueError(f"two studies are named {study.name!r}: rename one of them")
    return list(studies.values())


def plan_studies(
    studies: Sequence[AnyStudy],
    scale: str,
    only: Sequence[str] = (),
    called: Mapping[str, str] | None = None,
) -> list[Plan]:
    """The cells of each study at a scale, narrowed to labels.

    Args:
        studies: what to plan.
        scale: quick, standard or paper.
        only: label=value, several values of one label, or several labels that must all fit.
        called: by a study's name, its file where it has one.

    Raises:
        ValueError: an unknown scale or label, or nothing is left.
    """
    choose("scale", scale, SCALES)
    required = _wanted(only)
    files = called or {}
    plans = [Plan(study.name, study.plan(scale), files.get(study.name, study.name)) for study in studies]
    labels = {key for plan in plans for cell in plan.cells for key in cell.labels}
    for label in required:
        if label not in labels:
            raise ValueError(unknown("label of --only", label, labels))
    selected = [replace(plan, cells=[cell for cell in plan.cells if _fits(cell, required)]) for plan in plans]
    if required and not any(plan.cells for plan in selected):
        raise ValueError(f"no cell has {' '.join(only)}; there are {_values(plans, required)}")
    return [plan for plan in selected if plan.cells or not required]


def without_kept(plans: Sequence[Plan], studies: Sequence[AnyStudy], folder: Path) -> list[Plan]:
    """Plans without the runs whose rows a report has kept in a folder.

    Raises:
        ValueError: a kept file cannot be read.
    """
    kept_rows = {study.name: rows_kept(study, folder)[0] for study in studies}
    return [
        replace(
            plan,
            cells=[
                cell
                for cell in plan.cells
                if record_id(cell.config.to_dict()) not in kept_rows.get(plan.study, {})
            ],
        )
        for plan in plans
    ]


def tasks_of(plans: Sequence[Plan], folder: str | Path) -> list[Task]:
    """The runs of all plans, each once."""
    tasks: dict[str, Task] = {}
    for plan in plans:
        for cell in unique(plan.cells):
            path = record_of(cell.config, folder)
            tasks.setdefault(path.name, Task(cell.config, cell.labels, plan.study, path, plan.called))
    return list(tasks.values())


def _from_file(path: Path) -> AnyStudy:
    study = getattr(import_file(path), "STUDY", None)
    if not isinstance(study, Study | ReportStudy):
        raise ValueError(f"{path} must define STUDY, an isojepa_lab.studies.study.Study, got {study!r}")
    return study


def _wanted(only: Sequence[str]) -> dict[str, list[str]]:
    labels_by_key: dict[str, list[str]] = {}
    for text in only:
        label, equals, value = text.partition("=")
        if not (label and equals and value):
            raise ValueError(f"--only takes label=value, got {text!r}")
        labels_by_key.setdefault(label, []).append(value)
    return labels_by_key


def _fits(cell: Cell, wanted: Mapping[str, Sequence[str]]) -> bool:
    return all(
        label in cell.labels and any(_same(cell.labels[label], value) for value in values)
        for label, values in wanted.items()
    )


def _same(label: Label, text: str) -> bool:
    """Whether a label equals what the user typed: 0.001 is 1e-3."""
    if str(label) == text:
        return True
    try:
        return not isinstance(label, str) and float(label) == float(text)
    except ValueError:
        return False


def _values(plans: Sequence[Plan], wanted: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for label in wanted:
        selected = [cell.labels[label] for plan in plans for cell in plan.cells if label in cell.labels]
        parts.append(f"{label} {', '.join(dict.fromkeys(map(str, selected)))}")
    return "; ".join(parts)
