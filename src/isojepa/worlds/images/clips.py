"""A clip: frames in their order, of a folder, an array or an animated picture."""

import io
from pathlib import Path

import torch

from isojepa.arguments import check_count, checked
from isojepa.opening import read_bytes
from isojepa.worlds.images.decoding import MOST_BYTES, BadPicture, pillow, pixels
from isojepa.worlds.images.opening import open_pictures
from isojepa.worlds.images.parts import Part
from isojepa.worlds.images.pictures import Pictures, Stack

_ANIMATED = {".gif": "GIF", ".webp": "WEBP", ".png": "PNG", ".apng": "PNG"}
_MOST_FRAMES = 10_000
_MOST_PIXELS = 400_000_000  # of the frames that are kept


@checked
def open_clip(data: str | Path, frames: int = 16) -> Pictures:
    """Frames of a clip, evenly over its length.

    Args:
        data: a folder of pictures, whose order is that of their names (2 before 10), an npy array
            (frames, height, width, channels), or an animated GIF, WebP or PNG file.
        frames: how many; all where there are not more.

    Raises:
        ValueError: there is nothing that can be read, or too much of it.
        ImportError: Pillow is not installed.

    Example:
        >>> import numpy as np, tempfile
        >>> place = Path(tempfile.mkdtemp(), "clip.npy")
        >>> np.save(place, np.zeros((50, 8, 8, 3), dtype=np.uint8))
        >>> len(open_clip(place, 5))
        5
    """
    check_count("frames", frames)
    path = Path(data).expanduser()
    if path.suffix.lower() in _ANIMATED and path.is_file():
        return _animated(path, frames)
    whole = open_pictures(path)
    return Part(whole, _evenly(len(whole), frames))


def _evenly(count: int, frames: int) -> torch.Tensor:
    """Numbers of frames at even distances, the first and the last among them."""
    return torch.linspace(0, count - 1, min(frames, count)).round().long()


def _animated(path: Path, frames: int) -> Pictures:
    content = read_bytes(path, MOST_BYTES)
    library = pillow()
    found = []
    try:
        with library.open(io.BytesIO(content), formats=[_ANIMATED[path.suffix.lower()]]) as image:
            count = getattr(image, "n_frames", 1)
            wanted = _evenly(count, frames).tolist()
            width, height = image.size
            if count > _MOST_FRAMES or width * height * len(wanted) > _MOST_PIXELS:
                raise BadPicture(
                    f"it must have at most {_MOST_FRAMES} frames, and {_MOST_PIXELS} pixels in those that "
                    f"are looked at, got {count} frames of {width} × {height}"
                )
            for number in wanted:
                image.seek(number)
                found.append(pixels(image.copy()))
    except MemoryError:
        raise  # the machine's fault, not the clip's
    except Exception as error:  # damaged files make Pillow raise whatever its parsers stumble over
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"clip {path} cannot be read: {told}") from error
    most = max(len(frame) for frame in found)  # grey among coloured ones
    return Stack(torch.stack([frame.expand(most, -1, -1) for frame in found]).contiguous())
