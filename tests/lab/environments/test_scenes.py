"""Toys and a rig of cameras: really rendered, always the same, matched, and split by toy and by drive."""

import json
import math

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import environment
from isojepa.registry import build_spec
from isojepa_lab.environments import rendering as frames
from isojepa_lab.environments.rendering import backend, mujoco_version
from isojepa_lab.environments.scenes import (
    ELEVATIONS,
    LIGHTINGS,
    SURROUNDINGS,
    TOYS,
    YAWS,
    Drive,
    grey,
    toy_xml,
)
from tests.lab.environments.rendering import rendering_or_skip
from tests.processes import run

SMALL = {"toys": {"instances": 2, "size": 24}, "rig": {"drives": 3, "steps": 4, "size": 24}}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Small environments, rendered once for this file."""
    rendering_or_skip()
    folder = tmp_path_factory.mktemp("frames")
    for name, settings in SMALL.items():
        environment(name, folder, **settings)
    return folder


@pytest.mark.parametrize("name", SMALL)
def test_the_same_settings_give_the_same_frames(name, kept, tmp_path):
    spec = build_spec("environment", name, data=str(kept), **SMALL[name])
    frames = spec.frames()
    count = spec.block_shape()[0]
    for block in (0, spec.blocks() - 1):
        assert np.array_equal(spec.render_block(block), frames[block * count : (block + 1) * count])
    assert isinstance(frames, np.memmap)
    assert frames.dtype == np.uint8
    seed = {"toys": "shapes", "rig": "streets"}[name]
    other = build_spec("environment", name, data=str(kept), **SMALL[name], **{seed: 1})
    assert other.place() != spec.place()
    assert not np.array_equal(other.render_block(0), frames[:count])


@pytest.mark.slow
def test_frames_by_other_processes_and_after_a_stop_are_the_same(kept, tmp_path):
    whole = build_spec("environment", "rig", data=str(kept), **SMALL["rig"]).frames()
    spec = build_spec("environment", "rig", data=str(tmp_path), processes=2, **SMALL["rig"])
    parts = spec.place() / f"blocks-{backend()}-{mujoco_version()}"
    parts.mkdir(parents=True)
    frames._write(spec, parts, 1)  # a run that was stopped after one block, in the middle of another
    (parts / "00000.npy").write_bytes((parts / "00001.npy").read_bytes()[:100])
    assert np.array_equal(spec.frames(), whole)
    assert not parts.exists()
    header = json.loads((spec.place() / "scene.json").read_text())
    assert header["scene"]["size"] == 24
    assert header["backend"] == backend()


def test_kept_frames_are_opened_without_mujoco(kept):
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "from isojepa.data import environment\n"
        f"found = environment('toys', {str(kept)!r}, instances=2, size=24)\n"
        "assert len(found.pairs(0, 1, None)) == 540"
    )
    run(code).check_returncode()


def test_toys_are_matched_by_all_but_azimuth_and_split_by_toy(kept):
    found = environment("toys", kept, **SMALL["toys"])
    assert found.names == ("0°", "160°")
    pairs = found.pairs(0, 1, None)
    conditions = len(ELEVATIONS) * len(LIGHTINGS)
    assert len(pairs) == len(TOYS) * 2 * conditions
    assert torch.equal(pairs.labels, pairs.ids // 2)
    train, test = (set(found.pairs(0, 1, split).ids.tolist()) for split in ("train", "test"))
    assert not train & test
    assert len(test) == 2
    # the rows of a pair are the same toy, elevation and lighting: rendered by hand
    mujoco = pytest.importorskip("mujoco")
    spec = build_spec("environment", "toys", **SMALL["toys"] | {"azimuths": (160,)})
    model = mujoco.MjModel.from_xml_string(toy_xml("human", 1, 0, 24))
    assert model.ngeom > 5
    assert torch.equal(
        pairs.second.read(torch.arange(3 * conditions, 4 * conditions))[:, 0],
        torch.from_numpy(spec.render_block(3)),
    )
    testing.check_source(found.source("160°"))


def test_toys_differ_by_every_factor_and_none_is_cut_off(kept):
    frames = build_spec("environment", "toys", data=str(kept), **SMALL["toys"]).frames()
    frames = frames.reshape(len(TOYS), 2, 2, len(ELEVATIONS), len(LIGHTINGS), 24, 24).astype(float)
    for axis in range(5):
        first, last = frames.take(0, axis), frames.take(-1, axis)
        assert np.abs(first - last).mean(axis=(-1, -2)).min() > 0.5
    background = frames[..., 0, 0].max()
    covered = (frames != background).mean(axis=(-1, -2))
    assert 0.02 < covered.min() < covered.max() < 0.8
    edge = np.ones((24, 24), dtype=bool)
    edge[1:-1, 1:-1] = False
    assert (frames[..., edge] == background).all()


def test_cameras_of_the_rig_look_apart_at_the_same_moments(kept):
    found = environment("rig", kept, **SMALL["rig"])
    assert found.names == ("front", "rear")
    pairs = found.pairs("front", "rear", None)
    assert pairs.ids.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert pairs.first.classes == SURROUNDINGS
    first, second = (part.read(torch.arange(12)).float() for part in (pairs.first, pairs.second))
    assert (first - second).abs().mean() > 5
    # what both share is the light of the drive: frames are alike in brightness across the cameras
    light = torch.tensor([Drive.drawn(drive, 4, 0).daylight for drive in pairs.ids.tolist()])
    for seen in (first, second):
        assert torch.corrcoef(torch.stack([light, seen.flatten(1).mean(1)]))[0, 1] > 0.7
    train, test = (set(found.pairs(0, 1, split).ids.tolist()) for split in ("train", "test"))
    assert not train & test
    yaws = sorted(YAWS.values())
    assert min(np.diff([*yaws, yaws[0] + 360])) == 90  # of which each sees 60


def test_drives_move_on_and_keep_to_their_lane():
    for number in range(20):
        drive = Drive.drawn(number, 50, 3)
        assert (np.diff(drive.along) > 0).all()
        assert np.abs(drive.across + 2).max() < 2.2
        assert np.abs(drive.heading).max() < math.pi / 4
        assert set(drive.surroundings()) <= set(range(4))
        ahead = np.abs(drive.others[:, :2, 0] - drive.along[:, None])
        assert ahead.min() >= 8
    surroundings = np.concatenate([Drive.drawn(number, 50, 3).surroundings() for number in range(40)])
    assert np.bincount(surroundings, minlength=4).min() > 0.1 * len(surroundings)
    one = Drive.drawn(0, 1, 0)
    assert one.heading.shape == (1,)


def test_grey_weighs_colours_as_pillow_does():
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    theirs = np.asarray(image.fromarray(picture).convert("L")).astype(int)
    assert np.abs(grey(picture).astype(int) - theirs).max() <= 1


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("toys", {"azimuths": (0, 30)}, r"azimuths must be different ones of 0, 20, \.\.\. 340, got 0, 30"),
        ("toys", {"azimuths": (20, 20)}, "got 20, 20"),
        ("toys", {"instances": 0}, "instances must be a positive integer, got 0"),
        ("toys", {"size": 4}, "size must be an integer of at least 8"),
        ("rig", {"cameras": ("front", "top")}, "cameras, each once, must be one of front, left, rear, right"),
        ("rig", {"drives": 0}, "drives must be a positive integer"),
        ("rig", {"processes": 0}, "processes must be a positive integer"),
    ],
)
def test_wrong_settings_are_said_before_anything_is_rendered(name, settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        environment(name, tmp_path, **settings)
    assert not list(tmp_path.iterdir())
