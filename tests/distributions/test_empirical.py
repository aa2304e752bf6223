"""The law of a sample against the law it was drawn from."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from isojepa.distributions import Empirical, GeneralizedNormal, Normal, Uniform, bimodal, eigensystem
from isojepa.seeds import generator

LAWS = {
    "normal": Normal(),
    "uniform": Uniform(),
    "gennorm-4": GeneralizedNormal(4.0),
    "bimodal": bimodal(4.0),
}


def drawn(name, n, mean=0.0, deviation=1.0):
    return mean + deviation * LAWS[name].sample((n,), generator(3, "empirical", name)).double().numpy()


@pytest.mark.parametrize("name", LAWS)
def test_the_estimate_is_near_the_law_and_leads_to_its_eigenvalues(name):
    law = Empirical(drawn(name, 20_000, 7.0, 3.0))
    assert law.mean == pytest.approx(7, abs=0.1)
    assert law.deviation == pytest.approx(3, abs=0.1)
    z = np.linspace(-1.4, 1.4, 29)
    assert np.abs(law.log_density(z) - LAWS[name].log_density(z)).max() < 0.2
    truth, found = eigensystem(LAWS[name], count=1), eigensystem(law, count=1, tolerance=1e-5)
    assert found.eigenvalues[1] == pytest.approx(truth.eigenvalues[1], rel=0.04)
    assert found.coefficients()[1] ** 2 == pytest.approx(truth.coefficients()[1] ** 2, abs=4e-3)


@pytest.mark.parametrize("name", LAWS)
def test_density_and_samples_have_mean_0_and_variance_1_and_agree(name):
    law = Empirical(drawn(name, 3000, -2.0, 0.01))
    edges = np.linspace(-6, 6, 13)
    mass, first, second = (
        sum(
            integrate.quad(lambda z, power=power: z**power * np.exp(law.log_density(z)), a, b)[0]
            for a, b in itertools.pairwise(edges)
        )
        for power in (0, 1, 2)
    )
    assert mass == pytest.approx(1, abs=1e-4)
    assert first == pytest.approx(0, abs=1e-4)
    assert second == pytest.approx(1, abs=1e-3)
    grid = np.linspace(-8, 8, 8001)
    below = integrate.cumulative_trapezoid(np.exp(law.log_density(grid)), grid, initial=0)
    sample = law.sample((20_000,), generator(1, "agree"))
    assert sample.dtype == torch.float32
    assert stats.kstest(sample.double().numpy(), lambda z: np.interp(z, grid, below)).pvalue > 1e-3


def test_a_known_support_is_kept():
    values = drawn("uniform", 5000)
    law = Empirical(values, support=Uniform().support)
    low, high = law.support
    assert low == pytest.approx(-math.sqrt(3), abs=0.03)
    assert (law.log_density([low - 0.01, high + 0.01]) == -np.inf).all()
    sample = law.sample((5000,), generator(2, "support"))
    assert low - 1e-6 <= sample.min() <= sample.max() <= high + 1e-6
    assert eigensystem(law, count=1, tolerance=1e-5).coefficients()[1] ** 2 == pytest.approx(0.9855, abs=3e-3)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.zeros(100), {}, "must not all be equal, got 100 times 0"),
        (np.full(100, 1e9), {}, "must not all be equal"),
        (np.arange(5.0), {}, "must be at least 16 for a density estimate, got 5"),
        (np.arange(100.0).reshape(50, 2), {}, r"one-dimensional, one latent at a time, got shape \(50, 2\)"),
        (np.append(np.arange(50.0), [np.nan, np.inf]), {}, "must be finite, got 2 NaN or Inf"),
        (np.tile([0.0, 1.0], 50), {}, "must take at least 16 levels to have a density, got 2"),
        (np.arange(50.0), {"support": (0.0, 40.0)}, r"support must contain the values.*got \(0, 40\)"),
        (np.arange(50.0), {"smoothing": 0.0}, "smoothing must be positive and finite, got 0"),
    ],
    ids=["constant", "large-constant", "few", "matrix", "nan", "levels", "support", "smoothing"],
)
def test_what_has_no_density_is_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        Empirical(values, **options)


def test_extreme_scales_and_outliers_give_a_finite_law():
    for values in (
        drawn("normal", 200, 0.0, 1e-200),
        drawn("normal", 200, 1e12, 1.0),
        drawn("normal", 200, 0.0, 1e150),
        np.append(drawn("normal", 200), 1e6),
        stats.cauchy.rvs(size=300, random_state=0),
    ):
        law = Empirical(values)
        assert np.isfinite(law.log_density(np.linspace(-3, 3, 7))).all()
        assert torch.isfinite(law.sample((100,), generator(0, "extreme"))).all()
