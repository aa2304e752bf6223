"""The study of encoders trained apart: what it measures, and how rows become verdicts."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap
from isojepa_lab.papers.social import apart
from isojepa_lab.papers.social.apart import EMOJI, LATENTS, STUDY
from tests.vision import timm_or_skip


@pytest.mark.parametrize("method", ["masked (I-JEPA)", "LeJEPA", "random weights"])
def test_two_agents_that_see_squares_in_other_colors_are_related(method):
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
    fitted = AlignmentMap("ols", standardize=False).fit(x, 3 * x[:, [2, 0, 1]])
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
