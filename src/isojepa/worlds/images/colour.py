"""Changes of colour, each with a parameter for every picture, on batches of any device.

For x in [0, 1] of channels r, g, b, its grey value y = 0.2989 r + 0.587 g + 0.114 b, ⌊·⌉ clipping to [0, 1]:

    brightness   ⌊f x⌉                     saturation   ⌊f x + (1 − f) y⌉
    contrast     ⌊f x + (1 − f) mean(y)⌉   hue          its angle in the circle of colours, plus 2π f
    grey         (y, y, y)                 blur         Gaussian of deviation σ, edges mirrored
    solarize     1 − x where x ≥ t

which are torchvision's definitions. The hue needs no detour over other channels: with the largest value v,
the chroma C = v − min and hue h in [0, 6), a channel is v − C ⌊min(k, 4 − k)⌉ with k = n + h mod 6 and n =
5, 3, 1 for r, g, b. A blur is a product B_y x B_xᵀ with matrices of weights, as a resize is.

Only pictures for which a change was drawn are touched. The four parts of the jitter come in an order drawn
for each picture, as in torchvision's ColorJitter. Grey pictures have no saturation and no hue: these, and
grey, leave them as they are. On a processor `recolour` runs the loops of `isojepa.worlds.images.kernels`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

THRESHOLD = 128 / 255  # from which solarize turns values round
_GREY = (0.2989, 0.587, 0.114)


@dataclass(frozen=True)
class Colours:
    """What was drawn for the colours of a batch of pictures.

    Attributes:
        jitter: (n,) whether brightness, contrast, saturation and hue change.
        factors: (n, 4) by how much, in this order; the hue's is a share of the circle.
        order: (n, 4) which of the four comes first, second, ...
        grey: (n,) whether colours are dropped.
        sigma: (n,) deviation of the blur in pixels; 0 for none.
        solarize: (n,) whether bright values are turned round.
    """

    jitter: Tensor
    factors: Tensor
    order: Tensor
    grey: Tensor
    sigma: Tensor
    solarize: Tensor


def recolour(views: Tensor, colours: Colours, kernel: int) -> Tensor:
    """Change the colours of pictures as drawn, in place.

    Args:
        views: (n, channels, height, width) float32 in [0, 1].
        colours: what was drawn for each.
        kernel: pixels of the blur's kernel along an axis, odd.

    Returns:
        The same tensor.

    Raises:
        ValueError: the kernel does not fit the views.
    """
    _check_kernel(kernel, min(views.shape[-2:]))
    if views.device.type != "cpu":
        return recolour_tensors(views, colours, kernel)
    from isojepa.worlds.images import kernels  # compiled: only for those who make views

    kernels.recolour(
        views.numpy(),
        *(
            getattr(colours, name).contiguous().numpy()
            for name in ("jitter", "factors", "order", "grey", "sigma", "solarize")
        ),
        kernel,
        THRESHOLD,
    )
    return views


def recolour_tensors(views: Tensor, colours: Colours, kernel: int) -> Tensor:
    """The same as operations on tensors, for any device."""
    for step in range(4):
        for which, change in enumerate((brightness, contrast, saturation, hue)):
            if which < 2 or views.shape[1] == 3:
                rows = (colours.jitter & (colours.order[:, step] == which)).nonzero()[:, 0]
                views[rows] = change(views[rows], colours.factors[rows, which])
    if views.shape[1] == 3:
        rows = colours.grey.nonzero()[:, 0]
        views[rows] = grey(views[rows])
    rows = (colours.sigma > 0).nonzero()[:, 0]
    views[rows] = blur(views[rows], colours.sigma[rows], kernel)
    rows = colours.solarize.nonzero()[:, 0]
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
    """Pictures (n, 3, height, width) without their colours."""
    return _grey_values(x).expand_as(x)


def blur(x: Tensor, sigma: Tensor, kernel: int) -> Tensor:
    """Pictures blurred by Gaussians of given deviations (n,) on an odd number of pixels.

    Raises:
        ValueError: the kernel is even, or half of it is as wide as the pictures.
    """
    height, width = x.shape[-2:]
    _check_kernel(kernel, min(height, width))
    offsets = torch.arange(-(kernel // 2), kernel // 2 + 1, device=x.device)
    weights = torch.softmax(-0.5 * (offsets / sigma[:, None]) ** 2, dim=1)
    rows, columns = (_spread(weights, offsets, size) for size in (height, width))
    return rows[:, None] @ x @ columns[:, None].mT


def solarize(x: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Pictures with values from a threshold on turned round."""
    return torch.where(x >= threshold, 1 - x, x)


def _spread(weights: Tensor, offsets: Tensor, size: int) -> Tensor:
    """Matrices (n, size, size) that blur a line with weights (n, kernel), mirrored at its ends."""
    places = torch.arange(size, device=weights.device)[:, None] + offsets
    places = (size - 1) - ((size - 1) - places.abs()).abs()
    found = torch.zeros(len(weights), size, size, device=weights.device)
    return found.scatter_add_(2, places.expand(len(weights), -1, -1), weights[:, None].expand(-1, size, -1))


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
