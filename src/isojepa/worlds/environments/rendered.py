"""Frames that are rendered once: in blocks, by several processes, resumed where they stopped, and kept.

    DATA/NAME-KEY/blocks-BACKEND-VERSION/00012.npy    blocks, until all are there
    DATA/NAME-KEY/frames.npy      then all frames, uint8 (frames, height, width[, 3]), memory-mapped
    DATA/NAME-KEY/scene.json      name, settings, MuJoCo's version, how it drew, checksums

The key is a hash of the settings that decide pixels, so that other settings never meet old frames. Blocks of
another version of MuJoCo, or drawn another way, are not mixed. Frames that are there are opened without
MuJoCo.
"""

import json
import shutil
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.arguments import check_count
from isojepa.files import plain, read_json, write_json, write_whole
from isojepa.registry import flatten, make
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.images.cache import default_cache, locked
from isojepa.worlds.images.filling import digest
from isojepa.worlds.images.progress import bar
from isojepa.worlds.rendering import backend, mujoco_version

FORMAT = "isojepa frames 1"  # another number where the same settings give other frames
_CHECKED = 16  # blocks that are compared with their checksums at each opening
_LOOK = 0.2  # seconds between two looks at what other processes have done


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

    def place(self) -> Path:
        """The folder of the frames."""
        root = Path(self.data).expanduser() if self.data else default_cache().parent / "frames"
        key = digest(json.dumps([FORMAT, self.name, plain(self.scene())], sort_keys=True).encode())
        return root / f"{self.name}-{key[:16]}"

    def frames(self) -> np.ndarray:
        """All frames, memory-mapped; rendered if they are not there.

        Raises:
            NoRendering: they are not there, and nothing here draws.
            ImportError: they are not there, and MuJoCo is not installed.
            OSError: they cannot be written.
        """
        check_count("processes", self.processes)
        folder = self.place()
        found = _opened(self, folder)
        if found is not None:
            return found
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            found = _opened(self, folder)  # somebody else may have rendered them meanwhile
            if found is None:
                _render(self, folder)
                found = _opened(self, folder)
        if found is None:
            raise OSError(f"the frames in {folder} are not what was written; delete the folder")
        return found


def grey(picture: np.ndarray) -> np.ndarray:
    """A picture (height, width, 3) in grey, as Pillow weighs colours."""
    weighted: np.ndarray = picture @ np.array([0.299, 0.587, 0.114])
    rounded: np.ndarray = np.rint(weighted).astype(np.uint8)
    return rounded


def _opened(spec: RenderedEnvironment, folder: Path) -> np.ndarray | None:
    """The frames, if they are there and whole."""
    count, *shape = spec.block_shape()
    try:
        header = read_json(folder / "scene.json")
        frames: np.ndarray = np.load(folder / "frames.npy", mmap_mode="r", allow_pickle=False)
        sums = header["checksums"]
        whole = (
            header["format"] == FORMAT
            and frames.dtype == np.uint8
            and frames.shape == (spec.blocks() * count, *shape)
            and len(sums) == spec.blocks()
        )
        chosen = np.linspace(0, spec.blocks() - 1, min(_CHECKED, spec.blocks())).astype(int).tolist()
        if whole and all(
            _checksum(frames[block * count : (block + 1) * count]) == sums[block] for block in chosen
        ):
            return frames
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _render(spec: RenderedEnvironment, folder: Path) -> None:
    """Render the blocks that are missing, then put all into one file."""
    version, way = mujoco_version(), backend()
    parts = folder / f"blocks-{way or 'own'}-{version}"
    parts.mkdir(exist_ok=True)
    missing = [block for block in range(spec.blocks()) if _block(spec, parts, block) is None]
    if min(spec.processes, len(missing)) > 1:
        _by_processes(spec, parts, missing)
    else:
        with bar("rendering", len(missing)) as advance:
            for block in missing:
                _write(spec, parts, block)
                advance(1)
    count, *shape = spec.block_shape()
    sums = []

    def write(path: Path) -> None:
        whole = np.lib.format.open_memmap(path, "w+", np.uint8, (spec.blocks() * count, *shape))
        for block in range(spec.blocks()):
            found = _block(spec, parts, block)
            if found is None:
                raise OSError(f"block {block} in {parts} was removed meanwhile")
            whole[block * count : (block + 1) * count] = found
            sums.append(_checksum(found))
        whole.flush()

    write_whole(folder / "frames.npy", write)
    known = {"format": FORMAT, "name": spec.name, "scene": plain(spec.scene())}
    write_json(folder / "scene.json", known | {"mujoco": version, "backend": way, "checksums": sums})
    shutil.rmtree(parts, ignore_errors=True)


def _block(spec: RenderedEnvironment, parts: Path, block: int) -> np.ndarray | None:
    """A block that is there and whole."""
    try:
        found: np.ndarray = np.load(parts / f"{block:05d}.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.dtype == np.uint8 and found.shape == spec.block_shape() else None


def _checksum(frames: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(frames).tobytes())


def _write(spec: RenderedEnvironment, parts: Path, block: int) -> None:
    frames = spec.render_block(block)
    if frames.dtype != np.uint8 or frames.shape != spec.block_shape():
        raise ValueError(
            f"a block must be uint8 {spec.block_shape()}, got {frames.dtype} {tuple(frames.shape)}"
        )

    def write(path: Path) -> None:
        with open(path, "wb") as file:
            np.save(file, frames, allow_pickle=False)

    write_whole(parts / f"{block:05d}.npy", write)


def _by_processes(spec: RenderedEnvironment, parts: Path, missing: list[int]) -> None:
    """Give each process every so many blocks; the frames are the same whoever renders them."""
    count = min(spec.processes, len(missing))
    running = []
    try:
        for first in range(count):
            task = {"name": spec.name, "settings": plain(flatten(spec)), "parts": str(parts)}
            process = subprocess.Popen(
                [sys.executable, "-m", "isojepa.worlds.environments.rendered"],
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
                raise OSError(f"a process that renders {spec.name} failed: {last[0]}")
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def main() -> int:
    """What one process does: render some blocks of an environment that standard input names."""
    task = json.load(sys.stdin)
    settings = {
        key: tuple(value) if isinstance(value, list) else value for key, value in task["settings"].items()
    }
    spec = make("environment", task["name"], **settings)
    for block in task["blocks"]:
        _write(spec, Path(task["parts"]), block)
    return 0


if __name__ == "__main__":
    sys.exit(main())
