"""Tests along random directions, one by one or several tests on the same directions.

A univariate test on projections: a multivariate test of N(0, I).

A distribution is N(0, I) exactly when all its projections on unit vectors are N(0, 1) (Cramer-Wold;
Balestriero & LeCun 2025, "LeJEPA", Lemma 3 and Theorem 2).

Many tests of the same samples share the simulated samples of their null distributions: drawing, whitening,
projection and sorting happen once (`NullDistribution.simulated` does them for one test). Each p-value is as
valid as one from a separate simulation; those of two tests are dependent, as tests of the same embeddings are
anyway. The compiled loops are not used: their start alone takes longer.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity.epps_pulley import EppsPulley, plain_epps_pulley, sliced_epps_pulley
from isojepa.objectives.gaussianity.statistic import (
    LimitDistribution,
    Multivariate,
    NullDistribution,
    PairSums,
    Statistic,
    whitened,
)
from isojepa.objectives.gaussianity.univariate import OrderStatistic, SortedSample
from isojepa.objectives.objective import at_least_float32
from isojepa.seeds import generator
from isojepa.validation import unknown, validate_types

REDUCTIONS = ("mean", "max")


class Sliced(Statistic):
    """Mean or maximum of a univariate statistic over fixed directions: (..., samples, dim) to (...).

    SIGReg minimizes the mean; the maximum is the more powerful test if few directions deviate.

    Args:
        test: univariate; Epps-Pulley by default.
        slices: number of directions.
        sampler: see `isojepa.objectives.directions`.
        seed: draws them.
        reduce: "mean" or "max".
        standardize: test for a normal distribution of any mean and covariance: samples are centered and
            whitened first. Otherwise the test is for N(0, I).

    Example:
        >>> wide = 2 * torch.randn(200, 8, generator=torch.Generator())
        >>> Sliced(slices=16).pvalue(wide, draws=99).item()
        0.01
    """

    per_slice = False

    @validate_types
    def __init__(
        self,
        test: Statistic | None = None,
        slices: int = 64,
        sampler: str = "gaussian",
        seed: int = 0,
        reduce: str = "mean",
        standardize: bool = False,
    ) -> None:
        super().__init__()
        self.test = check_univariate(EppsPulley() if test is None else test)
        if int(slices) != slices or slices < 1:
            raise ValueError(f"slices must be a positive integer, got {slices}")
        if sampler not in SAMPLERS:
            raise ValueError(unknown("sampler", sampler, SAMPLERS))
        if reduce not in REDUCTIONS:
            raise ValueError(unknown("reduce", reduce, REDUCTIONS))
        self.slices, self.sampler, self.seed = int(slices), sampler, seed
        self.reduce, self.standardize = reduce, standardize

    @property
    def two_sided(self) -> bool:  # type: ignore[override]
        """Whether small values are evidence against the null as large ones are."""
        return self.test.two_sided

    def directions(self, dim: int) -> Tensor:
        """The directions for samples of a dimension: (slices, dim)."""
        return draw_directions(dim, self.slices, generator(self.seed, "slices"), self.sampler)

    def spanned(self, dim: int) -> Tensor:
        """The directions in coordinates of their span: (slices, at most slices).

        With A^T = Q R, the projections of x on the rows of A are those of Q^T x on the rows of R^T, and Q^T x
        is N(0, I) too: samples of that many dimensions give the same null distribution.
        """
        directions = self.directions(dim)
        if dim <= self.slices:
            return directions
        factor: Tensor = torch.linalg.qr(directions.double().T).R
        return factor.T.float()

    def _of(self, x: Tensor, n: int) -> Tensor:
        if not self.standardize:
            return slice_means(self.test, x, self.directions(x.shape[-1]).to(x), self.reduce)
        whole = whitened(ranks.gather(x)).to(x.dtype)
        with ranks.alone():
            return slice_means(self.test, whole, self.directions(x.shape[-1]).to(x), self.reduce)

    def null(
        self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0
    ) -> NullDistribution | LimitDistribution:
        """The distribution of the statistic for n samples of N(0, I)."""
        if dim <= self.slices or self.standardize:
            return super().null(n, dim, draws, seed)
        return NullDistribution.simulated(_Span(self, dim), n, self.slices, draws, seed)

    def _held(self, n: int, dim: int) -> int:
        return n * max(dim, self.slices)

    def extra_repr(self) -> str:
        return (
            f"slices={self.slices}, sampler={self.sampler!r}, seed={self.seed}, reduce={self.reduce!r}, "
            f"standardize={self.standardize}"
        )


class _Span(Statistic):
    """A sliced test in the span of its directions: the same null distribution, faster to simulate."""

    per_slice = False

    def __init__(self, whole: Sliced, dim: int) -> None:
        super().__init__()
        self.whole, self.dim = whole, dim
        self.axes = whole.spanned(dim)

    def _of(self, x: Tensor, n: int) -> Tensor:
        return slice_means(self.whole.test, x, self.axes.to(x), self.whole.reduce)

    def _held(self, n: int, dim: int) -> int:
        return n * dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


def slice_means(test: Statistic, x: Tensor, directions: Tensor, reduce: str = "mean") -> Tensor:
    """Mean or maximum of a test over directions: (..., samples, dim) to (...).

    The mean of the Epps-Pulley statistic takes the fused path, which never stores the projections.
    """
    if isinstance(test, EppsPulley) and reduce == "mean" and x.ndim == 2:
        return sliced_epps_pulley(x, directions, test.grid, test.unbiased)
    if test.gathers:  # the samples are smaller to send than their projections
        x = ranks.gather(x)
        with ranks.alone():
            values = _projected(test, x, directions)
    else:
        values = _projected(test, x, directions)
    return values.mean(-1) if reduce == "mean" else values.amax(-1)


def _projected(test: Statistic, x: Tensor, directions: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):  # projections keep their digits
        x = at_least_float32(x)
        return test.statistic(x @ directions.to(x).T)


def check_univariate(test: Statistic) -> Statistic:
    """Check that a test is univariate, and return it."""
    if not isinstance(test, Statistic) or isinstance(test, Multivariate | Sliced):
        raise ValueError(f"test must be a univariate test of Gaussianity, got {type(test).__name__}")
    return test


Test = Sliced | Multivariate
_MAX_SLICED, _MAX_PAIRED = 1 << 18, 1 << 22  # numbers in memory: about the cache, without too many calls
_MAX_FLOAT32_DIM = 64  # up to which sums over pairs of simulated samples stay well inside float32


def simulate_together(
    tests: Sequence[Test],
    n: int,
    dim: int,
    draws: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[NullDistribution]:
    """Null distribution of each test for n samples of N(0, I), in the order of the tests.

    Args:
        tests: of samples (n, dim).
        n: samples.
        dim: of each.
        draws: simulations.
        seed: draws them.
        progress: called with simulations done and their number.
    """
    if draws < 1:
        raise ValueError(f"draws must be positive, got {draws}")
    source = generator(seed, "null", n, dim)
    # directions that span less than the whole space need no more dimensions than that
    plain = all(isinstance(test, Sliced) and not test.standardize for test in tests)
    width = min(dim, max(test.slices for test in tests if isinstance(test, Sliced))) if plain else dim
    block = _MAX_SLICED if plain else _MAX_PAIRED
    size = max(1, block // max(test._held(n, width) for test in tests))
    parts: list[list[Tensor]] = [[] for _ in tests]
    with ranks.alone(), torch.no_grad():  # every rank draws the same, so none has to send it
        for start in range(0, draws, size):
            x = torch.randn(min(size, draws - start), n, width, generator=source, dtype=torch.float32)
            sample = SharedSample(x, dim, simulated=True)
            for part, test in zip(parts, tests, strict=True):
                part.append(sample.value(test).double())
            if progress is not None:
                progress(min(start + size, draws), draws)
    values = [torch.cat(part).nan_to_num(nan=math.inf).numpy() for part in parts]
    return [NullDistribution(np.sort(value)) for value in values]


class SharedSample:
    """Samples (..., n, dim) with cached intermediate results, shared by several tests.

    Args:
        x: the samples.
        dim: of the full space; larger than that of x if x lies in the span of the directions.
        simulated: whether they are N(0, I): of moderate size, for which float32 and plain logarithms suffice.
    """

    def __init__(self, x: Tensor, dim: int | None = None, simulated: bool = False) -> None:
        self.x, self.simulated = x, simulated
        self.n = x.shape[-2]
        self.dim = x.shape[-1] if dim is None else dim
        self._made: dict[tuple[object, ...], Any] = {}

    def value(self, test: Test) -> Tensor:
        """The statistic.

        Raises:
            ValueError: it is not defined for these samples.
        """
        if isinstance(test, Multivariate):
            pairs: PairSums = self._once(("pairs", test.standardize), lambda: self._pairs(test.standardize))
            return test._pairs(pairs, self.n)
        inner = (type(test.test), repr(test.test), *_key(test))
        values: Tensor = self._once(inner, lambda: self._per_slice(test))
        return values.mean(-1) if test.reduce == "mean" else values.amax(-1)

    def _per_slice(self, test: Sliced) -> Tensor:
        """The univariate statistic of each slice."""
        projected: Tensor = self._once(("projected", *_key(test)), lambda: self._projected(test))
        if isinstance(test.test, OrderStatistic):
            return test.test._sorted(
                self._once(("sorted", *_key(test)), lambda: self._ascending(projected)), self.n
            )
        if isinstance(test.test, EppsPulley):
            return plain_epps_pulley(projected, test.test.grid, test.test.unbiased)
        return test.test.statistic(projected)

    def _projected(self, test: Sliced) -> Tensor:
        """Projections (..., n, slices), contiguous in memory by slice for sorting."""
        directions = test.spanned(self.dim) if self.dim > self.x.shape[-1] else test.directions(self.dim)
        return (directions @ self._white(test.standardize).float().mT).mT

    def _ascending(self, projected: Tensor) -> SortedSample:
        # NumPy sorts float32 with vector instructions, several times as fast as torch
        values = np.sort(projected.mT.numpy(), axis=-1)
        return SortedSample(torch.from_numpy(values).mT, moderate=self.simulated)

    def _pairs(self, standardize: bool) -> PairSums:
        x = self._white(standardize)
        return PairSums(x.float() if self.simulated and self.dim <= _MAX_FLOAT32_DIM else x.double())

    def _white(self, standardize: bool) -> Tensor:
        white: Tensor = self._once(("white",), lambda: whitened(self.x)) if standardize else self.x
        return white

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _key(test: Sliced) -> tuple[object, ...]:
    """Cache key of the projections of a test."""
    return test.slices, test.sampler, test.seed, test.standardize
