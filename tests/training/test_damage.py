"""Damage to a record is refused in one line that says what to do, or the run still has the same bits."""

import re
import shutil

import pytest
import torch

import isojepa as ij
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.training.loop import fit
from tests.training.crash import assert_same_bits, crash_at

SHORT = {"steps": 40, "batch": 32, "eval_every": 10, "eval_samples": 128, "progress": False}
STATE = "checkpoint/state.safetensors"
ADVICE = re.compile(r"delete \S+|choose another folder|put what it names in its place|put a copy")


def train(path, stop=None, seed=0, **changes):
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95), ij.data.Spiral())
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    if stop is not None:
        crash_at(objective, stop)
    encoder = ij.encoders.MLP(2, 2, width=8, layers=2)
    return fit(encoder, world, objective, record=path, seed=seed, **{**SHORT, **changes})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Records of one config: "whole" is finished; "stopped" at step 25 of 40, and so is "other" of seed 5."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "whole")
    for name, seed in (("stopped", 0), ("other", 5)):
        with pytest.raises(RuntimeError, match="crash"):
            train(folder / name, stop=26, seed=seed, checkpoint_seconds=0.0)
    train(folder / "whole_other", seed=5)
    return folder


def rewritten(name, change):
    """A file with other bytes."""

    def damage(path, runs):
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def changed(change):
    """A whole checkpoint of other content."""

    def damage(path, runs):
        tensors, notes = load_tensors(path / STATE)
        change(tensors, notes)
        save_tensors(path / STATE, tensors, notes)

    return damage


def noted(**notes):
    return changed(lambda tensors, told: told.update(notes))


def dropped(pattern):
    """A checkpoint without some of its tensors."""

    def change(tensors, notes):
        for name in [name for name in tensors if re.fullmatch(pattern, name)]:
            del tensors[name]

    return changed(change)


def reshaped(pattern, how):
    def change(tensors, notes):
        for name in [name for name in tensors if re.fullmatch(pattern, name)]:
            tensors[name] = how(tensors[name])

    return changed(change)


def copied(name, source):
    """A file of another record in the place of ours."""

    def damage(path, runs):
        (path / name).write_bytes((runs / source / name).read_bytes())

    return damage


def without(name):
    return lambda path, runs: (path / name).unlink()


def replaced(name, old, new):
    """A file in which one text stands for another."""

    def change(content):
        assert old in content
        return content.replace(old, new)

    return rewritten(name, change)


METRICS, WEIGHTS, RESULT = "metrics.jsonl", "encoder.safetensors", "result.json"
UNFINISHED = {
    "half a checkpoint": rewritten(STATE, lambda content: content[: len(content) // 2]),
    "empty checkpoint": rewritten(STATE, lambda content: b""),
    "no safetensors": rewritten(STATE, lambda content: b"\x80\x04K\x01." * 50),
    "checkpoint of another seed": copied(STATE, "other"),
    "step 0": noted(step="0"),
    "step no number": noted(step="²"),
    "step past the end": noted(step="41"),
    "rows from the future": noted(seen="30"),
    "seconds NaN": noted(seconds="nan"),
    "no seconds": changed(lambda tensors, notes: notes.pop("seconds")),
    "scaler no object": noted(scaler="[1]"),
    "no optimiser": dropped(r"optimizer/.*"),
    "half of an optimiser's state": dropped(r"optimizer/0/exp_avg"),
    "optimiser of another shape": reshaped(r"optimizer/0/exp_avg", lambda value: value[:1]),
    "a parameter too many": changed(
        lambda tensors, notes: tensors.update({"optimizer/99/step": torch.ones(())})
    ),
    "fewer weights": dropped(r"model/.*weight"),
    "weights of another shape": reshaped(r"model/.*weight", lambda value: value[:, :1]),
    "weights of another type": reshaped(r"model/.*", lambda value: value.double()),
    "sums of more terms": reshaped("window", lambda value: torch.ones(9, dtype=torch.float64)),
    "no metrics": without(METRICS),
    "short metrics": rewritten(METRICS, lambda content: content[:-10]),
    "garbage metrics": rewritten(METRICS, lambda content: b"\xff\0{\n" * 500),
    "a torn row after the checkpoint": rewritten(METRICS, lambda content: content + b'{"step": 30, "lo'),
    "a row after the checkpoint": rewritten(METRICS, lambda content: content + b'{"step": 30, "r2": 9}\n'),
    "no config": without("config.json"),
    "config of another seed": copied("config.json", "other"),
    "half a config": rewritten("config.json", lambda content: content[:100]),
    "format 1": replaced("config.json", b'"format": 2', b'"format": 1'),
    "weights before the end": lambda path, runs: (path / WEIGHTS).write_bytes(b"half"),
}
FINISHED = {
    "half of the weights": rewritten(WEIGHTS, lambda content: content[:-50]),
    "weights of another seed": copied(WEIGHTS, "whole_other"),
    "no weights": without(WEIGHTS),
    "a row that is no object": rewritten(METRICS, lambda content: b"[1, 2]\n" + content),
    "empty result": rewritten(RESULT, lambda content: b""),
    "result is a list": rewritten(RESULT, lambda content: b"[]"),
    "a checkpoint beside the result": lambda path, runs: shutil.copytree(
        runs / "stopped/checkpoint", path / "checkpoint"
    ),
}


def refused_or_same(path, runs):
    """Whether a run was refused; if it was not, it must have the bits of an undamaged one."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    try:
        resumed = train(path)
    except ValueError as error:
        told = str(error)
        assert "\n" not in told
        assert ADVICE.search(told), told
        assert str(path) in told
        after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        assert after == before  # nothing was lost: what is damaged can be looked at
        return True
    assert_same_bits(train(runs / "whole"), resumed)
    return False


HARMLESS = {
    "a torn row after the checkpoint",
    "a row after the checkpoint",
    "weights before the end",
    "a checkpoint beside the result",
}


@pytest.mark.parametrize("kind", UNFINISHED)
def test_damage_to_an_unfinished_record_is_refused_or_does_no_harm(runs, tmp_path, kind):
    shutil.copytree(runs / "stopped", tmp_path / "run")
    UNFINISHED[kind](tmp_path / "run", runs)
    assert refused_or_same(tmp_path / "run", runs) == (kind not in HARMLESS)


@pytest.mark.parametrize("kind", FINISHED)
def test_damage_to_a_finished_record_is_refused_or_does_no_harm(runs, tmp_path, kind):
    shutil.copytree(runs / "whole", tmp_path / "run")
    FINISHED[kind](tmp_path / "run", runs)
    assert refused_or_same(tmp_path / "run", runs) == (kind not in HARMLESS)


def test_what_the_advice_says_helps(runs, tmp_path):
    """A damaged checkpoint is deleted, as the error says, and the run ends with the same bits."""
    shutil.copytree(runs / "stopped", tmp_path / "run")
    UNFINISHED["half a checkpoint"](tmp_path / "run", runs)
    with pytest.raises(ValueError, match="delete that file to start the run again"):
        train(tmp_path / "run")
    (tmp_path / "run" / STATE).unlink()
    assert_same_bits(train(runs / "whole"), train(tmp_path / "run"))
    FINISHED["half of the weights"](tmp_path / "run", runs)
    with pytest.raises(ValueError, match=r"delete .*result.json to run the training again"):
        ij.load(tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    assert_same_bits(train(runs / "whole"), train(tmp_path / "run"))


def test_a_run_of_another_seed_does_not_go_on_from_a_checkpoint_whose_config_is_gone(runs, tmp_path):
    shutil.copytree(runs / "stopped", tmp_path / "run")
    (tmp_path / "run/config.json").unlink()
    with pytest.raises(ValueError, match="is not empty and no record"):
        train(tmp_path / "run", seed=5)
    shutil.copy(runs / "other/config.json", tmp_path / "run")
    with pytest.raises(ValueError, match=r"belongs to record \w{12}, of another config, not to record"):
        train(tmp_path / "run", seed=5)
