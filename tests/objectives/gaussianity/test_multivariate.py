"""Multivariate tests of Gaussianity against the integrals they stand for."""

import math

import pytest
import torch

from isojepa.objectives.gaussianity import (
    BHEP,
    CFMGF,
    MULTIVARIATE,
    EppsPulleyExact,
    HenzeVisagie,
    MomentGenerating,
    SimplifiedCFMGF,
)
from isojepa.seeds import generator
from tests.reference import gaussianity as reference

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
        (BHEP(1.6), lambda y: reference.bhep(y, 1.6)),
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


def test_cf_mgf_summed_in_blocks_equals_the_integral():
    y = normal(2, 20, 1)  # 400 pairs: more than one block, and not a multiple
    torch.testing.assert_close(CFMGF()(y), truth_of("cf-mgf", y, False), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_estimated_cf_mgf_is_close_to_the_closed_form(dim):
    y = normal(24, dim)
    assert CFMGF(points=4096)(y).item() == pytest.approx(CFMGF(points=0)(y).item(), rel=0.05)


def test_bhep_in_one_dimension_is_the_exact_epps_pulley_statistic():
    # the same integral; BHEP's weight is a density, the window of Epps and Pulley has height 1
    y = normal(31, 1)
    for width in (0.5, 1.0, 2.0):
        scaled = BHEP(width)(y).item() * width * math.sqrt(2 * math.pi)
        assert EppsPulleyExact(width)(y).item() == pytest.approx(scaled, rel=1e-10)


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


# --- gradients ---------------------------------------------------------------------------------------------


@every_test
@pytest.mark.parametrize("standardize", [False, True])
def test_gradient_is_the_derivative_of_the_value(name, standardize):
    y = normal(2, 5, 2)
    test = MULTIVARIATE[name](standardize=standardize)
    assert torch.autograd.gradcheck(test, y.requires_grad_(), atol=1e-6)


def test_gradient_of_the_estimated_cf_mgf_is_the_derivative_of_the_value():
    assert torch.autograd.gradcheck(CFMGF(points=32), normal(2, 5, 2).requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(MULTIVARIATE) - {"mardia-skewness", "mardia-kurtosis"}))
def test_collapsed_samples_have_a_finite_value_and_gradient(name):
    leaf = torch.full((10, 2), 0.1, requires_grad=True)
    value = MULTIVARIATE[name]()(leaf)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, leaf)[0]).all()


# --- bad input ---------------------------------------------------------------------------------------------


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
