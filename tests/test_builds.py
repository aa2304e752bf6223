"""What a command needs is opened and built once, and a config is resolved from what was built."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from PIL import Image

import isojepa as ij
from isojepa.cli import main
from isojepa.config import Config, config_from
from isojepa.encoders import MLP
from isojepa.encoders.backbones import Backbone, BackboneSpec
from isojepa.encoders.convnets import ConvNet, classic, small_model
from isojepa.files import plain
from isojepa.registry import Context, make
from isojepa.runs import build_all, load_run
from isojepa.training.identity import record_id
from isojepa.worlds import World
from isojepa.worlds.images import Views, opening
from isojepa.worlds.images.source import Images, ImagesSpec
from isojepa.worlds.images.views import PRESETS

TINY = ("--training.steps", "2", "--training.batch", "16", "--training.eval-samples", "32")
SMALL = ("--encoder.backbone", "convnet-4-8", "--encoder.projector", "8-4", "--objective.slices", "8")
WORLDS = [
    make("world"),
    make("world", dim=3, mixing="lift"),
    make("world", process="langevin", law="laplace"),
    make("world", "observer"),
]


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
    monkeypatch.setattr("isojepa.cli.commands.Config", lambda **settings: replace(tiny(), **settings))
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


@pytest.mark.parametrize(
    "world", WORLDS, ids=[f"{number} {world.name}" for number, world in enumerate(WORLDS)]
)
def test_a_config_is_the_same_whether_the_source_is_built_or_not(world):
    config = Config(world, encoder=make("encoder", "mlp", dim=2))
    _, source, _ = build_all(config)
    assert config.resolved(source) == config.resolved()
    assert config.to_dict(source) == config.to_dict()


def test_a_config_of_pictures_is_the_same_whether_they_are_open_or_not(tmp_path, counts):
    np.save(tmp_path / "pictures.npy", np.zeros((5, 20, 20), np.uint8))
    config = Config(make("world", "images", data=str(tmp_path / "pictures.npy")), BackboneSpec())
    _, source, _ = build_all(config)
    counts.clear()
    told = config.to_dict(source)
    assert counts["Images"] == 0
    assert told == config.to_dict()
    assert counts["Images"] == 1


@pytest.mark.parametrize("views", ["auto", "28", *PRESETS])
def test_every_setting_of_the_views_is_resolved(tmp_path, views):
    np.save(tmp_path / "pictures.npy", np.zeros((5, 20, 20, 3), np.uint8))
    spec = ImagesSpec(views=views, data=str(tmp_path / "pictures.npy"), flip=0.25, hue=0.125)
    source = spec.build(Context())
    resolved = spec.resolve(Context.of(source))
    for name in {item.name for item in fields(Views)} - {"mean", "std"}:  # of the pictures
        assert getattr(resolved, name) == getattr(source.views, name), name
    assert (resolved.flip, resolved.hue) == (0.25, 0.125)
    assert resolved.resolve(Context()) == resolved  # and does not ask for the pictures
    assert resolved.settings(source.pictures) == source.views


def test_the_id_of_a_run_covers_what_a_preset_stands_for(tmp_path, monkeypatch):
    np.save(tmp_path / "pictures.npy", np.zeros((5, 20, 20, 3), np.uint8))
    for views, preset in (("auto", Views.for_size(20)), ("paper", PRESETS["paper"])):
        config = Config(
            make("world", "images", data=str(tmp_path / "pictures.npy"), views=views), BackboneSpec()
        )
        told = plain(config.to_dict())
        ids = {record_id(told)}
        for change in (
            {"ratio": (0.5, 2.0)},
            *({name: 0.05} for name in ("brightness", "contrast", "saturation", "hue", "kernel")),
            {"sigma": (0.1, 0.5)},
        ):
            other = replace(preset, **change)
            with monkeypatch.context() as patch:
                patch.setattr(Views, "for_size", classmethod(lambda cls, side, other=other: other))
                patch.setitem(PRESETS, "paper", other)
                ids.add(record_id(config.to_dict()))
                assert plain(config_from(told).to_dict()) == told  # what is resolved stays
        assert len(ids) == 8


@pytest.mark.parametrize(
    "name",
    [
        "convnet",
        "convnet-8-24",
        "resnet18-small",
        "resnet18-small-4",
        "squeezenet-features",
        "alexnet-features",
    ],
)
def test_the_dimension_of_a_network_of_our_own_is_known_without_building_it(counts, name):
    spec = BackboneSpec(backbone=name, projector="none")
    dim = spec.embedding(Context())
    assert not spec.transformer(Context())
    assert not counts
    network = small_model(name)
    assert dim == (classic(name) if network is None else network).num_features
