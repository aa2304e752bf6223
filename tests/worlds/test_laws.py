"""Laws against scipy's distributions, scaled to variance 1."""

import math

import pytest
import torch
from scipy import stats

from isojepa.seeds import generator
from isojepa.worlds import LAWS, GeneralizedNormal, Normal, StudentT, Uniform
from tests.reference.global_state import untouched

N = 20_000


def unit(distribution):
    """The scipy distribution rescaled to variance 1."""
    return distribution(scale=1 / distribution().std())


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
    "named-laplace": (LAWS["laplace"](), stats.laplace(scale=1 / math.sqrt(2))),
}


@pytest.mark.parametrize("name", TRUTH)
def test_law_agrees_with_scipy(name):
    law, truth = TRUTH[name]
    assert truth.mean() == pytest.approx(0, abs=1e-12)
    assert truth.var() == pytest.approx(1)
    sample = law.sample((N,), generator(11, name)).double().numpy()
    assert stats.kstest(sample, truth.cdf).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [300.0, 1e3, 1e6])
def test_generalized_normal_tends_to_the_uniform_law(alpha):
    sample = GeneralizedNormal(alpha).sample((N,), generator(12, "flat")).double().numpy()
    # the two distribution functions differ by less than 1/alpha, far below what N samples can tell
    assert stats.kstest(sample, stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["normal", "laplace", "gennorm-2", "gennorm-8", "t-5", "t-200", "uniform"])
def test_law_has_mean_0_and_variance_1(name):
    law, _ = TRUTH[name]
    sample = law.sample((400, 500), generator(13, name)).double().flatten()
    square = sample**2
    assert abs(sample.mean().item()) < 6 / math.sqrt(len(sample))
    assert abs(square.mean().item() - 1) < 6 * square.std().item() / math.sqrt(len(sample))


@pytest.mark.parametrize("name", TRUTH)
def test_coordinates_of_a_law_are_independent(name):
    # ranks have a bounded law whatever the tails, so 6 standard errors mean the same for every law
    law, truth = TRUTH[name]
    ranks = torch.from_numpy(truth.cdf(law.sample((N, 2), generator(14, name)).double().numpy())) - 0.5
    assert abs((ranks[:, 0] * ranks[:, 1]).mean().item()) < 6 / 12 / math.sqrt(N)
    assert abs((ranks[1:, 0] * ranks[:-1, 0]).mean().item()) < 6 / 12 / math.sqrt(N)


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
