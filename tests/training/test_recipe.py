"""Recipes: their settings, schedules, parameter groups and averaged weights."""

import contextlib
import copy
import itertools
import math
import shutil
import typing
from dataclasses import fields

import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa.encoders.layers import follow
from isojepa.encoders.model import module_of
from isojepa.objectives import Loss, Objective
from isojepa.seeds import generator
from isojepa.training import Recipe
from isojepa.training.checkpoints import load_tensors
from isojepa.training.loop import fit
from isojepa.training.recipe import (
    SCHEDULES,
    Settings,
    WeightAverage,
    constant_cosine,
    decayed_groups,
    warmup_cosine,
)
from tests.training.crash import assert_same_bits, weights, whole_and_resumed

SHORT = {
    "steps": 12,
    "batch": 18,
    "batch_start": None,
    "eval_every": 5,
    "eval_samples": 64,
    "progress": False,
}


class Norm(nn.Module):
    """A small encoder with everything that a step may touch: matrices, biases, a norm with buffers."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = ij.encoders.MLP(2, 8, width=8, layers=1, seed=1)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(dropout)
        self.last = ij.encoders.MLP(8, 2, width=8, layers=1, seed=2)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


def make(dropout=0.0):
    return Norm(dropout), ij.objectives.LeJEPA(0.02, regularizer=ij.objectives.SIGReg(slices=8))


RECIPES = {
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "float16 and clip": {"precision": "float16", "clip": 0.1},
    "accumulate": {"accumulate": 3},
    "decay": {"weight_decay": 0.3},
    "decay all": {"weight_decay": 0.3, "decay_all": True},
    "average": {"average": 0.9},
    "clip": {"clip": 0.05},
    "growing batch": {"batch_start": 4, "batch": 40},
    "growing batch in parts": {"batch_start": 8, "batch": 40, "accumulate": 2},
    "fixed set": {"pairs": 30},
}


@pytest.mark.parametrize("options", RECIPES.values(), ids=RECIPES)
def test_a_run_of_every_recipe_that_crashes_ends_with_the_same_bits(spiral, tmp_path, options):
    stop = 7 * options.get("accumulate", 1)  # neither at an evaluation nor at the start
    assert_same_bits(*whole_and_resumed(make, spiral, tmp_path, stop, **{**SHORT, **options}))


def test_a_run_with_dropout_that_crashes_ends_with_the_same_bits(spiral, tmp_path):
    whole, resumed = whole_and_resumed(lambda: make(0.5), spiral, tmp_path, 7, **SHORT)
    assert_same_bits(whole, resumed)
    assert not torch.equal(weights(whole.encoder), weights(fit(*_with(spiral, make()), **SHORT).encoder))


@pytest.mark.slow
def test_a_compiled_run_that_crashes_ends_with_the_same_bits_and_near_the_plain_one(spiral, tmp_path):
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        pytest.skip("torch.compile needs a C++ compiler on the CPU")
    whole, resumed = whole_and_resumed(make, spiral, tmp_path, 7, compile=True, **SHORT)
    assert_same_bits(whole, resumed)
    plain = fit(*_with(spiral, make()), **SHORT)
    # not the weights: the bias before a batch norm has no gradient but rounding, which Adam makes large
    for row, other in zip(whole.metrics, plain.metrics, strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-3)
    assert all(module._compiled_call_impl is None for module in whole.encoder.modules())


@pytest.mark.parametrize("options", [*RECIPES.values(), {}], ids=[*RECIPES, "plain"])
def test_every_recipe_but_the_plain_one_changes_the_weights(spiral, options):
    """Or the tests above would say nothing."""
    plain, other = (fit(*_with(spiral, make()), **{**SHORT, **more}) for more in ({}, options))
    assert torch.equal(weights(plain.encoder), weights(other.encoder)) == (not options)


def test_an_overflow_of_float16_is_a_step_left_out_and_a_number_in_the_rows(spiral, tmp_path):
    """The first scales are too large for these gradients."""

    class Steep(nn.Module):
        def forward(self, views, generator=None):
            return Loss(1e3 * views.square().mean(), {})

    def steep():
        return ij.encoders.MLP(2, 2, width=8, layers=2), Steep()

    options = {**SHORT, "steps": 14, "precision": "float16", "eval_every": 1, "learning_rate": 1e-3}
    whole, resumed = whole_and_resumed(steep, spiral, tmp_path, 3, **options)
    assert_same_bits(whole, resumed)
    norms = [row["gradient_norm"] for row in whole.metrics]
    assert all(isinstance(norm, float) for norm in norms)
    assert not math.isfinite(norms[0])
    assert math.isfinite(norms[-1])
    first, second = (row["r2"] for row in whole.metrics[:2])
    assert first == second  # nothing moved


class Listening(Objective):
    """A quadratic loss of the embeddings that keeps the weights after every step, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.after, self.batches = [], []

    def forward(self, models, batch, generator):
        h = models["encoder"].embed(batch.views[0])
        self.batches.append(batch)
        return Loss((h - batch.views[1]).square().mean(), {})

    def after_step(self, models, step):
        module = module_of(models["encoder"])
        self.after.append({name: value.clone() for name, value in module.state_dict().items()})


def test_the_averaged_weights_are_evaluated_and_kept(spiral, tmp_path):
    model, objective = Norm(), Listening()
    average = {name: value.clone() for name, value in model.state_dict().items()}
    run = fit(model, spiral, objective, record=tmp_path / "run", average=0.9, **SHORT)
    for after in objective.after:
        for name, value in after.items():
            counted = not value.is_floating_point() or "running" in name
            average[name] = value if counted else 0.9 * average[name] + 0.1 * value
    kept = load_tensors(tmp_path / "run/encoder.safetensors")[0]
    assert kept.keys() == average.keys()
    for name, value in average.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-5, atol=1e-6)
        assert torch.equal(kept[name], run.encoder.state_dict()[name])
    assert not torch.equal(kept["first.body.0.weight"], objective.after[-1]["first.body.0.weight"])
    mine = Norm()
    mine.load_state_dict(kept)
    evaluation = ij.probes.Recovery(spiral, SHORT["eval_samples"])
    numbers = evaluation({"encoder": ij.encoders.as_model(mine.eval())}, ij.generator(0, "eval"))
    assert {key: run.metrics[-1][key] for key in numbers} == numbers


def _norm(model, batches):
    """The norm of the gradient of the mean loss of some batches, one after the other, by hand."""
    model.zero_grad()
    sum((model(b.views[0]) - b.views[1]).square().mean() / len(batches) for b in batches).backward()
    return math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters()))


@pytest.mark.parametrize("options", [{}, {"accumulate": 3}, {"clip": 1e-3}], ids=["plain", "parts", "clip"])
def test_the_gradient_norm_of_a_row_is_that_of_its_step_before_clipping(spiral, options):
    model, objective = Norm(), Listening()
    run = fit(model, spiral, objective, **{**SHORT, **options})
    parts = options.get("accumulate", 1)
    for row in run.metrics:
        before = Norm().train()
        before.load_state_dict(objective.after[row["step"] - 2])
        batches = objective.batches[(row["step"] - 1) * parts : row["step"] * parts]
        assert row["gradient_norm"] == pytest.approx(_norm(before, batches), rel=1e-4)


def test_clipping_bounds_the_norm_of_what_the_optimiser_gets(spiral, monkeypatch):
    seen = []
    step = torch.optim.AdamW.step

    def listen(self, *arguments, **options):
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        seen.append(math.sqrt(sum(g.double().square().sum().item() for g in grads)))
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", listen)
    run = fit(Norm(), spiral, Listening(), clip=1e-3, **SHORT)
    assert min(row["gradient_norm"] for row in run.metrics) > 1e-2
    assert seen == pytest.approx([1e-3] * SHORT["steps"], rel=1e-2)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_weight_decay_spares_biases_and_norms_unless_all_is_asked_for(spiral, all_of_it):
    """With a loss that is flat, only the decay moves weights."""

    class Flat(Objective):
        def forward(self, models, batch, generator):
            return Loss(0.0 * models["encoder"].embed(batch.views[0]).sum(), {})

    begun, model = Norm().state_dict(), Norm()
    options = {**SHORT, "schedule": "constant", "learning_rate": 0.1}
    fit(model, spiral, Flat(), weight_decay=0.5, decay_all=all_of_it, **options)
    shrunk = (1 - 0.1 * 0.5) ** SHORT["steps"]
    for name, parameter in model.named_parameters():
        decayed = all_of_it or (parameter.ndim == 2)
        expected = begun[name] * (shrunk if decayed else 1.0)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-7)


def test_parts_of_a_batch_make_the_gradient_of_the_mean_of_their_losses(spiral):
    """Equal parts of a loss that is a mean over rows, without batch norm: the whole batch's own gradient."""

    def trained(parts):
        encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
        return fit(encoder, spiral, Listening(), accumulate=parts, **SHORT)

    whole, parts = trained(1), trained(3)
    torch.testing.assert_close(weights(whole.encoder), weights(parts.encoder), rtol=1e-3, atol=1e-5)
    assert whole.metrics[-1]["loss"] == pytest.approx(parts.metrics[-1]["loss"], rel=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_that_of_the_models_alone(spiral, precision):
    seen = set()

    class Layer(nn.Linear):
        def forward(self, x):
            h = super().forward(x)
            if self.training:
                seen.add(("model", h.dtype))
            return h

    class Spy(nn.Module):
        def forward(self, views, generator=None):
            seen.add(("loss", (views @ views.mT).dtype == views.dtype))
            return Loss((views.float().square().mean() - 1).square(), {})

    model = Layer(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.eye(2))
    fit(model, spiral, Spy(), precision=precision, **SHORT)
    assert seen == {("model", getattr(torch, precision)), ("loss", True)}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_keywords_of_fit_are_exactly_the_settings_of_a_recipe():
    assert typing.get_type_hints(Settings) == typing.get_type_hints(Recipe)
    assert set(Settings.__annotations__) == {field.name for field in fields(Recipe)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "float8"}, "precision must be one of .*got 'float8'"),
        ({"average": 1.0}, r"average must lie in \(0, 1\) or be none, got 1.0"),
        ({"accumulate": 0}, "accumulate must be an integer of at least 1, got 0"),
        ({"accumulate": 10}, "accumulate must leave 2 states at least in each part of 18, got 10"),
    ],
)
def test_what_a_recipe_cannot_mean_is_refused(spiral, options, message):
    with pytest.raises(ValueError, match=message):
        fit(*_with(spiral, make()), **{**SHORT, **options})


def _with(source, made):
    model, objective = made
    return model, source, objective


def test_constant_cosine_is_one_for_half_the_run_and_then_falls_to_zero():
    factors = [constant_cosine(step, 100, 0.0) for step in range(101)]
    assert factors[:51] == [1.0] * 51
    assert factors[75] == pytest.approx(0.5)
    assert factors[100] == pytest.approx(0.0)
    assert factors[50:] == sorted(factors[50:], reverse=True)


def test_warmup_cosine_rises_in_a_line_and_then_falls_to_zero():
    factors = [warmup_cosine(step, 100, 0.1) for step in range(101)]
    steps = [b - a for a, b in itertools.pairwise(factors[:10])]
    assert factors[0] > 0
    assert steps == pytest.approx([steps[0]] * 9)
    assert factors[10] == 1.0 == max(factors)
    assert factors[55] == pytest.approx(0.5)
    assert factors[100] == pytest.approx(0.0)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_stays_within_0_and_1_even_for_one_step(name):
    for steps in (1, 2, 3, 17):
        assert all(0 <= SCHEDULES[name](step, steps, 0.3) <= 1 for step in range(steps))


class Tokens(nn.Module):
    """Names two of its parameters, and one that it does not have, as the models of timm do."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.ones(1, 5, 4))
        self.attention = nn.MultiheadAttention(4, 2, add_bias_kv=True)
        self.mix = nn.Linear(4, 4, bias=False)
        self.scale = nn.Parameter(torch.ones(()))

    def no_weight_decay(self) -> set[str]:
        return {"position", "mix.weight", "cls_token"}


def names(module: nn.Module, weight_decay: float = 0.1) -> list[list[str]]:
    known = {parameter: name for name, parameter in module.named_parameters()}
    return [[known[p] for p in group["params"]] for group in decayed_groups(module, weight_decay)]


def test_a_module_names_what_it_spares_at_any_depth():
    decayed, spared = names(nn.ModuleDict({"encoder": nn.Sequential(Tokens())}))
    own = "encoder.0."
    assert decayed == [own + "attention.in_proj_weight", own + "attention.out_proj.weight"]
    assert {own + name for name in ("position", "mix.weight", "scale", "attention.bias_k")} <= set(spared)
    assert own + "attention.in_proj_bias" in spared


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(dtype)
    shake(module, 0)
    return module


def shake(module: nn.Module, step: int) -> None:
    """As an optimiser's step and a forward pass do: other weights, other running statistics."""
    source = generator(1, step)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source))
        module[1].running_mean.copy_(torch.randn(4, generator=source))
        module[1].num_batches_tracked.add_(1)


def snapshot(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("warmup", [False, True])
def test_parameters_follow_the_recursion_and_buffers_are_the_newest(warmup):
    module = network(torch.float64)
    names = [name for name, _ in module.named_parameters()]
    truth = snapshot(module)
    average = WeightAverage(module, 0.8, warmup=warmup)
    for t in range(60):
        shake(module, t + 1)
        average.update()
        d = min(0.8, (1 + t) / (10 + t)) if warmup else 0.8
        now = snapshot(module)
        truth = {k: d * truth[k] + (1 - d) * now[k] if k in names else now[k] for k in truth}
    assert average.updates == 60
    with average.apply():
        for name, tensor in module.state_dict().items():
            assert torch.allclose(tensor.double(), truth[name].double(), rtol=0, atol=1e-12), name


def test_weights_come_back_bit_for_bit_also_after_an_error():
    module = network()
    average = WeightAverage(module, 0.9)
    averaged = snapshot(module)
    shake(module, 1)
    before, tensors = snapshot(module), module.state_dict(keep_vars=True)
    with contextlib.suppress(KeyError), average.apply():
        assert same(snapshot(module), averaged)
        module(torch.randn(8, 3, generator=generator(0)))  # in training mode: running statistics move
        raise KeyError
    assert same(snapshot(module), before)
    assert all(tensors[name] is tensor for name, tensor in module.state_dict(keep_vars=True).items())
    with average.apply():
        assert same(snapshot(module), averaged)  # what was done inside did not reach the average


def test_a_teacher_follows_its_student():
    student = network(torch.float64)
    teacher = copy.deepcopy(student).requires_grad_(False)
    before = snapshot(teacher)
    shake(student, 5)
    truth, tensors = snapshot(student), teacher.state_dict(keep_vars=True)
    follow(teacher, student, 0.75)
    for name, parameter in teacher.named_parameters():
        assert torch.allclose(parameter, 0.75 * before[name] + 0.25 * truth[name], rtol=0, atol=1e-14)
    assert torch.equal(teacher[1].running_mean, student[1].running_mean)
    assert all(tensors[name] is tensor for name, tensor in teacher.state_dict(keep_vars=True).items())
    assert same(snapshot(student), truth)
    follow(teacher, student, 0.0)
    assert same(snapshot(teacher), truth)
    with pytest.raises(ValueError, match="same names"):
        follow(teacher, nn.Linear(3, 3), 0.5)
