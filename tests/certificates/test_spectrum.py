"""The Hermite spectrum against closed forms, other integrators and the definition; bad input is named."""

import math

import numpy as np
import pytest
import torch
from scipy.special import eval_hermitenorm

import isojepa as ij
from isojepa.certificates import spectrum as module
from isojepa.certificates.spectrum import Spectrum, hermite_polynomials, measure_spectrum
from isojepa.data import NoisyCopies, OrnsteinUhlenbeck, Parabola, Spiral, World
from isojepa.distributions import GeneralizedNormal
from tests.reference import naive_hermite


def planar(mixing=None, rho=0.9):
    return World(OrnsteinUhlenbeck(dim=2, rho=rho), mixing)


def warp(x):
    return torch.stack((x[:, 0] + 0.3 * x[:, 1] ** 2, torch.sin(x[:, 0] * x[:, 1])), -1)


@pytest.fixture(scope="module")
def integrated() -> Spectrum:
    return measure_spectrum(warp, planar(Parabola()))


def test_auto_integrates_few_latents_and_regresses_many_as_far_as_samples_allow():
    assert measure_spectrum(torch.tanh, planar()).method == "quadrature"
    many = measure_spectrum(torch.tanh, World(OrnsteinUhlenbeck(10)))
    assert (many.method, many.degree) == ("regression", 3)
    z = torch.randn(500, 20, generator=ij.generator(0, "test"))
    few = measure_spectrum(z, latents=z)
    assert (few.method, few.degree) == ("regression", 1)
    assert few.linear.estimate == pytest.approx(1)


def test_regression_agrees_with_quadrature_within_its_interval(integrated):
    world = planar(Parabola())
    spectrum = measure_spectrum(warp, world, method="regression", samples=40_000, confidence=0.9999)
    for one, exact in zip(
        (*spectrum.shares[:2], spectrum.above), (*integrated.shares[:2], integrated.above), strict=True
    ):
        assert one.low - 0.01 < exact.estimate < one.high + 0.01


def test_pairs_obey_mehler_and_the_alignment_loss():
    world = planar(Parabola(), rho=0.8)
    spectrum = measure_spectrum(warp, world, degree=20)
    pairs = world.sample(400_000, ij.generator(0, "test"))
    a, b = warp(pairs.views[0]).double(), warp(pairs.views[1]).double()
    centred = (a - a.mean(0)) * (b - b.mean(0))
    assert spectrum.correlation(0.8) == pytest.approx(float(centred.mean(0).sum() / a.var(0).sum()), abs=0.01)
    assert spectrum.alignment(0.8) == pytest.approx(float(((b - a) ** 2).sum(1).mean()), rel=0.02)


def test_the_mixing_belongs_to_the_function():
    world = planar(Spiral())
    undone = measure_spectrum(Spiral().inverse, world)
    assert undone.linear.estimate == pytest.approx(1, abs=1e-9)
    assert measure_spectrum(lambda x: x, world).linear.estimate < 0.02


def test_a_module_is_seen_in_its_own_type_and_left_in_its_mode():
    encoder = ij.encoders.MLP(in_dim=2, out_dim=3)
    encoder.train()
    spectrum = measure_spectrum(encoder, planar())
    assert len(spectrum.variance) == 3
    assert encoder.training
    double = ij.encoders.MLP(in_dim=2, out_dim=3)
    double.load_state_dict(encoder.state_dict())
    again = measure_spectrum(double.double(), planar())
    np.testing.assert_allclose(spectrum.energy, again.energy, atol=1e-5)


def test_noise_that_no_latent_explains_lies_above():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20_000, 2))
    spectrum = measure_spectrum(z + rng.standard_normal(z.shape), latents=z, degree=3)
    assert spectrum.linear.low < 0.5 < spectrum.linear.high
    assert spectrum.above.low < 0.5 < spectrum.above.high


@pytest.mark.parametrize("method", ["quadrature", "regression"])
def test_parts_add_up_to_the_variance(method):
    spectrum = measure_spectrum(warp, planar(Parabola()), method=method)
    total = np.array(spectrum.energy)[:, 1:].sum(1) + spectrum.rest
    np.testing.assert_allclose(total, spectrum.variance, rtol=1e-9)
    shares = sum(share.estimate for share in spectrum.shares) + spectrum.above.estimate
    assert shares == pytest.approx(1, abs=1e-5)


def test_a_constant_dimension_is_noticed_and_a_constant_embedding_refused():
    def half(x):
        return torch.stack((x[:, 0], torch.full_like(x[:, 0], 7.0)), -1)

    spectrum = measure_spectrum(half, planar())
    assert math.isnan(spectrum.linear_per_dimension[1])
    assert spectrum.linear.estimate == pytest.approx(1)
    assert any("do not vary" in notice for notice in spectrum.notices)
    with pytest.raises(ValueError, match="must vary, got a constant"):
        measure_spectrum(lambda x: torch.ones(len(x), 1, dtype=x.dtype), planar())
    z = np.random.default_rng(0).standard_normal((400, 2))
    with pytest.raises(ValueError, match="must vary, got a constant"):
        measure_spectrum(np.ones((400, 2)), latents=z, degree=2)


def test_latents_must_be_standard_gaussians():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((5000, 2))
    assert module._check_latents(z) == []
    for bad, message in ((z + 0.5, "whiten"), (2 * z, "whiten"), (z @ [[1, 0.7], [0, 0.7]], "whiten")):
        with pytest.raises(ValueError, match=message):
            module._check_latents(bad)
    with pytest.raises(ValueError, match="must be Gaussian"):
        measure_spectrum(z, latents=rng.uniform(-math.sqrt(3), math.sqrt(3), (5000, 2)))
    slight = rng.standard_normal((100_000, 1)) * 1.05
    assert len(module._check_latents(slight)) == 1


def test_few_gaussian_latents_are_not_refused_by_chance():
    refused = 0
    for seed in range(200):
        try:
            module._check_latents(np.random.default_rng(seed).standard_normal((100, 3)))
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
        ((torch.tanh, planar()), {"method": "regresion"}, "did you mean 'regression'"),
        ((np.zeros((5, 2)),), {"latents": np.zeros((5, 2)), "method": "quadrature"}, "auto or regression"),
        ((torch.tanh, planar()), {"degree": 0}, "degree must be an integer from 1 to 30, got 0"),
        ((torch.tanh, planar()), {"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
        ((lambda z: torch.where(z > 0, z, torch.nan), planar()), {}, "must be finite, got NaN or Inf"),
        ((lambda z: z[:, 0], planar()), {}, r"to \(.*, m\), got"),
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
        "method",
        "degree",
        "confidence",
        "nan",
        "shape",
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


def function_of(values):
    """A function of arrays as an encoder of tensors."""
    return lambda x: torch.from_numpy(values(x.numpy()))


def energies(values, dim=1, **options):
    spectrum = measure_spectrum(function_of(values), World(OrnsteinUhlenbeck(dim)), **options)
    return np.array(spectrum.energy), np.array(spectrum.variance)


def table(z, degree):
    return np.stack(hermite_polynomials(z, degree), -1)


def test_the_recurrence_equals_scipy_and_features_are_products():
    x = np.linspace(-6, 6, 41)
    for k, values in enumerate(hermite_polynomials(x, 12)):
        expected = eval_hermitenorm(k, x) / math.sqrt(math.factorial(k))
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)
    indices = module._multi_indices(3, 4)
    assert {tuple(row) for row in indices.tolist()} == set(naive_hermite.indices(3, 4))
    assert (np.diff(indices.sum(1)) >= 0).all()
    z = np.random.default_rng(0).standard_normal((5, 3))
    expected = [[naive_hermite.polynomial(a, row) for a in indices] for row in z]
    np.testing.assert_allclose(module._features(z, indices), expected, rtol=1e-12)


def test_quadrature_in_closed_form():
    # E[sin(z) H_k] = +-e^{-1/2} / sqrt(k!) for odd k; E[e^z H_k] = e^{1/2} / sqrt(k!)
    energy, variance = energies(
        lambda z: np.c_[2 * table(z, 3)[:, 0, 2] * table(z, 3)[:, 1, 1] * table(z, 3)[:, 2, 3], 3 + z[:, 0]],
        3,
    )
    np.testing.assert_allclose(energy, [4 * np.eye(7)[6], [9, 1, 0, 0, 0, 0, 0]], atol=1e-10)
    np.testing.assert_allclose(variance, [4, 1], atol=1e-10)
    energy, variance = energies(lambda z: np.c_[np.sin(z), np.exp(z)], degree=8)
    factorials = np.array([math.factorial(k) for k in range(9)])
    np.testing.assert_allclose(energy[0], np.exp(-1) / factorials * (np.arange(9) % 2), atol=1e-12)
    np.testing.assert_allclose(energy[1], np.e / factorials, rtol=1e-10)
    np.testing.assert_allclose(variance, [(1 - np.exp(-2)) / 2, np.e**2 - np.e], rtol=1e-10)


def test_the_difference_of_two_orders_covers_the_error_of_a_jump():
    linear = measure_spectrum(torch.sign, World(OrnsteinUhlenbeck(1)), degree=1).linear
    assert abs(linear.estimate - 2 / math.pi) < min(3 * (linear.high - linear.estimate), 1e-2)


def test_regression_equals_the_definition_for_its_own_guess(monkeypatch):
    monkeypatch.setattr(module, "_BLOCKS", 2)
    monkeypatch.setattr(module, "_BETTER", 1e9)  # the guess of all degrees
    rng = np.random.default_rng(0)
    z = rng.standard_normal((24, 2))
    h = (z[:, :1] ** 2 + z[:, 1:] + rng.standard_normal((24, 1))) @ np.array([[1.0, -2.0]])
    energy, _ = module._regression_energy(h, z, 2)
    indices = module._multi_indices(2, 2)
    halves = (slice(0, 12), slice(12, 24))
    for output in range(2):
        parts = []
        for half, other in (halves, halves[::-1]):
            b = np.linalg.lstsq(module._features(z[other], indices), h[other, output], rcond=None)[0]
            guess = {tuple(a): value for a, value in zip(indices.tolist(), b, strict=True)}
            parts.append(naive_hermite.energies_given_guess(h[half, output], z[half], guess, 2))
        np.testing.assert_allclose(energy[output], np.mean(parts, 0), rtol=1e-5, atol=1e-7)


def test_regression_is_unbiased_where_squared_least_squares_is_not():
    rng = np.random.default_rng(7)
    truth = np.array([0.25, 0.0, 0.5, 4.0])  # degrees 0 to 2, and noise above
    estimates, plain = [], []
    indices = module._multi_indices(2, 2)
    for _ in range(120):
        z = rng.standard_normal((100, 2))
        h = 0.5 + z[:, :1] * z[:, 1:] * math.sqrt(0.5) + 2 * rng.standard_normal((100, 1))
        estimates.append(module._regression_energy(h, z, 2)[0][0])
        b = np.linalg.lstsq(module._features(z, indices), h[:, 0], rcond=None)[0]
        plain.append([(b[indices.sum(1) == d] ** 2).sum() for d in range(3)])
    error = np.std(estimates, 0) / math.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, 0) - truth) < 4 * error).all()
    assert min(one[1] for one in estimates) < 0  # chance is not clipped
    assert np.mean(plain, 0)[1] > 5 * error[1]  # so the bias would be seen


def test_too_many_features_say_what_to_pass_instead():
    z = np.random.default_rng(0).standard_normal((1000, 16))
    with pytest.raises(ValueError, match=r"got 74613 features of degree 6 .* pass degree=1"):
        measure_spectrum(z, latents=z, degree=6)
    with pytest.raises(ValueError, match="pass degree=1 or at least 1530 samples"):
        measure_spectrum(z, latents=z, degree=2)


def test_many_features_are_computed_in_pieces(monkeypatch):
    z = np.random.default_rng(3).standard_normal((500, 3))
    whole = module._regression_energy(np.tanh(z), z, 3)
    monkeypatch.setattr(module, "_CELLS", 333)
    pieces = module._regression_energy(np.tanh(z), z, 3)
    for one, other in zip(pieces, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
