import multiprocessing
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from isojepa.data.images import ImagesWarning, default_cache, open_images
from isojepa.data.images import cache as filling_module
from tests.data.images.files import PIL, classes, encoded, noise, write

FILES = ["header.json", "pixels.bin", "index.npy", "labels.npy", "names.json"]


@pytest.fixture
def data(tmp_path):
    return classes(tmp_path / "data", {"a": 3, "b": 4})


def folders(cache):
    return sorted(entry.name for entry in cache.iterdir() if entry.is_dir())


def everything(pictures):
    return pictures.read(torch.arange(len(pictures)))


def test_pictures_labels_and_names_come_in_the_order_of_the_files(data, tmp_path):
    pictures = open_images(data, cache=tmp_path / "cache")
    assert pictures.names == ("a/0.png", "a/1.png", "a/2.png", "b/0.png", "b/1.png", "b/2.png", "b/3.png")
    assert pictures.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    for number, picture in enumerate(everything(pictures)):
        assert (picture.movedim(0, -1).numpy() == noise(8, 8, seed=number)).all()
    some = torch.tensor([5, 0, 5])
    assert torch.equal(pictures.read(some), everything(pictures)[some])


def test_mean_and_std_are_those_of_all_pixels(tmp_path):
    sizes = [(3, 5), (8, 2), (1, 1)]
    arrays = [noise(*size, seed=seed) for seed, size in enumerate(sizes)]
    for number, array in enumerate(arrays):
        write(tmp_path / "data" / f"{number}.png", array)
    pictures = open_images(tmp_path / "data", cache=tmp_path / "cache")
    pixels = np.concatenate([array.reshape(-1, 3) for array in arrays]) / 255
    np.testing.assert_allclose(pictures.mean, pixels.mean(0), rtol=1e-12)
    np.testing.assert_allclose(pictures.std, pixels.std(0), rtol=1e-9)
    assert pictures.shape is None
    assert [tuple(picture.shape[1:]) for picture in everything(pictures)] == sizes


def test_it_is_made_once(data, tmp_path):
    first = open_images(data, cache=tmp_path / "cache")
    made = (first.folder / "pixels.bin").stat().st_mtime_ns
    second = open_images(data, cache=tmp_path / "cache")
    assert second.folder == first.folder
    assert (second.folder / "pixels.bin").stat().st_mtime_ns == made


def test_changed_data_make_a_new_one(data, tmp_path):
    cache = tmp_path / "cache"
    open_images(data, cache=cache)
    write(data / "a" / "0.png", noise(8, 8, seed=99))
    os.utime(data / "a" / "0.png", ns=(1, 1))
    changed = open_images(data, cache=cache)
    assert (everything(changed)[0].movedim(0, -1).numpy() == noise(8, 8, seed=99)).all()
    write(data / "b" / "9.png", noise(8, 8))
    assert len(open_images(data, cache=cache)) == 8
    (data / "b").rename(data / "c")
    assert open_images(data, cache=cache).classes == ("a", "c")
    assert open_images(data, cache=cache, largest=4).shape == (3, 4, 4)
    assert len(folders(cache)) == 5


def test_files_alike_in_name_size_and_time_are_told_apart_by_their_place(tmp_path):
    for name, value in (("one", 0), ("two", 200)):
        path = write(tmp_path / name / "0.bmp", np.full((4, 4), value, dtype=np.uint8), "BMP")
        os.utime(path, ns=(1, 1))
    for name, value in (("one", 0), ("two", 200)):
        found = everything(open_images(tmp_path / name, cache=tmp_path / "cache"))
        assert found.unique().tolist() == [value]


@pytest.mark.parametrize("harm", ["cut", "empty", "removed", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_cache_is_made_anew(data, tmp_path, name, harm):
    before = open_images(data, cache=tmp_path / "cache")
    kept, path = everything(before), before.folder / name
    content = path.read_bytes()
    path.unlink()
    if harm == "folder":
        path.mkdir()
    elif harm != "removed":
        path.write_bytes({"cut": content[:-3], "empty": b""}[harm])
    after = open_images(data, cache=tmp_path / "cache")
    assert torch.equal(everything(after), kept)
    assert after.names[0] == "a/0.png"
    assert folders(tmp_path / "cache") == [after.folder.name]


def opened(data, cache, start, told):
    start.wait()
    pictures = open_images(data, cache=cache)
    told.put((pictures.folder.stat().st_ino, int(everything(pictures).long().sum())))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_several_processes_at_once_make_one(tmp_path):
    data = classes(tmp_path / "data", {"a": 40, "b": 40}, size=64)
    context = multiprocessing.get_context("fork")  # others take seconds to import
    start, told = context.Barrier(3), context.Queue()
    arguments = (data, tmp_path / "cache", start, told)
    started = [context.Process(target=opened, args=arguments) for _ in range(3)]
    for process in started:
        process.start()
    found = {told.get(timeout=60) for _ in started}
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0, 0, 0]
    pictures = open_images(data, cache=tmp_path / "cache")
    assert found == {(pictures.folder.stat().st_ino, int(everything(pictures).long().sum()))}
    assert len(folders(tmp_path / "cache")) == 1


def test_a_worker_opens_the_file_and_is_not_sent_the_pixels(tmp_path):
    pictures = open_images(classes(tmp_path / "data", {"a": 9, "b": 9}, 64), cache=tmp_path / "cache")
    sent = pickle.dumps(pictures)
    assert len(sent) < 1_000
    assert torch.equal(everything(pickle.loads(sent)), everything(pictures))


def test_a_disk_without_room_is_told_before_it_is_full(data, tmp_path, monkeypatch):
    monkeypatch.setattr(filling_module, "_LOOK", 2)
    monkeypatch.setattr(filling_module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 300}))
    with pytest.raises(ValueError, match=r"must fit on the disk.*largest.*cache"):
        open_images(data, cache=tmp_path / "cache")
    assert folders(tmp_path / "cache") == []


def test_without_a_place_it_lies_in_the_users_cache(data, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert open_images(data).folder.parent == tmp_path / "home" / "isojepa" / "pictures"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says to ignore
    assert default_cache() == Path.home() / ".cache" / "isojepa" / "pictures"


def test_corrupt_files_are_skipped_counted_and_told_once_at_each_opening(data, tmp_path):
    write(data / "a" / "7.png", b"nothing")
    write(data / "b" / "7.jpg", encoded(noise(40, 40), "JPEG")[:400])
    for _ in range(2):
        with pytest.warns(ImagesWarning) as told:
            pictures = open_images(data, cache=tmp_path / "cache")
        assert len(told) == 1
        assert "2 of 9 pictures could not be read" in str(told[0].message)
        assert "a/7.png (it is of no format" in str(told[0].message)
        assert (len(pictures), pictures.skipped) == (7, 2)
        assert pictures.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
        assert [name for name, _ in pictures.reasons] == ["a/7.png", "b/7.jpg"]


def test_only_corrupt_files_are_an_error(tmp_path):
    write(tmp_path / "data" / "1.png", b"nothing")
    with pytest.raises(ValueError, match=r"must hold pictures that can be read, got 1 that cannot.*1\.png"):
        open_images(tmp_path / "data", cache=tmp_path / "cache")


@pytest.mark.parametrize("size", [64, None])
def test_a_compressed_cache_gives_nearly_the_same_pictures_in_less_space(tmp_path, size):
    for number in range(5):
        image = PIL.fromarray(noise(4, 4, seed=number)).resize(
            (size or 50 + number, 64), PIL.Resampling.BICUBIC
        )
        write(tmp_path / "data" / f"{number}.png", image)
    options = {"cache": tmp_path / "cache"}
    plain = open_images(tmp_path / "data", **options)
    packed = open_images(tmp_path / "data", compressed=True, **options)
    assert packed.folder != plain.folder
    assert (packed.mean, packed.std, packed.shape) == (plain.mean, plain.std, plain.shape)
    ids = torch.tensor([3, 0, 4])
    for ours, theirs in zip(packed.read(ids), plain.read(ids), strict=True):
        assert (ours.float() - theirs.float()).abs().mean() < 3
    assert (packed.folder / "pixels.bin").stat().st_size < (plain.folder / "pixels.bin").stat().st_size / 2
