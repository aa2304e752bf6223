"""Eigenfunctions against closed forms, Galerkin and shooting."""

import math
import warnings

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import stats

from isojepa.distributions import (
    GeneralizedNormal,
    Mixture,
    Normal,
    SpectrumWarning,
    StudentT,
    Uniform,
    bimodal,
    eigensystem,
)
from tests.reference.galerkin import galerkin_eigenvalues
from tests.reference.shooting import shot_eigenvalue

SKEWED = Mixture((0.7, 0.3), (-1, 2), (1, 0.5))
LAWS = {
    "normal": Normal(),
    "uniform": Uniform(),
    "gennorm-1.5": GeneralizedNormal(1.5),
    "gennorm-4": GeneralizedNormal(4.0),
    "gennorm-8": GeneralizedNormal(8.0),
    "gennorm-100": GeneralizedNormal(100.0),
    "bimodal": bimodal(4.0),
    "skewed": SKEWED,
}


class Given:
    """A user's law: a log density and a support, nothing else."""

    def __init__(self, log_density, support=(-math.inf, math.inf)):
        self.log_density, self.support = log_density, support


def test_the_normal_law_gives_hermite_polynomials():
    spectrum = eigensystem(Normal(), count=8)
    np.testing.assert_allclose(spectrum.eigenvalues, np.arange(9), atol=1e-8)
    z = np.linspace(-5, 5, 401)
    for k in range(9):
        truth = hermite_e.hermeval(z, [0] * k + [1]) / math.sqrt(math.factorial(k))
        np.testing.assert_allclose(spectrum(k, z), truth, atol=1e-6 * np.abs(truth).max())
    assert spectrum.converged
    assert spectrum.discrete
    assert spectrum.coefficients()[1] ** 2 == pytest.approx(1, abs=1e-12)


def test_the_uniform_law_gives_cosines():
    spectrum = eigensystem(Uniform(), count=6)
    k = np.arange(7)
    np.testing.assert_allclose(spectrum.eigenvalues, (k * math.pi) ** 2 / 12, rtol=1e-9, atol=0)
    z = np.linspace(-math.sqrt(3), math.sqrt(3), 201)
    for order in range(1, 7):
        # the last cell's middle lies half a cell inside the end, beyond which phi stays constant
        truth = math.sqrt(2) * np.cos(order * math.pi * (math.sqrt(3) - z) / math.sqrt(12))
        np.testing.assert_allclose(spectrum(order, z), truth, atol=3e-5)
    assert spectrum.coefficients()[1] ** 2 == pytest.approx(96 / math.pi**4, abs=1e-6)
    assert (spectrum.low, spectrum.high) == Uniform().support


@pytest.mark.parametrize(
    ("alpha", "end", "tolerance"), [(1.5, 11.2, 1e-6), (4.0, 4.0, 1e-6), (8.0, 2.7, 1e-6)]
)
def test_the_first_two_eigenvalues_are_those_of_shooting(alpha, end, tolerance):
    law = GeneralizedNormal(alpha)
    spectrum = eigensystem(law, count=2)
    first, second = spectrum.eigenvalues[1:]
    for value, odd in ((first, True), (second, False)):
        shot = shot_eigenvalue(law.log_density, end, (value - 0.05, value + 0.05), odd)
        assert shot == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize(
    ("law", "low", "high", "degree", "kink", "tolerance"),
    [
        ("gennorm-4", -3.8, 3.8, 50, None, 1e-7),
        ("gennorm-8", -2.6, 2.6, 60, None, 1e-7),
        ("gennorm-1.5", -16, 16, 120, 0.0, 1e-5),
        ("bimodal", -4.5, 4.5, 100, None, 1e-6),
        ("skewed", -5, 3.5, 160, None, 1e-6),
    ],
)
def test_eigenvalues_are_those_of_galerkin(law, low, high, degree, kink, tolerance):
    truth = galerkin_eigenvalues(LAWS[law].log_density, low, high, 4, degree, kink=kink)
    np.testing.assert_allclose(eigensystem(LAWS[law], count=4).eigenvalues, truth, atol=tolerance)


@pytest.mark.parametrize("name", LAWS)
def test_eigenfunctions_are_orthonormal_have_k_zeros_and_the_first_increases(name):
    spectrum = eigensystem(LAWS[name], count=5)
    gram = (spectrum.values * spectrum.mass) @ spectrum.values.T
    np.testing.assert_allclose(gram, np.eye(6), atol=1e-6)
    assert spectrum.zeros == (0, 1, 2, 3, 4, 5)
    assert (np.diff(spectrum.eigenvalues) > 0).all()
    mass_below = np.cumsum(spectrum.mass)
    middle = (mass_below > 1e-8) & (mass_below < 1 - 1e-8)
    assert (np.diff(spectrum.values[1][middle]) > 0).all()


@pytest.mark.parametrize("name", LAWS)
def test_the_first_eigenfunction_is_affine_for_the_normal_law_alone(name):
    r2 = eigensystem(LAWS[name], count=1).coefficients()[1] ** 2
    assert r2 <= 1 + 1e-12
    assert (r2 > 1 - 1e-6) == (name == "normal")


@pytest.mark.parametrize("deviations", [6.0, 10.0, 14.0])
def test_a_deep_valley_gives_a_small_eigenvalue_to_relative_precision(deviations):
    # Kramers: for two wells the rate over the barrier is 2 / (integral of 1/p) to leading order
    law = bimodal(deviations)
    z = np.linspace(-law.means[1], law.means[1], 20001)
    resistance = np.trapezoid(np.exp(-law.log_density(z)), z)
    spectrum = eigensystem(law, count=2)
    assert spectrum.eigenvalues[1] == pytest.approx(4 / resistance, rel=0.1)
    assert spectrum.zeros[:2] == (0, 1)


@pytest.mark.parametrize(
    ("law", "begins"),
    [
        (GeneralizedNormal(1.0), 0.5),
        (GeneralizedNormal(0.6), 0.0),
        (StudentT(4.0), 0.0),
        (Given(lambda z: stats.logistic.logpdf(z * 1.8138)), 1.8138**2 / 4),
        (Given(lambda z: -np.sqrt(1 + z**2)), 0.25),
        (Given(lambda z: np.log(z) - 2 * z, (0.0, math.inf)), 1.0),
        (Given(lambda z: np.where(z < 0, -(z**2), -np.abs(z))), 0.25),
    ],
    ids=["laplace", "gennorm-0.6", "student", "logistic", "hyperbolic", "gamma", "one-heavy-tail"],
)
def test_tails_no_lighter_than_laplace_are_told(law, begins):
    with pytest.warns(SpectrumWarning, match="spectrum is continuous"):
        spectrum = eigensystem(law, count=2)
    assert not spectrum.discrete
    assert not spectrum.converged
    assert spectrum.continuum == pytest.approx(begins, abs=2e-3)


@pytest.mark.parametrize("alpha", [1.05, 1.2, 2.0, 30.0, 1000.0])
def test_tails_lighter_than_laplace_are_not(alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spectrum = eigensystem(GeneralizedNormal(alpha), count=2, tolerance=1e-2)
    assert spectrum.discrete


def test_a_law_without_normalization_or_with_one_end_is_solved():
    half = Given(lambda z: 7.0 - z**2 / 2, (0.0, math.inf))
    # on the half line without flux the even Hermite polynomials remain
    np.testing.assert_allclose(eigensystem(half, count=3).eigenvalues, [0, 2, 4, 6], atol=1e-6)
    beta = Given(lambda z: np.log1p(-(z**2)), (-1.0, 1.0))
    # (1 - z^2) is no diffusion of Jacobi's, but its ends are singular: compare with Galerkin
    truth = galerkin_eigenvalues(beta.log_density, -1 + 1e-12, 1 - 1e-12, 2, 40)
    found = eigensystem(beta, count=2, tolerance=1e-4)
    np.testing.assert_allclose(found.eigenvalues, truth, rtol=1e-3)
    assert (np.abs(found.eigenvalues - truth) <= 10 * found.error + 1e-6).all()


def test_the_reported_error_covers_the_error():
    for tolerance in (1e-3, 1e-6, 1e-9):
        spectrum = eigensystem(Normal(), count=4, tolerance=tolerance)
        assert (np.abs(spectrum.eigenvalues - np.arange(5)) <= spectrum.error + 1e-9).all()
        assert (spectrum.error <= tolerance * np.maximum(1, np.arange(5))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectrumWarning)
        wall = eigensystem(GeneralizedNormal(1e6), count=2)
    truth = np.array([0, 1, 4]) * math.pi**2 / 12
    assert (np.abs(wall.eigenvalues - truth) <= wall.error + 1e-9).all()
    assert wall.error.max() < 1e-3


def test_what_is_no_density_is_refused():
    with pytest.raises(ValueError, match="gap inside its support"):
        eigensystem(Given(lambda z: np.where(np.abs(z) < 0.5, -np.inf, -(z**2) / 2)))
    with pytest.raises(ValueError, match="log_density must be a number or -inf, got NaN"):
        eigensystem(Given(lambda z: np.where(z > 2, np.nan, -(z**2) / 2)))
    with pytest.raises(ValueError, match="positive somewhere on its support"):
        eigensystem(Given(lambda z: np.full_like(z, -np.inf)))
    with pytest.raises(ValueError, match=r"low < high, got \(1.0, -1.0\)"):
        eigensystem(Given(lambda z: -(z**2), (1.0, -1.0)))
    with pytest.raises(ValueError, match="must keep the shape"):
        eigensystem(Given(lambda z: np.float64(0.0)))
    with pytest.raises(ValueError, match="law must have log_density and support, got float"):
        eigensystem(3.0)
    with pytest.raises(ValueError, match=r"count must be an integer in 1..64, got 0"):
        eigensystem(Normal(), count=0)
    with pytest.raises(ValueError, match="tolerance must be positive, got 0"):
        eigensystem(Normal(), tolerance=0)
    with pytest.raises(ValueError, match=r"k must lie in 0..2, got 3"):
        eigensystem(Normal(), count=2)(3, 0.0)
