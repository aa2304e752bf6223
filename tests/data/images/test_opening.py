import os
import sys

import numpy as np
import pytest

from isojepa.data.images import open_images, splits
from tests.data.images.files import classes, noise, write


def test_a_split_is_a_folder_by_one_of_its_names(tmp_path):
    classes(tmp_path / "data" / "training", {"a": 3, "b": 1})
    classes(tmp_path / "data" / "valid", {"a": 1, "b": 1})
    options = {"cache": tmp_path / "cache"}
    assert splits(tmp_path / "data") == ("train", "val")
    assert len(open_images(tmp_path / "data", **options)) == 4
    assert len(open_images(tmp_path / "data", split="train", **options)) == 4
    for name in ("val", "validation", "valid"):
        assert len(open_images(tmp_path / "data", split=name, **options)) == 2
    with pytest.raises(ValueError, match=r"split must be one that .* has \(train, val\), got 'test'"):
        open_images(tmp_path / "data", split="test", **options)


def test_data_without_splits_refuse_one(tmp_path):
    classes(tmp_path / "data", {"a": 1, "b": 1})
    with pytest.raises(ValueError, match=r"has \(none\), got 'test'"):
        open_images(tmp_path / "data", split="test", cache=tmp_path / "cache")


@pytest.mark.parametrize("name", ["notes.txt", "one.png", "noending"])
def test_a_file_of_another_kind_is_refused_with_what_is_taken(tmp_path, name):
    write(tmp_path / name, noise(2, 2))
    with pytest.raises(
        ValueError, match=rf"data must be a folder of pictures.*\.parquet.*got the file .*{name}"
    ):
        open_images(tmp_path / name)


def test_files_of_several_kinds_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", noise(2, 2))
    write(tmp_path / "b.tar", b"")
    with pytest.raises(ValueError, match=r"files of one kind, got a\.npy \(npy\), b\.tar \(shard\)"):
        open_images(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="must be a plain file, got a pipe"):
        open_images(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("library", "name", "command"),
    [("PIL", "data", ".[vision]"), ("pyarrow", "a.parquet", ".[data]")],
)
def test_a_missing_library_is_named_with_the_command_that_brings_it(
    tmp_path, monkeypatch, library, name, command
):
    classes(tmp_path / "data", {"a": 1, "b": 1})
    write(tmp_path / "a.parquet", b"")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError) as told:
        open_images(tmp_path / name, cache=tmp_path / "cache")
    assert f"pip install -c constraints.txt '{command}'" in str(told.value)
