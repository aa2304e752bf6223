"""`isojepa pretrain`: pictures in, a record out that others can probe; what is wrong is told first."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.cli.main import main
from isojepa.config import read_config
from isojepa.data.images import Images, Stack
from isojepa.objectives.gaussianity.statistic import AxisWarning
from isojepa.registry import Context, components
from isojepa.training import fit
from isojepa.training.run_directory import RunDirectory
from tests.vision import timm_or_skip

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
BASELINES = {"simclr", "vicreg", "barlow-twins", "dino", "moco", "swav", "supervised"}
SMALL = ("--encoder.backbone", "convnet-8-16", "--encoder.projector", "32-8", "--objective.slices", "16")
SHORT = ("--training.batch", "16", "--training.eval-every", "3", "--training.eval-samples", "64")
SIZES = {  # pictures of a recipe, where they are not of 256 pixels
    "imagenette": (3, 160, 160),
    "fashionmnist": (1, 28, 28),
    "smallnorb": (1, 96, 96),
    "nuscenes": (3, 225, 400),  # a quarter of their side: thousands are read for the mean
}


@pytest.fixture
def data(tmp_path):
    """Two classes of pictures: bright above, or bright below."""
    source = np.random.default_rng(0)
    images = source.integers(0, 100, (120, 28, 28), dtype=np.uint8)
    labels = np.arange(120) % 2
    images[labels == 0, :14] += 100
    images[labels == 1, 14:] += 100
    np.savez(tmp_path / "pictures.npz", images=images, labels=labels)
    return tmp_path / "pictures.npz"


def pretrain(capsys, *arguments):
    code = main(["pretrain", *map(str, arguments)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_pictures_become_a_record_that_loads_and_is_probed(capsys, data, tmp_path):
    record = tmp_path / "run"
    flags = (data, *SMALL, *SHORT, "--training.steps", 6, "--record", record, "--json")
    code, out, _ = pretrain(capsys, *flags)
    found = json.loads(out)
    assert (code, found["status"]) == (0, "done")
    assert {"loss", "alignment", "regularizer", "rankme", "knn", "probe"} <= found["metrics"].keys()
    model = ij.load(record)
    assert model.features(torch.zeros(3, 1, 28, 28)).shape == (3, 16)
    assert main(["probe", str(record), "--data", str(data), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores
    _, out, _ = pretrain(capsys, *flags)  # it is there already
    assert json.loads(out)["metrics"] == found["metrics"]


def test_a_dry_run_writes_nothing(capsys, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert pretrain(capsys, data, *SMALL, *SHORT, "--dry-run")[0] == 0
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--backbone", "resnet1818"), "resnet18"),
        (("--views", "tiny"), "views"),
        (("--epochs", "-1"), "epochs must be positive, got -1.0"),
        (("--encoder.projector", "wide"), "projector"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, data, flags, words):
    if "--backbone" in flags:
        timm_or_skip()
    kept = tuple(flag for flag in SMALL if flag not in ("--encoder.projector", "32-8"))
    code, _, err = pretrain(capsys, data, *kept, *flags)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(BASELINES & components("objective").keys()))
def test_baselines_train_in_the_same_loop(capsys, data, tmp_path, name):
    small = tuple(flag for flag in SMALL if flag not in ("--objective.slices", "16"))
    flags = (data, "--objective.name", name, *small, *SHORT, "--training.steps", 3, "--no-probe")
    pretrain(capsys, *flags, "--record", tmp_path / name)
    assert RunDirectory.open(tmp_path / name).result["steps"] == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_takes_a_step_on_pictures_of_its_size_and_number(path):
    timm_or_skip()
    config = read_config(path)
    number = int(re.search(r"^# ([\d,]+) pictures, \d+ epochs", path.read_text(), re.M)[1].replace(",", ""))
    shape = SIZES.get(path.stem.split("-")[0], (3, 256, 256))
    one = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    pictures = Stack(np.broadcast_to(one, (number, *shape)))
    source = Images(pictures, config.world.settings(pictures))
    context = Context(shapes=source.facts.shapes, embedding=None, seed=0)
    context = config.around(context)
    encoder = config.encoder.build(context)
    objective = config.objective.build(context)
    passes = config.training.steps * config.training.batch / number
    assert passes == pytest.approx(round(passes), abs=0.5)
    few = {"steps": 1, "batch": 2, "precision": "float32", "sync_norms": False, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AxisWarning)  # two pictures of many dimensions
        run = fit(encoder, source, objective, evaluations=(), **few, batch_start=None)
    assert np.isfinite(run.metrics[-1]["loss"])


def test_recipes_are_configs_of_pictures():
    assert RECIPES
    for path in RECIPES:
        assert read_config(path).world.name == "images"
