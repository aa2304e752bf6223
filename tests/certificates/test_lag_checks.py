"""When a curve must not be read as degrees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isojepa.certificates.lag_checks import (
    Marginals,
    check_marginals,
    check_reversible,
    check_stationary,
    measure_marginals,
    quantile_correlation,
)
from tests.certificates.paths import ornstein_uhlenbeck


def test_quantile_correlations_of_known_laws():
    z = np.random.default_rng(0).standard_normal((400_000, 2))
    found = quantile_correlation(np.c_[z[:, 0], z[:, 0] ** 2, z[:, 0] * z[:, 1], np.full(400_000, 0.3)])
    # the exact value for a law of quantile function q is (integral of q(u) normal quantile(u))^2 / variance
    assert found[0] == pytest.approx(1, abs=1e-3)
    assert found[1] == pytest.approx(0.70, abs=0.02)
    assert found[2] == pytest.approx(0.90, abs=0.02)
    assert found[3] == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6).filter(lambda c: abs(c[0]) + abs(c[1]) > 0.1))
def test_no_function_is_more_linear_than_its_marginal_allows(c):
    z = np.random.default_rng(1).standard_normal((20_000, 2))
    parts = [z[:, 0], z[:, 0] ** 2 - 1, z[:, 1] * z[:, 0], np.tanh(3 * z[:, 0]), z[:, 1], np.sin(2 * z[:, 1])]
    y = sum(a * part for a, part in zip(c, parts, strict=True))
    y = y - y.mean()
    if y.var() < 1e-6:
        return
    linear = ((y @ z / len(z)) ** 2).sum() / y.var()
    assert linear <= quantile_correlation(y[:, None])[0] + 0.02


def test_marginals_of_gaussians_allow_everything_and_those_of_squares_do_not():
    z = ornstein_uhlenbeck(np.random.default_rng(2), 100, 100, 2, 0.9)
    found = measure_marginals(z, z, 7, 0)
    assert found.ceiling > 0.99
    assert found.p > 0.01
    assert check_marginals(found, 0.98) == []
    squares = measure_marginals(z**2 - 1, z**2 - 1, 7, 0)
    assert squares.ceiling < 0.75
    assert squares.p < 0.01
    assert "degree 2 alone" in check_marginals(squares, 0.95)[0]
    assert check_marginals(squares, 0.6) == []


def test_no_claim_passes_that_the_marginals_reject():
    slight = Marginals(ceiling=0.975, slowest=0.975, p=0.004, samples=1000)
    assert "at most 97.5 %" in check_marginals(slight, 1.0)[0]
    assert check_marginals(slight, 0.97) == []
    few = Marginals(ceiling=0.975, slowest=0.975, p=0.3, samples=100)  # W of a hundred Gaussians does that
    assert check_marginals(few, 1.0) == []


def rotating(rng, steps, paths, angle):
    turn = 0.9 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    z = np.empty((steps, paths, 2))
    z[0] = rng.standard_normal((paths, 2))
    for t in range(1, steps):
        z[t] = z[t - 1] @ turn.T + np.sqrt(1 - 0.81) * rng.standard_normal((paths, 2))
    return z


@pytest.mark.parametrize(("paths", "steps"), [(60, 100), (2, 3000)], ids=["paths", "blocks"])
def test_a_rotating_world_has_a_direction_of_time_and_a_reversible_one_has_none(paths, steps):
    rng = np.random.default_rng(3)
    assert "Time has a direction" in check_reversible(rotating(rng, steps, paths, 0.1), 5)[0]
    for _ in range(10):
        assert check_reversible(rotating(rng, steps, paths, 0.0), 5) == []


def test_a_start_away_from_equilibrium_is_seen():
    rng = np.random.default_rng(4)
    z = ornstein_uhlenbeck(rng, 100, 200, 2, 0.9)
    assert check_stationary(z, 7) == []
    growing = z * np.linspace(0.3, 1.5, 100)[:, None, None]
    assert "variance" in check_stationary(growing, 7)[0]
    drifting = z + np.linspace(-1.5, 1.5, 100)[:, None, None]
    assert check_stationary(drifting - drifting.mean((0, 1)), 7)


def test_stationary_paths_are_seldom_called_drifting():
    rng = np.random.default_rng(5)
    found = [check_stationary(ornstein_uhlenbeck(rng, 60, 20, 1, 0.9), 7) for _ in range(100)]
    assert sum(map(bool, found)) <= 3
