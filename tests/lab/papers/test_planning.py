"""The study of plans: what it asks for, what a cell measures, and what its story says of rows."""

import pytest

from isojepa.config import config_from
from isojepa_lab.papers.world_model import planning, reacher_ou, reacher_trajectory
from isojepa_lab.studies.cells import Cell, Computation, record_of
from tests.lab.environments.rendering import plant_or_skip

STUDY = planning.STUDY


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


def test_control_of_true_angles_has_no_regret_but_that_of_the_fit():
    plant_or_skip()
    asked = next(cell for cell in STUDY.plan("standard") if cell.labels["part"] == "regret")
    assert asked.labels["encoder"] == planning.TRUE
    settings = {**asked.settings, "paths": 20}
    found = planning.measure(Cell(Computation(settings), asked.labels))
    assert found["error"] < 1e-9
    assert found["regret"] < 0.01 * found["nothing"]
    assert found["bound"] is None or found["bound"] >= found["regret"]


@pytest.mark.slow
def test_control_by_the_true_angles_succeeds():
    plant_or_skip()
    asked = next(cell for cell in STUDY.plan("quick") if cell.labels["part"] == "control")
    settings = {**asked.settings, "encoder": planning.TRUE, "planners": ["mpc"], "episodes": 30}
    found = planning.measure(Cell(Computation(settings), asked.labels))
    assert found["controllers"]["oracle"]["success"] == 1.0
    assert found["controllers"]["mpc"]["success"] >= 0.75
    assert found["controllers"]["random actions"]["success"] <= 0.5
