"""Powers of unit complex numbers over samples, compiled: the innermost loops of the characteristic function.

For w = e^{i step p} and z = e^{i first p} of every sample of a slice, `sum_group` adds z, zw, zw^2, ... to
the sums of the slice, GROUP powers at a time, and `horner_group` reads a polynomial in w. Slices of few
samples go together, in `sum_groups` and `horner_groups`: a call costs as much as some hundred samples.

The compiler keeps what it made on disk, and looks only at the file of the function that it compiles: whoever
changes a loop here must touch `kernels` too, which calls it.
"""
# numba infers the types of these functions when it compiles them
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import math

from numba import float32, njit, types
from numba.extending import intrinsic

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
