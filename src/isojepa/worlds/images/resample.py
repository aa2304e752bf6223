"""Crop, resize and flip as two matrix products.

A crop of height h that starts at row t of a picture X and is resized to s rows has, at row i, the mean of the
picture's rows j with the weights of a triangle around the row's centre:

    R_y[i, j]  ∝  max(0, 1 − |j + 1/2 − c_i| / max(h/s, 1)),      c_i = t + (i + 1/2) h/s,   t ≤ j < t + h,

each row of R_y summing to 1: bilinear interpolation whose triangle widens as the picture shrinks
(antialiasing), which is what torchvision's `resized_crop` and Pillow's `BILINEAR` compute. Columns have an
R_x of their own, reversed for a picture that is flipped, and the view is R_y X R_xᵀ: for a stack of pictures
two batched products of matrices, on whatever device they are. Where sizes differ, pictures are resampled one
after the other, each on the window of its crop. On a processor nearly all weights are 0, and the loops of
`isojepa.worlds.images.kernels`, which make only the others, are faster: `resized_crops` takes those there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from isojepa.arguments import check_count

Pixels = Tensor | Sequence[Tensor]


def triangles(start: Tensor, length: Tensor, size: int, extent: int, flip: Tensor | None = None) -> Tensor:
    """The weights with which each of `size` cells of an interval is a mean of `extent` pixels.

    Args:
        start, length: (n,) first pixel and number of pixels of each interval.
        size: number of cells of each.
        extent: number of pixels of the line that the intervals lie in.
        flip: (n,) whether the cells come in reverse order.

    Returns:
        (n, size, extent) float32; rows sum to 1.

    Example:
        >>> triangles(torch.tensor([1]), torch.tensor([2]), 1, 4)
        tensor([[[0.0000, 0.5000, 0.5000, 0.0000]]])
    """
    device = start.device
    start, length = start.float()[:, None], length.float()[:, None]
    cells = torch.arange(size, device=device).expand(len(start), size)
    if flip is not None:
        cells = torch.where(flip[:, None], size - 1 - cells, cells)
    scale = length / size
    centres = (cells + 0.5) * scale  # from the start, as small numbers keep more digits
    pixels = torch.arange(extent, device=device) + 0.5 - start
    width = scale.clamp_min(1)[..., None]
    found = (1 - (pixels[:, None] - centres[..., None]).abs() / width).clamp_min_(0)
    inside = (pixels > 0) & (pixels < length)
    found *= inside[:, None]
    return found.div_(found.sum(-1, keepdim=True))


def resized_crops(images: Pixels, boxes: Tensor, size: int, flip: Tensor | None = None) -> Tensor:
    """Cut a box out of each picture, resize it to a square, and mirror it where asked.

    Args:
        images: uint8 0..255, or floats that are left as they are: (n, channels, height, width), or n of
            (channels, height, width).
        boxes: (n, 4) whole numbers: top, left, height, width; inside the picture.
        size: side of the square.
        flip: (n,) whether left and right change places.

    Returns:
        (n, channels, size, size) float32; in [0, 1] for uint8.

    Raises:
        ValueError: a box is not inside its picture, or there are not as many as pictures.

    Example:
        >>> picture = torch.arange(4, dtype=torch.uint8).expand(1, 1, 4, 4)
        >>> (resized_crops(picture, torch.tensor([[0, 0, 4, 4]]), 2) * 255).squeeze().tolist()
        [[0.714..., 2.285...], [0.714..., 2.285...]]
    """
    check_count("size", size)
    _check_boxes(images, boxes)
    if isinstance(images, Tensor):
        form = _looped if images.device.type == "cpu" else product
        return form(images, boxes, size, flip)
    flips = [None] * len(images) if flip is None else flip.split(1)
    found = [
        resized_crops(image[None], box, size, turned)
        for image, box, turned in zip(images, boxes.split(1), flips, strict=True)
    ]
    return torch.cat(found)


def product(images: Tensor, boxes: Tensor, size: int, flip: Tensor | None = None) -> Tensor:
    """`resized_crops` of a stack as two products of matrices."""
    flip = None if flip is None else flip.to(images.device)
    if len(images) == 1:  # one picture alone: only the pixels of the box
        top, left, height, width = boxes[0].tolist()
        images = images[:, :, top : top + height, left : left + width]
        boxes = torch.tensor([[0, 0, height, width]])
    boxes = boxes.to(images.device)
    rows = triangles(boxes[:, 0], boxes[:, 2], size, images.shape[-2])
    columns = triangles(boxes[:, 1], boxes[:, 3], size, images.shape[-1], flip)
    return _product(rows, _floats(images), columns)


def whole(images: Pixels, size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """What evaluations see: the shorter side resized to `size`, the square in the centre, normalised.

    Args:
        images: uint8, (n, channels, height, width), or n of (channels, height, width).
        size: side of the square.
        mean, std: of each channel, of values in [0, 1].

    Returns:
        (n, channels, size, size) float32.

    Example:
        >>> whole(torch.full((2, 1, 8, 6), 255, dtype=torch.uint8), 4, (0.5,), (0.25,)).shape
        torch.Size([2, 1, 4, 4])
    """
    check_count("size", size)
    if not isinstance(images, Tensor):
        return torch.cat([whole(image[None], size, mean, std) for image in images])
    height, width = images.shape[-2:]
    shorter = min(height, width)
    rows, columns = (
        _centre(extent, int(size * extent / shorter), size, images) for extent in (height, width)
    )
    return normalised(_product(rows, _floats(images), columns), mean, std)


def normalised(views: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Views (n, channels, height, width), each channel less its mean and divided by its deviation."""
    first, second = (torch.tensor(tuple(part), device=views.device)[:, None, None] for part in (mean, std))
    if first.shape[0] not in (1, views.shape[1]) or first.shape != second.shape:
        raise ValueError(
            f"mean and std must have a number for each of {views.shape[1]} channels, got {mean} and {std}"
        )
    return (views - first) / second


def _looped(images: Tensor, boxes: Tensor, size: int, flip: Tensor | None) -> Tensor:
    from isojepa.worlds.images import kernels  # compiled: only for those who make views

    known = images.dtype in (torch.uint8, torch.float32)
    found = torch.empty(len(images), images.shape[1], size, size)
    turned = torch.zeros(len(images), dtype=torch.bool) if flip is None else flip
    pixels = images if known else images.float()
    kernels.crops(
        pixels.numpy(),
        boxes.long().contiguous().numpy(),
        turned.contiguous().numpy(),
        1 / 255 if images.dtype == torch.uint8 else 1.0,
        found.numpy(),
    )
    return found


def _centre(extent: int, resized: int, size: int, like: Tensor) -> Tensor:
    """Weights (1, size, extent) of the cells in the middle of a line that is resized to `resized` cells."""
    line = torch.tensor([0, extent], device=like.device)
    first = round((resized - size) / 2)
    return triangles(line[:1], line[1:], resized, extent)[:, first : first + size]


def _product(rows: Tensor, images: Tensor, columns: Tensor) -> Tensor:
    """R_y X R_xᵀ for each picture and channel."""
    return rows[:, None] @ images @ columns[:, None].mT


def _floats(images: Tensor) -> Tensor:
    return images.float().div_(255) if images.dtype == torch.uint8 else images.float()


def _check_boxes(images: Pixels, boxes: Tensor) -> None:
    if boxes.shape != (len(images), 4):
        raise ValueError(f"boxes must be ({len(images)}, 4), one for each picture, got {tuple(boxes.shape)}")
    if boxes.device.type != "cpu":  # looking at them would wait for the device
        return
    if isinstance(images, Tensor):
        sizes = torch.tensor(images.shape[-2:])
    else:
        sizes = torch.tensor([image.shape[-2:] for image in images]).reshape(-1, 2)
    bad = ((boxes[:, :2] < 0) | (boxes[:, 2:] < 1) | (boxes[:, :2] + boxes[:, 2:] > sizes)).any(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        height, width = sizes.expand(len(boxes), 2)[row].tolist()
        raise ValueError(
            f"boxes must lie inside their pictures (top, left, height, width), got {boxes[row].tolist()} "
            f"in a picture of {height} × {width}"
        )
