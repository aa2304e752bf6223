"""Compiled loops for the empirical characteristic function of many slices at once.

A slice is one projection of the batch, p in R^n. For the grid t_j = first + j * step the two sweeps are

    sums      C_j = sum_i cos(t_j p_i),   S_j = sum_i sin(t_j p_i)
    gradient  q_i = Re( sum_j g_j e^{i t_j p_i} )            for complex coefficients g_j of the slice

The grid is equally spaced, so e^{i t_j p} is a power of e^{i step p}: one sine and cosine per projected
sample and one complex multiplication per knot. The gradient is the same polynomial read by Horner's
rule, from the same sine and cosine. Nothing of size batch x slices x knots exists. Sums run in float32
over blocks of 1024 samples and across blocks in float64.

Two kinds of floating-point licence are used. `contract` lets the compiler fuse multiply and add; the
range reduction of `_unit_phase` allows that and nothing more, since reassociating its constants would
lose digits. `reassoc`, for the sums, lets the reduction run in vector lanes.

Every slice is computed by one thread from its own row alone, so the result does not depend on how many
threads there are.
"""

import math

import numpy as np
from numba import float32, njit, prange, types
from numba.extending import intrinsic

GROUP = 8  # knots per unrolled pass: 16 running sums stay in vector registers
_BLOCK = 1024  # samples per float32 partial sum
_PART = 8  # slices that one thread takes at a time

_EXACT = {"contract", "nsz"}
_LANES = {"contract", "nsz", "reassoc"}

_ROUND = 12582912.0  # 1.5 * 2^23
# pi / 2 as a sum of three floats, the first two with trailing zeros: q * part is exact for moderate q.
_TURN_A, _TURN_B, _TURN_C = 1.5703125, 4.837512969970703e-4, 7.54978995489188e-8


@intrinsic
def _wide(typing_context):
    """Let the compiler use vectors of 512 bits in the calling function, where the processor has them.

    By itself it keeps to 256 for fear of lower clock rates; these loops gain half of their speed again.
    """

    def generate(context, builder, signature, arguments):
        # a string attribute, which llvmlite's own `add` does not know; unknown ones are ignored elsewhere
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


def _compiled(fastmath, parallel=False):
    """Compile on first use and keep the result on disk, or in memory where no folder can be written."""

    def wrap(function):
        try:
            return njit(nogil=True, cache=True, fastmath=fastmath, parallel=parallel)(function)
        except RuntimeError:
            return njit(nogil=True, fastmath=fastmath, parallel=parallel)(function)

    return wrap


@_compiled(_EXACT)
def _unit_phase(p, base, cos_out, sin_out):
    """Write cos(base p) and sin(base p) for every sample of one slice."""
    _wide()
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


@_compiled(_EXACT)
def _doubled(zc, zs, wc, ws):
    """Write w = z^2: twice the angle."""
    _wide()
    for i in range(zc.size):
        a, b = zc[i], zs[i]
        wc[i] = a * a - b * b
        ws[i] = float32(2.0) * a * b


@_compiled(_LANES)
def _sum_group(wc, ws, zc, zs, cos_sums, sin_sums, next_c, next_s):
    """Add GROUP consecutive powers z, zw, zw^2, ... to the slice's sums; write the power that follows."""
    _wide()
    zero = float32(0.0)
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = zero
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = zero
    for i in range(wc.size):
        a, b = wc[i], ws[i]
        x, y = zc[i], zs[i]
        c0 += x
        s0 += y
        x, y = x * a - y * b, x * b + y * a
        c1 += x
        s1 += y
        x, y = x * a - y * b, x * b + y * a
        c2 += x
        s2 += y
        x, y = x * a - y * b, x * b + y * a
        c3 += x
        s3 += y
        x, y = x * a - y * b, x * b + y * a
        c4 += x
        s4 += y
        x, y = x * a - y * b, x * b + y * a
        c5 += x
        s5 += y
        x, y = x * a - y * b, x * b + y * a
        c6 += x
        s6 += y
        x, y = x * a - y * b, x * b + y * a
        c7 += x
        s7 += y
        next_c[i], next_s[i] = x * a - y * b, x * b + y * a
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


@_compiled(_EXACT)
def _horner_group(wc, ws, re, im, x_acc, y_acc):
    """One Horner pass over GROUP coefficients, from the highest power down."""
    _wide()
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


@_compiled(_EXACT)
def sum_slices(cosines, sines, base, halved, keep, cos_sums, sin_sums, lo, hi):
    """Characteristic sums of slices lo..hi.

    Args:
        cosines: (slices, n) float32 projections p; overwritten by cos(base p) if they are kept.
        sines: (slices, n) float32, receives sin(base p) if they are kept.
        base: first knot of the grid. The step is `base`, or twice it when `halved`.
        halved: whether the grid is base, 3 base, 5 base, ... (an even number of knots on the line).
        keep: whether `grad_slices` follows, which needs them.
        cos_sums, sin_sums: (slices, knots) float64 output, knots a multiple of GROUP.
        lo, hi: range of slices.
    """
    _wide()
    n = cosines.shape[1]
    size = min(n, _BLOCK)
    first_c, first_s = np.empty(size, np.float32), np.empty(size, np.float32)
    step_c, step_s = np.empty(size, np.float32), np.empty(size, np.float32)
    power_c, power_s = np.empty(size, np.float32), np.empty(size, np.float32)
    other_c, other_s = np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(lo, hi):
        cos_sums[s, :] = 0.0
        sin_sums[s, :] = 0.0
        for start in range(0, n, _BLOCK):
            m = min(_BLOCK, n - start)
            # into scratch first: a loop whose output overlaps its input is not vectorised
            zc, zs = first_c[:m], first_s[:m]
            _unit_phase(cosines[s, start : start + m], base, zc, zs)
            if keep:
                cosines[s, start : start + m] = zc
                sines[s, start : start + m] = zs
            wc, ws = zc, zs
            if halved:
                wc, ws = step_c[:m], step_s[:m]
                _doubled(zc, zs, wc, ws)
            pc, ps = power_c[:m], power_s[:m]
            qc, qs = other_c[:m], other_s[:m]
            for k in range(0, cos_sums.shape[1], GROUP):
                _sum_group(wc, ws, zc, zs, cos_sums[s, k : k + GROUP], sin_sums[s, k : k + GROUP], pc, ps)
                zc, zs = pc, ps
                pc, ps, qc, qs = qc, qs, pc, ps  # the next output is not this one's input


@_compiled(_EXACT)
def grad_slices(cosines, sines, halved, re, im, lo, hi):
    """Write the gradient of slices lo..hi over their cosines.

    Args:
        cosines, sines, halved: as `sum_slices` left them.
        re, im: (slices, knots) float32 coefficients g = re + i im, padded with zeros to a multiple of GROUP.
        lo, hi: range of slices.
    """
    _wide()
    n = cosines.shape[1]
    size = min(n, _BLOCK)
    step_c, step_s = np.empty(size, np.float32), np.empty(size, np.float32)
    x, y = np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(lo, hi):
        for start in range(0, n, _BLOCK):
            m = min(_BLOCK, n - start)
            zc, zs = cosines[s, start : start + m], sines[s, start : start + m]
            wc, ws = zc, zs
            if halved:
                wc, ws = step_c[:m], step_s[:m]
                _doubled(zc, zs, wc, ws)
            x[:m] = float32(0.0)
            y[:m] = float32(0.0)
            for k in range(re.shape[1] - GROUP, -1, -GROUP):
                _horner_group(wc, ws, re[s, k : k + GROUP], im[s, k : k + GROUP], x[:m], y[:m])
            for i in range(m):
                zc[i] = x[i] * zc[i] - y[i] * zs[i]


@_compiled(_EXACT, parallel=True)
def sum_team(cosines, sines, base, halved, keep, cos_sums, sin_sums):
    """`sum_slices` of all slices, on several threads."""
    slices = cosines.shape[0]
    for part in prange((slices + _PART - 1) // _PART):
        lo = part * _PART
        sum_slices(cosines, sines, base, halved, keep, cos_sums, sin_sums, lo, min(lo + _PART, slices))


@_compiled(_EXACT, parallel=True)
def grad_team(cosines, sines, halved, re, im):
    """`grad_slices` of all slices, on several threads."""
    slices = cosines.shape[0]
    for part in prange((slices + _PART - 1) // _PART):
        lo = part * _PART
        grad_slices(cosines, sines, halved, re, im, lo, min(lo + _PART, slices))
