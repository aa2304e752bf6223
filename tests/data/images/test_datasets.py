import gc

import numpy as np
import pytest
import torch

from isojepa.data.images import ImagesWarning, dataset_images, open_images
from tests.data.images.files import PIL, classes, noise

PIXELS = [noise(6, 5, seed=seed) for seed in range(4)]


class Items:
    classes = ("cat", "dog")

    def __init__(self, items):
        self.items, self.asked = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        self.asked += 1
        if isinstance(self.items[number], Exception):
            raise self.items[number]
        return self.items[number]


def chw(pixels):
    return torch.from_numpy(pixels).movedim(-1, 0)


@pytest.mark.parametrize(
    "item",
    [
        lambda pixels, label: (PIL.fromarray(pixels), label),
        lambda pixels, label: (chw(pixels), torch.tensor(label)),
        lambda pixels, label: (chw(pixels).float() / 255, np.int64(label)),
        lambda pixels, label: [pixels, label, "more"],
        lambda pixels, label: {"image": PIL.fromarray(pixels), "label": label},
    ],
)
def test_pictures_arrays_and_tensors_give_the_same(item):
    pictures = open_images(Items([item(pixels, number % 2) for number, pixels in enumerate(PIXELS)]))
    assert (pictures.classes, pictures.labels.tolist()) == (("cat", "dog"), [0, 1, 0, 1])
    assert (pictures.read(torch.arange(4)).movedim(1, -1).numpy() == np.stack(PIXELS)).all()


def test_items_that_cannot_be_read_are_skipped_and_counted():
    items = [(PIXELS[0], 0), OSError("truncated"), (chw(PIXELS[1]).float(), 1), ("text", 1), (PIXELS[3], 1)]
    with pytest.warns(ImagesWarning, match=r"3 of 5 .*item 1 \(OSError: truncated\).*normalization"):
        pictures = open_images(Items(items))
    assert (pictures.labels.tolist(), pictures.skipped) == ([0, 1], 3)


def test_with_a_key_it_is_decoded_once(tmp_path):
    items = Items([(pixels, number % 2) for number, pixels in enumerate(PIXELS)])
    for _ in range(2):
        pictures = dataset_images(items, key="mine, 2026", cache=tmp_path)
        assert (len(pictures), items.asked) == (4, 4)


def test_without_a_key_nothing_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pictures = dataset_images([(pixels, 0) for pixels in PIXELS[:1]] + [(PIXELS[1], 1)])
    assert list(tmp_path.iterdir())
    del pictures
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [7, None, 1.5, {"a": 1}])
def test_other_things_are_an_error(value):
    with pytest.raises(ValueError, match="data must be a folder of pictures"):
        open_images(value)


def test_a_torchvision_data_set_is_one(tmp_path):
    datasets = torchvision_datasets()
    folder = classes(tmp_path / "data", {"a": 2, "b": 3})
    theirs, ours = (
        open_images(datasets.ImageFolder(str(folder))),
        open_images(folder, cache=tmp_path / "cache"),
    )
    assert (theirs.classes, theirs.labels.tolist()) == (ours.classes, ours.labels.tolist())
    assert torch.equal(theirs.read(torch.arange(5)), ours.read(torch.arange(5)))


def torchvision_datasets():
    try:
        from torchvision import datasets
    except (ImportError, RuntimeError) as error:  # a build for another torch
        pytest.skip(f"torchvision cannot be imported: {error}")
    return datasets
