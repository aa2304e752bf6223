r"""Transitions under actions: what a rotation of the world leaves of (A, B), and what data can identify of
them.

    z' = A z + B a + w,  w uncorrelated with z and a,  h = Q z,  Q orthogonal

Least squares of h' on (h, a) is (Q A Q^T, Q B), and the only solution if the actions are excited:
Cov(a | z) > 0. Where they are not, a family of (A, B) has one law. What no Q changes is the world's own. With
h = Q z + e the map is off by what e' - A e projects on the inputs. Not in the papers: the ground of
`isojepa.certificates.transition`.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import Plane, draw, random_orthogonal, trajectory_law

SIZES = range(1, 9)
MatrixMaker = Callable[[int], np.ndarray]


@check(
    "transition-identified",
    theorem="dynamics",
    step="Identifiability",
    method="symbolic; random systems",
    covers="the plane with one action and any moments; sizes 1 to 8 with two actions",
    note="""Only second moments enter: noise and states need not be Gaussian, and the policy may be any whose
    actions keep some variance given the state.""",
)
def identified(matrix: MatrixMaker = random_orthogonal) -> Parts:
    """Least squares in a rotated world finds the rotated transition, and no other.

    (Q A Q^T, Q B) M_h = Cov(h', (h, a)), det M = det Cov(z) det Cov(a | z)
    """
    plane = Plane([*(f"{letter}{k}" for letter in "abmn" for k in range(1, 5)), "v"])
    a, b = plane.matrix("a1 a2, a3 a4"), plane.matrix("b1, b2")
    states, cross, spread = plane.matrix("m1 m2, m2 m3"), plane.matrix("n1, n2"), plane.matrix("v")
    moments = np.block([[states, cross], [cross.T, spread]])
    next_with_inputs = np.concatenate((a, b), axis=1) @ moments
    for flip in (1, -1):
        q = plane.turn(flip)
        lift = np.block([[q, plane.matrix("0, 0")], [plane.matrix("0 0"), plane.matrix("1")]])
        turned = np.concatenate((q @ a @ q.T, q @ b), axis=1)
        residual = turned @ lift @ moments @ lift.T - q @ next_with_inputs @ lift.T
        yield vanishes(f"the normal equations, determinant {flip}", *plane.reduced(residual))
    m1, m2, m3, n1, n2, v = sp.symbols("m1 m2 m3 n1 n2 v")
    inner, outer = sp.Matrix([[m1, m2], [m2, m3]]), sp.Matrix([n1, n2])
    joint = sp.Matrix([[m1, m2, n1], [m2, m3, n2], [n1, n2, v]])
    schur = v - (outer.T * inner.adjugate() * outer)[0] / inner.det()
    yield vanishes("one solution: the determinant of M", sp.simplify(joint.det() - inner.det() * schur))
    for size in SIZES:
        a_world, b_world = draw("A", size, size) / np.sqrt(size), draw("B", size, 2)
        root, q = draw("moments", size + 2, size + 2), matrix(size)
        inputs = root @ root.T
        lift = np.block([[q, np.zeros((size, 2))], [np.zeros((2, size)), np.eye(2)]])
        both = q @ np.concatenate((a_world, b_world), axis=1) @ inputs @ lift.T
        fitted = np.linalg.solve(lift @ inputs @ lift.T, both.T).T
        yield close(f"size {size}: A_h = Q A Q^T", fitted[:, :size], q @ a_world @ q.T, 1e-8)
        yield close(f"size {size}: B_h = Q B", fitted[:, size:], q @ b_world, 1e-8)


@check(
    "transition-invariants",
    theorem="dynamics",
    step="Invariants",
    method="symbolic; random systems",
    covers="the plane with one action, 3 lags; sizes 1 to 8 with two actions, horizon {horizon}",
    note="""Eigenvalues of A are invariant under any change of coordinates; the others under rotations alone:
    a stretched embedding has other ones.""",
)
def invariants(matrix: MatrixMaker = random_orthogonal, horizon: int = 12) -> Parts:
    """No rotation changes the spectra of A, B and the Gramian, or the angles of responses.

    det(x - A_h) = det(x - A), B_h^T (A_h^T)^j A_h^k B_h = B^T (A^T)^j A^k B, W_h = Q W Q^T
    """
    plane = Plane([f"{letter}{k}" for letter in "ab" for k in range(1, 5)])
    a, b = plane.matrix("a1 a2, a3 a4"), plane.matrix("b1, b2")
    for flip in (1, -1):
        q = plane.turn(flip)
        turned, moved = q @ a @ q.T, q @ b
        trace = np.array([turned.trace() - a.trace(), _determinant(turned) - _determinant(a)])
        yield vanishes(f"trace and determinant of A, determinant {flip}", *plane.reduced(trace))
        products = _products(turned, moved) - _products(a, b)
        yield vanishes(f"inner products of 3 responses, determinant {flip}", *plane.reduced(products))
    for size in SIZES:
        a_world, b_world = draw("A", size, size) / np.sqrt(size + 1), draw("B", size, 2)
        q = matrix(size)
        turned, moved = q @ a_world @ np.linalg.inv(q), q @ b_world
        spectra = [np.sort_complex(np.linalg.eigvals(one)) for one in (turned, a_world)]
        yield close(f"size {size}: eigenvalues of A", np.abs(spectra[0] - spectra[1]), 0.0, 1e-6)
        values = [np.linalg.svd(one, compute_uv=False) for one in (moved, b_world)]
        yield close(f"size {size}: singular values of B", values[0], values[1], 1e-10)
        grams = [_gramian(one, two, horizon) for one, two in ((turned, moved), (a_world, b_world))]
        scale = max(1.0, float(np.abs(grams[1]).max()))
        yield close(f"size {size}: the Gramian turns", grams[0] / scale, q @ grams[1] @ q.T / scale, 1e-10)


@check(
    "transition-unexcited",
    theorem="dynamics",
    step="What cannot be identified",
    method="symbolic; random systems",
    covers="all systems of the plane with one action; sizes 1 to 8, {steps} steps",
    note="""Under a = K z the data know A + BK and nothing more: not even whether actions do anything. Noise
    on the actions, of any positive variance, ends it: the part of z' that goes along with it is B alone.""",
)
def unexcited(dither: float = 0.0, steps: int = 8) -> Parts:
    """Under actions that the state determines, a family of (A, B) has one and the same law.

    law(A - D K, B + D) = law(A, B) for every D where a = K z, as A - D K + (B + D) K = A + B K
    """
    a, k = sp.Matrix(2, 2, sp.symbols("a0:4")), sp.Matrix([sp.symbols("k0 k1")])
    b, d = sp.Matrix(sp.symbols("b0 b1")), sp.Matrix(sp.symbols("d0 d1"))
    yield vanishes("the closed loop is the same", *sp.expand(a - d * k + (b + d) * k - a - b * k))
    other = sp.Matrix(2, 2, sp.symbols("x0:4"))
    along = sp.Matrix(sp.symbols("y0 y1"))
    same = other + along * k  # what a change (X, Y) of (A, B) does to the closed loop
    solved = sp.solve(list(same), list(other), dict=True)[0]
    yield vanishes("and no others are", *(other.subs(solved) + along * k))
    v = sp.Symbol("v", positive=True)
    excited = sp.Matrix.vstack(same.vec(), v * along)  # with noise of variance v, y is seen by itself
    zero = sp.solve(list(excited), [*other, *along], dict=True)[0]
    yield holds("with noise on the actions only the true one is", all(value == 0 for value in zero.values()))
    for size in SIZES:
        a_world, b_world = draw("A", size, size) / np.sqrt(size + 1), draw("B", size, 2) / 2
        gain, moved, root = draw("K", 2, size) / size, draw("D", size, 2), draw("S", size, size)
        start, still = draw("start", size, 1)[:, 0], np.zeros((steps, 1))
        laws = [
            trajectory_law(
                one + two @ gain,
                np.zeros((size, 1)),
                root @ root.T + dither * two @ two.T,
                start,
                still,
            )
            for one, two in ((a_world, b_world), (a_world - moved @ gain, b_world + moved))
        ]
        scale = max(1.0, float(np.abs(laws[0][1]).max()))
        yield close(f"size {size}: means", laws[1][0], laws[0][0], 1e-9)
        yield close(f"size {size}: covariances of all steps", laws[1][1] / scale, laws[0][1] / scale, 1e-9)


@check(
    "transition-error",
    theorem="dynamics",
    step="Recovery error",
    method="symbolic; random systems",
    covers="one latent and one action exactly; sizes 1 to 8, {cases} laws of the error each",
    note="""eta^2 = E |h - Q z|^2 is what Theorem 3 bounds by epsilon and delta. The error of h may depend on
    z in any way; it must not know the noise of the step that follows. |A| is the spectral norm, the left
    sides Frobenius. The bound of B is attained, without noise, by an error e' = c z' where A = 0.""",
)
def recovery_error(factor: float = 1.0, cases: int = 20) -> Parts:
    """A recovery error moves A and B by no more than its size over the root of the excitation.

    |A_h - Q A Q^T| <= (eta' + |A| eta) / sqrt(min Cov(h | a)), |B_h - Q B| the same over Cov(a | h)
    """
    a, b, zz, za, aa, ze, ae, ee, zf, af, ef = sp.symbols("a b zz za aa ze ae ee zf af ef", real=True)
    # f is the error after the step: h' = a z + b u + w + f; w is uncorrelated with z, u and e
    with_h = a * (zz + ze) + b * (za + ae) + zf + ef
    with_u = a * za + b * aa + af
    moments = sp.Matrix([[zz + 2 * ze + ee, za + ae], [za + ae, aa]])
    residual = sp.Matrix([[with_h, with_u]]) - sp.Matrix([[a, b]]) * moments
    projected = sp.Matrix([[zf + ef - a * (ze + ee), af - a * ae]])
    yield vanishes("off by the covariance of f - a e with the inputs", *sp.expand(residual - projected))
    c = sp.Symbol("c", positive=True)
    attained = (c * b * aa) ** 2 / aa**2 - factor * (c**2 * b**2 * aa) / aa
    yield vanishes("attained: e' = c z', no noise, A = 0", sp.nsimplify(sp.simplify(attained)))
    margins_a, margins_b = [], []
    for size in SIZES:
        for case in range(cases):
            law = _error_law(size, case)
            wrong = law.eta_next + np.linalg.norm(law.a, 2) * law.eta
            off = np.linalg.solve(law.inputs, law.cross.T).T - np.concatenate((law.a, law.b), axis=1)
            left_a, left_b = _conditional(law.inputs, size)
            margins_a.append(factor * wrong / np.sqrt(left_a) - np.linalg.norm(off[:, :size]))
            margins_b.append(factor * wrong / np.sqrt(left_b) - np.linalg.norm(off[:, size:]))
    yield at_least("what is left of the bound of A", margins_a, 0.0, 1e-9)
    yield at_least("what is left of the bound of B", margins_b, 0.0, 1e-9)


@dataclass(frozen=True)
class _ErrorLaw:
    """Exact moments of a world seen with an error: those of the inputs, of h' with them, and its sizes."""

    a: np.ndarray
    b: np.ndarray
    inputs: np.ndarray
    cross: np.ndarray
    eta: float
    eta_next: float


def _error_law(size: int, case: int) -> _ErrorLaw:
    """h = z + e, e = E z + noise and e' = E z' + noise, a = K z + dither, all of random size."""
    strength = 10.0 ** (-(case % 4))
    a, b = draw("A", size, size, case) / np.sqrt(size), draw("B", size, 2, case)
    wrong = strength * draw("E", size, size, case) / np.sqrt(size)
    gain, root = draw("K", 2, size, case), draw("S", size, size, case)
    # all as maps of independent parts: z, dither, w, and the noise of e and e'
    parts = [size, 2, size, size, size]
    spans = np.cumsum([0, *parts])
    unit = [np.eye(spans[-1])[i:j] for i, j in itertools.pairwise(spans)]
    z, w = root @ unit[0], 0.3 * unit[2]
    action = gain @ z + 0.5 * unit[1]
    after = a @ z + b @ action + w
    e, e_next = (wrong @ part + strength * noise for part, noise in ((z, unit[3]), (after, unit[4])))
    inputs = np.concatenate((z + e, action))
    return _ErrorLaw(
        a,
        b,
        inputs @ inputs.T,
        (after + e_next) @ inputs.T,
        float(np.linalg.norm(e)),
        float(np.linalg.norm(e_next)),
    )


def _conditional(moments: np.ndarray, size: int) -> tuple[float, float]:
    """Smallest eigenvalues of Cov(h | a) and Cov(a | h)."""
    inverse = np.linalg.inv(moments)
    blocks = (inverse[:size, :size], inverse[size:, size:])
    first, second = (1 / float(np.linalg.eigvalsh(block)[-1]) for block in blocks)
    return first, second


def _determinant(matrix: np.ndarray) -> Any:
    return matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """B^T (A^T)^j A^k B for three lags."""
    responses = np.concatenate((b, a @ b, a @ a @ b), axis=1)
    return np.asarray(responses.T @ responses)


def _gramian(a: np.ndarray, b: np.ndarray, horizon: int) -> np.ndarray:
    total, power = np.zeros_like(a), b
    for _ in range(horizon):
        total, power = total + power @ power.T, a @ power
    return total
