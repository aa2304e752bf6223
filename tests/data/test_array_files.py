"""Files that users bring: tensors of torch, Parquet, and CSV as pandas writes it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isojepa.data.array_files import DataWarning, read_embeddings, read_named

H = np.random.default_rng(0).normal(size=(60, 3))


def values(arrays: dict) -> dict[str, np.ndarray]:
    return {
        name: value.double().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for name, value in arrays.items()
    }


def text(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def row(numbers: np.ndarray) -> str:
    return ",".join(map(repr, map(float, numbers)))


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_a_tensor_is_the_embeddings(tmp_path, suffix):
    torch.save(torch.from_numpy(H), tmp_path / f"h{suffix}")
    assert np.array_equal(values(read_named(tmp_path / f"h{suffix}"))["h"], H)


def test_a_dict_of_tensors_goes_by_name_and_what_is_no_tensor_is_left_out_aloud(tmp_path):
    path = tmp_path / "pairs.pt"
    torch.save({"embeddings": torch.from_numpy(H), "h_next": torch.from_numpy(-H), "epoch": 3}, path)
    with pytest.warns(DataWarning, match="epoch left out"):
        arrays = values(read_named(path))
    assert np.array_equal(arrays["h"], H)
    assert np.array_equal(arrays["h_next"], -H)
    torch.save({"a": torch.from_numpy(H), "b": torch.zeros(2)}, path)
    assert np.array_equal(np.asarray(read_embeddings(f"{path}::a")), H)


class Planted:
    """What runs code when it is unpickled: makes the file it names."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_what_must_be_unpickled_is_refused_and_does_not_run(tmp_path):
    trap = tmp_path / "trap"
    torch.save({"h": Planted(trap)}, tmp_path / "bad.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    for name in ("bad.pt", "model.pt"):
        with pytest.raises(ValueError, match=r"would have to be unpickled.*torch\.save\(\{'h': h"):
            read_named(tmp_path / name)
    assert not trap.exists()


def test_old_damaged_and_other_torch_files_say_what_they_are(tmp_path):
    torch.save(torch.zeros(3, 2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"format since 1\.6"):
        read_named(tmp_path / "old.pt")
    for name, content in (("junk.pt", b"hello"), ("empty.pt", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            read_named(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="got a list"):
        read_named(tmp_path / "list.pt")


@pytest.mark.parametrize("index", [range(60), range(100, 160), [f'"row {i}, of 60"' for i in range(60)]])
@pytest.mark.parametrize("names", ["h0,h1,h2", "0,1,2"])
def test_the_index_of_a_pandas_csv_is_left_out_aloud(tmp_path, index, names):
    path = text(tmp_path / "h.csv", f",{names}", [f"{i},{row(x)}" for i, x in zip(index, H, strict=True)])
    with pytest.warns(DataWarning, match="first column left out"):
        arrays = read_named(path)
    assert list(arrays) == ["h"]
    assert np.array_equal(arrays["h"], H)


def test_numbered_columns_without_an_index_are_a_header_and_numbers_are_not(tmp_path):
    path = text(tmp_path / "h.csv", "0,1,2", list(map(row, H)))
    assert np.array_equal(read_named(path)["h"], H)
    whole = text(tmp_path / "whole.csv", "0,1", ["2,3", "4,5"])  # may be a row like the others
    assert read_named(whole)["h"].tolist() == [[0, 1], [2, 3], [4, 5]]
    gap = text(tmp_path / "gap.csv", ",0.5", ["1,0.25"])  # no names: a first row with a gap
    assert read_named(gap)["h"].shape == (2, 2)


def test_pandas_itself_writes_what_we_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(H)
    table.to_csv(tmp_path / "h.csv")
    table.set_axis(["h0", "h1", "h2"], axis=1).sample(frac=1).sort_index().to_csv(tmp_path / "g.csv", sep=";")
    with pytest.warns(DataWarning):
        assert np.array_equal(read_named(tmp_path / "h.csv")["h"], H)
    with pytest.warns(DataWarning):
        assert np.array_equal(read_named(tmp_path / "g.csv")["h"], H)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "h.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"pip install -c constraints.txt '\.\[data\]'"):
        read_named(tmp_path / "h.parquet")


def parquet(path: Path, columns: dict, rows: int = 7) -> Path:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(arrow.table(columns), path, row_group_size=rows)
    return path


def test_parquet_columns_of_numbers_and_of_lists(tmp_path):
    plain = parquet(tmp_path / "a.parquet", {f"h{i}": H[:, i] for i in range(3)} | {"z": H[:, 0]})
    lists = parquet(tmp_path / "b.parquet", {"embeddings": H.tolist(), "latents": (-H).tolist()})
    assert np.array_equal(values(read_named(plain))["h"], H)
    assert np.array_equal(values(read_named(plain))["z"], H[:, :1])
    assert np.array_equal(values(read_named(lists))["h"], H)
    assert np.array_equal(values(read_named(lists))["z"], -H)


def test_parquet_that_holds_no_numbers_says_which_column(tmp_path):
    words = parquet(tmp_path / "a.parquet", {"h": H.tolist(), "name": ["a"] * 60})
    with pytest.raises(ValueError, match="string in column 'name': leave it out"):
        read_named(words)
    uneven = parquet(tmp_path / "b.parquet", {"h": [[1.0] * (1 + i // 40) for i in range(60)]})
    with pytest.raises(ValueError, match="lists of one length"):
        np.asarray(read_named(uneven)["h"])
    numbered = parquet(tmp_path / "c.parquet", {"h": H.tolist(), "__index_level_0__": list(range(60))})
    with pytest.warns(DataWarning, match="__index_level_0__ left out"):
        assert list(read_named(numbered)) == ["h"]
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"d\.parquet is damaged"):
        read_named(tmp_path / "d.parquet")
