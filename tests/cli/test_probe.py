"""The command `probe`, from what a person types to what they read."""

import json
import warnings

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.cli.sources import normals, trained_on
from isojepa.data.images import Images, Views
from isojepa.data.images.image_sets import ImageSubset
from isojepa.data.images.source import open_images
from isojepa.encoders.backbones import Backbone
from isojepa.probes.features import features_of
from isojepa.training.loop import fit
from tests.cli.test_commands import run

ENCODER = """
def flat(x):
    return x.flatten(1)

def broken(x):
    return x.flatten(1) / 0
"""


def write_pictures(path, n=200, seed=0, classes=3):
    """Noise with a bright half, the class."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    images = draw.integers(0, 150, size=(n, 8, 8))
    images[labels == 1, :4] += 60
    images[labels == 2, 4:] += 60
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path


@pytest.fixture
def places(tmp_path):
    (tmp_path / "enc.py").write_text(ENCODER)
    write_pictures(tmp_path / "a.npz")
    write_pictures(tmp_path / "b.npz", 120, 1)
    return tmp_path


def test_an_encoder_is_probed_on_other_pictures(places, capsys):
    code, printed, _ = run(
        capsys,
        "probe",
        f"{places / 'enc.py'}:flat",
        *("--data", places / "a.npz", "--test", places / "b.npz"),
        *("--probes", "linear", "knn", "radius", "kernel", "--shots", "2", "500", "--json"),
    )
    assert code == 0
    found = json.loads(printed)
    assert (found["examples"], found["test_examples"], found["dim"]) == (200, 120, 64)
    scores = {score["probe"]: score for score in found["probes"]}
    assert list(scores) == ["linear", "20-nn", "200-nn", "radius", "kernel"]
    assert scores["linear"]["accuracy"] > 0.95
    for score in scores.values():
        assert score["interval"][0] <= score["accuracy"] <= score["interval"][1]
    few, many = found["few_shot"]
    assert few["interval"][0] <= few["accuracy"] <= few["interval"][1]
    assert "500 are needed" in many["reason"]


def test_a_file_of_features_needs_no_pictures(places, capsys):
    draw = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (draw.normal(size=(90, 5)) + 8 * np.eye(3, 5)[y]).astype(np.float32)
    np.savez(places / "f.npz", features=x[:60], labels=y[:60], test_features=x[60:], test_labels=y[60:])
    code, printed, _ = run(capsys, "probe", places / "f.npz", "--json")
    assert code == 0
    assert json.loads(printed)["probes"][0]["accuracy"] == 1
    torch.save({"features": torch.from_numpy(x), "labels": torch.from_numpy(y)}, places / "f.pt")
    code, printed, _ = run(capsys, "probe", places / "f.pt", "--json")
    assert (code, json.loads(printed)["test_examples"]) == (0, 18)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ENC:flat",), "data must be given"),
        (("ENC:broken", "--data", "A"), "features must be finite"),
        (("ENC:flat", "--data", "A", "--probes", "liner"), "did you mean 'linear'"),
        (("ENC:flat", "--data", "A", "--normalize", "imagenet"), "add --channels 3"),
        (("ENC:flat", "--data", "A", "--weights", "w.pt"), "weights go with a backbone of timm"),
        (("ENC:flat", "--data", "A", "--test", "C"), "test pictures must be of classes"),
        (("ENC:flat", "--data", "ONE"), "two classes at least"),
        (("ENC:flat", "--data", "BARE"), "needs labels"),
    ],
)
def test_what_cannot_be_is_one_line(places, capsys, arguments, message):
    write_pictures(places / "c.npz", 40, 1)
    with np.load(places / "c.npz") as held:
        np.savez(places / "c.npz", images=held["images"], labels=held["labels"] + 1)
        np.savez(places / "one.npz", images=held["images"], labels=np.zeros(40, dtype=np.int64))
        np.savez(places / "bare.npz", images=held["images"])
    names = {"A": "a.npz", "C": "c.npz", "ONE": "one.npz", "BARE": "bare.npz"}
    given = [str(places / names[one]) if one in names else one for one in arguments]
    given[0] = given[0].replace("ENC", str(places / "enc.py"))
    code, _, error = run(capsys, "probe", *given)
    assert code == 2
    assert message in error
    assert "Traceback" not in error


def test_a_record_sees_pictures_as_it_was_trained_on_them(places, capsys, tmp_path):
    train = open_images(places / "a.npz")
    source = Images(train, Views(2, 0, global_size=6))
    body = Backbone("convnet-4-8", in_channels=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a step teaches nothing
        fit(
            body, source, ij.objectives.LeJEPA(), steps=1, batch=16, batch_start=None, record=tmp_path / "run"
        )
    darker = np.load(places / "b.npz")
    np.savez(places / "dark.npz", images=darker["images"] // 2, labels=darker["labels"])
    dark = open_images(places / "dark.npz")
    given = trained_on(tmp_path / "run")
    assert given.shape == (1, 6, 6)
    assert normals("auto", dark, given) == (train.mean, train.std)
    assert normals("data", dark, given) == (dark.mean, dark.std)
    assert normals("auto", dark) == (dark.mean, dark.std)
    with pytest.raises(ValueError, match="add --channels 1"):
        normals("auto", ImageSubset(dark, channels=3), given)
    code, printed, _ = run(capsys, "probe", tmp_path / "run", "--data", places / "dark.npz", "--json")
    x = features_of(body, ImageSubset(dark, torch.arange(120)), 6, mean=train.mean, std=train.std)
    assert code == 0
    assert json.loads(printed)["dim"] == x.shape[1] == 8


def test_fine_tuning_is_scored_beside_the_probes(places, capsys):
    labels = np.arange(200) % 3
    noise = np.random.default_rng(0).integers(0, 60, size=(200, 8, 8))
    np.savez(places / "c.npz", images=(noise + 60 * labels[:, None, None]).astype(np.uint8), labels=labels)
    data = ("--data", places / "c.npz", "--probes", "linear", "--json")
    code, printed, _ = run(capsys, "probe", "convnet-4-8", *data, "--fine-tune", "60")
    scores = {score["probe"]: score["accuracy"] for score in json.loads(printed)["probes"]}
    assert code == 0
    assert scores["fine-tuned"] > 0.6  # a third is chance
    for bad, message in (("0", "fine_tune must be a positive number of epochs, got 0"),):
        code, _, error = run(capsys, "probe", "convnet-4-8", *data, "--fine-tune", bad)
        assert (code, message in error) == (2, True)
    code, _, error = run(capsys, "probe", f"{places / 'enc.py'}:flat", *data, "--fine-tune", "1")
    assert (code, "model must have weights to fine-tune" in error) == (2, True)
