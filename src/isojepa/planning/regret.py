r"""The planning bound: what controlling by an embedding costs at most, from the certificate's numbers.

World, in the embedding's coordinates x = Q z: x' = A* x + B* u + w, w ~ N(0, S_w), cost x^T W* x + u^T R u.
The encoder gives h = x + e(x), with E |e|^2 <= r for x ~ N(0, I) (the recovery bound of the certificate,
for centered h) and e Lipschitz of constant L. The model A, B, W is within radii of the truth; K and P are
its regulator's, and u = -K h is what is done. M = A - B K, and a star marks what is true. The regret is the
average cost of a step beyond the least one.

1. Performance difference. With G* = R + B*^T P* B*, Bellman's equation for x^T P* x gives
       x^T W* x + u^T R u + E x'^T P* x' - x^T P* x - tr P* S_w = |u + K* x|^2_G*,
   and, summed over time, regret <= average of E |G*^1/2 ((K - K*) x + K e(x))|^2.
2. Reference. Let y' = M y + w be the model's loop without e, driven by the same noise: y ~ N(0, S) with
   S = M S M^T + S_w. As S_w is known within a radius, S lies between two Lyapunov solutions.
3. Density ratio. E |e(y)|^2 is paid by E |e|^2 under N(0, I): by Hoelder's inequality it is at most
       (E |e|^2k)^(1/k) (E (dN(0, S)/dN(0, I))^q)^(1/q),  1/k + 1/q = 1,
   finite for S < k (k = 1: S <= I, the ratio is |S|^-1/2), with E |e|^2k from r and L by Poincare's
   inequality; or, with no ratio, (sqrt r + L |S^1/2 - I|_F)^2 by carrying N(0, I) over. The least is taken:
   `encoder_power`.
4. Small gain. d = x - y obeys d' = M d + (dA - dB K) x - B* K e(x). With g = max |(e^iw - M)^-1|,
   g_e = max |(e^iw - M)^-1 B K| + g |dB| |K|, mu = |dA| + |dB| |K|, and root mean squares over time,
       |d| <= (g mu |y| + g_e |e(y)|) / (1 - g mu - g_e L),   if g mu + g_e L < 1.
   The same argument for two starts shows that the start does not matter.
5. Riccati. (1 + above) P is more than K costs in the true system, so P* <= (1 + above) P; likewise
   P <= (1 + below) P*. From G* (K - K*) = B^T P M - B*^T P* M* follows |G*^1/2 (K - K*)| <= gain_shift, which
   is 0 where A, B and W are known.
6. Together: regret <= (gain_shift (|y| + |d|) + |G*^1/2 K| (|e(y)| + L |d|))^2.

Every function is in `isojepa.certificates.closed_loop` and checked by `isojepa theory --only planning`. What
is not promised: goals other than the mean, worlds that are not linear and Gaussian, an L that was only seen
in a sample; there the number is a diagnostic, and is called so.

The regret of any policy in a linear-Gaussian world, by simulation.

The average of |a + K z|^2 in the metric of R + B^T P B along paths: by the performance difference (see
`isojepa.planning.regret`) that is the average cost beyond the least one, and it is far less noisy than costs
are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from isojepa.certificates.closed_loop import Model, Radii, lyapunov, regret_limit, spectral_radius
from isojepa.planning.lqr import LinearSystem, Lqr
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_samples
from isojepa.validation import check_count, check_number, validate_types

CONSTANTS = {  # name: symbol and words
    "recovery_error": "r: bound on E |h - Q z|^2 under N(0, I)",
    "lipschitz": "L: Lipschitz constant of the encoder's error",
    "radius_a": "|A - Q A* Q^T|: bound on the error of the transition",
    "radius_b": "|B - Q B*|: bound on the error of the actions' effect",
    "radius_noise": "bound on the error of the noise covariance",
    "radius_w": "bound on the error of the state's cost",
    "value": "|P|: the Riccati solution of the model",
    "gain": "|K|: its gain",
    "loop_radius": "mu: how far the true loop may be from M = A - B K",
    "least_state_cost": "least eigenvalue of W, less its radius",
    "least_action_cost": "least eigenvalue of R",
    "drift": "how much P may grow in the true loop, per cost of a step; must be below 1",
    "drift_back": "the same of P* in the model; must be below 1",
    "value_above": "P* <= (1 + this) P",
    "value_below": "P <= (1 + this) P*",
    "gain_shift": "|G*^1/2 (K - K*)|",
    "action_weight": "|G*^1/2 K|",
    "least_variance": "least eigenvalue of S, the covariance of the loop without the encoder's error",
    "largest_variance": "largest eigenvalue of S",
    "state_power": "tr S",
    "moment": "k of E |e|^2k in the density ratio; 0 where N(0, I) is carried over",
    "density_ratio": "of N(0, S) to N(0, I), in the norm that k needs",
    "encoder_power": "E |e|^2 under N(0, S)",
    "any_gain": "g: peak gain of the loop",
    "error_gain": "g_e: peak gain from the encoder's error to the state",
    "small_gain": "g mu + g_e L; must be below 1",
    "apart": "|d|: root mean square distance to the loop without the encoder's error",
}


@dataclass(frozen=True)
class PlanningBound:
    """An upper bound on the regret per step of u = -K h.

    Attributes:
        value: the bound; infinite where there is none.
        nothing: the model's regret of doing nothing; infinite where it is not stable by itself.
        best: the model's least average cost.
        lacks: which constant is missing or which condition fails; empty where there is a bound.
        diagnostic: whether the number promises nothing.
        constants: every constant, by name; see `CONSTANTS`.
    """

    value: float
    nothing: float
    best: float
    lacks: str = ""
    diagnostic: bool = False
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`bound`, `vacuous` (no better than doing nothing), `diagnostic`, or `no bound: ...`."""
        if self.lacks:
            return f"no bound: {self.lacks}"
        if self.diagnostic:
            return "diagnostic"
        return "vacuous" if self.value >= self.nothing else "bound"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is infinite is None."""
        numbers = {"value": self.value, "nothing": self.nothing, "best": self.best}
        return {
            "verdict": self.verdict,
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "lacks": self.lacks,
            "diagnostic": self.diagnostic,
            "constants": dict(self.constants),
        }

    def __str__(self) -> str:
        names = {"bound": "regret at most", "vacuous": "regret at most", "diagnostic": "diagnostic"}
        lines = [f"planning bound: {self.verdict}"]
        if not self.lacks:
            lines.append(
                f"  {names[self.verdict]} {self.value:.4g} a step, of doing nothing {self.nothing:.4g}"
            )
        lines += [f"  {value:<12.5g}{name}: {CONSTANTS[name]}" for name, value in self.constants.items()]
        return "\n".join(lines)


@validate_types
def planning_bound(
    system: LinearSystem,
    w: Any,
    r: Any,
    recovery_error: float | None,
    lipschitz: float | None = None,
    radii: Radii | None = None,
    diagnostic: bool = False,
) -> PlanningBound:
    """Bound the regret of regulating a linear-Gaussian world by its embedding.

    Args:
        system: the model, in the embedding's coordinates, with its noise.
        w, r: (dim, dim) and (inputs, inputs) costs.
        recovery_error: bound on E |h - Q z|^2 under N(0, I), in sum over dimensions: the upper end of a
            certificate's bound, or of its Procrustes error where latents are known. None: not known.
        lipschitz: of h - Q z, over all states. None: not known.
        radii: how far the system and w may be from the truth, for the same Q; 0 by default: they are true.
        diagnostic: whether the world is not linear and Gaussian, or a constant is an estimate and no bound.

    Raises:
        ValueError: the system cannot be regulated, or a number is negative or not finite.

    Example:
        >>> system = LinearSystem(0.9 * np.eye(2), np.eye(2), 0.19 * np.eye(2))
        >>> planning_bound(system, np.eye(2), np.eye(2), recovery_error=0.01, lipschitz=0.1).verdict
        'bound'
    """
    radii = Radii() if radii is None else radii
    lqr = Lqr(system, w, r)
    values = {"recovery_error": recovery_error, "lipschitz": lipschitz}
    values |= {f"radius_{name}": getattr(radii, name) for name in ("a", "b", "noise", "w")}
    limits = {
        name: check_number(name, value, "be finite and not negative", lambda number: number >= 0)
        for name, value in values.items()
        if value is not None
    }
    nothing = math.inf
    if spectral_radius(system.a) < 1:
        nothing = float(np.trace(lqr.w @ lyapunov(system.a, system.noise))) - lqr.average_cost
    missing = [name for name, value in values.items() if value is None]
    if recovery_error is None or lipschitz is None:
        lacks = f"{' and '.join(missing)} must be known ({'; '.join(CONSTANTS[name] for name in missing)})"
        return PlanningBound(math.inf, nothing, lqr.average_cost, lacks, diagnostic, limits)
    model = Model(system.a, system.b, system.noise, lqr.w, lqr.r)
    bound = regret_limit(model, radii, recovery_error, lipschitz)
    constants = limits | dict(bound.constants)
    return PlanningBound(bound.value, nothing, lqr.average_cost, bound.lacks, diagnostic, constants)


_FAR = 1e6  # standard deviations from which a path is taken to have left


@validate_types
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
