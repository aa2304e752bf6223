"""What is drawn for the views of a batch: boxes, flips and colours, from numbers uniform in [0, 1).

A picture gives `NUMBERS` of them for each view, all from its own stream in one call, so that what happens to
it does not depend on its neighbours. A box is found as torchvision's RandomResizedCrop finds one: an area
uniform in `scale` and the logarithm of a ratio uniform in that of `ratio` give width and height; of ten tries
the first that fits into the picture is taken and placed uniformly; if none fits, the largest box in the
centre with a ratio within bounds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from isojepa.worlds.images.colour import Colours
from isojepa.worlds.images.views import Range, Views

_TRIES = 10
_PARTS = {"box": 2 * _TRIES, "place": 2, "flip": 1, "jitter": 1, "factors": 4, "order": 4, "grey": 1}
_PARTS |= {"blur": 1, "sigma": 1, "solarize": 1}
NUMBERS = sum(_PARTS.values())


@dataclass(frozen=True)
class Draws:
    """What was drawn for each view of a batch of pictures; see `Colours` for the colours.

    Attributes:
        boxes: (n, views, 4) top, left, height, width.
        flip, jitter, grey, solarize: (n, views).
        factors, order: (n, views, 4).
        sigma: (n, views).
    """

    boxes: Tensor
    flip: Tensor
    jitter: Tensor
    factors: Tensor
    order: Tensor
    grey: Tensor
    sigma: Tensor
    solarize: Tensor

    def colours(self, view: int) -> Colours:
        """What was drawn for the colours of one view."""
        names = ("jitter", "factors", "order", "grey", "sigma", "solarize")
        return Colours(*(getattr(self, name)[:, view] for name in names))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Draws":
        """The same with every tensor changed: some rows of it, or a copy elsewhere."""
        return Draws(*(change(getattr(self, part.name)) for part in fields(self)))


def draw(uniform: Tensor, sizes: Tensor, views: Views) -> Draws:
    """Turn uniform numbers into boxes, flips and colours.

    Args:
        uniform: (n, views, NUMBERS) in [0, 1).
        sizes: (n, 2) height and width of each picture.
        views: the settings.
    """
    parts = dict(zip(_PARTS, uniform.split(list(_PARTS.values()), dim=-1), strict=True))
    one = {name: part[..., 0] for name, part in parts.items()}
    strengths = torch.tensor([views.brightness, views.contrast, views.saturation, views.hue])
    factors = (2 * parts["factors"] - 1) * strengths + torch.tensor([1.0, 1.0, 1.0, 0.0])
    blur, solarize = (torch.tensor(views.chances(name)) for name in ("blur", "solarize"))
    low, high = views.sigma
    return Draws(
        boxes=_boxes(parts["box"], parts["place"], sizes, views.scales, views.ratio),
        flip=one["flip"] < views.flip,
        jitter=one["jitter"] < views.jitter,
        factors=factors,
        order=parts["order"].argsort(-1),
        grey=one["grey"] < views.grey,
        sigma=torch.where(one["blur"] < blur, low + (high - low) * one["sigma"], 0.0),
        solarize=one["solarize"] < solarize,
    )


def _boxes(tries: Tensor, place: Tensor, sizes: Tensor, scales: tuple[Range, ...], ratio: Range) -> Tensor:
    """Boxes (n, views, 4) from numbers (n, views, 2 tries) and (n, views, 2)."""
    area, shape = tries.double().unflatten(-1, (2, -1)).unbind(-2)
    low, high = torch.tensor(scales, dtype=torch.float64).T[..., None]
    height, width = sizes.double()[:, None, None].unbind(-1)  # (n, 1, 1) each
    share = (low + (high - low) * area) * (height * width)
    first, last = math.log(ratio[0]), math.log(ratio[1])
    aspect = (first + (last - first) * shape).exp()
    wide, tall = (share * aspect).sqrt().round(), (share / aspect).sqrt().round()
    fits = (wide >= 1) & (wide <= width) & (tall >= 1) & (tall <= height)
    chosen = fits.byte().argmax(-1, keepdim=True)  # the first that fits
    found = fits.any(-1)
    width, height = width[..., 0], height[..., 0]
    # where none fits: all of one side, and of the other as much as the ratio allows
    middle_wide = torch.minimum(width, (height * ratio[1]).round()).clamp_min(1)
    middle_tall = torch.minimum(height, (width / ratio[0]).round()).clamp_min(1)
    wide = torch.where(found, wide.gather(-1, chosen)[..., 0], middle_wide)
    tall = torch.where(found, tall.gather(-1, chosen)[..., 0], middle_tall)
    down, across = place.double().unbind(-1)
    top = torch.where(found, down * (height - tall + 1), (height - tall) / 2).floor()
    left = torch.where(found, across * (width - wide + 1), (width - wide) / 2).floor()
    return torch.stack([top, left, tall, wide], dim=-1).long()
