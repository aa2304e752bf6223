"""A record's folder: nothing of anybody else's is written, followed or removed, and one run starts in it."""

import threading
from pathlib import Path

import pytest

import isojepa as ij
from isojepa.config import Config
from isojepa.io import NotPlain
from isojepa.training import run_directory
from isojepa.training.loop import fit
from isojepa.training.run_directory import RunDirectory, RunDirectoryLocked
from tests.processes import run
from tests.training.crash import crash_at

SHORT = {"steps": 40, "batch": 32, "eval_every": 10, "eval_samples": 128, "progress": False}
PRECIOUS = b"years of work\n" * 100


def made(source_seed=0):
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    return ij.encoders.MLP(2, 2, width=8, layers=2, seed=source_seed), objective


def train(spiral, path, **changes):
    encoder, objective = made()
    return fit(encoder, spiral, objective, record=path, **{**SHORT, **changes})


@pytest.fixture
def stopped(spiral, tmp_path):
    """A record that crashed at step 25 and has a checkpoint of it."""
    encoder, objective = made()
    with pytest.raises(RuntimeError, match="crash"):
        fit(
            encoder,
            spiral,
            crash_at(objective, 26),
            record=tmp_path / "run",
            **{**SHORT, "checkpoint_seconds": 0.0},
        )
    return tmp_path / "run"


@pytest.fixture
def outside(tmp_path):
    """A file and a folder that no record has any business with."""
    folder = tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    for name in (
        "thesis.tex",
        "inner/state.safetensors",
        "inner/.state.safetensors.0123456789abcdef.tmp",
        "inner/notes",
    ):
        (folder / name).write_bytes(PRECIOUS)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "config.json", "result.json", "encoder.safetensors", ".lock", "scores.json"]
)
@pytest.mark.parametrize("kind", ["to a file", "to nothing"])
def test_a_link_in_a_record_is_refused_and_what_it_names_stays_as_it_was(
    spiral, stopped, outside, name, kind
):
    before = contents(outside)
    target = outside / ("thesis.tex" if kind == "to a file" else "new")
    if kind == "to a file" and (stopped / name).exists():  # so that what is read through it is in order
        before[target] = (stopped / name).read_bytes() + PRECIOUS[: 1000 * (name == "metrics.jsonl")]
        target.write_bytes(before[target])
    (stopped / name).unlink(missing_ok=True)
    (stopped / name).symlink_to(target)
    with pytest.raises(
        ValueError, match=rf"{name} (must be a plain file, got a symbolic link|does not exist)"
    ):
        train(spiral, stopped)
    assert contents(outside) == before


def test_a_checkpoint_s_folder_that_is_a_link_is_refused(spiral, stopped, outside):
    before = contents(outside)
    (stopped / "checkpoint/state.safetensors").unlink()
    (stopped / "checkpoint").rmdir()
    (stopped / "checkpoint").symlink_to(outside / "inner")
    with pytest.raises(NotPlain, match="checkpoint must be a folder, got a symbolic link"):
        train(spiral, stopped)
    record = RunDirectory(stopped)
    for remove in (record.clean, record.drop_checkpoint, lambda: record.replace({})):
        with pytest.raises(NotPlain):
            remove()
    assert contents(outside) == before


@pytest.mark.parametrize("planted", ["before the run", "while it trains"])
def test_metrics_that_become_a_link_while_a_run_trains_are_not_written_through(
    spiral, tmp_path, outside, planted
):
    encoder, objective = made()
    path, calls = tmp_path / "run", []

    def plant(module, inputs):
        calls.append(1)
        if len(calls) == 12:
            (path / "metrics.jsonl").unlink()
            (path / "metrics.jsonl").symlink_to(outside / "thesis.tex")

    if planted == "before the run":
        path.mkdir()
        (path / "metrics.jsonl").symlink_to(outside / "thesis.tex")
        with pytest.raises(ValueError, match="is not empty and no record"):
            fit(encoder, spiral, objective, record=path, **SHORT)
    else:
        objective.register_forward_pre_hook(plant)
        with pytest.raises(NotPlain, match=r"metrics.jsonl must be a plain file, got a symbolic link"):
            fit(encoder, spiral, objective, record=path, **SHORT)
    assert (outside / "thesis.tex").read_bytes() == PRECIOUS


def test_a_record_may_lie_behind_a_link_and_be_read_through_one(spiral, tmp_path):
    """People keep records on other disks, and a download may be a folder of links."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    run = train(spiral, tmp_path / "runs/a")
    (tmp_path / "links").mkdir()
    for file in (tmp_path / "disk/a").iterdir():
        (tmp_path / "links" / file.name).symlink_to(file)
    assert RunDirectory.open(tmp_path / "links").metrics == run.metrics
    ij.load(tmp_path / "links")


KEPT = ("checkpoint/thesis.pt", "metrics.jsonl", ".git/.draft.tmp", "encoder.safetensors", ".notes.12.tmp")


@pytest.mark.parametrize("name", KEPT)
def test_a_folder_that_is_no_record_is_refused_and_left_as_it_was(spiral, tmp_path, name):
    path = tmp_path / "mine"
    (path / name).parent.mkdir(parents=True)
    (path / name).write_bytes(PRECIOUS)
    with pytest.raises(ValueError, match=r"mine is not empty and no record.*nothing in it was touched"):
        train(spiral, path)
    assert contents(tmp_path) == {path / name: PRECIOUS}


def test_files_of_others_in_a_record_outlive_its_end_and_its_cleaning(spiral, stopped):
    kept = {stopped / name: PRECIOUS for name in ("checkpoint/thesis.pt", ".draft.tmp", ".a.12.tmp", "b.pt")}
    kept[stopped / "folder/.result.json.0123456789abcdef.tmp"] = PRECIOUS
    for path, content in kept.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    ours = [
        stopped / f".result.json.{0:016x}.tmp",
        stopped / "checkpoint/.state.safetensors.0123456789abcdef.tmp",
    ]
    ours.append(stopped / "checkpoint/.tmp4MOaBG")
    for path in ours:
        path.write_bytes(b"half")
    assert train(spiral, stopped).status == "done"
    assert not any(path.exists() for path in (*ours, stopped / "checkpoint/state.safetensors"))
    assert contents(stopped).items() >= kept.items()
    RunDirectory(stopped).replace({"seed": 5})
    left = {path.relative_to(stopped).as_posix() for path in contents(stopped)}
    assert left == {*(path.relative_to(stopped).as_posix() for path in kept), ".lock", "config.json"}
    assert RunDirectory(stopped).config == {"seed": 5}


def test_a_second_start_with_another_config_never_writes_its_own(tmp_path, monkeypatch):
    """The first stands between its look at the folder and its config, which is where the second comes."""
    write, seen = run_directory.write_json, []

    def slow(path, value):
        if path.name == "config.json" and not seen:
            seen.append(value["seed"])
            other = threading.Thread(target=start, args=(1,))
            other.start()
            other.join()
        write(path, value)

    def start(seed):
        try:
            RunDirectory.start(tmp_path / "run", Config(seed=seed).to_dict())
        except RunDirectoryLocked:
            seen.append("held")

    monkeypatch.setattr(run_directory, "write_json", slow)
    start(0)
    assert seen == [0, "held"]
    assert RunDirectory(tmp_path / "run").config["seed"] == 0


RACE = """
import os, sys, time
from pathlib import Path
from isojepa.config import Config
from isojepa.training.run_directory import RunDirectory, RunDirectoryLocked
folder = Path(sys.argv[1])
configs = [Config(seed=seed).to_dict() for seed in range(3)]
begin = time.time() + 0.1
racers = []
for seed, config in enumerate(configs):
    racers.append(os.fork())
    if racers[-1]:
        continue
    for number in range(40):
        time.sleep(max(0.0, begin + 0.02 * number - time.time()))
        try:
            with RunDirectory.held(folder / str(number), config) as record:
                record.append({"step": 1 + seed})
        except ValueError:
            pass
    sys.exit()
print(*(os.waitstatus_to_exitcode(os.waitpid(racer, 0)[1]) for racer in racers))
"""


def test_of_many_that_start_at_once_one_config_and_its_metrics_stand(tmp_path):
    assert run(RACE, tmp_path).stdout == "0 0 0\n"
    for number in range(40):
        record = RunDirectory.open(tmp_path / str(number))
        assert [row["step"] for row in record.metrics] == [1 + record.config["seed"]]


def test_the_folder_of_a_record_is_not_a_file(spiral, tmp_path):
    (tmp_path / "file").write_bytes(PRECIOUS)
    with pytest.raises(ValueError, match="a record must be a folder, got the file"):
        train(spiral, Path(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == PRECIOUS
