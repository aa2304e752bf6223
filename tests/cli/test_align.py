"""The command `align`, from what a person types to maps, numbers and pages."""

import json

import numpy as np
import pytest

from isojepa.align import AlignmentMap, Hub, split_states
from isojepa.align.metrics import compare
from isojepa.cli.main import main
from tests.align.made_up import rotation


def told(capsys, *arguments):
    code = main(["align", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def answer(capsys, *arguments):
    code, out, err = told(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


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
    found = answer(capsys, "a.npy", "b.npy")
    split = split_states(400)
    fitted = AlignmentMap().fit(files["a"][split.fit], files["b"][split.fit])
    expected = compare(files["a"][split.score], files["b"][split.score], map=fitted)
    assert found["map"]["condition"] == fitted.condition_
    assert found["aligned"]["R2"]["value"] == pytest.approx(expected.aligned["R2"].value, rel=1e-12)
    assert found["raw"]["CKA"]["chance"] == pytest.approx(expected.raw["CKA"].chance, rel=1e-9)


def test_a_person_sees_a_table_with_what_chance_gives(capsys, files):
    code, out, _ = told(capsys, "a.npy", "b.npy")
    assert code == 0
    assert "W of 6 x 6 by ridge" in out
    assert "calibrated" in out
    assert "mean CCA" not in out
    assert "mean CCA" in told(capsys, "a.npy", "b.npy", "--all")[1]


def test_a_dead_column_is_left_out_of_numbers_and_kept_in_the_map(capsys, files):
    code, out, err = told(capsys, "a.npy", "c.npy", "--map", "map.safetensors")
    assert code == 0
    assert "1 constant columns of c.npy" in out + err
    fitted = AlignmentMap.load("map.safetensors")
    assert fitted.transform(files["a"]) == pytest.approx(files["c"], abs=1e-4)


def test_a_dead_column_is_told_once_where_a_page_is_written_too(capsys, files):
    code, out, err = told(capsys, "a.npy", "c.npy", "--report", "pages/align.html")
    assert code == 0
    assert (out + err).count("1 constant columns of c.npy") == 1


def test_mismatched_pairs_are_dropped_where_asked(capsys, files):
    plain = answer(capsys, "a.npy", "mixed.npy")
    robust = answer(capsys, "a.npy", "mixed.npy", "--robust")
    assert robust["map"]["condition"] < plain["map"]["condition"]
    assert robust["map"]["mismatched"] == pytest.approx(0.3, abs=0.06)
    assert robust["map"]["orthogonality"] < 0.2


def test_stress_tests_come_with_predictions(capsys, files):
    rows = answer(capsys, "a.npy", "b.npy", "--stress", "--kind", "ols")["stress"]
    assert {row["test"] for row in rows} == {"pair_noise", "pair_budget"}
    assert all(row["predicted"] is not None for row in rows if row["metric"] == "r2")


def test_three_encoders_have_cycles_and_a_hub(capsys, files):
    found = answer(capsys, "a.npy", "b.npy", "c.npy", "--hub", "hub.safetensors")
    assert len(found["pairs"]) == 3
    assert len(found["translations"]) == 6
    # c is wider than what it shows: round from there comes a projection
    assert all(one["defect"] < 0.2 for one in found["cycles"] if one["names"][0] != "c.npy")
    assert all(one["r2"]["estimate"] > 0.95 for one in found["cycles"])
    assert all(one["through_hub"]["estimate"] > 0.95 for one in found["translations"])
    assert Hub.load("hub.safetensors").names == ["a.npy", "b.npy", "c.npy"]
    code, out, _ = told(capsys, "a.npy", "b.npy", "c.npy")
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
    found = answer(capsys, *models, "--data", tmp_path / "pictures.npz", "--layers", "--neighbors", "5")
    assert np.shape(found["layers"]["cka"]) == (2, 2)
    assert len(found["layers"]["first"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.npy",), "encoders must be two at least"),
        (("a.npy", "b.npy", "--kind", "rigde"), "did you mean 'ridge'"),
        (("a.npy", "b.npy", "c.npy", "--map", "m"), "are of two encoders"),
        (("a.npy", "b.npy", "--hub", "h"), "three encoders at least"),
        (("a.npy", "b.npy", "--layers"), "give --data"),
        (("a.npy", "b.npy", "--share", "1.5"), "share must lie between 0 and 1"),
        (("a.npy", "b.npy", "--samples", "10", "--kind", "ols"), "use kind='ridge'"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(capsys, files, arguments, words):
    code, _, err = told(capsys, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert words in err
