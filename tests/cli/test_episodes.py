"""`isojepa episodes` and `isojepa audit`, as a person would call them."""

import json

import numpy as np
import pytest

from isojepa.data.episodes import Episodes
from isojepa.data.files import read_episodes
from tests.certificates.worlds import ornstein_uhlenbeck_episodes
from tests.cli.test_commands import refuse, run

pytest.importorskip("h5py")


@pytest.fixture
def made(tmp_path):
    source = np.random.default_rng(0)
    actions = source.uniform(-1, 1, (60, 30, 2))
    actions[:, -1] = np.nan
    episodes = Episodes.of({"qpos": ornstein_uhlenbeck_episodes([0.9, 0.9], 60, 30), "action": actions})
    return episodes.write(tmp_path / "made.h5")


def test_what_cannot_be_audited_is_told_in_a_line(capsys, tmp_path, made):
    assert "did you mean 'action'" in refuse(capsys, "audit", made, "--action", "actions")
    assert "does not exist" in refuse(capsys, "audit", tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("no episodes")
    assert "cannot be read as episodes" in refuse(capsys, "audit", tmp_path / "text.h5")
    assert "stride must be below" in refuse(capsys, "audit", made, "--stride", "40")


def test_a_file_is_copied_into_another_format_and_audited(capsys, tmp_path, made):
    code, out, _ = run(
        capsys, "episodes", made, "--form", "robomimic", "--out", tmp_path / "demos.hdf5", "--json"
    )
    assert (code, json.loads(out)["episodes"]) == (0, 60)
    assert read_episodes(tmp_path / "demos.hdf5").steps == 60 * 29
    code, out, _ = run(capsys, "audit", tmp_path / "demos.hdf5", "--json")
    assert json.loads(out)["steps"] == 60 * 29
