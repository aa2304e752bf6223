"""Files are whole or not there."""

import errno
import json
import math
import os

import numpy as np
import pytest

from isojepa import io
from isojepa.io import (
    NotPlain,
    open_unfollowed,
    read_json,
    write_json,
    write_text,
    write_whole,
)


def test_text_is_written_with_its_folder_and_replaced(tmp_path):
    path = tmp_path / "a" / "b" / "notes.txt"
    write_text(path, "één\n")
    write_text(path, "zwei ∫\n")
    assert path.read_bytes() == "zwei ∫\n".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("bad"), KeyboardInterrupt()]
)
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "record.json"
    path.write_text("old")

    def half(temporary):
        temporary.write_text("ne")
        raise error

    with pytest.raises(type(error)):
        write_whole(path, half)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_full_disk_names_the_file_and_keeps_the_error_number(tmp_path):
    def full(temporary):
        raise OSError(errno.ENOSPC, "No space left on device")

    match = r"cannot write .*record.json: No space left on device; what was there before is intact"
    with pytest.raises(OSError, match=match) as caught:
        write_whole(tmp_path / "record.json", full)
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("old")
    seen = []

    def slow(temporary):
        temporary.write_text("ne")
        seen.append(path.read_text())
        temporary.write_text("new")
        seen.append(path.read_text())

    write_whole(path, slow)
    assert seen == ["old", "old"]
    assert path.read_text() == "new"


def test_json_comes_back_with_non_finite_numbers_as_strings(tmp_path):
    path = tmp_path / "record.json"
    value = {
        "z": math.nan,
        "a": [math.inf, -math.inf, 1.5],
        "t": (1, None, True),
        3: {"x": np.float64("nan")},
        "é": "ü",
    }
    write_json(path, value)
    assert read_json(path) == {
        "z": "nan",
        "a": ["inf", "-inf", 1.5],
        "t": [1, None, True],
        "3": {"x": "nan"},
        "é": "ü",
    }
    # strict JSON, which other languages read, with keys in the order given
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert path.read_text().index('"z"') < path.read_text().index('"a"')
    assert float(read_json(path)["a"][1]) == -math.inf


def test_floats_survive_json_to_the_last_bit(tmp_path):
    values = [*np.random.default_rng(0).normal(size=100).tolist(), 5e-324, 1.7976931348623157e308, -0.0, 0.1]
    write_json(tmp_path / "v.json", values)
    back = read_json(tmp_path / "v.json")
    assert [v.hex() for v in back] == [v.hex() for v in values]


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none.json does not exist"):
        read_json(tmp_path / "none.json")
    for name, content in (("half.json", b'{"a": 1'), ("empty.json", b""), ("bytes.json", b"\xff\xfe{}")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is not a whole JSON file"):
            read_json(tmp_path / name)


@pytest.fixture
def precious(tmp_path):
    """A file that a link points to."""
    path = tmp_path / "outside" / "precious.txt"
    path.parent.mkdir()
    path.write_text("years of work")
    return path


@pytest.mark.parametrize("write", [write_text, lambda path, text: write_json(path, [text])])
def test_nothing_is_written_through_a_link_and_the_link_stays(tmp_path, precious, write):
    link = tmp_path / "report.html"
    for target in (precious, tmp_path / "outside" / "new", precious.parent):
        link.symlink_to(target)
        with pytest.raises(
            NotPlain, match=r"cannot write .*report.html must be a plain file, got a symbolic link"
        ):
            write(link, "new")
        assert os.readlink(link) == str(target)
        link.unlink()
    assert precious.read_text() == "years of work"
    assert [path.name for path in precious.parent.iterdir()] == ["precious.txt"]


def test_a_temporary_name_that_is_taken_is_not_written_to(tmp_path, precious, monkeypatch):
    monkeypatch.setattr(io.secrets, "token_hex", lambda size: "0" * 2 * size)
    (tmp_path / f".a.json.{'0' * 16}.tmp").symlink_to(precious)
    with pytest.raises(OSError, match=r"cannot write .*a.json"):
        write_text(tmp_path / "a.json", "new")
    assert precious.read_text() == "years of work"
    assert len(list(tmp_path.glob(".*.tmp"))) == 1  # it is not ours to remove


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_file_has_the_mode_that_the_umask_allows_whatever_its_writer_makes(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_only_plain_files_are_read_and_changed(tmp_path, precious):
    os.mkfifo(tmp_path / "pipe")
    for use in (
        read_json,
        lambda path: open_unfollowed(path, os.O_WRONLY),
        lambda path: write_text(path, ""),
    ):
        with pytest.raises(NotPlain, match="pipe must be a plain file, got a pipe"):
            use(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(precious)
    with pytest.raises(NotPlain, match="link must be a plain file, got a symbolic link"):
        open_unfollowed(tmp_path / "link", os.O_WRONLY | os.O_TRUNC)
    assert precious.read_text() == "years of work"
    os.close(open_unfollowed(tmp_path / "mine", os.O_WRONLY | os.O_CREAT))
