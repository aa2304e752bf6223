"""Embeddings: files of every kind, pieces of every size, and what is refused."""

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isojepa.certificates import embeddings as module
from isojepa.certificates.embeddings import Embeddings, real_array
from isojepa.data.array_files import read_array, read_named


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "h": rng.standard_normal((101, 3)),
        "h_next": rng.standard_normal((101, 3)),
        "z": np.eye(101)[:, :2],
    }


def rows(chunks):
    return np.concatenate([chunk.h for chunk in chunks])


def test_chunks_are_all_rows_in_order_and_end_at_the_cuts(arrays, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 80)
    embeddings = Embeddings(arrays["h"], arrays["h_next"], arrays["z"])
    chunks = list(embeddings.chunks((10, 50, 77)))
    assert np.array_equal(rows(chunks), arrays["h"])
    assert np.array_equal(np.concatenate([chunk.h_next for chunk in chunks]), arrays["h_next"])
    assert [chunk.start for chunk in chunks] == list(np.cumsum([0] + [len(chunk) for chunk in chunks])[:-1])
    assert {10, 50, 77} <= {chunk.start for chunk in chunks}
    assert max(len(chunk) for chunk in chunks) <= 32


def test_an_array_on_the_disk_is_read_in_pieces_and_gives_the_same(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 60)
    np.save(tmp_path / "h.npy", arrays["h"])
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["run/h"] = arrays["h"]
    on_disk = read_array(tmp_path / "h.npy"), read_array(tmp_path / "h.h5::run/h")
    assert isinstance(on_disk[0], np.memmap)
    for value in (*on_disk, torch.from_numpy(arrays["h"]), np.asfortranarray(arrays["h"])):
        embeddings = Embeddings(value)
        assert np.array_equal(rows(embeddings.chunks()), arrays["h"])
        assert np.array_equal(rows(embeddings.chunks()), arrays["h"])  # a second pass reads again
        assert np.array_equal(embeddings.some(7).h, arrays["h"][[0, 17, 33, 50, 67, 83, 100]])
        assert np.array_equal(embeddings.whole(), arrays["h"])


def test_a_file_opened_to_be_changed_keeps_its_changes(tmp_path):
    np.save(tmp_path / "h.npy", np.ones((50, 2)))
    for mode in ("r+", "c"):
        array = np.load(tmp_path / "h.npy", mmap_mode=mode)
        array[3] = 7.0
        assert rows(Embeddings(array).chunks())[3, 0] == 7.0
        assert array[3, 0] == 7.0


def test_half_precision_and_integers_are_read_exactly():
    values = np.arange(12).reshape(6, 2)
    for value in (
        values,
        values.astype(np.float16),
        torch.from_numpy(values).bfloat16(),
        values.astype(np.uint8),
    ):
        assert np.array_equal(rows(Embeddings(value).chunks()), values)


def test_rows_with_nan_are_counted_and_refused_or_left_out_of_every_array(arrays):
    arrays["h"][3, 1] = np.nan
    arrays["h_next"][5] = np.inf
    arrays["z"][[5, 9]] = -np.inf
    with pytest.raises(
        ValueError, match=r"embeddings must be finite, got NaN or Inf in 1 of 101 samples: .*drop"
    ):
        list(Embeddings(arrays["h"], arrays["h_next"], arrays["z"]).chunks())
    with pytest.raises(ValueError, match="latents must be finite, got NaN or Inf in 2 of 101"):
        list(Embeddings(np.ones((101, 2)), z=arrays["z"]).chunks())
    dropping = Embeddings(arrays["h"], arrays["h_next"], arrays["z"], drop=True)
    left = np.delete(np.arange(101), [3, 5, 9])
    chunks = list(dropping.chunks((4, 60)))
    assert np.array_equal(rows(chunks), arrays["h"][left])
    assert np.array_equal(np.concatenate([chunk.z for chunk in chunks]), arrays["z"][left])
    assert dropping.dropped == 3
    assert len(dropping.some(1000)) == 98


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


def test_masked_numbers_are_missing(arrays):
    masked = np.ma.masked_array(arrays["h"], mask=np.zeros((101, 3), bool))
    masked[7, 1] = np.ma.masked
    with pytest.raises(ValueError, match="embeddings must be finite, got NaN or Inf in 1 of 101"):
        list(Embeddings(masked).chunks())
    kept = rows(Embeddings(masked, drop=True).chunks())
    np.testing.assert_array_equal(kept, np.delete(arrays["h"], 7, axis=0))


def test_latents_of_the_second_view_are_checked_like_all_others(arrays):
    bad = arrays["z"].copy()
    bad[3] = np.nan
    with pytest.raises(ValueError, match="latents_next must be finite, got NaN or Inf in 1 of 101"):
        list(Embeddings(arrays["h"], arrays["h_next"], arrays["z"], bad).chunks())
    with pytest.raises(ValueError, match=r"latents of both views must have one shape, got \(101, 2\) and"):
        Embeddings(arrays["h"], arrays["h_next"], arrays["z"], bad[:, :1])
    with pytest.raises(ValueError, match="latents_next goes with latents"):
        Embeddings(arrays["h"], arrays["h_next"], z_next=bad)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(9, 2) > 0, "must hold real numbers, got torch.bool"),
        (torch.ones(9, 2).to_sparse(), "must be a dense tensor"),
        (torch.ones(9, 2, device="meta"), "got one without data"),
    ],
    ids=["bool", "sparse", "meta"],
)
def test_tensors_without_plain_numbers_are_refused(tensor, message):
    with pytest.raises(ValueError, match=message):
        Embeddings(tensor)


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([["a"]]), "h must hold real numbers"),
        (np.zeros(3), r"h must be \(samples, dim\), got shape \(3,\)"),
        (np.zeros((0, 2)), "got shape"),
        (np.array([[1.0], [np.nan]]), "NaN or Inf in 1 of 2 samples"),
        (np.array([[1e60]]), "below 1e"),
    ],
    ids=["text", "axis", "empty", "nan", "huge"],
)
def test_bad_arrays_are_named(value, message):
    with pytest.raises(ValueError, match=message):
        real_array("h", value, "samples, dim")
