r"""Model predictive path integrals: the mean of all candidates, the cheap ones weighing most.

    a <- sum_i w_i a^i,    w_i = exp(-(S_i - min S) / lambda) / sum_j exp(-(S_j - min S) / lambda)

with candidates a^i = a + noise of cost S_i (Williams et al. 2017). lambda is given in units of how much more
than the best the average candidate costs, since costs of latents have no units of their own; the noise
shrinks from one iteration to the next.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.planning.planners.noise import coloured
from isojepa.planning.planners.problems import Plan, Problem


def path_weights(costs: Tensor, temperature: float | Tensor) -> Tensor:
    """Weights (..., candidates) of costs (..., candidates), which sum to 1; temperature broadcasts.

    Example:
        >>> path_weights(torch.tensor([0.0, 1.0]), 1.0).tolist()
        [0.7310585975646973, 0.2689414322376251]
    """
    return torch.softmax(-(costs - costs.amin(-1, keepdim=True)) / temperature, -1)


@dataclass(frozen=True)
class MPPI:
    """Model predictive path integrals.

    Attributes:
        horizon: steps of the model that are planned.
        candidates: drawn at each iteration.
        iterations: of drawing and weighing.
        temperature: lambda, in units of mean minus least cost of the candidates.
        spread: deviation of the first noise, in units of the action space.
        shrink: by which the noise is divided at each iteration.
        colour: beta of the noise, see `noise`.
    """

    horizon: int = 5
    candidates: int = 300
    iterations: int = 20
    temperature: float = 0.1
    spread: float = 1.0
    shrink: float = 1.25
    colour: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("horizon", "candidates", "iterations"):
            check_count(name, getattr(self, name))
        for name in ("temperature", "spread"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)
        check_number("shrink", self.shrink, "be at least 1", lambda value: value >= 1)
        check_number("colour", self.colour, "be at least 0", lambda value: value >= 0)

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the weighted mean after the last iteration."""
        mean = problem.around(self.horizon, previous)
        deviation = self.spread * problem.space.unit
        tiny = torch.finfo(mean.dtype).tiny
        for _ in range(self.iterations):
            noise = coloured((len(problem), self.candidates, *mean.shape[1:]), self.colour, generator, mean)
            drawn = problem.space.clip_(mean[:, None] + deviation * noise)
            costs = problem.costs(drawn)
            finite = torch.isfinite(costs)
            excess = torch.where(finite, costs - costs.amin(1, keepdim=True), 0.0)
            scale = excess.sum(1, keepdim=True) / finite.sum(1, keepdim=True).clamp_min(1)
            weights = path_weights(costs, (self.temperature * scale).clamp_min(tiny))
            mean = torch.einsum("pc,pchm->phm", weights, drawn)
            deviation = deviation / self.shrink
        return problem.finished(mean, self.iterations * self.candidates * self.horizon)
