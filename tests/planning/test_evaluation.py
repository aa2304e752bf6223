"""Closed-loop evaluations: success against independent simulations, the protocol, and what it refuses."""

import re

import gymnasium
import numpy as np
import pytest
import scipy.stats

import isojepa as ij
from isojepa.planning.evaluation import PlanningOutcome
from isojepa.planning.problems import GoalCost
from isojepa.statistics.intervals import wilson
from tests.own_environment import PointMass
from tests.planning.simulators import CartPoleDynamics, PendulumDynamics, PointDynamics, SealedPoint, Still

QUICK = {"tolerance": 0.2, "offset": 15, "count": 12, "oracle": False}


@pytest.fixture(scope="module")
def points():
    return ij.collect(PointMass, episodes=20)


@pytest.fixture(scope="module")
def pendulums():
    return ij.collect("Pendulum-v1", episodes=30, steps=60)


@pytest.fixture(scope="module")
def result(points):
    models = {"true": PointDynamics(), "still": Still()}
    return ij.evaluate(models, PointMass, points, ["mpc", "icem"], tolerance=0.2, count=30, oracle=False)


def row(result, name):
    return next(one for one in result.rows if one["controller"] == name)


def test_true_dynamics_beat_random_and_dynamics_that_know_nothing_do_not(result):
    assert row(result, "true, icem")["success"] > 0.9
    assert row(result, "true, icem")["low"] > row(result, "random")["high"]
    assert "true, icem does not beat" not in str(result)
    for planner in ("mpc", "icem"):
        assert f"still, {planner} does not beat random actions" in str(result)
        assert row(result, f"true, {planner}")["distance"] < row(result, "random")["distance"]
    assert row(result, "true, mpc")["ms_per_plan"] > 0
    assert row(result, "random")["ms_per_plan"] is None


def test_true_dynamics_of_a_pendulum_reach_goals_that_random_actions_miss(pendulums):
    options = {
        "tolerance": 0.1,
        "count": 30,
        "oracle": False,
        "horizon": 25,
        "execute": 25,
        "cost": GoalCost(),
    }
    result = ij.evaluate(PendulumDynamics(), "Pendulum-v1", pendulums, "icem", **options)
    assert row(result, "icem")["low"] > row(result, "random")["high"]
    assert row(result, "icem")["success"] > 0.9


def test_solved_starts_are_left_out_and_counted(points):
    result = ij.evaluate(
        Still(), PointMass, points, "mpc", **QUICK | {"tolerance": 0.8, "count": 25, "budget": 1}
    )
    spread = np.concatenate(points.values("observation")).std(0)
    starts = [points.rows("observation", i)[:-15] for i in range(len(points))]
    goals = [points.rows("observation", i)[15:] for i in range(len(points))]
    solved = np.linalg.norm((np.concatenate(starts) - np.concatenate(goals)) / spread, axis=1) <= 0.8
    distances = np.linalg.norm((result.tasks.starts - result.tasks.goals) / spread, axis=1)
    assert distances.min() > 0.8
    assert result.drawn == 25 + result.excluded
    assert scipy.stats.binomtest(result.excluded, result.drawn, solved.mean()).pvalue > 0.001
    assert result.excluded > 0
    assert f"{result.excluded} of {result.drawn} starts were already solved and left out." in str(result)


def test_a_tolerance_that_every_start_meets_is_refused_with_the_distances(points):
    with pytest.raises(
        ValueError, match=r"tolerance or success must leave starts unsolved, .*: it is too wide"
    ) as error:
        ij.evaluate(Still(), PointMass, points, "mpc", **QUICK | {"tolerance": 100})
    low, middle, high = map(float, re.findall(r"([\d.]+) \(", str(error.value)))
    assert 0 < low < middle < high < 100


def test_the_rate_of_random_actions_is_that_of_an_independent_simulation(pendulums):
    options = {"tolerance": 0.25, "count": 120, "offset": 20, "oracle": False}
    result = ij.evaluate(Still(), "Pendulum-v1", pendulums, "mpc", **options)
    spread = np.concatenate(pendulums.values("observation")).std(0)
    env, source, rates = gymnasium.make("Pendulum-v1").unwrapped, np.random.default_rng(0), []
    env.reset(seed=0)
    for episode, start, goal in zip(result.tasks.episode, result.tasks.row, result.tasks.goals, strict=True):
        successes = []
        for _ in range(10):
            env.state, reached = pendulums.rows("state", episode)[start], False
            for _ in range(40):
                observation = env.step(source.uniform(-2, 2, 1))[0]
                reached |= np.linalg.norm((observation - goal) / spread) <= 0.25
            successes.append(reached)
        rates.append(np.mean(successes))
    expected, error = np.mean(rates), np.sqrt(np.mean(np.multiply(rates, np.subtract(1, rates))) * 1.1 / 120)
    assert abs(row(result, "random")["success"] - expected) < 3.5 * error
    assert 0.05 < expected < 0.95


def test_the_hash_changes_with_each_setting(points):
    base = {**QUICK, "planner": "mpc", "count": 2, "budget": 3, "tasks": points}
    changes = [
        *({"tolerance": 0.3}, {"hold": 1}, {"budget": 2}, {"offset": 14}, {"count": 3}, {"seed": 1}),
        *({"horizon": 6}, {"execute": 2}, {"cost": GoalCost()}, {"planner": "mppi"}, {"oracle": True}),
        *({"distance": lambda x, goal: np.abs(x - goal).sum()}, {"tasks": points.subset(range(19))}),
        {"tolerance": None},
    ]
    hashes = [ij.evaluate(Still(), PointMass, **base | change).protocol_hash for change in ({}, *changes)]
    assert len(set(hashes)) == len(hashes)
    assert ij.evaluate(PointDynamics(), PointMass, **base).protocol_hash == hashes[0]  # of the protocol alone


def test_success_must_hold_at_all_of_the_last_steps(points):
    result = ij.evaluate(PointDynamics(), PointMass, points, "mpc", **QUICK, hold=4)
    outcome = result.outcomes["mpc"]
    expected = (outcome.distances[:, -4:] <= 0.2).all(1)
    assert row(result, "mpc")["success"] == expected.mean() > row(result, "random")["success"]
    within = np.array([[0, 1, 0, 1, 1], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]], bool)
    made = PlanningOutcome(within, np.zeros((4, 5)), np.zeros(4))
    assert made.success(2).tolist() == [True, False, False, True]
    assert made.steps(2)[made.success(2)].tolist() == [3, 1]
    assert made.success(0).all()
    assert made.steps(0).tolist() == [1, 1, 4, 1]


def test_termination_ends_a_task():
    episodes = ij.collect("CartPole-v1", episodes=20)
    options = {
        "success": lambda x, goal: abs(x[2]) > 0.2,
        "offset": 5,
        "count": 15,
        "budget": 60,
        "oracle": False,
    }
    result = ij.evaluate(CartPoleDynamics(), "CartPole-v1", episodes, "icem", **options)
    outcome = result.outcomes["idle"]
    steps = np.isfinite(outcome.distances).sum(1) - 1
    assert steps.max() < 30
    assert outcome.returns.tolist() == steps.tolist()  # a reward of 1 for each step
    held = ij.evaluate(CartPoleDynamics(), "CartPole-v1", episodes, "icem", **options, hold=1)
    assert row(result, "idle")["success"] == 1  # it falls beyond 0.2 rad, which terminates
    assert row(held, "idle")["success"] == 0
    assert "idle takes action 0." in result.notes


def test_environments_without_state_replay_and_have_no_oracle():
    episodes = ij.collect(SealedPoint, episodes=6)
    result = ij.evaluate(PointDynamics(), SealedPoint, episodes, "icem", tolerance=0.2, offset=15, count=6)
    assert result.protocol["restored"] == "replay"
    assert row(result, "icem")["success"] > 0.8
    assert "There is no oracle: the environment cannot restore its state" in str(result)


def test_success_is_what_the_environment_reports_without_a_tolerance(points):
    result = ij.evaluate(
        PointDynamics(), PointMass, points, "mpc", offset=15, count=20, budget=60, oracle=False
    )
    assert result.protocol["success"] == "reported by the environment"
    assert (np.linalg.norm(result.tasks.starts[:, :2], axis=1) >= 0.1).all()
    near = np.linalg.norm(result.tasks.goals[:, :2], axis=1) < 0.08
    assert result.outcomes["mpc"].success(0)[near].all()


def test_differences_are_paired_by_task(result):
    first, second = (result.outcomes[name].success(0).astype(float) for name in ("true, mpc", "random"))
    difference = result.differences[0]
    assert (difference["first"], difference["second"]) == ("true, mpc", "random")
    assert difference["estimate"] == pytest.approx((first - second).mean())
    assert {one["second"] for one in result.differences if one["first"] == "true, mpc"} == {
        *("random", "true, icem", "still, mpc", "still, icem")
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"success": lambda x, goal: True}, "tolerance and success must not both be set"),
        ({"hold": 31}, "hold must be an integer .* of at most 30, got 31"),
        ({"environment": PointMass()}, "environment must be an id, a class or a factory"),
        ({"planner": {"random": "mpc"}}, "planner must not be one of idle, oracle, random"),
        ({"planner": "mcp"}, "did you mean 'mpc'"),
        ({"distance": lambda x, goal: np.nan}, "must be a finite number, got nan"),
        ({"model": 3}, "model must be a Dynamics"),
    ],
)
def test_invalid_arguments_are_one_line(points, options, message):
    base = {"model": Still(), "environment": PointMass, "tasks": points, "planner": "mpc", **QUICK}
    with pytest.raises(ValueError, match=message):
        ij.evaluate(**base | options)


@pytest.mark.parametrize(("successes", "trials"), [(0, 50), (13, 50), (50, 50), (1, 1), (499, 1000)])
def test_wilson_agrees_with_scipy(successes, trials):
    expected = scipy.stats.binomtest(successes, trials).proportion_ci(0.9, method="wilson")
    interval = wilson(successes, trials, 0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
