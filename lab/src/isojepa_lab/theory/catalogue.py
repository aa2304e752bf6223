"""All checks, in the order of the proofs."""

from collections.abc import Callable, Iterable

from isojepa_lab.theory import (
    across,
    axes,
    bound,
    control,
    converse,
    dirichlet,
    dynamics,
    forward,
    harmonics,
    hermite,
    lamperti,
    latent_state,
    lejepa,
    mismatch,
    pairs,
    planning,
    regret,
    rigidity,
    shape,
    stability,
    symmetry,
    uniqueness,
    winding,
)
from isojepa_lab.theory.check import Check, Outcome, select

CHECKS: tuple[Check, ...] = (
    hermite.world,
    hermite.rodrigues_formula,
    hermite.orthogonality,
    hermite.completeness,
    hermite.moment_generating,
    hermite.contraction,
    hermite.mehler,
    hermite.mehler_kernel,
    forward.correlation,
    forward.weighted_average,
    forward.linearity,
    forward.orthogonal,
    forward.gaussian_maps,
    forward.loss_bound,
    forward.transition,
    forward.isotropy,
    pairs.joint_gaussian,
    winding.winding,
    converse.minimizer,
    converse.self_adjoint,
    converse.zeros,
    converse.affine_score,
    converse.gaussian_from_score,
    converse.hermite_eigenfunctions,
    uniqueness.other_laws,
    uniqueness.heavy_tails,
    uniqueness.discrete_time,
    uniqueness.laplace_autoregression,
    stability.loss_by_degree,
    stability.gap,
    bound.nonlinear_energy,
    stability.trace_norm,
    stability.polar,
    stability.pythagoras,
    stability.monotone,
    bound.bound,
    bound.sharper_bound,
    planning.pushforward,
    planning.cost_invariance,
    planning.dynamic_programming,
    control.same_actions,
    control.goal_reaching,
    control.riccati,
    control.finite_horizon,
    regret.performance_difference,
    regret.density_ratio,
    regret.error_moments,
    regret.gain_is_reached,
    regret.riccati_moves_little,
    regret.regret_bound,
    dirichlet.energy_limit,
    dirichlet.log_determinant,
    dirichlet.am_gm,
    dirichlet.jensen,
    dirichlet.energy_bound,
    rigidity.equality,
    rigidity.isometry,
    rigidity.mazur_ulam,
    rigidity.spiral,
    symmetry.zero_loss,
    symmetry.near_invariance,
    latent_state.latent_state,
    latent_state.condition_product,
    latent_state.attenuation,
    latent_state.white_map,
    latent_state.probe_transfer,
    mismatch.pair_noise,
    mismatch.pair_noise_residual,
    mismatch.pair_noise_sample,
    dynamics.identified,
    dynamics.invariants,
    dynamics.unexcited,
    dynamics.recovery_error,
    harmonics.harmonics,
    harmonics.window,
    shape.comon,
    axes.cumulants,
    axes.common_cumulant,
    across.across_views,
    shape.comon_smooth,
    axes.rates,
    axes.one_rate,
    lamperti.lamperti,
    lamperti.zero_flux,
    lamperti.predicted,
    lamperti.constant_diffusion,
    lejepa.fisher,
    lejepa.isotropic,
    lejepa.finite_moments,
    lejepa.mean_variance,
)

# what the table of the paper's appendix on Lean lists as axiomatized
LEAN_AXIOMS = (
    "mehler_summability",
    "correlation_eq_spectral_sum",
    "linear_of_degree_one",
    "orthogonal_of_gaussian_linear",
    "gaussian_of_affine_score",
    "hermite_first_eigenfunction_of_gaussian",
    "amgm_sum_ge_prod_pow",
    "exp_mean_ge_mean_exp",
    "mazur_ulam",
    "polar_bound_axiom",
    "pythagorean_axiom",
    "stage_pushforward",
    "terminal_pushforward",
)


def run_checks(
    names: Iterable[str] | None = None, progress: Callable[[int, int, str], None] | None = None
) -> list[Outcome]:
    """Run checks in the order of the proofs.

    Args:
        names: of checks, or of theorems for all of their checks; all by default.
        progress: called before each check and at the end with how many are done, how many there are, and the
            name of the next.

    Returns:
        One outcome per check. A check that fails or cannot be carried out does not stop the others.

    Raises:
        ValueError: a name is unknown; the message lists the choices.

    Example:
        >>> [outcome.passed for outcome in run_checks(["orthogonality", "polar"])]
        [True, True]
    """
    chosen = select(CHECKS, names)
    outcomes = []
    for index, entry in enumerate(chosen):
        if progress:
            progress(index, len(chosen), entry.name)
        outcomes.append(entry())
    if progress:
        progress(len(chosen), len(chosen), "")
    return outcomes
