"""The copula process against its law, its hidden process and Ornstein-Uhlenbeck."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import isojepa as ij
from isojepa.certificates import predict_process
from isojepa.data import Copula, OrnsteinUhlenbeck, Sinusoid, World
from isojepa.distributions import GeneralizedNormal, Mixture, Uniform
from isojepa.seeds import generator
from tests.data.test_stationary import N, process


def test_uniform_latents_correlate_as_their_closed_form_says():
    made = Copula(3, Uniform(), rho=(0.3, 0.9, 0.5), lag=2.0)
    truth = tuple(6 / math.pi * math.asin(r**2 / 2) for r in (0.3, 0.9, 0.5))
    assert made.correlation == pytest.approx(truth, abs=1e-9)
    assert made.hidden == pytest.approx((0.09, 0.81, 0.25))


def test_the_gaussian_case_is_ornstein_uhlenbeck():
    made, other = Copula(2, rho=(0.7, 0.9), lag=0.5), OrnsteinUhlenbeck(2, rho=(0.7, 0.9), lag=0.5)
    assert made.correlation == pytest.approx(other.correlation, abs=1e-15)
    z, z_next = (part.double() for part in made.sample(N, generator(4, "gauss")))
    rest = (z_next - torch.tensor(other.correlation, dtype=torch.float64) * z).numpy()
    for i, r in enumerate(other.correlation):
        assert stats.kstest(rest[:, i], stats.norm(0, math.sqrt(1 - r**2)).cdf).pvalue > 1e-3
        assert abs(np.corrcoef(rest[:, i], z[:, i].numpy())[0, 1]) < 5 / math.sqrt(N)
    start = torch.full((N, 2), 1.3)
    ours, theirs = (one.step(start, generator(5, "gauss")).numpy() for one in (made, other))
    assert stats.ks_2samp(ours[:, 0], theirs[:, 0]).pvalue > 1e-3
    # a normal law that is not known as one goes through the table and comes out the same
    mapped = Copula(1, Mixture((1, 1), (0, 0), (1, 1)), rho=0.7)
    assert mapped.scores is not None
    assert mapped.correlation == pytest.approx(0.7, abs=1e-12)
    assert predict_process(mapped).r2 == pytest.approx(1, abs=1e-12)


def test_a_step_from_given_latents_moves_their_normal_scores():
    made = process(Copula, "laplace")
    start = torch.full((N, 1), 2.0)
    y = -stats.norm.ppf(0.5 * math.exp(-math.sqrt(2) * 2.0))
    assert made.embed(start)[0, 0].item() == pytest.approx(y, abs=1e-6)
    moved = made.embed(made.step(start.double(), generator(7, "step")))[:, 0].numpy()
    assert stats.kstest(moved, stats.norm(0.8 * y, 0.6).cdf).pvalue > 1e-3


def test_prediction_is_the_correlation_with_normal_scores():
    made = Copula(2, Uniform(), 0.95)
    prediction = predict_process(made)
    assert prediction.r2_per_latent == pytest.approx((3 / math.pi,) * 2, abs=1e-9)
    assert {mode.index for mode in prediction.taken} == {(1, 0), (0, 1)}
    assert prediction.unique
    z, _ = made.sample(N, generator(14, "predict"))
    y = made.embed(z)
    measured = np.corrcoef(z[:, 0].double().numpy(), y[:, 0].numpy())[0, 1] ** 2
    assert measured == pytest.approx(3 / math.pi, abs=0.003)


def test_a_fast_latent_is_lost_and_harmonics_of_the_slow_one_add_to_it():
    prediction = predict_process(Copula(2, Uniform(), rho=(0.95, 0.95**5.5)), dim=5)
    assert [mode.index for mode in prediction.taken] == [(k, 0) for k in range(1, 6)]
    # of the uniform law: sum of the first three odd terms of Mehler's series of 6 / pi asin(r / 2)
    truth = 3 / math.pi * (1 + 1 / 24 + 3 / 640)
    assert prediction.r2_per_latent == pytest.approx((truth, 0.0), abs=1e-8)


@pytest.mark.slow
def test_certify_predicts_what_the_best_embedding_gives():
    world = World(Copula(2, GeneralizedNormal(0.5), 0.95), Sinusoid())
    best = lambda x: world.process.embed(world.mixing.inverse(x)).float()  # noqa: E731
    certificate = ij.certify(best, world, samples=4000)
    assert certificate.prediction is not None
    recovered = certificate.recovery.r2_h_to_z
    assert abs(recovered.estimate - certificate.prediction.r2) < 3 * (recovered.high - recovered.low)
    assert certificate.prediction.r2 == pytest.approx(0.782242, abs=1e-5)
    assert "R2 predicted" in str(certificate)
    assert certificate.bound is None


@pytest.mark.parametrize("rho", [1e-6, 0.999999, 1 - 1e-9, 1 - 1e-14])
def test_extreme_correlations_are_exact(rho):
    made = Copula(1, Uniform(), rho)
    assert made.correlation == pytest.approx(6 / math.pi * math.asin(rho / 2), rel=1e-6)
    assert 1 - made.correlation == pytest.approx(1 - 6 / math.pi * math.asin(rho / 2), rel=1e-3)
