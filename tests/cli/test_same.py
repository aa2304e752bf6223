"""The command `same`, from what a person types to the answer."""

import numpy as np
import pytest

from isojepa.alignment import same
from isojepa.cli.main import main
from tests.alignment.made_up import rotation
from tests.cli.test_commands import answer, run

ENCODERS = """
def flat(x):
    return x.flatten(1)

def turned(x):
    import torch
    rows = x.flatten(1)
    drawn = torch.randn(rows.shape[1], rows.shape[1], generator=torch.Generator().manual_seed(0))
    q, _ = torch.linalg.qr(drawn)
    return 2 * rows @ q
"""


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 8))
    arrays = {
        "first": z,
        "turned": z @ rotation(rng, 8),
        "other": rng.normal(size=(400, 8)),
        "few": z[:50],
    }
    for name, rows in arrays.items():
        np.save(tmp_path / f"{name}.npy", rows)
    order = rng.permutation(400)
    np.savez(tmp_path / "mixed.npz", h=arrays["turned"][order], ids=order)
    np.save(tmp_path / "ids.npy", np.arange(400))
    return tmp_path


def test_the_numbers_are_those_of_python(capsys, files):
    found = answer(capsys, "same", files / "first.npy", files / "turned.npy")
    expected = same(np.load(files / "first.npy"), np.load(files / "turned.npy"))
    assert found["names"] == ["first.npy", "turned.npy"]
    assert found["verdict"] == expected.verdict == "rotation"
    assert found["rotation"]["r2"]["estimate"] == expected.rotation.r2.estimate


def test_rows_in_another_order_are_matched_by_their_ids(capsys, files):
    mixed = f"{files / 'mixed.npz'}::h"
    assert answer(capsys, "same", files / "first.npy", mixed)["verdict"] == "unrelated"
    ids = ("--ids", files / "ids.npy", f"{files / 'mixed.npz'}::ids")
    assert answer(capsys, "same", files / "first.npy", mixed, *ids)["verdict"] == "rotation"


def test_encoders_see_the_same_pictures(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "pictures.npz", images=rng.integers(0, 256, (300, 4, 4), dtype=np.uint8))
    (tmp_path / "own.py").write_text(ENCODERS)
    models = f"{tmp_path / 'own.py'}:flat", f"{tmp_path / 'own.py'}:turned"
    found = answer(capsys, "same", *models, "--data", tmp_path / "pictures.npz")
    assert found["verdict"] == "rotation"
    assert found["states"] == 300
    assert (
        answer(capsys, "same", *models, "--data", tmp_path / "pictures.npz", "--samples", "200")["states"]
        == 200
    )


def test_records_of_worlds_are_shown_the_same_latents(capsys, tmp_path):
    small = ("--encoder.width", "8", "--encoder.layers", "2", "--objective.slices", "4")
    short = ("--training.steps", "2", "--training.batch", "32", "--training.eval-samples", "64")
    for name, mixing in (("a", "spiral"), ("b", "parabola")):
        made = ("--world.mixing", mixing, "--record", str(tmp_path / name))
        assert main(["train", *small, *short, *made]) == 0
    capsys.readouterr()
    found = answer(capsys, "same", tmp_path / "a", tmp_path / "b", "--samples", "500")
    assert found["states"] == 500
    assert answer(capsys, "same", tmp_path / "a", tmp_path / "a", "--samples", "500")["verdict"] == "rotation"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("first.npy", "none.npy"), "does not exist"),
        (("first.npy", "few.npy"), "give --ids to match them"),
        (("first.npy", "turned.npy", "--data", "x"), "data and environment go with models"),
        (("first.npy", "resnet50"), "either all sources are files"),
        (("first.npy", "few.npy", "--ids", "ids.npy", "ids.npy"), "as many as its rows, 50, got 400"),
        (("resnet50", "resnet18"), "data must be given"),
        (("a", "b", "--environment", "emojis", "--data", "x"), "did you mean 'emoji'"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(capsys, files, monkeypatch, arguments, words):
    monkeypatch.chdir(files)
    code, _, err = run(capsys, "same", *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert words in err
