r"""The sliced Epps-Pulley statistic, with its gradient, without storing batch x slices x knots.

For projections p_1..p_n of a batch on one direction, with phi(t) = e^{-t^2/2} the characteristic function
of N(0, 1) and phi_n(t) = (1/n) sum_i e^{i t p_i} that of the sample,

    T = n \int |phi_n(t) - phi(t)|^2 phi(t) dt
      ~ n sum_j w_j ( |phi_n(t_j)|^2 - 2 phi(t_j) Re phi_n(t_j) + phi(t_j)^2 ),

the trapezoid rule on `knots` equally spaced points of [-t_max, t_max] (Balestriero & LeCun 2025, "LeJEPA",
Section 4.2.3 and Algorithm 1). The integrand is even: the points t > 0 with twice the weight suffice, and
t = 0 adds nothing. The value is the mean of T over directions.

`unbiased` replaces |phi_n|^2 by its U-statistic (n |phi_n|^2 - 1) / (n - 1), which removes the O(1/n) bias
of their Theorem 6 from value and gradient.

The gradient dT/dp_i = sum_j Re(g_j e^{i t_j p_i}) needs one complex coefficient per slice and knot, so the
whole is two sweeps over the projections (see `kernels`). On the CPU in float32 they are compiled; on other
devices and in float64 the same two sweeps run as tensor operations.
"""

import itertools
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_CHUNK = 1 << 20  # projections held at a time; the same for any number of threads, so that results are too
_SERIAL = 1 << 18  # projections that are worth one more thread


@dataclass(frozen=True)
class Grid:
    """The half line's knots.

    Attributes:
        first: first positive knot.
        step: distance of knots.
        table: (3, half) the positive knots t; phi(t); and the trapezoid weight times phi(t), doubled for
            the negative half.
    """

    first: float
    step: float
    table: np.ndarray

    @classmethod
    def trapezoid(cls, knots: int, t_max: float) -> "Grid":
        """Knots of the trapezoid rule on [-t_max, t_max]; an odd number includes t = 0.

        Raises:
            ValueError: fewer than 2 knots, or t_max not positive.
        """
        if int(knots) != knots or knots < 2:
            raise ValueError(f"knots must be an integer of at least 2, got {knots}")
        if not 0 < t_max < float("inf"):
            raise ValueError(f"t_max must be positive and finite, got {t_max}")
        step = 2 * t_max / (knots - 1)
        first = step if knots % 2 else step / 2
        t = first + step * np.arange(knots // 2)
        phi = np.exp(-(t**2) / 2)
        weights = 2 * step * phi
        weights[-1] /= 2
        return cls(float(first), float(step), np.stack((t, phi, weights)))

    @property
    def t(self) -> np.ndarray:
        """(half,) the positive knots."""
        return self.table[0]

    @property
    def halved(self) -> bool:
        """Whether the first knot is half a step: an even number of knots on the line."""
        return self.first != self.step


def sliced_epps_pulley(x: Tensor, directions: Tensor, grid: Grid, unbiased: bool = False) -> Tensor:
    """Mean Epps-Pulley statistic over directions and over the leading axes.

    Args:
        x: (..., batch, dim) samples.
        directions: (slices, dim) unit vectors.
        grid: where the characteristic function is compared.
        unbiased: take the U-statistic.

    Returns:
        A scalar; differentiable once with respect to x.
    """
    return _SlicedEppsPulley.apply(x, directions, grid, unbiased)


class _SlicedEppsPulley(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, directions, grid, unbiased):  # type: ignore[no-untyped-def]
        compiled = x.device.type == "cpu" and x.dtype != torch.float64
        sweep = _compiled_sweeps if compiled else _tensor_sweeps
        with torch.autocast(x.device.type, enabled=False):  # projections keep their digits
            value, gradient = sweep(x.detach(), directions, grid, unbiased, ctx.needs_input_grad[0])
        if gradient is not None:
            ctx.save_for_backward(gradient.to(x.dtype))
        return value.to(x.dtype) if x.dtype == torch.float64 else value.float()

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        (gradient,) = ctx.saved_tensors
        return upstream.to(gradient.dtype) * gradient, None, None, None


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


def _tensor_sweeps(
    x: Tensor, directions: Tensor, grid: Grid, unbiased: bool, want_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Both sweeps as tensor operations on any device; memory of a few batch x slices."""
    x = x if x.dtype == torch.float64 else x.float()
    views = x.reshape(-1, *x.shape[-2:])
    directions = directions.to(x)
    n, half = x.shape[-2], len(grid.t)
    knots = torch.as_tensor(grid.table).to(x)
    gradient = torch.zeros_like(views) if want_gradient else None
    total = x.new_zeros(())
    for chunk in directions.split(max(1, _CHUNK // (len(views) * n))):
        p = views @ chunk.T
        zc, zs = torch.cos(grid.first * p), torch.sin(grid.first * p)
        wc, ws = (torch.cos(grid.step * p), torch.sin(grid.step * p)) if grid.halved else (zc, zs)
        c, s = zc, zs
        cos_mean, sin_mean = [c.mean(-2)], [s.mean(-2)]
        for _ in range(half - 1):
            c, s = c * wc - s * ws, c * ws + s * wc
            cos_mean.append(c.mean(-2))
            sin_mean.append(s.mean(-2))
        value, re, im = _statistic(torch.stack(cos_mean, -1), torch.stack(sin_mean, -1), knots, n, unbiased)
        total = total + value.sum()
        if gradient is not None:
            re, im = re.unsqueeze(1), im.unsqueeze(1)  # (view, 1, slice, half): the same for every sample
            c, s = re[..., -1].expand_as(p), im[..., -1].expand_as(p)
            for j in range(half - 2, -1, -1):
                c, s = c * wc - s * ws + re[..., j], c * ws + s * wc + im[..., j]
            gradient += (c * zc - s * zs) @ chunk
    count = len(views) * len(directions)
    return total / count, gradient.div_(count).view_as(x) if gradient is not None else None


def _compiled_sweeps(
    x: Tensor, directions: Tensor, grid: Grid, unbiased: bool, want_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Both sweeps compiled, on the CPU, in float32."""
    x, directions = x.float(), directions.float()
    views = x.reshape(-1, *x.shape[-2:])
    gradient = torch.zeros_like(views) if want_gradient else None
    total = 0.0
    for chunk in directions.split(max(64, _CHUNK // (len(views) * x.shape[-2]))):
        rows, sines = _scratch(len(views), len(chunk), x.shape[-2])
        torch.matmul(chunk, views.mT, out=rows)
        total += _sweep_rows(rows, sines, grid, unbiased, want_gradient)
        if gradient is not None:
            gradient.baddbmm_(rows.mT, chunk.expand(len(views), -1, -1))
    count = len(views) * len(directions)
    return torch.tensor(total / count), gradient.div_(count).view_as(x) if gradient is not None else None


def _sweep_rows(
    projections: Tensor, scratch: Tensor, grid: Grid, unbiased: bool, want_gradient: bool
) -> float:
    """Sum of the statistic over (..., n) projections; their gradient is written over them."""
    from isojepa.objectives import kernels  # compiled on first use: keep it out of the package's import

    n = projections.shape[-1]
    rows, sines = projections.view(-1, n).numpy(), scratch.view(-1, n).numpy()
    slices = len(rows)
    half = len(grid.t)
    padded = -(-half // kernels.GROUP) * kernels.GROUP
    base, halved = np.float32(grid.first), grid.halved

    sums = np.empty((2, slices, padded))
    _spread(lambda lo, hi: kernels.sum_slices(rows, sines, base, halved, lo, hi, *sums), slices, n)
    cos_mean, sin_mean = sums[..., :half] / n
    value, re, im = _statistic(cos_mean, sin_mean, grid.table, n, unbiased)
    if want_gradient:
        coefficients = np.zeros((2, slices, padded), np.float32)
        coefficients[..., :half] = re, im
        _spread(lambda lo, hi: kernels.grad_slices(rows, sines, halved, lo, hi, *coefficients), slices, n)
    return float(value.sum())


_local = threading.local()


def _scratch(*shape: int) -> tuple[Tensor, Tensor]:
    """Two float32 tensors of a shape, in memory that the thread keeps from call to call.

    Fresh memory of this size costs more than the arithmetic: the system hands it out page by page, cleared.
    """
    size = math.prod(shape)
    if size > 4 * _CHUNK:  # a huge batch: not worth keeping
        rows, sines = torch.empty(2, *shape)
        return rows, sines
    if getattr(_local, "size", 0) < size:
        _local.size, _local.pair = size, torch.empty(2, size)
    rows, sines = _local.pair
    return rows[:size].view(shape), sines[:size].view(shape)


_pool: ThreadPoolExecutor | None = None


def _spread(task: Callable[[int, int], None], slices: int, n: int) -> None:
    """Run task(lo, hi) over all slices, on as many threads as torch uses.

    Every slice is computed by one thread from its own row alone, so the cut does not show in the result.
    """
    global _pool
    threads = min(torch.get_num_threads(), 1 + slices * n // _SERIAL, slices)
    if threads > 1 and _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="isojepa")
    cuts = [slices * part // threads for part in range(threads + 1)]
    waiting = [_pool.submit(task, *cut) for cut in itertools.pairwise(cuts[1:])] if _pool else []
    task(cuts[0], cuts[1])
    for job in waiting:
        job.result()


def _forget_pool() -> None:
    """A forked child has the pool's queue but none of its threads: make it start its own."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # systems without fork need no such care
    os.register_at_fork(after_in_child=_forget_pool)
