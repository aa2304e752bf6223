"""Theorem 4 for linear-quadratic control: Riccati equations turn with the embedding.

    z' = A z + B a + noise, cost z^T W z + a^T R a, terminal cost z^T W_T z
    P = A^T P A - A^T P B (R + B^T P B)^-1 B^T P A + W,  K = (R + B^T P B)^-1 B^T P A,  a = -K z

Under y = Q z: (A, B, W, P, K) become (Q A Q^T, Q B, Q W Q^T, Q P Q^T, K Q^T), so the action -K^ y is -K z.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isojepa.certificates.closed_loop import riccati as riccati_solution
from isojepa_lab.theory.check import Parts, at_least, check, close, vanishes
from isojepa_lab.theory.planning import Plane, draw, random_orthogonal

SIZES = range(1, 9)
MatrixMaker = Callable[[int], np.ndarray]


@dataclass(frozen=True)
class System:
    """A linear system with quadratic costs: `noise` a covariance, `last` the terminal weight."""

    a: np.ndarray
    b: np.ndarray
    w: np.ndarray
    r: np.ndarray
    last: np.ndarray
    noise: np.ndarray

    def embedded(self, q: np.ndarray) -> "System":
        """The system of y = Q z, with costs carried along."""
        return System(
            q @ self.a @ q.T, q @ self.b, q @ self.w @ q.T, self.r, q @ self.last @ q.T, q @ self.noise @ q.T
        )


def random_system(size: int, inputs: int = 2) -> System:
    """A random system that may be unstable."""
    w, last, noise = (draw(name, size, size) for name in ("W", "WT", "N"))
    return System(
        draw("A", size, size) / np.sqrt(size),
        draw("B", size, inputs),
        w @ w.T / size,
        np.eye(inputs) + 0.5,
        last @ last.T / size,
        noise @ noise.T / size,
    )


def recursion(system: System, horizon: int) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Cost-to-go matrices P_0 .. P_T, gains K_0 .. K_(T-1), and the cost of the noise."""
    a, b = system.a, system.b
    costs: list[np.ndarray] = [system.last]
    gains: list[np.ndarray] = []
    constant = 0.0
    for _ in range(horizon):
        p = costs[0]
        constant += float(np.trace(p @ system.noise))
        gain = np.linalg.solve(system.r + b.T @ p @ b, b.T @ p @ a)
        costs.insert(0, a.T @ p @ (a - b @ gain) + system.w)
        gains.insert(0, gain)
    return costs, gains, constant


@check(
    "riccati",
    theorem="planning",
    step="Linear-quadratic regulation",
    method="symbolic; random systems",
    covers="all systems of the plane with one input; sizes 1 to 8",
    note="""The Riccati equation is that of an infinite horizon, the theorem that of a finite one: see
    finite-horizon.""",
)
def riccati(matrix: MatrixMaker = random_orthogonal) -> Parts:
    """The Riccati equation and the gain turn with the embedding.

    F(Q A Q^T, Q B, Q W Q^T, Q P Q^T) = Q F(A, B, W, P) Q^T and K^ = K Q^T
    """
    plane = Plane([*(f"{letter}{k}" for letter in "abpw" for k in range(1, 5)), "r"])
    a, b, r = plane.matrix("a1 a2, a3 a4"), plane.matrix("b1, b2"), plane.matrix("r")
    p, w = plane.matrix("p1 p2, p2 p3"), plane.matrix("w1 w2, w2 w3")
    for flip in (1, -1):
        q = plane.turn(flip)
        plain = _parts(a, b, w, p, r)
        turned = _parts(q @ a @ q.T, q @ b, q @ w @ q.T, q @ p @ q.T, r)
        yield vanishes(f"R + B^T P B, determinant {flip}", *plane.reduced(turned[0] - plain[0]))
        yield vanishes(f"B^T P A, determinant {flip}", *plane.reduced(turned[1] - plain[1] @ q.T))
        # the equation times its denominator: a polynomial
        residual = turned[2] - q @ plain[2] @ q.T
        yield vanishes(f"the equation, determinant {flip}", *plane.reduced(residual))
    for size in SIZES:
        system, q = random_system(size), matrix(size)
        p_world, k_world = _solve(system)
        p_latent, k_latent = _solve(system.embedded(q))
        scale = max(1.0, float(np.abs(p_world).max()))
        yield close(f"size {size}: P^ = Q P Q^T", p_latent / scale, q @ p_world @ q.T / scale, 1e-9)
        yield close(f"size {size}: K^ = K Q^T", k_latent, k_world @ q.T, 1e-8)


@check(
    "finite-horizon",
    theorem="planning",
    step="Linear-quadratic regulation",
    method="random systems",
    covers="sizes 1 to 8, horizon {horizon}",
    note="""The paper's value z^T P z leaves out the cost of the noise, sum_t tr(P_(t+1) S). It is the
    same in both coordinates.""",
)
def finite_horizon(matrix: MatrixMaker = random_orthogonal, horizon: int = 12) -> Parts:
    """Gains, actions and values of finite horizons agree.

    K^_t = K_t Q^T, -K^_t Q z = -K_t z, V^_t(Q z) = V_t(z) with the cost of the noise
    """
    for size in SIZES:
        system, q = random_system(size), matrix(size)
        costs, gains, constant = recursion(system, horizon)
        turned_costs, turned_gains, turned_constant = recursion(system.embedded(q), horizon)
        z = draw("state", size, 5)
        actions = [k @ z for k in gains]
        yield close(f"size {size}: gains", turned_gains, [k @ q.T for k in gains], 1e-9)
        yield close(f"size {size}: actions", [k @ q @ z for k in turned_gains], actions, 1e-9)
        value = np.einsum("is,ij,js->s", z, costs[0], z) + constant
        turned = np.einsum("is,ij,js->s", q @ z, turned_costs[0], q @ z) + turned_constant
        yield close(f"size {size}: values, relative", turned / value, np.ones_like(value), 1e-9)


@check(
    "same-actions",
    theorem="planning",
    step="Theorem",
    method="random systems",
    covers="sizes 2 to 8, horizon {horizon}, costs |z|^2 and |a|^2 left unchanged",
    note="""The theorem as stated, with costs unchanged. For embeddings that are linear but not
    orthogonal it fails.""",
)
def same_actions(matrix: MatrixMaker = random_orthogonal, horizon: int = 8) -> Parts:
    """With invariant costs the best plan in the embedding is that of the world.

    argmin over a of E [sum |y_t|^2 + |a_t|^2] is the same for y = Q z and for z, not for stretched y
    """
    stretched = []
    for size in range(2, 9):
        a, b = draw("A", size, size) / np.sqrt(size), draw("B", size, 2)
        z0, q = draw("state", size, 1)[:, 0], matrix(size)
        zero = np.zeros(size)
        world, cost = open_loop(a, b, z0, zero, horizon, 1.0)
        latent, latent_cost = open_loop(q @ a @ np.linalg.inv(q), q @ b, q @ z0, zero, horizon, 1.0)
        yield close(f"size {size}: plans", latent, world, 1e-10)
        yield close(f"size {size}: costs, relative", latent_cost / cost, 1.0, 1e-10)
        stretch = np.diag(np.linspace(0.5, 2.0, size)) @ random_orthogonal(size)
        other, _ = open_loop(
            stretch @ a @ np.linalg.inv(stretch), stretch @ b, stretch @ z0, zero, horizon, 1.0
        )
        stretched.append(np.linalg.norm(other - world) / np.linalg.norm(world))
    yield at_least("stretched embeddings plan otherwise: relative difference", stretched, 1e-2)


@check(
    "goal-reaching",
    theorem="planning",
    step="Goal-reaching",
    method="random systems",
    covers="sizes 1 to 8, horizon {horizon}",
)
def goal_reaching(matrix: MatrixMaker = random_orthogonal, horizon: int = 6) -> Parts:
    """A goal named in the embedding gets the plan of the goal it stands for.

    argmin over a of |y_T - y*|^2 + c |a|^2 with y* = Q z* = argmin of |z_T - z*|^2 + c |a|^2
    """
    for size in SIZES:
        a, b = draw("A", size, size) / np.sqrt(size), draw("B", size, 2)
        z0, named = draw("state", size, 1)[:, 0], draw("goal", size, 1)[:, 0]
        q = matrix(size)
        latent, _ = open_loop(q @ a @ np.linalg.inv(q), q @ b, q @ z0, named, horizon, 0.0)
        world, _ = open_loop(a, b, z0, np.linalg.solve(q, named), horizon, 0.0)
        yield close(f"size {size}: plans", latent, world, 1e-9)


def open_loop(
    a: np.ndarray, b: np.ndarray, start: np.ndarray, goal: np.ndarray, horizon: int, along: float
) -> tuple[np.ndarray, float]:
    """The plan that minimises |z_T - g|^2 + along sum_t |z_t - g|^2 + sum_t |a_t|^2 / 10, by least squares.

    Noise adds a constant to the expected cost and does not move the plan.

    Returns:
        The plan (horizon, inputs) and its cost.
    """
    size, inputs = b.shape
    free, response = start, np.zeros((size, horizon * inputs))
    rows, targets = [], []
    for t in range(horizon):
        free, response = a @ free, a @ response
        response[:, t * inputs : (t + 1) * inputs] += b
        weight = 1.0 if t == horizon - 1 else np.sqrt(along)
        rows.append(weight * response)
        targets.append(weight * (goal - free))
    matrix = np.concatenate([*rows, np.sqrt(0.1) * np.eye(horizon * inputs)])
    target = np.concatenate([*targets, np.zeros(horizon * inputs)])
    plan = np.linalg.lstsq(matrix, target, rcond=None)[0]
    return plan.reshape(horizon, inputs), float(np.sum((matrix @ plan - target) ** 2))


def _parts(a: np.ndarray, b: np.ndarray, w: np.ndarray, p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """R + B^T P B, B^T P A, and the residual of the equation times its scalar denominator."""
    denominator = r + b.T @ p @ b
    cross = b.T @ p @ a
    return [denominator, cross, (a.T @ p @ a + w - p) * denominator[0, 0] - cross.T @ cross]


def _solve(system: System) -> tuple[np.ndarray, np.ndarray]:
    return riccati_solution(system.a, system.b, system.w, system.r)
