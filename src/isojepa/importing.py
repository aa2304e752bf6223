"""Python files of the user's own as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from isojepa.opening import plain_file


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
