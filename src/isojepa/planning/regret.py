r"""The planning bound: what controlling by an embedding costs at most, from the certificate's numbers.

World, in the embedding's coordinates x = Q z: x' = A* x + B* u + w, w ~ N(0, S_w), cost x^T W* x + u^T R u.
The encoder gives h = x + e(x), with E |e|^2 <= r for x ~ N(0, I) (the recovery bound of the certificate,
for centred h) and e Lipschitz of constant L. The model A, B, W is within radii of the truth; K and P are
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
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isojepa.arguments import check_number, checked
from isojepa.certificates.closed_loop import Model, Radii, lyapunov, regret_limit, spectral_radius
from isojepa.planning.lqr import LinearSystem, Lqr

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


@checked
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
    given = {"recovery_error": recovery_error, "lipschitz": lipschitz}
    given |= {f"radius_{name}": getattr(radii, name) for name in ("a", "b", "noise", "w")}
    known = {
        name: check_number(name, value, "be finite and not negative", lambda number: number >= 0)
        for name, value in given.items()
        if value is not None
    }
    nothing = math.inf
    if spectral_radius(system.a) < 1:
        nothing = float(np.trace(lqr.w @ lyapunov(system.a, system.noise))) - lqr.average_cost
    missing = [name for name, value in given.items() if value is None]
    if recovery_error is None or lipschitz is None:
        lacks = f"{' and '.join(missing)} must be known ({'; '.join(CONSTANTS[name] for name in missing)})"
        return PlanningBound(math.inf, nothing, lqr.average_cost, lacks, diagnostic, known)
    model = Model(system.a, system.b, system.noise, lqr.w, lqr.r)
    found = regret_limit(model, radii, recovery_error, lipschitz)
    constants = known | dict(found.constants)
    return PlanningBound(found.value, nothing, lqr.average_cost, found.lacks, diagnostic, constants)
