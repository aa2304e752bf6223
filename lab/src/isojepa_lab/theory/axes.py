r"""Axes by cumulants and by rates, and the world in which neither identifies them: normal latents of one
rate.

Let y = Q s with s independent, of mean 0 and variance 1. The fourth cumulants of y, contracted with a vector
w twice, and its covariance with itself a time later, are

    C4(y)(w, w) = Q diag(k_i (Q^T w)_i^2) Q^T,          E y' y^T = Q diag(c_i) Q^T,

k_i the excess kurtosis and c_i the correlation of s_i. The eigenvectors of the first are the axes for almost
every w if at most one k_i is 0; those of the second if all c_i differ, normal axes included. The angle of two
axes moves the off-diagonal entry of the second by c_i - c_j.

An encoder that compresses large embeddings adds k (delta_ab delta_cd + delta_ac delta_bd + delta_ad delta_bc)
to the fourth cumulants, the same along every direction. It moves no axis and no slope of the equations for
them; but the kurtosis of mixtures may then be the larger one in size, where a search without signs ends.

Latents that are normal with one c have E y' y^T = c I at every rotation, and a Gaussian process has no more
than its covariances: its law does not know Q. In a copula world z = T(y), the latents T(Q y) have the law of
z, and some mixing gives them the same observations. No method can name these axes, whatever it measures.
"""

import math
from collections.abc import Sequence

import numpy as np
import sympy as sp
import torch
from scipy import special

from isojepa.distributions import NormalScores, Uniform
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.dynamics import MatrixMaker
from isojepa_lab.theory.maps import grid
from isojepa_lab.theory.planning import Plane, draw, random_orthogonal

SIZES = range(2, 9)
# of the uniform, the Laplace, the logistic law, and others; the normal law has 0
KURTOSES = (-1.2, 3.0, 1.2, -1.0, 0.8, -0.5, 2.0, -1.2)
# of z_1, z_2, z'_1, z'_2
_POWERS = ((1, 1, 0, 0), (2, 2, 0, 0), (1, 0, 1, 0), (0, 1, 1, 0), (2, 0, 2, 0), (1, 1, 1, 1), (2, 0, 0, 2))


@check(
    "comon-cumulants",
    theorem="naming",
    step="Axes by shape",
    method="symbolic; random rotations",
    covers="two axes of any law with cumulants; sizes 2 to 8 with {normal} axis without excess kurtosis",
    note="""Comon's theorem for laws that their moments determine; for others it is Darmois' and Skitovich's,
    which is not derived. One order of cumulants is enough where at most one of its k_i is 0, equal k_i
    included; a law that is not normal may have kurtosis 0 and then needs another order.""",
)
def cumulants(normal: int = 1, power: int = 2) -> Parts:
    """Cumulants name all axes up to order and sign if at most one of them is normal.

    C4(y)(w, w) = Q diag(k_i (q_i.w)^2) Q^T; two axes: k_m (c s)^(m-1) = 0 for every m >= 3
    """
    c, s = sp.symbols("c s", positive=True)
    m = sp.Symbol("m", integer=True, positive=True)
    # cumulants of u = c s_1 + s s_2 and v = c s_2 - s s_1 with v once, and twice
    crossed = sp.Matrix([[-(c ** (m - 1)) * s, s ** (m - 1) * c], [c ** (m - 2) * s**2, s ** (m - 2) * c**2]])
    factor = sp.powsimp(sp.expand(crossed.det()) / (c * s) ** (m - 1), force=True)
    remainder = sp.simplify(factor.subs(m, sp.Symbol("n", integer=True, positive=True) + 2))
    yield vanishes("independent after a turn: det = -(c s)^(m-1) (c^2 + s^2)", remainder + c**power + s**2)
    for size in SIZES:
        excess = np.array(KURTOSES[:size])
        excess[size - normal :] = 0.0
        q, w = random_orthogonal(size), draw("contraction", size, 1)[:, 0]
        contraction = np.einsum("abcd,c,d->ab", _fourth_cumulants(q, excess), w, w)
        formed = q @ np.diag(excess * (q.T @ w) ** 2) @ q.T
        yield close(f"size {size}: contracted cumulants, from moments", contraction, formed, 1e-10)
        values, vectors = np.linalg.eigh(contraction)
        yield close(f"size {size}: its eigenvectors are the axes", _overlap(vectors, q), 1.0, 1e-6)
        yield at_least(f"size {size}: distance of its eigenvalues", np.diff(values), 1e-4)


@check(
    "common-cumulant",
    theorem="naming",
    step="Axes by shape",
    method="symbolic; random starts",
    covers="two axes; sizes 3 to 8 of one kurtosis, {starts} starts each",
    note="""In the plane the largest and the smallest kurtosis cannot be told from each other by fourth
    cumulants alone: adding to all of them and turning by an eighth is the same as a change of sign.""",
)
def common_cumulant(share: sp.Expr = sp.S.One, starts: int = 6, climb: bool = True) -> Parts:
    """A cumulant that all directions share hides axes from a search, and not from a climb.

    k(w) = sum k_i w_i^4 + k, |w| = 1: as large at an axis as at even mixtures if k = -k_i (d + 1) / (2 d)
    """
    first, other, common, angle = sp.symbols("k_i k_j k angle", real=True)
    c, s = sp.cos(angle), sp.sin(angle)
    # cumulants of u = c s_1 + s s_2 and v = c s_2 - s s_1: u thrice with v, and v thrice with u
    crossed = (-(c**3) * s * first + s**3 * c * other, -c * s**3 * first + s * c**3 * other)
    equation = sp.simplify(
        crossed[0] - crossed[1]
    )  # what is in common has no such entries: u and v are white
    slope = sp.diff(equation, angle).subs(angle, 0)
    yield vanishes(
        "the slope of the equation at the axes, whatever is in common", slope + share * (first + other)
    )
    along = first * c**4 + other * s**4 + common * (c**2 + s**2) ** 2
    yield vanishes("it moves no direction of extreme kurtosis", sp.diff(sp.diff(along, common), angle))
    d = sp.Symbol("d", positive=True)
    level = -first * (d + 1) / (2 * d)
    yield vanishes("where axes and even mixtures are equal in size", first + level + first / d + level)
    for size in range(3, 9):
        excess = np.ones(size)
        hiding = float(level.subs({first: 1, d: size})) - 0.1
        entries = []
        for start in range(starts):
            q = random_orthogonal(size)
            begun = np.linalg.qr(draw(f"start {start}", size, size))[0]
            entries.append(_overlap(_climb(_fourth_cumulants(q, excess), hiding, begun, climb), q).min())
        yield at_least(f"size {size}: every climb ends at the axes", entries, 1 - 1e-6)


@check(
    "rates",
    theorem="naming",
    step="Axes by rates",
    method="symbolic; random rotations",
    covers="two axes; sizes 2 to 8",
    note="""Of any law, normal ones included. Two axes of one c at one lag may differ at another: what counts
    is whether their correlations differ at some lag. For first harmonics c_i = exp(-K_i lambda_1 t), so they
    differ at every lag or at none. Axes of one rate are left to shape.""",
)
def rates(correlations: Sequence[float] = (0.95, 0.9, 0.84, 0.78, 0.7, 0.61, 0.5, 0.4)) -> Parts:
    """The eigenvectors of the lagged covariance are the axes exactly if no two rates agree.

    E y' y^T = Q diag(c) Q^T, d/d angle of its off-diagonal entry = c_i - c_j
    """
    first, other, angle = sp.symbols("c_i c_j angle", real=True)
    turn = sp.Matrix([[sp.cos(angle), sp.sin(angle)], [-sp.sin(angle), sp.cos(angle)]])
    lagged = turn * sp.diag(first, other) * turn.T
    entry = lagged[1, 0]
    yield vanishes("the off-diagonal entry", entry - (other - first) * sp.sin(2 * angle) / 2)
    slope = sp.diff(entry, angle).subs(angle, 0)
    yield vanishes("its derivative is the difference of the rates", slope - (other - first))
    zeros = sp.solveset(sp.sin(2 * angle), angle, sp.Interval.Ropen(0, sp.pi))
    yield holds("it is 0 at quarter turns alone, if they differ", zeros == sp.FiniteSet(0, sp.pi / 2))
    for size in SIZES:
        q, c = random_orthogonal(size), np.array(correlations[:size])
        values, vectors = np.linalg.eigh(q @ np.diag(c) @ q.T)
        yield close(f"size {size}: eigenvectors are the axes", _overlap(vectors, q), 1.0, 1e-9)
        yield close(f"size {size}: eigenvalues are the correlations", values, np.sort(c), 1e-12)


@check(
    "one-rate",
    theorem="naming",
    step="The blind spot",
    method="symbolic; quadrature; random rotations",
    covers="the plane; sizes 2 to 8 over {steps} steps; a copula world of two uniform latents",
    note="""So in Ornstein-Uhlenbeck and copula worlds of one rate no axes can be named, by any method from
    any amount of data. What is known beyond the data may name them: a restricted mixing, actions, labels.""",
)
def one_rate(
    correlations: Sequence[float] = (0.9,) * 8, matrix: MatrixMaker = random_orthogonal, steps: int = 6
) -> Parts:
    """Normal latents of one rate have the same law of paths after every rotation.

    (I x Q) (R x I) (I x Q)^T = R x I, R_st = c^|s-t|; T(Q y) has the law of T(y), a copula world's
    """
    plane = Plane(["c"])
    for flip in (1, -1):
        q, c = plane.turn(flip), plane.matrix("c 0, 0 c")
        yield vanishes(f"E y' y^T = c I stays, determinant {flip}", *plane.reduced(q @ c @ q.T - c))
    for size in SIZES:
        turn = np.kron(np.eye(steps), matrix(size))
        law = _path_covariance(np.array(correlations[:size]), steps)
        yield close(f"size {size}: the covariance of paths", turn @ law @ turn.T, law, 1e-12)
    yield from _turned_copula(correlations[0], correlations[1])


def _fourth_cumulants(q: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """(n, n, n, n) of y = Q s, from the moments of independent s of variance 1."""
    size = len(excess)
    pairings = _pairings(size)
    moments = pairings.copy()
    for i in range(size):
        moments[i, i, i, i] = 3 + excess[i]
    turned = np.einsum("ijkl,ai,bj,ck,dl->abcd", moments, q, q, q, q, optimize=True)
    return np.asarray(turned - pairings)  # y is white too


def _pairings(size: int) -> np.ndarray:
    """(n, n, n, n) fourth moments of white normal values: the same along every direction."""
    one = np.eye(size)
    kinds = (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
    return np.asarray(sum(np.einsum(f"{a},{b}->ijkl", one, one) for a, b in kinds))


def _climb(cumulants: np.ndarray, common: float, start: np.ndarray, climb: bool) -> np.ndarray:
    """Columns at which FastICA's fixed point ends; climbing, less than any kurtosis seen is taken away."""
    cumulants = cumulants + common / 3 * _pairings(len(start))
    axes, least = start, np.inf
    for _ in range(60):
        cubes = np.einsum("abcd,bi,ci,di->ai", cumulants, axes, axes, axes, optimize=True)
        objective = (axes * cubes).sum(0)
        least = min(least, 2 * objective.min() - objective.mean())
        u, _, vt = np.linalg.svd(cubes - (least * axes if climb else 0.0))
        axes = u @ vt
    return np.asarray(axes)


def _overlap(vectors: np.ndarray, q: np.ndarray) -> np.ndarray:
    """For each axis the largest |cosine| with a vector; 1 for all if they agree up to order and sign."""
    return np.asarray(np.abs(vectors.T @ q).max(0))


def _path_covariance(correlations: np.ndarray, steps: int) -> np.ndarray:
    """(steps n, steps n) of independent stationary Ornstein-Uhlenbeck processes."""
    apart = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    blocks = [[np.diag(correlations**lag) for lag in row] for row in apart]
    return np.block(blocks)


def _turned_copula(first: float, other: float) -> Parts:
    """Two copula worlds with the same observations, whose latents T(y) and T(Q y) have one law of pairs."""
    scores = NormalScores(Uniform())
    angle = 0.6
    q = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    nodes, weights = grid(4, 24)
    c = np.array([first, other])
    y, y_next = nodes[:, :2], c * nodes[:, :2] + np.sqrt(1 - c**2) * nodes[:, 2:]
    end = math.sqrt(3)

    def latent(of: np.ndarray) -> np.ndarray:
        return np.asarray(end * special.erf(of / math.sqrt(2)))

    mapped = scores.to_z(torch.from_numpy(nodes[:50])).numpy()
    yield close("T(y) of the uniform law is that of the copula world", mapped, latent(nodes[:50]), 1e-6)
    latents_of, turned = (
        latent(np.concatenate((one, two), 1)) for one, two in ((y, y_next), (y @ q.T, y_next @ q.T))
    )
    for powers in _POWERS:
        mean, other_mean = (
            weights @ np.prod(one ** np.array(powers), axis=1) for one in (latents_of, turned)
        )
        yield close(f"moment {powers} of (T(Q y), T(Q y')) is that of (T(y), T(y'))", other_mean, mean, 1e-4)
    warped = latent(special.ndtri((turned[:200, :2] / end + 1) / 2) @ q)
    yield close("a mixing T Q^T T^-1 shows the same latents", warped, latents_of[:200, :2], 1e-6)
