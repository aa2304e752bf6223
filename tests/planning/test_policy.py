"""World models as policies: in environment loops, with their context, warm start and errors."""

import gymnasium
import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.planning.planners import CEM
from isojepa.planning.problems import ActionSpace, GoalCost
from tests.own_environment import PointMass
from tests.planning.simulators import CartPoleDynamics, PointDynamics

GOAL = np.array([0.4, -0.3, 0, 0], np.float32)


class Frames:
    """Predicts the last of three frames, and stores the contexts that it is asked about."""

    context, action_space = 3, ActionSpace.box(1)

    def __init__(self):
        self.contexts = []

    def encode(self, observations):
        return observations.flatten(2)

    def rollout(self, latents, actions):
        self.contexts.append(latents[0].flatten().tolist())
        return latents[:, -1:].expand(-1, actions.shape[1], -1) + actions.cumsum(1)


class Shifts:
    """Returns the plan 0, 0.1, 0.2, ... or the previous one, and counts."""

    horizon = 4

    def __init__(self):
        self.previous = []

    def plan(self, problem, generator, previous=None):
        self.previous.append(previous)
        return problem.finished(torch.arange(4.0)[None, :, None] / 10, 0)


def drive(policy, steps=60, seed=3):
    env = PointMass()
    observation, _ = env.reset(seed=seed)
    actions = []
    for _ in range(steps):
        actions.append(policy(observation))
        observation = env.step(actions[-1])[0]
    return observation, np.array(actions)


@pytest.mark.parametrize("planner", ["icem", "mpc"])
def test_a_policy_with_true_dynamics_reaches_its_goal_and_another(planner):
    policy = ij.plan(PointDynamics(), GOAL, planner, environment=PointMass, horizon=8)
    observation, actions = drive(policy)
    assert np.abs(observation - GOAL).max() < 0.05
    assert actions.dtype == np.float32
    assert actions.shape == (60, 2)
    assert policy.last.actions.shape == (1, 8, 2)
    policy.reset(goal=-GOAL)
    assert np.abs(drive(policy)[0] + GOAL).max() < 0.05


def test_a_reset_policy_repeats_its_actions_and_another_seed_does_not():
    policy, other = (
        ij.plan(PointDynamics(), GOAL, CEM(4, 20, 3, 5), environment=PointMass(), seed=seed)
        for seed in (0, 1)
    )
    first = drive(policy, 5)[1]
    assert policy.last is not None
    policy.reset()
    assert policy.last is None
    assert np.array_equal(drive(policy, 5)[1], first)
    assert not np.array_equal(drive(other, 5)[1], first)


def test_discrete_actions_are_integers_that_keep_the_pole_up():
    env = gymnasium.make("CartPole-v1")
    cost = GoalCost(torch.tensor([1.0, 1.0, 50.0, 5.0]), running=1.0)
    policy = ij.plan(CartPoleDynamics(), np.zeros(4), "icem", environment=env, horizon=15, cost=cost)
    observation, _ = env.reset(seed=0)
    for _ in range(100):
        action = policy(observation)
        assert type(action) is int
        observation, _, terminated, _, _ = env.step(action)
        assert not terminated
    model = CartPoleDynamics()
    model.action_space = ActionSpace.one_hot(2)
    assert ij.plan(model, np.zeros(4), "icem")(np.array([0, 0, 0.1, 0.5])) == 1


def test_the_context_starts_with_the_first_latent_repeated_and_then_has_the_last_ones():
    model = Frames()
    policy = ij.plan(model, np.zeros(1, np.float32), CEM(2, 4, 1, 2))
    for value in (1.0, 2.0, 3.0, 4.0):
        model.contexts.clear()
        policy(np.array([value]))
        previous = [max(value - 2, 1.0), max(value - 1, 1.0)]
        assert all(context == [*previous, value] for context in model.contexts)


def test_the_rest_of_a_plan_warms_the_next_and_several_actions_are_carried_out():
    planner, model = Shifts(), Frames()
    policy = ij.plan(model, np.zeros(1), planner, execute=2)
    actions = [float(policy(np.zeros(1))[0]) for _ in range(5)]
    np.testing.assert_allclose(actions, [0, 0.1, 0, 0.1, 0], atol=1e-6)
    assert len(planner.previous) == 3
    assert planner.previous[0] is None
    np.testing.assert_allclose(planner.previous[1][0, :, 0], [0.2, 0.3, 0.3, 0.3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"goal": [np.nan] * 4}, "goal must be finite, got NaN or Inf"),
        ({"goal": "there"}, "goal must be an array of numbers, got 'there'"),
        ({"planner": "cme"}, "planner must be one of cem, .*; did you mean 'cem'"),
        ({"environment": None}, "model must have an action_space, got None: pass environment="),
        ({"model": abs}, "model must be a Dynamics with context, encode and rollout, got builtin_function"),
        ({"environment": "Pendulum-v1", "goal": np.zeros(3)}, "environment's width 1, got width 2"),
    ],
)
def test_what_cannot_be_planned_is_one_line(arguments, message):
    model = PointDynamics()
    if arguments.get("environment") == "Pendulum-v1":
        model.action_space = ActionSpace.box(2)
    with pytest.raises(ValueError, match=message):
        ij.plan(**{"model": model, "goal": GOAL, "environment": PointMass, **arguments})
