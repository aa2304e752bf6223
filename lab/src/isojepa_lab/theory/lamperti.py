r"""Coordinates once axes are named: the law of an eigenfunction alone says how it bends the latent.

Let dz = (log p)'(z) dt + sqrt(2) dW and y = f(z), increasing. Then y spreads by 2 D(y) dt, D = f'(z)^2, and

    z = int dy / sqrt(D(y))   up to sign and shift, and up to scale where the rate is unknown (Lamperti 1962).

For the axis of an embedding, y = phi_1(z), the drift is -lambda y. A stationary reversible diffusion on the
line has no flux, (D q)' = -lambda y q with q the density of y, so

    D(y) q(y) = lambda int_y^inf u q(u) du:

D, and with it z, follow from q; no time, no increments. In particular y is normal exactly if D is constant,
that is if z is normal. For the uniform law y has the arcsine law, D = lambda (2 - y^2), and z is the arcsine.

Every diffusion on the line has a coordinate of constant D, so that z has one is assumed and cannot be tested.
A linear map reads z off phi_1(z) with R^2 = corr(z, phi_1)^2; off the coordinate above with 1.
"""

import math

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from isojepa.certificates.eigenfunctions import predict_r2
from isojepa.distributions import Eigensystem, Normal, NormalScores, Uniform, eigensystem
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.harmonics import LAWS

y, z = sp.symbols("y z", real=True)
p, f, h = (sp.Function(name) for name in "pfh")
HALF = sp.Rational(1, 2)
_POINTS = 300  # per latent, of a plane of two
_EIGHTH = math.pi / 4
_EMPTY = 1e-9  # mass at each end that is left out


def straightened(values: ArrayLike, mass: ArrayLike, power: float = 0.5) -> np.ndarray:
    """The coordinate of constant diffusion, from the law of an eigenfunction alone.

    Args:
        values: (n,) increasing values of y.
        mass: (n,) their probabilities.
        power: of D in dz = dy / D^power.

    Returns:
        (n,) sqrt(lambda) times z, up to a shift.
    """
    at, weight = np.asarray(values, np.float64), np.asarray(mass, np.float64)
    moments = weight * (at - weight @ at)
    # summed from the nearer end: neither tail is lost in rounding
    upper, lower = np.cumsum(moments[::-1])[::-1][1:], -np.cumsum(moments)[:-1]
    tail = np.where(at[1:] > 0, upper, lower)
    steps = np.diff(at)
    diffusion = tail * steps / ((weight[1:] + weight[:-1]) / 2)  # D / lambda at the faces
    return np.concatenate(([0.0], np.cumsum(steps / diffusion**power)))


@check(
    "lamperti",
    theorem="naming",
    step="Coordinates",
    method="symbolic",
    covers="all densities and increasing maps; sinh, exp, a cubic and the sine of the uniform law",
    general=True,
    note="""Scale: D is known up to the rate, so z is found up to sign, shift and scale. It asks for one axis
    at a time: a rotation of several has no D of its own.""",
)
def lamperti(power: sp.Rational = HALF) -> Parts:
    """A bent latent spreads by the squared slope, and the root of it straightens the latent.

    (L f^2 - 2 f L f) / 2 = f'(z)^2 = D(y), d/dz int dy / sqrt(D) = 1
    """
    twice = _generator(f(z) ** 2) - 2 * f(z) * _generator(f(z))
    yield vanishes("the local variance is 2 f'^2, any p and f", sp.expand(twice / 2 - f(z).diff(z) ** 2))
    for name, bent, spread in (
        ("sinh", sp.sinh(z), 1 + y**2),
        ("exp", sp.exp(z), y**2),
        ("sine", sp.sqrt(2) * sp.sin(z), 2 - y**2),
        ("z^3 + z", z**3 + z, None),
    ):
        slope = sp.diff(bent, z)
        diffusion = slope**2 if spread is None else spread.subs(y, bent)
        yield vanishes(f"{name}: D(y) is the squared slope", diffusion - slope**2)
        # both sides squared: the slope is positive where y increases
        yield vanishes(f"{name}: dy / sqrt(D) = dz", sp.simplify(slope**2 / diffusion ** (2 * power)) - 1)


@check(
    "zero-flux",
    theorem="naming",
    step="Coordinates",
    method="symbolic; quadrature",
    covers="all densities; the uniform and normal laws in closed form; 5 laws from the law of phi_1 alone",
    general=True,
    note="""lambda is the rate at which the axis decorrelates; without it z is found up to scale. It holds for
    eigenfunctions, which the axes of the best white embedding are, and not for any other function of z.""",
)
def zero_flux(power: float = 0.5) -> Parts:
    """The law of an eigenfunction alone determines how it bends the latent.

    D(y) q(y) = lambda int_y^inf u q(u) du, dz = dy / sqrt(D); y is normal exactly if z is
    """
    rate = sp.Symbol("lambda", positive=True)
    bend = -rate * f(z) - f(z).diff(z) * p(z).diff(z) / p(z)
    slope = f(z).diff(z)
    # q = p / f' and D = f'^2; d/dy is d/dz over f'
    flux = sp.diff(slope**2 * p(z) / slope, z) / slope + rate * f(z) * p(z) / slope
    yield vanishes(
        "no flux: (D q)' = -lambda y q, any p", sp.simplify(flux.doit().subs(f(z).diff(z, 2), bend))
    )
    u = sp.Symbol("u", positive=True)
    x = sp.Symbol("x", positive=True)
    arcsine = 1 / (sp.pi * sp.sqrt(2 - u**2))
    upper = sp.integrate(u * arcsine, (u, x, sp.sqrt(2)))
    ratio = sp.simplify(upper / arcsine.subs(u, x))
    yield vanishes("uniform: the arcsine law gives D = lambda (2 - y^2)", ratio - (2 - x**2))
    sine = sp.sqrt(2) * sp.sin(sp.pi * z / (2 * sp.sqrt(3)))
    yield vanishes("uniform: phi_1 has that D", sp.diff(sine, z) ** 2 - sp.pi**2 / 12 * (2 - sine**2))
    normal = sp.exp(-(u**2) / 2)
    ratio = sp.simplify(sp.integrate(u * normal, (u, x, sp.oo)) / normal.subs(u, x))
    yield vanishes("a normal axis has constant D: its latent is normal", ratio - 1)
    for name, law in {**LAWS, "normal": Normal()}.items():
        axis = _Axis(eigensystem(law, count=1))
        off = straightened(axis.y, axis.mass, power) / math.sqrt(axis.rate) - axis.z
        spread = math.sqrt(float(axis.mass @ (off - axis.mass @ off) ** 2))
        yield close(f"{name}: z from the law of phi_1 alone, rms error", spread, 0.0, 1e-4)


@check(
    "predicted",
    theorem="naming",
    step="Coordinates",
    method="symbolic; quadrature",
    covers="4 laws; two latents on the axes, and turned by an eighth",
    note="""Naming comes first: the same map applied to axes that are still turned leaves something out, and
    can do worse than none.""",
)
def predicted(angle: float = 0.0, after: float = 1.0) -> Parts:
    """A linear map reads a latent off its first harmonic with R^2 below 1, straightened with 1.

    R^2(z, phi_1) = corr(z, phi_1)^2, 96 / pi^4 for the uniform law; R^2(z, int dy / sqrt(D)) = 1
    """
    end = sp.sqrt(3)
    sine = sp.sqrt(2) * sp.sin(sp.pi * z / (2 * end))
    with_z = sp.integrate(z * sine, (z, -end, end)) / (2 * end)
    yield vanishes("uniform: corr(z, phi_1)^2 = 96 / pi^4", with_z**2 - 96 / sp.pi**4)
    for name, law in LAWS.items():
        axis, before = _Axis(eigensystem(law, count=1)), predict_r2(law)
        yield close(f"{name}: before", _explained(axis.z, axis.y, axis.mass), before, 1e-5)
        straight = straightened(axis.y, axis.mass)
        yield close(f"{name}: after", _explained(axis.z, straight, axis.mass), after, 1e-6)
        raw, mapped = _plane(axis, angle)
        yield close(f"{name}: two latents, before", raw, before, 1e-2)
        yield close(f"{name}: two latents, after", mapped, after, 1e-3)
        yield at_least(f"{name}: turned axes, straightened, miss", 1 - _plane(axis, _EIGHTH)[1], 5e-3)


@check(
    "constant-diffusion",
    theorem="naming",
    step="What cannot be tested",
    method="symbolic; quadrature",
    covers="all diffusions on the line; the arcsine diffusion and the copula world of the uniform law",
    general=True,
    note="""Two worlds with the same observations: reflected Brownian motion with uniform latents z, and the
    diffusion of y = sqrt(2) sin(z) with a spread that depends on y. In the second the embedding is y itself
    and R^2 is 1 without straightening. Likewise a copula world is an Ornstein-Uhlenbeck world behind another
    mixing. So that the latents have constant diffusion must be known; it cannot be seen.""",
)
def constant_diffusion(spread: sp.Expr | None = None) -> Parts:
    """Every diffusion on the line has a coordinate of constant diffusion, so none is refuted.

    D f'' + b f' = h'' + (...) h' for f(y) = h(int dy / sqrt(D))
    """
    d, b, inner = sp.Function("D"), sp.Function("b"), sp.Function("s")
    composed = h(inner(y))
    moved = (d(y) * composed.diff(y, 2) + b(y) * composed.diff(y)).doit()
    second = sp.Subs(h(z).diff(z, 2), z, inner(y)).doit()
    factor = sp.expand(moved).coeff(second).subs(inner(y).diff(y), 1 / sp.sqrt(d(y)))
    yield vanishes("the coordinate s, s' = D^(-1/2), has D = 1", factor - 1)
    # the drift is -y, so y is an eigenfunction and recovered linearly
    arcsine, straight = 2 - y**2 if spread is None else spread, sp.asin(y / sp.sqrt(2))
    for power in range(1, 6):
        power_of = straight**power
        moved = arcsine * power_of.diff(y, 2) - y * power_of.diff(y)
        brownian = power * (power - 1) * straight ** (power - 2)
        yield vanishes(f"D = 2 - y^2, b = -y: the arcsine s is Brownian, on s^{power}", moved - brownian)
    # a copula world: z = sqrt(3) erf(y / sqrt(2)) of an Ornstein-Uhlenbeck y
    bent = sp.sqrt(3) * sp.erf(y / sp.sqrt(2))
    covariance = sp.integrate(y * bent * sp.exp(-(y**2) / 2), (y, -sp.oo, sp.oo)) / sp.sqrt(2 * sp.pi)
    yield vanishes("copula, uniform: straightening stops at y, R^2 = 3 / pi", covariance**2 - 3 / sp.pi)
    by_scores = float(NormalScores(Uniform()).coefficients(1)[1] ** 2)
    yield close("copula, uniform: R^2 of z from y by its scores", by_scores, 3 / math.pi, 1e-8)
    slope = sp.diff(bent, y)
    yield holds("and its z has no constant diffusion", sp.simplify(sp.diff(slope, y)) != 0)


def _generator(of: sp.Expr) -> sp.Expr:
    return sp.diff(p(z) * sp.diff(of, z), z) / p(z)


class _Axis:
    """The first harmonic of a law where it has mass: farther out its values are rounding."""

    def __init__(self, found: Eigensystem) -> None:
        below = np.cumsum(found.mass) - found.mass / 2
        interior = (below > _EMPTY) & (1 - below > _EMPTY)
        self.rate = float(found.eigenvalues[1])
        self.z, self.y = found.z[interior], found.values[1][interior]
        self.mass = found.mass[interior] / found.mass[interior].sum()


def _explained(of: np.ndarray, by: np.ndarray, mass: np.ndarray) -> float:
    """Squared correlation under given masses."""
    one, other = (values - mass @ values for values in (of, by))
    return float((mass @ (one * other)) ** 2 / ((mass @ one**2) * (mass @ other**2)))


def _plane(axis: _Axis, angle: float) -> tuple[float, float]:
    """Mean R^2 of two latents from turned axes of their first harmonics, raw and straightened."""
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    latent, harmonic = (
        np.interp(levels, np.cumsum(axis.mass) - axis.mass / 2, values) for values in (axis.z, axis.y)
    )
    latents, axes = (
        np.stack(np.meshgrid(values, values, indexing="ij"), -1).reshape(-1, 2)
        for values in (latent, harmonic)
    )
    c, s = math.cos(angle), math.sin(angle)
    turned = axes @ np.array([[c, -s], [s, c]])
    straight = np.stack([_by_own_law(column, levels) for column in turned.T], 1)
    return _regressed(latents, turned), _regressed(latents, straight)


def _by_own_law(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Straighten a sample by its own quantiles."""
    quantiles = np.quantile(values, levels)
    straight = straightened(quantiles, np.full(len(levels), 1 / len(levels)))
    return np.asarray(np.interp(values, quantiles, straight))


def _regressed(latents: np.ndarray, inputs: np.ndarray) -> float:
    """Mean R^2 of least squares with a constant."""
    design = np.column_stack((np.ones(len(inputs)), inputs))
    rest = latents - design @ np.linalg.lstsq(design, latents, rcond=None)[0]
    return float(np.mean(1 - rest.var(0) / latents.var(0)))
