"""Theorem 2: an affine slowest feature makes the law Gaussian.

A scalar latent with stationary density p and constant diffusion K has the generator

    D phi = (1/p) (K p phi')' = K phi'' + K (log p)' phi'.

If phi = a z + b satisfies D phi = -lambda phi, the score (log p)' is affine, so p is Gaussian; and for a
Gaussian the eigenfunctions are Hermite polynomials, the identity first. Appendix B of Klindt, LeCun &
Balestriero (2026). Other laws, and worlds that are not diffusions, are in `isojepa_lab.theory.uniqueness`.
"""

from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp
from scipy.linalg import eigh_tridiagonal

from isojepa_lab.theory.algebra import rodrigues
from isojepa_lab.theory.check import Parts, check, holds, vanishes

z, x, t = sp.symbols("z x t", real=True)
a = sp.Symbol("a", real=True, nonzero=True)
b = sp.Symbol("b", real=True)
K, rate, variance = sp.symbols("K lambda v", positive=True)
p, phi, psi = sp.Function("p", positive=True)(z), sp.Function("phi")(z), sp.Function("psi")(z)


def generator(function: sp.Expr, density: sp.Expr = p) -> sp.Expr:
    """D phi in self-adjoint form."""
    return sp.diff(K * density * sp.diff(function, z), z) / density


@check(
    "minimizer",
    theorem="converse",
    step="Background",
    method="symbolic",
    covers="every reversible world whose optimum is attained",
    general=True,
    note="""The paper goes from minimizers to eigenfunctions without saying how. If no minimizer
    exists, its hypothesis that every minimizer is linear holds for want of one: see heavy-tails.""",
)
def minimizer(slope: int = 2) -> Parts:
    """A map of largest correlation is an eigenfunction of the transition.

    d/de <f + e g, T (f + e g)> / |f + e g|^2 = 2 (<g, T f> - c <g, f>) at e = 0, for |f| = 1, c = <f, T f>
    """
    e, c, gtf, gtg, gf, gg = sp.symbols("e c gTf gTg gf gg", real=True)
    quotient = (c + 2 * e * gtf + e**2 * gtg) / (1 + 2 * e * gf + e**2 * gg)
    first = sp.diff(quotient, e).subs(e, 0)
    yield vanishes("first variation, for symmetric T", first - slope * (gtf - c * gf))
    tf, f = sp.symbols("Tf f", real=True)
    # g = T f - c f is allowed, and <g, T f> - c <g, f> = |g|^2: if it vanishes, T f = c f
    yield vanishes(
        "at g = T f - c f it is |g|^2",
        sp.expand((tf - c * f) * tf - c * (tf - c * f) * f - (tf - c * f) ** 2),
    )


@check(
    "generator",
    theorem="converse",
    step="Background",
    method="symbolic",
    covers="all densities and test functions",
    general=True,
    note="""A diffusion has additive noise (assumption iii) to first order in the lag only: at a finite
    lag the noise of a non-Gaussian diffusion depends on the state.""",
)
def self_adjoint(drift: Callable[[sp.Expr], sp.Expr] = sp.log) -> Parts:
    """The generator is a diffusion whose drift is the score, and is symmetric.

    (1/p) (K p phi')' = K phi'' + K (log p)' phi'; p (psi D phi - phi D psi) = (K p (psi phi' - phi psi'))'
    """
    expanded = K * sp.diff(phi, z, 2) + K * sp.diff(drift(p), z) * sp.diff(phi, z)
    yield vanishes("expanded form", sp.expand(generator(phi) - expanded))
    wronskian = sp.diff(K * p * (psi * sp.diff(phi, z) - phi * sp.diff(psi, z)), z)
    yield vanishes("symmetry", sp.expand(p * (psi * generator(phi) - phi * generator(psi)) - wronskian))
    energy = sp.diff(K * p * phi * sp.diff(phi, z), z) - K * p * sp.diff(phi, z) ** 2
    yield vanishes("- <phi, D phi> is the mean of K phi'^2", sp.expand(p * phi * generator(phi) - energy))
    noise, h = sp.symbols("eta h", positive=True)
    score = sp.Function("s")(z)
    derivatives = sp.symbols("f0:5")  # phi and its derivatives at z
    moved = K * score * h**2 + sp.sqrt(2 * K) * h * noise  # h = sqrt(tau)
    taylor = sp.expand(sum(f * moved**k / sp.factorial(k) for k, f in enumerate(derivatives)))
    moments = {0: 1, 1: 0, 2: 1, 3: 0, 4: 3}
    mean = sum(taylor.coeff(noise, k) * value for k, value in moments.items())
    step = sp.expand(mean - derivatives[0])
    yield vanishes("(E phi(z + tau K s + sqrt(2 K tau) eta) - phi) / tau, no half order", step.coeff(h, 1))
    first = step.coeff(h, 2) - (K * derivatives[2] + K * score * derivatives[1])
    yield vanishes("and its limit is the generator", first)


@check(
    "affine-score",
    theorem="converse",
    step="Proof",
    method="symbolic",
    covers="all densities, a, b, lambda, K",
    general=True,
)
def affine_score(curve: sp.Expr = sp.S.Zero) -> Parts:
    """An affine eigenfunction forces an affine score.

    D (a z + b) = -lambda (a z + b) gives (log p)' = -(lambda/K) (z + b/a)
    """
    candidate = a * z + b + curve
    slope = sp.Symbol("s")
    image = sp.expand(generator(candidate)).subs(sp.diff(p, z), slope * p)
    yield vanishes("D (a z + b) = a K (log p)'", sp.simplify(image - a * K * slope))
    solution = sp.solve(sp.Eq(sp.simplify(image), -rate * candidate), slope)
    yield holds("one solution", len(solution) == 1)
    yield vanishes("the score is affine", solution[0] + rate / K * (z + b / a))


@check(
    "gaussian-from-score",
    theorem="converse",
    step="Proof",
    method="symbolic",
    covers="all a, b, K and signs of lambda",
    general=True,
    lean=("gaussian_of_affine_score",),
)
def gaussian_from_score(power: int = 1) -> Parts:
    """An integrable density with affine score is Gaussian.

    p' = -(lambda/K) (z + b/a) p gives p = N(-b/a, K/lambda), and integrability gives lambda > 0
    """
    mean = sp.Symbol("mu", real=True)  # -b/a
    unknown = sp.Function("q")
    for sign, word in ((1, "lambda > 0"), (0, "lambda = 0"), (-1, "lambda < 0")):
        slope = sign * rate / K
        equation = sp.Eq(unknown(z).diff(z), -slope * (z - mean) ** power * unknown(z))
        solution = sp.dsolve(equation, unknown(z))
        constant = sp.Symbol("C1")
        shape = solution.rhs.coeff(constant) if sign else solution.rhs / constant
        if sign == 1:
            normal = sp.exp(-((z - mean) ** 2) * rate / (2 * K))
            ratio = sp.simplify(sp.log(sp.powsimp(shape / normal)).expand(force=True).diff(z))
            yield vanishes(f"{word}: the solution is a Gaussian, up to a constant", ratio)
            total = sp.integrate(normal.subs(mean, 0), (z, -sp.oo, sp.oo))
            yield vanishes(f"{word}: its mass is finite", total - sp.sqrt(2 * sp.pi * K / rate))
            second = sp.integrate(z**2 * normal.subs(mean, 0), (z, -sp.oo, sp.oo)) / total
            yield vanishes(f"{word}: its variance is K / lambda", sp.simplify(second - K / rate))
        else:
            at = shape.subs({mean: 0, rate: 1, K: 1})
            yield holds(f"{word}: not integrable", sp.limit(at, z, sp.oo) != 0)


@check(
    "hermite-eigenfunctions",
    theorem="converse",
    step="Gaussian specialization",
    method="symbolic",
    covers="all degrees and variances; listed to degree {degree}",
    general=True,
    lean=("hermite_first_eigenfunction_of_gaussian",),
)
def hermite_eigenfunctions(degree: int = 12, eigenvalue: Callable[[int], int] = lambda k: k) -> Parts:
    """For a Gaussian the eigenfunctions are Hermite polynomials, the identity first.

    D He_k(z / sqrt v) = -(k K / v) He_k(z / sqrt v) for p = N(0, v)
    """
    normal = sp.exp(-(z**2) / (2 * variance))
    root = sp.sqrt(variance)
    generating = sp.exp(t * z / root - t**2 / 2)
    image = sp.simplify(generator(generating, normal) / generating)
    expected = sp.simplify(-K / variance * t * sp.diff(generating, t) / generating)
    yield vanishes("D G_t = -(K/v) t dG_t/dt, every degree at once", sp.simplify(image - expected))
    for k in range(degree + 1):
        he = rodrigues(k).as_expr().subs(sp.Symbol("x", real=True), z / root)
        score_form = K * he.diff(z, 2) - K * z / variance * he.diff(z)
        yield vanishes(f"degree {k}", sp.expand(score_form + eigenvalue(k) * K / variance * he))
    rates = [eigenvalue(k) for k in range(1, degree + 1)]
    yield holds("the slowest that is not constant is He_1, the identity", min(rates) == rates[0] == 1)


@check(
    "zeros",
    theorem="converse",
    step="Background",
    method="exact rational; finite differences",
    covers="Hermite to degree {degree}; eigenfunctions 1 to 5 of 3 other laws",
    note="""The paper's proof says that phi_k has k-1 interior zeros; its appendix on slow features
    says k. It is k: phi_1 has mean zero and so a zero. What has k-1 zeros is phi_k', and that phi_1'
    has none is what makes phi_1 monotone. The conclusion stands.""",
)
def zeros(degree: int = 20, fewer: int = 0) -> Parts:
    """The k-th eigenfunction has k zeros and its derivative k-1, so the first is monotone.

    #{phi_k = 0} = k, #{phi_k' = 0} = k - 1
    """
    for k in range(1, degree + 1):
        he = rodrigues(k)
        simple = sp.gcd(he, he.diff()).degree() == 0
        counts = (he.count_roots(), he.diff().count_roots())
        yield holds(
            f"He_{k}: simple zeros, by Sturm's theorem", simple and counts == (k - fewer, k - 1 - fewer)
        )
    points = np.linspace(-4.5, 4.5, 1201)
    potentials = {
        "exp(-z^4/4)": points**4 / 4,
        "two wells": points**4 / 8 - points**2 / 2,
        "skew": np.exp(points) - 1.5 * points,
    }
    for name, potential in potentials.items():
        functions = slowest(points, potential, 6)
        sign_changes = [_changes(functions[:, k]) for k in range(1, 6)]
        slopes = [_changes(np.diff(functions[:, k])) for k in range(1, 6)]
        yield holds(f"{name}: zeros of phi_1 .. phi_5", sign_changes == [k - fewer for k in range(1, 6)])
        yield holds(f"{name}: zeros of their derivatives", slopes == [k - 1 - fewer for k in range(1, 6)])


def slowest(points: np.ndarray, potential: np.ndarray, count: int) -> np.ndarray:
    """Slowest eigenfunctions of the diffusion with density exp(-potential), by finite volumes.

    Args:
        points: (n,) equally spaced.
        potential: (n,) minus the log-density.
        count: how many, the constant first.

    Returns:
        (m, count) values on the m points that carry weight.
    """
    potential = potential - potential.min()
    region = potential < 30  # beyond, the weight is below 1e-13 and signs are noise
    weight = np.exp(-potential[region])
    between = np.sqrt(weight[1:] * weight[:-1]) / (points[1] - points[0]) ** 2
    leaving = np.concatenate([between, [0.0]]) + np.concatenate([[0.0], between])
    off = -between / np.sqrt(weight[1:] * weight[:-1])
    _, vectors = eigh_tridiagonal(leaving / weight, off, select="i", select_range=(0, count - 1))
    functions: np.ndarray = vectors / np.sqrt(weight)[:, None]
    return functions


def _changes(values: Sequence[float] | np.ndarray) -> int:
    """Sign changes, ignoring what is lost in rounding."""
    array = np.asarray(values)
    signs = np.sign(array[np.abs(array) > 1e-9 * np.abs(array).max()])
    return int(np.sum(signs[1:] != signs[:-1]))
