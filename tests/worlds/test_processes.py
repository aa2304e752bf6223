"""Latent processes against the moments they are defined by."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isojepa.laws import GeneralizedNormal, Normal, StudentT, Uniform
from isojepa.seeds import generator
from isojepa.worlds import NoisyCopies, OrnsteinUhlenbeck
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
}


def joint_covariance(z: torch.Tensor, z_next: torch.Tensor) -> np.ndarray:
    joined = torch.cat((z, z_next), 1).double().numpy()
    return np.cov(joined.T, ddof=1)


@pytest.mark.parametrize(
    ("rho", "lag", "expected"),
    [
        (0.95, 1.0, [0.95, 0.95, 0.95]),
        (0.9, 3.0, [0.729, 0.729, 0.729]),
        (0.5, 0.5, [math.sqrt(0.5)] * 3),
        ([0.2, 0.6, 0.99], 1.0, [0.2, 0.6, 0.99]),
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


def test_a_step_of_lag_three_has_the_law_of_three_steps():
    n = 100_000
    z = torch.full((n, 1), 2.0)
    slow, fast = OrnsteinUhlenbeck(1, rho=0.8), OrnsteinUhlenbeck(1, rho=0.8, lag=3)
    source = generator(3, "steps")
    for _ in range(3):
        z = slow.step(z, source)
    once = fast.step(torch.full((n, 1), 2.0), source)
    truth_mean, truth_var = 2 * 0.8**3, 1 - 0.8**6
    for sample in (z, once):
        assert abs(sample.mean().item() - truth_mean) < 6 * math.sqrt(truth_var / n)
        assert abs(sample.var().item() - truth_var) < 6 * truth_var * math.sqrt(2 / n)


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


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    dim=st.integers(1, 6),
    rho=st.floats(0.01, 0.999),
    lag=st.floats(0.1, 5.0),
    copies=st.booleans(),
    seed=st.integers(0, 2**62),
)
def test_any_process_samples_finite_pairs_of_the_stated_correlation(dim, rho, lag, copies, seed):
    n = 2000
    process = NoisyCopies(dim, rho) if copies else OrnsteinUhlenbeck(dim, rho, lag)
    r = rho**2 if copies else rho**lag
    z, z_next = process.sample(n, generator(seed, "property"))
    assert z.shape == z_next.shape == (n, dim)
    assert torch.isfinite(z).all()
    assert torch.isfinite(z_next).all()
    assert process.correlation == pytest.approx(r)
    # E z z' = r with variance (1 + r^2) / n for standard normals
    deviation = (z * z_next).double().mean(0) - r
    assert deviation.abs().max().item() < 6 * math.sqrt((1 + r**2) / n)


@pytest.mark.parametrize("process", [OrnsteinUhlenbeck, NoisyCopies])
@pytest.mark.parametrize("rho", [0, 1, 1.2, -0.1, math.nan, (0.5, 1.0)])
def test_rho_outside_the_open_interval_is_refused(process, rho):
    value = float(rho[1]) if isinstance(rho, tuple) else float(rho)
    with pytest.raises(ValueError, match=rf"rho must lie in \(0, 1\), got {value}"):
        process(dim=2, rho=rho)


@pytest.mark.parametrize("process", [OrnsteinUhlenbeck, NoisyCopies])
def test_a_wrong_number_of_rhos_is_refused(process):
    with pytest.raises(ValueError, match="rho must have one value or 3, one per dimension, got 2"):
        process(dim=3, rho=(0.5, 0.6))


@pytest.mark.parametrize("process", [OrnsteinUhlenbeck, NoisyCopies])
@pytest.mark.parametrize("dim", [0, -1, 1.5])
def test_a_dimension_that_is_no_positive_integer_is_refused(process, dim):
    with pytest.raises(ValueError, match=f"dim must be a positive integer, got {dim}"):
        process(dim=dim)


@pytest.mark.parametrize("lag", [0, -1.0, math.inf, math.nan])
def test_a_lag_that_is_not_positive_is_refused(lag):
    with pytest.raises(ValueError, match=f"lag must be positive and finite, got {lag}"):
        OrnsteinUhlenbeck(dim=2, lag=lag)


@pytest.mark.parametrize("process", PROCESSES.values(), ids=list(PROCESSES))
@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_a_sample_size_that_is_no_positive_integer_is_refused(process, n):
    with pytest.raises(ValueError, match=f"number of samples must be a positive integer, got {n}"):
        process.sample(n, generator(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": None}, "dim must be a positive integer, got None"),
        ({"dim": math.inf}, "dim must be a positive integer, got inf"),
        ({"rho": "0.9"}, "rho must be a number or one per dimension, got '0.9'"),
        ({"rho": None}, "rho must be a number"),
        ({"rho": [[0.9, 0.9]]}, "rho must be a number"),
        ({"lag": "1"}, "lag must be positive and finite, got '1'"),
    ],
    ids=["dim-none", "dim-inf", "rho-word", "rho-none", "rho-nested", "lag-word"],
)
def test_what_is_no_number_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        OrnsteinUhlenbeck(**{"dim": 2, "rho": 0.9, **options})
