"""Theorem 3, whole: the bound against exact errors of explicit maps, how tight it is, and a sharper one.

    E |h - Q z|^2 <= D + (epsilon + D)^2                         (the theorem)
    E |h - Q z|^2 <= D + (1 - sqrt(1 - epsilon - D))^2           (sharper, for epsilon + D <= 1)

The theorem bounds |s - 1| by |s^2 - 1| for each singular value s of M. But |s - 1| = |s^2 - 1| / (s + 1), and
|M M^T - I|_F <= t = epsilon + W keeps s above sqrt(1 - t). So the second term shrinks by (1 + sqrt(1 - t))^2,
which is 4 when epsilon and D are small. h = sqrt(1 - w) z + sqrt(w/2) He_2(z) attains it for every w.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import sympy as sp

from isojepa.certificates.bound import published, sharper
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.maps import Measured, measure, measure_spiral

Bound = Callable[[float, float], float]


@cache
def family() -> tuple[tuple[str, Measured], ...]:
    """Maps from nearly perfect to hopeless, in one to three dimensions, with their exact numbers."""
    return tuple(_family())


def _family() -> Iterator[tuple[str, Measured]]:
    for rho in (0.3, 0.9, 0.99):
        for w in (0.001, 0.1, 0.5, 1.0):
            yield f"degree 2, share {w}, rho {rho}", measure(_mixed(w), 1, rho, 12)
        yield f"cubic, rho {rho}", measure(lambda z: 0.7 * z + 0.1 * z**3, 1, rho, 12)
        for scale in (0.0, 0.5, 0.99, 1.2):
            yield f"{scale} z, rho {rho}", measure(lambda z, s=scale: s * z, 2, rho, 4)  # type: ignore[misc]
        yield f"tanh, rho {rho}", measure(lambda z: 1.5 * np.tanh(z), 1, rho, 160)
        yield f"sine shear, rho {rho}", measure(_sine_shear, 2, rho, 28)
        yield f"parabola, rho {rho}", measure(_parabola, 2, rho, 6)
        yield f"three latents, rho {rho}", measure(_triple, 3, rho, 4)
        for rate in (0.05, 0.5, math.pi):
            yield f"spiral of rate {rate:.3g}, rho {rho}", measure_spiral(rate, rho)


@check(
    "nonlinear-energy",
    theorem="stability",
    step="Step 1",
    method="quadrature",
    covers="48 maps in 1 to 3 dimensions, rho 0.3 to 0.99",
)
def nonlinear_energy(factor: float = 1.0) -> Parts:
    """The alignment gap bounds the nonlinear variance, tightly at degree two.

    W <= D = delta / (2 rho (1 - rho))
    """
    for name, m in family():
        yield at_least(f"{name}: D - W", factor * m.d - m.nonlinear, 0.0, 1e-9)
        if name.startswith(("degree 2", "parabola")):
            yield close(f"{name}: D = W", factor * m.d, m.nonlinear, 1e-9)


@check(
    "bound",
    theorem="stability",
    step="Theorem",
    method="quadrature; symbolic",
    covers="48 maps in 1 to 3 dimensions, rho 0.3 to 0.99; two families in closed form",
    note="""How tight: the error over the bound tends to 1 for small degree-two nonlinearity and is 1
    at full collapse; for small changes of scale it tends to 1/4.""",
)
def bound(formula: Bound = published) -> Parts:
    """The error of every map is within the bound, and some maps come near it.

    min over Q of E |h - Q z|^2 <= D + (epsilon + D)^2
    """
    ratios = []
    for name, m in family():
        limit = formula(m.epsilon, m.d)
        yield at_least(f"{name}: bound minus error", limit - m.error, 0.0, 1e-9)
        if limit > 1e-9:
            ratios.append(m.error / limit)
    yield at_least("largest ratio of error to bound", max(ratios), 0.99)
    yield holds(
        f"smallest ratio {min(ratios):.3g}, largest {max(ratios):.3g}", max(ratios) <= 1 + 1e-9, max(ratios)
    )
    w, s = sp.symbols("w s", positive=True)
    degree_two = ((1 - sp.sqrt(1 - w)) ** 2 + w) / (w + w**2)
    yield vanishes("degree two: ratio -> 1 as w -> 0", sp.limit(degree_two, w, 0, "+") - 1)
    scaled = (s - 1) ** 2 / (s**2 - 1) ** 2
    yield vanishes("scaling: ratio -> 1/4 as s -> 1", sp.limit(scaled, s, 1) - sp.Rational(1, 4))
    yield vanishes("scaling: ratio -> 1 at collapse", sp.limit(scaled, s, 0) - 1)


@check(
    "sharper-bound",
    theorem="stability",
    step="Not in the paper",
    method="symbolic; quadrature",
    covers="all singular values; 48 maps",
    general=True,
    note="""Replaces the second term by one up to four times smaller, and cannot be improved in one
    dimension.""",
)
def sharper_bound(formula: Bound = sharper) -> Parts:
    """The second term can be made up to four times smaller, and is then attained.

    E |h - Q z|^2 <= D + (1 - sqrt(1 - epsilon - D))^2 for epsilon + D <= 1
    """
    s, low = sp.symbols("s l", nonnegative=True)
    yield vanishes("(s^2-1)^2 = (s-1)^2 (s+1)^2", sp.expand((s**2 - 1) ** 2 - (s - 1) ** 2 * (s + 1) ** 2))
    # s >= l gives (s+1)^2 >= (l+1)^2, so (s-1)^2 <= (s^2-1)^2 / (1+l)^2
    difference = sp.expand((1 + low + s) ** 2 - (1 + low) ** 2)
    yield holds("1/(1+s) shrinks with s", difference.is_nonnegative)
    root = sp.Symbol("r", nonnegative=True)  # sqrt(1 - t)
    yield vanishes("t / (1 + sqrt(1-t)) = 1 - sqrt(1-t)", sp.cancel((1 - root**2) / (1 + root)) - (1 - root))
    t = sp.Symbol("t", positive=True)
    yield vanishes("it is t/2 for small t", sp.limit((1 - sp.sqrt(1 - t)) / t, t, 0, "+") - sp.Rational(1, 2))
    rising = sp.simplify(sp.diff((1 - sp.sqrt(1 - t)) ** 2, t) - (1 / sp.sqrt(1 - t) - 1))
    yield vanishes("its derivative is 1/sqrt(1-t) - 1 >= 0, so D may stand for W", rising)
    ratios = []
    for name, m in family():
        limit = formula(m.epsilon, m.d)
        yield at_least(f"{name}: bound minus error", limit - m.error, 0.0, 1e-9)
        if name.startswith("degree 2"):
            yield close(f"{name}: attained", m.error, limit, 1e-6)
        if limit > 1e-9:
            ratios.append(limit / published(m.epsilon, m.d))
    yield holds(f"down to {min(ratios):.3g} of the published bound", max(ratios) <= 1 + 1e-12, min(ratios))


def _mixed(share: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: math.sqrt(1 - share) * z + math.sqrt(share / 2) * (z**2 - 1)


def _sine_shear(z: np.ndarray) -> np.ndarray:
    return np.stack([z[..., 0] + 0.3 * np.sin(z[..., 1]), z[..., 1]], -1)


def _parabola(z: np.ndarray) -> np.ndarray:
    return np.stack([0.95 * z[..., 0], 0.9 * z[..., 1] + 0.2 * z[..., 0] ** 2], -1)


def _triple(z: np.ndarray) -> np.ndarray:
    a, b, c = z[..., 0], z[..., 1], z[..., 2]
    return np.stack([0.6 * a + 0.8 * b, 0.8 * a - 0.6 * b + 0.1 * b * c, 0.9 * c + 0.1 * (a**2 - 1) * b], -1)
