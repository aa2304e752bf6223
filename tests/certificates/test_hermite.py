"""Hermite energies against closed forms, other integrators, and the definition."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_hermitenorm
from scipy.stats import norm

from isojepa.certificates import hermite
from isojepa.certificates.hermite import (
    feature_count,
    features,
    hermite_table,
    multi_indices,
    quadrature_energy,
    regression_energy,
)
from tests.reference import naive_hermite


@pytest.mark.parametrize(("dim", "degree"), [(1, 6), (2, 5), (3, 4), (7, 2), (4, 0)])
def test_multi_indices_are_all_of_them_and_by_degree(dim, degree):
    found = multi_indices(dim, degree)
    assert {tuple(row) for row in found.tolist()} == set(naive_hermite.indices(dim, degree))
    assert len(found) == feature_count(dim, degree)
    assert (np.diff(found.sum(1)) >= 0).all()


def test_the_recurrence_equals_scipy():
    x = np.linspace(-6, 6, 41)
    table = hermite_table(x, 12)
    for k in range(13):
        expected = eval_hermitenorm(k, x) / math.sqrt(math.factorial(k))
        np.testing.assert_allclose(table[:, k], expected, rtol=1e-10, atol=1e-10)


def test_features_are_products_of_polynomials():
    z = np.random.default_rng(0).standard_normal((5, 3))
    found = features(z, multi_indices(3, 4))
    expected = [[naive_hermite.polynomial(a, row) for a in multi_indices(3, 4)] for row in z]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_a_polynomial_has_its_energy_at_its_degree_alone(k):
    energy = quadrature_energy(lambda z: hermite_table(z, 6)[:, 0, k : k + 1], 1, 6).energy[0]
    np.testing.assert_allclose(energy, np.eye(7)[k], atol=1e-12)


def test_products_have_the_sum_of_the_degrees_and_constants_degree_zero():
    def function(z):
        table = hermite_table(z, 3)
        return np.c_[2 * table[:, 0, 2] * table[:, 1, 1] * table[:, 2, 3], 3 + z[:, 0]]

    found = quadrature_energy(function, 3, 6, order=24)
    np.testing.assert_allclose(found.energy[0], 4 * np.eye(7)[6], atol=1e-10)
    np.testing.assert_allclose(found.energy[1], [9, 1, 0, 0, 0, 0, 0], atol=1e-10)
    np.testing.assert_allclose(found.variance, [4, 1], atol=1e-10)


def test_the_sine_and_the_exponential_in_closed_form():
    # E[sin(z) H_k] = +-e^{-1/2} / sqrt(k!) for odd k; E[e^z H_k] = e^{1/2} / sqrt(k!)
    found = quadrature_energy(lambda z: np.c_[np.sin(z), np.exp(z)], 1, 8)
    factorials = np.array([math.factorial(k) for k in range(9)])
    np.testing.assert_allclose(found.energy[0], np.exp(-1) / factorials * (np.arange(9) % 2), atol=1e-12)
    np.testing.assert_allclose(found.energy[1], np.e / factorials, rtol=1e-10)
    np.testing.assert_allclose(found.variance, [(1 - np.exp(-2)) / 2, np.e**2 - np.e], rtol=1e-10)


def test_a_saturating_function_equals_another_integrator():
    found = quadrature_energy(lambda z: np.tanh(2 * z), 1, 5)
    for k in (1, 3, 5):
        value, _ = quad(
            lambda x, k=k: np.tanh(2 * x) * eval_hermitenorm(k, x) * norm.pdf(x), -12, 12, epsabs=1e-13
        )
        assert found.energy[0, k] == pytest.approx(value**2 / math.factorial(k), rel=1e-6)


def test_the_difference_of_two_orders_covers_the_error_of_a_jump():
    found = quadrature_energy(np.sign, 1, 1)
    error = abs(found.energy[0, 1] - 2 / math.pi)
    assert error < 3 * abs(found.energy[0, 1] - found.coarse_energy[0, 1])
    assert error < 1e-2


def test_quadrature_says_what_it_cannot_do():
    with pytest.raises(ValueError, match=r"at most 3 latents, got 4: pass method='curve'"):
        quadrature_energy(lambda z: z, 4, 2)
    with pytest.raises(ValueError, match="order must be above"):
        quadrature_energy(lambda z: z, 1, 6, order=8)
    with pytest.raises(ValueError, match="must be finite, got NaN or Inf"):
        quadrature_energy(lambda z: np.where(z > 0, z, np.nan), 1, 2)
    with pytest.raises(ValueError, match=r"to \(.*, m\), got"):
        quadrature_energy(lambda z: z[:, 0], 1, 2)


def test_regression_equals_the_definition_for_its_own_guess(monkeypatch):
    monkeypatch.setattr(hermite, "BLOCKS", 2)
    monkeypatch.setattr(hermite, "PER_FEATURE", 1)
    monkeypatch.setattr(hermite, "_CLEARLY", 1e9)  # the guess of all degrees
    rng = np.random.default_rng(0)
    z = rng.standard_normal((24, 2))
    h = (z[:, :1] ** 2 + z[:, 1:] + rng.standard_normal((24, 1))) @ np.array([[1.0, -2.0]])
    found = regression_energy(h, z, 2)
    table = multi_indices(2, 2)
    for output in range(2):
        parts = []
        for own, other in ((slice(0, 12), slice(12, 24)), (slice(12, 24), slice(0, 12))):
            b = np.linalg.lstsq(features(z[other], table), h[other, output], rcond=None)[0]
            guess = {tuple(a): value for a, value in zip(table.tolist(), b, strict=True)}
            parts.append(naive_hermite.energies_given_guess(h[own, output], z[own], guess, 2))
        np.testing.assert_allclose(found.energy[output], np.mean(parts, 0), rtol=1e-5, atol=1e-7)


def test_regression_is_unbiased_where_squared_least_squares_is_not():
    rng = np.random.default_rng(7)
    truth = np.array([0.25, 0.0, 0.5, 4.0])  # degrees 0 to 2, and noise above
    found, plain = [], []
    table = multi_indices(2, 2)
    for _ in range(120):
        z = rng.standard_normal((100, 2))
        h = 0.5 + z[:, :1] * z[:, 1:] * math.sqrt(0.5) + 2 * rng.standard_normal((100, 1))
        found.append(regression_energy(h, z, 2).energy[0])
        b = np.linalg.lstsq(features(z, table), h[:, 0], rcond=None)[0]
        plain.append([(b[table.sum(1) == d] ** 2).sum() for d in range(3)])
    error = np.std(found, 0) / math.sqrt(len(found))
    assert (np.abs(np.mean(found, 0) - truth) < 4 * error).all()
    assert np.mean(plain, 0)[1] > 5 * error[1]  # so the bias would be seen


def test_an_energy_of_zero_falls_below_zero_by_chance_and_is_kept():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        z = rng.standard_normal((200, 1))
        found.append(regression_energy(z + rng.standard_normal((200, 1)), z, 2).energy[0, 2])
    assert min(found) < 0 < max(found)
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(len(found))


def test_jackknife_errors_are_those_of_repetition():
    rng = np.random.default_rng(2)
    found, errors = [], []
    for _ in range(80):
        z = rng.standard_normal((800, 1))
        result = regression_energy(np.sin(2 * z) + 0.3 * rng.standard_normal((800, 1)), z, 2)
        found.append(result.energy[0])
        spread = result.left_out[:, 0] - result.left_out[:, 0].mean(0)
        errors.append(np.sqrt((len(spread) - 1) / len(spread) * (spread**2).sum(0)))
    ratio = np.mean(errors, 0)[[1, 3]] / np.std(found, 0)[[1, 3]]
    assert (ratio > 0.75).all()
    assert (ratio < 1.3).all()


def test_too_many_features_say_what_to_pass_instead():
    z = np.zeros((1000, 16))
    with pytest.raises(ValueError, match=r"got 74613 features of degree 6 .* pass degree=1 or the encoder"):
        regression_energy(z, z, 6)
    with pytest.raises(ValueError, match="pass degree=1 or at least 1530 samples or the encoder"):
        regression_energy(z, z, 2)


def test_many_features_are_computed_in_pieces(monkeypatch):
    rng = np.random.default_rng(3)
    z = rng.standard_normal((500, 3))
    h = np.tanh(z)
    whole = regression_energy(h, z, 3)
    monkeypatch.setattr(hermite, "_CELLS", 333)
    pieces = regression_energy(h, z, 3)
    np.testing.assert_allclose(pieces.energy, whole.energy, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pieces.left_out, whole.left_out, rtol=1e-9, atol=1e-12)
