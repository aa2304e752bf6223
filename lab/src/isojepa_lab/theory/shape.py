r"""Axes by shape: independent coordinates that are not normal are distinguishable from all their rotations.

Let y = Q s with s independent, of mean 0 and variance 1. If the coordinates of y are independent and at most
one of s is normal, Q only orders and flips (Comon 1994). For two axes turned by an angle, with functions g

    psi = g_i(y_i) y_j - g_j(y_j) y_i,    E psi = 0 at independence,    d E psi / d angle = kappa_i + kappa_j,
    kappa = E g'(y) - E g(y) y,

and with scores g = -(log p)', psi is minus the derivative of the log-likelihood by the angle, and

    kappa = I - 1 = E (g(y) - y)^2 >= 0,      0 only if g(y) = y, the score of N(0, 1),

I the Fisher information. So two axes are identified by shape exactly if not both are normal; two normal ones
have one law at every angle. Where I is infinite, as for the uniform law, or p unknown, a smooth g serves,
with a sign for each axis: kappa then may be negative, and may vanish for a law that is not normal.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from scipy import integrate

from isojepa_lab.theory.check import Parts, at_least, check, close, vanishes

t = sp.Symbol("t", positive=True)
_ANGLES = np.arange(1, 9) * math.pi / 32  # to an eighth of a turn: from there on like laws repeat
_STEP = 0.002  # of angles, for differences of the fourth order
_REACH, _NODES = 11.0, 320
_PIECES = ((0.0, 1.0), (1.0, 5.0), (5.0, math.inf))


@dataclass(frozen=True)
class Shape:
    """A symmetric law of variance 1, known on t > 0.

    Attributes:
        log_density: in t, up to a constant.
        information: Fisher's, in closed form; None where there is none.
    """

    log_density: sp.Expr
    information: float | None = None

    @cached_property
    def numbers(self) -> tuple[Callable[..., np.ndarray], ...]:
        """The logarithm of the density, g and g' for t > 0."""
        g = -sp.diff(self.log_density, t)
        return tuple(sp.lambdify(t, one, "numpy") for one in (self.log_density, g, sp.diff(g, t)))

    @cached_property
    def peak(self) -> float:
        """The density at 0."""
        return 1 / (2 * _integral(lambda u: math.exp(self.numbers[0](u) - self.numbers[0](0.0))))

    def mean(self, function: Callable[[float], float]) -> float:
        """Average of an even function, by quadrature."""
        log_p = self.numbers[0]
        return 2 * self.peak * _integral(lambda u: function(u) * math.exp(log_p(u) - log_p(0.0)))

    def kappa(self) -> float:
        """E (g - y)^2."""
        g = self.numbers[1]
        return self.mean(lambda u: float(g(u) - u) ** 2)

    def kappa_by_parts(self) -> float:
        """E g' - E g y, with the jump that g may have at 0."""
        _, g, bend = self.numbers
        return self.mean(lambda u: float(bend(u) - g(u) * u)) + 2 * self.peak * float(g(0.0))


def generalized(alpha: sp.Expr) -> Shape:
    """The density exp(-|t / s|^alpha), with s for variance 1."""
    scale = sp.sqrt(sp.gamma(1 / alpha) / sp.gamma(3 / alpha))
    information = alpha**2 * sp.gamma(3 / alpha) * sp.gamma(2 - 1 / alpha) / sp.gamma(1 / alpha) ** 2
    return Shape(-((t / scale) ** alpha), float(information))


def log_cosh(u: sp.Expr) -> sp.Expr:
    """The logarithm of cosh for u > 0, up to a constant, without overflow."""
    return u + sp.log(1 + sp.exp(-2 * u))


PLACE = sp.Rational(9, 10)  # of two equal normals
SHAPES: Mapping[str, Shape] = {
    "Laplace": generalized(sp.S.One),
    "generalised normal 3/2": generalized(sp.Rational(3, 2)),
    "generalised normal 4": generalized(sp.Integer(4)),
    "logistic": Shape(-2 * log_cosh(sp.pi * t / (2 * sp.sqrt(3))), math.pi**2 / 9),
    "bimodal": Shape(log_cosh(PLACE * t / (1 - PLACE**2)) - t**2 / (2 * (1 - PLACE**2))),
}
NORMAL = Shape(-(t**2) / 2, 1.0)
Pair = tuple[Shape, Shape]
PAIRS: Mapping[str, Pair] = {
    "bimodal, bimodal": (SHAPES["bimodal"], SHAPES["bimodal"]),
    "bimodal, normal": (SHAPES["bimodal"], NORMAL),
    "logistic, generalised normal 4": (SHAPES["logistic"], SHAPES["generalised normal 4"]),
}


@check(
    "comon",
    theorem="naming",
    step="Axes by shape",
    method="symbolic; quadrature",
    covers="small angles: smooth laws of finite Fisher information; 5 shapes; 3 pairs at 8 angles",
    note="""The derivative speaks of small angles. For all angles the mean log-likelihood falls by a
    Kullback-Leibler distance, which is computed for the pairs; `comon-cumulants` has all rotations of several
    axes. Only the law at one time enters. Two normal axes of one rate are the blind spot: `one-rate`.""",
)
def comon(pairs: Mapping[str, Pair] = PAIRS, least: float = 0.01, product: int = 1) -> Parts:
    """Two independent axes are distinguishable from their rotations unless both are normal.

    d E psi / d angle = kappa_i + kappa_j, kappa = E g' - E g y = I - 1 = E (g - y)^2, g = -(log p)'
    """
    yield from _estimating_function()
    p, y = sp.Function("p"), sp.Symbol("y", real=True)
    g = -sp.diff(p(y), y) / p(y)
    yield vanishes("E g y = 1, by parts", sp.diff(y * p(y), y) + g * y * p(y) - product * p(y))
    yield vanishes("E g' = E g^2 = I, by parts", sp.diff(g * p(y), y) - (sp.diff(g, y) - g**2) * p(y))
    yield vanishes("E (g - y)^2 = I - 2 E g y + 1 = I - 1", -2 * product + 1 + 1)
    solved = sp.dsolve(sp.Eq(sp.diff(p(y), y), -y * p(y)), p(y), ics={p(0): 1})
    yield vanishes("g = y is the normal law alone", solved.rhs - sp.exp(-(y**2) / 2))
    for name, shape in SHAPES.items():
        kappa = shape.kappa()
        yield close(f"{name}: variance", shape.mean(lambda u: u * u), 1.0, 1e-9)
        yield close(f"{name}: E g' - E g y = E (g - y)^2", shape.kappa_by_parts(), kappa, 1e-7)
        if shape.information is not None:
            yield close(f"{name}: kappa = I - 1 in closed form", kappa, shape.information - 1, 1e-8)
        yield at_least(f"{name}: kappa", kappa, least)
    for name, (first, other) in pairs.items():
        plane = _TwoAxes(first, other)
        yield close(f"{name}: E psi = 0", plane.psi(0.0), 0.0, 1e-9)
        yield close(f"{name}: its slope", plane.slope(), first.kappa() + other.kappa(), 1e-5)
        yield at_least(f"{name}: the slope", plane.slope(), least)
        lost = [plane.lost(angle) for angle in _ANGLES]
        yield at_least(f"{name}: log-likelihood lost by a turn", lost, 1e-4)
    lost = [_TwoAxes(NORMAL, NORMAL).lost(angle) for angle in _ANGLES]
    yield close("two normal axes lose nothing", lost, 0.0, 1e-9)


@check(
    "comon-smooth",
    theorem="naming",
    step="Axes by shape",
    method="symbolic; quadrature",
    covers="g = tanh for the uniform law and 5 shapes; one mixture to which it is blind",
    note="""The uniform law has infinite Fisher information, so its score is no use. With one smooth g for all
    axes, kappas of different sign can cancel; each axis needs its own sign, that of its kappa. And one g is
    blind to some laws that are not normal, where another is not.""",
)
def comon_smooth(signed: bool = True, weight: float | None = None) -> Parts:
    """With a smooth g in place of the score, axes are identified where its kappas do not cancel.

    kappa(p) = E tanh'(y) - E y tanh(y) is 0 for N(0, 1), linear in p, and of either sign
    """
    u = sp.Symbol("u", real=True)
    f = sp.Function("f")
    phi = sp.exp(-(u**2) / 2)
    stein = sp.diff(f(u) * phi, u) - (sp.diff(f(u), u) - u * f(u)) * phi
    yield vanishes("Stein: E f' = E f y for N(0, 1), by parts, any f", stein)
    means = {name: shape.mean(_smooth) for name, shape in SHAPES.items()}
    end = math.sqrt(3)
    # E tanh' = tanh(b) / b; E y tanh(y) has no elementary form
    means["uniform"] = math.tanh(end) / end - integrate.quad(lambda v: v * math.tanh(v), 0, end)[0] / end
    signs = {"uniform": -1, "generalised normal 4": -1, "bimodal": -1}
    for name, kappa in means.items():
        yield at_least(f"{name}: the sign of kappa times it", signs.get(name, 1) * kappa, 1e-3)
    yield close("normal: kappa", NORMAL.mean(_smooth), 0.0, 1e-10)
    low, high = means["uniform"], means["Laplace"]
    share = low / (low - high) if weight is None else weight  # of Laplace in a mixture, where kappa is linear
    yield close("a mixture of Laplace and uniform has kappa 0", share * high + (1 - share) * low, 0.0, 1e-12)
    fourth = share * 6 + (1 - share) * 1.8
    yield at_least("and is not normal, as g = y^3 sees: E y^4 - 3 E y^2", fourth - 3, 0.1)
    beside = 2 * low / (low - high)
    opposed = np.array([low, beside * high + (1 - beside) * low])
    yield close("the uniform law beside another mixture: kappas cancel", opposed.sum(), 0.0, 1e-12)
    signs_given = np.sign(opposed) if signed else np.ones(2)
    yield at_least("and add up once each axis has its sign", signs_given @ opposed, 1e-3)


def _smooth(u: float) -> float:
    """The integrand of kappa for g = tanh."""
    return 1 - math.tanh(u) ** 2 - u * math.tanh(u)


def _integral(function: Callable[[float], float]) -> float:
    """Over t > 0; split where a tail begins."""
    return math.fsum(integrate.quad(function, *piece, epsabs=1e-13, limit=200)[0] for piece in _PIECES)


def _estimating_function() -> Parts:
    """E psi and its derivative by the angle, for independent axes of mean 0 and variance 1."""
    a, b, angle = sp.symbols("a b angle", real=True)
    g, f = sp.Function("g"), sp.Function("f")
    c, s = sp.cos(angle), sp.sin(angle)
    first, other = c * a + s * b, c * b - s * a
    psi = g(first) * other - f(other) * first
    slope = sp.diff(psi, angle).subs(angle, 0).doit()
    mean_g, bend_g, along_g, mean_f, bend_f, along_f = sp.symbols("g dg gy f df fy")
    of_a = {a: 0, a**2: 1, g(a): mean_g, sp.diff(g(a), a): bend_g, a * g(a): along_g}
    of_b = {b: 0, b**2: 1, f(b): mean_f, sp.diff(f(b), b): bend_f, b * f(b): along_f}

    def mean(expression: sp.Expr) -> sp.Expr:
        terms = (term.as_independent(b) for term in sp.Add.make_args(sp.expand(expression)))
        parts = ((alone.as_independent(a), rest) for alone, rest in terms)
        return sp.Add(*(k * of_a.get(x, x) * of_b.get(rest, rest) for (k, x), rest in parts))

    yield vanishes("E psi = 0 for independent axes", mean(psi.subs(angle, 0)))
    kappas = bend_g - along_g + bend_f - along_f
    yield vanishes("its derivative by the angle is kappa_i + kappa_j", mean(slope) - kappas)


class _TwoAxes:
    """Averages over two independent axes, by Gauss-Legendre quadrature in the plane."""

    def __init__(self, first: Shape, other: Shape) -> None:
        self.shapes = (first, other)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        each = [weights * np.exp(shape.numbers[0](np.abs(_REACH * nodes))) for shape in self.shapes]
        self.weights = np.outer(each[0] / each[0].sum(), each[1] / each[1].sum())
        self.a, self.b = np.meshgrid(_REACH * nodes, _REACH * nodes, indexing="ij")

    def psi(self, angle: float) -> float:
        """E psi after a turn."""
        (y, g), (u, f) = (
            (one, np.sign(one) * shape.numbers[1](np.abs(one))) for one, shape in self._turned(angle)
        )
        return float(np.sum(self.weights * (g * u - f * y)))

    def slope(self) -> float:
        """Derivative of E psi at no turn."""
        near, far = (self.psi(step) - self.psi(-step) for step in (_STEP, 2 * _STEP))
        return (8 * near - far) / (12 * _STEP)

    def lost(self, angle: float) -> float:
        """How much of the mean log-likelihood a turn loses: a Kullback-Leibler distance."""
        return self._likelihood(0.0) - self._likelihood(angle)

    def _likelihood(self, angle: float) -> float:
        logs = (shape.numbers[0](np.abs(one)) for one, shape in self._turned(angle))
        return math.fsum(np.sum(self.weights * log) for log in logs)

    def _turned(self, angle: float) -> list[tuple[np.ndarray, Shape]]:
        c, s = math.cos(angle), math.sin(angle)
        return list(zip((c * self.a + s * self.b, c * self.b - s * self.a), self.shapes, strict=True))
