"""Compiled loops for images on a processor: crop and resize, jitter of colors, blur.

The same numbers as the tensor forms in `isojepa.data.images.augmentations`, which serve other devices. Of
the weights of a crop only the few of each row that are not 0 are made, and only pixels of the box are read:
at 224 pixels some twenty times faster than products of matrices. Colours go image by image, each in
cache, without a tensor for every step of the arithmetic.

One thread: workers and ranks are what is parallel.
"""

import math
from typing import Any

import numpy as np
from numba import float32, njit

_LANES = {"contract", "nsz", "reassoc"}  # sums may run in vector lanes
_RED, _GREEN, _BLUE = 0.2989, 0.587, 0.114  # shares of the channels in a grey value (ITU-R 601)


def _compiled(function: Any) -> Any:
    """Compile on first use and keep the result on disk, or in memory where no folder can be written."""
    try:
        return njit(nogil=True, cache=True, fastmath=_LANES)(function)
    except RuntimeError:
        return njit(nogil=True, fastmath=_LANES)(function)


def _triangles_of(
    start: Any, length: Any, size: Any, flip: Any, factor: Any, first: Any, weights: Any
) -> Any:
    """Write where the pixels of each cell begin and what they weigh; return how many a cell has at most."""
    scale = length / size
    width = max(scale, 1.0)
    most = 0
    for i in range(size):
        center = ((size - 1 - i if flip else i) + 0.5) * scale
        low = max(math.floor(center - width + 0.5), 0)
        high = min(math.floor(center + width + 0.5), length)
        total = 0.0
        for j in range(low, high):
            weight = max(0.0, 1.0 - abs(j + 0.5 - center) / width)
            weights[j - low, i] = weight
            total += weight
        for k in range(high - low):
            weights[k, i] *= factor / total
        for k in range(high - low, len(weights)):
            weights[k, i] = 0
        first[i] = start + low
        most = max(most, high - low)
    return most


_triangles = _compiled(_triangles_of)


def _crops(images: Any, boxes: Any, flip: Any, factor: Any, out: Any) -> None:
    """Boxes (n, 4) of images (n, channels, height, width), times a factor, resized into squares."""
    size = out.shape[2]
    taps = math.ceil(2 * max(max(images.shape[2], images.shape[3]) / size, 1.0)) + 2
    first_y, first_x = np.empty(size, np.int64), np.empty(size, np.int64)
    rows, columns = np.empty((taps, size), np.float32), np.empty((taps, size), np.float32)
    line = np.empty(images.shape[3] + taps, np.float32)
    for p in range(len(out)):
        left, width = boxes[p, 1], boxes[p, 3]
        high = _triangles(boxes[p, 0], boxes[p, 2], size, False, factor, first_y, rows)
        wide = _triangles(0, width, size, flip[p], 1.0, first_x, columns)
        line[width : width + wide] = 0  # weights there are 0, and 0 times what memory holds may be NaN
        for c in range(out.shape[1]):
            for y in range(size):
                weight = rows[0, y]
                pixels = images[p, c, first_y[y], left : left + width]
                for x in range(width):
                    line[x] = weight * float32(pixels[x])
                for k in range(1, high):
                    weight = rows[k, y]
                    if weight > 0:
                        pixels = images[p, c, first_y[y] + k, left : left + width]
                        for x in range(width):
                            line[x] += weight * float32(pixels[x])
                cells = out[p, c, y]
                for x in range(size):
                    cells[x] = columns[0, x] * line[first_x[x]]
                for k in range(1, wide):
                    weights = columns[k]
                    for x in range(size):
                        cells[x] += weights[x] * line[first_x[x] + k]


crops = _compiled(_crops)


def _within(value: Any) -> Any:
    return min(max(value, float32(0)), float32(1))


_unit = _compiled(_within)


def _brighten(pixels: Any, factor: Any) -> None:
    for i in range(pixels.size):
        pixels[i] = _unit(factor * pixels[i])


def _contrast(planes: Any, factor: Any) -> None:
    total = 0.0
    if len(planes) == 3:
        for i in range(planes.shape[1]):
            total += (
                float32(_RED) * planes[0, i] + float32(_GREEN) * planes[1, i] + float32(_BLUE) * planes[2, i]
            )
    else:
        for i in range(planes.shape[1]):
            total += planes[0, i]
    rest = float32((1 - factor) * total / planes.shape[1])
    pixels = planes.reshape(-1)
    for i in range(pixels.size):
        pixels[i] = _unit(factor * pixels[i] + rest)


def _saturate(red: Any, green: Any, blue: Any, factor: Any) -> None:
    """Mix with grey; a factor of 0 leaves grey alone."""
    for i in range(red.size):
        grey = float32(_RED) * red[i] + float32(_GREEN) * green[i] + float32(_BLUE) * blue[i]
        rest = (float32(1) - factor) * grey
        red[i] = _unit(factor * red[i] + rest)
        green[i] = _unit(factor * green[i] + rest)
        blue[i] = _unit(factor * blue[i] + rest)


def _turn(red: Any, green: Any, blue: Any, shift: Any) -> None:
    """Turn the hue by a share of the circle."""
    six = float32(6)
    for i in range(red.size):
        r, g, b = red[i], green[i], blue[i]
        high = max(max(r, g), b)
        chroma = high - min(min(r, g), b)
        inverse = float32(1) / (chroma if chroma > 0 else float32(1))
        hue = float32(4) + (r - g) * inverse
        hue = float32(2) + (b - r) * inverse if high == g else hue
        hue = (g - b) * inverse if high == r else hue
        hue += six * shift  # of half a circle at most, so one turn more or less is enough
        hue = hue + six if hue < 0 else hue
        hue = hue - six if hue >= six else hue
        k = hue + float32(5)
        k = k - six if k >= six else k
        red[i] = high - chroma * _unit(min(k, float32(4) - k))
        k = hue + float32(3)
        k = k - six if k >= six else k
        green[i] = high - chroma * _unit(min(k, float32(4) - k))
        k = hue + float32(1)
        k = k - six if k >= six else k
        blue[i] = high - chroma * _unit(min(k, float32(4) - k))


def _smooth(plane: Any, sigma: Any, kernel: Any, rows: Any, line: Any) -> None:
    """Gaussian blur of one plane (height, width) in place, mirrored at its edges."""
    reach = min(kernel // 2, math.ceil(6 * sigma))  # further weights are below 1e-7
    weights = np.empty(2 * reach + 1, np.float32)
    for k in range(2 * reach + 1):
        weights[k] = math.exp(-0.5 * ((k - reach) / sigma) ** 2)
    weights /= weights.sum()
    height, width = plane.shape
    for y in range(height):
        target = rows[y]
        for x in range(width):
            target[x] = weights[reach] * plane[y, x]
        for k in range(1, reach + 1):
            above = plane[abs(y - k)]
            below = plane[height - 1 - abs(height - 1 - y - k)]
            weight = weights[reach + k]
            for x in range(width):
                target[x] += weight * (above[x] + below[x])
    for y in range(height):
        source, target = rows[y], plane[y]
        for x in range(width):
            line[x + reach] = source[x]
        for k in range(1, reach + 1):
            line[reach - k] = source[k]
            line[reach + width - 1 + k] = source[width - 1 - k]
        for x in range(width):
            target[x] = weights[0] * line[x]
        for k in range(1, 2 * reach + 1):
            weight = weights[k]
            for x in range(width):
                target[x] += weight * line[x + k]


_brightness, _contrasted = _compiled(_brighten), _compiled(_contrast)
_saturation, _hue, _blur = _compiled(_saturate), _compiled(_turn), _compiled(_smooth)


def _recolor(
    views: Any,
    jitter: Any,
    factors: Any,
    order: Any,
    grey: Any,
    sigma: Any,
    solarize: Any,
    kernel: Any,
    threshold: Any,
) -> None:
    """Apply color augmentations to views (n, channels, height, width), in place; see `recolor`."""
    count, channels, height, width = views.shape
    rows, line = np.empty((height, width), np.float32), np.empty(width + kernel, np.float32)
    for p in range(count):
        planes = views[p].reshape(channels, height * width)
        if jitter[p]:
            for step in range(4):
                which = order[p, step]
                factor = factors[p, which]
                if which == 0:
                    _brightness(planes.reshape(-1), factor)
                elif which == 1:
                    _contrasted(planes, factor)
                elif channels == 3 and which == 2:
                    _saturation(planes[0], planes[1], planes[2], factor)
                elif channels == 3:
                    _hue(planes[0], planes[1], planes[2], factor)
        if grey[p] and channels == 3:
            _saturation(planes[0], planes[1], planes[2], float32(0))
        if sigma[p] > 0:
            for c in range(channels):
                _blur(views[p, c], sigma[p], kernel, rows, line)
        if solarize[p]:
            pixels = planes.reshape(-1)
            for i in range(pixels.size):
                pixels[i] = float32(1) - pixels[i] if pixels[i] >= threshold else pixels[i]


recolor = _compiled(_recolor)
