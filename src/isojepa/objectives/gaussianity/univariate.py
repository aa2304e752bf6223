"""Univariate tests of normality, by moments and by order statistics.

Moments: Jarque-Bera and others (Balestriero & LeCun 2025, "LeJEPA", Sections 4.2.1 and 5.2). Finitely many
moments do not determine a distribution (their Theorem 3), and high ones have exploding gradients: these tests
are for comparison, and some regularizers are special cases of them.

Order statistics (Balestriero & LeCun 2025, "LeJEPA", Section 4.2.2, Appendix E). With x_(1) <= ... <= x_(n)
the sorted samples and u_i = Phi(x_(i)), for N(0, 1)

    Cramer-von Mises   W^2 = 1/(12 n) + sum_i (u_i - (2i - 1)/(2n))^2
    Watson             U^2 = W^2 - n (mean(u) - 1/2)^2
    Anderson-Darling   A^2 = -n - sum_i (2i - 1)/n (log u_i + log(1 - u_{n+1-i}))

Sorting needs all samples on one rank; the gradient is that of the sorted samples, which exists almost
everywhere.
"""

import math
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.objectives.gaussianity.statistic import LimitDistribution, Statistic, check_varies
from isojepa.validation import choose, validate_types


class JarqueBera(Statistic):
    r"""n/6 (skewness^2 + (kurtosis - 3)^2 / 4), for normality of any mean and variance.

    It does not see mean or variance, so as a regularizer it lets embeddings collapse.

    Example:
        >>> round(JarqueBera()(torch.tensor([-1.0, 0.0, 0.0, 1.0])).item(), 4)
        0.1667
    """

    least: ClassVar[int] = 2
    limit_from = 1 << 14  # the kurtosis is slow to become normal

    def _of(self, x: Tensor, n: int) -> Tensor:
        mean = ranks.mean(x, n)
        centered = x - mean.unsqueeze(-2)
        return self._shape(centered, n, check_varies(ranks.mean(centered**2, n), mean))

    @staticmethod
    def _shape(centered: Tensor, n: int, variance: Tensor) -> Tensor:
        unit = centered / variance.sqrt().unsqueeze(-2)
        skewness = ranks.mean(unit**3, n)
        kurtosis = ranks.mean(unit**4, n)
        return n / 6 * (skewness**2 + (kurtosis - 3) ** 2 / 4)

    def limit(self, n: int, dim: int) -> LimitDistribution:
        return LimitDistribution((1.0, 1.0))


class ExtendedJarqueBera(JarqueBera):
    r"""n mean^2 / s^2 + (n - 1)(s^2 - 1)^2 / 2 + Jarque-Bera, with s^2 the unbiased variance.

    The first two terms make it a test of N(0, 1).
    """

    def _of(self, x: Tensor, n: int) -> Tensor:
        mean = ranks.mean(x, n)
        centered = x - mean.unsqueeze(-2)
        variance = check_varies(ranks.mean(centered**2, n), mean)
        s2 = variance * (n / (n - 1))
        return n * mean**2 / s2 + (n - 1) * (s2 - 1) ** 2 / 2 + self._shape(centered, n, variance)

    def limit(self, n: int, dim: int) -> LimitDistribution:
        return LimitDistribution((1.0, 1.0, 1.0, 1.0))


class Moments(Statistic):
    r"""n \sum_{k=1}^K w_k (mean(x^k) - E z^k)^2, with z ~ N(0, 1) and w_k = 1/k!.

    Args:
        order: K, the highest moment.
    """

    limit_from = 1 << 62  # high moments are too slow to become normal

    @validate_types
    def __init__(self, order: int = 4) -> None:
        super().__init__()
        if int(order) != order or not 1 <= order <= 20:
            raise ValueError(f"order must be an integer from 1 to 20, got {order}")
        self.order = int(order)

    def _of(self, x: Tensor, n: int) -> Tensor:
        value, power = x.new_zeros(*x.shape[:-2], x.shape[-1]), torch.ones_like(x)  # a rank may be empty
        for k in range(1, self.order + 1):
            power = power * x
            value = value + (ranks.mean(power, n) - normal_moment(k)) ** 2 / math.factorial(k)
        return n * value

    def extra_repr(self) -> str:
        return f"order={self.order}"


class MeanVariance(Statistic):
    r"""mean^2 + (std - 1)^2: averaged over all directions it asks for mean 0 and covariance I and no more.

    With it SIGReg becomes the variance-covariance regularizer of VICReg. The standard deviation has the
    divisor n - 1. Unlike the other statistics its value does not grow with n.
    """

    least = 2
    limit_from = 4096

    def _of(self, x: Tensor, n: int) -> Tensor:
        mean = ranks.mean(x, n)
        variance = ranks.mean((x - mean.unsqueeze(-2)) ** 2, n) * (n / (n - 1))
        # the root has no slope at 0: a collapsed slice gets the gradient 0, not NaN
        return mean**2 + (variance.clamp_min(torch.finfo(x.dtype).tiny).sqrt() - 1) ** 2

    def limit(self, n: int, dim: int) -> LimitDistribution:
        return LimitDistribution(
            (1 / n, 0.5 / n)
        )  # variance of the mean; and of the standard deviation, 1/(2n)


class Likelihood(Statistic):
    r"""Negative log likelihood per sample under N(0, 1): mean(x^2)/2 + log(2 pi)/2.

    The expectation under N(0, 1) is (1 + log 2 pi)/2; both smaller and larger values speak against it. As a
    loss it is smallest for x = 0, so by itself it collapses embeddings.
    """

    two_sided = True

    def _of(self, x: Tensor, n: int) -> Tensor:
        return ranks.mean(x**2, n) / 2 + math.log(2 * math.pi) / 2

    @torch.no_grad()
    def pvalue(self, x: Tensor, draws: int | None = None, seed: int = 0) -> Tensor:
        if draws is not None or (isinstance(x, Tensor) and x.ndim == 1):
            return super().pvalue(x, draws, seed)
        value = self(x)
        n = ranks.count(x.shape[-2], x.device)
        squares = (2 * value.double() - math.log(2 * math.pi)).cpu().numpy() * n  # exactly chi^2_n
        p = 2 * np.minimum(scipy.special.chdtrc(n, squares), scipy.special.chdtr(n, squares))
        return torch.as_tensor(np.minimum(p, 1.0), device=x.device)


def normal_moment(k: int) -> float:
    """E z^k of N(0, 1): (k - 1)!! for even k, else 0."""
    return 0.0 if k % 2 else float(math.prod(range(1, k, 2)))


_TERMS = 100  # of the infinite sums of limit distributions; the mean of the rest is a constant


class SortedSample:
    """Samples in ascending order, with what several tests compute from them, each computed once.

    Args:
        x: (..., samples, slices), sorted along the samples.
        moderate: no value is beyond 12 in size, as of simulated normal numbers: logarithms of probabilities
            may then be taken in the plain way, several times as fast as the one that reaches further out.
    """

    def __init__(self, x: Tensor, moderate: bool = False) -> None:
        self.x, self.moderate = x, moderate

    @cached_property
    def cdf(self) -> Tensor:
        """Phi(x); NaN for Inf, of which a distribution function would make the ordinary levels 0 and 1."""
        if self.moderate:
            return self._below
        return torch.where(self.x.isinf(), torch.nan, torch.special.ndtr(self.x))

    @cached_property
    def log_cdf(self) -> Tensor:
        """log Phi(x)."""
        log: Tensor = self._below.log() if self.moderate else torch.special.log_ndtr(self.x)
        return log

    @cached_property
    def log_tail(self) -> Tensor:
        """log(1 - Phi(x)) = log Phi(-x), without losing the tail."""
        if self.moderate:
            return (torch.erfc(self.x * math.sqrt(0.5)) / 2).log()
        log: Tensor = torch.special.log_ndtr(-self.x)
        return log

    @cached_property
    def _below(self) -> Tensor:
        return torch.erfc(self.x * -math.sqrt(0.5)) / 2


class OrderStatistic(Statistic):
    """Base of the tests of sorted samples. A subclass gives `_sorted`."""

    gathers = True

    def _of(self, x: Tensor, n: int) -> Tensor:
        return self._sorted(SortedSample(x.sort(dim=-2).values), n)

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        raise NotImplementedError


class CramerVonMises(OrderStatistic):
    """Squared distance of distribution functions, W^2."""

    limit_from = 512

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        return self._distance(sample.cdf, n)

    @staticmethod
    def _distance(u: Tensor, n: int) -> Tensor:
        return ((u - (2 * _index(u, n) - 1) / (2 * n)) ** 2).sum(-2) + 1 / (12 * n)

    def limit(self, n: int, dim: int) -> LimitDistribution:
        weights = 1 / (math.pi * np.arange(1, _TERMS + 1)) ** 2
        return LimitDistribution(tuple(weights), 1 / 6 - weights.sum())


class Watson(CramerVonMises):
    """Cramer-von Mises without the part that a shift of the distribution function explains, U^2."""

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        u = sample.cdf
        distance: Tensor = self._distance(u, n) - n * (u.mean(-2) - 0.5) ** 2
        return distance

    def limit(self, n: int, dim: int) -> LimitDistribution:
        weights = np.repeat(1 / (2 * math.pi * np.arange(1, _TERMS + 1)) ** 2, 2)
        return LimitDistribution(tuple(weights), 1 / 12 - weights.sum())


class AndersonDarling(OrderStatistic):
    """Squared distance of distribution functions, with more weight in the tails, A^2."""

    limit_from = 512

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        x, i = sample.x, _index(sample.x, n)
        # the sum over i of (2i - 1) log(1 - u_{n+1-i}), counted from the other end
        weighted = (2 * i - 1) / n * sample.log_cdf + (2 * (n - i) + 1) / n * sample.log_tail
        distance: Tensor = (-n - weighted.sum(-2, dtype=torch.float64)).to(
            x.dtype
        )  # of size n, almost cancel
        return distance

    def limit(self, n: int, dim: int) -> LimitDistribution:
        k = np.arange(1, _TERMS + 1)
        weights = 1 / (k * (k + 1.0))
        return LimitDistribution(tuple(weights), 1 - weights.sum())


class ShapiroWilk(OrderStatistic):
    r"""1 - W, with W = (sum_i a_i x_(i))^2 / sum_i (x_i - mean)^2, for normality of any mean and variance.

    W is the squared correlation of the sorted samples with what a Gaussian sample would give. It does not
    see mean or variance, so as a regularizer it lets embeddings collapse.

    Args:
        weights: "shapiro-francia", a = m/|m| with Blom's m_i = Phi^-1((i - 3/8)/(n + 1/4)); or
            "rahman-govindarajulu", a = V^-1 m / |V^-1 m| with m_i = Phi^-1(i/(n + 1)) and the tridiagonal
            inverse of the approximate covariance V of normal order statistics.
    """

    least = 3

    @validate_types
    def __init__(self, weights: str = "shapiro-francia") -> None:
        super().__init__()
        choose("weights", weights, _WEIGHTS)
        self.weights = weights

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        x = sample.x
        mean = x.mean(-2)
        centered = x - mean.unsqueeze(-2)
        unit = centered / (n * check_varies((centered**2).mean(-2), mean)).sqrt().unsqueeze(-2)
        a = torch.as_tensor(_WEIGHTS[self.weights](n)).to(x)
        # 1 - (a.u)^2 = (1 - a.u)(1 + a.u), and 1 - a.u = |a - u|^2 / 2 keeps its digits
        return ((a.unsqueeze(-1) - unit) ** 2).sum(-2) / 2 * (1 + (a.unsqueeze(-1) * unit).sum(-2))

    def extra_repr(self) -> str:
        return f"weights={self.weights!r}"


class Entropy(OrderStatistic):
    r"""Kullback-Leibler divergence from N(0, 1) by Vasicek's estimate of the entropy.

        mean(x^2)/2 + log(2 pi)/2 - H,     H = (1/n) sum_i log( n/(2m) (x_(i+m) - x_(i-m)) ),

    with indices beyond the ends replaced by the ends. It is biased upwards; p-values account for that.

    Args:
        window: m; by default the integer nearest to sqrt(n).
    """

    least = 3

    @validate_types
    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        if window is not None and (int(window) != window or window < 1):
            raise ValueError(f"window must be a positive integer, got {window}")
        self.window = None if window is None else int(window)

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        x = sample.x
        m = max(1, math.floor(math.sqrt(n) + 0.5)) if self.window is None else self.window
        if 2 * m >= n:
            if self.window is not None:
                raise ValueError(f"window must be below half of the {n} samples, got {m}")
            m = (n - 1) // 2
        index = torch.arange(n, device=x.device)
        gaps = x[..., (index + m).clamp(max=n - 1), :] - x[..., (index - m).clamp(min=0), :]
        check_varies((x[..., -1, :] - x[..., 0, :]) ** 2, x[..., 0, :])
        # more than 2m equal values: the density is infinite there, and so is the divergence; keep it finite
        entropy = (gaps.clamp_min(torch.finfo(x.dtype).tiny) * (n / (2 * m))).log().mean(-2)
        return (x**2).mean(-2) / 2 + math.log(2 * math.pi) / 2 - entropy

    def extra_repr(self) -> str:
        return f"window={self.window}"


class OrderLikelihood(OrderStatistic):
    r"""Mean negative log density of each order statistic under its distribution for n samples of N(0, 1).

    The i-th has the density n!/((i-1)!(n-i)!) Phi^(i-1) (1 - Phi)^(n-i) phi. Unlike `Likelihood` it holds
    the samples apart: its minimum spreads them like a Gaussian.
    """

    def _sorted(self, sample: SortedSample, n: int) -> Tensor:
        x, i = sample.x, _index(sample.x, n)
        rank = np.arange(1, n + 1)  # in float64: these are large numbers that almost cancel
        constant = float(
            (
                scipy.special.gammaln(n + 1)
                - scipy.special.gammaln(rank)
                - scipy.special.gammaln(n + 1 - rank)
            ).mean()
        )
        log_density = -(x**2) / 2 - math.log(2 * math.pi) / 2
        terms = (i - 1) * sample.log_cdf + (n - i) * sample.log_tail + log_density
        distance: Tensor = (-constant - terms.mean(-2, dtype=torch.float64)).to(x.dtype)
        return distance


def _index(x: Tensor, n: int) -> Tensor:
    """1..n along the samples."""
    return torch.arange(1, n + 1, device=x.device, dtype=x.dtype).unsqueeze(-1)


def normal_scores(n: int) -> np.ndarray:
    """Where the n values of an ordered normal sample lie on average, nearly (Blom 1958)."""
    return np.asarray(scipy.special.ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25)))


@lru_cache(maxsize=64)
def _shapiro_francia(n: int) -> np.ndarray:
    m = normal_scores(n)
    weights: np.ndarray = m / np.linalg.norm(m)
    return weights


@lru_cache(maxsize=64)
def _rahman_govindarajulu(n: int) -> np.ndarray:
    m = scipy.special.ndtri(np.arange(1, n + 1) / (n + 1))
    density = np.exp(-(m**2) / 2)  # any constant factor cancels
    flow = density * m
    a = density * (2 * flow - np.append(flow[1:], 0) - np.append(0, flow[:-1]))
    weights: np.ndarray = a / np.linalg.norm(a)
    return weights


_WEIGHTS = {"shapiro-francia": _shapiro_francia, "rahman-govindarajulu": _rahman_govindarajulu}
