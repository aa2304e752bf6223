"""From an environment to a certified plan: the lines and commands of docs/world_models.md."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
from isojepa.cli.main import main
from tests.own_environment import PointMass, make

gymnasium = pytest.importorskip("gymnasium")
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/world_models.md").read_text(encoding="utf-8")
OWN = str(ROOT / "tests/own_environment.py") + ":make"
ENVIRONMENTS = {"Pendulum-v1": 3, "CartPole-v1": 4, OWN: 4}  # -> numbers in an observation


@pytest.mark.parametrize(("environment", "observed"), ENVIRONMENTS.items())
def test_six_lines_lead_from_an_environment_to_a_policy(environment, observed):
    episodes = ij.collect(environment, policy="random", episodes=20, seed=0)
    train, test = episodes.split(0.5, seed=0)
    objective = ij.objectives.LatentDynamics()
    run = ij.fit(ij.WorldModel(dim=4, width=32), train, objective, seed=0, steps=40, batch=64, evaluations=())
    certificate = ij.certify(run, test, horizon=5)
    assert certificate.horizon == 5
    assert len(certificate.states) >= 2
    result = ij.evaluate(
        run, environment, tasks=test, planner="icem", tolerance=0.2, count=4, offset=6, horizon=4, execute=2
    )
    assert {row["controller"] for row in result.rows} == {"icem", "random", "idle", "oracle"}
    assert result.protocol["trained_on"] == 0
    policy = ij.plan(run, goal=test[0].observations[-1], planner="cem", horizon=3)
    action = policy(test[1].observations[0])
    if environment == "CartPole-v1":
        assert action in (0, 1)
    else:
        assert np.all(np.abs(action) <= episodes.meta["high"])
    with pytest.raises(ValueError, match=f"episodes must be held out, got {len(train)} of {len(train)}"):
        ij.certify(run, train)
    with pytest.raises(ValueError, match="episodes must be held out"):
        ij.evaluate(run, environment, tasks=train, tolerance=0.2)
    known = ij.certify(run, train, horizon=5, allow_train=True)
    assert any("that the model was trained on" in note for note in known.notes)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_four_commands_do_the_same(capsys, tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)

    def answer(*arguments):
        code = main([*map(str, arguments), "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    collected = answer("collect", environment, "--policy", "random", "--episodes", 40, "--out", "mine.h5")
    assert collected["episodes"] == 40
    small = ("--training.steps", 30, "--training.batch", 64, "--encoder.width", 16, "--encoder.dim", 4)
    trained = answer("train", "--data", "mine.h5", "--objective", "latent-dynamics", *small)
    assert trained["status"] == "done"
    certificate = answer("certify", trained["record"])
    assert certificate["episodes"] == 2  # half of a tenth
    quick = ("--count", 4, "--offset", 6, "--horizon", 4, "--execute", 2, "--no-oracle")
    planners = ("icem",) if environment == "CartPole-v1" else ("icem", "mpc")
    options = ("--env", environment, "--planner", *planners, "--tolerance", 0.2)
    result = answer("evaluate", trained["record"], *options, *quick)
    assert [row["controller"] for row in result["rows"]] == [*planners, "random", "idle"]
    again = answer("train", "--data", "mine.h5", "--objective", "latent-dynamics", *small)
    assert again["record"] == trained["record"]
    held_out = answer("evaluate", trained["record"], *options, *quick)
    assert held_out["rows"][0]["success"] == result["rows"][0]["success"]
    assert main(["certify", trained["record"], "--data", "mine.h5"]) == 2
    assert "got 36 of 40 that the run was trained on" in capsys.readouterr().err


def test_a_run_refuses_to_resume_on_other_episodes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--training.steps", "5", "--training.batch", "32", "--encoder.width", "16")
    for seed in (0, 1):
        ij.collect(make, episodes=6, seed=seed, out="mine.h5" if seed == 0 else "other.h5")
    command = ["train", "--data", "mine.h5", "--objective", "latent-dynamics", *small, "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)["record"]
    Path("other.h5").rename("mine.h5")
    assert main(command) == 0  # other data, another run
    assert json.loads(capsys.readouterr().out)["record"] != first
    assert main(["certify", first]) == 2
    assert "mine.h5 holds other episodes than the run was started on" in capsys.readouterr().err


class Narrow(PointMass):
    """Asymmetric bounds in float64, none of which float32 can represent."""

    action_space = gymnasium.spaces.Box(np.array([-0.2, -0.05]), np.array([0.1, 0.15]), dtype=np.float64)

    def step(self, action):
        assert self.action_space.contains(np.asarray(action))
        return super().step(action)


def test_actions_of_a_policy_lie_in_bounds_of_float64():
    episodes = ij.collect(Narrow, episodes=6, steps=20)
    model = ij.WorldModel(2, width=16)
    ij.fit(model, episodes, ij.objectives.LatentDynamics(), steps=1, batch=16, evaluations=())
    low, high = model.action_bounds.double().numpy()
    assert (low >= Narrow.action_space.low).all()
    assert (high <= Narrow.action_space.high).all()
    np.testing.assert_allclose((low, high), (Narrow.action_space.low, Narrow.action_space.high), rtol=1e-6)


class Rolling(PointMass):
    """Three ways to push, numbered from 1; turns of the state's last number are no information."""

    action_space = gymnasium.spaces.Discrete(3, start=1)

    def step(self, action):
        return super().step([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]][int(action) - 1])


def test_discrete_actions_are_those_of_the_environment():
    train, test = ij.collect(Rolling, episodes=8, steps=20, seed=1).split(0.5)
    options = {"steps": 5, "batch": 32, "evaluations": ()}
    run = ij.fit(ij.WorldModel(4, width=16), train, ij.objectives.LatentDynamics(), **options)
    goal, frames = test[0].observations[-1], test[1].observations
    policies = [
        ij.plan(run, goal, "icem", horizon=3, environment=environment) for environment in (None, Rolling)
    ]
    actions = [[policy(frame) for frame in frames] for policy in policies]
    assert actions[0] == actions[1]
    assert set(actions[0]) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda run, test: ij.fit(
                ij.WorldModel(4), test, ij.objectives.LatentDynamics(rollout=99), steps=1
            ),
            "episodes must have more than 99 steps",
        ),
        (lambda run, test: ij.certify(ij.encoders.MLP(4, 4), test), "context, encode and rollout"),
        (lambda run, test: ij.certify(run, test, rho=0.5), "rho and the like are for embeddings"),
        (lambda run, test: ij.evaluate(run, PointMass, test, tolerance=99.0, count=4), "it is too wide"),
        (lambda run, test: ij.evaluate(run, "Pendulum-v1", test, tolerance=0.2), "shape"),
        (lambda run, test: ij.plan(run, goal=np.zeros(3)), r"time, 4\), got \(1, 1, 3\)"),
        (
            lambda run, test: ij.fit(
                ij.WorldModel(4), test.rename(x="observation"), ij.objectives.LatentDynamics()
            ),
            "column",
        ),
    ],
    ids=["short", "no dynamics", "option", "tolerance", "other environment", "goal", "column"],
)
def test_mistakes_are_one_line(call, words):
    episodes = ij.collect(make, episodes=8, seed=3, steps=20)
    train, test = episodes.split(0.5)
    options = {"steps": 2, "batch": 16, "evaluations": ()}
    run = ij.fit(ij.WorldModel(4, width=16), train, ij.objectives.LatentDynamics(), **options)
    with pytest.raises(ValueError, match=words) as error:
        call(run, test)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_trained_model_beats_random_actions_in_the_own_environment():
    example = runpy.run_path(str(ROOT / "examples/world_models.py"))
    row = example["measure"]("point mass", 11, ("icem",))
    scores = {line["controller"]: line for line in row["rows"]}
    assert scores["icem"]["low"] > scores["random"]["high"] + 0.3
    assert row["verdict"] == "predictive"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_code_of_the_page_runs(tmp_path):
    """All Python of the page but the environment itself, with fewer episodes and tasks."""
    code = "\n".join(
        re.findall(r"```python\n(.*?)```", PAGE.partition("## Your environment")[0], flags=re.DOTALL)
    )
    code = code.replace("episodes=300", "episodes=30").replace(
        ', planner="cem", tol', ', planner="icem", count=5, tol'
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Protocol" in done.stdout
