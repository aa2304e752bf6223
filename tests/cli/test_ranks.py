"""Commands on several ranks, as users start them: one record, said once; errors and kills end all of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from isojepa.cli.main import main
from isojepa.training.checkpoints import load_tensors
from isojepa.training.run_directory import RunDirectory

SETTINGS = {
    "world": {"mixing": "parabola"},
    "encoder": {"width": 16, "layers": 2},
    "objective": {"weight": 0.05, "slices": 8},
    "training": {
        "steps": 40,
        "batch": 64,
        "batch_start": 17,
        "eval_every": 10,
        "eval_samples": 256,
        "learning_rate": 5e-3,
        "accelerator": "cpu",
        "checkpoint_seconds": 0.0,
    },
}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
LONG = ("--training.steps", "400")


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return "--config", str(path)


def start(*arguments, torchrun=0):
    """`isojepa train` in a session of its own; 0 for no torchrun."""
    launcher = (*TORCHRUN, str(torchrun)) if torchrun else ()
    return python(*launcher, "-m", "isojepa", "train", *arguments)


def python(*arguments):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process, seconds=300):
    """Exit code, output and errors; whatever hangs is ended, and fails the test."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, out, err


def train(*arguments, **options):
    return finish(start(*arguments, **options))


def messages(err):
    """Lines of standard error but those of progress, which a slow machine has time to print."""
    return [line for line in err.splitlines() if not line.startswith("training: step ")]


def processes(record):
    """Processes of a run by rank: those whose command names its record. None for a launcher."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(record).encode() in command:
            ranks = [int(line[5:]) for line in variables if line.startswith(b"RANK=")]
            found[int(folder.name)] = ranks[0] if ranks else None
    return found


def nobody_left(record, seconds=60):
    """Whether all processes of a run are gone, soon."""
    end = time.monotonic() + seconds
    while processes(record) and time.monotonic() < end:
        time.sleep(0.1)
    return not processes(record)


def in_the_middle(process, record, after=0):
    """Wait until a run is past a step and not at its end."""
    path, end = record / "checkpoint" / "state.safetensors", time.monotonic() + 300
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        if path.exists() and step_of(path) > after:
            return
        time.sleep(0.02)
    raise AssertionError("the run did not begin")


def step_of(path):
    try:
        return int(load_tensors(path)[1]["step"])
    except (ValueError, OSError):
        return 0


def rows(record):
    return RunDirectory.open(record).metrics


def same(ours, truth, tolerance):
    """Whether two records hold the same rows and weights; to the bit for a tolerance of 0."""
    if not tolerance:
        assert (ours / "metrics.jsonl").read_bytes() == (truth / "metrics.jsonl").read_bytes()
    for row, true in zip(rows(ours), rows(truth), strict=True):
        assert row == pytest.approx(true, rel=tolerance, abs=tolerance)
    weights, true_weights = (load_tensors(path / "encoder.safetensors")[0] for path in (ours, truth))
    for name, weight in true_weights.items():
        torch.testing.assert_close(weights[name], weight, rtol=tolerance, atol=tolerance)


@pytest.fixture
def alone(settings, tmp_path, capsys):
    """The record of one process."""
    path = tmp_path / "alone"
    assert main(["train", *settings, "--record", str(path), "--json"]) == 0
    capsys.readouterr()
    return path


def check_one_run(record, alone, ended, size):
    code, out, err = ended
    assert code == 0, err
    assert out.count(f"on {size} ranks, seed 0") == out.count("Record: ") == out.count("Trained in") == 1
    assert not [line for line in messages(err) if "OMP_NUM_THREADS" not in line and "***" not in line]
    assert RunDirectory.open(record).result["ranks"] == size
    same(record, alone, 1e-5)
    assert nobody_left(record)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_devices_train_one_run(settings, tmp_path, alone):
    record = tmp_path / "run"
    check_one_run(record, alone, train(*settings, "--devices", 2, "--record", record), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "torchrun"), [(("--training.devices", 3), 0), ((), 2), (("--devices", 2), 2)], ids=str
)
def test_every_way_to_start_trains_one_run(settings, tmp_path, alone, flags, torchrun):
    record = tmp_path / "run"
    ended = train(*settings, *flags, "--record", record, torchrun=torchrun)
    check_one_run(record, alone, ended, torchrun or flags[-1])


@pytest.mark.slow
@pytest.mark.parametrize("torchrun", [0, 2], ids=["devices", "torchrun"])
def test_errors_end_all_ranks_with_one_line(settings, tmp_path, torchrun):
    devices = () if torchrun else ("--devices", 2)
    record = tmp_path / "run"
    bad = train(*settings, *devices, "--record", record, "--training.steps", 0, torchrun=torchrun)
    wild = train(*settings, *devices, "--record", record, "--training.learning-rate", 1e30, torchrun=torchrun)
    other = train(*settings, *devices, "--record", record, torchrun=torchrun)
    codes = [1, 1, 1] if torchrun else [2, 1, 2]  # torchrun has one code for all that fails
    assert [code for code, _, _ in (bad, wild, other)] == codes
    assert errors(bad) == ["error: steps must be an integer of at least 1, got 0"]
    assert errors(wild) == []
    assert wild[1].count("The run diverged: the loss became") == 1
    (line,) = errors(other)
    assert "was made with another config (training.learning_rate: 1e+30 there, 0.005 requested)" in line
    assert nobody_left(record)


def errors(ended):
    return [line for line in ended[2].splitlines() if line.startswith("error:")]


def hit(process, record, how):
    """End a run in the middle, and return what it said."""
    in_the_middle(process, record, after=20)
    ids = processes(record)
    if how == "term":
        process.terminate()
    elif how == "kill all":
        for number in (process.pid, *ids):
            os.kill(number, signal.SIGKILL)
    elif how == "kill first":
        os.kill(next((n for n, rank in ids.items() if rank == 0), process.pid), signal.SIGKILL)
    else:
        os.kill(next(n for n, rank in ids.items() if rank == 1), signal.SIGKILL)
    ended = finish(process)
    assert nobody_left(record), processes(record)
    assert RunDirectory.open(record).result is None
    return ended


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_runs_go_on_with_the_same_bits(settings, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = (*settings, *LONG, "--devices", 2)
    assert train(*flags, "--record", whole)[0] == 0
    code, _, err = hit(start(*flags, "--record", cut), cut, "term")
    assert (code, err.strip()) == (130, "stopped; the same command resumes from the last checkpoint")
    step = step_of(cut / "checkpoint" / "state.safetensors")
    code, _, err = hit_later(flags, cut, "kill second")
    assert code == 2
    assert err.splitlines() == [
        f"resuming from step {step}",
        "error: rank 1 was killed by signal 9; the same command resumes from the last checkpoint",
    ]
    code, _, _ = hit_later(flags, cut, "kill first")
    assert code == -signal.SIGKILL
    hit_later(flags, cut, "kill all")
    step = step_of(cut / "checkpoint" / "state.safetensors")
    code, _, err = train(*flags, "--record", cut)
    assert (code, messages(err)) == (0, [f"resuming from step {step}"])
    same(cut, whole, 0)


def hit_later(flags, record, how):
    """Go on with a run, and end it again some steps later."""
    before = step_of(record / "checkpoint" / "state.safetensors")
    process = start(*flags, "--record", record)
    in_the_middle(process, record, after=before + 5)
    return hit(process, record, how)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_killed_run_goes_on_on_another_number_of_ranks_and_says_so(settings, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main(["train", *settings, *LONG, "--record", str(whole), "--json"]) == 0
    hit(start(*settings, *LONG, "--devices", 2, "--record", cut), cut, "kill all")
    step = step_of(cut / "checkpoint" / "state.safetensors")
    process = start(*settings, *LONG, "--record", cut)
    in_the_middle(process, cut, after=step + 20)
    _, _, err = hit(process, cut, "term")
    assert err.startswith(f"resuming from step {step}: begun on 2 ranks, now on 1\n")
    step = step_of(cut / "checkpoint" / "state.safetensors")
    code, _, err = train(*settings, *LONG, "--devices", 3, "--record", cut)
    assert (code, messages(err)) == (0, [f"resuming from step {step}: begun on 1 rank, now on 3"])
    same(cut, whole, 1e-5)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_torchrun_saves_when_it_is_asked_to_stop_and_ends_when_a_rank_is_killed(settings, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train(*settings, *LONG, "--devices", 2, "--record", whole)[0] == 0
    _, _, err = hit(start(*settings, *LONG, "--record", cut, torchrun=2), cut, "term")
    assert err.count("stopped; the same command resumes from the last checkpoint") == 1
    before = step_of(cut / "checkpoint" / "state.safetensors")
    process = start(*settings, *LONG, "--record", cut, torchrun=2)
    in_the_middle(process, cut, after=before + 5)
    _, _, err = hit(process, cut, "kill second")
    # the first rank notices by itself, or is asked to stop by torchrun, whichever comes first
    told = ("error: the ranks of the job lost each other: ", "stopped; the same command resumes")
    assert sum(err.count(words) for words in told) == 1
    assert train(*settings, *LONG, "--record", cut, torchrun=2)[0] == 0
    same(cut, whole, 0)


SCRIPT = """
import os, sys
import isojepa as ij

class Fails(ij.objectives.LeJEPA):
    calls = 0
    def forward(self, *arguments, **options):
        self.calls += 1
        if self.calls == 5 and os.environ.get("RANK") == "1" and "fail" in sys.argv:
            raise ValueError("no such thing here")
        return super().forward(*arguments, **options)

world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9))
for seed in (0, 1):
    encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
    run = ij.fit(encoder, world, Fails(), steps=8, batch=64, eval_every=4, eval_samples=64, seed=seed,
                 devices=1 if "alone" in sys.argv else 2, accelerator="cpu")
h = encoder(world.sample(500, ij.generator(0)).views[0])
whole = ij.objectives.SIGReg(8)(h, ij.generator(0)).item()
os.write(1, f"{'RANK' in os.environ} {run.r2} {whole}\\n".encode())  # one write: ranks share the pipe
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_script_may_train_twice_and_its_ranks_are_on_their_own_afterwards(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = finish(python(tmp_path / "train.py"))
    assert done[0] == 0, done
    ours, theirs = (line.split() for line in sorted(done[1].splitlines()))
    assert (ours[0], theirs[0]) == ("False", "True")
    assert ours[1:] == theirs[1:]
    code, out, err = finish(python(tmp_path / "train.py", "alone"))
    assert code == 0, err
    assert [float(n) for n in ours[1:]] == pytest.approx([float(n) for n in out.split()[1:]], rel=1e-5)
    code, _, err = finish(python(tmp_path / "train.py", "fail"))
    assert code != 0
    assert "RankLost: rank 1: no such thing here" in err
