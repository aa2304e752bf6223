"""The arm moving: frames of a run with its goal as a ghost, as a small animated GIF."""

import io
from pathlib import Path

import numpy as np

from isojepa.files import write_whole
from isojepa.planning.closed_loop.plants import Plant
from isojepa.vision import import_pillow
from isojepa.worlds.reacher import Look

_GHOST = 0.3  # how much of the goal is seen in every frame
_COLOURS = 64
_LAST = 1000  # milliseconds that the last frame stays


def film(plant: Plant, qpos: np.ndarray, goal: np.ndarray, *, size: int = 160, every: int = 2) -> bytes:
    """A run as an animated GIF, as fast as it was.

    Args:
        plant: that draws it.
        qpos: (steps + 1, joints) poses.
        goal: (joints,) pose, seen in every frame as a ghost.
        size: side in pixels.
        every: steps from one frame to the next.

    Raises:
        NoRendering: nothing here draws.
        ImportError: Pillow is not installed.
    """
    shown = np.concatenate((qpos[:-1:every], qpos[-1:]))
    frames = plant.observe(np.concatenate((shown, goal[None])), Look(size=size)).astype(np.float32)
    mixed = (1 - _GHOST) * frames[:-1] + _GHOST * frames[-1]
    return animated(mixed.round().astype(np.uint8), plant.seconds * every)


def animated(frames: np.ndarray, seconds: float) -> bytes:
    """Frames uint8 (n, height, width, 3) as a GIF that repeats, each for so many seconds."""
    image = import_pillow()
    # one palette for all: what does not move is then the same in each, and stored once
    palette = image.fromarray(np.concatenate(frames[[0, len(frames) // 2, -1]])).quantize(_COLOURS)
    drawn = [image.fromarray(frame).quantize(palette=palette, dither=0) for frame in frames]
    file = io.BytesIO()
    pauses = [round(1000 * seconds)] * (len(drawn) - 1) + [_LAST]
    drawn[0].save(file, "GIF", save_all=True, append_images=drawn[1:], duration=pauses, loop=0, optimize=True)
    return file.getvalue()


def write_film(path: Path, content: bytes) -> None:
    """Write a GIF."""

    def write(part: Path) -> None:
        part.write_bytes(content)

    write_whole(path, write)
