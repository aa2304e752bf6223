"""Pictures inside a page: squares as models see them, one by one or as a sheet, in the text of an address."""

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from isojepa.data.images.augmentations import whole
from isojepa.data.images.image_sets import ImageSet
from isojepa.importing import import_pillow

_AT_ONCE = 64
_QUALITY = 88


def squares(pictures: ImageSet, ids: Tensor, side: int) -> np.ndarray:
    """Pictures as evaluations cut them, the square in the middle: uint8 (n, side, side, 3)."""
    thumbnails = [np.zeros((0, side, side, 3), dtype=np.uint8)]
    for part in ids.split(_AT_ONCE):
        cut = whole(pictures.read(part), side, (0.0,), (1.0,)).clamp(0, 1)  # rounding
        thumbnails.append((255 * cut).round().to(torch.uint8).expand(-1, 3, -1, -1).movedim(1, -1).numpy())
    return np.concatenate(thumbnails)


def address(pixels: np.ndarray, *, photo: bool = False) -> str:
    """Pixels (height, width, 3 or 4) as a data address: PNG, or JPEG for a photo."""
    file = io.BytesIO()
    image = import_pillow().fromarray(np.ascontiguousarray(pixels))
    if photo:
        image.save(file, "JPEG", quality=_QUALITY, subsampling=0)  # optimize=True fails on noise
    else:
        image.save(file, "PNG", optimize=True)
    kind = "jpeg" if photo else "png"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def sheet(pixels: Sequence[np.ndarray] | np.ndarray) -> tuple[np.ndarray, int]:
    """Squares (n, side, side, 3) in rows on one sheet, and how many are in a row.

    Example:
        >>> pixels, columns = sheet(np.zeros((5, 8, 8, 3), dtype=np.uint8))
        >>> pixels.shape, columns
        ((16, 24, 3), 3)
    """
    squared = np.asarray(pixels)
    count, side = len(squared), squared.shape[1]
    columns = max(1, math.ceil(math.sqrt(count)))
    rows = max(1, math.ceil(count / columns))
    filled = np.zeros((rows * columns, side, side, 3), dtype=np.uint8)
    filled[:count] = squared
    grid = filled.reshape(rows, columns, side, side, 3).swapaxes(1, 2)
    return grid.reshape(rows * side, columns * side, 3), columns
