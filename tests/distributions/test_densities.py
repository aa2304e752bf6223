"""Laws against scipy's distributions, scaled to variance 1."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isojepa.distributions import GeneralizedNormal, Mixture, Normal, StudentT, Uniform, bimodal
from isojepa.registry import Context, find
from isojepa.seeds import generator
from tests.reference.global_state import untouched

N = 20_000


def unit(distribution):
    """The scipy distribution rescaled to variance 1."""
    return distribution(scale=1 / distribution().std())


class NormalMixture(stats.rv_continuous):
    """A mixture of two normals by scipy, of mean 0 and variance 1."""

    def _cdf(self, x):
        return 0.25 * stats.norm.cdf(x, -1.5, 0.5) + 0.75 * stats.norm.cdf(x, 0.5, 0.5)

    def _pdf(self, x):
        return 0.25 * stats.norm.pdf(x, -1.5, 0.5) + 0.75 * stats.norm.pdf(x, 0.5, 0.5)

    def _stats(self):
        return 0.0, 1.0, None, None


TRUTH = {
    "normal": (Normal(), stats.norm()),
    "gennorm-0.7": (GeneralizedNormal(0.7), unit(lambda **k: stats.gennorm(0.7, **k))),
    "laplace": (GeneralizedNormal(1.0), stats.laplace(scale=1 / math.sqrt(2))),
    "gennorm-2": (GeneralizedNormal(2.0), stats.norm()),
    "gennorm-8": (GeneralizedNormal(8.0), unit(lambda **k: stats.gennorm(8, **k))),
    "gennorm-100": (GeneralizedNormal(100.0), unit(lambda **k: stats.gennorm(100, **k))),
    "t-2.5": (StudentT(2.5), stats.t(2.5, scale=math.sqrt(0.5 / 2.5))),
    "t-5": (StudentT(5.0), stats.t(5, scale=math.sqrt(3 / 5))),
    "t-200": (StudentT(200.0), stats.t(200, scale=math.sqrt(198 / 200))),
    "uniform": (Uniform(), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))),
    "mixture": (Mixture((1, 3), (-5, 3), (2, 2)), NormalMixture()),
    "named-laplace": (find("law", "laplace")().build(Context()), stats.laplace(scale=1 / math.sqrt(2))),
}


@pytest.mark.parametrize("name", TRUTH)
def test_law_agrees_with_scipy(name):
    law, truth = TRUTH[name]
    assert truth.mean() == pytest.approx(0, abs=1e-12)
    assert truth.var() == pytest.approx(1)
    sample = law.sample((N,), generator(11, name)).double().numpy()
    assert stats.kstest(sample, truth.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", TRUTH)
def test_a_law_draws_from_its_generator_alone(name):
    law, _ = TRUTH[name]
    with untouched():
        first = law.sample((7, 3), generator(15, "x"))
    assert first.dtype == torch.float32
    assert torch.equal(first, law.sample((7, 3), generator(15, "x")))
    assert (first != law.sample((7, 3), generator(16, "x"))).any()


@pytest.mark.parametrize("alpha", [0, -1, 0.01, math.inf, math.nan])
def test_alpha_that_gives_no_law_is_refused(alpha):
    with pytest.raises(ValueError, match=rf"alpha must lie in \[0.05, inf\), got {alpha}"):
        GeneralizedNormal(alpha)


@pytest.mark.parametrize("df", [2, 1.5, 0, -1, math.nan, math.inf])
def test_df_that_gives_no_variance_is_refused(df):
    with pytest.raises(ValueError, match=f"df must .*got {df}"):
        StudentT(df)


@pytest.mark.parametrize("name", TRUTH)
def test_log_density_agrees_with_scipy(name):
    law, truth = TRUTH[name]
    low, high = law.support
    z = np.linspace(max(low, -6) + 1e-9, min(high, 6) - 1e-9, 101)
    expected = truth.logpdf(z)
    seen = np.isfinite(expected)  # scipy's underflow is not ours
    np.testing.assert_allclose(law.log_density(z)[seen], expected[seen], rtol=1e-9, atol=1e-9)
    assert law.log_density(z).dtype == np.float64
    np.testing.assert_array_equal(law.log_density(torch.from_numpy(z)), law.log_density(z))
    assert law.log_density(0.3).shape == ()


def test_a_mixture_is_standardized():
    law = Mixture((1, 3), (-5, 3), (2, 2))
    assert law.weights == (0.25, 0.75)
    np.testing.assert_allclose(law.means, (-1.5, 0.5))
    np.testing.assert_allclose(law.deviations, (0.5, 0.5))
    again = Mixture(law.weights, law.means, law.deviations)
    np.testing.assert_allclose(again.means, law.means, atol=1e-15)
    assert Mixture((1, 0), (2, 9), (3, 1)).means == (0.0,)  # a component of no weight is none
    assert Mixture((1.0,), (2.0,), (3.0,)).deviations == (1.0,)
    assert bimodal(0.0).log_density(0.4) == pytest.approx(Normal().log_density(0.4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 1), (0,), (1, 1)), "equally many"),
        (((1, -1), (0, 1), (1, 1)), "weights must not be negative"),
        (((1, 1), (0, 1), (1, 0)), "deviations must be positive"),
        (((1, 1), (0, math.nan), (1, 1)), "means must be finite"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Mixture(*arguments)


def test_a_negative_separation_is_refused():
    with pytest.raises(ValueError, match="separation must not be negative, and finite, got -1"):
        bimodal(-1)
