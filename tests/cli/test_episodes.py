"""`isojepa episodes` and `isojepa audit`, as a person would call them."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from isojepa.worlds.episodes import Episodes, read_episodes
from tests.certificates.audit.test_strides import ou
from tests.cli.test_commands import refuse, run

pytest.importorskip("h5py")


@pytest.fixture
def made(tmp_path):
    source = np.random.default_rng(0)
    actions = source.uniform(-1, 1, (60, 30, 2))
    actions[:, -1] = np.nan
    episodes = Episodes.of({"qpos": ou([0.9, 0.9], 60, 30), "action": actions})
    return episodes.write(tmp_path / "made.h5")


def test_an_audit_is_told_written_as_json_and_as_a_page(capsys, tmp_path, made):
    code, out, _ = run(capsys, "audit", made, "--report", tmp_path / "page.html")
    assert code == 0
    assert "i.i.d. noise" in out
    assert "Differences of states per stride" in out
    assert "Next" in out
    page = (tmp_path / "page.html").read_text()
    assert "i.i.d. noise" in page
    assert "stride-sigreg" in page
    code, out, _ = run(capsys, "audit", made, "--json", "--stride", "2")
    told = json.loads(out)
    assert (code, told["stride"], told["episodes"]) == (0, 2, 60)
    assert {line["name"] for line in told["lines"]} >= {"full rank", "excitation", "Gaussianity"}


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


def test_episodes_of_the_arm_are_written(capsys, tmp_path):
    if find_spec("dm_control") is None:
        pytest.skip("dm_control is not installed")
    path = tmp_path / "random.h5"
    code, out, _ = run(
        capsys, "episodes", "reacher", "--policy", "random", "--episodes", "3", "--steps", "5", "--out", path
    )
    assert code == 0
    assert "3 episodes, 15 steps" in out
    assert set(read_episodes(path).names) == {"qpos", "qvel", "action", "target", "reward"}
    assert "policy must be one of" in refuse(capsys, "episodes", "reacher", "--policy", "sacc", "--out", path)


def test_other_environments_are_not_simulated(capsys, tmp_path):
    error = refuse(capsys, "episodes", "Pendulum-v1", "--out", tmp_path / "pendulum.h5")
    assert "source must be reacher or a file of episodes, got Pendulum-v1" in error
    assert f"collect Pendulum-v1 --out {tmp_path / 'pendulum.h5'}" in error
