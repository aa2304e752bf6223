"""SimCLR, Barlow Twins, VICReg and supervised learning against slow references, local views too."""

import math

import numpy as np
import pytest
import torch

from isojepa.data.batch import Batch
from isojepa.objectives import BarlowTwins, SimCLR, Supervised, VICReg
from isojepa.registry import Context, find
from isojepa.seeds import generator
from tests.objectives.crops import encoder, images
from tests.reference import naive_objectives as naive
from tests.reference.numpy_moments import vicreg_covariance, vicreg_variance

LAYOUTS = [(2, 2), (2, 1), (3, 3), (5, 2), (4, 1)]  # views, and how many of them are global


def sample(views: int, batch: int = 7, dim: int = 4) -> torch.Tensor:
    centre = torch.randn(batch, dim, generator=generator(0, "centre"), dtype=torch.float64)
    return centre + 0.5 * torch.randn(
        views, batch, dim, generator=generator(0, "noise", views), dtype=torch.float64
    )


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_simclr_is_half_of_nt_xent_over_pairs_with_a_global_view(count, global_views, temperature):
    views = sample(count)
    loss = SimCLR(temperature)(views, global_views=global_views)
    pairs = naive.compared(count, global_views)
    truth = np.mean([naive.nt_xent(views[v].numpy(), views[w].numpy(), temperature) for v, w in pairs])
    both = loss.terms["alignment"] + loss.terms["regularizer"]
    assert both.item() + math.log(2 * views.shape[1] - 1) == pytest.approx(truth, rel=1e-12)
    assert loss.total.item() == pytest.approx(both.item() / 2, rel=1e-12)


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
def test_barlow_twins_equals_the_published_sum_over_pairs(count, global_views):
    views = sample(count)
    dim = views.shape[-1]
    loss = BarlowTwins()(views, global_views=global_views)
    pairs = naive.compared(count, global_views)
    on, off = np.mean([naive.barlow(views[v].numpy(), views[w].numpy(), 1e-5) for v, w in pairs], axis=0)
    assert loss.terms["alignment"].item() == pytest.approx(on / dim, rel=1e-11)
    assert loss.terms["regularizer"].item() == pytest.approx(off / dim, rel=1e-11)
    assert loss.total.item() * 1.0051 * dim == pytest.approx(on + 0.0051 * off, rel=1e-11)


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
def test_vicreg_compares_pairs_with_a_global_view_and_spreads_every_view(count, global_views):
    views = sample(count)
    dim = views.shape[-1]
    loss = VICReg()(views, global_views=global_views)
    pairs = naive.compared(count, global_views)
    distance = np.mean([((views[v] - views[w]) ** 2).sum(-1).mean().item() for v, w in pairs])
    assert loss.terms["alignment"].item() == pytest.approx(distance / dim, rel=1e-12)
    rows = views.numpy()
    assert loss.terms["variance"].item() == pytest.approx(np.mean([vicreg_variance(h, 1e-4) for h in rows]))
    assert loss.terms["covariance"].item() == pytest.approx(np.mean([vicreg_covariance(h) for h in rows]))


@pytest.mark.parametrize(
    "loss", [SimCLR(0.5), BarlowTwins(0.3), VICReg()], ids=lambda one: type(one).__name__
)
def test_gradients_of_losses_of_views_are_their_derivatives(loss):
    views = sample(3, batch=5).requires_grad_()
    assert torch.autograd.gradcheck(lambda views: loss(views, global_views=2).total, views)


def test_supervised_is_the_cross_entropy_of_every_view():
    model, batch = encoder(), images()
    objective = Supervised(3, 5)
    loss = objective({"encoder": model}, batch, generator(0))
    views = [torch.cat(batch.views[:2]), torch.cat(batch.views[2:])]
    logits = torch.cat([objective.head(model.features(view)) for view in views]).detach().double().numpy()
    labels = batch.labels.tolist() * 4
    truth = -np.mean([math.log(naive.softmax(row)[label]) for row, label in zip(logits, labels, strict=True)])
    assert loss.total.item() == pytest.approx(truth, rel=1e-5)
    right = np.mean([row.argmax() == label for row, label in zip(logits, labels, strict=True)])
    assert loss.terms["accuracy"].item() == pytest.approx(right)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "supervised training needs labels, got a source whose batches have none"),
        (torch.arange(12), "labels must be 0 to 2, got 11: do the splits have the same classes"),
        (torch.arange(12) - 1, "labels must be 0 to 2, got -1"),
        (torch.zeros(12), "labels must be one whole number for each state, got shape .12,. of torch.float32"),
    ],
)
def test_labels_that_are_none_of_the_classes_are_refused(labels, message):
    batch = Batch(images().views, 2, labels=labels)
    with pytest.raises(ValueError, match=message):
        Supervised(3, 5)({"encoder": encoder()}, batch, generator(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SimCLR(temperature=0.0), "temperature must be positive and finite, got 0.0"),
        (lambda: SimCLR(weight=1.5), r"weight must lie in \[0, 1\], got 1.5"),
        (lambda: BarlowTwins(eps=0.0), "eps must be positive, got 0.0"),
        (lambda: Supervised(0, 5), "classes must be a positive integer, got 0"),
        (
            lambda: find("objective", "supervised")().build(Context(feature_dim=3)),
            "supervised needs a source with labels of known classes, got one without",
        ),
    ],
)
def test_settings_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
