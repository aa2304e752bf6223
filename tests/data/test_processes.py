"""Latent processes against the moments they are defined by."""

import math

import numpy as np
import pytest
import torch

from isojepa.data import Copula, Langevin, NoisyCopies, OrnsteinUhlenbeck
from isojepa.distributions import GeneralizedNormal, Mixture, Normal, StudentT, Uniform, bimodal
from isojepa.seeds import generator
from tests.reference.global_state import untouched

LAWS = {
    "normal": Normal(),
    "laplace": GeneralizedNormal(1.0),
    "generalized-normal": GeneralizedNormal(4.0),
    "student-t": StudentT(6.0),
    "uniform": Uniform(),
}
PROCESSES = {
    "ornstein-uhlenbeck": OrnsteinUhlenbeck(dim=3, rho=0.8),
    **{f"noisy-copies-{name}": NoisyCopies(dim=3, rho=0.8, law=law) for name, law in LAWS.items()},
    "langevin": Langevin(dim=3, rho=0.8, law=Uniform()),
    "copula": Copula(dim=3, rho=0.8, law=Uniform()),
}
SHAPED = [Langevin, Copula]  # any distribution with an exact step


CLASSES = [OrnsteinUhlenbeck, NoisyCopies, Langevin, Copula]


def joint_covariance(z: torch.Tensor, z_next: torch.Tensor) -> np.ndarray:
    joined = torch.cat((z, z_next), 1).double().numpy()
    return np.cov(joined.T, ddof=1)


@pytest.mark.parametrize(
    ("rho", "lag", "expected"),
    [
        (0.95, 1.0, [0.95, 0.95, 0.95]),
        (0.9, 3.0, [0.729, 0.729, 0.729]),
        ([0.2, 0.6, 0.99], 2.5, [0.2**2.5, 0.6**2.5, 0.99**2.5]),
    ],
)
def test_ornstein_uhlenbeck_pairs_have_unit_variance_and_correlation_rho_to_the_lag(rho, lag, expected):
    n = 200_000
    process = OrnsteinUhlenbeck(dim=3, rho=rho, lag=lag)
    z, z_next = process.sample(n, generator(1, "moments"))
    r = np.diag(expected)
    truth = np.block([[np.eye(3), r], [r, np.eye(3)]])
    # an entry of a Gaussian sample covariance has variance at most 2 / n
    assert np.abs(joint_covariance(z, z_next) - truth).max() < 6 * math.sqrt(2 / n)
    assert np.abs(torch.cat((z, z_next), 1).mean(0).numpy()).max() < 6 / math.sqrt(n)
    np.testing.assert_allclose(np.broadcast_to(process.correlation, 3), expected, rtol=1e-12)


def test_trajectory_is_stationary_and_forgets_geometrically():
    n, steps, rho, lag = 60_000, 6, (0.3, 0.9), 1.5
    path = OrnsteinUhlenbeck(dim=2, rho=rho, lag=lag).trajectory(n, steps, generator(2, "path"))
    assert path.shape == (steps, n, 2)
    for d in range(2):
        times = np.arange(steps)
        truth = rho[d] ** (lag * np.abs(times[:, None] - times))
        sample = np.cov(path[..., d].double().numpy())
        assert np.abs(sample - truth).max() < 6 * math.sqrt(2 / n)


def test_correlation_close_to_one_keeps_its_small_noise():
    # in float32 1 - rho^2 would lose the digits that the step size consists of
    rho = 1 - 1e-6
    z, z_next = OrnsteinUhlenbeck(1, rho=rho).sample(50_000, generator(4, "near"))
    step = (z_next - z).double()
    assert step.square().mean().item() == pytest.approx(2 * (1 - rho), rel=0.05)


@pytest.mark.parametrize("law", LAWS)
def test_noisy_copies_have_unit_variance_and_correlation_rho_squared(law):
    n, rho = 200_000, (0.3, 0.95)
    process = NoisyCopies(dim=2, rho=rho, law=LAWS[law])
    z, z_next = (part.double() for part in process.sample(n, generator(5, law)))
    for sample in (z, z_next):
        square = sample**2
        assert ((square.mean(0) - 1).abs() < 6 * square.std(0) / math.sqrt(n)).all()
        assert (sample.mean(0).abs() < 6 / math.sqrt(n)).all()
    product = z * z_next
    truth = torch.tensor([0.09, 0.9025], dtype=torch.float64)
    assert ((product.mean(0) - truth).abs() < 6 * product.std(0) / math.sqrt(n)).all()
    assert process.correlation == pytest.approx((0.09, 0.9025))
    assert process.gaussian == (law == "normal")


@pytest.mark.parametrize("name", PROCESSES)
def test_sampling_depends_on_the_generator_alone(name):
    process = PROCESSES[name]
    with untouched():
        first = process.sample(50, generator(6, "a"))
    torch.manual_seed(123)
    again = process.sample(50, generator(6, "a"))
    other = process.sample(50, generator(7, "a"))
    for one, two, three in zip(first, again, other, strict=True):
        assert torch.equal(one, two)
        assert (one != three).all()


@pytest.mark.parametrize("process", SHAPED)
def test_only_a_normal_distribution_makes_a_gaussian_process(process):
    normal = (Normal(), GeneralizedNormal(2.0), Mixture((1.0,), (3.0,), (2.0,)))
    others = (Uniform(), GeneralizedNormal(1.0), StudentT(5.0), bimodal(4.0))
    assert [process(1, law).gaussian for law in (*normal, *others)] == [True] * 3 + [False] * 4


@pytest.mark.parametrize("process", SHAPED)
def test_a_step_keeps_the_dtype_and_the_support_and_refuses_bad_latents(process):
    made = process(2, Uniform(), 0.9)
    z = torch.zeros(3, 5, 2, dtype=torch.float64)
    assert (made.step(z, generator(0)).shape, made.step(z, generator(0)).dtype) == (z.shape, z.dtype)
    assert made.sample(5, generator(0))[0].dtype == torch.float32
    assert (made.step(torch.tensor([[-50.0, 50.0]]), generator(0)).abs() <= math.sqrt(3)).all()
    with pytest.raises(ValueError, match=r"z must have 2 coordinates, got shape \(4, 3\)"):
        made.step(torch.zeros(4, 3), generator(0))
    with pytest.raises(ValueError, match="z must be finite, got NaN or Inf"):
        made.step(torch.tensor([[math.nan, 0.0]]), generator(0))


@pytest.mark.parametrize("process", SHAPED)
def test_what_is_no_distribution_is_refused(process):
    with pytest.raises(ValueError, match="law must have log_density and support, got int"):
        process(1, law=3)
    with pytest.raises(ValueError, match="law must be an object, got the class Uniform"):
        process(1, law=Uniform)


@pytest.mark.parametrize("process", CLASSES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1}, r"rho must lie in \(0, 1\), got 1.0"),
        ({"rho": math.nan}, r"rho must lie in \(0, 1\), got nan"),
        ({"rho": (0.5, 0.6, 0.7)}, "rho must have one value or 2, one per dimension, got 3"),
        ({"dim": 0}, "dim must be a positive integer, got 0"),
        ({"lag": math.inf}, "lag must be positive and finite, got inf"),
    ],
)
def test_settings_out_of_range_are_refused(process, options, message):
    if "lag" in options and process is NoisyCopies:
        pytest.skip("noisy copies have no lag")
    with pytest.raises(ValueError, match=message):
        process(**{"dim": 2, "rho": 0.9, **options})


@pytest.mark.parametrize("process", PROCESSES.values(), ids=list(PROCESSES))
def test_a_sample_size_that_is_no_positive_integer_is_refused(process):
    with pytest.raises(ValueError, match="number of samples must be a positive integer, got 0"):
        process.sample(0, generator(0))
