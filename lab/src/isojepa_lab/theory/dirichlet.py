"""The second proof of Theorem 1, first half: the energy of a map that keeps N(0, I) is at least n.

    L(h) = lim (1/e) E |h(z + sqrt(e) eta) - h(z)|^2 = E |J|_F^2
         >= n E |det J|^(2/n) >= n exp((2/n) E log |det J|) = n

Appendix E of Klindt, LeCun & Balestriero (2026), Steps 1 to 3. That equality makes h a rotation is in
`isojepa_lab.theory.rigidity`.
"""

import math
from collections.abc import Callable

import numpy as np
import sympy as sp
from scipy import integrate
from sympy.polys.rings import PolyElement

from isojepa_lab.theory.algebra import pair
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.maps import grid, standard_nodes, stream

e = sp.Symbol("e", positive=True)


@check(
    "energy-limit",
    theorem="dirichlet",
    step="Step 1",
    method="symbolic; quadrature",
    covers="a polynomial map with free coefficients and a sine shear exactly; the spiral by quadrature",
    note="""The paper takes the limit under the expectation because h is C^1 and the Gaussian decays.
    That does not suffice: a spiral whose angle grows like exp(|z|^2) keeps N(0, I), is C^1 and has
    infinite energy. The proof survives: by Fatou's lemma L(h) >= E |J|^2 for every C^1 map, and the
    rest needs no more.""",
)
def energy_limit(scale: int = 1) -> Parts:
    """For small noise the loss is the Dirichlet energy.

    (1/e) E |h(z + sqrt(e) eta) - h(z)|^2 -> E |J(z)|_F^2
    """
    ring = pair(2, ["a", "b", "c", "d", "h"])
    a, b, c, d, h = ring.extra  # h = sqrt(e)
    noise = [ring.ring.gens[4], ring.ring.gens[5]]
    x, y = ring.z

    def image(u: PolyElement, v: PolyElement) -> list[PolyElement]:
        return [a * u + b * v**2 + c * u * v, d * v + a * u**3]

    there = image(x + h * noise[0], y + h * noise[1])
    here = image(x, y)
    loss = ring.mean(sum(((p - q) ** 2 for p, q in zip(there, here, strict=True)), ring.ring.zero))
    jacobian = [component.diff(v) for component in here for v in (x, y)]
    energy = ring.mean(sum((entry**2 for entry in jacobian), ring.ring.zero))
    orders = {k: ring.ring.zero for k in (0, 1)}
    position = ring.ring.gens.index(h)
    leading = ring.ring.zero
    for powers, coefficient in loss.terms():
        rest = list(powers)
        rest[position] = 0
        term = ring.ring.from_dict({tuple(rest): coefficient})
        if powers[position] in orders:
            orders[powers[position]] += term
        elif powers[position] == 2:
            leading += term
    yield vanishes("no terms of order 0 and 1 in sqrt(e)", *orders.values())
    yield vanishes("order e is the energy, all coefficients", leading - scale * energy)
    # z1 + sin(k z2): E (sin(k(z + sqrt(e) eta)) - sin(k z))^2 = 1 - c(4) - ... in closed form
    k = sp.Symbol("k", positive=True)

    def damped(variance: sp.Expr) -> sp.Expr:
        return sp.exp(-(k**2) * variance / 2)  # E cos(k g), g ~ N(0, variance)

    squares = (1 - damped(4)) / 2 + (1 - damped(4 * (1 + e))) / 2
    product = (damped(e) - damped(4 + e)) / 2
    shear = squares - 2 * product + 2 * e
    limit = sp.limit(sp.expand(shear / e), e, 0, "+")
    expected = 2 + k**2 * (1 + damped(4)) / 2
    yield vanishes("sine shear of any frequency", sp.simplify(limit - scale * expected))
    rate = math.pi
    for step in (1e-2, 1e-3, 1e-4):
        ratio = _spiral_loss(rate, step) / step / (scale * (2 + 2 * rate**2))
        yield close(f"spiral: loss over energy at e = {step:g}", ratio, 1.0, 5 * step)
    radius = sp.Symbol("r", positive=True)
    wild = sp.diff(sp.exp(radius**2), radius) ** 2 * radius**3 * sp.exp(-(radius**2) / 2)
    yield holds("a spiral of angle exp(|z|^2) has no finite energy", sp.limit(wild, radius, sp.oo) == sp.oo)


@check(
    "log-determinant",
    theorem="dirichlet",
    step="Step 2",
    method="symbolic; quadrature",
    covers="every density; a flow that keeps N(0, I_2) and changes volume; a product of logistic laws",
    note="""The paper's closing remark says that no step uses the Gaussian. Step 2 does as written; for
    another density it becomes E log |det J| = E log p(z) - E log p(h(z)) = 0, which needs a finite
    entropy. Steps 4 and 5 further need a density that is positive on all of R^n. With these, the remark
    is right.""",
)
def log_determinant(half: float = 0.5) -> Parts:
    """A map that keeps a density neither expands nor contracts on average.

    log |det J(z)| = log p(z) - log p(h(z)), so E log |det J| = 0; for N(0, I) it is (|h|^2 - |z|^2) / 2
    """
    z1, z2 = sp.symbols("z1 z2", real=True)
    p = sp.Function("p", positive=True)(z1, z2)
    psi = sp.Function("psi")(z1, z2)
    field = [-sp.diff(p * psi, z2) / p, sp.diff(p * psi, z1) / p]
    flux = sp.diff(p * field[0], z1) + sp.diff(p * field[1], z2)
    yield vanishes("fields (1/p) (-d2, d1)(p psi) keep any density p", sp.simplify(flux))
    change = sum(f * sp.diff(sp.log(p), v) for f, v in zip(field, (z1, z2), strict=True))
    divergence = sp.diff(field[0], z1) + sp.diff(field[1], z2)
    yield vanishes("along them log det grows as -log p does", sp.simplify(divergence + change))
    gaussian = sp.exp(-(z1**2 + z2**2) / 2)
    special = [sp.simplify(f.subs(psi, z1).subs(p, gaussian).doit()) for f in field]
    yield vanishes("psi = z1 gives the flow of the checks", special[0] - z1 * z2, special[1] - (1 - z1**2))
    z, weights = grid(2, 48)
    moved, jacobians, divergences = stream(z, 0.25, 300)
    near = np.abs(z).max(1) < 6
    determinants = np.log(np.abs(np.linalg.det(jacobians)))
    radii = half * (np.sum(moved**2, -1) - np.sum(z**2, -1))
    yield close(
        "flow: log det is the integral of the divergence", determinants[near], divergences[near], 1e-8
    )
    yield close("flow: log det = (|h|^2 - |z|^2) / 2 pointwise", determinants[near], radii[near], 1e-8)
    yield close("flow: E log det = 0", weights @ divergences, 0.0, 1e-9)
    yield at_least("flow: yet its variance is positive", weights @ divergences**2, 1e-2)
    yield close("logistic laws: E log det = 0", _logistic_flow(0.25), 0.0, 1e-6)


@check(
    "am-gm",
    theorem="dirichlet",
    step="Step 3",
    method="symbolic",
    covers="any number of positive numbers",
    general=True,
    lean=("amgm_sum_ge_prod_pow",),
)
def am_gm(base: Callable[[sp.Expr], sp.Expr] = sp.log) -> Parts:
    """A mean is at least the geometric mean, equal only if all numbers are.

    u - 1 - log u >= 0, equal at u = 1 only; summed over u_i = s_i^2 / g with prod u_i = 1: sum u_i >= n
    """
    u = sp.Symbol("u", positive=True)
    f = u - 1 - base(u)
    yield vanishes("f(1) = 0", f.subs(u, 1))
    yield vanishes("f'(u) = (u - 1)/u: falls before 1, rises after", sp.simplify(sp.diff(f, u) - (u - 1) / u))
    yield holds("f'' > 0: the minimum is strict", sp.simplify(sp.diff(f, u, 2)).is_positive)
    for n in range(2, 7):
        squares = sp.symbols(f"s1:{n + 1}", positive=True)
        mean = sp.prod([s ** sp.Rational(1, n) for s in squares])
        yield vanishes(f"prod u_i = 1 for {n} numbers", sp.powsimp(sp.prod([s / mean for s in squares])) - 1)


@check(
    "jensen",
    theorem="dirichlet",
    step="Step 3",
    method="symbolic",
    covers="any law with a mean",
    general=True,
    lean=("exp_mean_ge_mean_exp",),
)
def jensen(slope: int = 1) -> Parts:
    """The mean of exponentials is at least the exponential of the mean.

    e^x >= e^m (1 + x - m), equal at x = m only; in expectation with m = E X: E e^X >= e^(E X)
    """
    x, m = sp.symbols("x m", real=True)
    f = sp.exp(x) - sp.exp(m) * (1 + slope * (x - m))
    yield vanishes("touches at x = m", f.subs(x, m), sp.diff(f, x).subs(x, m))
    yield holds("is strictly convex, so above elsewhere", sp.diff(f, x, 2).is_positive)
    mean = sp.Symbol("E_X", real=True)
    tangent = sp.expand(sp.exp(m) * (1 + x - m)).subs(x, mean).subs(m, mean)
    yield vanishes("the tangent's mean is e^(E X)", sp.simplify(tangent - sp.exp(mean)))


@check(
    "energy-bound",
    theorem="dirichlet",
    step="Step 3",
    method="quadrature",
    covers="flows of 3 durations and spirals of 3 rates in the plane",
)
def energy_bound(dimension: float = 2.0) -> Parts:
    """Energies of maps that keep N(0, I) pass both inequalities.

    E |J|^2 >= n E |det J|^(2/n) >= n
    """
    z, weights = grid(2, 40)
    for time in (0.0, 0.05, 0.15, 0.25):
        _, jacobians, divergences = stream(z, time, 100)
        energy = weights @ np.sum(jacobians**2, (1, 2))
        middle = dimension * (weights @ np.exp(divergences))  # |det J|^(2/n) with n = 2
        if time == 0:
            yield close("identity: both are equalities", [energy, middle], [dimension, dimension], 1e-12)
        else:
            yield at_least(f"flow for {time}: AM-GM", energy - middle, 1e-4)
            yield at_least(f"flow for {time}: Jensen", middle - dimension, 1e-4)
    radius = np.sqrt(np.sum(z**2, -1))
    for rate in (0.1, 1.0, math.pi):
        energy = weights @ (2 + rate**2 * radius**2)
        yield at_least(f"spiral of rate {rate:.3g}: AM-GM, with Jensen an equality", energy - dimension, 1e-3)


def _spiral_loss(rate: float, step: float) -> float:
    """E |h(z + sqrt(step) eta) - h(z)|^2 for the spiral, over the radius of z and the noise in its frame."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    r, radial = (nodes + 1) * 5, weights * 5 * (nodes + 1) * 5 * np.exp(-(((nodes + 1) * 5) ** 2) / 2)
    noise, noise_weights = standard_nodes(24)
    along, across = math.sqrt(step) * noise[None, :, None], math.sqrt(step) * noise[None, None, :]
    start = r[:, None, None]
    moved = start + along + 1j * across
    difference = moved * np.exp(1j * rate * np.abs(moved)) - start * np.exp(1j * rate * start)
    mean = np.einsum("rij,i,j->r", np.abs(difference) ** 2, noise_weights, noise_weights)
    return float(radial @ mean)


def _logistic_flow(time: float) -> float:
    """E log det for the flow of psi = z1 / (1 + |z|^2) under a product of logistic densities."""

    def score(u: np.ndarray) -> np.ndarray:
        return -np.tanh(u / 2)

    def fields(_: float, state: np.ndarray) -> np.ndarray:
        x, y, _ignored = state.reshape(3, -1)
        radius = 1 + x**2 + y**2
        psi, d1, d2 = x / radius, 1 / radius - 2 * x**2 / radius**2, -2 * x * y / radius**2
        u, v = -d2 - psi * score(y), d1 + psi * score(x)
        return np.concatenate([u, v, -(u * score(x) + v * score(y))])

    points = np.linspace(-24, 24, 193)  # equal steps converge exponentially for analytic integrands
    mass = 0.25 * np.exp(-np.abs(points)) / (1 + np.exp(-np.abs(points))) ** 2
    x, y = np.meshgrid(points, points, indexing="ij")
    start = np.concatenate([x.ravel(), y.ravel(), np.zeros(x.size)])
    end = integrate.solve_ivp(fields, (0, time), start, rtol=1e-9, atol=1e-11, method="DOP853").y[:, -1]
    return float(np.outer(mass, mass).ravel() @ end.reshape(3, -1)[2])
