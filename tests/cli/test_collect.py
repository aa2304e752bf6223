"""`isojepa collect` as a user types it, and the audit of its files."""

import json
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
from isojepa.worlds.episodes import read_episodes
from tests.cli.test_commands import refuse, run

pytest.importorskip("gymnasium")
pytest.importorskip("h5py")
OWN = str(Path(__file__).parent.parent / "own_environment.py")


def test_a_file_is_written_and_the_next_command_named(capsys, tmp_path):
    path = tmp_path / "pendulum.h5"
    flags = ("--policy", "random", "--episodes", "3", "--steps", "20", "--out", path)
    code, out, _ = run(capsys, "collect", "Pendulum-v1", *flags)
    assert code == 0
    assert f"Wrote {path}: 3 episodes, 63 steps; action, observation, reward, seed, state, terminated" in out
    assert f"audit {path}" in out
    assert f"train --data {path} --objective latent-dynamics" in out
    written, expected = read_episodes(path), ij.collect("Pendulum-v1", "random", 3, steps=20)
    assert written.meta == expected.meta
    assert (written.rows("state", 2) == expected.rows("state", 2)).all()


def test_episodes_are_written_for_robomimic_and_counted_as_json(capsys, tmp_path):
    path = tmp_path / "own.hdf5"
    flags = ("--episodes", "2", "--steps", "5", "--form", "robomimic", "--out", path, "--json")
    code, out, _ = run(capsys, "collect", f"{OWN}:make", "--policy", "expert", *flags)
    assert (code, json.loads(out)["episodes"]) == (0, 2)
    assert read_episodes(path).steps == 10
    assert read_episodes(path).meta["policy"] == "expert"


def test_collected_episodes_are_audited(capsys, tmp_path):
    verdicts = {}
    for name, source in (("cart", "CartPole-v1"), ("own", f"{OWN}:make")):
        run(capsys, "collect", source, "--episodes", "60", "--out", tmp_path / f"{name}.h5")
        code, out, _ = run(capsys, "audit", tmp_path / f"{name}.h5", "--json")
        audit = json.loads(out)
        assert (code, audit["names"]) == (0, ["state", "", "action"])
        verdicts[name] = {line["name"]: line["verdict"] for line in audit["lines"]}
        assert ("one-hot" in " ".join(audit["notes"])) == (name == "cart")
    for name in ("full rank", "independence over time", "independence of the state", "excitation"):
        assert [verdicts[one][name] for one in verdicts] == ["holds", "holds"], name


def test_mistakes_are_told_in_a_line(capsys, tmp_path):
    out = ("--out", tmp_path / "a.h5")
    assert "cannot be opened: Environment `Pendulums`" in refuse(capsys, "collect", "Pendulums-v1", *out)
    assert "policy must be random, expert" in refuse(
        capsys, "collect", "Pendulum-v1", "--policy", "sacc", *out
    )
    (tmp_path / "model.zip").write_bytes(b"")
    model = ("--policy", f"sac:{tmp_path / 'model.zip'}")
    assert "pass trust=True (--trust)" in refuse(capsys, "collect", "Pendulum-v1", *model, *out)
    (tmp_path / "policy.py").write_text("def act(observation):\n    return 1 / 0\n")
    policy = ("--policy", f"{tmp_path / 'policy.py'}:act")
    error = refuse(capsys, "collect", "Pendulum-v1", *policy, *out)
    assert "episode 0: policy raised ZeroDivisionError: division by zero" in error
    assert "form must be one of" in refuse(capsys, "collect", "Pendulum-v1", "--form", "npz", *out)


def test_the_audit_reads_npz_by_episode_number(capsys, tmp_path):
    source = np.random.default_rng(0)
    columns = {"action": source.uniform(-1, 1, (900, 2)), "proprio": source.normal(size=(900, 2))}
    np.savez(tmp_path / "flat.npz", episode_index=np.repeat(np.arange(30), 30), **columns)
    code, out, _ = run(capsys, "audit", tmp_path / "flat.npz", "--episode", "episode_index", "--json")
    assert (code, json.loads(out)["episodes"]) == (0, 30)
