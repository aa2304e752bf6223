"""Pictures of MuJoCo's models without a screen: which way of drawing works here, and a fast renderer.

MuJoCo chooses how it draws when it is imported, by the variable MUJOCO_GL of the environment; without a
screen EGL or OSMesa are left. Here the first of them that works is found by trying each in a process of its
own, since a failed try cannot be taken back. A choice of the user's own, by MUJOCO_GL, is taken and nothing
else tried. Importing this module imports no MuJoCo and changes nothing.

Shadows, reflections and multisampling are off and spheres less round, since software draws them slowly,
unless they are asked for.
"""

import contextlib
import functools
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from isojepa.arguments import check_count
from isojepa.importing import install_hint

BACKENDS = ("egl", "osmesa")
VARIABLE = "MUJOCO_GL"
_ROUNDNESS = (16, 10, 1)  # of spheres and flat faces; the default, (28, 16, 4), takes twice the time
_PATIENCE = 60  # seconds that a try may take
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
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen:
        return chosen
    if platform.system() != "Linux":
        return ""  # Windows and macOS have one of their own
    reasons = []
    for name in BACKENDS:
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
        with _environment(VARIABLE, backend()):
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

    By itself it may choose another way, and two of them in one process spoil each other's pictures.

    Raises:
        ImportError: it is not installed; the message names the pip command.
    """
    from importlib.util import find_spec

    if find_spec("dm_control") is None:
        raise ImportError(f"this needs dm_control: {install_hint('mujoco')}")
    way = ""
    with contextlib.suppress(NoRendering):  # physics needs no pictures
        way = backend()
        import_mujoco()
    with _environment(VARIABLE, way):
        from dm_control import suite
    return suite


class Renderer:
    """Draws one model's scenes as uint8 pictures; close it, or use it in a `with`.

    Args:
        model: an MjModel, whose offscreen buffer is at least as large: `<global offwidth= offheight=>`.
        height, width: of the pictures, in pixels.
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
            quality.numslices, quality.numstacks, quality.numquads = _ROUNDNESS
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
        raise ImportError(f"simulated scenes need MuJoCo: {install_hint('mujoco')}")


def _tried(name: str) -> str:
    """Why a way of drawing does not work; empty if it does."""
    environment = {**os.environ, VARIABLE: name}
    environment.pop("PYOPENGL_PLATFORM", None)  # of an earlier choice
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRY],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} s"
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
