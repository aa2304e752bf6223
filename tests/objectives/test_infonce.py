"""InfoNCE and its variants against a naive implementation and cross-entropy."""

import itertools
import math

import numpy as np
import pytest
import torch

from isojepa.objectives import AnInfoNCE, InfoNCE, SlicedInfoNCE, matched_sigma
from isojepa.objectives.infonce import draw_frames
from isojepa.seeds import generator
from tests.reference.naive_infonce import naive_terms


def sample(views: int = 2, batch: int = 12, dim: int = 4, dtype=torch.float64) -> torch.Tensor:
    centre = torch.randn(batch, dim, generator=generator(0, "centre"), dtype=dtype)
    return centre + 0.4 * torch.randn(views, batch, dim, generator=generator(0, "noise", views), dtype=dtype)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("weight", [0.5, 0.1])
def test_infonce_equals_the_naive_implementation(sigma, weight):
    views = sample()
    loss = InfoNCE(sigma=sigma, weight=weight)(views)
    alignment, regularizer = naive_terms(*views, sigma)
    # the width is kept as a float32 logarithm
    assert loss.terms["alignment"].item() == pytest.approx(alignment, rel=1e-6)
    assert loss.terms["regularizer"].item() == pytest.approx(regularizer, rel=1e-6)
    assert loss.total.item() == pytest.approx(weight * regularizer + (1 - weight) * alignment, rel=1e-6)
    assert loss.terms["sigma"].item() == pytest.approx(sigma, rel=1e-6)


def test_many_views_are_averaged_over_pairs():
    views = sample(views=4)
    loss = InfoNCE()(views)
    terms = np.mean([naive_terms(a, b, 1.0) for a, b in itertools.combinations(views, 2)], axis=0)
    assert loss.terms["alignment"].item() == pytest.approx(terms[0], rel=1e-12)
    assert loss.terms["regularizer"].item() == pytest.approx(terms[1], rel=1e-12)


@pytest.mark.parametrize("sigma", [0.7, matched_sigma(0.95)])
def test_alignment_plus_regularizer_is_cross_entropy_less_log_n(sigma):
    views = sample(batch=20)
    loss = InfoNCE(sigma=sigma)(views)
    logits = -(torch.cdist(*views) ** 2) / (2 * sigma**2)
    labels = torch.arange(20)
    cross_entropy = torch.nn.functional.cross_entropy
    truth = (cross_entropy(logits, labels) + cross_entropy(logits.T, labels)) / 2
    both = loss.terms["alignment"] + loss.terms["regularizer"]
    assert both.item() + math.log(20) == pytest.approx(truth.item(), rel=1e-6)
    assert loss.total.item() == pytest.approx(both.item() / 2, rel=1e-12)


@pytest.mark.parametrize("shift", [100.0, 1000.0])
def test_infonce_in_float32_does_not_depend_on_where_the_embeddings_lie(shift):
    views = sample(batch=64, dim=8, dtype=torch.float32)
    near, far = InfoNCE(sigma=0.5)(views), InfoNCE(sigma=0.5)(views + shift)
    truth = naive_terms(*(views + shift), 0.5)
    assert near.terms["alignment"].item() == pytest.approx(naive_terms(*views, 0.5)[0], rel=1e-4)
    assert far.terms["alignment"].item() == pytest.approx(truth[0], rel=1e-3)
    assert far.terms["regularizer"].item() == pytest.approx(truth[1], rel=1e-3)


def test_aninfonce_equals_the_naive_implementation_with_a_width_per_dimension():
    views = sample()
    objective = AnInfoNCE(4).double()
    sigma = torch.tensor([0.3, 0.8, 1.0, 2.5], dtype=torch.float64)
    with torch.no_grad():
        objective.log_sigma.copy_(sigma.log())
    loss = objective(views)
    truth = naive_terms(*views, sigma)
    assert (loss.terms["alignment"].item(), loss.terms["regularizer"].item()) == pytest.approx(
        truth, rel=1e-12
    )
    torch.testing.assert_close(objective.precision, sigma**-2)


def test_slices_are_averaged():
    views = sample(dim=6)
    loss = SlicedInfoNCE(k=2, slices=5, sigma=0.7)(views, generator(1))
    frames = draw_frames(6, 2, 5, generator(1)).double()
    terms = np.mean([naive_terms(views[0] @ frame, views[1] @ frame, 0.7) for frame in frames], axis=0)
    assert loss.terms["alignment"].item() == pytest.approx(terms[0], rel=1e-10)
    assert loss.terms["regularizer"].item() == pytest.approx(terms[1], rel=1e-10)


@pytest.mark.parametrize(
    ("dim", "k", "slices"), [(6, 2, 3), (7, 3, 2), (5, 5, 1), (8, 2, 3), (4, 1, 11), (5, 2, 5)]
)
def test_frames_are_orthonormal_and_mutually_orthogonal_while_they_fit(dim, k, slices):
    frames = draw_frames(dim, k, slices, generator(0, "frames"))
    assert frames.shape == (slices, dim, k)
    fit = dim // k
    for start in range(0, slices, fit):
        together = torch.cat(list(frames[start : start + fit]), dim=1)
        torch.testing.assert_close(together.T @ together, torch.eye(together.shape[1]), atol=1e-5, rtol=0)
    if slices > fit:
        assert (frames[0].T @ frames[fit]).abs().max() > 1e-3  # a new rotation, not the same again


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.95])
def test_matched_sigma_is_the_cross_term_of_the_density_ratio(rho):
    # d^2/dz dz' of log p(z, z') is the precision matrix's off-diagonal entry; the kernel's is 1 / sigma^2
    precision = np.linalg.inv(np.array([[1, rho], [rho, 1]]))
    assert 1 / matched_sigma(rho) ** 2 == pytest.approx(-precision[0, 1])


@pytest.mark.parametrize(
    "objective",
    [
        InfoNCE(0.8, weight=0.3).double(),
        AnInfoNCE(4, 0.8).double(),
        SlicedInfoNCE(k=2, slices=3).double(),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_gradient_is_the_derivative(objective):
    views = sample(batch=5).requires_grad_()
    assert torch.autograd.gradcheck(lambda views: objective(views, generator(1)).total, views)


@pytest.mark.parametrize("objective", [InfoNCE(0.8, learned=True), AnInfoNCE(4, 0.8)], ids=["one", "each"])
def test_a_learned_width_receives_the_derivative_of_the_loss(objective):
    objective = objective.double()
    views = sample()
    objective(views).total.backward()
    step = 1e-5
    flat = objective.log_sigma.data.view(-1)
    for d in range(flat.numel()):
        values = []
        for sign in (1, -1):
            flat[d] += sign * step
            values.append(objective(views).total.item())
            flat[d] -= sign * step
        slope = (values[0] - values[1]) / (2 * step)
        assert abs(slope) > 1e-3
        assert objective.log_sigma.grad.view(-1)[d].item() == pytest.approx(slope, rel=1e-6)


def test_views_of_a_wrong_shape_are_refused():
    for objective in (InfoNCE(), AnInfoNCE(3), SlicedInfoNCE(k=2)):
        with pytest.raises(ValueError, match=r"at least 2 views, got shape \(1, 8, 3\)"):
            objective(torch.zeros(1, 8, 3), generator(0))
        with pytest.raises(ValueError, match=r"at least 2 samples, got \(2, 1, 3\)"):
            objective(torch.zeros(2, 1, 3), generator(0))
    with pytest.raises(ValueError, match=r"views must have dim 3, got shape \(2, 8, 4\)"):
        AnInfoNCE(3)(torch.zeros(2, 8, 4))
    with pytest.raises(ValueError, match="k must be a positive integer, got 0"):
        SlicedInfoNCE(k=0, slices=2)
    with pytest.raises(ValueError, match="slices must be a positive integer, got 0"):
        SlicedInfoNCE(k=2, slices=0)


@pytest.mark.parametrize("dim", [16, 300])
def test_similarities_too_deep_for_a_float_change_neither_value_nor_gradient(dim):
    z = torch.randn(2, 40, dim, dtype=torch.float64, generator=generator(0, "data"))
    views = torch.stack((z[0], 0.95 * z[0] + 0.3 * z[1])) / 0.3
    plain = views.clone().requires_grad_()
    loss = InfoNCE()(views.requires_grad_())
    distances = (plain[0].unsqueeze(1) - plain[1].unsqueeze(0)).square().sum(-1) / 2
    assert distances.max() > 200
    alignment = distances.diagonal().mean()
    forth, back = (torch.logsumexp(-distances, axis).mean() for axis in (0, 1))
    naive = 0.5 * alignment + 0.5 * ((forth + back) / 2 - math.log(40))
    loss.total.backward()
    naive.backward()
    assert loss.total.item() == pytest.approx(naive.item(), rel=1e-12)
    torch.testing.assert_close(views.grad, plain.grad, rtol=1e-9, atol=1e-12)


def test_a_view_that_is_not_a_number_makes_a_loss_that_is_none():
    views = sample()
    views[0, 3] = math.nan
    assert math.isnan(InfoNCE()(views).total.item())
