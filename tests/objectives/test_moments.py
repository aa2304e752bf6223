"""Whitening and VICReg against the formulas in numpy."""

import numpy as np
import pytest
import torch

from isojepa.objectives import VICReg, Whitening
from isojepa.seeds import generator
from tests.reference.numpy_moments import (
    vicreg_covariance,
    vicreg_invariance,
    vicreg_variance,
    whitening,
)

SHAPES = [(2, 12, 1), (2, 7, 4), (3, 30, 5), (2, 2, 6)]


def sample(shape: tuple[int, ...]) -> torch.Tensor:
    """Correlated views, some dimensions with less variance than 1 and some with more."""
    *_, dim = shape
    source = generator(0, "views", *shape)
    mix = torch.randn(dim, dim, generator=source, dtype=torch.float64)
    scale = torch.linspace(0.2, 1.5, dim, dtype=torch.float64)
    return (torch.randn(shape, generator=source, dtype=torch.float64) @ mix) * scale / dim**0.5 + 0.3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_whitening_equals_its_formula_per_view_and_pooled(shape):
    views = sample(shape)
    per_view = np.mean([whitening(view.numpy()) for view in views])
    assert Whitening()(views).item() == pytest.approx(per_view, rel=1e-10)
    assert Whitening(pooled=True)(views).item() == pytest.approx(
        whitening(views.reshape(-1, shape[-1]).numpy()), rel=1e-10
    )


def test_whitening_of_whitened_data_is_zero():
    x = sample((1, 50, 4))[0].numpy()
    centred = x - x.mean(0)
    white = centred @ np.linalg.inv(np.linalg.cholesky(np.cov(centred.T)).T)
    assert Whitening()(torch.from_numpy(white)).item() == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("weight", "c"), [(0.5, 1 / 25), (0.2, 3.0), (1.0, 0.0)])
def test_vicreg_equals_the_published_formulas(shape, weight, c):
    views = sample(shape)
    arrays = [view.numpy() for view in views]
    loss = VICReg(weight=weight, covariance_weight=c)(views)
    variance = np.mean([vicreg_variance(z, 1e-4) for z in arrays])
    covariance = np.mean([vicreg_covariance(z) for z in arrays])
    pairs = [(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :]]
    invariance = np.mean([vicreg_invariance(a, b) for a, b in pairs]) / shape[-1]
    assert loss.terms["variance"].item() == pytest.approx(variance, rel=1e-10, abs=1e-14)
    assert loss.terms["covariance"].item() == pytest.approx(covariance, rel=1e-10, abs=1e-14)
    assert loss.terms["alignment"].item() == pytest.approx(invariance, rel=1e-10)
    total = weight * (variance + c * covariance) + (1 - weight) * invariance
    assert loss.total.item() == pytest.approx(total, rel=1e-10)


def test_covariance_weight_2_25_is_the_released_vicreg_over_50():
    # facebookresearch/vicreg: 25 mse + 25 (v + v') / 2 + 1 (c + c'): variance is averaged over the two
    # views, covariance is summed
    views = sample((2, 40, 5))
    a, b = (view.numpy() for view in views)
    released = (
        25 * np.mean((a - b) ** 2)
        + 25 * (vicreg_variance(a, 1e-4) + vicreg_variance(b, 1e-4)) / 2
        + 1 * (vicreg_covariance(a) + vicreg_covariance(b))
    )
    assert 50 * VICReg(weight=0.5, covariance_weight=2 / 25)(views).total.item() == pytest.approx(released)


def test_float32_covariance_term_is_exact_when_dimensions_are_almost_uncorrelated():
    # unit variances and one correlation of 1e-3: all squares less the diagonal's would be rounding noise
    x = torch.randn(2, 64, 16, generator=generator(0, "near"), dtype=torch.float64)
    x = torch.stack([torch.linalg.qr(view - view.mean(0))[0] for view in x]) * 63**0.5
    x[..., 1] += 1e-3 * x[..., 0]
    truth = np.mean([vicreg_covariance(view.numpy()) for view in x.float().double()])
    assert truth == pytest.approx(2e-6 / 16, rel=1e-3)
    assert VICReg()(x.float()).terms["covariance"].item() == pytest.approx(truth, rel=1e-2)


@pytest.mark.parametrize("objective", [VICReg(), VICReg(weight=0.9, covariance_weight=2.0)])
def test_vicreg_gradient_is_the_derivative(objective):
    assert torch.autograd.gradcheck(lambda v: objective(v).total, sample((2, 7, 4)).requires_grad_())


@pytest.mark.parametrize("pooled", [False, True])
def test_whitening_gradient_is_the_derivative(pooled):
    assert torch.autograd.gradcheck(Whitening(pooled=pooled), sample((2, 7, 4)).requires_grad_())


def test_vicreg_refuses_settings_and_shapes_without_meaning():
    with pytest.raises(ValueError, match=r"weight must lie in \[0, 1\], got 2"):
        VICReg(weight=2)
    with pytest.raises(ValueError, match="covariance_weight must not be negative, got -1"):
        VICReg(covariance_weight=-1)
    with pytest.raises(ValueError, match=r"at least 2 views, got shape \(1, 8, 3\)"):
        VICReg()(torch.zeros(1, 8, 3))
    with pytest.raises(ValueError, match=r"at least 2 samples, got \(2, 1, 3\)"):
        VICReg()(torch.zeros(2, 1, 3))
