"""Settings of views as people type them: a name, and what is to be other than it says."""

from dataclasses import dataclass, fields, replace

import torch

from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.images.views import Range, Views

_LOOKED_AT = 16  # pictures whose sizes are looked at where they differ


@dataclass(frozen=True)
class Choice:
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
    global_scale: Range | None = None
    """Share of the area that global crops have, from and to."""
    local_scale: Range | None = None
    """Share of the area that local crops have, from and to."""
    ratio: Range | None = None
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
    """Probability that colours are dropped."""
    blur: float | None = None
    """Probability of a Gaussian blur."""
    sigma: Range | None = None
    """Deviation of the blur in pixels, from and to."""
    kernel: float | None = None
    """Side of the blur's kernel as a share of the view's."""
    solarize: float | None = None
    """Probability of solarization."""

    @property
    def changes(self) -> dict[str, object]:
        """What may be other than the named settings have it, by name; None where it is not."""
        known = {part.name for part in fields(Views)}
        return {part.name: getattr(self, part.name) for part in fields(Choice) if part.name in known}

    def settings(self, pictures: Pictures | None = None) -> Views:
        """The settings of the views.

        Args:
            pictures: whose size "auto" goes by.

        Raises:
            ValueError: there are no settings of that name, or a change is out of its range.

        Example:
            >>> Choice("28", local_views=4).settings().sizes
            (28, 28, 16, 16, 16, 16)
        """
        if self.views == "auto" and pictures is not None:
            chosen = Views.for_size(shorter_side(pictures))
        else:
            chosen = Views.named(self.views)
        return replace(chosen, **{name: value for name, value in self.changes.items() if value is not None})  # type: ignore[arg-type]


def shorter_side(pictures: Pictures) -> int:
    """Pixels of the pictures' shorter side; the median of a few where they differ."""
    if pictures.shape is not None:
        return min(pictures.shape[1:])
    few = torch.linspace(0, len(pictures) - 1, min(_LOOKED_AT, len(pictures))).long()
    sides = sorted(min(image.shape[-2:]) for image in pictures.read(few))
    return int(sides[len(sides) // 2])
