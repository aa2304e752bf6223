"""The study of dynamics: its truths are true, kept rows are its cells, and conclusions follow the rows."""

import math
from pathlib import Path

import numpy as np
import pytest

from isojepa.certificates.transition import certify_dynamics
from isojepa.seeds import generator
from isojepa_lab.papers.own import dynamics
from isojepa_lab.papers.own.dynamics import STUDY
from isojepa_lab.papers.own.linear_measures import KINDS, POLICIES, measure_bound
from isojepa_lab.papers.own.linear_worlds import covered, normal, random_world, sines
from isojepa_lab.studies.evidence import read_evidence

KEPT = Path(__file__).parents[3] / "docs/results/dynamics.json"


def test_intervals_hold_the_truth_and_not_another_one():
    world = random_world(0, 3, 2)
    z, a = world.paths(60, 20, generator(0, "test"))
    values = certify_dynamics(z @ world.q.T, a).invariants
    assert covered(values, world.a, world.b) == dict.fromkeys(KINDS, True)
    assert all(covered(values, *world.turned).values())  # in any rotation
    assert not any(covered(values, 1.5 * world.a, 2 * world.b).values())


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_leaves_as_many_directions_open_as_it_says(name):
    make, opened = POLICIES[name]
    world = random_world(1, 4, 3, feedback=True)
    z, a = world.paths(200, 20, generator(0, "test"), make(world))
    both = np.concatenate((z[:-1], a), axis=2).reshape(-1, 7)
    kept = np.linalg.svd(both - both.mean(0), compute_uv=False) / math.sqrt(len(both))
    assert (kept < 1e-7).sum() == opened(3)


def test_the_error_of_an_encoder_is_drawn_as_its_formula_says():
    encoder = sines(2, 3, 0.4)
    z = normal(generator(0, "test"), 200_000, 3)
    error = encoder(z) - z @ encoder.q.T
    assert (error**2).sum(1).mean() == pytest.approx(encoder.power, rel=0.02)
    slopes = np.linalg.norm(error[1:] - error[:-1], axis=1) / np.linalg.norm(z[1:] - z[:-1], axis=1)
    assert slopes.max() <= encoder.lipschitz == pytest.approx(0.4)


def test_a_larger_error_of_the_encoder_costs_more_and_is_refused_at_last():
    small, large, huge = (measure_bound(range(4), size, 0.0, 0) for size in (0.01, 0.1, 30.0))
    assert all(one < other for one, other in zip(small["regret"], large["regret"], strict=True))
    assert all(one < other for one, other in zip(small["bound"], large["bound"], strict=True))
    assert huge["verdict"] == ["no bound"] * 4
    assert huge["lacks"] == ["small gain"] * 4
    assert huge["ratio"] == [None] * 4


@pytest.mark.parametrize(
    "labels",
    [
        {"part": "intervals", "dim": 2, "rows": 80, "layout": "one path", "batch": 1},
        {"part": "bound", "model": "off by 0.01", "lipschitz": 0.03, "batch": 0},
        {"part": "excitation", "policy": "of rank one", "batch": 1},
    ],
)
def test_a_kept_row_is_what_its_cell_measures(labels):
    (row,) = [row for row in read_evidence(KEPT).rows if labels.items() <= row.labels.items()]
    (cell,) = [cell for cell in STUDY.plan("standard") if cell.labels == row.labels]
    measured = dynamics.measure(cell)
    assert measured.keys() == row.scores.keys()
    for name, value in measured.items():
        if isinstance(value, list) and not isinstance(value[0], str):
            known = [[math.nan if one is None else one for one in part] for part in (value, row.scores[name])]
            np.testing.assert_allclose(*known, rtol=1e-4, err_msg=name)
        elif isinstance(value, float):
            assert value == pytest.approx(row.scores[name], rel=1e-4), name
