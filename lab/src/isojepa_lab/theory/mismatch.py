"""What mismatched pairs do to the map: in the population they scale it, in a sample they add noise.

A pair is right with probability 1 - epsilon; otherwise its second half comes from another state. With x of
covariance S1, y = W x + n and N = Cov(n), the least squares of such pairs is

    W_eps = (1 - epsilon) W,  Cov(y - W_eps x) = R_eps = N + epsilon (2 - epsilon) W S1 W^T,

so the condition number does not change and R^2 on right pairs falls by the factor 1 - epsilon^2 only. What
is published falls faster, and its condition number grows from 1.7 to 138 at epsilon = 0.3 (Table 4 of Zhang
et al., 2026): that is the sample, whose n pairs add a matrix of variance R_eps / ((n - d - 1) l) along an
input direction of variance l. Four pairs for each dimension give such numbers
(`isojepa_lab.stress.model`).
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import sympy as sp
import torch

from isojepa.seeds import generator
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import draw
from isojepa_lab.theory.symmetry import free_matrix

eps = sp.Symbol("epsilon", nonnegative=True)

# embeddings of five states, two dimensions each, that no linear map relates exactly
FIRST = ((3, -1), (1, 2), (-2, 1), (0, -3), (-2, 1))
SECOND = ((2, 1), (3, -2), (-1, 0), (-3, 2), (-1, 4))


@check(
    "pair-noise",
    theorem="alignment",
    step="Section B.2",
    method="symbolic; exact rational",
    covers="every epsilon in a world of five states, by enumeration of all pairs",
    note="""The paper expects mismatched pairs to inflate kappa(W) and to make R^2 collapse. In the population
    they do neither: all singular values shrink by 1 - epsilon, so kappa is unchanged, and R^2 on right pairs
    is (1 - epsilon^2) of what it was: 0.91 of it at epsilon = 0.3, where 0.78 is published. Scored on pairs
    of the same noise it is (1 - epsilon)^2. The rest is the sample: see pair-noise-sample. A mismatch that
    never hits the right state by chance counts n / (n - 1) times, for n states.""",
)
def pair_noise(power: int = 2) -> Parts:
    """Mismatched pairs scale the map by 1 - epsilon; its condition number does not change.

    W_eps = (1 - epsilon) W, R^2(right pairs) = (1 - epsilon^2) R^2, R^2(same noise) = (1 - epsilon)^2 R^2
    """
    x, y = _centered(FIRST), _centered(SECOND)
    n = len(x)
    right = {(i, i): sp.Rational(1, n) for i in range(n)}
    any_pair = {(i, j): sp.Rational(1, n * n) for i in range(n) for j in range(n)}
    other = {(i, j): sp.Rational(1, n * (n - 1)) for i in range(n) for j in range(n) if i != j}
    clean, noisy = _fit(x, y, right), _fit(x, y, _mix(right, any_pair, eps))
    yield vanishes("the map is scaled", *sp.expand(noisy - (1 - eps) * clean))
    never = _fit(x, y, _mix(right, other, eps))
    more = eps * sp.Rational(n, n - 1)
    yield vanishes("never itself: epsilon n / (n - 1)", *sp.expand(never - (1 - more) * clean))
    ratio = sp.expand(noisy.T * noisy - (1 - eps) ** 2 * clean.T * clean)
    yield vanishes("every singular value by the same factor, so kappa is unchanged", *ratio)
    before = _score(x, y, right, clean)
    after = _score(x, y, right, noisy)
    yield vanishes("R^2 on right pairs", sp.expand(after - (1 - eps**power) * before))
    same = _score(x, y, _mix(right, any_pair, eps), noisy)
    yield vanishes("R^2 on pairs of the same noise", sp.expand(same - (1 - eps) ** power * before))
    correct = _score(x, y, right, noisy / (1 - eps))
    yield vanishes("divided by 1 - epsilon the map is as good as new", sp.expand(correct - before))
    halved = (after / before).subs(eps, sp.Rational(1, 2))
    yield holds("at epsilon = 1/2 three quarters are left", halved == sp.Rational(3, 4))


@check(
    "pair-noise-residual",
    theorem="alignment",
    step="Not in the paper",
    method="symbolic; exact rational",
    covers="all maps and covariances of the plane; all outcomes of a sample of three pairs",
    note="""Given x the residual has mean zero, so least squares is unbiased for (1 - epsilon) W in every
    sample; its variance depends on x, which adds terms of relative size 2 / d.""",
)
def pair_noise_residual(power: int = 2) -> Parts:
    """Around the scaled map the residual is centered, larger by epsilon (2 - epsilon) W S W^T.

    E[r | x] = 0, Cov(r | x) = N + epsilon W S W^T + epsilon (1 - epsilon) W x x^T W^T
    """
    w, root, noise_root = (free_matrix(name, 2, 2) for name in ("w", "s", "n"))
    x = sp.Matrix(sp.symbols("x0:2", real=True))
    s, noise = root * root.T, noise_root * noise_root.T
    scaled = (1 - eps) * w
    signal = w * s * w.T
    mean = (1 - eps) * (w - scaled) * x + eps * (-scaled * x)
    yield vanishes("mean zero given x", *sp.expand(mean))
    off = (w - scaled) * x
    second_moment = (1 - eps) * (off * off.T + noise) + eps * (scaled * x * x.T * scaled.T + signal + noise)
    variance = noise + eps * signal + eps * (1 - eps) * w * x * x.T * w.T
    yield vanishes("covariance given x", *sp.expand(second_moment - variance))
    mixed = noise + eps * signal + eps * (1 - eps) * signal  # E x x^T = S
    expected = noise + (1 - (1 - eps) ** power) * signal
    yield vanishes("and on average", *sp.expand(mixed - expected))
    rest = signal + noise - scaled * s * scaled.T
    yield vanishes("which is Cov(y) less what the map explains", *sp.expand(mixed - rest))
    mean_slope, variance, formula = _every_sample((1, 2, -3), 2, 1, 3)
    yield vanishes("a sample of three pairs: unbiased", sp.expand(mean_slope - 2 * (1 - eps)))
    yield vanishes("and its variance, outcome by outcome", sp.expand(variance - formula))


@check(
    "pair-noise-sample",
    theorem="alignment",
    step="Not in the paper",
    method="symbolic; random matrices",
    covers="Gaussian inputs of every dimension and sample size; four simulated samples",
    note="""This is where the published growth of kappa(W) must come from: nothing in the population does it.
    E |W v|^2 = (1 - epsilon)^2 |W v|^2 + tr R_eps / ((n - d - 1) l) for an input direction v of variance l:
    weak directions are the first to be drowned, and standardizing each coordinate does not remove them. With
    four or five pairs for each dimension W is nearly singular for white inputs too. With exact pairs (N = 0,
    epsilon = 0) the second term is absent, so mismatch is what switches it on.""",
)
def pair_noise_sample(lost: int = 1) -> Parts:
    """A sample of n pairs adds noise, most along weak directions: only this moves kappa.

    E (X^T X)^-1 = S^-1 / (n - d - 1); excess error tr(R_eps) d / (n - d - 1); E |W v|^2 -> infinity as l -> 0
    """
    k, t = sp.Symbol("k", positive=True), sp.Symbol("t", positive=True)
    density = t ** (k / 2 - 1) * sp.exp(-t / 2) / (2 ** (k / 2) * sp.gamma(k / 2))
    inverse = sp.integrate(sp.expand_power_base(density.subs(k, k + 2) / t), (t, 0, sp.oo))
    yield vanishes("E 1 / chi^2 of k + 2 degrees is 1 / k", sp.simplify(sp.gammasimp(inverse - 1 / k)))
    errors = []
    for size in range(1, 7):
        x = draw("inputs", 20, size)
        diagonal = 1 / np.diag(np.linalg.inv(x.T @ x))
        for j in range(size):
            others = np.delete(x, j, axis=1)
            residual = (
                x[:, j] - others @ np.linalg.lstsq(others, x[:, j], rcond=None)[0] if size > 1 else x[:, 0]
            )
            errors.append(abs(diagonal[j] - residual @ residual))
    yield close("1 / ((X^T X)^-1)_jj is the rest of x_j given the others", errors, 0.0, 1e-9)
    n, d, level = sp.symbols("n d l", positive=True)
    degrees = n - (d - 1)  # of that rest: n rows less d - 1 others
    mean_inverse = (1 / k).subs(k, degrees - 2)
    yield vanishes("so its mean is 1 / (n - d - 1)", sp.simplify(mean_inverse - 1 / (n - d - lost)))
    noise, signal = sp.symbols("N S", nonnegative=True)
    total = noise + eps * (2 - eps) * signal
    along = (1 - eps) ** 2 + total * mean_inverse / level
    margin = sp.Symbol("m", positive=True)  # n = d + 1 + m
    exact_pairs = along.subs(noise, 0).subs(n, d + 1 + margin)
    third = exact_pairs.subs({eps: sp.Rational(3, 10), signal: 1})
    yield holds("a mismatch and a weak direction: without bound", sp.limit(third, level, 0, "+") == sp.oo)
    yield vanishes("exact pairs, none mismatched: no such term", exact_pairs.subs(eps, 0) - 1)
    weak, white, many = (_growth(24, *case, 0.3) for case in ((400, 2.0), (400, 0.0), (20_000, 0.0)))
    yield at_least("24 dimensions, 400 pairs: growth of kappa, inputs of variance 1 / k^2", weak, 5.0)
    yield at_least("as a multiple of that of white inputs", weak / white, 3.0)
    yield at_least(
        "white inputs, 5 pairs for each dimension: growth of kappa", _growth(24, 120, 0.0, 0.3), 5.0
    )
    yield close("white inputs, 20,000 pairs: nearly none", many, 1.0, 0.2)


def _centered(rows: Sequence[Sequence[int]]) -> list[sp.Matrix]:
    n = len(rows)
    means = [sp.Rational(sum(column), n) for column in zip(*rows, strict=True)]
    return [sp.Matrix([value - mean for value, mean in zip(row, means, strict=True)]) for row in rows]


Law = dict[tuple[int, int], sp.Expr]


def _mix(right: Law, wrong: Law, share: sp.Expr) -> Law:
    """The law of pairs (i, j) of which a share is wrong."""
    keys = {*right, *wrong}
    return {key: (1 - share) * right.get(key, 0) + share * wrong.get(key, 0) for key in keys}


def _fit(x: list[sp.Matrix], y: list[sp.Matrix], law: Law) -> sp.Matrix:
    """Least squares over a law of pairs."""
    inner, cross = sp.zeros(2, 2), sp.zeros(2, 2)
    for (i, j), weight in law.items():
        inner += weight * x[i] * x[i].T
        cross += weight * y[j] * x[i].T
    return sp.expand(cross * sp.expand(inner).inv())


def _score(x: list[sp.Matrix], y: list[sp.Matrix], law: Law, w: sp.Matrix) -> sp.Expr:
    """R^2 of a map over a law of pairs."""
    error, spread = sp.S.Zero, sp.S.Zero
    for (i, j), weight in law.items():
        rest = y[j] - w * x[i]
        error += weight * rest.dot(rest)
        spread += weight * y[j].dot(y[j])
    return sp.expand(1 - error / sp.expand(spread))


def _every_sample(x: Sequence[int], slope: int, noise: int, other: int) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Mean and variance of the slope over all samples of y = slope x +- noise, or +- other if mismatched.

    Returns:
        The mean, the variance, and the variance by the formula for the residual.
    """
    norm = sum(value * value for value in x)
    mean, square = sp.S.Zero, sp.S.Zero
    for outcome in itertools.product((0, 1), (-1, 1), repeat=len(x)):
        wrong, signs = outcome[::2], outcome[1::2]
        chance = sp.Rational(1, 2 ** len(x)) * sp.prod([eps if bad else 1 - eps for bad in wrong])
        rows = zip(x, wrong, signs, strict=True)
        total = sum(v * (sign * other if bad else slope * v + sign * noise) for v, bad, sign in rows)
        ratio = Fraction(total, norm)
        estimate = sp.Rational(ratio.numerator, ratio.denominator)
        mean += chance * estimate
        square += chance * estimate**2
    signal = other**2 - noise**2  # so that a wrong half has the variance of a right one
    variances = [noise**2 + eps * signal + eps * (1 - eps) * slope**2 * v * v for v in x]
    formula = sum(v * v * g for v, g in zip(x, variances, strict=True)) / sp.Integer(norm) ** 2
    return mean, sp.expand(square - mean**2), formula


def _growth(size: int, pairs: int, decay: float, share: float) -> float:
    """How much kappa of a fitted rotation grows when a share of the pairs is mismatched; inputs k^-decay."""
    source = generator(0, "theory", "mismatch", size, pairs)
    spread = np.arange(1.0, size + 1) ** (-decay / 2)
    x = torch.randn(pairs, size, generator=source, dtype=torch.float64).numpy() * spread
    q = np.linalg.qr(draw("rotation", size, size))[0]
    noise = torch.randn(pairs, size, generator=source, dtype=torch.float64).numpy()
    y = x @ q.T + 0.01 * spread.min() * noise
    moved = y.copy()
    wrong = torch.randperm(pairs, generator=source).numpy()[: int(share * pairs)]
    moved[wrong] = y[np.roll(wrong, 1)]
    kappas = [np.linalg.cond(np.linalg.lstsq(x, target, rcond=None)[0]) for target in (y, moved)]
    return float(kappas[1] / kappas[0])
