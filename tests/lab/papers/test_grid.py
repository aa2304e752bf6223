"""The grid: what the loss prefers against independent arithmetic, and statements that can be false."""

import math

import numpy as np
import pytest
import torch

from isojepa.data import OrnsteinUhlenbeck, Spiral, World
from isojepa.objectives import SIGReg
from isojepa.objectives.alignment import to_center
from isojepa.seeds import generator
from isojepa_lab.papers.world_model.grid_theory import least_sigreg, preferred, spiral_correlation


def test_scaling_alone_has_the_minimum_of_a_fine_search() -> None:
    """One coefficient: h = s z, whose projections are N(0, s^2)."""
    weight, rho, batch = 1e-3, 0.9, 256
    step = 10 / 16
    t = step * np.arange(-8, 9)
    window = step * np.exp(-(t**2) / 2) * np.where(np.abs(t) == 5, 0.5, 1.0)
    variances = np.linspace(1e-3, 1.2, 20_000)
    phi = np.exp(-variances[:, None] * t**2 / 2)
    sigreg = (batch * (phi - np.exp(-(t**2) / 2)) ** 2 + 1 - phi**2) @ window
    losses = weight * sigreg + (1 - weight) * (1 - rho) / 2 * variances
    found = preferred(weight, rho, batch, terms=1)
    assert found.loss == pytest.approx(losses.min(), rel=1e-6)
    assert found.variance == pytest.approx(variances[losses.argmin()], abs=2e-4)
    assert found.r2 == 1
    assert found.orthogonality == pytest.approx(1 - found.variance)


def test_preferred_losses_are_those_of_the_map_itself() -> None:
    """A bent map of known coefficients, sampled and given to the objectives that training uses."""
    from isojepa_lab.papers.world_model.grid_theory import _alignment, _sigreg

    a = np.array([0.8, -0.15, 0.05])
    z, z_next = OrnsteinUhlenbeck(2, 0.8).sample(256 * 300, generator(0, "test"))

    def h(z: torch.Tensor) -> torch.Tensor:
        u = z.double().square().sum(1, keepdim=True) / 2
        terms = (torch.ones_like(u), 2 - u, 3 - 3 * u + u**2 / 2)
        return z * sum(c * term / math.sqrt(k + 1) for k, (c, term) in enumerate(zip(a, terms, strict=True)))

    views = torch.stack((h(z), h(z_next)))
    assert to_center(views).item() == pytest.approx(_alignment(a, 0.8), rel=0.015)
    batches = views.reshape(-1, 256, 2).float()
    sampled = SIGReg(slices=32)(batches, generator(0, "slices")).item()
    assert sampled == pytest.approx(_sigreg(a, 256)[0], rel=0.04)


def test_the_gradient_of_the_expected_statistic_is_its_slope() -> None:
    from isojepa_lab.papers.world_model.grid_theory import _sigreg

    a, h = np.array([0.7, 0.1, -0.2, 0.03]), 1e-6
    slope = _sigreg(a, 256)[1]
    for index, direction in enumerate(np.eye(4)):
        numeric = (_sigreg(a + h * direction, 256)[0] - _sigreg(a - h * direction, 256)[0]) / (2 * h)
        assert slope[index] == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_bending_helps_the_loss_and_never_the_recovery(rho: float) -> None:
    straight, bent = preferred(1e-2, rho, terms=1), preferred(1e-2, rho)
    assert bent.loss < straight.loss
    assert bent.r2 < straight.r2
    assert bent.loss == pytest.approx(preferred(1e-2, rho, terms=10).loss, rel=1e-3)


def test_no_law_has_less_than_the_least_sigreg() -> None:
    least = least_sigreg(256)
    assert least < preferred(0.5, 0.95).sigreg < least + 0.01
    t = np.arange(1, 9) * 10 / 16
    window = 2 * (10 / 16) * np.exp(-(t**2) / 2) * np.where(t == 5, 0.5, 1.0)
    values = np.linspace(-1, 1, 20_001)[:, None]
    pointwise = (256 * (values - np.exp(-(t**2) / 2)) ** 2 + 1 - values**2).min(0)
    assert least == pytest.approx(float(window @ pointwise), abs=1e-6)


def test_small_weights_prefer_a_collapse_and_large_ones_recovery() -> None:
    assert preferred(1e-6, 0.9).variance < 1e-4
    assert preferred(0.5, 0.95).r2 > 0.999


def test_correlation_of_the_spiral_is_that_of_its_observations() -> None:
    pairs = World(OrnsteinUhlenbeck(2, 0.9), Spiral()).sample(200_000, generator(3, "test"))
    measured = (pairs.views[0] * pairs.views[1]).mean().item()
    assert spiral_correlation(0.9) == pytest.approx(measured, abs=0.006)
