"""Slow features and contrasts against worlds whose slowest functions and log odds are known."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from isojepa.data import Langevin, OrnsteinUhlenbeck
from isojepa.data.batch import Batch
from isojepa.distributions import Uniform
from isojepa.encoders.model import as_model
from isojepa.seeds import generator
from isojepa_lab.papers.own.contrasts import PairFunctions, PermutationContrast
from isojepa_lab.papers.own.slow_features import (
    Cosines,
    Polynomials,
    SequentialFeatures,
    SlowFeatures,
    largest_degree,
)


def gaussian(rho, count=40_000):
    first, second = OrnsteinUhlenbeck(len(rho), rho).sample(count, generator(0, "test"))
    return first.double().numpy(), second.double().numpy()


def correlations(features, latents):
    """|correlation| of each feature with the latent of its place."""
    both = np.corrcoef(features, latents, rowvar=False)
    return np.abs(np.diag(both[: features.shape[1], features.shape[1] :]))


@pytest.mark.parametrize(("dim", "degree"), [(1, 5), (2, 3), (4, 2)])
def test_there_are_as_many_monomials_as_the_binomial_says(dim, degree):
    x = np.random.default_rng(0).normal(size=(7, dim))
    found = Polynomials(degree)(x)
    assert found.shape == (7, math.comb(dim + degree, dim) - 1)
    np.testing.assert_allclose(found[:, -1], x[:, -1] ** degree)
    assert largest_degree(dim, found.shape[1]) == degree
    assert dim == 1 or largest_degree(dim, found.shape[1] - 1) == degree - 1


def test_linear_slow_features_are_the_sources_of_a_linear_mixing_by_rate():
    z, z_next = gaussian((0.95, 0.8, 0.5))
    mixing = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0], [3.0, 0.2, 1.0]])
    found = SlowFeatures(z @ mixing.T, z_next @ mixing.T, 3)
    np.testing.assert_allclose(correlations(found(z @ mixing.T), z), 1, atol=5e-3)
    np.testing.assert_allclose(found.delta, 2 * (1 - np.array([0.95, 0.8, 0.5])), rtol=0.05)


def bend(z):
    """A mixing whose inverse is a polynomial of degree 2."""
    return np.stack((z[:, 0] + 0.8 * z[:, 1] ** 2, z[:, 1]), 1)


def test_polynomials_undo_a_mixing_whose_inverse_is_one():
    z, z_next = gaussian((0.95, 0.92))
    straight = SlowFeatures(bend(z), bend(z_next), 2, Polynomials(2))
    linear = SlowFeatures(bend(z), bend(z_next), 2)
    assert correlations(straight(bend(z)), z).min() > 0.998
    assert correlations(linear(bend(z)), z).min() < 0.9


def test_a_harmonic_of_the_slowest_source_is_a_slow_feature_and_no_source():
    z, z_next = gaussian((0.97, 0.9))  # the square of the first correlates by 0.94
    one_by_one = SequentialFeatures(bend(z), bend(z_next), 2, Polynomials(4), degree=2, kept=10)
    at_once = SlowFeatures(bend(z), bend(z_next), 2, Polynomials(4))
    assert correlations(one_by_one(bend(z)), z).min() > 0.98
    second = at_once(bend(z))[:, 1]
    assert abs(np.corrcoef(second, z[:, 1])[0, 1]) < 0.1
    assert abs(np.corrcoef(second, z[:, 0] ** 2)[0, 1]) > 0.98


def test_sources_of_new_rows_are_those_of_the_rows_they_were_found_on():
    z, z_next = gaussian((0.97, 0.9), 5_000)
    found = SequentialFeatures(z, z_next, 2, Polynomials(3), degree=2, kept=8)
    whole, part = found(z), found(z[:7])
    np.testing.assert_allclose(whole[:7], part, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(whole.std(0), 1, atol=0.05)


def test_cosines_unroll_an_arc_and_a_linear_map_does_not():
    pairs = Langevin(1, Uniform(), 0.9).sample(20_000, generator(0, "test"))
    z, z_next = (one.double().numpy() for one in pairs)
    x, x_next = (np.concatenate((np.cos(1.7 * one), np.sin(1.7 * one)), 1) for one in (z, z_next))
    slow = SlowFeatures(x, x_next, 1, Cosines(2, 60, 0.7, 0), cutoff=1e-9)
    # the first harmonic of a uniform latent
    harmonic = np.sin(math.pi * z / (2 * math.sqrt(3)))
    assert correlations(slow(x), harmonic)[0] > 0.99
    assert correlations(SlowFeatures(x, x_next, 1)(x), harmonic)[0] < 0.95


def best_odds(dim, rho):
    """The log odds of Gaussian pairs: the log ratio of joint density and product of marginals."""
    odds = PairFunctions(dim, hidden=4)
    with torch.no_grad():
        odds.outer.zero_()
        odds.product.fill_(rho / (1 - rho**2))
        odds.squares.fill_(rho**2 / (1 - rho**2))
        odds.constant.fill_(-dim / 2 * math.log(1 - rho**2))
    return odds


def contrast(odds, views, permutations=4, seed=0):
    batch = Batch(tuple(views))
    objective = PermutationContrast(odds, permutations)
    return objective({"model": as_model(nn.Identity())}, batch, generator(seed, "test")).total


def test_the_log_ratio_of_densities_has_the_least_contrast():
    views = OrnsteinUhlenbeck(2, 0.8).sample(50_000, generator(0, "pairs"))
    odds = best_odds(2, 0.8)
    least = contrast(odds, views)
    assert least < 0.9 * 2 * math.log(2)  # chance
    least.backward()
    assert all(one.grad.abs().max() < 0.02 for one in odds.parameters() if one.grad is not None)
    for name in ("product", "squares", "constant"):
        for factor in (0.7, 1.3):
            other = best_odds(2, 0.8)
            getattr(other, name).data *= factor
            assert contrast(other, views) > least + 1e-3


def laplace_steps(count, seed):
    """Pairs of two sources z' = 0.8 z + Laplace noise, after as many steps as make them stationary."""
    source = np.random.default_rng(seed)
    z = np.zeros((count, 2))
    for _ in range(25):
        before, z = z, 0.8 * z + source.laplace(size=z.shape)
    return [torch.from_numpy(one).float() / 2.36 for one in (before, z)]


def test_sources_whose_steps_are_not_gaussian_tell_pairs_better_than_a_rotation_of_them():
    turn = torch.tensor([[1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2)
    ends = []
    for way in (torch.eye(2), turn):
        odds = PairFunctions(2, hidden=8)
        optimizer = torch.optim.Adam(odds.parameters(), lr=0.03)
        views = [one @ way for one in laplace_steps(2_000, 0)]
        for step in range(100):
            optimizer.zero_grad()
            contrast(odds, views, 1, step).backward()
            optimizer.step()
        ends.append(contrast(odds, [one @ way for one in laplace_steps(20_000, 1)]).item())
    assert ends[0] < ends[1] - 0.005


def test_what_is_permuted_is_drawn_from_the_generator():
    views = OrnsteinUhlenbeck(2, 0.8).sample(200, generator(0, "pairs"))
    odds = best_odds(2, 0.8)
    assert contrast(odds, views, 1, 0) == contrast(odds, views, 1, 0)
    assert contrast(odds, views, 1, 0) != contrast(odds, views, 1, 1)
