"""What joins `isojepa` by entry points: the simulated arm by its name."""

import gymnasium
import numpy as np
import pytest

import isojepa as ij
from isojepa.data.environments import open_environment
from isojepa.data.files import read_episodes
from isojepa_lab.environments.control import simulator
from tests.cli.test_commands import refuse, run
from tests.data.test_environments import rollout, rows_of

for _package in ("dm_control", "gymnasium", "h5py"):
    pytest.importorskip(_package)


def test_the_reacher_is_an_environment_whose_expert_reaches_its_target():
    environment = open_environment("reacher")
    observation = environment.reset(seed=1)
    assert (environment.limit, observation.shape) == (200, (6,))
    first = environment.get_state()
    np.testing.assert_allclose(observation[[0, 1]], [np.cos(first[0]), np.sin(first[0])], rtol=1e-6)
    rewards, rows = [], []
    for _ in range(200):
        rows.append(environment.actions.encode(environment.env.unwrapped.expert(None)))
        step = environment.step(rows[-1])
        rewards.append(step.reward)
    assert step.truncated
    assert np.mean(rewards[-50:]) > 0.5
    environment.reset(seed=2)
    environment.set_state(first)
    np.testing.assert_allclose(rollout(environment, rows)[-1], step.observation, atol=1e-4)


def test_the_expert_of_the_reacher_is_collected():
    episodes = ij.collect("reacher", "expert", 2, steps=20)
    assert episodes.shape("observation") == (6,)
    assert episodes.shape("state") == (4,)
    assert "mujoco" in episodes.meta["version"]
    train, test = ij.collect("reacher", episodes=10, steps=2).split(0.9, seed=0)
    assert (len(train), len(test)) == (9, 1)
    assert train.meta == test.meta


def test_episodes_of_the_arm_are_written(capsys, tmp_path):
    path = tmp_path / "random.h5"
    code, out, _ = run(
        capsys, "episodes", "reacher", "--policy", "random", "--episodes", "3", "--steps", "5", "--out", path
    )
    assert code == 0
    assert "3 episodes, 15 steps" in out
    assert set(read_episodes(path).names) == {"qpos", "qvel", "action", "target", "reward"}
    assert "policy must be one of" in refuse(capsys, "episodes", "reacher", "--policy", "sacc", "--out", path)


class Hinge(gymnasium.Env):
    """A pendulum of MuJoCo with the methods of Gymnasium's MujocoEnv."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self):
        mujoco = simulator()

        body = '<body><joint name="hinge" axis="0 1 0"/><geom size=".1" pos=".5 0 0"/></body>'
        self.mujoco, self.model = (
            mujoco,
            mujoco.MjModel.from_xml_string(
                f'<mujoco><worldbody>{body}</worldbody><actuator><motor joint="hinge"/></actuator></mujoco>'
            ),
        )
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.set_state(self.np_random.uniform(-1, 1, 1), np.zeros(1))
        return self.observe(), {}

    def step(self, action):
        self.data.ctrl[:] = action
        self.mujoco.mj_step(self.model, self.data)
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        return np.concatenate((self.data.qpos, self.data.qvel))

    def set_state(self, qpos, qvel):
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        self.mujoco.mj_forward(self.model, self.data)


def test_a_simulation_of_mujoco_resumes_from_positions_and_velocities():
    environment = open_environment(Hinge)
    environment.reset(seed=0)
    rows = rows_of(environment, 40)
    rollout(environment, rows[:20])
    state = environment.get_state()
    np.testing.assert_array_equal(state, environment.env.observe())
    expected = rollout(environment, rows[20:])
    environment.set_state(state)
    np.testing.assert_allclose(rollout(environment, rows[20:]), expected, atol=1e-6)
    assert "mujoco" in environment.version
