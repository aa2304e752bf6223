"""Theorem 1, second half: nonlinearity costs correlation, so the optimum is a rotation.

With w_d the share of variance at Hermite degree d,

    E h_i(z') h_i(z) = sum_d w_d rho^d <= rho,

with equality only for w_1 = 1. Appendix A of Klindt, LeCun & Balestriero (2026), Steps 3 to 5.
"""

import math
from collections.abc import Sequence

import sympy as sp
from sympy.polys.rings import PolyElement

from isojepa_lab.theory.algebra import Pair, factorial, multi_indices, pair
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.maps import grid, measure, measure_spiral, stream

rho = sp.Symbol("rho", positive=True)
theta = sp.Symbol("theta", real=True)
SLOW, FAST = sp.Rational(19, 20), sp.Rational(4, 5)


@check(
    "correlation",
    theorem="forward",
    step="Step 3",
    method="symbolic",
    covers="every polynomial of degree {degree} in {dim} latents",
    lean=("correlation_eq_spectral_sum",),
    note="""For square-integrable maps this extends by completeness, since the transition is a
    contraction.""",
)
def correlation(degree: int = 4, dim: int = 2, power: int = 1) -> Parts:
    """The correlation of a component across views is a sum over degrees.

    E h(z') h(z) = sum_d w_d rho^d, w_d = sum over |a| = d of c_a^2
    """
    indices = multi_indices(dim, degree, lowest=1)
    ring = pair(dim, [f"c{k}" for k in range(len(indices))])
    product = ring.combine(indices, ring.extra, ring.z_next) * ring.combine(indices, ring.extra, ring.z)
    terms = zip(indices, ring.extra, strict=True)
    spectral = sum((ring.rho ** (power * sum(a)) * factorial(a) * c**2 for a, c in terms), ring.ring.zero)
    yield vanishes(f"{len(indices)} free coefficients", ring.mean(product) - spectral)


@check(
    "weighted-average",
    theorem="forward",
    step="Step 3",
    method="symbolic",
    covers="all degrees and rho in (0, 1)",
    general=True,
)
def weighted_average(degree: int = 40, lowest: int = 1) -> Parts:
    """A weighted average of rho, rho^2, ... is at most rho, equal only for degree one.

    rho - sum_d w_d rho^d = sum_d w_d (rho - rho^d), rho - rho^d = rho (1-rho) (1 + rho + ... + rho^(d-2))
    """
    d = sp.Symbol("d", integer=True, positive=True)
    step = rho * (1 - rho) * ((1 - rho**d) / (1 - rho))  # the sum of d terms, d -> d + 1
    yield vanishes(
        "rho - rho^(d+1) for a symbol d", sp.powsimp(sp.expand(sp.cancel(step))) - (rho - rho ** (d + 1))
    )
    telescoped = sp.expand((1 - rho) * rho**d + (1 - rho**d)) - (1 - rho ** (d + 1))
    yield vanishes("geometric sum, by induction in d", sp.powsimp(sp.expand(telescoped)))
    for k in range(lowest, degree + 1):
        if k == 1:
            continue
        quotient, rest = sp.div(sp.Poly(rho - rho**k, rho), sp.Poly(rho * (1 - rho), rho))
        positive = rest.is_zero and all(c > 0 for c in quotient.coeffs())
        yield holds(f"degree {k}: the other factor has positive coefficients", positive)
    count = 6
    weights = sp.symbols(f"w1:{count + 1}", nonnegative=True)
    excess = rho * sum(weights) - sum(w * rho ** (k + 1) for k, w in enumerate(weights))
    split = sum(w * (rho - rho ** (k + 1)) for k, w in enumerate(weights))
    yield vanishes("the excess is a sum of terms that are not negative", excess - split)


@check(
    "linearity",
    theorem="forward",
    step="Step 3",
    method="symbolic",
    covers="every polynomial of degree {degree} in {dim} latents",
    lean=("linear_of_degree_one",),
)
def linearity(degree: int = 4, dim: int = 3, kept: int = 1) -> Parts:
    """A function with all of its variance at degree one is linear.

    E (h - sum_j E[h z_j] z_j)^2 = sum over |a| != 1 of c_a^2
    """
    indices = multi_indices(dim, degree)
    ring = pair(dim, [f"c{k}" for k in range(len(indices))])
    h = ring.combine(indices, ring.extra, ring.z)
    projection = sum((ring.mean(h * coordinate) * coordinate for coordinate in ring.z), ring.ring.zero)
    residual = ring.mean((h - projection) ** 2)
    terms = zip(indices, ring.extra, strict=True)
    outside = sum((factorial(a) * c**2 for a, c in terms if sum(a) != kept), ring.ring.zero)
    yield vanishes(f"{len(indices)} free coefficients in {dim} dimensions", residual - outside)


@check(
    "orthogonal",
    theorem="forward",
    step="Step 4",
    method="symbolic; Groebner basis",
    covers="all matrices in dimension 2; all n by inverses",
    general=True,
    lean=("orthogonal_of_gaussian_linear",),
    note="""Only the covariance is used: white embeddings suffice, as the paper remarks.""",
)
def orthogonal(target: Sequence[Sequence[int]] = ((1, 0), (0, 1))) -> Parts:
    """A linear map that keeps N(0, I) is orthogonal, and an orthogonal one keeps it.

    Cov(Q z) = Q Q^T = I gives Q^T Q = I; |Q^T t| = |t| gives the characteristic function of N(0, I)
    """
    names = ["a", "b", "c", "d"]
    ring = pair(2, names)
    rows = [ring.extra[:2], ring.extra[2:]]
    image = [_dot(row, ring) for row in rows]
    for i, j in ((0, 0), (0, 1), (1, 1)):
        gram = sum((p * q for p, q in zip(rows[i], rows[j], strict=True)), ring.ring.zero)
        yield vanishes(f"Cov(Q z) = Q Q^T, entry {i}{j}", ring.mean(image[i] * image[j]) - gram)
    a, b, c, d = sp.symbols(names)
    q = sp.Matrix([[a, b], [c, d]])
    basis = sp.groebner(list(q * q.T - sp.Matrix(target)), a, b, c, d, order="grevlex")
    yield vanishes("Q Q^T = I implies Q^T Q = I", *[basis.reduce(e)[1] for e in q.T * q - sp.eye(2)])
    rank_one = sp.Matrix([[1, 0], [1, 0]])
    units = all(rank_one.row(i).norm() == 1 for i in range(2))
    yield holds("unit rows alone do not suffice", units and rank_one * rank_one.T != sp.eye(2))
    t = sp.Matrix(sp.symbols("t1 t2", real=True))
    for flip in (1, -1):
        turn = sp.Matrix([[sp.cos(theta), -flip * sp.sin(theta)], [sp.sin(theta), flip * sp.cos(theta)]])
        length = ((turn.T * t).T * (turn.T * t))[0] - t.dot(t)
        yield vanishes(f"|Q^T t| = |t| for all of O(2), determinant {flip}", sp.trigsimp(sp.expand(length)))
    n = sp.Symbol("n", integer=True, positive=True)
    general = sp.MatrixSymbol("Q", n, n)
    # Q Q^T = I makes Q invertible (det^2 = 1), and the inverse is unique: multiply by Q^-1 on the left
    remainder = sp.simplify(general.I * (general * general.T) * general)
    yield holds("all n: Q^-1 (Q Q^T) Q = Q^T Q, so it is I when Q Q^T is", remainder == general.T * general)


@check(
    "loss-bound",
    theorem="forward",
    step="Step 4",
    method="symbolic; quadrature",
    covers="identity of the loss; spirals of 4 rates and a flow that keep N(0, I_2), rho 0.5 to 0.99",
    note="""The excess over 2 (1-rho) n is at least 2 rho (1-rho) times the nonlinear variance.""",
)
def loss_bound(factor: float = 1.0, least: float = 1e-3) -> Parts:
    """Of maps that keep N(0, I), rotations have the smallest loss.

    L(h) = 2 n - 2 sum_i E h_i(z') h_i(z) >= 2 (1 - rho) n
    """
    n, total = sp.symbols("n C")
    yield vanishes(
        "at correlation rho per component", (2 * n - 2 * total).subs(total, rho * n) - 2 * (1 - rho) * n
    )
    for number in (0.5, 0.9, 0.99):
        floor = 4 * (1 - number) * factor
        yield close(f"a rotation has it, rho = {number}", measure_spiral(0.0, number).loss, floor, 1e-11)
        for rate in (0.1, 1.0, math.pi, 10.0):
            excess = measure_spiral(rate, number).loss / floor - 1
            yield at_least(f"spiral of rate {rate:.3g}, rho = {number}: relative excess", excess, least)
        excess = measure(lambda z: stream(z, 0.25, 10)[0], 2, number, 10).loss / floor - 1
        yield at_least(f"flow, rho = {number}: relative excess", excess, least)


@check(
    "gaussian-maps",
    theorem="forward",
    step="Step 4",
    method="quadrature",
    covers="moments of order up to 8",
)
def gaussian_maps(scale: float = 1.0) -> Parts:
    """The nonlinear maps that are compared with rotations do keep N(0, I).

    E f(h(z)) = E f(z) for f of order 1 to 8
    """
    z, weights = grid(2, 48)
    moved = scale * stream(z, 0.25, 200)[0]
    for power in range(1, 9):
        after, before = (
            [weights @ (points[:, 0] ** a * points[:, 1] ** (power - a)) for a in range(power + 1)]
            for points in (moved, z)
        )
        yield close(f"flow: moments of order {power}", after, before, 1e-8)
    r = sp.Symbol("r", positive=True)
    rate = sp.Symbol("rate", real=True)
    jacobian = sp.Matrix([[1, 0], [rate, 1]])  # of (r, angle) -> (r, angle + rate r)
    yield vanishes("spiral: r is kept and the angle is sheared, determinant 1", jacobian.det() - 1)
    density = r * sp.exp(-(r**2) / 2)
    yield vanishes("spiral: the density depends on r alone", density.diff(theta))


@check(
    "transition",
    theorem="forward",
    step="Step 5",
    method="symbolic",
    covers="all rotations and reflections of the plane, all rho",
)
def transition(stretch: sp.Expr = sp.S.One) -> Parts:
    """At the optimum the embedding moves as the latents do.

    h(z') | h(z) ~ N(rho h(z), (1 - rho^2) I)
    """
    for flip in (1, -1):
        q = sp.Matrix([[sp.cos(theta), -flip * sp.sin(theta)], [sp.sin(theta), flip * sp.cos(theta)]])
        q = sp.diag(stretch, 1) * q
        here = there = sp.simplify(q * q.T)
        cross = sp.simplify(q * (rho * sp.eye(2)) * q.T)
        gain = sp.simplify(cross * here.inv())
        spread = sp.simplify(there - gain * cross.T)
        yield vanishes(f"conditional mean is rho h(z), determinant {flip}", gain - rho * sp.eye(2))
        yield vanishes(f"conditional covariance, determinant {flip}", spread - (1 - rho**2) * sp.eye(2))


@check(
    "isotropy",
    theorem="forward",
    step="Scope (Appendix on slow features)",
    method="symbolic; exact rational",
    covers="two latents of different rate",
    general=True,
    note="""The comparison is among white maps. That h be exactly N(0, I) excludes (z1, He_2(z1)), so
    the window is shown to be needed for whitening, and not for exact Gaussianity.""",
)
def isotropy(slow: sp.Rational = SLOW, fast: sp.Rational = FAST) -> Parts:
    """White maps prefer the square of a slow latent to one more than twice as fast.

    rho_slow^2 > rho_fast if and only if K_fast > 2 K_slow, rho = exp(-K)
    """
    k_slow, excess = sp.symbols("K e", positive=True)
    gap = sp.log(sp.exp(-k_slow) ** 2) - sp.log(sp.exp(-(2 * k_slow + excess)))
    yield vanishes(
        "log rho_slow^2 - log rho_fast = K_fast - 2 K_slow", sp.expand_log(gap, force=True) - excess
    )
    linear = 2 * (1 - slow) + 2 * (1 - fast)
    curved = 2 * (1 - slow) + 2 * (1 - slow**2)
    yield holds(f"(z1, He_2(z1)/sqrt 2) has the smaller loss at rho = {slow}, {fast}", curved < linear)


def _dot(row: Sequence[PolyElement], ring: Pair) -> PolyElement:
    return sum((a * b for a, b in zip(row, ring.z, strict=True)), ring.ring.zero)
