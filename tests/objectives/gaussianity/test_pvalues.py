"""P-values: the level under the null, the power against others, and laws that are known exactly."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import brentq

from isojepa.objectives.gaussianity import (
    BHEP,
    CFMGF,
    MULTIVARIATE,
    UNIVARIATE,
    AndersonDarling,
    CramerVonMises,
    EppsPulley,
    EppsPulleyExact,
    Likelihood,
    MardiaKurtosis,
    MardiaSkewness,
    Statistic,
    Watson,
)
from isojepa.objectives.gaussianity import statistic as null
from isojepa.objectives.gaussianity.statistic import LimitDistribution, NullDistribution
from isojepa.seeds import generator
from tests.reference import gaussianity as reference
from tests.reference.global_state import untouched

pytestmark = pytest.mark.filterwarnings("ignore::isojepa.objectives.gaussianity.AxisWarning")

ALL = {**UNIVARIATE, **MULTIVARIATE}
BLIND_TO_SHAPE = ["mean-variance", "likelihood"]
BLIND_TO_SCALE = ["jarque-bera", "shapiro-francia", "rahman-govindarajulu"]

every_test = pytest.mark.parametrize("name", ALL)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator(0, "p", *shape))


def within(share: float, level: float, tests: int, draws: float = math.inf) -> bool:
    """Whether a share of rejections is that of the level, to 4.5 standard deviations.

    The critical value comes from `draws` simulated samples, so it has an error of its own.
    """
    return abs(share - level) < 4.5 * math.sqrt(level * (1 - level) * (1 / tests + 1 / draws)) + 1 / draws


# --- level -------------------------------------------------------------------------------------------------

LEVEL_CASES = {
    **ALL,
    "epps-pulley, unbiased": lambda: EppsPulley(unbiased=True),
    "bhep, standardized": lambda: BHEP(standardize=True),
    "mardia-skewness, plain": lambda: MardiaSkewness(standardize=False),
    "cf-mgf, estimated": lambda: CFMGF(points=32),
}


@pytest.mark.parametrize("name", LEVEL_CASES)
def test_simulated_pvalues_keep_the_level(name):
    count, draws = 2000, 4999
    test = LEVEL_CASES[name]()
    n = 6 if name == "cf-mgf" else 20  # its closed form takes n^4
    x = normal(n, count) if test.per_slice else normal(count, n, 2)
    p = test.pvalue(x, draws=draws).numpy()
    assert p.shape == (count,)
    for level in (0.5, 0.05, 0.01):
        assert within(np.mean(p <= level), level, count, draws), (level, np.mean(p <= level))
    # Kolmogorov's distance from the uniform law, at a level of 1e-5
    distance = stats.kstest(p, "uniform").statistic
    assert distance < math.sqrt(math.log(2e5) / 2) * math.sqrt(1 / count + 1 / draws)


def limits() -> list:
    cases = []
    for name, build in UNIVARIATE.items():
        start = EppsPulley.limit_from if name == "epps-pulley-exact" else build().limit_from
        if start < 1 << 20:
            cases.append(pytest.param(build(), start, id=name))
    cases.append(pytest.param(EppsPulley(unbiased=True), 512, id="epps-pulley, unbiased"))
    cases.append(pytest.param(EppsPulley(9, 3.0, 0.7), 512, id="epps-pulley, 9 knots"))
    hermite = EppsPulley(12, quadrature="gauss-hermite")
    cases.append(pytest.param(hermite, 512, id="epps-pulley, gauss-hermite"))
    return cases


@pytest.mark.parametrize(("test", "n"), limits())
def test_limit_laws_keep_the_level_from_the_first_n_they_are_used_for(test, n):
    law = test.null(n)
    assert isinstance(law, LimitDistribution)
    count = 400 if isinstance(test, EppsPulleyExact) else 6000 if n < 10_000 else 800
    width = 50 if isinstance(test, EppsPulleyExact) else 200
    source = generator(1, "limit", n)
    values = [test.statistic(torch.randn(n, width, generator=source)) for _ in range(count // width)]
    values = torch.cat(values).double()
    scale = sum(law.weights)
    error = 4.5 * values.std().item() / math.sqrt(count)
    assert values.mean().item() == pytest.approx(law.offset + scale, abs=error)
    for level in (0.5, 0.05, 0.01):
        critical = law.offset + scale * brentq(
            lambda q, level=level: law.tail(law.offset + scale * q) - level, 0.05, 15, xtol=1e-4
        )
        assert within((values >= critical).double().mean().item(), level, count), level
    assert test.pvalue(normal(n, 1)).item() == pytest.approx(law.tail(test(normal(n, 1)).item()), rel=1e-5)


@pytest.mark.parametrize(
    ("test", "n", "dim"),
    [
        (MardiaSkewness(), 400, 1),
        (MardiaSkewness(), 400, 3),
        (MardiaKurtosis(), 4000, 1),
        (MardiaKurtosis(), 4000, 3),
    ],
    ids=str,
)
def test_mardias_limit_laws_keep_the_level(test, n, dim):
    # of fewer samples than they are used for, so with 0.01 of slack
    law, count = test.limit(n, dim), 600
    source = generator(2, "mardia", n, dim)
    values = torch.cat([test(torch.randn(30, n, dim, generator=source)) for _ in range(count // 30)])
    freedom = dim * (dim + 1) * (dim + 2) // 6 if isinstance(test, MardiaSkewness) else 1
    critical = stats.chi2.isf(0.05, freedom)
    assert law.tail(critical) == pytest.approx(0.05, abs=1e-5)
    share = (values >= critical).double().mean().item()
    assert abs(share - 0.05) < 0.01 + 4.5 * math.sqrt(0.05 * 0.95 / count)


@pytest.mark.parametrize("n", [600, 5000])
def test_pvalues_equal_those_of_scipy_and_of_smirnovs_integral(n):
    for scale in (1.0, 0.93, 1.1):
        x = (scale * normal(n)).double()
        cramer = stats.cramervonmises(x.numpy(), "norm").pvalue
        assert CramerVonMises().pvalue(x).item() == pytest.approx(cramer, rel=0.03)
        anderson = reference.anderson_darling_tail(AndersonDarling()(x).item())
        assert AndersonDarling().pvalue(x).item() == pytest.approx(anderson, rel=0.03)


def test_likelihood_has_its_exact_pvalue():
    x = 1.1 * normal(40, 6)
    squares = (x.double() ** 2).sum(0).numpy()
    truth = 2 * np.minimum(stats.chi2.sf(squares, 40), stats.chi2.cdf(squares, 40))
    np.testing.assert_allclose(Likelihood().pvalue(x).numpy(), truth, rtol=1e-4)
    simulated = Likelihood().pvalue(x, draws=4999).numpy()
    assert all(within(q, p, 4999) for p, q in zip(truth / 2, simulated / 2, strict=True))


# --- limit laws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 10, 100])
@pytest.mark.parametrize("weight", [1.0, 1e-4, 300.0])
def test_the_tail_of_equal_weights_is_that_of_chi_squared(freedom, weight):
    law = LimitDistribution((weight,) * freedom, offset=0.3 * weight)
    for p in (0.999, 0.9, 0.5, 0.1, 0.05, 0.01, 1e-3, 2e-4):
        q = stats.chi2.isf(p, freedom)
        assert law.tail(weight * (q + 0.3)) == pytest.approx(p, rel=1e-3, abs=1e-6), p
    for p in (1e-4, 5e-5, 1e-6, 1e-8, 1e-12):
        q = stats.chi2.isf(p, freedom)
        assert law.tail(weight * (q + 0.3)) == pytest.approx(p, rel=0.05), p
    assert law.tail(0.3 * weight) == 1.0
    assert law.tail(-5.0 * weight) == 1.0


@pytest.mark.parametrize("weights", [[1.0, 0.5], [1.0, 0.4, 0.1], [3.0, 2.0, 1.0, 0.01]], ids=str)
def test_the_tail_of_weights_in_pairs_is_that_of_exponential_variables(weights):
    law = LimitDistribution([w for w in weights for _ in range(2)])
    for p in (0.99, 0.5, 0.05, 0.01, 1e-3):
        q = brentq(lambda q, p=p: reference.pairs_tail(weights, q) - p, 1e-6, 200)
        assert law.tail(q) == pytest.approx(p, rel=1e-3), p
    for q in (40.0, 80.0, 150.0):
        truth = reference.pairs_tail(weights, q * weights[0])
        assert law.tail(q * weights[0]) == pytest.approx(truth, rel=0.05), q


@pytest.mark.parametrize(
    ("test", "truth", "near", "far"),
    [
        (CramerVonMises(), reference.cramer_von_mises_tail, (0.06, 0.1, 0.3, 0.7, 1.2), (2.0, 3.5, 5.0)),
        (AndersonDarling(), reference.anderson_darling_tail, (0.4, 0.7, 1.5, 3.0, 6.0), (9.0, 18.0, 26.0)),
        (Watson(), reference.watson_tail, (0.04, 0.05, 0.1, 0.2, 0.4), (0.6, 0.95, 1.3)),
    ],
    ids=["cramer-von-mises", "anderson-darling", "watson"],
)
def test_tails_equal_smirnovs_integral_and_watsons_series(test, truth, near, far):
    law = test.limit(1000, 1)
    for value in near:
        assert law.tail(value) == pytest.approx(truth(value), rel=1e-3), value
    for value in far:  # 1e-5, 1e-8 and 1e-11
        assert truth(value) < 5e-5
        assert law.tail(value) == pytest.approx(truth(value), rel=0.05), value


@pytest.mark.parametrize(
    "name", ["one", "two", "epps-pulley", "cramer-von-mises", "mean-variance", "jarque-bera"]
)
def test_the_tail_falls_to_zero_and_stays_there(name):
    # an oscillating integrand on a grid too coarse for it looks like anything
    law = {"one": LimitDistribution((1.0,)), "two": LimitDistribution((1.0, 0.2))}.get(name) or UNIVARIATE[
        name
    ]().limit(5000, 1)
    scale = sum(law.weights)
    values = law.offset + scale * np.concatenate((np.geomspace(0.05, 30, 12), np.geomspace(40, 1e15, 28)))
    tails = np.array([law.tail(float(value)) for value in values])
    assert (np.diff(tails) <= 1e-3 * tails[:-1] + 1e-6).all()
    assert (tails[12:] < 1e-6).all()
    assert law.tail(math.inf) == 0.0


# --- power -------------------------------------------------------------------------------------------------


def signs(shape: tuple, source: torch.Generator) -> torch.Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=source) - 1


def crossing(shape: tuple, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Two crossing lines: both marginals are N(0, 1), and the covariance is I."""
    z = torch.randn(shape, generator=source)
    return z, signs(shape, source) * z


def others(shape: tuple, freedom: int = 3) -> dict[str, torch.Tensor]:
    """Laws of mean 0 and variance 1 that are not normal."""
    source = generator(3, "power", *shape)
    x, y = crossing(shape, source)
    chi = (torch.randn((freedom, *shape), generator=source) ** 2).mean(0).sqrt()
    student = torch.randn(shape, generator=source) / chi / math.sqrt(freedom / (freedom - 2))
    first, second = (torch.empty(shape).exponential_(generator=source) for _ in range(2))
    mixture = 0.9 * signs(shape, source) + math.sqrt(1 - 0.81) * torch.randn(shape, generator=source)
    return {
        "cross": (x + y) / math.sqrt(2),  # along the diagonal: half of the mass at 0
        "student": student,
        "laplace": (first - second) / math.sqrt(2),
        "mixture": mixture,
    }


def power(test, x: torch.Tensor, draws: int) -> float:
    return (test.pvalue(x, draws=draws) <= 0.05).double().mean().item()


UNIVARIATE_POWER = {  # smallest rates for 300 samples, where they are not 0.7
    # fourth powers: a statistic with a heavy tail of its own, that light tails make small
    "moments": {"mixture": 0.1, "laplace": 0.6},
}


@pytest.mark.parametrize("name", sorted(set(UNIVARIATE) - set(BLIND_TO_SHAPE)))
@pytest.mark.parametrize("other", ["cross", "student", "laplace", "mixture"])
def test_univariate_tests_reject_other_shapes(name, other):
    rate = power(UNIVARIATE[name](), others((300, 100))[other], draws=499)
    assert rate >= UNIVARIATE_POWER.get(name, {}).get(other, 0.7)


@pytest.mark.parametrize("name", UNIVARIATE)
@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (0.0, 1.5), (0.0, 0.6)])
def test_univariate_tests_reject_another_mean_or_variance(name, shift, scale):
    count = 200
    rate = power(UNIVARIATE[name](), shift + scale * normal(300, count), draws=999)
    if name in BLIND_TO_SCALE:
        assert within(rate, 0.05, count, 999)
    else:
        assert rate >= (0.6 if name == "likelihood" else 0.95)


MULTIVARIATE_POWER = {  # smallest rates for 200 samples in the plane, standardized, where they are not 0.7
    # generating functions grow with the tails: light ones make these statistics small
    "moment-generating": {"mixture": 0.0},
    "henze-visagie": {"mixture": 0.0},
    # all four laws are symmetric
    "mardia-skewness": {"cross": 0.2, "student": 0.4, "laplace": 0.4, "mixture": 0.0},
}


def planar(other: str) -> torch.Tensor:
    if other == "cross":
        return torch.stack(crossing((40, 200), generator(4, "cross")), -1)
    return others((40, 200, 2), freedom=5)[other]


@pytest.mark.parametrize("name", MULTIVARIATE)
@pytest.mark.parametrize("other", ["cross", "student", "laplace", "mixture"])
def test_multivariate_tests_reject_other_shapes(name, other):
    options = {"points": 64} if name == "cf-mgf" else {}
    test = MULTIVARIATE[name](standardize=True, **options)
    rate = power(test, planar(other), draws=199)
    assert rate >= MULTIVARIATE_POWER.get(name, {}).get(other, 0.7)


@pytest.mark.parametrize("name", ["mean-variance", "cramer-von-mises", "anderson-darling", "epps-pulley"])
@pytest.mark.parametrize("shift", [0.4, 3.0, 1e3, 1e6])
def test_the_limit_pvalue_of_samples_far_off_is_tiny(name, shift):
    assert (UNIVARIATE[name]().pvalue(normal(8000, 2) + shift) < 1e-12).all()


# --- simulation --------------------------------------------------------------------------------------------


def test_a_simulated_pvalue_is_the_share_of_draws_at_least_as_far_out():
    law = NullDistribution(np.array([1.0, 2.0, 2.0, 4.0]))
    seen = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0, 4.5])
    assert law.pvalue(seen).tolist() == [1.0, 1.0, 4 / 5, 2 / 5, 2 / 5, 1 / 5]
    assert law.pvalue(seen, two_sided=True).tolist() == [2 / 5, 4 / 5, 1.0, 4 / 5, 4 / 5, 2 / 5]
    assert law.pvalue(torch.tensor(3.0)).shape == ()


@every_test
def test_simulation_is_reproducible_and_leaves_global_generators_alone(name, monkeypatch):
    laws = []
    for seed in (0, 0, 1):
        monkeypatch.setattr(null, "_cache", {})
        with untouched():
            laws.append(ALL[name]().null(7, 1, draws=40, seed=seed).values)
    assert np.array_equal(laws[0], laws[1])
    assert not np.array_equal(laws[0], laws[2])
    assert (np.diff(laws[0]) >= 0).all()


def test_two_settings_of_a_test_of_ones_own_do_not_share_a_law():
    class Power(Statistic):
        def __init__(self, power):
            super().__init__()
            self.power = power

        def _of(self, x, n):
            return (x.abs() ** self.power).mean(-2)

    x = torch.randn(40, generator=generator(0, "own"))
    apart = [Power(power).pvalue(x, draws=99).item() for power in (1.0, 4.0)]
    null._cache.clear()
    assert Power(4.0).pvalue(x, draws=99).item() == apart[1]
