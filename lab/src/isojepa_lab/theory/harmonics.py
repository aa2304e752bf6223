r"""What the best white embedding of independent latents takes: their first harmonics, if none is too fast.

Latent i is the stationary reversible diffusion of a law at the rate K_i. With -L phi_k = lambda_k phi_k for
one latent, products are eigenfunctions for all of them,

    Phi_a(z) = prod_i phi_{a_i}(z_i),    Lambda_a = sum_i K_i lambda_{a_i},    corr = exp(-t Lambda_a),

and a white embedding of d dimensions correlates most across a pair if it spans the d slowest (Ky Fan). At one
rate the next are products of two first harmonics, 2 lambda_1, and second harmonics, lambda_2 > lambda_1; so
the embedding is Q phi_1(z). With rates K_1 <= ... <= K_d of one law it is so exactly while

    K_d < min(K_1 lambda_2 / lambda_1, K_1 + K_2) for d >= 3,     K_2 < K_1 lambda_2 / lambda_1 for d = 2,

as a product with the fastest latent is faster than that latent. A ratio K_d / K_1 below min(2, lambda_2 /
lambda_1) suffices, and is needed when two of at least three latents are the slowest.

Brute force: the chain between cells of `isojepa.distributions.sturm_liouville`, whose matrices are multiplied
out over latents and diagonalised whole. What is stated holds for these chains exactly, as for the diffusions
they approach.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np
import sympy as sp

from isojepa.certificates.eigenfunctions import breaking_ratio
from isojepa.distributions import Density, GeneralizedNormal, Uniform, bimodal, eigensystem
from isojepa.distributions.sturm_liouville import Cells, cut
from isojepa_lab.theory.check import Parts, at_least, check, close, holds, vanishes
from isojepa_lab.theory.planning import draw

LAWS: Mapping[str, Density] = {
    "uniform": Uniform(),
    "bimodal": bimodal(4.0),
    "generalised normal 4": GeneralizedNormal(4.0),
    "generalised normal 3/2": GeneralizedNormal(1.5),
}
_TIME = 0.3  # between the two views
Window = Callable[[Sequence[float], float], bool]


def within_window(rates: Sequence[float], ratio: float) -> bool:
    """Whether latents of one law are each represented by their first harmonic.

    Args:
        rates: one per latent, at least two.
        ratio: lambda_2 / lambda_1 of the law.
    """
    slowest, second, *_ = ordered = sorted(rates)
    # of two latents the second slowest is the fastest, and its product with the other faster still
    return ordered[-1] < min(ratio * slowest, slowest + second)


def total(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """The eigenvalue of a product."""
    return first + second


@check(
    "harmonics",
    theorem="naming",
    step="Spectrum",
    method="symbolic; product chains",
    covers="all laws for the products; two latents of {cells} cells each, of 4 laws",
    note="""The maximum of a sum of correlations over white frames is Ky Fan's, used and not derived; that
    lambda_2 > lambda_1 is Sturm's. It speaks of white embeddings: one that is made Gaussian as well, as by
    SIGReg, cannot be Q phi_1(z) unless the latents are Gaussian.""",
)
def harmonics(
    order: int = 1, cells: int = 20, product: Callable[[sp.Expr, sp.Expr], sp.Expr] = total
) -> Parts:
    """At one rate the best white embedding is the first harmonic of every latent, rotated.

    L (f g) = -(K a + J b) f g, exp(-t lambda_1) > max(exp(-2 t lambda_1), exp(-t lambda_2)), h = Q phi_1(z)
    """
    yield vanishes("a product of eigenfunctions is one, eigenvalues add", _of_product(product))
    for name, law in LAWS.items():
        chain, exact = cut(law, cells), eigensystem(law, count=2).eigenvalues
        fine = cut(law, 256).eigenvalues[1:3]
        yield close(f"{name}: 256 cells have lambda_1, lambda_2 of the law", fine / exact[1:], 1.0, 1e-3)
        joint = _joint(chain, (1.0, 1.0))
        values, vectors = np.linalg.eigh(joint)
        sums = np.add.outer(chain.eigenvalues, chain.eigenvalues)
        spectrum = np.sort(np.exp(-_TIME * sums).ravel())
        yield close(f"{name}: the spectrum is exp(-t (lambda_j + lambda_k))", values, spectrum, 1e-10)
        top, claimed = vectors[:, -3:-1], _alone(chain, 2, order)
        yield close(f"{name}: the top two span phi_{order} of each", _least_cosine(top, claimed), 1.0, 1e-9)
        margin = min(2 * exact[1], exact[2]) - exact[1]
        yield at_least(f"{name}: the next mode of the law is faster by", margin, 0.1)
        phi = chain.vectors[:, order] / np.sqrt(chain.mass)
        steps = np.diff(phi) * np.sign(phi[-1])
        yield at_least(f"{name}: phi_{order} is monotone: smallest step", steps, 1e-6)
        frames = [_white(vectors[:, -1], claimed, index) for index in range(100)]
        correlations = [float(np.sum(frame * (joint @ frame))) for frame in frames]
        yield at_least(
            f"{name}: other white frames correlate less by", values[-3:-1].sum() - np.array(correlations), 0.0
        )


@check(
    "harmonics-window",
    theorem="naming",
    step="Spectrum",
    method="product chains; enumeration",
    covers="two and three latents of 4 laws by brute force; {cases} draws of 2 to 5 rates",
    note="""The certificates' `breaking_ratio` is this for one or more slow latents and a fast one. The bound
    of 2 needs two slow latents to multiply: of two latents alone only lambda_2 / lambda_1 counts, which is 4
    for the uniform law, and below 2 for the generalised normal 3/2.""",
)
def window(rule: Window = within_window, cases: int = 200) -> Parts:
    """With unequal rates the first harmonics are taken while the fastest is within a window.

    K_d lambda_1 < min(K_1 lambda_2, (K_1 + K_2) lambda_1), d >= 3; K_2 lambda_1 < K_1 lambda_2, d = 2
    """
    for name, law in LAWS.items():
        exact = eigensystem(law, count=2).eigenvalues
        ratio = float(exact[2] / exact[1])
        yield close(f"{name}: breaking_ratio, one slow latent", breaking_ratio(law, 1), ratio, 1e-6)
        yield close(f"{name}: breaking_ratio, two", breaking_ratio(law, 2), min(2.0, ratio), 1e-6)
        for slow, cells in (((1.0,), 20), ((1.0, 1.0), 7), ((1.0, 1.3), 7)):
            chain = cut(law, cells)
            ratio_of_rates = float(
                chain.eigenvalues[2] / chain.eigenvalues[1]
            )  # of the chain, which is coarse
            for fast in sorted(
                {factor * edge for edge in (ratio_of_rates, 2.0, 2.3) for factor in (0.97, 1.03)}
            ):
                rates = (*slow, fast)
                _, vectors = np.linalg.eigh(_joint(chain, rates))
                dim = len(rates)
                cosine = _least_cosine(vectors[:, -dim - 1 : -1], _alone(chain, dim, 1))
                title = ", ".join(f"{rate:.3g}" for rate in rates)
                yield close(f"{name}: rates {title}", cosine, float(rule(rates, ratio_of_rates)), 1e-6)
        agree = [rule(rates, ratio) == _enumerated(rates, exact) for rates in _rates(cases)]
        yield holds(f"{name}: enumeration of modes agrees for {cases} draws of rates", all(agree))


def _of_product(product: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> sp.Expr:
    """L (f g) + (K a + J b) f g, with f'' and g'' as the eigenvalue equations give them."""
    x, y = sp.symbols("x y", real=True)
    a, b, fast, slow = sp.symbols("a b K J", positive=True)
    f, g, p, q = (sp.Function(name) for name in "fgpq")

    def generator(of: sp.Expr, density: sp.Expr, at: sp.Symbol) -> sp.Expr:
        return sp.diff(density * sp.diff(of, at), at) / density

    both = f(x) * g(y)
    moved = fast * generator(both, p(x), x) + slow * generator(both, q(y), y)
    bend_f = -a * f(x) - sp.diff(f(x), x) * sp.diff(p(x), x) / p(x)
    bend_g = -b * g(y) - sp.diff(g(y), y) * sp.diff(q(y), y) / q(y)
    moved = moved.doit().subs({f(x).diff(x, 2): bend_f, g(y).diff(y, 2): bend_g})
    return sp.expand(moved + product(fast * a, slow * b) * both)


def _joint(chain: Cells, rates: Sequence[float]) -> np.ndarray:
    """The transition of independent latents, made symmetric by the roots of the masses."""
    root = np.sqrt(chain.mass)
    each = (root[:, None] * chain.transition(rate * _TIME) / root for rate in rates)
    whole = np.asarray(reduce(np.kron, each))
    return np.asarray((whole + whole.T) / 2)


def _alone(chain: Cells, dim: int, order: int) -> np.ndarray:
    """(cells^dim, dim) one harmonic of each latent, times the root of the mass."""
    columns = []
    for latent in range(dim):
        factors = (chain.vectors[:, order if at == latent else 0] for at in range(dim))
        columns.append(reduce(np.kron, factors))
    return np.stack(columns, 1)


def _white(constant: np.ndarray, frame: np.ndarray, index: int) -> np.ndarray:
    """A white frame near another: orthonormal, and orthogonal to the constant."""
    size, dim = frame.shape
    moved = frame + draw("white", size, dim, index) / (3 * math.sqrt(size))
    return np.asarray(np.linalg.qr(np.column_stack((constant, moved)))[0][:, 1:])


def _least_cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Of the angles between two spaces of orthonormal columns: 1 if they are the same."""
    return float(np.linalg.svd(first.T @ second, compute_uv=False)[-1])


def _rates(cases: int) -> list[tuple[float, ...]]:
    """Rates of 2 to 5 latents, spread by up to a factor of about 4."""
    rates = draw("rates", cases, 5)
    return [tuple(np.exp(0.4 * row[: 2 + index % 4]).tolist()) for index, row in enumerate(rates)]


def _enumerated(rates: Sequence[float], eigenvalues: np.ndarray) -> bool:
    """Whether the slowest modes, among all of harmonics 0 to 2, are the first harmonics."""
    dim = len(rates)
    modes = {
        index: math.fsum(rate * eigenvalues[k] for rate, k in zip(rates, index, strict=True))
        for index in itertools.product(range(3), repeat=dim)
        if any(index)
    }
    slowest = sorted(modes, key=modes.__getitem__)[:dim]
    return all(sum(index) == 1 for index in slowest)
