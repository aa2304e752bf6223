"""Maximum-entropy weights against closed forms and another solver."""

import numpy as np
import pytest
import scipy.optimize

from isojepa.isotropise.weighing import fit_tilt

RNG = np.random.default_rng(0)


def weights_of(tilt, features, base=None):
    logs = tilt.log_weights(features)
    weights = np.exp(logs - logs.max()) * (1 if base is None else base)
    return weights / weights.sum()


def test_a_shifted_gaussian_is_tilted_by_its_mean():
    z = np.random.default_rng(1).normal(size=(200_000, 1))
    tilt = fit_tilt(z, np.array([0.5]), ridge=0.0)
    assert tilt.coefficients[0] == pytest.approx(0.5, abs=0.01)  # N(0.5, 1) / N(0, 1) = exp(z / 2 - 1/8)


def test_a_narrower_gaussian_is_tilted_by_its_variance():
    z = np.random.default_rng(1).normal(size=(200_000, 1))
    tilt = fit_tilt(np.hstack((z, z**2)), np.array([0.0, 0.5]), ridge=0.0)
    np.testing.assert_allclose(tilt.coefficients, [0, -0.5], atol=0.01)


def test_the_means_are_met_and_the_entropy_is_the_largest():
    features = np.random.default_rng(2).normal(size=(60, 2))
    target = np.array([0.3, -0.2])
    weights = weights_of(fit_tilt(features, target, ridge=0.0), features)
    np.testing.assert_allclose(weights @ features, target, atol=1e-5)
    # the primal problem, by a solver that knows nothing of the dual
    primal = scipy.optimize.minimize(
        lambda w: w @ np.log(w),
        np.full(60, 1 / 60),
        jac=lambda w: np.log(w) + 1,
        bounds=[(1e-9, 1)] * 60,
        constraints=[
            {"type": "eq", "fun": lambda w: w @ features - target, "jac": lambda w: features.T},
            {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(60)},
        ],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )
    np.testing.assert_allclose(weights, primal.x, atol=1e-4)


def test_the_strength_moves_the_means_in_proportion():
    features = np.random.default_rng(3).exponential(size=(5000, 3)) * [1, 100, 1e-3]
    target = features.mean(0) * [1.2, 0.9, 1.1]
    base = np.random.default_rng(4).random(5000)
    start = base @ features / base.sum()
    for strength in (0.0, 0.3, 1.0):
        weights = weights_of(fit_tilt(features, target, base, strength, ridge=0.0), features, base)
        np.testing.assert_allclose(weights @ features, start + strength * (target - start), rtol=1e-4)
    np.testing.assert_array_equal(fit_tilt(features, target, base, 0.0).coefficients, 0)


def test_an_impossible_mean_is_missed_and_said_so():
    features = np.random.default_rng(5).random((1000, 1))
    assert fit_tilt(features, np.array([2.0])).missed > 1
    assert fit_tilt(features, np.array([0.6])).missed < 0.01


def test_constant_features_and_pairs_of_no_weight_are_left_alone():
    features = np.column_stack((np.ones(100), np.random.default_rng(6).normal(size=100)))
    base = np.r_[np.zeros(50), np.ones(50)]
    tilt = fit_tilt(features, np.array([5.0, 0.2]), base)
    assert tilt.coefficients[0] == 0
    weights = weights_of(tilt, features, base)
    assert weights[:50].sum() == 0
    assert weights @ features[:, 1] == pytest.approx(0.2, abs=1e-3)
