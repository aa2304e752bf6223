"""Environments behind one interface: real ones of Gymnasium, of MuJoCo and of the user."""

from pathlib import Path

import numpy as np
import pytest

from isojepa.data.environments import ActionCode, open_environment
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


def test_an_environment_without_a_state_cannot_be_restored():
    class Hidden(PointMass):
        get_state = None

    environment = open_environment(Hidden)
    assert not environment.restorable
    assert environment.get_state() is None
    with pytest.raises(ValueError, match="cannot restore a state: define get_state"):
        environment.set_state(np.zeros(4))


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
