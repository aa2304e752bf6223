"""`isojepa gaussianity`, and the tests and samplers of SIGReg from the command line."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest

from isojepa.certificates import examine
from isojepa.cli.gaussianity import Gaussianity
from isojepa.objectives.gaussianity import UNIVARIATE
from tests.cli.test_commands import SMALL, record, refuse, run

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


def test_table_names_every_test_once_per_line(capsys, tmp_path, embeddings):
    code, out, _ = run(capsys, "gaussianity", embeddings, *FAST, "--picture", tmp_path / "a.png")
    assert code == 0
    for name in ("anderson-darling", "henze-visagie", "worst slice", "p from 29 simulations"):
        assert out.count(name) == 1, name
    rejected = examine(np.load(embeddings), samples=200, slices=6, draws=29).rejected
    assert sum(line.rstrip().endswith(" rejects") for line in out.splitlines()) == len(rejected) > 0
    assert "p assumes independent rows" in out


def test_a_record_is_tested_on_fresh_observations(capsys, tmp_path, record):
    picture = tmp_path / "a.png"
    code, out, _ = run(capsys, "gaussianity", record, *FAST, "--json", "--picture", picture)
    assert code == 0
    assert json.loads(out)["dim"] == 2


def test_bad_input_is_one_line(capsys, tmp_path, embeddings):
    assert "none.npy" in refuse(capsys, "gaussianity", tmp_path / "none.npy")
    (tmp_path / "broken.npy").write_bytes(b"not an array")
    refuse(capsys, "gaussianity", tmp_path / "broken.npy")
    assert "draws must be positive" in refuse(capsys, "gaussianity", embeddings, "--draws", "0")
    np.save(tmp_path / "nan.npy", np.full((50, 2), np.nan))
    assert "NaN" in refuse(capsys, "gaussianity", tmp_path / "nan.npy")
    np.save(tmp_path / "few.npy", np.zeros((3, 2)))
    assert "at least 20 rows" in refuse(capsys, "gaussianity", tmp_path / "few.npy")


@pytest.mark.parametrize("test", list(UNIVARIATE))
def test_every_univariate_test_trains_from_flags(capsys, tmp_path, test):
    code, out, _ = run(capsys, "train", *SMALL, "--objective.test", test, "--json", "--out", tmp_path)
    told = json.loads(out)
    assert code in (0, 1), told  # scale-free tests let the embedding collapse, and the run says so
    assert told["status"] in ("done", "collapsed")


@pytest.mark.parametrize("sampler", ["gaussian", "sobol", "orthogonal"])
def test_samplers_and_fixed_directions_train_from_flags(capsys, tmp_path, sampler):
    flags = ("--objective.sampler", sampler, "--objective.resample", "False", "--json", "--out", tmp_path)
    code, out, _ = run(capsys, "train", *SMALL, *flags)
    fixed = json.loads(out)
    assert code == (0 if fixed["status"] == "done" else 1)  # four fixed directions may let it collapse
    resampled = json.loads(run(capsys, "train", *SMALL, *flags[:2], *flags[4:])[1])
    assert fixed["record"] != resampled["record"]
    assert fixed["r2"] != resampled["r2"]


def test_unknown_tests_and_samplers_list_the_choices(capsys, tmp_path):
    flags = (*SMALL, "--out", tmp_path)
    assert "did you mean 'watson'" in refuse(capsys, "train", *flags, "--objective.test", "watsn")
    assert "sobol" in refuse(capsys, "train", *flags, "--objective.sampler", "halton")


def test_a_picture_that_cannot_be_written_does_not_lose_the_numbers(capsys, tmp_path, embeddings):
    (tmp_path / "file").write_text("")
    flags = (*FAST, "--json", "--picture", tmp_path / "file" / "a.png")
    code, out, err = run(capsys, "gaussianity", embeddings, *flags)
    assert code == 2
    assert json.loads(out)["picture"] is None
    assert len(json.loads(out)["tests"]) == 23
    assert len(err.strip().splitlines()) == 1


def test_a_picture_is_written_only_when_it_is_asked_for(capsys, tmp_path, embeddings, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "gaussianity", embeddings, *FAST)
    assert code == 0
    assert "Wrote" not in out
    assert [path.name for path in tmp_path.iterdir()] == ["h.npy"]
    code, out, _ = run(capsys, "gaussianity", embeddings, *FAST, "--json")
    assert json.loads(out)["picture"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["h.npy"]


def test_every_flag_that_a_refusal_names_is_one_of_the_command(capsys, tmp_path):
    """What an error advises must be there to be done."""
    known = {"--" + item.name.replace("_", "-") for item in fields(Gaussianity)}
    np.save(
        tmp_path / "nan.npy",
        np.vstack((np.full((1, 2), np.nan), np.random.default_rng(0).normal(size=(60, 2)))),
    )
    np.savez(tmp_path / "named.npz", a=np.zeros((30, 2)), b=np.zeros((30, 2)))
    np.savez(tmp_path / "seen.npz", x=np.zeros((30, 2)))
    for name in ("nan.npy", "named.npz", "seen.npz"):
        told = refuse(capsys, "gaussianity", tmp_path / name)
        assert set(re.findall(r"--[a-z-]+", told)) <= known, told
    code, out, _ = run(capsys, "gaussianity", tmp_path / "nan.npy", *FAST, "--drop-bad-rows", "--json")
    assert code == 0
    assert json.loads(out)["dropped"] == 1
    assert json.loads(out)["samples"] == 60


def test_what_is_left_out_is_told_beside_the_numbers(capsys, tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 2)).tolist()
    text = "\n".join([",h0,h1", *(f"{i},{a!r},{b!r}" for i, (a, b) in enumerate(rows))])
    (tmp_path / "h.csv").write_text(text)
    code, out, err = run(capsys, "gaussianity", tmp_path / "h.csv", *FAST, "--json")
    assert code == 0
    assert json.loads(out)["dim"] == 2
    assert err.startswith("note: ")
    assert "first column left out" in " ".join(err.split())
