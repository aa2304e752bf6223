"""Why LeJEPA asks for an isotropic Gaussian, and what tests of finitely many moments do not see.

For a density p on R^d with mean 0, covariance S and score s = grad log p, the Fisher information is
J(p) = E |s(x)|^2: the leading term of the bias of nearest neighbors and of kernels.

Lemma 6, Theorems 3 and 9 and Section 5.2 of Balestriero & LeCun (2025), LeJEPA.
"""

from collections.abc import Callable

import numpy as np
import sympy as sp
import torch
from scipy.special import gamma

from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import EppsPulley, MeanVariance
from isojepa.seeds import generator, numpy_generator
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes

DIMS = range(1, 7)
MOMENTS = range(1, 9)
_SPECTRA = 200  # random ones for each constraint and dimension


@check(
    "fisher",
    theorem="lejepa",
    step="Lemma 6",
    method="symbolic; quadrature",
    covers="any covariance in symbols; generalized normals of shape 1.2 to 8 by their closed form",
    general=True,
)
def fisher(cross: int = -1) -> Parts:
    """Of all densities of a covariance the Gaussian has the least Fisher information.

    J(p) - tr S^-1 = E |s(x) + S^-1 x|^2 >= 0, for E s(x) x^T = -I by parts
    """
    information, precision = sp.symbols("J P", positive=True)
    # E |s + S^-1 x|^2 = J + 2 tr(S^-1 E[x s^T]) + tr(S^-1 S S^-1), entry by entry of diagonal S
    square = information + 2 * precision * cross + precision**2 / precision
    yield vanishes("the square is J - tr S^-1", square - (information - precision))
    x, variance = sp.symbols("x v", positive=True)
    score = sp.diff(-(x**2) / (2 * variance), x)
    yield vanishes("the Gaussian's score is -S^-1 x: the square is 0", score + x / variance)
    shapes = np.array([1.2, 1.5, 1.9, 2.0, 2.1, 3.0, 4.0, 8.0])
    products = shapes**2 * gamma(2 - 1 / shapes) / gamma(1 / shapes) * gamma(3 / shapes) / gamma(1 / shapes)
    yield close("generalized normals: J v is 1 at shape 2", products[shapes == 2.0], 1.0, 1e-12)
    yield at_least("and above 1 elsewhere: margin", products[shapes != 2.0] - 1, 1e-3)


@check(
    "isotropic",
    theorem="lejepa",
    step="Theorem 9",
    method="symbolic; random matrices",
    covers="trace, determinant, Frobenius norm and spectral radius in 1 to 6 dimensions",
)
def isotropic(power: int = -1) -> Parts:
    """Of covariances of one size a multiple of the identity has the least tr S^-1.

    min tr S^-1 = d^2/t, d det^(-1/d), d^(3/2)/c, d/r for trace t, determinant, Frobenius norm c, radius r
    """
    size = sp.Symbol("c", positive=True)
    constraints: dict[str, tuple[Callable[[list[sp.Expr]], sp.Expr], Callable[[int], sp.Expr]]] = {
        "trace": (lambda values: sum(values), lambda d: d**2 / size),
        "determinant": (lambda values: sp.prod(values), lambda d: d * size ** sp.Rational(-1, d)),
        "Frobenius norm": (
            lambda values: sp.sqrt(sum(value**2 for value in values)),
            lambda d: sp.Integer(d) ** sp.Rational(3, 2) / size,
        ),
    }
    for name, (constraint, least) in constraints.items():
        values, gradients = [], []
        for d in DIMS:
            spectrum = list(sp.symbols(f"s0:{d}", positive=True))
            total = sum(value**power for value in spectrum)
            scale = sp.Symbol("a", positive=True)
            equal = dict.fromkeys(spectrum, scale)
            (root,) = sp.solve(sp.Eq(constraint(spectrum).subs(equal), size), scale)
            values.append(total.subs(equal).subs(scale, root) - least(d))
            slopes = [
                (sp.diff(total, value) / sp.diff(constraint(spectrum), value)).subs(equal)
                for value in spectrum
            ]
            gradients += [slope - slopes[0] for slope in slopes]
        yield vanishes(f"{name}: the published value at the isotropic covariance", *values)
        yield vanishes(f"{name}: no direction along the constraint has a slope there", *gradients)
    source = numpy_generator(0, "theory", "isotropic")
    margins: dict[str, list[float]] = {name: [] for name in (*constraints, "spectral radius")}
    for d in DIMS:
        for _ in range(_SPECTRA):
            scales = source.lognormal(sigma=1.0, size=d)
            sum_of_inverses = float(np.sum(scales ** float(power)))
            minima = {
                "trace": d**2 / scales.sum(),
                "determinant": d * np.prod(scales) ** (-1 / d),
                "Frobenius norm": d**1.5 / np.sqrt(np.square(scales).sum()),
                "spectral radius": d / scales.max(),
            }
            for name, value in minima.items():
                margins[name].append((sum_of_inverses - float(value)) / sum_of_inverses)
    for name, one in margins.items():
        yield at_least(f"{name}: random covariances have no less, relative margin", one, 0.0, 1e-12)


@check(
    "finite-moments",
    theorem="lejepa",
    step="Theorem 3",
    method="exact rational; quadrature",
    covers="1 to 8 moments; discrete laws that match up to 15 moments of N(0, 1)",
)
def finite_moments(extra: int = 2) -> Parts:
    """Finitely many moments do not determine a law, nor single out the Gaussian.

    p and p + e v on K + 2 points, with sum_i v_i x_i^k = 0 for k = 0 .. K
    """
    for order in MOMENTS:
        points = [sp.Rational(index) for index in range(order + extra)]
        powers = sp.Matrix([[point**k for point in points] for k in range(order + 1)])
        kernel = powers.nullspace()
        yield holds(f"{order} moments, {order + extra} points: a kernel of Vandermonde", bool(kernel))
        if not kernel:
            continue
        change = kernel[0] / (2 * len(points) * max(abs(entry) for entry in kernel[0]))
        first = sp.ones(len(points), 1) / len(points)
        second = first + change
        yield vanishes(f"{order} moments agree", powers * (second - first))
        following = sum(w * x ** (order + 1) for w, x in zip(change, points, strict=True))
        yield holds("both are probabilities, and the next moment differs", min(second) > 0 and following != 0)
    for nodes in (2, 4, 8):
        x, w = np.polynomial.hermite_e.hermegauss(nodes)
        w = w / w.sum()
        orders = range(2 * nodes)
        normal = [float(sp.factorial2(k - 1)) if k % 2 == 0 else 0.0 for k in orders]
        scale = [max(1.0, abs(value)) for value in normal]
        moments = [float(w @ x**k) / s for k, s in zip(orders, scale, strict=True)]
        yield close(
            f"{nodes} points have {2 * nodes - 1} moments of N(0, 1), relative",
            moments,
            [value / s for value, s in zip(normal, scale, strict=True)],
            1e-9,
        )
        sample = torch.from_numpy(np.repeat(x, np.round(4000 * w).astype(int)))[:, None]
        rate = float(EppsPulley().statistic(sample)[0]) / len(sample)
        yield at_least(f"Epps-Pulley of the {nodes} points, per sample", rate, 1e-5)


@check(
    "mean-variance",
    theorem="lejepa",
    step="Section 5.2: VICReg",
    method="symbolic; random matrices",
    covers="any dimension by the moments of the sphere; samples in 3, 8 and 32 dimensions",
    general=True,
    note="""The package's statistic has (std - 1)^2 where the formula has (variance - 1)^2: the same zeros,
    and a quarter of it near them.""",
)
def mean_variance(fourth: int = 3) -> Parts:
    """Over all directions mean and variance ask for mean 0 and covariance I: VCReg.

    E_a [(a'm)^2 + (a'Ca - 1)^2] = |m|^2 / d + (2 |C - I|^2 + tr(C - I)^2) / (d (d + 2))
    """
    d = sp.Symbol("d", positive=True)
    for size in (1, 2, 3):
        c = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"c{min(i, j)}{max(i, j)}", real=True))
        excess = c - sp.eye(size)
        average = sp.Integer(0)
        for i in range(size):
            for j in range(size):
                pair = fourth if i == j else 1
                average += excess[i, i] * excess[j, j] * pair / (d * (d + 2))
                if i != j:
                    average += 2 * excess[i, j] ** 2 / (d * (d + 2))
        expected = (2 * sum(entry**2 for entry in excess) + excess.trace() ** 2) / (d * (d + 2))
        yield vanishes(f"{size} x {size}: fourth moments of the sphere give the formula", average - expected)
    errors = []
    for size in (3, 8, 32):
        source = generator(0, "theory", "mean-variance", size)
        x = torch.randn(4000, size, generator=source, dtype=torch.float64)
        mixing = torch.eye(size) + 0.02 * torch.randn(size, size, generator=source)
        x = x @ mixing.double() + 0.02
        directions = draw_directions(size, 20_000, source).double()
        measured = float(MeanVariance().statistic(x @ directions.T).mean())
        mean, excess_matrix = x.mean(0), torch.cov(x.T) - torch.eye(size)
        penalty = 2 * excess_matrix.square().sum() + excess_matrix.trace() ** 2
        predicted = float(mean.square().sum() / size + penalty / (4 * size * (size + 2)))
        errors.append(measured / predicted - 1)
    yield close("the package's statistic over 20,000 directions near I, relative", errors, 0.0, 0.05)
