r"""Where a patch is, as a vector: sines and cosines of its row and its column.

With a quarter of the dimensions D for each of sin and cos of row and column, and frequencies

    w_k = 10000^(-k / (D/4)),    k = 0, ..., D/4 - 1,

a patch at (r, c) has (sin(r w), cos(r w), sin(c w), cos(c w)), as MAE and I-JEPA have it. Nothing is learned
and grids may have any size.
"""

import functools

import torch
from torch import Tensor

from isojepa.arguments import check_count


@functools.lru_cache(maxsize=32)
def sine_positions(height: int, width: int, dim: int) -> Tensor:
    """(height * width, dim) in reading order, float32 on the CPU; not to be changed in place.

    Raises:
        ValueError: the dimension is no multiple of 4.

    Example:
        >>> sine_positions(2, 3, 8).shape
        torch.Size([6, 8])
    """
    check_count("height", height)
    check_count("width", width)
    if check_count("dim", dim) % 4:
        raise ValueError(f"the dimension of positions must be a multiple of 4, got {dim}")
    quarter = dim // 4
    frequencies = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    angles = [place.flatten()[:, None] * frequencies for place in (rows, columns)]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], 1).float()


def position_dim(dim: int) -> int:
    """The least multiple of 4 that is not below `dim`."""
    return -(-dim // 4) * 4
