r"""Masks of patches: blocks to predict (I-JEPA), blocks of many shapes (BEiT, iBOT), single patches (MAE).

All are drawn from a given generator and are (rows, token) of True for hidden patches, tokens in reading
order. `target_blocks` draws `blocks` squares (of a grid that is no square, rectangles), each of a share of
the grid's sides and anywhere in it. Their union U has a size that varies: of four blocks of 7 x 7 in a grid
of 14 x 14 it is 0.58 of the patches on average, from 0.25 to 1. Tensors stay rectangular because blocks are
drawn anew until

    |U| = T,   T the size nearest to ratio * patches that is not rare,

so the places of the blocks are uniform, given that. |U| is computed by inclusion and exclusion from the
intersections of rectangles, and only layouts that are kept are drawn into a grid.

References: Assran et al. 2023, CVPR (I-JEPA), 3.1; Bao et al. 2022, ICLR (BEiT), Algorithm 1.
"""

import functools
import math

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_number, checked
from isojepa.seeds import generator as make_generator

_TRIED = 20_000  # layouts from which it is told which sizes of the union are not rare
_RARE = 1e-3  # share of them below which a size is
_CHUNK = 16_384  # layouts that are drawn at a time, at most
_MOST = 8  # blocks: the terms of inclusion and exclusion double with each

Grid = tuple[int, int]


@checked
def target_blocks(
    rows: int,
    grid: Grid,
    generator: torch.Generator,
    *,
    blocks: int = 4,
    ratio: float = 0.6,
    share: float = 0.5,
) -> Tensor:
    """Blocks that are to be predicted: (rows, token), as many True in each row.

    Args:
        rows: masks to draw.
        grid: rows and columns of patches.
        generator: what they are drawn from.
        blocks: in each mask; they may overlap.
        ratio: share of the patches that the blocks cover together, in (0, 1).
        share: side of a block over that of the grid, in (0, 1); halves are rounded up.

    Raises:
        ValueError: a setting is out of range, or the grid too small for such blocks.

    Example:
        >>> mask = target_blocks(5, (14, 14), torch.Generator())
        >>> mask.sum(1).tolist(), 118 / 196
        ([118, 118, 118, 118, 118], 0.6020408163265306)
    """
    size, often = _common_size(grid, blocks, ratio, share)
    sides = _sides(grid, share)
    kept: list[Tensor] = []
    missing = check_count("rows", rows, least=0)
    while missing > 0:
        enough = min(_CHUNK, 16 + math.ceil(1.2 * missing / often))
        offsets = _offsets(enough, grid, sides, blocks, generator)
        fitting = offsets[_union(offsets, sides) == size][:missing]
        kept.append(fitting)
        missing -= len(fitting)
    return _drawn(torch.cat(kept), grid, sides) if kept else torch.zeros(0, math.prod(grid)).bool()


def union_size(grid: Grid, blocks: int = 4, ratio: float = 0.6, share: float = 0.5) -> int:
    """How many patches the blocks of each mask cover together: the size nearest to the ratio, unless rare.

    Raises:
        ValueError: a setting is out of range, or the grid too small for such blocks.
    """
    return _common_size(grid, blocks, ratio, share)[0]


@checked
def single_patches(rows: int, tokens: int, ratio: float, generator: torch.Generator) -> Tensor:
    """Patches by themselves, anywhere: (rows, tokens) with round(ratio * tokens) True in each row.

    Args:
        rows: masks to draw.
        tokens: patches of a picture.
        ratio: share of them that is hidden, in [0, 1).
        generator: what they are drawn from.

    Example:
        >>> single_patches(2, 16, 0.75, torch.Generator()).sum(1).tolist()
        [12, 12]
    """
    check_number("ratio", ratio, "lie in [0, 1)", lambda value: 0 <= value < 1)
    hidden = min(tokens - 1, round(ratio * tokens))
    order = torch.rand(rows, tokens, generator=generator).argsort(1)
    return torch.zeros(rows, tokens, dtype=torch.bool).scatter_(1, order[:, :hidden], True)


@checked
def scattered_blocks(
    rows: int,
    grid: Grid,
    generator: torch.Generator,
    *,
    chance: float = 0.5,
    least: float = 0.1,
    most: float = 0.5,
    tries: int = 12,
) -> Tensor:
    """Blocks of many shapes, which together cover at most a share of the picture: (rows, token).

    Each row has blocks with a probability, and then a share of its own, uniform from `least` to `most`. Block
    after block is laid over the grid, its area up to what is left of the share and its height over its width
    log-uniform from 0.3 to 1/0.3; one that would cover too much is left out. So rows have unequal numbers.

    Args:
        rows: masks to draw.
        grid: rows and columns of patches.
        generator: what they are drawn from.
        chance: that a row has blocks at all, in [0, 1].
        least, most: bounds of its share, in [0, 1].
        tries: blocks that are tried for each row.

    Example:
        >>> mask = scattered_blocks(6, (8, 8), torch.Generator(), chance=1.0)
        >>> mask.shape, bool((mask.sum(1) <= 32).all())
        (torch.Size([6, 64]), True)
    """
    for name, value in {"chance": chance, "least": least, "most": most}.items():
        check_number(name, value, "lie in [0, 1]", lambda value: 0 <= value <= 1)
    if least > most:
        raise ValueError(f"least must not exceed most, got {least} and {most}")
    height, width = grid
    uniform = torch.rand(rows, 2 + 4 * tries, generator=generator, dtype=torch.float64)
    share = least + (most - least) * uniform[:, 1]
    allowed = torch.where(uniform[:, 0] < chance, (share * height * width).round(), torch.zeros(()).double())
    mask = torch.zeros(rows, height, width, dtype=torch.bool)
    down, across = torch.arange(height), torch.arange(width)
    for draw in uniform[:, 2:].reshape(rows, tries, 4).unbind(1):
        left = allowed - mask.sum((1, 2))
        area = draw[:, 0] * left
        aspect = torch.exp((2 * draw[:, 1] - 1) * math.log(1 / 0.3))
        tall = (area * aspect).sqrt().round().clamp(1, height)
        wide = (area / aspect).sqrt().round().clamp(1, width)
        top = (draw[:, 2] * (height - tall + 1)).floor()[:, None]
        side = (draw[:, 3] * (width - wide + 1)).floor()[:, None]
        inside = (down >= top) & (down < top + tall[:, None])
        beside = (across >= side) & (across < side + wide[:, None])
        more = mask | (inside[:, :, None] & beside[:, None, :])
        fits = more.sum((1, 2)) <= allowed
        mask = torch.where(fits[:, None, None], more, mask)
    return mask.flatten(1)


@functools.lru_cache(maxsize=64)
def _common_size(grid: Grid, blocks: int, ratio: float, share: float) -> tuple[int, float]:
    """That size, and the share of layouts that have it."""
    check_count("blocks", blocks, most=_MOST)
    check_number("ratio", ratio, "lie in (0, 1)", lambda value: 0 < value < 1)
    check_number("share", share, "lie in (0, 1)", lambda value: 0 < value < 1)
    sides, patches = _sides(grid, share), math.prod(grid)
    offsets = _offsets(_TRIED, grid, sides, blocks, make_generator(0, "blocks"))
    counts = torch.bincount(_union(offsets, sides), minlength=patches + 1)[:patches].double() / _TRIED
    sizes = {size: often for size, often in enumerate(counts.tolist()) if often >= _RARE}
    if not sizes:
        raise ValueError(
            f"blocks must leave patches to see, got {blocks} of {sides[0]} x {sides[1]} in a grid of "
            f"{grid[0]} x {grid[1]}: take smaller patches, fewer blocks or a smaller share"
        )
    return min(sizes.items(), key=lambda item: (abs(item[0] - ratio * patches), item[0]))


def _sides(grid: Grid, share: float) -> Grid:
    """Height and width of a block: at least 1, at most the grid's."""
    height, width = (min(side, max(1, math.floor(share * side + 0.5))) for side in grid)
    return height, width


def _offsets(count: int, grid: Grid, sides: Grid, blocks: int, generator: torch.Generator) -> Tensor:
    """Uppermost row and leftmost column of blocks: (count, block, 2)."""
    axes = [
        torch.randint(length - side + 1, (count, blocks), generator=generator)
        for length, side in zip(grid, sides, strict=True)
    ]
    return torch.stack(axes, -1)


def _union(offsets: Tensor, sides: Grid) -> Tensor:
    """Patches that the blocks of each layout cover together: (count,)."""
    corners = offsets.to(torch.int32).permute(1, 2, 0).unbind(0)  # of each block, (2, count)
    size = torch.tensor(sides, dtype=torch.int32)[:, None]
    total = torch.zeros(len(offsets), dtype=torch.int32)
    met: list[tuple[Tensor, Tensor, int]] = []  # of each set of blocks so far: its corners' bounds, its sign
    for corner in corners:
        more = [(torch.maximum(low, corner), torch.minimum(high, corner), -sign) for low, high, sign in met]
        more.append((corner, corner, 1))
        for low, high, sign in more:
            height, width = (high + size - low).clamp_(min=0)  # sides of the intersection
            total.add_(height * width, alpha=sign)
        met += more
    return total.long()


def _drawn(offsets: Tensor, grid: Grid, sides: Grid) -> Tensor:
    """Layouts as masks (count, token)."""
    inside = []
    for axis, (length, side) in enumerate(zip(grid, sides, strict=True)):
        start, places = offsets[..., axis, None], torch.arange(length)
        inside.append((places >= start) & (places < start + side))
    return (inside[0][..., :, None] & inside[1][..., None, :]).any(1).flatten(1)
