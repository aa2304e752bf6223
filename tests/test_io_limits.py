"""Files that others made: nothing but plain files, and nothing that expands, without end or by far."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from isojepa import io
from isojepa.cli import main
from isojepa.data import files as archives
from isojepa.data.array_files import read_named
from isojepa.io import (
    open_plain,
    parse_json,
    parse_yaml,
    plain_file,
    read_bytes,
    read_json,
)

BOMB = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)),
    ]
)
KINDS = ["npy", "npz", "csv", "h5", "safetensors"]


def error_of(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 2, captured.out
    assert captured.err.count("\n") == 1
    return captured.err


# --- plain files -------------------------------------------------------------------------------------------


@pytest.fixture(params=["device", "folder"])
def odd(request, tmp_path):
    """Makes a path of a name that is no plain file, and says what it is."""

    def make(name):
        path = tmp_path / name
        if request.param == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        return path, f"must be a plain file, got a {request.param}"

    return make


def test_what_is_no_plain_file_is_refused_before_it_is_read(odd):
    path, message = odd("x")
    for read in (plain_file, open_plain, read_bytes, read_json):
        with pytest.raises(ValueError, match=message):
            read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_in_what_is_no_plain_file_are_refused(kind, odd, capsys):
    path, message = odd(f"h.{kind}")
    if not path.is_dir():
        assert message in error_of(capsys, "certify", path)
        assert message in error_of(capsys, "gaussianity", path)
    with pytest.raises(ValueError, match=message):
        read_named(path)


def test_a_link_to_a_plain_file_is_read(tmp_path):
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_bytes(tmp_path / "b") == b"text"


def test_names_that_no_file_can_have_are_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        plain_file(tmp_path / "none")
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        plain_file(tmp_path / "a\0b")
    with pytest.raises(ValueError, match="cannot be opened: File name too long"):
        plain_file(tmp_path / ("a" * 300))


# --- text --------------------------------------------------------------------------------------------------


def test_a_yaml_of_aliases_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "bomb.yaml").write_text(BOMB)
    assert len(BOMB) < 500
    assert "an alias, *a0, is not taken here" in error_of(capsys, "train", "--config", tmp_path / "bomb.yaml")
    with pytest.raises(ValueError, match="an alias, \\*a, is not taken"):
        parse_yaml(b"a: &a\n  - *a")  # holds itself


UNREADABLE = ["[" * 5000, "{a: " * 5000, "- " * 5000, "!!timestamp x", "!!bool x", "!!int ''", "9" * 5000]
UNREADABLE += ["2001-99-99", "a: b: c", "!!python/object:os.system x", "\0", "? [a]\n: b", "a: 1\na: 2"]


@pytest.mark.parametrize("text", UNREADABLE, ids=range(len(UNREADABLE)))
def test_yaml_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_yaml(text.encode())


NO_JSON = ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "", "{", '{"a": 1, "a": 2}']


@pytest.mark.parametrize("text", NO_JSON, ids=range(len(NO_JSON)))
def test_json_that_cannot_be_read_is_a_value_error(text, tmp_path):
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text.encode())
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="is not a whole JSON file"):
        read_json(tmp_path / "a.json")


# --- what expands ------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(monkeypatch):
    """Bounds of a thousandth, so that bombs are quick to make."""
    monkeypatch.setattr(io, "MAX_EXPANDED_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "MAX_EXPANDED_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "_IN_MEMORY_BYTES", 1 << 18)


@pytest.mark.usefixtures("narrow")
def test_an_npz_bomb_is_refused_before_it_is_expanded(tmp_path, capsys):
    np.savez_compressed(tmp_path / "a.npz", h=np.zeros((200_000, 2)))
    error = error_of(capsys, "certify", tmp_path / "a.npz")
    assert "must expand to at most 1 MB or 100 times its size in the file, got 3.05 MB" in error
    assert "write them with np.savez" in error


@pytest.mark.usefixtures("narrow")
def test_hdf5_bombs_are_refused_before_they_are_expanded(tmp_path):
    with h5py.File(tmp_path / "zeros.h5", "w") as file:
        file.create_dataset("h", data=np.zeros((200_000, 2)), compression="gzip", chunks=(1000, 2))
    with h5py.File(tmp_path / "nothing.h5", "w") as file:
        file.create_dataset("h", (10**12, 64), "f4")
    with h5py.File(tmp_path / "pieces.h5", "w") as file:
        file.create_dataset("h", (10**6, 64), "f4", chunks=(10**5, 64))
    for name, message in {
        "zeros": "3.05 MB from",
        "nothing": "GB from 0 bytes",
        "pieces": "in pieces of at most",
    }.items():
        with pytest.raises(ValueError, match=message):
            read_named(tmp_path / f"{name}.h5")


def test_headers_that_declare_more_than_the_file_holds_are_refused(tmp_path):
    side = 200_000
    header = json.dumps({"h": {"dtype": "F32", "shape": [side, side], "data_offsets": [0, 4 * side**2]}})
    length = len(header).to_bytes(8, "little")
    (tmp_path / "a.safetensors").write_bytes(length + header.encode() + bytes(64))
    (tmp_path / "b.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + header.encode())
    array = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1))) | {"shape": (side, side)}
    with open(tmp_path / "c.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, array)
        file.write(bytes(64))
    torch.save({"h": torch.zeros(1).expand(side, side)}, tmp_path / "d.pt")
    torch.save(torch.zeros(1).expand(side, side), tmp_path / "e.pt")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(ValueError, match=f"{path.name} is damaged or not a plain"):
            read_named(path)


def test_hdf5_that_lies_in_another_file_is_not_followed(tmp_path):
    np.ones((100, 2)).tofile(tmp_path / "raw")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("h", (100, 2), np.float64, external=[("raw", 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(ValueError, match="lies in another file, 'raw', which is not followed"):
        read_named(tmp_path / "a.h5")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_npz_files_are_read_as_small_ones_are(save, tmp_path, monkeypatch):
    arrays = {
        "h": np.random.default_rng(0).normal(size=(50, 3)),
        "z": np.asfortranarray(np.random.default_rng(1).normal(size=(50, 2))).astype("f4"),
        "x": np.zeros((0, 3)),
    }
    save(tmp_path / "a.npz", **arrays)
    small = read_named(tmp_path / "a.npz")
    monkeypatch.setattr(archives, "_IN_MEMORY_BYTES", 0)
    large = read_named(tmp_path / "a.npz")
    assert isinstance(large["h"], np.memmap)
    assert not isinstance(small["h"], np.memmap)
    for name, array in arrays.items():
        for found in (small[name], large[name]):
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)


def test_an_npz_that_lies_about_its_arrays_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "h.npy", np.ones((9, 2)))
    whole = (tmp_path / "h.npy").read_bytes()
    for held in (archives._IN_MEMORY_BYTES, 0):
        monkeypatch.setattr(archives, "_IN_MEMORY_BYTES", held)
        for name, content, message in [
            (
                "longer",
                whole.replace(b"(9, 2)", b"(99,2)"),
                "shape .99, 2. of float64, but has 144",
            ),
            ("cut", whole[:-3], "says it has shape"),
            ("empty", b"", "'h' is no array"),
            ("text", b"hello", "'h' is no array"),
        ]:
            with zipfile.ZipFile(tmp_path / f"{name}.npz", "w") as file:
                file.writestr("h.npy", content)
            with pytest.raises(ValueError, match=message):
                read_named(tmp_path / f"{name}.npz")


def test_a_flipped_bit_in_an_npz_is_seen(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", h=np.ones((100, 2)))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[700] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    for held in (archives._IN_MEMORY_BYTES, 0):
        monkeypatch.setattr(archives, "_IN_MEMORY_BYTES", held)
        with pytest.raises(ValueError, match="CRC"):
            read_named(tmp_path / "a.npz")


@pytest.mark.slow
def test_bombs_and_large_files_take_little_memory(tmp_path):
    """Real sizes, each in a process of its own: 3 GB of zeros in 3 MB; 2 GB that were stored as they are."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        header = np.lib.format.magic(1, 0)
        with archive.open("h.npy", "w", force_zip64=True) as file:
            rows = 3 << 26
            text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 2), }}".ljust(117) + "\n"
            file.write(header + len(text).to_bytes(2, "little") + text.encode())
            for _ in range(3 << 10):
                file.write(bytes(1 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 15 << 20
    with open(tmp_path / "large.npy", "wb") as file:  # most of it is a hole in the file
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 23, 64)}
        )
        file.write(np.random.default_rng(0).normal(size=(1 << 16, 64)).astype("<f4").tobytes())
        file.truncate(file.tell() + ((1 << 23) - (1 << 16)) * 256)
    code = (
        "import sys\nfrom isojepa.cli import main\nfrom tests.memory import peak\n"
        "code = main(['certify', sys.argv[1], '--no-checks', '--json'])\n"
        "print(code, peak(), file=sys.stderr)"
    )
    for name, wanted in (("bomb.npz", 2), ("large.npy", 0)):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        returned, megabytes = map(int, done.stderr.splitlines()[-1].split())
        assert returned == wanted, done.stderr
        assert megabytes < 1000


# --- what is executed, and what is printed ------------------------------------------------------------------


@pytest.mark.parametrize("source", ["data.npy:h", "data:h", "data.h:x", "./data:h", "data.pyc:h"])
def test_nothing_but_a_py_file_is_executed(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.py").write_text("open('executed', 'w').close()\nh = x = abs")
    np.save("data.npy", np.ones((9, 2)))
    assert "an array of a file FILE::NAME" in error_of(capsys, "certify", source)
    assert not (tmp_path / "executed").exists()
    error_of(capsys, "certify", "data.py:none")
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("json_too", [False, True])
def test_a_page_that_cannot_be_written_does_not_take_the_numbers_along(json_too, tmp_path, capsys):
    np.save(tmp_path / "h.npy", np.random.default_rng(0).normal(size=(200, 2)))
    (tmp_path / "file").write_text("")
    page = tmp_path / "file" / "page.html"  # a folder is wanted where a file is
    command = ["certify", str(tmp_path / "h.npy"), "--no-checks", *["--json"] * json_too]
    assert main(command) == 0
    numbers = capsys.readouterr().out
    assert main([*command, "--report", str(page)]) == 2
    captured = capsys.readouterr()
    assert captured.out == numbers
    assert "cannot write" in captured.err
    assert captured.err.count("\n") == 1


def test_a_virtual_dataset_is_not_followed_into_another_file(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["h"] = np.zeros((50, 2))
    layout = h5py.VirtualLayout(shape=(50, 2), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "h", shape=(50, 2))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("h", layout)
    with pytest.raises(ValueError, match="lies in another file"):
        read_named(tmp_path / "virtual.h5")
