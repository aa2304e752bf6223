r"""Planners that sample: the cross-entropy method, iCEM with colored noise, and MPPI.

Noise that is coloured in time: its power spectrum falls as frequency^-beta.

    x_t = sum_k s_k (u_k cos 2 pi k t / H + v_k sin 2 pi k t / H),    s_k ~ max(k, 1)^(-beta / 2)

with standard normal u, v, scaled to variance 1 at every step. beta 0 is white noise; 2 moves slowly, as arms
do (Pinneri et al. 2020, "Sample-efficient cross-entropy method", after Timmer & Koenig 1995).

The cross-entropy method, and iCEM: draw candidates, keep the best, draw around them.

Each iteration draws candidates around a mean with a deviation per step and action, clips them, and takes mean
and deviation of the `elites` that cost least (Rubinstein 1999). The defaults, 300 candidates, 30 iterations,
30 elites and a horizon of 5, are those of published latent planners.

iCEM (Pinneri et al. 2020) needs fewer: noise is coloured in time, some elites stay candidates, mean and
deviation move by a part of the way, and the population shrinks as it learns where to look.

Model predictive path integrals: the mean of all candidates, the cheap ones weighing most.

    a <- sum_i w_i a^i,    w_i = exp(-(S_i - min S) / lambda) / sum_j exp(-(S_j - min S) / lambda)

with candidates a^i = a + noise of cost S_i (Williams et al. 2017). lambda is given in units of how much more
than the best the average candidate costs, since costs of latents have no units of their own; the noise
shrinks from one iteration to the next.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.planning.planners.problems import Plan, Problem, normal


def spectrum(horizon: int, beta: float) -> Tensor:
    """(horizon // 2 + 1,) power at each frequency k / horizon, such that the variance of a step is 1."""
    frequency = torch.arange(horizon // 2 + 1, dtype=torch.float64).clamp_min(1.0)
    power = frequency**-beta
    # frequency 0, and the last of an even horizon, have a cosine alone; all others a sine besides
    share = torch.full_like(power, 2.0)
    share[0] = 1.0
    if horizon % 2 == 0:
        share[-1] = 1.0
    return power / (share * power).sum()


def coloured(shape: tuple[int, ...], beta: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Normal noise of variance 1 that is coloured along the axis before the last.

    Args:
        shape: (..., horizon, m).
        beta: how steeply the spectrum falls.
        generator: draws it.
        like: whose type and device it has.
    """
    *rows, horizon, width = shape
    # steps lie one after the other in memory: each is then read, by the model, in one piece
    white = normal((horizon, *rows, width), generator, like)
    if beta and horizon > 1:
        # white noise has the same power at all frequencies: its transform is weighted and taken back
        gain = torch.sqrt(spectrum(horizon, beta) * horizon).to(white)
        weighted = torch.fft.rfft(white, dim=0) * gain.view(-1, *[1] * (white.ndim - 1))
        white = torch.fft.irfft(weighted, n=horizon, dim=0)
    return white.movedim(0, -2)


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
