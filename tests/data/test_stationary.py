"""What Langevin and copula processes of one coordinate must do, whatever their law."""

import functools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from isojepa.data import Copula, Langevin
from isojepa.distributions import GeneralizedNormal, Normal, StudentT, Uniform, bimodal
from isojepa.seeds import generator

N = 40_000  # draws: they tell distribution functions apart by 0.01
LAWS = {
    "normal": (Normal(), stats.norm().cdf),
    "uniform": (Uniform(), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf),
    "laplace": (GeneralizedNormal(1.0), stats.laplace(scale=1 / math.sqrt(2)).cdf),
    "student": (StudentT(5.0), stats.t(5, scale=math.sqrt(0.6)).cdf),
    "bimodal": (
        bimodal(4.0),
        lambda z: (stats.norm.cdf(z * 5**0.5 - 2) + stats.norm.cdf(z * 5**0.5 + 2)) / 2,
    ),
    "gennorm-8": (GeneralizedNormal(8.0), lambda z: stats.gennorm(8).cdf(z * stats.gennorm(8).std())),
    "gennorm-32": (GeneralizedNormal(32.0), lambda z: stats.gennorm(32).cdf(z * stats.gennorm(32).std())),
    "student-2.2": (StudentT(2.2), stats.t(2.2, scale=math.sqrt(0.2 / 2.2)).cdf),
    "gennorm-0.125": (
        GeneralizedNormal(0.125),
        lambda z: stats.gennorm(0.125).cdf(z * math.sqrt(math.gamma(24) / math.gamma(8))),
    ),
}
ONLY = {"student-2.2": Langevin, "gennorm-8": Langevin, "gennorm-32": Copula, "gennorm-0.125": Copula}
CASES = [(kind, name) for kind in (Langevin, Copula) for name in LAWS if ONLY.get(name, kind) is kind]
LIGHT = [case for case in CASES if case[1] in ("normal", "uniform", "laplace", "gennorm-8", "bimodal")]


@functools.cache
def process(kind, name):
    """A process of one coordinate, built once."""
    return kind(1, LAWS[name][0], rho=0.8)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_law_is_stationary_however_many_steps(kind, name):
    made, source = process(kind, name), generator(1, kind.__name__.lower(), name)
    z, z_next = made.sample(N, source)
    late = z_next
    for _ in range(12):
        late = made.step(late, source)
    for sample in (z, z_next, late):
        assert stats.kstest(sample[:, 0].double().numpy(), LAWS[name][1]).pvalue > 1e-3
        assert torch.isfinite(sample).all()


@pytest.mark.parametrize(("kind", "name"), LIGHT)
def test_latents_have_mean_0_variance_1_and_the_stated_correlation(kind, name):
    stated = process(kind, name).correlation
    z, z_next = (part[:, 0].double() for part in process(kind, name).sample(N, generator(2, name)))
    for sample in (z, z_next):
        square = sample**2
        assert abs(sample.mean().item()) < 6 / math.sqrt(N)
        assert abs(square.mean().item() - 1) < 6 * square.std().item() / math.sqrt(N)
    product = z * z_next
    assert abs(product.mean().item() - stated) < 6 * product.std().item() / math.sqrt(N)
    if kind is Langevin or name == "normal":
        assert stated == pytest.approx(0.8, abs=1e-9)
    else:
        assert stated < 0.8  # at most that of the hidden process


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_pairs_are_reversible(kind, name):
    """Bowker's test of symmetry, of pairs sorted into eighths of the law."""
    z, z_next = (part[:, 0].double().numpy() for part in process(kind, name).sample(N, generator(3, name)))
    a, b = (np.digitize(LAWS[name][1](part), np.linspace(0, 1, 9)[1:-1]) for part in (z, z_next))
    counts = np.zeros((8, 8))
    np.add.at(counts, (a, b), 1)
    upper, lower = counts[np.triu_indices(8, 1)], counts.T[np.triu_indices(8, 1)]
    seen = upper + lower > 20
    statistic = ((upper - lower)[seen] ** 2 / (upper + lower)[seen]).sum()
    assert stats.chi2.sf(statistic, seen.sum()) > 1e-3
    if kind is Copula:  # Spearman's correlation of a Gaussian copula, whatever the law
        spearman = stats.spearmanr(z, z_next).statistic
        assert spearman == pytest.approx(6 / math.pi * math.asin(0.4), abs=5 / math.sqrt(N))


@pytest.mark.parametrize(("kind", "name"), [case for case in LIGHT if case[1] in ("laplace", "bimodal")])
def test_two_steps_are_one_step_of_twice_the_lag(kind, name):
    once, twice = process(kind, name), kind(1, LAWS[name][0], rho=0.8, lag=2.0)
    source, start = generator(6, name), torch.full((N, 1), 0.7)
    two = once.step(once.step(start, source), source)[:, 0].numpy()
    assert stats.ks_2samp(two, twice.step(start, source)[:, 0].numpy()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("kind", "law"), [(Langevin, GeneralizedNormal(4.0)), (Copula, bimodal(4.0))], ids=["langevin", "copula"]
)
def test_a_trajectory_has_the_correlations_of_its_lags(kind, law):
    path = kind(2, law, rho=(0.9, 0.6)).trajectory(30_000, 4, generator(7, "path"))
    assert path.shape == (4, 30_000, 2)
    assert path.dtype == torch.float32
    for lag in (1, 2, 3):
        truth = kind(2, law, rho=(0.9, 0.6), lag=lag).correlation
        products = (path[0] * path[lag]).double()
        error = products.std(0) / math.sqrt(30_000)
        assert ((products.mean(0) - torch.tensor(truth)).abs() < 5 * error).all()
    assert truth[0] != pytest.approx(0.9**3, abs=1e-4)  # a power only of the first eigenfunction


@pytest.mark.parametrize("kind", [Langevin, Copula])
def test_coordinates_are_independent_and_have_their_own_rates(kind):
    made = kind(3, Uniform(), rho=(0.5, 0.9, 0.5))
    z, z_next = made.sample(N, generator(8, "own"))
    across = np.corrcoef(torch.cat((z, z_next), 1).double().numpy().T)
    truth = np.eye(6)
    for i, correlation in enumerate(made.correlation):
        truth[i, i + 3] = truth[i + 3, i] = correlation
    assert np.abs(across - truth).max() < 6 / math.sqrt(N)
