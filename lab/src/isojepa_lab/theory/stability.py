"""Theorem 3: a map that is nearly aligned and nearly white is nearly a rotation.

Split h into its linear part M z and the rest, of variance W and Gram matrix N at degrees two and above:

    Cov(h) = M M^T + N,  tr N = W <= D = delta / (2 rho (1 - rho)),
    E |h - Q z|^2 = |M - Q|_F^2 + W <= (epsilon + W)^2 + W.

Appendix C of Klindt, LeCun & Balestriero (2026), lemma by lemma; the whole is in `isojepa_lab.theory.bound`.
"""

from collections.abc import Callable

import numpy as np
import sympy as sp
import torch
from scipy import linalg
from sympy.polys.rings import PolyElement

from isojepa.seeds import generator
from isojepa_lab.theory.algebra import MultiIndex, Pair, factorial, multi_indices, pair
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes

rho = sp.Symbol("rho", positive=True)


def free_map(dim: int, degree: int, extra: int = 0) -> tuple[Pair, list[MultiIndex], list[list[PolyElement]]]:
    """A ring and the free coefficients of a centered polynomial map: one row per component."""
    indices = multi_indices(dim, degree, lowest=1)
    count = len(indices)
    ring = pair(dim, [f"c{k}" for k in range(dim * count + extra)])
    return ring, indices, [ring.extra[i * count : (i + 1) * count] for i in range(dim)]


@check(
    "loss-by-degree",
    theorem="stability",
    step="Step 1",
    method="symbolic",
    covers="every centered polynomial map of degree {degree} in {dim} latents",
    note="""The paper starts from L = 2n - 2 sum E h_i(z') h_i(z), which holds for exactly white maps
    only; it should read 2 tr Cov(h) in place of 2n. The next formula, by degrees, is right, and the
    proof uses that one.""",
)
def loss_by_degree(degree: int = 3, dim: int = 2, white: bool = False) -> Parts:
    """The loss is a sum over Hermite degrees.

    L(h) = 2 sum_i sum_a (1 - rho^|a|) (c_a^i)^2, and L(h) = 2 tr Cov(h) - 2 sum_i E h_i(z') h_i(z)
    """
    ring, indices, rows = free_map(dim, degree)
    loss, spectral, trace, shared = (ring.ring.zero for _ in range(4))
    for row in rows:
        here, there = ring.combine(indices, row, ring.z), ring.combine(indices, row, ring.z_next)
        loss += ring.mean((there - here) ** 2)
        trace += ring.mean(here**2)
        shared += ring.mean(there * here)
        spectral += sum(
            (2 * (1 - ring.rho ** sum(a)) * factorial(a) * c**2 for a, c in zip(indices, row, strict=True)),
            ring.ring.zero,
        )
    yield vanishes(f"{dim * len(indices)} free coefficients", loss - spectral)
    yield vanishes("with the trace", loss - (2 * (ring.ring(dim) if white else trace) - 2 * shared))
    yield holds("with 2n it is false for maps that are not white", bool(loss - (2 * dim - 2 * shared)))


@check(
    "gap",
    theorem="stability",
    step="Step 1",
    method="symbolic",
    covers="all degrees and rho in (0, 1)",
    general=True,
)
def gap(second: int = 2) -> Parts:
    """Degrees above one cost at least 2 rho (1-rho) more per unit of variance.

    2 (1-rho) (T - W) + 2 (1-rho^2) W = 2 (1-rho) T + 2 rho (1-rho) W, rho^d <= rho^2 for d >= 2
    """
    total, rest, delta = sp.symbols("T W delta", real=True)
    lower = 2 * (1 - rho) * (total - rest) + 2 * (1 - rho**second) * rest
    yield vanishes("collected", sp.expand(lower - 2 * (1 - rho) * total - 2 * rho * (1 - rho) * rest))
    bound = sp.solve(sp.Eq(lower, 2 * (1 - rho) * total + delta), rest)[0]
    yield vanishes("solved for W it is D", sp.simplify(bound - delta / (2 * rho * (1 - rho))))
    d = sp.Symbol("d", integer=True, positive=True)
    induction = sp.expand(rho**2 - rho ** (d + 3) - ((rho**2 - rho ** (d + 2)) + rho ** (d + 2) * (1 - rho)))
    yield vanishes("rho^2 - rho^(d+3) = (rho^2 - rho^(d+2)) + rho^(d+2) (1-rho)", sp.powsimp(induction))


@check(
    "trace-norm",
    theorem="stability",
    step="Step 2",
    method="symbolic; random matrices",
    covers="any number of eigenvalues; positive semidefinite matrices of size 1 to 8",
    general=True,
)
def trace_norm(dim: int = 8, semidefinite: bool = True) -> Parts:
    """The Frobenius norm of a positive semidefinite matrix is at most its trace.

    (sum l_i)^2 - sum l_i^2 = 2 sum over i < j of l_i l_j >= 0
    """
    values = sp.symbols(f"l1:{dim + 1}", nonnegative=True)
    pairs = sum(a * b for i, a in enumerate(values) for b in values[i + 1 :])
    yield vanishes("identity", sp.expand(sum(values) ** 2 - sum(v**2 for v in values) - 2 * pairs))
    yield holds("its terms are not negative", pairs.is_nonnegative)
    total, squares, more = sp.symbols("S Q l", nonnegative=True)
    grown = (total + more) ** 2 - (squares + more**2) - (total**2 - squares)
    yield vanishes("one more eigenvalue adds 2 S l: any number", sp.expand(grown - 2 * total * more))
    margins = []
    for size in range(1, 9):
        root = _draw("trace-norm", size, size)
        matrix = root @ root.T if semidefinite else root + root.T
        margins.append((np.trace(matrix) - np.linalg.norm(matrix)) / np.linalg.norm(matrix))
    yield at_least("random matrices: trace minus norm, relative", margins, 0.0, 1e-13)


@check(
    "polar",
    theorem="stability",
    step="Step 2",
    method="symbolic; random matrices",
    covers="every singular value; matrices of size 1 to 8, singular ones among them",
    general=True,
    lean=("polar_bound_axiom",),
    note="""The axiom assumes |M - Q|_F <= epsilon + W whole; here are its three parts.""",
)
def polar(power: int = 2) -> Parts:
    """The rotation nearest to M is as near as M M^T is to I.

    |M - Q|_F = |P - I|_F <= |P^2 - I|_F = |M M^T - I|_F <= epsilon + W for M = Q P
    """
    s = sp.Symbol("s", nonnegative=True)
    difference = sp.factor((s**power - 1) ** 2 - (s - 1) ** 2)
    yield vanishes(
        "(s^2-1)^2 - (s-1)^2 = s (s-1)^2 (s+2)", sp.expand(difference - s * (s - 1) ** 2 * (s + 2))
    )
    yield holds("and no factor is negative for s >= 0", difference.is_nonnegative)
    gaps, slack, identities = [], [], []
    for size in range(1, 9):
        for scale in (0.2, 1.0, 3.0):
            m = scale * _draw("polar", size, size, int(10 * scale))
            if size > 2:
                m[-1] = m[0]  # singular
            q, p = linalg.polar(m)
            distance, white = np.linalg.norm(m - q), np.linalg.norm(m @ m.T - np.eye(size))
            identities.append(abs(distance - np.linalg.norm(p - np.eye(size))))
            identities.append(abs(white - np.linalg.norm(p @ p - np.eye(size))))
            gaps.append((white - distance) / max(float(white), 1.0))
            root = 0.5 * _draw("polar-rest", size, size, int(10 * scale))
            rest = root @ root.T
            epsilon = np.linalg.norm(m @ m.T + rest - np.eye(size))
            slack.append(epsilon + np.trace(rest) - white)
    yield close("|M - Q| = |P - I| and |M M^T - I| = |P^2 - I|", identities, 0.0, 1e-11)
    yield at_least("random matrices: |M M^T - I| - |M - Q|, relative", gaps, 0.0, 1e-13)
    yield at_least("random matrices: epsilon + W - |M M^T - I|", slack, 0.0, 1e-12)


@check(
    "pythagoras",
    theorem="stability",
    step="Step 3",
    method="symbolic",
    covers="every centered polynomial map of degree {degree} in {dim} latents and every matrix Q",
    lean=("pythagorean_axiom",),
)
def pythagoras(degree: int = 3, dim: int = 2, lowest: int = 1) -> Parts:
    """Linear and nonlinear errors add up.

    E |h - Q z|^2 = |M - Q|_F^2 + W, tr Cov(h) = |M|_F^2 + W, E (h - M z) z^T = 0
    """
    ring, indices, rows = free_map(dim, degree, extra=dim * dim)
    q = [ring.extra[-dim * dim :][i * dim : (i + 1) * dim] for i in range(dim)]
    error, split, trace, cross = ring.ring.zero, ring.ring.zero, ring.ring.zero, []
    for row, target in zip(rows, q, strict=True):
        h = ring.combine(indices, row, ring.z)
        m = [ring.mean(h * coordinate) for coordinate in ring.z]
        linear = sum((a * b for a, b in zip(m, ring.z, strict=True)), ring.ring.zero)
        aimed = sum((a * b for a, b in zip(target, ring.z, strict=True)), ring.ring.zero)
        higher = zip(indices, row, strict=True)
        rest = sum((factorial(a) * c**2 for a, c in higher if sum(a) > lowest), ring.ring.zero)
        error += ring.mean((h - aimed) ** 2)
        split += sum(((a - b) ** 2 for a, b in zip(m, target, strict=True)), rest)
        trace += ring.mean(h**2) - sum((a**2 for a in m), rest)
        cross += [ring.mean((h - linear) * coordinate) for coordinate in ring.z]
    yield vanishes("error = linear + nonlinear", error - split)
    yield vanishes("variance = linear + nonlinear", trace)
    yield vanishes("the rest is uncorrelated with the latents", *cross)


@check(
    "monotone",
    theorem="stability",
    step="Step 3",
    method="symbolic",
    covers="all epsilon, W >= 0",
    general=True,
)
def monotone(square: Callable[[sp.Expr], sp.Expr] = lambda u: u**2) -> Parts:
    """The bound grows with W, so D may stand for it; exact optima give zero.

    d/dW (W + (epsilon + W)^2) = 1 + 2 (epsilon + W) > 0; epsilon = delta = 0 gives E |h - Q z|^2 = 0
    """
    epsilon, rest, delta = sp.symbols("epsilon W delta", nonnegative=True)
    bound = rest + square(epsilon + rest)
    yield vanishes("derivative", sp.diff(bound, rest) - (1 + 2 * (epsilon + rest)))
    yield holds("it is positive", sp.diff(bound, rest).is_positive)
    exact = bound.subs(rest, delta / (2 * rho * (1 - rho))).subs({delta: 0, epsilon: 0})
    yield vanishes("exact optima: Theorem 1 is the special case", exact)


def _draw(name: str, rows: int, columns: int, index: int = 0) -> np.ndarray:
    """A Gaussian matrix of a named stream."""
    source = generator(0, "theory", name, rows, index)
    return torch.randn(rows, columns, generator=source, dtype=torch.float64).numpy()
