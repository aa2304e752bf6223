import io
import zipfile

import numpy as np
import pytest

from isojepa.data.images import open_images, splits
from tests.data.images.files import noise

IMAGES = np.stack([noise(6, 5, seed=seed) for seed in range(4)])


def test_labels_lie_beside_images(tmp_path):
    np.save(tmp_path / "train_images.npy", IMAGES)
    np.save(tmp_path / "train_labels.npy", np.array([1, 0, 1, 0]))
    np.save(tmp_path / "test_images.npy", IMAGES[:1])
    assert splits(tmp_path) == ("train", "test")
    assert open_images(tmp_path).labels.tolist() == [1, 0, 1, 0]
    assert open_images(tmp_path, split="test").labels is None


def test_an_npz_file_has_images_labels_and_classes(tmp_path):
    np.savez(tmp_path / "d.npz", images=IMAGES, labels=[[1], [0], [1], [0]], classes=["cat", "dog"])
    pictures = open_images(tmp_path / "d.npz")
    assert pictures.classes == ("cat", "dog")
    assert pictures.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("names", ["{0}_images {0}_labels", "x_{0} y_{0}"])
def test_an_npz_file_may_hold_splits(tmp_path, names):
    arrays = {}
    for split, count in (("train", 4), ("test", 2)):
        images, labels = names.format(split).split()
        arrays |= {images: IMAGES[:count], labels: np.arange(count) % 2}
    np.savez(tmp_path / "d.npz", **arrays)
    assert splits(tmp_path / "d.npz") == ("train", "test")
    assert len(open_images(tmp_path / "d.npz")) == 4
    assert len(open_images(tmp_path, split="test")) == 2
    with pytest.raises(ValueError, match=r"split must be one that .* has \(train, test\), got 'val'"):
        open_images(tmp_path, split="val")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": IMAGES}, "must hold images, or x, got pictures"),
        ({"images": IMAGES.astype(float)}, "uint8"),
        ({"images": IMAGES, "labels": [0, 1]}, "4 whole numbers"),
        ({"images": IMAGES, "labels": [0, 1, 2, 0], "classes": ["a", "b"]}, "below the 2 classes, got 2"),
        ({"images": np.array([None])}, "cannot be read|allow_pickle"),
    ],
)
def test_what_an_npz_file_must_hold_is_said(tmp_path, arrays, message):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        open_images(tmp_path / "d.npz")


@pytest.mark.parametrize("name", ["d.npz", "d.npy"])
def test_damaged_files_are_an_error(tmp_path, name):
    path = tmp_path / name
    (np.save if name.endswith("npy") else np.savez)(path, IMAGES)
    content = path.read_bytes()
    for end in (0, 5, 40, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"d\.np"):
            open_images(path)


def test_a_small_file_that_would_expand_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("isojepa.io.MAX_EXPANDED_BYTES", 1 << 16)
    np.savez_compressed(tmp_path / "d.npz", images=np.zeros((400, 64, 64), dtype=np.uint8))
    with pytest.raises(ValueError, match="must expand to at most"):
        open_images(tmp_path / "d.npz")


@pytest.mark.parametrize("shape", [(1 << 20, 1 << 10, 1 << 10), (5, 6, 5)])
def test_a_header_that_declares_more_than_the_file_holds_is_refused(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    content = header.getvalue() + IMAGES.tobytes()[:100]
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("images.npy", content)
    with pytest.raises(
        ValueError, match=r"d.npz cannot be read as pictures: .*has shape .* but has 100 bytes"
    ):
        open_images(tmp_path / "d.npz")
    (tmp_path / "d.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"d.npy is no whole npy file"):
        open_images(tmp_path / "d.npy")


@pytest.mark.parametrize("name", ["d.npz", "d.npy"])
def test_flipped_bytes_give_pictures_or_an_error_that_names_the_file(tmp_path, name):
    path, rng = tmp_path / name, np.random.default_rng(0)
    if name.endswith("npy"):
        np.save(path, IMAGES)
    else:
        np.savez_compressed(path, images=IMAGES)
    content = path.read_bytes()
    for _ in range(150):
        damaged = bytearray(content)
        damaged[rng.integers(0, len(content))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            assert len(open_images(path))
        except ValueError as error:
            told = str(error)
            assert name in told
