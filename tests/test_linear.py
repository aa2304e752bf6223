"""Linear maps against scikit-learn and scipy, and the held-out R^2 against what it should not depend on."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score

from isojepa.linear import (
    Factor,
    halves,
    held_out_r2,
    least_squares,
    nearest_rotation,
    procrustes,
    spread,
    spread_of,
)


def problem(n=400, inputs=5, outputs=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, inputs)) * 2 + 1
    y = x @ rng.normal(size=(inputs, outputs)) + 3 + noise * rng.normal(size=(n, outputs))
    return x, y


@pytest.mark.parametrize(("n", "inputs", "outputs"), [(400, 5, 3), (30, 1, 1), (50, 20, 2)])
def test_least_squares_equals_scikit_learn(n, inputs, outputs):
    x, y = problem(n, inputs, outputs)
    fit, truth = least_squares(x, y), LinearRegression().fit(x, y)
    np.testing.assert_allclose(fit.matrix, truth.coef_.T, rtol=1e-8, atol=1e-10)
    new = problem(n, inputs, outputs, seed=1)[0]
    np.testing.assert_allclose(fit(new), truth.predict(new), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.01, 3.0])
def test_a_penalty_per_row_is_that_of_scikit_learn_on_standardised_columns(ridge):
    x, y = problem()
    x *= [1.0, 100.0, 0.01, 1.0, 1.0]
    fit, scale = least_squares(x, y, ridge=ridge), x.std(0)
    truth = Ridge(alpha=ridge * len(x)).fit((x - x.mean(0)) / scale, y)
    np.testing.assert_allclose(fit.matrix, truth.coef_.T / scale[:, None], rtol=1e-8)
    np.testing.assert_allclose(fit(x), truth.predict((x - x.mean(0)) / scale), rtol=1e-8, atol=1e-9)


def test_a_spread_that_is_float32_rounding_is_ignored_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    flat, up = rng.normal(size=(500, 2)).astype(np.float32), rng.normal(size=(2, 4)).astype(np.float32)
    x, y = flat @ up, (flat + 1e-3 * rng.normal(size=flat.shape)) @ up
    assert np.abs(least_squares(x, y).matrix).max() > 100
    fit = least_squares(x, y, rounding=1e-5)
    truth, *_ = np.linalg.lstsq((x - fit.center).astype(np.float64), y - fit.offset, rcond=1e-4)
    assert np.abs(fit.matrix).max() < 5
    np.testing.assert_allclose(fit(x), (x - fit.center) @ truth + fit.offset, atol=1e-5)


def test_procrustes_equals_scipy_on_centred_data():
    x, _ = problem(inputs=4)
    y = problem(inputs=4, outputs=4, seed=2)[1]
    fit = procrustes(x, y)
    truth, _ = scipy.linalg.orthogonal_procrustes(x - x.mean(0), y - y.mean(0))
    np.testing.assert_allclose(fit.matrix, truth, atol=1e-10)
    np.testing.assert_allclose(fit.matrix @ fit.matrix.T, np.eye(4), atol=1e-12)


def test_the_nearest_rotation_is_the_polar_factor_and_its_own_nearest():
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    q = nearest_rotation(matrix)
    assert np.allclose(q, scipy.linalg.polar(matrix)[0], atol=1e-12)
    assert np.allclose(nearest_rotation(q), q, atol=1e-12)


def test_held_out_r2_equals_scikit_learn_on_the_second_half():
    x, y = problem(n=101)
    fit, score = halves(101)
    assert (fit, score) == (slice(0, 50), slice(50, 101))
    truth = r2_score(y[50:], LinearRegression().fit(x[:50], y[:50]).predict(x[50:]))
    assert held_out_r2(x, y) == pytest.approx(truth, rel=1e-9)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    inputs=st.integers(1, 6),
    log_condition=st.floats(0, 3),
    log_scale=st.floats(-6, 6),
    shift=st.floats(-100, 100),
)
def test_held_out_r2_does_not_change_under_invertible_affine_maps_of_x(
    seed, inputs, log_condition, log_scale, shift
):
    x, y = problem(n=60, inputs=inputs, seed=seed)
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(inputs, inputs)))[0] for _ in range(2))
    matrix = left * np.logspace(0, log_condition, inputs) @ right * 10**log_scale
    before, after = held_out_r2(x, y), held_out_r2((x + shift) @ matrix, y)
    assert after == pytest.approx(before, abs=1e-7)


def test_a_collapsed_column_is_ignored():
    x, y = problem()
    truth = held_out_r2(x, y)
    for constant in (0.0, 1.0, 1 / 3, 1e8):
        column = np.full((len(x), 1), constant)
        assert held_out_r2(np.hstack((x, column)), y) == pytest.approx(truth, abs=1e-9)
        assert held_out_r2(np.hstack((column, x)), y) == pytest.approx(truth, abs=1e-9)
    # a column that only rounds: 0.1 + 0.2 - 0.3 and the like
    noise = 1 / 3 + 1e-16 * np.random.default_rng(0).normal(size=(len(x), 1))
    assert held_out_r2(np.hstack((x, noise)), y) == pytest.approx(truth, abs=1e-9)


def test_a_column_that_repeats_another_is_ignored():
    x, y = problem()
    assert held_out_r2(np.hstack((x, x[:, :2] * 7)), y) == pytest.approx(held_out_r2(x, y), abs=1e-8)


@pytest.mark.parametrize("n", [10, 101, 1001, 4000])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 0.7, 1e5 + 0.1])
def test_an_output_without_spread_scores_0(n, constant):
    # the mean of equal numbers need not round to that number
    x = np.random.default_rng(0).normal(size=(n, 3))
    assert held_out_r2(x, np.full((n, 2), constant)) == 0
    assert held_out_r2(x, np.asfortranarray(np.full((n, 2), constant))) == 0


def test_noise_in_1000_dimensions_explains_nothing_held_out():
    # for Gaussian noise the held-out R^2 has mean -p / (n - p - 1); in sample it would be p / (n - 1) = 0.4
    n, p = 2500, 1000
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2 * n, p)), rng.normal(size=(2 * n, 8))
    score = held_out_r2(x, y)
    assert score <= 0
    assert score == pytest.approx(-p / (n - p - 1), abs=0.08)


@pytest.mark.parametrize("n", [0, 3])
def test_too_few_samples_to_split_are_refused(n):
    with pytest.raises(ValueError, match=f"at least 4 samples are needed .*, got {n}"):
        held_out_r2(np.zeros((n, 2)), np.zeros((n, 2)))


def test_a_fit_in_pieces_equals_the_fit_to_all_rows_even_when_it_is_badly_conditioned():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 4)) + 1e3
    x[:, 3] = x[:, 2] + 1e-7 * rng.standard_normal(900)  # products of rows would lose this direction
    y = x @ rng.standard_normal((4, 2)) + 1e7 * (x[:, 3:] - x[:, 2:3]) * [1, -1]
    factor = Factor(x[:10].mean(0), y[:10].mean(0))
    for part in np.array_split(np.arange(900), 13):
        factor.add(x[part], y[part])
    forward, backward = factor.maps()
    assert forward(x) == pytest.approx(least_squares(x, y)(x), abs=1e-5)
    assert held_out_r2(x, y) == pytest.approx(1)
    assert 1 - ((forward(x) - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum() == pytest.approx(1, abs=1e-9)
    assert backward(y) == pytest.approx(least_squares(y, x)(y), abs=1e-5)
    assert factor.products() == pytest.approx((x - x.mean(0)).T @ (y - y.mean(0)), rel=1e-6, abs=1e-6)
    assert factor.n == 900


def test_variances_below_0_are_0_if_rounding_made_them_and_are_shown_if_not():
    assert spread_of(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]]))[0] == 0
    assert spread_of(np.diag([-0.1, 1.0]))[0] == pytest.approx(-0.1)
    assert spread_of(np.diag([0.0, 2.0, 3.0]), leading=2)[0] == pytest.approx(2)


def test_directions_that_few_rows_cannot_span_are_not_dead():
    source = np.random.default_rng(0)
    assert spread(source.normal(size=(50, 100)))[2] < 0.05
    half = np.concatenate((source.normal(size=(500, 10)), 1e-3 * source.normal(size=(500, 10))), 1)
    assert spread(half)[2] == 0.5
    assert spread(np.ones((9, 3)))[2] == 1.0
