"""The study of plans: what it asks for, what a cell measures, and what its story says of rows."""

import copy

import pytest

from isojepa.config import config_from
from isojepa.planning.closed_loop import PLANNERS
from isojepa_lab.papers.world_model import planning, reacher_ou, reacher_trajectory
from isojepa_lab.studies.cells import Cell, Computation, Row, record_of
from tests.planning.closed_loop.plants import plant_or_skip

STUDY = planning.STUDY


def controller(success, ms=1.0):
    return {"success": success, "low": success - 0.05, "high": success + 0.05, "error": 0.01, "ms": ms}


def line(longer):
    usual = {"length": 1.1, "oracle": 1.0, "deviation": 0.1, "error": 0.1, "oracle_error": 0.05}
    return usual | {"longer": longer, "low": longer - 0.01, "high": longer + 0.01}


def scores(cell, success):
    if cell.labels["part"] == "lines":
        longer = 0.5 if cell.labels["encoder"] == planning.TRAJECTORY else 0.0
        return {"decoders": {"nearest": line(longer)}, "sizes": {"100": line(longer), "1000": line(longer)}}
    if cell.labels["part"] == "regret":
        error = 0.01 + 0.1 * list(planning.ENCODERS).index(cell.labels["encoder"])
        usual = {
            "slope": 0.2,
            "low": 0.9 * error,
            "high": 1.1 * error,
            "nothing": 2.0,
            "verdict": "diagnostic",
        }
        return usual | {"error": error, "regret": error, "share": error / 2, "bound": 3 * error}
    own = success.get(cell.labels["encoder"], 0.95)
    found = {
        name: controller(own if name == "inverse" else own / 2, 0.01 + 1.99 * (name != "inverse"))
        for name in PLANNERS
    }
    beside = {"oracle": controller(1.0), "random actions": controller(0.0), "no action": controller(0.0)}
    return {"controllers": found | beside, "transition_r2": 0.9}


def rows(**success):
    named = {"gaussian": planning.GAUSSIAN, "squashed": planning.SQUASHED, "trajectory": planning.TRAJECTORY}
    own = {named[key]: value for key, value in success.items()}
    return [
        Row(dict(cell.labels), cell.config.to_dict(), scores(cell, own), "done", 0, 1.0, None, "record")
        for cell in STUDY.plan("standard")
    ]


def verdict(claim, of):
    found = [one for one in STUDY.report(of).summary if claim in one.lower()]
    assert len(found) == 1
    return found[0]


def test_encoders_are_runs_of_the_other_studies():
    made = {record_of(cell.config).name for cell in reacher_ou.STUDY.plan("standard")}
    made |= {record_of(cell.config).name for cell in reacher_trajectory.STUDY.plan("standard")}
    asked = {
        record_of(config_from(cell.settings["config"])).name
        for cell in STUDY.plan("standard")
        if cell.settings["config"] is not None
    }
    assert len(asked) == 3
    assert asked <= made


@pytest.mark.parametrize(
    ("success", "told"),
    [
        ({"gaussian": 0.95, "squashed": 0.95}, "holds.**"),
        ({"gaussian": 0.95, "squashed": 0.5}, "in part.**"),
        ({"gaussian": 0.5, "squashed": 0.5}, "does not hold.**"),
    ],
)
def test_success_is_judged_where_the_oracle_always_succeeds(success, told):
    assert told in verdict("where the oracle always does", rows(**success))


def test_success_is_not_asked_where_the_oracle_fails():
    found = copy.deepcopy(rows())
    for row in found:
        if "controllers" in row.scores:
            row.scores["controllers"]["oracle"]["success"] = 0.9
    assert "cannot be asked" in verdict("where the oracle always does", found)


@pytest.mark.parametrize(("other", "told"), [(0.3, "holds.**"), (0.9, "does not hold.**")])
def test_trajectories_are_worse_only_where_intervals_are_apart(other, told):
    assert told in verdict("in the latent of a policy's trajectories", rows(trajectory=other))


def test_a_policy_must_be_fast_and_successful():
    assert "holds.**" in verdict("a policy by inverse dynamics", rows())
    slow = copy.deepcopy(rows())
    for row in slow:
        if "controllers" in row.scores:
            row.scores["controllers"]["inverse"]["ms"] = 1.0
    assert "does not hold.**" in verdict("a policy by inverse dynamics", slow)


def test_regret_is_compared_encoder_by_encoder_and_with_its_bound():
    whole = rows()
    assert "holds.**" in verdict("the smaller the recovery error", whole)
    assert "holds.**" in verdict("the planning bound", whole)
    for row in whole:
        if row.labels["part"] == "regret":
            row.scores["regret"] = 1.0 - row.scores["error"]
    assert "does not hold.**" in verdict("the smaller the recovery error", whole)
    assert "in part.**" in verdict("the planning bound", whole)


def test_a_planning_bound_that_encoders_do_not_have_does_not_hold_for_them():
    whole = rows()
    for row in whole:
        if row.labels["part"] == "regret" and row.labels["encoder"] != planning.TRUE:
            row.scores["bound"] = None
    assert "in part.**" in verdict("the planning bound", whole)
    assert "no bound" in verdict("the planning bound", whole)


def test_control_of_true_angles_has_no_regret_but_that_of_the_fit():
    plant_or_skip()
    asked = next(cell for cell in STUDY.plan("standard") if cell.labels["part"] == "regret")
    assert asked.labels["encoder"] == planning.TRUE
    settings = {**asked.settings, "paths": 20}
    found = planning.measure(Cell(Computation(settings), asked.labels))
    assert found["error"] < 1e-9
    assert found["regret"] < 0.01 * found["nothing"]
    assert found["bound"] is None or found["bound"] >= found["regret"]


def test_the_story_tells_whole_and_missing_rows():
    found = rows()
    told = STUDY.report(found)
    assert len(told.tables) == len(STUDY.tables)
    STUDY.report(found[:1])
    STUDY.report([])


@pytest.mark.slow
def test_control_by_the_true_angles_succeeds():
    plant_or_skip()
    asked = next(cell for cell in STUDY.plan("quick") if cell.labels["part"] == "control")
    settings = {**asked.settings, "encoder": planning.TRUE, "planners": ["mpc"], "episodes": 30}
    found = planning.measure(Cell(Computation(settings), asked.labels))
    assert found["controllers"]["oracle"]["success"] == 1.0
    assert found["controllers"]["mpc"]["success"] >= 0.75
    assert found["controllers"]["random actions"]["success"] <= 0.5
