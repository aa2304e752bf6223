r"""Gradient planning: Adam on the actions, through the model, from several starts at once.

After each step actions are projected onto the bounds. The cheapest actions that any start saw are the plan.
Cheap where the model is smooth; a model that was never asked for gradients may have bad ones.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.planning.planners.problems import Plan, Problem, normal


@dataclass(frozen=True)
class Gradient:
    """Adam on actions.

    Attributes:
        horizon: steps of the model that are planned.
        starts: from which it descends; the first is the centre, or the plan before.
        iterations: of Adam.
        rate: its step, in units of the action space; falls to 0 as a cosine.
        spread: deviation of the other starts, in units of the action space.
    """

    horizon: int = 5
    starts: int = 8
    iterations: int = 60
    rate: float = 0.2
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("horizon", "starts", "iterations"):
            check_count(name, getattr(self, name))
        for name in ("rate", "spread"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)

    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the best that was seen."""
        space = problem.space
        space.check_continuous("the gradient planner")
        first = problem.around(self.horizon, previous)
        noise = normal((len(problem), self.starts, *first.shape[1:]), generator, first)
        noise[:, 0] = 0.0
        # in units of the space, so that one rate serves actions of any scale
        units = (space.clip(first[:, None] + self.spread * space.unit * noise) - space.centre) / space.unit
        units.requires_grad_()
        optimizer = torch.optim.Adam([units], lr=self.rate)
        best = first
        least = first.new_full((len(problem),), math.inf)
        for step in range(self.iterations + 1):
            optimizer.param_groups[0]["lr"] = self.rate * (1 + math.cos(math.pi * step / self.iterations)) / 2
            with torch.enable_grad():
                actions = space.centre + space.unit * units
                costs = problem.costs(actions)
                (gradient,) = torch.autograd.grad(costs.sum(), units)
            with torch.no_grad():
                low, place = costs.min(1)
                better = low < least
                chosen = actions[torch.arange(len(problem), device=place.device), place]
                best = torch.where(better[:, None, None], chosen, best)
                least = torch.where(better, low, least)
            units.grad = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
            optimizer.step()
            with torch.no_grad():
                units.copy_((space.clip(space.centre + space.unit * units) - space.centre) / space.unit)
        return problem.finished(space.clip(best), (self.iterations + 1) * self.starts * self.horizon)
