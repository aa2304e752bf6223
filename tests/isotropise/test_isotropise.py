"""The knob: what it does, what it costs, and what it refuses."""

import json
import math

import numpy as np
import pytest
import torch

from isojepa.files import plain
from isojepa.isotropise.isotropise import clipped, isotropise
from isojepa.isotropise.weighing import principal_components
from isojepa.seeds import generator
from isojepa.worlds import OrnsteinUhlenbeck
from isojepa.worlds.goals import GoalReaching
from isojepa.worlds.trajectories import Recorded
from tests.reference.global_state import untouched


@pytest.fixture(scope="module")
def arm():
    return Recorded(GoalReaching().trajectory(200, 101, generator(0, "data")), stride=8)


@pytest.mark.parametrize("method", ["moments", "stride"])
def test_strength_zero_is_the_data_bit_for_bit(method, arm):
    found = isotropise(arm, 0.0, method, strides=[8, 16] if method == "stride" else None)
    for one, two in zip(
        found.recorded.sample(100, generator(3, "x")), arm.sample(100, generator(3, "x")), strict=True
    ):
        assert torch.equal(one, two)
    assert found.effect.before == found.effect.after


def test_rates_equalise_the_rates_and_cost_little(arm):
    effect = isotropise(arm, 1.0, "rates").effect
    assert effect.before.isotropy > 1.8
    assert effect.after.isotropy < 1.1
    assert effect.after.effective_pairs > 0.7 * arm.pairs
    assert effect.after.stationarity == 0


def test_moments_gaussianise_more_with_every_dose_and_cost_pairs(arm):
    effects = [isotropise(arm, strength, "moments", least=100).effect for strength in (0.25, 0.5, 0.75)]
    away = [effects[0].before.gaussianity, *(effect.after.gaussianity for effect in effects)]
    left = [effects[0].before.effective_pairs, *(effect.after.effective_pairs for effect in effects)]
    assert away == sorted(away, reverse=True)
    assert left == sorted(left, reverse=True)
    assert away[-1] < 0.3 * away[0]


def test_marginals_gaussianise_but_make_the_rates_worse(arm):
    effect = isotropise(arm, 0.5, "marginals").effect
    assert effect.after.gaussianity < 0.6 * effect.before.gaussianity
    assert effect.after.isotropy > effect.before.isotropy


def test_the_density_ratio_brings_the_pair_law_nearer(arm):
    effect = isotropise(arm, 0.5, "reweight").effect
    assert effect.after.transition < 0.5 * effect.before.transition


@pytest.mark.parametrize("method", ["rates", "moments", "marginals"])
def test_a_gaussian_world_is_left_as_it_is(method):
    recorded = Recorded(OrnsteinUhlenbeck(2, 0.9).trajectory(2000, 8, generator(0, "data")))
    effect = isotropise(recorded, 1.0, method).effect
    assert effect.after.effective_pairs > 0.95 * recorded.pairs
    assert effect.rho == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("method", ["moments", "reweight"])
def test_the_same_seed_gives_the_same_weights_and_touches_no_global_state(method):
    small = Recorded(GoalReaching(rest=30).trajectory(60, 60, generator(0, "data")), stride=4)
    with untouched():
        one = isotropise(small, 0.3, method, samples=1000, seed=7, least=50).recorded
    two = isotropise(small, 0.3, method, samples=1000, seed=7, least=50).recorded
    np.testing.assert_array_equal(one.weights, two.weights)
    other = isotropise(small, 0.3, method, samples=1000, seed=8, least=50).recorded
    assert not np.array_equal(one.weights, other.weights)


@pytest.mark.slow
def test_the_best_stride_of_a_process_with_noise_is_a_long_one():
    rng = np.random.default_rng(0)
    paths = OrnsteinUhlenbeck(2, 0.97).trajectory(400, 60, generator(0, "data")).numpy()
    bursts = rng.normal(size=paths.shape) * (rng.random(paths.shape) < 0.03)
    recorded = Recorded(paths + bursts)  # much at short strides, little at long ones
    found = isotropise(recorded, 1.0, "stride", strides=[1, 3, 16])
    assert found.effect.stride == (1, 16)
    assert found.recorded.stride == 16
    assert isotropise(recorded, 0.5, "stride", strides=[16]).recorded.stride == 4
    near = isotropise(recorded, 1.0, "stride", strides=[1, 4, 16], rho=0.87)
    assert near.recorded.stride == 4
    assert found.apply(recorded).stride == 16


def test_too_few_effective_pairs_name_a_strength_that_works(arm):
    with pytest.raises(ValueError, match=r"at least 5000 effective pairs, got \d+ of 18600 at 1") as error:
        isotropise(arm, 1.0, "moments", least=5000, samples=5000)
    works = float(str(error.value).rpartition("up to ")[2].split()[0])
    assert 0.05 < works < 0.9
    assert isotropise(arm, works, "moments", least=4500).effect.after.effective_pairs > 4500
    with pytest.raises(ValueError, match="no strength does: record more"):
        isotropise(arm, 1.0, "rates", least=1e6)


def test_held_out_paths_get_the_same_weights(arm):
    train, held_out = arm.split(0.3)
    found = isotropise(train, 1.0, "rates")
    np.testing.assert_allclose(found.apply(train).weights, found.recorded.weights)
    weighed = found.apply(held_out)
    slow, fast = weighed.correlation
    before = held_out.correlation
    assert math.log(fast) / math.log(slow) < 0.75 * math.log(before[1]) / math.log(before[0])
    # other units, same pairs: the weights are a function of the states themselves
    own = Recorded(train.states, stride=8, standardise=False)
    np.testing.assert_allclose(found.apply(own).weights, found.recorded.weights)


def test_weights_multiply_those_that_were_there(arm):
    base = np.random.default_rng(0).random(arm.pairs)
    base[:1000] = 0
    found = isotropise(arm.reweighted(base), 1.0, "rates")
    assert found.recorded.weights[:1000].sum() == 0
    assert found.effect.after.isotropy < 1.1


def test_a_linear_proxy_in_place_of_the_states_gives_the_same_weights():
    turn = np.array([[1.0, 0.5], [-0.3, 2.0]])
    states = GoalReaching().trajectory(100, 101, generator(0, "data")).numpy()
    seen = np.concatenate((states @ turn, states), 2)
    recorded = Recorded(states, seen, stride=8)
    direct = isotropise(recorded, 0.5, "rates")
    by_function = isotropise(recorded, 0.5, "rates", proxy=lambda x: x[:, :2])
    by_values = isotropise(recorded, 0.5, "rates", proxy=seen[..., :2])
    np.testing.assert_allclose(by_function.recorded.weights, by_values.recorded.weights, rtol=1e-3)
    np.testing.assert_allclose(direct.recorded.weights, by_values.recorded.weights, rtol=0.02)
    assert by_values.effect.of == "proxy"
    np.testing.assert_allclose(by_function.apply(recorded).weights, by_function.recorded.weights, rtol=1e-3)
    with pytest.raises(ValueError, match="must be a function of observations"):
        by_values.apply(recorded)
    components = principal_components(seen, 2)
    principal = isotropise(recorded, 0.5, "rates", proxy=components)
    assert principal.effect.after.isotropy < principal.effect.before.isotropy


def test_states_alone_are_taken_too():
    states = GoalReaching().trajectory(100, 80, generator(0, "data"))
    found = isotropise([states[:, i] for i in range(100)], 0.5, "rates", stride=8)
    assert found.recorded.stride == 8


def test_many_dimensions_work():
    rng = np.random.default_rng(0)
    paths = OrnsteinUhlenbeck(10, np.linspace(0.95, 0.85, 10)).trajectory(1500, 8, generator(0, "data"))
    effect = isotropise(paths, 0.7, "moments", samples=4000).effect
    assert effect.after.isotropy < effect.before.isotropy
    with pytest.raises(ValueError, match="at most 6 coordinates"):
        isotropise(paths, 0.5, "reweight")
    with pytest.raises(ValueError, match="vary in every direction"):
        isotropise(np.repeat(rng.normal(size=(20, 30, 1)), 2, 2))


def test_clipping_is_counted():
    weights, unclipped, cut = clipped(np.log([1.0, 1, 1, 97]), np.ones(4), 2.0)
    assert cut == 1
    assert unclipped == pytest.approx(100**2 / (97**2 + 3))
    assert weights.max() == 2.0
    np.testing.assert_allclose(weights[:3], 1 / 25)


def test_the_dose_is_told_in_words_and_as_json(arm):
    effect = isotropise(arm, 0.5, "rates").effect
    text = str(effect)
    assert "effective_pairs" in text
    assert "rates, strength 0.5" in text
    assert json.loads(json.dumps(plain(effect.to_dict())))["after"]["pairs"] == arm.pairs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": 1.2}, r"strength must lie in \[0, 1\], got 1.2"),
        ({"strength": math.nan}, "strength must lie in"),
        ({"method": "moment"}, "did you mean 'moments'"),
        ({"rho": 1.0}, "rho must lie in"),
        ({"scale": [0.5]}, r"scale must be 2 numbers in \(0, 1\]"),
        ({"clip": 0.5}, "clip must be above 1"),
        ({"samples": 5}, "samples must be an integer of at least 100"),
        ({"stride": 4}, r"recorded.strided\(4\)"),
        ({"strides": [1, 2]}, "candidates of the method 'stride'"),
        ({"proxy": np.zeros((5, 200, 2))}, "."),
        ({"proxy": lambda x: x}, "observations must be given"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(options, message, arm):
    with pytest.raises(ValueError, match=message):
        isotropise(arm, **options)


def test_pairs_that_do_not_persist_are_refused():
    noise = np.random.default_rng(0).normal(size=(30, 400, 2))
    noise[1::2] = -noise[::2]  # neighbours are opposite
    with pytest.raises(ValueError, match="change the stride"):
        isotropise(noise, 0.5, "rates")
    with pytest.raises(ValueError, match="one over which all directions persist"):
        isotropise(noise, 0.5, "stride", strides=[1])
