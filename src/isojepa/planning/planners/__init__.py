"""Planners over any model of a latent: search, gradients, quadratic programmes, and a policy without any."""

from collections.abc import Callable

from isojepa.planning.planners.gradient import Gradient
from isojepa.planning.planners.inverse import InverseDynamics
from isojepa.planning.planners.linear_mpc import LinearMPC
from isojepa.planning.planners.problems import (
    ActionSpace,
    Cost,
    FunctionDynamics,
    GoalCost,
    LinearDynamics,
    NearestCost,
    Plan,
    Planner,
    Problem,
    wrapped,
)
from isojepa.planning.planners.sampling import CEM, ICEM, MPPI, coloured, path_weights

__all__ = [
    "CEM",
    "ICEM",
    "MPPI",
    "SEARCHES",
    "ActionSpace",
    "Cost",
    "FunctionDynamics",
    "GoalCost",
    "Gradient",
    "InverseDynamics",
    "LinearDynamics",
    "LinearMPC",
    "NearestCost",
    "Plan",
    "Planner",
    "Problem",
    "coloured",
    "path_weights",
    "wrapped",
]

SEARCHES: dict[str, Callable[[int], Planner]] = {
    "cem": CEM,
    "icem": ICEM,
    "mppi": MPPI,
    "gradient": Gradient,
    "mpc": lambda horizon: LinearMPC(horizon, passes=2),
}
