r"""Tests by moments: Jarque-Bera and others (Balestriero & LeCun 2025, "LeJEPA", Sections 4.2.1 and 5.2).

A few moments do not determine a law (their Theorem 3) and high ones have exploding gradients: these tests
are here to be compared with, and because some regularizers are special cases of them.
"""

import math
from typing import ClassVar

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.objectives.gaussianity.null import Limit
from isojepa.objectives.gaussianity.statistic import Statistic, check_varies


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
        centred = x - mean.unsqueeze(-2)
        return self._shape(centred, n, check_varies(ranks.mean(centred**2, n), mean))

    @staticmethod
    def _shape(centred: Tensor, n: int, variance: Tensor) -> Tensor:
        unit = centred / variance.sqrt().unsqueeze(-2)
        skewness = ranks.mean(unit**3, n)
        kurtosis = ranks.mean(unit**4, n)
        return n / 6 * (skewness**2 + (kurtosis - 3) ** 2 / 4)

    def limit(self, n: int, dim: int) -> Limit:
        return Limit((1.0, 1.0))


class ExtendedJarqueBera(JarqueBera):
    r"""n mean^2 / s^2 + (n - 1)(s^2 - 1)^2 / 2 + Jarque-Bera, with s^2 the unbiased variance.

    The first two terms make it a test of N(0, 1).
    """

    def _of(self, x: Tensor, n: int) -> Tensor:
        mean = ranks.mean(x, n)
        centred = x - mean.unsqueeze(-2)
        variance = check_varies(ranks.mean(centred**2, n), mean)
        s2 = variance * (n / (n - 1))
        return n * mean**2 / s2 + (n - 1) * (s2 - 1) ** 2 / 2 + self._shape(centred, n, variance)

    def limit(self, n: int, dim: int) -> Limit:
        return Limit((1.0, 1.0, 1.0, 1.0))


class Moments(Statistic):
    r"""n \sum_{k=1}^K w_k (mean(x^k) - E z^k)^2, with z ~ N(0, 1) and w_k = 1/k!.

    Args:
        order: K, the highest moment.
    """

    limit_from = 1 << 62  # high moments are too slow to become normal

    @checked
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

    def limit(self, n: int, dim: int) -> Limit:
        return Limit((1 / n, 0.5 / n))  # variance of the mean; and of the standard deviation, 1/(2n)


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
