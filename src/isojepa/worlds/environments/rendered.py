"""Environments whose pictures MuJoCo renders, once, into the store of `worlds/frames.py`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.frames import store_folder, stored_frames


@dataclass(frozen=True)
class RenderedEnvironment(PictureEnvironment):
    """An environment whose pictures are rendered by MuJoCo, once, and kept in the folder `data`."""

    processes: int = 1
    """Processes that render."""

    def scene(self) -> dict[str, Any]:
        """The settings that decide the pixels, as JSON can hold them."""
        raise NotImplementedError(f"{type(self).__name__} must define scene()")

    def blocks(self) -> int:
        """Number of blocks, each of which is rendered by itself."""
        raise NotImplementedError(f"{type(self).__name__} must define blocks()")

    def block_shape(self) -> tuple[int, ...]:
        """(frames, height, width) or (frames, height, width, 3) of every block."""
        raise NotImplementedError(f"{type(self).__name__} must define block_shape()")

    def render_block(self, block: int) -> np.ndarray:
        """The frames of one block, uint8; a function of the scene and the block's number alone."""
        raise NotImplementedError(f"{type(self).__name__} must define render_block(block)")

    def shape(self) -> tuple[int, ...]:
        """Shape of all frames."""
        count, *rest = self.block_shape()
        return (self.blocks() * count, *rest)

    def place(self) -> Path:
        """The folder of the frames."""
        return store_folder(self)

    def frames(self) -> np.ndarray:
        """All frames, memory-mapped; rendered if they are not there, see `stored_frames`."""
        return stored_frames(self)


def grey(picture: np.ndarray) -> np.ndarray:
    """A picture (height, width, 3) in grey, as Pillow weighs colours."""
    weighted: np.ndarray = picture @ np.array([0.299, 0.587, 0.114])
    rounded: np.ndarray = np.rint(weighted).astype(np.uint8)
    return rounded
