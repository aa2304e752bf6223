"""Terms of the planning bound against their definitions: iteration, sums, grids, and integrals."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from isojepa.certificates.closed_loop import (
    Model,
    Radii,
    encoder_power,
    lipschitz_moments,
    lyapunov,
    peak_gain,
    regret_limit,
    renyi_ratio,
    riccati,
    riccati_shift,
    spectral_radius,
)

A, B = np.array([[0.9, 0.2], [0.1, 1.02]]), np.array([[0.3], [1.0]])
W, R = np.array([[1.0, 0.2], [0.2, 0.5]]), np.array([[0.7]])


def test_riccati_is_the_fixed_point_of_value_iteration_and_lyapunov_a_sum():
    p = np.zeros((2, 2))
    for _ in range(500):
        gain = np.linalg.solve(R + B.T @ p @ B, B.T @ p @ A)
        p = W + A.T @ p @ (A - B @ gain)
    fixed, k = riccati(A, B, W, R)
    np.testing.assert_allclose(fixed, p, rtol=1e-9)
    np.testing.assert_allclose(k, gain, rtol=1e-9)
    loop = A - B @ k
    assert spectral_radius(loop) < 1 < spectral_radius(A)
    powers = [np.linalg.matrix_power(loop, n) for n in range(500)]
    np.testing.assert_allclose(lyapunov(loop, W), sum(m @ W @ m.T for m in powers), rtol=1e-9)


def test_the_peak_gain_is_above_that_of_a_fine_grid_by_at_most_its_slack():
    matrix = np.array([[0.97, 0.2], [-0.2, 0.95]]) / 1.01
    grid = np.exp(1j * np.linspace(0, math.pi, 20_001))
    gains = [np.linalg.norm(np.linalg.solve(z * np.eye(2) - matrix, B), 2) for z in grid]
    assert max(gains) <= peak_gain(matrix, B) <= 1.03 * max(gains)


@pytest.mark.parametrize(("variance", "k"), [(0.6, 1), (0.6, 2), (1.4, 2), (1.4, 3)])
def test_the_density_ratio_is_its_integral(variance, k):
    values, q = np.array([variance]), k / (k - 1) if k > 1 else math.inf
    wide, unit = stats.norm(scale=math.sqrt(variance)), stats.norm()
    if k == 1:
        expected = wide.pdf(0) / unit.pdf(0)
    else:
        power = integrate.quad(lambda x: (wide.pdf(x) / unit.pdf(x)) ** q * unit.pdf(x), -12, 12)[0]
        expected = power ** (1 / q)
    assert renyi_ratio(values, values, k) == pytest.approx(expected)
    assert renyi_ratio(values, np.array([k + 0.1]), k) == math.inf


def test_moments_and_power_of_a_sine_are_below_their_bounds():
    x = np.random.default_rng(0).normal(size=400_000)
    error = 0.2 * np.sin(2 * x)
    bounds = lipschitz_moments(float((error**2).mean()), 0.4)
    for k, bound in enumerate(bounds, 1):
        assert (error ** (2 * k)).mean() <= bound * 1.001
    for variance in (0.5, 1.3):
        power = ((0.2 * np.sin(2 * x * math.sqrt(variance))) ** 2).mean()
        assert power <= encoder_power(bounds[0], 0.4, *2 * (np.array([variance]),))[0]


def test_what_estimates_do_to_the_regulator_is_below_the_shift():
    model, radius = Model(A, B, np.eye(2), W, R), 0.01
    lacks, bounds = riccati_shift(model, Radii(radius, radius))
    p, k = riccati(A, B, W, R)
    assert lacks == ""
    rng = np.random.default_rng(1)
    for _ in range(20):
        off = [rng.normal(size=part.shape) for part in (A, B)]
        a, b = (part + radius * one / np.linalg.norm(one, 2) for part, one in zip((A, B), off, strict=True))
        p_true, k_true = riccati(a, b, W, R)
        assert np.linalg.eigvalsh((1 + bounds["value_above"]) * p - p_true)[0] >= -1e-9
        assert np.linalg.eigvalsh((1 + bounds["value_below"]) * p_true - p)[0] >= -1e-9
        root = np.linalg.cholesky(R + b.T @ p_true @ b).T
        assert np.linalg.norm(root @ (k - k_true), 2) <= bounds["gain_shift"]
        assert np.linalg.norm(root @ k, 2) <= bounds["action_weight"]


def test_an_exact_encoder_costs_nothing_and_a_failed_condition_has_no_bound():
    model = Model(A, B, 0.1 * np.eye(2), W, R)
    assert regret_limit(model, Radii(), 0.0, 0.0).value == pytest.approx(0, abs=1e-12)
    for bad, words in ((Radii(a=1.0), "too uncertain"), (Radii(w=1.0), "positive definite")):
        limit = regret_limit(model, bad, 0.1, 0.1)
        assert limit.value == math.inf
        assert words in limit.lacks
    assert "small-gain" in regret_limit(model, Radii(), 0.1, 100.0).lacks
