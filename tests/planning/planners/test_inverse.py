"""The policy by inverse dynamics: recorded actions are told, and goals reached."""

import numpy as np
import pytest
import torch

from isojepa.planning.planners import ActionSpace, FunctionDynamics, GoalCost, InverseDynamics, Problem
from isojepa.seeds import generator


def walks(count=40, steps=30):
    """A point in the plane that goes where its action points."""
    actions = 2 * torch.rand(count, steps, 2, generator=generator(0, "walks"), dtype=torch.float64) - 1
    places = torch.cat((torch.zeros(count, 1, 2), 0.5 * actions.cumsum(1)[:, :-1]), 1)
    return list(places.numpy()), list(actions.numpy())


@pytest.fixture(scope="module")
def policy():
    return InverseDynamics.fit(*walks(), reach=3, ahead=1, steps=300)


def moved(h, a):
    return h + 0.5 * a


def test_the_policy_finds_the_action_that_leads_to_the_next_latent(policy):
    goal = torch.tensor([[0.3, -0.2], [-0.4, 0.1]])
    problem = Problem(FunctionDynamics(moved), GoalCost(), ActionSpace.box(2), torch.zeros(2, 2), goal)
    plan = policy.plan(problem, generator(0, "x"))
    assert plan.actions.shape == (2, 1, 2)
    torch.testing.assert_close(plan.actions[:, 0], 2 * goal, atol=0.1, rtol=0)


def test_a_far_goal_is_reached_along_the_straight_line(policy):
    h, goal = torch.zeros(1, 2), torch.tensor([[3.0, 2.0]])
    for _ in range(14):
        problem = Problem(FunctionDynamics(moved), GoalCost(), ActionSpace.box(2), h, goal)
        h = moved(h, policy.plan(problem, generator(0, "x")).actions[:, 0])
        assert abs(float(h[0, 0] * 2 - h[0, 1] * 3)) < 1.0
    assert float((h - goal).norm()) < 0.1


def test_bad_episodes_and_other_widths_are_told(policy):
    latents, actions = walks(4, 5)
    with pytest.raises(ValueError, match="as many steps"):
        InverseDynamics.fit(latents, [part[1:] for part in actions])
    with pytest.raises(ValueError, match="longer than ahead"):
        InverseDynamics.fit(latents, actions, reach=9, ahead=9)
    wide = Problem(
        FunctionDynamics(moved), GoalCost(), ActionSpace.box(3), torch.zeros(1, 3), torch.zeros(1, 3)
    )
    with pytest.raises(ValueError, match="the policy takes latents of 2"):
        policy.plan(wide, generator(0, "x"))
    assert np.isfinite(policy.radius)
