"""The correlation curve against quadrature, closed forms and repetition."""

import math

import numpy as np
import pytest

from isojepa.certificates.correlation_curve import curve_energy
from isojepa.certificates.hermite import quadrature_energy, regression_energy
from isojepa.certificates.mixture import percentile_interval


def warp(z):
    return np.c_[z[:, 0] + 0.4 * z[:, 0] ** 2, np.tanh(2 * z[:, 1]) + 0.2 * z[:, 0] * z[:, 1]]


def test_the_curve_is_the_power_series_of_the_energies():
    found = curve_energy(np.sin, 1, 5, 50_000, 0)
    k = np.arange(1, 20, 2)
    series = [
        (np.exp(-1) / np.array([math.factorial(i) for i in k]) * r**k).sum() for r in found.correlations
    ]
    np.testing.assert_allclose(found.curve, np.array(series) / ((1 - np.exp(-2)) / 2), atol=0.02)


def test_shares_agree_with_quadrature_within_their_intervals():
    exact = quadrature_energy(warp, 2, 4)
    truth = exact.energy[:, 1:].sum(0) / exact.variance.sum()
    found = curve_energy(warp, 2, 4, 40_000, 1)
    for d in (0, 1):
        interval = percentile_interval(found.pooled[d], found.draws[:, d], 0.999)
        assert interval.low - 0.002 < truth[d] < interval.high + 0.002
        assert interval.high - interval.low < 0.05
    own = exact.energy[:, 1] / exact.variance
    np.testing.assert_allclose(found.shares[:, 0], own, atol=0.03)


def test_a_linear_map_of_many_dimensions_is_linear_to_rounding():
    matrix = np.random.default_rng(0).standard_normal((40, 8))
    found = curve_energy(lambda z: z @ matrix + 3, 40, 6, 2000, 0)
    assert found.pooled[0] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(found.shares[:, 0], 1, atol=0.05)


def test_odd_and_even_degrees_are_told_apart_in_many_dimensions():
    def even(z):
        return z[:, :10] * z[:, 10:20]

    found = curve_energy(even, 20, 4, 5000, 0)
    assert found.pooled[1] > 0.97
    assert found.pooled[0] < 0.01


def test_it_agrees_with_regression_in_ten_dimensions():
    rng = np.random.default_rng(0)
    first, last = rng.standard_normal((10, 30)) / 3, rng.standard_normal((30, 5))

    def network(z):
        return np.tanh(z @ first) @ last

    z = rng.standard_normal((20_000, 10))
    energy = regression_energy(network(z), z, 2).energy.sum(0)
    found = curve_energy(network, 10, 4, 20_000, 0)
    interval = percentile_interval(found.pooled[0], found.draws[:, 0], 0.999)
    assert interval.low - 0.005 < energy[1] / energy[1:].sum() < interval.high + 0.005


def test_intervals_cover_about_as_often_as_they_say():
    exact = quadrature_energy(np.tanh, 1, 3)
    truth = exact.energy[0, 1] / exact.variance[0]
    held = 0
    for seed in range(40):
        found = curve_energy(np.tanh, 1, 3, 2000, seed)
        interval = percentile_interval(found.pooled[0], found.draws[:, 0], 0.95)
        held += interval.low <= truth <= interval.high
    assert held >= 33  # of 40, 38 expected


def test_constants_and_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="must vary, got a constant"):
        curve_energy(lambda z: np.ones((len(z), 1)), 4, 2, 1000, 0)
    with pytest.raises(ValueError, match="samples must be at least 1000"):
        curve_energy(lambda z: z, 4, 2, 10, 0)
    found = curve_energy(lambda z: np.c_[z[:, 0], np.full(len(z), 5.0)], 4, 2, 1000, 0)
    assert found.shares[1].tolist() == [0, 0]
