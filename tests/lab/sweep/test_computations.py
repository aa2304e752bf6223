"""Cells that train nothing: computed once, left in a record, skipped when done, told when they fail."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tyro

from isojepa.training.run_directory import RunDirectory
from isojepa_lab.cli.study import Study as StudyCommand
from isojepa_lab.cli.sweep import Sweep
from isojepa_lab.studies.cells import Cell, Computation, asked_from, record_of
from isojepa_lab.studies.evidence import gather, read_evidence, write_evidence
from isojepa_lab.studies.study import Study
from isojepa_lab.sweep.computations import price_computations
from isojepa_lab.sweep.plan import find_studies, plan_studies, tasks_of
from isojepa_lab.sweep.record_state import state_of
from isojepa_lab.sweep.work import attempt, work

CODE = """\
from pathlib import Path
from isojepa_lab.studies.specs import TableSpec
from isojepa_lab.studies.statements import Statement, judge_values
from isojepa_lab.studies.study import Cell, Computation, Study

def measure(cell):
    (Path(__file__).parent / "calls").open("a").write("x")
    if cell.settings["n"] < 0:
        raise ZeroDivisionError("a bug")
    return {"square": cell.settings["n"] ** 2, "none": float("nan")}

STUDY = Study(
    name="squares", title="Squares", source="", measure=measure,
    cells=lambda scale: [Cell(Computation({"n": n, "names": ("a", "b")}), {"n": n}) for n in NUMBERS],
    story=Path(__file__).with_suffix(".md"),
    tables=[TableSpec("all", lambda rows: [{"n": row.labels["n"], **row.scores} for row in rows])],
    statements=[Statement("grow", lambda rows: judge_values(
        (row.scores["square"] for row in rows), lambda square: square > 1))],
)
"""
STORY = """\
Squares are above one.

{statement grow: squares are above one}
holds, in part, does not hold: {good} of {asked} are.

{table all}
| n {n:d} | square {square:d} |
"""


@pytest.fixture
def squares(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "squares.md").write_text(STORY, encoding="utf-8")
    return write(tmp_path / "squares.py", [1, 2, 2, 3])


def write(path: Path, numbers: list[int]) -> Path:
    path.write_text(CODE.replace("NUMBERS", str(numbers)), encoding="utf-8")
    return path


def study_in(path: Path) -> Study:
    (study,) = find_studies([str(path)])
    assert isinstance(study, Study)
    return study


def test_a_computation_is_done_once_and_leaves_a_record(squares, tmp_path):
    cell = study_in(squares).plan("quick")[1]
    for _ in range(2):
        record = work(cell.config, tmp_path / "records", str(squares))
    assert (tmp_path / "calls").read_text() == "x"
    assert record.scores == {"square": 4, "none": "nan"}
    assert record.config == {"computation": "squares", "n": 2, "names": ["a", "b"]}
    assert record.result["status"] == "done"
    assert record.path.name == record_of(cell.config).name
    assert state_of(record.path) == "done"


@pytest.mark.parametrize("name", ["scores.json", "result.json"])
def test_a_torn_file_is_computed_again(squares, tmp_path, name):
    cell = study_in(squares).plan("quick")[0]
    record = work(cell.config, tmp_path / "records", str(squares))
    (record.path / name).write_text('{"sq')
    assert state_of(record.path) == "started"
    assert work(cell.config, tmp_path / "records", str(squares)).scores["square"] == 1
    assert (tmp_path / "calls").read_text() == "xx"


def test_what_fails_is_told_and_the_record_is_not_done(squares, tmp_path):
    write(squares, [-1])
    cell = study_in(squares).plan("quick")[0]
    ending = attempt(cell.config, tmp_path / "records", str(squares))
    assert (ending.state, ending.error) == ("failed", "ZeroDivisionError: a bug")
    assert state_of(record_of(cell.config, tmp_path / "records")) == "started"


def test_a_sweep_computes_what_is_missing_and_a_report_tells_it(squares, tmp_path, capsys):
    def sweep() -> dict:
        arguments = [str(squares), "--scale", "quick", "--workers", "1", "--json"]
        assert tyro.cli(Sweep, args=arguments).run() == 0
        return json.loads(capsys.readouterr().out)

    told = sweep()
    assert (told["total"], told["before"], told["done"]) == (3, 0, 3)
    assert sweep()["before"] == 3
    assert (tmp_path / "calls").read_text() == "xxx"
    for arguments in ([], ["--from", "docs/results"]):
        tyro.cli(StudyCommand, args=["report", str(squares), "--scale", "quick", *arguments]).run()
        assert "Squares are above one: in part.** 3 of 4 are." in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "docs/results/squares-all.csv").read_text() == "n,square\n1,1\n2,4\n2,4\n3,9\n"
    assert "- Computing: " in (tmp_path / "docs/results/squares.md").read_text(encoding="utf-8")
    tyro.cli(StudyCommand, args=["show", str(squares)]).run()
    assert "Squares are above one." in capsys.readouterr().out


def test_rows_of_computations_come_back_from_their_file(squares, tmp_path):
    study = study_in(squares)
    for cell in study.plan("quick"):
        work(cell.config, tmp_path / "records", str(squares))
    evidence = gather(study, "quick", tmp_path / "records")
    write_evidence(tmp_path / "squares.json", evidence)
    back = read_evidence(tmp_path / "squares.json")
    assert [row.config for row in back.rows] == [row.config for row in evidence.rows]
    assert back.rows[0].scores["none"] != back.rows[0].scores["none"]  # NaN
    assert back.computed


def test_computations_cost_what_their_study_has_cost(squares, tmp_path):
    study = study_in(squares)
    tasks = tasks_of(plan_studies([study], "quick", called={"squares": str(squares)}), tmp_path / "records")
    states = {task.name: state_of(task.path) for task in tasks}
    assert price_computations(tasks, states)[1] == 3
    work(tasks[0].config, tmp_path / "records", tasks[0].called)
    RunDirectory(tasks[0].path).finish({"status": "done", "reason": "", "seconds": 7.0})
    states = {task.name: state_of(task.path) for task in tasks}
    seconds, guessed = price_computations(tasks, states)
    assert list(seconds.values()) == [0.0, 7.0, 7.0]
    assert guessed == 0
    told = [replace(task, config=replace(task.config, seconds=60.0)) for task in tasks]
    assert [task.config for task in told] == [task.config for task in tasks]  # no part of what it is
    assert list(price_computations(told, states)[0].values()) == [0.0, 60.0, 60.0]


def test_cells_and_measures_must_fit(squares, tmp_path):
    study = study_in(squares)
    with pytest.raises(ValueError, match="a cell must be a Cell of a Computation"):
        Study("s", "", "", lambda scale: [Cell("x", {})], squares, measure=study.measure).plan("quick")
    with pytest.raises(ValueError, match="a cell must be a Cell of a Config"):
        Study("s", "", "", study.cells, squares).plan("quick")
    with pytest.raises(ValueError, match="must not be named 'computation'"):
        Computation({"computation": 1})
    with pytest.raises(ValueError, match="must have a Config"):
        _ = study.plan("quick")[0].trained


def test_a_computation_is_told_from_a_config_by_its_plain_values(squares):
    config = study_in(squares).plan("quick")[0].config
    assert asked_from(config.to_dict()) == Computation({"n": 1, "names": ["a", "b"]}, "squares")
    assert asked_from({"seed": 3}).seed == 3
    assert record_of(config).name != record_of(Computation(config.settings, "other")).name
