"""Emoji by several vendors, in small files as tools/data writes them."""

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import environment

CLASSES = np.array(["Animals", "Flags"])


def write(folder, vendor, names, side=8):
    """State of "a1" is "a"; each picture has a colour of its own; states c and d are held out."""
    (folder / vendor).mkdir()
    for split, letters in (("train", "ab"), ("test", "cd")):
        mine = [name for name in names if name[0] in letters]
        states = np.array([ord(name[0]) for name in mine])
        colors = np.array([hash_of(name) for name in mine], dtype=np.uint8)
        np.savez_compressed(
            folder / vendor / f"{split}.npz",
            images=np.broadcast_to(colors[:, None, None, None], (len(mine), side, side, 3)),
            labels=states % 2,
            classes=CLASSES,
            names=np.array(mine),
            states=states,
            subcategories=np.array([f"kind {state}" for state in states]),
        )


def hash_of(name):
    return 10 * (ord(name[0]) - 96) + int(name[1])


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "google", ["a1", "a2", "b1", "c1", "c2", "d1"])
    write(tmp_path, "twitter", ["b1", "a2", "a1", "d1", "c2", "c1"])
    write(tmp_path, "fluent", ["a1", "c2", "b1"])
    return tmp_path


def test_vendors_are_matched_by_name_and_split_as_the_files_are(folder):
    found = environment("emoji", folder, vendors=("google", "twitter", "fluent"))
    assert found.names == ("google", "twitter", "fluent")
    for first, second, count in ((0, 1, 3), (0, 2, 1), (2, 1, 1)):
        pairs = found.pairs(first, second)
        assert len(pairs) == count
        assert torch.equal(*(part.read(torch.arange(count)) for part in (pairs.first, pairs.second)))
        assert set(pairs.ids.tolist()) <= {ord("c"), ord("d")}
    assert len(found.source("fluent").pictures) == 2
    testing.check_observers(found)
    assert torch.equal(found.pairs(0, 1).labels, found.pairs(0, 1).ids % 2)


def test_labels_may_be_subcategories(folder):
    pictures = environment("emoji", folder, labels="subcategory").pictures("twitter", None)
    assert pictures.classes == ("kind 100", "kind 97", "kind 98", "kind 99")
    assert [pictures.classes[label] for label in pictures.labels] == [
        f"kind {ord(letter)}" for letter in "baadcc"
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vendors": ("google", "apple")}, "apple/train.npz does not exist"),
        ({"labels": "colour"}, "labels must be one of category, subcategory, got 'colour'"),
        ({"shuffle": "patches"}, "shuffle must be one of .* did you mean 'patch'"),
        ({"vendors": ("google",)}, "two at least"),
        ({"vendor": "google"}, "did you mean 'vendors'"),
        ({"data": "/nowhere"}, "must be a folder, got /nowhere"),
        ({"data": ""}, "data must name the folder of environment 'emoji', got nothing"),
    ],
)
def test_wrong_settings_are_said(folder, settings, message):
    with pytest.raises(ValueError, match=message):
        environment("emoji", **{"data": str(folder)} | settings)


def test_damaged_files_are_refused(folder):
    path = folder / "google" / "test.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"google/test.npz cannot be read as emoji"):
        environment("emoji", folder)
    np.savez(path, images=np.zeros((1, 8, 8, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match="must hold images, labels"):
        environment("emoji", folder)
    path.write_bytes((folder / "google" / "train.npz").read_bytes())
    with pytest.raises(ValueError, match=r"no state must be in train.npz and test.npz, got 97 in both"):
        environment("emoji", folder)
