import gzip
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from isojepa.data.images import open_images, splits
from tests.data.images.files import noise

IMAGES = np.stack([noise(6, 5, channels=1, seed=seed) for seed in range(4)])


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture(params=["", ".gz"])
def data(request, tmp_path):
    pack = gzip.compress if request.param else bytes
    for split, count in (("train", 4), ("t10k", 2)):
        (tmp_path / f"{split}-images-idx3-ubyte{request.param}").write_bytes(pack(idx(IMAGES[:count])))
        labels = np.arange(count) % 2
        (tmp_path / f"{split}-labels-idx1-ubyte{request.param}").write_bytes(pack(idx(labels)))
    return tmp_path


def test_a_folder_has_train_and_test_with_labels(data):
    assert splits(data) == ("train", "test")
    assert open_images(data).labels.tolist() == [0, 1, 0, 1]
    test = open_images(data, split="test")
    assert (test.read(torch.arange(2))[:, 0].numpy() == IMAGES[:2]).all()


def test_a_file_that_is_cut_or_of_another_kind_is_an_error(data):
    (path,) = data.glob("train-images*")
    content = path.read_bytes()
    for damaged in (b"", content[:2], content[:10], content[:-1], content + b"x", b"another kind of file"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is no whole IDX file"):
            open_images(data)


def fashion():
    """The folder of Debian's package, wherever it is."""
    try:
        told = subprocess.run(
            ["dpkg", "-L", "dataset-fashion-mnist"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        here = Path(__file__).parents[3] / "data" / "fashion-mnist"  # as tools/data lays it out
        return here if here.is_dir() else None
    return next(Path(line).parent for line in told.stdout.splitlines() if "train-images" in line)


def test_fashion_mnist_is_what_its_authors_say():
    folder = fashion()
    if folder is None:
        pytest.skip(
            "neither Debian's dataset-fashion-mnist nor data/fashion-mnist is here: tools/data fetches it"
        )
    train, test = open_images(folder, split="train"), open_images(folder, split="test")
    assert (len(train), len(test), train.shape) == (60_000, 10_000, (1, 28, 28))
    assert torch.bincount(train.labels).tolist() == [6_000] * 10
    assert torch.bincount(test.labels).tolist() == [1_000] * 10
    assert abs(train.mean[0] - 0.2860) < 0.005  # of all pixels, as many have published it
    assert abs(train.std[0] - 0.3530) < 0.005
