"""Reweighting of recorded pairs: measures, weights, their effect, proxies for latents."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from scipy.integrate import quad
from sklearn.decomposition import PCA

from isojepa.data import OrnsteinUhlenbeck, reweighting
from isojepa.data.processes import GoalReaching
from isojepa.data.reweighting import (
    PairSample,
    TargetFrame,
    effective,
    fit_tilt,
    isotropize,
    marginals,
    measure_pairs,
    principal_components,
    project,
    reweight,
    turn,
)
from isojepa.data.trajectories import Recorded
from isojepa.seeds import generator


@pytest.fixture(scope="module")
def arm():
    return Recorded(GoalReaching().trajectory(200, 101, generator(0, "data")), stride=8)


@pytest.mark.parametrize("method", ["moments", "stride"])
def test_strength_zero_is_the_data_bit_for_bit(method, arm):
    found = isotropize(arm, 0.0, method, strides=[8, 16] if method == "stride" else None)
    for one, two in zip(
        found.recorded.sample(100, generator(3, "x")), arm.sample(100, generator(3, "x")), strict=True
    ):
        assert torch.equal(one, two)
    assert found.effect.before == found.effect.after


def test_rates_equalise_the_rates_and_cost_little(arm):
    effect = isotropize(arm, 1.0, "rates").effect
    assert effect.before.isotropy > 1.8
    assert effect.after.isotropy < 1.1
    assert effect.after.effective_pairs > 0.7 * arm.pairs
    assert effect.after.stationarity == 0


def test_moments_gaussianise_more_with_every_dose_and_cost_pairs(arm):
    effects = [isotropize(arm, strength, "moments", least=100).effect for strength in (0.25, 0.5, 0.75)]
    away = [effects[0].before.gaussianity, *(effect.after.gaussianity for effect in effects)]
    pairs = [effects[0].before.effective_pairs, *(effect.after.effective_pairs for effect in effects)]
    assert away == sorted(away, reverse=True)
    assert pairs == sorted(pairs, reverse=True)
    assert away[-1] < 0.3 * away[0]


def test_the_density_ratio_brings_the_pair_law_nearer(arm):
    effect = isotropize(arm, 0.5, "reweight").effect
    assert effect.after.transition < 0.5 * effect.before.transition


@pytest.mark.parametrize("method", ["rates", "moments", "marginals"])
def test_a_gaussian_world_is_left_as_it_is(method):
    recorded = Recorded(OrnsteinUhlenbeck(2, 0.9).trajectory(2000, 8, generator(0, "data")))
    effect = isotropize(recorded, 1.0, method).effect
    assert effect.after.effective_pairs > 0.95 * recorded.pairs
    assert effect.rho == pytest.approx(0.9, abs=0.02)


@pytest.mark.slow
def test_the_best_stride_of_a_process_with_noise_is_a_long_one():
    rng = np.random.default_rng(0)
    paths = OrnsteinUhlenbeck(2, 0.97).trajectory(400, 60, generator(0, "data")).numpy()
    bursts = rng.normal(size=paths.shape) * (rng.random(paths.shape) < 0.03)
    recorded = Recorded(paths + bursts)  # much at short strides, little at long ones
    found = isotropize(recorded, 1.0, "stride", strides=[1, 3, 16])
    assert found.effect.stride == (1, 16)
    assert found.recorded.stride == 16
    assert isotropize(recorded, 0.5, "stride", strides=[16]).recorded.stride == 4
    near = isotropize(recorded, 1.0, "stride", strides=[1, 4, 16], rho=0.87)
    assert near.recorded.stride == 4
    assert found.apply(recorded).stride == 16


def test_too_few_effective_pairs_name_a_strength_that_works(arm):
    with pytest.raises(ValueError, match=r"at least 5000 effective pairs, got \d+ of 18600 at 1") as error:
        isotropize(arm, 1.0, "moments", least=5000, samples=5000)
    works = float(str(error.value).rpartition("up to ")[2].split()[0])
    assert 0.05 < works < 0.9
    assert isotropize(arm, works, "moments", least=4500).effect.after.effective_pairs > 4500
    with pytest.raises(ValueError, match="no strength does: collect more data"):
        isotropize(arm, 1.0, "rates", least=1e6)


def test_held_out_paths_get_the_same_weights(arm):
    train, held_out = arm.split(0.3)
    found = isotropize(train, 1.0, "rates")
    np.testing.assert_allclose(found.apply(train).weights, found.recorded.weights)
    weighed = found.apply(held_out)
    slow, fast = weighed.correlation
    before = held_out.correlation
    assert math.log(fast) / math.log(slow) < 0.75 * math.log(before[1]) / math.log(before[0])
    # other units, same pairs: the weights are a function of the states themselves
    own = Recorded(train.states, stride=8, standardize=False)
    np.testing.assert_allclose(found.apply(own).weights, found.recorded.weights)


def test_a_linear_proxy_in_place_of_the_states_gives_the_same_weights():
    turn = np.array([[1.0, 0.5], [-0.3, 2.0]])
    states = GoalReaching().trajectory(100, 101, generator(0, "data")).numpy()
    seen = np.concatenate((states @ turn, states), 2)
    recorded = Recorded(states, seen, stride=8)
    direct = isotropize(recorded, 0.5, "rates")
    by_function = isotropize(recorded, 0.5, "rates", proxy=lambda x: x[:, :2])
    by_values = isotropize(recorded, 0.5, "rates", proxy=seen[..., :2])
    np.testing.assert_allclose(by_function.recorded.weights, by_values.recorded.weights, rtol=1e-3)
    np.testing.assert_allclose(direct.recorded.weights, by_values.recorded.weights, rtol=0.02)
    assert by_values.effect.of == "proxy"
    np.testing.assert_allclose(by_function.apply(recorded).weights, by_function.recorded.weights, rtol=1e-3)
    with pytest.raises(ValueError, match="must be a function of observations"):
        by_values.apply(recorded)
    components = principal_components(seen, 2)
    principal = isotropize(recorded, 0.5, "rates", proxy=components)
    assert principal.effect.after.isotropy < principal.effect.before.isotropy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": 1.2}, r"strength must lie in \[0, 1\], got 1.2"),
        ({"method": "moment"}, "did you mean 'moments'"),
        ({"rho": 1.0}, "rho must lie in"),
        ({"scale": [0.5]}, r"scale must be 2 numbers in \(0, 1\]"),
        ({"clip": 0.5}, "clip must be above 1"),
        ({"stride": 4}, r"recorded.strided\(4\)"),
        ({"strides": [1, 2]}, "candidates of the method 'stride'"),
        ({"proxy": lambda x: x}, "observations must be given"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(options, message, arm):
    with pytest.raises(ValueError, match=message):
        isotropize(arm, **options)


def test_pairs_that_do_not_persist_are_refused():
    noise = np.random.default_rng(0).normal(size=(30, 400, 2))
    noise[1::2] = -noise[::2]  # neighbors are opposite
    with pytest.raises(ValueError, match="change the stride"):
        isotropize(noise, 0.5, "rates")
    with pytest.raises(ValueError, match="one over which all directions persist"):
        isotropize(noise, 0.5, "stride", strides=[1])


def ou(rho, paths=3000, steps=5, dim=2):
    return OrnsteinUhlenbeck(dim, rho).trajectory(paths, steps, generator(0, "data"))


def test_the_gaussian_process_is_at_distance_zero():
    law = measure_pairs(Recorded(ou(0.9)))
    assert abs(law.gaussianity) < 3e-4
    assert abs(law.transition) < 3e-4
    assert abs(law.stationarity) < 3e-4
    assert law.isotropy == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(law.rho, 0.9, atol=0.02)


def test_rates_are_found_in_any_basis():
    mixed = ou([0.95, 0.6]).numpy() @ np.array([[1.0, 0.7], [0.2, 1.5]])
    law = measure_pairs(Recorded(mixed))
    np.testing.assert_allclose(law.rho, [0.95, 0.6], atol=0.02)
    assert law.isotropy == pytest.approx(math.log(0.6) / math.log(0.95), rel=0.1)
    assert law.transition > 0.002  # though every marginal is Gaussian


def test_the_distance_of_a_coin_is_the_integral():
    rng = np.random.default_rng(0)
    coins = rng.choice([-1.0, 1.0], size=(2, 40_000, 1)) + 1e-3 * rng.normal(size=(2, 40_000, 1))
    coins[1] = np.where(rng.random((40_000, 1)) < 0.8, coins[0], coins[1])
    law = measure_pairs(Recorded(coins))
    truth = quad(
        lambda t: (math.cos(t) - math.exp(-t * t / 2)) ** 2 * math.exp(-t * t / 2) / math.sqrt(2 * math.pi),
        -10,
        10,
    )[0]
    assert law.gaussianity == pytest.approx(truth, rel=0.05)


def test_effective_numbers_are_kish():
    recorded = Recorded(np.random.default_rng(0).normal(size=(5, 3, 2)))
    assert effective(recorded) == (12, 3)
    weights = np.repeat([1.0, 1.0, 0.0], 4)
    assert effective(recorded.reweighted(weights)) == pytest.approx((8, 2))
    weights = np.arange(12.0)
    paths = weights.reshape(3, 4).sum(1)
    expected = weights.sum() ** 2 / (weights**2).sum(), paths.sum() ** 2 / (paths**2).sum()
    assert effective(recorded.reweighted(weights)) == pytest.approx(expected)


def pairs(n, rho, dim=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, dim))
    z_next = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=(n, dim))
    return scale * z, scale * z_next


def sample(z, z_next, rho):
    dim = z.shape[1]
    frame = TargetFrame(np.zeros(dim), np.eye(dim), np.ones(dim), rho)
    return PairSample(z, z_next, np.full(len(z), 1 / len(z)), frame)


def weighted(weigher, z, z_next):
    logs = weigher.log_weights(z, z_next)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def test_marginals_are_normal_in_each_coordinate():
    rng = np.random.default_rng(0)
    z = rng.uniform(-3, 3, size=(100_000, 2))
    z_next = np.clip(z + 0.3 * rng.normal(size=z.shape), -3, 3)
    weights = weighted(marginals(sample(z, z_next, 0.9), 1.0), z, z_next)
    for axis in (0, 1):
        for level in (-1.5, -0.5, 0.0, 1.0):
            share = weights @ ((z[:, axis] < level) / 2 + (z_next[:, axis] < level) / 2)
            assert share == pytest.approx(scipy.stats.norm.cdf(level), abs=0.02)


def test_the_density_ratio_is_that_of_the_laws():
    z, z_next = pairs(40_000, 0.5, dim=1, scale=1.3)
    weigher = reweight(sample(z, z_next, 0.5), 1.0)
    u, v = (part[:, 0] for part in turn(z, z_next, 0.5))
    truth = scipy.stats.norm.logpdf(u) - scipy.stats.norm.logpdf(u, scale=1.3)
    truth += scipy.stats.norm.logpdf(v) - scipy.stats.norm.logpdf(v, scale=1.3)
    logs = weigher.log_weights(z, z_next)
    inside = np.hypot(u, v) < 2
    off = (logs - truth)[inside]
    assert off.std() < 0.3  # a density of 32 neighbors has a noise of 1 / sqrt(32)
    assert np.corrcoef(logs, truth)[0, 1] > 0.9


@pytest.mark.parametrize("method", ["rates", "moments", "marginals", "reweight"])
def test_weights_do_not_see_the_direction_of_time(method):
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 2, size=(3000, 2))
    z_next = 0.9 * z + 0.3 * rng.exponential(size=z.shape)
    weigher = reweighting.WEIGHERS[method](sample(z, z_next, 0.9), 0.7)
    np.testing.assert_allclose(weigher.log_weights(z, z_next), weigher.log_weights(z_next, z), atol=1e-9)


def weights_of(tilt, features, base=None):
    logs = tilt.log_weights(features)
    weights = np.exp(logs - logs.max()) * (1 if base is None else base)
    return weights / weights.sum()


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


RNG = np.random.default_rng(0)
STATES = [RNG.normal(size=(n, 2)) for n in (30, 12, 50)]
SEEN = [np.hstack((path, path**2, np.sin(path))) @ RNG.normal(size=(6, 6)) for path in STATES]


def test_principal_components_are_those_of_scikit_learn():
    x = np.concatenate(SEEN)
    theirs = PCA(2).fit(x).transform(x)
    mine = np.concatenate(project(SEEN, principal_components(SEEN, 2), lambda batch: batch))
    for axis in (0, 1):
        assert abs(np.corrcoef(mine[:, axis], theirs[:, axis])[0, 1]) > 1 - 1e-9
