"""Compiled loops of the sliced Epps-Pulley statistic and its gradient.

A slice is one projection of the batch, p in R^n. For the grid t_j = first + j * step the two sweeps are

    sums      C_j = sum_i cos(t_j p_i),   S_j = sum_i sin(t_j p_i)
    gradient  q_i = Re( sum_j g_j e^{i t_j p_i} )            for complex coefficients g_j of the slice

The grid is equally spaced, so e^{i t_j p} is a power of e^{i step p}: one sine and cosine per projected
sample and at most one complex multiplication per knot. The gradient is the same polynomial by Horner's rule,
from the same sine and cosine. Nothing of size batch x slices x knots is stored. Sums run in float32 over
blocks of 1024 samples and across blocks in float64. Both sweeps of a slice run while it is in cache, unless
sums of other ranks have to be added in between.

Two floating-point licenses are used. `contract` lets the compiler fuse multiply and add; the range reduction
of `unit_phase` allows nothing more, since reassociating its constants would lose digits. `reassoc`, for the
sums, lets the reduction run in vector lanes.

One thread computes each slice from its own row, so the result does not depend on the number of threads.

Innermost loops: for w = e^{i step p} and z = e^{i first p} of every sample of a slice, `sum_group` adds z,
zw, zw^2, ... to the sums of the slice, GROUP powers at a time, and `horner_group` evaluates a polynomial in
w. Slices of few samples are processed together, in `sum_groups` and `horner_groups`: a call costs as much as
some hundred samples.

numba caches compiled code on disk by the source file of the compiled function only.
"""

import math

import numpy as np
from numba import float32, njit, prange, types
from numba.extending import intrinsic

# numba infers the types of these functions when it compiles them
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators


GROUP = 8  # knots per unrolled pass: 16 running sums stay in vector registers
BLOCK = 1024  # samples per float32 partial sum

EXACT = {"contract", "nsz"}
LANES = {"contract", "nsz", "reassoc"}

_ROUND = 12582912.0  # 1.5 * 2^23
# pi / 2 as a sum of three floats, the first two with trailing zeros: q * part is exact for moderate q.
_TURN_A, _TURN_B, _TURN_C = 1.5703125, 4.837512969970703e-4, 7.54978995489188e-8


@intrinsic
def wide(typing_context):
    """Let the compiler use vectors of 512 bits in the calling function, where the processor has them.

    By itself it keeps to 256 for fear of lower clock rates; these loops gain half of their speed again.
    """

    def generate(context, builder, signature, arguments):
        # a string attribute, which llvmlite's own `add` does not know; unknown ones are ignored elsewhere
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


def compiled(fastmath, parallel=False, inline="never"):
    """Compile on first use and keep the result on disk, or in memory where no folder can be written.

    Divisions by 0 are NumPy's: a loop that must stop at the first of them has no vectors.
    """

    def wrap(function):
        options = {"nogil": True, "fastmath": fastmath, "parallel": parallel, "inline": inline}
        options["error_model"] = "numpy"
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)

    return wrap


@compiled(EXACT)
def unit_phase(p, base, cos_out, sin_out):
    """Write cos(base p) and sin(base p) for every sample of one slice."""
    wide()
    for i in range(p.size):
        x = base * p[i]
        # adding and taking off 1.5 * 2^23 rounds to an integer, without the detour of a conversion to one
        quarter = (x * float32(2.0 / math.pi) + float32(_ROUND)) - float32(_ROUND)
        r = x - quarter * float32(_TURN_A)
        r = r - quarter * float32(_TURN_B)
        r = r - quarter * float32(_TURN_C)
        # beyond about 1e6 turns float32 knows no phase: any will do, but it must lie on the circle
        r = r if abs(r) <= float32(0.8) else r * float32(0.0)
        u = r * r
        # Taylor polynomials: on |r| <= pi/4 the first omitted terms are below 3e-9.
        s = float32(2.7557319e-6)
        s = s * u - float32(1.9841270e-4)
        s = s * u + float32(8.3333333e-3)
        s = s * u - float32(1.6666667e-1)
        s = r + r * u * s
        c = float32(-2.7557319e-7)
        c = c * u + float32(2.4801587e-5)
        c = c * u - float32(1.3888889e-3)
        c = c * u + float32(4.1666667e-2)
        c = c * u - float32(0.5)
        c = float32(1.0) + u * c
        below = (quarter * float32(0.25) - float32(0.375) + float32(_ROUND)) - float32(_ROUND)
        turn = quarter - float32(4.0) * below  # 0, 1, 2 or 3
        odd = (turn == float32(1.0)) | (turn == float32(3.0))
        cos_abs = s if odd else c
        sin_abs = c if odd else s
        cos_out[i] = -cos_abs if (turn == float32(1.0)) | (turn == float32(2.0)) else cos_abs
        sin_out[i] = -sin_abs if turn >= float32(2.0) else sin_abs


@compiled(EXACT)
def doubled(zc, zs, wc, ws):
    """Write w = z^2: twice the angle."""
    wide()
    for i in range(zc.size):
        a, b = zc[i], zs[i]
        wc[i] = a * a - b * b
        ws[i] = float32(2.0) * a * b


@compiled(LANES, inline="always")
def _add_powers(wc, ws, zc, zs, cos_sums, sin_sums, next_c, next_s):
    """Add GROUP consecutive powers z, zw, zw^2, ... to the slice's sums; write the power that follows.

    Within the group each power is 2 Re(w) times the last less the one before: half the work of a product.
    Its rounding errors grow with the square of the steps, which are few, and are averaged over samples.
    """
    zero = float32(0.0)
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = zero
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = zero
    for i in range(wc.size):
        a, b = wc[i], ws[i]
        x, y = zc[i], zs[i]
        c0 += x
        s0 += y
        u, v = x * a - y * b, x * b + y * a
        c1 += u
        s1 += v
        t = a + a
        x, y = t * u - x, t * v - y
        c2 += x
        s2 += y
        u, v = t * x - u, t * y - v
        c3 += u
        s3 += v
        x, y = t * u - x, t * v - y
        c4 += x
        s4 += y
        u, v = t * x - u, t * y - v
        c5 += u
        s5 += v
        x, y = t * u - x, t * v - y
        c6 += x
        s6 += y
        u, v = t * x - u, t * y - v
        c7 += u
        s7 += v
        next_c[i], next_s[i] = u * a - v * b, u * b + v * a
    cos_sums[0] += c0
    cos_sums[1] += c1
    cos_sums[2] += c2
    cos_sums[3] += c3
    cos_sums[4] += c4
    cos_sums[5] += c5
    cos_sums[6] += c6
    cos_sums[7] += c7
    sin_sums[0] += s0
    sin_sums[1] += s1
    sin_sums[2] += s2
    sin_sums[3] += s3
    sin_sums[4] += s4
    sin_sums[5] += s5
    sin_sums[6] += s6
    sin_sums[7] += s7


@compiled(LANES)
def sum_group(wc, ws, zc, zs, cos_sums, sin_sums, next_c, next_s):
    """`_add_powers` of one slice."""
    wide()
    _add_powers(wc, ws, zc, zs, cos_sums, sin_sums, next_c, next_s)


@compiled(LANES)
def sum_groups(wc, ws, zc, zs, n, cos_sums, sin_sums, k, next_c, next_s):
    """`_add_powers` of several slices of n samples, one after the other in (slices * n,)."""
    wide()
    for r in range(cos_sums.shape[0]):
        lo, hi = r * n, r * n + n
        to_c, to_s = cos_sums[r, k : k + GROUP], sin_sums[r, k : k + GROUP]
        _add_powers(wc[lo:hi], ws[lo:hi], zc[lo:hi], zs[lo:hi], to_c, to_s, next_c[lo:hi], next_s[lo:hi])


@compiled(EXACT, inline="always")
def _horner(wc, ws, re, im, x_acc, y_acc):
    """One Horner pass over GROUP coefficients, from the highest power down."""
    r0, r1, r2, r3, r4, r5, r6, r7 = re[0], re[1], re[2], re[3], re[4], re[5], re[6], re[7]
    i0, i1, i2, i3, i4, i5, i6, i7 = im[0], im[1], im[2], im[3], im[4], im[5], im[6], im[7]
    for i in range(wc.size):
        a, b = wc[i], ws[i]
        x, y = x_acc[i], y_acc[i]
        x, y = x * a - y * b + r7, x * b + y * a + i7
        x, y = x * a - y * b + r6, x * b + y * a + i6
        x, y = x * a - y * b + r5, x * b + y * a + i5
        x, y = x * a - y * b + r4, x * b + y * a + i4
        x, y = x * a - y * b + r3, x * b + y * a + i3
        x, y = x * a - y * b + r2, x * b + y * a + i2
        x, y = x * a - y * b + r1, x * b + y * a + i1
        x, y = x * a - y * b + r0, x * b + y * a + i0
        x_acc[i], y_acc[i] = x, y


@compiled(EXACT)
def horner_group(wc, ws, re, im, x_acc, y_acc):
    """`_horner` of one slice."""
    wide()
    _horner(wc, ws, re, im, x_acc, y_acc)


@compiled(EXACT)
def horner_groups(wc, ws, n, re, im, k, x_acc, y_acc):
    """`_horner` of several slices of n samples, one after the other in (slices * n,)."""
    wide()
    for r in range(re.shape[0]):
        lo, hi = r * n, r * n + n
        _horner(wc[lo:hi], ws[lo:hi], re[r, k : k + GROUP], im[r, k : k + GROUP], x_acc[lo:hi], y_acc[lo:hi])


_PART = 8  # slices that one thread takes at a time


@compiled(EXACT)
def _sum_row(row, base, halved, keep, cosines, sines, cos_sums, sin_sums, scratch):
    """Characteristic sums of one slice; its unit phases too, if they are kept.

    Args:
        row: (n,) projections p.
        base: first knot of the grid. The step is `base`, or twice it when `halved`.
        halved: whether the grid is base, 3 base, 5 base, ... (an even number of knots on the line).
        keep: whether `_grad_row` follows, which needs the phases.
        cosines, sines: (n,) receive cos(base p) and sin(base p); `cosines` may be `row` itself.
        cos_sums, sin_sums: (knots,) float64 output, knots a multiple of GROUP.
        scratch: (8, BLOCK).
    """
    n = row.size
    cos_sums[:] = 0.0
    sin_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        # into scratch first: a loop whose output overlaps its input is not vectorised
        zc, zs = scratch[0, :m], scratch[1, :m]
        unit_phase(row[start : start + m], base, zc, zs)
        if keep:
            for i in range(m):  # slices would bring an error message of their shapes: seconds to compile
                cosines[start + i], sines[start + i] = zc[i], zs[i]
        wc, ws = zc, zs
        if halved:
            wc, ws = scratch[2, :m], scratch[3, :m]
            doubled(zc, zs, wc, ws)
        pc, ps = scratch[4, :m], scratch[5, :m]
        qc, qs = scratch[6, :m], scratch[7, :m]
        for k in range(0, cos_sums.size, GROUP):
            sum_group(wc, ws, zc, zs, cos_sums[k : k + GROUP], sin_sums[k : k + GROUP], pc, ps)
            zc, zs = pc, ps
            pc, ps, qc, qs = qc, qs, pc, ps  # the next output is not this one's input


@compiled(EXACT)
def _grad_row(cosines, sines, halved, re, im, out, scratch):
    """Write the gradient of one slice.

    Args:
        cosines, sines: (n,) unit phases.
        halved: as in `_sum_row`.
        re, im: (knots,) float32 coefficients g = re + i im, padded with zeros to a multiple of GROUP.
        out: (n,), which may be `cosines` itself.
        scratch: (8, BLOCK).
    """
    n = cosines.size
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        zc, zs = cosines[start : start + m], sines[start : start + m]
        wc, ws = zc, zs
        if halved:
            wc, ws = scratch[0, :m], scratch[1, :m]
            doubled(zc, zs, wc, ws)
        x, y = scratch[2, :m], scratch[3, :m]
        x[:] = float32(0.0)
        y[:] = float32(0.0)
        for k in range(re.size - GROUP, -1, -GROUP):
            horner_group(wc, ws, re[k : k + GROUP], im[k : k + GROUP], x, y)
        to = out[start : start + m]
        for i in range(m):
            to[i] = x[i] * zc[i] - y[i] * zs[i]


@compiled(EXACT)
def sum_slices(cosines, sines, base, halved, keep, cos_sums, sin_sums, lo, hi):
    """Characteristic sums of slices lo..hi.

    Args:
        cosines: (slices, n) float32 projections p; overwritten by cos(base p) if they are kept.
        sines: (slices, n) float32, receives sin(base p) if they are kept.
        base, halved, keep: as in `_sum_row`.
        cos_sums, sin_sums: (slices, knots) float64 output.
        lo, hi: range of slices.
    """
    scratch = np.empty((8, BLOCK), np.float32)
    for s in range(lo, hi):
        _sum_row(cosines[s], base, halved, keep, cosines[s], sines[s], cos_sums[s], sin_sums[s], scratch)


@compiled(EXACT)
def grad_slices(cosines, sines, halved, re, im, lo, hi):
    """Write the gradient of slices lo..hi over their cosines.

    Args:
        cosines, sines, halved: as `sum_slices` left them.
        re, im: (slices, knots) float32 coefficients.
        lo, hi: range of slices.
    """
    scratch = np.empty((8, BLOCK), np.float32)
    for s in range(lo, hi):
        _grad_row(cosines[s], sines[s], halved, re[s], im[s], cosines[s], scratch)


@compiled(EXACT)
def whole_slices(rows, base, halved, grid, unbiased, scale, values, lo, hi):
    """Statistic of slices lo..hi, and their gradient written over them: a few at a time, in cache.

    Slices of few samples are taken several at once, as many as make a block, which share what a call costs.

    Args:
        rows: (slices, n) float32 projections; overwritten by the gradient.
        base, halved: as in `_sum_row`.
        grid: (3, half) float64 knots, phi and weights.
        unbiased: take the U-statistic.
        scale: factor of the gradient; 0 writes none.
        values: (slices,) float64 output.
        lo, hi: range of slices.
    """
    n, half = rows.shape[1], grid.shape[1]
    padded = (half + GROUP - 1) // GROUP * GROUP
    scratch = np.empty((8, BLOCK), np.float32)
    count = min(hi - lo, max(1, BLOCK // max(1, n)))
    sums, coefficients = np.empty((2, count, padded)), np.zeros((2, count, padded), np.float32)
    keep = scale != 0.0
    if n <= BLOCK:
        for s in range(lo, hi, count):
            m = min(count, hi - s)
            cos_sums, sin_sums = sums[0, :m], sums[1, :m]
            re, im = coefficients[0, :m], coefficients[1, :m]
            _sum_block(rows[s : s + m], base, halved, cos_sums, sin_sums, scratch)
            _judge(cos_sums, sin_sums, n, grid, unbiased, scale, values[s : s + m], re, im)
            if keep:
                _grad_block(rows[s : s + m], halved, re, im, scratch)
        return
    phases = np.empty((2, n if keep else 0), np.float32)
    for s in range(lo, hi):
        _sum_row(rows[s], base, halved, keep, phases[0], phases[1], sums[0, 0], sums[1, 0], scratch)
        re, im = coefficients[0], coefficients[1]
        _judge(sums[0], sums[1], n, grid, unbiased, scale, values[s : s + 1], re, im)
        if keep:
            _grad_row(phases[0], phases[1], halved, re[0], im[0], rows[s], scratch)


@compiled(EXACT)
def _sum_block(block, base, halved, cos_sums, sin_sums, scratch):
    """Characteristic sums of (slices, n) projections, at most a block of them; scratch keeps their phases."""
    n, size = block.shape[1], block.size
    cos_sums[:] = 0.0
    sin_sums[:] = 0.0
    zc, zs = scratch[0, :size], scratch[1, :size]
    unit_phase(block.reshape(size), base, zc, zs)
    wc, ws = zc, zs
    if halved:
        wc, ws = scratch[2, :size], scratch[3, :size]
        doubled(zc, zs, wc, ws)
    pc, ps = scratch[4, :size], scratch[5, :size]
    qc, qs = scratch[6, :size], scratch[7, :size]
    for k in range(0, cos_sums.shape[1], GROUP):
        sum_groups(wc, ws, zc, zs, n, cos_sums, sin_sums, k, pc, ps)
        zc, zs = pc, ps
        pc, ps, qc, qs = qc, qs, pc, ps


@compiled(EXACT)
def _grad_block(block, halved, re, im, scratch):
    """Write the gradient of (slices, n) projections over them, from the phases that `_sum_block` kept."""
    n, size = block.shape[1], block.size
    zc, zs = scratch[0, :size], scratch[1, :size]
    wc, ws = zc, zs
    if halved:
        wc, ws = scratch[2, :size], scratch[3, :size]
    x, y = scratch[4, :size], scratch[5, :size]
    x[:] = float32(0.0)
    y[:] = float32(0.0)
    for k in range(re.shape[1] - GROUP, -1, -GROUP):
        horner_groups(wc, ws, n, re, im, k, x, y)
    to = block.reshape(size)
    for i in range(size):
        to[i] = x[i] * zc[i] - y[i] * zs[i]


@compiled(EXACT)
def _judge(cos_sums, sin_sums, n, grid, unbiased, scale, values, re, im):
    """Write the statistic of each slice and the coefficients of its gradient, as `_statistic` of `fused`.

    Args:
        cos_sums, sin_sums: (slices, knots).
        n: samples.
        grid, unbiased, scale: as in `whole_slices`.
        values: (slices,) output.
        re, im: (slices, knots) output.
    """
    more = 1.0 / (n - 1) if unbiased else 0.0
    for s in range(values.size):
        value = 0.0
        for j in range(grid.shape[1]):
            t, phi, weight = grid[0, j], grid[1, j], grid[2, j]
            c, d = cos_sums[s, j] / n, sin_sums[s, j] / n
            off = c - phi
            value += weight * (off * off + d * d - more * (1.0 - c * c - d * d))
            slope = scale * 2.0 * weight * t
            re[s, j] = slope * (1.0 + more) * d
            im[s, j] = slope * (off + more * c)
        values[s] = n * value


@compiled(EXACT, parallel=True)
def sum_team(cosines, sines, base, halved, keep, cos_sums, sin_sums):
    """`sum_slices` of all slices, on several threads."""
    slices = cosines.shape[0]
    for part in prange((slices + _PART - 1) // _PART):
        lo = part * _PART
        sum_slices(cosines, sines, base, halved, keep, cos_sums, sin_sums, lo, min(lo + _PART, slices))


@compiled(EXACT, parallel=True)
def grad_team(cosines, sines, halved, re, im):
    """`grad_slices` of all slices, on several threads."""
    slices = cosines.shape[0]
    for part in prange((slices + _PART - 1) // _PART):
        lo = part * _PART
        grad_slices(cosines, sines, halved, re, im, lo, min(lo + _PART, slices))


@compiled(EXACT, parallel=True)
def whole_team(rows, base, halved, grid, unbiased, scale, values):
    """`whole_slices` of all slices, on several threads."""
    slices = rows.shape[0]
    for part in prange((slices + _PART - 1) // _PART):
        lo = part * _PART
        whole_slices(rows, base, halved, grid, unbiased, scale, values, lo, min(lo + _PART, slices))
