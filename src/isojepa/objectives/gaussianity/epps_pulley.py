r"""The Epps-Pulley test of normality, of a sample and along many directions at once.

For projections p_1..p_n of a batch on one direction, with phi(t) = e^{-t^2/2} the characteristic function
of N(0, 1), phi_n(t) = (1/n) sum_i e^{i t p_i} that of the sample, and a window w(t) = e^{-t^2/(2 sigma^2)},

    T = n \int |phi_n(t) - phi(t)|^2 w(t) dt
      ~ n sum_j w_j ( |phi_n(t_j)|^2 - 2 phi(t_j) Re phi_n(t_j) + phi(t_j)^2 )

over the knots of a `Grid` (Balestriero & LeCun 2025, "LeJEPA", Section 4.2.3 and Algorithm 1), or in closed
form (`EppsPulleyExact`). The integrand is even and vanishes at 0, so the positive knots suffice, with doubled
weights.

`unbiased` replaces |phi_n|^2 by its U-statistic (n |phi_n|^2 - 1) / (n - 1), which removes the O(1/n) bias
of their Theorem 6 from value and gradient.

The gradient dT/dp_i = sum_j Re(g_j e^{i t_j p_i}) needs one complex coefficient per slice and knot: two
sweeps over the projections (see `kernels`), without storage of size batch x slices x knots. In float32, with
equally spaced knots, the sweeps are compiled on the CPU, and Triton kernels on request (see
`triton_kernels`). Otherwise they are tensor operations, which recompute the powers in each sweep. Between the
sweeps, sums over samples are added over the ranks of a distributed job, so n is the size of the whole batch.

Transforms of `torch.func`, forward-mode derivatives and second derivatives use tensor operations that keep
their graph, with the memory of the textbook form.
"""

import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.autograd import forward_ad

from isojepa import ranks
from isojepa.objectives.gaussianity import threads
from isojepa.objectives.gaussianity.statistic import LimitDistribution, NullDistribution, Statistic
from isojepa.objectives.objective import at_least_float32
from isojepa.validation import unknown, validate_types

# Projections in memory at a time, whatever the number of threads, so that the order of sums is fixed;
# only BLAS, in the two products around the compiled sweeps, may choose another order.
_CHUNK = 1 << 20


_DEVICE_CHUNK = 1 << 22  # larger on a device, where a kernel launch costs more


@dataclass(frozen=True)
class Grid:
    """The knots of the positive half line.

    Attributes:
        table: (3, half) the knots t; phi(t) = e^{-t^2/2}; and the weight of the quadrature, window included,
            doubled for the negative half.
        step: distance of knots; None if they are not equally spaced.
    """

    table: np.ndarray
    step: float | None

    @classmethod
    def trapezoid(cls, knots: int, t_max: float, sigma: float = 1.0) -> "Grid":
        """Knots of the trapezoid rule on [-t_max, t_max]; an odd number includes t = 0.

        Raises:
            ValueError: fewer than 2 knots, or t_max or sigma not positive.
        """
        knots = _check(knots, sigma)
        if not 0 < t_max < float("inf"):
            raise ValueError(f"t_max must be positive and finite, got {t_max}")
        step = 2 * t_max / (knots - 1)
        t = (step if knots % 2 else step / 2) + step * np.arange(knots // 2)
        weights = 2 * step * np.exp(-(t**2) / (2 * sigma**2))
        weights[-1] /= 2
        return cls(np.stack((t, np.exp(-(t**2) / 2), weights)), float(step))

    @classmethod
    def hermite(cls, knots: int, sigma: float = 1.0) -> "Grid":
        """Knots of Gauss-Hermite quadrature, exact for polynomials of degree up to 2 knots - 1.

        Raises:
            ValueError: fewer than 2 or more than 256 knots, or sigma not positive.
        """
        knots = _check(knots, sigma)
        if knots > 256:  # the weights of the outer knots fall below the smallest float64
            raise ValueError(f"knots must be at most 256 for Gauss-Hermite quadrature, got {knots}")
        nodes, weights = np.polynomial.hermite_e.hermegauss(knots)
        positive = nodes > 1e-12
        t = sigma * nodes[positive]
        return cls(np.stack((t, np.exp(-(t**2) / 2), 2 * sigma * weights[positive])), None)

    @property
    def t(self) -> np.ndarray:
        """(half,) the positive knots."""
        knots: np.ndarray = self.table[0]
        return knots

    @property
    def first(self) -> float:
        """The first positive knot."""
        return float(self.table[0, 0])

    @property
    def halved(self) -> bool:
        """Whether the first knot is half a step: an even number of equally spaced knots on the line."""
        return self.step is not None and self.first < 0.75 * self.step


def _check(knots: int, sigma: float) -> int:
    if int(knots) != knots or knots < 2:
        raise ValueError(f"knots must be an integer of at least 2, got {knots}")
    if not 0 < sigma < float("inf"):
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    return int(knots)


class _Powers(Protocol):
    def sums(self) -> Tensor: ...

    def series(self, re: Tensor, im: Tensor) -> Tensor: ...


class TensorPowers:
    """e^{i t p} at the knots of a grid: powers of e^{i step p} if the knots are equally spaced.

    Args:
        p: (..., batch, slices) projections.
        grid: the knots t.

    Example:
        >>> powers = TensorPowers(torch.zeros(5, 2), Grid.trapezoid(17, 5.0))
        >>> powers.sums().shape  # cosines and sines, slices, positive knots
        torch.Size([2, 2, 8])
        >>> powers.series(torch.ones(2, 8), torch.zeros(2, 8))[0]
        tensor([8., 8.])
    """

    def __init__(self, p: Tensor, grid: Grid) -> None:
        self.p, self.grid = p, grid
        self.first = torch.cos(grid.first * p), torch.sin(grid.first * p)
        self.step = self.first
        if grid.halved and grid.step is not None:
            self.step = torch.cos(grid.step * p), torch.sin(grid.step * p)

    def sums(self) -> Tensor:
        """(2, ..., slices, half) sums of cosines and of sines over the batch."""
        return torch.stack([torch.stack((c.sum(-2), s.sum(-2))) for c, s in self._up()], -1)

    def series(self, re: Tensor, im: Tensor) -> Tensor:
        """Re( sum_j (re_j + i im_j) e^{i t_j p} ); by Horner's rule if the knots are equally spaced.

        Args:
            re, im: (..., slices, half) coefficients, the same for every sample.

        Returns:
            As p.
        """
        re, im = re.unsqueeze(-3), im.unsqueeze(-3)
        if self.grid.step is None:
            terms = (c * re[..., j] - s * im[..., j] for j, (c, s) in enumerate(self._up()))
            return sum(terms, torch.zeros_like(self.p))
        wc, ws = self.step
        c, s = re[..., -1].expand_as(self.p), im[..., -1].expand_as(self.p)
        for j in range(len(self.grid.t) - 2, -1, -1):
            c, s = (
                torch.addcmul(torch.addcmul(re[..., j], c, wc), s, ws, value=-1),
                torch.addcmul(torch.addcmul(im[..., j], c, ws), s, wc),
            )
        return c * self.first[0] - s * self.first[1]

    def _up(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Real and imaginary part, knot by knot."""
        if self.grid.step is None:
            for t in self.grid.t:
                yield torch.cos(float(t) * self.p), torch.sin(float(t) * self.p)
            return
        c, s = self.first
        yield c, s
        wc, ws = self.step
        for _ in self.grid.t[1:]:
            c, s = torch.addcmul(c * wc, s, ws, value=-1), torch.addcmul(c * ws, s, wc)
            yield c, s


def sliced_epps_pulley(
    x: Tensor, directions: Tensor, grid: Grid, unbiased: bool = False, triton: bool = False
) -> Tensor:
    """Mean Epps-Pulley statistic over directions and over the leading axes.

    Args:
        x: (..., batch, dim) samples.
        directions: (slices, dim) unit vectors.
        grid: knots of the characteristic function.
        unbiased: take the U-statistic.
        triton: run the sweeps as Triton kernels, on devices that Triton supports.

    Returns:
        A scalar, differentiable with respect to x.
    """
    if _traced(x):
        with torch.autocast(x.device.type, enabled=False):
            wide = at_least_float32(x)
            return plain_epps_pulley(wide @ directions.to(wide).T, grid, unbiased).mean()
    want_gradient = x.requires_grad and torch.is_grad_enabled()
    statistic: Tensor = _EppsPulley.apply(  # type: ignore[no-untyped-call]
        x, directions, grid, unbiased, want_gradient, triton
    )
    return statistic


def epps_pulley(x: Tensor, grid: Grid, unbiased: bool = False, triton: bool = False) -> Tensor:
    """Epps-Pulley statistic of each column: (..., batch, slices) to (..., slices)."""
    if _traced(x):
        return plain_epps_pulley(x, grid, unbiased)
    want_gradient = x.requires_grad and torch.is_grad_enabled()
    statistic: Tensor = _EppsPulley.apply(  # type: ignore[no-untyped-call]
        x, None, grid, unbiased, want_gradient, triton
    )
    return statistic


def plain_epps_pulley(x: Tensor, grid: Grid, unbiased: bool = False) -> Tensor:
    """`epps_pulley` by tensor operations, for transforms and derivatives of any kind.

    With a graph it takes the memory of batch x slices x knots.
    """
    n = _samples(x)
    cosines, sines = _means(TensorPowers(x, grid), n)
    value: Tensor = _statistic(cosines, sines, torch.as_tensor(grid.table).to(x), n, unbiased)[0]
    return value


def plain_slopes(x: Tensor, grid: Grid, unbiased: bool = False) -> Tensor:
    """Derivative of the sum of `plain_epps_pulley` by each projection, by its formula, without a graph.

    Example:
        >>> x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
        >>> grid = Grid.trapezoid(17, 5.0)
        >>> (slopes,) = torch.autograd.grad(plain_epps_pulley(x, grid).sum(), x)
        >>> torch.allclose(plain_slopes(x.detach(), grid), slopes, atol=1e-6)
        True
    """
    _, slopes = _tensor_sweeps(x.unsqueeze(0), None, grid, unbiased, True)
    return cast(Tensor, slopes).squeeze(0)


def _traced(x: Tensor) -> bool:
    """Whether a transform of `torch.func`, or a forward-mode derivative, is active on x."""
    return ranks.transformed() or forward_ad.unpack_dual(x).tangent is not None


def _means(powers: _Powers, n: int) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of phi_n of the whole batch, (..., slices, half)."""
    sums = ranks.total(powers.sums())
    return sums[0] / n, sums[1] / n


class _EppsPulley(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, directions, grid, unbiased, want_gradient, triton):  # type: ignore[no-untyped-def]
        sweep = _sweeps(x, grid, triton)
        with torch.autocast(x.device.type, enabled=False):  # projections keep their digits
            wide = at_least_float32(x.detach())
            views = wide.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
            values, gradient = sweep(views, directions, grid, unbiased, want_gradient)
        if gradient is not None:
            ctx.save_for_backward(gradient.view_as(wide), x, directions)
            ctx.dtype, ctx.group = x.dtype, ranks.group()
            ctx.grid, ctx.unbiased = grid, unbiased
        return values.mean() if directions is not None else values.view(*x.shape[:-2], x.shape[-1])

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        gradient, x, directions = ctx.saved_tensors
        with ranks.within(ctx.group):
            if torch.is_grad_enabled():  # this gradient is to be differentiated: compute it with a graph
                with torch.autocast(x.device.type, enabled=False):
                    wide = at_least_float32(x)
                    views = wide.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
                    _, again = _tensor_sweeps(views, directions, ctx.grid, ctx.unbiased, True)
                gradient = cast(Tensor, again).view_as(wide)
            upstream = ranks.total(upstream)  # every rank's loss depends on this rank's samples
        scale = upstream.unsqueeze(-2) if upstream.ndim else upstream
        return (scale * gradient).to(ctx.dtype), None, None, None, None, None


def _statistic(cos_mean: Any, sin_mean: Any, grid: Any, n: int, unbiased: bool) -> tuple[Any, Any, Any]:
    """Statistic per slice and the coefficients g = re + i im of its gradient.

    Args:
        cos_mean, sin_mean: (..., half) real and imaginary part of phi_n, as arrays or as tensors.
        grid: (3, half) knots, phi and weights, of the same kind.
        n: number of samples.
        unbiased: take the U-statistic.
    """
    t, phi, weights = grid
    off = cos_mean - phi  # |phi_n - phi|^2 = off^2 + sin_mean^2, with no digits lost to cancellation
    error = off**2 + sin_mean**2
    more = 1 / (n - 1) if unbiased else 0.0
    if unbiased:
        error = error - more * (1 - cos_mean**2 - sin_mean**2)
    # d cos(t p)/dp = -t sin(t p) and d sin(t p)/dp = t cos(t p); the 1/n of the mean cancels the n
    scale = 2 * weights * t
    return n * (error @ weights), scale * (1 + more) * sin_mean, scale * (off + more * cos_mean)


def _samples(views: Tensor) -> int:
    """Rows of the whole batch."""
    n = ranks.count(views.shape[-2], views.device)
    if n < 2:
        raise ValueError(f"the Epps-Pulley statistic needs at least 2 samples, got {n}")
    return n


def _chunks(views: Tensor, directions: Tensor | None, n: int) -> list[tuple[int, int]]:
    """Ranges of slices in memory at a time; the same on every rank: sums over ranks go by chunk."""
    slices = views.shape[-1] if directions is None else len(directions)
    rows = len(views) * -(-n // ranks.world_size())
    # each chunk rewrites the gradient, of the size of x, which must not dominate the work
    held = _CHUNK if views.device.type == "cpu" else _DEVICE_CHUNK
    size = max(64, held // max(1, rows), 0 if directions is None else views.shape[-1] // 2)
    return [(start, min(start + size, slices)) for start in range(0, slices, size)]


def _sweeps(x: Tensor, grid: Grid, triton: bool) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Choose the implementation of both sweeps over projections of x."""
    if x.dtype == torch.float64 or grid.step is None:
        return _tensor_sweeps
    if triton and served(x.device):
        return _triton_sweeps
    return _compiled_sweeps if x.device.type == "cpu" and threads.COMPILER else _tensor_sweeps


def _triton_sweeps(
    views: Tensor, directions: Tensor | None, grid: Grid, unbiased: bool, want_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Both sweeps as Triton kernels, in float32; memory of two batch x slices."""
    from isojepa.objectives.gaussianity.triton_kernels import TritonPowers

    return _tensor_sweeps(views, directions, grid, unbiased, want_gradient, TritonPowers)


def _tensor_sweeps(
    views: Tensor,
    directions: Tensor | None,
    grid: Grid,
    unbiased: bool,
    want_gradient: bool,
    powers_of: Callable[[Tensor, Grid], _Powers] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Both sweeps as tensor operations on any device; memory of a few batch x slices."""
    n = _samples(views)
    knots = torch.as_tensor(grid.table).to(views)
    directions = None if directions is None else directions.to(views)
    gradient = torch.zeros_like(views) if want_gradient else None
    values = []
    for lo, hi in _chunks(views, directions, n):
        p = views[..., lo:hi] if directions is None else views @ directions[lo:hi].T
        powers = (powers_of or TensorPowers)(p, grid)
        value, re, im = _statistic(*_means(powers, n), knots, n, unbiased)
        values.append(value)
        if gradient is not None:
            q = powers.series(re, im)
            if directions is None:
                gradient[..., lo:hi] = q
            else:
                gradient += q @ directions[lo:hi] / (len(views) * len(directions))
    return torch.cat(values, -1), gradient


def _compiled_sweeps(
    views: Tensor, directions: Tensor | None, grid: Grid, unbiased: bool, want_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Both sweeps compiled, on the CPU, in float32."""
    n = _samples(views)
    directions = None if directions is None else directions.float()
    share = 1.0 if directions is None else 1 / (len(views) * len(directions))  # of a slice in the mean
    gradient = torch.empty_like(views) if want_gradient else None
    values = []
    chunks = _chunks(views, directions, n)
    scratch = _scratch(len(views) * (chunks[0][1] - chunks[0][0]) * views.shape[-2])  # the first is largest
    for lo, hi in chunks:
        shape = len(views), hi - lo, views.shape[-2]
        rows = scratch[: math.prod(shape)].view(shape)
        if directions is None:
            rows.copy_(views[..., lo:hi].mT)
        else:
            torch.matmul(directions[lo:hi], views.mT, out=rows)
        sweep = _sweep_rows if ranks.world_size() == 1 else _sweep_shared_rows
        values.append(sweep(rows, grid, unbiased, n, share if want_gradient else 0.0))
        if gradient is not None and directions is None:
            gradient[..., lo:hi] = rows.mT
        elif gradient is not None and directions is not None:
            chunk = directions[lo:hi].expand(len(views), -1, -1)
            torch.baddbmm(gradient, rows.mT, chunk, beta=float(lo > 0), out=gradient)
    return torch.cat(values, -1), gradient


def _sweep_rows(projections: Tensor, grid: Grid, unbiased: bool, n: int, scale: float) -> Tensor:
    """Statistic of (..., slices, n) projections; their gradient is written over them.

    Args:
        projections: all of the batch.
        grid: equally spaced.
        unbiased: take the U-statistic.
        n: rows of the whole batch.
        scale: factor of the gradient; 0 writes none.
    """
    from isojepa.objectives.gaussianity import kernels  # compiled on first use: keep it out of the import

    rows = projections.view(-1, n).numpy()
    values = np.empty(len(rows))
    base, halved, scale = np.float32(grid.first), grid.halved, float(scale)
    threads.run(
        kernels.whole_slices, kernels.whole_team, rows, base, halved, grid.table, unbiased, scale, values
    )
    return torch.from_numpy(values).float().view(projections.shape[:-1])


def _sweep_shared_rows(projections: Tensor, grid: Grid, unbiased: bool, n: int, scale: float) -> Tensor:
    """`_sweep_rows` for a part of the batch: sums are added over ranks."""
    from isojepa.objectives.gaussianity import kernels
    from isojepa.objectives.gaussianity import kernels as powers

    held = projections.shape[-1]
    slices = math.prod(projections.shape[:-1])
    rows = projections.view(slices, held).numpy()
    sines = np.empty_like(rows) if scale else rows
    half = len(grid.t)
    padded = -(-half // powers.GROUP) * powers.GROUP
    sums = np.empty((2, slices, padded))
    base, keep = np.float32(grid.first), scale != 0
    threads.run(kernels.sum_slices, kernels.sum_team, rows, sines, base, grid.halved, keep, *sums)
    cos_mean, sin_mean = ranks.total(torch.from_numpy(sums[..., :half])).numpy() / n
    value, re, im = _statistic(cos_mean, sin_mean, grid.table, n, unbiased)
    if keep:
        coefficients = np.zeros((2, slices, padded), np.float32)
        coefficients[..., :half] = scale * re, scale * im
        threads.run(kernels.grad_slices, kernels.grad_team, rows, sines, grid.halved, *coefficients)
    return torch.from_numpy(value).float().view(projections.shape[:-1])


_local = threading.local()


def _scratch(size: int) -> Tensor:
    """At least so many float32 numbers, in memory that the thread keeps from call to call.

    Fresh memory of this size costs more than the arithmetic: the system hands it out page by page, cleared.
    Kept as an array, since a tensor made in inference mode could not be written to outside of it.
    """
    if size > 8 * _CHUNK:  # a huge batch: not worth keeping
        return torch.from_numpy(np.empty(size, np.float32))
    if getattr(_local, "memory", None) is None or len(_local.memory) < size:
        _local.memory = np.empty(size, np.float32)
    return torch.from_numpy(_local.memory)


QUADRATURES = ("trapezoid", "gauss-hermite")


class EppsPulley(Statistic):
    r"""n \int |phi_n(t) - e^{-t^2/2}|^2 e^{-t^2/(2 sigma^2)} dt, by quadrature, in O(n).

    Value, gradient and curvature are bounded whatever the samples are.

    Args:
        knots: points of the quadrature on the whole line; those with t > 0 are computed.
        t_max: the trapezoid rule's end; Gauss-Hermite quadrature chooses its own.
        sigma: width of the window.
        quadrature: "trapezoid" or "gauss-hermite".
        unbiased: remove the O(1/n) bias of the statistic as an estimate of the distance of distributions.

    Example:
        >>> round(EppsPulley()(torch.zeros(100, 1)).item(), 1)  # a point mass
        40.9
    """

    least = 2
    limit_from = 512

    @validate_types
    def __init__(
        self,
        knots: int = 17,
        t_max: float = 5.0,
        sigma: float = 1.0,
        quadrature: str = "trapezoid",
        unbiased: bool = False,
    ) -> None:
        super().__init__()
        if quadrature not in QUADRATURES:
            raise ValueError(unknown("quadrature", quadrature, QUADRATURES))
        if not 0 < t_max < math.inf:
            raise ValueError(f"t_max must be positive and finite, got {t_max}")
        self.knots, self.t_max, self.sigma = knots, t_max, sigma
        self.quadrature, self.unbiased = quadrature, unbiased
        if quadrature == "trapezoid":
            self.grid = Grid.trapezoid(knots, t_max, sigma)
        else:
            self.grid = Grid.hermite(knots, sigma)

    def _of(self, x: Tensor, n: int) -> Tensor:
        return epps_pulley(x, self.grid, self.unbiased)

    def limit(self, n: int, dim: int) -> LimitDistribution:
        """Quadratic form of the Gaussian process that sqrt(n) (phi_n - phi) tends to, at the knots."""
        t, phi, weights = self.grid.table
        minus, plus = (np.exp(-((t[:, None] + sign * t) ** 2) / 2) for sign in (-1, 1))
        root = np.sqrt(np.outer(weights, weights))
        cosines = scipy.linalg.eigh(root * ((minus + plus) / 2 - np.outer(phi, phi)), eigvals_only=True)
        sines = scipy.linalg.eigh(root * (minus - plus) / 2, eigvals_only=True)
        spectrum = np.concatenate((cosines, sines)).clip(min=0)
        return LimitDistribution(tuple(spectrum[spectrum > 0]), -spectrum.sum() if self.unbiased else 0.0)

    def extra_repr(self) -> str:
        return (
            f"knots={self.knots}, t_max={self.t_max}, sigma={self.sigma}, "
            f"quadrature={self.quadrature!r}, unbiased={self.unbiased}"
        )


class EppsPulleyExact(Statistic):
    r"""The integral of `EppsPulley` in closed form, in O(n^2).

        sigma sqrt(2 pi)/n sum_jk e^{-sigma^2 (x_j - x_k)^2 / 2}
          - 2 sqrt(2 pi / (1 + sigma^-2)) sum_j e^{-x_j^2 / (2 (1 + sigma^-2))} + n sqrt(2 pi/(2 + sigma^-2))

    Args:
        sigma: width of the window.
        unbiased: leave out the terms j = k, and divide by n - 1 in place of n.
    """

    least = 2
    gathers = True

    @validate_types
    def __init__(self, sigma: float = 1.0, unbiased: bool = False) -> None:
        super().__init__()
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma}")
        self.sigma, self.unbiased = sigma, unbiased

    def _of(self, x: Tensor, n: int) -> Tensor:
        inverse = self.sigma**-2
        difference = x.unsqueeze(-2) - x.unsqueeze(-3)
        pairs = torch.exp(-(self.sigma**2) / 2 * difference**2).sum((-2, -3))
        pairs = (pairs - n) / (n - 1) if self.unbiased else pairs / n
        cross = torch.exp(-(x**2) / (2 * (1 + inverse))).sum(-2)
        return (
            self.sigma * math.sqrt(2 * math.pi) * pairs
            - 2 * math.sqrt(2 * math.pi / (1 + inverse)) * cross
            + n * math.sqrt(2 * math.pi / (2 + inverse))
        )

    def null(
        self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0
    ) -> NullDistribution | LimitDistribution:
        """That of the quadrature, which agrees to many digits and is faster to simulate."""
        # a step that resolves the window, and whose period is beyond any two Gaussian samples' distance
        t_max, step = 10 * self.sigma, min(self.sigma / 3, 2 * math.pi / (14 + 8 / self.sigma))
        fine = EppsPulley(2 * math.ceil(t_max / step) + 1, t_max, self.sigma, unbiased=self.unbiased)
        return fine.null(n, dim, draws, seed)

    def extra_repr(self) -> str:
        return f"sigma={self.sigma}, unbiased={self.unbiased}"


_TRITON_DEVICES = "cuda", "xpu", "cpu"  # torch calls AMD's devices cuda too


_MIN_CAPABILITY = 7, 0  # compute capability that Triton needs


def served(device: torch.device) -> bool:
    """Whether the Triton kernels run on a device; the first call for each device tests them.

    Example:
        >>> served(torch.device("meta"))
        False
    """
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    return device.type in _TRITON_DEVICES and _works(device)


@cache
def _works(device: torch.device) -> bool:
    """Whether the kernels agree with tensor operations; warns if they do not."""
    try:
        fault = _fault(device)
    except Exception as error:  # no compiler, no driver, another version: fall back
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
    if fault:
        warnings.warn(
            f"Triton's kernels do not work on {device}, so SIGReg runs without them there: {fault}",
            RuntimeWarning,
            stacklevel=2,
        )
    return not fault


def _fault(device: torch.device) -> str:
    """Reason why the kernels do not work on a device, or an empty string."""
    if find_spec("triton") is None:
        return "triton is not installed"
    from isojepa.objectives.gaussianity.triton_kernels import TritonPowers

    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _MIN_CAPABILITY:
        return f"its compute capability is below {_MIN_CAPABILITY[0]}.{_MIN_CAPABILITY[1]}"
    grid = Grid.trapezoid(40, 5.0)
    values = torch.linspace(-4, 4, 2 * 37 * 5, dtype=torch.float32, device=device)
    p, (re, im) = values.view(2, 37, 5), values[:200].view(2, 2, 5, 10).repeat(1, 1, 1, 2)
    triton, tensor = TritonPowers(p, grid), TensorPowers(p, grid)
    pairs = (triton.sums(), tensor.sums()), (triton.series(re, im), tensor.series(re, im))
    difference = max(float((a - b).abs().max()) for a, b in pairs)
    return "" if difference < 1e-2 else f"a sum is off by {difference:.2g}"
