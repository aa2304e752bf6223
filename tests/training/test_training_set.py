"""A finite training set: batches come from it, it resumes to the bit, and nothing changes without one."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import isojepa as ij
from isojepa.cli import main
from isojepa.config import Config, config_from
from isojepa.training import Recipe
from isojepa.training.identity import record_id
from isojepa.training.loop import fit

SHORT = {
    "steps": 40,
    "batch": 16,
    "batch_start": None,
    "eval_every": 20,
    "eval_samples": 64,
    "checkpoint_seconds": 0.0,
    "progress": False,
}


class Listening(torch.nn.Module):
    """A linear encoder that remembers every training batch it was given."""

    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(2, 2)
        with torch.no_grad():
            self.map.weight.copy_(torch.eye(2))
            self.map.bias.zero_()
        self.batches = []

    def forward(self, x):
        if self.training:
            self.batches.append(x.detach().clone())
        return self.map(x)


def parts(seed=0):
    encoder = ij.encoders.MLP(2, 2, width=16, layers=3, seed=seed)
    return encoder, ij.objectives.LeJEPA(4e-3, regularizer=ij.objectives.SIGReg(slices=8))


def heard(world, **options):
    encoder = Listening()
    fit(encoder, world, ij.objectives.LeJEPA(), **{**SHORT, **options})
    return [batch.reshape(2, -1, 2) for batch in encoder.batches]


def pairs_of(batches):
    """Every pair of every batch, as a tuple of its four observed numbers."""
    return [[tuple(row) for row in torch.cat(tuple(batch), -1).tolist()] for batch in batches]


def test_every_batch_is_drawn_from_the_same_pairs_and_holds_none_twice(spiral):
    batches = pairs_of(heard(spiral, pairs=50))
    assert len(batches) == SHORT["steps"]
    assert all(len(batch) == len(set(batch)) == 16 for batch in batches)
    seen = {pair for batch in batches for pair in batch}
    # 40 batches of 16 out of 50: that one pair is never drawn has a chance of 50 * 0.68^40 = 1e-5
    assert len(seen) == 50
    assert batches[0] != batches[1]


def test_without_a_training_set_no_pair_comes_twice(spiral):
    batches = pairs_of(heard(spiral))
    assert len({pair for batch in batches for pair in batch}) == 40 * 16


def test_the_set_is_one_sample_of_the_world_and_its_views_stay_together(spiral):
    first, second = torch.cat(
        [torch.cat(tuple(b), -1) for b in heard(spiral, pairs=500, batch=500)[:1]]
    ).split(2, 1)
    z, z_next = spiral.mixing.inverse(first), spiral.mixing.inverse(second)
    for i in range(2):
        correlation = torch.corrcoef(torch.stack((z[:, i], z_next[:, i])))[0, 1].item()
        assert correlation == pytest.approx(0.95, abs=0.03)  # 6 standard errors (1 - rho^2) / sqrt(500)
    assert z.mean(0).abs().max() < 5 / math.sqrt(500)


def test_the_set_belongs_to_the_seed(spiral):
    sets = [
        {pair for batch in pairs_of(heard(spiral, pairs=20, seed=seed)) for pair in batch}
        for seed in (3, 3, 4)
    ]
    assert sets[0] == sets[1]
    assert not sets[0] & sets[2]


def test_the_held_out_pairs_are_not_of_the_training_set(spiral):
    trained = {pair[:2] for batch in pairs_of(heard(spiral, pairs=64)) for pair in batch}
    held_out = spiral.sample(64, ij.generator(0, "eval")).views[0]
    assert len(trained) == 64
    assert not trained & {tuple(row) for row in held_out.tolist()}


@pytest.mark.parametrize("pairs", [2, 5, 15])
def test_a_set_smaller_than_the_batch_is_the_whole_batch(spiral, pairs):
    batches = pairs_of(heard(spiral, pairs=pairs))
    assert all(len(batch) == pairs for batch in batches)
    assert len({pair for batch in batches for pair in batch}) == pairs


def test_a_growing_batch_grows_up_to_the_set(spiral):
    sizes = [batch.shape[1] for batch in heard(spiral, pairs=30, batch=64, batch_start=8)]
    assert sizes[0] == 8
    assert sizes == sorted(sizes)
    assert sizes[-1] == 30


class StopAt(torch.nn.Module):
    """An objective that raises at one call, as a crash would."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner, self.left = inner, call

    def forward(self, views, generator=None):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("crash")
        return self.inner(views, generator)


@pytest.mark.parametrize("pairs", [8, 100])
@pytest.mark.parametrize("stop", [1, 20, 33])
def test_a_run_that_crashes_ends_with_the_same_bits(spiral, tmp_path, stop, pairs):
    options = {**SHORT, "config": {"note": "same for both"}, "pairs": pairs}
    encoder, objective = parts()
    fit(encoder, spiral, objective, record=tmp_path / "whole", **options)
    encoder, objective = parts()
    with pytest.raises(RuntimeError, match="crash"):
        fit(encoder, spiral, StopAt(objective, stop), record=tmp_path / "cut", **options)
    encoder, objective = parts()
    fit(encoder, spiral, objective, record=tmp_path / "cut", **options)
    for name in ("metrics.jsonl", "encoder.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


TRAIN = [
    *(sys.executable, "-m", "isojepa", "train", "--json", "--training.pairs", "300"),
    *("--encoder.width", "32", "--encoder.layers", "3", "--objective.slices", "8"),
    *("--training.steps", "2000", "--training.batch", "128", "--training.eval-every", "25"),
    *("--training.eval-samples", "256", "--training.checkpoint-seconds", "0.1"),
]


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_bits(tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*TRAIN, "--record", whole], env=env, check=True, capture_output=True)
    process = subprocess.Popen(
        [*TRAIN, "--record", cut], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not (cut / "checkpoint/state.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed: make it longer"
    assert not (cut / "result.json").exists()
    subprocess.run([*TRAIN, "--record", cut], env=env, check=True, capture_output=True)
    for name in ("metrics.jsonl", "encoder.safetensors"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()


@pytest.mark.slow
def test_a_small_set_is_learned_by_heart_and_a_large_one_is_not():
    world = ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.9), ij.worlds.Spiral())
    gaps = []
    for pairs in (32, 20_000):
        encoder = ij.encoders.MLP(2, 2, width=32, layers=4)
        run = fit(
            encoder,
            world,
            ij.objectives.LeJEPA(0.5, regularizer=ij.objectives.Whitening()),
            steps=400,
            batch=256,
            batch_start=None,
            pairs=pairs,
            eval_every=400,
            progress=False,
        )
        fresh = world.sample(4000, ij.generator(5, "fresh"))
        with torch.no_grad():
            views = torch.stack((encoder(fresh.views[0]), encoder(fresh.views[1])))
        gaps.append(ij.objectives.LeJEPA(0.0)(views).total.item() / run.metrics[-1]["alignment"])
    assert gaps[0] > 3
    assert gaps[1] < 1.5


def test_a_config_with_a_set_has_an_id_of_its_own():
    plain = Config().to_dict()
    sized = Config(training=Recipe(pairs=100)).to_dict()
    assert record_id(sized) != record_id(plain)
    assert record_id(Config(training=Recipe(pairs=101)).to_dict()) != record_id(sized)


def test_a_record_without_a_set_is_not_taken_for_one_with(spiral, tmp_path):
    encoder, objective = parts()
    fit(encoder, spiral, objective, record=tmp_path / "run", **SHORT)
    encoder, objective = parts()
    with pytest.raises(ValueError, match=r"made with another config .*pairs: .*100 asked for"):
        fit(encoder, spiral, objective, record=tmp_path / "run", pairs=100, **SHORT)


def test_files_of_settings_may_name_it():
    assert config_from({"training": {"pairs": 640}}).training.pairs == 640
    assert config_from({"training": {"pairs": None}}).training.pairs is None
    with pytest.raises(ValueError, match=r"training\.pairs must be int or None, got 'many'"):
        config_from({"training": {"pairs": "many"}})


@pytest.mark.parametrize("pairs", [1, 0, -5, 2.5])
def test_bad_sizes_are_refused(spiral, pairs):
    encoder, objective = parts()
    with pytest.raises(ValueError, match=f"pairs must be none or an integer of at least 2, got {pairs}"):
        fit(encoder, spiral, objective, pairs=pairs, **SHORT)


SMALL = [
    *("--encoder.width", "8", "--encoder.layers", "2", "--objective.slices", "4", "--training.steps", "20"),
    *("--training.batch", "32", "--training.eval-every", "20", "--training.eval-samples", "64"),
]


def test_the_command_line_takes_it(capsys, tmp_path):
    paths = []
    for flags in (["--training.pairs", "40"], []):
        assert main(["train", *SMALL, *flags, "--json", "--out", str(tmp_path)]) == 0
        paths.append(json.loads(capsys.readouterr().out)["record"])
    assert ij.Record.open(paths[0]).config["training"]["pairs"] == 40
    assert ij.Record.open(paths[1]).config["training"]["pairs"] is None
    assert paths[0] != paths[1]
    assert main(["train", *SMALL, "--training.pairs", "1", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: pairs must be none or an integer of at least 2, got 1")
    assert len(error.strip().splitlines()) == 1
