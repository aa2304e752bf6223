"""Tests of Gaussianity as their definitions read: float64 numpy, loops and numerical integrals, slow.

Every function takes one sample, (n,) or (n, d), and returns a float. Nothing here is vectorised over slices
and nothing is rearranged for speed or for digits: the package is compared with these.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import integrate, stats

NORMAL = stats.norm()


# --- one dimension: distribution functions -----------------------------------------------------------------


def _squared_distance(x: np.ndarray, weight: Callable[[float], float]) -> float:
    """n int_0^1 (F_n - u)^2 weight(u) du with u = Phi(x), between one jump of F_n and the next."""
    n = len(x)
    u = sorted(float(NORMAL.cdf(value)) for value in x)
    total = 0.0
    for steps, (low, high) in enumerate(pairwise([0.0, *u, 1.0])):
        total += integrate.quad(
            lambda v, level=steps / n: (level - v) ** 2 * weight(v), low, high, epsabs=1e-13, epsrel=1e-12
        )[0]
    return n * total


def cramer_von_mises(x: np.ndarray) -> float:
    """n int (F_n - Phi)^2 dPhi."""
    return _squared_distance(x, lambda u: 1.0)


def anderson_darling(x: np.ndarray) -> float:
    """n int (F_n - Phi)^2 / (Phi (1 - Phi)) dPhi."""
    return _squared_distance(x, lambda u: 1 / (u * (1 - u)))


def watson(x: np.ndarray) -> float:
    """n int (F_n - Phi - int (F_n - Phi) dPhi)^2 dPhi, Watson's (1961) definition as a variance."""
    n = len(x)
    u = sorted(float(NORMAL.cdf(value)) for value in x)
    first = second = 0.0
    for steps, (low, high) in enumerate(pairwise([0.0, *u, 1.0])):
        first += integrate.quad(lambda v, level=steps / n: level - v, low, high, epsabs=1e-14)[0]
        second += integrate.quad(lambda v, level=steps / n: (level - v) ** 2, low, high, epsabs=1e-14)[0]
    return n * (second - first**2)


# --- one dimension: moments --------------------------------------------------------------------------------


def jarque_bera(x: np.ndarray) -> float:
    n = len(x)
    mean = sum(x) / n
    second, third, fourth = (sum((value - mean) ** k for value in x) / n for k in (2, 3, 4))
    return n / 6 * ((third / second**1.5) ** 2 + (fourth / second**2 - 3) ** 2 / 4)


def extended_jarque_bera(x: np.ndarray) -> float:
    n = len(x)
    mean = sum(x) / n
    s2 = sum((value - mean) ** 2 for value in x) / (n - 1)
    return n * mean**2 / s2 + (n - 1) / 2 * (s2 - 1) ** 2 + jarque_bera(x)


def moments(x: np.ndarray, order: int = 4) -> float:
    n, total = len(x), 0.0
    for k in range(1, order + 1):
        total += (sum(value**k for value in x) / n - NORMAL.moment(k)) ** 2 / math.factorial(k)
    return n * total


def mean_variance(x: np.ndarray) -> float:
    return np.mean(x) ** 2 + (np.std(x, ddof=1) - 1) ** 2


def likelihood(x: np.ndarray) -> float:
    return -np.mean(NORMAL.logpdf(x))


# --- one dimension: order ----------------------------------------------------------------------------------


def shapiro_francia(x: np.ndarray) -> float:
    """1 - squared correlation of the sorted samples with Blom's scores."""
    n = len(x)
    scores = [NORMAL.ppf((i - 3 / 8) / (n + 1 / 4)) for i in range(1, n + 1)]
    return 1 - np.corrcoef(scores, np.sort(x))[0, 1] ** 2


def order_covariance(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Approximate means and covariance of normal order statistics, entry by entry.

    m_i = Phi^-1(p_i) and V_ij = p_i (1 - p_j) / ((n + 2) phi(m_i) phi(m_j)) for i <= j, p_i = i / (n + 1).
    """
    p = [i / (n + 1) for i in range(1, n + 1)]
    m = [float(NORMAL.ppf(value)) for value in p]
    covariance = np.empty((n, n))
    for i in range(n):
        for j in range(i, n):
            covariance[i, j] = p[i] * (1 - p[j]) / ((n + 2) * NORMAL.pdf(m[i]) * NORMAL.pdf(m[j]))
            covariance[j, i] = covariance[i, j]
    return np.array(m), covariance


def rahman_govindarajulu(x: np.ndarray) -> float:
    """1 - W with the weights of Shapiro and Wilk, V^-1 m normalised, from the dense matrix V."""
    m, covariance = order_covariance(len(x))
    a = np.linalg.inv(covariance) @ m
    a /= math.sqrt(sum(a**2))
    return 1 - (a @ np.sort(x)) ** 2 / sum((x - np.mean(x)) ** 2)


def entropy(x: np.ndarray, window: int | None = None) -> float:
    """Cross entropy with N(0, 1) less scipy's estimate of Vasicek's entropy."""
    n = len(x)
    window = window or min(max(1, math.floor(math.sqrt(n) + 0.5)), (n - 1) // 2)
    return likelihood(x) - stats.differential_entropy(x, window_length=window, method="vasicek")


def order_likelihood(x: np.ndarray) -> float:
    """Phi(x_(i)) follows Beta(i, n + 1 - i); the density of x_(i) has one factor phi more."""
    n, ordered = len(x), np.sort(x)
    terms = [
        stats.beta(i, n + 1 - i).logpdf(NORMAL.cdf(value)) + NORMAL.logpdf(value)
        for i, value in enumerate(ordered, start=1)
    ]
    return -float(np.mean(terms))


# --- one dimension: characteristic functions ---------------------------------------------------------------


def _ecf_error(x: np.ndarray, t: float, unbiased: bool) -> float:
    """|phi_n(t) - phi(t)|^2, or without the terms j = k of its double sum."""
    n, phi = len(x), math.exp(-(t**2) / 2)
    ecf = np.mean(np.exp(1j * t * x))
    power = (n * abs(ecf) ** 2 - 1) / (n - 1) if unbiased else abs(ecf) ** 2
    return power - 2 * phi * ecf.real + phi**2


def epps_pulley_integral(x: np.ndarray, sigma: float = 1.0, unbiased: bool = False) -> float:
    """n int |phi_n - phi|^2 e^{-t^2/(2 sigma^2)} dt over the line, by adaptive quadrature."""

    def integrand(t: float) -> float:
        return _ecf_error(x, t, unbiased) * math.exp(-((t / sigma) ** 2) / 2)

    end = 10 * sigma
    return len(x) * integrate.quad(integrand, -end, end, epsabs=1e-13, epsrel=1e-12, limit=500)[0]


def epps_pulley_trapezoid(
    x: np.ndarray, knots: int = 17, t_max: float = 5.0, sigma: float = 1.0, unbiased: bool = False
) -> float:
    """The same by the trapezoid rule on linspace(-t_max, t_max, knots), knot by knot."""
    grid = np.linspace(-t_max, t_max, knots)
    values = [_ecf_error(x, t, unbiased) * math.exp(-((t / sigma) ** 2) / 2) for t in grid]
    return len(x) * float(np.trapezoid(values, grid))


def epps_pulley_pairs(x: np.ndarray, sigma: float = 1.0) -> float:
    """n times the mean, over pairs j != k, of the kernel whose full mean is the squared distance."""
    n, total = len(x), 0.0
    c = math.sqrt(2 * math.pi)
    # int e^{its} e^{-a t^2/2} dt = sqrt(2 pi/a) e^{-s^2/(2a)}, with a = 1/sigma^2, and 1 and 2 more for phi
    a = 1 / sigma**2
    for j in range(n):
        for k in range(n):
            if j != k:
                total += c / math.sqrt(a) * math.exp(-((x[j] - x[k]) ** 2) / (2 * a))
                total -= c / math.sqrt(1 + a) * math.exp(-(x[j] ** 2) / (2 * (1 + a)))
                total -= c / math.sqrt(1 + a) * math.exp(-(x[k] ** 2) / (2 * (1 + a)))
                total += c / math.sqrt(2 + a)
    return total / (n - 1)


# --- many dimensions: integrals over a line or a plane -----------------------------------------------------


def _over_space(integrand: Callable[[np.ndarray], float], dim: int, end: float) -> float:
    """int integrand(t) dt over R or R^2, for an integrand that is negligible beyond `end`."""
    if dim == 1:
        return integrate.quad(lambda s: integrand(np.array([s])), -end, end, epsabs=1e-12, limit=400)[0]
    if dim != 2:
        raise ValueError(f"dim must be 1 or 2, got {dim}")
    # Gauss-Legendre in both variables; adaptive quadrature would take minutes for the same digits
    nodes, weights = np.polynomial.legendre.leggauss(80)
    total = 0.0
    for s, a in zip(end * nodes, end * weights, strict=True):
        for t, b in zip(end * nodes, end * weights, strict=True):
            total += a * b * integrand(np.array([s, t]))
    return total


def bhep(y: np.ndarray, beta: float = 1.0) -> float:
    n, dim = y.shape

    def integrand(t: np.ndarray) -> float:
        ecf = np.mean(np.exp(1j * (y @ t)))
        density = math.exp(-(t @ t) / (2 * beta**2)) / (2 * math.pi * beta**2) ** (dim / 2)
        return abs(ecf - math.exp(-(t @ t) / 2)) ** 2 * density

    return n * _over_space(integrand, dim, 8 * beta)


def henze_zirkler(y: np.ndarray) -> float:
    n, dim = y.shape
    return bhep(y, (n * (2 * dim + 1) / 4) ** (1 / (dim + 4)) / 2**0.5)


def moment_generating(y: np.ndarray, beta: float = 2.5) -> float:
    n, dim = y.shape

    def integrand(t: np.ndarray) -> float:
        return (np.mean(np.exp(y @ t)) - math.exp((t @ t) / 2)) ** 2 * math.exp(-beta * (t @ t))

    return n * _over_space(integrand, dim, 7 / math.sqrt(beta - 1))


def _product(y: np.ndarray, t: np.ndarray) -> float:
    return float(np.mean(np.cos(y @ t)) * np.mean(np.exp(y @ t)))


def cf_mgf(y: np.ndarray, gamma: float = 5.0) -> float:
    n, dim = y.shape

    def integrand(t: np.ndarray) -> float:
        return (_product(y, t) - 1) ** 2 * math.exp(-gamma * (t @ t))

    return n * _over_space(integrand, dim, 8 / math.sqrt(gamma))


def cf_mgf_loops(y: np.ndarray, gamma: float = 5.0) -> float:
    """The closed form of the paper, as a sum over four indices (Henze, Jimenez-Gamero & Meintanis 2019)."""
    n, dim = y.shape
    four = pairs = 0.0
    for j in range(n):
        for k in range(n):
            a = y[j] + y[k]
            pairs += math.exp((y[j] @ y[j] - y[k] @ y[k]) / (4 * gamma)) * math.cos(y[j] @ y[k] / (2 * gamma))
            for first in range(n):
                for second in range(n):
                    for b in (y[first] - y[second], y[first] + y[second]):
                        four += math.exp((a @ a - b @ b) / (4 * gamma)) * math.cos(a @ b / (2 * gamma))
    return (math.pi / gamma) ** (dim / 2) * (four / (2 * n**3) - 2 * pairs / n + n)


def simplified_cf_mgf(y: np.ndarray, gamma: float = 5.0) -> float:
    n, dim = y.shape

    def integrand(t: np.ndarray) -> float:
        return (_product(y, t) - 1) * math.exp(-gamma * (t @ t))

    return math.sqrt(n) * _over_space(integrand, dim, 8 / math.sqrt(gamma))


def henze_visagie(y: np.ndarray, gamma: float = 5.0) -> float:
    n, dim = y.shape

    def integrand(t: np.ndarray) -> float:
        growth = np.exp(y @ t)
        residual = np.mean(y * growth[:, None], axis=0) - t * np.mean(growth)
        return residual @ residual * math.exp(-gamma * (t @ t))

    return n * _over_space(integrand, dim, 8 / math.sqrt(gamma))


def standardized(y: np.ndarray) -> np.ndarray:
    """S^{-1/2} (y - mean) with S the covariance of divisor n and its symmetric root."""
    values, vectors = np.linalg.eigh(np.cov(y.T, bias=True).reshape(y.shape[1], y.shape[1]))
    return (y - y.mean(0)) @ vectors @ np.diag(values**-0.5) @ vectors.T


def mardia_skewness(y: np.ndarray) -> float:
    n = len(y)
    return n / 6 * sum((y[j] @ y[k]) ** 3 for j in range(n) for k in range(n)) / n**2


def mardia_kurtosis(y: np.ndarray) -> float:
    n, dim = y.shape
    kurtosis = sum((row @ row) ** 2 for row in y) / n
    return ((kurtosis - dim * (dim + 2)) / math.sqrt(8 * dim * (dim + 2) / n)) ** 2


UNIVARIATE: dict[str, Callable[[np.ndarray], float]] = {
    "epps-pulley": epps_pulley_trapezoid,
    "epps-pulley-exact": epps_pulley_integral,
    "cramer-von-mises": cramer_von_mises,
    "anderson-darling": anderson_darling,
    "watson": watson,
    "jarque-bera": jarque_bera,
    "extended-jarque-bera": extended_jarque_bera,
    "shapiro-francia": shapiro_francia,
    "rahman-govindarajulu": rahman_govindarajulu,
    "moments": moments,
    "mean-variance": mean_variance,
    "entropy": entropy,
    "likelihood": likelihood,
    "order-likelihood": order_likelihood,
}

# of samples as they are; a test that standardizes is given `standardized` ones
MULTIVARIATE: dict[str, Callable[[np.ndarray], float]] = {
    "bhep": bhep,
    "henze-zirkler": henze_zirkler,
    "moment-generating": moment_generating,
    "cf-mgf": cf_mgf,
    "simplified-cf-mgf": simplified_cf_mgf,
    "henze-visagie": henze_visagie,
    "mardia-skewness": mardia_skewness,
    "mardia-kurtosis": mardia_kurtosis,
}


# --- limit laws --------------------------------------------------------------------------------------------


def watson_tail(value: float) -> float:
    """P(U^2 >= value) in the limit: 2 sum_k (-1)^(k-1) e^{-2 k^2 pi^2 value} (Watson 1961)."""
    return 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * math.pi) ** 2 * value) for k in range(1, 200))


def pairs_tail(rates: list[float], value: float) -> float:
    """P(sum_k w_k chi^2_2 >= value) for distinct w_k: a sum of exponential variables of mean 2 w_k."""
    total = 0.0
    for k, w in enumerate(rates):
        factor = math.prod(w / (w - v) for j, v in enumerate(rates) if j != k)
        total += factor * math.exp(-value / (2 * w))
    return total


def _smirnov_tail(determinant: Callable[[float], float], edges: list[float], value: float) -> float:
    """P(sum_k w_k chi^2_1 >= value) for simple weights, with all digits in the far tail (Smirnov 1937).

        (1/pi) sum_k (-1)^(k-1) int_{mu_{2k-1}}^{mu_{2k}} e^{-u value/2} / (u sqrt|D(u)|) du,

    with mu_1 < mu_2 < ... the inverse weights and D(u) = prod_k (1 - u/mu_k).

    Args:
        determinant: D, up to its sign.
        edges: the first inverse weights, an even number of them.
        value: where the tail starts.
    """
    total = 0.0
    for k, (low, high) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        middle, half = (low + high) / 2, (high - low) / 2

        def integrand(angle: float, middle: float = middle, half: float = half) -> float:
            u = middle + half * math.sin(angle)  # removes the poles of order 1/2 at both ends
            return math.exp(-u * value / 2) / (u * math.sqrt(abs(determinant(u)))) * half * math.cos(angle)

        end = math.pi / 2 * (1 - 1e-9)
        total += (-1) ** k * integrate.quad(integrand, -end, end, epsabs=0, epsrel=1e-9, limit=200)[0]
    return total / math.pi


def cramer_von_mises_tail(value: float) -> float:
    """P(W^2 >= value) in the limit: weights 1/(k pi)^2, D(u) = sin(sqrt u) / sqrt u."""
    edges = [(k * math.pi) ** 2 for k in range(1, 13)]
    return _smirnov_tail(lambda u: math.sin(math.sqrt(u)) / math.sqrt(u), edges, value)


def anderson_darling_tail(value: float) -> float:
    """P(A^2 >= value) in the limit: weights 1/(k (k+1)), D(u) = -cos(pi sqrt(1 + 4u) / 2) / (pi u)."""
    edges = [k * (k + 1.0) for k in range(1, 25)]
    return _smirnov_tail(lambda u: math.cos(math.pi / 2 * math.sqrt(1 + 4 * u)) / (math.pi * u), edges, value)
