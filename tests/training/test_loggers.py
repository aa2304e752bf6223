"""The real loggers, writing real files."""

import time

import pytest

import isojepa as ij
from isojepa.training import TensorBoard, WeightsAndBiases

SHORT = {"steps": 20, "batch": 32, "eval_every": 10, "eval_samples": 128}


def train(spiral, logger):
    encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    return ij.fit(encoder, spiral, objective, loggers=[logger], **SHORT)


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
