r"""The law of a statistic when the samples are Gaussian: simulated once and kept, or known in the limit.

Most statistics here are quadratic in means of n samples, so that for large n they follow

    offset + \sum_k weight_k \chi^2_1,

whose upper tail comes from its moment generating function by inversion along a path of steepest descent,
exact to many digits however far out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.seeds import generator

if TYPE_CHECKING:
    from isojepa.objectives.gaussianity.statistic import Statistic

_BUDGET = 1 << 28  # normal numbers drawn for one law at most, above the smallest number of draws
_BLOCK = 1 << 21  # of them, or of pairs of samples, held at a time
_PATH = 200  # points of the inversion
_PLAIN = (int, float, str, bool, type(None))
_cache: dict[tuple[object, ...], "Null"] = {}


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
        key = (_identity(test), n, dim, draws, seed)
        if key not in _cache:
            source = generator(seed, "null", n, dim)
            with ranks.alone(), torch.no_grad():  # every rank draws the same, so none has to send it
                values = _simulate(test, n, dim, draws, source)
            _cache[key] = cls(np.sort(values.double().nan_to_num(nan=math.inf).numpy()))
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


def _identity(test: "Statistic") -> tuple[object, ...]:
    """What tells a test from another: the classes and plain settings of it and of what it is made of."""
    parts = []
    for part in test.modules():
        settings = {name: value for name, value in vars(part).items() if not name.startswith("_")}
        plain = {name: value for name, value in settings.items() if isinstance(value, _PLAIN)}
        parts.append((type(part), repr(part), tuple(sorted(plain.items()))))
    return tuple(parts)


def _simulate(test: "Statistic", n: int, dim: int, draws: int, source: torch.Generator) -> Tensor:
    values = []
    for start in range(0, draws, size := max(1, _BLOCK // test._held(n, dim))):
        count = min(size, draws - start)
        shape = (n, count) if test.per_slice else (count, n, dim)
        values.append(test.statistic(torch.randn(shape, generator=source, dtype=torch.float32)).reshape(-1))
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
        """P(law >= value), to many digits also far out."""
        lam = np.sort(np.asarray(self.weights, dtype=np.float64))[::-1]
        lam, q = lam / lam[0], (value - self.offset) / lam[0]
        if not q > 0:
            return 1.0
        return 0.0 if math.isinf(q) else float(np.clip(_invert(lam, q), 0.0, 1.0))


def _invert(lam: np.ndarray, q: float) -> float:
    r"""P(sum_k lam_k chi^2_1 >= q) = (1 / 2 pi i) \int e^{K(z) - z q} dz / z, with K the cumulant function.

    The path is a parabola through the saddlepoint s of the integrand, bent as its steepest descent is there;
    it passes to the right of the pole at 0 and around the cut from 1/2 on. Everything is relative to the
    value at s, so that no digits are lost however small the result.
    """

    def slope(s: float) -> float:
        return float((lam / (1 - 2 * s * lam)).sum() - q)

    high = 0.5 - 0.5 / max(q, 1.0001)  # the first term alone reaches q there
    s = 0.0 if slope(0.0) >= 0 else scipy.optimize.brentq(slope, 0.0, high) if slope(high) > 0 else high
    s = max(s, min(0.25, 1 / math.sqrt(2 * (lam**2).sum())))  # away from the pole
    rates = lam / (1 - 2 * s * lam)
    second, third = 2 * (rates**2).sum(), 8 * (rates**3).sum()
    bend = third / (6 * second)
    v = (np.arange(_PATH) + 0.5) * (14 / _PATH)
    y, dy = np.sinh(v) / math.sqrt(second), np.cosh(v) / math.sqrt(second) * (14 / _PATH)
    z = s + 1j * y + bend * y**2
    cumulant = -0.5 * np.log(1 - 2 * np.outer(z, lam)).sum(1)
    start = -0.5 * np.log1p(-2 * s * lam).sum()
    integrand = np.exp(cumulant - z * q - start + s * q) / z * (1j + 2 * bend * y)
    return math.exp(start - s * q) * float((integrand.imag * dy).sum()) / math.pi
