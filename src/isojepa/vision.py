"""The libraries of the extra "vision", imported when they are first needed: torchvision, timm and Pillow.

torchvision brings a compiled library of its own, and on import describes two of that library's operators,
`nms` and `qnms`, to torch. The package index's files of it are built for CUDA: beside a torch for the
processor alone the library cannot be loaded, the operators are missing, and the import dies of it ("operator
torchvision::nms does not exist"), and that of timm and lightly with it. Nothing here uses either operator. So
where the library does not load, the two are declared (their schemas, no code) before the import; whoever
calls them is told that there is no kernel. Where it loads, nothing is declared.
"""

import contextlib
import functools
import importlib
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_declared: list[Any] = []  # torch forgets a schema when its library object goes


def import_torchvision(part: str = "") -> Any:
    """Import torchvision, also beside a torch for the processor alone.

    Args:
        part: of its modules, e.g. "transforms.v2"; torchvision itself by default.

    Raises:
        ImportError: it is not installed, or does not fit this torch; the message names the pip command.

    Example:
        >>> import_torchvision("transforms.v2").Resize(8).size  # doctest: +SKIP
        [8]
    """
    _declare_operators()
    return _imported("torchvision" + f".{part}" * bool(part))


def import_timm(part: str = "") -> Any:
    """Import timm, or one of its modules; it imports torchvision.

    Raises:
        ImportError: it or torchvision is not installed; the message names the pip command.
    """
    _declare_operators()
    return _imported("timm" + f".{part}" * bool(part))


def import_pillow(part: str = "Image") -> Any:
    """Import a module of Pillow.

    Raises:
        ImportError: it is not installed; the message names the pip command.
    """
    return _imported(f"PIL.{part}")


@functools.cache
def _declare_operators() -> None:
    """Declare the operators that torchvision describes to torch, if its own library does not bring them."""
    import torch  # not above: whoever asks only for Pillow needs none

    found = find_spec("torchvision")
    if found is None:
        return  # who imports it says so
    library = PathFinder.find_spec("_C", found.submodule_search_locations)
    if library is not None and library.origin is not None:
        with contextlib.suppress(OSError):  # it is built for another torch
            torch.ops.load_library(library.origin)  # as torchvision does; twice is once
    missing = [name for name in _SCHEMAS if not hasattr(torch.ops.torchvision, name)]
    if missing:
        declared = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            declared.define(_SCHEMAS[name])
        _declared.append(declared)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # torchvision raises RuntimeError beside a torch that is not its
        package = {"PIL": "Pillow"}.get(name.partition(".")[0], name.partition(".")[0])
        raise ImportError(
            f"pictures need {package}, which cannot be imported ({error}): pip install 'isojepa[vision]'"
        ) from error
