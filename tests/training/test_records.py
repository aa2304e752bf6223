"""Records and checkpoints: whole or not there, and clear about what is wrong with them."""

import json
import os
import subprocess
import sys
import threading

import pytest
import torch

import isojepa as ij
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.training.loop import fit
from isojepa.training.run_directory import FORMAT, RunDirectory
from tests.processes import run

SHORT = {"steps": 40, "batch": 32, "eval_every": 10, "eval_samples": 128, "checkpoint_seconds": 0.0}


def start(spiral, path, **changes):
    encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    return fit(encoder, spiral, objective, record=path, **{**SHORT, **changes})


def interrupt_after_first_checkpoint(spiral, path, monkeypatch):
    from isojepa.training import checkpoints

    save = checkpoints.save_checkpoint

    def save_and_stop(*arguments):
        save(*arguments)
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_checkpoint", save_and_stop)
        with pytest.raises(RuntimeError, match="power cut"):
            start(spiral, path)


def test_a_record_of_another_config_is_refused_and_the_difference_named(spiral, tmp_path):
    start(spiral, tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"made with another config \(training.steps: 40 there, 50 requested\)"
    ):
        start(spiral, tmp_path / "run", steps=50)
    assert len(RunDirectory.open(tmp_path / "run").metrics) == 4


def test_a_record_of_a_newer_version_is_refused(spiral, tmp_path):
    start(spiral, tmp_path / "run")
    path = tmp_path / "run/config.json"
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "format": FORMAT + 1, "isojepa": "9.0"}))
    with pytest.raises(
        ValueError, match=rf"has format {FORMAT + 1}, written by isojepa 9.0; .* upgrade isojepa"
    ):
        RunDirectory.open(tmp_path / "run")


def test_a_folder_without_config_is_no_record(tmp_path):
    with pytest.raises(ValueError, match=r"is not a record: it has no config.json"):
        RunDirectory.open(tmp_path)


def test_a_file_that_is_replaced_while_it_is_read_is_read_whole(tmp_path):
    path, stop = tmp_path / "state.safetensors", threading.Event()

    def write():
        size = 1
        while not stop.is_set():
            size = size % 50 + 1
            save_tensors(path, {"w": torch.full((size,), float(size))}, {"step": "1" * size})

    save_tensors(path, {"w": torch.full((1,), 1.0)}, {"step": "1"})
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(2000):
            tensors, notes = load_tensors(path)
            assert tensors["w"].eq(len(tensors["w"])).all()
            assert len(notes["step"]) == len(tensors["w"])
    finally:
        stop.set()
        writer.join()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import torch
from isojepa.training.checkpoints import save_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
save_tensors(path, {"a": torch.ones(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # files end here, as on a full disk
try:
    save_tensors(path, {"a": torch.ones(10_000)})
except OSError as error:
    print(error)
else:
    sys.exit("the write went through")
"""


def test_a_full_disk_keeps_the_old_file_and_leaves_no_rubbish(tmp_path):
    path = tmp_path / "x.safetensors"
    done = run(FULL_DISK, path)
    assert done.returncode == 0, done.stderr
    assert f"cannot write {path}" in done.stdout
    assert "what was there before is intact" in done.stdout
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert torch.equal(load_tensors(path)[0]["a"], torch.ones(10))


HOLD = """
import sys, time
from isojepa.training.run_directory import RunDirectory
with RunDirectory.open(sys.argv[1]).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_record_is_trained_by_one_process_at_a_time_and_freed_by_a_kill(spiral, tmp_path):
    start(spiral, tmp_path / "run")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "run"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="is being trained by another process"):
            start(spiral, tmp_path / "run")
        other.kill()
    assert start(spiral, tmp_path / "run").status == "done"


def test_a_run_may_go_on_with_other_checkpoints_but_not_with_another_seed(spiral, tmp_path, monkeypatch):
    interrupt_after_first_checkpoint(spiral, tmp_path / "run", monkeypatch)
    with pytest.raises(ValueError, match=r"another config \(seed: 0 there, 1 requested\)"):
        start(spiral, tmp_path / "run", seed=1)
    assert start(spiral, tmp_path / "run", checkpoint_seconds=5.0).status == "done"


def test_runs_that_differ_only_inside_their_objects_do_not_share_a_record(spiral, tmp_path):
    def train(weight, seed, mixing):
        world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95), mixing)
        objective = ij.objectives.LeJEPA(weight, regularizer=ij.objectives.SIGReg(slices=4))
        encoder = ij.encoders.MLP(2, 2, width=8, layers=2, seed=seed)
        return fit(encoder, world, objective, record=tmp_path / "run", **SHORT)

    train(1e-3, 0, lambda z: z)
    train(1e-3, 0, lambda z: z)  # another function that does the same
    for other in ((0.9, 0, lambda z: z), (1e-3, 1, lambda z: z), (1e-3, 0, lambda z: 2 * z)):
        with pytest.raises(ValueError, match="made with another config"):
            train(*other)
