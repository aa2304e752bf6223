"""Planners over any model of a latent: search, gradients, quadratic programmes, and a policy without any."""

from isojepa.plan.planners.cem import CEM, ICEM
from isojepa.plan.planners.costs import GoalCost, wrapped
from isojepa.plan.planners.gradient import Gradient
from isojepa.plan.planners.inverse import InverseDynamics
from isojepa.plan.planners.linear_mpc import LinearMPC
from isojepa.plan.planners.models import FunctionDynamics, LinearDynamics
from isojepa.plan.planners.mppi import MPPI, path_weights
from isojepa.plan.planners.noise import coloured
from isojepa.plan.planners.problems import ActionSpace, Cost, Dynamics, Plan, Planner, Problem

__all__ = [
    "CEM",
    "ICEM",
    "MPPI",
    "ActionSpace",
    "Cost",
    "Dynamics",
    "FunctionDynamics",
    "GoalCost",
    "Gradient",
    "InverseDynamics",
    "LinearDynamics",
    "LinearMPC",
    "Plan",
    "Planner",
    "Problem",
    "coloured",
    "path_weights",
    "wrapped",
]
