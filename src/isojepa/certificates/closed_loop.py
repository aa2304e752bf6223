"""Terms of the planning bound: Riccati and Lyapunov solutions, peak gains, density ratios, and the sum.

Matrices in, numbers out; `isojepa theory` checks each function against what it claims, and
`isojepa.planning.regret`, whose docstring has the derivation, makes a verdict of them. |.| is the spectral
norm.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import linalg

MOMENTS = 8  # the largest k of E |e|^(2k) that the density ratio is paid with


@dataclass(frozen=True)
class Model:
    """A linear system x' = A x + B u + noise with cost x^T W x + u^T R u, in the embedding's coordinates.

    Attributes:
        a, b: (dim, dim) and (dim, inputs).
        noise: (dim, dim) covariance.
        w, r: (dim, dim) and (inputs, inputs).
    """

    a: np.ndarray
    b: np.ndarray
    noise: np.ndarray
    w: np.ndarray
    r: np.ndarray


@dataclass(frozen=True)
class Radii:
    """How far the true A, B, noise covariance and W may be from the model's, in spectral norm."""

    a: float = 0.0
    b: float = 0.0
    noise: float = 0.0
    w: float = 0.0

    @property
    def moves_riccati(self) -> bool:
        """Whether something is uncertain that the Riccati equation has."""
        return max(self.a, self.b, self.w) > 0


@dataclass(frozen=True)
class RegretLimit:
    """An upper bound on the regret, and what it is made of.

    Attributes:
        value: the bound; infinite where there is none.
        lacks: which condition fails, in words; empty where there is a bound.
        constants: every constant up to there, by name.
    """

    value: float
    lacks: str
    constants: Mapping[str, float]


def riccati(a: np.ndarray, b: np.ndarray, w: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P and K of P = W + A^T P (A - B K), K = (R + B^T P B)^-1 B^T P A, of an infinite horizon."""
    p = linalg.solve_discrete_are(a, b, w, r)
    p = (p + p.T) / 2
    return p, np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)


def lyapunov(m: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """S = M S M^T + N: the stationary covariance of x' = M x + noise, for stable M."""
    s = linalg.solve_discrete_lyapunov(m, noise)
    return np.asarray((s + s.T) / 2)


def spectral_radius(m: np.ndarray) -> float:
    """Largest absolute eigenvalue; below 1 the system is stable."""
    return float(np.abs(np.linalg.eigvals(m)).max())


def peak_gain(m: np.ndarray, b: np.ndarray, slack: float = 0.02) -> float:
    """An upper bound on max |(e^iw - M)^-1 B| over frequencies: the power that x' = M x + B v makes of v.

    Between frequencies the resolvent R changes by R(w) = (1 + (z - z_j) R_j)^-1 R_j, so that
    |R(w) B| <= |R_j B| / (1 - |z - z_j| |R_j|): intervals are halved until that factor is below 1 + slack.

    Args:
        m: (dim, dim), stable.
        b: (dim, inputs).
        slack: relative excess over the true peak, about.
    """
    count = 64
    half = math.pi / (2 * count)
    places = half * (2 * np.arange(count) + 1)  # the lower half of the circle mirrors the upper one
    peak = 0.0
    while len(places):
        resolvents = np.linalg.inv(np.exp(1j * places)[:, None, None] * np.eye(len(m)) - m)
        reach = half * np.linalg.norm(resolvents, 2, axis=(1, 2))
        fine = reach <= slack
        if fine.any():
            gains = np.linalg.norm(resolvents[fine] @ b, 2, axis=(1, 2)) / (1 - reach[fine])
            peak = max(peak, float(gains.max()))
        half /= 2
        places = np.concatenate((places[~fine] - half, places[~fine] + half))
    return peak


def lipschitz_moments(error: float, lipschitz: float, count: int = MOMENTS) -> list[float]:
    """Upper bounds of E |e|^2, E |e|^4, ... under N(0, I), from the first and a Lipschitz constant.

    Poincare's inequality for |e|^k: a_k <= (E |e|^k)^2 + (k L)^2 a_(k-1), with a_k = E |e|^(2k).
    """
    moments = [1.0, error]
    for k in range(2, count + 1):
        squared_mean = moments[k // 2] * moments[(k + 1) // 2]  # Cauchy-Schwarz where k is odd
        moments.append(squared_mean + (k * lipschitz) ** 2 * moments[k - 1])
    return moments[1:]


def renyi_ratio(low: np.ndarray, high: np.ndarray, k: int) -> float:
    """Largest (E (dN(0, S) / dN(0, I))^q)^(1/q) under N(0, I), q = k / (k - 1), over low <= S <= high.

    For k = 1 the largest density ratio itself, |S|^-1/2, which is finite for S <= I only; else for S < k.

    Args:
        low, high: (dim,) eigenvalues of the least and the largest covariance.
        k: of the moment E |e|^(2k) that it is multiplied with, by Hoelder's inequality.
    """
    tolerance = 1e-12
    if low.min() <= 0 or high.max() >= k + (tolerance if k == 1 else 0):
        return math.inf
    if k == 1:
        return float(np.exp(-0.5 * np.log(low).sum()))
    q = k / (k - 1)
    log = -0.5 * ((q - 1) * np.log(low).sum() + np.log(q - (q - 1) * high).sum())
    return float(np.exp(log / q))


def encoder_power(
    error: float, lipschitz: float, low: np.ndarray, high: np.ndarray
) -> tuple[float, int, float]:
    """The least upper bound of E |e(y)|^2 for y ~ N(0, S), from E |e|^2 <= error under N(0, I).

    By a density ratio and a moment, for k = 1 to `MOMENTS`; or by carrying N(0, I) over to N(0, S),
    (sqrt(error) + L |S^1/2 - I|_F)^2, which needs no ratio and is not small with the error.

    Args:
        error: bound on E |e|^2 under N(0, I).
        lipschitz: of e.
        low, high: (dim,) eigenvalues, ascending, of the least and the largest S.

    Returns:
        The bound, the k of its moment (0: carried over), and the density ratio (1 where carried over).
    """
    roots = np.sqrt(np.maximum(low, 0.0)), np.sqrt(np.maximum(high, 0.0))
    moved = math.sqrt(float(np.maximum(*((one - 1) ** 2 for one in roots)).sum()))
    ways = [((math.sqrt(error) + lipschitz * moved) ** 2, 0, 1.0)]
    for k, moment in enumerate(lipschitz_moments(error, lipschitz), 1):
        ratio = renyi_ratio(low, high, k)
        if ratio < math.inf:
            ways.append((ratio * moment ** (1 / k), k, ratio))
    return min(ways)


def riccati_shift(model: Model, radii: Radii) -> tuple[str, dict[str, float]]:
    """Bounds on how far P and the actions of K are from those of the true system within the radii.

    P* <= (1 + above) P, because (1 + above) P is more than K costs in the true system; and
    P <= (1 + below) P*, because (1 + below) P* is more than K* costs in the model. Both in units of the cost
    of a step, C = W + K^T R K, which is why W must be positive definite.

    Returns:
        Which condition fails, in words, or nothing; and the constants: `value_above`, `value_below`,
        `gain_shift` >= |G*^1/2 (K - K*)|, `action_weight` >= |G*^1/2 K|, with what they are made of.
    """
    p, k = riccati(model.a, model.b, model.w, model.r)
    m = model.a - model.b @ k
    root = _root(p)
    terms = {"value": _size(p), "gain": _size(k), "loop_radius": radii.a + radii.b * _size(k)}
    above = below = shift = 0.0
    if radii.moves_riccati:
        least_w = float(np.linalg.eigvalsh(model.w)[0]) - radii.w
        least_r = float(np.linalg.eigvalsh(model.r)[0])
        terms |= {"least_state_cost": least_w, "least_action_cost": least_r}
        if least_w <= 0:
            return (
                "W must be positive definite, by more than its radius, where A, B or W is estimated",
                terms,
            )
        step = np.linalg.inv(_root(model.w + k.T @ model.r @ k))  # C^-1/2
        off = radii.a * _size(step) + radii.b * _size(k @ step)
        drift = 2 * off * _size(p @ m @ step) + off**2 * terms["value"]
        terms["drift"] = drift
        if drift >= 1:
            return f"the transition is too uncertain: its drift {drift:.3g} must be below 1", terms
        above = (drift + radii.w * _size(step) ** 2) / (1 - drift)
        largest = (1 + above) * terms["value"]
        off = radii.a / math.sqrt(least_w) + radii.b / math.sqrt(least_r)
        back = 2 * off * math.sqrt(largest * max(largest / least_w - 1, 0.0)) + off**2 * largest
        terms["drift_back"] = back
        if back >= 1:
            return f"the transition is too uncertain: its drift back {back:.3g} must be below 1", terms
        below = (back + radii.w / least_w) / (1 - back)
        far = max(above, below / (1 + below)) * (_size(root @ m) + _size(root) * terms["loop_radius"])
        shift = math.sqrt(1 + below) * (far + _size(root) * terms["loop_radius"])
        shift += radii.b * _size(p @ m) / math.sqrt(least_r)
    acted = root @ model.b @ k
    weight = math.sqrt(_size(k.T @ model.r @ k + (1 + above) * acted.T @ acted))
    terms |= {
        "value_above": above,
        "value_below": below,
        "gain_shift": shift,
        "action_weight": weight + math.sqrt(1 + above) * _size(root) * radii.b * terms["gain"],
    }
    return "", terms


def regret_limit(model: Model, radii: Radii, error: float, lipschitz: float) -> RegretLimit:
    """An upper bound on the regret per step of u = -K h, h = x + e(x), K optimal for the model.

    Args:
        model: the estimated system, stabilisable and detectable, R positive definite.
        radii: how far the true one may be.
        error: bound on E |e(x)|^2 for x ~ N(0, I).
        lipschitz: of e.
    """
    lacks, terms = riccati_shift(model, radii)
    if lacks:
        return RegretLimit(math.inf, lacks, terms)
    _, k = riccati(model.a, model.b, model.w, model.r)
    m, identity = model.a - model.b @ k, np.eye(len(model.a))
    low, high = (
        np.linalg.eigvalsh(lyapunov(m, model.noise + sign * radii.noise * identity)) for sign in (-1, 1)
    )
    power, moment, ratio = encoder_power(error, lipschitz, low, high)
    any_gain = peak_gain(m, identity)
    error_gain = peak_gain(m, model.b @ k) + any_gain * radii.b * terms["gain"]
    around = any_gain * terms["loop_radius"] + error_gain * lipschitz
    terms |= {
        "least_variance": float(low[0]),
        "largest_variance": float(high[-1]),
        "state_power": float(high.sum()),
        "recovery_error": error,
        "lipschitz": lipschitz,
        "moment": float(moment),
        "density_ratio": ratio,
        "encoder_power": power,
        "any_gain": any_gain,
        "error_gain": error_gain,
        "small_gain": around,
    }
    if around >= 1:
        return RegretLimit(math.inf, f"the small-gain condition fails: {around:.3g} must be below 1", terms)
    state, encoder = math.sqrt(terms["state_power"]), math.sqrt(power)
    apart = (any_gain * terms["loop_radius"] * state + error_gain * encoder) / (1 - around)
    terms["apart"] = apart
    root = terms["gain_shift"] * (state + apart) + terms["action_weight"] * (encoder + lipschitz * apart)
    return RegretLimit(root**2, "", terms)


def _size(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))


def _root(matrix: np.ndarray) -> np.ndarray:
    """The positive semidefinite square root; what rounding leaves below 0 is 0."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
