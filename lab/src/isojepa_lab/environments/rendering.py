"""Rendering of MuJoCo scenes without a screen, and a store of frames that are rendered once.

MuJoCo selects its backend at import, by the environment variable MUJOCO_GL; without a screen EGL and OSMesa
remain. `backend` tests each in a process of its own, since a failed attempt cannot be undone in the same
process, and takes the first that works; a value of MUJOCO_GL set by the user takes precedence. Importing
this module does not import MuJoCo. Shadows, reflections and multisampling are off by default and spheres
have fewer faces, since software renders them slowly.

Frames are stored in blocks, by several processes, and memory-mapped; an interrupted rendering resumes:

    DATA/NAME-KEY/blocks-BACKEND-VERSION/00012.npy    blocks, until all exist
    DATA/NAME-KEY/frames.npy      then all frames, uint8 (frames, height, width[, 3]), memory-mapped
    DATA/NAME-KEY/scene.json      name, settings, MuJoCo's version, backend

The key is a hash of the settings that determine pixels; a folder that nevertheless holds frames of other
settings, for example after a move, is an error and stays as it is. Blocks of different versions or backends
are not mixed. Existing blocks are not rendered again, and complete frames open without MuJoCo.

Block b of B holds the frames [bN/B] to [(b+1)N/B] of N.
"""

import contextlib
import dataclasses
import functools
import importlib
import json
import mmap
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isojepa.data.images.cache import bar, default_cache, digest, locked
from isojepa.importing import install_hint
from isojepa.io import read_json, to_jsonable, write_json, write_whole
from isojepa.validation import check_count, short_repr

_BACKENDS = ("egl", "osmesa")
_VARIABLE = "MUJOCO_GL"
_TESSELLATION = (16, 10, 1)  # slices, stacks, quads; the default, (28, 16, 4), takes twice the time
_TIMEOUT = 60  # seconds for testing a backend
_TRY = (
    "import mujoco\n"
    "model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size=\"1\"/></worldbody></mujoco>')\n"
    "data = mujoco.MjData(model)\n"
    "mujoco.mj_forward(model, data)\n"
    "with mujoco.Renderer(model, 8, 8) as renderer:\n"
    "    renderer.update_scene(data)\n"
    "    assert renderer.render().shape == (8, 8, 3)\n"
)


class NoRendering(OSError, ValueError):
    """Nothing here draws without a screen; the message says what to install."""


@functools.cache
def backend() -> str:
    """How MuJoCo draws here: "egl", "osmesa", or what the user chose; empty for the system's own.

    Raises:
        NoRendering: nothing works.
        ImportError: MuJoCo is not installed.
    """
    _check_installed()
    chosen = os.environ.get(_VARIABLE, "").strip()
    if chosen:
        return chosen
    if platform.system() != "Linux":
        return ""  # Windows and macOS have one of their own
    reasons = []
    for name in _BACKENDS:
        reason = _tried(name)
        if not reason:
            return name
        reasons.append(f"{name}: {reason}")
    raise NoRendering(
        "pictures of simulated scenes need EGL or OSMesa, got neither: apt-get install libegl1 "
        f"libgl1-mesa-dri, or libosmesa6 ({'; '.join(reasons)})"
    )


def import_mujoco() -> Any:
    """Import MuJoCo such that it can draw.

    Raises:
        NoRendering: nothing works, or it was imported before with a way of drawing that needs a screen.
        ImportError: it is not installed; the message names the pip command.
    """
    before = sys.modules.get("mujoco")
    if before is None:
        with _environment(_VARIABLE, backend()):
            import mujoco
    else:
        mujoco = before
    # on Linux without MUJOCO_GL it took glfw, which opens windows
    if platform.system() == "Linux" and "glfw" in str(getattr(mujoco, "GLContext", "glfw")):
        raise NoRendering(
            "MuJoCo was imported before with a way of drawing that needs a screen: set MUJOCO_GL="
            f"{backend()} before Python is started"
        )
    return mujoco


def import_suite() -> Any:
    """Import dm_control's suite such that it draws as MuJoCo does here.

    By itself it may choose another way, and two of them in one process spoil each other's images.

    Raises:
        ImportError: it is not installed; the message names the pip command.
    """
    from importlib.util import find_spec

    if find_spec("dm_control") is None:
        raise ImportError(f"this needs dm_control: {install_hint('mujoco', './lab')}")
    way = ""
    with contextlib.suppress(NoRendering):  # physics needs no images
        way = backend()
        import_mujoco()
    with _environment(_VARIABLE, way):
        from dm_control import suite
    return suite


class Renderer:
    """Draws one model's scenes as uint8 images; close it, or use it in a `with`.

    Args:
        model: an MjModel, whose offscreen buffer is at least as large: `<global offwidth= offheight=>`.
        height, width: of the images, in pixels.
        full: with shadows, reflections and all else that the model asks for, which takes ten times as long;
            else the model's settings of quality are changed.

    Raises:
        NoRendering: nothing here draws.
        ValueError: the size is not positive, or larger than the model's buffer.
    """

    def __init__(self, model: Any, height: int, width: int, *, full: bool = False) -> None:
        mujoco = import_mujoco()
        check_count("height", height)
        check_count("width", width)
        self._inner: Any = None
        if not full:
            quality = model.vis.quality
            quality.offsamples, quality.shadowsize = 0, 0
            quality.numslices, quality.numstacks, quality.numquads = _TESSELLATION
        try:
            self._inner = mujoco.Renderer(model, height, width)
        except ValueError:
            raise
        except Exception as error:  # each way of drawing has errors of its own
            raise NoRendering(f"MuJoCo cannot draw here by {backend() or 'itself'}: {error}") from error
        flags = self._inner.scene.flags
        for name in () if full else ("mjRND_SHADOW", "mjRND_REFLECTION", "mjRND_FOG", "mjRND_HAZE"):
            flags[getattr(mujoco.mjtRndFlag, name)] = 0

    def render(self, data: Any, camera: Any) -> np.ndarray:
        """What a camera sees: uint8 (height, width, 3).

        Args:
            data: an MjData, after mj_forward.
            camera: name or number of one of the model's, or an MjvCamera.
        """
        self._inner.update_scene(data, camera=camera)
        return np.asarray(self._inner.render())

    def close(self) -> None:
        """Let go of the buffers."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

    def __enter__(self) -> "Renderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def mujoco_version() -> str:
    """The version of the installed MuJoCo.

    Raises:
        ImportError: it is not installed.
    """
    from importlib.metadata import version

    _check_installed()
    return version("mujoco")


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("mujoco") is None:
        raise ImportError(f"simulated scenes need MuJoCo: {install_hint('mujoco', './lab')}")


def _tried(name: str) -> str:
    """Why a way of drawing does not work; empty if it does."""
    environment = {**os.environ, _VARIABLE: name}
    environment.pop("PYOPENGL_PLATFORM", None)  # of an earlier choice
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRY],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT} s"
    if not done.returncode:
        return ""
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith(" ")]
    errors = [line for line in lines if "Error" in line.partition(":")[0]]
    return (errors or lines or [f"it ended with {done.returncode}"])[0][:200]


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Inside, a variable of the environment has a value; an empty one leaves it as it is."""
    before = os.environ.get(name)
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


FORMAT = "isojepa frames 1"  # another number where the same settings give other frames
_POLL_SECONDS = 0.2  # between two counts of rendered blocks


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
    key = digest(json.dumps([FORMAT, scene.name, to_jsonable(scene.scene())], sort_keys=True).encode())
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
    frames = _opened(scene, folder)
    if frames is not None:
        return frames
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        frames = _opened(scene, folder)  # another process may have rendered them meanwhile
        if frames is None:
            _render(scene, folder)
            frames = _opened(scene, folder)
    if frames is None:
        raise OSError(f"the frames in {folder} are not what was written; delete the folder")
    return frames


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
        contents = (header["format"], header["name"], header["scene"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if contents != (FORMAT, scene.name, to_jsonable(scene.scene())):
        raise ValueError(
            f"{folder} must hold frames of {scene.name} with {short_repr(to_jsonable(scene.scene()))}, got "
            f"{contents[1]} with {short_repr(contents[2])}: move it away, or choose another folder by data"
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
            header = {"descr": "|u1", "fortran_order": False, "shape": scene.shape()}
            np.lib.format.write_array_header_1_0(file, header)
            for block in range(scene.blocks()):
                frames = _block(scene, parts, block)
                if frames is None:
                    raise OSError(f"block {block} in {parts} was removed meanwhile")
                file.write(np.ascontiguousarray(frames).data)

    write_whole(folder / "frames.npy", write)
    header = {"format": FORMAT, "name": scene.name, "scene": to_jsonable(scene.scene())}
    write_json(folder / "scene.json", header | {"mujoco": version, "backend": way})
    shutil.rmtree(parts, ignore_errors=True)


def _drawing(scene: Scene, folder: Path) -> tuple[str, str]:
    """MuJoCo's version and backend; if it cannot draw, the error has the number of blocks."""
    try:
        return mujoco_version(), backend()
    except (NoRendering, ImportError) as error:
        done = len({path.name for path in folder.glob("blocks-*/[0-9]*.npy")})
        if not done:
            raise
        raise type(error)(
            f"{folder} is half rendered, {done} of {scene.blocks()} blocks, and cannot be continued "
            f"here: {error}"
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
    """Distribute blocks over processes; frames do not depend on the distribution."""
    count = min(scene.processes, len(missing))
    settings = {item.name: getattr(scene, item.name) for item in dataclasses.fields(scene)}  # type: ignore[arg-type]
    kind = f"{type(scene).__module__}:{type(scene).__qualname__}"
    task = {"kind": kind, "settings": to_jsonable(settings), "parts": str(parts), "parent": os.getpid()}
    # what was found to draw need not be found again, in each process
    environment = {**os.environ, _VARIABLE: way} if way else dict(os.environ)
    running = []
    try:
        for first in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", "isojepa_lab.environments.rendering"],
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
                time.sleep(_POLL_SECONDS)
                now = sum((parts / f"{block:05d}.npy").exists() for block in missing)
                advance(now - done)
                done = now
        for process in running:
            if process.returncode:
                assert process.stderr is not None
                last = process.stderr.read().strip().splitlines()[-1:] or ["no message"]
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
