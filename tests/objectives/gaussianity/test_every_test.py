"""Every test of Gaussianity keeps one contract: inputs, NaN and Inf, global generators."""

import inspect
import math

import numpy as np
import pytest
import torch

from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE
from isojepa.seeds import generator
from tests.reference.global_state import untouched

pytestmark = pytest.mark.filterwarnings("ignore::isojepa.objectives.gaussianity.AxisWarning")
TESTS = UNIVARIATE | MULTIVARIATE
every_test = pytest.mark.parametrize("name", TESTS)


def normal(*shape: int) -> torch.Tensor:
    return 0.3 + 1.2 * torch.randn(shape, generator=generator(0, "x", *shape), dtype=torch.float64)


@every_test
def test_a_value_leaves_the_input_and_global_generators_alone(name):
    x = normal(25, 2).float()
    before = x.clone()
    options = {"points": 16} if name == "cf-mgf" else {}
    with untouched():
        TESTS[name](**options)(x)
    assert torch.equal(x, before)


@every_test
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_are_errors_of_a_call_and_propagate_in_a_loss(name, bad):
    test = TESTS[name]()
    x = normal(2, 12, 2).float()
    x[1, 4, 1], x[1, 5, 1] = bad, math.nan
    for call in (test, test.pvalue):
        with pytest.raises(ValueError, match="x must be finite, got 2 values"):
            call(x)
    expected = [[False, False], [False, True]] if name in UNIVARIATE else [False, True]
    assert torch.isnan(test.statistic(x)).tolist() == expected


@pytest.mark.parametrize("name", MULTIVARIATE)
def test_nan_propagates_through_standardization(name):
    x = normal(2, 12, 2)
    x[1, 4, 1] = math.nan
    assert torch.isnan(MULTIVARIATE[name](standardize=True).statistic(x)).tolist() == [False, True]


@every_test
@pytest.mark.parametrize(
    "bad", [torch.ones(5, 2, dtype=torch.int64), torch.ones(5, dtype=torch.complex64), np.ones((5, 2)), [0.1]]
)
def test_input_must_be_a_tensor_of_floats(name, bad):
    with pytest.raises(ValueError, match="x must be a tensor of floating point numbers, got"):
        TESTS[name]()(bad)


@every_test
def test_samples_and_dimensions_are_needed(name):
    test = TESTS[name]()
    with pytest.raises(ValueError, match=r"needs at least \d+ samples, got 0"):
        test(torch.zeros(0, 1))
    for shape in ((), (5, 0)):
        for call in (test, test.pvalue):
            with pytest.raises(ValueError, match=r"x must be \(\.\.\., samples, dim\)"):
                call(torch.zeros(shape))


@every_test
def test_a_sequence_is_a_sample_of_one_dimension(name):
    x = normal(14)
    value = TESTS[name]()(x)
    assert value.shape == ()
    assert torch.equal(value, TESTS[name]()(x[:, None]).squeeze())


@every_test
def test_layout_in_memory_and_leading_axes_do_not_show(name):
    x = normal(3, 2, 9, 2)
    test = TESTS[name]()
    alone = torch.stack([torch.stack([test(part) for part in row]) for row in x])
    strided = x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    assert not strided.is_contiguous()
    for same in (x, strided, torch.cat((x, x), -1)[..., :2], torch.cat((x, x), -2)[..., :9, :]):
        leaf = same.detach().requires_grad_()
        value = test(leaf)
        torch.testing.assert_close(value, alone, rtol=1e-11, atol=1e-11)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        assert gradient.shape == x.shape


def test_the_repr_tells_tests_apart():
    """P-values are kept by repr: two tests with the same one would share a law."""
    tests = [build() for build in UNIVARIATE.values()]
    for build in TESTS.values():
        parameters = set(inspect.signature(build).parameters)
        standardized = ({"standardize": False}, {"standardize": True}) if "standardize" in parameters else ()
        tests += [build(**options) for options in standardized]
        for setting in {"beta", "gamma", "points", "sigma", "knots", "order", "window"} & parameters:
            tests.append(build(**{setting: 7}))
    assert len({repr(test) for test in tests}) == len(tests)
