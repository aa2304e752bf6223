"""The libraries of the extra "vision", imported when they are first needed: torchvision, timm and Pillow."""

import importlib
from types import ModuleType
from typing import Any

from isojepa.importing import install_hint
from isojepa.torchvision_operators import declare_operators


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
    declare_operators()
    return _imported("torchvision" + f".{part}" * bool(part))


def import_timm(part: str = "") -> Any:
    """Import timm, or one of its modules; it imports torchvision.

    Raises:
        ImportError: it or torchvision is not installed; the message names the pip command.
    """
    declare_operators()
    return _imported("timm" + f".{part}" * bool(part))


def import_pillow(part: str = "Image") -> Any:
    """Import a module of Pillow.

    Raises:
        ImportError: it is not installed; the message names the pip command.
    """
    return _imported(f"PIL.{part}")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # torchvision raises RuntimeError beside a torch that is not its
        package = {"PIL": "Pillow"}.get(name.partition(".")[0], name.partition(".")[0])
        raise ImportError(
            f"pictures need {package}, which cannot be imported ({error}): {install_hint('vision')}"
        ) from error
