import os

import pytest

from isojepa.data.images import ImagesWarning, open_images
from tests.data.images.files import classes, noise, write


def opened(tmp_path, **options):
    return open_images(tmp_path / "data", cache=tmp_path / "cache", **options)


def test_classes_are_folders_in_natural_order(tmp_path):
    classes(tmp_path / "data", {"10": 1, "9": 2, "b": 1, "A": 1})
    pictures = opened(tmp_path)
    assert pictures.classes == ("9", "10", "A", "b")
    assert pictures.labels.tolist() == [0, 0, 1, 2, 3]


def test_hidden_files_and_other_files_are_passed_over(tmp_path):
    classes(tmp_path / "data", {"a": 1, "b": 1, ".hidden": 2})
    for name in (".1.png", "notes.txt", "Thumbs.db", "noending"):
        write(tmp_path / "data" / "a" / name, b"something")
        write(tmp_path / "data" / name, b"something")
    (tmp_path / "data" / "empty").mkdir()
    pictures = opened(tmp_path)
    assert (len(pictures), pictures.classes, pictures.skipped) == (2, ("a", "b"), 0)


def test_one_class_is_a_set_without_labels_and_that_is_said(tmp_path):
    classes(tmp_path / "data", {"only": 3})
    with pytest.warns(ImagesWarning, match="one class, 'only'"):
        pictures = opened(tmp_path)
    assert pictures.labels is None
    assert len(pictures) == 3


@pytest.mark.parametrize("content", [[], ["notes.txt"], ["sub/notes.txt"]])
def test_a_folder_without_pictures_is_an_error(tmp_path, content):
    (tmp_path / "data").mkdir()
    for name in content:
        write(tmp_path / "data" / name, b"text")
    with pytest.raises(ValueError, match=rf"must hold pictures \(jpg, .*got {len(content)} other"):
        opened(tmp_path)


def test_pictures_beside_classes_are_an_error(tmp_path):
    classes(tmp_path / "data", {"a": 1, "b": 1})
    write(tmp_path / "data" / "1.png", noise(2, 2))
    with pytest.raises(ValueError, match=r"got both: 1\.png beside the folder a"):
        opened(tmp_path)


def test_links_lead_to_files_and_classes_but_not_in_circles(tmp_path):
    classes(tmp_path / "elsewhere", {"a": 2, "b": 1})
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").symlink_to(tmp_path / "elsewhere" / "a")
    write(data / "b" / "1.png", noise(2, 2))
    (data / "b" / "2.png").symlink_to(tmp_path / "elsewhere" / "b" / "0.png")
    (data / "b" / "circle").symlink_to(data)
    assert opened(tmp_path).names == ("a/0.png", "a/1.png", "b/1.png", "b/2.png")


def test_links_that_cannot_be_followed_are_counted_and_named(tmp_path):
    data = tmp_path / "data"
    classes(data, {"a": 2, "b": 1})
    (data / "b" / "3.png").symlink_to(tmp_path / "nowhere.png")
    for itself in (data / "loop", data / "a" / "9.png"):
        itself.symlink_to(itself)
    with pytest.warns(ImagesWarning, match=r"3 of 6.*loop.*a/9\.png.*b/3\.png"):
        images = opened(tmp_path)
    assert images.names == ("a/0.png", "a/1.png", "b/0.png")
    assert images.skipped == 3
    assert images.labels.tolist() == [0, 0, 1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_pipes_are_not_waited_for(tmp_path):
    write(tmp_path / "data" / "1.png", noise(2, 2))
    os.mkfifo(tmp_path / "data" / "2.png")
    (tmp_path / "data" / "3.png").symlink_to("/dev/zero")
    assert len(opened(tmp_path)) == 1
