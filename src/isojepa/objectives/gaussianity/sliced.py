"""A univariate test on projections: a multivariate test of N(0, I).

A law is N(0, I) exactly when all its projections on unit vectors are N(0, 1) (Cramer-Wold; Balestriero &
LeCun 2025, "LeJEPA", Lemma 3 and Theorem 2).
"""

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.names import unknown
from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity.epps_pulley import EppsPulley
from isojepa.objectives.gaussianity.fused import sliced_epps_pulley
from isojepa.objectives.gaussianity.null import Limit, Null
from isojepa.objectives.gaussianity.statistic import Multivariate, Statistic, whitened
from isojepa.objectives.loss import at_least_float32
from isojepa.seeds import generator

REDUCTIONS = ("mean", "max")


class Sliced(Statistic):
    """Mean or maximum of a univariate statistic over fixed directions: (..., samples, dim) to (...).

    The mean is what SIGReg minimises; the maximum is the stronger test when few directions are wrong.

    Args:
        test: univariate; Epps-Pulley by default.
        slices: number of directions.
        sampler: see `isojepa.objectives.directions`.
        seed: draws them.
        reduce: "mean" or "max".
        standardize: test for a normal law of any mean and covariance: samples are centred and whitened
            first. Otherwise the test is for N(0, I).

    Example:
        >>> wide = 2 * torch.randn(200, 8, generator=torch.Generator())
        >>> Sliced(slices=16).pvalue(wide, draws=99).item()
        0.01
    """

    per_slice = False

    @checked
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
        """Whether small values speak against the null as large ones do."""
        return self.test.two_sided

    def directions(self, dim: int) -> Tensor:
        """The directions for samples of a dimension: (slices, dim)."""
        return draw_directions(dim, self.slices, generator(self.seed, "slices"), self.sampler)

    def spanned(self, dim: int) -> Tensor:
        """The directions seen from the space that they span: (slices, slices at most).

        With A^T = Q R, the projections of x on the rows of A are those of Q^T x on the rows of R^T, and Q^T x
        is N(0, I) too: for the law under the null, samples of so many dimensions do.
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

    def null(self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0) -> Null | Limit:
        """The law of the statistic for n samples of N(0, I)."""
        if dim <= self.slices or self.standardize:
            return super().null(n, dim, draws, seed)
        return Null.simulated(_Span(self, dim), n, self.slices, draws, seed)

    def _held(self, n: int, dim: int) -> int:
        return n * max(dim, self.slices)

    def extra_repr(self) -> str:
        return (
            f"slices={self.slices}, sampler={self.sampler!r}, seed={self.seed}, reduce={self.reduce!r}, "
            f"standardize={self.standardize}"
        )


class _Span(Statistic):
    """A sliced test seen from the space that its directions span: the same law under the null, sooner."""

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
    """Return a univariate test, or say that slices need one."""
    if not isinstance(test, Statistic) or isinstance(test, Multivariate | Sliced):
        raise ValueError(f"test must be a univariate test of Gaussianity, got {type(test).__name__}")
    return test
