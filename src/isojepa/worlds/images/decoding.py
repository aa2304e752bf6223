"""One picture from the bytes of a file: uint8 (1 or 3, height, width), whatever the file had.

    grey, one bit                  1 channel; 0 and 255 for one bit
    16 bits, one channel           1 channel; v -> round(255 v / 65535), scaled and never clipped
    32-bit integers                as 16 bits, if all values are within them; else refused
    floating point                 1 channel; v -> round(255 v), if all values lie in [0, 1]; else refused
    RGB, palette, CMYK, YCbCr      3 channels; of 16 bits a channel the upper eight
    transparent in any form        laid over white, with as many channels as without
    turned by EXIF orientation     upright
    several frames                 the first

Colour profiles are not applied. Nothing is expanded before its size is known: a picture of more pixels
than `MOST_PIXELS` is refused, as is every file that cannot be read to its end, by one type of error,
`BadPicture`, so that whoever reads many can count it and go on. Only the formats of `FORMATS` are tried:
Pillow knows others that run programs.
"""

import io
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.importing import install_hint

MOST_PIXELS = 89_000_000  # 270 MB when expanded; of more than 89.5 million Pillow itself warns
MOST_BYTES = 1 << 29  # of one file
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif"),
)
_WHITE = 255


class BadPicture(ValueError):
    """A picture that cannot be read, and why; whoever reads many counts it and goes on."""


def decode(content: bytes, largest: int | None = None) -> Tensor:
    """The picture of a file.

    Args:
        content: of the file.
        largest: pixels of the shorter side to which a larger picture is reduced, sides in proportion; JPEG
            files are then expanded to a fraction of their size only.

    Returns:
        uint8 (1 or 3, height, width).

    Raises:
        BadPicture: it is no picture, damaged, cut short, or has too many pixels.
        ImportError: Pillow is not installed.

    Example:
        >>> decode(b"no picture")
        Traceback (most recent call last):
        ...
        isojepa.worlds.images.decoding.BadPicture: it is of no format that is read here, or has no header
        >>> file = io.BytesIO()
        >>> pillow().new("LA", (3, 2)).save(file, "PNG")  # 3 wide, 2 high, all of it transparent
        >>> decode(file.getvalue())[0].tolist()
        [[255, 255, 255], [255, 255, 255]]
    """
    library = pillow()
    try:
        with library.open(io.BytesIO(content), formats=_formats(library)) as image:
            return pixels(image, largest)
    except BadPicture:
        raise
    except library.DecompressionBombError:
        raise BadPicture(_too_many("far more")) from None
    except library.UnidentifiedImageError:
        raise BadPicture("it is of no format that is read here, or has no header") from None
    except MemoryError:
        raise  # the machine's fault, not the picture's
    except Exception as error:  # damaged files make Pillow raise whatever its parsers stumble over
        raise BadPicture(" ".join(str(error).split()) or type(error).__name__) from error


def pixels(image: Any, largest: int | None = None) -> Tensor:
    """The pixels of a picture that Pillow has opened, by the rules above.

    Args:
        image: a `PIL.Image.Image`.
        largest: as of `decode`.

    Raises:
        BadPicture: it has none or too many, or values whose range is not known.
    """
    from PIL import ImageOps

    width, height = image.size
    if not 0 < width * height <= MOST_PIXELS:
        raise BadPicture(_too_many(f"{width} × {height}"))
    if largest is not None and min(width, height) > largest:
        image.draft(
            None, _reduced(width, height, largest)
        )  # JPEG: by 2, 4 or 8 while decoding; others: nothing
    image.load()
    image = _plain(ImageOps.exif_transpose(image))
    if largest is not None and min(image.size) > largest:
        image = image.resize(
            _reduced(image.width, image.height, largest),
            resample=pillow().Resampling.BICUBIC,
            reducing_gap=3.0,
        )
    found = torch.from_numpy(np.array(image, dtype=np.uint8))
    return found.unsqueeze(0) if found.ndim == 2 else found.movedim(-1, 0).contiguous()


def pillow() -> Any:
    """Pillow's module `Image`.

    Raises:
        ImportError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"reading pictures needs Pillow: {install_hint('vision')}") from error
    return Image


def _formats(library: Any) -> list[str]:
    """Those of the formats that this Pillow was built with."""
    library.init()
    return [name for name in FORMATS if name in library.OPEN]


def _plain(image: Any) -> Any:
    """The same picture in grey or RGB of eight bits."""
    mode = image.mode
    if mode == "F" or mode.startswith("I"):
        return _scaled(image)
    grey = mode in ("1", "L", "LA", "La")
    if image.has_transparency_data or mode in ("La", "RGBa"):
        image = image.convert("LA").convert("RGBA") if grey else image.convert("RGBA")
        ground = pillow().new("RGBA", image.size, (_WHITE, _WHITE, _WHITE, 255))
        ground.alpha_composite(image)
        image = ground
    return image.convert("L" if grey else "RGB")


def _scaled(image: Any) -> Any:
    """A picture of more than eight bits a pixel, scaled to eight."""
    values = np.asarray(image)
    if image.mode == "F":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise BadPicture(
                "it has numbers outside [0, 1], whose range nobody knows: write it with 8 or 16 bits"
            )
        return pillow().fromarray(np.rint(values * 255).astype(np.uint8))
    if values.min() < 0 or values.max() > 65_535:
        raise BadPicture(
            "it has values outside 0 to 65535, whose range nobody knows: write it with 8 or 16 bits"
        )
    return pillow().fromarray(((values.astype(np.int32) * 255 + 32_767) // 65_535).astype(np.uint8))


def _reduced(width: int, height: int, largest: int) -> tuple[int, int]:
    """Width and height when the shorter side is `largest`, the other in proportion."""
    shorter = min(width, height)
    return max(1, round(width * largest / shorter)), max(1, round(height * largest / shorter))


def _too_many(got: str) -> str:
    return f"it must have between 1 and {MOST_PIXELS} pixels, got {got}"
