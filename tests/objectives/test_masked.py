"""Masked prediction, MAE, autoencoder, iBOT, DINOv2 against slow forms; who gets gradients; resuming."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa import testing
from isojepa.encoders import Backbone
from isojepa.objectives import IBOT, MAE, Autoencoder, Masked, Untrained
from isojepa.objectives.decoders import Decoder
from isojepa.objectives.masked import Predictor
from isojepa.objectives.masks import scattered_blocks, single_patches, target_blocks
from isojepa.objectives.positions import sine_positions
from isojepa.registry import Context, find
from isojepa.seeds import generator
from isojepa.training.loop import fit
from isojepa.worlds.batch import Batch
from tests.objectives.vits import DIM, GRID, PIXELS, Pictures, pictures, vit
from tests.reference import naive_objectives as naive
from tests.training.crash import assert_same_bits, whole_and_resumed
from tests.vision import timm_or_skip

SMALL = {"prototypes": 9, "width": 12, "bottleneck": 6, "warmup": 3}
OBJECTIVES = {
    "masked": lambda: Masked(DIM, 24),
    "masked plain": lambda: Masked(DIM, 24, normalise=False, views=2),
    "mae": lambda: MAE(DIM, PIXELS, width=16, depth=1, heads=2, views=2),
    "autoencoder": lambda: Autoencoder(DIM, 3, 4, width=16, depth=1, heads=2),
    "ibot": lambda: IBOT(5, DIM, **SMALL),
    "dinov2": lambda: IBOT(5, DIM, koleo=0.1, centring="sinkhorn", **SMALL),
}
SHORT = {
    "steps": 5,
    "batch": 8,
    "batch_start": None,
    "eval_every": 2,
    "learning_rate": 1e-3,
    "eval_samples": 16,
    "accelerator": "cpu",
}


def model_for(name: str):
    return vit("8-5" if name in ("ibot", "dinov2") else "none")


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


def test_the_predictor_is_an_mlp_of_two_layers_over_context_and_position():
    predictor = Predictor(6, 10)
    assert [tuple(layer.weight.shape) for layer in (predictor.first, predictor.second)] == [(10, 14), (6, 10)]
    context, places = torch.randn(2, 6), torch.randn(2, 3, 8)
    both = torch.cat([context[:, None].expand(-1, 3, -1), places], -1)
    whole = nn.Sequential(predictor.first, predictor.norm, nn.GELU(), predictor.second)
    torch.testing.assert_close(predictor(context, places), whole(both))


def test_targets_have_no_gradient_and_everything_else_that_is_learned_has():
    model = vit()
    objective = Masked(DIM, 24)
    objective({"encoder": model}, pictures(), generator(0)).total.backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in objective.predictor.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.body.cls_token.grad.abs().sum() > 0


def test_the_loss_reads_the_context_through_the_class_token_alone():
    """With a head that lets nothing of it through, no weight of the encoder has a gradient."""
    model, objective = vit(), Masked(DIM, 24)
    with torch.no_grad():
        objective.predictor.first.weight[:, :DIM] = 0
    objective({"encoder": model}, pictures(), generator(0)).total.backward()
    assert all(not p.grad.abs().sum() for p in model.parameters() if p.grad is not None)


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


@pytest.mark.parametrize("normalise", [True, False])
def test_mae_is_the_squared_error_of_hidden_pixels(normalise):
    model, batch = vit(), pictures(3)
    objective = MAE(DIM, PIXELS, width=16, depth=1, heads=2, normalise=normalise)
    loss = objective({"encoder": model}, batch, generator(5))
    masks, errors = single_patches(3, 16, 0.75, generator(5)), []
    assert masks.sum(1).tolist() == [12, 12, 12]
    for x, hidden in zip(batch.views[0], masks, strict=True):
        seen = model.encode(x[None], ~hidden[None])
        told = objective.decoder(seen.features, GRID, seen.tokens, ~hidden[None])[0].detach().double()
        for row, column in itertools.product(range(4), range(4)):
            if hidden[4 * row + column]:
                pixels = x[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten().double()
                if normalise:
                    pixels = (pixels - pixels.mean()) / (pixels.var() + 1e-6).sqrt()
                errors.append((told[4 * row + column] - pixels).square().mean().item())
    assert loss.total.item() == pytest.approx(np.mean(errors), rel=1e-5)


def test_a_decoder_is_given_known_tokens_where_they_are_and_nothing_of_others():
    decoder = Decoder(4, 3, 8, 0, 2, tokens=True)  # without blocks no patch sees another
    known = torch.tensor([[True, False, True, False]])
    tokens, picture = torch.randn(1, 2, 4), torch.randn(1, 4)
    told = decoder(picture, (2, 2), tokens, known)[0]
    places = sine_positions(2, 2, 8)
    for place, token in ((0, tokens[0, 0]), (2, tokens[0, 1]), (1, None), (3, None)):
        h = decoder.unknown if token is None else decoder.of_tokens(token)
        truth = decoder.to_pixels(decoder.norm(h + places[place]))
        torch.testing.assert_close(told[place], truth)


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


def test_random_leaves_every_bit_of_the_encoder_as_it_was_drawn():
    model = Backbone("resnet18-small-4")
    before = {name: value.clone() for name, value in model.state_dict().items()}

    class Photos(Pictures):
        pass

    fit(model, Photos(), Untrained(), progress=False, evaluations=(), weight_decay=0.5, **SHORT)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_masked_objective_passes_the_public_check(name):
    testing.check_objective(OBJECTIVES[name](), model_for(name), pictures())


@pytest.mark.parametrize("name", ["masked", "mae", "dinov2", "ibot"])
def test_a_run_that_crashes_ends_with_the_same_bits(tmp_path, name):
    def parts():
        return {"encoder": model_for(name)}, OBJECTIVES[name]()

    assert_same_bits(*whole_and_resumed(parts, Pictures(), tmp_path, 4, **SHORT))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_are_float32_where_the_models_are_in_half_precision(name):
    model, objective = model_for(name), OBJECTIVES[name]()
    models = {"encoder": model}
    plain = objective(models, pictures(), generator(0)).total
    with torch.autocast("cpu", torch.float16):
        loss = objective(models, pictures(), generator(0))
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    assert loss.total.item() == pytest.approx(plain.item(), rel=0.05)


@pytest.mark.parametrize("name", ["masked", "mae", "ibot", "dinov2", "autoencoder", "moco", "swav", "random"])
def test_specs_build_what_they_name_for_a_vision_transformer(name):
    spec = find("objective", name)
    testing.check_spec(spec())
    shapes = ((3, 16, 16), (3, 16, 16), (3, 8, 8))
    small = {"mae": {"patch": 4}}.get(name, {})
    context = Context(shapes=shapes, embedding=5, feature_dim=DIM, transformer=True)
    objective = spec(**small).build(context)
    loss = objective({"encoder": vit("8-5")}, pictures(), generator(0))
    assert torch.isfinite(loss.total)


def test_dinov2_is_ibot_with_koleo_and_balanced_targets():
    spec = find("objective", "dinov2")()
    assert (spec.koleo, spec.centring) == (0.1, "sinkhorn")
    first = find("objective", "ibot")()
    assert (first.koleo, first.centring) == (0.0, "mean")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Masked(DIM, ratio=0.0), r"ratio must lie in \(0, 1\), got 0"),
        (lambda: Masked(DIM, last_decay=1.2), r"decay must lie in \[0, 1\], got 1.2"),
        (lambda: MAE(DIM, 48, ratio=1.0), r"ratio must lie in \(0, 1\), got 1"),
        (lambda: MAE(DIM, 48, width=18), "width must be a multiple of 4 and of 8 heads, got 18"),
        (lambda: IBOT(4, 4, koleo=-1.0), "koleo must not be negative, got -1"),
        (lambda: IBOT(4, 4, centring="median"), "centring must be one of mean, sinkhorn, got 'median'"),
        (
            lambda: find("objective", "masked")().build(Context(transformer=False, feature_dim=4)),
            "masked needs a vision transformer: set the encoder's backbone",
        ),
        (
            lambda: find("objective", "ibot")().build(Context()),
            "ibot needs to know the dimension of",
        ),
        (
            lambda: find("objective", "mae")().build(Context(feature_dim=4)),
            "mae needs views that are pict",
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
        (MAE(DIM, 768, width=16, depth=0), "patches of 768 numbers.*set patch to the side.*patches, 4"),
    ],
)
def test_objectives_that_do_not_fit_the_model_say_what_to_set(objective, message):
    timm_or_skip()
    with pytest.raises(ValueError, match=message):
        objective({"encoder": vit()}, pictures(), generator(0))
