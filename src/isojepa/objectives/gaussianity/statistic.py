"""What all tests of Gaussianity share: input checks, the whole batch under DDP, and p-values.

A statistic maps samples to a number that, but for two-sided tests, grows with their distance from N(0, 1), or
N(0, I). It is differentiable, so it can be minimised; and it has a p-value, so it can be believed.
"""

import warnings
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.objectives.gaussianity.null import Limit, Null
from isojepa.objectives.gaussianity.pairs import Pairs
from isojepa.objectives.loss import at_least_float32, check_floats


class AxisWarning(UserWarning):
    """Samples and dimensions look swapped."""


class Statistic(nn.Module):
    """Base of all tests. A subclass gives `_of(x, n)`.

    Attributes:
        least: samples that the statistic needs.
        gathers: whether it needs all samples at once, not only sums over them. In a distributed job they
            are then gathered on every rank.
        two_sided: whether small values speak against the null as large ones do.
        limit_from: samples from which the limit law, where there is one, gives the p-value.
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
        """As a call, for use inside of a loss: of NaN or Inf comes NaN or Inf, never a number, and no error.

        Nor is the order of axes questioned.
        """
        x = at_least_float32(x)
        n = ranks.count(x.shape[-2], x.device)
        if n < self.least:
            raise ValueError(f"{type(self).__name__} needs at least {self.least} samples, got {n}")
        with torch.autocast(x.device.type, enabled=False):
            return self._of(ranks.gather(x) if self.gathers else x, n)

    def _of(self, x: Tensor, n: int) -> Tensor:
        """The statistic of checked samples; n counts those of all ranks."""
        raise NotImplementedError

    @torch.no_grad()
    def pvalue(self, x: Tensor, draws: int | None = None, seed: int = 0) -> Tensor:
        """Probability, for samples that are N(0, I), of a statistic at least as far out as that of x.

        From the law of the statistic under the null: its limit law where the test knows one and there are
        enough samples, else a simulation, done once for a test, number of samples and dimension.

        Args:
            x: as in a call.
            draws: simulate so many samples of the null, also where a limit law is known. By default 9,999,
                fewer for large samples. The smallest p-value is 1 / (draws + 1), twice that if two-sided.
            seed: of the simulation.

        Returns:
            One p-value per statistic, float64.
        """
        if isinstance(x, Tensor) and x.ndim == 1:
            return self.pvalue(x.unsqueeze(-1), draws, seed).reshape(())
        check_finite(check_shape(x))
        warn_if_swapped(x)
        values = self.statistic(x).nan_to_num(nan=torch.inf)  # too far out for the statistic's own arithmetic
        n = ranks.count(x.shape[-2], x.device)
        return self.null(n, 1 if self.per_slice else x.shape[-1], draws, seed).pvalue(values, self.two_sided)

    def null(self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0) -> Null | Limit:
        """The law of the statistic for n samples of N(0, I)."""
        limit = self.limit(n, dim) if draws is None and n >= self.limit_from else None
        return limit or Null.simulated(self, n, dim, draws, seed)

    def _held(self, n: int, dim: int) -> int:
        """Numbers in memory for one sample of the null."""
        return n

    def limit(self, n: int, dim: int) -> Limit | None:
        """The law of the statistic for large n, where it is known."""
        return None


class Multivariate(Statistic):
    """Base of the tests that look at all dimensions at once: (..., samples, dim) to (...).

    Most compare all pairs of samples, in O(n^2). All compute in float64: their values span more than float32.

    Args:
        standardize: test for a normal law of any mean and covariance: samples are centred and whitened
            first. Otherwise the test is for N(0, I).
    """

    gathers = True
    per_slice = False

    @checked
    def __init__(self, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize

    def _of(self, x: Tensor, n: int) -> Tensor:
        return self._pairs(Pairs(whitened(x) if self.standardize else x.double()), n)

    def _pairs(self, sample: Pairs, n: int) -> Tensor:
        raise NotImplementedError

    def _held(self, n: int, dim: int) -> int:
        return n * max(n, dim)

    def extra_repr(self) -> str:
        return f"standardize={self.standardize}"


def whitened(x: Tensor) -> Tensor:
    """Centre samples (..., n, dim) and give them covariance I, up to a rotation, in float64.

    Raises:
        ValueError: the covariance is singular, or is so but for rounding.
    """
    n, dim = x.shape[-2:]
    digits = torch.finfo(x.dtype).eps  # of the samples as they were given
    x = x.double()
    centred = x - x.mean(-2, keepdim=True)
    known = torch.isfinite(x).flatten(-2).all(-1)[..., None, None]  # NaN is passed on
    identity = torch.eye(dim, dtype=x.dtype, device=x.device)
    factor, failed = torch.linalg.cholesky_ex(torch.where(known, centred.mT @ centred / n, identity))
    # variance of each dimension that those before it do not explain, against rounding of data and product
    floor = max((16 * digits) ** 2, 64 * dim * torch.finfo(x.dtype).eps) * (x**2).mean(-2)
    lost = known[..., 0] & (factor.diagonal(dim1=-2, dim2=-1) ** 2 <= floor)
    if n <= dim or failed.any() or lost.any():
        raise ValueError(f"standardize needs a covariance of full rank {dim}, got {n} samples with less")
    return torch.where(known, torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT, torch.nan)


def check_shape(x: Tensor) -> Tensor:
    """Return samples (..., n, k) of a floating type, or say what is wrong."""
    check_floats("x", x)
    if x.ndim < 2 or x.shape[-1] < 1 or 0 in x.shape[:-2]:
        raise ValueError(f"x must be (..., samples, dim) or (..., samples, slices), got {tuple(x.shape)}")
    return x


def check_finite(x: Tensor) -> Tensor:
    """Return x, or say how many of its values are NaN or Inf; on every rank if on one."""
    bad = ranks.count(int((~torch.isfinite(x)).sum()), x.device)
    if bad:
        raise ValueError(f"x must be finite, got {bad} values that are NaN or Inf")
    return x


def check_varies(variance: Tensor, mean: Tensor) -> Tensor:
    """Return the variance of each slice, or say that a statistic divided by it needs it to be positive."""
    if ranks.transformed():  # nothing can be asked of a value inside of vmap: the statistic is NaN there
        return variance
    kind = torch.finfo(variance.dtype)
    rounding = (16 * kind.eps * mean) ** 2 + kind.tiny
    flat = int(((variance <= rounding) & rounding.isfinite()).sum())  # NaN and Inf are passed on
    if flat:
        raise ValueError(f"every slice must vary, got {flat} of {variance.numel()} slices with zero variance")
    return variance


_warned = False


def warn_if_swapped(x: Tensor) -> None:
    """Warn, once in a process, when there are fewer samples than dimensions."""
    global _warned
    n, k = x.shape[-2:]
    if 0 < n * ranks.world_size() < k and not _warned:  # a rank may hold few of many
        _warned = True
        warnings.warn(
            f"x of shape {tuple(x.shape)} has {n} samples of {k} dimensions: if they are swapped, pass x.mT",
            AxisWarning,
            stacklevel=5,  # the caller of the module that calls this
        )
