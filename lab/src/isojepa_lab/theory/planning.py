"""Theorem 4: with h(z) = Q z, planning in the embedding is planning in the world.

The embedding of a trajectory is a trajectory of the pushed-forward dynamics. Costs that Q does not change
give the same value to every plan; so the best plans and values agree. Appendix D of Klindt, LeCun &
Balestriero (2026). Linear-quadratic control is in `isojepa_lab.theory.control`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import sympy as sp
import torch
from scipy import linalg
from sympy.polys.rings import PolyElement, ring

from isojepa.seeds import generator
from isojepa_lab.theory.check import Parts, check, close, holds, vanishes


@dataclass(frozen=True)
class Plane:
    """Matrices with polynomial entries in cos, sin and named symbols, modulo cos^2 + sin^2 = 1.

    Args:
        names: of the symbols.
    """

    names: Sequence[str]
    symbols: dict[str, PolyElement] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = ring(["cos", "sin", *self.names], sp.QQ)
        object.__setattr__(self, "symbols", dict(zip(["cos", "sin", *self.names], made[1:], strict=True)))

    def matrix(self, rows: str) -> np.ndarray:
        """A matrix of symbols, e.g. "a b, b c"; numbers are allowed."""
        first = next(iter(self.symbols.values()))
        entries = [
            [self.symbols[e] if e in self.symbols else first.ring(int(e)) for e in row.split()]
            for row in rows.split(",")
        ]
        return np.array(entries, dtype=object)

    def turn(self, flip: int = 1) -> np.ndarray:
        """All of O(2): rotations, and reflections with flip = -1."""
        c, s = self.symbols["cos"], self.symbols["sin"]
        return np.array([[c, -flip * s], [s, flip * c]], dtype=object)

    def reduced(self, matrix: np.ndarray) -> list[PolyElement]:
        """The entries, in a form that is zero only if they are."""
        relation = self.symbols["cos"] ** 2 + self.symbols["sin"] ** 2 - 1
        return [entry.rem([relation]) for entry in matrix.ravel()]


def draw(name: str, rows: int, columns: int, index: int = 0) -> np.ndarray:
    """A Gaussian matrix of a named stream."""
    source = generator(0, "theory", name, rows, columns, index)
    return torch.randn(rows, columns, generator=source, dtype=torch.float64).numpy()


def random_orthogonal(size: int) -> np.ndarray:
    """An orthogonal matrix."""
    return np.asarray(linalg.qr(draw("orthogonal", size, size))[0])


@check(
    "pushforward",
    theorem="planning",
    step="Proof",
    method="symbolic; random systems",
    covers="linear Gaussian dynamics: the plane for 3 steps; sizes 1 to 6 for 10 steps",
    lean=("stage_pushforward", "terminal_pushforward"),
    note="""Means and covariances of all times fix the joint law of a Gaussian trajectory. Other
    dynamics: see dynamic-programming, with exact probabilities.""",
)
def pushforward(matrix: Callable[[int], np.ndarray] = random_orthogonal, steps: int = 10) -> Parts:
    """Embedded trajectories have the law of trajectories of the embedded dynamics.

    law of (Q z_0, ..., Q z_T) under (A, B, S) = law of (y_0, ..., y_T) under (Q A Q^T, Q B, Q S Q^T)
    """
    plane = Plane([f"{letter}{k}" for letter in "abmsu" for k in range(1, 5)])
    a, s = plane.matrix("a1 a2, a3 a4"), plane.matrix("s1 s2, s2 s3")
    b, mean, none = plane.matrix("b1, b2"), plane.matrix("m1, m2"), plane.matrix("0 0, 0 0")
    actions = [plane.symbols[f"u{k}"] for k in (1, 2, 3)]
    for flip in (1, -1):
        q = plane.turn(flip)
        world = _propagate(a, b, s, mean, none, actions)
        latent = _propagate(q @ a @ q.T, q @ b, q @ s @ q.T, q @ mean, none, actions)
        means = [e for (y, _), (x, _) in zip(latent, world, strict=True) for e in plane.reduced(y - q @ x)]
        spreads = [
            e for (_, y), (_, x) in zip(latent, world, strict=True) for e in plane.reduced(y - q @ x @ q.T)
        ]
        yield vanishes(f"means of 3 steps, determinant {flip}", *means)
        yield vanishes(f"covariances of 3 steps, determinant {flip}", *spreads)
    for size in range(1, 7):
        q = matrix(size)
        a, b = draw("A", size, size) / np.sqrt(size + 1), draw("B", size, 2)
        root = draw("S", size, size)
        plan = draw("plan", steps, 2)
        start = draw("start", size, 1)[:, 0]
        world_mean, world_joint = trajectory_law(a, b, root @ root.T, start, plan)
        latent_mean, latent_joint = trajectory_law(
            q @ a @ q.T, q @ b, q @ root @ root.T @ q.T, q @ start, plan
        )
        lift = np.kron(np.eye(steps + 1), q)
        scale = max(1.0, np.abs(world_joint).max(), np.abs(world_mean).max())
        yield close(f"size {size}: means", latent_mean / scale, lift @ world_mean / scale, 1e-12)
        yield close(
            f"size {size}: joint law", latent_joint / scale, lift @ world_joint @ lift.T / scale, 1e-12
        )


@check(
    "cost-invariance",
    theorem="planning",
    step="Proof",
    method="symbolic",
    covers="rotations and reflections of the plane",
    note="""The theorem asks that costs do not change under any rotation and leaves them unchanged in
    the embedding. Distance to a fixed goal and z^T W z with W not a multiple of I are not of that kind:
    for them the cost must be carried along, goal Q z* and weight Q W Q^T. The proof needs only l^(Q z,
    a) = l(z, a), which covers both cases; the paper's applications use it in this wider form.""",
)
def cost_invariance(stretch: int = 1) -> Parts:
    """Norms and inner products do not change, nor goals and weights that turn too.

    |Q z| = |z|, <Q x, Q y> = <x, y>, |Q z - Q g| = |z - g|, (Q z)^T (Q W Q^T) (Q z) = z^T W z
    """
    plane = Plane(["x1", "x2", "y1", "y2", "w1", "w2", "w3"])
    x, y, w = plane.matrix("x1, x2"), plane.matrix("y1, y2"), plane.matrix("w1 w2, w2 w3")
    for flip in (1, -1):
        q = np.diag([stretch, 1]) @ plane.turn(flip)
        inner = (q @ x).T @ (q @ y) - x.T @ y
        yield vanishes(f"inner products and norms, determinant {flip}", *plane.reduced(inner))
        goal = (q @ x - q @ y).T @ (q @ x - q @ y) - (x - y).T @ (x - y)
        yield vanishes(f"goals that turn too, determinant {flip}", *plane.reduced(goal))
        carried = (q @ x).T @ (q @ w @ q.T) @ (q @ x) - x.T @ w @ x
        yield vanishes(f"weights that turn too, determinant {flip}", *plane.reduced(carried))
    q = plane.turn()
    fixed = plane.reduced((q @ x - y).T @ (q @ x - y) - (x - y).T @ (x - y))
    yield holds("a fixed goal is not invariant", any(map(bool, fixed)))
    fixed = plane.reduced((q @ x).T @ w @ (q @ x) - x.T @ w @ x)
    yield holds("a fixed weight is not invariant", any(map(bool, fixed)))
    scalar = plane.matrix("w1 0, 0 w1")
    yield vanishes("a multiple of I is", *plane.reduced((q @ x).T @ scalar @ (q @ x) - x.T @ scalar @ x))


@check(
    "dynamic-programming",
    theorem="planning",
    step="Proof",
    method="exact rational",
    covers="a random walk on 24 lattice points, 3 actions, horizon {horizon}, all 8 symmetries",
    note="""The proof fixes an action sequence, that is a plan without feedback, and gives equality of
    the sets of best plans, so that the best plan agrees where it is unique. Feedback policies are
    covered here as well.""",
)
def dynamic_programming(horizon: int = 4, shear: int = 0) -> Parts:
    """Values and best actions agree for dynamics neither linear nor Gaussian.

    V^(Q z) = V(z) and argmin^(Q z) = argmin(z) under p^(Q z' | Q z, a) = p(z' | z, a)
    """
    states = [(u, v) for u in range(-2, 3) for v in range(-2, 3) if (u, v) != (0, 0)]
    kernel = {(s, a): _random_row(i, a, states) for i, s in enumerate(states) for a in range(3)}
    values, choices = _plan(kernel, states, horizon)
    for signs in itertools.product((1, -1), repeat=2):
        for swap in (False, True):

            def embed(
                s: tuple[int, int], signs: tuple[int, ...] = signs, swap: bool = swap
            ) -> tuple[int, int]:
                u, v = s[::-1] if swap else s
                return signs[0] * u + shear * v, signs[1] * v

            there = [embed(s) for s in states]
            pushed = {
                (embed(s), a): {embed(end): weight for end, weight in row.items()}
                for (s, a), row in kernel.items()
            }
            other_values, other_choices = _plan(pushed, there, horizon)
            word = f"signs {signs}, swap {swap}"
            yield holds(f"values, {word}", all(other_values[embed(s)] == values[s] for s in states))
            yield holds(f"best actions, {word}", all(other_choices[embed(s)] == choices[s] for s in states))


def trajectory_law(
    a: np.ndarray, b: np.ndarray, noise: np.ndarray, start: np.ndarray, plan: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (z_0, ..., z_T) stacked, for z' = A z + B u + N(0, noise)."""
    size, steps = len(a), len(plan)
    means, joint = [start], np.zeros((size * (steps + 1),) * 2)
    for t in range(steps):
        means.append(a @ means[-1] + b @ plan[t])
        here, there = slice(size * t, size * (t + 1)), slice(size * (t + 1), size * (t + 2))
        before = slice(0, size * (t + 1))
        joint[there, before] = a @ joint[here, before]
        joint[before, there] = joint[there, before].T
        joint[there, there] = a @ joint[here, here] @ a.T + noise
    return np.concatenate(means), joint


def _propagate(
    a: np.ndarray,
    b: np.ndarray,
    s: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    actions: Sequence[PolyElement],
) -> list[tuple[np.ndarray, np.ndarray]]:
    law = [(mean, spread)]
    for action in actions:
        mean, spread = a @ mean + b * action, a @ spread @ a.T + s
        law.append((mean, spread))
    return law


def _random_row(index: int, action: int, states: list[tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
    """Exact probabilities of the next state."""
    source = generator(0, "theory", "kernel", index, action)
    weights = torch.randint(0, 5, (len(states),), generator=source).tolist()
    weights[0] += 1  # never all zero
    return {s: Fraction(w, sum(weights)) for s, w in zip(states, weights, strict=True)}


def _plan(
    kernel: dict[tuple[tuple[int, int], int], dict[tuple[int, int], Fraction]],
    states: list[tuple[int, int]],
    horizon: int,
) -> tuple[dict[tuple[int, int], Fraction], dict[tuple[int, int], list[set[int]]]]:
    """Backward induction with cost |z|^2 + a per step and |z|^4 at the end; all best actions are kept."""

    def radius(s: tuple[int, int]) -> int:
        return s[0] ** 2 + s[1] ** 2

    values = {s: Fraction(radius(s) ** 2) for s in states}
    choices: dict[tuple[int, int], list[set[int]]] = {s: [] for s in states}
    for _ in range(horizon):
        costs = {
            s: [
                radius(s) + a + sum((p * values[end] for end, p in kernel[s, a].items()), Fraction(0))
                for a in range(3)
            ]
            for s in states
        }
        values = {s: min(row) for s, row in costs.items()}
        for s, row in costs.items():
            choices[s].append({a for a, cost in enumerate(row) if cost == values[s]})
    return values, choices
