"""Imports at run time: Python files of the user, libraries of the extra "vision", install hints."""

import importlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from isojepa.io import plain_file
from isojepa.torchvision_operators import declare_operators

# nothing but a .py file is ever executed: data.npy:h must not run a data.py that lies beside it
_OBJECT = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*(\.\w+)*)", re.DOTALL)


def is_callable_name(source: str) -> bool:
    """Whether a text is file.py:name, a Python object of a file, rather than a file or folder."""
    return _OBJECT.fullmatch(source) is not None and not Path(source).exists()


def import_object(source: str) -> Any:
    """The object that file.py:name names; the file is executed.

    Raises:
        ValueError: the file cannot be imported or has no such name.
    """
    match = _OBJECT.fullmatch(source)
    if match is None:
        raise ValueError(f"a Python object must be named file.py:function, got {source}")
    module: Any = import_file(Path(match["file"]))
    value = module
    for part in match["name"].split("."):
        if not hasattr(value, part):
            names = [
                name for name in vars(module) if not name.startswith("_") and callable(vars(module)[name])
            ]
            raise ValueError(f"{match['file']} has no {match['name']!r}; it has {', '.join(names) or 'none'}")
        value = getattr(value, part)
    return value


def import_file(path: Path) -> ModuleType:
    """Execute a Python file and return its module.

    The module has a name of its own, so that it is not mistaken for an installed one, and can be found by it,
    as dataclasses and pickles want.

    Raises:
        ValueError: there is no such plain file, or it raised an error.
    """
    plain_file(path)
    spec = importlib.util.spec_from_file_location(f"_file_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        del sys.modules[spec.name]
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def program(name: str) -> str:
    """A program of this environment as it is typed here: its name if PATH finds it, else its path.

    Example:
        >>> os.path.basename(program("isojepa"))
        'isojepa'
    """
    folder, first = sysconfig.get_path("scripts"), shutil.which(name)
    script = os.path.join(folder, name)
    if not os.path.exists(script) or (
        first and os.path.realpath(os.path.dirname(first)) == os.path.realpath(folder)
    ):
        return name
    here = os.path.relpath(script)
    return script if here.startswith(os.pardir) or os.sep not in here else here


def lab_hint() -> str:
    """The command that installs isojepa-lab."""
    return f"{program('pip')} install -c constraints.txt -e lab in the clone of isojepa"


def entry_object(group: str, name: str) -> Any:
    """The object of another distribution's entry point; None if no distribution has one of this name."""
    for entry in metadata.entry_points(group=group, name=name):
        return entry.load()
    return None


def install_hint(extra: str, folder: str = ".") -> str:
    """The command that installs an extra of the package in a folder of the clone; none is on a package index.

    Example:
        >>> install_hint("data")  # doctest: +ELLIPSIS
        "...pip install -c constraints.txt '.[data]' in the clone of isojepa"
    """
    return f"{program('pip')} install -c constraints.txt '{folder}[{extra}]' in the clone of isojepa"


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
    return _import_vision("torchvision" + f".{part}" * bool(part))


def import_timm(part: str = "") -> Any:
    """Import timm, or one of its modules; it imports torchvision.

    Raises:
        ImportError: it or torchvision is not installed; the message names the pip command.
    """
    declare_operators()
    return _import_vision("timm" + f".{part}" * bool(part))


def import_pillow(part: str = "Image") -> Any:
    """Import a module of Pillow.

    Raises:
        ImportError: it is not installed; the message names the pip command.
    """
    return _import_vision(f"PIL.{part}")


def _import_vision(name: str) -> ModuleType:
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
