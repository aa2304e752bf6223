import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.study import Cell, ReportStudy
from isojepa_lab.sweep.plan import find_called, find_studies, plan_studies, tasks_of
from tests.lab.sweep.cells import study_of, tiny, write_study

GRID = ReportStudy(
    "grid",
    "Grid",
    "claim",
    "source",
    lambda scale: [
        Cell(
            replace(tiny(seed), training=replace(tiny().training, learning_rate=rate)),
            {"rate": rate, "seed": seed},
        )
        for rate in (1e-3, 1e-2)
        for seed in range(3)
    ],
    lambda rows: Findings([]),
)


def labels(plans):
    return [dict(cell.labels) for plan in plans for cell in plan.cells]


def test_values_of_one_label_add_up_and_labels_narrow():
    assert len(labels(plan_studies([GRID], "quick", ["seed=0", "seed=1"]))) == 4
    assert len(labels(plan_studies([GRID], "quick", ["seed=0", "seed=1", "rate=1e-2"]))) == 2


@pytest.mark.parametrize(
    ("only", "told"),
    [
        (["rat=0.1"], "did you mean 'rate'"),
        (["seed=7"], "no cell has seed=7; there are seed 0, 1, 2"),
        (["seed"], "label=value, got 'seed'"),
    ],
)
def test_what_does_not_fit_is_told_with_the_choices(only, told):
    with pytest.raises(ValueError, match=told):
        plan_studies([GRID], "quick", only)


def test_a_run_that_two_studies_share_is_made_once():
    first = study_of({"a": tiny(0), "b": tiny(1)}, "first")
    second = study_of({"b": tiny(1), "c": tiny(2), "again": tiny(2)}, "second")
    tasks = tasks_of(plan_studies([first, second], "quick"), "records")
    assert [task.study for task in tasks] == ["first", "first", "second"]
    assert len({task.path for task in tasks}) == 3
    assert all(task.path.parent == Path("records") for task in tasks)


def test_a_study_comes_from_a_file_of_the_users(tmp_path):
    path = write_study(tmp_path / "mine.py", {"a": tiny(4)})
    (study,) = find_studies([str(path)])
    assert [cell.config for cell in study.plan("quick")] == [tiny(4).resolved()]


def test_the_file_is_named_when_it_holds_no_study(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("STUDY = 3\n")
    with pytest.raises(ValueError, match=r"mine\.py must define STUDY.*got 3"):
        find_studies([str(path)])
    path.write_text("import nothing_of_that_name\n")
    with pytest.raises(ValueError, match=r"mine\.py cannot be imported: ModuleNotFoundError"):
        find_studies([str(path)])
    with pytest.raises(ValueError, match="does not exist"):
        find_studies([str(tmp_path / "none.py")])


def test_a_file_that_is_named_twice_is_executed_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path / "mine.py", {"a": tiny(0)})
    path.write_text(path.read_text() + "open('executed', 'a').write('x')\n")
    ((called, study),) = find_called(["mine.py", "./mine.py", str(path), "mine.py"])
    assert (called, study.name) == ("mine.py", "tiny")
    assert Path("executed").read_text() == "x"


def test_a_file_may_hold_what_a_module_may(tmp_path):
    """A dataclass with postponed annotations looks its own module up."""
    path = write_study(tmp_path / "mine.py", {"a": tiny(0)})
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n"
        "@dataclass\nclass Setting:\n    value: ClassVar[int] = 1\n" + path.read_text()
    )
    (study,) = find_studies([str(path)])
    assert study.name == "tiny"
    find_studies([str(path.rename(tmp_path / "json.py"))])
    assert sys.modules["json"] is json  # the name of a file replaces no library


def test_a_title_is_one_line():
    cells = [Cell(tiny(), {"a": "x\ny", "b": "  "})]
    study = ReportStudy("s", "", "", "", lambda scale: cells, lambda rows: Findings([]))
    (task,) = tasks_of(plan_studies([study], "quick"), "records")
    assert task.title == "a=x y b="


def test_two_studies_of_one_name_are_told(tmp_path):
    one = write_study(tmp_path / "one.py", {"a": tiny(0)})
    two = write_study(tmp_path / "two.py", {"b": tiny(1)})
    with pytest.raises(ValueError, match="two studies are named 'tiny'"):
        find_studies([str(one), str(two)])
