r"""Tests of Gaussianity: statistics, null distributions, and sums over pairs of samples.

A statistic maps samples to a number that grows with their distance from N(0, 1), or N(0, I), except for
two-sided tests. It is differentiable, so training can minimize it, and it has a p-value. Under DDP it is the
statistic of the whole batch.

The null distribution is simulated once per test, sample size and dimension, or known in the limit: most
statistics are quadratic in means of n samples, so that for large n they follow

    offset + \sum_k weight_k \chi^2_1,

whose upper tail follows from its moment generating function by inversion along a path of steepest descent,
accurate to many digits in the far tail.

Multivariate statistics are sums over all pairs of samples.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.objectives.objective import at_least_float32, check_floats
from isojepa.seeds import generator
from isojepa.validation import validate_types

_MAX_NUMBERS = 1 << 28  # of normal numbers per null distribution, above the minimal number of draws
_BLOCK = 1 << 21  # normal numbers in memory at a time
_PATH_POINTS = 200  # of the inversion
_PLAIN = (int, float, str, bool, type(None))
_cache: dict[tuple[object, ...], "NullDistribution"] = {}


@dataclass(frozen=True)
class NullDistribution:
    """The null distribution of a statistic, as simulated values.

    Attributes:
        values: (draws,) of the statistic under the null, ascending.
    """

    values: np.ndarray

    @classmethod
    def simulated(
        cls, test: "Statistic", n: int, dim: int = 1, draws: int | None = None, seed: int = 0
    ) -> "NullDistribution":
        """Simulate the statistic of samples of N(0, I); cached by the arguments."""
        if draws is None:
            draws = max(999, min(9_999, _MAX_NUMBERS // test._held(n, dim)))
        if draws < 1:
            raise ValueError(f"draws must be positive, got {draws}")
        key = (_identity(test), n, dim, draws, seed)
        if key not in _cache:
            source = generator(seed, "null", n, dim)
            with ranks.alone(), torch.no_grad():  # every rank draws the same numbers: no communication
                values = _simulate(test, n, dim, draws, source)
            _cache[key] = cls(np.sort(values.double().nan_to_num(nan=math.inf).numpy()))
        return _cache[key]

    def pvalue(self, values: Tensor, two_sided: bool = False) -> Tensor:
        """Fraction of the null at least as extreme; positive, since the sample counts as one draw."""
        observed = values.detach().double().cpu().numpy()
        draws = len(self.values)
        above = draws - np.searchsorted(self.values, observed, side="left")
        p = (1 + above) / (1 + draws)
        if two_sided:
            below = np.searchsorted(self.values, observed, side="right")
            p = np.minimum(1, 2 * np.minimum(p, (1 + below) / (1 + draws)))
        return torch.as_tensor(p, device=values.device)


def _identity(test: "Statistic") -> tuple[object, ...]:
    """Cache key of a test: classes and plain settings of the test and its parts."""
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
class LimitDistribution:
    """The distribution of offset + sum_k weight_k chi^2_1.

    Attributes:
        weights: positive.
        offset: constant part.
    """

    weights: Sequence[float]
    offset: float = 0.0

    def pvalue(self, values: Tensor, two_sided: bool = False) -> Tensor:
        """Upper tail at each value."""
        observed = values.detach().double().cpu().numpy()
        p = np.array([self.tail(float(value)) for value in observed.reshape(-1)]).reshape(observed.shape)
        if two_sided:
            p = np.minimum(1, 2 * np.minimum(p, 1 - p))
        return torch.as_tensor(p, device=values.device)

    def tail(self, value: float) -> float:
        """P(X >= value), accurate in the far tail."""
        lam = np.sort(np.asarray(self.weights, dtype=np.float64))[::-1]
        lam, q = lam / lam[0], (value - self.offset) / lam[0]
        if not q > 0:
            return 1.0
        return 0.0 if math.isinf(q) else float(np.clip(_invert(lam, q), 0.0, 1.0))


def _invert(lam: np.ndarray, q: float) -> float:
    r"""P(sum_k lam_k chi^2_1 >= q) = (1 / 2 pi i) \int e^{K(z) - z q} dz / z, with K the cumulant function.

    The path is a parabola through the saddlepoint s of the integrand with the curvature of steepest descent
    there; it passes to the right of the pole at 0 and around the cut from 1/2 on. The integrand is relative
    to its value at s, so small results keep their digits.
    """

    def slope(s: float) -> float:
        return float((lam / (1 - 2 * s * lam)).sum() - q)

    high = 0.5 - 0.5 / max(q, 1.0001)  # the first term alone reaches q there
    s = 0.0 if slope(0.0) >= 0 else scipy.optimize.brentq(slope, 0.0, high) if slope(high) > 0 else high
    s = max(s, min(0.25, 1 / math.sqrt(2 * (lam**2).sum())))  # away from the pole
    rates = lam / (1 - 2 * s * lam)
    second, third = 2 * (rates**2).sum(), 8 * (rates**3).sum()
    bend = third / (6 * second)
    v = (np.arange(_PATH_POINTS) + 0.5) * (14 / _PATH_POINTS)
    y, dy = np.sinh(v) / math.sqrt(second), np.cosh(v) / math.sqrt(second) * (14 / _PATH_POINTS)
    z = s + 1j * y + bend * y**2
    cumulant = -0.5 * np.log(1 - 2 * np.outer(z, lam)).sum(1)
    start = -0.5 * np.log1p(-2 * s * lam).sum()
    integrand = np.exp(cumulant - z * q - start + s * q) / z * (1j + 2 * bend * y)
    return math.exp(start - s * q) * float((integrand.imag * dy).sum()) / math.pi


_MIN_PIECE = 64  # samples; for smaller pieces calls cost more than arithmetic


@dataclass(frozen=True)
class PairSide:
    """One of the two samples of each pair: (..., n, dim), and their squared lengths."""

    x: Tensor
    norms: Tensor


class PairSums:
    """Samples (..., n, dim) and sums over pairs of them.

    Attributes:
        x: the samples.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @property
    def dim(self) -> int:
        """Of the samples."""
        return int(self.x.shape[-1])

    @cached_property
    def norms(self) -> Tensor:
        """|y_j|^2, (..., n)."""
        return (self.x**2).sum(-1)

    def total(self, part: Callable[[PairSide, PairSide], Tensor]) -> Tensor:
        """Sum of a symmetric function over all ordered pairs (j, k): (...).

        Half of the pairs suffice: the samples are halved recursively, and pairs across halves count twice.

        Args:
            part: the sum over the pairs of samples (..., n, dim) with others (..., m, dim): (...).
        """
        whole = PairSide(self.x.unsqueeze(-3), self.norms.unsqueeze(-2))  # (..., pieces, n, dim)
        across: Tensor | float = 0.0
        while whole.x.shape[-2] % 2 == 0 and whole.x.shape[-2] > _MIN_PIECE:
            x, norms = whole.x.unflatten(-2, (2, -1)), whole.norms.unflatten(-1, (2, -1))
            left, right = (PairSide(x.select(-3, side), norms.select(-2, side)) for side in (0, 1))
            across = across + 2 * part(left, right).sum(-1)
            whole = PairSide(x.flatten(-4, -3), norms.flatten(-3, -2))
        return across + part(whole, whole).sum(-1)

    def tilted(self, gamma: float) -> Tensor:
        """Sum over pairs of e^{(|y_j|^2 - |y_k|^2) / (4 gamma)} cos(y_j.y_k / (2 gamma)): (...)."""
        # relative to the mean: both factors may overflow although their ratio does not
        mean = self.norms.mean(-1)

        def part(left: PairSide, right: PairSide) -> Tensor:
            cosines = (left.x / (2 * gamma) @ right.x.mT).cos()
            middle = mean.reshape(*mean.shape, *[1] * (left.norms.ndim - mean.ndim))
            rise, other = (((side.norms - middle) / (4 * gamma)).exp() for side in (left, right))
            falling = (cosines @ (1 / other).unsqueeze(-1)).squeeze(-1) * rise
            rising = (cosines @ other.unsqueeze(-1)).squeeze(-1) / rise  # the pair the other way around
            return (falling + rising).sum(-1) / 2

        return self.total(part)


def exponential(
    left: PairSide, right: PairSide, inner: float, outer: float, constant: float = 0.0, top: float = math.inf
) -> Tensor:
    """e^{inner y_j.y_k + outer (|y_j|^2 + |y_k|^2) + constant} for all pairs, (..., n, m).

    The exponent is one matrix product of the samples with two more columns, which takes fewer passes through
    memory than the sum of its parts.

    Args:
        left, right: the samples.
        inner: positive.
        outer, constant: any.
        top: upper bound of the exponent, up to rounding.
    """
    first, second = (
        torch.cat((side.x * math.sqrt(inner), (outer * side.norms + constant / 2).unsqueeze(-1)), -1)
        for side in (left, right)
    )
    one, other = torch.ones_like(first[..., :1]), torch.ones_like(second[..., :1])
    columns = torch.cat((second[..., :-1], other, second[..., -1:]), -1)
    exponent = torch.cat((first, one), -1) @ columns.mT
    return (exponent if math.isinf(top) else exponent.clamp_max(top)).exp()


class AxisWarning(UserWarning):
    """Samples and dimensions look swapped."""


class Statistic(nn.Module):
    """Base of all tests. A subclass gives `_of(x, n)`.

    Attributes:
        least: minimal number of samples.
        gathers: whether it needs all samples at once, not only sums over them; a distributed job gathers them
            on every rank.
        two_sided: whether small values are evidence against the null as large ones are.
        limit_from: number of samples from which the limit distribution, if known, gives the p-value.
    """

    least: ClassVar[int] = 1
    gathers: ClassVar[bool] = False
    two_sided: ClassVar[bool] = False
    limit_from: ClassVar[int] = 1 << 62
    per_slice: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        """Return the statistic.

        Args:
            x: (..., samples, slices) for a univariate test, which gives (..., slices); (..., samples, dim)
                for a multivariate one, which gives (...). A single sequence (samples,) is one slice.

        Raises:
            ValueError: too few samples, NaN or Inf, or a slice for which the statistic is not defined.
        """
        if isinstance(x, Tensor) and x.ndim == 1:
            return self.forward(x.unsqueeze(-1)).reshape(())
        check_finite(check_shape(x))
        warn_if_swapped(x)
        value = self.statistic(x)
        if not torch.isfinite(value).all():
            raise ValueError(
                f"{type(self).__name__} overflows for samples of up to {x.abs().max():.3g} in {x.shape[-1]} "
                "dimensions: scale them to variance 1, or narrow the test's weight by a larger beta or gamma"
            )
        return value

    def statistic(self, x: Tensor) -> Tensor:
        """The statistic inside a loss: NaN and Inf propagate without an error.

        The order of axes is not checked.
        """
        x = at_least_float32(x)
        n = ranks.count(x.shape[-2], x.device)
        if n < self.least:
            raise ValueError(f"{type(self).__name__} needs at least {self.least} samples, got {n}")
        with torch.autocast(x.device.type, enabled=False):
            return self._of(ranks.gather(x) if self.gathers else x, n)

    def _of(self, x: Tensor, n: int) -> Tensor:
        """The statistic of validated samples; n counts all ranks."""
        raise NotImplementedError

    @torch.no_grad()
    def pvalue(self, x: Tensor, draws: int | None = None, seed: int = 0) -> Tensor:
        """Probability under N(0, I) of a statistic at least as extreme as that of x.

        From the limit distribution if it is known and there are enough samples, else from a simulation, once
        per test, number of samples and dimension.

        Args:
            x: as in a call.
            draws: number of simulated samples, also if the limit distribution is known. By default 9,999,
                fewer for large samples. The smallest p-value is 1 / (draws + 1), twice that if two-sided.
            seed: of the simulation.

        Returns:
            One p-value per statistic, float64.
        """
        if isinstance(x, Tensor) and x.ndim == 1:
            return self.pvalue(x.unsqueeze(-1), draws, seed).reshape(())
        check_finite(check_shape(x))
        warn_if_swapped(x)
        values = self.statistic(x).nan_to_num(nan=torch.inf)  # beyond the range of the arithmetic
        n = ranks.count(x.shape[-2], x.device)
        return self.null(n, 1 if self.per_slice else x.shape[-1], draws, seed).pvalue(values, self.two_sided)

    def null(
        self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0
    ) -> NullDistribution | LimitDistribution:
        """The distribution of the statistic for n samples of N(0, I)."""
        limit = self.limit(n, dim) if draws is None and n >= self.limit_from else None
        return limit or NullDistribution.simulated(self, n, dim, draws, seed)

    def _held(self, n: int, dim: int) -> int:
        """Numbers in memory for one simulated sample."""
        return n

    def limit(self, n: int, dim: int) -> LimitDistribution | None:
        """The distribution of the statistic for large n, or None if unknown."""
        return None


class Multivariate(Statistic):
    """Base of multivariate tests: (..., samples, dim) to (...).

    Most compare all pairs of samples, in O(n^2). All compute in float64, beyond the range of float32.

    Args:
        standardize: test for a normal distribution of any mean and covariance: samples are centered and
            whitened first. Otherwise the test is for N(0, I).
    """

    gathers = True
    per_slice = False

    @validate_types
    def __init__(self, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize

    def _of(self, x: Tensor, n: int) -> Tensor:
        return self._pairs(PairSums(whitened(x) if self.standardize else x.double()), n)

    def _pairs(self, sample: PairSums, n: int) -> Tensor:
        raise NotImplementedError

    def _held(self, n: int, dim: int) -> int:
        return n * max(n, dim)

    def extra_repr(self) -> str:
        return f"standardize={self.standardize}"


def whitened(x: Tensor) -> Tensor:
    """Center and whiten samples (..., n, dim), up to a rotation, in float64.

    Raises:
        ValueError: the covariance is singular up to rounding.
    """
    n, dim = x.shape[-2:]
    digits = torch.finfo(x.dtype).eps  # of the input
    x = x.double()
    centered = x - x.mean(-2, keepdim=True)
    finite = torch.isfinite(x).flatten(-2).all(-1)[..., None, None]  # NaN propagates
    identity = torch.eye(dim, dtype=x.dtype, device=x.device)
    factor, failed = torch.linalg.cholesky_ex(torch.where(finite, centered.mT @ centered / n, identity))
    # variance of each dimension that those before it do not explain, against rounding of data and product
    floor = max((16 * digits) ** 2, 64 * dim * torch.finfo(x.dtype).eps) * (x**2).mean(-2)
    lost = finite[..., 0] & (factor.diagonal(dim1=-2, dim2=-1) ** 2 <= floor)
    if n <= dim or failed.any() or lost.any():
        raise ValueError(f"standardize needs a covariance of full rank {dim}, got {n} samples with less")
    return torch.where(finite, torch.linalg.solve_triangular(factor, centered.mT, upper=False).mT, torch.nan)


def check_shape(x: Tensor) -> Tensor:
    """Check samples (..., n, k) of a floating type, and return them."""
    check_floats("x", x)
    if x.ndim < 2 or x.shape[-1] < 1 or 0 in x.shape[:-2]:
        raise ValueError(f"x must be (..., samples, dim) or (..., samples, slices), got {tuple(x.shape)}")
    return x


def check_finite(x: Tensor) -> Tensor:
    """Check that x is finite on all ranks, and return it."""
    bad = ranks.count(int((~torch.isfinite(x)).sum()), x.device)
    if bad:
        raise ValueError(f"x must be finite, got {bad} values that are NaN or Inf")
    return x


def check_varies(variance: Tensor, mean: Tensor) -> Tensor:
    """Check that the variance of each slice is positive, and return it."""
    if ranks.transformed():  # values cannot be inspected inside vmap: the statistic is NaN there
        return variance
    kind = torch.finfo(variance.dtype)
    rounding = (16 * kind.eps * mean) ** 2 + kind.tiny
    flat = int(((variance <= rounding) & rounding.isfinite()).sum())  # NaN and Inf propagate
    if flat:
        raise ValueError(f"every slice must vary, got {flat} of {variance.numel()} slices with zero variance")
    return variance


_warned = False


def warn_if_swapped(x: Tensor) -> None:
    """Warn, once per process, if there are fewer samples than dimensions."""
    global _warned
    n, k = x.shape[-2:]
    if 0 < n * ranks.world_size() < k and not _warned:  # a rank may hold few of many
        _warned = True
        warnings.warn(
            f"x of shape {tuple(x.shape)} has {n} samples of {k} dimensions: if they are swapped, pass x.mT",
            AxisWarning,
            stacklevel=5,  # the caller of the module that calls this
        )
