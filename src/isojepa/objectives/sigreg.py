"""SIGReg: sketched isotropic Gaussian regularization (Balestriero & LeCun 2025, "LeJEPA", Definition 2).

A distribution is N(0, I) exactly when all its one-dimensional projections are N(0, 1). SIGReg projects the
embeddings on unit directions, drawn anew at each call, and averages a univariate test of Gaussianity, the
Epps-Pulley test by default.
"""

import torch
from torch import Tensor, nn

from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity import UNIVARIATE, EppsPulley, Sliced, Statistic
from isojepa.objectives.gaussianity.epps_pulley import sliced_epps_pulley
from isojepa.objectives.gaussianity.sliced import check_univariate, slice_means
from isojepa.objectives.gaussianity.statistic import check_shape, warn_if_swapped
from isojepa.objectives.objective import check_alone
from isojepa.seeds import Stream, generator
from isojepa.validation import build, unknown, validate_types

KERNELS = ("auto", "triton")


class SIGReg(nn.Module):
    """Distance of embeddings from N(0, I), by slices.

    With the Epps-Pulley test the value is n times the weighted squared distance of characteristic functions,
    averaged over slices and views. For n samples of N(0, I) itself its expectation is about 1.06, or 0 with
    `unbiased`.

    In a torch.distributed job the embeddings of all ranks form one batch; loss and gradient equal those of
    one process with the whole batch: see `isojepa.ranks`.

    NaN or Inf in the embeddings gives a loss of NaN or Inf, not an error: automatic mixed precision relies on
    it, and a check would synchronize a GPU at each call. In a custom loop, check the loss before the step, as
    `isojepa.fit` does.

    Args:
        slices: number of directions per call; by default 8 per dimension, 16 to 1024.
        knots: points of the Epps-Pulley quadrature on [-t_max, t_max].
        t_max: end of the quadrature.
        pooled: test all views as one sample; otherwise each view on its own, as published.
        unbiased: remove the O(1/n) bias of the Epps-Pulley statistic.
        seed: draws the directions of calls without a generator, and the fixed ones. Under activation
            checkpointing pass a generator: a recomputed call would draw new directions.
        test: a univariate test or its name (`isojepa list tests`), in place of Epps-Pulley with the
            settings above.
        sampler: how directions are drawn: "gaussian", "sobol" or "orthogonal".
        resample: draw new directions at each call; otherwise use those of `seed` at every call.
        kernel: "auto", compiled code on the CPU and tensor operations elsewhere; or "triton", Triton kernels
            on devices that Triton supports, for the Epps-Pulley test in float32; they were never run on a
            GPU.

    Example:
        >>> loss = SIGReg(slices=64)(torch.randn(256, 8))
        >>> loss.shape
        torch.Size([])
        >>> SIGReg(test="cramer-von-mises", sampler="orthogonal")(torch.randn(256, 8)).shape
        torch.Size([])
    """

    @validate_types
    def __init__(
        self,
        slices: int | None = None,
        knots: int = 17,
        t_max: float = 5.0,
        pooled: bool = False,
        unbiased: bool = False,
        seed: int = 0,
        test: Statistic | str | None = None,
        sampler: str = "gaussian",
        resample: bool = True,
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        if slices is not None and (int(slices) != slices or slices < 1):
            raise ValueError(f"slices must be a positive integer, got {slices}")
        if sampler not in SAMPLERS:
            raise ValueError(unknown("sampler", sampler, SAMPLERS))
        if kernel not in KERNELS:
            raise ValueError(unknown("kernel", kernel, KERNELS))
        if test is None or test == "epps-pulley":
            test = EppsPulley(knots, t_max, unbiased=unbiased)
        elif (knots, t_max, unbiased) != (17, 5.0, False):
            raise ValueError("knots, t_max and unbiased are settings of epps-pulley; this is another test")
        elif isinstance(test, str):
            test = build("test", test, UNIVARIATE, {})
        self.test = check_univariate(test)
        if kernel == "triton" and not isinstance(self.test, EppsPulley):
            raise ValueError(f"kernel 'triton' computes epps-pulley alone, got test {self.test}")
        self.kernel = kernel
        self.slices = None if slices is None else int(slices)
        self.pooled, self.seed = pooled, seed
        self.sampler, self.resample = sampler, resample
        self._stream = Stream(seed, "slices")

    def forward(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the scalar loss.

        Args:
            embeddings: (..., batch, dim); leading axes are views.
            generator: draws the directions; by default the module's own stream, new at each call.

        Raises:
            ValueError: a wrong shape or type, or fewer samples than the test needs.
        """
        check_alone(embeddings, generator)
        views = self._views(check_shape(embeddings))
        warn_if_swapped(views)
        directions = self._directions(views.shape[-1], generator).to(views.device)
        if isinstance(self.test, EppsPulley):
            grid, unbiased, triton = self.test.grid, self.test.unbiased, self.kernel == "triton"
            return sliced_epps_pulley(views, directions, grid, unbiased, triton)
        return slice_means(self.test, views, directions).mean()

    def pvalue(self, embeddings: Tensor, draws: int | None = None, seed: int = 0) -> Tensor:
        """p-value, for each view, of the loss as a test of N(0, I).

        Uses the directions of the module's seed, as with `resample=False`.

        Args:
            embeddings: (..., batch, dim).
            draws: samples of the null to simulate.
            seed: draws them.
        """
        views = self._views(check_shape(embeddings))
        slices = self.slices_for(views.shape[-1])
        return Sliced(self.test, slices, self.sampler, self.seed).pvalue(views, draws, seed)

    def slices_for(self, dim: int) -> int:
        """Number of directions for embeddings of a dimension."""
        return self.slices if self.slices is not None else min(1024, max(16, 8 * dim))

    def _views(self, embeddings: Tensor) -> Tensor:
        return embeddings.reshape(-1, embeddings.shape[-1]) if self.pooled else embeddings

    def _directions(self, dim: int, source: torch.Generator | None) -> Tensor:
        if not self.resample:
            source = generator(self.seed, "slices")  # as `Sliced` does
        return draw_directions(dim, self.slices_for(dim), source or self._stream.next(), self.sampler)

    def extra_repr(self) -> str:
        fixed = "" if self.resample else f", resample=False, seed={self.seed}"
        kernel = "" if self.kernel == "auto" else f", kernel={self.kernel!r}"
        return f"slices={self.slices}, pooled={self.pooled}, sampler={self.sampler!r}{fixed}{kernel}"
