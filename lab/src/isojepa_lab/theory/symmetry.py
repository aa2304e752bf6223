"""What the loss of joint-embedding prediction leaves open: the symmetry of its zeros, and near them.

For an encoder f and a predictor p let f_A = A f and p_A(z) = A p(A^-1 z), with A invertible. The error of the
new pair is A times that of the old one:

    e = p(f(x_c)) - f(x_t),  p_A(f_A(x_c)) - f_A(x_t) = A e.

Lemma D.4 and Proposition D.5 of Zhang et al. (2026), Social-JEPA.
"""

from collections.abc import Callable

import numpy as np
import sympy as sp

from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import draw, random_orthogonal

SIZES = range(1, 9)


def free_matrix(name: str, rows: int, columns: int) -> sp.Matrix:
    """A matrix of real symbols."""
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}{i}{j}", real=True))


def stretched(size: int) -> np.ndarray:
    """An invertible matrix that is not orthogonal: singular values from 1/2 to 2, random singular vectors."""
    turned = random_orthogonal(size) @ np.diag(np.geomspace(0.5, 2.0, size))
    return np.asarray(turned @ np.linalg.qr(draw("right", size, size))[0])


@check(
    "zero-loss",
    theorem="alignment",
    step="Lemma D.4",
    method="symbolic",
    covers="all A and quadratic predictors of the plane; any map and size by cancellation",
    general=True,
    note="""The proof never uses that A is linear: f -> g(f), p -> g(p(g^-1)) keeps zero loss for every
    bijection g, here a parabolic shear. So the symmetry alone says that coordinates are free, not that two
    optima differ by a linear map; what makes the map linear must come from elsewhere, such as the Gaussian
    law of Theorem 1.""",
)
def zero_loss(inverse: Callable[[sp.Matrix], sp.Matrix] = lambda a: a.inv()) -> Parts:
    """Where an encoder and a predictor have zero loss, all their linear changes have it.

    p_A(f_A(x_c)) = A p(A^-1 A f(x_c)) = A f(x_t) = f_A(x_t), for p_A(z) = A p(A^-1 z)
    """
    z = sp.Matrix(sp.symbols("z0 z1", real=True))
    predict = _predictor()
    a, b = free_matrix("a", 2, 2), free_matrix("b", 2, 2)
    moved = a * predict(sp.simplify(inverse(a) * (a * z)))
    yield vanishes("12 free coefficients and A: the error stays zero", *(moved - a * predict(z)))
    chained = sp.simplify(inverse(a * b) - inverse(b) * inverse(a))
    yield vanishes("changing by B and then by A is changing by AB", chained)
    error = sp.Matrix(sp.symbols("e0 e1", real=True))
    target = predict(z) - error
    yield vanishes("an error e becomes A e", *(moved - a * target - a * error))
    bent = _shear(predict(_shear(_shear(z), -1)))
    yield vanishes("a map that is not linear keeps zero loss too", *(bent - _shear(predict(z))))


@check(
    "near-invariance",
    theorem="alignment",
    step="Proposition D.5",
    method="symbolic; random matrices",
    covers="any number of singular values; errors and matrices of size 1 to 8; both bounds attained",
    general=True,
    note="""The remark after it concludes that the loss is nearly invariant under well-conditioned
    transforms. It is not: A = c I has condition number 1 and multiplies the loss by c^2. Invariant within
    kappa(A)^2 is the loss relative to the variance of the embedding; the loss itself only near
    rotations.""",
)
def near_invariance(power: int = 2) -> Parts:
    """A linear change multiplies the loss by between its extreme squared singular values.

    s_min(A)^2 L <= L_A <= s_max(A)^2 L, attained by errors along a singular vector
    """
    s, gap, along = sp.Symbol("s", positive=True), sp.Symbol("g", nonnegative=True), sp.Symbol("c", real=True)
    term = sp.expand(((s + gap) ** 2 - s**power) * along**2)
    yield holds("each term of |A e|^2 - s_min^2 |e|^2 is c^2 g (2 s + g) >= 0", term.is_nonnegative)
    larger = sp.expand(((s + gap) ** power - s**2) * along**2)
    yield holds("and so is each term of s_max^2 |e|^2 - |A e|^2", larger.is_nonnegative)
    margins, equal, relative = [], [], []
    for size in SIZES:
        for scale in (0.3, 1.0, 4.0):
            a = scale * draw("change", size, size, int(10 * scale))
            root = draw("error", size, size)
            errors = root @ root.T  # E e e^T
            _, values, vt = np.linalg.svd(a)
            loss, changed = np.trace(errors), np.trace(a @ errors @ a.T)
            margins += [(changed - values[-1] ** power * loss) / changed]
            margins += [(values[0] ** power * loss - changed) / changed]
            for index in (0, -1):
                lone = np.outer(vt[index], vt[index])
                equal.append(np.trace(a @ lone @ a.T) / values[index] ** power)
            spread = draw("variance", size, 2 * size)
            variance = spread @ spread.T
            ratio = (changed / np.trace(a @ variance @ a.T)) / (loss / np.trace(variance))
            relative.append(1 - abs(np.log(ratio)) / (2 * np.log(values[0] / values[-1]) + 1e-12))
    yield at_least("random errors: margins, relative", margins, 0.0, 1e-12)
    yield close("errors along a singular vector attain them: ratio", equal, 1.0, 1e-9)
    yield at_least("relative to the variance it changes within kappa^2: margin", relative, 0.0, 1e-3)
    c = sp.Symbol("c", positive=True)
    e = sp.Matrix(sp.symbols("e0:3", real=True))
    yield vanishes(
        "A = c I has kappa = 1 and multiplies the loss by c^2", (c * e).dot(c * e) - c**2 * e.dot(e)
    )


def _predictor() -> Callable[[sp.Matrix], sp.Matrix]:
    """A map of the plane whose components are quadratics of free coefficients."""
    coefficients = free_matrix("p", 2, 6)

    def predict(z: sp.Matrix) -> sp.Matrix:
        monomials = sp.Matrix([1, z[0], z[1], z[0] ** 2, z[0] * z[1], z[1] ** 2])
        return coefficients * monomials

    return predict


def _shear(z: sp.Matrix, sign: int = 1) -> sp.Matrix:
    """(u, v) -> (u, v + u^2), and its inverse."""
    return sp.Matrix([z[0], sp.expand(z[1] + sign * z[0] ** 2)])
