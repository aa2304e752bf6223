"""Stationarity: the energy distance, the swaps, and the equivalent shift."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance

from isojepa.certificates.assumptions.sample import draw_sample
from isojepa.certificates.assumptions.stationarity import check_stationarity, gram_of_pairs
from tests.certificates.assumptions.worlds import drifting, gaussian, rotation


def line(z, z_next, rows=1000, draws=99, seed=0):
    return check_stationarity(draw_sample(z, z_next, "latents", seed), rows, draws, 0.95)


def test_the_mean_product_is_the_energy_distance():
    x, y = gaussian(60, 1)
    gram, _ = gram_of_pairs(x, y + 0.4)
    assert gram.mean() == pytest.approx(energy_distance(x[:, 0], y[:, 0] + 0.4) ** 2, rel=1e-10)


def test_a_sign_is_a_swap_of_the_views_of_a_pair():
    x, y = gaussian(30, 3)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 30)
    gram, _ = gram_of_pairs(x, y)
    first, second = np.where(signs[:, None] > 0, x, y), np.where(signs[:, None] > 0, y, x)
    energy = 2 * cdist(first, second).mean() - cdist(first, first).mean() - cdist(second, second).mean()
    assert signs @ gram @ signs / 900 == pytest.approx(energy, rel=1e-9)


@pytest.mark.parametrize("dim", [1, 3, 30])
def test_the_value_is_the_shift_of_the_mean(dim):
    z, z_next = gaussian(2000, dim, rho=0.5)
    found = line(z, z_next + 0.3 / np.sqrt(dim), rows=2000)
    assert found.value == pytest.approx(0.3, abs=0.08)
    assert found.interval.low < 0.3 < found.interval.high
    assert found.verdict == "fails"


def test_intervals_cover_the_shift():
    hits = 0
    for seed in range(60):
        z, z_next = gaussian(300, 2, seed=seed)
        interval = line(z, z_next + 0.3 / np.sqrt(2), draws=39).interval
        hits += interval.low < 0.3 < interval.high
    assert hits >= 50


def test_a_shift_within_the_threshold_is_unclear_though_significant():
    found = line(*(drifting(4000, 1)[0], gaussian(4000, 1)[1] + 0.05), rows=2000)
    assert found.p <= 0.05
    assert found.verdict == "unclear"


def test_a_change_of_scale_is_seen():
    z, z_next = gaussian(2000, 2)
    assert line(z, 1.4 * z_next).verdict == "fails"


def test_the_level_is_right_for_stationary_pairs_that_are_not_exchangeable():
    turn = rotation(2)  # z' turns: the joint law is another when the views are swapped
    ps = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        z, noise = rng.standard_normal((2, 200, 2))
        ps.append(line(z, 0.9 * z @ turn + np.sqrt(1 - 0.81) * noise, draws=59, seed=seed).p)
    assert np.mean(np.array(ps) <= 0.05) <= 0.1
    assert 0.35 <= np.mean(np.array(ps) <= 0.5) <= 0.65


def test_equal_views_hold():
    z, _ = gaussian(200, 3)
    found = line(z, z)
    assert found.verdict == "holds"
    assert found.value == pytest.approx(0, abs=1e-6)


def test_a_dimension_that_stops_is_told():
    z, z_next = gaussian(100, 2)
    z_next[:, 1] = 2.0
    found = line(z, z_next)
    assert found.verdict == "fails"
    assert "Dimension 1 is constant in a view" in found.sentence
