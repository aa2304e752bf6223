"""Environments behind one interface: real ones of Gymnasium, of MuJoCo and of the user."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from isojepa.worlds.gymnasium_environment import ActionCode, open_environment
from tests.own_environment import PointMass, make

gymnasium = pytest.importorskip("gymnasium")
OWN = str(Path(__file__).parent.parent / "own_environment.py")
CLASSIC = ["Pendulum-v1", "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]


def rollout(environment, rows):
    return np.stack([environment.step(row).observation for row in rows])


def rows_of(environment, count=20, seed=0):
    environment.actions.space.seed(seed)
    return [environment.actions.encode(environment.actions.space.sample()) for _ in range(count)]


@pytest.mark.parametrize("source", ["Pendulum-v1", f"{OWN}:make", PointMass, make, PointMass()])
def test_an_environment_is_opened_from_any_source(source):
    environment = open_environment(source)
    assert environment.name
    assert f"gymnasium {gymnasium.__version__}" in environment.version
    assert environment.reset(seed=1).dtype == np.float32
    assert open_environment(environment) is environment


@pytest.mark.parametrize("name", CLASSIC)
def test_observations_and_rewards_are_gymnasiums_own(name):
    environment, native = open_environment(name), gymnasium.make(name)
    np.testing.assert_array_equal(environment.reset(seed=7), np.float32(native.reset(seed=7)[0]))
    for row in rows_of(environment):
        step = environment.step(row)
        observation, reward, terminated, truncated, _ = native.step(environment.actions.decode(row))
        np.testing.assert_array_equal(step.observation, np.float32(observation))
        assert step[1:4] == (reward, terminated, truncated)


@pytest.mark.parametrize("source", [*CLASSIC, f"{OWN}:make"])
def test_a_simulation_resumes_from_a_state(source):
    environment = open_environment(source)
    assert environment.restorable
    environment.reset(seed=3)
    rows = rows_of(environment, 12)
    rollout(environment, rows[:4])
    state = environment.get_state()
    expected = rollout(environment, rows[4:])
    environment.reset(seed=4)
    environment.set_state(state)
    np.testing.assert_allclose(rollout(environment, rows[4:]), expected, atol=1e-6)
    with pytest.raises(ValueError, match=rf"state must have shape \({len(state)},\), got \(9,\)"):
        environment.set_state(np.zeros(9))


class Hinge(gymnasium.Env):
    """A pendulum of MuJoCo with the methods of Gymnasium's MujocoEnv."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self):
        import mujoco

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


@pytest.mark.skipif(find_spec("mujoco") is None, reason="mujoco is not installed")
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


def test_an_environment_without_a_state_cannot_be_restored():
    class Hidden(PointMass):
        get_state = None

    environment = open_environment(Hidden)
    assert not environment.restorable
    assert environment.get_state() is None
    with pytest.raises(ValueError, match="cannot restore a state: define get_state"):
        environment.set_state(np.zeros(4))


def test_the_time_limit_can_be_left_out():
    assert open_environment("Pendulum-v1").limit == 200
    assert open_environment("Pendulum-v1", limit=False).limit is None
    limited = gymnasium.wrappers.TimeLimit(PointMass(), 5)
    assert open_environment(limited).limit == 5
    assert open_environment(limited, limit=False).limit is None


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(np.array([-1.0, -3.0]), np.array([2.0, 0.1]), dtype=np.float64),
        gymnasium.spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        gymnasium.spaces.Box(0, 9, (2,), np.int64),
        gymnasium.spaces.Discrete(5, start=-2),
    ],
)
def test_rows_stand_for_native_actions(space):
    code = ActionCode(space)
    space.seed(0)
    for _ in range(20):
        row = code.encode(space.sample())
        assert row.shape == (code.width,)
        assert space.contains(code.decode(row))
        np.testing.assert_array_equal(code.encode(code.decode(row)), row)


def test_discrete_actions_are_one_hot_and_decoded_by_their_largest_number():
    code = ActionCode(gymnasium.spaces.Discrete(3, start=5))
    assert code.encode(6).tolist() == [0, 1, 0]
    assert code.decode([0.2, -1, 0.3]) == 7
    for action in (4, 8, 6.0, "6"):
        with pytest.raises(ValueError, match=r"action must be an integer in \[5, 8\)"):
            code.encode(action)


def test_actions_outside_of_the_bounds_are_errors_but_for_rounding():
    code = ActionCode(gymnasium.spaces.Box(-2.0, 2.0, (1,)), "Pendulum-v1")
    assert code.decode([2.000001]) == 2
    with pytest.raises(
        ValueError, match=r"Pendulum-v1: action must lie in \[-2, 2\], got 2.5 in dimension 0"
    ):
        code.encode([2.5])
    with pytest.raises(ValueError, match="got nan"):
        code.encode([np.nan])
    with pytest.raises(ValueError, match=r"must have shape \(1,\), got \(2,\)"):
        code.decode([0, 0])


class Reshaped(PointMass):
    """The point with other spaces."""

    def __init__(self, **spaces):
        vars(self).update(spaces)


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        (
            {"action_space": gymnasium.spaces.Box(-np.inf, np.inf, (2,))},
            r"must be bounded, got \[-inf, inf\] in dimension 0: wrap .*RescaleAction",
        ),
        ({"action_space": gymnasium.spaces.MultiDiscrete([3, 2])}, "must be Box or Discrete"),
        (
            {"observation_space": gymnasium.spaces.Dict(x=gymnasium.spaces.Discrete(3))},
            "must be a Box, got Dict.*FlattenObservation",
        ),
        (
            {"observation_space": gymnasium.spaces.Box(-1, 1, (3,))},
            r"must have shape \(3,\), got \(4,\)",
        ),
    ],
)
def test_other_spaces_are_errors_that_say_what_to_do(spaces, message):
    with pytest.raises(ValueError, match=message):
        open_environment(Reshaped(**spaces))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Pendulums-v1", "'Pendulums-v1' cannot be opened.*Did you mean: `Pendulum`.*Pendulum-v1, reacher"),
        (f"{OWN}:mace", "has no 'mace'; it has PointMass, make"),
        ("none.py:make", "none.py does not exist"),
        (dict, r"dict\(\) must return a gymnasium.Env, got \{\}"),
        (3, "environment must be a Gymnasium id .* got 3"),
    ],
)
def test_what_cannot_be_opened_is_an_error_in_one_line(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        open_environment(source)
    assert "\n" not in str(caught.value)


def test_an_observation_that_is_not_finite_is_an_error():
    class Diverging(PointMass):
        def observe(self):
            return super().observe() / np.float32(self.steps != 2)

    environment = open_environment(Diverging)
    environment.reset(seed=0)
    environment.step([0, 0])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="finite, got NaN or Inf at step 2"):
        environment.step([0, 0])


def test_images_stay_bytes_and_success_is_read_from_the_info():
    class Seen(PointMass):
        observation_space = gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8)

        def observe(self):
            return np.full((2, 2, 3), 9, np.uint8)

    environment = open_environment(Seen)
    assert environment.reset(seed=0).dtype == np.uint8
    assert environment.success(environment.step([0, 0]).info) is False
    assert (environment.success({}), environment.success({"is_success": 1.0})) == (None, True)


@pytest.mark.skipif(find_spec("dm_control") is None, reason="dm_control is not installed")
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
