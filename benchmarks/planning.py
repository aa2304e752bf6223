"""CEM in a latent: a plan against its own model evaluations in one batch, and a loop over candidates."""

import torch
from measure import alternate, row
from torch import Tensor

import isojepa as ij
from isojepa.encoders.mlp import MLP
from isojepa.plan.planners import CEM, ActionSpace, FunctionDynamics, GoalCost, Problem


def planning() -> list[dict]:
    """Models as of the Reacher: 4 latents, blocks of 5 actions of 2, a linear part and a small network."""
    return [*_plan(4, 10, 128), *_plan(4, 10, 64)]


def _plan(dim: int, width: int, hidden: int) -> list[dict]:
    source = ij.generator(0, "bench")
    network = MLP(dim + width, dim, hidden, 3).requires_grad_(False)
    a = torch.eye(dim + width, dim) + 0.1 * torch.randn(dim + width, dim, generator=source)

    def step(h: Tensor, actions: Tensor) -> Tensor:
        x = torch.cat((h, actions), 1)
        return x @ a + 0.01 * network(x)

    cem = CEM()
    start, goal = torch.randn(2, 1, dim, generator=source)
    problem = Problem(FunctionDynamics(step), GoalCost(), ActionSpace.box(width), start, goal)
    rows = cem.candidates * cem.iterations * cem.horizon
    h, actions = torch.randn(rows, dim, generator=source), torch.randn(rows, width, generator=source)

    @torch.no_grad()
    def in_batches() -> None:
        for part, acted in zip(h.split(cem.candidates), actions.split(cem.candidates), strict=True):
            step(part, acted)

    @torch.no_grad()
    def one_by_one() -> None:
        """One iteration of them: all candidates, each rolled out by itself."""
        for candidate in range(cem.candidates):
            state = start
            for place in range(cem.horizon):
                state = step(state, actions[candidate * cem.horizon + place, None])
            problem.cost(state[:, None], goal, actions[:1, None])

    times = alternate(
        {
            "plan": lambda: cem.plan(problem, ij.generator(0, "plan")),
            "one batch": torch.no_grad()(lambda: step(h, actions)),
            "batches of 300": in_batches,
        },
        seconds=1.5,
    )
    loop = alternate({"loop": one_by_one}, seconds=1.0, least=3)["loop"] * cem.iterations
    what = f"CEM 300 x 30 x 5, {dim} latents, network of {hidden}"
    goals = (-1.5, 20.0) if hidden == 128 else (None, None)
    return [
        row(
            f"{what}: plan / its model evaluations in one batch",
            times["plan"] / times["one batch"],
            goals[0],
            times,
        ),
        row(
            f"{what}: plan / the same in batches of 300", times["plan"] / times["batches of 300"], None, times
        ),
        row(
            f"{what}: time, loop over candidates / ours",
            loop / times["plan"],
            goals[1],
            {**times, "loop": loop},
        ),
    ]
