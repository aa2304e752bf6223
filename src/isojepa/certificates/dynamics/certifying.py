r"""`certify_dynamics`: whether a transition in the embedding is that of the world, and what of it is known.

If h = Q z with Q orthogonal and z' = A z + B a + noise, then h' = Q A Q^T h + Q B a + Q noise. So the fitted
map is the world's in other coordinates, and what no rotation changes is the world's itself. Nothing of this
needs latents, but for the question whether the embedding is a rotation at all, which `certify` answers.
"""

from typing import Any, Literal

import numpy as np

from isojepa.certificates.dynamics.agreement import measure_agreement, measure_perturbation
from isojepa.certificates.dynamics.certificate import DynamicsCertificate
from isojepa.certificates.dynamics.excitation import measure_excitation
from isojepa.certificates.dynamics.invariants import measure_invariants
from isojepa.certificates.dynamics.linearity import measure_linearity
from isojepa.certificates.dynamics.regression import group_edges, regress
from isojepa.certificates.dynamics.steps import read_steps
from isojepa.certificates.dynamics.transition import check_rows, fit_steps
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, validate_types

_DRAWS = 500  # fewer, 100 at least, for states of more than 32 dimensions
_TIMES = 4  # rows for each unknown, at least: halves are fitted on, without a group


@validate_types
def certify_dynamics(
    h: Any,
    a: Any,
    h_next: Any = None,
    z: Any = None,
    z_next: Any = None,
    episodes: Any = None,
    *,
    history: int = 1,
    recovery_error: float | None = None,
    horizon: int | None = None,
    tolerance: float = 0.1,
    confidence: float = 0.95,
    seed: int = 0,
) -> DynamicsCertificate:
    """Certify the transition of an embedding under actions.

    Args:
        h: rows (n, dim), with h_next; or paths: (steps, dim), (steps, paths, dim) or a list of
            (steps_i, dim).
        a: the actions in the same form, one column each; action t leaves step t.
        h_next: (n, dim), where rows are given.
        z, z_next: the latents, in the form of h and h_next, of as many dimensions as h.
        episodes: (n,) which episode each row is of, where rows are given; without it rows are one path.
        history: embeddings in a state, for paths; velocity cannot be seen in one.
        recovery_error: what is known of E |h - Q z|^2 without latents, such as Theorem 3's bound.
        horizon: steps of the Gramian; by default without end where A is stable.
        tolerance: relative error up to which A and B count as the true ones.
        confidence: of each interval.
        seed: draws what intervals are made of.

    Returns:
        A certificate; where nothing excites some direction, one that says which, without A and B.

    Raises:
        ValueError: lengths differ, values are not finite, a column of h is constant, or there are fewer than
            four rows for each unknown.

    Example:
        >>> import torch
        >>> source = generator(0, "example")
        >>> h, a, noise = (torch.randn(400, k, generator=source, dtype=torch.float64) for k in (2, 1, 2))
        >>> found = certify_dynamics(h, a, 0.5 * h + a + 0.1 * noise)
        >>> found.verdict, found.invariants.rank
        ('linear', 1)
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    check_number("tolerance", tolerance, "be positive", lambda value: value > 0)
    if horizon is not None:
        horizon = check_count("horizon", horizon)
    if recovery_error is not None:
        check_number("recovery_error", recovery_error, "not be negative", lambda value: value >= 0)
    steps = read_steps(h, a, h_next, z, z_next, episodes, history)
    check_rows(steps, _TIMES)
    edges = group_edges(steps.episode)
    draws = max(100, min(_DRAWS, 32 * _DRAWS // steps.state.shape[1]))
    whole: Literal["episodes", "pieces"] = "episodes" if _cut_at(edges, steps.episode) else "pieces"

    def source(name: str) -> Any:
        return generator(seed, "certify dynamics", name)

    excitation = measure_excitation(steps, edges, confidence, draws, source("actions"))
    told: dict[str, Any] = {
        "rows": len(steps),
        "episodes": steps.episodes,
        "dim": steps.dim,
        "actions": steps.actions,
        "history": steps.history,
        "confidence": confidence,
        "groups": whole,
        "tolerance": tolerance,
        "excitation": excitation,
    }
    if excitation.unidentified:
        return DynamicsCertificate(**told)
    fitted = regress(steps.inputs, steps.next, edges)
    deviations = fitted.deviations(draws, source("transition"))
    agreement = None
    if steps.z_next is not None:
        agreement = measure_agreement(steps, edges, confidence, draws, source("latents"))
        recovery_error = agreement.recovery_error.high
    return DynamicsCertificate(
        **told,
        linearity=measure_linearity(steps, edges, confidence, source("features")),
        transition=fit_steps(steps),
        invariants=measure_invariants(fitted.matrix, deviations, steps.history, confidence, horizon),
        agreement=agreement,
        perturbation=None
        if recovery_error is None
        else measure_perturbation(steps, fitted.matrix, recovery_error),
    )


def _cut_at(edges: np.ndarray, episode: np.ndarray) -> bool:
    """Whether groups are whole episodes: an episode begins wherever a group does."""
    inside = edges[1:-1]
    return bool(len(inside)) and bool((episode[inside] != episode[inside - 1]).all())
