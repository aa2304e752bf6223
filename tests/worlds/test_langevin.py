"""The Langevin process against its law, its eigenfunctions and Ornstein-Uhlenbeck."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from isojepa.laws import Empirical, GeneralizedNormal, Mixture, StudentT, Uniform, bimodal, eigensystem
from isojepa.registry import Context, make
from isojepa.seeds import generator
from isojepa.worlds import Langevin, OrnsteinUhlenbeck, Spiral, World
from tests.reference.global_state import untouched
from tests.worlds import stationary
from tests.worlds.stationary import N

LAWS = {
    **stationary.LAWS,
    "gennorm-8": (GeneralizedNormal(8.0), lambda z: stats.gennorm(8).cdf(z * stats.gennorm(8).std())),
    "student-2.2": (StudentT(2.2), stats.t(2.2, scale=math.sqrt(0.2 / 2.2)).cdf),
}
_PROCESSES: dict[str, Langevin] = {}


def process(name):
    """A process of one coordinate, built once."""
    if name not in _PROCESSES:
        _PROCESSES[name] = Langevin(1, LAWS[name][0], rho=0.8)
    return _PROCESSES[name]


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_stationary_however_many_steps(name):
    stationary.assert_stationary(process(name), LAWS[name][1], generator(1, "langevin", name))


@pytest.mark.parametrize("name", ["normal", "uniform", "gennorm-8", "bimodal"])
def test_latents_have_mean_0_variance_1_and_correlation_rho(name):
    stationary.assert_standard(process(name), 0.8, generator(2, name))
    assert process(name).correlation == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_the_joint_law_is_symmetric(name):
    z, z_next = (part[:, 0].double().numpy() for part in process(name).sample(N, generator(3, name)))
    stationary.assert_reversible(z, z_next, LAWS[name][1])
    # and odd in time: E z^3 z' = E z z'^3 up to chance
    skew = np.tanh(z) ** 2 * np.tanh(z_next) - np.tanh(z) * np.tanh(z_next) ** 2
    assert abs(skew.mean()) < 6 * skew.std() / math.sqrt(N)


@pytest.mark.parametrize("name", ["normal", "uniform", "gennorm-8", "bimodal"])
def test_each_eigenfunction_forgets_at_its_own_rate(name):
    spectrum = eigensystem(LAWS[name][0], count=3)
    z, z_next = (part[:, 0].double().numpy() for part in process(name).sample(2 * N, generator(4, name)))
    for k in (1, 2, 3):
        product = spectrum(k, z) * spectrum(k, z_next)
        truth = math.exp(-spectrum.eigenvalues[k] * process(name).times[0])
        assert abs(product.mean() - truth) < 5 * product.std() / math.sqrt(2 * N)
        crossed = spectrum(k, z) * spectrum(k % 3 + 1, z_next)
        assert abs(crossed.mean()) < 5 * crossed.std() / math.sqrt(2 * N)


def test_in_the_gaussian_case_the_kernel_is_that_of_ornstein_uhlenbeck():
    source = generator(5, "kernel")
    for start in (-2.0, 0.0, 1.3):
        z = torch.full((N, 1), start)
        moved = process("normal").step(z, source)[:, 0].double()
        # the cell around the start has a width of 0.02 or so
        assert abs(moved.mean().item() - 0.8 * start) < 0.015
        assert abs(moved.var().item() - 0.36) < 0.01
        other = OrnsteinUhlenbeck(1, rho=0.8).step(z, source)[:, 0].double()
        assert stats.ks_2samp(moved.numpy(), other.numpy()).statistic < 0.02
    z, z_next = (part[:, 0].double().numpy() for part in process("normal").sample(N, source))
    conditional = z_next - 0.8 * z
    # nothing of z' - rho z is left that z, z^2 or z^3 could explain
    design = np.column_stack((np.ones(N), z, z**2, z**3))
    fitted = design @ np.linalg.lstsq(design, conditional, rcond=None)[0]
    assert fitted.var() / conditional.var() < 20 / N
    assert process("normal").times[0] == pytest.approx(-math.log(0.8), rel=1e-3)


@pytest.mark.parametrize("name", ["laplace", "gennorm-8", "bimodal"])
def test_two_steps_are_one_step_of_twice_the_lag(name):
    once, twice = process(name), Langevin(1, LAWS[name][0], rho=0.8, lag=2.0)
    np.testing.assert_allclose(
        once._tables.cells.transition(2 * once.times[0]),
        np.linalg.matrix_power(once._tables.cells.transition(once.times[0]), 2),
        atol=1e-12,
    )
    source = generator(6, name)
    start = torch.full((N, 1), 0.7)
    two = once.step(once.step(start, source), source)[:, 0].numpy()
    assert stats.ks_2samp(two, twice.step(start, source)[:, 0].numpy()).pvalue > 1e-3
    assert twice.times[0] == pytest.approx(2 * once.times[0])


def test_a_trajectory_has_the_correlations_of_its_lags():
    law = GeneralizedNormal(4.0)
    path = Langevin(2, law, rho=(0.9, 0.6)).trajectory(30_000, 4, generator(7, "path"))
    assert path.shape == (4, 30_000, 2)
    for lag in (1, 2, 3):
        truth = Langevin(2, law, rho=(0.9, 0.6), lag=lag).correlation
        products = (path[0] * path[lag]).double()
        error = products.std(0) / math.sqrt(30_000)
        assert ((products.mean(0) - torch.tensor(truth)).abs() < 5 * error).all()
    assert truth[0] != pytest.approx(0.9**3, abs=1e-4)  # only of phi_1, not of z, is it a power


def test_coordinates_are_independent_and_have_their_own_rates():
    made = Langevin(3, bimodal(4.0), rho=(0.5, 0.9, 0.5))
    z, z_next = made.sample(N, generator(8, "own"))
    across = np.corrcoef(torch.cat((z, z_next), 1).double().numpy().T)
    truth = np.eye(6)
    for i, rho in enumerate((0.5, 0.9, 0.5)):
        truth[i, i + 3] = truth[i + 3, i] = rho
    assert np.abs(across - truth).max() < 6 / math.sqrt(N)
    assert made.correlation == pytest.approx((0.5, 0.9, 0.5), abs=1e-9)
    assert made.times[0] == made.times[2] > made.times[1]


def test_a_users_law_and_a_sample_make_worlds():
    class Quartic:
        support = (-math.inf, math.inf)

        def log_density(self, z):
            return -((z * 0.5813) ** 4)

    z, _ = Langevin(1, Quartic(), 0.9).sample(N, generator(9, "user"))
    assert z.std().item() == pytest.approx(1, abs=0.01)
    values = stats.gamma(9).rvs(2000, random_state=1)
    law = Empirical(values)
    z, _ = Langevin(1, law, 0.9).sample(N, generator(10, "user"))
    assert stats.ks_2samp(z[:, 0].numpy(), (values - law.mean) / law.deviation).pvalue > 1e-3


def test_only_a_normal_law_is_gaussian():
    assert Langevin(1).gaussian
    assert Langevin(1, GeneralizedNormal(2.0)).gaussian
    assert Langevin(1, Mixture((1.0,), (3.0,), (2.0,))).gaussian
    for name in ("uniform", "laplace", "student", "bimodal"):
        assert not process(name).gaussian


def test_drawing_depends_on_the_generator_alone_and_keeps_the_dtype():
    made = Langevin(2, Uniform(), 0.9)
    with untouched():
        first = made.sample(50, generator(11, "a"))
    again, other = made.sample(50, generator(11, "a")), made.sample(50, generator(12, "a"))
    for one, two, three in zip(first, again, other, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, two)
        assert (one != three).all()
    z = torch.zeros(3, 5, 2, dtype=torch.float64)
    assert made.step(z, generator(0)).shape == (3, 5, 2)
    assert made.step(z, generator(0)).dtype == torch.float64
    far = made.step(torch.tensor([[-50.0, 50.0]]), generator(0))
    assert (far.abs() <= math.sqrt(3)).all()


def test_a_config_builds_it():
    config = make("world", process="langevin", law="generalized-normal", shape=4.0, rho=0.9, lag=2.0, dim=2)
    made = config.build(Context()).process
    assert made == Langevin(2, GeneralizedNormal(4.0), 0.9, 2.0)
    assert isinstance(make("world", process="langevin", law="bimodal", shape=3.0).build(Context()), World)
    assert repr(made) == "Langevin(dim=2, law=GeneralizedNormal(alpha=4.0), rho=0.9, lag=2.0)"
    pairs = World(made, Spiral()).sample(16, generator(0, "config"))
    assert pairs.views[0].shape == (16, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be a positive integer, got 0"),
        ({"dim": 2, "rho": 1.0}, r"rho must lie in \(0, 1\), got 1.0"),
        ({"dim": 3, "rho": (0.5, 0.6)}, "rho must have one value or 3"),
        ({"dim": 1, "lag": 0.0}, "lag must be positive and finite, got 0.0"),
        ({"dim": 1, "law": 3}, "law must have log_density and support, got int"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Langevin(**arguments)


@pytest.mark.slow
def test_a_rho_too_near_one_is_refused_with_the_highest_that_is_not():
    with pytest.raises(ValueError, match=r"rho must be at most 0.9999\d+ for this law, got 0.9999999"):
        Langevin(1, rho=0.9999999)
    z, z_next = Langevin(1, rho=0.9999).sample(N, generator(13, "near"))
    step = (z_next - z).double().square().mean().item()
    assert step == pytest.approx(2e-4, rel=0.02)


def test_bad_latents_are_refused():
    made = process("normal")
    with pytest.raises(ValueError, match=r"z must have 1 coordinates, got shape \(4, 2\)"):
        made.step(torch.zeros(4, 2), generator(0))
    with pytest.raises(ValueError, match="z must be finite, got NaN or Inf"):
        made.step(torch.tensor([[math.nan]]), generator(0))
    for n in (0, -3, 2.5):
        with pytest.raises(ValueError, match=f"number of samples must be a positive integer, got {n}"):
            made.sample(n, generator(0))


def test_no_warning_reaches_the_user_from_heavy_tails():
    # they have a stationary law and a kernel; only their spectrum is continuous
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z, z_next = Langevin(1, StudentT(3.0), 0.9).sample(10, generator(0))
    assert torch.isfinite(torch.cat((z, z_next))).all()


@pytest.mark.slow
def test_a_lag_so_short_that_cells_would_blur_it_is_refused():
    with pytest.raises(ValueError, match=r"rho must be at most 0.9999\d+ after a lag of 1e-09"):
        Langevin(1, rho=0.9, lag=1e-9)
    z, z_next = Langevin(1, rho=0.9, lag=0.01).sample(N, generator(14, "short"))
    step = (z_next - z).double().square().mean().item()
    assert step == pytest.approx(2 * (1 - 0.9**0.01), rel=0.03)


def test_a_class_in_place_of_a_law_is_refused():
    with pytest.raises(ValueError, match=r"law must be an object, got the class Uniform: write Uniform\(\)"):
        Langevin(1, law=Uniform)


class Shaped:
    def __init__(self, log_density, support=(-math.inf, math.inf)):
        self.log_density, self.support = log_density, support


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Shaped(lambda z: 0 * z), "must fall to 0 towards -inf"),
        (Shaped(lambda z: z**2), "must fall to 0 towards -inf"),
        (Shaped(lambda z: -z, (-1.0, -math.inf)), "support must be an interval"),
        (Shaped(lambda z: -(z**2), 3), "support must be an interval"),
        (Shaped(lambda z: -40 * (z**2 - 1) ** 2), "wells too deep"),
    ],
    ids=["flat", "growing", "reversed", "number", "wells"],
)
def test_laws_that_no_diffusion_has_are_refused(law, message, recwarn):
    with pytest.raises(ValueError, match=message):
        Langevin(1, law=law, rho=0.9)
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]
