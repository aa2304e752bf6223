"""The copula process against its law, its hidden process and Ornstein-Uhlenbeck."""

import math
import time

import numpy as np
import pytest
import torch
from scipy import stats

import isojepa as ij
from isojepa.certificates import cases, certifying, predict_process
from isojepa.laws import Empirical, GeneralizedNormal, Mixture, Uniform, bimodal
from isojepa.registry import Context, make
from isojepa.seeds import generator
from isojepa.worlds import Copula, OrnsteinUhlenbeck, Sinusoid, World
from tests.reference.global_state import untouched
from tests.worlds import stationary
from tests.worlds.stationary import N

LAWS = {
    **stationary.LAWS,
    "gennorm-0.125": (
        GeneralizedNormal(0.125),
        lambda z: stats.gennorm(0.125).cdf(z * math.sqrt(math.gamma(24) / math.gamma(8))),
    ),
    "gennorm-32": (GeneralizedNormal(32.0), lambda z: stats.gennorm(32).cdf(z * stats.gennorm(32).std())),
}
_PROCESSES: dict[str, Copula] = {}


def process(name):
    """A process of one coordinate, built once."""
    if name not in _PROCESSES:
        _PROCESSES[name] = Copula(1, LAWS[name][0], rho=0.8)
    return _PROCESSES[name]


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_stationary_however_many_steps(name):
    stationary.assert_stationary(process(name), LAWS[name][1], generator(1, "copula", name))


@pytest.mark.parametrize("name", LAWS)
def test_ranks_have_the_gaussian_copula_and_pairs_are_reversible(name):
    z, z_next = (part[:, 0].double().numpy() for part in process(name).sample(N, generator(2, name)))
    # Spearman's correlation of a Gaussian copula, whatever the law
    spearman = stats.spearmanr(z, z_next).statistic
    assert spearman == pytest.approx(6 / math.pi * math.asin(0.4), abs=5 / math.sqrt(N))
    stationary.assert_reversible(z, z_next, LAWS[name][1])


@pytest.mark.parametrize("name", ["uniform", "laplace", "gennorm-32", "bimodal"])
def test_latents_have_mean_0_variance_1_and_the_stated_correlation(name):
    stated = process(name).correlation
    stationary.assert_standard(process(name), stated, generator(3, name))
    assert stated < 0.8  # at most that of what is hidden


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


def test_only_a_normal_law_is_gaussian():
    assert Copula(1).gaussian
    assert Copula(1, GeneralizedNormal(2.0)).gaussian
    assert Copula(1, Mixture((1.0,), (3.0,), (2.0,))).gaussian
    for name in ("uniform", "laplace", "student", "bimodal"):
        assert not process(name).gaussian


def test_tails_are_drawn_as_far_as_float64_reaches():
    # a million draws: the 10th largest |z| of a Laplace law lies where the law says
    z, _ = Copula(1, GeneralizedNormal(1.0), 0.5).sample(1_000_000, generator(6, "tails"))
    tenth = z.abs().double().flatten().topk(10).values[-1].item()
    mass = 1e6 * math.exp(-math.sqrt(2) * tenth)  # expected draws beyond it
    assert stats.gamma(10).cdf(mass) == pytest.approx(0.5, abs=0.4999)


def test_a_step_from_given_latents_moves_their_normal_scores():
    made = process("laplace")
    start = torch.full((N, 1), 2.0)
    y = -stats.norm.ppf(0.5 * math.exp(-math.sqrt(2) * 2.0))
    assert made.embed(start)[0, 0].item() == pytest.approx(y, abs=1e-6)
    moved = made.embed(made.step(start.double(), generator(7, "step")))[:, 0].numpy()
    assert stats.kstest(moved, stats.norm(0.8 * y, 0.6).cdf).pvalue > 1e-3


def test_two_steps_are_one_step_of_twice_the_lag_and_paths_have_these_correlations():
    law = bimodal(4.0)
    once, twice = Copula(1, law, rho=0.8), Copula(1, law, rho=0.8, lag=2.0)
    start = torch.full((N, 1), 0.7)
    source = generator(8, "lag")
    two = once.step(once.step(start, source), source)[:, 0].numpy()
    assert stats.ks_2samp(two, twice.step(start, source)[:, 0].numpy()).pvalue > 1e-3
    path = Copula(2, law, rho=(0.9, 0.6)).trajectory(30_000, 4, generator(9, "path"))
    assert path.shape == (4, 30_000, 2)
    assert path.dtype == torch.float32
    for lag in (1, 2, 3):
        truth = Copula(2, law, rho=(0.9, 0.6), lag=lag).correlation
        products = (path[0] * path[lag]).double()
        error = products.std(0) / math.sqrt(30_000)
        assert ((products.mean(0) - torch.tensor(truth)).abs() < 5 * error).all()


def test_coordinates_are_independent():
    z, z_next = Copula(3, Uniform(), rho=(0.5, 0.9, 0.5)).sample(N, generator(10, "own"))
    across = np.corrcoef(torch.cat((z, z_next), 1).double().numpy().T)
    truth = np.eye(6)
    for i, rho in enumerate((0.5, 0.9, 0.5)):
        truth[i, i + 3] = truth[i + 3, i] = 6 / math.pi * math.asin(rho / 2)
    assert np.abs(across - truth).max() < 6 / math.sqrt(N)


def test_a_sample_makes_a_world():
    values = stats.gamma(9).rvs(2000, random_state=1)
    law = Empirical(values)
    z, _ = Copula(1, law, 0.9).sample(N, generator(11, "user"))
    assert stats.ks_2samp(z[:, 0].numpy(), (values - law.mean) / law.deviation).pvalue > 1e-3


def test_drawing_depends_on_the_generator_alone_and_keeps_the_dtype():
    made = Copula(2, Uniform(), 0.9)
    with untouched():
        first = made.sample(50, generator(12, "a"))
    again, other = made.sample(50, generator(12, "a")), made.sample(50, generator(13, "a"))
    for one, two, three in zip(first, again, other, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, two)
        assert (one != three).all()
    z = torch.zeros(3, 5, 2, dtype=torch.float64)
    assert made.step(z, generator(0)).shape == (3, 5, 2)
    assert made.step(z, generator(0)).dtype == torch.float64
    far = made.step(torch.tensor([[-50.0, 50.0]]), generator(0))
    assert (far.abs() <= math.sqrt(3)).all()


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


def test_a_copula_world_has_a_prediction_for_its_certificate():
    world = World(Copula(2, GeneralizedNormal(0.125), 0.95), Sinusoid())
    case = cases.in_world(torch.nn.Identity(), world, None, 100, 1, False, False)
    assert certifying._prediction(case).r2 == pytest.approx(0.084134, abs=1e-5)


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


def test_a_config_builds_it():
    config = make("world", process="copula", law="generalized-normal", shape=4.0, rho=0.9, lag=2.0, dim=2)
    made = config.build(Context()).process
    assert made == Copula(2, GeneralizedNormal(4.0), 0.9, 2.0)
    assert repr(made) == "Copula(dim=2, law=GeneralizedNormal(alpha=4.0), rho=0.9, lag=2.0)"
    assert make("world", process="copula").build(Context()).gaussian


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be a positive integer, got 0"),
        ({"dim": 2, "rho": 1.0}, r"rho must lie in \(0, 1\), got 1.0"),
        ({"dim": 3, "rho": (0.5, 0.6)}, "rho must have one value or 3"),
        ({"dim": 1, "lag": 0.0}, "lag must be positive and finite, got 0.0"),
        ({"dim": 1, "law": 3}, "law must have log_density and support, got int"),
        ({"dim": 1, "law": Uniform}, "law must be an object, got the class Uniform"),
    ],
    ids=["dim", "rho", "rhos", "lag", "law", "class"],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Copula(**arguments)


def test_bad_latents_are_refused():
    made = process("uniform")
    with pytest.raises(ValueError, match=r"z must have 1 coordinates, got shape \(4, 2\)"):
        made.step(torch.zeros(4, 2), generator(0))
    with pytest.raises(ValueError, match="z must be finite, got NaN or Inf"):
        made.step(torch.tensor([[math.nan]]), generator(0))
    for n in (0, -3, 2.5):
        with pytest.raises(ValueError, match=f"number of samples must be a positive integer, got {n}"):
            made.sample(n, generator(0))


@pytest.mark.parametrize("rho", [1e-6, 0.999999, 1 - 1e-9, 1 - 1e-14])
def test_extreme_correlations_are_exact(rho):
    made = Copula(1, Uniform(), rho)
    assert made.correlation == pytest.approx(6 / math.pi * math.asin(rho / 2), rel=1e-6)
    assert 1 - made.correlation == pytest.approx(1 - 6 / math.pi * math.asin(rho / 2), rel=1e-3)


def test_a_batch_is_cheap_beside_making_the_process(one_thread):
    # in processor time and as a ratio, about 1 / 900: the tables are made once, a batch reads them
    start = time.process_time()
    made, source = Copula(2, GeneralizedNormal(0.57), 0.95), generator(15, "speed")
    making = time.process_time() - start
    made.sample(2048, source)
    best = math.inf
    for _ in range(20):
        start = time.process_time()
        made.sample(2048, source)
        best = min(best, time.process_time() - start)
    assert best < making / 20
