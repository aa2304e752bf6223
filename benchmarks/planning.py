"""CEM in a latent: a plan against its own model evaluations in one batch, and a loop over candidates.

Its model evaluations are 30 iterations of 5 steps on 300 rows. "In one batch" is all 45,000 rows in one call
of the model: the harder mark, since each step starts from the one before, and no planner can make fewer than
150 calls. "In batches of 300" are those calls: what is beyond them is the planner's own. Ratios are of one
thread's processor time: whoever else computes on the machine then counts for little.
"""

import ctypes
import sys
from collections.abc import Callable

import torch
from measure import processor_time, row
from torch import Tensor

import isojepa as ij
from isojepa.encoders import Dynamics, Stepwise, WorldModel
from isojepa.encoders.mlp import MLP
from isojepa.planning.planners import CEM
from isojepa.planning.problems import ActionSpace, FunctionDynamics, GoalCost, LinearDynamics, Problem
from isojepa.training.fine_tuning import StandardizedNetwork
from isojepa_lab.environments.latent_control import LatentModel

DIM, WIDTH = 4, 10  # as of the Reacher: 4 latents, blocks of 5 actions of 2


def planning() -> list[dict]:
    """Functions with a linear part and a small network, and a model as `fit_model` makes it by default."""
    models = {
        "network of 128": _function(128),
        "network of 64": _function(64),
        "LatentModel of 64, the default": _latent_model(64),
        "WorldModel, the default": WorldModel(DIM, observed=DIM, actions=WIDTH).requires_grad_(False),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [line for label, model in models.items() for line in _plan(label, model)]
        _keep_memory()
        kept = [_plan(f"{label}, memory kept", model)[0] for label, model in models.items()]
        return [*rows, *({**line, "target": None, "met": True} for line in kept)]
    finally:
        torch.set_num_threads(threads)


def _keep_memory() -> None:
    """Let freed memory stay with the process.

    Else glibc gives the 11 or 23 MB of each layer back after every call or never, by what was freed before:
    with 64 units the one call of all rows takes twice as long in some processes as in others.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, at its upper limit
        libc.mallopt(-1, 2**29)  # M_TRIM_THRESHOLD


def _function(hidden: int) -> Stepwise:
    source = ij.generator(0, "bench")
    network = MLP(DIM + WIDTH, DIM, hidden, 3).requires_grad_(False)
    a = torch.eye(DIM + WIDTH, DIM) + 0.1 * torch.randn(DIM + WIDTH, DIM, generator=source)

    def step(h: Tensor, actions: Tensor) -> Tensor:
        x = torch.cat((h, actions), 1)
        return x @ a + 0.01 * network(x)

    return FunctionDynamics(step)


def _latent_model(hidden: int) -> Stepwise:
    source = ij.generator(0, "bench")
    a = torch.eye(DIM) + 0.1 * torch.randn(DIM, DIM, generator=source)
    b = 0.1 * torch.randn(DIM, WIDTH, generator=source)
    x = torch.randn(1000, DIM + WIDTH, generator=source)
    y = 0.01 * torch.randn(1000, DIM, generator=source)
    network = StandardizedNetwork(MLP(DIM + WIDTH, DIM, hidden, 3), x, y).requires_grad_(False)
    return LatentModel(LinearDynamics(a, b, torch.zeros(DIM)), network, 0.0)


def _plan(label: str, dynamics: Dynamics) -> list[dict]:
    source = ij.generator(1, "bench")

    def one_step(h: Tensor, a: Tensor) -> Tensor:
        return dynamics.rollout(h[:, None], a[:, None])[:, 0]

    step: Callable[[Tensor, Tensor], Tensor] = getattr(dynamics, "step", one_step)
    cem = CEM()
    start, goal = torch.randn(2, 1, DIM, generator=source)
    problem = Problem(dynamics, GoalCost(), ActionSpace.box(WIDTH), start, goal)
    rows = cem.candidates * cem.iterations * cem.horizon
    h, actions = torch.randn(rows, DIM, generator=source), torch.randn(rows, WIDTH, generator=source)

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

    times = processor_time(
        {
            "plan": lambda: cem.plan(problem, ij.generator(0, "plan")),
            "one batch": torch.no_grad()(lambda: step(h, actions)),
            "batches of 300": in_batches,
            "loop": one_by_one,
        },
        rounds=21,
    )
    times["loop"] *= cem.iterations
    what = f"CEM 300 x 30 x 5, {DIM} latents, {label}"
    return [
        row(
            f"{what}: plan / its model evaluations in one batch",
            times["plan"] / times["one batch"],
            -1.5,
            times,
        ),
        row(
            f"{what}: plan / the same in batches of 300", times["plan"] / times["batches of 300"], -1.5, times
        ),
        row(
            f"{what}: time, loop over candidates / ours",
            times["loop"] / times["plan"],
            20.0,
            times,
        ),
    ]
