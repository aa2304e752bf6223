"""What a latent is good for: model and goal to actions, and what planning in it costs."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.certificates.closed_loop import Radii
    from isojepa.planning.lines import (
        LatentDecoder,
        LineComparison,
        LineErrors,
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
    from isojepa.planning.regret import PlanningBound, planning_bound, simulate_regret
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "EncoderError",
    "FiniteLqr",
    "FittedSystem",
    "LatentDecoder",
    "LineComparison",
    "LineErrors",
    "LineSpec",
    "LinearSystem",
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
