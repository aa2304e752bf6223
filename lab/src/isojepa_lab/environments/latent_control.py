r"""Control of a plant by planning in a latent space: perception, fitted transition, controllers.

A controller perceives latents and their change over the last steps:

    s_t = (h_t, h_t - h_{t-l}),    h = encoder(observation)

One frame has no velocity, so two are encoded, l steps apart: the true angles need one step, a trained
encoder several, since its errors from frame to frame exceed smaller changes. A goal is one frame or one
pose at rest, (h_goal, 0). An encoder is any function from observations to rows: a trained encoder of
frames, the true angles, a rotation or a warp of them, or the encoder of another agent through the map
between the two.

The transition is fitted on recorded episodes: linear, with a small network for the residual,

    s_{t+b} = A s_t + B (a_t, ..., a_{t+b-1}) + c + network(s_t, a_t, ...)

over blocks of b steps of the plant. Its error is that of held-out episodes.

A frame shows an angle modulo 2 pi, so the latent of a rotating arm is discontinuous, and trained encoders
have large errors at rare poses. Rows whose residual exceeds 15 times the median are removed and the fit is
repeated, three times; their number is `LatentModel.outliers`. The score is of all held-out rows.

`FittedEncoder` makes controllers from an encoder and recorded episodes, under a setting:

    published   horizon 5, blocks of 5 steps, all 25 carried out before the next plan; the cost is the squared
                distance of the last latent: what published latent planners do
    receding    the same horizon, a new plan after each block of 5; the cost is the distance at every step, of
                the latent and of its change, so that the arm comes to rest at the goal

With the second setting an oracle, the true state with a linear MPC, succeeds in every run under the fair
rules. That needs the cost along the way and at rest, not a longer horizon: 0.5 s suffice, since the arm is
damped and reaches its full speed within 0.2 s. Controllers without perception, `chance` and `rest`, are the
baselines.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa.alignment.maps import AlignmentMap
from isojepa.data.episodes import Episodes
from isojepa.encoders.model import embed
from isojepa.encoders.world_model import Dynamics, Stepwise
from isojepa.linear import errors, r2_of
from isojepa.planning.planners import SEARCHES, InverseDynamics
from isojepa.planning.problems import Cost, GoalCost, LinearDynamics, Planner, Problem, wrapped
from isojepa.seeds import generator
from isojepa.training.fine_tuning import StandardizedNetwork, fit_network
from isojepa.validation import check_count, check_number, choose, validate_fields
from isojepa_lab.environments.plants import History, Plant, ReacherModel, ReacherPlant, check_space
from isojepa_lab.environments.reacher_frames import ArmLook, ChannelStats


class Encoder(Protocol):
    """Latents of poses, as far as they are seen."""

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        """Latents (n, dim) of what is seen of poses (n, joints)."""
        ...


@dataclass(frozen=True)
class Angles:
    """The true angles.

    Attributes:
        wrapped: modulo 2 pi, between -pi and pi, as frames show them.
    """

    wrapped: bool = False

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        angles = torch.as_tensor(qpos, dtype=torch.float32)
        return wrapped(angles) if self.wrapped else angles


@dataclass(frozen=True)
class Frames:
    """An encoder of frames.

    Attributes:
        model: from observations (n, 3, size, size) to latents; a module or function.
        look: how frames are drawn.
        colors: mean and std of the channels, by which pixels in [0, 1] are normalized; by default those of
            the look.
        batch: frames that are encoded at once.
    """

    model: nn.Module | Callable[[Tensor], Any]
    look: ArmLook = field(default_factory=ArmLook)
    colors: ChannelStats | None = None
    batch: int = 256

    def __post_init__(self) -> None:
        check_count("batch", self.batch)

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        parts = [self._encoded(plant, qpos[i : i + self.batch]) for i in range(0, len(qpos), self.batch)]
        return torch.cat(parts).float()

    def _encoded(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return embed(self.model, self.look.normalized(plant.observe(qpos, self.look), self.colors))


@dataclass(frozen=True)
class MappedEncoder:
    """Another encoder's latents through a function."""

    inner: Encoder
    function: Callable[[Tensor], Tensor]

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return self.function(self.inner(plant, qpos))


def rotated(inner: Encoder, dim: int, seed: int = 0) -> MappedEncoder:
    """Latents of `dim` coordinates through a random rotation."""
    matrix = torch.randn(dim, dim, generator=generator(seed, "rotation"), dtype=torch.float64)
    rotation = torch.linalg.qr(matrix)[0].float()
    return MappedEncoder(inner, lambda h: h @ rotation.T)


def warped(inner: Encoder, strength: float = 0.95) -> MappedEncoder:
    """Latents through a smooth map that is one to one and not linear, for strengths in (0, 1).

    Each coordinate h becomes u = h + strength sin(2 h) / 2; then strength u_2^2 / 3 is added to the first.
    """
    check_number("strength", strength, "lie in (0, 1)", lambda value: 0 < value < 1)

    def warp(h: Tensor) -> Tensor:
        u = h + strength * torch.sin(2 * h) / 2
        first = u[:, :1] + strength * u[:, 1:2].square() / 3
        return torch.cat((first, u[:, 1:]), 1)

    return MappedEncoder(inner, warp)


def translated(inner: Encoder, map: AlignmentMap) -> MappedEncoder:
    """One agent's latents in another's coordinates, by the map between them: z_other ~ W z_own.

    With it, the dynamics and the cost of the one plan for what the other sees.
    """
    return MappedEncoder(inner, lambda h: torch.from_numpy(map.transform(h.double().numpy())).to(h))


class Perception(Protocol):
    """What a controller makes of what has been, and of goals."""

    def latents(self, plant: Plant, history: History) -> Tensor:
        """(copies, dim) of the present."""
        ...

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        """(copies, dim) of the poses that are wanted."""
        ...


@dataclass(frozen=True)
class TwoFrames:
    """An encoder's latents and their change.

    Attributes:
        encoder: of each frame.
        lag: steps from the earlier frame to the present.
    """

    encoder: Encoder
    lag: int = 1

    def __post_init__(self) -> None:
        check_count("lag", self.lag)

    def latents(self, plant: Plant, history: History) -> Tensor:
        poses = [history.ago(steps).qpos for steps in (0, self.lag)]
        now, then = self.encoder(plant, np.concatenate(poses)).chunk(2)
        return torch.cat((now, now - then), 1)

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        h = self.encoder(plant, qpos)
        return torch.cat((h, torch.zeros_like(h)), 1)


@dataclass(frozen=True)
class TrueState:
    """Angles and velocities themselves."""

    def latents(self, plant: Plant, history: History) -> Tensor:
        state = history.ago(0)
        return torch.from_numpy(np.concatenate((state.qpos, state.qvel), 1)).float()

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return torch.from_numpy(np.concatenate((qpos, np.zeros_like(qpos)), 1)).float()


KINDS = {"linear": 0, "network": 3}  # layers of the network
_OUTLIER, _ROUNDS = 15, 3  # median residuals beyond which a row is left out, and how often that is done


@dataclass(frozen=True)
class EncodedEpisodes:
    """Episodes as a planner sees them.

    Attributes:
        latents: (steps_i, dim) s_t of each episode, from the row on that has one before it.
        actions: (steps_i, m) of the same rows; the last is NaN.
        goal_width: columns of h alone.
    """

    latents: Sequence[np.ndarray]
    actions: Sequence[np.ndarray]
    goal_width: int

    def rows(self, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, dim), (n, block m), (n, dim): before, the actions of a block one after the other, after.

        Raises:
            ValueError: no episode is that long.
        """
        parts = []
        for h, a in zip(self.latents, self.actions, strict=True):
            count = len(h) - block
            if count > 0:
                acted = np.stack([a[step : step + count] for step in range(block)], 1)
                parts.append((h[:count], acted.reshape(count, -1), h[block:]))
        if not parts:
            longest = max(map(len, self.latents)) + 1
            raise ValueError(f"episodes must have more than {block + 1} rows, got {longest} at most")
        before, acted, after = (np.concatenate(part) for part in zip(*parts, strict=True))
        return before, acted, after

    def blocked(self, block: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Latents of each episode, and the actions of the block that begins there; whole blocks alone."""
        latents, actions = [], []
        for h, a in zip(self.latents, self.actions, strict=True):
            count = len(h) - block
            if count > 1:
                latents.append(h[:count])
                acted = np.stack([a[step : step + count] for step in range(block)], 1)
                actions.append(acted.reshape(count, -1))
        return latents, actions


def encode(plant: Plant, encoder: Encoder, episodes: Episodes, lag: int = 1) -> EncodedEpisodes:
    """Episodes through an encoder; frames are drawn if it needs them.

    Args:
        plant: that they are of.
        encoder: of poses, by what is seen of them.
        episodes: all of them are encoded.
        lag: rows over which the change is taken.

    Raises:
        ValueError: actions have another width than the plant's, or no episode is longer than the lag.
    """
    check_space(episodes, plant.space)
    longest = int(episodes.lengths.max())
    if longest <= check_count("lag", lag):
        raise ValueError(f"episodes must have more rows than lag, {lag}, got {longest} at most")
    h = encoder(plant, np.concatenate(episodes.vectors("qpos"))).double().numpy()
    parts = np.split(h, np.cumsum(episodes.lengths)[:-1])
    latents = [np.concatenate((part[lag:], part[lag:] - part[:-lag]), 1) for part in parts if len(part) > lag]
    actions = [a[lag:] for a in episodes.vectors("action") if len(a) > lag]
    return EncodedEpisodes(latents, actions, h.shape[1])


@dataclass(frozen=True)
class LatentModel(Stepwise):
    """A fitted model of the latent.

    Attributes:
        linear: A, B and c.
        network: what it adds; None for a linear one. Its maps are read at the first step.
        r2: held-out share of the variance of s_{t+b} - s_t that it explains, mean over coordinates.
        outliers: rows that were left out of the fit.
    """

    linear: LinearDynamics
    network: StandardizedNetwork | None
    r2: float
    outliers: int = 0

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next latents (batch, dim) of latents (batch, dim) after actions (batch, m)."""
        if self.network is None:
            return self.linear.step(h, a)
        matrix, offset, hidden, last = self._products
        x = torch.cat((h, a), 1)
        moved = torch.addmm(offset, x, matrix)
        for weight, bias in hidden:
            x = functional.gelu(functional.linear(x, weight, bias))
        return torch.addmm(moved, x, last)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor, tuple[tuple[Tensor, Tensor], ...], Tensor]:
        """The same model, up to rounding, in few products: 300 rows take less than what is around them.

        The linear part as one matrix, the hidden maps of the network, and its last map, whose bias is with
        the offset.
        """
        assert self.network is not None
        with torch.inference_mode(False):  # tensors cached without gradients are used by later steps
            *hidden, (last, bias) = self.network.maps()
            matrix = torch.cat((self.linear.a, self.linear.b), 1).to(last)
            return matrix.T, self.linear.offset.to(bias) + bias, tuple(hidden), last.T


def fit_model(
    fitted: EncodedEpisodes,
    held_out: EncodedEpisodes,
    *,
    block: int = 1,
    kind: str = "network",
    steps: int = 1000,
    seed: int = 0,
) -> LatentModel:
    """Fit a model on some episodes and score it on others.

    Args:
        fitted, held_out: episodes through the same encoder.
        block: steps of the plant in one of the model.
        kind: "linear", or "network" for the rest too.
        steps: of training the network.
        seed: draws its weights and rows.

    Raises:
        ValueError: the kind is unknown, or episodes are too short or too few.
    """
    layers = choose("kind", kind, KINDS)
    before, acted, after = fitted.rows(check_count("block", block))
    linear, inliers = fit_robust(before, acted, after)
    linear = linear.to(torch.zeros(0))
    before, acted, after = before[inliers], acted[inliers], after[inliers]
    network = None
    if layers:
        x = torch.from_numpy(np.concatenate((before, acted), 1)).float()
        h, a = x.split([before.shape[1], acted.shape[1]], 1)
        rest = torch.from_numpy(after).float() - linear.step(h, a)
        network = fit_network(x, rest, layers=layers, steps=steps, seed=seed)
    model = LatentModel(linear, network, 0.0)
    return LatentModel(linear, network, score(model, held_out, block), int((~inliers).sum()))


def fit_robust(before: np.ndarray, acted: np.ndarray, after: np.ndarray) -> tuple[LinearDynamics, np.ndarray]:
    """The linear model of most rows (n, dim), (n, m), (n, dim), and which rows those are, (n,)."""
    inliers = np.full(len(before), True)
    for _ in range(_ROUNDS):
        model = LinearDynamics.fit(before[inliers], acted[inliers], after[inliers])
        predicted = model.step(torch.from_numpy(before), torch.from_numpy(acted)).numpy()
        size = np.linalg.norm(after - predicted, axis=1)
        inliers = size <= max(_OUTLIER * float(np.median(size)), np.finfo(np.float32).eps)
    return LinearDynamics.fit(before[inliers], acted[inliers], after[inliers]), inliers


def score(model: Stepwise, held_out: EncodedEpisodes, block: int) -> float:
    """Share of the variance of the change over a block that a model explains, mean over coordinates."""
    before, acted, after = held_out.rows(block)
    with torch.no_grad():
        predicted = model.step(torch.from_numpy(before).float(), torch.from_numpy(acted).float())
    residual, spread = errors(after - before, predicted.double().numpy() - before)
    return float(r2_of(residual.sum(0), spread.sum(0)).mean())


@dataclass
class Spent:
    """What planning took: plans (of all copies at once), their seconds, and copies that were planned for."""

    plans: int = 0
    seconds: float = 0.0
    problems: int = 0


class Controller(Protocol):
    """Chooses actions for the copies of a plant."""

    def begin(self, plant: Plant, goals: np.ndarray) -> "Pilot":
        """Set out for poses (copies, joints)."""
        ...


class Pilot(Protocol):
    """A controller on its way."""

    spent: Spent

    def act(self, history: History, generator: torch.Generator) -> np.ndarray:
        """The next actions (copies, steps, m) after what has been."""
        ...


@dataclass(frozen=True)
class LatentController:
    """Plans in a latent, carries out the first steps of the plan, and plans anew.

    Attributes:
        perception: latents of what is seen.
        dynamics: the model of those latents, over blocks of steps.
        cost: of latents.
        planner: finds the blocks.
        block: steps of the plant in one of the model.
        execute: steps of the model that are carried out before the next plan; the planner's horizon at most.
        warm: whether a plan starts from what is left of the one before.
    """

    perception: Perception
    dynamics: Dynamics
    cost: Cost
    planner: Planner
    block: int = 1
    execute: int = 1
    warm: bool = True

    def __post_init__(self) -> None:
        check_count("block", self.block)
        check_count("execute", self.execute, 1, self.planner.horizon)

    def begin(self, plant: Plant, goals: np.ndarray) -> "_LatentPilot":
        """Encode the goals."""
        return _LatentPilot(self, plant, self.perception.goals(plant, goals))


@dataclass
class _LatentPilot:
    """A latent controller on its way to goals (copies, dim)."""

    controller: LatentController
    plant: Plant
    goals: Tensor
    spent: Spent = field(default_factory=Spent)
    _left: Tensor | None = None

    def act(self, history: History, generator: torch.Generator) -> np.ndarray:
        """The next block or blocks of actions."""
        settings = self.controller
        latents = settings.perception.latents(self.plant, history)
        began = time.perf_counter()
        space = self.plant.space.blocks(settings.block)
        problem = Problem(settings.dynamics, settings.cost, space, latents, self.goals)
        plan = settings.planner.plan(problem, generator, self._left)
        self.spent.plans += 1
        self.spent.problems += len(problem)
        self.spent.seconds += time.perf_counter() - began
        if settings.warm:
            rest = plan.actions[:, settings.execute :]
            last = plan.actions[:, -1:].expand(-1, settings.execute, -1)
            self._left = torch.cat((rest, last), 1)
        done = plan.actions[:, : settings.execute]
        return done.reshape(len(done), settings.execute * settings.block, -1).double().numpy()


@dataclass(frozen=True)
class _Blind:
    """Acts without looking.

    Attributes:
        draw: actions (copies, 1, m) from the number of copies, the plant and a generator.
    """

    draw: Callable[[int, Plant, torch.Generator], np.ndarray]

    def begin(self, plant: Plant, goals: np.ndarray) -> "_BlindPilot":
        """Ignore the goals."""
        return _BlindPilot(self, plant)


@dataclass
class _BlindPilot:
    """A `_Blind` controller during a run."""

    controller: _Blind
    plant: Plant
    spent: Spent = field(default_factory=Spent)

    def act(self, history: History, generator: torch.Generator) -> np.ndarray:
        """The next action."""
        return self.controller.draw(len(history.ago(0).qpos), self.plant, generator)


def chance() -> _Blind:
    """Actions that are uniform within the bounds."""

    def draw(count: int, plant: Plant, generator: torch.Generator) -> np.ndarray:
        low, high = plant.space.low, plant.space.high
        actions = low + (high - low) * torch.rand(count, 1, plant.space.width, generator=generator)
        return actions.double().numpy()

    return _Blind(draw)


def rest() -> _Blind:
    """No action: zeros."""
    return _Blind(lambda count, plant, generator: np.zeros((count, 1, plant.space.width)))


PLANNERS = (*SEARCHES, "inverse")
_POLICY_BLOCK = 2  # steps of the plant that a policy acts for at once: it costs nothing to ask it again


@dataclass(frozen=True)
class PlanningSetting:
    """How a controller plans.

    Attributes:
        horizon: steps of the model.
        block: steps of the plant in one of the model.
        execute: steps of the model that are carried out before the next plan.
        running: weight of the cost before the last step.
        rest: weight of the latent's change, against that of the latent.
        effort: weight of squared actions, against latents of variance 1.
    """

    horizon: int = 5
    block: int = 5
    execute: int = 1
    running: float = 1.0
    rest: float = 1.0
    effort: float = 1e-3

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("horizon", self.horizon)
        check_count("block", self.block)
        check_count("execute", self.execute, 1, self.horizon)
        for name in ("running", "rest", "effort"):
            check_number(name, getattr(self, name), "be at least 0", lambda value: value >= 0)

    def cost(self, width: int, scale: float = 1.0, period: torch.Tensor | None = None) -> GoalCost:
        """The cost of latents and their changes, `width` columns each, whose variance is about `scale`."""
        weights = torch.tensor([1.0] * width + [self.rest] * width) / scale
        return GoalCost(weights, self.running, self.effort, period)


SETTINGS = {
    "published": PlanningSetting(execute=5, running=0.0, rest=0.0, effort=0.0),
    "receding": PlanningSetting(),
}


class FittedEncoder:
    """An encoder, and what was fitted on episodes through it.

    Args:
        plant: that the episodes are of.
        encoder: from poses to latents, by what is seen of them.
        fitted: episodes to fit on.
        held_out: others, to score the transition on.
        kind: of the transition, "linear" or "network".
        lag: steps over which changes of the latent are taken, see `perception`.
        seed: draws weights of networks.
    """

    def __init__(
        self,
        plant: Plant,
        encoder: Encoder,
        fitted: Episodes,
        held_out: Episodes,
        *,
        kind: str = "network",
        lag: int = 1,
        seed: int = 0,
    ) -> None:
        self.encoder, self.kind, self.lag, self.seed = encoder, kind, lag, seed
        self.fitted: EncodedEpisodes = encode(plant, encoder, fitted, lag)
        self.held_out: EncodedEpisodes = encode(plant, encoder, held_out, lag)
        rows = np.concatenate(list(self.fitted.latents))[:, : self.fitted.goal_width]
        self.scale = float(rows.var(0).mean())
        if not np.isfinite(rows).all() or self.scale <= 0:
            raise ValueError(
                "latents must vary and be finite, got NaN, Inf or one point: the encoder collapsed"
            )
        self._transitions: dict[int, LatentModel] = {}

    def transition(self, block: int) -> LatentModel:
        """The model over blocks of so many steps; fitted when first asked for."""
        if block not in self._transitions:
            self._transitions[block] = fit_model(
                self.fitted, self.held_out, block=block, kind=self.kind, seed=self.seed
            )
        return self._transitions[block]

    def controller(
        self, planner: str, setting: PlanningSetting, eyes: Encoder | None = None
    ) -> LatentController:
        """A controller that plans by one of `PLANNERS`.

        Args:
            planner: its name.
            setting: how it plans.
            eyes: that see in place of the encoder, in its coordinates: another agent's, `translated`.

        Raises:
            ValueError: there is no such planner.
        """
        width = self.fitted.goal_width
        cost = setting.cost(width, self.scale)
        perception = TwoFrames(self.encoder if eyes is None else eyes, self.lag)
        if planner == "inverse":
            block = min(_POLICY_BLOCK, setting.block)
            policy = InverseDynamics.fit(
                *self.fitted.blocked(block), goal_width=width, reach=2 * block, ahead=block, seed=self.seed
            )
            model = LinearDynamics.fit(
                *self.fitted.rows(block)
            )  # for reporting costs; the policy needs no model
            return LatentController(perception, model, cost, policy, block, warm=False)
        made = choose("planner", planner, SEARCHES)(setting.horizon)
        transition = self.transition(setting.block)
        return LatentController(perception, transition, cost, made, setting.block, setting.execute)


def oracle(plant: ReacherPlant, setting: PlanningSetting, planner: str = "mpc") -> LatentController:
    """Who knows the true state and the arm's equations, and takes the short way round."""
    made = choose("planner", planner, SEARCHES)(setting.horizon)
    period = torch.tensor([2 * np.pi, torch.inf, torch.inf, torch.inf])
    # changes per step, as the others have them, are velocities times the time of a step
    resting = replace(setting, rest=setting.rest * plant.seconds**2)
    return LatentController(
        TrueState(),
        ReacherModel(plant, setting.block),
        resting.cost(2, period=period),
        made,
        setting.block,
        setting.execute,
    )
