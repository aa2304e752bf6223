"""Every study of computations: kept rows are its cells, its quick scale runs, no rows conclude nothing."""

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from isojepa_lab.environments.rendering import NoRendering
from isojepa_lab.studies.catalogue import find_study
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.rows import Rows
from isojepa_lab.studies.study import unique
from isojepa_lab.studies.writing import write_report
from isojepa_lab.sweep.work import work

RESULTS = Path(__file__).parents[3] / "docs/results"
COMPUTED = ("ceiling", "dynamics", "axes", "objectives", "refusals", "peers", "recordings", "slices")
CUES = ("none", "shape", "rate", "shape or rate", "shape and rate", "bound")
SLOW = ("dynamics", "peers", "recordings", "pixel_axes")


@pytest.mark.parametrize("name", COMPUTED)
def test_kept_rows_are_the_cells_of_the_standard_scale(name):
    rows, cells = read_evidence(RESULTS / f"{name}.json").rows, find_study(name).plan("standard")
    assert [row.labels for row in rows] == [dict(cell.labels) for cell in cells]
    assert [row.config for row in rows] == [cell.config.to_dict() for cell in cells]


@pytest.mark.parametrize("name", [*COMPUTED, "pixel_axes", "planning", "reacher_trajectory"])
def test_without_rows_nothing_is_concluded(name):
    study = find_study(name)
    verdicts = [text for text in study.report([]).summary if text.startswith("**")]
    assert len(verdicts) == len(study.statements)
    assert all(": cannot be asked.**" in text for text in verdicts)


@pytest.mark.parametrize(
    "name", ["ceiling", "axes", "slices", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_the_quick_scale_is_computed_and_reported(name, tmp_path, monkeypatch):
    if name == "peers":
        pytest.importorskip("deeptime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # encoders are trained where the records of studies are
    study = find_study(name)
    cells = unique(study.plan("quick"))
    computed = cells[:3] if name == "slices" else cells
    try:
        for cell in computed:
            work(cell.config, tmp_path / "records", name)
    except (NoRendering, ImportError) as error:
        pytest.skip(str(error))
    evidence = gather(study, "quick", tmp_path / "records")
    assert evidence.missing == len(cells) - len(computed)
    written = write_report(study, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {
        f"{name}{end}" for end in (".json", ".md", ".html", ".png")
    }


def mapped(value, change=lambda value: value, cue=None):
    """Scores of which every number and truth value is changed, or every cue."""
    if isinstance(value, dict):
        return {key: mapped(part, change, cue) for key, part in value.items()}
    if isinstance(value, list):
        return [mapped(part, change, cue) for part in value]
    if isinstance(value, str):
        return cue if cue and value in CUES else value
    return value if value is None else change(value)


def shuffled(rows, seed):
    """Scores of rows that have the same scores by name are dealt out anew."""
    source, found = random.Random(seed), list(rows)
    for _, places in itertools.groupby(
        sorted(range(len(rows)), key=lambda k: sorted(rows[k].scores)), key=lambda k: sorted(rows[k].scores)
    ):
        places = list(places)
        for place, other in zip(places, source.sample(places, len(places)), strict=True):
            found[place] = replace(rows[place], scores=rows[other].scores)
    return found


CHANGES = {
    "zero": lambda value: value * 0,
    "one": lambda value: 1.0,
    "large": lambda value: 1e3 * abs(value) + 1,
    "negated": lambda value: not value if isinstance(value, bool) else -value,
    "half": lambda value: 0.5 * value,
}
JUDGED = ("apart", "fashion", "grid", "others", "planning", "reacher_ou", "reacher_trajectory", "scaling")


OTHERWISE = {"peers": ["named"], "scaling": ["published"]}  # asked in their own tests


def changed(rows):
    """Sets of rows with other scores."""
    for change in CHANGES.values():
        yield [replace(row, scores=mapped(row.scores, change)) for row in rows]
    for cue in ("none", "shape", "rate", "vacuous"):
        yield [replace(row, scores=mapped(row.scores, cue=cue)) for row in rows]
    for seed in range(8):
        yield shuffled(rows, seed)
    source = random.Random(0)
    for _ in range(8):
        yield [
            replace(
                row,
                scores=mapped(row.scores, lambda value: source.random()),
                cpu_seconds=(row.cpu_seconds or 1.0) * source.expovariate(1),
            )
            for row in rows
        ]
    for size in (0.3, 1.0, 3.0):
        factors = [math.exp(source.gauss(0, size)) for _ in rows]
        yield [
            replace(row, scores=mapped(row.scores, lambda value, by=by: value * by))
            for row, by in zip(rows, factors, strict=True)
        ]


def verdict_of(statement, rows):
    try:
        return statement.judge(Rows(rows)).verdict
    except ZeroDivisionError:  # of scores that are all 0
        return None


@pytest.mark.parametrize("name", [*COMPUTED, *JUDGED])
def test_every_statement_can_be_answered_otherwise(name):
    rows = read_evidence(RESULTS / f"{name}.json").rows
    others = list(changed(rows))
    fixed = [
        statement.name
        for statement in find_study(name).statements
        if {verdict_of(statement, other) for other in others} <= {verdict_of(statement, rows), None}
    ]
    assert fixed == OTHERWISE.get(name, [])
