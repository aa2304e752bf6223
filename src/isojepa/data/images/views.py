"""Augmented views of images: presets, overrides, and where they are computed.

Settings of views: how many are cut from an image, their sizes, scales and color augmentations.

A view is a random crop that is resized to a square (`scale` is the crop's share of the area, `ratio` its
width over its height), mirrored, changed in brightness, contrast, saturation and hue, turned grey, blurred
and solarized, each with a probability. Global views show most of an image and make the center that all views
predict; local ones show a part.

    released   2 × 224 of (0.3, 1) and 6 × 96 of (0.05, 0.3): the settings of LeJEPA's published code
    paper      the same with 8 local views, as its text has it
    minimal    4 × 128 of (0.08, 1), no local ones, strong jitter: LeJEPA's minimal example (Imagenette)
    social-a   Social-JEPA's first recipe (its Appendix A.3): 224 of (0.2, 1), flip, jitter, grey
    social-b   its second: the same with blur and solarization

Neither paper says with which probability the jitter of Social-JEPA comes, how large the blur is, or which
mean and std by which pixels are normalized: 0.8, a tenth of the side with σ in (0.1, 2), and the images'
own are taken. `Views.for_size` has settings for small images, where the released ones leave nothing to see.

Settings of views as people type them: a name, and what is to be other than it says.

Random parameters of the views of a batch: boxes, flips and colors, from numbers uniform in [0, 1).

An image gives `NUMBERS` of them for each view, all from its own stream in one call, so that what happens to
it does not depend on its neighbors. A box is found as torchvision's RandomResizedCrop finds one: an area
uniform in `scale` and the logarithm of a ratio uniform in that of `ratio` give width and height; of ten tries
the first that fits into the image is taken and placed uniformly; if none fits, the largest box in the
center with a ratio within bounds.

Deferred views: images with their random parameters, made into views on the device that uses them.

What is random is drawn from the row's own stream before anything is copied; the views follow from images
and draws on any device. A worker that serves a device reads images and draws, and sends uint8 pixels, a
fraction of the bytes of the views; the device cuts and colors them.

Images as one recipe of views shows them: one crop of each, always the same.

What an agent trained under a recipe is shown afterwards, where two agents are compared on augmentations of
the same images.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.images.augmentations import ColorDraws, normalized, recolor, resized_crops
from isojepa.data.images.image_sets import ImageSet
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, choose, validate_fields, validate_types

_Range = tuple[float, float]
Chance = float | tuple[float, ...]  # for all views, or one for each
_SMALL = 112  # sides below which the released crops of 224 pixels would mostly enlarge


@dataclass(frozen=True)
class Views:
    """Settings of the views of images.

    Args:
        global_views, local_views: how many of each; one in all is enough for masked prediction alone.
        global_size, local_size: sides in pixels.
        global_scale, local_scale: share of the image's area that a crop has, from and to.
        ratio: width of a crop over its height, from and to.
        flip: probability that left and right change places.
        jitter: probability that brightness, contrast, saturation and hue change.
        brightness, contrast, saturation: they are multiplied by up to 1 ± this.
        hue: it is turned by up to this share of the circle, at most 1/2.
        grey: probability that colors are dropped.
        blur: probability of a Gaussian blur; or one for each view, global ones first.
        sigma: of the Gaussian blur in pixels, from and to.
        kernel: side of the blur's kernel as a share of the view's; 3 pixels at least.
        solarize: probability of solarization (threshold 128), or one for each view.
        mean, std: what pixels in [0, 1] are normalized by; by default the images' own.

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> Views.for_size(28).sizes
        (28, 28, 16, 16)
        >>> Views.named("paper").local_views
        8
    """

    global_views: int = 2
    local_views: int = 6
    global_size: int = 224
    local_size: int = 96
    global_scale: _Range = (0.3, 1.0)
    local_scale: _Range = (0.05, 0.3)
    ratio: _Range = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1
    grey: float = 0.2
    blur: Chance = 0.5
    sigma: _Range = (0.1, 2.0)
    kernel: float = 0.1
    solarize: Chance = 0.2
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("global_views", self.global_views)
        check_count("local_views", self.local_views, least=0)
        check_count("global_size", self.global_size)
        check_count("local_size", self.local_size)
        for name in ("global_scale", "local_scale"):
            _check_range(name, getattr(self, name), most=1.0)
        _check_range("ratio", self.ratio)
        _check_range("sigma", self.sigma)
        for name in ("flip", "jitter", "grey", "blur", "solarize"):
            self._check_chance(name, getattr(self, name))
        for name in ("brightness", "contrast", "saturation"):
            check_number(name, getattr(self, name), "lie in [0, 1]", lambda value: 0 <= value <= 1)
        check_number("hue", self.hue, "lie in [0, 0.5]", lambda value: 0 <= value <= 0.5)
        check_number("kernel", self.kernel, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        if (self.mean is None) != (self.std is None):
            raise ValueError(f"mean and std must be given together, got {self.mean} and {self.std}")
        if any(value <= 0 for value in self.std or ()):
            raise ValueError(f"std must be positive, got {self.std}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Side of each view, global ones first."""
        return (self.global_size,) * self.global_views + (self.local_size,) * self.local_views

    @property
    def scales(self) -> tuple[_Range, ...]:
        """Share of the area of each view."""
        return (self.global_scale,) * self.global_views + (self.local_scale,) * self.local_views

    def chances(self, name: str) -> tuple[float, ...]:
        """The probability of blur or solarize in each view."""
        value: Chance = {"blur": self.blur, "solarize": self.solarize}[name]
        return tuple(value) if isinstance(value, Sequence) else (value,) * len(self.sizes)

    def kernel_for(self, size: int) -> int:
        """Pixels of the blur's kernel in a view of a size: odd, and not wider than what mirroring allows."""
        pixels = max(3, 2 * round((self.kernel * size - 1) / 2) + 1)
        return min(pixels, 2 * size - 1)

    @classmethod
    def named(cls, name: str) -> "Views":
        """Settings by name, or those of `for_size` by a number of pixels.

        Raises:
            ValueError: there are none of that name.
        """
        if name.isdecimal():
            return cls.for_size(int(name))
        return choose("views", name, PRESETS)

    @classmethod
    def for_size(cls, side: int) -> "Views":
        """Settings for images whose shorter side has so many pixels.

        From 112 pixels on the released ones. Below, global crops keep the images' size and local ones have
        about half of it, in multiples of 4; crops show more of the image, since a twentieth of 28 × 28 is
        6 × 6, and are blurred less, since σ is in pixels. Of Fashion-MNIST a linear probe read more from
        features with jitter and with solarization than without, in short runs; blur made no difference.

        Raises:
            ValueError: the side is not positive.
        """
        check_count("side", side)
        if side >= _SMALL:
            return PRESETS["released"]
        tiny = side < 48
        return cls(
            local_views=2 if tiny else 4,
            global_size=side,
            local_size=min(side, 4 * -(-side // 8)),
            local_scale=(0.15, 0.4) if tiny else (0.1, 0.3),
            sigma=(0.1, 1.0),
        )

    def _check_chance(self, name: str, value: Chance) -> None:
        if isinstance(value, Sequence) and len(value) != len(self.sizes):
            raise ValueError(
                f"{name} must be one number or {len(self.sizes)}, one for each view, got {value}"
            )
        for chance in value if isinstance(value, Sequence) else (value,):
            check_number(name, chance, "be a probability in [0, 1]", lambda value: 0 <= value <= 1)


def _check_range(name: str, value: _Range, most: float = float("inf")) -> None:
    within = len(value) == 2 and 0 < value[0] <= value[1] <= most and value[1] < float("inf")
    if not within:
        bound = f" and at most {most:g}" if most < float("inf") else ""
        raise ValueError(f"{name} must be two numbers, positive{bound}, the first not larger, got {value}")


_SOCIAL = Views(local_views=0, global_scale=(0.2, 1.0), saturation=0.4, blur=0.0, solarize=0.0)
PRESETS = {
    "released": Views(),
    "paper": Views(local_views=8),
    "minimal": Views(
        global_views=4,
        local_views=0,
        global_size=128,
        global_scale=(0.08, 1.0),
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        kernel=7 / 128,
        solarize=0.1,  # of its 0.2 the transform itself, applied with 1/2, takes half
    ),
    "social-a": _SOCIAL,
    "social-b": Views(local_views=0, global_scale=(0.2, 1.0), saturation=0.4),
}


_LOOKED_AT = 16  # images whose sizes are looked at where they differ


@dataclass(frozen=True)
class AugmentationOverrides:
    """A named augmentation preset with overrides; None keeps the preset's value."""

    views: str = "auto"
    """Settings by name: released, paper, minimal, social-a, social-b, a side in pixels; auto goes by size."""
    global_views: int | None = None
    """Number of global views; by default as the named settings have it, like all that follow."""
    local_views: int | None = None
    """Number of local views."""
    global_size: int | None = None
    """Side of global views in pixels."""
    local_size: int | None = None
    """Side of local views in pixels."""
    global_scale: _Range | None = None
    """Share of the area that global crops have, from and to."""
    local_scale: _Range | None = None
    """Share of the area that local crops have, from and to."""
    ratio: _Range | None = None
    """Width of a crop over its height, from and to."""
    flip: float | None = None
    """Probability of a horizontal flip."""
    jitter: float | None = None
    """Probability that brightness, contrast, saturation and hue change."""
    brightness: float | None = None
    """Brightness is multiplied by up to 1 ± this."""
    contrast: float | None = None
    """Contrast is multiplied by up to 1 ± this."""
    saturation: float | None = None
    """Saturation is multiplied by up to 1 ± this."""
    hue: float | None = None
    """Hue is turned by up to this share of the circle, at most 1/2."""
    grey: float | None = None
    """Probability that colors are dropped."""
    blur: float | None = None
    """Probability of a Gaussian blur."""
    sigma: _Range | None = None
    """Deviation of the blur in pixels, from and to."""
    kernel: float | None = None
    """Side of the blur's kernel as a share of the view's."""
    solarize: float | None = None
    """Probability of solarization."""

    @property
    def changes(self) -> dict[str, object]:
        """What may be other than the named settings have it, by name; None where it is not."""
        names = {part.name for part in fields(Views)}
        return {
            part.name: getattr(self, part.name)
            for part in fields(AugmentationOverrides)
            if part.name in names
        }

    def settings(self, pictures: ImageSet | None = None) -> Views:
        """The settings of the views.

        Args:
            pictures: whose size "auto" goes by.

        Raises:
            ValueError: there are no settings of that name, or a change is out of its range.

        Example:
            >>> AugmentationOverrides("28", local_views=4).settings().sizes
            (28, 28, 16, 16, 16, 16)
        """
        if self.views == "auto" and pictures is not None:
            chosen = Views.for_size(shorter_side(pictures))
        else:
            chosen = Views.named(self.views)
        return replace(chosen, **{name: value for name, value in self.changes.items() if value is not None})  # type: ignore[arg-type]


def shorter_side(pictures: ImageSet) -> int:
    """Pixels of the images' shorter side; the median of a few where they differ."""
    if pictures.shape is not None:
        return min(pictures.shape[1:])
    few = torch.linspace(0, len(pictures) - 1, min(_LOOKED_AT, len(pictures))).long()
    sides = sorted(min(image.shape[-2:]) for image in pictures.read(few))
    return int(sides[len(sides) // 2])


_TRIES = 10
_PARTS = {"box": 2 * _TRIES, "place": 2, "flip": 1, "jitter": 1, "factors": 4, "order": 4, "grey": 1}
_PARTS |= {"blur": 1, "sigma": 1, "solarize": 1}
NUMBERS = sum(_PARTS.values())


@dataclass(frozen=True)
class ViewDraws:
    """Random parameters of each view of a batch of images; see `ColorDraws` for the colors.

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

    def colors(self, view: int) -> ColorDraws:
        """Parameters of the color augmentations of one view."""
        names = ("jitter", "factors", "order", "grey", "sigma", "solarize")
        return ColorDraws(*(getattr(self, name)[:, view] for name in names))

    def map(self, change: Callable[[Tensor], Tensor]) -> "ViewDraws":
        """The same with every tensor changed: some rows of it, or a copy elsewhere."""
        return ViewDraws(*(change(getattr(self, part.name)) for part in fields(self)))


def draw(uniform: Tensor, sizes: Tensor, views: Views) -> ViewDraws:
    """Map uniform numbers to boxes, flips and color parameters.

    Args:
        uniform: (n, views, NUMBERS) in [0, 1).
        sizes: (n, 2) height and width of each image.
        views: the settings.
    """
    parts = dict(zip(_PARTS, uniform.split(list(_PARTS.values()), dim=-1), strict=True))
    one = {name: part[..., 0] for name, part in parts.items()}
    strengths = torch.tensor([views.brightness, views.contrast, views.saturation, views.hue])
    factors = (2 * parts["factors"] - 1) * strengths + torch.tensor([1.0, 1.0, 1.0, 0.0])
    blur, solarize = (torch.tensor(views.chances(name)) for name in ("blur", "solarize"))
    low, high = views.sigma
    return ViewDraws(
        boxes=_boxes(parts["box"], parts["place"], sizes, views.scales, views.ratio),
        flip=one["flip"] < views.flip,
        jitter=one["jitter"] < views.jitter,
        factors=factors,
        order=parts["order"].argsort(-1),
        grey=one["grey"] < views.grey,
        sigma=torch.where(one["blur"] < blur, low + (high - low) * one["sigma"], 0.0),
        solarize=one["solarize"] < solarize,
    )


def _boxes(tries: Tensor, place: Tensor, sizes: Tensor, scales: tuple[_Range, ...], ratio: _Range) -> Tensor:
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
    exists = fits.any(-1)
    width, height = width[..., 0], height[..., 0]
    # where none fits: all of one side, and of the other as much as the ratio allows
    middle_wide = torch.minimum(width, (height * ratio[1]).round()).clamp_min(1)
    middle_tall = torch.minimum(height, (width / ratio[0]).round()).clamp_min(1)
    wide = torch.where(exists, wide.gather(-1, chosen)[..., 0], middle_wide)
    tall = torch.where(exists, tall.gather(-1, chosen)[..., 0], middle_tall)
    down, across = place.double().unbind(-1)
    top = torch.where(exists, down * (height - tall + 1), (height - tall) / 2).floor()
    left_edge = torch.where(exists, across * (width - wide + 1), (width - wide) / 2).floor()
    return torch.stack([top, left_edge, tall, wide], dim=-1).long()


@dataclass(frozen=True)
class Deferred:
    """Pictures with what was drawn for their views; `to(device)` makes them there.

    Attributes:
        images: uint8, (n, channels, height, width), or n of (channels, height, width).
        draws: boxes, flips and colors of each view.
        views: the settings, with the mean and std by which pixels are normalized.
        labels: (n,) where there are any.
        ids: (n,) which images they are.
    """

    images: Tensor | list[Tensor]
    draws: ViewDraws
    views: Views
    labels: Tensor | None
    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: slice | Tensor) -> "Deferred":
        """Some of the images."""
        if isinstance(self.images, Tensor):
            images: Tensor | list[Tensor] = self.images[index]
        else:
            images = [self.images[row] for row in torch.arange(len(self))[index].tolist()]
        return self._with(images, lambda part: part[index])

    def to(self, device: torch.device | str) -> Batch:
        """The batch, its views made on a device."""
        there = self._copied(lambda part: part.to(device, non_blocking=True))
        if not isinstance(self.images, Tensor):  # boxes are read one by one on the host: no synchronization
            there = replace(there, draws=replace(there.draws, boxes=self.draws.boxes))
        return Batch(there.made(), self.views.global_views, labels=there.labels, ids=there.ids)

    def pin_memory(self) -> "Deferred":
        """The same in pinned memory, from which a device copies by itself; what torch's loaders call."""
        return self._copied(lambda part: part.pin_memory())

    def made(self) -> tuple[Tensor, ...]:
        """The views, each (n, channels, size, size) float32, where the images are."""
        settings = self.views
        views = []
        for view, size in enumerate(settings.sizes):
            cut = resized_crops(self.images, self.draws.boxes[:, view], size, self.draws.flip[:, view])
            recolored = recolor(cut, self.draws.colors(view), settings.kernel_for(size))
            views.append(normalized(recolored, settings.mean or (0.0,), settings.std or (1.0,)))
        return tuple(views)

    def _copied(self, copy: Callable[[Tensor], Tensor]) -> "Deferred":
        images = copy(self.images) if isinstance(self.images, Tensor) else list(map(copy, self.images))
        return self._with(images, copy)

    def _with(self, images: Tensor | list[Tensor], change: Callable[[Tensor], Tensor]) -> "Deferred":
        labels = None if self.labels is None else change(self.labels)
        return Deferred(images, self.draws.map(change), self.views, labels, change(self.ids))


class Augmented:
    """One global view of each image, as uint8; a function of the seed and the image's number.

    Mean and deviation are those of the images, which a model that was trained on views of them is fed by.

    Args:
        pictures: what views are cut from.
        views: how; the first of its views is taken.
        seed: any integer.

    Example:
        >>> from isojepa.data.images.image_sets import Stack
        >>> whole = Stack(torch.zeros(3, 40, 30, dtype=torch.uint8))
        >>> Augmented(whole, Views.for_size(28)).read(torch.tensor([1, 2])).shape
        torch.Size([2, 1, 28, 28])
    """

    @validate_types
    def __init__(self, pictures: ImageSet, views: Views, *, seed: int = 0) -> None:
        self._whole, self.seed = pictures, seed
        self.views = replace(views, mean=(0.0,) * pictures.channels, std=(1.0,) * pictures.channels)
        self.channels = pictures.channels
        self.shape = (pictures.channels, views.global_size, views.global_size)
        self.labels, self.skipped = pictures.labels, pictures.skipped
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = pictures.mean, pictures.std

    def __len__(self) -> int:
        return len(self._whole)

    def read(self, ids: Tensor) -> Tensor:
        """The views of the images of given numbers, uint8 (n, channels, size, size)."""
        count = len(self.views.sizes)
        uniform = torch.stack(
            [
                torch.rand(count, NUMBERS, generator=generator(self.seed, "augmented", number))
                for number in ids.tolist()
            ]
        )
        images = self._whole.read(ids)
        sizes = torch.tensor([image.shape[-2:] for image in images])
        draws = draw(uniform, sizes, self.views)
        views = Deferred(images, draws, self.views, None, ids).made()[0]
        return (views * 255).round().clamp(0, 255).to(torch.uint8)

    def __repr__(self) -> str:
        return f"Augmented({self._whole!r}, {self.views!r})"
