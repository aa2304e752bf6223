"""Cells, rows and the records between them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from isojepa.config import Config, config_from
from isojepa.io import to_jsonable
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import build_spec
from isojepa.runs import record_path
from isojepa.training import RunDirectory
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.catalogue import STUDIES, find_study
from isojepa_lab.studies.settings import PUBLISHED_RECIPE
from isojepa_lab.studies.study import SCALES, Cell, Row, collect, unique
from tests.lab.studies.small import STUDY, cell, leave_records, scores_of

CONFIGS = {
    "defaults": Config(),
    "published": Config(training=PUBLISHED_RECIPE),  # whose batch does not grow: a None that is no default
    "one rho each": Config(world=build_spec("world", dim=2, rho=(0.9, 0.5))),
    "training set": Config(training=Recipe(pairs=64)),
}


def row_of(config: Config, **scores) -> Row:
    return Row({"seed": 0}, config.to_dict(), scores, "done", 10, 1.5, 0.25, "abc")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_comes_back_from_json_as_it_was(name):
    row = row_of(CONFIGS[name], r2=0.5, holds=None, r2_each=[0.4, 0.6])
    text = json.dumps(to_jsonable(row.to_dict()), allow_nan=False)
    back = Row.from_dict(json.loads(text))
    assert back == row
    assert type(back.config["world"]["rho"]) is type(row.config["world"]["rho"])


def test_what_is_not_a_number_is_one_again_after_json():
    row = row_of(
        Config(), r2=math.nan, bound=math.inf, bound_interval=[-math.inf, 2.0], unscored="not finite"
    )
    row = replace(row, loss=math.nan, labels={"alpha": math.inf, "seed": 0})
    back = Row.from_dict(json.loads(json.dumps(to_jsonable(row.to_dict()), allow_nan=False)))
    assert math.isnan(back.scores["r2"])
    assert math.isnan(back.loss)
    assert back.labels == row.labels
    assert back.scores["bound"] == math.inf
    assert back.scores["bound_interval"] == [-math.inf, 2.0]
    assert back.scores["unscored"] == "not finite"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": "red"}, "not a row of a study: .*color"),
        ({"config": {"world": {"rhoo": 1}}}, "rhoo"),
        ({"config": {"training": {"steps": "many"}}}, "training.steps must be int, got 'many'"),
        ({"scores": [0.5]}, r"scores is \[0.5\]"),
        ({"seconds": "long"}, "seconds is 'long'"),
        ({"labels": None}, "labels is None"),
    ],
)
def test_a_wrong_row_is_told(change, message):
    with pytest.raises(ValueError, match=message):
        Row.from_dict({**row_of(Config()).to_dict(), **change})


def test_a_row_with_something_missing_is_told():
    data = row_of(Config()).to_dict()
    del data["scores"]
    with pytest.raises(ValueError, match=r"not a row of a study: .*scores"):
        Row.from_dict(data)


def test_a_row_keeps_the_steps_of_its_resumptions_and_one_from_before_lacks_them():
    before = row_of(Config())
    assert "resumed_at" not in before.to_dict()
    for steps in ([], [3, 7]):
        row = replace(before, resumed_at=steps)
        assert row.to_dict()["resumed_at"] == steps
        assert Row.from_dict(json.loads(json.dumps(to_jsonable(row.to_dict())))) == row


def test_collect_reads_the_steps_of_resumptions_from_the_result(tmp_path):
    one = cell(2, 0)
    leave_records([one], tmp_path)
    ((row,), _) = collect([one], tmp_path)
    assert row.resumed_at is None
    record = RunDirectory.open(record_path(one.config, tmp_path))
    record.finish({**record.result, "resumed_at": [4]})
    ((row,), _) = collect([one], tmp_path)
    assert row.resumed_at == [4]


def test_unique_keeps_the_first_of_equal_configs_in_order():
    cells = [cell(2, 0), cell(4, 0), replace(cell(2, 0), labels={"other": "study"}), cell(2, 1)]
    assert [one.labels for one in unique(cells)] == [cells[0].labels, cells[1].labels, cells[3].labels]


def test_a_config_that_differs_in_its_device_alone_is_the_same_run():
    there = replace(cell(2, 0).config, training=replace(cell(2, 0).config.training, accelerator="gpu"))
    assert len(unique([cell(2, 0), Cell(there, {})])) == 1


def test_collect_takes_what_is_finished_and_scored(tmp_path):
    done, unfinished, unscored, absent = cell(2, 0), cell(2, 1), cell(4, 0), cell(4, 1)
    leave_records([done, unscored], tmp_path)
    (record_path(unscored.config, tmp_path) / "scores.json").unlink()
    RunDirectory.start(record_path(unfinished.config, tmp_path), unfinished.config.to_dict())
    rows, missing = collect([done, unfinished, unscored, absent], tmp_path)
    assert missing == [unfinished, unscored, absent]
    (row,) = rows
    assert row.labels == done.labels
    assert row.config == done.config.to_dict()
    assert row.scores["r2"] == scores_of(done)["r2"]
    assert row.scores["bound"] == math.inf  # "inf" in the file
    assert (row.status, row.steps, row.loss) == ("done", 10, 0.1 / 3)
    assert row.record == record_path(done.config).name


def test_a_run_that_diverged_at_once_is_a_row(tmp_path):
    one = cell(2, 0)
    record = RunDirectory.start(record_path(one.config, tmp_path), one.config.to_dict())
    record.finish({"status": "diverged", "reason": "nan", "seconds": 0.1, "steps": 3, "metrics": None})
    record.save_scores({"unscored": "embeddings must be finite"})
    ((row,), _) = collect([one], tmp_path)
    assert row.status == "diverged"
    assert row.loss is None
    assert "r2" not in row.scores


@pytest.mark.parametrize("name", ["config.json", "result.json", "scores.json"])
def test_a_torn_record_counts_as_missing_and_stops_no_report(tmp_path, name):
    leave_records([cell(2, 0), cell(2, 1)], tmp_path)
    (record_path(cell(2, 0).config, tmp_path) / name).write_text('{"r2": 0.')
    rows, missing = collect([cell(2, 0), cell(2, 1)], tmp_path)
    assert missing == [cell(2, 0)]
    assert [row.labels["seed"] for row in rows] == [1]


@pytest.mark.parametrize("change", [{"seconds": None}, {"metrics": [1]}, {"status": None, "steps": "x"}])
def test_a_result_that_holds_something_else_counts_as_missing(tmp_path, change):
    cells = STUDY.plan("standard")[:2]
    leave_records(cells, tmp_path)
    path = record_path(cells[0].config, tmp_path) / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    rows, missing = collect(cells, tmp_path)
    assert (len(rows), missing) == (1, [cells[0]])


def test_a_record_of_another_config_than_its_name_says_is_no_row(tmp_path):
    leave_records([cell(4, 0)], tmp_path)
    record_path(cell(4, 0).config, tmp_path).rename(record_path(cell(2, 0).config, tmp_path))
    assert collect([cell(2, 0)], tmp_path) == ([], [cell(2, 0)])


@pytest.mark.parametrize(
    "config",
    [
        Config(training=Recipe(clip=1)),
        Config(world=build_spec("world", rho=[1, 0.5], lag=1)),
        Config(objective=LeJEPASpec(weight=np.float32(0.5)), seed=np.int64(3)),
    ],
    ids=["int for float", "list of ints", "numpy"],
)
def test_a_planned_config_has_the_name_that_a_worker_finds(config):
    """Workers get it through JSON, where settings take their own types."""
    (planned,) = replace(STUDY, cells=lambda scale: [Cell(config, {})]).plan("quick")
    there = config_from(json.loads(json.dumps(planned.config.to_dict())))
    assert record_path(there) == record_path(planned.config)
    assert there == planned.config


def test_a_planned_config_is_resolved():
    for config in CONFIGS.values():
        (planned,) = replace(STUDY, cells=lambda scale, c=config: [Cell(c, {})]).plan("quick")
        assert planned.config == config.resolved()


def broken(scale):
    raise KeyError(scale)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (broken, r"KeyError: 'quick' \(test_study.py, line \d+\)"),
        (lambda scale: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda scale: [Config()], "a cell must be a Cell of a Config and labels, got Config"),
        (lambda scale: [Cell(Config(), ["a"])], "a cell must be a Cell"),
    ],
    ids=["raises", "none", "configs", "labels"],
)
def test_cells_that_cannot_be_listed_are_one_line_with_the_study_and_the_place(cells, told):
    with pytest.raises(ValueError, match=f"study 'small' cannot list its cells: {told}") as error:
        replace(STUDY, cells=cells).plan("quick")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_study_of_the_catalogue_can_be_planned(name):
    study = find_study(name)
    assert study.name == name
    for text in (study.title, study.claim, study.source):
        assert text.strip()
    counts = {scale: len(unique(study.plan(scale))) for scale in SCALES}
    assert 0 < counts["quick"] <= counts["standard"] <= counts["paper"]
