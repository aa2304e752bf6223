"""Sinkhorn, SwAV, MoCo v3 and KoLeo against slow forms, and lightly's where it is installed."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa.data.batch import Batch
from isojepa.encoders.model import as_model
from isojepa.importing import import_torchvision
from isojepa.seeds import generator
from isojepa_lab.baselines import MoCo, SwAV, koleo, sinkhorn
from isojepa_lab.baselines.distillation import Distillation
from tests.reference import naive_objectives as naive

LAYOUTS = [(2, 2), (2, 1), (4, 2), (5, 3)]  # views, and how many of them are global


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed, "normal", *shape), dtype=torch.float64)


def embedded(views: torch.Tensor, global_views: int) -> tuple[dict, Batch]:
    """A model that changes nothing, and a batch of which the views are their own embeddings."""
    return {"encoder": as_model(nn.Identity())}, Batch(tuple(views), global_views)


def lightly(name: str):
    """A module of lightly's losses, whose import asks for torchvision."""
    if importlib.util.find_spec("lightly") is None or importlib.util.find_spec("torchvision") is None:
        pytest.skip("lightly and torchvision are not installed")
    import_torchvision()
    return pytest.importorskip(f"lightly.loss.{name}")


@pytest.mark.parametrize("iterations", [1, 3, 7])
@pytest.mark.parametrize("temperature", [0.04, 0.5])
def test_sinkhorn_is_the_published_iteration(temperature, iterations):
    scores = normal(9, 5).tanh()
    truth = naive.balanced(scores.numpy(), temperature, iterations)
    np.testing.assert_allclose(sinkhorn(scores, temperature, iterations).numpy(), truth, rtol=1e-9)
    theirs = lightly("swav_loss").sinkhorn(scores.clone(), iterations, temperature)
    torch.testing.assert_close(sinkhorn(scores, temperature, iterations), theirs)


def test_sinkhorn_balances_prototypes_and_survives_scores_that_overflow():
    scores = normal(64, 4) + torch.tensor([5.0, 0.0, 0.0, 0.0])  # all are nearest to the first
    q = sinkhorn(scores, 0.5, 50)
    torch.testing.assert_close(q.sum(1), torch.ones(64, dtype=torch.float64))
    torch.testing.assert_close(q.sum(0), torch.full((4,), 16.0, dtype=torch.float64), rtol=1e-6, atol=0)
    hot = sinkhorn(1e4 * scores.float(), 0.01)
    assert bool(torch.isfinite(hot).all())
    assert sinkhorn(torch.zeros(0, 4), 0.1).shape == (0, 4)


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
def test_swav_is_the_published_swap_of_codes(count, global_views):
    views = normal(count, 7, 4)
    objective = SwAV(4, prototypes=6)
    loss = objective(*embedded(views, global_views), generator(0))
    head = functional.normalize(objective.head.weight.double(), dim=-1)
    scores = (functional.normalize(views, dim=-1) @ head.T).detach()
    truth = naive.swapped(scores.numpy(), global_views, 0.1, 0.05, 3)
    assert loss.total.item() == pytest.approx(truth, rel=1e-9)
    theirs = lightly("swav_loss").SwaVLoss()(list(scores[:global_views]), list(scores[global_views:]))
    assert loss.total.item() == pytest.approx(theirs.item(), rel=1e-9)


def test_codes_of_swav_have_no_gradient():
    """The gradient is that of fixed codes."""
    views = normal(2, 7, 4).requires_grad_()
    objective = SwAV(4, prototypes=6)
    loss = objective(*embedded(views, 2), generator(0))
    (gradient,) = torch.autograd.grad(loss.total, views)
    scores = objective.head(views)
    codes = [sinkhorn(view.detach(), 0.05) for view in scores]
    fixed = sum(-(codes[1 - v] * torch.log_softmax(scores[v] / 0.1, -1)).sum(-1).mean() for v in (0, 1)) / 2
    (truth,) = torch.autograd.grad(fixed, views)
    torch.testing.assert_close(gradient, truth)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_moco_is_the_symmetrised_contrast_with_keys_of_the_average(count, global_views, temperature):
    views = normal(count, 6, 4).float()
    model = nn.Linear(4, 4)
    models, batch = {"encoder": as_model(model)}, Batch(tuple(views), global_views)
    objective = MoCo(4, temperature, width=8)
    objective.start(models)
    with torch.no_grad():
        objective.teacher.model.weight.add_(0.5)
    loss = objective(models, batch, generator(0))
    with torch.no_grad():
        queries = objective.predictor(model(views).flatten(0, 1)).reshape(count, 6, 4)
        keys = objective.teacher.model(views[:global_views])
    truth = naive.momentum_contrast(queries.double().numpy(), keys.double().numpy(), temperature)
    assert loss.total.item() == pytest.approx(truth, rel=1e-5)
    assert 0 <= loss.terms["accuracy"].item() <= 1


def test_keys_of_moco_have_no_gradient_and_the_decay_rises():
    model = nn.Linear(4, 4)
    models = {"encoder": as_model(model)}
    objective = MoCo(4, width=8)
    objective(models, Batch(tuple(normal(2, 6, 4).float())), generator(0)).total.backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert all(
        parameter.grad is not None for parameter in (*model.parameters(), objective.predictor.body[0].weight)
    )
    objective.plan(10)
    assert [objective.teacher.decay_at(step) for step in (0, 5, 10)] == pytest.approx([0.99, 0.995, 1.0])


def test_koleo_is_minus_the_mean_logarithm_of_the_nearest_distance():
    x = normal(12, 5).requires_grad_()
    value = koleo(x)
    assert value.item() == pytest.approx(naive.nearest_logarithm(x.detach().numpy()), rel=1e-6)
    (gradient,) = torch.autograd.grad(value, x)
    truth = lightly("koleo_loss").KoLeoLoss()(x)
    (expected,) = torch.autograd.grad(truth, x)
    assert value.item() == pytest.approx(truth.item(), rel=1e-9)
    torch.testing.assert_close(gradient, expected)


def test_two_equal_vectors_have_a_finite_koleo():
    x = torch.ones(3, 4, requires_grad=True)
    value = koleo(x)
    value.backward()
    assert bool(torch.isfinite(value))
    assert bool(torch.isfinite(x.grad).all())


def test_hidden_patches_are_compared_as_lightly_compares_them():
    theirs = lightly("ibot_loss").IBOTPatchLoss(5, 0.04, 0.1)
    part = Distillation(4, prototypes=5, warmup=10).double()
    mask = torch.tensor([[True, False, True, True], [False, True, False, False]]).reshape(2, 2, 2)
    student, taught = normal(4, 4), normal(4, 4, seed=1)
    centre = torch.linspace(-0.2, 0.2, 5, dtype=torch.float64)
    part.centre.copy_(centre)
    theirs.center.center.data = centre[None].clone()
    target, _ = part.teach(taught)
    crossed = -(target * part.student(student)).sum(-1)
    ours = crossed[:3].mean() / 2 + crossed[3:].mean() / 2
    truth = theirs(part.teacher_head(taught), part.head(student), mask)
    assert ours.item() == pytest.approx(truth.item(), rel=1e-6)
    part.after_step(1, 1.0)
    torch.testing.assert_close(part.centre, theirs.center.value[0].to(part.centre), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SwAV(4, temperature=0.0), "temperature must be positive and finite, got 0.0"),
        (lambda: SwAV(4, iterations=0), "iterations must be a positive integer, got 0"),
        (lambda: MoCo(4, temperature=-1.0), "temperature must be positive and finite, got -1.0"),
        (lambda: MoCo(4, decay=2.0), r"decay must lie in \[0, 1\], got 2"),
        (lambda: sinkhorn(torch.zeros(2, 2), 0.0), "temperature must be positive and finite, got 0.0"),
        (lambda: koleo(torch.zeros(1, 3)), "at least 2 samples"),
    ],
)
def test_settings_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
