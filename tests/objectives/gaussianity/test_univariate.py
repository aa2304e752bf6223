"""Univariate tests of Gaussianity against scipy, their definitions and exact expectations."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from isojepa.objectives.gaussianity import (
    UNIVARIATE,
    AxisWarning,
    CramerVonMises,
    Entropy,
    EppsPulley,
    EppsPulleyExact,
    ExtendedJarqueBera,
    JarqueBera,
    Likelihood,
    Moments,
    ShapiroWilk,
    statistic,
)
from isojepa.seeds import generator
from tests.reference import gaussianity as reference

SIZES = [5, 12, 33]
# forget mean and variance: a collapsed slice has no value, a shifted or scaled one the same value
INVARIANT = ["jarque-bera", "shapiro-francia", "rahman-govindarajulu"]
DIVIDES = [*INVARIANT, "extended-jarque-bera", "entropy"]
LEAST = {
    "epps-pulley": 2,
    "epps-pulley-exact": 2,
    "jarque-bera": 2,
    "extended-jarque-bera": 2,
    "mean-variance": 2,
    "shapiro-francia": 3,
    "rahman-govindarajulu": 3,
    "entropy": 3,
}

# fewer samples than slices are no mistake here; the tests of the warning switch it on again
pytestmark = pytest.mark.filterwarnings("ignore::isojepa.objectives.gaussianity.AxisWarning")
every_test = pytest.mark.parametrize("name", UNIVARIATE)


def normal(*shape: int) -> torch.Tensor:
    """Samples of N(0.3, 1.2^2), float64: on no special point of any test."""
    return 0.3 + 1.2 * torch.randn(shape, generator=generator(0, "x", *shape), dtype=torch.float64)


def truth_of(name: str, x: torch.Tensor) -> torch.Tensor:
    """The reference of each slice of (..., samples, slices), one by one."""
    rows = x.double().movedim(-2, -1)
    values = [reference.UNIVARIATE[name](row) for row in rows.reshape(-1, rows.shape[-1]).numpy()]
    return torch.tensor(values, dtype=torch.float64).view(rows.shape[:-1])


# --- values ------------------------------------------------------------------------------------------------


def test_every_test_has_a_reference():
    assert set(UNIVARIATE) == set(reference.UNIVARIATE)


@every_test
@pytest.mark.parametrize("n", SIZES)
def test_float64_value_equals_the_definition(name, n):
    x = normal(2, n, 3)
    value = UNIVARIATE[name]()(x)
    assert value.shape == (2, 3)
    assert value.dtype == torch.float64
    torch.testing.assert_close(value, truth_of(name, x), rtol=1e-9, atol=1e-10)


@every_test
def test_float32_error_is_small_against_the_spread_under_the_null(name):
    # sums of n terms of size 1 that cancel down to a statistic of size 1 lose log10(n) digits
    n = 1000 if name == "epps-pulley-exact" else 100_000
    x = torch.randn(n, 12, generator=generator(0, "many"))
    test = UNIVARIATE[name]()
    truth = test(x.double())
    assert (test(x).double() - truth).abs().max() < 0.05 * truth.std()


@every_test
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_equals_the_float32_computation_of_the_rounded_input(name, dtype):
    rounded = normal(30, 3).to(dtype).requires_grad_()
    wide = rounded.detach().float().requires_grad_()
    test = UNIVARIATE[name]()
    value, truth = test(rounded), test(wide)
    assert torch.equal(value, truth)
    (gradient,) = torch.autograd.grad(value.sum(), rounded)
    (wide_gradient,) = torch.autograd.grad(truth.sum(), wide)
    assert gradient.dtype == dtype
    assert torch.equal(gradient, wide_gradient.to(dtype))


@every_test
def test_value_does_not_depend_on_the_order_of_samples(name):
    x = normal(25, 3)
    shuffled = x[torch.randperm(25, generator=generator(0))]
    test = UNIVARIATE[name]()
    torch.testing.assert_close(test(shuffled), test(x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", INVARIANT)
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e3, 1e12])
def test_tests_of_shape_do_not_see_mean_and_variance(name, scale):
    x = normal(40, 3)
    test = UNIVARIATE[name]()
    torch.testing.assert_close(test(scale * (x + 2)), test(x), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(test((scale * x).float()), test(x).float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [5, 12, 33, 400])
def test_values_equal_scipy(n):
    x = normal(n)
    sample = x.numpy()
    assert CramerVonMises()(x).item() == pytest.approx(
        stats.cramervonmises(sample, "norm").statistic, rel=1e-11
    )
    assert JarqueBera()(x).item() == pytest.approx(stats.jarque_bera(sample).statistic, rel=1e-10)
    anderson = stats.goodness_of_fit(
        stats.norm, sample, known_params={"loc": 0, "scale": 1}, statistic="ad", n_mc_samples=2, rng=0
    )
    assert UNIVARIATE["anderson-darling"]()(x).item() == pytest.approx(anderson.statistic, rel=1e-10)
    cross_entropy = -np.mean(stats.norm.logpdf(sample))
    assert Likelihood()(x).item() == pytest.approx(cross_entropy, rel=1e-12)
    vasicek = stats.differential_entropy(sample, window_length=2, method="vasicek")
    assert Entropy(window=2)(x).item() == pytest.approx(cross_entropy - vasicek, rel=1e-11)
    if n > 5:  # scipy's window and ours are the same function of n, where it is below n / 2
        vasicek = stats.differential_entropy(sample, method="vasicek")
        assert Entropy()(x).item() == pytest.approx(cross_entropy - vasicek, rel=1e-11)


def test_sorted_tests_keep_their_digits_in_the_tails():
    # Phi(-9) is lost next to 1, log Phi(-9) must not be
    x = torch.tensor([-9.0, -0.2, 0.1, 12.0], dtype=torch.float64)
    u_log, v_log = stats.norm.logcdf(x.numpy()), stats.norm.logsf(x.numpy())
    i = np.arange(1, 5)
    truth = -4 - ((2 * i - 1) / 4 * (u_log + v_log[::-1])).sum()
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-13)):
        value = UNIVARIATE["anderson-darling"]()(x.to(dtype)).item()
        assert value == pytest.approx(truth, rel=tolerance)


# --- Epps-Pulley: expectations -----------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("n", [2, 9])
def test_unbiased_epps_pulley_is_the_mean_over_distinct_pairs(sigma, n):
    x = normal(n, 2)
    truth = [reference.epps_pulley_pairs(column, sigma) for column in x.T.numpy()]
    by_integral = [reference.epps_pulley_integral(column, sigma, unbiased=True) for column in x.T.numpy()]
    assert truth == pytest.approx(by_integral, abs=1e-10)
    torch.testing.assert_close(EppsPulleyExact(sigma, True)(x).tolist(), truth, rtol=0, atol=1e-10)
    fine = EppsPulley(201, 10 * sigma, sigma, unbiased=True)
    torch.testing.assert_close(fine(x).tolist(), truth, rtol=0, atol=1e-10)
    torch.testing.assert_close(fine(x.float()).tolist(), truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
def test_exact_epps_pulley_equals_the_integral(sigma):
    x = normal(11, 2)
    truth = [reference.epps_pulley_integral(column, sigma) for column in x.T.numpy()]
    torch.testing.assert_close(EppsPulleyExact(sigma)(x).tolist(), truth, rtol=1e-10, atol=1e-10)


# --- gradients ---------------------------------------------------------------------------------------------

VARIANTS = {
    **UNIVARIATE,
    "epps-pulley, unbiased": lambda: EppsPulley(unbiased=True),
    "epps-pulley, even": lambda: EppsPulley(knots=8, t_max=3.0, sigma=0.7),
    "epps-pulley, gauss-hermite": lambda: EppsPulley(knots=9, quadrature="gauss-hermite", unbiased=True),
    "epps-pulley-exact, unbiased": lambda: EppsPulleyExact(sigma=1.7, unbiased=True),
    "moments, 7": lambda: Moments(7),
    "entropy, 2": lambda: Entropy(2),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_is_the_derivative_of_the_value(name):
    x = normal(2, 7, 2)
    assert x.sort(-2).values.diff(dim=-2).min() > 1e-3  # far from a tie, where sorting has no derivative
    assert torch.autograd.gradcheck(VARIANTS[name](), x.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_float32_gradient_equals_the_float64_one(name):
    x = normal(300, 4).float()
    upstream = torch.tensor([1.0, -2.0, 0.5, 0.0])
    gradients = []
    for dtype in (torch.float32, torch.float64):
        leaf = x.to(dtype).requires_grad_()
        gradients.append(torch.autograd.grad(VARIANTS[name]()(leaf), leaf, upstream.to(dtype))[0])
    assert gradients[0].dtype == torch.float32
    assert torch.equal(gradients[0][:, 3], torch.zeros(300))
    error = (gradients[0].double() - gradients[1]).norm() / gradients[1].norm()
    assert error < (1e-4 if name.startswith("entropy") else 2e-5)  # differences of neighbours cancel


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", sorted(set(UNIVARIATE) - set(DIVIDES)))
def test_a_collapsed_slice_has_a_finite_value_and_gradient(name, dtype):
    leaf = torch.full((20, 2), 0.1, dtype=dtype, requires_grad=True)
    value = UNIVARIATE[name]()(leaf)
    assert torch.isfinite(value).all()
    assert torch.isfinite(torch.autograd.grad(value.sum(), leaf)[0]).all()


# --- bad input ---------------------------------------------------------------------------------------------


@every_test
def test_too_few_samples_are_refused_and_enough_are_not(name):
    least = LEAST.get(name, 1)
    test = UNIVARIATE[name]()
    assert torch.isfinite(test(normal(least, 1))).all()
    with pytest.raises(ValueError, match=f"needs at least {least} samples, got {least - 1}"):
        test(torch.randn(least - 1, 1, generator=generator(0)))


@pytest.mark.parametrize("name", DIVIDES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -37.3])
@pytest.mark.parametrize("n", [7, 100])
def test_a_slice_without_variance_is_refused(name, dtype, constant, n):
    # the mean of n equal values is not that value to the last digit: rounding must not pass for variance
    x = normal(n, 3).to(dtype)
    x[:, 1] = constant
    with pytest.raises(ValueError, match="every slice must vary, got 1 of 3 slices"):
        UNIVARIATE[name]()(x)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EppsPulley(sigma=math.nan), "sigma must be positive and finite, got nan"),
        (lambda: EppsPulleyExact(sigma=0), "sigma must be positive and finite, got 0"),
        (lambda: EppsPulley(t_max=-5.0), "t_max must be positive and finite, got -5.0"),
        (lambda: Moments(21), "order must be an integer from 1 to 20, got 21"),
        (lambda: Entropy(1.5), "window must be a positive integer, got 1.5"),
        (lambda: EppsPulley(quadrature="trapez"), "did you mean 'trapezoid'"),
        (
            lambda: ShapiroWilk(weights="royston"),
            "weights must be one of rahman-govindarajulu, shapiro-francia",
        ),
        (lambda: EppsPulley(knots=4.5), "knots must be an integer of at least 2, got 4.5"),
        (lambda: EppsPulley(knots=257, quadrature="gauss-hermite"), "knots must be at most 256"),
    ],
)
def test_bad_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_swapped_axes_warn_once_in_a_process_and_point_at_the_caller(monkeypatch):
    monkeypatch.setattr(statistic, "_warned", False)
    x = normal(4, 9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        JarqueBera().statistic(x)  # in a loss the axes are not questioned
        JarqueBera()(normal(9, 4))
        JarqueBera()(normal(9))
        assert not caught
        JarqueBera()(x)
        ExtendedJarqueBera()(x)
        CramerVonMises().pvalue(x, draws=9)
    assert [warning.category for warning in caught] == [AxisWarning]
    assert "(4, 9)" in str(caught[0].message)
    assert caught[0].filename == __file__
