"""Folders of synchronised cameras, matched by the names of their frames."""

import numpy as np
import pytest
import torch

from isojepa.data import environment

Image = pytest.importorskip("PIL.Image")


def frame(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((6, 8, 3), value, dtype=np.uint8)).save(path)


def values(pictures):
    return pictures.read(torch.arange(len(pictures)))[:, 0, 0, 0].tolist()


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "frames"
    for drive in range(5):
        for step in range(4):
            value = 40 * drive + 5 * step
            frame(root / "front" / f"drive-{drive}" / f"{step:04d}.png", value)
            if (drive, step) != (2, 1):  # the rear camera missed a frame, and writes another kind
                frame(root / "rear" / f"drive-{drive}" / f"{step:04d}.bmp", value + 2)
    return root


def open_frames(root, **settings):
    return environment("cameras", root, cache=str(root.parent / "cache"), **settings)


def test_frames_of_one_moment_are_matched_and_drives_are_split(root):
    found = open_frames(root)
    assert found.names == ("front", "rear")
    pairs = found.pairs("front", "rear", None)
    assert len(pairs) == 19
    assert [value + 2 for value in values(pairs.first)] == values(pairs.second)
    assert [value // 40 for value in values(pairs.first)] == pairs.ids.tolist()
    assert pairs.labels is None
    train, test = (set(found.pairs(0, 1, split).ids.tolist()) for split in ("train", "test"))
    assert not train & test
    assert len(test) == 1
    assert len(found.source("front").pictures) == 16


def test_cameras_that_are_not_there_are_said(root):
    with pytest.raises(ValueError, match=r"cameras must be folders of .* \(front, rear\), got 'side'"):
        open_frames(root, cameras=("front", "side"))
    with pytest.raises(ValueError, match="two at least"):
        open_frames(root, cameras=("front",))
    with pytest.raises(ValueError, match="together must be a positive integer"):
        open_frames(root, together=0)
