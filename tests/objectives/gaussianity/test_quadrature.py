"""The knots of the Epps-Pulley statistic: integrals they must get right, and their limit of many knots."""

import math

import numpy as np
import pytest
import torch

from isojepa.objectives.gaussianity import EppsPulley
from isojepa.seeds import generator
from tests.reference import gaussianity as reference


def normal(*shape: int) -> torch.Tensor:
    return 0.3 + 1.2 * torch.randn(shape, generator=generator(0, "x", *shape), dtype=torch.float64)


@pytest.mark.parametrize("knots", [2, 3, 8, 17, 33])
@pytest.mark.parametrize(("t_max", "sigma"), [(3.0, 0.6), (5.0, 1.0), (6.0, 2.5)])
@pytest.mark.parametrize("unbiased", [False, True])
def test_epps_pulley_by_the_trapezoid_rule_equals_the_reference(knots, t_max, sigma, unbiased):
    x = normal(2, 9, 2)
    rows = x.float().double().movedim(-2, -1).reshape(-1, 9).numpy()
    truth = [reference.epps_pulley_trapezoid(row, knots, t_max, sigma, unbiased) for row in rows]
    truth = torch.tensor(truth, dtype=torch.float64).view(2, 2)
    test = EppsPulley(knots, t_max, sigma, unbiased=unbiased)
    torch.testing.assert_close(test(x.float().double()), truth, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(test(x.float()).double(), truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("knots", [2, 7, 16])
@pytest.mark.parametrize("unbiased", [False, True])
def test_epps_pulley_by_gauss_hermite_equals_the_reference(knots, unbiased):
    x = normal(9, 2).float()
    nodes, weights = np.polynomial.hermite.hermgauss(knots)  # e^{-s^2}: t = sqrt(2) sigma s
    sigma = 1.3
    truth = []
    for column in x.double().T.numpy():
        errors = [reference._ecf_error(column, math.sqrt(2) * sigma * s, unbiased) for s in nodes]
        truth.append(9 * math.sqrt(2) * sigma * (weights @ np.array(errors)))
        if unbiased and knots % 2:  # at t = 0 all three are 1: the U-statistic has no error there
            assert errors[knots // 2] == pytest.approx(0, abs=1e-12)
    test = EppsPulley(knots, sigma=sigma, quadrature="gauss-hermite", unbiased=unbiased)
    assert test(x.double()).tolist() == pytest.approx(truth, rel=1e-10)
    assert test(x).tolist() == pytest.approx(truth, rel=1e-5, abs=1e-5)
