"""Masked prediction and autoencoder against slow forms; which weights get gradients; resuming; masks."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa.data.batch import Batch
from isojepa.encoders import Backbone
from isojepa.objectives import Autoencoder, Masked, Untrained
from isojepa.objectives.autoencoder import PatchDecoder, patches_of
from isojepa.objectives.masked import sine_positions, target_blocks, union_size
from isojepa.registry import Context, find
from isojepa.seeds import generator
from isojepa.training.loop import fit
from tests.objectives.vits import DIM, GRID, Pictures, pictures, vit
from tests.reference.naive_objectives import union
from tests.vision import timm_or_skip

SHORT = {
    "steps": 5,
    "batch": 8,
    "batch_start": None,
    "eval_every": 2,
    "learning_rate": 1e-3,
    "eval_samples": 16,
    "accelerator": "cpu",
}


def shaken(teacher: nn.Module) -> None:
    """Move a teacher away from its student, so that it matters who is asked."""
    with torch.no_grad():
        for index, parameter in enumerate(teacher.parameters()):
            noise = torch.randn(parameter.shape, generator=generator(9, "teacher", index))
            parameter.add_(0.1 * noise.to(parameter))


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("normalise", [True, False])
def test_masked_is_the_squared_error_of_each_target_patch(normalise, views):
    """One picture and one patch at a time: targets of the whole picture, from what is not hidden."""
    model, batch = vit(), pictures(3)
    objective = Masked(DIM, 24, normalise=normalise, views=views)
    objective.start({"encoder": model})
    shaken(objective.teacher)
    loss = objective({"encoder": model}, batch, generator(5))
    source, errors = generator(5), []
    for view in batch.views[:views]:
        for x, hidden in zip(view, target_blocks(3, GRID, source), strict=True):
            context = model.encode(x[None], ~hidden[None]).features[0]
            tokens = objective.teacher.model.tokens(x[None])[0]
            for place in hidden.nonzero().flatten().tolist():
                given = torch.cat([context, sine_positions(*GRID, DIM)[place]])
                predicted = objective.predictor.second(
                    functional.gelu(objective.predictor.norm(objective.predictor.first(given)))
                )
                target = tokens[place].double()
                if normalise:
                    target = (target - target.mean()) / (target.var(unbiased=False) + 1e-5).sqrt()
                errors.append((predicted.double() - target).square().mean().item())
    assert len(errors) == views * 3 * 10
    assert loss.total.item() == pytest.approx(np.mean(errors), rel=1e-4)


def test_targets_have_no_gradient_and_everything_else_that_is_learned_has():
    model = vit()
    objective = Masked(DIM, 24)
    objective({"encoder": model}, pictures(), generator(0)).total.backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in objective.predictor.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.body.cls_token.grad.abs().sum() > 0


def test_hidden_pixels_reach_the_context_by_no_way():
    """The gradient with respect to a hidden pixel is 0; the teacher, who sees it, has none."""
    model, objective, batch = vit(), Masked(DIM, 24), pictures(4)
    x = batch.views[0].clone().requires_grad_()
    objective({"encoder": model}, Batch((x, *batch.views[1:]), 2), generator(3)).total.backward()
    hidden = target_blocks(4, GRID, generator(3)).unflatten(1, GRID)
    pixels = hidden.repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None].expand(-1, 3, -1, -1)
    assert not x.grad[pixels].abs().sum()
    assert x.grad[~pixels].abs().min() > 0


def test_the_decay_rises_on_half_a_cosine_over_the_steps_that_the_loop_tells():
    seen = []

    class Told(Masked):
        def after_step(self, models, step):
            seen.append(self.teacher.decay_at(step))
            super().after_step(models, step)

    fit(vit(), Pictures(), Told(DIM, 24), progress=False, evaluations=(), **SHORT)
    truth = [1 - 0.004 * (math.cos(math.pi * step / 5) + 1) / 2 for step in range(1, 6)]
    assert seen == pytest.approx(truth, rel=1e-12)
    assert seen[-1] == 1.0


def test_an_autoencoder_writes_all_pixels_from_the_features_alone():
    model, batch = Backbone("convnet-4-8", in_channels=1), Batch((torch.randn(3, 1, 12, 12),) * 2)
    objective = Autoencoder(8, 1, 4, width=16, depth=1, heads=2)
    loss = objective({"encoder": model}, batch, generator(0))
    told = objective.decoder(model.features(batch.views[0]), (3, 3)).detach()
    picture = torch.zeros(3, 1, 12, 12)
    for row, column in itertools.product(range(3), range(3)):
        patch = told[:, 3 * row + column].reshape(3, 1, 4, 4)
        picture[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = patch
    assert loss.total.item() == pytest.approx((picture - batch.views[0]).square().mean().item(), rel=1e-5)


def test_random_leaves_every_bit_of_the_encoder_as_it_was_drawn():
    model = Backbone("resnet18-small-4")
    before = {name: value.clone() for name, value in model.state_dict().items()}

    class Photos(Pictures):
        pass

    fit(model, Photos(), Untrained(), progress=False, evaluations=(), weight_decay=0.5, **SHORT)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Masked(DIM, ratio=0.0), r"ratio must lie in \(0, 1\), got 0"),
        (lambda: Masked(DIM, last_decay=1.2), r"decay must lie in \[0, 1\], got 1.2"),
        (lambda: PatchDecoder(DIM, 48, width=18), "width must be a multiple of 4 and of 8 heads, got 18"),
        (
            lambda: find("objective", "masked")().build(Context(transformer=False, feature_dim=4)),
            "masked needs a vision transformer: set the encoder's backbone",
        ),
    ],
)
def test_settings_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (Masked(DIM, 24, views=3), "views must not exceed the global ones, which are 2, got 3"),
        (Masked(8, 24), "features of 8 dimensions are needed, got 16: leave the encoder's setting features"),
    ],
)
def test_objectives_that_do_not_fit_the_model_say_what_to_set(objective, message):
    timm_or_skip()
    with pytest.raises(ValueError, match=message):
        objective({"encoder": vit()}, pictures(), generator(0))


@pytest.mark.parametrize(
    ("grid", "targets"), [((14, 14), 118), ((8, 8), 38), ((16, 16), 154), ((4, 4), 10), ((6, 10), 36)]
)
def test_targets_are_the_asked_share_of_every_picture(grid, targets):
    mask = target_blocks(50, grid, generator(0))
    assert mask.shape == (50, grid[0] * grid[1])
    assert mask.sum(1).tolist() == [targets] * 50 == [union_size(grid)] * 50
    assert abs(targets / (grid[0] * grid[1]) - 0.6) < 0.03
    assert len({tuple(row.tolist()) for row in mask}) > 10  # each row has blocks of its own


def test_places_of_blocks_are_those_of_plain_rejection():
    """How often each patch is a target, against layouts drawn one by one and kept if they fit."""
    ours = target_blocks(4000, (4, 4), generator(2)).float().mean(0)
    corners = torch.randint(3, (20000, 4, 2), generator=generator(3)).tolist()
    kept = [found for one in corners if len(found := union(one, (2, 2), (4, 4))) == 10]
    truth = torch.tensor([sum(place in found for found in kept) / len(kept) for place in range(16)])
    assert torch.allclose(ours, truth, atol=4 * (0.25 / 4000 + 0.25 / len(kept)) ** 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: target_blocks(1, (1, 1), generator(0)), "blocks must leave patches to see, got 4 of 1 x 1"),
        (lambda: target_blocks(1, (8, 8), generator(0), ratio=1.0), r"ratio must lie in \(0, 1\), got 1"),
        (lambda: target_blocks(1, (8, 8), generator(0), blocks=9), "blocks must be .*got 9"),
        (lambda: sine_positions(2, 2, 6), "multiple of 4, got 6"),
        (lambda: patches_of(torch.zeros(1, 1, 5, 4), (2, 2)), "images must be whole patches"),
    ],
)
def test_masks_without_meaning_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
