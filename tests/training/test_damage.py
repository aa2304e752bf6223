"""Damage to a record is refused in one line that says what to do, or the run still has the same bits."""

import re
import shutil

import pytest
import torch

import isojepa as ij
from isojepa.training import checkpoints
from isojepa.training.loop import fit
from isojepa.training.records import Record
from isojepa.training.tensors import load_tensors, save_tensors
from tests.training.crash import assert_same_bits, crash_at

SHORT = {"steps": 40, "batch": 32, "eval_every": 10, "eval_samples": 128, "progress": False}
STATE = "checkpoint/state.safetensors"
ADVICE = re.compile(r"delete \S+|choose another folder|put what it names in its place|put a copy")


def train(path, stop=None, seed=0, **changes):
    world = ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(2, 0.95), ij.worlds.Spiral())
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


def flip(where, name=STATE, bit=0):
    """One bit of a file, at a share of its length."""

    def damage(path, runs):
        content = bytearray((path / name).read_bytes())
        content[min(int(where * len(content)), len(content) - 1)] ^= 1 << bit
        (path / name).write_bytes(content)

    return damage


def rewritten(name, change):
    """A file with other bytes."""

    def damage(path, runs):
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def resealed(change):
    """A checkpoint that somebody changed and gave a checksum that fits."""

    def damage(path, runs):
        tensors, notes = load_tensors(path / STATE)
        change(tensors, notes)
        save_tensors(path / STATE, tensors, notes)

    return damage


def noted(**notes):
    return resealed(lambda tensors, told: told.update(notes))


def dropped(pattern):
    """A checkpoint without some of its tensors."""

    def change(tensors, notes):
        for name in [name for name in tensors if re.fullmatch(pattern, name)]:
            del tensors[name]

    return resealed(change)


def reshaped(pattern, how):
    def change(tensors, notes):
        for name in [name for name in tensors if re.fullmatch(pattern, name)]:
            tensors[name] = how(tensors[name])

    return resealed(change)


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


PLACES = (0, 0.02, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1)
METRICS, WEIGHTS, RESULT = "metrics.jsonl", "encoder.safetensors", "result.json"
UNFINISHED = {
    **{f"bit of the checkpoint at {where:.2f}": flip(where) for where in PLACES},
    **{f"high bit of the checkpoint at {where:.2f}": flip(where, bit=7) for where in (0.05, 0.25, 0.45, 0.8)},
    "half a checkpoint": rewritten(STATE, lambda content: content[: len(content) // 2]),
    "empty checkpoint": rewritten(STATE, lambda content: b""),
    "longer checkpoint": rewritten(STATE, lambda content: content + b"\0" * 8),
    "zeros at the end": rewritten(STATE, lambda content: content[:-64] + b"\0" * 64),
    "zeros in the middle": rewritten(STATE, lambda content: content[:3000] + b"\0" * 64 + content[3064:]),
    "no safetensors": rewritten(STATE, lambda content: b"\x80\x04K\x01." * 50),
    "another name of its checksum": replaced(STATE, b'"checksum"', b'"chequsum"'),
    "another name of its owner": replaced(STATE, b'"record":', b'"rekord":'),
    "step in the header": replaced(STATE, b'"step":"25"', b'"step":"15"'),
    "checkpoint of another seed": copied(STATE, "other"),
    "metrics of another seed": copied(METRICS, "other"),
    "step 10^9": noted(step="1000000000"),
    "step -5": noted(step="-5"),
    "step 0": noted(step="0"),
    "step no number": noted(step="²"),
    "step past the end": noted(step="41"),
    "rows from the future": noted(seen="30"),
    "negative size": noted(metrics_size="-1"),
    "seconds NaN": noted(seconds="nan"),
    "no seconds": resealed(lambda tensors, notes: notes.pop("seconds")),
    "ranks 0": noted(ranks="0"),
    "scaler no object": noted(scaler="[1]"),
    "scaler no JSON": noted(scaler="{"),
    "fewer tensors": dropped(r"optimizer/1/.*"),
    "no optimiser": resealed(
        lambda tensors, notes: (
            [tensors.pop(name) for name in list(tensors) if name.startswith("optimizer")]
            and notes.update(tensors=str(len(tensors)))
        )
    ),
    "half of an optimiser's state": resealed(
        lambda tensors, notes: (tensors.pop("optimizer/0/exp_avg"), notes.update(tensors=str(len(tensors))))
    ),
    "optimiser of another shape": reshaped(r"optimizer/0/exp_avg", lambda value: value[:1]),
    "optimiser without a shape": reshaped(r"optimizer/0/exp_avg", lambda value: value.sum()),
    "a parameter too many": resealed(
        lambda tensors, notes: tensors.update({"optimizer/99/step": torch.ones(())})
    ),
    "fewer weights": dropped(r"model/.*weight"),
    "weights of another shape": reshaped(r"model/.*weight", lambda value: value[:, :1]),
    "weights of another type": reshaped(r"model/.*", lambda value: value.double()),
    "sums of more terms": reshaped("window", lambda value: torch.ones(9, dtype=torch.float64)),
    "sums that are NaN": reshaped("window", lambda value: value * torch.nan),
    "no metrics": without(METRICS),
    "short metrics": rewritten(METRICS, lambda content: content[:-10]),
    "garbage metrics": rewritten(METRICS, lambda content: b"\xff\0{\n" * 500),
    "zeros for metrics": rewritten(METRICS, lambda content: b"\0" * len(content)),
    "a digit of the metrics": flip(0.5, METRICS),
    "a torn row after the checkpoint": rewritten(METRICS, lambda content: content + b'{"step": 30, "lo'),
    "a row after the checkpoint": rewritten(METRICS, lambda content: content + b'{"step": 30, "r2": 9}\n'),
    "garbage after the checkpoint": rewritten(METRICS, lambda content: content + b"\xff\n\0" * 9),
    "no config": without("config.json"),
    "config of another seed": copied("config.json", "other"),
    "half a config": rewritten("config.json", lambda content: content[:100]),
    "config is a list": rewritten("config.json", lambda content: b"[]"),
    "format 0": replaced("config.json", b'"format": 2', b'"format": 0'),
    "weights before the end": lambda path, runs: (path / WEIGHTS).write_bytes(b"half"),
}
FINISHED = {
    **{f"bit of the weights at {where:.2f}": flip(where, WEIGHTS) for where in (0, 0.1, 0.4, 0.6, 0.9)},
    "half of the weights": rewritten(WEIGHTS, lambda content: content[:-50]),
    "weights of another seed": copied(WEIGHTS, "whole_other"),
    "no weights": without(WEIGHTS),
    **{f"bit of the metrics at {where:.2f}": flip(where, METRICS) for where in (0.1, 0.5, 0.9, 1)},
    "no metrics": without(METRICS),
    "fewer rows": rewritten(METRICS, lambda content: b"\n".join(content.split(b"\n")[1:])),
    "one row more": rewritten(METRICS, lambda content: content + b'{"step": 50, "r2": 1.0}\n'),
    "a row that is no object": rewritten(METRICS, lambda content: b"[1, 2]\n" + content),
    "metrics of another seed": copied(METRICS, "whole_other"),
    # not the lowest bit: another last digit may be of the same number
    **{f"bit of the result at {where:.2f}": flip(where, RESULT, bit=6) for where in (0.1, 0.3, 0.5, 0.7)},
    "a digit of the result": replaced(RESULT, b'"steps": 40', b'"steps": 41'),
    "result of another seed": copied(RESULT, "whole_other"),
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
    "garbage after the checkpoint",
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


def test_every_byte_of_a_checkpoint_is_guarded(runs, tmp_path):
    """A sample of all bytes, each with a random bit changed: none passes for a checkpoint."""
    source, path = runs / "stopped" / STATE, tmp_path / "state.safetensors"
    content, owner = source.read_bytes(), Record(runs / "stopped").id
    checkpoints.read(source, owner, 40)
    generator = torch.Generator().manual_seed(0)
    for place in torch.randperm(len(content), generator=generator)[:1500].tolist():
        bit = int(torch.randint(8, (), generator=generator))
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"state\.safetensors"):
            checkpoints.read(path, owner, 40)


def test_what_the_advice_says_helps(runs, tmp_path):
    """A damaged checkpoint is deleted, as the error says, and the run ends with the same bits."""
    shutil.copytree(runs / "stopped", tmp_path / "run")
    flip(0.5)(tmp_path / "run", runs)
    with pytest.raises(ValueError, match="delete that file to start the run again"):
        train(tmp_path / "run")
    (tmp_path / "run" / STATE).unlink()
    assert_same_bits(train(runs / "whole"), train(tmp_path / "run"))
    flip(0.5, "encoder.safetensors")(tmp_path / "run", runs)
    with pytest.raises(ValueError, match=r"delete .*result.json to run the training again"):
        ij.load(tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    assert_same_bits(train(runs / "whole"), train(tmp_path / "run"))


def test_a_checkpoint_of_an_older_version_goes_on_and_that_is_said(runs, tmp_path, capsys):
    """It has no checksum, no owner and no count of its tensors."""
    from safetensors.torch import save_file

    shutil.copytree(runs / "stopped", tmp_path / "run")
    tensors, notes = load_tensors(tmp_path / "run" / STATE)
    for name in ("record", "metrics_checksum", "tensors"):
        del notes[name]
    save_file(tensors, tmp_path / "run" / STATE, metadata=notes)
    resumed = train(tmp_path / "run")
    told = capsys.readouterr().err
    assert "going on from step 25: an older version wrote its checkpoint, without a checksum" in told
    assert_same_bits(train(runs / "whole"), resumed)
    assert "older version" not in capsys.readouterr().err


def test_a_run_of_another_seed_does_not_go_on_from_a_checkpoint_whose_config_is_gone(runs, tmp_path):
    shutil.copytree(runs / "stopped", tmp_path / "run")
    (tmp_path / "run/config.json").unlink()
    with pytest.raises(ValueError, match="is not empty and no record"):
        train(tmp_path / "run", seed=5)
    shutil.copy(runs / "other/config.json", tmp_path / "run")
    with pytest.raises(ValueError, match=r"belongs to record \w{12}, of another config, and not to record"):
        train(tmp_path / "run", seed=5)
