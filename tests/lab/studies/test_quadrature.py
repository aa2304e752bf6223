"""The study of the quadrature against integrals done by another library."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from isojepa.objectives.gaussianity import EppsPulley, EppsPulleyExact
from isojepa.seeds import generator
from isojepa_lab.studies import quadrature
from isojepa_lab.studies.quadrature import LAWS, Study


def samples(law, n=100):
    return LAWS[law](n, generator(0, "test", law))


@pytest.mark.parametrize("law", ["Gaussian", "Laplace, variance 1", "point mass at 3", "diagonal of the X"])
def test_the_closed_form_is_scipys_integral(law):
    x = samples(law, 40).numpy()

    def integrand(t):
        return abs(np.exp(1j * t * x).mean() - np.exp(-(t**2) / 2)) ** 2 * np.exp(-(t**2) / 2)

    expected = 40 * 2 * integrate.quad(integrand, 0, 12, limit=400)[0]
    assert EppsPulleyExact()(torch.as_tensor(x)).item() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("law", [name for name in LAWS if "variance 1" in name or "X" in name])
def test_laws_have_mean_zero_and_variance_one(law):
    x = samples(law, 200_000)
    assert x.mean().item() == pytest.approx(0, abs=0.02)
    assert x.var().item() == pytest.approx(1, abs=0.03)


def test_the_error_falls_faster_than_quadratically_and_stops_at_the_truncation():
    rows = {row["t_max"]: row for row in Study(seeds=3, samples=100).measure("Gaussian")}
    assert rows[5.0]["slope"] < -8
    assert rows[3.0]["floor"] > 1e-4 > 1e-5 > rows[5.0]["floor"] > 1e-9 > rows[8.0]["floor"]


def test_an_odd_number_of_knots_is_blind_to_one_shift_and_an_even_number_is_not():
    x = samples("Gaussian").unsqueeze(1)
    moved = x + 2 * math.pi / 0.625
    assert EppsPulley(17)(moved).item() == pytest.approx(EppsPulley(17)(x).item(), rel=1e-9)
    assert EppsPulley(16)(moved).item() > 100 * EppsPulley(16)(x).item()


def test_slope_and_reaching_of_known_errors():
    knots = (5, 9, 17)
    assert quadrature.steepest(knots, [(k - 1) ** -2.0 for k in knots]) == pytest.approx(-2)
    assert quadrature.reaching(knots, [1e-4, 1e-2, 1e-4], 1e-3) == 17
    assert quadrature.reaching(knots, [1.0, 1.0, 1.0], 1e-3) is None
