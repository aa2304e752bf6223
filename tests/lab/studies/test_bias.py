"""The study of the bias against simulation and against another minimiser."""

import math

import numpy as np
import pytest

from isojepa.objectives.gaussianity import EppsPulleyExact
from isojepa.seeds import generator
from isojepa_lab.studies import bias
from isojepa_lab.studies.bias import Study
from isojepa_lab.studies.quadrature import LAWS


@pytest.mark.parametrize("law", bias.CHARACTERISTIC)
def test_characteristic_functions_are_those_of_the_samples(law):
    x = LAWS[law](200_000, generator(0, "test", law)).numpy()
    t = np.array([0.3, 1.0, 2.5])
    measured = np.exp(1j * np.outer(t, x)).mean(1)
    np.testing.assert_allclose(measured, bias.CHARACTERISTIC[law](t), atol=0.01)


@pytest.mark.parametrize("law", ["Gaussian", "Laplace, variance 1", "uniform, variance 1"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_the_formula_is_the_mean_of_the_closed_form(law, unbiased):
    n, repeats = 10, 40_000
    x = LAWS[law](n * repeats, generator(1, "test", law)).reshape(n, repeats)
    values = EppsPulleyExact(unbiased=unbiased).statistic(x) / n
    distance, scaled = bias.distance_and_bias(law)
    expected = distance + (0 if unbiased else scaled / n)
    error = values.std().item() / math.sqrt(repeats)
    assert values.mean().item() == pytest.approx(expected, abs=4 * error)
    assert error < scaled / n / 20  # so the bias would be seen


def test_the_expectation_over_scales_is_that_of_the_integral():
    _, scaled = bias.distance_and_bias("Gaussian")
    assert bias.expected(1.0, 16) == pytest.approx(scaled / 16)
    distance, scaled = bias.distance_and_bias("Gaussian, std 0.1")
    assert bias.expected(0.1, 8) == pytest.approx(distance + scaled / 8)


def test_the_fixed_point_is_below_one_by_one_over_n_and_at_one_without_bias():
    assert bias.fixed_point(math.inf) == pytest.approx(1, abs=1e-4)
    for n in (64, 256):
        assert 1 - bias.fixed_point(n) == pytest.approx(1 / n, rel=0.05)


def test_training_one_scale_ends_at_the_fixed_point():
    study = Study(steps=400, replicas=64)
    biased, unbiased = study.scale(8, False), study.scale(8, True)
    assert biased["std"] == pytest.approx(biased["fixed_point"], abs=0.02)
    assert unbiased["std"] == pytest.approx(1, abs=0.02)
    assert biased["fixed_point"] < 0.9
