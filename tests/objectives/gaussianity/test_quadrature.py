"""The knots of the Epps-Pulley statistic: integrals they must get right, and their limit of many knots."""

import math

import numpy as np
import pytest
import torch

from isojepa.objectives.gaussianity import EppsPulley, EppsPulleyExact
from isojepa.objectives.gaussianity.quadrature import Grid
from isojepa.seeds import generator
from tests.reference import gaussianity as reference


def normal(*shape: int) -> torch.Tensor:
    return 0.3 + 1.2 * torch.randn(shape, generator=generator(0, "x", *shape), dtype=torch.float64)


@pytest.mark.parametrize("knots", [2, 3, 4, 5, 16, 17, 40])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_half_the_trapezoid_knots_give_the_rule_on_the_whole_line(knots, sigma):
    grid = Grid.trapezoid(knots, 4.0, sigma)
    line = np.linspace(-4, 4, knots)
    for even in (lambda t: t**2, lambda t: np.sin(t) ** 2, lambda t: 1 - np.exp(-np.abs(t))):
        truth = np.trapezoid(even(line) * np.exp(-(line**2) / (2 * sigma**2)), line)
        assert (even(grid.t) * grid.table[2]).sum() == pytest.approx(truth, rel=1e-12)
    np.testing.assert_allclose(grid.t, line[line > 1e-9], rtol=1e-12)
    np.testing.assert_allclose(grid.table[1], np.exp(-(grid.t**2) / 2), rtol=1e-12)
    assert grid.halved == (knots % 2 == 0)
    assert grid.step == pytest.approx(8 / (knots - 1))


@pytest.mark.parametrize("knots", [2, 3, 9, 16, 40])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_gauss_hermite_knots_integrate_polynomials_exactly(knots, sigma):
    grid = Grid.hermite(knots, sigma)
    assert grid.step is None
    assert not grid.halved
    assert (grid.t > 0).all()
    for half in range(1, min(knots, 12)):  # t^(2 half) of degree up to 2 knots - 1
        moment = math.prod(range(1, 2 * half, 2)) * sigma ** (2 * half + 1) * math.sqrt(2 * math.pi)
        assert (grid.t ** (2 * half) * grid.table[2]).sum() == pytest.approx(moment, rel=1e-10)


def test_the_most_gauss_hermite_knots_are_finite():
    grid = Grid.hermite(256)
    assert np.isfinite(grid.table).all()
    assert (grid.table[2] >= 0).all()
    value = EppsPulley(256, quadrature="gauss-hermite")(normal(20, 2))
    torch.testing.assert_close(value, EppsPulleyExact()(normal(20, 2)), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("unbiased", [False, True])
def test_gauss_hermite_quadrature_converges_to_the_closed_form(sigma, unbiased):
    x = normal(20, 3)
    truth = EppsPulleyExact(sigma, unbiased)(x)
    errors = []
    for knots in (4, 10, 30, 100):
        test = EppsPulley(knots, sigma=sigma, quadrature="gauss-hermite", unbiased=unbiased)
        errors.append((test(x) - truth).abs().max().item())
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-7


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("unbiased", [False, True])
def test_the_trapezoid_rule_converges_to_the_closed_form(sigma, unbiased):
    x = normal(20, 3)
    truth = EppsPulleyExact(sigma, unbiased)(x)
    for knots in (200, 201):
        test = EppsPulley(knots, 10 * sigma, sigma, unbiased=unbiased)
        torch.testing.assert_close(test(x), truth, rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(test(x.float()), truth.float(), rtol=1e-5, atol=1e-5)


def test_the_default_knots_are_close_to_the_closed_form():
    # knots at a distance of 5/8 repeat themselves after 2 pi / (5/8) = 10: samples 6 apart already notice
    x = normal(50, 20)
    torch.testing.assert_close(EppsPulley()(x), EppsPulleyExact()(x), rtol=2e-3, atol=1e-4)


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


@pytest.mark.parametrize("bad", [1, 0, -3, 2.5])
@pytest.mark.parametrize("build", [lambda knots: Grid.trapezoid(knots, 5.0), Grid.hermite])
def test_knots_that_are_no_grid_are_refused(build, bad):
    with pytest.raises(ValueError, match=f"knots must be an integer of at least 2, got {bad}"):
        build(bad)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_ends_and_widths_that_are_not_positive_and_finite_are_refused(bad):
    with pytest.raises(ValueError, match=f"t_max must be positive and finite, got {bad}"):
        Grid.trapezoid(17, bad)
    for build in (lambda: Grid.trapezoid(17, 5.0, bad), lambda: Grid.hermite(17, bad)):
        with pytest.raises(ValueError, match=f"sigma must be positive and finite, got {bad}"):
            build()
