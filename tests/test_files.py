"""Files are whole or not there."""

import errno
import json
import math
import os

import numpy as np
import pytest

from isojepa.files import plain, read_json, write_json, write_text, write_whole


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


def test_an_open_reader_keeps_the_old_content(tmp_path):
    path = tmp_path / "record.json"
    write_text(path, "old")
    with open(path) as reader:
        write_text(path, "new")
        assert reader.read() == "old"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"cannot write .*file/record.json: .*intact"):
        write_text(tmp_path / "file" / "record.json", "new")
    assert (tmp_path / "file").read_text() == "x"


def test_a_name_too_long_for_the_disk_is_reported_as_such(tmp_path):
    with pytest.raises(OSError, match=r"cannot write .*intact") as caught:
        write_text(tmp_path / ("a" * 300), "new")
    assert caught.value.errno == errno.ENAMETOOLONG


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


def test_a_value_json_cannot_hold_leaves_the_old_file(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["record.json"]


def test_plain_leaves_its_argument_alone():
    value = {"a": [math.nan, (1, 2)]}
    plain(value)
    assert math.isnan(value["a"][0])
    assert value["a"][1] == (1, 2)


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none.json does not exist"):
        read_json(tmp_path / "none.json")
    for name, content in (("half.json", b'{"a": 1'), ("empty.json", b""), ("bytes.json", b"\xff\xfe{}")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is not a whole JSON file"):
            read_json(tmp_path / name)
