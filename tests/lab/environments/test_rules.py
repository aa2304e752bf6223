"""What counts as success, which tasks are drawn, and the intervals of the shares."""

import numpy as np
import pytest
import scipy.stats

from isojepa.data.episodes import Episodes
from isojepa.seeds import generator
from isojepa_lab.environments.closed_loop import ControlOutcome, ControlResult, share
from isojepa_lab.environments.control import LIMIT
from isojepa_lab.environments.latent_control import Spent
from isojepa_lab.environments.plants import FAIR, PUBLISHED, Rules, drawn_tasks, tasks_from_episodes


def test_the_published_rules_count_any_step_and_the_fair_ones_those_that_hold():
    flies_past = np.full((1, 51), 1.0)
    flies_past[0, 20] = 0.01
    assert PUBLISHED.succeeded(flies_past)[0]
    rules = Rules(budget=50)
    assert not rules.succeeded(flies_past)[0]
    stays = np.full((1, 51), 1.0)
    stays[0, -10:] = 0.049
    assert rules.succeeded(stays)[0]
    stays[0, -3] = 0.06
    assert not rules.succeeded(stays)[0]


def test_a_full_turn_counts_under_the_fair_rules_alone():
    qpos, goals = np.array([[2 * np.pi + 0.01, 0.5]]), np.array([[0.0, 0.52]])
    assert FAIR.errors(qpos, goals)[0] == pytest.approx(0.02)
    assert PUBLISHED.errors(qpos, goals)[0] == pytest.approx(2 * np.pi + 0.01)


def still(rows=60, moved=()):
    qpos = np.zeros((rows, 2))
    for row, value in moved:
        qpos[row:] = value
    return qpos


def test_goals_lie_rows_ahead_and_solved_starts_are_removed_by_the_fair_rules():
    qpos = [still(moved=[(40, (0.5, 0.1))]), still(moved=[(30, (2 * np.pi + 1.0, 0.2))])]
    still_ones = [np.zeros((60, 2))] * 2
    episodes = Episodes.of({"qpos": qpos, "qvel": still_ones, "action": still_ones})
    kept = tasks_from_episodes(episodes, 30, PUBLISHED, generator(0, "tasks"))
    assert (PUBLISHED.errors(kept.qpos, kept.goals) < 0.05).any()
    assert not kept.removed
    fair = tasks_from_episodes(episodes, 30, FAIR, generator(0, "tasks"))
    assert len(fair) == 30
    assert fair.removed > 0
    assert (FAIR.errors(fair.qpos, fair.goals) >= 0.05).all()
    assert np.abs(fair.goals[:, 0] - fair.qpos[:, 0]).max() <= np.pi  # the nearest turn is the same goal
    with pytest.raises(ValueError, match="more than 61 rows"):
        tasks_from_episodes(episodes, 3, FAIR, generator(0, "tasks"), offset=60)


@pytest.mark.parametrize(("law", "expected"), [("gaussian", 1.0), ("uniform", np.pi**2 / 3)])
def test_poses_are_drawn_by_their_law(law, expected):
    tasks = drawn_tasks(law, 4000, FAIR, generator(0, "tasks"))
    assert tasks.qpos[:, 0].var() == pytest.approx(expected, rel=0.08)
    assert np.abs(tasks.goals[:, 1]).max() <= LIMIT
    assert not tasks.qvel.any()


def test_bad_tasks_are_told():
    with pytest.raises(ValueError, match="law must be one of gaussian, uniform"):
        drawn_tasks("normal", 3, FAIR, generator(0, "tasks"))
    with pytest.raises(ValueError, match="hold"):
        Rules(budget=5, hold=6)


def evaluation(successes):
    outcomes = {
        name: [
            ControlOutcome(0, stream, row, np.zeros(0), np.zeros((len(row), 2)), Spent(), 0.0)
            for stream, row in enumerate(rows)
        ]
        for name, rows in successes.items()
    }
    return ControlResult(FAIR, {}, outcomes)


def test_intervals_are_of_tasks_and_not_of_runs():
    right = np.arange(50) % 5 != 0
    once, often = evaluation({"a": [right]}), evaluation({"a": [right] * 20})
    assert once.success("a") == often.success("a")
    found = once.success("a")
    reach = 1.96 * np.sqrt(0.8 * 0.2 / 50)
    assert found.low == pytest.approx(0.8 - reach, abs=0.02)
    assert found.high == pytest.approx(0.8 + reach, abs=0.02)


def test_where_all_tasks_agree_the_ends_are_clopper_and_pearsons():
    exact = scipy.stats.binomtest(30, 30).proportion_ci(0.95)
    found = share(np.ones(30), 0.95)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert share(np.zeros(30), 0.95).high == pytest.approx(1 - exact.low)


def test_differences_are_paired():
    first = np.arange(40) % 2 == 0
    second = first.copy()
    second[:4] = True
    found = evaluation({"a": [second], "b": [first]}).difference("a", "b")
    assert found.estimate == pytest.approx(0.05)
    assert found.high < 0.15  # unpaired, half of 40 tasks would leave 0.2 open
    with pytest.raises(ValueError, match="controller must be one of a, b"):
        evaluation({"a": [first], "b": [second]}).success("c")
