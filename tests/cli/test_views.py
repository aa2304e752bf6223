"""The command `views`."""

import numpy as np
import pytest

from isojepa.cli.main import main

pytest.importorskip("isojepa.data.images.source")


@pytest.fixture
def data(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (9, 20, 24, 3), dtype=np.uint8)
    np.save(tmp_path / "pictures.npy", images)
    return tmp_path / "pictures.npy"


def test_the_command_writes_a_sheet(data, tmp_path, capsys):
    place = tmp_path / "sheets" / "views.png"
    assert main(["views", str(data), "--out", str(place), "--rows", "3", "--local-views", "1"]) == 0
    assert place.read_bytes().startswith(b"\x89PNG")
    told = " ".join(capsys.readouterr().out.split())
    assert "3 of 9 pictures, 2 global of 20 pixels and 1 local of 12" in told


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--views", "relaesed"], "did you mean 'released'"),
        (["--flip", "2"], "flip must be a probability in [0, 1], got 2"),
        (["--rows", "0"], "rows must be a positive integer"),
        (["--local-scale", "0.5", "0.1"], "local_scale must be two numbers"),
    ],
)
def test_bad_flags_are_told_in_one_line(data, capsys, flags, told):
    assert main(["views", str(data), *flags]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
