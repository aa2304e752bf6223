r"""What an angle observed modulo 2 pi reveals: the ceiling of R^2 in worlds of pictures.

Let theta ~ N(0, s^2) with density p, phi = theta mod 2 pi and p_w(phi) = sum_k p(phi + 2 pi k). Of all
functions of phi the conditional mean explains most, and a winding has (log p)' = -(phi + 2 pi k) / s^2, so

    m(phi) = E[theta | phi] = -s^2 (log p_w)'(phi),        R^2 <= E m^2 / s^2 = s^2 E ((log p_w)')^2 < 1:

Theorem 1 asks for a mixing that loses nothing, and an arm drawn at angles N(0, 1) loses the winding.

The step behind `environments/wrapped_angles.py`.
"""

import math

import numpy as np
import sympy as sp

from isojepa_lab.environments.wrapped_angles import conditional_mean, r2_ceiling, wrapped_density
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import draw

_HARMONICS = 48
_GRID = 4096


@check(
    "winding",
    theorem="forward",
    step="Addition",
    method="symbolic; quadrature",
    covers="all spreads for the conditional mean; the ceiling at spreads {spreads}",
    note="""Not in the paper, whose pixel experiment draws both joint angles from N(0, 1) and passes over the
    0.17 % of each beyond pi. They leave 5.1 % of the variance open, so R^2 ends at 0.949.""",
)
def winding(spreads: tuple[float, ...] = (0.8, 1.0, 1.5, 2.0), power: int = 2) -> Parts:
    """An angle modulo 2 pi carries as much of it as the Fisher information of its wrapped law.

    R^2(theta, f(theta mod 2 pi)) <= s^2 E ((log p_w)')^2, attained by E[theta | phi] = -s^2 (log p_w)'(phi)
    """
    theta = sp.Symbol("theta", real=True)
    s, k = sp.symbols("s k", positive=True)
    p = sp.exp(-(theta**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    yield vanishes(
        "each winding adds -s^2 p' = theta p to m p_w", -(s**power) * sp.diff(p, theta) - theta * p
    )
    moment = sp.integrate(theta * sp.sin(k * theta) * p, (theta, -sp.oo, sp.oo))
    stein = s**2 * k * sp.exp(-(k**2) * s**2 / 2)
    yield vanishes("E theta sin(k theta) = s^2 k exp(-k^2 s^2 / 2)", sp.simplify(moment - stein))
    phi = (np.arange(_GRID) + 0.5) * 2 * math.pi / _GRID - math.pi
    for spread in spreads:
        density, slope = _fourier(phi, spread)
        yield close(
            f"s = {spread}: windings and Fourier series are one density",
            wrapped_density(phi, spread),
            density,
            1e-12,
        )
        mean = conditional_mean(phi, spread)
        score = -(spread**power) * slope / density
        yield close(f"s = {spread}: E[theta | phi] by windings is -s^2 times the score", mean, score, 1e-9)
        # sums over a period are exact to rounding for smooth periodic functions
        ceiling = r2_ceiling(spread)
        information = float((density * (slope / density) ** 2).mean()) * 2 * math.pi
        yield close(
            f"s = {spread}: the ceiling is s^2 times the information", ceiling, spread**2 * information, 1e-9
        )
        remainder = float((density * _left_open(phi, spread)).mean()) * 2 * math.pi
        yield close(f"s = {spread}: what is left open is the rest", 1 - remainder / spread**2, ceiling, 1e-9)
        products, along = _sines(spread)
        best = float(along @ np.linalg.solve(products, along)) / spread**2
        yield close(f"s = {spread}: regression on {_HARMONICS} sines attains it", best, ceiling, 1e-9)
        others = draw("sines", 200, _HARMONICS) / np.arange(1, _HARMONICS + 1)
        explained = (others @ along) ** 2 / np.einsum("nj,jk,nk->n", others, products, others) / spread**2
        yield at_least(f"s = {spread}: no other sum of sines passes it: margin", ceiling - explained, 0.0)
        yield holds(f"s = {spread}: it is below 1", bool(ceiling < 1), ceiling)


def _fourier(phi: np.ndarray, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """The density of the wrapped normal and its derivative, by Fourier series."""
    k = np.arange(1, 200)
    size = np.exp(-(k**2) * spread**2 / 2) / math.pi
    density = 1 / (2 * math.pi) + np.cos(np.outer(phi, k)) @ size
    return density, -np.sin(np.outer(phi, k)) @ (k * size)


def _left_open(phi: np.ndarray, spread: float) -> np.ndarray:
    """Var(theta | phi), from the windings' own weights."""
    angles = phi[:, None] + 2 * math.pi * np.arange(-9, 10)
    weights = np.exp(-0.5 * (angles / spread) ** 2)
    weights /= weights.sum(1, keepdims=True)
    mean = (weights * angles).sum(1, keepdims=True)
    return np.asarray((weights * (angles - mean) ** 2).sum(1))


def _sines(spread: float) -> tuple[np.ndarray, np.ndarray]:
    """E sin(j theta) sin(k theta), and E theta sin(k theta)."""
    k = np.arange(1, _HARMONICS + 1, dtype=float)
    differences, sums = np.subtract.outer(k, k), np.add.outer(k, k)
    products = (np.exp(-(differences**2) * spread**2 / 2) - np.exp(-(sums**2) * spread**2 / 2)) / 2
    return products, spread**2 * k * np.exp(-(k**2) * spread**2 / 2)
