"""The planning bound, step by step: what controlling by an embedding that is nearly a rotation costs at most.

    x' = A x + B u + w,  cost x^T W x + u^T R u,  u = -K h,  h = x + e(x),  E |e|^2 <= r under N(0, I)
    J(u) - J* = E |u + K* x|^2_G,  G = R + B^T P B                        performance difference
    E |e(y)|^2 <= ratio * moment,  y the state of the loop without e      density ratio
    |x - y| <= (...) / (1 - small gain)                                   peak gains, Lipschitz e

The derivation is in `isojepa.planning.regret`, the functions in `isojepa.certificates.closed_loop`. Not in
the paper.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import linalg

from isojepa.certificates.closed_loop import (
    Model,
    Radii,
    RegretLimit,
    encoder_power,
    lipschitz_moments,
    lyapunov,
    peak_gain,
    regret_limit,
    renyi_ratio,
    riccati,
    riccati_shift,
    spectral_radius,
)
from isojepa_lab.theory.check import Parts, at_least, check, close, vanishes
from isojepa_lab.theory.planning import Plane, draw

SIZES = range(1, 7)
Limit = Callable[[Model, Radii, float, float], RegretLimit]


@check(
    "performance-difference",
    theorem="planning",
    step="Addition: the planning bound",
    method="symbolic; random systems",
    covers="all systems of the plane with one input; sizes 1 to 6",
)
def performance_difference(future: float = 1) -> Parts:
    """What an action costs too much is its squared distance to the best one.

    z^T W z + u^T R u + E z'^T P z' - z^T P z - tr P S = (u + K z)^T (R + B^T P B) (u + K z)
    """
    plane = Plane([*(f"{letter}{k}" for letter in "abp" for k in range(1, 5)), "r", "z1", "z2", "u"])
    a, b, p = plane.matrix("a1 a2, a3 a4"), plane.matrix("b1, b2"), plane.matrix("p1 p2, p2 p3")
    r, z, u = plane.matrix("r"), plane.matrix("z1, z2"), plane.matrix("u")
    g, cross = r + b.T @ p @ b, b.T @ p @ a
    next_z = a @ z + b @ u
    # the Riccati equation, times g, gives g W
    state = z.T @ ((p - a.T @ p @ a) * g[0, 0] + cross.T @ cross) @ z
    residual = state + g @ (u.T @ r @ u + next_z.T @ p @ next_z - z.T @ p @ z)
    right = (r + int(future) * b.T @ p @ b) @ u + cross @ z
    yield vanishes("times R + B^T P B", *plane.reduced(residual - right * right))
    for size in SIZES:
        world = _world(size)
        p_star, k_star = riccati(world.a, world.b, world.w, world.r)
        weight = world.r + future * world.b.T @ p_star @ world.b
        other = k_star + 0.1 * draw("gain", 2, size) / np.sqrt(size)
        cost, best = _cost(world, other), float(np.trace(p_star @ world.noise))
        off = other - k_star
        difference = float(np.trace(weight @ off @ lyapunov(world.a - world.b @ other, world.noise) @ off.T))
        yield close(f"size {size}: J(F) - J(K), relative", difference / (cost - best), 1.0, 1e-7)


@check(
    "density-ratio",
    theorem="planning",
    step="Addition: the planning bound",
    method="quadrature",
    covers="variances 0.05 to 3.5, k to 4; 4 errors of one latent, products of two",
    note="""For k = 1 it is the largest ratio of the densities, finite up to variance 1; for others up
    to variance k. What is carried over needs neither.""",
)
def density_ratio(ratio: Callable[[np.ndarray, np.ndarray, int], float] = renyi_ratio) -> Parts:
    """Another Gaussian law sees at most so much more of the encoder's error than N(0, I).

    E_S |e|^2 <= (E |e|^(2k))^(1/k) (E (dN(0, S)/dN(0, I))^q)^(1/q), 1/k + 1/q = 1
    """
    x, dx = np.linspace(-40, 40, 80_001, retstep=True)
    normal = _density(x, 1.0)
    for variance in (0.05, 0.3, 0.9, 1.0, 1.7, 2.6, 3.5):
        one = np.array([variance])
        scaled = _density(x, variance)
        for k in range(1, 5):
            if variance > (1.0 if k == 1 else 0.9 * k):
                continue
            log_ratio = (x**2 - x**2 / variance - math.log(variance)) / 2
            if k == 1:
                expected = math.exp(float(log_ratio.max()))
            else:
                q = k / (k - 1)
                log_terms = q * log_ratio - x**2 / 2 - math.log(2 * math.pi) / 2
                expected = float(np.exp(log_terms).sum() * dx) ** (1 / q)
            yield close(f"variance {variance}, k {k}, relative", ratio(one, one, k) / expected, 1.0, 1e-8)
            pair = np.array([min(variance, 0.5), variance])
            product = ratio(pair[:1], pair[:1], k) * ratio(pair[1:], pair[1:], k)
            yield close(f"two latents, k {k}, relative", ratio(pair, pair, k) / product, 1.0, 1e-8)
            for name, values, _ in _errors(x):
                moment = float((values ** (2 * k) * normal).sum() * dx) ** (1 / k)
                change = float((values**2 * scaled).sum() * dx)
                margin = ratio(one, one, k) * moment - change
                yield at_least(f"{name}, variance {variance}, k {k}", margin / moment, 0.0, 1e-9)
        for name, values, lipschitz in _errors(x):
            error, change = (float((values**2 * law).sum() * dx) for law in (normal, scaled))
            limit = encoder_power(error, lipschitz, one, one)[0]
            yield at_least(f"{name}, variance {variance}, best of all", (limit - change) / limit, 0.0, 1e-9)


@check(
    "error-moments",
    theorem="planning",
    step="Addition: the planning bound",
    method="quadrature",
    covers="moments to order 16 of 4 errors of one latent",
)
def error_moments(formula: Callable[[float, float], list[float]] = lipschitz_moments) -> Parts:
    """A Lipschitz constant bounds the higher moments of the encoder's error by the second.

    E |e|^(2k) <= (E |e|^k)^2 + k^2 L^2 E |e|^(2k-2) under N(0, I), by Poincare's inequality
    """
    x, dx = np.linspace(-40, 40, 80_001, retstep=True)
    normal = _density(x, 1.0)
    for name, values, lipschitz in _errors(x):
        moments = [float((values ** (2 * k) * normal).sum() * dx) for k in range(1, 9)]
        limits = np.array(formula(moments[0], lipschitz))
        yield at_least(f"{name}: limit over moment, k 1 to 8", limits / moments, 1.0, 1e-9)


@check(
    "peak-gain",
    theorem="planning",
    step="Addition: the planning bound",
    method="closed form; random systems",
    covers="one state; sizes 2 to 6 at 4,001 frequencies, and driven by noise",
)
def gain_is_reached(gain: Callable[[np.ndarray, np.ndarray], float] = peak_gain) -> Parts:
    """A driven state has at most the power that drives it, times the squared peak gain.

    sum |d_t|^2 <= max_w |(e^iw - M)^-1 B|^2 sum |v_t|^2 for d_(t+1) = M d_t + B v_t, d_0 = 0
    """
    for m in (0.0, 0.6, -0.95, 0.999):
        exact = 1 / (1 - abs(m))
        ratio = gain(np.array([[m]]), np.ones((1, 1))) / exact
        yield at_least(f"one state, M = {m}: over 1/(1 - |M|)", ratio, 1.0, 1e-9)
        yield at_least(f"one state, M = {m}: not much over", 1.03 - ratio, 0.0)
    for size in range(2, 7):
        world = _world(size)
        _, k = riccati(world.a, world.b, world.w, world.r)
        m, b = world.a - world.b @ k, world.b @ k
        places = np.exp(1j * np.linspace(0, np.pi, 4001))
        peak = np.linalg.norm(np.linalg.inv(places[:, None, None] * np.eye(size) - m) @ b, 2, axis=(1, 2))
        yield at_least(f"size {size}: over the peak seen", gain(m, b) / peak.max(), 1.0, 1e-9)
        drive = draw("drive", 300, size)
        state, total = np.zeros(size), 0.0
        for v in drive:
            state = m @ state + b @ v
            total += float(state @ state)
        yield at_least(f"size {size}: power kept", gain(m, b) ** 2 * (drive**2).sum() - total, 0.0)


@check(
    "riccati-shift",
    theorem="planning",
    step="Addition: the planning bound",
    method="random systems",
    covers="sizes 1 to 6, 20 true systems at each of 3 radii",
    note="""Each value is compared with what the other system's gain costs; the actions by G* (K - K*) =
    B^T P M - B*^T P* M*.""",
)
def riccati_moves_little(told: float = 1.0) -> Parts:
    """A system near the estimated one has nearly its value and its actions.

    P / (1 + below) <= P* <= (1 + above) P, |G*^1/2 (K - K*)| <= gain_shift
    """
    counted = 0
    for size in SIZES:
        model = _world(size)
        p, k = riccati(model.a, model.b, model.w, model.r)
        for radius in (1e-3, 5e-3, 2e-2):
            lacks, bound = riccati_shift(model, Radii(told * radius, told * radius, w=told * radius))
            if lacks:
                continue
            for index in range(20):
                true = _near(model, radius, index)
                p_star, k_star = riccati(true.a, true.b, true.w, true.r)
                root = linalg.sqrtm(true.r + true.b.T @ p_star @ true.b).real
                name = f"size {size}, radius {radius:g}, system {index}"
                counted += 1
                above = np.linalg.eigvalsh((1 + bound["value_above"]) * p - p_star)
                yield at_least(f"{name}: value above", above, 0.0, 1e-9)
                below = np.linalg.eigvalsh((1 + bound["value_below"]) * p_star - p)
                yield at_least(f"{name}: value below", below, 0.0, 1e-9)
                shift = np.linalg.norm(root @ (k - k_star), 2)
                yield at_least(f"{name}: actions", bound["gain_shift"] - shift, 0.0, 1e-9)
                yield at_least(f"{name}: weight", bound["action_weight"] - np.linalg.norm(root @ k, 2), -1e-9)
    yield at_least("systems with a bound", counted, 100)


@check(
    "regret-bound",
    theorem="planning",
    step="Addition: the planning bound",
    method="random systems; quadrature",
    covers="linear errors, sizes 1 to 6, 16 worlds each; sines of 4 frequencies in one dimension",
    note="""Tight for small errors where the closed loop has the law N(0, I); the density ratio makes it
    loose where the loop is much narrower.""",
)
def regret_bound(limit: Limit = regret_limit) -> Parts:
    """Controlling by an embedding costs no more than the planning bound.

    J(-K h) - J* <= (c (|y| + |d|) + |G*^1/2 K| (|e(y)| + L |d|))^2
    """
    model, gain = _unit_world()
    p, _ = riccati(model.a, model.b, model.w, model.r)
    towards = -np.sign(float((model.b @ gain)[0, 0] * (model.a - model.b @ gain)[0, 0]))
    for c in (0.1, 1e-3):  # of the sign that widens the loop
        regret = _cost(model, gain * (1 + towards * c)) - float(p[0, 0] * model.noise[0, 0])
        limit_value = limit(model, Radii(), c**2, c)
        yield at_least(f"law N(0, 1), error {c} x", (limit_value.value - regret) / regret, 0.0, 1e-6)
    yield at_least("law N(0, 1), small error: tightness", regret / limit_value.value, 0.95)
    counted = 0
    for size in SIZES:
        for index in range(16):
            model = _world(size, index)
            radius = (0.0, 1e-3)[index % 2]
            true = _near(model, radius, index)
            scale = (0.3, 0.1, 0.01)[index % 3]
            e = scale * draw("error", size, size, index) / size
            radii = Radii(radius, radius, 0.0, radius)
            limit_value = limit(model, radii, float((e**2).sum()), float(np.linalg.norm(e, 2)))
            if limit_value.lacks:
                continue
            counted += 1
            _, k = riccati(model.a, model.b, model.w, model.r)
            p_star, _ = riccati(true.a, true.b, true.w, true.r)
            regret = _cost(true, k @ (np.eye(size) + e)) - float(np.trace(p_star @ true.noise))
            yield at_least(f"size {size}, world {index}", limit_value.value - regret, 0.0, 1e-9)
    yield at_least("worlds with a bound", counted, 60)
    for frequency in (0.5, 1.0, 2.0, 5.0):
        for c in (0.3, 0.05):
            model, gain = _unit_world()
            error = (c / frequency) ** 2 * (1 - math.exp(-2 * frequency**2)) / 2
            limit_value = limit(model, Radii(), error, c)
            regret = _regret_of_sine(model, gain, c, frequency)
            yield at_least(f"sine, frequency {frequency}, size {c}", limit_value.value - regret, 0.0, 1e-9)


def _world(size: int, index: int = 0) -> Model:
    """A random system with two inputs whose closed loop has variances of about a half."""
    a = draw("A", size, size, index)
    a *= 0.9 / max(1.0, spectral_radius(a))
    b = draw("B", size, 2, index)
    w = draw("W", size, size, index)
    w = np.eye(size) / 2 + w @ w.T / size
    _, k = riccati(a, b, w, np.eye(2))
    noise = draw("N", size, size, index)
    noise = np.eye(size) + noise @ noise.T / size
    largest = float(np.linalg.eigvalsh(lyapunov(a - b @ k, noise))[-1])
    return Model(a, b, noise * 0.9 / largest, w, np.eye(2))


def _near(model: Model, radius: float, index: int) -> Model:
    """A system at the radius from the model, in a random direction."""
    size = len(model.a)
    off = [draw(name, size, columns, index) for name, columns in (("dA", size), ("dB", 2), ("dW", size))]
    off[2] = off[2] + off[2].T
    a, b, w = (radius * one / np.linalg.norm(one, 2) for one in off)
    return Model(model.a + a, model.b + b, model.noise, model.w + w, model.r)


def _cost(model: Model, gain: np.ndarray) -> float:
    """Average cost of u = -F x, exactly."""
    s = lyapunov(model.a - model.b @ gain, model.noise)
    return float(np.trace((model.w + gain.T @ model.r @ gain) @ s))


def _unit_world() -> tuple[Model, np.ndarray]:
    """One state whose closed loop has the law N(0, 1)."""
    a, b, w, r = (np.array([[value]]) for value in (1.3, 0.7, 0.4, 1.0))
    _, k = riccati(a, b, w, r)
    return Model(a, b, 1 - (a - b @ k) ** 2, w, r), k


def _regret_of_sine(model: Model, gain: np.ndarray, c: float, frequency: float) -> float:
    """The regret of e(x) = c sin(f x) / f in one dimension, from the stationary law on a grid."""
    x, dx = np.linspace(-7, 7, 701, retstep=True)
    e = c * np.sin(frequency * x) / frequency
    a, b, k, noise = (float(one[0, 0]) for one in (model.a, model.b, gain, model.noise))
    kernel = _density(x[:, None] - ((a - b * k) * x - b * k * e), noise) * dx
    law = _density(x, 1.0) * dx
    for _ in range(200):
        law = kernel @ law
        law /= law.sum()
    p, _ = riccati(model.a, model.b, model.w, model.r)
    g = float((model.r + model.b.T @ p @ model.b)[0, 0])
    return float(g * k**2 * (e**2 * law).sum())


def _errors(x: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
    """Errors of one latent: name, values, Lipschitz constant."""
    yield "linear", 0.3 * x, 0.3
    yield "sine", 0.1 * np.sin(3 * x), 0.3
    yield "tanh", 0.2 * np.tanh(4 * x), 0.8
    yield "tail", 0.5 * np.maximum(np.abs(x) - 1, 0.0), 0.5


def _density(x: np.ndarray, variance: float) -> np.ndarray:
    return np.exp(-(x**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
