"""The front door of the spectrum: methods agree, pairs obey Mehler's formula, and bad input is named."""

import math

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.certificates.spectrum import Spectrum, check_latents, measure_spectrum
from isojepa.data import NoisyCopies, OrnsteinUhlenbeck, Parabola, Spiral, World
from isojepa.distributions import GeneralizedNormal


def planar(mixing=None, rho=0.9):
    return World(OrnsteinUhlenbeck(dim=2, rho=rho), mixing)


def warp(x):
    return torch.stack((x[:, 0] + 0.3 * x[:, 1] ** 2, torch.sin(x[:, 0] * x[:, 1])), -1)


@pytest.fixture(scope="module")
def integrated() -> Spectrum:
    return measure_spectrum(warp, planar(Parabola()))


def test_auto_integrates_few_latents_and_follows_the_curve_of_many():
    assert measure_spectrum(torch.tanh, planar()).method == "quadrature"
    assert measure_spectrum(torch.tanh, World(OrnsteinUhlenbeck(4)), samples=1000).method == "curve"
    z = torch.randn(500, 2, generator=ij.generator(0, "test"))
    assert measure_spectrum(z, latents=z).method == "regression"


@pytest.mark.parametrize("method", ["curve", "regression"])
def test_methods_agree_with_quadrature_within_their_intervals(method, integrated):
    found = measure_spectrum(warp, planar(Parabola()), method=method, samples=40_000, confidence=0.9999)
    for one, exact in zip(
        (*found.shares[:2], found.above), (*integrated.shares[:2], integrated.above), strict=True
    ):
        assert one.low - 0.01 < exact.estimate < one.high + 0.01


def test_pairs_obey_mehler_and_the_alignment_loss():
    world = planar(Parabola(), rho=0.8)
    found = measure_spectrum(warp, world, degree=20)
    pairs = world.sample(400_000, ij.generator(0, "test"))
    a, b = warp(pairs.views[0]).double(), warp(pairs.views[1]).double()
    centred = (a - a.mean(0)) * (b - b.mean(0))
    assert found.correlation(0.8) == pytest.approx(float(centred.mean(0).sum() / a.var(0).sum()), abs=0.01)
    assert found.alignment(0.8) == pytest.approx(float(((b - a) ** 2).sum(1).mean()), rel=0.02)


def test_the_mixing_belongs_to_the_function():
    world = planar(Spiral())
    undone = measure_spectrum(Spiral().inverse, world)
    assert undone.linear.estimate == pytest.approx(1, abs=1e-9)
    assert measure_spectrum(lambda x: x, world).linear.estimate < 0.02


def test_a_module_is_seen_in_its_own_type_and_left_in_its_mode():
    encoder = ij.encoders.MLP(in_dim=2, out_dim=3)
    encoder.train()
    found = measure_spectrum(encoder, planar())
    assert len(found.variance) == 3
    assert encoder.training
    double = ij.encoders.MLP(in_dim=2, out_dim=3)
    double.load_state_dict(encoder.state_dict())
    again = measure_spectrum(double.double(), planar())
    np.testing.assert_allclose(found.energy, again.energy, atol=1e-5)


def test_noise_that_no_latent_explains_lies_above():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20_000, 2))
    found = measure_spectrum(z + rng.standard_normal(z.shape), latents=z, degree=3)
    assert found.linear.low < 0.5 < found.linear.high
    assert found.above.low < 0.5 < found.above.high


@pytest.mark.parametrize("method", ["quadrature", "curve", "regression"])
def test_parts_add_up_to_the_variance(method):
    found = measure_spectrum(warp, planar(Parabola()), method=method)
    total = np.array(found.energy)[:, 1:].sum(1) + found.rest
    np.testing.assert_allclose(total, found.variance, rtol=1e-9)
    shares = sum(share.estimate for share in found.shares) + found.above.estimate
    assert shares == pytest.approx(1, abs=1e-5)


def test_a_constant_dimension_is_noticed_and_a_constant_embedding_refused():
    def half(x):
        return torch.stack((x[:, 0], torch.full_like(x[:, 0], 7.0)), -1)

    found = measure_spectrum(half, planar())
    assert math.isnan(found.linear_per_dimension[1])
    assert found.linear.estimate == pytest.approx(1)
    assert any("do not vary" in notice for notice in found.notices)
    with pytest.raises(ValueError, match="must vary, got a constant"):
        measure_spectrum(lambda x: torch.ones(len(x), 1, dtype=x.dtype), planar())
    z = np.random.default_rng(0).standard_normal((400, 2))
    with pytest.raises(ValueError, match="must vary, got a constant"):
        measure_spectrum(np.ones((400, 2)), latents=z, degree=2)


def test_latents_must_be_standard_gaussians():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((5000, 2))
    assert check_latents(z) == []
    for bad, message in ((z + 0.5, "whiten"), (2 * z, "whiten"), (z @ [[1, 0.7], [0, 0.7]], "whiten")):
        with pytest.raises(ValueError, match=message):
            check_latents(bad)
    with pytest.raises(ValueError, match="must be Gaussian"):
        measure_spectrum(z, latents=rng.uniform(-math.sqrt(3), math.sqrt(3), (5000, 2)))
    slight = rng.standard_normal((100_000, 1)) * 1.05
    assert len(check_latents(slight)) == 1


def test_few_gaussian_latents_are_not_refused_by_chance():
    refused = 0
    for seed in range(200):
        try:
            check_latents(np.random.default_rng(seed).standard_normal((100, 3)))
        except ValueError:
            refused += 1
    assert refused <= 4


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((torch.tanh,), {}, "an encoder needs a world"),
        ((np.zeros((5, 2)),), {}, "embeddings need their latents"),
        ((np.zeros((5, 2)), planar()), {}, "the source must be an encoder, got ndarray"),
        ((torch.tanh, planar()), {"latents": np.zeros((5, 2))}, "brings its own latents"),
        ((torch.tanh, planar()), {"method": "curv"}, "did you mean 'curve'"),
        ((np.zeros((5, 2)),), {"latents": np.zeros((5, 2)), "method": "curve"}, "auto or regression"),
        ((torch.tanh, planar()), {"degree": 0}, "degree must be an integer from 1 to 30, got 0"),
        ((torch.tanh, planar()), {"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
        ((np.zeros((5, 2)),), {"latents": np.zeros((4, 2))}, "equal lengths, got 5 and 4"),
        ((torch.tanh, World(OrnsteinUhlenbeck(4))), {"method": "quadrature"}, "at most 3 latents"),
        ((torch.tanh, World(NoisyCopies(2, 0.9, GeneralizedNormal(1.0)))), {}, r"must be N\(0, I\)"),
    ],
    ids=[
        "world",
        "latents",
        "array",
        "both",
        "name",
        "curve",
        "degree",
        "confidence",
        "lengths",
        "dim",
        "law",
    ],
)
def test_bad_calls_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        measure_spectrum(*arguments, **options)


def test_coverage_of_the_regressions_interval():
    rng = np.random.default_rng(5)
    truth = measure_spectrum(torch.tanh, World(OrnsteinUhlenbeck(1))).linear.estimate
    held = 0
    for _ in range(60):
        z = rng.standard_normal((1000, 1))
        interval = measure_spectrum(np.tanh(z), latents=z, degree=3).linear
        held += interval.low <= truth <= interval.high
    assert held >= 51  # of 60, 57 expected
