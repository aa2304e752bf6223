"""Files that users bring: tensors of torch, Parquet, and CSV as pandas writes it."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isojepa.data.array_files import DataWarning, read_array, read_embeddings, read_named

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


def test_csv_with_and_without_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("h0,h1,h_next0,h_next1,z1,z2\n1,2,3,4,5,6\n7,8,9,10,11,12\n")
    named = read_named(tmp_path / "a.csv")
    assert named["h"].tolist() == [[1, 2], [7, 8]]
    assert named["h_next"].tolist() == [[3, 4], [9, 10]]
    assert named["z"].tolist() == [[5, 6], [11, 12]]
    (tmp_path / "b.csv").write_text("\ufeff1;2.5;-3e2\n4;;6\n\n")
    assert np.array_equal(read_array(tmp_path / "b.csv"), [[1, 2.5, -300], [4, np.nan, 6]], equal_nan=True)
    (tmp_path / "c.tsv").write_text('"x"\t"y"\n1\t2\n3\t4\n')
    assert read_array(tmp_path / "c.tsv::y").tolist() == [[2], [4]]
    (tmp_path / "d.txt").write_text("1 2\n3 4\n")
    assert read_array(tmp_path / "d.txt").tolist() == [[1, 2], [3, 4]]


def test_strange_tables_are_refused(tmp_path):
    for text, message in {
        "": "it holds no rows",
        "1,2\n3\n": "row 2 has 1 columns where the first has 2",
        "a,b\n1,2\n1,2,3\n": "row 3 has 3 columns where the first has 2",
        "a,b\n1,x\n": "could not convert string to float",
    }.items():
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=message):
            read_named(tmp_path / "a.csv")


def test_arrays_of_any_name_are_found_by_it(tmp_path):
    save_file({"first": torch.ones(4, 2), "second": torch.zeros(4, 2)}, tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", np.ones((4, 2)), np.zeros((4, 2)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/first"], file["deep/second"] = np.ones((4, 2)), np.zeros((4, 2))
    for file, names in (
        ("a.safetensors", ("first", "second")),
        ("a.npz", ("arr_0", "arr_1")),
        ("a.h5", ("deep/first", "deep/second")),
    ):
        with pytest.raises(
            ValueError, match=f"holds {names[0]}, {names[1]}, and it is not clear .*::{names[0]}"
        ):
            read_named(tmp_path / file)
        with pytest.raises(ValueError, match=r"must hold one array, got .*name one as"):
            read_array(tmp_path / file)
        with pytest.raises(ValueError, match=f"array name must be one of .*{names[1]}.* got 'third'"):
            read_array(f"{tmp_path / file}::third")
        assert float(read_array(f"{tmp_path / file}::{names[0]}")[0, 0]) == 1
        assert float(read_named(f"{tmp_path / file}::{names[1]}")["h"][0, 0]) == 0
    np.savez(tmp_path / "one.npz", whatever=np.ones((4, 2)))
    assert read_named(tmp_path / "one.npz")["h"].shape == (4, 2)


def test_damaged_hdf5_is_refused_and_its_absence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.h5").write_bytes(b"no file of this kind")
    with pytest.raises(ValueError, match=r"damaged or not a plain .h5 file"):
        read_named(tmp_path / "a.h5")
    import builtins

    real = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__", lambda name, *rest: _missing() if name == "h5py" else real(name, *rest)
    )
    with pytest.raises(ImportError, match=r"needs h5py: .*pip install -c constraints.txt '\.\[hdf5\]'"):
        read_named(tmp_path / "a.h5")


def _missing():
    raise ImportError("no h5py")


def test_files_of_another_kind_than_their_name_and_names_with_colons(tmp_path, recwarn):
    np.save(tmp_path / "a::b.npy", np.eye(3))
    assert read_named(tmp_path / "a::b.npy")["h"].shape == (3, 3)
    assert read_array(f"{tmp_path / 'a::b.npy'}::h").shape == (3, 3)
    (tmp_path / "text.npy").write_text("1,2")
    with pytest.raises(ValueError, match="does not begin like one"):
        read_named(tmp_path / "text.npy")
    (tmp_path / "a::b.npy").rename(tmp_path / "array.npz")
    with pytest.raises(ValueError, match="of another kind"):
        read_named(tmp_path / "array.npz")
    (tmp_path / "head.csv").write_text("h0,h1\n")
    with pytest.raises(ValueError, match="a header and no rows"):
        read_named(tmp_path / "head.csv")
    assert not len(recwarn)
