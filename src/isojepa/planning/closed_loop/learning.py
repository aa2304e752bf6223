r"""From an encoder and recorded episodes to controllers: transition, cost and planner, under a setting.

    published   horizon 5, blocks of 5 steps, all 25 carried out before the next plan; the cost is the squared
                distance of the last latent: what published latent planners do
    receding    the same horizon, a new plan after each block of 5; the cost is the distance at every step, of
                the latent and of its change, so that the arm comes to rest at the goal

With the second setting whoever knows the true state, and a linear MPC on it, succeeds in every run under the
fair rules. What it takes is the cost along the way and at rest, not a longer horizon: 0.5 s are enough,
since the arm is damped and comes to its full speed within 0.2 s.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.names import choose
from isojepa.planning.closed_loop.controllers import LatentController
from isojepa.planning.closed_loop.perception import Encoder, TrueState, TwoFrames
from isojepa.planning.closed_loop.plants import Plant
from isojepa.planning.closed_loop.reacher import ReacherModel, ReacherPlant
from isojepa.planning.closed_loop.transitions import Encoded, LatentModel, encode, fit_model
from isojepa.planning.planners import SEARCHES
from isojepa.planning.planners.inverse import InverseDynamics
from isojepa.planning.planners.problems import GoalCost, LinearDynamics
from isojepa.worlds.episodes import Episodes

PLANNERS = (*SEARCHES, "inverse")
_POLICY_BLOCK = 2  # steps of the plant that a policy acts for at once: it costs nothing to ask it again


@dataclass(frozen=True)
class Setting:
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
        check_fields(self)
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
    "published": Setting(execute=5, running=0.0, rest=0.0, effort=0.0),
    "receding": Setting(),
}


class Learned:
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
        self.fitted: Encoded = encode(plant, encoder, fitted, lag)
        self.held_out: Encoded = encode(plant, encoder, held_out, lag)
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

    def controller(self, planner: str, setting: Setting, eyes: Encoder | None = None) -> LatentController:
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
            told = LinearDynamics.fit(*self.fitted.rows(block))  # what it costs; the policy needs no model
            return LatentController(perception, told, cost, policy, block, warm=False)
        made = choose("planner", planner, SEARCHES)(setting.horizon)
        transition = self.transition(setting.block)
        return LatentController(perception, transition, cost, made, setting.block, setting.execute)


def oracle(plant: ReacherPlant, setting: Setting, planner: str = "mpc") -> LatentController:
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
