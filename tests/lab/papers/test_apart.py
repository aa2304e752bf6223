"""The study of encoders trained apart: what it measures, and how rows become verdicts."""

import numpy as np
import pytest

from isojepa.align import AlignmentMap
from isojepa_lab.papers.social import apart
from isojepa_lab.papers.social.apart import EMOJI, LATENTS, SEVERAL, SINGLE, STANDARD, STUDY
from isojepa_lab.studies.cells import Row
from isojepa_lab.studies.rows import Rows
from tests.vision import timm_or_skip


def rows(**changed):
    """A row for each cell, of numbers that are alike but for those that are named by method and key."""
    found = []
    for cell in STUDY.plan("standard"):
        method = cell.labels["method"]
        scores = {
            "linear": 0.995,
            "rotation": 0.995,
            "condition": 1.05,
            "orthogonality": 0.1,
            "r2": 0.6 if method == "masked (I-JEPA)" else 0.5,
            "mse": 0.5,
            "dsc": 0.5,
            "nos": 0.5,
            "cka": 0.5,
            "rankme": 9.0,
            "probe own": 0.7,
            "probe naive": 0.1,
            "probe transferred": 0.5,
            "probe regressed": 0.69,
            "embedding linear": 0.5,
            "embedding rotation": 0.4,
            "embedding condition": 30.0,
            "embedding orthogonality": 0.5 if method == "LeJEPA" else 0.9,
        }
        if method == "random weights":
            scores["r2"] = 0.3
        if cell.labels["world"] == LATENTS:
            scores |= changed.get("latents", {})
        scores |= changed.get(method.split()[0].lower(), {})
        found.append(Row(dict(cell.labels), cell.config.to_dict(), scores, "done", 0, 1.0, None, "x"))
    return found


def verdicts(**changed):
    given = Rows(rows(**changed))
    return {statement.name: statement.judge(given).verdict for statement in STUDY.statements}


def test_verdicts_follow_the_rows():
    assert set(verdicts().values()) == {"holds"}
    assert verdicts(latents={"condition": 1.3})["rotation"] == "does not hold"
    assert verdicts(simclr={"embedding orthogonality": 0.2})["level"] == "in part"
    assert verdicts(mae={"r2": 0.7})["order"] == "in part"
    assert verdicts(random={"r2": 0.9})["untrained"] == "does not hold"
    assert verdicts(mae={"probe regressed": 0.5})["worth"] == "in part"


def test_the_story_tells_all_of_it():
    tables = STUDY.report(rows()).tables
    assert [len(table.rows) for table in tables] == [4, len(STANDARD), 3, len(STANDARD)]


def test_all_methods_of_the_paper_are_there_at_its_scale():
    planned = {cell.labels["method"] for cell in STUDY.plan("paper") if cell.labels["world"] == EMOJI}
    assert planned == {*SINGLE, *SEVERAL}


@pytest.mark.parametrize("method", ["masked (I-JEPA)", "LeJEPA", "random weights"])
def test_two_agents_that_see_squares_in_other_colours_are_related(method):
    timm_or_skip()
    (cell,) = [
        cell
        for cell in STUDY.plan("quick")
        if cell.labels["method"] == method and cell.labels["world"] == EMOJI
    ]
    found = apart.measure(cell)
    assert found["r2"] > 0.5
    assert 0 <= found["probe own"] <= 1
    assert ("embedding linear" in found) is (method == "LeJEPA")


def test_a_scaled_rotation_is_no_step_from_one():
    x = np.random.default_rng(0).normal(size=(200, 3))
    fitted = AlignmentMap("ols", standardise=False).fit(x, 3 * x[:, [2, 0, 1]])
    assert apart.turned_orthogonality(fitted) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_two_agents_trained_apart_in_a_gaussian_world_are_a_rotation_of_each_other():
    (cell,) = [
        cell
        for cell in STUDY.plan("standard")
        if cell.labels["method"] == "LeJEPA" and cell.labels["world"] == LATENTS
    ]
    found = apart.measure(cell)
    assert found["rotation"] >= 0.99
    assert found["condition"] <= 1.1
