"""Multivariate tests of Gaussianity against the integrals they stand for."""

import inspect
import math
import warnings

import numpy as np
import pytest
import torch

from isojepa.objectives.gaussianity import (
    BHEP,
    CFMGF,
    MULTIVARIATE,
    AxisWarning,
    EppsPulleyExact,
    HenzeVisagie,
    HenzeZirkler,
    MardiaKurtosis,
    MardiaSkewness,
    MomentGenerating,
    SimplifiedCFMGF,
    statistic,
)
from isojepa.seeds import generator
from tests.reference import gaussianity as reference
from tests.reference.global_state import untouched

GROWING = ["moment-generating", "cf-mgf", "simplified-cf-mgf", "henze-visagie"]  # like e^{|y|^2}

# fewer samples than slices are no mistake here; the tests of the warning switch it on again
pytestmark = pytest.mark.filterwarnings("ignore::isojepa.objectives.gaussianity.AxisWarning")
every_test = pytest.mark.parametrize("name", MULTIVARIATE)


def normal(*shape: int) -> torch.Tensor:
    """Samples of N(0.2, 1.1^2 I), float64: on no special point of any test."""
    return 0.2 + 1.1 * torch.randn(shape, generator=generator(0, "y", *shape), dtype=torch.float64)


def truth_of(name: str, y: torch.Tensor, standardize: bool) -> torch.Tensor:
    """The reference of each sample of (..., samples, dim), one by one."""
    values = []
    for sample in y.double().reshape(-1, *y.shape[-2:]).numpy():
        ready = reference.standardized(sample) if standardize else sample
        values.append(reference.MULTIVARIATE[name](ready))
    return torch.tensor(values, dtype=torch.float64).view(y.shape[:-2])


# --- values ------------------------------------------------------------------------------------------------


def test_every_test_has_a_reference():
    assert set(MULTIVARIATE) == set(reference.MULTIVARIATE)


@every_test
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("dim", [1, 2])
def test_value_equals_the_definition(name, standardize, dim):
    y = normal(2, 9, dim)
    value = MULTIVARIATE[name](standardize=standardize)(y)
    assert value.shape == (2,)
    torch.testing.assert_close(value, truth_of(name, y, standardize), rtol=1e-8, atol=1e-10)
    single = MULTIVARIATE[name](standardize=standardize)(y.float()).double()
    torch.testing.assert_close(single, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("test", "truth"),
    [
        (BHEP(0.4), lambda y: reference.bhep(y, 0.4)),
        (BHEP(1.6), lambda y: reference.bhep(y, 1.6)),
        (MomentGenerating(1.5), lambda y: reference.moment_generating(y, 1.5)),
        (MomentGenerating(8.0), lambda y: reference.moment_generating(y, 8.0)),
        (CFMGF(2.5), lambda y: reference.cf_mgf(y, 2.5)),
        (SimplifiedCFMGF(2.5), lambda y: reference.simplified_cf_mgf(y, 2.5)),
        (HenzeVisagie(2.5), lambda y: reference.henze_visagie(y, 2.5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_with_any_weight_equals_the_definition(test, truth):
    y = normal(6, 2)
    assert test(y).item() == pytest.approx(truth(y.numpy()), rel=1e-8)


@pytest.mark.parametrize("dim", [1, 3])
def test_cf_mgf_equals_its_sum_over_four_samples(dim):
    y = normal(6, dim)
    assert CFMGF()(y).item() == pytest.approx(reference.cf_mgf_loops(y.numpy()), rel=1e-11)


def test_cf_mgf_summed_in_blocks_equals_the_integral():
    y = normal(2, 20, 1)  # 400 pairs: more than one block, and not a multiple
    torch.testing.assert_close(CFMGF()(y), truth_of("cf-mgf", y, False), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_estimated_cf_mgf_is_close_to_the_closed_form(dim):
    y = normal(24, dim)
    assert CFMGF(points=4096)(y).item() == pytest.approx(CFMGF(points=0)(y).item(), rel=0.05)


def test_cf_mgf_estimates_by_itself_above_32_samples():
    y = normal(33, 2)
    assert torch.equal(CFMGF()(y), CFMGF(points=1024)(y))
    assert CFMGF()(y).item() == pytest.approx(CFMGF(points=0)(y).item(), rel=0.1)
    assert torch.equal(CFMGF()(y[:32]), CFMGF(points=0)(y[:32]))


def test_bhep_in_one_dimension_is_the_exact_epps_pulley_statistic():
    # the same integral; BHEP's weight is a density, the window of Epps and Pulley has height 1
    y = normal(31, 1)
    for width in (0.5, 1.0, 2.0):
        scaled = BHEP(width)(y).item() * width * math.sqrt(2 * math.pi)
        assert EppsPulleyExact(width)(y).item() == pytest.approx(scaled, rel=1e-10)


@pytest.mark.parametrize(("n", "dim"), [(10, 1), (50, 3), (200, 8)])
def test_henze_zirkler_is_bhep_with_their_bandwidth(n, dim):
    beta = 2**-0.5 * ((2 * dim + 1) / 4) ** (1 / (dim + 4)) * n ** (1 / (dim + 4))
    y = normal(n, dim)
    assert HenzeZirkler(standardize=True)(y).item() == pytest.approx(BHEP(beta, standardize=True)(y).item())


def test_bhep_has_the_expectation_of_theory():
    # n E|phi_n - phi|^2 = 1 - phi^2, so E T = 1 - (1 + 2 beta^2)^(-d/2) for any n
    test, count = BHEP(1.2), 4000
    values = test(torch.randn(count, 5, 3, generator=generator(0, "mean")))
    expected = 1 - (1 + 2 * 1.2**2) ** -1.5
    assert values.mean().item() == pytest.approx(expected, abs=4 * values.std().item() / math.sqrt(count))


@pytest.mark.parametrize(("n", "dim"), [(8, 2), (20, 3)])
def test_mardias_statistics_have_the_expectation_of_theory(n, dim):
    # Mardia (1970): E b1 = d (d+2) ((n+1)(d+1) - 6) / ((n+1)(n+3)) and E b2 = d (d+2) (n-1)/(n+1)
    count = 6000
    y = torch.randn(count, n, dim, generator=generator(0, "mardia", n), dtype=torch.float64)
    skewness = MardiaSkewness()(y) * 6 / n
    truth = dim * (dim + 2) * ((n + 1) * (dim + 1) - 6) / ((n + 1) * (n + 3))
    assert skewness.mean().item() == pytest.approx(truth, abs=4 * skewness.std().item() / math.sqrt(count))
    # the mean and the variance of b2 (Mardia 1974, eq. 5.1) give that of the squared deviation
    expected = dim * (dim + 2)
    mean = expected * (n - 1) / (n + 1)
    variance = 8 * expected * (n - 3) * (n - dim - 1) * (n - dim + 1) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    kurtosis = MardiaKurtosis()(y)
    truth = n * ((mean - expected) ** 2 + variance) / (8 * expected)
    assert kurtosis.mean().item() == pytest.approx(truth, abs=4 * kurtosis.std().item() / math.sqrt(count))


@every_test
@pytest.mark.parametrize("standardize", [False, True])
def test_value_does_not_change_under_rotation_or_order(name, standardize):
    y = normal(16, 3)
    rotation = torch.linalg.qr(normal(3, 3)).Q
    test = MULTIVARIATE[name](standardize=standardize)
    turned = y[torch.randperm(16, generator=generator(0))] @ rotation
    torch.testing.assert_close(test(turned), test(y), rtol=1e-9, atol=1e-10)


@every_test
def test_standardized_tests_do_not_see_mean_and_covariance(name):
    y = normal(14, 2)
    skewed = 50 * y @ torch.tensor([[1.0, 0.0], [-3.0, 0.2]], dtype=torch.float64) + 7
    test = MULTIVARIATE[name](standardize=True)
    torch.testing.assert_close(test(skewed), test(y), rtol=1e-9, atol=1e-10)


@every_test
def test_input_of_any_precision_gives_the_float64_value_of_the_rounded_input(name):
    y = normal(12, 2)
    test = MULTIVARIATE[name]()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        leaf = y.to(dtype).requires_grad_()
        value = test(leaf)
        assert torch.equal(value, test(leaf.detach().double()))
        assert torch.autograd.grad(value, leaf)[0].dtype == dtype


@every_test
def test_a_sequence_has_one_dimension(name):
    y = normal(14)
    assert MULTIVARIATE[name]()(y).shape == ()
    assert torch.equal(MULTIVARIATE[name]()(y), MULTIVARIATE[name]()(y[:, None]))


@every_test
def test_layout_in_memory_and_leading_axes_do_not_show(name):
    y = normal(3, 2, 9, 2)
    test = MULTIVARIATE[name]()
    alone = torch.stack([torch.stack([test(part) for part in row]) for row in y])
    strided = y.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    for same in (y, strided, torch.cat((y, y), -1)[..., :2], torch.cat((y, y), -2)[..., :9, :]):
        torch.testing.assert_close(test(same), alone, rtol=1e-11, atol=1e-12)


@every_test
def test_a_value_leaves_the_input_and_global_generators_alone(name):
    y = normal(12, 2)
    before = y.clone()
    options = {"points": 16} if name == "cf-mgf" else {}
    with untouched():
        MULTIVARIATE[name](**options)(y)
    assert torch.equal(y, before)


# --- gradients ---------------------------------------------------------------------------------------------


@every_test
@pytest.mark.parametrize("standardize", [False, True])
def test_gradient_is_the_derivative_of_the_value(name, standardize):
    y = normal(2, 5, 2)
    test = MULTIVARIATE[name](standardize=standardize)
    assert torch.autograd.gradcheck(test, y.requires_grad_(), atol=1e-6)


def test_gradient_of_the_estimated_cf_mgf_is_the_derivative_of_the_value():
    assert torch.autograd.gradcheck(CFMGF(points=32), normal(2, 5, 2).requires_grad_(), atol=1e-6)


@every_test
def test_float32_gradient_equals_the_float64_one(name):
    y = normal(12, 3).float()
    gradients = []
    for dtype in (torch.float32, torch.float64):
        leaf = y.to(dtype).requires_grad_()
        gradients.append(torch.autograd.grad(MULTIVARIATE[name]()(leaf), leaf)[0].double())
    assert (gradients[0] - gradients[1]).norm() < 1e-6 * gradients[1].norm()


@every_test
def test_descent_lowers_the_statistic(name):
    leaf = (normal(16, 2) ** 3 / 4).requires_grad_()
    test = MULTIVARIATE[name]()
    value = test(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert test(leaf.detach() - 1e-6 / gradient.norm() * gradient) < value


@pytest.mark.parametrize("name", sorted(set(MULTIVARIATE) - {"mardia-skewness", "mardia-kurtosis"}))
def test_collapsed_samples_have_a_finite_value_and_gradient(name):
    leaf = torch.full((10, 2), 0.1, requires_grad=True)
    value = MULTIVARIATE[name]()(leaf)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, leaf)[0]).all()


# --- bad input ---------------------------------------------------------------------------------------------


@every_test
def test_no_samples_are_refused(name):
    with pytest.raises(ValueError, match=r"needs at least \d+ samples, got 0"):
        MULTIVARIATE[name]()(torch.zeros(0, 1))


@every_test
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused_in_a_call_and_passed_on_in_a_loss(name, standardize, bad):
    y = normal(2, 12, 2)
    y[1, 4, 1] = bad
    y[1, 5, 0] = math.nan
    test = MULTIVARIATE[name](standardize=standardize)
    with pytest.raises(ValueError, match="x must be finite, got 2 values"):
        test(y)
    with pytest.raises(ValueError, match="x must be finite, got 2 values"):
        test.pvalue(y)
    assert torch.isnan(test.statistic(y)).tolist() == [False, True]


@every_test
@pytest.mark.parametrize("bad", [torch.ones(5, 2, dtype=torch.int64), np.ones((5, 2)), [0.1, 0.2]], ids=type)
def test_input_that_is_no_tensor_of_floats_is_refused(name, bad):
    with pytest.raises(ValueError, match="x must be a tensor of floating point numbers, got"):
        MULTIVARIATE[name]()(bad)


@every_test
@pytest.mark.parametrize(
    "y",
    [
        torch.ones(20, 2, dtype=torch.float64),
        torch.full((20, 2), 0.1, dtype=torch.float64),
        normal(20, 1).repeat(1, 2),
        normal(20, 2) @ torch.tensor([[1.0, 0.0, 0.3], [0.0, 1.0, -0.7]], dtype=torch.float64),
        (normal(20, 2) @ torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)).float(),
        normal(2, 2),
        normal(3, 4),
    ],
    ids=["constant", "constant 0.1", "repeated", "plane", "plane in float32", "n = dim", "n < dim"],
)
def test_standardizing_a_singular_covariance_is_refused(name, y):
    # a rank lost but for rounding is lost too: whitening would blow up the rounding to variance 1
    with pytest.raises(ValueError, match="standardize needs a covariance of full rank"):
        MULTIVARIATE[name](standardize=True)(y)


@pytest.mark.parametrize("name", GROWING)
def test_overflow_is_an_error(name):
    y = normal(10, 2)
    y[3] = 200.0
    with pytest.raises(ValueError, match="overflows for samples of up to 200 in 2 dimensions"):
        MULTIVARIATE[name]()(y)


def test_overflow_in_many_dimensions_is_an_error():
    # (pi / (beta - 1))^(d/2) alone passes the largest float64
    with pytest.raises(ValueError, match="overflows"):
        MomentGenerating()(torch.zeros(10, 2000))


@pytest.mark.parametrize("name", ["simplified-cf-mgf", "cf-mgf"])
def test_many_dimensions_do_not_turn_the_statistic_into_zero(name):
    # (pi / gamma)^(d/2) alone is below the smallest float64
    y = torch.randn(6, 4000, generator=generator(0, "wide"))
    try:
        value = MULTIVARIATE[name]().statistic(y)
    except ValueError:
        return  # to say that it cannot be computed is as good
    assert value != 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        *[
            (lambda kind=kind, bad=bad: kind(bad), f"{symbol} must be above {least} and finite, got {bad}")
            for kind, symbol, least in (
                (BHEP, "beta", 0),
                (MomentGenerating, "beta", 1),
                (CFMGF, "gamma", 1),
                (SimplifiedCFMGF, "gamma", 1),
                (HenzeVisagie, "gamma", 1),
            )
            for bad in (least, -1.0, math.nan, math.inf)
        ],
        (lambda: CFMGF(points=-1), "points must be a positive integer, or 0"),
        (lambda: CFMGF(points=2.5), "points must be a positive integer, or 0"),
    ],
)
def test_bad_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_the_closed_form_of_too_many_samples_is_refused():
    with pytest.raises(ValueError, match="points must be positive for more than 128 samples, got 0 for 129"):
        CFMGF(points=0)(normal(129, 2))


def test_swapped_axes_warn_once_in_a_process(monkeypatch):
    monkeypatch.setattr(statistic, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        BHEP().statistic(normal(4, 9))
        BHEP()(normal(9, 4))
        BHEP()(normal(9))
        assert not caught
        BHEP()(normal(4, 9))
        HenzeVisagie()(normal(4, 9))
    assert [warning.category for warning in caught] == [AxisWarning]
    assert caught[0].filename == __file__


def test_the_repr_tells_tests_apart():
    # p-values are kept by repr: two tests with the same one would share a law
    tests = []
    for build in MULTIVARIATE.values():
        for standardize in (False, True):
            tests.append(build(standardize=standardize))
            for symbol in {"beta", "gamma", "points"} & set(inspect.signature(build).parameters):
                tests.append(build(standardize=standardize, **{symbol: 7}))
    assert len({repr(test) for test in tests}) == len(tests)
