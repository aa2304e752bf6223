"""A store of frames that are rendered once: in blocks, by several processes, resumed, memory-mapped.

    DATA/NAME-KEY/blocks-BACKEND-VERSION/00012.npy    blocks, until all are there
    DATA/NAME-KEY/frames.npy      then all frames, uint8 (frames, height, width[, 3]), memory-mapped
    DATA/NAME-KEY/scene.json      name, settings, MuJoCo's version, how it drew

The key is a hash of the settings that decide pixels, so that other settings never meet old frames; a folder
that holds frames of other settings all the same, because somebody moved it, is refused and left alone.
Blocks of another version of MuJoCo, or drawn another way, are not mixed. A block that is there is never
rendered again, and frames that are there are opened without MuJoCo.

Block b of B holds the frames [bN/B] to [(b+1)N/B] of N.
"""

import dataclasses
import importlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isojepa.arguments import check_count
from isojepa.files import plain, read_json, write_json, write_whole
from isojepa.names import shown
from isojepa.worlds.images.cache import bar, default_cache, digest, locked
from isojepa.worlds.rendering import VARIABLE, NoRendering, backend, mujoco_version

FORMAT = "isojepa frames 1"  # another number where the same settings give other frames
_LOOK = 0.2  # seconds between two looks at what other processes have done


class Scene(Protocol):
    """What a store keeps the frames of: a frozen dataclass of plain values, which others make again."""

    @property
    def name(self) -> str:
        """Begins the name of the folder."""
        ...

    @property
    def data(self) -> str:
        """The folder of stores; empty for one in the user's cache."""
        ...

    @property
    def processes(self) -> int:
        """Processes that render."""
        ...

    def scene(self) -> dict[str, Any]:
        """The settings that decide the pixels, as JSON can hold them."""
        ...

    def shape(self) -> tuple[int, ...]:
        """(frames, height, width) or (frames, height, width, 3) of all frames."""
        ...

    def blocks(self) -> int:
        """Number of blocks, each of which is rendered by itself."""
        ...

    def render_block(self, block: int) -> np.ndarray:
        """The frames of one block, uint8; a function of the scene and the block's number alone."""
        ...


def store_folder(scene: Scene) -> Path:
    """The folder of a scene's frames."""
    key = digest(json.dumps([FORMAT, scene.name, plain(scene.scene())], sort_keys=True).encode())
    return stores(scene.data) / f"{scene.name}-{key[:16]}"


def stores(data: str = "") -> Path:
    """The folder of all stores: one of the user's own, or the one in the user's cache."""
    return Path(data).expanduser() if data else default_cache().parent / "frames"


def block_rows(scene: Scene, block: int) -> slice:
    """Which frames a block holds."""
    count, blocks = scene.shape()[0], scene.blocks()
    return slice(block * count // blocks, (block + 1) * count // blocks)


def stored_frames(scene: Scene) -> np.ndarray:
    """All frames of a scene, memory-mapped; rendered if they are not there.

    Raises:
        NoRendering: some are not there, and nothing here draws.
        ImportError: some are not there, and MuJoCo is not installed.
        ValueError: the folder holds frames of other settings.
        OSError: they cannot be written.
    """
    check_count("processes", scene.processes)
    folder = store_folder(scene)
    found = _opened(scene, folder)
    if found is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        found = _opened(scene, folder)  # somebody else may have rendered them meanwhile
        if found is None:
            _render(scene, folder)
            found = _opened(scene, folder)
    if found is None:
        raise OSError(f"the frames in {folder} are not what was written; delete the folder")
    return found


def release(frames: np.ndarray) -> None:
    """Give mapped pages back to the system, which count as the process's memory once they were looked at.

    Nothing is lost: they stay in the system's cache as long as it has room, and on the disk.
    """
    if isinstance(frames.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        frames.base.madvise(mmap.MADV_DONTNEED)


def _opened(scene: Scene, folder: Path) -> np.ndarray | None:
    """The frames, if they are there and whole."""
    try:
        header = read_json(folder / "scene.json")
        frames: np.ndarray = np.load(folder / "frames.npy", mmap_mode="r", allow_pickle=False)
        told = (header["format"], header["name"], header["scene"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if told != (FORMAT, scene.name, plain(scene.scene())):
        raise ValueError(
            f"{folder} must hold frames of {scene.name} with {shown(plain(scene.scene()))}, got {told[1]} "
            f"with {shown(told[2])}: move it away, or choose another folder by data"
        )
    return frames if frames.dtype == np.uint8 and frames.shape == scene.shape() else None


def _render(scene: Scene, folder: Path) -> None:
    """Render the blocks that are missing, then put all into one file."""
    version, way = _drawing(scene, folder)
    parts = folder / f"blocks-{way or 'own'}-{version}"
    parts.mkdir(exist_ok=True)
    missing = [block for block in range(scene.blocks()) if _block(scene, parts, block) is None]
    if min(scene.processes, len(missing)) > 1:
        _by_processes(scene, parts, missing, way)
    else:
        with bar("rendering", len(missing)) as advance:
            for block in missing:
                _write(scene, parts, block)
                advance(1)

    def write(path: Path) -> None:
        # one block after the other, so that all frames are never in memory
        with open(path, "wb") as file:
            known = {"descr": "|u1", "fortran_order": False, "shape": scene.shape()}
            np.lib.format.write_array_header_1_0(file, known)
            for block in range(scene.blocks()):
                found = _block(scene, parts, block)
                if found is None:
                    raise OSError(f"block {block} in {parts} was removed meanwhile")
                file.write(np.ascontiguousarray(found).data)

    write_whole(folder / "frames.npy", write)
    known = {"format": FORMAT, "name": scene.name, "scene": plain(scene.scene())}
    write_json(folder / "scene.json", known | {"mujoco": version, "backend": way})
    shutil.rmtree(parts, ignore_errors=True)


def _drawing(scene: Scene, folder: Path) -> tuple[str, str]:
    """MuJoCo's version and how it draws; where it does not, what is there and what is not."""
    try:
        return mujoco_version(), backend()
    except (NoRendering, ImportError) as error:
        done = len({path.name for path in folder.glob("blocks-*/[0-9]*.npy")})
        if not done:
            raise
        raise type(error)(
            f"{folder} is half rendered, {done} of {scene.blocks()} blocks, and nothing here can go on with "
            f"it: {error}"
        ) from error


def _block(scene: Scene, parts: Path, block: int) -> np.ndarray | None:
    """A block that is there and whole."""
    try:
        found: np.ndarray = np.load(parts / f"{block:05d}.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.dtype == np.uint8 and found.shape == _block_shape(scene, block) else None


def _block_shape(scene: Scene, block: int) -> tuple[int, ...]:
    rows = block_rows(scene, block)
    return (rows.stop - rows.start, *scene.shape()[1:])


def _write(scene: Scene, parts: Path, block: int) -> None:
    frames, shape = scene.render_block(block), _block_shape(scene, block)
    if frames.dtype != np.uint8 or frames.shape != shape:
        raise ValueError(f"a block must be uint8 {shape}, got {frames.dtype} {tuple(frames.shape)}")

    def write(path: Path) -> None:
        with open(path, "wb") as file:
            np.save(file, frames, allow_pickle=False)

    write_whole(parts / f"{block:05d}.npy", write)


def _by_processes(scene: Scene, parts: Path, missing: list[int], way: str) -> None:
    """Give each process every so many blocks; the frames are the same whoever renders them."""
    count = min(scene.processes, len(missing))
    settings = {item.name: getattr(scene, item.name) for item in dataclasses.fields(scene)}  # type: ignore[arg-type]
    kind = f"{type(scene).__module__}:{type(scene).__qualname__}"
    task = {"kind": kind, "settings": plain(settings), "parts": str(parts), "parent": os.getpid()}
    # what was found to draw need not be found again, in each process
    environment = {**os.environ, VARIABLE: way} if way else dict(os.environ)
    running = []
    try:
        for first in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", "isojepa.worlds.frames"],
                env=environment,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append(process)
            assert process.stdin is not None
            process.stdin.write(json.dumps(task | {"blocks": missing[first::count]}))
            process.stdin.close()
        with bar("rendering", len(missing)) as advance:
            done = 0
            while any(process.poll() is None for process in running):
                time.sleep(_LOOK)
                now = sum((parts / f"{block:05d}.npy").exists() for block in missing)
                advance(now - done)
                done = now
        for process in running:
            if process.returncode:
                assert process.stderr is not None
                last = process.stderr.read().strip().splitlines()[-1:] or ["nothing was said"]
                raise OSError(f"a process that renders {scene.name} failed: {last[0]}")
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def main() -> int:
    """What one process does: render some blocks of a scene that standard input names."""
    task = json.load(sys.stdin)
    settings = {
        key: tuple(value) if isinstance(value, list) else value for key, value in task["settings"].items()
    }
    module, _, name = task["kind"].partition(":")
    scene: Scene = getattr(importlib.import_module(module), name)(**settings)
    for block in task["blocks"]:
        if os.getppid() != task["parent"]:  # the caller has ended
            return 1
        if _block(scene, Path(task["parts"]), block) is None:  # else of a run that was killed, and went on
            _write(scene, Path(task["parts"]), block)
    return 0


if __name__ == "__main__":
    sys.exit(main())
