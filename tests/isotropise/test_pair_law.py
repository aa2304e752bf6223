"""Measures of a law of pairs where the truth is known."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from isojepa.isotropise.weighing import common_rho, effective, lagged, measure_pairs, turn, whitening
from isojepa.seeds import generator
from isojepa.worlds import OrnsteinUhlenbeck
from isojepa.worlds.trajectories import Recorded


def ou(rho, paths=3000, steps=5, dim=2):
    return OrnsteinUhlenbeck(dim, rho).trajectory(paths, steps, generator(0, "data"))


def test_the_gaussian_process_is_at_distance_zero():
    law = measure_pairs(Recorded(ou(0.9)))
    assert abs(law.gaussianity) < 3e-4
    assert abs(law.transition) < 3e-4
    assert abs(law.stationarity) < 3e-4
    assert law.isotropy == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(law.rho, 0.9, atol=0.02)


def test_rates_are_found_in_any_basis():
    mixed = ou([0.95, 0.6]).numpy() @ np.array([[1.0, 0.7], [0.2, 1.5]])
    law = measure_pairs(Recorded(mixed))
    np.testing.assert_allclose(law.rho, [0.95, 0.6], atol=0.02)
    assert law.isotropy == pytest.approx(math.log(0.6) / math.log(0.95), rel=0.1)
    assert law.transition > 0.002  # though every marginal is Gaussian


def test_the_distance_of_a_coin_is_the_integral():
    rng = np.random.default_rng(0)
    coins = rng.choice([-1.0, 1.0], size=(2, 40_000, 1)) + 1e-3 * rng.normal(size=(2, 40_000, 1))
    coins[1] = np.where(rng.random((40_000, 1)) < 0.8, coins[0], coins[1])
    law = measure_pairs(Recorded(coins))
    truth = quad(
        lambda t: (math.cos(t) - math.exp(-t * t / 2)) ** 2 * math.exp(-t * t / 2) / math.sqrt(2 * math.pi),
        -10,
        10,
    )[0]
    assert law.gaussianity == pytest.approx(truth, rel=0.05)


def test_a_drift_shows_as_a_gap_that_swapping_closes():
    z = np.random.default_rng(0).normal(size=(2, 5000, 1))
    z[1] = 0.9 * z[0] + 0.4 * z[1] + 0.7
    recorded = Recorded(z)
    gap = measure_pairs(recorded).stationarity
    assert gap > 0.05
    half = measure_pairs(recorded.reweighted(None, 0.25)).stationarity
    assert half == pytest.approx(gap / 4, rel=1e-6)
    assert measure_pairs(recorded.reweighted(None, 0.5)).stationarity == 0


def test_effective_numbers_are_kish():
    recorded = Recorded(np.random.default_rng(0).normal(size=(5, 3, 2)))
    assert effective(recorded) == (12, 3)
    weights = np.repeat([1.0, 1.0, 0.0], 4)
    assert effective(recorded.reweighted(weights)) == pytest.approx((8, 2))
    weights = np.arange(12.0)
    paths = weights.reshape(3, 4).sum(1)
    expected = weights.sum() ** 2 / (weights**2).sum(), paths.sum() ** 2 / (paths**2).sum()
    assert effective(recorded.reweighted(weights)) == pytest.approx(expected)


def test_weights_change_what_is_measured():
    paths = np.concatenate((ou(0.9).numpy(), ou(0.9).numpy() ** 3), 1)
    recorded = Recorded(paths)
    per_path = recorded.pairs // recorded.paths
    weights = np.repeat(np.arange(recorded.paths) < 3000, per_path).astype(float)
    assert measure_pairs(recorded).gaussianity > 0.005
    assert abs(measure_pairs(recorded.reweighted(weights)).gaussianity) < 5e-4


def test_pairs_that_do_not_persist_have_no_transition_distance():
    paths = ou(0.9, paths=500).numpy()
    paths[1::2] *= -1  # neighbours are opposite
    law = measure_pairs(Recorded(paths))
    assert math.isnan(law.transition)
    assert math.isinf(law.isotropy)
    assert abs(law.gaussianity) < 2e-3


def test_whitening_turns_and_lagged_are_linear_algebra():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 4
    weights = rng.random(500)
    mean, matrix = whitening(z, weights)
    white = (z - mean) @ matrix
    np.testing.assert_allclose(np.cov(white.T, aweights=weights, ddof=0), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(matrix, matrix.T)
    u, v = turn(white, 0.5 * white, 0.6)
    np.testing.assert_allclose(u * math.sqrt(3.2) - v * math.sqrt(0.8), 2 * white)
    values, directions = lagged(white, white @ np.diag([0.9, 0.5, 0.1]), weights)
    np.testing.assert_allclose(values, [0.9, 0.5, 0.1], atol=1e-9)
    np.testing.assert_allclose(np.abs(directions), np.eye(3), atol=1e-9)
    with pytest.raises(ValueError, match="vary in every direction"):
        whitening(np.column_stack((z, z[:, 0])))


def test_the_common_rho_has_the_geometric_mean_of_the_rates():
    assert common_rho(np.exp([-1.0, -4.0])) == pytest.approx(math.exp(-2))
    with pytest.raises(ValueError, match="change the stride"):
        common_rho(np.array([0.9, -0.1]))
