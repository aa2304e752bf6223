"""`isojepa transfer` as a person and as a program would use it."""

import json

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap, LinearHead
from tests.alignment.test_sharing import made
from tests.cli.test_commands import refuse, run


@pytest.fixture
def files(tmp_path):
    z1, z2, y = made(0.1, rows=1200)
    np.savez(tmp_path / "a.npz", features=z1[:600], labels=y[:600])
    np.save(tmp_path / "first.npy", z1[600:])
    np.save(tmp_path / "second.npy", z2[600:])
    np.save(tmp_path / "labels.npy", y[600:])
    AlignmentMap().fit(z1[:600], z2[:600]).save(tmp_path / "map.safetensors")
    AlignmentMap().fit(z2[:600], z1[:600]).save(tmp_path / "back.safetensors")
    return tmp_path


def test_a_probe_that_the_command_saved_is_carried_and_scored(capsys, files):
    head = files / "head.safetensors"
    code, told, _ = run(
        capsys, "probe", files / "a.npz", "--probes", "linear", "--save-probe", head, "--json"
    )
    assert code == 0
    accuracy = json.loads(told)["probes"][0]["accuracy"]
    plain = json.loads(run(capsys, "probe", files / "a.npz", "--probes", "linear", "--json")[1])
    assert plain["probes"][0]["accuracy"] == accuracy  # saving changes no number
    scored = ("--embeddings", files / "second.npy", "--labels", files / "labels.npy")
    code, told, _ = run(
        capsys,
        "transfer",
        head,
        files / "map.safetensors",
        *scored,
        "--source",
        files / "first.npy",
        "--json",
    )
    result = json.loads(told)
    assert code == 0
    by_name = {score["head"]: score for score in result["scores"]["scores"]}
    assert abs(by_name["transferred"]["difference"]) < 0.03
    assert by_name["naive"]["difference"] < -0.2
    found, old = LinearHead.load(result["head"]), LinearHead.load(head)
    second = np.load(files / "second.npy")
    back = AlignmentMap.load(files / "map.safetensors").inverse_transform(second)
    np.testing.assert_allclose(found.logits(second), old.logits(back), rtol=1e-8, atol=1e-8)


def test_what_does_not_fit_is_one_line(capsys, files):
    LinearHead(np.ones((4, 9))).save(files / "head.safetensors")
    head, fitted = files / "head.safetensors", files / "map.safetensors"
    assert "12 columns" in refuse(capsys, "transfer", head, fitted)
    assert "must be a linear head" in refuse(capsys, "transfer", fitted, fitted)
    assert "must be a map" in refuse(capsys, "transfer", head, head)
    assert "go together" in refuse(capsys, "transfer", head, fitted, "--labels", files / "labels.npy")
    assert "does not exist" in refuse(capsys, "transfer", files / "none.safetensors", fitted)
    LinearHead(np.ones((4, 12))).save(head)
    assert "another file" in refuse(capsys, "transfer", head, fitted, "--out", fitted)
    assert "linear probe" in refuse(
        capsys, "probe", files / "a.npz", "--probes", "knn", "--save-probe", files / "x.safetensors"
    )
