"""Tasks from episodes: which starts are drawn, and that environments are put where they were recorded."""

import gymnasium
import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.data.environments import open_environment
from isojepa.data.episodes import Episodes
from isojepa.planning.tasks import RecordedStarts, Simulator, draw_tasks
from tests.own_environment import PointMass
from tests.planning.simulators import NoisyPoint, PendulumDynamics, SealedPoint


@pytest.fixture(scope="module")
def points():
    return ij.collect(PointMass, episodes=8)


def without(episodes, *columns):
    names = [name for name in episodes.names if name not in columns]
    flat = {name: np.concatenate(episodes.values(name)) for name in names}
    return Episodes(flat, episodes.lengths)


def opened(episodes, environment):
    env = open_environment(environment, limit=False)
    return RecordedStarts(episodes, env), env


def test_starts_and_goals_are_rows_of_one_episode_and_each_episode_is_used_before_any_is_used_again(points):
    starts, env = opened(points, PointMass)
    tasks = draw_tasks(starts, env, count=20, offset=7, seed=3)
    for i in range(20):
        rows = points.rows("observation", tasks.episode[i])
        assert np.array_equal(tasks.starts[i], rows[tasks.row[i]])
        assert np.array_equal(tasks.goals[i], rows[tasks.row[i] + 7])
    assert sorted(tasks.episode[:8]) == sorted(tasks.episode[8:16]) == list(range(8))
    assert len(set(zip(tasks.episode, tasks.row, strict=True))) == 20
    again, other = (draw_tasks(starts, env, count=20, offset=7, seed=seed) for seed in (3, 4))
    assert np.array_equal(tasks.row, again.row)
    assert not np.array_equal(tasks.row, other.row)


@pytest.mark.parametrize("columns", [(), ("state",)])
@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", PointMass])
def test_a_restored_start_reproduces_the_rest_of_its_episode(name, columns):
    episodes = without(ij.collect(name, episodes=2, steps=12, seed=5), *columns)
    starts, env = opened(episodes, name)
    assert starts.by_state == (not columns)
    observation = starts.restore(env, 1, 4)
    observations, actions = episodes.rows("observation", 1), episodes.rows("action", 1)
    np.testing.assert_allclose(observation, observations[4], rtol=1e-6)
    for row in range(4, len(observations) - 1):
        np.testing.assert_allclose(
            env.step(actions[row]).observation, observations[row + 1], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize(
    ("columns", "remedy"), [((), "collect again"), (("state",), "record the column state")]
)
def test_an_environment_with_unseeded_noise_is_refused(columns, remedy):
    episodes = without(ij.collect(NoisyPoint, episodes=2, steps=20), *columns)
    starts, env = opened(episodes, NoisyPoint)
    with pytest.raises(
        ValueError, match=rf"NoisyPoint must reproduce .* difference of 0\.0.* at step .*{remedy}"
    ):
        draw_tasks(starts, env, count=2, offset=5)


def test_episodes_of_another_reset_are_refused():
    episodes = without(ij.collect("Pendulum-v1", episodes=2, steps=20), "state")
    columns = {name: np.concatenate(episodes.values(name)) for name in episodes.names}
    columns["seed"] = columns["seed"] + 1
    starts, env = opened(Episodes(columns, episodes.lengths), "Pendulum-v1")
    with pytest.raises(ValueError, match="after a replay"):
        draw_tasks(starts, env, count=1, offset=5)


def test_columns_that_are_missing_or_of_another_environment_are_named(points):
    with pytest.raises(
        ValueError, match=r"tasks must have a column observation of shape \(3,\) for Pendulum"
    ):
        opened(points, "Pendulum-v1")
    with pytest.raises(ValueError, match="tasks must have a column action"):
        opened(without(points, "action"), PointMass)
    with pytest.raises(ValueError, match="tasks must have a column state or seed"):
        opened(without(points, "seed"), SealedPoint)


def test_the_distance_is_euclidean_between_standardized_columns_without_constant_ones(points):
    rows = np.concatenate(points.values("observation")).astype(float)
    rows[:, 3] = 2.0
    columns = {name: np.concatenate(points.values(name)) for name in points.names}
    starts, _ = opened(Episodes(columns | {"observation": rows}, points.lengths), PointMass)
    expected = np.linalg.norm((rows[0] - rows[9]) / np.where(rows.std(0) == 0, np.inf, rows.std(0)))
    assert starts.distance(rows[0], rows[9]) == pytest.approx(expected, rel=1e-9)


def test_the_simulator_rolls_out_as_the_environment_and_its_equations_do():
    env = open_environment("Pendulum-v1", limit=False)
    simulator = Simulator(env, np.array([1.0, 2.0, 0.5]))
    states, actions = torch.tensor([[0.5, 1.0], [3.0, -2.0]]).double(), torch.rand(2, 6, 1).double() - 0.5
    observations = torch.stack((states[:, 0].cos(), states[:, 0].sin(), states[:, 1]), 1)
    start = simulator.locate(observations.numpy(), states.numpy())
    latents = simulator.rollout(start[:, None], actions)
    expected = PendulumDynamics().rollout(observations[:, None], actions) * torch.tensor([1.0, 2.0, 0.5])
    torch.testing.assert_close(latents[..., :3], expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(simulator.encode(observations[:, None])[:, 0, :3], start[:, :3])


def test_a_rollout_stays_where_the_environment_terminates():
    simulator = Simulator(open_environment("CartPole-v1", limit=False), np.ones(4))
    start = simulator.locate(np.zeros((1, 4)), np.zeros((1, 4)))
    latents = simulator.rollout(start[:, None], torch.eye(2).double()[[1] * 30][None])
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    env.unwrapped.state = np.zeros(4)
    observation, terminated, steps = None, False, 0
    while not terminated:
        observation, _, terminated, _, _ = env.step(1)
        steps += 1
    assert steps < 25
    np.testing.assert_allclose(latents[0, steps - 1 :, :4], np.tile(observation, (31 - steps, 1)), rtol=1e-5)
