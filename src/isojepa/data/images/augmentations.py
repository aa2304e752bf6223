"""Crops, resizing and color changes of images, as tensor operations.

Crop, resize and flip as two matrix products.

A crop of height h that starts at row t of an image X and is resized to s rows has, at row i, the mean of the
image's rows j with the weights of a triangle around the row's center:

    R_y[i, j]  ∝  max(0, 1 − |j + 1/2 − c_i| / max(h/s, 1)),      c_i = t + (i + 1/2) h/s,   t ≤ j < t + h,

each row of R_y summing to 1: bilinear interpolation whose triangle widens as the image shrinks
(antialiasing), which is what torchvision's `resized_crop` and Pillow's `BILINEAR` compute. Columns have an
R_x of their own, reversed for an image that is flipped, and the view is R_y X R_xᵀ: for a stack of images
two batched products of matrices, on whatever device they are. Where sizes differ, images are resampled one
after the other, each on the window of its crop. On a processor nearly all weights are 0, and the loops of
`isojepa.data.images.kernels`, which make only the others, are faster: `resized_crops` takes those there.

Changes of color, each with a parameter for every image, on batches of any device.

For x in [0, 1] of channels r, g, b, its grey value y = 0.2989 r + 0.587 g + 0.114 b, ⌊·⌉ clipping to [0, 1]:

    brightness   ⌊f x⌉                     saturation   ⌊f x + (1 − f) y⌉
    contrast     ⌊f x + (1 − f) mean(y)⌉   hue          its angle in the circle of colors, plus 2π f
    grey         (y, y, y)                 blur         Gaussian of deviation σ, edges mirrored
    solarize     1 − x where x ≥ t

which are torchvision's definitions. The hue needs no detour over other channels: with the largest value v,
the chroma C = v − min and hue h in [0, 6), a channel is v − C ⌊min(k, 4 − k)⌉ with k = n + h mod 6 and n =
5, 3, 1 for r, g, b. A blur is a product B_y x B_xᵀ with matrices of weights, as a resize is.

Only images for which a change was drawn are touched. The four parts of the jitter come in an order drawn
for each image, as in torchvision's ColorJitter. Grey images have no saturation and no hue: these, and
grey, leave them as they are. On a processor `recolor` runs the loops of `isojepa.data.images.kernels`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.validation import check_count

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
    centers = (cells + 0.5) * scale  # from the start, as small numbers keep more digits
    pixels = torch.arange(extent, device=device) + 0.5 - start
    width = scale.clamp_min(1)[..., None]
    weights = (1 - (pixels[:, None] - centers[..., None]).abs() / width).clamp_min_(0)
    inside = (pixels > 0) & (pixels < length)
    weights *= inside[:, None]
    return weights.div_(weights.sum(-1, keepdim=True))


def resized_crops(images: Pixels, boxes: Tensor, size: int, flip: Tensor | None = None) -> Tensor:
    """Cut a box out of each image, resize it to a square, and mirror it where asked.

    Args:
        images: uint8 0..255, or floats that are left as they are: (n, channels, height, width), or n of
            (channels, height, width).
        boxes: (n, 4) whole numbers: top, left, height, width; inside the image.
        size: side of the square.
        flip: (n,) whether left and right change places.

    Returns:
        (n, channels, size, size) float32; in [0, 1] for uint8.

    Raises:
        ValueError: a box is not inside its image, or there are not as many as images.

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
    crops = [
        resized_crops(image[None], box, size, turned)
        for image, box, turned in zip(images, boxes.split(1), flips, strict=True)
    ]
    return torch.cat(crops)


def product(images: Tensor, boxes: Tensor, size: int, flip: Tensor | None = None) -> Tensor:
    """`resized_crops` of a stack as two products of matrices."""
    flip = None if flip is None else flip.to(images.device)
    if len(images) == 1:  # one image alone: only the pixels of the box
        top, left, height, width = boxes[0].tolist()
        images = images[:, :, top : top + height, left : left + width]
        boxes = torch.tensor([[0, 0, height, width]])
    boxes = boxes.to(images.device)
    rows = triangles(boxes[:, 0], boxes[:, 2], size, images.shape[-2])
    columns = triangles(boxes[:, 1], boxes[:, 3], size, images.shape[-1], flip)
    return _product(rows, _floats(images), columns)


def whole(images: Pixels, size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Evaluation preprocessing: the shorter side resized to `size`, the square in the center, normalized.

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
    return normalized(_product(rows, _floats(images), columns), mean, std)


def normalized(views: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Views (n, channels, height, width), each channel less its mean and divided by its deviation."""
    first, second = (torch.tensor(tuple(part), device=views.device)[:, None, None] for part in (mean, std))
    if first.shape[0] not in (1, views.shape[1]) or first.shape != second.shape:
        raise ValueError(
            f"mean and std must have a number for each of {views.shape[1]} channels, got {mean} and {std}"
        )
    return (views - first) / second


def _looped(images: Tensor, boxes: Tensor, size: int, flip: Tensor | None) -> Tensor:
    from isojepa.data.images import kernels  # compiled: only for those who make views

    supported = images.dtype in (torch.uint8, torch.float32)
    crops = torch.empty(len(images), images.shape[1], size, size)
    turned = torch.zeros(len(images), dtype=torch.bool) if flip is None else flip
    pixels = images if supported else images.float()
    kernels.crops(
        pixels.numpy(),
        boxes.long().contiguous().numpy(),
        turned.contiguous().numpy(),
        1 / 255 if images.dtype == torch.uint8 else 1.0,
        crops.numpy(),
    )
    return crops


def _centre(extent: int, resized: int, size: int, like: Tensor) -> Tensor:
    """Weights (1, size, extent) of the cells in the middle of a line that is resized to `resized` cells."""
    line = torch.tensor([0, extent], device=like.device)
    first = round((resized - size) / 2)
    return triangles(line[:1], line[1:], resized, extent)[:, first : first + size]


def _product(rows: Tensor, images: Tensor, columns: Tensor) -> Tensor:
    """R_y X R_xᵀ for each image and channel."""
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


THRESHOLD = 128 / 255  # from which solarize inverts values
_GREY = (0.2989, 0.587, 0.114)


@dataclass(frozen=True)
class ColorDraws:
    """Random parameters of color augmentations, for a batch of images.

    Attributes:
        jitter: (n,) whether brightness, contrast, saturation and hue change.
        factors: (n, 4) by how much, in this order; the hue's is a share of the circle.
        order: (n, 4) which of the four comes first, second, ...
        grey: (n,) whether colors are dropped.
        sigma: (n,) of the Gaussian blur, in pixels; 0 for none.
        solarize: (n,) whether to solarize.
    """

    jitter: Tensor
    factors: Tensor
    order: Tensor
    grey: Tensor
    sigma: Tensor
    solarize: Tensor


def recolor(views: Tensor, colors: ColorDraws, kernel: int) -> Tensor:
    """Apply color augmentations to images, in place.

    Args:
        views: (n, channels, height, width) float32 in [0, 1].
        colors: parameters of each.
        kernel: pixels of the blur's kernel along an axis, odd.

    Returns:
        The same tensor.

    Raises:
        ValueError: the kernel does not fit the views.
    """
    _check_kernel(kernel, min(views.shape[-2:]))
    if views.device.type != "cpu":
        return recolor_tensors(views, colors, kernel)
    from isojepa.data.images import kernels  # compiled: only for those who make views

    kernels.recolor(
        views.numpy(),
        *(
            getattr(colors, name).contiguous().numpy()
            for name in ("jitter", "factors", "order", "grey", "sigma", "solarize")
        ),
        kernel,
        THRESHOLD,
    )
    return views


def recolor_tensors(views: Tensor, colors: ColorDraws, kernel: int) -> Tensor:
    """The same as operations on tensors, for any device."""
    for step in range(4):
        for which, change in enumerate((brightness, contrast, saturation, hue)):
            if which < 2 or views.shape[1] == 3:
                rows = (colors.jitter & (colors.order[:, step] == which)).nonzero()[:, 0]
                views[rows] = change(views[rows], colors.factors[rows, which])
    if views.shape[1] == 3:
        rows = colors.grey.nonzero()[:, 0]
        views[rows] = grey(views[rows])
    rows = (colors.sigma > 0).nonzero()[:, 0]
    views[rows] = blur(views[rows], colors.sigma[rows], kernel)
    rows = colors.solarize.nonzero()[:, 0]
    views[rows] = solarize(views[rows])
    return views


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Pictures (n, channels, height, width) times a factor each (n,)."""
    return (x * _each(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Pictures mixed with the mean of their grey values."""
    mean = _grey_values(x).mean((-3, -2, -1), keepdim=True)
    return torch.lerp(mean, x, _each(factor)).clamp_(0, 1)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Pictures (n, 3, height, width) mixed with their grey values."""
    return torch.lerp(_grey_values(x).expand_as(x), x, _each(factor)).clamp_(0, 1)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """Pictures (n, 3, height, width) whose hue is turned by a share of the circle each."""
    red, green, blue = x.unbind(1)
    high = x.amax(1)
    chroma = high - x.amin(1)
    divisor = torch.where(chroma > 0, chroma, 1)
    angle = torch.where(
        high == red,
        (green - blue) / divisor,
        torch.where(high == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    offsets = torch.tensor([5.0, 3.0, 1.0], device=x.device)[:, None, None]
    k = ((angle + 6 * shift[:, None, None])[:, None] + offsets).remainder(6)
    return high[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp_(0, 1)


def grey(x: Tensor) -> Tensor:
    """Pictures (n, 3, height, width) without their colors."""
    return _grey_values(x).expand_as(x)


def blur(x: Tensor, sigma: Tensor, kernel: int) -> Tensor:
    """Pictures blurred by Gaussians of given deviations (n,) on an odd number of pixels.

    Raises:
        ValueError: the kernel is even, or half of it is as wide as the images.
    """
    height, width = x.shape[-2:]
    _check_kernel(kernel, min(height, width))
    offsets = torch.arange(-(kernel // 2), kernel // 2 + 1, device=x.device)
    weights = torch.softmax(-0.5 * (offsets / sigma[:, None]) ** 2, dim=1)
    rows, columns = (_spread(weights, offsets, size) for size in (height, width))
    return rows[:, None] @ x @ columns[:, None].mT


def solarize(x: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Invert values at or above a threshold."""
    return torch.where(x >= threshold, 1 - x, x)


def _spread(weights: Tensor, offsets: Tensor, size: int) -> Tensor:
    """Matrices (n, size, size) that blur a line with weights (n, kernel), mirrored at its ends."""
    places = torch.arange(size, device=weights.device)[:, None] + offsets
    places = (size - 1) - ((size - 1) - places.abs()).abs()
    matrices = torch.zeros(len(weights), size, size, device=weights.device)
    return matrices.scatter_add_(
        2, places.expand(len(weights), -1, -1), weights[:, None].expand(-1, size, -1)
    )


def _grey_values(x: Tensor) -> Tensor:
    """(n, 1, height, width)."""
    if x.shape[1] == 1:
        return x
    red, green, blue = _GREY
    return (red * x[:, 0] + green * x[:, 1] + blue * x[:, 2])[:, None]


def _each(parameter: Tensor) -> Tensor:
    return parameter[:, None, None, None]


def _check_kernel(kernel: int, side: int) -> None:
    if kernel < 1 or kernel % 2 == 0 or kernel // 2 >= side:
        raise ValueError(f"kernel must be odd and below twice the side of {side} pixels, got {kernel}")
