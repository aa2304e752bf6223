"""The card says what the record says, and nothing in it is obeyed."""

import json
import shutil

import numpy as np
import pytest
import torch
import yaml
from markdown_it import MarkdownIt

import isojepa as ij
from isojepa.cli import main
from isojepa.exports.card import escaped
from isojepa.training.checkpoints import load_tensors
from isojepa.training.run_directory import RunDirectory
from tests.exports.small import pictures, record
from tests.training.crash import crash_at


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards")
    pictures(folder / "photos.npz")
    return record(folder / "run", folder / "photos.npz")


def card_of(path, *flags, to="safetensors"):
    assert main(["export", str(path), "--to", to, *map(str, flags)]) == 0
    return (path / f"export-{to}/README.md").read_text(encoding="utf-8")


def rows(card):
    """Rows of the tables by their first cell."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in card.splitlines() if "|" in line
    ]
    return {row[0].replace("\\", ""): [cell.replace("\\", "") for cell in row[1:]] for row in cells}


def test_the_card_has_the_records_settings_data_and_numbers(run):
    card = card_of(run)
    front = yaml.safe_load(card.split("---")[1])
    assert "license" not in front  # it is not ours to choose
    found, config = rows(card), json.loads((run / "config.json").read_text())
    for section in ("objective", "encoder", "training"):
        for key in ("weight", "slices", "backbone", "projector", "steps", "batch", "learning_rate"):
            if key in config[section]:
                assert found[f"{section}.{key}"] == [str(config[section][key])]
    assert found["seed"] == ["3"]
    assert found["pictures"] == ["24"]
    assert found["labels"] == ["2 classes"]
    assert found["world.global_size"] == ["32"]
    assert found["world.data"] == ["photos.npz"]
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["training loss"][0] == f"{last['loss']:.4g}"
    images = np.load(run.parent / "photos.npz")["images"] / 255
    assert float(found["1"][0]) == pytest.approx(images[..., 1].mean(), abs=1e-5)
    assert float(found["1"][1]) == pytest.approx(images[..., 1].std(), abs=1e-5)
    assert str(run.parent) not in card + (run / "export-safetensors/export.json").read_text()
    manifest = json.loads((run / "export-safetensors/export.json").read_text())
    assert f"p = {manifest['gaussianity']['gaussianity_p']:.3g} by simulation" in card
    assert manifest["gaussianity"]["other_data"] is False
    assert found["fingerprint"] == [manifest["data"]["fingerprint"]]


def test_probes_of_the_record_are_in_the_card_with_their_intervals(run, tmp_path):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("export-*"))
    path = RunDirectory.open(tmp_path / "run")
    result = dict(path.result)
    scores = {"probe": 0.8125, "probe_low": 0.75, "probe_high": 0.875, "knn": float("nan")}
    path.append({"step": 3, "loss": 0.5, **scores})
    path.finish({**result, "steps": 3})
    found = rows(card_of(tmp_path / "run", "--no-measure"))
    assert found["linear probe, accuracy"] == ["0.8125", "0.7500 to 0.8750"]
    assert found["20 nearest neighbors, accuracy"][0] == "nan"


def test_other_pictures_are_told_and_normalized_as_the_runs_were(run, tmp_path):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("export-*"))
    pictures(tmp_path / "others.npz", count=30)
    card = card_of(tmp_path / "run", "--data", tmp_path / "others.npz")
    assert "The pictures are others than those of the run." in card
    manifest = json.loads((tmp_path / "run/export-safetensors/export.json").read_text())
    assert manifest["input"]["mean"] == list(RunDirectory.open(run).result["source"]["mean"])
    assert rows(card)["pictures"] == ["24"]


@pytest.mark.parametrize("status", ["collapsed", "diverged"])
def test_a_run_that_did_not_end_well_is_told_first(run, tmp_path, capsys, status):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("export-*"))
    path = RunDirectory.open(tmp_path / "run")
    path.finish({**path.result, "status": status, "reason": "its smallest variance is 1e-9 <b>"})
    card = card_of(tmp_path / "run", "--no-measure")
    warning = card.partition("**Warning.**")[2].partition("\n")[0]
    assert f"The run {status}" in warning
    assert "its smallest variance is 1e-9 &lt;b&gt;." in warning
    assert f"the run is {status}" in capsys.readouterr().out


def test_a_run_that_is_not_finished_is_exported_as_its_checkpoint_has_it(tmp_path):
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95), ij.data.Spiral())
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    options = {"steps": 40, "batch": 32, "eval_every": 10, "eval_samples": 128, "checkpoint_seconds": 0.0}
    with pytest.raises(RuntimeError, match="crash"):
        ij.fit(
            ij.encoders.MLP(2, 2, width=8, layers=2),
            world,
            crash_at(objective, 26),
            record=tmp_path / "run",
            progress=False,
            **options,
        )
    card = card_of(tmp_path / "run", "--shape", "2")
    assert "The run was not finished when this was written. 25 of 40 steps were done." in card
    assert "After 20 steps" in card
    state, _ = load_tensors(tmp_path / "run/checkpoint/state.safetensors")
    model = ij.load(tmp_path / "run/export-safetensors/model.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[f"model/models.encoder.{name}"])
    with pytest.raises(ValueError, match="is not finished"):
        ij.load(tmp_path / "run")


def test_a_record_that_does_not_tell_its_normalization_has_it_from_the_data(run, tmp_path):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("export-*"))
    whole = RunDirectory.open(tmp_path / "run")
    result = dict(whole.result)
    whole.finish(
        {key: value for key, value in result.items() if key != "source"}
    )  # as older versions wrote it
    card_of(tmp_path / "run", "--data", run.parent / "photos.npz")
    manifest = json.loads((tmp_path / "run/export-safetensors/export.json").read_text())
    assert manifest["input"]["mean"] == result["source"]["mean"]
    assert manifest["input"]["shape"] == [3, 32, 32]


def test_nothing_that_a_record_says_is_markup(tmp_path):
    name = "a|b`c`<img src=x onerror=alert(1)>[click](http:x) *bold* $x$\x1b[31m.npz"
    text = f"| {escaped(name)} | {escaped('line' + chr(10) + '# title')} |\n|---|---|\n\n# {escaped(name)}"
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    for tag in ("<img", "<a ", "<code>", "<em>", "<strong>"):
        assert tag not in html
    assert html.count("<h1>") == 1
    assert "\x1b" not in text
    (tmp_path / "odd").mkdir()
    data = tmp_path / "odd" / "<script>x</script> | `y` [z](w).npz".replace("/", "_")
    pictures(data)
    path = record(tmp_path / "run", data)
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(card_of(path).split("---", 2)[2])
    assert "<script>" not in page
    assert "<a " not in page
