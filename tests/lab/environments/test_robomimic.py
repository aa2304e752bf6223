"""robomimic's HDF5 files, written here in their layout."""

import numpy as np
import pytest
import torch

from isojepa.data import environment

h5py = pytest.importorskip("h5py")
LENGTHS = (3, 4, 2, 5)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "demos.hdf5"
    with h5py.File(path, "w") as file:
        for demo, length in enumerate(LENGTHS):
            for camera, offset in (("agentview", 0), ("eye_in_hand", 7)):
                value = (20 * demo + np.arange(length) + offset).astype(np.uint8)
                images = value[:, None, None, None] * np.ones((1, 6, 6, 3), np.uint8)
                file.create_dataset(f"data/demo_{demo}/obs/{camera}_image", data=images)
            file.create_dataset(f"data/demo_{demo}/obs/object", data=np.zeros((length, 10)))
    return path


def values(pictures):
    return pictures.read(torch.arange(len(pictures)))[:, 0, 0, 0].tolist()


def test_cameras_are_matched_by_moment_and_split_by_demonstration(path):
    found = environment("robomimic", path, held_out=0.5)
    assert found.names == ("agentview", "eye_in_hand")
    pairs = found.pairs(0, 1, None)
    assert len(pairs) == sum(LENGTHS)
    assert [value + 7 for value in values(pairs.first)] == values(pairs.second)
    assert [value // 20 for value in values(pairs.first)] == pairs.ids.tolist()
    train, test = (set(found.pairs(0, 1, split).ids.tolist()) for split in ("train", "test"))
    assert not train & test
    assert len(test) == 2
    assert len(environment("robomimic", path.parent, demonstrations=2).pairs(0, 1, None)) == 7


def test_files_of_another_kind_and_links_out_of_them_are_refused(path, tmp_path):
    with pytest.raises(ValueError, match=r"cameras must be among agentview, eye_in_hand, got \['side'\]"):
        environment("robomimic", path, cameras=("side",))
    (tmp_path / "text.hdf5").write_text("no data")
    with pytest.raises(ValueError, match=r"text.hdf5 cannot be read as robomimic's demonstrations"):
        environment("robomimic", tmp_path / "text.hdf5")
    with pytest.raises(ValueError, match="does not exist"):
        environment("robomimic", tmp_path / "nothing.hdf5")
    with h5py.File(tmp_path / "linked.hdf5", "w") as file:
        file["data"] = h5py.ExternalLink(str(path), "data")
    with pytest.raises(ValueError, match="must lie in the file itself, got a link"):
        environment("robomimic", tmp_path / "linked.hdf5")
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/eye_in_hand_image"]
        file["data/demo_1/obs/eye_in_hand_image"] = np.zeros((3, 6, 6, 3), np.uint8)
    with pytest.raises(ValueError, match=r"demo_1/obs/eye_in_hand_image must be uint8 \(4, height"):
        environment("robomimic", path)


def test_a_small_file_that_stands_for_gigabytes_is_refused(tmp_path):
    with h5py.File(tmp_path / "large.hdf5", "w") as file:  # nothing is written: chunks are made when they are
        for camera in ("a", "b"):
            shape = (300_000, 84, 84, 3)
            file.create_dataset(f"data/demo_0/obs/{camera}_image", shape, "u1", chunks=(1, 84, 84, 3))
    with pytest.raises(ValueError, match=r"its frames must take at most 8 GB, got 11.8 GB: set demonst"):
        environment("robomimic", tmp_path / "large.hdf5")
