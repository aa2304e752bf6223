"""One run: trained and scored once, mended when torn, left alone when held."""

import fcntl
import os
import shutil
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.arrays import NotFinite
from isojepa.encoders.mlp import MLPSpec
from isojepa.registry import Context
from isojepa.runs import record_path, train
from isojepa.training import loop
from isojepa.training.run_directory import RunDirectory, RunDirectoryLocked
from isojepa_lab.studies.scores import score
from isojepa_lab.sweep import work as work_module
from isojepa_lab.sweep.record_state import is_held, pace, state_of, tidy
from isojepa_lab.sweep.work import attempt, notes_path, work
from isojepa_lab.sweep.worker import _logged
from tests.lab.sweep.cells import RESULTS, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished record, of tiny(0)."""
    folder = tmp_path_factory.mktemp("whole")
    work(tiny(), folder)
    return folder


@pytest.fixture
def cheap_scores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Scoring that only counts."""
    calls: list[int] = []
    monkeypatch.setattr(work_module, "score", lambda encoder, world: calls.append(1) or {"r2": 0.5})
    return calls


def test_a_run_is_trained_and_scored_as_by_hand(whole, tmp_path):
    run = train(tiny(), tmp_path, progress=False)
    record = RunDirectory(record_path(tiny(), whole))
    assert record.metrics == run.metrics
    again = score(run.encoder, tiny().world.build(Context()))
    assert record.scores["r2"] == again["r2"]
    assert state_of(record.path) == "done"


def test_what_is_done_is_not_touched(whole):
    path = record_path(tiny(), whole)
    before = {name: (path / name).stat().st_mtime_ns for name in (*RESULTS, "result.json")}
    work(tiny(), whole)
    assert before == {name: (path / name).stat().st_mtime_ns for name in before}


def test_what_is_trained_is_only_scored(tmp_path, cheap_scores):
    train(tiny(), tmp_path, progress=False)
    path = record_path(tiny(), tmp_path)
    assert state_of(path) == "trained"
    before = (path / "encoder.safetensors").stat().st_mtime_ns
    work(tiny(), tmp_path)
    assert cheap_scores == [1]
    assert (path / "encoder.safetensors").stat().st_mtime_ns == before


def test_a_run_that_diverges_is_a_result_without_a_warning(tmp_path):
    config = replace(tiny(learning_rate=1e30), encoder=MLPSpec(width=8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # of overflows
        record = work(config, tmp_path)
    assert record.result["status"] == "diverged"
    assert state_of(record.path) == "done"
    assert "finite" in record.scores["unscored"]


def test_embeddings_that_are_not_finite_are_unscored_with_the_reason(tmp_path, monkeypatch):
    def refuse(encoder, world):
        raise NotFinite("the embeddings hold NaN")

    monkeypatch.setattr(work_module, "score", refuse)
    assert work(tiny(), tmp_path).scores == {"unscored": "the embeddings hold NaN"}


def test_another_error_of_scoring_is_a_failure_whatever_its_words(tmp_path, monkeypatch):
    def refuse(encoder, world):
        raise ValueError("a finite number of samples is needed")

    monkeypatch.setattr(work_module, "score", refuse)
    assert attempt(tiny(), tmp_path).state == "failed"


def test_scoring_that_breaks_is_a_failure_with_a_log(tmp_path, monkeypatch):
    def broken(encoder, world):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(work_module, "score", broken)
    ending = attempt(tiny(), tmp_path)
    name = record_path(tiny()).name
    assert (ending.state, ending.error) == ("failed", "ZeroDivisionError: a bug")
    assert "in broken" in notes_path(tmp_path, name, "log").read_text()
    assert notes_path(tmp_path, name, "failed").read_text() == "ZeroDivisionError: a bug\n"
    monkeypatch.undo()
    assert attempt(tiny(), tmp_path).state == "done"
    assert not notes_path(tmp_path, name, "failed").exists()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("scores.json", "half"),
        ("scores.json", "empty"),
        ("result.json", "half"),
        ("metrics.jsonl", "garbage"),
        ("metrics.jsonl", "empty"),
        ("encoder.safetensors", "half"),
    ],
)
def test_a_torn_file_is_made_again_with_the_same_bits(whole, tmp_path, name, how, capfd):
    source = record_path(tiny(), whole)
    path = record_path(tiny(), tmp_path)
    shutil.copytree(source, path)
    data = (path / name).read_bytes()
    (path / ".scores.json.00000000000000aa.tmp").write_text("half")
    torn = {"half": data[: len(data) // 2 + 1], "garbage": b"\xff\x00{\n" * 9, "empty": b""}[how]
    (path / name).write_bytes(torn)
    work(tiny(), tmp_path)
    assert all((path / each).read_bytes() == (source / each).read_bytes() for each in RESULTS)
    assert not list(path.glob(".*.tmp"))
    assert f"{name} was torn" in capfd.readouterr().out


@pytest.mark.parametrize("damage", ["half", "short metrics"])
def test_a_torn_checkpoint_starts_the_run_again(tmp_path, whole, cheap_scores, damage, monkeypatch):
    path = record_path(tiny(), tmp_path)
    step = loop._Training._step

    def stop_at_15(self, interrupts):
        if self.state.step == 15:
            raise KeyboardInterrupt
        return step(self, interrupts)

    monkeypatch.setattr(loop._Training, "_step", stop_at_15)
    with pytest.raises(KeyboardInterrupt):
        work(tiny(), tmp_path)
    monkeypatch.setattr(loop._Training, "_step", step)
    assert state_of(path) == "started"
    assert pace(path).step == 15
    assert pace(path).r2 == RunDirectory(path).metrics[0]["r2"]
    state = path / "checkpoint" / "state.safetensors"
    if damage == "half":
        state.write_bytes(state.read_bytes()[:-100])
    else:
        (path / "metrics.jsonl").write_bytes(b"")
    work(tiny(), tmp_path)
    source = record_path(tiny(), whole)
    for name in ("metrics.jsonl", "encoder.safetensors"):
        assert (path / name).read_bytes() == (source / name).read_bytes()


def test_a_checkpoint_that_a_kill_left_beside_a_result_is_removed(whole, tmp_path, cheap_scores):
    path = record_path(tiny(), tmp_path)
    shutil.copytree(record_path(tiny(), whole), path)
    (path / "scores.json").unlink()
    for begun in (lambda: work(tiny(), tmp_path), lambda: tidy([path])):
        (path / "checkpoint").mkdir()
        (path / "checkpoint/state.safetensors").write_bytes(b"stale")
        begun()
        assert not (path / "checkpoint").exists()
    (path / "checkpoint").mkdir()
    (path / "checkpoint/thesis.pt").write_bytes(b"mine")
    tidy([path])
    assert (path / "checkpoint/thesis.pt").exists()


def test_a_log_that_is_a_link_is_replaced_and_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "run.log").symlink_to(tmp_path / "mine")
    with _logged(tmp_path / "run.log"):
        os.write(1, b"said\n")
    assert (tmp_path / "mine").read_text() == "precious"
    assert (tmp_path / "run.log").read_text() == "said\n"
    assert not (tmp_path / "run.log").is_symlink()


def test_scores_without_their_result_are_made_again(whole, tmp_path):
    """As when a person deletes result.json, which an error message advises."""
    source, path = record_path(tiny(), whole), record_path(tiny(), tmp_path)
    shutil.copytree(source, path)
    (path / "result.json").unlink()
    (path / "scores.json").write_text('{"r2": 0.1}')
    assert attempt(tiny(), tmp_path).state == "done"
    assert state_of(path) == "done"
    assert all((path / each).read_bytes() == (source / each).read_bytes() for each in RESULTS)


def test_a_finished_record_of_another_config_is_not_taken_for_done(whole, tmp_path):
    path = record_path(tiny(seed=1), tmp_path)
    shutil.copytree(record_path(tiny(), whole), path)
    assert state_of(path) == "started"
    assert "another config (seed: 0 there, 1 requested)" in attempt(tiny(seed=1), tmp_path).error


def test_a_folder_in_the_place_of_a_file_is_told_when_its_run_is_tried(tmp_path):
    path = record_path(tiny(), tmp_path)
    (path / "config.json").mkdir(parents=True)
    assert state_of(path) == "started"
    assert "config.json must be a plain file, got a folder" in attempt(tiny(), tmp_path).error


def test_a_torn_config_is_a_failure_that_says_what_to_do(tmp_path):
    path = record_path(tiny(), tmp_path)
    path.mkdir()
    (path / "config.json").write_text('{"format": 1, "wor')
    ending = attempt(tiny(), tmp_path)
    assert ending.state == "failed"
    assert "is not a whole JSON file" in ending.error
    assert f"delete {path} to have it run again" in ending.error
    assert "\n" not in ending.error


def test_a_record_of_another_config_is_not_overwritten(tmp_path):
    path = record_path(tiny(), tmp_path)
    RunDirectory.start(path, tiny(seed=9).to_dict())
    assert "another config (seed: 9 there, 0 requested)" in attempt(tiny(), tmp_path).error
    assert RunDirectory(path).config["seed"] == 9


def test_a_held_record_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(work_module, "_PATIENCE", 0.2)
    path = record_path(tiny(), tmp_path)
    path.mkdir()
    assert not is_held(path)
    with open(path / ".lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_held(path)
        with pytest.raises(RunDirectoryLocked):
            work(tiny(), tmp_path)
        assert attempt(tiny(), tmp_path).state == "held"
        assert [each.name for each in path.iterdir()] == [".lock"]
    assert not is_held(path)


def test_a_look_at_the_lock_does_not_stop_a_run(tmp_path, cheap_scores):
    """Whoever only looks holds the lock for a moment: the run waits that moment."""
    path = record_path(tiny(), tmp_path)
    path.mkdir()
    with open(path / ".lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.5, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        started = time.monotonic()
        work(tiny(), tmp_path)
        assert time.monotonic() - started >= 0.4
