"""Who moves the plant: a planner in a latent, and what it is compared with: nothing, chance."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count
from isojepa.encoders.world_model import Dynamics
from isojepa.planning.closed_loop.perception import Perception
from isojepa.planning.closed_loop.plants import History, Plant
from isojepa.planning.planners.problems import Cost, Planner, Problem


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

    def begin(self, plant: Plant, goals: np.ndarray) -> "LatentPilot":
        """Encode the goals."""
        return LatentPilot(self, plant, self.perception.goals(plant, goals))


@dataclass
class LatentPilot:
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
            kept = plan.actions[:, settings.execute :]
            last = plan.actions[:, -1:].expand(-1, settings.execute, -1)
            self._left = torch.cat((kept, last), 1)
        done = plan.actions[:, : settings.execute]
        return done.reshape(len(done), settings.execute * settings.block, -1).double().numpy()


@dataclass(frozen=True)
class Blind:
    """Acts without looking.

    Attributes:
        draw: actions (copies, 1, m) from the number of copies, the plant and a generator.
    """

    draw: Callable[[int, Plant, torch.Generator], np.ndarray]

    def begin(self, plant: Plant, goals: np.ndarray) -> "BlindPilot":
        """Ignore the goals."""
        return BlindPilot(self, plant)


@dataclass
class BlindPilot:
    """Somebody who acts without looking, on the way."""

    controller: Blind
    plant: Plant
    spent: Spent = field(default_factory=Spent)

    def act(self, history: History, generator: torch.Generator) -> np.ndarray:
        """The next action."""
        return self.controller.draw(len(history.ago(0).qpos), self.plant, generator)


def chance() -> Blind:
    """Actions that are uniform within the bounds."""

    def draw(count: int, plant: Plant, generator: torch.Generator) -> np.ndarray:
        low, high = plant.space.low, plant.space.high
        drawn = low + (high - low) * torch.rand(count, 1, plant.space.width, generator=generator)
        return drawn.double().numpy()

    return Blind(draw)


def rest() -> Blind:
    """No action: zeros."""
    return Blind(lambda count, plant, generator: np.zeros((count, 1, plant.space.width)))
