"""The linear share without labels: answers, refusals, parts against closed forms, and coverage."""

import dataclasses
import json
import math

import numpy as np
import pytest
import scipy
import torch

from isojepa.certificates import decay
from isojepa.certificates.decay import measure_decay
from isojepa.io import to_jsonable
from isojepa.seeds import generator
from tests.certificates.paths import ornstein_uhlenbeck, quadratic

RHO = 0.8
RATE = -math.log(RHO)
LAGS = np.array([1, 2, 3, 4, 6, 8])


@pytest.fixture(scope="module")
def z():
    return ornstein_uhlenbeck(np.random.default_rng(0), 200, 500, 2, RHO)


@pytest.fixture(scope="module")
def linear(z):
    return measure_decay(z, draws=60)


def test_latents_themselves_are_linear(linear):
    assert linear.identifiable, linear.reasons
    assert linear.linear.high > 0.995
    assert linear.linear.low > 0.85
    assert linear.rate.low < RATE < linear.rate.high
    assert linear.ruled_out > 64
    assert [rate.estimate for rate in linear.rates] == pytest.approx([RATE, RATE], rel=0.1)


@pytest.mark.parametrize("scale", [1e3, 1e-100])
def test_the_answer_is_free_of_units_origin_and_rotation(z, linear, scale):
    rotated = measure_decay(scale * (z @ np.array([[0.6, -0.8], [0.8, 0.6]]) + 1e4), draws=60)
    assert rotated.linear.estimate == pytest.approx(linear.linear.estimate, abs=1e-3)
    assert rotated.rate.estimate == pytest.approx(linear.rate.estimate, rel=1e-2)


def test_the_same_seed_gives_the_same_answer_and_tensors_serve(z, linear):
    assert measure_decay(torch.from_numpy(z), draws=60) == linear
    again = measure_decay(z.astype(np.float32), draws=60, seed=1)
    assert again.linear.estimate == pytest.approx(linear.linear.estimate, abs=0.01)
    assert again.linear != linear.linear


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_known_rate_gives_the_share_of_degree_two(z, share):
    spectrum = measure_decay(quadratic(z, share), rate=RATE, draws=60)
    assert spectrum.identifiable, spectrum.reasons
    assert spectrum.linear.low - 0.01 < 1 - share < spectrum.linear.high + 0.01
    assert spectrum.linear.high - spectrum.linear.low < 0.2


@pytest.mark.parametrize("count", [2, 20])
def test_sums_of_products_do_not_pass_for_linear(count):
    # purely quadratic, of one exponential and, when they are many, of marginals that no test rejects
    rng = np.random.default_rng(7)
    pairs = [ornstein_uhlenbeck(rng, 120, 200, 4, 0.8) for _ in range(count)]
    h = sum(z[..., :2] * z[..., 2:] for z in pairs) / math.sqrt(count)
    unknown = measure_decay(h, draws=40)
    assert not unknown.identifiable
    assert unknown.linear.low == 0
    rate_known = measure_decay(h, rate=-math.log(0.8), draws=40)
    assert rate_known.identifiable, rate_known.reasons
    assert rate_known.linear.high < 0.2
    assert rate_known.shares[1].estimate > 0.8


def test_a_rate_that_makes_squares_linear_contradicts_their_marginals(z):
    spectrum = measure_decay(quadratic(z, 1.0), rate=2 * RATE, draws=40)
    assert not spectrum.identifiable
    assert any("marginals are not Gaussian" in reason for reason in spectrum.reasons)


def test_observation_noise_is_a_share_of_its_own():
    rng = np.random.default_rng(1)
    noisy = ornstein_uhlenbeck(rng, 200, 300, 2, 0.9) + 0.5 * rng.standard_normal((200, 300, 2))
    spectrum = measure_decay(noisy, rate=-math.log(0.9), draws=60)
    assert spectrum.noise.estimate == pytest.approx(0.2, abs=0.04)
    assert spectrum.linear.low - 0.01 < 0.8 < spectrum.linear.high + 0.01
    assert spectrum.notices


def rotating(rng, steps, paths, angle):
    turn = 0.9 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    z = np.empty((steps, paths, 2))
    z[0] = rng.standard_normal((paths, 2))
    for t in range(1, steps):
        z[t] = z[t - 1] @ turn.T + math.sqrt(1 - 0.81) * rng.standard_normal((paths, 2))
    return z


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("squares", "not Gaussian along the paths"),
        ("forced Gaussian", "not Gaussian along the paths"),
        ("cosine", "not Gaussian along the paths"),
        ("unequal", "unequal rates"),
        ("rotating", "Time has a direction"),
        ("growing", "variance change along the paths"),
        ("white", "more densely"),
        ("short path", "independent pieces"),
        ("short paths", "only fallen to"),
        ("constants per path", "only fallen to"),
        ("few", "too wide"),
        ("too few for the rate", "record about"),
        ("wrong rate", "rate that was given is wrong"),
    ],
)
def test_what_cannot_be_identified_is_refused_with_advice(z, name, message):
    rng = np.random.default_rng(4)
    h, options = {
        "squares": (quadratic(z, 1.0), {}),
        "forced Gaussian": (scipy.special.ndtri(scipy.special.erf(np.abs(z) / math.sqrt(2))), {}),
        "cosine": (np.cos(2 * z + 0.3), {}),
        "unequal": (ornstein_uhlenbeck(rng, 300, 200, 2, (0.95, 0.95**2)), {}),
        "rotating": (rotating(rng, 200, 100, 0.3), {}),
        "growing": (z * np.linspace(0.3, 1.5, 200)[:, None, None], {}),
        "white": (rng.standard_normal((50, 50, 2)), {}),
        "short path": (ornstein_uhlenbeck(rng, 150, 1, 2, 0.95)[:, 0], {}),
        "short paths": (ornstein_uhlenbeck(rng, 8, 400, 2, 0.98), {}),
        "constants per path": (z + 5 * rng.standard_normal((1, 500, 2)), {}),
        "few": (quadratic(ornstein_uhlenbeck(rng, 60, 40, 2, 0.9), 0.3), {"rate": -math.log(0.9)}),
        "too few for the rate": (ornstein_uhlenbeck(rng, 60, 60, 2, 0.9), {}),
        "wrong rate": (z, {"rate": 3 * RATE}),
    }[name]
    spectrum = measure_decay(h, draws=40, **options)
    assert not spectrum.identifiable
    assert any(message in reason for reason in spectrum.reasons), spectrum.reasons
    json.dumps(to_jsonable(dataclasses.asdict(spectrum)), allow_nan=False)


def test_one_long_path_serves():
    h = ornstein_uhlenbeck(np.random.default_rng(5), 25_000, 1, 2, 0.8)[:, 0]
    spectrum = measure_decay(h, rate=-math.log(0.8), draws=60)
    assert spectrum.identifiable, spectrum.reasons
    assert spectrum.linear.low > 0.9
    assert (spectrum.steps, spectrum.paths, spectrum.dim) == (25_000, 1, 2)


def test_a_constant_dimension_does_no_harm(z, linear):
    padded = np.concatenate((z, np.full((*z.shape[:2], 1), 3.0)), -1)
    spectrum = measure_decay(padded, draws=60)
    assert spectrum.identifiable, spectrum.reasons
    assert spectrum.linear.estimate == pytest.approx(linear.linear.estimate, abs=0.03)


@pytest.mark.parametrize(
    ("h", "options", "message"),
    [
        (None, {"rate": 0.0}, "rate must be positive and finite"),
        (None, {"degree": 0}, "degree must be an integer from 1 to 20, got 0"),
        (None, {"confidence": 95}, r"confidence must lie in \(0, 1\), got 95"),
        (None, {"draws": 3}, "draws must be an integer of at least 20, got 3"),
        (np.zeros(5), {}, r"must be \(steps, paths, dim\), got shape"),
        (np.full((100, 2), 3.3), {}, "must vary, got a constant"),
        (np.full((100, 2), np.nan), {}, "must be finite, got NaN or Inf in 100 of 100"),
        (np.zeros((10, 2)), {}, "at least 20 paths of 2 steps, or 64 steps, got 1 paths of 10 steps"),
    ],
    ids=["rate", "degree", "confidence", "draws", "axes", "constant", "nan", "short"],
)
def test_bad_arguments_are_named(z, h, options, message):
    with pytest.raises(ValueError, match=message):
        measure_decay(z if h is None else h, **options)


@pytest.mark.parametrize(("paths", "steps"), [(60, 50), (1, 3000)], ids=["paths", "blocks"])
def test_bootstrap_curves_spread_as_repeated_ones_do_about_the_truth(paths, steps):
    rng = np.random.default_rng(2)
    lags, values, spread = np.array([1, 4, 8]), [], []
    for h in np.split(ornstein_uhlenbeck(rng, steps, 80 * paths, 1, 0.85), 80, axis=1):
        curves = decay._measure_curves([decay._trajectories(7 + h)], lags, 60, generator(0, "test"))
        values.append(curves.values[0])
        spread.append(curves.draws[:, 0].std(0))
    error = np.std(values, 0)
    assert (np.abs(np.mean(values, 0) - 0.85**lags) < 5 * error / math.sqrt(80) + 0.006).all()
    np.testing.assert_allclose(np.mean(spread, 0) / error, 1, atol=0.3)


def test_slow_functions_are_found_and_their_slowness_is_not_inflated():
    rng = np.random.default_rng(4)
    z = ornstein_uhlenbeck(rng, 100, 200, 3, (0.95, 0.8, 0.5))
    y = decay._slow_functions(z @ rng.standard_normal((3, 3)), 5, 3)
    for index, half in ((i, s) for i in range(3) for s in (np.s_[:100], np.s_[100:])):
        assert abs(np.corrcoef(y[:, half, index].ravel(), z[:, half, index].ravel())[0, 1]) > 0.97
    equal = np.split(ornstein_uhlenbeck(rng, 30, 1600, 6, 0.8), 40, axis=1)
    first = [decay._correlation(decay._slow_functions(h, 3, 6)[..., :1], 3) for h in equal]
    assert abs(np.mean(first) - 0.8**3) < 4 * np.std(first) / math.sqrt(40) + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_shares_equal_another_constrained_solver(seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0.2, 2, 9)
    basis = np.exp(-np.outer(t, [1, 2, 3, 5]))
    curve = basis @ rng.dirichlet(np.ones(4)) + 0.01 * rng.standard_normal(9)
    root = rng.standard_normal((9, 9)) / 3 + np.eye(9)
    for first in (None, 0.3):
        shares, misfit = decay._fit(basis, curve, root, first)
        other = scipy.optimize.minimize(
            lambda s: ((root @ (basis @ s - curve)) ** 2).sum(),
            np.full(4, 0.25),
            bounds=[(0, 1) if first is None else (first, first), *[(0, 1)] * 3],
            constraints={"type": "eq", "fun": lambda s: s.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert misfit[0] <= other.fun * (1 + 1e-6) + 1e-9
        np.testing.assert_allclose(shares[0], other.x, atol=2e-3)


def test_w_of_known_distributions():
    z = np.random.default_rng(0).standard_normal((400_000, 2))
    w = decay._quantile_correlation(np.c_[z[:, 0], z[:, 0] ** 2, z[:, 0] * z[:, 1], np.full(400_000, 0.3)])
    # exact for a quantile function q: (integral of q(u) normal quantile(u))^2 / variance
    np.testing.assert_allclose(w, [1, 0.70, 0.90, 1], atol=0.02)


def departures(y):
    blocks = decay._departures((y - y.mean((0, 1))) / y.std((0, 1)), 2)
    means = blocks.mean((0, 2))
    return means, blocks.mean(2).std(0) / math.sqrt(len(blocks))


def test_sums_of_products_have_the_kurtosis_that_they_must_by_itself_and_across_a_lag():
    rng = np.random.default_rng(3)
    for count in (1, 4):
        pairs = [ornstein_uhlenbeck(rng, 150, 200, 4, 0.8) for _ in range(count)]
        means, errors = departures(sum(z[..., :2] * z[..., 2:] for z in pairs))
        assert abs(means[0] - 6 / count) < 5 * errors[0]
        assert abs(means[1] - 6 / count) < 5 * errors[1] + 0.1
    means, errors = departures(ornstein_uhlenbeck(rng, 150, 200, 4, 0.8))
    assert (np.abs(means) < 5 * errors).all()


@pytest.mark.parametrize(("steps", "paths"), [(9, 20), (40, 2), (64, 4), (10, 6)])
def test_few_and_short_paths_rule_nothing_out_and_break_nothing(steps, paths):
    y = ornstein_uhlenbeck(np.random.default_rng(9), steps, paths, 2, 0.8)
    y = (y - y.mean((0, 1))) / y.std((0, 1))
    latents, _, _, _ = decay._rule_out_quadratic(y, decay._slow_functions(y, 4, 2), LAGS, 4, 0.95)
    assert latents < 64


def test_stationary_reversible_paths_are_seldom_called_otherwise():
    rng = np.random.default_rng(5)
    paths = [ornstein_uhlenbeck(rng, 60, 20, 2, 0.9) for _ in range(60)]
    assert sum(bool(decay._check_stationary(h, 7)) for h in paths) <= 2
    assert sum(bool(decay._check_reversible(h, 7)) for h in paths) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.03, 0.2, 0.7])
def test_intervals_of_a_known_rate_hold_the_truth_as_often_as_they_say(share):
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        h = quadratic(ornstein_uhlenbeck(rng, 100, 150, 2, RHO), share)
        interval = measure_decay(h, rate=RATE, draws=60).linear
        held += interval.low - 1e-3 <= 1 - share <= interval.high + 1e-3
    assert held >= 186  # of 200


@pytest.mark.slow
def test_linear_embeddings_are_answered_without_the_rate_and_rightly():
    rng = np.random.default_rng(8)
    spectra = [measure_decay(ornstein_uhlenbeck(rng, 150, 250, 4, RHO), draws=60) for _ in range(30)]
    answers = [one for one in spectra if one.identifiable]
    assert len(answers) >= 20
    assert sum(one.linear.high >= 0.999 for one in answers) >= len(answers) - 2
