"""SimCLR, Barlow Twins, VICReg, DINO and supervised learning against slow references, local views too."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import isojepa as ij
from isojepa import testing
from isojepa.encoders.backbones import BackboneSpec
from isojepa.encoders.model import Headed, as_model
from isojepa.objectives import DINO, BarlowTwins, SimCLR, Supervised, VICReg, pairwise
from isojepa.registry import Context, find
from isojepa.seeds import borrowed, generator
from isojepa.training.loop import fit
from isojepa.worlds.batch import Batch
from isojepa.worlds.images import Images, Stack
from isojepa.worlds.source import Facts
from tests.reference import naive_objectives as naive
from tests.reference.numpy_moments import vicreg_covariance, vicreg_variance
from tests.training.crash import assert_same_bits, whole_and_resumed

LAYOUTS = [(2, 2), (2, 1), (3, 3), (5, 2), (4, 1)]  # views, and how many of them are global


def sample(views: int, batch: int = 7, dim: int = 4) -> torch.Tensor:
    centre = torch.randn(batch, dim, generator=generator(0, "centre"), dtype=torch.float64)
    return centre + 0.5 * torch.randn(
        views, batch, dim, generator=generator(0, "noise", views), dtype=torch.float64
    )


def images(n: int = 12, seed: int = 0) -> Batch:
    """Two global and two local crops of pictures of three classes, which differ in brightness."""
    source = generator(seed, "images")
    labels = torch.randint(3, (n,), generator=source)
    views = [torch.randn(n, 1, size, size, generator=source) for size in (6, 6, 4, 4)]
    views = [0.3 * view + labels.view(-1, 1, 1, 1) - 1 for view in views]
    return Batch(tuple(views), global_views=2, labels=labels)


def encoder(seed: int = 0) -> Headed:
    with borrowed(seed, "encoder"):
        backbone = nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        return Headed(backbone, nn.Linear(5, 4))


class Pictures:
    """The source of `images`."""

    facts = Facts(shapes=((1, 6, 6), (1, 6, 6), (1, 4, 4), (1, 4, 4)), classes=3)

    def sample(self, n, generator):
        return images(n, int(torch.randint(2**31, (), generator=generator)))


OBJECTIVES = {
    "simclr": SimCLR,
    "barlow": BarlowTwins,
    "vicreg": VICReg,
    "dino": lambda: DINO(4, prototypes=10, warmup=3),
    "supervised": lambda: Supervised(3, 5),
}


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


def test_alignment_of_simclr_is_the_distance_of_unit_vectors():
    views = sample(2)
    unit = functional.normalize(views, dim=-1)
    loss = SimCLR(0.3, weight=0.2)(views)
    assert loss.terms["alignment"].item() == pytest.approx(pairwise(unit).item() / (2 * 0.3), rel=1e-12)
    terms = loss.terms["alignment"], loss.terms["regularizer"]
    assert loss.total.item() == pytest.approx(0.8 * terms[0].item() + 0.2 * terms[1].item(), rel=1e-12)


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


@pytest.mark.parametrize("global_views", [1, 2, 4])
def test_dino_is_the_cross_entropy_of_the_teacher_with_the_students_other_views(global_views):
    batch = images()
    batch = Batch(batch.views, global_views)
    model = encoder()
    objective = DINO(4, prototypes=10, student_temperature=0.3, first_temperature=0.2, warmup=5)
    objective.start({"encoder": model})
    part = objective.distillation
    with torch.no_grad():
        part.centre.copy_(torch.linspace(-0.3, 0.5, 10))
        objective.teacher.model.head.weight.mul_(torch.tensor([1.0, -1.0, 2.0, 0.5])[:, None])
    loss = objective({"encoder": model}, batch, generator(0))

    def logits(model, head):
        h = torch.cat([model(torch.cat(batch.views[:2])), model(torch.cat(batch.views[2:]))]).reshape(
            4, 12, 4
        )
        return (
            (functional.normalize(h, dim=-1) @ functional.normalize(head.weight, dim=-1).T).double().detach()
        )

    taught = logits(objective.teacher.model, part.teacher_head)[:global_views]
    if global_views == 1:  # the teacher's norms see its own views alone
        h = objective.teacher.model(batch.views[0])
        taught = functional.normalize(h, dim=-1) @ functional.normalize(part.teacher_head.weight, dim=-1).T
        taught = taught[None].double()
    truth = naive.distillation(
        logits(model, part.head).numpy(),
        taught.numpy(),
        part.centre.double().numpy(),
        0.3,
        0.2,
    )
    assert loss.total.item() == pytest.approx(truth, rel=1e-5)


def test_after_a_step_teacher_centre_and_temperature_of_dino_have_moved():
    model, batch = encoder(), images()
    objective = DINO(4, 10, decay=0.75, centre_decay=0.5, warmup=4)
    models = {"encoder": model}
    objective.start(models)
    before = {name: value.clone() for name, value in objective.teacher.model.named_parameters()}
    assert objective.distillation.temperature == 0.04
    parts = [batch.rows(slice(0, 6)), batch.rows(slice(6, 12))]  # a batch in two parts
    for part in parts:
        objective(models, part, generator(0)).total.backward()
    means = []
    with torch.no_grad():
        for part in parts:
            h = objective.teacher.model(torch.cat(part.views[:2]))
            means.append(objective.distillation.teacher_head(h).mean(0))
        for parameter in model.parameters():
            parameter.add_(1.0)
        objective.distillation.head.weight.add_(1.0)
    head = objective.distillation.teacher_head.weight.clone()
    objective.after_step(models, 1)
    assert objective.distillation.temperature == pytest.approx(0.04 + 0.03 / 4)
    torch.testing.assert_close(objective.distillation.centre, 0.5 * torch.stack(means).mean(0))
    for name, value in objective.teacher.model.named_parameters():
        torch.testing.assert_close(value, before[name] + 0.25)
    torch.testing.assert_close(objective.distillation.teacher_head.weight, head + 0.25)
    objective.after_step(models, 100)
    assert objective.distillation.temperature == pytest.approx(0.07)


def test_the_teacher_of_dino_gets_no_gradient():
    model = encoder()
    objective = DINO(4, 10)
    objective({"encoder": model}, images(), generator(0)).total.backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert objective.distillation.teacher_head.weight.grad is None
    assert objective.distillation.head.weight.grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in model.parameters())


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
        (lambda: DINO(4, decay=1.2), r"decay must lie in \[0, 1\], got 1.2"),
        (lambda: DINO(4, first_temperature=-1.0), "first_temperature must be positive and finite, got -1"),
        (lambda: DINO(4, prototypes=0), "must be a positive integer, got 0"),
        (lambda: DINO(4, centre_decay=2.0), r"centre_decay must lie in \[0, 1\], got 2"),
        (lambda: Supervised(0, 5), "classes must be a positive integer, got 0"),
        (lambda: find("objective", "dino")().build(Context()), "dino needs to know the embedding dimension"),
        (
            lambda: find("objective", "supervised")().build(Context(feature_dim=3)),
            "supervised needs a source with labels of known classes, got one without",
        ),
    ],
)
def test_settings_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_baseline_passes_the_public_check_with_local_views(name):
    testing.check_objective(OBJECTIVES[name](), encoder(), images())


SHORT = {
    "steps": 6,
    "batch": 12,
    "batch_start": None,
    "eval_every": 2,
    "learning_rate": 1e-2,
    "eval_samples": 16,
    "accelerator": "cpu",
}


# the pictures differ in one number alone, and so do their embeddings
@pytest.mark.filterwarnings("ignore:the embedding collapsed")
@pytest.mark.parametrize("name", ["dino", "supervised"])
def test_a_run_of_a_baseline_that_crashes_ends_with_the_same_bits(tmp_path, name):
    def parts():
        return {"encoder": encoder()}, OBJECTIVES[name]()

    assert_same_bits(*whole_and_resumed(parts, Pictures(), tmp_path, 4, **SHORT))


# the pictures differ in one number alone, and so do their embeddings
@pytest.mark.filterwarnings("ignore:the embedding collapsed")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_baseline_learns_to_tell_pictures_apart(name):
    """Classes differ in brightness: a linear probe of the features finds them again."""
    model = encoder(1)
    run = fit(model, Pictures(), OBJECTIVES[name](), progress=False, **{**SHORT, "steps": 40, "batch": 48})
    assert run.metrics[-1]["loss"] < run.metrics[0]["loss"] or name == "dino"  # whose targets move
    test = images(200, seed=5)
    with torch.no_grad():
        h = torch.cat([model.features(test.views[0]), torch.ones(200, 1)], 1)
    fitted = h @ torch.linalg.lstsq(h, functional.one_hot(test.labels).float()).solution
    assert (fitted.argmax(1) == test.labels).float().mean() > 0.9


def test_the_source_tells_the_supervised_baseline_its_classes():
    context = Context(shapes=((3,), (3,)), feature_dim=7, embedding=2, classes=Pictures.facts.classes)
    assert find("objective", "supervised")().build(context).head.weight.shape == (3, 7)
    config = ij.config.Config()
    assert config.context.feature_dim == config.context.embedding == 2
    assert config.context.classes is None
    assert as_model(encoder()).features(images().views[0]).shape == (12, 5)


@pytest.mark.parametrize("name", ["supervised", "dino", "lejepa-images", "simclr", "barlow-twins", "vicreg"])
@pytest.mark.parametrize("features", [None, 7])
def test_every_objective_is_built_for_a_backbone_of_pictures_from_its_context(name, features):
    pixels = torch.randint(256, (20, 28, 28), generator=generator(0, "pixels"), dtype=torch.uint8)
    source = Images(Stack(pixels, labels=torch.arange(20) % 4))
    assert source.facts.classes == 4
    assert Images(Stack(pixels)).facts.classes is None
    spec = BackboneSpec("convnet-4-8", "16-6", features)
    around = Context(shapes=source.facts.shapes, classes=source.facts.classes)
    context = replace(around, embedding=spec.embedding(around), feature_dim=spec.feature_dim(around))
    assert (context.embedding, context.feature_dim) == (6, 8 if features is None else 7)
    batch = source.sample(10, generator(0, "batch"))
    testing.check_objective(find("objective", name)().build(context), spec.build(context), batch)
