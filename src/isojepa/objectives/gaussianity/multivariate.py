r"""Multivariate tests of N(0, I) (Balestriero & LeCun 2025, "LeJEPA", Appendix F).

With y_1..y_n the samples in R^d, phi_n their empirical characteristic function and M_n(t) the mean of
e^{t.y_j}, their empirical moment generating function,

    BHEP               n \int |phi_n(t) - e^{-|t|^2/2}|^2 N(t; 0, beta^2 I) dt     Baringhaus & Henze 1988
    MomentGenerating   n \int (M_n(t) - e^{|t|^2/2})^2 e^{-beta |t|^2} dt          Henze & Jimenez-Gamero 2019
    CFMGF              n \int (Re phi_n(t) M_n(t) - 1)^2 e^{-gamma |t|^2} dt       Henze et al. 2019
    SimplifiedCFMGF    sqrt(n) \int (Re phi_n(t) M_n(t) - 1) e^{-gamma |t|^2} dt
    HenzeVisagie       n \int |grad M_n(t) - t M_n(t)|^2 e^{-gamma |t|^2} dt       Henze & Visagie 2020

each in closed form as a sum over pairs of samples (over four for CFMGF), and Mardia's (1970) skewness and
kurtosis.
"""

import math

import torch
from torch import Tensor

from isojepa.objectives.directions import normal_points
from isojepa.objectives.gaussianity.statistic import (
    LimitDistribution,
    Multivariate,
    PairSide,
    PairSums,
    exponential,
)
from isojepa.validation import validate_types

_POINTS = 64  # integration points in memory at a time: within the CPU cache


class BHEP(Multivariate):
    """Baringhaus, Henze, Epps and Pulley: distance of characteristic functions under a Gaussian weight.

    Args:
        beta: width of the weight; large values look at fine structure.
        standardize: test for any normal distribution.
    """

    @validate_types
    def __init__(self, beta: float = 1.0, standardize: bool = False) -> None:
        super().__init__(standardize)
        self.beta = _above("beta", beta, 0)

    def _bandwidth(self, n: int, dim: int) -> float:
        return self.beta

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        b2 = self._bandwidth(n, sample.dim) ** 2

        def near(left: PairSide, right: PairSide) -> Tensor:
            return exponential(left, right, b2, -b2 / 2, top=0.0).sum((-1, -2))  # -|y_j - y_k|^2 b2 / 2

        pairs = sample.total(near) / n
        cross = (1 + b2) ** (-sample.dim / 2) * torch.exp(-b2 / (2 * (1 + b2)) * sample.norms).sum(-1)
        statistic: Tensor = pairs - 2 * cross + n * (1 + 2 * b2) ** (-sample.dim / 2)
        return statistic

    def extra_repr(self) -> str:
        return f"beta={self.beta}, standardize={self.standardize}"


class HenzeZirkler(BHEP):
    """BHEP with the bandwidth beta = ((2d + 1) n / 4)^(1/(d+4)) / sqrt(2) of Henze and Zirkler (1990).

    Args:
        standardize: test for any normal distribution, as in their paper.
    """

    @validate_types
    def __init__(self, standardize: bool = False) -> None:
        super().__init__(1.0, standardize)

    def _bandwidth(self, n: int, dim: int) -> float:
        beta: float = ((2 * dim + 1) * n / 4) ** (1 / (dim + 4)) / math.sqrt(2)
        return beta

    def extra_repr(self) -> str:
        return f"standardize={self.standardize}"


class MomentGenerating(Multivariate):
    """Distance of moment generating functions.

    Args:
        beta: decay of the weight, above 1; above 2 the statistic has a limit distribution.
        standardize: test for any normal distribution.
    """

    @validate_types
    def __init__(self, beta: float = 2.5, standardize: bool = False) -> None:
        super().__init__(standardize)
        self.beta = _above("beta", beta, 1)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        dim, beta = sample.dim, self.beta
        constant = dim / 2 * math.log(math.pi / beta)

        def growth(left: PairSide, right: PairSide) -> Tensor:  # |y_j + y_k|^2 / (4 beta)
            return exponential(left, right, 1 / (2 * beta), 1 / (4 * beta), constant).sum((-1, -2))

        pairs = sample.total(growth) / n
        cross = torch.exp(sample.norms / (4 * beta - 2) + dim / 2 * math.log(math.pi / (beta - 0.5))).sum(-1)
        return pairs - 2 * cross + n * _power(math.pi / (beta - 1), dim / 2)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, standardize={self.standardize}"


class CFMGF(Multivariate):
    """Product of characteristic and moment generating function, which is 1 for every N(0, s^2 I).

    It does not see the variance: alone it neither rejects a wrong scale nor, as a loss, prevents collapse.
    The closed form sums over four samples at a time, in O(n^4): for at most 128 samples. With `points` the
    integral is estimated at that many quasi-random t, in O(n points).

    Args:
        gamma: decay of the weight, above 1.
        points: number of t, 0 for the closed form; by default that up to 32 samples, and 1024 points above.
        standardize: test for any normal distribution.
    """

    @validate_types
    def __init__(self, gamma: float = 5.0, points: int | None = None, standardize: bool = False) -> None:
        super().__init__(standardize)
        self.gamma = _above("gamma", gamma, 1)
        if points is not None and (int(points) != points or points < 0):
            raise ValueError(f"points must be a positive integer, or 0 for the closed form, got {points}")
        self.points = None if points is None else int(points)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        x, points = sample.x, self._points(n)
        if points == 0 and n > 128:
            raise ValueError(f"points must be positive for more than 128 samples, got 0 for {n}")
        return self._estimated(x, n, points) if points else self._closed(x, n)

    def _points(self, n: int) -> int:
        return self.points if self.points is not None else (0 if n <= 32 else 1024)

    def _estimated(self, x: Tensor, n: int, points: int) -> Tensor:
        dim = x.shape[-1]
        t = normal_points(dim, points).to(x) / math.sqrt(2 * self.gamma)
        total = x.new_zeros(x.shape[:-2])
        for some in t.split(_POINTS):
            angles = x @ some.T
            product = angles.cos().mean(-2) * angles.exp().mean(-2)
            total = total + ((product - 1) ** 2).sum(-1)
        return n * _power(math.pi / self.gamma, dim / 2) * total / points

    def _held(self, n: int, dim: int) -> int:
        points = self._points(n)
        return n * max(dim, points) if points else 2 * n**4

    def _closed(self, x: Tensor, n: int) -> Tensor:
        dim, gamma = x.shape[-1], self.gamma
        plus, minus = ((x.unsqueeze(-2) + s * x.unsqueeze(-3)).flatten(-3, -2) for s in (1, -1))
        total = x.new_zeros(x.shape[:-2])
        outer = (plus**2).sum(-1)
        for other in (minus, plus):
            inner = (other**2).sum(-1)
            for rows, norms in zip(plus.split(256, -2), outer.split(256, -1), strict=True):
                exponent = (norms.unsqueeze(-1) - inner.unsqueeze(-2)) / (4 * gamma)
                total = total + (exponent.exp() * (rows @ other.mT / (2 * gamma)).cos()).sum((-1, -2))
        pairs = PairSums(x).tilted(gamma)
        return _power(math.pi / gamma, dim / 2) * (total / (2 * n**3) - 2 / n * pairs + n)

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, points={self.points}, standardize={self.standardize}"


class SimplifiedCFMGF(Multivariate):
    """The integral of `CFMGF` without the square: it can have either sign, and both speak against the null.

    Like `CFMGF` it does not see the variance.

    Args:
        gamma: decay of the weight, above 1.
        standardize: test for any normal distribution.
    """

    two_sided = True

    @validate_types
    def __init__(self, gamma: float = 5.0, standardize: bool = False) -> None:
        super().__init__(standardize)
        self.gamma = _above("gamma", gamma, 1)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        mean = sample.tilted(self.gamma) / n**2
        return _power(math.pi / self.gamma, sample.dim / 2) * math.sqrt(n) * (mean - 1)

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, standardize={self.standardize}"


class HenzeVisagie(Multivariate):
    """How far the moment generating function is from solving grad M = t M, as that of N(0, I) does.

    Args:
        gamma: decay of the weight, above 1; above 2 the statistic has a limit distribution.
        standardize: test for any normal distribution.
    """

    @validate_types
    def __init__(self, gamma: float = 5.0, standardize: bool = False) -> None:
        super().__init__(standardize)
        self.gamma = _above("gamma", gamma, 1)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        dim, gamma = sample.dim, self.gamma
        constant = dim / 2 * math.log(math.pi / gamma)
        shift = 1 / (4 * gamma**2) - 1 / (2 * gamma)

        def part(left: PairSide, right: PairSide) -> Tensor:
            """Growth times y_j.y_k + shift |y_j + y_k|^2 + dim / (2 gamma)."""
            growth = exponential(left, right, 1 / (2 * gamma), 1 / (4 * gamma), constant)
            first = (growth.sum(-1) * (shift * left.norms + dim / (2 * gamma))).sum(-1)
            second = (growth.sum(-2) * (shift * right.norms)).sum(-1)
            inner = (growth @ right.x * left.x).sum((-1, -2))
            return first + second + (1 + 2 * shift) * inner

        return sample.total(part) / n

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, standardize={self.standardize}"


class MardiaSkewness(Multivariate):
    """n b / 6 with Mardia's skewness b, the mean of (y_j.y_k)^3 over all pairs.

    Args:
        standardize: center and whiten first, as in Mardia's definition; the statistic then tends to
            chi^2 with d (d + 1)(d + 2) / 6 degrees of freedom.
    """

    limit_from = 1 << 14

    @validate_types
    def __init__(self, standardize: bool = True) -> None:
        super().__init__(standardize)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        x, dim = sample.x, sample.dim
        if dim**2 >= n:
            return (x @ x.mT).pow(3).mean((-1, -2)) * (n / 6)
        # sum over pairs of (y_j.y_k)^3 = |sum_j of y_j x y_j x y_j|^2, for many samples the smaller object
        squares = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)
        return (squares.mT @ x / n).square().sum((-1, -2)) * (n / 6)

    def limit(self, n: int, dim: int) -> LimitDistribution | None:
        freedom = dim * (dim + 1) * (dim + 2) // 6
        return LimitDistribution((1.0,) * freedom) if self.standardize and freedom <= 1000 else None


class MardiaKurtosis(Multivariate):
    """n (b - d (d + 2))^2 / (8 d (d + 2)) with Mardia's kurtosis b, the mean of |y_j|^4.

    Args:
        standardize: center and whiten first, as in Mardia's definition; the statistic then tends to chi^2
            with one degree of freedom.
    """

    limit_from = 1 << 14

    @validate_types
    def __init__(self, standardize: bool = True) -> None:
        super().__init__(standardize)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        expected = sample.dim * (sample.dim + 2)
        kurtosis = sample.norms.square().mean(-1)
        return n * (kurtosis - expected) ** 2 / (8 * expected)

    def limit(self, n: int, dim: int) -> LimitDistribution | None:
        return LimitDistribution((1.0,)) if self.standardize else None


def _power(base: float, exponent: float) -> float:
    """base^exponent as a factor of a statistic.

    Raises:
        ValueError: it is too small for float64, so that the statistic would always be 0.
    """
    log = exponent * math.log(base)
    if log < -700:
        raise ValueError(f"gamma must be smaller in so many dimensions: the statistic is below e^{log:.0f}")
    return math.exp(log) if log < 700 else math.inf


def _above(name: str, value: float, least: float) -> float:
    if not least < value < math.inf:
        raise ValueError(f"{name} must be above {least} and finite, got {value}")
    return float(value)
