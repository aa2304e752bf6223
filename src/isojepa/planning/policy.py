"""A world model as a policy: replan towards a goal in the latent, carry out the first actions, repeat.

    latents    h_t = encode(x_t); the context is filled with the first latent until there are enough
    plan       min over actions of cost(rollout(context, actions), goal), warm-started from the last plan
    act        the first `execute` actions of the plan

`plan` makes a policy for one environment loop; `RecedingHorizon` plans for several tasks side by side.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.environments import ActionCode, GymEnvironment, open_environment
from isojepa.encoders.model import device_of, evaluating
from isojepa.encoders.world_model import Dynamics, WorldModel
from isojepa.planning.planners import SEARCHES
from isojepa.planning.problems import ActionSpace, Cost, GoalCost, Plan, Planner, Problem
from isojepa.seeds import generator
from isojepa.training.run import Run
from isojepa.validation import check_count, choose, short_repr, validate_types


def unwrap_model(model: Any) -> Dynamics:
    """The dynamics of a run or model.

    Raises:
        ValueError: it is not a `Dynamics`.
    """
    dynamics = model.encoder if isinstance(model, Run) else model
    if not isinstance(dynamics, Dynamics):
        name = type(model).__name__
        raise ValueError(f"model must be a Dynamics with context, encode and rollout, got {name}")
    return dynamics


@validate_types
def plan(
    model: Any,
    goal: Any,
    planner: Any = "cem",
    *,
    environment: Any = None,
    horizon: int = 15,
    execute: int = 1,
    cost: Callable[..., Any] | None = None,
    seed: int = 0,
) -> "PlanPolicy":
    """A policy that plans towards a goal in the latent of a world model.

    Args:
        model: a run or `Dynamics`.
        goal: observation to reach.
        planner: "cem", "icem", "mppi", "gradient", "mpc", or a planner object.
        environment: whose action space is used; by default the bounds of the training data, or
            `model.action_space`.
        horizon: steps of the model in a plan; a planner object has its own.
        execute: actions that are carried out before the next plan.
        cost: of latents, goal and actions; by default `GoalCost(running=1.0)`, the squared distance of every
            step.
        seed: of the planner.

    Raises:
        ValueError: the model is not a `Dynamics`, or the goal or a setting is invalid.

    Example:
        >>> import isojepa as ij
        >>> class Integrator(ij.encoders.Stepwise):
        ...     action_space = ActionSpace.box(2)
        ...     def step(self, h, a):
        ...         return h + 0.1 * a
        >>> policy = ij.plan(Integrator(), goal=np.ones(2, "float32"), planner="mpc")
        >>> policy(np.zeros(2, "float32"))
        array([1., 1.], dtype=float32)
    """
    dynamics, search = unwrap_model(model), make_planner(planner, horizon)
    check_count("execute", execute, 1, search.horizon)
    actions, shape = (None, None) if environment is None else _spaces(environment)
    space = action_space(dynamics, actions)

    def start(goals: Tensor) -> "RecedingHorizon":
        source = generator(seed, "plan", "planner")
        return RecedingHorizon(dynamics, search, cost or GoalCost(running=1.0), space, goals, execute, source)

    return PlanPolicy(start, dynamics, actions, goal, shape)


class PlanPolicy:
    """A policy from observations to native actions; made by `isojepa.plan`."""

    def __init__(
        self, start: Callable[..., Any], model: Dynamics, actions: ActionCode | None, goal: Any, shape: Any
    ) -> None:
        self._start, self._model, self._actions, self._shape = start, model, actions, shape
        self.reset(goal)

    def __call__(self, observation: Any) -> Any:
        """The next action: an integer if actions are discrete, else a float32 array.

        Raises:
            ValueError: the observation is not finite, or has another shape than the goal.
        """
        latent = encode_frames(self._model, _frame("observation", observation, self._shape)[None])
        with evaluating(self._model):
            row = self._loop.act(latent, np.zeros(1, np.int64))[0]
        if self._actions is None and self._loop.space.choices:
            first = self._model.action_bounds[0, 0] if isinstance(self._model, WorldModel) else 0
            return int(row.argmax() + first)
        if self._actions is None:
            return row.astype(np.float32)
        native = self._actions.decode(row.clip(self._actions.low, self._actions.high))
        return int(native) if self._actions.discrete else native

    @property
    def last(self) -> Plan | None:
        """The latest plan, for one problem; None before the first."""
        return self._loop.last

    def reset(self, goal: Any = None) -> None:
        """Start an episode: reset context and plan.

        Args:
            goal: observation to reach; by default the same as before.

        Raises:
            ValueError: it is not finite, or has another shape than the observations.
        """
        if goal is not None:
            frame = _frame("goal", goal, self._shape)
            self._shape, self._goal = frame.shape, encode_frames(self._model, frame[None])
        self._loop: RecedingHorizon = self._start(self._goal)


@dataclass
class RecedingHorizon:
    """Plans for several tasks side by side, in one batch.

    Attributes:
        dynamics: the model.
        planner: finds the actions of a plan.
        cost: of its latents.
        space: of its actions.
        goals: (tasks, dim).
        execute: actions that are carried out before the next plan.
        generator: of the planner.
        last: the latest plan, of all tasks that were active.
        problems, seconds: plans of one task so far, and the time that they took.
    """

    dynamics: Dynamics
    planner: Planner
    cost: Cost
    space: ActionSpace
    goals: Tensor
    execute: int
    generator: torch.Generator
    last: Plan | None = None
    problems: int = 0
    seconds: float = 0.0
    _context: Tensor | None = None
    _previous: Tensor | None = None  # (tasks, horizon, m): what is left of the latest plans
    _queue: Tensor | None = None  # (tasks, execute, m): actions to carry out
    _step: int = 0

    def act(self, latents: Tensor, active: np.ndarray) -> np.ndarray:
        """The next actions (active, m), float64.

        Args:
            latents: (tasks, dim) present ones of all tasks.
            active: indices of the tasks to act in; a task that was left out does not return.
        """
        context = latents[:, None].expand(-1, self.dynamics.context, -1)
        if self._context is not None:
            context = torch.cat((self._context[:, 1:], latents[:, None]), 1)
        self._context, rows = context, torch.from_numpy(active)
        if self._queue is None or self._step % self.execute == 0:
            self._queue = self._plan(context, rows)
        actions = self._queue[rows, self._step % self.execute]
        self._step += 1
        return actions.double().cpu().numpy()

    def _plan(self, context: Tensor, rows: Tensor) -> Tensor:
        """The next actions (tasks, execute, m) of all tasks; of others than `rows` any."""
        began = time.perf_counter()
        problem = Problem(self.dynamics, self.cost, self.space, context[rows], self.goals[rows])
        warm = None if self._previous is None else self._previous[rows]
        self.last = self.planner.plan(problem, self.generator, warm)
        self.seconds += time.perf_counter() - began
        self.problems += len(rows)
        plans = self.last.actions.new_zeros(len(context), *self.last.actions.shape[1:])
        plans[rows] = self.last.actions
        end = plans[:, -1:].expand(-1, self.execute, -1)
        self._previous = torch.cat((plans[:, self.execute :], end), 1)
        return plans[:, : self.execute]


def encode_frames(model: Dynamics, observations: np.ndarray) -> Tensor:
    """Latents (n, dim) of observations (n, *obs), in evaluation mode and without gradients.

    Raises:
        ValueError: the model returns another shape.
    """
    frames = torch.from_numpy(observations).to(device_of(model))
    with evaluating(model), torch.no_grad():
        latents = model.encode(frames[:, None])
    if latents.ndim != 3 or latents.shape[:2] != (len(frames), 1):
        raise ValueError(
            f"model.encode must return latents ({len(frames)}, 1, dim) of observations "
            f"{tuple(frames[:, None].shape)}, got {tuple(latents.shape)}"
        )
    return latents[:, 0]


def action_space(model: Dynamics, actions: ActionCode | None) -> ActionSpace:
    """The action space of a model, or that of an environment if the model has none.

    Raises:
        ValueError: there is none, or the two differ in width.
    """
    space: ActionSpace | None = getattr(model, "action_space", None)
    if isinstance(model, WorldModel) and actions is None:
        low, high = model.action_bounds
        return ActionSpace.one_hot(len(low)) if bool(model.discrete) else ActionSpace(low, high)
    if actions is None:
        if space is None:
            raise ValueError("model must have an action_space, got None: pass environment=")
        return space
    if space is None:
        if actions.discrete:
            return ActionSpace.one_hot(actions.width)
        return ActionSpace(torch.from_numpy(actions.low), torch.from_numpy(actions.high))
    if space.width != actions.width:
        raise ValueError(
            f"model must take actions of the environment's width {actions.width}, got width {space.width}"
        )
    return space


def make_planner(planner: Any, horizon: int) -> Planner:
    """A planner by its name, or the object itself.

    Raises:
        ValueError: there is no such planner.
    """
    check_count("horizon", horizon)
    if callable(getattr(planner, "plan", None)):
        search: Planner = planner
        return search
    return choose("planner", planner, SEARCHES)(horizon)


def _spaces(environment: Any) -> tuple[ActionCode, tuple[int, ...]]:
    """Actions and observation shape of an environment; an open one is not reset."""
    if hasattr(environment, "action_space"):
        return ActionCode(environment.action_space), tuple(environment.observation_space.shape)
    opened = open_environment(environment)
    if not isinstance(environment, GymEnvironment):
        opened.close()
    return opened.actions, opened.observation_shape


def _frame(name: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """An observation as an array of uint8 or float32."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be an array of numbers, got {short_repr(value)}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape} of an observation, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or Inf")
    return array if array.dtype == np.uint8 else array.astype(np.float32)
