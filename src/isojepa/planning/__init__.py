"""What a latent is good for: model and goal to actions, and what planning in it costs."""

from isojepa.certificates.closed_loop import Radii
from isojepa.planning.lines import (
    Comparison,
    Decoder,
    Lines,
    LineSpec,
    compare_lines,
    density_curve,
    draw_pairs,
    make_decoder,
    measure_lines,
)
from isojepa.planning.lqr import (
    EncoderError,
    FiniteLqr,
    FittedSystem,
    LinearSystem,
    Lqr,
    fit_system,
    measure_error,
    push_cost,
)
from isojepa.planning.regret import PlanningBound, planning_bound
from isojepa.planning.simulation import simulate_regret

__all__ = [
    "Comparison",
    "Decoder",
    "EncoderError",
    "FiniteLqr",
    "FittedSystem",
    "LineSpec",
    "LinearSystem",
    "Lines",
    "Lqr",
    "PlanningBound",
    "Radii",
    "compare_lines",
    "density_curve",
    "draw_pairs",
    "fit_system",
    "make_decoder",
    "measure_error",
    "measure_lines",
    "planning_bound",
    "push_cost",
    "simulate_regret",
]
