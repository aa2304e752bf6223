"""The law of slow functions along their paths: what is linear is Gaussian, and what is not shows it."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from isojepa.certificates.lag_curves import slow_functions
from isojepa.certificates.lag_law import measure_law
from tests.certificates.paths import ornstein_uhlenbeck

LAGS = np.array([1, 2, 3, 4, 6, 8])


def measured(y):
    y = (y - y.mean((0, 1))) / y.std((0, 1))
    return measure_law(y, slow_functions(y, 4, y.shape[2]), LAGS, 4, 0.95)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_no_function_of_degree_two_hides_its_kurtosis(seed, latents):
    # y = a.z + z.B z: by cumulants, variance |a|^2 + 2 tr B^2 and fourth cumulant 48 tr B^4 + 48 a.B^2 a
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((latents, latents)) * rng.uniform(0, 1, latents)
    matrix, vector = matrix + matrix.T, rng.standard_normal(latents) * rng.exponential()
    square = matrix @ matrix
    energy = 2 * np.trace(square)
    variance = vector @ vector + energy
    kurtosis = (48 * np.trace(square @ square) + 48 * vector @ square @ vector) / variance**2
    assert kurtosis >= 12 * (energy / variance) ** 2 / latents - 1e-9


def test_the_cumulants_are_those_of_samples():
    z = np.random.default_rng(0).standard_normal((200_000, 2))
    y = 0.8 * z[:, 0] + 0.3 * (z[:, 0] ** 2 - 1) + 0.4 * z[:, 0] * z[:, 1]
    matrix, vector = np.array([[0.3, 0.2], [0.2, 0.0]]), np.array([0.8, 0.0])
    square = matrix @ matrix
    variance = vector @ vector + 2 * np.trace(square)
    kurtosis = (48 * np.trace(square @ square) + 48 * vector @ square @ vector) / variance**2
    assert scipy.stats.kurtosis(y) == pytest.approx(kurtosis, rel=0.08)


def test_latents_are_gaussian_along_their_paths_and_rule_quadratic_functions_out():
    rng = np.random.default_rng(1)
    found = measured(ornstein_uhlenbeck(rng, 150, 200, 4, 0.8))
    assert found.gaussian
    assert found.latents > 64
    assert found.functions == 4
    assert 0 < found.quadratic < 1


def test_few_data_rule_nothing_out_and_say_how_many_would():
    found = measured(ornstein_uhlenbeck(np.random.default_rng(2), 60, 40, 2, 0.8))
    assert not found.gaussian
    assert not found.differs
    assert found.more >= 2


@pytest.mark.parametrize("count", [1, 4, 12])
def test_sums_of_products_have_the_kurtosis_that_they_must(count):
    rng = np.random.default_rng(3)
    pairs = [ornstein_uhlenbeck(rng, 150, 200, 4, 0.8) for _ in range(count)]
    found = measured(sum(z[..., :2] * z[..., 2:] for z in pairs))
    assert found.kurtosis.low - 0.1 < 6 / count < found.kurtosis.high + 0.1
    assert found.squares.low - 0.3 < 6 / count < found.squares.high + 0.3
    assert found.differs
    assert not found.gaussian


def test_values_that_were_forced_to_be_gaussian_show_it_a_lag_apart():
    z = ornstein_uhlenbeck(np.random.default_rng(4), 150, 200, 2, 0.8)
    forced = scipy.special.ndtri(scipy.special.erf(np.abs(z) / math.sqrt(2)))
    found = measured(forced)
    assert abs(found.kurtosis.estimate) < 0.1
    assert found.differs


def test_paths_of_different_rates_are_not_one_gaussian_process():
    rng = np.random.default_rng(5)
    parts = [ornstein_uhlenbeck(rng, 150, 150, 2, rho) for rho in (0.9, 0.5)]
    found = measured(np.stack(parts, 2).reshape(150, 300, 2))
    assert abs(found.kurtosis.estimate) < 0.15
    assert not found.gaussian


def test_only_functions_as_slow_as_the_slowest_are_looked_at():
    z = ornstein_uhlenbeck(np.random.default_rng(6), 100, 100, 2, 0.8)
    assert measured(np.stack((z[..., 0], z[..., 1] ** 2 - 1), -1)).functions == 1


def test_many_dimensions_do_not_dilute_the_kurtosis_of_coordinates():
    # turned, each direction would add up 12 times as many products
    rng = np.random.default_rng(8)
    pairs = [ornstein_uhlenbeck(rng, 80, 100, 24, 0.8) for _ in range(10)]
    found = measured(sum(z[..., :12] * z[..., 12:] for z in pairs))
    assert found.functions == 12
    assert found.kurtosis.estimate == pytest.approx(0.6, abs=0.15)
    assert found.differs


def test_one_long_path_is_cut_in_time():
    z = ornstein_uhlenbeck(np.random.default_rng(7), 20_000, 2, 2, 0.8)
    found = measured(z)
    assert found.kurtosis.low < 0 < found.kurtosis.high
    assert found.kurtosis.high - found.kurtosis.low < 0.6


@pytest.mark.parametrize(("steps", "paths"), [(9, 20), (40, 2), (64, 4), (10, 6)])
def test_few_and_short_paths_say_nothing_and_break_nothing(steps, paths):
    found = measured(ornstein_uhlenbeck(np.random.default_rng(9), steps, paths, 2, 0.8))
    assert not found.gaussian
    assert math.isfinite(found.largest)
    assert found.more >= 2
