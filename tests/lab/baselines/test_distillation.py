"""DINO, iBOT and DINOv2 against slow forms; teachers, centers and temperatures after a step."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa.data.batch import Batch
from isojepa.registry import Context, find
from isojepa.seeds import generator
from isojepa_lab.baselines import DINO, IBOT
from isojepa_lab.baselines.distillation import scattered_blocks
from tests.objectives.crops import encoder, images
from tests.objectives.vits import DIM, GRID, pictures, vit
from tests.reference import naive_objectives as naive


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


SMALL = {"prototypes": 9, "width": 12, "bottleneck": 6, "warmup": 3}


def shaken(teacher: nn.Module) -> None:
    """Move a teacher away from its student, so that it matters who is asked."""
    with torch.no_grad():
        for index, parameter in enumerate(teacher.parameters()):
            noise = torch.randn(parameter.shape, generator=generator(9, "teacher", index))
            parameter.add_(0.1 * noise.to(parameter))


@pytest.mark.parametrize("centring", ["mean", "sinkhorn"])
def test_ibot_is_dino_on_classes_and_on_hidden_patches(centring):
    """Without batch norms in it, picture after picture, in float64 from the logits on."""
    model, batch = vit(), pictures(5)
    objective = IBOT(DIM, DIM, koleo=0.3, centring=centring, chance=0.8, **SMALL).train()
    models = {"encoder": model}
    objective.start(models)
    shaken(objective.teacher)
    shaken(objective.teacher_patch_head)
    with torch.no_grad():
        objective.filler.add_(0.3)
        for part in (objective.classes, objective.patches):
            part.centre.copy_(torch.linspace(-0.2, 0.3, 9))
    loss = objective(models, batch, generator(5))
    source = generator(5)
    hidden = torch.cat([scattered_blocks(5, GRID, source, chance=0.8) for _ in range(2)])
    assert (hidden.sum(1) == 0).any()
    assert (hidden.sum(1) > 1).any()
    x, teacher = torch.cat(batch.views[:2]), objective.teacher.model
    with torch.no_grad():
        seen, whole = model.encode(x, ~hidden, objective.filler), teacher.encode(x)
        embedded = torch.cat([seen.features, model.features(batch.views[2])])
        student = objective.classes.head(embedded).double().reshape(3, 5, 9).numpy()
        taught = objective.classes.teacher_head(whole.features).double().reshape(2, 5, 9).numpy()
        patch = objective.patches.head(objective.patch_head(seen.tokens)).double().numpy()
        patch_taught = objective.patches.teacher_head(objective.teacher_patch_head(whole.tokens))
        patch_taught = patch_taught.double().numpy()
    centre, cold = np.linspace(-0.2, 0.3, 9), 0.04
    rows = np.argwhere(hidden.numpy())
    if centring == "mean":
        classes = naive.distillation(student, taught, centre, 0.1, cold)
        targets = [naive.softmax((patch_taught[i, j] - centre) / cold) for i, j in rows]
    else:
        codes = naive.balanced(taught.reshape(10, 9), cold, 3).reshape(2, 5, 9)
        pairs = [(u, v) for u in range(2) for v in range(3) if u != v]
        classes = np.mean(
            [
                -float(codes[u, i] @ np.log(naive.softmax(student[v, i] / 0.1)))
                for (u, v), i in itertools.product(pairs, range(5))
            ]
        )
        targets = naive.balanced(np.array([patch_taught[i, j] for i, j in rows]), cold, 3)
    patches = 0.0
    for (i, j), target in zip(rows, targets, strict=True):
        crossed = -float(target @ np.log(naive.softmax(patch[i, j] / 0.1)))
        patches += crossed / int(hidden[i].sum()) / len(hidden)
    spread = sum(naive.nearest_logarithm(view) for view in seen.features.double().reshape(2, 5, -1).numpy())
    assert loss.terms["alignment"].item() == pytest.approx(classes, rel=1e-4)
    assert loss.terms["patches"].item() == pytest.approx(patches, rel=1e-4)
    assert loss.terms["koleo"].item() == pytest.approx(spread, rel=1e-4)
    assert loss.total.item() == pytest.approx(classes + patches + 0.3 * spread, rel=1e-4)


def test_what_is_the_teachers_gets_no_gradient_and_moves_after_a_step():
    model = vit("8-5")
    objective, models = IBOT(5, DIM, decay=0.75, centre_decay=0.5, chance=1.0, **SMALL), {"encoder": model}
    objective(models, pictures(), generator(0)).total.backward()
    frozen = (
        *objective.teacher.parameters(),
        *objective.teacher_patch_head.parameters(),
        objective.classes.teacher_head.weight,
        objective.patches.teacher_head.weight,
    )
    assert all(parameter.grad is None for parameter in frozen)
    before = [parameter.clone() for parameter in frozen]
    learned = (*model.parameters(), *objective.patch_head.parameters())
    learned += (objective.classes.head.weight, objective.patches.head.weight)
    assert all(parameter.grad is not None for parameter in (*learned, objective.filler))
    with torch.no_grad():
        for parameter in learned:
            parameter.add_(1.0)
    objective.after_step(models, 2)
    for parameter, old in zip(frozen, before, strict=True):
        torch.testing.assert_close(parameter, old + 0.25)
    for part in (objective.classes, objective.patches):
        assert part.centre.abs().sum() > 0
        assert part.temperature == pytest.approx(0.04 + 0.02)


def test_scattered_blocks_keep_to_their_share_and_half_of_the_pictures_have_none():
    mask = scattered_blocks(2000, (14, 14), generator(0))
    share = mask.float().mean(1)
    some = share > 0
    assert some.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert share.max() <= 0.5 + 0.5 / 196
    assert 0.2 < share[some].mean() < 0.35
    rows = mask[some].unflatten(1, (14, 14))
    together = (rows[:, :, 1:] & rows[:, :, :-1]).sum() / rows[:, :, 1:].sum()
    assert together > 0.7  # beside a hidden patch there is one: a third if they were anywhere


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DINO(4, decay=1.2), r"decay must lie in \[0, 1\], got 1.2"),
        (lambda: DINO(4, first_temperature=-1.0), "first_temperature must be positive and finite, got -1"),
        (lambda: DINO(4, prototypes=0), "must be a positive integer, got 0"),
        (lambda: find("objective", "dino")().build(Context()), "dino needs to know the embedding dimension"),
        (lambda: IBOT(4, 4, centring="median"), "centring must be one of mean, sinkhorn, got 'median'"),
        (lambda: scattered_blocks(1, (4, 4), generator(0), least=0.6), "least must not exceed most"),
    ],
)
def test_settings_out_of_range_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_losses_are_float32_in_half_precision():
    model, objective = vit("8-5"), IBOT(5, DIM, koleo=0.1, centring="sinkhorn", **SMALL)
    plain = objective({"encoder": model}, pictures(), generator(0)).total
    with torch.autocast("cpu", torch.float16):
        loss = objective({"encoder": model}, pictures(), generator(0))
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    assert loss.total.item() == pytest.approx(plain.item(), rel=0.05)
