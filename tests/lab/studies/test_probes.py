"""The study of probes against closed forms, quadrature and scikit-learn."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from sklearn.linear_model import LogisticRegression, Ridge

from isojepa.seeds import generator
from isojepa_lab.studies import probes_linear as linear
from isojepa_lab.studies import probes_neighbors as neighbors
from isojepa_lab.studies.probes_linear import ANISO, ISO

DIM, CONDITION = 4, 20.0


def test_both_spectra_have_the_same_total_variance():
    spectra = linear.spectrum(DIM, CONDITION)
    assert spectra[ISO].sum().item() == pytest.approx(spectra[ANISO].sum().item())
    assert (spectra[ANISO][0] / spectra[ANISO][-1]).item() == pytest.approx(CONDITION)


def test_the_closed_ridge_bias_is_that_of_scikit_learn():
    samples, weight = 50, 0.3
    draw = generator(0, "test")
    columns = torch.linalg.qr(torch.randn(samples, DIM, generator=draw, dtype=torch.float64)).Q
    truth = linear.ridge_bias_truth([weight], DIM, CONDITION)
    for law, eigenvalues in linear.spectrum(DIM, CONDITION).items():
        design = (math.sqrt(samples) * columns * eigenvalues.sqrt()).numpy()
        for task, axis in (("worst task", DIM - 1), ("best task", 0)):
            parameter = np.eye(DIM)[axis]
            fitted = Ridge(alpha=weight * samples, fit_intercept=False).fit(design, design @ parameter).coef_
            assert truth[task, law, "0.3"] == pytest.approx(np.linalg.norm(fitted - parameter), rel=1e-8)


def test_the_measured_ridge_bias_is_the_closed_one():
    weights = [0.1, 1.0]
    found = linear.ridge_bias(0, weights, DIM, CONDITION, 20_000)
    for key, value in linear.ridge_bias_truth(weights, DIM, CONDITION).items():
        tolerance = 0.06 if key[0] in ("random tasks", "prediction") else 0.02  # 200 tasks stand for all
        assert found[key] == pytest.approx(value, rel=tolerance), key


def test_anisotropy_raises_the_bias_of_the_worst_and_the_random_task_and_lowers_the_best():
    found = linear.ridge_bias_truth([0.5], DIM, CONDITION)
    for task, sign in (("worst task", 1), ("random tasks", 1), ("best task", -1)):
        assert sign * (found[task, ANISO, "0.5"] - found[task, ISO, "0.5"]) > 0


def test_the_measured_variance_of_least_squares_is_the_closed_one():
    found = linear.least_squares(0, DIM, CONDITION, 60, 6000)
    for key, value in linear.least_squares_truth(DIM, CONDITION, 60).items():
        assert found[key] == pytest.approx(value, rel=0.06), key
    assert found["parameters", ANISO, "n 60"] > 1.5 * found["parameters", ISO, "n 60"]
    assert found["predictions", ANISO, "n 60"] == pytest.approx(found["predictions", ISO, "n 60"])


def test_cosine_and_accuracy_approach_their_limits():
    found = linear.direction(0, [0.5], DIM, CONDITION, 4000, 20)
    for law in (ISO, ANISO):
        for name, tolerance in (("cosine", 0.003), ("accuracy", 0.02)):
            value, limit = (found[key, law, "0.5, n 4000"] for key in (name, f"{name}, n infinite"))
            assert value == pytest.approx(limit, abs=tolerance)


def test_the_logistic_fit_is_that_of_scikit_learn():
    draw = generator(0, "test")
    x = torch.randn(3, 80, 2, generator=draw, dtype=torch.float64)
    labels = (torch.rand(3, 80, generator=draw) < torch.sigmoid(3 * x[..., 0])).double()
    ours = linear.logistic(x, labels, ridge=0.1)
    for k in range(3):
        reference = LogisticRegression(C=10, fit_intercept=False, tol=1e-10).fit(x[k], labels[k]).coef_[0]
        np.testing.assert_allclose(ours[k], reference, rtol=1e-4)


def test_newton_stays_finite_on_separable_classes():
    x = torch.tensor([[[-1.0, 1.0], [-0.5, 1.0], [0.5, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    assert linear.logistic(x, torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("name", [name for name in neighbors.LAWS if name != "uniform"])
def test_the_fisher_information_is_that_of_the_density(name):
    law = neighbors.LAWS[name]
    scale = float(law.shape.std())

    def integrand(x):
        step = 1e-5
        slope = (law.shape.pdf(x + step) - law.shape.pdf(x - step)) / (2 * step)
        return slope**2 / law.shape.pdf(x)

    reach = law.shape.ppf(1 - 1e-9)
    half, _ = integrate.quad(integrand, 1e-4, reach, limit=200)
    assert law.information == pytest.approx(2 * half * scale**2, rel=2e-3)


@pytest.mark.parametrize("eigenvalues", [(1.0, 1.0), (1.8, 0.2)])
def test_the_population_bias_of_a_gaussian_is_the_closed_one(eigenvalues):
    width, length = 0.4, 2.0
    law = neighbors.Law(neighbors.LAWS["Gaussian"].shape, 1.0, eigenvalues)
    # around q the weights are Gaussian with variance v and mean -v q / λ; averages over q, ω ~ N(0, 1/ℓ²)
    square, mean = 1.0, 1.0
    for value in eigenvalues:
        v = 1 / (1 / width**2 + 1 / value)
        square *= (1 + 2 * v / length**2) ** -0.5
        mean *= (1 + (v + v**2 / value) / length**2) ** -0.5
    assert neighbors.population(law, width, length) == pytest.approx(square - 2 * mean + 1, rel=1e-4)


@pytest.mark.parametrize("name", ["Gaussian", "anisotropic Gaussian", "Student, 5 degrees"])
def test_the_leading_order_is_the_limit_of_small_widths(name):
    law = neighbors.LAWS[name]
    assert neighbors.population(law, 0.05, 2.0) == pytest.approx(
        neighbors.leading_order(law, 0.05, 2.0), rel=0.04
    )


def test_the_gaussian_wins_at_small_widths_and_not_at_large_ones():
    small = {name: neighbors.population(law, 0.1, 2.0, 600) for name, law in neighbors.LAWS.items()}
    large = {name: neighbors.population(law, 0.8, 2.0, 600) for name, law in neighbors.LAWS.items()}
    assert min(small, key=small.__getitem__) == "Gaussian"
    assert large["anisotropic Gaussian"] < large["Gaussian"]
    assert large["uniform"] < large["Gaussian"]


def test_the_measured_kernel_bias_is_that_of_the_population():
    sizes = neighbors.Sizes(samples=2000, queries=500, targets=64, sets=2)
    for law in (neighbors.LAWS["Gaussian"], neighbors.LAWS["uniform"]):
        found = neighbors.measure(0, law, [0.5], sizes)
        assert found["bias", "kernel", 0.5] == pytest.approx(neighbors.population(law, 0.5, 2.0), rel=0.2)
