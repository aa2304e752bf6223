"""What a command needs is opened and built once, and a config is resolved from what was built."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import isojepa as ij
from isojepa.cli import main
from isojepa.config import Config
from isojepa.data import World
from isojepa.data.images import source as opening
from isojepa.data.images.source import Images
from isojepa.encoders import MLP
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.convnets import ConvNet
from isojepa.runs import load_run

TINY = ("--training.steps", "2", "--training.batch", "16", "--training.eval-samples", "32")
SMALL = ("--encoder.backbone", "convnet-4-8", "--encoder.projector", "8-4", "--objective.slices", "8")


@pytest.fixture
def counts(monkeypatch):
    """How often folders of pictures are listed, and classes built."""
    seen = Counter()

    def counting(owner, name, key):
        inner = getattr(owner, name)

        def counted(*arguments, **options):
            seen[key(arguments)] += 1
            return inner(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    counting(opening, "folder_origin", lambda arguments: arguments[0].name)
    for cls in (World, MLP, Backbone, ConvNet, Images):
        counting(cls, "__init__", lambda arguments, name=cls.__name__: name)
    return seen


def folder(path, splits):
    """Grey pictures of two classes in a folder, or in one for each split."""
    source = np.random.default_rng(0)
    for split in splits or (".",):
        for name in ("bright", "dark"):
            (path / split / name).mkdir(parents=True)
            for number in range(40):
                image = source.integers(0, 100, (16, 16), dtype=np.uint8) + 100 * (name == "bright")
                Image.fromarray(image.astype(np.uint8)).save(path / split / name / f"{number}.png")
    return path


@pytest.mark.parametrize("splits", [(), ("train", "test")])
def test_pretrain_opens_each_folder_and_builds_the_backbone_once(tmp_path, counts, monkeypatch, splits):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = folder(tmp_path / "data", splits)
    command = ["pretrain", str(data), *SMALL, *TINY, "--out", str(tmp_path / "runs")]
    for flags in (["--dry-run"], [], ["--epochs", "1"]):
        counts.clear()
        assert main([*command, *flags]) == 0
        names = (splits or ("data",))[: 1 if "--dry-run" in flags else 2]
        assert {name: counts[name] for name in names} == dict.fromkeys(names, 1)
        assert sum(counts[name] for name in ("data", "train", "test")) == len(names)
        assert (counts["Images"], counts["Backbone"], counts["ConvNet"]) == (1, 1, 1)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_demo_train_and_report_build_the_world_and_the_encoder_once(tmp_path, counts, monkeypatch):
    monkeypatch.setattr("isojepa.cli.train.Config", lambda **settings: replace(tiny(), **settings))
    for command in (
        ["train", *TINY, "--record", str(tmp_path / "run")],
        ["report", str(tmp_path / "run")],
        ["demo", "--out", str(tmp_path / "demo")],
    ):
        counts.clear()
        assert main(command) in (0, 1)
        assert (command[0], counts["World"], counts["MLP"]) == (command[0], 1, 1)
    for load in (ij.load, load_run):
        counts.clear()
        load(tmp_path / "run")
        assert (counts["World"], counts["MLP"]) == (1, 1)


def tiny():
    return Config(training=ij.Recipe(steps=2, batch=16, batch_start=None, eval_every=2, eval_samples=32))
