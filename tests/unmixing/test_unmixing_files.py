"""Axes written and read again, and files that somebody else made."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.unmixing import Unmixing, unmix
from isojepa.unmixing.unmixing import NotFitted
from tests.unmixing.worlds import latents, rotation

NOTE = "isojepa-unmixing"


@pytest.fixture(scope="module")
def fitted() -> Unmixing:
    y, y_next = latents(["uniform", "normal", "normal", "4"], n=5000)
    return unmix(y @ rotation(4).T, y_next @ rotation(4).T, seed=2, tolerance=0.005)


@pytest.fixture
def saved(fitted, tmp_path) -> Path:
    fitted.save(tmp_path / "axes.safetensors")
    return tmp_path / "axes.safetensors"


def test_what_is_read_is_what_was_written(fitted, saved):
    found = Unmixing.load(saved)
    assert found.get_params() == fitted.get_params()
    assert found.to_dict() == fitted.to_dict()
    assert str(found) == str(fitted)
    h = np.random.default_rng(0).standard_normal((50, 4))
    assert np.array_equal(found.transform(h), fitted.transform(h))
    assert np.array_equal(found.inverse_transform(h), fitted.inverse_transform(h))
    assert np.array_equal(found.latents(h), fitted.latents(h))
    assert found.blocks_ == ((2, 3),)
    assert np.isinf(found.axes_[3].error)
    found.save(saved)
    assert Unmixing.load(saved).to_dict() == fitted.to_dict()


def test_files_that_do_not_tell_the_cause_are_read(fitted, saved):
    def older(tensors, notes) -> None:
        for axis in notes["axes"]:
            del axis["cause"], axis["world_departure"]

    changed(saved, older)
    found = Unmixing.load(saved)
    assert [axis.cause for axis in found.axes_] == [None] * 4
    assert str(found) == str(fitted)


def test_axes_of_leading_directions_and_of_two_values_can_be_written(tmp_path):
    rng = np.random.default_rng(0)
    for h, dim in (
        (rng.choice([-1.0, 1.0], (2000, 3)), None),
        (rng.uniform(size=(2000, 4)) * [9, 8, 1, 1], 2),
    ):
        found = unmix(h, dim=dim)
        found.save(tmp_path / "axes")
        assert Unmixing.load(tmp_path / "axes").to_dict() == found.to_dict()


def test_what_is_not_fitted_is_not_written(tmp_path):
    with pytest.raises(NotFitted):
        Unmixing().save(tmp_path / "axes")
    assert not (tmp_path / "axes").exists()


def test_files_that_are_missing_cut_short_or_something_else_are_refused(saved, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        Unmixing.load(tmp_path / "nothing")
    whole = saved.read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="truncated or not a safetensors file"):
            Unmixing.load(saved)
    save_tensors(saved, {"weight": torch.ones(3)})
    with pytest.raises(ValueError, match="got another safetensors file"):
        Unmixing.load(saved)


@pytest.mark.parametrize("path", [3, None, 0.5, []])
def test_what_is_no_path_is_refused(fitted, path):
    for call in (fitted.save, Unmixing.load):
        with pytest.raises(ValueError, match="path must be text or a path, got"):
            call(path)


def changed(path: Path, edit) -> None:
    """Write the file again with other tensors or notes."""
    tensors, header = load_tensors(path)
    notes = json.loads(header[NOTE])
    edit(tensors, notes)
    save_tensors(path, tensors, header | {NOTE: json.dumps(notes)})


def put(*place, value):
    """An edit of one note."""

    def edit(tensors, notes) -> None:
        inside = notes
        for name in place[:-1]:
            inside = inside[name]
        inside[place[-1]] = value

    return edit


def put_tensor(name: str, change):
    def edit(tensors, notes) -> None:
        tensors[name] = change(tensors[name])

    return edit


MATRICES = {
    "NaN": put_tensor("matrix", lambda matrix: matrix * float("nan")),
    "another shape": put_tensor("matrix", lambda matrix: matrix[:, :2].clone()),
    "not inverse": put_tensor("inverse", lambda matrix: matrix + 0.01),
    "a long mean": put_tensor("mean", lambda mean: torch.cat((mean, mean))),
    "nothing": lambda tensors, notes: tensors.update(
        matrix=torch.ones(0, 4), inverse=torch.ones(4, 0), mean=torch.ones(4)
    ),
}


@pytest.mark.parametrize("edit", MATRICES.values(), ids=MATRICES)
def test_matrices_that_do_not_fit_are_refused(saved, edit):
    changed(saved, edit)
    with pytest.raises(ValueError, match="is damaged: its matrices"):
        Unmixing.load(saved)


NOTES = {
    "no axes": put("axes", value=[]),
    "axes that are none": put("axes", value=[1, 2, 3, 4]),
    "fewer axes": lambda tensors, notes: notes["axes"].pop(),
    "a block out of range": put("axes", 2, "block", value=[2, 9]),
    "a block without itself": put("axes", 2, "block", value=[3]),
    "a block that the other does not know": put("axes", 3, "block", value=[3]),
    "a name in a block": put("axes", 2, "cue", value="shape"),
    "no name and an error": put("axes", 0, "cue", value="none"),
    "an unknown cue": put("axes", 0, "cue", value="guess"),
    "another number": put("axes", 0, "number", value=1),
    "a partner out of range": put("axes", 0, "partner", value=4),
    "an error of NaN": put("axes", 0, "error", value=float("nan")),
    "a stability as text": put("axes", 0, "stability", value="1"),
    "a number beyond floats": put("axes", 0, "departure", value=10**400),
    "dependent perhaps": put("axes", 0, "dependent", value="perhaps"),
    "a cause that is none": put("axes", 2, "cause", value="laziness"),
    "a name and a cause against it": put("axes", 0, "cause", value="alike"),
    "a warp that is none": put("axes", 0, "warp", value={"y": [1, 2]}),
    "rows without end": put("rows", value=float("inf")),
    "an unknown parameter": put("parameters", "colour", value=1),
    "a parameter out of range": put("parameters", "tolerance", value=3),
}


@pytest.mark.parametrize("edit", NOTES.values(), ids=NOTES)
def test_notes_that_lie_are_refused(saved, edit):
    changed(saved, edit)
    with pytest.raises(ValueError, match=r"is damaged|notes that cannot be read"):
        Unmixing.load(saved)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "null", "{}", '{"axes": [], "axes": []}', "9" * 5000, " " * (33 << 20)],
    ids=["empty", "cut", "deep", "null", "bare", "twice", "digits", "huge"],
)
def test_notes_that_are_no_notes_are_refused(saved, text):
    tensors, header = load_tensors(saved)
    save_tensors(saved, tensors, header | {NOTE: text})
    with pytest.raises(ValueError, match=r"notes that cannot be read|notes of at most 32 MB"):
        Unmixing.load(saved)
