"""Which views are cut from a picture: how many, how large, of how much of it, and in which colours.

A view is a random crop that is resized to a square (`scale` is the crop's share of the area, `ratio` its
width over its height), mirrored, changed in brightness, contrast, saturation and hue, turned grey, blurred
and solarized, each with a probability. Global views show most of a picture and make the centre that all views
predict; local ones show a part.

    released   2 × 224 of (0.3, 1) and 6 × 96 of (0.05, 0.3): the settings of LeJEPA's published code
    paper      the same with 8 local views, as its text has it
    minimal    4 × 128 of (0.08, 1), no local ones, strong jitter: LeJEPA's minimal example (Imagenette)
    social-a   Social-JEPA's first recipe (its Appendix A.3): 224 of (0.2, 1), flip, jitter, grey
    social-b   its second: the same with blur and solarization

Neither paper says with which probability the jitter of Social-JEPA comes, how large the blur is, or which
mean and deviation pixels are normalised by: 0.8, a tenth of the side with σ in (0.1, 2), and the pictures'
own are taken. `Views.for_size` has settings for small pictures, where the released ones leave nothing to see.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.names import choose

Range = tuple[float, float]
Chance = float | tuple[float, ...]  # for all views, or one for each
_SMALL = 112  # sides below which the released crops of 224 pixels would mostly enlarge


@dataclass(frozen=True)
class Views:
    """Settings of the views of pictures.

    Args:
        global_views, local_views: how many of each; one in all is enough for masked prediction alone.
        global_size, local_size: sides in pixels.
        global_scale, local_scale: share of the picture's area that a crop has, from and to.
        ratio: width of a crop over its height, from and to.
        flip: probability that left and right change places.
        jitter: probability that brightness, contrast, saturation and hue change.
        brightness, contrast, saturation: they are multiplied by up to 1 ± this.
        hue: it is turned by up to this share of the circle, at most 1/2.
        grey: probability that colours are dropped.
        blur: probability of a Gaussian blur; or one for each view, global ones first.
        sigma: deviation of the blur in pixels, from and to.
        kernel: side of the blur's kernel as a share of the view's; 3 pixels at least.
        solarize: probability that values from 128 on are turned round; or one for each view.
        mean, std: what pixels in [0, 1] are normalised by; by default the pictures' own.

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
    global_scale: Range = (0.3, 1.0)
    local_scale: Range = (0.05, 0.3)
    ratio: Range = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1
    grey: float = 0.2
    blur: Chance = 0.5
    sigma: Range = (0.1, 2.0)
    kernel: float = 0.1
    solarize: Chance = 0.2
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
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
    def scales(self) -> tuple[Range, ...]:
        """Share of the area of each view."""
        return (self.global_scale,) * self.global_views + (self.local_scale,) * self.local_views

    def chances(self, name: str) -> tuple[float, ...]:
        """The probability of blur or solarize in each view."""
        value: Chance = {"blur": self.blur, "solarize": self.solarize}[name]
        return tuple(value) if isinstance(value, Sequence) else (value,) * len(self.sizes)

    def kernel_for(self, size: int) -> int:
        """Pixels of the blur's kernel in a view of a size: odd, and not wider than what mirroring allows."""
        wanted = max(3, 2 * round((self.kernel * size - 1) / 2) + 1)
        return min(wanted, 2 * size - 1)

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
        """Settings for pictures whose shorter side has so many pixels.

        From 112 pixels on the released ones. Below, global crops keep the pictures' size and local ones have
        about half of it, in multiples of 4; crops show more of the picture, since a twentieth of 28 × 28 is
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


def _check_range(name: str, value: Range, most: float = float("inf")) -> None:
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
