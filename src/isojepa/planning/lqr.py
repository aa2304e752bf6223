"""Linear-quadratic control, of a given system or of one fitted to an embedding.

Linear-quadratic control: the system, its regulator over an infinite and over a finite horizon, and goals.

    z' = A z + B a + noise,  cost (z - g)^T W (z - g) + (a - a_g)^T R (a - a_g)
    P = W + A^T P (A - B K),  K = (R + B^T P B)^-1 B^T P A,  a = a_g - K (z - g),  g = A g + B a_g

Over an infinite horizon a goal g must be one that an action a_g can hold. Over a finite one it may be any
point: the value is z^T P_t z - 2 p_t^T z + c_t, and a_t = -K_t z + k_t with a_g = 0. With h = Q z, Q
orthogonal, and the cost turned along, gains become K Q^T and everything else agrees (Theorem 4 of Klindt,
LeCun & Balestriero, 2026).

A linear model of an embedding from what was recorded: its transition, costs, and distance to a rotation.

    h' ~ A h + B a    least squares over rows (h, a, h'); the noise is the covariance of what is left
    z ~ C h           least squares at calibration points, so that z^T W z becomes h^T C^T W C h
    e = h - Q z       with the rotation Q fitted on one half of the rows, seen on the other

The first two are as biased as h is far from a rotation of the latents: how far is what the radii of the
planning bound (`isojepa.planning.regret`) are for. Rows must be of recorded actions; pairs that no action
made do not identify B.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from isojepa.alignment.pairs import as_rows
from isojepa.certificates.closed_loop import Radii, lyapunov, riccati, spectral_radius
from isojepa.certificates.transition import fit_transition
from isojepa.linear import halves, least_squares, procrustes
from isojepa.statistics.intervals import Interval, from_samples
from isojepa.validation import check_count, check_number, short_repr, validate_fields, validate_types

_ROUNDING = 1e-9  # relative, of ranks and of symmetry


@dataclass(frozen=True)
class LinearSystem:
    """z' = A z + B a + noise.

    Args:
        a: (dim, dim).
        b: (dim, inputs).
        noise: (dim, dim) covariance; none by default.

    Raises:
        ValueError: shapes do not fit, a number is not finite, or the noise is no covariance.
    """

    a: np.ndarray
    b: np.ndarray
    noise: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        a, b = as_rows("a", self.a), as_rows("b", self.b)
        if a.shape[0] != a.shape[1] or len(b) != len(a):
            raise ValueError(f"a must be (dim, dim) and b (dim, inputs), got shapes {a.shape} and {b.shape}")
        noise = np.zeros_like(a) if np.size(self.noise) == 0 else check_weight("noise", self.noise, len(a))
        for name, value in (("a", a), ("b", b), ("noise", noise)):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """Number of states."""
        return len(self.a)

    @property
    def inputs(self) -> int:
        """Number of actions."""
        return int(self.b.shape[1])

    def check_stabilisable(self) -> None:
        """Hold that some linear feedback keeps the state bounded (the test of Popov, Belevitch and Hautus).

        Raises:
            ValueError: a mode that does not decay cannot be moved by any action; the message names it.
        """
        for value in np.linalg.eigvals(self.a):
            if abs(value) >= 1 - _ROUNDING:
                pencil = np.concatenate((value * np.eye(self.dim) - self.a, self.b), axis=1)
                s = np.linalg.svd(pencil, compute_uv=False)
                if s[-1] <= _ROUNDING * max(1.0, s[0]):
                    raise ValueError(
                        "the system must be stabilisable: no action moves its mode of eigenvalue "
                        f"{_told(value)}, which does not decay"
                    )

    def turned(self, q: Any) -> "LinearSystem":
        """The system of y = Q z, for an orthogonal q (dim, dim)."""
        q = as_rows("q", q)
        if q.shape != self.a.shape or not np.allclose(q @ q.T, np.eye(self.dim), atol=1e-6):
            raise ValueError(f"q must be an orthogonal matrix of {self.dim} rows, got shape {q.shape}")
        return LinearSystem(q @ self.a @ q.T, q @ self.b, q @ self.noise @ q.T)

    def holding_action(self, goal: Any) -> np.ndarray:
        """The least action (inputs,) under which the goal (dim,) stays where it is.

        Raises:
            ValueError: the goal is not finite, of another size, or no action holds it.
        """
        goal = _check_goal(goal, self.dim)
        residual = goal - self.a @ goal
        action = np.linalg.lstsq(self.b, residual, rcond=None)[0]
        missed = float(np.linalg.norm(self.b @ action - residual))
        if missed > 1e-6 * max(1.0, float(np.linalg.norm(goal))):
            raise ValueError(
                f"goal must be a point that some action holds, but the state drifts by {missed:.3g} a step "
                "from it under the best one: name another, or plan over a finite horizon (FiniteLqr)"
            )
        return np.asarray(action)

    def covariance(self, gain: np.ndarray) -> np.ndarray:
        """Stationary covariance of the state under a = -F z.

        Raises:
            ValueError: the loop is not stable.
        """
        loop = self.a - self.b @ gain
        if (radius := spectral_radius(loop)) >= 1:
            raise ValueError(f"the closed loop must be stable, got a spectral radius of {radius:.6g}")
        return lyapunov(loop, self.noise)


@dataclass(frozen=True)
class Lqr:
    """The regulator of an infinite horizon.

    Args:
        system: what is controlled; it must be stabilisable.
        w: (dim, dim) cost of the state, positive semidefinite.
        r: (inputs, inputs) cost of actions, positive definite.

    Raises:
        ValueError: a cost is no such matrix, or no feedback is both stable and best: the system cannot be
            stabilised, or the cost does not see a mode on the unit circle.

    Example:
        >>> system = LinearSystem(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]))
        >>> lqr = Lqr(system, np.eye(2), np.eye(1))
        >>> bool(abs(np.linalg.eigvals(system.a - system.b @ lqr.gain)).max() < 1)
        True
    """

    system: LinearSystem
    w: np.ndarray
    r: np.ndarray
    gain: np.ndarray = field(init=False, repr=False)
    value: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        validate_fields(self)
        system = self.system
        w, r = _check_costs(system, self.w, self.r)
        system.check_stabilisable()
        try:
            value, gain = riccati(system.a, system.b, w, r)
        except np.linalg.LinAlgError:
            value = gain = np.full((1, 1), np.nan)
        if not np.isfinite(gain).all() or spectral_radius(system.a - system.b @ gain) >= 1:
            raise ValueError(
                "w must see every mode that does not decay: the Riccati equation has no stabilising solution"
            )
        for name, found in (("w", w), ("r", r), ("gain", gain), ("value", value)):
            object.__setattr__(self, name, found)

    @property
    def action_weight(self) -> np.ndarray:
        """G = R + B^T P B: what a deviation from the best action costs."""
        return np.asarray(self.r + self.system.b.T @ self.value @ self.system.b)

    @property
    def average_cost(self) -> float:
        """Cost of a step, in the long run: tr P noise."""
        return float(np.trace(self.value @ self.system.noise))

    def act(self, states: Any, goal: Any = None) -> np.ndarray:
        """Actions (n, inputs) for states (n, dim); towards a goal (dim,) that can be held, by default 0."""
        states = _states(states, self.system.dim)
        if goal is None:
            return np.asarray(-states @ self.gain.T)
        action = self.system.holding_action(goal)
        return np.asarray(action - (states - _check_goal(goal, self.system.dim)) @ self.gain.T)

    def cost_to_go(self, states: Any, goal: Any = None) -> np.ndarray:
        """(n,) what the way from each state to the goal costs beyond the average cost."""
        states = _states(states, self.system.dim)
        if goal is not None:
            states = states - _check_goal(goal, self.system.dim)
        return np.asarray(np.einsum("ni,ij,nj->n", states, self.value, states))

    def cost_of(self, gain: np.ndarray) -> float:
        """Average cost of a = -F z, by its Lyapunov equation.

        Raises:
            ValueError: the loop is not stable.
        """
        covariance = self.system.covariance(gain)
        return float(np.trace((self.w + gain.T @ self.r @ gain) @ covariance))


@dataclass(frozen=True)
class FiniteLqr:
    """The regulator of a finite horizon, towards any goal.

    Args:
        system: what is controlled.
        w, r: (dim, dim) and (inputs, inputs) costs of a step.
        horizon: number of actions.
        last: (dim, dim) cost of the last state; w by default.
        goal: (dim,); 0 by default.

    Attributes:
        gains, offsets: of each step; a_t = -gains[t] z + offsets[t].
        squares, slopes, constants: of each time's value z^T P z - 2 p^T z + c, horizon + 1 of them.
    """

    system: LinearSystem
    w: np.ndarray
    r: np.ndarray
    horizon: int
    last: np.ndarray | None = None
    goal: np.ndarray | None = None
    gains: tuple[np.ndarray, ...] = field(init=False, repr=False)
    offsets: tuple[np.ndarray, ...] = field(init=False, repr=False)
    squares: tuple[np.ndarray, ...] = field(init=False, repr=False)
    slopes: tuple[np.ndarray, ...] = field(init=False, repr=False)
    constants: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("horizon", self.horizon)
        a, b = self.system.a, self.system.b
        w, r = _check_costs(self.system, self.w, self.r)
        square = w if self.last is None else check_weight("last", self.last, self.system.dim)
        goal = np.zeros(len(a)) if self.goal is None else _check_goal(self.goal, self.system.dim)
        slope, constant = square @ goal, float(goal @ square @ goal)
        gains: list[np.ndarray] = []
        offsets: list[np.ndarray] = []
        values = [(square, slope, constant)]
        for _ in range(self.horizon):
            weight = r + b.T @ square @ b
            gain, offset = np.linalg.solve(weight, b.T @ square @ a), np.linalg.solve(weight, b.T @ slope)
            constant += float(goal @ w @ goal - slope @ b @ offset + np.trace(square @ self.system.noise))
            square, slope = a.T @ square @ (a - b @ gain) + w, (a - b @ gain).T @ slope + w @ goal
            gains.insert(0, gain)
            offsets.insert(0, offset)
            values.insert(0, (square, slope, constant))
        squares, slopes, constants = zip(*values, strict=True)
        made = {"gains": tuple(gains), "offsets": tuple(offsets), "w": w, "r": r, "goal": goal}
        made |= {"squares": squares, "slopes": slopes, "constants": constants}
        for name, found in made.items():
            object.__setattr__(self, name, found)

    def act(self, time: int, states: Any) -> np.ndarray:
        """Actions (n, inputs) at a time from 0 on for states (n, dim)."""
        check_count("time", time, least=0, most=self.horizon - 1)
        return np.asarray(self.offsets[time] - _states(states, self.system.dim) @ self.gains[time].T)

    def cost_to_go(self, time: int, states: Any) -> np.ndarray:
        """(n,) expected cost from a time to the end, noise included."""
        check_count("time", time, least=0, most=self.horizon)
        states = _states(states, self.system.dim)
        squared = np.einsum("ni,ij,nj->n", states, self.squares[time], states)
        return np.asarray(squared - 2 * states @ self.slopes[time] + self.constants[time])


def _check_costs(system: LinearSystem, w: Any, r: Any) -> tuple[np.ndarray, np.ndarray]:
    """The costs of states and actions, symmetric.

    Raises:
        ValueError: w is not positive semidefinite, r not positive definite, or a size is another.
    """
    state, action = check_weight("w", w, system.dim), check_weight("r", r, system.inputs)
    if (least := float(np.linalg.eigvalsh(action)[0])) <= _ROUNDING * np.abs(action).max():
        raise ValueError(f"r must be positive definite, got a least eigenvalue of {least:.3g}")
    return state, action


def check_weight(name: str, matrix: Any, size: int) -> np.ndarray:
    """A symmetric positive semidefinite matrix (size, size).

    Raises:
        ValueError: it is none.
    """
    symmetric = as_rows(name, matrix)
    if symmetric.shape != (size, size):
        raise ValueError(f"{name} must be ({size}, {size}), got shape {symmetric.shape}")
    scale = max(float(np.abs(symmetric).max()), np.finfo(float).tiny)
    if float(np.abs(symmetric - symmetric.T).max()) > 1e-6 * scale:
        raise ValueError(f"{name} must be symmetric, got entries that differ from their mirror image")
    symmetric = (symmetric + symmetric.T) / 2
    if (least := float(np.linalg.eigvalsh(symmetric)[0])) < -_ROUNDING * scale:
        raise ValueError(f"{name} must be positive semidefinite, got a least eigenvalue of {least:.3g}")
    return np.asarray(symmetric)


def _check_goal(goal: Any, size: int) -> np.ndarray:
    """A finite point (size,).

    Raises:
        ValueError: it is none.
    """
    target = np.asarray(goal, dtype=np.float64)
    if target.shape != (size,) or not np.isfinite(target).all():
        raise ValueError(f"goal must be {size} finite numbers, got {short_repr(target.tolist())}")
    return target


def _states(states: Any, size: int) -> np.ndarray:
    rows = as_rows("states", states)
    if rows.shape[1] != size:
        raise ValueError(f"states must be (n, {size}), got shape {rows.shape}")
    return rows


def _told(value: complex) -> str:
    return f"{value.real:.4g}" if abs(value.imag) < 1e-12 else f"{value.real:.4g}{value.imag:+.4g}i"


_USUAL_QUANTILE = 0.99  # of slopes between neighbors
_NEIGHBORS = 5  # of each state, between which slopes are looked at


@dataclass(frozen=True)
class FittedSystem:
    """A transition in the embedding.

    Attributes:
        system: of h - center.
        center: (dim,) mean embedding, where the regulator leads.
    """

    system: LinearSystem
    center: np.ndarray

    def act(self, lqr: Lqr, h: Any) -> np.ndarray:
        """Actions (n, inputs) of a regulator of this system for embeddings (n, dim)."""
        return lqr.act(as_rows("h", h) - self.center)

    def radii(self, truth: LinearSystem, q: Any) -> Radii:
        """How far it is from the true system of the latents, turned by q (dim, dim) so that h ~ Q z."""
        turned = truth.turned(q)
        off = [getattr(self.system, name) - getattr(turned, name) for name in ("a", "b", "noise")]
        return Radii(*(float(np.linalg.norm(one, 2)) for one in off))


@dataclass(frozen=True)
class EncoderError:
    """What an embedding is besides a rotation of the latents.

    Attributes:
        q: (dim, dim) of h ~ Q z, both centered.
        power: mean |e|^2 of rows that q was not fitted on.
        slope: the largest |e_i - e_j| / |z_i - z_j| that was seen: a lower bound of the Lipschitz constant,
            so that a planning bound made with it is a diagnostic.
        usual_slope: what 99 % of neighbors are below: the largest is that of the rarest states, where a
            closed loop seldom is.
    """

    q: np.ndarray
    power: Interval
    slope: float
    usual_slope: float


@validate_types
def fit_system(h: Any, actions: Any, h_next: Any) -> FittedSystem:
    """Fit the transition of an embedding.

    Args:
        h, h_next: (n, dim) embeddings before and after.
        actions: (n, inputs) what was done in between.

    Raises:
        ValueError: rows do not match, are not finite or too few, or actions do not vary beyond what the
            embedding determines, which leaves B unidentified; the message names the direction.
    """
    transition = fit_transition(h, actions, h_next)
    return FittedSystem(LinearSystem(transition.A, transition.B, transition.noise), as_rows("h", h).mean(0))


@validate_types
def push_cost(w: Any, h: Any, z: Any) -> np.ndarray:
    """The cost h^T C^T W C h of embeddings that z^T W z is, by z ~ C h at calibration points.

    Args:
        w: (d, d) cost of latents.
        h: (n, dim) embeddings of the calibration points.
        z: (n, d) their latents.

    Returns:
        (dim, dim) weight for centered embeddings.

    Raises:
        ValueError: rows do not match or are not finite, or w is no weight.
    """
    h, z = as_rows("h", h), as_rows("z", z)
    if len(h) != len(z):
        raise ValueError(f"h and z must have the same rows, got {len(h)} and {len(z)}")
    back = least_squares(h, z).matrix  # (dim, d)
    return np.asarray(back @ check_weight("w", w, z.shape[1]) @ back.T)


@validate_types
def measure_error(h: Any, z: Any, confidence: float = 0.95) -> EncoderError:
    """Measure the error of an encoder at states drawn from N(0, I) whose latents are known.

    Args:
        h: (n, dim) embeddings.
        z: (n, dim) latents.
        confidence: of the interval.

    Raises:
        ValueError: shapes differ, numbers are not finite, or there are fewer than 4 rows.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    h, z = as_rows("h", h), as_rows("z", z)
    if h.shape != z.shape:
        raise ValueError(f"h and z must have the same shape, got {h.shape} and {z.shape}")
    fit, score = halves(len(h))
    turn = procrustes(z[fit], h[fit])
    error = h - turn(z)
    others = [*range(2, min(_NEIGHBORS, len(z)) + 1)]  # the nearest of all is the state itself
    distances, places = map(np.asarray, cKDTree(z).query(z, k=others))
    apart = np.linalg.norm(error[:, None] - error[places], axis=2)
    slopes = np.append(apart[distances > 0] / distances[distances > 0], 0.0)  # equal states have no slope
    usual, largest = np.quantile(slopes, (_USUAL_QUANTILE, 1.0))
    power = from_samples((error[score] ** 2).sum(1), confidence)
    return EncoderError(turn.matrix.T, power, float(largest), float(usual))
