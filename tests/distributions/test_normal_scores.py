"""The map from a normal variable to any law, against quantiles known in closed form."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from isojepa.distributions import (
    GeneralizedNormal,
    Mixture,
    Normal,
    NormalScores,
    StudentT,
    Uniform,
    bimodal,
)


def generalized(alpha):
    """Quantiles of the generalised normal law: |x|^alpha is of law Gamma(1 / alpha)."""
    deviation = math.exp((math.lgamma(3 / alpha) - math.lgamma(1 / alpha)) / 2)

    def quantile(y):
        size = special.gammainccinv(1 / alpha, 2 * special.ndtr(-np.abs(y))) ** (1 / alpha)
        return np.sign(y) * size / deviation

    return quantile


def student(df):
    law = stats.t(df, scale=math.sqrt((df - 2) / df))
    return lambda y: -np.sign(y) * law.ppf(special.ndtr(-np.abs(y)))


KNOWN = {
    "normal": (Normal(), lambda y: y),
    "uniform": (Uniform(), lambda y: math.sqrt(3) * special.erf(y / math.sqrt(2))),
    "student-5": (StudentT(5.0), student(5.0)),
    "student-2.5": (StudentT(2.5), student(2.5)),
    **{
        f"alpha-{alpha:g}": (GeneralizedNormal(alpha), generalized(alpha))
        for alpha in 2.0 ** np.arange(-3, 6)
    },
}
_MADE: dict[str, NormalScores] = {}


def made(name):
    if name not in _MADE:
        _MADE[name] = NormalScores(KNOWN[name][0])
    return _MADE[name]


def places():
    near = np.random.default_rng(0).normal(size=3000)
    return np.concatenate((near, near / 100, np.linspace(-12, 12, 1201)))


@pytest.mark.parametrize("name", KNOWN)
def test_quantiles_are_those_in_closed_form_in_both_tails(name):
    y = places()
    truth = KNOWN[name][1](y)
    quartiles = 2 * KNOWN[name][1](np.array([0.6744897501960817]))[0]
    for table in (made(name).to_z, made(name)._forward):
        error = np.abs(table(torch.from_numpy(y)).numpy() - truth)
        assert (error <= 2e-7 * np.maximum(np.abs(truth), quartiles)).all()


@pytest.mark.parametrize("name", KNOWN)
def test_the_inverse_leads_back_where_z_still_tells_y(name):
    y = np.linspace(-6, 6, 2001)
    back = made(name).to_y(torch.from_numpy(KNOWN[name][1](y))).numpy()
    np.testing.assert_allclose(back, y, atol=2e-5)


@pytest.mark.parametrize("separation", [4.0, 10.0, 16.0])
def test_a_mixture_keeps_its_distribution_function_across_the_gap(separation):
    law = bimodal(separation)
    scores = NormalScores(law)
    z = np.concatenate((np.linspace(-3, 3, 301), [-0.01, 0.0, 0.01]))
    (_, mean), (deviation, _) = law.means, law.deviations
    truth = special.ndtri((special.ndtr((z - mean) / deviation) + special.ndtr((z + mean) / deviation)) / 2)
    seen = (np.abs(truth) < 6) & (np.abs(z) < 3)
    np.testing.assert_allclose(scores.to_y(torch.from_numpy(z)).numpy()[seen], truth[seen], atol=2e-5)
    draws = scores.to_z(torch.from_numpy(np.random.default_rng(1).normal(size=20_000))).numpy()
    ours = lambda x: (special.ndtr((x - mean) / deviation) + special.ndtr((x + mean) / deviation)) / 2  # noqa: E731
    assert stats.kstest(draws, ours).pvalue > 1e-3


class Shaped:
    def __init__(self, log_density, support=(-math.inf, math.inf)):
        self.log_density, self.support = log_density, support


def test_a_density_need_not_be_normalized_nor_symmetric_nor_without_a_gap():
    shifted = Shaped(lambda z: 700 - np.asarray(z) ** 2 / 2)
    y = np.linspace(-8, 8, 101)
    np.testing.assert_allclose(NormalScores(shifted).to_z(torch.from_numpy(y)).numpy(), y, atol=1e-10)
    exponential = Shaped(lambda z: -np.asarray(z, np.float64), (0.0, math.inf))
    truth = -special.log_ndtr(-y)  # the quantile of the exponential law
    found = NormalScores(exponential).to_z(torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(found, truth, rtol=2e-7, atol=3e-7)
    halves = Shaped(lambda z: np.where(np.abs(z) > 1, 0.0, -np.inf), (-2.0, 2.0))
    y = np.array([-2.0, -1e-6, -1e-9, 1e-9, 1e-6, 2.0])
    truth = 2 * (2 * special.ndtr(y) - 1)
    truth = np.where(y > 0, 1 + truth / 2, -1 + truth / 2)
    np.testing.assert_allclose(NormalScores(halves).to_z(torch.from_numpy(y)).numpy(), truth, atol=3e-7)


@pytest.mark.parametrize("r", [0.001, 0.3, 0.95, 0.9999])
def test_correlation_of_uniform_latents_has_its_closed_form(r):
    assert made("uniform").correlation(r) == pytest.approx(6 / math.pi * math.asin(r / 2), abs=1e-9)
    assert made("normal").correlation(r) == pytest.approx(r, abs=1e-12)


@pytest.mark.parametrize("name", ["alpha-4", "alpha-1", "student-5"])
def test_correlation_agrees_with_the_series_of_its_coefficients(name):
    a = made(name).coefficients(120)
    for r in (0.3, 0.8):
        assert a**2 @ r ** np.arange(121) == pytest.approx(made(name).correlation(r), abs=1e-9)
    truth, _ = integrate.quad(
        lambda y: KNOWN[name][1](np.array(y)) * y * stats.norm.pdf(y), -12, 12, limit=400, points=[0.0]
    )
    assert a[1] == pytest.approx(truth, abs=1e-7)
    assert a[0] == 0
    assert (np.abs(a[2::2]) < 1e-12).all()  # symmetric laws have odd maps


def test_correlation_with_normal_scores_in_closed_form():
    assert made("uniform").coefficients(1)[1] ** 2 == pytest.approx(3 / math.pi, abs=1e-9)
    two = NormalScores(Mixture((1, 1), (-1, 1), (1e-3, 1e-3)))  # nearly a coin: E|y|^2 = 2 / pi
    assert two.coefficients(1)[1] ** 2 == pytest.approx(2 / math.pi, abs=1e-3)
    assert two.correlation(0.5) == pytest.approx(2 / math.pi * math.asin(0.5), abs=1e-3)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Shaped(lambda z: 0 * z), "must fall to 0 towards"),
        (Shaped(lambda z: z + math.nan, (0.0, 1.0)), "log_density must be a number or -inf"),
        (Shaped(lambda z: z * 0 - math.inf, (0.0, 1.0)), "density must be positive somewhere"),
        (3, "law must have log_density and support, got int"),
        (Uniform, "law must be an object, got the class Uniform"),
    ],
    ids=["flat", "nan", "empty", "number", "class"],
)
def test_what_has_no_distribution_function_is_refused(law, message):
    with pytest.raises(ValueError, match=message):
        NormalScores(law)
