"""Theorem 1, first half: the transition acts on Hermite polynomials by rho^k.

    G_t(x) = exp(t x - t^2/2) = sum_k He_k(x) t^k / k!

The generating function G carries all degrees at once: an identity of G in t is an identity of every He_k. So
the checks integrate G symbolically, which covers all degrees, and then confirm low degrees with polynomials
whose moments are exact integers. Appendix A of Klindt, LeCun & Balestriero (2026).
"""

import math
from collections.abc import Callable

import numpy as np
import sympy as sp

from isojepa_lab.theory.algebra import factorial, hermite, multi_indices, pair, rodrigues
from isojepa_lab.theory.check import Parts, check, close, holds, vanishes
from isojepa_lab.theory.maps import normalized_hermite, standard_nodes

x, y, z, s, t = sp.symbols("x y z s t", real=True)
eta = sp.Symbol("eta", real=True)
rho = sp.Symbol("rho", positive=True)


def density(variable: sp.Symbol) -> sp.Expr:
    """The standard normal density."""
    return sp.exp(-(variable**2) / 2) / sp.sqrt(2 * sp.pi)


def same(degree: int) -> int:
    """The exponent of the published contraction: degree k shrinks by rho^k."""
    return degree


@check(
    "world",
    theorem="forward",
    step="Assumptions",
    method="symbolic",
    covers="all rho; one counterexample",
    general=True,
    note="""The paper says that Gaussian latents with stationary additive noise entail this transition.
    They do not: z' = rho z s(|z|) + sqrt(1-rho^2) eta with s = +1 or -1 as |z| is above 1 or below has
    the same marginals and independent noise. Theorem 1 itself assumes the transition, so it is not
    affected.""",
)
def world(noise: sp.Expr = 1 - rho**2) -> Parts:
    """The Ornstein-Uhlenbeck transition keeps N(0, 1) and has correlation rho.

    phi(rho t) phi(sqrt(1-rho^2) t) = phi(t) for phi(t) = exp(-t^2/2); E z' z = rho
    """
    phi = sp.exp(-(t**2) / 2)
    scaled = sp.exp(-(rho**2) * t**2 / 2) * sp.exp(-noise * t**2 / 2)
    yield vanishes("the law of z' is that of z", sp.powsimp(scaled / phi) - 1)
    ring = pair(1)
    yield vanishes("E z' z = rho", ring.mean(ring.z_next[0] * ring.z[0]) - ring.rho)
    j = sp.Symbol("j", integer=True, nonnegative=True)
    k = sp.Symbol("k", integer=True, positive=True)
    ratio = sp.Symbol("q", positive=True)  # rho^2
    summed = sp.summation((1 - ratio) * ratio**j, (j, 0, k - 1)).rewrite(sp.Piecewise)
    branch = summed.args[-1][0] if isinstance(summed, sp.Piecewise) else summed
    yield vanishes("k steps from any start leave variance 1 - rho^2k of noise", branch - (1 - ratio**k))
    inner = sp.integrate(z**2 * density(z), (z, -1, 1))
    yield holds("the flipped world is no such transition: E z' z / rho is not 1", sp.Ne(1 - 2 * inner, 1))


@check(
    "moment-generating",
    theorem="forward",
    step="Step 1",
    method="symbolic",
    covers="all s and all weights",
    general=True,
)
def moment_generating(power: int = 2) -> Parts:
    """A Gaussian integral of an exponential is an exponential.

    E exp(s eta - a eta^2/2) = exp(s^2 / (2 (1 + a))) / sqrt(1 + a); so E exp(s eta) = exp(s^2/2)
    """
    weight = sp.Symbol("A", positive=True)  # 1 + a
    weighted = sp.exp(-weight * eta**2 / 2) / sp.sqrt(2 * sp.pi)
    integral = sp.simplify(sp.integrate(sp.exp(s * eta) * weighted, (eta, -sp.oo, sp.oo)))
    closed = sp.exp(s**power / (2 * weight)) / sp.sqrt(weight)
    yield vanishes("with weight", integral - closed)
    yield vanishes("without", integral.subs(weight, 1) - sp.exp(s**2 / 2))


@check(
    "rodrigues",
    theorem="forward",
    step="Hermite background",
    method="symbolic",
    covers="all degrees; listed to degree {degree}",
    general=True,
)
def rodrigues_formula(degree: int = 12, sign: int = 1) -> Parts:
    """Rodrigues' formula, recurrence and generating function agree.

    He_(k+1) = x He_k - He_k'; sum_k He_k(x) t^k / k! = exp(t x - t^2/2)
    """
    k = sp.Symbol("k", integer=True, nonnegative=True)
    derivative = sp.Function("g")(x)  # the k-th derivative of exp(-x^2/2)
    he = (-1) ** k * sp.exp(x**2 / 2) * derivative
    following = (-1) ** (k + 1) * sp.exp(x**2 / 2) * derivative.diff(x)
    yield vanishes("recurrence, from Rodrigues' formula for any k", following - (x * he - sign * he.diff(x)))
    generating = sp.exp(t * x - t**2 / 2)
    shifted = sp.exp(x**2 / 2) * sp.exp(-((x - t) ** 2) / 2)
    yield vanishes("exp(t x - t^2/2) is a Taylor shift of the weight", sp.powsimp(shifted / generating) - 1)
    powers = sp.series(generating, t, 0, degree + 1).removeO()
    for order in range(degree + 1):
        listed = sp.expand(powers).coeff(t, order) * sp.factorial(order)
        yield vanishes(f"coefficient of t^{order}", listed - rodrigues(order).as_expr())


@check(
    "orthogonality",
    theorem="forward",
    step="Hermite background",
    method="symbolic",
    covers="all degrees; by exact moments to degree {degree}",
    general=True,
)
def orthogonality(degree: int = 12, norm: Callable[[int], int] = math.factorial) -> Parts:
    """Hermite polynomials of different degree are orthogonal.

    E He_j(z) He_k(z) = k! delta_jk
    """
    ring = pair(1)
    for j in range(degree + 1):
        row = [ring.mean(hermite(j, ring.z[0]) * hermite(k, ring.z[0])) for k in range(j + 1)]
        expected = [norm(j) if k == j else 0 for k in range(j + 1)]
        yield vanishes(f"degree {j}", *[a - b for a, b in zip(row, expected, strict=True)])
    product = sp.exp(s * x - s**2 / 2) * sp.exp(t * x - t**2 / 2)
    yield vanishes("E G_s G_t = exp(s t), every degree at once", gaussian_mean(product, x) - sp.exp(s * t))


@check(
    "contraction",
    theorem="forward",
    step="Step 1",
    method="symbolic",
    covers="all degrees, rho and z; by exact moments to degree {degree}",
    general=True,
    lean=("mehler_summability",),
    note="""The Lean table lists the contraction as folded into mehler_summability.""",
)
def contraction(degree: int = 12, exponent: Callable[[int], int] = same) -> Parts:
    """The transition multiplies the Hermite polynomial of degree k by rho^k.

    E_eta He_k(rho z + sqrt(1-rho^2) eta) = rho^k He_k(z)
    """
    sigma = sp.Symbol("sigma", positive=True)
    averaged = gaussian_mean(sp.exp(t * (rho * z + sigma * eta) - t**2 / 2), eta)
    expected = sp.exp(rho * t * z - (rho * t) ** 2 / 2)
    ratio = sp.powsimp(averaged / expected).subs(sigma, sp.sqrt(1 - rho**2))
    yield vanishes("E_eta G_t(z') = G_(rho t)(z), every degree at once", sp.simplify(ratio) - 1)
    ring = pair(1)
    for k in range(degree + 1):
        # conditional expectation: test it against every monomial z^m, m <= k
        image = hermite(k, ring.z_next[0]) - ring.rho ** exponent(k) * hermite(k, ring.z[0])
        yield vanishes(f"degree {k}", *[ring.mean(image * ring.z[0] ** m) for m in range(k + 1)])


@check(
    "mehler",
    theorem="forward",
    step="Step 2",
    method="symbolic",
    covers="all degrees in dimensions 1 to {dim}; by exact moments to degree {degree} in dimension 2",
    lean=("correlation_eq_spectral_sum",),
)
def mehler(degree: int = 4, dim: int = 4, exponent: Callable[[int], int] = same) -> Parts:
    """Different Hermite components do not correlate across views.

    E H_a(z') H_b(z) = rho^|a| delta_ab
    """
    for n in range(1, dim + 1):
        ss, ts = sp.symbols(f"s:{n}", real=True), sp.symbols(f"t:{n}", real=True)
        both = sp.Matrix([*ss, *ts])
        eye = sp.eye(n)
        covariance = sp.Matrix(sp.BlockMatrix([[eye, rho * eye], [rho * eye, eye]]))
        exponent_of_mean = (both.T * covariance * both)[0] / 2 - both.dot(both) / 2
        cross = rho * sum(a * b for a, b in zip(ss, ts, strict=True))
        yield vanishes(f"log E G_s(z') G_t(z) = rho s.t in dimension {n}", exponent_of_mean - cross)
    ring = pair(2)
    indices = multi_indices(2, degree)
    for a in indices:
        first = ring.basis(a, ring.z_next)
        row = [ring.mean(first * ring.basis(b, ring.z)) for b in indices]
        expected = [
            ring.rho ** exponent(sum(a)) * factorial(a) if a == b else ring.ring.zero for b in indices
        ]
        yield vanishes(f"He_{a} with all others", *[p - q for p, q in zip(row, expected, strict=True)])


@check(
    "mehler-kernel",
    theorem="forward",
    step="Step 2",
    method="symbolic; series in floating point",
    covers="all rho; series summed for rho 0.3, 0.6, 0.9 and |x|, |y| <= 3",
    general=True,
)
def mehler_kernel(terms: int = 600, skew: float = 1.0) -> Parts:
    """Mehler's series is the joint density over the product of the marginals.

    sum_k rho^k He_k(x) He_k(y) / k! = (1-rho^2)^(-1/2) exp(-(rho^2 (x^2+y^2) - 2 rho x y) / (2 (1-rho^2)))
    """
    v = sp.Symbol("v", positive=True)  # 1 - rho^2
    joint = sp.exp(-(x**2 - 2 * rho * x * y + y**2) / (2 * v)) / (2 * sp.pi * sp.sqrt(v))
    marginals = sp.exp(-(x**2 + y**2) / 2) / (2 * sp.pi)
    closed = sp.exp(-(rho**2 * (x**2 + y**2) - 2 * rho * x * y) / (2 * v)) / sp.sqrt(v)
    ratio = sp.simplify(sp.log(sp.powsimp(joint / marginals / closed)).expand(force=True))
    yield vanishes("closed form = joint / marginals", sp.simplify(ratio.subs(v, 1 - rho**2)))
    image = gaussian_mean(closed * sp.exp(t * y - t**2 / 2), y, shrink=rho**2 / v)
    log_ratio = sp.expand_log(sp.log(image), force=True) - (rho * t * x - (rho * t) ** 2 / 2)
    ratio = sp.logcombine(sp.simplify(2 * log_ratio.subs(v, 1 - rho**2)), force=True)
    yield vanishes("the kernel maps G_t to G_(rho t)", sp.simplify(ratio))
    grid = np.linspace(-3, 3, 13)
    values = normalized_hermite(terms, grid)
    for number in (0.3, 0.6, 0.9):
        series = np.einsum("k,ki,kj->ij", number ** np.arange(terms + 1), values, values)
        a, b = np.meshgrid(grid, grid, indexing="ij")
        spread = 1 - number**2
        power = -(number**2 * (a**2 + b**2) - 2 * skew * number * a * b) / (2 * spread)
        yield close(f"series at rho = {number}", series, np.exp(power) / math.sqrt(spread), 1e-11)


@check(
    "completeness",
    theorem="forward",
    step="Hermite background",
    method="symbolic; exact rational; quadrature",
    covers="all exponentials exactly; cos, sign and |z| as examples; monomials to degree {degree}",
    lean=("mehler_summability",),
    note="""Shown for the closure of the exponentials e^(tz). That this closure is all of L2 is the
    uniqueness of the Fourier transform, which is used here and not proven.""",
)
def completeness(degree: int = 16, norm: int = 1) -> Parts:
    """Squared Hermite coefficients sum to the squared norm.

    sum_k (E f(z) He_k(z))^2 / k! = E f(z)^2
    """
    k = sp.Symbol("k", integer=True, nonnegative=True)
    # E e^(tz) He_k = t^k e^(t^2/2): from orthogonality of the generating function
    shared = sp.exp(s * x - s**2 / 2) * sp.exp(t * x)
    yield vanishes("E G_s e^(tz) = exp(st + t^2/2)", gaussian_mean(shared, x) - sp.exp(s * t + t**2 / 2))
    parseval = sp.summation(t ** (2 * k) / sp.factorial(k), (k, 0, sp.oo)) * sp.exp(t**2)
    square = gaussian_mean(sp.exp(2 * t * x), x)
    yield vanishes("Parseval for e^(tz), every t", sp.powsimp(parseval) - norm * square)
    leading = [rodrigues(i).LC() for i in range(degree + 1)]
    yield vanishes(f"He_0 .. He_{degree} span the monomials: leading terms x^k", *[c - 1 for c in leading])
    m = sp.Symbol("m", integer=True, nonnegative=True)
    central = 2 / sp.pi * sp.binomial(2 * m, m) / 4**m
    half = sp.Rational(1, 2)
    examples = (
        ("sign(z)", sp.S.One, 1, central / (2 * m + 1), (half, half, 3 * half)),
        ("|z|", x, 0, central / (2 * m - 1) ** 2, (-half, -half, half)),
    )
    for name, positive_half, parity, squares, (a, b, c) in examples:
        for order in range(4):
            he = rodrigues(2 * order + parity).as_expr()
            folded = sp.integrate(2 * he * positive_half * density(x), (x, 0, sp.oo))  # even integrand
            square = folded**2 / sp.factorial(2 * order + parity) - squares.subs(m, order)
            yield vanishes(f"{name}: squared coefficient of degree {2 * order + parity}", square)
        grown = (m + a) * (m + b) / ((m + c) * (m + 1))  # the ratio of terms of 2F1(a, b; c; 1)
        yield vanishes(f"{name}: the series is 2F1", sp.combsimp(squares.subs(m, m + 1) / squares) - grown)
        gauss = sp.gamma(c) * sp.gamma(c - a - b) / (sp.gamma(c - a) * sp.gamma(c - b))
        yield vanishes(f"{name}: Parseval, by Gauss' sum", squares.subs(m, 0) * gauss - norm)
    nodes, weights = standard_nodes(120)
    basis = normalized_hermite(60, nodes)
    for omega in (0.5, 1.0, 2.0):
        coefficients = basis @ (weights * np.cos(omega * nodes))
        expected = norm * (1 + math.exp(-2 * omega**2)) / 2
        yield close(f"cos({omega} z) by quadrature", np.sum(coefficients**2), expected, 1e-12)


def gaussian_mean(expression: sp.Expr, variable: sp.Symbol, shrink: sp.Expr = sp.S.Zero) -> sp.Expr:
    """E exp(quadratic) over a standard Gaussian variable, by completing the square.

    With exponent c + b v - a v^2 / 2, the mean is exp(c + b^2 / (2 (1 + a))) / sqrt(1 + a).

    Args:
        expression: a factor free of the variable times exp of a polynomial of degree two in it.
        variable: the Gaussian.
        shrink: the value of a, which must be above -1; checked against the expression.
    """
    factor, power = sp.S.One, sp.S.Zero
    for term in sp.Mul.make_args(sp.powsimp(expression)):
        if isinstance(term, sp.exp):
            power += term.args[0]
        else:
            factor *= term
    polynomial = sp.Poly(sp.expand(power), variable)
    c, b, a = (polynomial.coeff_monomial(variable**k) for k in range(3))
    if polynomial.degree() > 2 or factor.has(variable) or sp.simplify(-2 * a - shrink) != 0:
        raise ArithmeticError(
            f"exponent must be quadratic in {variable} with square -{shrink}/2, got {power}"
        )
    return factor * sp.exp(sp.expand(c + b**2 / (2 * (1 + shrink)))) / sp.sqrt(1 + shrink)
