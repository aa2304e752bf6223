"""The training loop: it learns, it resumes to the bit, it tells when it fails."""

import json
import os
import signal
import time

import pytest
import torch

import isojepa as ij
from isojepa.training import Recipe, RunWarning
from isojepa.training.loop import fit
from isojepa.training.tensors import load_tensors
from tests.distributed import start_command

SHORT = {
    "steps": 60,
    "batch": 64,
    "eval_every": 20,
    "eval_samples": 256,
    "batch_start": None,
    "checkpoint_seconds": 0.0,
}


def parts(seed=0, weight=4e-3):
    encoder = ij.encoders.MLP(2, 2, width=16, layers=3, seed=seed)
    return encoder, ij.objectives.LeJEPA(weight, regularizer=ij.objectives.SIGReg(slices=8))


def weights(encoder):
    return torch.cat([p.detach().flatten() for p in encoder.parameters()])


def test_training_raises_r2_far_above_the_untrained_encoders():
    world = ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.95), ij.worlds.Parabola())
    encoder, objective = parts()
    before = ij.certify(encoder, world, samples=4000).recovery.r2_h_to_z.estimate
    run = fit(encoder, world, objective, steps=800, batch=512)
    assert run.status == "done"
    assert run.r2 > 0.97 > before + 0.1


def test_a_run_depends_on_its_seed_alone_and_leaves_the_global_generator(spiral):
    state = torch.random.get_rng_state()
    ends = []
    for seed in (3, 3, 4):
        encoder, objective = parts()
        torch.rand(7)  # the global stream moves between runs: it must not matter
        fit(encoder, spiral, objective, seed=seed, **SHORT)
        ends.append(weights(encoder))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])
    torch.random.set_rng_state(state)
    encoder, objective = parts()
    fit(encoder, spiral, objective, **SHORT)
    assert torch.equal(torch.random.get_rng_state(), state)


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

    def extra_repr(self):
        return ""


@pytest.mark.parametrize("stop", [1, 2, 20, 21, 39, 60])
def test_a_run_that_crashes_at_any_step_ends_with_the_same_bits(spiral, tmp_path, stop):
    config = {"note": "same for both"}
    encoder, objective = parts()
    whole = fit(encoder, spiral, objective, record=tmp_path / "whole", config=config, **SHORT)
    again, objective = parts()
    with pytest.raises(RuntimeError, match="crash"):
        fit(again, spiral, StopAt(objective, stop), record=tmp_path / "cut", config=config, **SHORT)
    fresh, objective = parts()
    resumed = fit(fresh, spiral, objective, record=tmp_path / "cut", config=config, **SHORT)
    assert torch.equal(weights(whole.encoder), weights(resumed.encoder))
    assert whole.metrics == resumed.metrics
    files = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "cut")]
    assert files[0] == files[1]
    assert (tmp_path / "whole/encoder.safetensors").read_bytes() == (
        tmp_path / "cut/encoder.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_step_and_saves_it(spiral, tmp_path, number):
    config = {"note": "same for both"}

    class Signalled(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.calls = inner, 0

        def forward(self, views, generator=None):
            self.calls += 1
            if self.calls == 33:
                os.kill(os.getpid(), number)
            return self.inner(views, generator)

    options = {**SHORT, "checkpoint_seconds": 1e9}
    encoder, objective = parts()
    whole = fit(encoder, spiral, objective, **options)
    before = signal.getsignal(number)
    encoder, objective = parts()
    with pytest.raises(KeyboardInterrupt):
        fit(encoder, spiral, Signalled(objective), record=tmp_path / "run", config=config, **options)
    assert signal.getsignal(number) is before
    _, notes = load_tensors(tmp_path / "run/checkpoint/state.safetensors")
    assert notes["step"] == "33"
    fresh, objective = parts()
    resumed = fit(fresh, spiral, objective, record=tmp_path / "run", config=config, **options)
    assert torch.equal(weights(whole.encoder), weights(resumed.encoder))
    assert whole.metrics == resumed.metrics


TRAIN = [
    *("train", "--json"),
    *("--encoder.width", "32", "--encoder.layers", "3", "--objective.slices", "8"),
    *("--training.steps", "3000", "--training.batch", "128", "--training.eval-every", "25"),
    *("--training.eval-samples", "256", "--training.checkpoint-seconds", "0.1"),
]


@pytest.mark.slow
def test_sigkill_at_random_moments_does_not_change_a_bit(tmp_path):
    whole = start_command(*TRAIN, "--record", tmp_path / "whole")
    whole.join()
    kills = 0
    for wait in (0.05, 0.33, 0.21):
        process = start_command(*TRAIN, "--record", tmp_path / "cut")
        metrics = tmp_path / "cut/metrics.jsonl"
        had = metrics.stat().st_size if metrics.exists() else 0
        while process.exitcode is None and (not metrics.exists() or metrics.stat().st_size <= had):
            time.sleep(0.01)
        time.sleep(wait)  # a checkpoint is due every 0.1 s: this lands before, in or after one
        if process.exitcode is None:
            process.kill()
            kills += 1
        process.join()
    assert kills >= 1, "the run ended before it could be killed: make it longer"
    assert not (tmp_path / "cut/result.json").exists() or kills < 3
    last = start_command(*TRAIN, "--record", tmp_path / "cut")
    last.join()
    assert whole.exitcode == last.exitcode == 0
    for name in ("metrics.jsonl", "encoder.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    results = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("whole", "cut")]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert not (tmp_path / "cut/checkpoint").exists()


def test_a_finished_record_is_returned_without_training(spiral, tmp_path):
    encoder, objective = parts()
    first = fit(encoder, spiral, objective, record=tmp_path / "run", **SHORT)
    fresh, objective = parts()
    second = fit(fresh, spiral, StopAt(objective, 1).inner, record=tmp_path / "run", **SHORT)
    assert torch.equal(weights(fresh), weights(encoder))
    assert second.metrics == first.metrics
    assert second.seconds == first.seconds


class Poison(torch.nn.Module):
    """An objective whose loss is NaN from one call on."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner, self.left = inner, call

    def forward(self, views, generator=None):
        loss = self.inner(views, generator)
        self.left -= 1
        factor = float("nan") if self.left <= 0 else 1.0
        return type(loss)(loss.total * factor, loss.terms)


def test_a_run_that_turns_nan_says_so_once_and_keeps_its_record(spiral, tmp_path):
    encoder, objective = parts()
    with pytest.warns(RunWarning, match=r"the loss became nan at step 30: try a lower learning_rate"):
        run = fit(encoder, spiral, Poison(objective, 31), record=tmp_path / "run", **SHORT)
    assert run.status == "diverged"
    assert [row["step"] for row in run.metrics] == [20]
    record = ij.Record.open(tmp_path / "run")
    assert record.result["status"] == "diverged"
    assert "step 30" in record.result["reason"]
    assert torch.isfinite(weights(encoder)).all()


def test_a_run_that_collapses_says_so_and_keeps_its_record(tmp_path):
    world = ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.95))
    encoder, objective = parts(weight=0.0)
    with pytest.warns(RunWarning, match="the embedding collapsed: .* of its directions"):
        run = fit(
            encoder,
            world,
            objective,
            steps=400,
            batch=64,
            learning_rate=1e-2,
            schedule="constant",
            eval_every=100,
            record=tmp_path / "run",
        )
    assert run.status == "collapsed"
    assert ij.Record.open(tmp_path / "run").result["status"] == "collapsed"


def test_weights_that_turn_nan_are_told_and_not_called_done(spiral, tmp_path):
    encoder, objective = parts()
    options = {**SHORT, "steps": 1, "learning_rate": 1e30, "clip": None}
    with pytest.warns(RunWarning, match="the embeddings became NaN or Inf by step 1"):
        run = fit(encoder, spiral, objective, record=tmp_path / "run", **options)
    assert run.status == "diverged"


def test_dropout_is_repeatable_resumable_and_leaves_the_global_generator(spiral, tmp_path):
    def noisy():
        torch.rand(3)
        return torch.nn.Sequential(torch.nn.Dropout(0.1), ij.encoders.MLP(2, 2, width=8, layers=2))

    config = {"note": "same for both"}
    _, objective = parts()
    first = fit(noisy(), spiral, objective, **SHORT)
    state = torch.get_rng_state()
    second = fit(noisy(), spiral, objective, **SHORT)
    torch.set_rng_state(state)
    torch.rand(3)
    assert first.metrics == second.metrics
    with pytest.raises(RuntimeError, match="crash"):
        fit(noisy(), spiral, StopAt(objective, 33), record=tmp_path / "run", config=config, **SHORT)
    resumed = fit(noisy(), spiral, objective, record=tmp_path / "run", config=config, **SHORT)
    assert resumed.metrics == first.metrics


def test_an_oblique_collapse_is_seen_where_every_dimension_varies(spiral):
    class Oblique(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, x):
            return torch.stack((x[:, 0], x[:, 0] + 1e-3 * x[:, 1]), 1) * self.scale

    with pytest.warns(RunWarning, match="the embedding collapsed"):
        run = fit(Oblique(), spiral, ij.objectives.LeJEPA(), **SHORT | {"steps": 100})
    assert run.status == "collapsed"
    assert fit(Oblique(), spiral, ij.objectives.LeJEPA(), **SHORT).status == "done"  # too short to tell


def test_what_an_objective_learns_is_in_the_record(spiral, tmp_path):
    encoder, _ = parts()
    learned = ij.objectives.AnInfoNCE(2)
    fit(encoder, spiral, learned, record=tmp_path / "run", **SHORT)
    encoder, _ = parts()
    fresh = ij.objectives.AnInfoNCE(2)
    fit(encoder, spiral, fresh, record=tmp_path / "run", **SHORT)
    assert torch.equal(fresh.precision, learned.precision)
    assert not torch.equal(fresh.precision, torch.ones(2))


def test_a_regularizer_in_place_of_an_objective_is_told(spiral):
    encoder, _ = parts()
    with pytest.raises(ValueError, match=r"objective must return a Loss, got Tensor; .*LeJEPA\(regularizer"):
        fit(encoder, spiral, ij.objectives.SIGReg(), **SHORT)


def test_an_unknown_device_is_told(spiral, tmp_path):
    encoder, objective = parts()
    with pytest.raises(ValueError, match="accelerator must be a device of this machine, got 'abacus'"):
        fit(encoder, spiral, objective, accelerator="abacus", record=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_learned_width_of_infonce_is_trained_with_the_encoder(spiral):
    encoder, _ = parts()
    objective = ij.objectives.InfoNCE(sigma=3.0, learned=True)
    fit(encoder, spiral, objective, **SHORT)
    assert abs(objective.log_sigma.item() - torch.tensor(3.0).log().item()) > 1e-3


def test_metrics_hold_the_mean_of_the_loss_terms_since_the_last_evaluation(spiral):
    encoder, objective = parts()
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, views, generator=None):
            loss = objective(views, generator)
            seen.append(loss.total.item())
            return loss

    run = fit(encoder, spiral, Spy(), **SHORT)
    assert run.metrics[1]["loss"] == pytest.approx(sum(seen[20:40]) / 20, rel=1e-6)


def test_the_batch_grows_geometrically_from_start_to_end():
    recipe = Recipe(steps=5, batch=2048, batch_start=128)
    assert [recipe.batch_at(step) for step in range(5)] == [128, 256, 512, 1024, 2048]
    assert Recipe(steps=5, batch=64, batch_start=None).batch_at(3) == 64
    assert Recipe(steps=1, batch=64, batch_start=8).batch_at(0) == 8
    assert Recipe(steps=9, batch=64, batch_start=256).batch_at(0) == 64  # it never starts above its end


def test_an_encoder_that_does_not_fit_the_world_is_told_before_training(spiral):
    with pytest.raises(ValueError, match="encoder does not take the world's observations of shape"):
        fit(ij.encoders.MLP(3, 2), spiral, ij.objectives.LeJEPA())
    with pytest.raises(ValueError, match=r"encoder must map \(batch, ...\) to \(batch, dim\)"):
        fit(torch.nn.Flatten(0), spiral, ij.objectives.LeJEPA())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"batch": 1}, "batch must be an integer of at least 2, got 1"),
        ({"learning_rate": -1.0}, "learning_rate must be positive and finite, got -1.0"),
        ({"schedule": "cosin"}, "schedule must be one of .*did you mean"),
        ({"clip": 0.0}, "clip must be positive and finite or none"),
        ({"warmup": 1.0}, r"warmup must lie in \[0, 1\)"),
    ],
)
def test_bad_recipes_are_refused(spiral, options, message):
    encoder, objective = parts()
    with pytest.raises(ValueError, match=message):
        fit(encoder, spiral, objective, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 1e-3}, "no setting 'lr'; did you mean 'learning_rate'"),
        ({"batch_size": 8}, "did you mean 'batch'"),
        ({"epochs": 8}, "did you mean 'steps'"),
        ({"device": "cpu"}, "did you mean 'accelerator'"),
        ({"learning_rat": 1e-3}, "did you mean 'learning_rate'"),
    ],
)
def test_settings_of_other_libraries_are_answered_with_ours(spiral, options, message):
    encoder, objective = parts()
    with pytest.raises(TypeError, match=message):
        fit(encoder, spiral, objective, **options)
