"""Compiled loops over the values of axes: scores with their slopes, and the moments that scores come from.

With b = (y, tanh y, y e, e), e = exp(-y^2 / 2), and the coefficients a of an axis,

    scores      g = a . b of every value, and the sum of g'
    moments     sums of the products of two of y, tanh y and e, and of what else b b^T and b' are made of

An axis is one row of (axes, n), computed by one thread from itself alone, so the result does not depend on
how many threads there are. Exponentials are a polynomial and an exponent put in place, with a relative error
below 1e-6. Sums run in float32 over blocks, and across blocks in float64.
"""
# numba infers the types of these functions when it compiles them
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import math

import numpy as np
from numba import float32, prange

from isojepa.objectives.gaussianity.kernels import EXACT, LANES, compiled, wide

_BLOCK = 1024  # values per float32 partial sum
_PART = 4  # axes that one thread takes at a time
MOMENTS = 11  # of an axis
_ROUND = 12582912.0  # 1.5 * 2^23: adding and taking it off rounds to an integer
_LOG = math.log(2)


@compiled(EXACT, inline="always")
def _power(x):
    """2^x for x within [-126, 126]."""
    whole = (x + float32(_ROUND)) - float32(_ROUND)
    f = x - whole
    # Taylor's polynomial: on |f| <= 1/2 the first omitted term is below 2e-7
    p = float32(_LOG**6 / 720)
    p = p * f + float32(_LOG**5 / 120)
    p = p * f + float32(_LOG**4 / 24)
    p = p * f + float32(_LOG**3 / 6)
    p = p * f + float32(_LOG**2 / 2)
    p = p * f + float32(_LOG)
    p = p * f + float32(1.0)
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@compiled(EXACT, inline="always")
def _bell(square):
    """exp(-square / 2)."""
    return _power(max(square * float32(-0.5 / _LOG), float32(-126.0)))


@compiled(EXACT, inline="always")
def _bent(y):
    """tanh y."""
    power = _power(min(abs(y) * float32(2.0 / _LOG), float32(60.0)))
    return math.copysign(float32(1.0) - float32(2.0) / (power + float32(1.0)), y)


@compiled(EXACT)
def _score_block(y, a, b, c, d, g, slope):
    """Write g and g' of some values of an axis."""
    wide()
    for i in range(y.size):
        v = y[i]
        square = v * v
        bell, bent = _bell(square), _bent(v)
        g[i] = a * v + b * bent + (c * v + d) * bell
        slope[i] = (a + b) - b * bent * bent + bell * (c - d * v - c * square)


@compiled(EXACT)
def _bend_block(y, bent, bell):
    """Write tanh y and exp(-y^2 / 2)."""
    wide()
    for i in range(y.size):
        bent[i] = _bent(y[i])
        bell[i] = _bell(y[i] * y[i])


@compiled(LANES)
def _sum(x):
    wide()
    total = float32(0.0)
    for i in range(x.size):
        total += x[i]
    return total


@compiled(LANES)
def _add_moments(y, bent, bell, moments):
    """Add the moments of some values to (11,)."""
    wide()
    yy = yt = yyb = yb = tt = ytb = tb = yybb = ybb = bb = one = float32(0.0)
    for i in range(y.size):
        v, t, b = y[i], bent[i], bell[i]
        vb = v * b
        yy += v * v
        yt += v * t
        yyb += v * vb
        yb += vb
        tt += t * t
        ytb += t * vb
        tb += t * b
        yybb += vb * vb
        ybb += vb * b
        bb += b * b
        one += b
    moments[0] += yy
    moments[1] += yt
    moments[2] += yyb
    moments[3] += yb
    moments[4] += tt
    moments[5] += ytb
    moments[6] += tb
    moments[7] += yybb
    moments[8] += ybb
    moments[9] += bb
    moments[10] += one


@compiled(EXACT)
def score_axes(y, scores, g, slopes, lo, hi):
    """Write g of the values of axes lo..hi, and the sums of g'.

    Args:
        y: (axes, n) float32.
        scores: (4, axes) float32.
        g: (axes, n) float32 output.
        slopes: (axes,) float64 output.
        lo, hi: range of axes.
    """
    slope = np.empty(_BLOCK, np.float32)
    for axis in range(lo, hi):
        a, b, c, d = scores[0, axis], scores[1, axis], scores[2, axis], scores[3, axis]
        total = 0.0
        for start in range(0, y.shape[1], _BLOCK):
            stop = min(start + _BLOCK, y.shape[1])
            own = slope[: stop - start]
            _score_block(y[axis, start:stop], a, b, c, d, g[axis, start:stop], own)
            total += _sum(own)
        slopes[axis] = total


@compiled(EXACT)
def moment_axes(y, moments, lo, hi):
    """Write the sums over values of axes lo..hi.

    Args:
        y: (axes, n) float32.
        moments: (axes, 11) float64 output: of y^2, y t, y^2 e, y e, t^2, y t e, t e, y^2 e^2, y e^2, e^2, e,
            with t = tanh y.
        lo, hi: range of axes.
    """
    bent, bell = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    for axis in range(lo, hi):
        moments[axis] = 0.0
        for start in range(0, y.shape[1], _BLOCK):
            stop = min(start + _BLOCK, y.shape[1])
            t, e = bent[: stop - start], bell[: stop - start]
            _bend_block(y[axis, start:stop], t, e)
            _add_moments(y[axis, start:stop], t, e, moments[axis])


@compiled(EXACT, parallel=True)
def score_team(y, scores, g, slopes):
    """`score_axes` of all axes, on several threads."""
    for part in prange((y.shape[0] + _PART - 1) // _PART):
        score_axes(y, scores, g, slopes, part * _PART, min((part + 1) * _PART, y.shape[0]))


@compiled(EXACT, parallel=True)
def moment_team(y, moments):
    """`moment_axes` of all axes, on several threads."""
    for part in prange((y.shape[0] + _PART - 1) // _PART):
        moment_axes(y, moments, part * _PART, min((part + 1) * _PART, y.shape[0]))
