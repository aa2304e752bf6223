r"""What planners solve: models, costs, and a batch of problems.

What planners solve: actions that bring a latent near a goal, for several problems and candidates at once.

    min over a_1 ... a_H in [low, high]   cost(h_1, ..., h_H; goal; a),    h = rollout(context, a)

A model of the latent is any `Dynamics`, a cost anything that can be called with latents, goal and actions.
Actions are raw ones, as the plant takes them: candidates are drawn in units of `deviation` around `mean`,
un-scaled, clipped to the bounds, and only then shown to the model, so that what is scored can be done.

How far a plan ends from its goal: a weighted squared distance, at the end or all along.

    cost = sum_{t < H} running |w (h_t - g)|^2 + |w (h_H - g)|^2 + effort sum_t |a_t|^2

With running = 0 and w = 1 it is the published one, the squared distance of the last latent. Distances between
latents that are rotations of each other are equal (Theorem 4 of Klindt et al., 2026), so is the cost if w
does not distinguish the rotated coordinates. Where the coordinates are angles, differences are taken modulo
2 pi: the way round costs nothing.

Models of the latent that planners step: linear ones, fitted in closed form, and any function.

    h' = A h + B a + c

A and B are those of least squares on recorded (h, a, h'), in float64. In rotated latents Q h the same fit
gives Q A Q^T and Q B, so whatever is planned is the same. Directions of the latent in which it does not vary
beyond the rounding of an encoder's float32 have no coefficients: fitted to rounding, they would be huge.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.encoders.world_model import Dynamics, Stepwise
from isojepa.linear import least_squares
from isojepa.validation import check_count, check_number, validate_fields


class Cost(Protocol):
    """What a plan costs."""

    def __call__(self, latents: Tensor, goal: Tensor, actions: Tensor) -> Tensor:
        """Costs (...) of latents (..., horizon, dim) after actions (..., horizon, m); goals (..., dim)."""
        ...


@dataclass(frozen=True)
class ActionSpace:
    """Bounds of actions, and the units in which planners draw them.

    Attributes:
        low, high: (m,) bounds.
        mean: (m,) around which candidates are first drawn; the middle of the bounds by default.
        deviation: (m,) their spread; half of the width by default.
        choices: for discrete actions, the number of them: actions are then one-hot rows. 0 if continuous.
    """

    low: Tensor
    high: Tensor
    mean: Tensor | None = None
    deviation: Tensor | None = None
    choices: int = 0

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("choices", self.choices, 0)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not bool((self.low < self.high).all()):
            raise ValueError(
                f"low and high must be (m,) with low < high, got {self.low.tolist()} and {self.high.tolist()}"
            )
        for name, value in (("mean", self.mean), ("deviation", self.deviation)):
            if value is not None and value.shape != self.low.shape:
                raise ValueError(
                    f"{name} must be {tuple(self.low.shape)} as the bounds, got {tuple(value.shape)}"
                )
        if self.deviation is not None and not bool((self.deviation > 0).all()):
            raise ValueError(f"deviation must be positive, got {self.deviation.tolist()}")

    @classmethod
    def box(cls, width: int, low: float = -1.0, high: float = 1.0) -> "ActionSpace":
        """The same bounds for `width` actions."""
        return cls(torch.full((width,), float(low)), torch.full((width,), float(high)))

    @classmethod
    def one_hot(cls, choices: int) -> "ActionSpace":
        """One of so many discrete actions."""
        return cls(torch.zeros(choices), torch.ones(choices), choices=choices)

    @property
    def width(self) -> int:
        """How many numbers an action has."""
        return len(self.low)

    @property
    def center(self) -> Tensor:
        """(m,) around which candidates are first drawn."""
        return (self.low + self.high) / 2 if self.mean is None else self.mean

    @property
    def unit(self) -> Tensor:
        """(m,) initial standard deviation."""
        return (self.high - self.low) / 2 if self.deviation is None else self.deviation

    def clip(self, actions: Tensor) -> Tensor:
        """Actions (..., m) within the bounds; the nearest one-hot rows if they are discrete."""
        return self.clip_(actions.clone())

    def clip_(self, actions: Tensor) -> Tensor:
        """As `clip`, in place."""
        if not self.choices:
            return actions.clamp_(self.low, self.high)
        chosen = actions.unflatten(-1, (-1, self.choices)).argmax(-1, keepdim=True)
        actions.zero_().unflatten(-1, (-1, self.choices)).scatter_(-1, chosen, 1.0)
        return actions

    def check_continuous(self, planner: str) -> None:
        """Raise for a planner that needs continuous actions.

        Raises:
            ValueError: actions are discrete.
        """
        if self.choices:
            raise ValueError(f"{planner} needs continuous actions, got {self.choices} discrete ones: use cem")

    def blocks(self, count: int) -> "ActionSpace":
        """Of `count` actions one after the other as one: what a model that steps over several needs."""
        return self._with(lambda part: part.repeat(count))

    def to(self, like: Tensor) -> "ActionSpace":
        """In the type and on the device of a tensor."""
        return self._with(lambda part: part.to(like))

    def _with(self, change: Callable[[Tensor], Tensor]) -> "ActionSpace":
        mean, deviation = (None if part is None else change(part) for part in (self.mean, self.deviation))
        return ActionSpace(change(self.low), change(self.high), mean, deviation, self.choices)


@dataclass(frozen=True)
class Plan:
    """What a planner found.

    Attributes:
        actions: (problems, horizon, m), within the bounds.
        cost: (problems,) what the model says that they cost.
        latents: (problems, horizon + 1, dim) that the model foresees, the start first.
        evaluations: steps of the model for one problem.
    """

    actions: Tensor
    cost: Tensor
    latents: Tensor
    evaluations: int


class Planner(Protocol):
    """Finds actions."""

    @property
    def horizon(self) -> int:
        """Steps of the model that a plan has."""
        ...

    def plan(self, problem: "Problem", generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem.

        Args:
            problem: one or several.
            generator: for whatever is drawn.
            previous: (problems, horizon, m) actions to start from, e.g. an earlier plan that was moved on.
        """
        ...


@dataclass(frozen=True)
class Problem:
    """Where to go from where, in a model.

    Attributes:
        dynamics: the model.
        cost: of its latents.
        space: of its actions.
        start: (problems, context, dim) latents up to the present; (problems, dim) for a context of 1.
        goal: (problems, goal dim), as the cost takes it.

    Raises:
        ValueError: start and goal are not of equal number, not finite, or not of the model's context.
    """

    dynamics: Dynamics
    cost: Cost
    space: ActionSpace
    start: Tensor
    goal: Tensor

    def __post_init__(self) -> None:
        if self.start.ndim not in (2, 3) or self.goal.ndim != 2 or len(self.start) != len(self.goal):
            raise ValueError(
                "start must be (problems, dim) or (problems, context, dim) and goal (problems, dim) with as "
                f"many rows, got {tuple(self.start.shape)} and {tuple(self.goal.shape)}"
            )
        for name, value in (("start", self.start), ("goal", self.goal)):
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"{name} must be finite, got NaN or Inf")
        if self.contexts.shape[1] != self.dynamics.context:
            raise ValueError(
                f"start must have the model's context of {self.dynamics.context} latents, got "
                f"{self.contexts.shape[1]}"
            )
        object.__setattr__(self, "space", self.space.to(self.start))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def contexts(self) -> Tensor:
        """(problems, context, dim) where each problem starts."""
        return self.start if self.start.ndim == 3 else self.start[:, None]

    def rollout(self, actions: Tensor) -> Tensor:
        """Latents (rows, context + horizon, dim) after actions (rows, horizon, m), the context first.

        Args:
            actions: for the problems in order, as many rows for each of them.

        Raises:
            ValueError: the model gives latents of another shape.
        """
        contexts, latents = self._predicted(actions)
        return torch.cat((contexts, latents), 1)

    def costs(self, actions: Tensor) -> Tensor:
        """Costs (problems, candidates) of actions (problems, candidates, horizon, m); NaN counts as Inf."""
        _, latents = self._predicted(actions.flatten(0, 1))
        cost = self.cost(latents.unflatten(0, actions.shape[:2]), self.goal[:, None], actions)
        return torch.nan_to_num(cost, nan=math.inf, posinf=math.inf)

    def _predicted(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts (rows, context, dim) and latents (rows, horizon, dim) of actions (rows, horizon, m)."""
        contexts = self.contexts.repeat_interleave(len(actions) // len(self.start), 0)
        latents = self.dynamics.rollout(contexts, actions)
        expected = (*actions.shape[:2], self.start.shape[-1])
        if tuple(latents.shape) != expected:
            raise ValueError(f"dynamics.rollout must return latents {expected}, got {tuple(latents.shape)}")
        return contexts, latents

    def around(self, horizon: int, previous: Tensor | None) -> Tensor:
        """(problems, horizon, m) actions to begin with: those given, else the center of the space.

        Raises:
            ValueError: those given have another shape.
        """
        shape = (len(self), horizon, self.space.width)
        if previous is None:
            return self.space.center.expand(shape).clone()
        if tuple(previous.shape) != shape:
            raise ValueError(f"previous must be {shape}, got {tuple(previous.shape)}")
        return self.space.clip(previous.to(self.start))

    @torch.no_grad()
    def finished(self, actions: Tensor, evaluations: int) -> Plan:
        """The plan of actions (problems, horizon, m).

        Raises:
            ValueError: the model gives no finite cost for one of them.
        """
        actions = self.space.clip(actions.detach())
        latents = self.rollout(actions)[:, self.dynamics.context - 1 :]
        cost = self.cost(latents[:, 1:], self.goal, actions)
        if not bool(torch.isfinite(cost).all()):
            raise ValueError("the model must give plans of finite cost, got NaN or Inf for every candidate")
        return Plan(actions, cost, latents, evaluations + actions.shape[1])


def normal(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    """Standard normal numbers in the type and on the device of a tensor."""
    return torch.randn(shape, generator=generator, device=generator.device, dtype=like.dtype).to(like.device)


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
        validate_fields(self)
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
        difference = latents - goal
        return difference if self.period is None else wrapped(difference, self.period.to(difference))

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


_ROUNDING = 1e-5  # of a singular value against the largest, columns scaled to variance 1


@dataclass(frozen=True)
class LinearDynamics(Stepwise):
    """A linear model.

    Attributes:
        a: (dim, dim), of the latent.
        b: (dim, m), of the actions.
        offset: (dim,).
    """

    a: Tensor
    b: Tensor
    offset: Tensor

    @classmethod
    def fit(cls, h: np.ndarray, actions: np.ndarray, h_next: np.ndarray) -> "LinearDynamics":
        """The model of least squared error.

        Args:
            h, h_next: (n, dim) latents before and after.
            actions: (n, m).

        Raises:
            ValueError: there are fewer rows than coefficients of one coordinate.
        """
        x = np.concatenate((h, actions), 1)
        if len(x) <= x.shape[1]:
            raise ValueError(f"h must have more than {x.shape[1]} rows to fit a model to, got {len(x)}")
        # `fit_transition` refuses directions that do not vary, since it is asked what A and B are; a planner
        # never goes there, and plans as well without them
        fitted = least_squares(x, h_next, rounding=_ROUNDING)
        matrix = torch.from_numpy(fitted.matrix.T.copy())
        offset = torch.from_numpy(fitted.offset - fitted.center @ fitted.matrix)
        return cls(matrix[:, : h.shape[1]], matrix[:, h.shape[1] :], offset)

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        return torch.addmm(self.offset.to(h), h, self.a.to(h).T) + a @ self.b.to(h).T

    def to(self, like: Tensor) -> "LinearDynamics":
        """In the type and on the device of a tensor."""
        return LinearDynamics(self.a.to(like), self.b.to(like), self.offset.to(like))


@dataclass(frozen=True)
class FunctionDynamics(Stepwise):
    """A function or module of (h, a) as a model."""

    function: Callable[[Tensor, Tensor], Tensor]

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        return self.function(h, a)
