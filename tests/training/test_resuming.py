"""A run that was interrupted at a checkpoint ends with the bits of one that was not, whatever it trains."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch

import isojepa as ij
from isojepa.config import Config
from isojepa.data.source import Facts
from isojepa.registry import Context, build_spec, components
from isojepa.training import checkpoints
from isojepa.training.loop import fit
from isojepa.training.recipe import WeightAverage
from tests.processes import run
from tests.training.crash import assert_same_bits, whole_and_resumed

STEPS = 6
RECIPE = {"steps": STEPS, "batch": 16, "batch_start": None, "eval_every": 2}
RECIPE |= {"evaluations": (), "learning_rate": 1e-3}
OPTIONS = {
    f"{precision}{', average' if average else ''}{f', {accumulate} parts' if accumulate > 1 else ''}": {
        "precision": precision,
        "average": average,
        "accumulate": accumulate,
    }
    for precision, average, accumulate in product(("float32", "bfloat16"), (None, 0.5), (1, 2))
}
PLAIN, *_, FULL = OPTIONS
PICTURES = {
    "conv": {"dim": 2},
    "convnet": {"backbone": "convnet-4-8", "projector": "8-3"},
    "gridnet": {"backbone": "gridnet-4-8", "projector": "none"},
    "resnet": {"backbone": "resnet18-small-4", "projector": "none"},
    "vit": {"backbone": "test_vit2", "projector": "linear-3", "options": "patch_size=4"},
}
ENCODERS = [*(name for name in components("encoder") if name not in ("conv", "backbone")), *PICTURES]
OBJECTIVES = [name for name in components("objective") if name != "random"]
DECODER, HEAD = {"decoder_width": 16, "decoder_depth": 1, "decoder_heads": 2}, {"width": 8, "prototypes": 16}
PATCHES = {  # objectives of pictures
    "masked": {"width": 8},
    "mae": {"patch": 4, **DECODER},
    "autoencoder": DECODER,
    "ibot": HEAD,
    "dinov2": HEAD,
}
SETTINGS = {
    **{name: {"teacher": "a record"} for name in ("taught", "imitated")},
    "latent-dynamics": {"rollout": 1, "inverse": 0.1},
    **PATCHES,
}


class Labeled:
    """Pairs of a world with labels and actions."""

    def __init__(self, world, shape):
        self.world, self.shape = world, shape
        self.facts = Facts(dim=2, shapes=(shape, shape), correlation=0.9, classes=3, actions=2)

    def sample(self, n, source):
        batch = self.world.sample(n, source)
        actions = torch.randn(n, 1, 2, generator=source)
        return replace(batch, labels=torch.arange(n) % 3, actions=actions)


def pictures(z):
    """Latents (batch, 2) as pictures (batch, 3, 16, 16)."""
    places = torch.linspace(0, 3, 3 * 16 * 16).view(3, 16, 16)
    return torch.sin(places + z[:, 0, None, None, None]) * torch.cos(places**2 * z[:, 1, None, None, None])


def source_of(of_pictures):
    mixing, shape = (pictures, (3, 16, 16)) if of_pictures else (ij.data.Parabola(), (2,))
    return Labeled(ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9), mixing), shape)


def teacher(path):
    return build_spec("encoder", "mlp", dim=3).build(Context(2, ((2,), (2,))))


def parts_of(source, encoder, objective, seed):
    """A function that gives the same new encoder and objective at every call."""
    context = Context(2, source.facts.shapes, 0.9, seed=seed, classes=3, actions=2, opened=teacher)
    config = Config(encoder=encoder, objective=objective, seed=seed)
    return lambda: (encoder.build(context), objective.build(config.around(context)))


def check(folder, source, make_parts, name, options):
    stop = random.Random(name).randint(2, STEPS)  # the call that crashes; checkpoints come at every step
    stop = (stop - 1) * options["accumulate"] + 1
    whole, resumed = whole_and_resumed(make_parts, source, folder, stop, **RECIPE, **options)
    assert_same_bits(whole, resumed)
    assert whole.record.result["resumed_at"] == []
    assert resumed.record.result["resumed_at"] == [(stop - 1) // options["accumulate"]]


def marked(names, quick):
    """Every combination of names and options; all but the quick ones are slow."""
    return [
        pytest.param(name, option, marks=() if option in quick else pytest.mark.slow)
        for name, option in product(names, OPTIONS)
    ]


@pytest.mark.parametrize(("name", "option"), marked(ENCODERS, (PLAIN, FULL)))
def test_a_resumed_run_of_any_encoder_ends_with_the_same_bits(tmp_path, name, option):
    source = source_of(name in PICTURES)
    settings = PICTURES.get(name, {"dim": 2} if name == "mlp" else {})
    kind = name if name not in PICTURES or name == "conv" else "backbone"
    parts = parts_of(
        source, build_spec("encoder", kind, **settings), build_spec("objective", "lejepa", slices=8), 1
    )
    check(tmp_path, source, parts, name + option, OPTIONS[option])


@pytest.mark.parametrize(("name", "option"), marked(OBJECTIVES, (PLAIN,)))
def test_a_resumed_run_of_any_objective_ends_with_the_same_bits(tmp_path, name, option):
    source = source_of(name in PATCHES)
    kind = "world-model" if name == "latent-dynamics" else "mlp"
    encoder = build_spec("encoder", kind, dim=2, width=8, layers=2)
    if name in PATCHES:
        encoder = build_spec("encoder", "backbone", **PICTURES["vit"])
    parts = parts_of(source, encoder, build_spec("objective", name, **SETTINGS.get(name, {})), 2)
    check(tmp_path, source, parts, name + option, OPTIONS[option])


class Strided(torch.nn.Module):
    """A linear map whose weight lies in memory column by column."""

    def __init__(self):
        super().__init__()
        weight = torch.randn(2, 40, generator=ij.generator(0, "strided"))
        self.weight = torch.nn.Parameter(weight.t().contiguous().t())

    def forward(self, x):
        return torch.cat([x, x.square(), x.sin(), x.cos()], 1).repeat(1, 5) @ self.weight.t()


def test_moments_and_averages_have_the_strides_of_their_parameters(tmp_path):
    source = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9))
    make_parts = lambda: (Strided(), ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=8)))  # noqa: E731
    check(tmp_path, source, make_parts, "strided", OPTIONS[FULL])
    model = Strided()
    optimizer, average = torch.optim.AdamW(model.parameters(), fused=True), WeightAverage(model, 0.5)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    checkpoints.save_checkpoint(
        tmp_path / "state.safetensors", model, optimizer, checkpoints.Progress(step=1), average
    )
    fresh = Strided()
    again, restored = torch.optim.AdamW(fresh.parameters(), fused=True), WeightAverage(fresh, 0.5)
    checkpoints.load_checkpoint(tmp_path / "state.safetensors", fresh, again, restored)
    assert fresh.weight.stride() == (1, 2)
    (state,), (before,) = again.state.values(), optimizer.state.values()
    for key in ("exp_avg", "exp_avg_sq"):
        assert state[key].stride() == (1, 2)
        assert torch.equal(state[key], before[key])
    assert restored.state_dict()["average/weight"].stride() == (1, 2)


SCRIPT = """
import os
import sys
import torch
from tests.training.test_resuming import RECIPE, bare, parts_of, source_of
from isojepa.training.loop import fit

torch.set_num_threads(1)
name, record, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
source = source_of(True)
model, objective = bare(name, source)
calls = []

def leave(*_):
    calls.append(0)
    if len(calls) == stop:
        os._exit(9)

objective.register_forward_pre_hook(leave)
fit(model, source, objective, record=record, checkpoint_seconds=0.0, average=0.5, progress=False, **RECIPE)
"""


def bare(name, source):
    settings = PICTURES[name]
    kind = "conv" if name == "conv" else "backbone"
    return parts_of(
        source, build_spec("encoder", kind, **settings), build_spec("objective", "lejepa", slices=8), 1
    )()


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", PICTURES)
def test_a_run_whose_process_exits_at_any_step_ends_with_the_same_bits(tmp_path, name):
    stop = random.Random(name).randint(2, STEPS)
    done = run(SCRIPT, name, tmp_path / "cut", stop)
    assert done.returncode == 9, done.stderr
    options = {**RECIPE, "checkpoint_seconds": 0.0, "average": 0.5, "progress": False}
    runs = []
    for record in ("whole", "cut"):
        source = source_of(True)
        model, objective = bare(name, source)
        runs.append(fit(model, source, objective, record=tmp_path / record, **options))
    assert_same_bits(*runs)
    assert runs[1].record.result["resumed_at"] == [stop - 1]
