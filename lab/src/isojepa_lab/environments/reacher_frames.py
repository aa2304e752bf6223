"""Frames of the Reacher: how joint angles are drawn, and a store of states with their frames.

`ArmLook` draws joint angles of dm_control's model by MuJoCo without a screen:

    z (2,)  ->  angles (shoulder, wrist)  ->  frame uint8 (64, 64, 3)  ->  observation float (3, 64, 64)

The model is that of dm_control's suite (Tassa et al. 2018), task "hard": a target of radius 0.015, here
always at (0.1, 0.1), seen by the camera "fixed" from above. Quality "dmc" is, bit for bit, what
dm_control's own `physics.render(64, 64, camera_id=0)` gives; "fast" draws no shadows and reflections and
does not multisample, in a tenth of the time.

A frame shows angles modulo 2 pi. Nothing clips them: the wrist's range of +-160 degrees is a force of the
simulation, which drawing a given state never meets. With `squash` the angles are

    angle = L tanh(z / L),        L = 160 degrees = 2.79,

a smooth map with slope 1 at 0 whose values lie strictly within +-L, hence within +-pi: no two states look
alike, and z is still N(0, I).

`keep_states` stores states with their frames (see `rendering`). Beside the frames it keeps the states,
`states.npy`, float32 (n, 2): random numbers may differ in the last bits from machine to machine, and frames
belong to the states that were rendered. The key of a store is how the states were chosen and how they look.
"""

import ctypes
import functools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isojepa.io import write_whole
from isojepa.validation import check_count, choose, validate_fields
from isojepa_lab.environments.control import LIMIT, TARGET_RADIUS, load_model
from isojepa_lab.environments.rendering import (
    Renderer,
    block_rows,
    import_mujoco,
    store_folder,
    stored_frames,
)

JOINTS = ("shoulder", "wrist")
_QUALITIES = {"fast": False, "dmc": True}  # whether everything is drawn that the model asks for
# mean and std of each channel, in [0, 1], over frames of all angles: the same in all conditions, so that
# the encoder of one can be shown the frames of another
ChannelStats = tuple[tuple[float, ...], tuple[float, ...]]
COLORS: dict[str, ChannelStats] = {
    "fast": ((0.116, 0.214, 0.307), (0.100, 0.071, 0.037)),
    "dmc": ((0.167, 0.314, 0.454), (0.093, 0.070, 0.055)),
}
_MAX_SIZE = 480  # pixels of a side; the model's buffer


@dataclass(frozen=True)
class ArmLook:
    """How states become frames.

    Attributes:
        quality: "fast" or "dmc".
        squash: whether z is squashed into the wrist's range.
        size: side of the frames in pixels.
        pool: side of the squares of pixels whose mean is one of an observation; frames are kept as drawn.
        target: where the target is, in metres; the arena is 0.6 wide.

    Example:
        >>> ArmLook(squash=True).angles(np.array([[0.0, 10.0]])).round(2).tolist()
        [[0.0, 2.79]]
    """

    quality: str = "fast"
    squash: bool = False
    size: int = 64
    target: tuple[float, float] = (0.1, 0.1)
    pool: int = 1

    def __post_init__(self) -> None:
        validate_fields(self)
        choose("quality", self.quality, _QUALITIES)
        check_count("size", self.size, 8, _MAX_SIZE)
        if self.size % check_count("pool", self.pool):
            raise ValueError(f"pool must divide size, {self.size}, got {self.pool}")
        if len(self.target) != 2 or not np.isfinite(self.target).all():
            raise ValueError(f"target must be two finite coordinates, got {self.target}")

    @property
    def observed(self) -> tuple[int, int, int]:
        """Shape of an observation."""
        side = self.size // self.pool
        return (3, side, side)

    def angles(self, z: np.ndarray) -> np.ndarray:
        """Joint angles (n, 2) in radians, float64, of states (n, 2)."""
        z = np.asarray(z, dtype=np.float64)
        return np.asarray(LIMIT * np.tanh(z / LIMIT)) if self.squash else z

    def normalized(self, frames: np.ndarray | Tensor, colors: ChannelStats | None = None) -> Tensor:
        """Observations float32 (n, 3, side, side) of frames uint8 (n, size, size, 3), by channel.

        Args:
            frames: what was drawn.
            colors: mean and std of the channels in [0, 1]; by default those of the quality's frames.
        """
        mean, std = (255 * torch.tensor(values) for values in colors or COLORS[self.quality])
        pixels = ((torch.as_tensor(frames).float() - mean) / std).permute(0, 3, 1, 2)
        return pixels if self.pool == 1 else functional.avg_pool2d(pixels, self.pool)

    def frames(self, z: np.ndarray) -> np.ndarray:
        """What states (n, 2) look like: uint8 (n, size, size, 3).

        Raises:
            ValueError: the states are not (n, 2), or not finite.
            NoRendering: nothing here draws.
            ImportError: dm_control or MuJoCo is not installed.
        """
        return self.drawn(self.angles(z))

    def drawn(self, angles: np.ndarray) -> np.ndarray:
        """The arm at joint angles (n, 2), whatever states they are of; as `frames`."""
        return _arm(self.quality, self.size, self.target).frames(np.asarray(angles, dtype=np.float64))


class Arm:
    """The model of the Reacher and what draws it; close it after use.

    Args:
        quality, size, target: see `ArmLook`.
    """

    def __init__(self, quality: str, size: int, target: tuple[float, float]) -> None:
        self._mujoco = import_mujoco()
        self._model: Any = load_model()
        self._data: Any = self._mujoco.MjData(self._model)
        goal = self._model.geom("target").id
        self._model.geom_size[goal, 0] = TARGET_RADIUS
        self._model.geom_pos[goal, :2] = target
        self._renderer = Renderer(self._model, size, size, full=_QUALITIES[quality])
        self.size = size

    def frames(self, angles: np.ndarray) -> np.ndarray:
        """Frames uint8 (n, size, size, 3) of joint angles (n, 2)."""
        _check_states("angles", angles)
        frames = np.empty((len(angles), self.size, self.size, 3), dtype=np.uint8)
        for row, pose in enumerate(angles):
            self._data.qpos[:] = pose
            self._mujoco.mj_kinematics(self._model, self._data)
            self._mujoco.mj_camlight(self._model, self._data)
            frames[row] = self._renderer.render(self._data, 0)
        return frames

    def close(self) -> None:
        """Let go of the buffers."""
        self._renderer.close()


def wrapped_shares(angles: np.ndarray) -> dict[str, float]:
    """Shares of angles (n, 2) that a frame shows as others: beyond +-pi; and of wrists beyond their range."""
    beyond = np.abs(angles) > math.pi
    shares = {f"{joint}_wrapped": float(beyond[:, index].mean()) for index, joint in enumerate(JOINTS)}
    return shares | {"wrist_beyond_range": float((np.abs(angles[:, 1]) > LIMIT).mean())}


def _check_states(name: str, states: np.ndarray) -> None:
    """See that there are two finite numbers for each state.

    Raises:
        ValueError: there are not; the message says where.
    """
    if states.ndim != 2 or states.shape[1] != len(JOINTS):
        raise ValueError(f"{name} must be (n, 2), shoulder and wrist, got shape {states.shape}")
    if not np.isfinite(states).all():
        row, joint = np.argwhere(~np.isfinite(states))[0]
        raise ValueError(
            f"{name} must be finite, got {states[row, joint]} at row {row} for the {JOINTS[joint]}"
        )


@functools.cache
def _arm(quality: str, size: int, target: tuple[float, float]) -> Arm:
    """One for the process: making what draws takes as long as a hundred frames."""
    arm = Arm(quality, size, target)
    # never deleted: at exit dm_control, if imported, has already closed the display
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(arm))
    return arm


_BLOCK = 512  # frames that are rendered and kept at a time: what a killed process loses at most
_FRAMES_PER_START = {
    "fast": 4096,
    "dmc": 256,
}  # frames that take as long as it takes to start another process
_TOLERANCE = 1e-4  # states that differ by more are different


@dataclass(frozen=True)
class RenderedStates:
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
        quality, squash, size, target: see `ArmLook`.
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
        look = ArmLook(self.quality, self.squash, self.size, self.target)
        return look.frames(states[block_rows(self, block)])


def keep_states(
    z: np.ndarray, chosen: dict[str, Any], look: ArmLook, data: str = "", processes: int | None = None
) -> RenderedStates:
    """The frames of some states: those that are kept, else rendered now.

    Args:
        z: (n, 2) the states.
        chosen: how they were chosen; identifies the store.
        look: how states become frames.
        data: the folder of stores; empty for one in the user's cache.
        processes: that render; by default as many as there are cores, or fewer where there is little to do.

    Raises:
        ValueError: states are not finite, or the store holds others.
        NoRendering: frames are missing, and nothing here draws.
        ImportError: frames are missing, and dm_control or MuJoCo is not installed.
    """
    z = np.asarray(z, dtype=np.float32)
    _check_states("states", z)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = min(cores, -(-len(z) // _FRAMES_PER_START[look.quality])) if processes is None else processes
    scene = StateScene(data, used, chosen, len(z), look.quality, look.squash, look.size, look.target)
    path = store_folder(scene) / "states.npy"
    if not path.exists():
        write_whole(path, lambda temporary: _save(temporary, z))
    states = np.load(path, allow_pickle=False)
    if states.shape != z.shape or np.abs(states - z).max() > _TOLERANCE:
        raise ValueError(
            f"{path} must hold the {len(z)} states that were chosen by {chosen}, got others: move "
            f"{path.parent} away, or choose another folder by data"
        )
    return RenderedStates(states, stored_frames(scene), path.parent)


def _save(path: Path, z: np.ndarray) -> None:
    with open(path, "wb") as file:
        np.save(file, z, allow_pickle=False)
