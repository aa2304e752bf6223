"""How linear is it, without labels: the answers, the refusals, and how often the intervals hold."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from isojepa.certificates.lags import measure_lags
from isojepa.io import to_jsonable
from tests.certificates.paths import ornstein_uhlenbeck, quadratic

RHO = 0.8
RATE = -math.log(RHO)


@pytest.fixture(scope="module")
def z():
    return ornstein_uhlenbeck(np.random.default_rng(0), 200, 500, 2, RHO)


@pytest.fixture(scope="module")
def linear(z):
    return measure_lags(z, draws=60)


def test_latents_themselves_are_linear(linear):
    assert linear.identifiable, linear.reasons
    assert linear.linear.high > 0.995
    assert linear.linear.low > 0.85
    assert linear.rate.low < RATE < linear.rate.high
    assert "This embedding is" in linear.sentence
    assert len(linear.rates) == 2
    for rate in linear.rates:
        assert rate.estimate == pytest.approx(RATE, rel=0.1)


def test_the_answer_knows_no_units_and_no_origin(z, linear):
    turned = measure_lags(1e3 * z @ np.array([[0.6, -0.8], [0.8, 0.6]]) + 1e4, draws=60)
    assert turned.linear.estimate == pytest.approx(linear.linear.estimate, abs=1e-3)
    assert turned.rate.estimate == pytest.approx(linear.rate.estimate, rel=1e-2)


def test_the_same_seed_gives_the_same_answer_and_tensors_serve(z, linear):
    assert measure_lags(torch.from_numpy(z), draws=60) == linear
    again = measure_lags(z, draws=60, seed=1)
    assert again.linear.estimate == pytest.approx(linear.linear.estimate, abs=0.01)
    assert again.linear != linear.linear


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_known_rate_gives_the_share_of_degree_two(z, share):
    found = measure_lags(quadratic(z, share), rate=RATE, draws=60)
    assert found.identifiable, found.reasons
    assert found.linear.low - 0.01 < 1 - share < found.linear.high + 0.01
    assert found.linear.high - found.linear.low < 0.2
    assert found.rate_known


def test_degree_two_alone_is_refused_by_its_marginals_and_recognised_at_a_known_rate(z):
    unknown = measure_lags(quadratic(z, 1.0), draws=60)
    assert not unknown.identifiable
    assert any("not Gaussian" in reason for reason in unknown.reasons)
    known = measure_lags(quadratic(z, 1.0), rate=RATE, draws=60)
    assert known.identifiable, known.reasons
    assert known.linear.high < 0.15
    assert known.shares[1].estimate > 0.8


@pytest.mark.parametrize("count", [2, 10, 20])
def test_sums_of_products_do_not_pass_for_linear(count):
    # purely quadratic, of one exponential and, when they are many, of marginals that no test rejects
    rng = np.random.default_rng(7)
    pairs = [ornstein_uhlenbeck(rng, 120, 200, 4, 0.8) for _ in range(count)]
    h = sum(z[..., :2] * z[..., 2:] for z in pairs) / math.sqrt(count)
    fooled = measure_lags(h, draws=40)
    assert not fooled.identifiable
    assert fooled.linear.low == 0
    known = measure_lags(h, rate=-math.log(0.8), draws=40)
    assert known.identifiable, known.reasons
    assert known.linear.high < 0.2


def test_a_convention_is_no_answer(z):
    # 1.3 % linear; to call the slowest function half linear by convention gave intervals around 0.5
    found = measure_lags(np.cos(2 * z + 0.3), draws=40)
    assert not found.identifiable
    assert (found.linear.low, found.linear.high) == (0, 1)


def test_a_rate_that_makes_squares_linear_is_refused_by_their_marginals(z):
    found = measure_lags(quadratic(z, 1.0), rate=2 * RATE, draws=40)
    assert not found.identifiable
    assert any("marginals are not Gaussian" in reason for reason in found.reasons)


def test_observation_noise_is_a_share_of_its_own():
    rng = np.random.default_rng(1)
    noisy = ornstein_uhlenbeck(rng, 200, 300, 2, 0.9) + 0.5 * rng.standard_normal((200, 300, 2))
    found = measure_lags(noisy, rate=-math.log(0.9), draws=60)
    assert found.noise.estimate == pytest.approx(0.2, abs=0.04)
    assert found.linear.low - 0.01 < 0.8 < found.linear.high + 0.01
    assert any("cannot" in notice or "no curve" in notice for notice in found.notices)


def test_unequal_rates_are_refused():
    rng = np.random.default_rng(2)
    for slow, fast in ((0.95, 0.95**2), (0.95, 0.95**3)):
        found = measure_lags(ornstein_uhlenbeck(rng, 300, 200, 2, (slow, fast)), draws=60)
        assert not found.identifiable
        assert any("unequal rates" in reason for reason in found.reasons), found.reasons
        ratio = found.rates[1].estimate / found.rates[0].estimate
        assert ratio == pytest.approx(math.log(fast) / math.log(slow), rel=0.15)


def test_a_rotating_world_is_refused():
    rng = np.random.default_rng(3)
    turn = 0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    h = np.empty((200, 100, 2))
    h[0] = rng.standard_normal((100, 2))
    for t in range(1, 200):
        h[t] = h[t - 1] @ turn.T + math.sqrt(1 - 0.95**2) * rng.standard_normal((100, 2))
    found = measure_lags(h, draws=40)
    assert not found.identifiable
    assert any("Time has a direction" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one lag", "at least 3 lags, got 1"),
        ("white", "more densely"),
        ("short path", "independent pieces"),
        ("short paths", "only fallen to"),
        ("constants per path", "only fallen to"),
        ("few", "too wide"),
        ("too few for the law", "record about"),
    ],
)
def test_what_cannot_be_told_is_refused_with_advice(z, name, message):
    rng = np.random.default_rng(4)
    h, options = {
        "one lag": (z, {"lags": [1]}),
        "white": (rng.standard_normal((50, 50, 2)), {}),
        "short path": (ornstein_uhlenbeck(rng, 150, 1, 2, 0.95)[:, 0], {}),
        "short paths": (ornstein_uhlenbeck(rng, 8, 400, 2, 0.98), {}),
        "constants per path": (z + 5 * rng.standard_normal((1, 500, 2)), {}),
        "few": (quadratic(ornstein_uhlenbeck(rng, 60, 40, 2, 0.9), 0.3), {"rate": -math.log(0.9)}),
        "too few for the law": (ornstein_uhlenbeck(rng, 60, 60, 2, 0.9), {}),
    }[name]
    found = measure_lags(h, draws=40, **options)
    assert not found.identifiable
    assert any(message in reason for reason in found.reasons), found.reasons
    assert "cannot be told" in found.sentence
    json.dumps(to_jsonable(dataclasses.asdict(found)), allow_nan=False)


def test_a_wrong_rate_is_refused(z):
    found = measure_lags(z, rate=3 * RATE, draws=40)
    assert not found.identifiable
    assert any("rate that was given is wrong" in reason for reason in found.reasons)


def test_one_long_path_serves():
    h = ornstein_uhlenbeck(np.random.default_rng(5), 25_000, 1, 2, 0.8)[:, 0]
    found = measure_lags(h, rate=-math.log(0.8), draws=60)
    assert found.identifiable, found.reasons
    assert found.linear.low > 0.9
    assert (found.steps, found.paths, found.dim) == (25_000, 1, 2)


def test_constant_and_repeated_dimensions_do_no_harm(z, linear):
    padded = np.concatenate((z, np.full((*z.shape[:2], 1), 3.0)), -1)
    found = measure_lags(padded, draws=60)
    assert found.identifiable, found.reasons
    assert found.linear.estimate == pytest.approx(linear.linear.estimate, abs=0.03)


def test_lags_can_be_chosen(z):
    found = measure_lags(z, lags=[2, 4, 8, 16], draws=40)
    assert found.lags == (2, 4, 8, 16)
    assert found.curve[0].low - 0.01 < RHO**2 < found.curve[0].high + 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate must be positive and finite"),
        ({"degree": 0}, "degree must be an integer from 1 to 20, got 0"),
        ({"confidence": 95}, r"confidence must lie in \(0, 1\), got 95"),
        ({"draws": 3}, "draws must be an integer of at least 20, got 3"),
        ({"lags": [0, 1]}, "lags must lie from 1 to 199"),
        ({"lags": [1.5]}, "lags must be whole numbers"),
    ],
    ids=["zero", "degree", "confidence", "draws", "lag0", "lag1.5"],
)
def test_bad_options_are_named(z, options, message):
    with pytest.raises(ValueError, match=message):
        measure_lags(z, **options)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.03, 0.2, 0.7])
def test_intervals_of_a_known_rate_hold_the_truth_as_often_as_they_say(share):
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        h = quadratic(ornstein_uhlenbeck(rng, 100, 150, 2, RHO), share)
        found = measure_lags(h, rate=RATE, draws=60)
        held += found.linear.low - 1e-3 <= 1 - share <= found.linear.high + 1e-3
    assert held >= 186  # of 200


@pytest.mark.slow
def test_linear_embeddings_are_answered_without_the_rate_and_rightly():
    rng = np.random.default_rng(8)
    found = [measure_lags(ornstein_uhlenbeck(rng, 150, 250, 4, RHO), draws=60) for _ in range(30)]
    answered = [one for one in found if one.identifiable]
    assert len(answered) >= 20
    assert sum(one.linear.high >= 0.999 for one in answered) >= len(answered) - 2
