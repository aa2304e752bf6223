r"""A goal-conditioned policy by inverse dynamics: which action was taken where this became that.

    a_t ~ network(h_t, g_{t+k} - g_t, k),    k from 1 to `reach`

trained on recorded episodes, each later latent being a goal of the earlier ones. It needs no model and no
search: one pass of a small network for each action. g are the columns of the latent that a goal has, e.g.
without the change since the last frame. A goal farther away than recorded ones were is replaced by the point
on the straight line to it that is as far as they were, which is where a straight line is worth something.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.planning.planners.problems import Plan, Problem
from isojepa.seeds import generator as make_generator
from isojepa.training.regression import Standardised, fit_network

_ROWS = 100_000  # pairs of rows that are drawn for training


@dataclass(frozen=True)
class InverseDynamics:
    """A policy in the place of a planner: its plans have one step.

    Attributes:
        network: (h, difference to the goal, k) to actions.
        goal_width: how many of the first columns of a latent a goal has.
        ahead: k, the steps within which the goal should be reached.
        radius: how far goals were that many steps ahead in 95 % of the recordings.
        horizon: 1.
    """

    network: Standardised
    goal_width: int
    ahead: int
    radius: float
    horizon: int = 1

    @classmethod
    @checked
    def fit(
        cls,
        latents: Sequence[np.ndarray],
        actions: Sequence[np.ndarray],
        *,
        goal_width: int | None = None,
        reach: int = 10,
        ahead: int = 5,
        steps: int = 1000,
        seed: int = 0,
    ) -> "InverseDynamics":
        """Train a policy on recorded episodes.

        Args:
            latents: (steps_i, dim) of each episode.
            actions: (steps_i, m) that were taken there; of the last step, which nobody sees, anything.
            goal_width: how many of the first columns of a latent a goal has; all by default.
            reach: the most steps that a goal lies ahead.
            ahead: steps within which the policy is asked to be there.
            steps: of training.
            seed: draws rows and weights.

        Raises:
            ValueError: lengths differ, or no episode is longer than `ahead`.
        """
        check_count("reach", reach)
        check_count("ahead", ahead, 1, reach)
        if len(latents) != len(actions) or any(
            len(h) != len(a) for h, a in zip(latents, actions, strict=True)
        ):
            raise ValueError("actions must have as many steps as latents in every episode")
        lengths = np.array([len(h) for h in latents])
        if not len(lengths) or lengths.max() <= ahead:
            raise ValueError(f"an episode must be longer than ahead, {ahead}, got {lengths.max(initial=0)}")
        h, a = (torch.from_numpy(np.concatenate(rows)).float() for rows in (latents, actions))
        width = h.shape[1] if goal_width is None else check_count("goal_width", goal_width, 1, h.shape[1])
        left = torch.from_numpy(np.concatenate([np.arange(n)[::-1].copy() for n in lengths]))
        places = torch.arange(len(h))
        before = places[left >= ahead]
        radius = (h[before + ahead, :width] - h[before, :width]).norm(dim=1).quantile(0.95)
        source = make_generator(seed, "inverse dynamics")
        usable = places[left >= 1]
        row = usable[torch.randint(len(usable), (_ROWS,), generator=source)]
        furthest = left[row].clamp_max(reach)
        k = 1 + (torch.rand(_ROWS, generator=source) * furthest).long().clamp_max(furthest - 1)
        x = torch.cat((h[row], h[row + k, :width] - h[row, :width], k[:, None].float()), 1)
        return cls(fit_network(x, a[row], steps=steps, seed=seed), width, ahead, float(radius))

    @torch.no_grad()
    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """One action for each problem; nothing is drawn, and the model serves only to tell the cost.

        Raises:
            ValueError: the policy was trained for latents or actions of another width.
        """
        start = problem.start.flatten(1)
        way = problem.goal[:, : self.goal_width] - start[:, : self.goal_width]
        way = way * (self.radius / way.norm(dim=1, keepdim=True).clamp_min(self.radius))
        asked = torch.cat((start, way, way.new_full((len(way), 1), self.ahead)), 1).float()
        takes, gives = len(self.network.x_mean), len(self.network.y_mean)
        if asked.shape[1] != takes or problem.space.width != gives:
            raise ValueError(
                f"the policy takes latents of {takes - self.goal_width - 1} and gives {gives} actions, got "
                f"{start.shape[1]} and {problem.space.width}"
            )
        actions = problem.space.clip(self.network(asked).to(problem.start))
        return problem.finished(actions[:, None], 1)
