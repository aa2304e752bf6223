"""States of the Reacher with their frames, rendered once and kept: what a view of the world is made of.

The store is that of `worlds/frames.py`. Beside the frames it keeps the states themselves, `states.npy`,
float32 (n, 2): random numbers may differ in the last bits from machine to machine, and frames belong to the
states that were rendered. What a store is for, its key, is how the states were chosen and how they look.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from isojepa.files import write_whole
from isojepa.worlds.frames import block_rows, store_folder, stored_frames
from isojepa.worlds.reacher.look import Look, check_states

_BLOCK = 512  # frames that are rendered and kept at a time: what a killed process loses at most
_WORTH = {"fast": 4096, "dmc": 256}  # frames that take as long as it takes to start another process
_SAME = 1e-4  # states that differ by more are others


@dataclass(frozen=True)
class States:
    """Some states and their frames.

    Attributes:
        z: (n, 2) float32.
        frames: (n, size, size, 3) uint8, memory-mapped.
        folder: of the store.
    """

    z: np.ndarray
    frames: np.ndarray
    folder: Path


@dataclass(frozen=True)
class StateScene:
    """What the store keeps: frames of states that lie beside them.

    Attributes:
        data: the folder of stores; empty for one in the user's cache.
        processes: that render.
        chosen: how the states were chosen, as JSON can hold it.
        count: number of states.
        quality, squash, size, target: see `Look`.
    """

    name: ClassVar[str] = "reacher"
    data: str
    processes: int
    chosen: dict[str, Any]
    count: int
    quality: str
    squash: bool
    size: int
    target: tuple[float, float]

    def scene(self) -> dict[str, Any]:
        """How states were chosen and how they look."""
        names = ("chosen", "count", "quality", "squash", "size", "target")
        return {name: getattr(self, name) for name in names}

    def shape(self) -> tuple[int, ...]:
        """Shape of all frames."""
        return (self.count, self.size, self.size, 3)

    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.count // _BLOCK)

    def render_block(self, block: int) -> np.ndarray:
        """The frames of one block."""
        states = np.load(store_folder(self) / "states.npy", allow_pickle=False)
        look = Look(self.quality, self.squash, self.size, self.target)
        return look.frames(states[block_rows(self, block)])


def keep_states(
    z: np.ndarray, chosen: dict[str, Any], look: Look, data: str = "", processes: int | None = None
) -> States:
    """The frames of some states: those that are kept, else rendered now.

    Args:
        z: (n, 2) the states.
        chosen: how they were chosen, which tells this store from others.
        look: how states become frames.
        data: the folder of stores; empty for one in the user's cache.
        processes: that render; by default as many as there are cores, or fewer where there is little to do.

    Raises:
        ValueError: states are not finite, or the store holds others.
        NoRendering: frames are missing, and nothing here draws.
        ImportError: frames are missing, and dm_control or MuJoCo is not installed.
    """
    z = np.asarray(z, dtype=np.float32)
    check_states("states", z)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = min(cores, -(-len(z) // _WORTH[look.quality])) if processes is None else processes
    scene = StateScene(data, used, chosen, len(z), look.quality, look.squash, look.size, look.target)
    path = store_folder(scene) / "states.npy"
    if not path.exists():
        write_whole(path, lambda temporary: _save(temporary, z))
    kept = np.load(path, allow_pickle=False)
    if kept.shape != z.shape or np.abs(kept - z).max() > _SAME:
        raise ValueError(
            f"{path} must hold the {len(z)} states that were chosen by {chosen}, got others: move "
            f"{path.parent} away, or choose another folder by data"
        )
    return States(kept, stored_frames(scene), path.parent)


def _save(path: Path, z: np.ndarray) -> None:
    with open(path, "wb") as file:
        np.save(file, z, allow_pickle=False)
