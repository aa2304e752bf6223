"""LeJEPA of global and local views: the equations, lightly's loss, the predictor and the averaged encoder."""

import importlib.util

import pytest
import torch
from torch import nn

from isojepa import testing
from isojepa.data.batch import Batch
from isojepa.encoders.model import as_model
from isojepa.importing import import_torchvision
from isojepa.objectives import ImageLeJEPA, SIGReg, Whitening
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.lejepa import ImageLeJEPASpec
from isojepa.registry import Context
from isojepa.seeds import generator
from tests.objectives.crops import CropSource, encoder, images
from tests.reference import naive_objectives as naive
from tests.reference.textbook_sigreg import textbook
from tests.training.crash import assert_same_bits, whole_and_resumed

LAYOUTS = [(2, 2), (3, 3), (2, 1), (8, 2), (5, 4)]  # views, and how many of them are global


def views_of(count: int, batch: int = 9, dim: int = 5, dtype=torch.float64) -> torch.Tensor:
    return 1.2 * torch.randn(count, batch, dim, generator=generator(0, "views", count), dtype=dtype) + 0.1


def embedded(views: torch.Tensor, global_views: int) -> tuple[dict, Batch]:
    """A model that changes nothing, and a batch of which the views are their own embeddings."""
    return {"encoder": as_model(nn.Identity())}, Batch(tuple(views), global_views)


@pytest.mark.parametrize(("count", "global_views"), LAYOUTS)
@pytest.mark.parametrize("alignment", ["centre", "centre-sum"])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_loss_is_that_of_the_equations(count, global_views, alignment, pooled):
    views = views_of(count)
    models, batch = embedded(views, global_views)
    objective = ImageLeJEPA(0.05, SIGReg(64, pooled=pooled), alignment)
    loss = objective(models, batch, generator(3, "slices"))
    directions = draw_directions(5, 64, generator(3, "slices"))
    distance = naive.centre_distance(views.numpy(), global_views, mean=alignment == "centre")
    samples = [views.flatten(0, 1)] if pooled else list(views)
    sigreg = sum(textbook(x, directions, 17, 5.0).item() for x in samples) / len(samples)
    assert loss.terms["alignment"].item() == pytest.approx(distance, rel=1e-12)
    assert loss.terms["regularizer"].item() == pytest.approx(sigreg, rel=1e-10)
    assert loss.total.item() == pytest.approx(0.95 * distance + 0.05 * sigreg, rel=1e-10)


def test_all_views_make_the_centre_where_that_is_asked_for():
    views = views_of(6)
    models, batch = embedded(views, 2)
    loss = ImageLeJEPA(0.0, Whitening(), centre="all")(models, batch, generator(0))
    assert loss.total.item() == pytest.approx(naive.centre_distance(views.numpy(), 6, mean=True), rel=1e-12)


def lightly_losses():
    """The module of lightly's loss, whose import asks for torchvision."""
    if importlib.util.find_spec("lightly") is None or importlib.util.find_spec("torchvision") is None:
        pytest.skip("lightly and torchvision are not installed")
    import_torchvision()
    return pytest.importorskip("lightly.loss.lejepa_loss")


@pytest.mark.parametrize(("count", "global_views"), [(8, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_those_of_lightly(count, global_views, dtype, monkeypatch):
    """Its grid is `knots` points on [0, t_max], which is 2 knots - 1 on [-t_max, t_max]."""
    theirs = lightly_losses()
    directions = draw_directions(5, 48, generator(7))
    monkeypatch.setattr(
        theirs.SIGReg, "_generate_unit_vectors", lambda self, device, dtype, dim: directions.to(dtype).T
    )
    ours = ImageLeJEPA(0.05, SIGReg(48, knots=33, t_max=3.0))
    views = views_of(count, batch=32, dtype=dtype).requires_grad_()
    loss = ours(*embedded(views, global_views), generator(7))
    if count > global_views:
        module = theirs.LeJEPALoss(0.05, sigreg_num_vectors=48).to(dtype)
        truth = module(local_proj=views[global_views:], global_proj=views[:global_views])
    else:  # it refuses to go without local views: its two terms, joined as it joins them
        align = theirs.lejepa_invariance_loss(all_proj=views, global_proj=views)
        truth = 0.05 * theirs.SIGReg(num_vectors=48).to(dtype)(views) + 0.95 * align
    (gradient,) = torch.autograd.grad(loss.total, views)
    (expected,) = torch.autograd.grad(truth, views)
    # its grid and target are float32 numbers whatever the embeddings are
    assert loss.total.item() == pytest.approx(truth.item(), rel=2e-6)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=2e-6 * float(expected.abs().max()) + 1e-9)


def test_a_predictor_stands_between_the_views_and_the_centre():
    views = views_of(4)
    predictor = nn.Linear(5, 5).double()
    loss = ImageLeJEPA(0.0, Whitening(), predictor=predictor)(*embedded(views, 2), generator(0))
    truth = (predictor(views) - views[:2].mean(0)).square().mean()
    assert loss.total.item() == pytest.approx(truth.item(), rel=1e-6)
    loss.total.backward()
    assert predictor.weight.grad.abs().sum() > 0


def test_the_centre_has_a_gradient_unless_an_average_makes_it():
    views = views_of(3).requires_grad_()
    loss = ImageLeJEPA(0.0, Whitening())(*embedded(views, 1), generator(0))
    (gradient,) = torch.autograd.grad(loss.total, views)
    assert gradient[0].abs().sum() > 0  # the only global view is its own centre: all of it is the centre's
    loss = ImageLeJEPA(0.0, Whitening(), average=0.9)(*embedded(views, 1), generator(0))
    (gradient,) = torch.autograd.grad(loss.total, views)
    assert gradient[0].abs().sum() == 0


def test_centres_come_from_the_moving_average_of_the_encoder():
    model, batch = encoder(), images()
    objective = ImageLeJEPA(0.0, Whitening(), average=0.5)
    objective.start({"encoder": model})
    begun = {name: value.clone() for name, value in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    objective.after_step({"encoder": model}, 1)
    for name, value in objective.teacher.model.named_parameters():
        torch.testing.assert_close(value, begun[name] + 0.5)
    loss = objective({"encoder": model}, batch, generator(0))
    with torch.no_grad():
        centre = objective.teacher.model(torch.cat(batch.views[:2])).unflatten(0, (2, -1)).mean(0)
        h = torch.cat([model(torch.cat(batch.views[:2])), model(torch.cat(batch.views[2:]))]).unflatten(
            0, (4, -1)
        )
    assert loss.total.item() == pytest.approx((h - centre).square().mean().item(), rel=1e-4)
    loss.total.backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())


VARIANTS = {
    "plain": {},
    "sum": {"alignment": "centre-sum", "weight": 0.3},
    "all": {"centre": "all"},
    "predictor": {"predictor": 8},
    "average": {"average": 0.9},
    "both": {"predictor": 8, "average": 0.9, "pooled": True},
}
SHORT = {
    "steps": 6,
    "batch": 12,
    "batch_start": None,
    "eval_every": 2,
    "learning_rate": 1e-2,
    "eval_samples": 16,
    "accelerator": "cpu",
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_passes_the_public_checks(name):
    spec = ImageLeJEPASpec(**VARIANTS[name])
    testing.check_spec(spec)
    objective = spec.build(Context(embedding=4))
    testing.check_objective(objective, encoder(), images())
    testing.check_objective(objective, encoder(), Batch(images().views[:2]))  # no local views


# the pictures differ in one number alone, and so do their embeddings
@pytest.mark.filterwarnings("ignore:the embedding collapsed")
@pytest.mark.parametrize("name", ["plain", "both"])
def test_a_run_that_crashes_ends_with_the_same_bits(tmp_path, name):
    def parts():
        return {"encoder": encoder()}, ImageLeJEPASpec(slices=16, **VARIANTS[name]).build(
            Context(embedding=4)
        )

    whole, resumed = whole_and_resumed(parts, CropSource(), tmp_path, 4, **SHORT)
    assert_same_bits(whole, resumed)
    kept = (tmp_path / "whole/objective.safetensors").exists()
    assert kept == (name == "both")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 1.5}, r"weight must lie in \[0, 1\], got 1.5"),
        ({"alignment": "pairwise"}, "alignment must be one of centre, centre-sum, got 'pairwise'"),
        ({"centre": "some"}, "centre must be one of all, global, got 'some'"),
        ({"average": 1.5}, r"decay must lie in \[0, 1\], got 1.5"),
    ],
)
def test_settings_without_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ImageLeJEPA(**options)
