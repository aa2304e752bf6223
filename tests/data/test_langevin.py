"""The Langevin process against its law, its eigenfunctions and Ornstein-Uhlenbeck."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isojepa.data import Langevin, OrnsteinUhlenbeck
from isojepa.distributions import (
    eigensystem,
)
from isojepa.seeds import generator
from tests.data.test_stationary import LAWS, N, process


@pytest.mark.parametrize("name", ["normal", "uniform", "gennorm-8", "bimodal"])
def test_each_eigenfunction_forgets_at_its_own_rate(name):
    spectrum = eigensystem(LAWS[name][0], count=3)
    z, z_next = (
        part[:, 0].double().numpy() for part in process(Langevin, name).sample(2 * N, generator(4, name))
    )
    for k in (1, 2, 3):
        product = spectrum(k, z) * spectrum(k, z_next)
        truth = math.exp(-spectrum.eigenvalues[k] * process(Langevin, name).times[0])
        assert abs(product.mean() - truth) < 5 * product.std() / math.sqrt(2 * N)
        crossed = spectrum(k, z) * spectrum(k % 3 + 1, z_next)
        assert abs(crossed.mean()) < 5 * crossed.std() / math.sqrt(2 * N)


def test_in_the_gaussian_case_the_kernel_is_that_of_ornstein_uhlenbeck():
    source = generator(5, "kernel")
    for start in (-2.0, 0.0, 1.3):
        z = torch.full((N, 1), start)
        moved = process(Langevin, "normal").step(z, source)[:, 0].double()
        # the cell around the start has a width of 0.02 or so
        assert abs(moved.mean().item() - 0.8 * start) < 0.015
        assert abs(moved.var().item() - 0.36) < 0.01
        other = OrnsteinUhlenbeck(1, rho=0.8).step(z, source)[:, 0].double()
        assert stats.ks_2samp(moved.numpy(), other.numpy()).statistic < 0.02
    z, z_next = (part[:, 0].double().numpy() for part in process(Langevin, "normal").sample(N, source))
    conditional = z_next - 0.8 * z
    # nothing of z' - rho z is left that z, z^2 or z^3 could explain
    design = np.column_stack((np.ones(N), z, z**2, z**3))
    fitted = design @ np.linalg.lstsq(design, conditional, rcond=None)[0]
    assert fitted.var() / conditional.var() < 20 / N
    assert process(Langevin, "normal").times[0] == pytest.approx(-math.log(0.8), rel=1e-3)


@pytest.mark.slow
def test_a_rho_too_near_one_is_refused_with_the_highest_that_is_not():
    with pytest.raises(ValueError, match=r"rho must be at most 0.9999\d+ for this law, got 0.9999999"):
        Langevin(1, rho=0.9999999)
    z, z_next = Langevin(1, rho=0.9999).sample(N, generator(13, "near"))
    step = (z_next - z).double().square().mean().item()
    assert step == pytest.approx(2e-4, rel=0.02)


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
