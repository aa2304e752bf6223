"""The methods' features and density ratios against direct computation."""

import itertools

import numpy as np
import pytest
import scipy.stats

from isojepa.isotropise import weighing
from isojepa.isotropise.weighing import Frame, Sample, exponents, marginals, moments, rates, reweight, turn


def pairs(n, rho, dim=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, dim))
    z_next = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=(n, dim))
    return scale * z, scale * z_next


def sample(z, z_next, rho):
    dim = z.shape[1]
    frame = Frame(np.zeros(dim), np.eye(dim), np.ones(dim), rho)
    return Sample(z, z_next, np.full(len(z), 1 / len(z)), frame)


def weighted(weigher, z, z_next):
    logs = weigher.log_weights(z, z_next)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("degree", [2, 4])
def test_in_few_dimensions_the_monomials_are_all_those_even_in_the_step(dim, degree):
    found = {tuple(row) for row in exponents(dim, degree).tolist()}
    every = itertools.product(range(degree + 1), repeat=2 * dim)
    assert found == {e for e in every if 0 < sum(e) <= degree and sum(e[dim:]) % 2 == 0}


@pytest.mark.parametrize("dim", [5, 12])
def test_in_many_dimensions_their_number_stays_small(dim):
    powers = exponents(dim, 4)
    assert len(powers) < 400
    touched = (powers[:, :dim] + powers[:, dim:] > 0).sum(1)
    assert touched.max() == 2
    assert (touched[powers.sum(1) == 2] == 2).sum() == 2 * dim * (dim - 1) // 2


def test_rates_gives_every_direction_the_same_correlation():
    rng = np.random.default_rng(0)
    rho = np.array([0.9, 0.6])
    z = rng.normal(size=(100_000, 2))
    z_next = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=z.shape)
    weights = weighted(rates(sample(z, z_next, 0.8), 1.0), z, z_next)
    lag = (z * weights[:, None]).T @ z_next
    np.testing.assert_allclose((lag + lag.T) / 2, 0.8 * np.eye(2), atol=0.01)
    np.testing.assert_allclose((z * weights[:, None]).T @ z, np.eye(2), atol=0.02)


def test_moments_bring_the_kurtosis_to_three():
    rng = np.random.default_rng(0)
    z = rng.uniform(-2.4, 2.4, size=(100_000, 1))
    z_next = 0.8 * z + 0.6 * rng.uniform(-2.4, 2.4, size=z.shape)
    weights = weighted(moments(sample(z, z_next, 0.8), 1.0), z, z_next)
    u, v = (part[:, 0] for part in turn(z, z_next, 0.8))
    for y in (u, v):
        np.testing.assert_allclose([weights @ y**k for k in (1, 2, 4)], [0, 1, 3], atol=0.05)
    assert weights @ (u**2 * v**2) == pytest.approx(1, abs=0.03)


def test_marginals_are_normal_in_each_coordinate():
    rng = np.random.default_rng(0)
    z = rng.uniform(-3, 3, size=(100_000, 2))
    z_next = np.clip(z + 0.3 * rng.normal(size=z.shape), -3, 3)
    weights = weighted(marginals(sample(z, z_next, 0.9), 1.0), z, z_next)
    for axis in (0, 1):
        for level in (-1.5, -0.5, 0.0, 1.0):
            share = weights @ ((z[:, axis] < level) / 2 + (z_next[:, axis] < level) / 2)
            assert share == pytest.approx(scipy.stats.norm.cdf(level), abs=0.02)


def test_empty_bins_are_joined():
    ends = np.concatenate((np.full(500, -1.0), np.full(500, 1.0))) + 0.01 * np.random.default_rng(0).normal(
        size=1000
    )
    inner = weighing._edges(ends)
    counts = np.bincount(np.searchsorted(inner, ends), minlength=len(inner) + 1)
    assert counts.min() >= 20
    assert 1 <= len(inner) < 15


def test_the_density_ratio_is_that_of_the_laws():
    z, z_next = pairs(40_000, 0.5, dim=1, scale=1.3)
    weigher = reweight(sample(z, z_next, 0.5), 1.0)
    u, v = (part[:, 0] for part in turn(z, z_next, 0.5))
    truth = scipy.stats.norm.logpdf(u) - scipy.stats.norm.logpdf(u, scale=1.3)
    truth += scipy.stats.norm.logpdf(v) - scipy.stats.norm.logpdf(v, scale=1.3)
    logs = weigher.log_weights(z, z_next)
    inside = np.hypot(u, v) < 2
    off = (logs - truth)[inside]
    assert off.std() < 0.3  # a density of 32 neighbours has a noise of 1 / sqrt(32)
    assert np.corrcoef(logs, truth)[0, 1] > 0.9


@pytest.mark.parametrize("method", ["rates", "moments", "marginals", "reweight"])
def test_weights_do_not_see_the_direction_of_time(method):
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 2, size=(3000, 2))
    z_next = 0.9 * z + 0.3 * rng.exponential(size=z.shape)
    weigher = weighing.WEIGHERS[method](sample(z, z_next, 0.9), 0.7)
    np.testing.assert_allclose(weigher.log_weights(z, z_next), weigher.log_weights(z_next, z), atol=1e-9)


def test_a_density_in_many_dimensions_is_refused():
    z, z_next = pairs(200, 0.5, dim=7)
    with pytest.raises(ValueError, match="at most 6 coordinates, got 7"):
        reweight(sample(z, z_next, 0.5), 1.0)
