"""Linear-quadratic problems whose optimum is known by independent means."""

import numpy as np
import torch

from isojepa.planning.problems import ActionSpace, GoalCost, LinearDynamics, Problem
from isojepa.seeds import generator

DOUBLE = torch.float64


def cart(problems=3, *, scale=0.3, running=1.0, effort=0.05, limit=1.0, dim=2):
    """A cart on a line, pushed by a bounded force, towards goals."""
    a = torch.tensor([[1.0, 0.2], [0.0, 0.9]], dtype=DOUBLE)
    b = torch.tensor([[0.02], [0.2]], dtype=DOUBLE)
    source = generator(0, "cart")
    start = scale * torch.randn(problems, dim, generator=source, dtype=DOUBLE)
    goal = torch.zeros(problems, dim, dtype=DOUBLE)
    return Problem(
        LinearDynamics(a, b, torch.zeros(2, dtype=DOUBLE)),
        GoalCost(torch.tensor([1.0, 0.3], dtype=DOUBLE), running, effort),
        ActionSpace.box(1, -limit, limit),
        start,
        goal,
    )


def stacked(problem, horizon, place):
    """The cost of one problem as |M a - y|^2 for its actions a (horizon,), built by hand."""
    model, cost = problem.dynamics, problem.cost
    a, b = model.a.numpy(), model.b.numpy()
    rows, wanted = [], []
    state = problem.start[place].numpy()
    response = np.zeros((2, horizon))
    for step in range(horizon):
        state, response = a @ state, a @ response
        response[:, step] += b[:, 0]
        weight = np.sqrt((1.0 if step == horizon - 1 else cost.running) * cost.weights.numpy())
        rows.append(weight[:, None] * response)
        wanted.append(weight * (problem.goal[place].numpy() - state))
    rows.append(np.sqrt(cost.effort) * np.eye(horizon))
    wanted.append(np.zeros(horizon))
    return np.concatenate(rows), np.concatenate(wanted)
