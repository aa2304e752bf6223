"""The study of dose and response: its theory against closed forms, and a tiny run."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from isojepa.data import OrnsteinUhlenbeck
from isojepa.data.trajectories import Recorded
from isojepa.seeds import generator
from isojepa_lab.studies.isotropise import Ideal, Study, score_laws
from isojepa_lab.studies.isotropise_theory import ceiling, r2_per_latent, slow_features


def pairs(rho, n=100_000):
    z, z_next = OrnsteinUhlenbeck(2, rho).sample(n, generator(0, "data"))
    return z.double().numpy(), z_next.double().numpy(), np.ones(n)


def test_slow_features_of_a_gaussian_world_are_hermite_polynomials():
    z, z_next, weights = pairs([0.9, 0.85])
    values, features = slow_features(z, z_next, weights, 2, degree=4)
    np.testing.assert_allclose(values[:3], [0.9, 0.85, 0.81], atol=0.01)
    assert r2_per_latent(features(z), z).min() > 0.99


def test_slow_features_lose_a_latent_more_than_twice_as_fast():
    z, z_next, weights = pairs([0.95, 0.8])
    values, features = slow_features(z, z_next, weights, 2, degree=4)
    np.testing.assert_allclose(values[:2], [0.95, 0.95**2], atol=0.01)
    r2 = r2_per_latent(features(z), z)
    assert r2[0] > 0.97
    assert r2[1] < 0.05


def test_slow_features_follow_the_weights():
    z, z_next, weights = pairs([0.95, 0.8])
    slow = np.abs(z_next - z)[:, 1] < 0.3  # only pairs in which the fast latent hardly moves
    _, features = slow_features(z, z_next, weights * slow, 2, degree=4)
    assert r2_per_latent(features(z), z)[1] > 0.9


def test_the_ceiling_is_one_for_a_gaussian_and_known_for_coin_and_uniform():
    n = 200_001
    grid = scipy.stats.norm.ppf((np.arange(n) + 0.5) / n)
    coin = np.where(np.arange(n) % 2, 1.0, -1.0)
    uniform = np.linspace(-1, 1, n)
    found = ceiling(np.column_stack((grid, coin, uniform)), np.ones(n))
    # uniform: E[U X] = 1 / sqrt(pi) * ... : the correlation of a normal with its own rank, squared, is 3 / pi
    np.testing.assert_allclose(found, [1, 2 / math.pi, 3 / math.pi], atol=1e-3)


def test_the_ceiling_sees_weights():
    z = np.linspace(-4, 4, 100_001)[:, None]
    assert ceiling(z, scipy.stats.norm.pdf(z[:, 0]))[0] == pytest.approx(1, abs=1e-3)


def test_no_gaussian_embedding_beats_the_ceiling():
    rng = np.random.default_rng(0)
    z = np.where(rng.random(20_000) < 0.5, 1.0, -1.0) + 0.2 * rng.normal(size=20_000)
    top = ceiling(z[:, None], np.ones(20_000))[0]
    ranks = scipy.stats.norm.ppf((scipy.stats.rankdata(z) - 0.5) / 20_000)
    assert np.corrcoef(ranks, z)[0, 1] ** 2 == pytest.approx(top, abs=1e-3)
    for seed in range(5):
        noisy = z + np.random.default_rng(seed).normal(size=20_000)
        other = scipy.stats.norm.ppf((scipy.stats.rankdata(noisy) - 0.5) / 20_000)
        assert np.corrcoef(other, z)[0, 1] ** 2 < top


def test_the_ideal_is_a_scaled_gaussian_process():
    z, z_next = Ideal(0.8, (1.0, 0.5)).sample(50_000, generator(0, "data"))
    covariance = np.cov(torch.cat((z, z_next), 1).numpy().T)
    np.testing.assert_allclose(np.diag(covariance), [1, 0.25, 1, 0.25], rtol=0.03)
    np.testing.assert_allclose(np.diag(covariance[:2, 2:]), [0.8, 0.2], atol=0.02)


def test_scores_are_held_out_states_and_a_gaussian_within_the_support():
    states = np.random.default_rng(0).uniform(-1, 1, size=(20, 400, 2))
    train, held_out = Recorded(states).split()
    scores = score_laws(train, held_out, np.array([0.5, 0.9]), 0)
    assert np.abs(scores.gaussian).max() < math.sqrt(3)
    np.testing.assert_allclose(scores.gaussian[:, 0].std(), 0.5, atol=0.02)
    assert np.abs(scores.gaussian).max(0).min() > 1
    path, step = np.indices((80, 20)).reshape(2, -1)
    states = held_out.latents(path, step)[:, 0].tolist()
    assert set(scores.data[:, 0].astype(np.float32).tolist()) <= set(states)


def test_an_unknown_source_lists_the_choices(tmp_path):
    with pytest.raises(ValueError, match="source must be one of goals"):
        next(Study(tmp_path, source="reacher").measure(0))
