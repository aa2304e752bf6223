r"""How far a plan ends from its goal: a weighted squared distance, at the end or all along.

    cost = sum_{t < H} running |w (h_t - g)|^2 + |w (h_H - g)|^2 + effort sum_t |a_t|^2

With running = 0 and w = 1 it is the published one, the squared distance of the last latent. Distances between
latents that are rotations of each other are equal (Theorem 4 of Klindt et al., 2026), so is the cost if w
does not tell the rotated coordinates apart. Where the coordinates are angles, differences are taken modulo
2 pi: the way round costs nothing.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_fields, check_number


def wrapped(difference: Tensor, period: float | Tensor = 2 * math.pi) -> Tensor:
    """Differences modulo a period, between -period / 2 and period / 2; an infinite period changes nothing.

    Example:
        >>> wrapped(torch.tensor([3.5, -0.5])).tolist()
        [-2.7831854820251465, -0.5]
    """
    if isinstance(period, Tensor):
        turns = torch.round(difference / period)
        return difference - torch.where(torch.isinf(period), 0.0, turns * period)
    return difference - period * torch.round(difference / period)


@dataclass(frozen=True)
class GoalCost:
    """Weighted squared distance to a goal.

    Attributes:
        weights: (dim,) w^2, what the square of each coordinate's difference counts; 1 by default.
        running: weight of the steps before the last.
        effort: weight of squared actions.
        period: (dim,) of coordinates that are angles; Inf for others. None if none is.
    """

    weights: Tensor | None = None
    running: float = 0.0
    effort: float = 0.0
    period: Tensor | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("running", "effort"):
            check_number(name, getattr(self, name), "be at least 0", lambda value: value >= 0)
        if self.weights is not None and not bool((self.weights >= 0).all()):
            raise ValueError(f"weights must be at least 0, got {self.weights.tolist()}")

    def __call__(self, latents: Tensor, goal: Tensor, actions: Tensor) -> Tensor:
        """Costs (...) of latents (..., horizon, dim) and actions (..., horizon, m) for goals (..., dim)."""
        if self.running:
            steps = self._distances(latents, goal.unsqueeze(-2))
            cost = steps[..., -1] + self.running * steps[..., :-1].sum(-1)
        else:
            cost = self._distances(latents.select(-2, -1), goal)
        if self.effort:
            cost = cost + self.effort * actions.square().sum((-2, -1))
        return cost

    def _distances(self, latents: Tensor, goal: Tensor) -> Tensor:
        squares = self.difference(latents, goal).square()
        if self.weights is not None:
            squares = squares * self.weights.to(squares)
        return squares.sum(-1)

    def difference(self, latents: Tensor, goal: Tensor) -> Tensor:
        """Latents minus goal, angles the short way round."""
        found = latents - goal
        return found if self.period is None else wrapped(found, self.period.to(found))

    def root_weights(self, horizon: int, like: Tensor) -> Tensor:
        """(horizon, dim) square roots of what each squared difference counts: the cost as least squares."""
        weights = torch.ones(like.shape[-1]) if self.weights is None else self.weights
        steps = torch.full((horizon,), self.running)
        steps[-1] = 1.0
        return torch.sqrt(steps[:, None] * weights.cpu()).to(like)


@dataclass(frozen=True)
class NearestCost:
    """Weighted squared distance of the step that comes nearest to the goal: for success at any step.

    Attributes:
        weights: (dim,) as of `GoalCost`.
    """

    weights: Tensor | None = None

    def __call__(self, latents: Tensor, goal: Tensor, actions: Tensor) -> Tensor:
        """Costs (...) of latents (..., horizon, dim) for goals (..., dim)."""
        steps = GoalCost(self.weights)(latents[..., None, :], goal.unsqueeze(-2), actions[..., None, :])
        return steps.amin(-1)
