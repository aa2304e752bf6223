"""`isojepa collect` as a user types it, and the audit of its files."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import refuse, run

pytest.importorskip("gymnasium")
pytest.importorskip("h5py")
OWN = str(Path(__file__).parent.parent / "own_environment.py")


def test_collected_episodes_are_audited(capsys, tmp_path):
    verdicts = {}
    for name, source in (("cart", "CartPole-v1"), ("own", f"{OWN}:make")):
        run(capsys, "collect", source, "--episodes", "60", "--out", tmp_path / f"{name}.h5")
        code, out, _ = run(capsys, "audit", tmp_path / f"{name}.h5", "--json")
        audit = json.loads(out)
        assert (code, audit["names"]) == (0, ["state", "", "action"])
        verdicts[name] = {line["name"]: line["verdict"] for line in audit["lines"]}
        assert ("one-hot" in " ".join(audit["notes"])) == (name == "cart")
    for name in ("independence over time", "independence of the state", "excitation"):
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
