"""Triton kernels for the empirical characteristic function of many slices; opt-in, never run on a GPU.

The two sweeps of `kernels`, for projections (view, batch, slices). A program of `sum_powers` goes through
some rows of a few slices, keeps the running sums of GROUP knots, one per lane, in registers, adds up the
lanes at its end and writes one partial sum per slice and knot. No two programs write to one address: there
are no atomics, and the order of sums depends on the shape alone. A program of `horner` evaluates the
polynomial of the gradient for one tile of projections. `TritonPowers` launches both; nothing of size batch x
slices x knots is stored.

All programs are numbered along one axis, since the other axes of a launch are short. Offsets are int64. Block
shapes are fixed instead of autotuned, because autotuning could change the order of sums between calls. This
module imports triton: only `epps_pulley` imports it, on request.
"""
# Triton infers the types of these functions when it compiles them
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import contextlib

import torch
import triton
import triton.language as tl
from torch import Tensor

from isojepa.objectives.gaussianity.epps_pulley import Grid

GROUP = 8  # knots whose running sums a program holds: written out below, for want of arrays in registers


@triton.jit
def _turned(c, s, wc, ws):
    """(c + i s) (wc + i ws)."""
    return c * wc - s * ws, c * ws + s * wc


@triton.jit
def _unit(p, first, halved: tl.constexpr):
    """e^{i first p} and e^{i step p}."""
    c, s = tl.cos(first * p), tl.sin(first * p)
    if halved:
        wc, ws = _turned(c, s, c, s)
    else:
        wc, ws = c, s
    return c, s, wc, ws


@triton.jit
def sum_powers(
    p,
    cos_sums,
    sin_sums,
    batch,
    slices,
    span,
    blocks,
    groups,
    first,
    view_stride,
    row_stride,
    column_stride,
    halved: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    """Sums of cos(t p) and sin(t p) over blocks of the batch.

    Args:
        p: (view, batch, slices) projections, of any strides.
        cos_sums, sin_sums: (view, blocks, 8 groups, slices) output.
        batch, slices: as in p.
        span: rows of a block, a multiple of `rows`.
        blocks, groups: of rows, and of 8 knots.
        first: first knot. The step is `first`, or twice it when `halved`.
        view_stride, row_stride, column_stride: of p.
        halved, rows, columns: see above; a tile is rows x columns.
    """
    place = tl.program_id(0)
    tiles = tl.cdiv(slices, columns)
    column = (place % tiles) * columns + tl.arange(0, columns)
    place = place // tiles
    group = place % groups
    place = place // groups
    block = place % blocks
    view = (place // blocks).to(tl.int64)
    held = column < slices
    across = p + view * view_stride + column[None, :].to(tl.int64) * column_stride

    zero = tl.zeros((rows, columns), tl.float32)
    c0, c1, c2, c3, c4, c5, c6, c7 = zero, zero, zero, zero, zero, zero, zero, zero
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for start in range(block * span, tl.minimum(batch, block * span + span), rows):
        row = start + tl.arange(0, rows)
        there = (row[:, None] < batch) & held[None, :]
        value = tl.load(across + row[:, None].to(tl.int64) * row_stride, mask=there, other=0.0)
        c, s, wc, ws = _unit(value, first, halved)
        c = tl.where(there, c, 0.0)  # a sample that is not there: all powers of 0 are 0
        if group > 0:
            ac, az = _turned(wc, ws, wc, ws)
            ac, az = _turned(ac, az, ac, az)
            ac, az = _turned(ac, az, ac, az)
            for _ in range(group):
                c, s = _turned(c, s, ac, az)
        c0 += c
        s0 += s
        c, s = _turned(c, s, wc, ws)
        c1 += c
        s1 += s
        c, s = _turned(c, s, wc, ws)
        c2 += c
        s2 += s
        c, s = _turned(c, s, wc, ws)
        c3 += c
        s3 += s
        c, s = _turned(c, s, wc, ws)
        c4 += c
        s4 += s
        c, s = _turned(c, s, wc, ws)
        c5 += c
        s5 += s
        c, s = _turned(c, s, wc, ws)
        c6 += c
        s6 += s
        c, s = _turned(c, s, wc, ws)
        c7 += c
        s7 += s

    to = ((view * blocks + block) * groups + group) * 8 * slices + column
    tl.store(cos_sums + to, tl.sum(c0, 0), mask=held)
    tl.store(cos_sums + to + slices, tl.sum(c1, 0), mask=held)
    tl.store(cos_sums + to + 2 * slices, tl.sum(c2, 0), mask=held)
    tl.store(cos_sums + to + 3 * slices, tl.sum(c3, 0), mask=held)
    tl.store(cos_sums + to + 4 * slices, tl.sum(c4, 0), mask=held)
    tl.store(cos_sums + to + 5 * slices, tl.sum(c5, 0), mask=held)
    tl.store(cos_sums + to + 6 * slices, tl.sum(c6, 0), mask=held)
    tl.store(cos_sums + to + 7 * slices, tl.sum(c7, 0), mask=held)
    tl.store(sin_sums + to, tl.sum(s0, 0), mask=held)
    tl.store(sin_sums + to + slices, tl.sum(s1, 0), mask=held)
    tl.store(sin_sums + to + 2 * slices, tl.sum(s2, 0), mask=held)
    tl.store(sin_sums + to + 3 * slices, tl.sum(s3, 0), mask=held)
    tl.store(sin_sums + to + 4 * slices, tl.sum(s4, 0), mask=held)
    tl.store(sin_sums + to + 5 * slices, tl.sum(s5, 0), mask=held)
    tl.store(sin_sums + to + 6 * slices, tl.sum(s6, 0), mask=held)
    tl.store(sin_sums + to + 7 * slices, tl.sum(s7, 0), mask=held)


@triton.jit
def horner(
    p,
    re,
    im,
    out,
    batch,
    slices,
    half,
    first,
    view_stride,
    row_stride,
    column_stride,
    halved: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    """Re( sum_j (re_j + i im_j) e^{i t_j p} ) of every projection, from the highest power down.

    Args:
        p: (view, batch, slices) projections, of any strides.
        re, im: (view, half, slices) coefficients.
        out: (view, batch, slices) output.
        batch, slices: as in p.
        half: knots.
        first, view_stride, row_stride, column_stride, halved, rows, columns: as in `sum_powers`.
    """
    place = tl.program_id(0)
    tiles = tl.cdiv(slices, columns)
    column = (place % tiles) * columns + tl.arange(0, columns)
    place = place // tiles
    blocks = tl.cdiv(batch, rows)
    row = (place % blocks) * rows + tl.arange(0, rows)
    view = (place // blocks).to(tl.int64)
    held = column < slices
    there = (row[:, None] < batch) & held[None, :]
    column = column.to(tl.int64)
    line = row[:, None].to(tl.int64)
    value = tl.load(
        p + view * view_stride + line * row_stride + column[None, :] * column_stride, mask=there, other=0.0
    )
    c, s, wc, ws = _unit(value, first, halved)

    x = tl.zeros((rows, columns), tl.float32)
    y = tl.zeros((rows, columns), tl.float32)
    last = (view * half + half - 1) * slices + column
    for j in range(half):
        x, y = _turned(x, y, wc, ws)
        x += tl.load(re + last - j * slices, mask=held, other=0.0)[None, :]
        y += tl.load(im + last - j * slices, mask=held, other=0.0)[None, :]
    tl.store(out + (view * batch + line) * slices + column[None, :], x * c - y * s, mask=there)


_ROWS, _COLUMNS, _WARPS = 16, 32, 4  # a tile: 4 projections for each of 128 threads; more spill registers


_SPAN = 32  # rows per knot in a partial sum, which so takes a sixteenth of the projections' memory


class TritonPowers:
    """`TensorPowers` by the kernels, in float32, for equally spaced knots.

    Args:
        p: (view, batch, slices) projections.
        grid: the knots.
    """

    def __init__(self, p: Tensor, grid: Grid) -> None:
        self.p, self.grid = p, grid

    def sums(self) -> Tensor:
        """(2, view, slices, half) sums of cosines and of sines over the batch."""
        views, batch, slices = self.p.shape
        half = len(self.grid.t)
        groups = -(-half // GROUP)
        span = _SPAN * GROUP * groups
        blocks = -(-batch // span)
        parts = self.p.new_empty(2, views, blocks, GROUP * groups, slices)
        programs = views * blocks * groups * -(-slices // _COLUMNS)
        self._launch(sum_powers, programs, (*parts, batch, slices, span, blocks, groups))
        return parts.sum(2)[..., :half, :].mT

    def series(self, re: Tensor, im: Tensor) -> Tensor:
        """Re( sum_j (re_j + i im_j) e^{i t_j p} ), as p, of (view, slices, half) coefficients."""
        views, batch, slices = self.p.shape
        out = self.p.new_empty(self.p.shape)
        programs = views * -(-batch // _ROWS) * -(-slices // _COLUMNS)
        coefficients = (
            re.mT.contiguous(),
            im.mT.contiguous(),
        )  # coefficients of a knot contiguous, as the kernel reads them
        self._launch(horner, programs, (*coefficients, out, batch, slices, len(self.grid.t)))
        return out

    def _launch(self, kernel: object, programs: int, arguments: tuple[object, ...]) -> None:
        if programs == 0:  # a rank without samples
            return
        with _within(self.p.device):
            kernel[(programs,)](  # type: ignore[index]
                self.p,
                *arguments,
                self.grid.first,
                *self.p.stride(),
                halved=self.grid.halved,
                rows=_ROWS,
                columns=_COLUMNS,
                num_warps=_WARPS,
                enable_fp_fusion=True,  # the default differs between versions
            )


def _within(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Make a device current: Triton launches on the current device, whatever device the tensors are on."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    module = getattr(torch, device.type)  # torch.cuda or torch.xpu
    entered: contextlib.AbstractContextManager[object] = module.device(device)
    return entered
