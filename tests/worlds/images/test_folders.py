import os

import pytest
import torch

from isojepa.worlds.images import PicturesWarning, open_pictures
from isojepa.worlds.images.cache import natural
from tests.worlds.images.files import classes, encoded, noise, write


def opened(tmp_path, **options):
    return open_pictures(tmp_path / "data", cache=tmp_path / "cache", **options)


def test_classes_are_folders_in_natural_order(tmp_path):
    classes(tmp_path / "data", {"10": 1, "9": 2, "b": 1, "A": 1})
    pictures = opened(tmp_path)
    assert pictures.classes == ("9", "10", "A", "b")
    assert pictures.labels.tolist() == [0, 0, 1, 2, 3]


def test_files_are_in_natural_order(tmp_path):
    for number in (10, 9, 1):
        write(tmp_path / "data" / f"img{number}.png", noise(2, 2))
    assert opened(tmp_path).names == ("img1.png", "img9.png", "img10.png")


def test_the_natural_order_is_total_whatever_the_digits():
    names = ["a" + "9" * 5_000, "a01", "a1", "A1", "", "1a", "²", "a1b2"]
    assert sorted(sorted(names, key=natural), key=natural) == sorted(reversed(names), key=natural)


def test_a_flat_folder_has_no_labels(tmp_path):
    write(tmp_path / "data" / "1.png", noise(2, 2))
    pictures = opened(tmp_path)
    assert pictures.labels is None
    assert pictures.classes == ()


def test_folders_within_a_class_belong_to_it(tmp_path):
    write(tmp_path / "data" / "cat" / "2020" / "may" / "1.JPG", noise(9, 9), "JPEG")
    write(tmp_path / "data" / "dog" / "1.png", noise(9, 9))
    pictures = opened(tmp_path)
    assert pictures.classes == ("cat", "dog")
    assert pictures.names == ("cat/2020/may/1.JPG", "dog/1.png")


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
    with pytest.warns(PicturesWarning, match="one class, 'only'"):
        pictures = opened(tmp_path)
    assert pictures.labels is None
    assert len(pictures) == 3


def test_a_class_whose_files_are_all_corrupt_keeps_its_name_and_number(tmp_path):
    classes(tmp_path / "data", {"a": 2, "c": 2})
    write(tmp_path / "data" / "b" / "1.png", b"nothing")
    with pytest.warns(PicturesWarning, match="1 of 5"):
        pictures = opened(tmp_path)
    assert pictures.classes == ("a", "b", "c")
    assert pictures.labels.tolist() == [0, 0, 2, 2]


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
    with pytest.warns(PicturesWarning, match=r"3 of 6.*loop.*a/9\.png.*b/3\.png"):
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


def test_every_kind_of_file_at_once(tmp_path):
    data = tmp_path / "data"
    write(data / "1.png", noise(5, 4, channels=1))
    write(data / "2.png", noise(5, 4, channels=4))
    write(data / "3.jpg", noise(5, 4), "JPEG")
    write(data / "4.png", noise(1, 1))
    write(data / "5.png", noise(5, 4, channels=1).astype("uint16") * 257)
    write(data / "6.gif", noise(5, 4, channels=1), "GIF")
    write(data / "7.png", encoded(noise(50, 50))[:1_000])
    with pytest.warns(PicturesWarning, match=r"1 of 7.*7\.png"):
        pictures = opened(tmp_path)
    found = pictures.read(torch.tensor([4, 3, 0]))
    assert [tuple(picture.shape) for picture in found] == [(3, 5, 4), (3, 1, 1), (3, 5, 4)]
    assert torch.equal(found[0], found[2])  # v * 257 in 16 bits is v in eight


def test_a_file_that_goes_while_others_are_decoded_is_counted(tmp_path):
    from isojepa.worlds.images.cache import cached
    from isojepa.worlds.images.formats import folder_origin

    classes(tmp_path / "data", {"a": 2, "b": 2})
    origin = folder_origin(tmp_path / "data")
    (tmp_path / "data" / "a" / "0.png").unlink()
    with pytest.warns(PicturesWarning, match="does not exist"):
        assert len(cached(origin, tmp_path / "cache")) == 3
