"""The map between two linear images of one state: what it is, how it is conditioned, what it carries over.

    z1 = A1 u + e1,  z2 = A2 u + e2,  W = Cov(z2, z1) Cov(z1)^-1

W minimises E |z2 - W z1|^2. Zhang et al. (2026), Social-JEPA, have e1 = 0 (Equation 12); the rest is added.
"""

from collections.abc import Callable

import numpy as np
import sympy as sp

from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import draw, random_orthogonal
from isojepa_lab.theory.symmetry import SIZES, free_matrix, stretched

_N = sp.Symbol("n", integer=True, positive=True)


@check(
    "latent-state",
    theorem="alignment",
    step="Equation 12",
    method="symbolic; random matrices",
    covers="all sizes; every direction of change in the plane; sizes 1 to 8",
    general=True,
    note="""E[e | u] = 0 is more than is needed: noise that is uncorrelated with the state does.""",
)
def latent_state(correlated: int = 0) -> Parts:
    """With noise in the second view alone, least squares finds A2 A1^-1, whatever the state.

    W Cov(z1) = A2 A1^-1 A1 S A1^T = A2 S A1^T = Cov(z2, z1), and L(W + H) = L(W) + tr H Cov(z1) H^T
    """
    a1, a2, s = (sp.MatrixSymbol(name, _N, _N) for name in ("A1", "A2", "S"))
    solved = (a2 * a1.I * a1 * s * a1.T - a2 * s * a1.T).doit()
    yield vanishes("normal equations, all sizes", 0 if solved == sp.ZeroMatrix(_N, _N) else 1)
    first, change, root, noise, w = (free_matrix(name, 2, 2) for name in "ahrew")  # A2 = W A1
    inner = first * root * root.T * first.T
    cross = w * inner + correlated * noise * root.T * first.T

    def loss(matrix: sp.Matrix) -> sp.Expr:  # less the variance of z2, which no map changes
        return (matrix * inner * matrix.T).trace() - 2 * (matrix * cross.T).trace()

    more = (change * inner * change.T).trace()
    yield vanishes("any other map loses tr H Cov(z1) H^T more", sp.expand(loss(w + change) - loss(w) - more))
    lengths = change * first * root
    yield vanishes("a sum of squares", sp.expand(more - sum(entry**2 for entry in lengths)))
    errors = []
    for size in SIZES:
        a, b, state = stretched(size), draw("second", size, size), draw("state-root", size, size + 2)
        covariance = state @ state.T
        cross = (b + correlated * draw("leak", size, size)) @ covariance @ a.T
        gain = cross @ np.linalg.inv(a @ covariance @ a.T)
        errors.append(np.abs(gain - b @ np.linalg.inv(a)).max())
    yield close("random states", errors, 0.0, 1e-8)


@check(
    "condition-product",
    theorem="alignment",
    step="Equation 12",
    method="exact rational; random matrices",
    covers="sizes 2 to 8; attained by diagonal matrices",
    note="""The bound is one-sided: two coordinate systems may both be as badly conditioned as one likes and
    be a rotation of each other.""",
)
def condition_product(bound: Callable[[float, float], float] = lambda first, second: first * second) -> Parts:
    """The condition number of the map is at most the product of those of both views.

    kappa(A2 A1^-1) <= kappa(A2) kappa(A1)
    """
    s, t = sp.Rational(3), sp.Rational(5)
    first, second = sp.diag(1, s), sp.diag(t, 1)
    exact = sp.diag(*(second * first.inv())[::3])
    yield vanishes("attained by diagonal matrices", exact[0, 0] / exact[1, 1] - bound(s, t))
    margins, rotated = [], []
    for size in SIZES[1:]:
        for index in range(4):
            a, b = draw("first", size, size, index), draw("second", size, size, index)
            limit = bound(np.linalg.cond(a), np.linalg.cond(b))
            margins.append(1 - np.linalg.cond(b @ np.linalg.inv(a)) / limit)
            rotated.append(np.linalg.cond(random_orthogonal(size) @ a @ np.linalg.inv(a)))
    yield at_least("random matrices: 1 - kappa(W) / bound", margins, 0.0, 1e-9)
    yield close("A2 = Q A1 gives kappa(W) = 1 however A1 is conditioned", rotated, 1.0, 1e-8)


@check(
    "attenuation",
    theorem="alignment",
    step="Not in the paper",
    method="symbolic; random matrices",
    covers="all sizes; one direction in closed form; sizes 1 to 8",
    general=True,
    note="""Equation 12 has noise in the second view alone. With noise e1 in the first, W shrinks along the
    directions where e1 is large against the signal, so kappa(W) can grow with no pair mismatched; and W_12
    W_21 has the squared correlations as eigenvalues, so the inverse of a map is not the best map back.""",
)
def attenuation(power: int = 1) -> Parts:
    """Noise in the first view shrinks the map, direction by direction.

    W = A2 A1^-1 (I + N1 S1^-1)^-1; along one direction s / (s + n1); W_12 W_21 = s^2 / ((s + n1) (s + n2))
    """
    w, s, n = (sp.MatrixSymbol(name, _N, _N) for name in ("W", "S", "N"))
    lhs = sp.expand((sp.Identity(_N) + n * s.I) * s).doit()
    yield vanishes("(I + N S^-1) S = S + N", 0 if lhs == s + n else 1)
    shrink = (sp.Identity(_N) + n * s.I).I
    same = (w * shrink * (sp.Identity(_N) + n * s.I) * s).doit() == w * s
    yield vanishes("so W (I + N S^-1)^-1 solves W' (S + N) = W S", 0 if same else 1)
    signal, first, second, slope = sp.symbols("s n1 n2 w", positive=True)
    forth = slope * signal / (signal + first)
    back = slope * signal / (slope**2 * signal + second)
    squared = (slope * signal) ** 2 / ((signal + first) * (slope**2 * signal + second))
    yield vanishes("one direction", sp.simplify(forth - slope / (1 + first / signal) ** power))
    yield vanishes("there and back is the squared correlation", sp.simplify(forth * back - squared))
    errors, kappas = [], []
    for size in SIZES:
        a, b, root = stretched(size), draw("second", size, size), draw("noise", size, size)
        covariance, noise = a @ a.T, 0.3 * root @ root.T
        shrinkage = b @ a.T @ np.linalg.inv(covariance + noise)
        shrunk = np.linalg.inv(np.eye(size) + noise @ np.linalg.inv(covariance))
        direct = b @ np.linalg.inv(a) @ np.linalg.matrix_power(shrunk, power)
        errors.append(np.abs(shrinkage - direct).max())
        uneven = np.diag(1 / (1 + np.linspace(0.1, 1.0, size)))
        kappas.append(np.linalg.cond(random_orthogonal(size) @ uneven) - (2.0 / 1.1 if size > 1 else 1.0))
    yield close("random matrices", errors, 0.0, 1e-9)
    yield close("white signal: kappa(W) = (1 + n_max) / (1 + n_min)", kappas, 0.0, 1e-9)


@check(
    "white-map",
    theorem="alignment",
    step="Not in the paper",
    method="symbolic; random matrices",
    covers="all rotations and reflections of the plane; sizes 1 to 8",
    note="""Theorem 1 makes a LeJEPA embedding of a Gaussian world a rotation of it, so the map between two of
    them is a rotation, with condition number 1, and its inverse is its transpose. Between white embeddings
    the singular values of W are the canonical correlations, residual or not.""",
)
def white_map(matrix: Callable[[int], np.ndarray] = random_orthogonal) -> Parts:
    """Two rotations of one world are mapped by a rotation; white ones by W W^T = I - N.

    W = Q2 Q1^T, kappa(W) = 1; with residual covariance N: kappa(W)^2 = (1 - n_min) / (1 - n_max)
    """
    alpha, beta = sp.symbols("alpha beta", real=True)
    for flip in (1, -1):
        w = _turn(alpha, 1) * _turn(beta, flip).T
        yield vanishes(f"the plane, determinant {flip}", *(sp.simplify(w * w.T - sp.eye(2))))
        carried = sp.simplify(w * _turn(beta, flip) - _turn(alpha, 1))
        yield vanishes("it carries one embedding to the other", *carried)
    errors, kappas = [], []
    for size in SIZES:
        q1, q2 = random_orthogonal(size), matrix(size) @ np.linalg.qr(draw("other", size, size))[0]
        w = q2 @ q1.T @ np.linalg.inv(q1 @ q1.T)
        errors += [np.abs(w @ w.T - np.eye(size)).max(), abs(np.linalg.cond(w) - 1)]
        share = np.linspace(0.05, 0.6, size)  # the residual along each direction
        u = np.linalg.qr(draw("residual", size, size))[0]
        cross = u @ np.diag(np.sqrt(1 - share)) @ q1.T  # Cov(z2, z1) = W, as Cov(z1) = I
        residual = np.eye(size) - cross @ cross.T
        ends = np.linalg.eigvalsh(residual)
        kappas += [np.linalg.cond(cross) ** 2 - (1 - ends[0]) / (1 - ends[-1])]
        errors += [np.abs(residual - u @ np.diag(share) @ u.T).max()]
    yield close("random rotations: W W^T = I and kappa = 1", errors, 0.0, 1e-10)
    yield close("kappa(W)^2 = (1 - n_min) / (1 - n_max)", kappas, 0.0, 1e-9)


@check(
    "probe-transfer",
    theorem="alignment",
    step="Section 3.7",
    method="symbolic",
    covers="all probes and invertible W of the plane, raw coordinates and bias included; one white direction",
    note="""Exact when z2 = W z1. Otherwise the transferred probe adds a^T W^-1 e, of variance at most |a|^2
    |Cov(e)| / s_min(W)^2: what counts is the smallest singular value against the residual, not the condition
    number. Between white embeddings of correlation c the inverse errs by (1 - c^2) / c^2 per unit, the
    regression of z1 on z2 by 1 - c^2.""",
)
def probe_transfer(carry: Callable[[sp.Matrix], sp.Matrix] = lambda w: w.inv().T) -> Parts:
    """A probe carried over by the inverse answers as before where the map is exact.

    (W^-T a)^T W z = a^T z; residuals add a^T W^-1 Cov(e) W^-T a
    """
    w, a, z = free_matrix("w", 2, 2), sp.Matrix(sp.symbols("a0:2")), sp.Matrix(sp.symbols("z0:2"))
    carried = carry(w) * a
    yield vanishes("all probes", sp.simplify((carried.T * w * z)[0] - a.dot(z)))
    means, scales = sp.Matrix(sp.symbols("m0:4")), sp.symbols("d0:4", positive=True)
    bias = sp.Symbol("b")
    raw1 = sp.diag(*scales[:2]) * z + means[:2, :]
    raw2 = sp.diag(*scales[2:]) * (w * z) + means[2:, :]
    weights1 = sp.Matrix(sp.symbols("q0:2"))  # a probe of raw embeddings of the first view
    inside = sp.diag(*scales[:2]) * weights1
    weights2 = sp.diag(*(1 / d for d in scales[2:])) * carry(w) * inside
    bias2 = bias + weights1.dot(means[:2, :]) - weights2.dot(means[2:, :])
    residual = (weights2.T * raw2)[0] + bias2 - (weights1.T * raw1)[0] - bias
    yield vanishes("raw coordinates: scales, means and bias", sp.simplify(residual))
    root = free_matrix("n", 2, 2)
    variance = (carried.T * root * root.T * carried)[0]
    expected = (a.T * w.inv() * root * root.T * w.inv().T * a)[0]
    yield vanishes("residuals add a^T W^-1 N W^-T a", sp.simplify(variance - expected))
    c = sp.Symbol("c", positive=True)
    inverse_error = sp.expand(1 - 2 * c / c + 1 / c**2)  # E (z1 - z2 / c)^2, both white with correlation c
    best = 1 - c**2
    yield vanishes("white: the inverse errs by (1 - c^2) / c^2", sp.simplify(inverse_error - best / c**2))
    excess = sp.factor(sp.simplify(inverse_error - best))
    yield holds("never less than the regression back", sp.simplify(excess - (1 - c**2) ** 2 / c**2) == 0)


def _turn(angle: sp.Symbol, flip: int) -> sp.Matrix:
    return sp.Matrix([[sp.cos(angle), -flip * sp.sin(angle)], [sp.sin(angle), flip * sp.cos(angle)]])
