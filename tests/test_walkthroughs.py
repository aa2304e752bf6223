"""The changes that CONTRIBUTING.md walks through apply, and do what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFFS = dict(re.findall(r"^### (An? [a-z ]+)\n.*?^```diff\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
MAX_LINES = 40

PLAN = """
import torch
from isojepa.planning.planners import SEARCHES
from isojepa.planning.problems import ActionSpace, GoalCost, LinearDynamics, Problem
one = torch.eye(1)
problem = Problem(
    LinearDynamics(one, one, torch.zeros(1)), GoalCost(), ActionSpace(-one[0], one[0]), torch.zeros(1, 1), one
)
plan = SEARCHES["random-shooting"](3).plan(problem, torch.Generator().manual_seed(0))
assert abs(float(problem.rollout(plan.actions)[0, -1, 0]) - 1) < 0.1
"""
SOURCE = "from isojepa import testing; from isojepa.data.ring import Ring; testing.check_source(Ring())"
SCORE = """
import numpy as np
from isojepa.alignment import compare, measure
x = np.random.default_rng(0).normal(size=(300, 4))
y = np.c_[x[:, :2], np.random.default_rng(1).normal(size=(300, 2))]
one = measure("predictivity", x, y)
assert one.interval.low < 0.5 < one.interval.high and one.p < 0.01, one
assert "predictivity" in compare(x, y).raw
"""
RUNS = {
    "An objective": [
        [
            "-m",
            "isojepa",
            "train",
            "--objective.name",
            "decorrelation",
            "--objective.weight",
            "0.3",
            "--training.steps",
            "5",
        ]
    ],
    "A data source": [
        ["-m", "isojepa", "train", "--world.name", "ring", "--encoder.name", "mlp", "--training.steps", "5"],
        ["-c", SOURCE],
    ],
    "An alignment score": [["-c", SCORE]],
    "A planner": [["-c", PLAN]],
    "A study": [
        ["-m", "isojepa", "sweep", "cka_by_chance", "--workers", "1"],
        ["-m", "isojepa", "study", "report", "cka_by_chance", "--out", "results"],
    ],
}


def test_every_walkthrough_is_short_and_has_a_run() -> None:
    assert list(DIFFS) == list(RUNS)
    for name, diff in DIFFS.items():
        lines = [line for line in diff.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
        assert len(lines) <= MAX_LINES, name


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_walkthrough_applies_and_runs(name: str, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "lab"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    apply = subprocess.run(
        ["git", "apply", "-"],
        input=DIFFS[name],
        text=True,
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )
    assert apply.returncode == 0, apply.stderr
    paths = os.pathsep.join(str(tmp_path / folder) for folder in ("src", "lab/src"))
    for arguments in RUNS[name]:
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
