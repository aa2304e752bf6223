"""The second proof of Theorem 1, second half: equal energy makes the map a rotation.

Equality in AM-GM and Jensen makes J(z) orthogonal for all z. Then h keeps distances, and a map of Euclidean
space that keeps distances and the origin keeps inner products, since

    2 <h(x), h(y)> = |h(x)|^2 + |h(y)|^2 - |h(x) - h(y)|^2,

so it is linear: |h(a x + b y) - a h(x) - b h(y)|^2 is a combination of inner products that vanishes. This is
the Mazur-Ulam theorem where it is elementary; h need not be onto. Appendix E of Klindt, LeCun & Balestriero
(2026), Steps 4 and 5.
"""

import itertools
import math

import numpy as np
import sympy as sp

from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.maps import grid
from isojepa_lab.theory.planning import draw

t = sp.Symbol("t", real=True)
QUARTER = sp.Rational(1, 4)


@check(
    "equality",
    theorem="dirichlet",
    step="Step 4",
    method="symbolic; random matrices",
    covers="any n; sizes 1 to 8",
    general=True,
)
def equality(determinant: int = 1) -> Parts:
    """Equal singular values with product one make the Jacobian orthogonal.

    s_1 = ... = s_n = s, s^n = 1, s > 0 gives s = 1 and J^T J = I
    """
    s = sp.Symbol("s", positive=True)
    n = sp.Symbol("n", integer=True, positive=True)
    # log of s^n = det
    solution = sp.solve(sp.Eq(n * sp.log(s), sp.log(determinant)), s)
    yield vanishes("s = 1 for every n", *[value - 1 for value in solution])
    for size in range(1, 9):
        u, _, v = np.linalg.svd(draw("equality", size, size))
        j = u @ v
        yield close(f"size {size}: J with singular values 1", j.T @ j, np.eye(size), 1e-13)


@check(
    "isometry",
    theorem="dirichlet",
    step="Step 5",
    method="symbolic; exact rational",
    covers="paths in the plane; second derivatives in dimensions 2 to {dim}",
    note="""Two arguments: the paper's, for C^1 maps, integrates along segments; for C^2 maps the
    derivative of J^T J = I alone leaves no second derivatives, which shows how rigid the condition is.""",
)
def isometry(dim: int = 5, orthogonal: bool = True) -> Parts:
    """An orthogonal Jacobian does not stretch paths, and leaves no room for curvature.

    |h(y) - h(x)| <= int |J (y - x)| dt = |y - x|; d_k (J^T J) = 0 gives d_k d_i h = 0
    """
    v = sp.Matrix(sp.symbols("v1 v2", real=True))
    turn = sp.Matrix([[sp.cos(t), -sp.sin(t)], [sp.sin(t), sp.cos(t)]])
    if not orthogonal:
        turn = sp.diag(2, 1) * turn
    yield vanishes("|J v| = |v|", sp.trigsimp(sp.expand((turn * v).dot(turn * v))) - v.dot(v))
    yield vanishes("the inverse's Jacobian J^T is orthogonal too", sp.simplify(turn * turn.T - sp.eye(2)))
    for n in range(2, dim + 1):
        # b[k, i, j] = <d_k d_i h, d_j h> is symmetric in k, i and, from d_k (J^T J) = 0, odd in i, j
        index = {triple: m for m, triple in enumerate(itertools.product(range(n), repeat=3))}
        rows = []
        for k, i, j in index:
            symmetric, odd = [0] * len(index), [0] * len(index)
            symmetric[index[k, i, j]] += 1
            symmetric[index[i, k, j]] -= 1
            odd[index[k, i, j]] += 1
            odd[index[k, j, i]] += 1 if orthogonal else 0
            rows += [symmetric, odd if orthogonal else symmetric]
        system = sp.polys.matrices.DomainMatrix(rows, (len(rows), len(index)), sp.ZZ).convert_to(sp.QQ)
        yield holds(f"dimension {n}: only zero second derivatives", system.rank() == len(index))


@check(
    "mazur-ulam",
    theorem="dirichlet",
    step="Step 5",
    method="symbolic",
    covers="every Euclidean space",
    general=True,
    lean=("mazur_ulam",),
    note="""For Euclidean norms. The general theorem, for any normed space and maps onto it, is not
    needed.""",
)
def mazur_ulam(share: sp.Rational = QUARTER) -> Parts:
    """A map of Euclidean space that keeps distances is affine.

    |h(x) - h(y)| = |x - y|, h(0) = 0 gives <h(x), h(y)> = <x, y> and |h(a x + b y) - a h(x) - b h(y)| = 0
    """
    a, b = sp.symbols("a b", real=True)
    xx, xy, yy = sp.symbols("xx xy yy", real=True)  # <x, x>, <x, y>, <y, y>

    def inner(first: tuple[sp.Expr, sp.Expr], second: tuple[sp.Expr, sp.Expr]) -> sp.Expr:
        """<p x + q y, r x + s y>."""
        return (
            first[0] * second[0] * xx
            + (first[0] * second[1] + first[1] * second[0]) * xy
            + first[1] * second[1] * yy
        )

    def kept(first: tuple[sp.Expr, sp.Expr], second: tuple[sp.Expr, sp.Expr]) -> sp.Expr:
        """<h(p), h(q)> from distances alone, by polarisation: |h(p)| = |p| since h(0) = 0."""
        gap = (first[0] - second[0], first[1] - second[1])
        return (inner(first, first) + inner(second, second) - inner(gap, gap)) / 2

    one, two, both = (sp.S.One, sp.S.Zero), (sp.S.Zero, sp.S.One), (a, b)
    yield vanishes(
        "inner products are kept",
        sp.expand(kept(one, two) - xy),
        sp.expand(kept(both, one) - inner(both, one)),
    )
    defect = (
        kept(both, both)
        + a**2 * kept(one, one)
        + b**2 * kept(two, two)
        - 2 * a * kept(both, one)
        - 2 * b * kept(both, two)
        + 2 * a * b * kept(one, two)
    )
    yield vanishes("|h(a x + b y) - a h(x) - b h(y)|^2 = 0", sp.expand(defect))
    # m at distance |p - q|/2 from p and q: u = m - p, v = m - q; only the midpoint has u + v = 0
    uu, uv, vv, pq = sp.symbols("uu uv vv pq", real=True)
    substitution = {uu: share * pq, vv: share * pq}
    mixed = sp.solve(sp.Eq(uu - 2 * uv + vv, pq), uv)[0]
    yield vanishes("midpoints go to midpoints", sp.expand((uu + 2 * mixed + vv).subs(substitution)))
    n = 3
    q = sp.Matrix(n, n, sp.symbols("q1:10", real=True))
    shift = sp.Matrix(sp.symbols("b1:4", real=True))
    mean = q * sp.zeros(n, 1) + shift  # E (Q z + b)
    solved = sp.solve(list(mean), list(shift), dict=True)
    yield holds("mean zero leaves no shift", solved == [dict.fromkeys(shift, sp.S.Zero)])


@check(
    "spiral",
    theorem="dirichlet",
    step="Example",
    method="symbolic; quadrature",
    covers="every rate",
    general=True,
    note="""The paper explains |det J| = 1 by saying that the spiral acts as an orthogonal rotation at
    each point. Its Jacobian is a rotation times a shear: of determinant 1 and not orthogonal. That is
    why it is not optimal.""",
)
def spiral(energy: int = 2) -> Parts:
    """The spiral keeps N(0, I), but shears, and so has more energy than a rotation.

    J = R (I + rate S z z^T / |z|), det J = 1, |J|_F^2 = 2 + rate^2 |z|^2, E |J|_F^2 = 2 + 2 rate^2
    """
    x, y, rate = sp.symbols("x y k", positive=True)
    r, c, s = sp.symbols("r c s", positive=True)
    angle = rate * sp.sqrt(x**2 + y**2)
    image = sp.Matrix([x * sp.cos(angle) - y * sp.sin(angle), x * sp.sin(angle) + y * sp.cos(angle)])
    short = {sp.cos(angle): c, sp.sin(angle): s, sp.sqrt(x**2 + y**2): r}
    jacobian, image = image.jacobian([x, y]).subs(short), image.subs(short)

    def remainder(expression: sp.Expr) -> sp.Expr:
        """Modulo c^2 + s^2 = 1 and r^2 = x^2 + y^2."""
        numerator = sp.fraction(sp.together(expression))[0]
        relations = [c**2 + s**2 - 1, x**2 + y**2 - r**2]
        return sp.reduced(sp.expand(numerator), relations, c, x, s, y, r, rate)[1]

    yield vanishes("determinant 1", remainder(jacobian.det() - 1))
    yield vanishes("norms are kept", remainder(image.dot(image) - r**2))
    norm = sum(entry**2 for entry in jacobian)
    yield vanishes("|J|_F^2 = 2 + rate^2 |z|^2", remainder(norm - (2 + rate**2 * r**2)))
    gram = jacobian.T * jacobian - sp.eye(2)
    yield holds("J is not orthogonal", any(remainder(entry) != 0 for entry in gram))
    radius = sp.Symbol("r", positive=True)
    mean = sp.integrate((2 + rate**2 * radius**2) * radius * sp.exp(-(radius**2) / 2), (radius, 0, sp.oo))
    yield vanishes("E |J|_F^2 = 2 + 2 rate^2", sp.expand(mean - (2 + energy * rate**2)))
    z, weights = grid(2, 20)
    full = norm.subs({c: sp.cos(rate * r), s: sp.sin(rate * r)}).subs(r, sp.sqrt(x**2 + y**2))
    embedding = weights @ sp.lambdify((x, y, rate), full, "numpy")(z[:, 0], z[:, 1], math.pi)
    yield close("at rate pi, by quadrature", embedding, 2 + energy * math.pi**2, 1e-9)
    yield at_least("more than the rotation's", embedding - 2, 1.0)
