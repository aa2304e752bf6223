r"""The cross-entropy method, and iCEM: draw candidates, keep the best, draw around them.

Each iteration draws candidates around a mean with a deviation per step and action, clips them, and takes mean
and deviation of the `elites` that cost least (Rubinstein 1999). The defaults, 300 candidates, 30 iterations,
30 elites and a horizon of 5, are those of published latent planners.

iCEM (Pinneri et al. 2020) needs fewer: noise is coloured in time, some elites stay candidates, mean and
deviation move by a part of the way, and the population shrinks as it learns where to look.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.planning.planners.noise import coloured
from isojepa.planning.planners.problems import Plan, Problem


@dataclass(frozen=True)
class CEM:
    """The cross-entropy method.

    Attributes:
        horizon: steps of the model that are planned.
        candidates: drawn at the first iteration.
        iterations: of drawing and choosing.
        elites: that the next are drawn around.
        spread: deviation of the first candidates, in units of the action space.
        momentum: share of the old mean and deviation that stays.
        colour: beta of the noise, see `noise`; 0 is white.
        kept: share of the elites that stay candidates.
        shrink: by which the number of candidates is divided at each iteration.
    """

    horizon: int = 5
    candidates: int = 300
    iterations: int = 30
    elites: int = 30
    spread: float = 1.0
    momentum: float = 0.0
    colour: float = 0.0
    kept: float = 0.0
    shrink: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("horizon", "candidates", "iterations"):
            check_count(name, getattr(self, name))
        check_count("elites", self.elites, 2, self.candidates)
        check_number("spread", self.spread, "be positive and finite", lambda value: value > 0)
        check_number("momentum", self.momentum, "lie in [0, 1)", lambda value: 0 <= value < 1)
        check_number("colour", self.colour, "be at least 0", lambda value: value >= 0)
        check_number("kept", self.kept, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        check_number("shrink", self.shrink, "be at least 1", lambda value: value >= 1)

    @property
    def populations(self) -> tuple[int, ...]:
        """Candidates that are drawn at each iteration; never fewer than twice the elites, if so many."""
        least = min(self.candidates, 2 * self.elites)
        drawn = (self.candidates * self.shrink**-i for i in range(self.iterations))
        return tuple(max(least, math.floor(count)) for count in drawn)

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem: the cheaper of the last mean and the best candidate of all."""
        space, scored = problem.space, 0
        mean = problem.around(self.horizon, previous)
        one, each = mean.shape[1:], torch.arange(len(problem), device=mean.device)
        deviation = (self.spread * space.unit).expand_as(mean)
        least, best = [], []  # of each iteration; which of them is the least of all is asked once, at the end
        kept = round(self.kept * self.elites)
        stay = mean.new_empty((len(problem), 0, *one))
        for count in self.populations:
            drawn = coloured((len(problem), count, *one), self.colour, generator, mean)
            drawn = torch.addcmul(mean[:, None], drawn, deviation[:, None])
            drawn[:, 0] = mean
            space.clip_(drawn)
            drawn = torch.cat((drawn, stay), 1) if stay.shape[1] else drawn
            scored += drawn.shape[1]
            low, order = problem.costs(drawn).topk(self.elites, dim=1, largest=False)
            elites = drawn.gather(1, order[:, :, None, None].expand(-1, -1, *one))
            least.append(low[:, 0])
            best.append(elites[:, 0].clone())  # a view would keep all elites of all iterations
            middle = elites.mean(1)
            width = (elites - middle[:, None]).square_().mean(1).sqrt_()
            mean = torch.lerp(middle, mean, self.momentum) if self.momentum else middle
            deviation = torch.lerp(width, deviation, self.momentum) if self.momentum else width
            stay = elites[:, :kept]
        ends = torch.stack((torch.stack(best)[torch.stack(least).argmin(0), each], space.clip(mean)), 1)
        cheaper = problem.costs(ends).argmin(1)
        return problem.finished(ends[each, cheaper], (scored + 2) * self.horizon)


@dataclass(frozen=True)
class ICEM(CEM):
    """The cross-entropy method that needs fewer candidates; the attributes are those of `CEM`."""

    candidates: int = 128
    iterations: int = 8
    elites: int = 16
    momentum: float = 0.1
    colour: float = 2.0
    kept: float = 0.3
    shrink: float = 1.25
