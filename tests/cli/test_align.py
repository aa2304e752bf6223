"""The command `align`, from what a person types to maps, numbers and pages."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap, SharedSpace, compare, split_states
from tests.alignment.made_up import rotation
from tests.cli.test_commands import answer, run


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 6))
    wide = np.insert(z @ rng.normal(size=(6, 9)), 4, 5.0, axis=1)  # with a dead column
    mixed = z @ rotation(rng, 6)
    mixed[:120] = mixed[np.roll(np.arange(120), 1)]
    arrays = {"a": z, "b": z @ rotation(rng, 6) + 0.1 * rng.normal(size=z.shape), "c": wide, "mixed": mixed}
    for name, rows in arrays.items():
        np.save(tmp_path / f"{name}.npy", rows)
    monkeypatch.chdir(tmp_path)
    return arrays


def test_the_numbers_are_those_of_python(capsys, files):
    found = answer(capsys, "align", "a.npy", "b.npy")
    split = split_states(400)
    fitted = AlignmentMap().fit(files["a"][split.fit], files["b"][split.fit])
    expected = compare(files["a"][split.score], files["b"][split.score], map=fitted)
    assert found["map"]["condition"] == fitted.condition_
    assert found["aligned"]["R2"]["value"] == pytest.approx(expected.aligned["R2"].value, rel=1e-12)
    assert found["raw"]["CKA"]["chance"] == pytest.approx(expected.raw["CKA"].chance, rel=1e-9)


def test_a_dead_column_is_left_out_of_numbers_and_kept_in_the_map(capsys, files):
    code, out, err = run(capsys, "align", "a.npy", "c.npy", "--map", "map.safetensors")
    assert code == 0
    assert "1 constant columns of c.npy" in out + err
    fitted = AlignmentMap.load("map.safetensors")
    assert fitted.transform(files["a"]) == pytest.approx(files["c"], abs=1e-4)


def test_three_encoders_have_cycles_and_a_hub(capsys, files):
    found = answer(capsys, "align", "a.npy", "b.npy", "c.npy", "--hub", "hub.safetensors")
    assert len(found["pairs"]) == 3
    assert len(found["translations"]) == 6
    # c is wider than what it shows: round from there comes a projection
    assert all(one["defect"] < 0.2 for one in found["cycles"] if one["names"][0] != "c.npy")
    assert all(one["r2"]["estimate"] > 0.95 for one in found["cycles"])
    assert all(one["through_hub"]["estimate"] > 0.95 for one in found["translations"])
    assert SharedSpace.load("hub.safetensors").names == ["a.npy", "b.npy", "c.npy"]
    code, out, _ = run(capsys, "align", "a.npy", "b.npy", "c.npy")
    assert code == 0
    assert "through the hub" in out


def test_layers_of_models_are_compared_on_the_same_pictures(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "pictures.npz", images=rng.integers(0, 256, (60, 16, 16), dtype=np.uint8))
    (tmp_path / "own.py").write_text(
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(256, 6), nn.ReLU(), nn.Linear(6, 4))\n"
    )
    models = (f"{tmp_path / 'own.py'}:net", "convnet-4-8")
    found = answer(
        capsys, "align", *models, "--data", tmp_path / "pictures.npz", "--layers", "--neighbors", "5"
    )
    assert np.shape(found["layers"]["cka"]) == (2, 2)
    assert len(found["layers"]["first"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.npy",), "encoders must be two at least"),
        (("a.npy", "b.npy", "--kind", "rigde"), "did you mean 'ridge'"),
        (("a.npy", "b.npy", "c.npy", "--map", "m"), "are of two encoders"),
        (("a.npy", "b.npy", "--layers"), "give --data"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(capsys, files, arguments, words):
    code, _, err = run(capsys, "align", *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert words in err
