"""`isojepa gaussianity`, and the tests and samplers of SIGReg from the command line."""

import json

import numpy as np
import pytest

from isojepa.certificates import examine
from tests.cli.test_commands import record, refuse, run

__all__ = ["record"]  # a fixture of that module

FAST = ("--samples", "200", "--slices", "6", "--draws", "29")


@pytest.fixture
def embeddings(tmp_path):
    path = tmp_path / "h.npy"
    np.save(path, np.random.default_rng(0).standard_t(4, (250, 3)))
    return path


def test_json_is_what_python_gives_and_the_picture_is_there(capsys, tmp_path, embeddings):
    picture = tmp_path / "worst.png"
    code, out, _ = run(capsys, "gaussianity", embeddings, *FAST, "--json", "--picture", picture)
    told = json.loads(out)
    assert code == 0
    assert told.pop("picture") == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert told == examine(np.load(embeddings), samples=200, slices=6, draws=29).to_dict()
    assert told["verdict"].startswith("Not N(0, I)")


def test_bad_input_is_one_line(capsys, tmp_path, embeddings):
    assert "none.npy" in refuse(capsys, "gaussianity", tmp_path / "none.npy")
    (tmp_path / "broken.npy").write_bytes(b"not an array")
    refuse(capsys, "gaussianity", tmp_path / "broken.npy")
    assert "draws must be positive" in refuse(capsys, "gaussianity", embeddings, "--draws", "0")
    np.save(tmp_path / "nan.npy", np.full((50, 2), np.nan))
    assert "NaN" in refuse(capsys, "gaussianity", tmp_path / "nan.npy")
    np.save(tmp_path / "few.npy", np.zeros((3, 2)))
    assert "at least 20 rows" in refuse(capsys, "gaussianity", tmp_path / "few.npy")


def test_a_picture_that_cannot_be_written_does_not_lose_the_numbers(capsys, tmp_path, embeddings):
    (tmp_path / "file").write_text("")
    flags = (*FAST, "--json", "--picture", tmp_path / "file" / "a.png")
    code, out, err = run(capsys, "gaussianity", embeddings, *flags)
    assert code == 2
    assert json.loads(out)["picture"] is None
    assert len(json.loads(out)["tests"]) == 23
    assert len(err.strip().splitlines()) == 1
