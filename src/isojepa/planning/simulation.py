"""The regret of any policy in a linear-Gaussian world, by simulation.

The average of |a + K z|^2 in the metric of R + B^T P B along paths: by the performance difference (see
`isojepa.planning.regret`) that is the average cost beyond the least one, and it is far less noisy than costs
are.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from isojepa.arguments import check_count, check_number, checked
from isojepa.certificates.intervals import Interval, from_samples
from isojepa.planning.lqr import Lqr
from isojepa.seeds import generator

_FAR = 1e6  # standard deviations from which a path is taken to have left


@checked
def simulate_regret(
    lqr: Lqr,
    policy: Callable[[np.ndarray], np.ndarray],
    steps: int = 400,
    paths: int = 200,
    settle: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Measure the regret per step of a policy.

    Args:
        lqr: the world, its costs and its best regulator, in latents.
        policy: latents (n, dim) -> actions (n, inputs); it may look at the latents through an encoder.
        steps: that count.
        paths: independent ones; the interval is over them.
        settle: steps before, from the stationary law of the best regulator.
        seed: draws starts and noise.
        confidence: of the interval.

    Returns:
        The regret; all infinite where a path leaves for good.

    Raises:
        ValueError: the policy gives actions of another shape.
    """
    for name, count in (("steps", steps), ("paths", paths)):
        check_count(name, count, least=2 if name == "paths" else 1)
    check_count("settle", settle, least=0)
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    system, source = lqr.system, generator(seed, "plan", "simulation")
    start, kick = _root(system.covariance(lqr.gain)), _root(system.noise)
    limit = _FAR * (1 + float(np.abs(start).max()))
    z = _normal(paths, system.dim, source) @ start
    total = np.zeros(paths)
    for step in range(settle + steps):
        action = np.asarray(policy(z), dtype=np.float64)
        if action.shape != (paths, system.inputs):
            raise ValueError(
                f"policy must give actions ({paths}, {system.inputs}) for {paths} states, "
                f"got shape {action.shape}"
            )
        off = action + z @ lqr.gain.T
        if step >= settle:
            total += np.einsum("ni,ij,nj->n", off, lqr.action_weight, off)
        z = z @ system.a.T + action @ system.b.T + _normal(paths, system.dim, source) @ kick
        if not np.abs(z).max() < limit:  # NaN has left too
            return Interval(math.inf, math.inf, math.inf)
    return from_samples(total / steps, confidence)


def _normal(rows: int, columns: int, source: torch.Generator) -> np.ndarray:
    return torch.randn(rows, columns, generator=source, dtype=torch.float64).numpy()


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
