r"""Linear model predictive control: the quadratic programme of a linear model, solved.

Along a nominal rollout the model is h_{t+1} ~ A_t h_t + B_t a_t + c_t, with Jacobians by automatic
differentiation, of the stacked context: exact for a linear model. The latents are then affine in the actions,
h = G a + f, and

    min over a in [low, high]    |R (G a + f - g)|^2 + effort |a|^2

is solved in closed form and clipped; where bounds are active, accelerated projected gradients (Nesterov) go
on from there to the optimum within them. For models that are not linear a few passes, each around the plan
of the pass before, are Gauss-Newton.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields
from isojepa.encoders.world_model import Dynamics
from isojepa.planning.planners.problems import GoalCost, Plan, Problem


@dataclass(frozen=True)
class LinearMPC:
    """The best actions of the linearised model; its cost must be a `GoalCost`.

    Attributes:
        horizon: steps of the model that are planned.
        passes: of linearising around the last plan; 1 is exact for a linear model.
        refinements: steps of projected gradients where bounds are active; 0 clips alone.
    """

    horizon: int = 5
    passes: int = 1
    refinements: int = 100

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("horizon", self.horizon)
        check_count("passes", self.passes)
        check_count("refinements", self.refinements, 0)

    def plan(self, problem: Problem, generator: torch.Generator, previous: Tensor | None = None) -> Plan:
        """A plan for each problem; nothing is drawn.

        Raises:
            ValueError: the cost is no `GoalCost`.
        """
        cost = problem.cost
        if not isinstance(cost, GoalCost):
            raise ValueError(f"cost must be a GoalCost for LinearMPC, got {type(cost).__name__}")
        problem.space.check_continuous("linear MPC")
        actions = problem.around(self.horizon, previous)
        for _ in range(self.passes):
            actions = self._solved(problem, cost, actions)
        return problem.finished(actions, self.passes * self.horizon * (1 + problem.contexts[0].numel()))

    def _solved(self, problem: Problem, cost: GoalCost, nominal: Tensor) -> Tensor:
        with torch.no_grad():
            latents = problem.rollout(nominal)
        count, horizon, width = nominal.shape
        context, dim = problem.contexts.shape[1:]
        states = latents.unfold(1, context, 1)[:, :horizon].mT.flatten(2)  # each with those before it
        a, b = jacobians(problem.dynamics, states.flatten(0, 1), nominal.flatten(0, 1))
        a, b = a.unflatten(0, (count, horizon)), b.unflatten(0, (count, horizon))
        response = _responses(a, b)[:, :, -dim:]
        # what is left at the nominal actions, with angles the short way round
        left = cost.difference(latents[:, context:], problem.goal[:, None])
        root = cost.root_weights(horizon, latents)
        tall = (root[:, :, None] * response.flatten(3)).flatten(1, 2)
        flat = nominal.flatten(1)
        short = (root * left).flatten(1) - (tall @ flat[..., None])[..., 0]
        hessian = tall.mT @ tall + cost.effort * torch.eye(horizon * width).to(tall)
        slope = (tall.mT @ short[..., None])[..., 0]
        low, high = (end.repeat(horizon) for end in (problem.space.low, problem.space.high))
        return box_minimum(hessian, slope, low, high, self.refinements).view_as(nominal)


def jacobians(dynamics: Dynamics, h: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """How the next stacked context changes with the present one and the action.

    Args:
        dynamics: the model.
        h: (n, size) latents of its context, one after the other.
        a: (n, m) actions.

    Returns:
        (n, size, size) and (n, size, m).
    """
    with torch.enable_grad():
        h, a = h.detach().requires_grad_(), a.detach().requires_grad_()
        latents = h.unflatten(1, (dynamics.context, -1))
        moved = torch.cat((latents[:, 1:], dynamics.rollout(latents, a[:, None])), 1).flatten(1)
        rows = [
            torch.autograd.grad(moved[:, i].sum(), (h, a), retain_graph=True, materialize_grads=True)
            for i in range(h.shape[1])
        ]
    return torch.stack([row[0] for row in rows], 1), torch.stack([row[1] for row in rows], 1)


def box_minimum(hessian: Tensor, slope: Tensor, low: Tensor, high: Tensor, refinements: int) -> Tensor:
    """The minimum of x^T hessian x / 2 + slope^T x between bounds, for each of several problems.

    Args:
        hessian: (problems, n, n), symmetric and not negative.
        slope: (problems, n).
        low, high: (n,).
        refinements: steps of projected gradients after the clipped closed form.
    """
    free = -(torch.linalg.pinv(hessian, hermitian=True) @ slope[..., None])[..., 0]
    x = torch.clamp(free, low, high)
    if not refinements or bool(torch.equal(x, free)):
        return x
    rate = 1 / torch.linalg.matrix_norm(hessian, 2).clamp_min(torch.finfo(x.dtype).tiny)[:, None]
    ahead, inertia = x, 1.0
    for _ in range(refinements):
        downhill = (hessian @ ahead[..., None])[..., 0] + slope
        moved = torch.clamp(ahead - rate * downhill, low, high)
        faster = (1 + (1 + 4 * inertia**2) ** 0.5) / 2
        ahead = moved + (inertia - 1) / faster * (moved - x)
        x, inertia = moved, faster
    return x


def _responses(a: Tensor, b: Tensor) -> Tensor:
    """(problems, horizon, dim, horizon, m): how the latent after step t moves with the action of step s."""
    count, horizon, dim, width = b.shape
    response = b.new_zeros((count, horizon, dim, horizon, width))
    for step in range(horizon):
        if step:
            moved = a[:, step] @ response[:, step - 1].flatten(2)
            response[:, step] = moved.view(count, dim, horizon, width)
        response[:, step, :, step] = b[:, step]
    return response
