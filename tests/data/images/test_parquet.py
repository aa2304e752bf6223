import json

import pytest
import torch

from isojepa.data.images import ImagesWarning, open_images, splits
from tests.data.images.files import encoded, noise

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'isojepa[data]'")
parquet = pytest.importorskip("pyarrow.parquet")

CONTENT = [encoded(noise(6, 5, seed=seed)) for seed in range(6)]


def table(path, images, metadata=None, group=2, **columns):
    columns = {"image": images, **columns}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), path, row_group_size=group)
    return path


def structs(contents):
    return [{"bytes": content, "path": f"{number}.png"} for number, content in enumerate(contents)]


def opened(tmp_path, name="", **options):
    return open_images(tmp_path / name, cache=tmp_path / "cache", **options)


def test_structs_and_binary_give_the_same_pictures(tmp_path):
    table(tmp_path / "a.parquet", structs(CONTENT), label=[0, 1, 2, 0, 1, 2])
    table(tmp_path / "b.parquet", CONTENT, label=[0, 1, 2, 0, 1, 2])
    first, second = opened(tmp_path, "a.parquet"), opened(tmp_path, "b.parquet")
    assert first.labels.tolist() == second.labels.tolist() == [0, 1, 2, 0, 1, 2]
    for number, pair in enumerate(zip(*(p.read(torch.arange(6)) for p in (first, second)), strict=True)):
        assert all((picture.movedim(0, -1).numpy() == noise(6, 5, seed=number)).all() for picture in pair)


def test_files_of_a_split_follow_each_other_as_the_hubs_lay_them_out(tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(2):
        part = CONTENT[2 * number : 2 * number + 2]
        table(tmp_path / "data" / f"train-0000{number}-of-00002.parquet", structs(part), label=["b", "a"])
    table(tmp_path / "data" / "test-00000-of-00001.parquet", structs(CONTENT[4:]), label=["a", "b"])
    assert splits(tmp_path) == ("train", "test")
    train = open_images(tmp_path, cache=tmp_path.parent / "cache")
    assert (len(train), train.classes, train.labels.tolist()) == (4, ("a", "b"), [1, 0, 1, 0])
    assert train.names[2] == "train-00001-of-00002.parquet:0"
    assert len(open_images(tmp_path, split="test", cache=tmp_path.parent / "cache")) == 2


def test_names_of_the_classes_are_those_of_the_hub(tmp_path):
    notes = {"info": {"features": {"label": {"names": ["tench", "goldfish"], "_type": "ClassLabel"}}}}
    metadata = {"huggingface": json.dumps(notes)}
    table(tmp_path / "a.parquet", structs(CONTENT), metadata, label=[1] * 6)
    pictures = opened(tmp_path, "a.parquet")
    assert (pictures.classes, pictures.labels.tolist()) == (("tench", "goldfish"), [1] * 6)


def test_a_damaged_group_of_rows_is_counted_and_the_next_one_read(tmp_path):
    path = table(tmp_path / "a.parquet", CONTENT)
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes([255]) * column.total_compressed_size
    path.write_bytes(content)
    with pytest.warns(ImagesWarning, match="2 of 6 .*its group of rows is damaged"):
        pictures = opened(tmp_path, "a.parquet")
    assert [name[-1] for name in pictures.names] == ["0", "1", "4", "5"]


def test_a_cut_file_is_an_error_before_anything_is_decoded(tmp_path):
    path = table(tmp_path / "a.parquet", CONTENT)
    for end in (0, 3, 100, path.stat().st_size - 5):
        path.write_bytes(path.read_bytes()[:end])
        with pytest.raises(ValueError, match=r"a\.parquet is no whole Parquet file"):
            opened(tmp_path, "a.parquet")
    assert not (tmp_path / "cache").exists()


def test_a_file_without_pictures_is_an_error(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1.0], "label": [0]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"must have a column of pictures.*x: double"):
        opened(tmp_path, "a.parquet")
