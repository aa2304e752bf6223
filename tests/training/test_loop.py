"""The training loop: what it learns, when it stops, saves and warns, and what loggers receive."""

import json
import os
import signal
import time

import pytest
import torch

import isojepa as ij
from isojepa.training import RunWarning, TensorBoard, WeightsAndBiases
from isojepa.training.checkpoints import load_tensors
from isojepa.training.loop import CheckpointPace, Health, fit
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
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95), ij.data.Parabola())
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
    second = fit(fresh, spiral, objective, record=tmp_path / "run", **SHORT)
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
    record = ij.RunDirectory.open(tmp_path / "run")
    assert record.result["status"] == "diverged"
    assert "step 30" in record.result["reason"]
    assert torch.isfinite(weights(encoder)).all()


def test_a_run_that_collapses_says_so_and_keeps_its_record(tmp_path):
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95))
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
    assert ij.RunDirectory.open(tmp_path / "run").result["status"] == "collapsed"


def test_weights_that_turn_nan_are_told_and_not_called_done(spiral, tmp_path):
    encoder, objective = parts()
    options = {**SHORT, "steps": 1, "learning_rate": 1e30, "clip": None}
    with pytest.warns(RunWarning, match="the embeddings became NaN or Inf by step 1"):
        run = fit(encoder, spiral, objective, record=tmp_path / "run", **options)
    assert run.status == "diverged"


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


def test_a_regularizer_in_place_of_an_objective_is_told(spiral):
    encoder, _ = parts()
    with pytest.raises(ValueError, match=r"objective must return a Loss, got Tensor; .*LeJEPA\(regularizer"):
        fit(encoder, spiral, ij.objectives.SIGReg(), **SHORT)


def test_an_encoder_that_does_not_fit_the_world_is_told_before_training(spiral):
    with pytest.raises(ValueError, match="encoder does not take the world's observations of shape"):
        fit(ij.encoders.MLP(3, 2), spiral, ij.objectives.LeJEPA())
    with pytest.raises(ValueError, match=r"encoder must map \(batch, ...\) to \(batch, dim\)"):
        fit(torch.nn.Flatten(0), spiral, ij.objectives.LeJEPA())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
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
    ],
)
def test_settings_of_other_libraries_are_answered_with_ours(spiral, options, message):
    encoder, objective = parts()
    with pytest.raises(TypeError, match=message):
        fit(encoder, spiral, objective, **options)


@pytest.mark.parametrize(
    ("row", "everywhere", "anywhere"),
    [
        ({"dead_fraction": 0.0, "mean_variance": 1.0, "rankme": 30.0}, "", ""),
        ({"dead_fraction": 13 / 64, "mean_variance": 0.62, "rankme": 36.0}, "", ""),
        ({"dead_fraction": 0.5, "mean_variance": 1.0, "rankme": 30.0}, "50 % of its directions", ""),
        ({"dead_fraction": 0.5, "mean_variance": 1.0, "rankme": 1.1}, "50 % of its", "RankMe is 1.1"),
        ({}, "", ""),
    ],
)
def test_only_objectives_that_ask_for_every_direction_are_judged_by_dead_ones(row, everywhere, anywhere):
    for spreads, words in ((True, everywhere), (False, anywhere)):
        health = Health(("encoder",), spreads)
        reason = health.collapse({"step": 100, **row})
        assert words in reason
        assert bool(words) == bool(reason)
        assert not health.collapse({"step": 99, **row})


def test_a_run_never_spends_more_than_a_fiftieth_once_it_knows_the_cost(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("isojepa.training.loop.time.monotonic", lambda: now[0])
    pace, saves = CheckpointPace(0.1), 0
    for _ in range(10_000):
        now[0] += 0.05  # a step
        if pace.due(now[0]):
            with pace.measured():
                now[0] += 0.2
            saves += 1
            assert saves == 1 or pace.spent <= 0.02 * now[0] + 1e-9
    assert 40 < saves < 60


SHORT_LOGGERS = {"steps": 20, "batch": 32, "eval_every": 10, "eval_samples": 128}


def train(spiral, logger):
    encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    return ij.fit(encoder, spiral, objective, loggers=[logger], **SHORT_LOGGERS)


def test_tensorboard_receives_every_metric(spiral, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'loggers' is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(spiral, TensorBoard(tmp_path))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    values = [(event.step, event.value) for event in events.Scalars("r2")]
    assert [step for step, _ in values] == [10, 20]
    assert values[-1][1] == pytest.approx(run.r2, rel=1e-6)


@pytest.mark.slow
def test_weights_and_biases_receives_every_metric_offline(spiral, tmp_path):
    pytest.importorskip("wandb", reason="the extra 'loggers' is not installed")
    train(spiral, WeightsAndBiases("test", tmp_path, {"seed": 0}, mode="offline"))
    files = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 1
    end = time.monotonic() + 30  # wandb's own service writes the file, some time after finish
    while b"smallest_variance" not in files[0].read_bytes() and time.monotonic() < end:
        time.sleep(0.1)
    assert b"smallest_variance" in files[0].read_bytes()
    assert b"r2" in files[0].read_bytes()
