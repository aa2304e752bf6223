r"""The law of a statistic when the samples are Gaussian: simulated once and kept, or known in the limit.

Most statistics here are quadratic in means of n samples, so that for large n they follow

    offset + \sum_k weight_k \chi^2_1,

whose upper tail is computed by Imhof's (1961) inversion, and far out, where inversion has no digits left,
by the saddlepoint approximation of Lugannani and Rice (Kuonen 1999).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import ndtr
from torch import Tensor

from isojepa import ranks
from isojepa.seeds import generator

if TYPE_CHECKING:
    from isojepa.objectives.gaussianity.statistic import Statistic

_BUDGET = 1 << 28  # normal numbers drawn for one law at most, above the smallest number of draws
_BLOCK = 1 << 21  # of them, or of pairs of samples, held at a time
_cache: dict[tuple, "Null"] = {}


@dataclass(frozen=True)
class Null:
    """The law of a statistic as simulated values.

    Attributes:
        values: (draws,) of the statistic under the null, ascending.
    """

    values: np.ndarray

    @classmethod
    def simulated(
        cls, test: "Statistic", n: int, dim: int = 1, draws: int | None = None, seed: int = 0
    ) -> "Null":
        """Draw samples of N(0, I) and keep the statistic's values, once for each combination of arguments."""
        if draws is None:
            draws = max(999, min(9_999, _BUDGET // test._held(n, dim)))
        if draws < 1:
            raise ValueError(f"draws must be positive, got {draws}")
        key = (type(test), repr(test), n, dim, draws, seed)
        if key not in _cache:
            source = generator(seed, "null", n, dim)
            with ranks.alone(), torch.no_grad():  # every rank draws the same, so none has to send it
                values = _simulate(test, n, dim, draws, source)
            _cache[key] = cls(np.sort(values.double().numpy()))
        return _cache[key]

    def pvalue(self, values: Tensor, two_sided: bool = False) -> Tensor:
        """Share of the null at least as far out; never 0, since the sample itself counts as one draw."""
        seen = values.detach().double().cpu().numpy()
        draws = len(self.values)
        above = draws - np.searchsorted(self.values, seen, side="left")
        p = (1 + above) / (1 + draws)
        if two_sided:
            below = np.searchsorted(self.values, seen, side="right")
            p = np.minimum(1, 2 * np.minimum(p, (1 + below) / (1 + draws)))
        return torch.as_tensor(p, device=values.device)


def _simulate(test: "Statistic", n: int, dim: int, draws: int, source: torch.Generator) -> Tensor:
    values = []
    for start in range(0, draws, size := max(1, _BLOCK // test._held(n, dim))):
        count = min(size, draws - start)
        shape = (n, count) if test.per_slice else (count, n, dim)
        values.append(test.statistic(torch.randn(shape, generator=source)).reshape(-1))
    return torch.cat(values)


@dataclass(frozen=True)
class Limit:
    """The law offset + sum_k weight_k chi^2_1.

    Attributes:
        weights: positive.
        offset: constant part.
    """

    weights: Sequence[float]
    offset: float = 0.0

    def pvalue(self, values: Tensor, two_sided: bool = False) -> Tensor:
        """Upper tail at each value."""
        seen = values.detach().double().cpu().numpy()
        p = np.array([self.tail(float(value)) for value in seen.reshape(-1)]).reshape(seen.shape)
        if two_sided:
            p = np.minimum(1, 2 * np.minimum(p, 1 - p))
        return torch.as_tensor(p, device=values.device)

    def tail(self, value: float) -> float:
        """P(law >= value)."""
        q = value - self.offset
        if q <= 0:
            return 1.0
        p = self._imhof(q)
        return p if p > 1e-4 else self._saddlepoint(q)

    @cached_property
    def _lambda(self) -> np.ndarray:
        weights = np.sort(np.asarray(self.weights, dtype=np.float64))[::-1]
        return weights[weights > 1e-12 * weights[0]]

    def _imhof(self, q: float) -> float:
        """1/2 + (1/pi) int_0^inf sin(theta(u)) / (u rho(u)) du, after Imhof (1961), eq. 3.2."""
        scale = self._lambda.sum()
        lam, q = self._lambda / scale, q / scale
        # rho grows like u^(terms/2): stop where the integrand is negligible, with knots for its wiggles
        high = 1.0
        while (0.25 * np.log1p((lam * high) ** 2).sum() + np.log(high)) < np.log(1e7) and high < 1e6:
            high *= 2
        knots = int(min(200_000, 4000 + 40 * q * high / np.pi))
        u = (np.arange(knots) + 0.5) * (high / knots)
        angle, log_rho = -0.5 * q * u, np.zeros_like(u)
        for weight in lam:
            angle += 0.5 * np.arctan(weight * u)
            log_rho += 0.25 * np.log1p((weight * u) ** 2)
        total = (np.sin(angle) / (u * np.exp(log_rho))).sum() * (high / knots)
        return float(np.clip(0.5 + total / np.pi, 0.0, 1.0))

    def _saddlepoint(self, q: float) -> float:
        lam = self._lambda

        def slope(s: float) -> float:
            return float((lam / (1 - 2 * s * lam)).sum() - q)

        edge = 0.5 / lam[0]
        low = -1.0
        while slope(low) > 0:
            low *= 2
        s = brentq(slope, low, edge * (1 - 1e-12))
        cumulant = -0.5 * np.log1p(-2 * s * lam).sum()
        w = np.sign(s) * np.sqrt(max(0.0, 2 * (s * q - cumulant)))
        v = s * np.sqrt(2 * ((lam / (1 - 2 * s * lam)) ** 2).sum())
        return float(ndtr(-(w + np.log(v / w) / w))) if w else 0.5
