"""Lazy public names of packages (PEP 562): a name is imported when it is first used.

A package's `__init__.py` lists its public names once, as imports that type checkers and editors read:

    if TYPE_CHECKING:
        from isojepa.objectives.sigreg import SIGReg
    else:
        __getattr__, __dir__ = lazy_names(__name__)

At run time `lazy_names` reads the same imports from the source of the package. Submodules are found as
attributes too. A name that is also the name of a submodule cannot be lazy, since importing the submodule
binds the name to it: such names are imported above the block.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose names are imported under TYPE_CHECKING.

    Args:
        package: its `__name__`.

    Example:
        >>> import isojepa.objectives
        >>> "SIGReg" in dir(isojepa.objectives), isojepa.objectives.SIGReg.__module__
        (True, 'isojepa.objectives.sigreg')
    """

    def get(name: str) -> Any:
        module = sys.modules[package]
        if not name.startswith("__"):
            homes = _homes(package)
            if homes.get(name, package) != package:
                value = getattr(importlib.import_module(homes[name]), name)
                setattr(module, name, value)
                return value
            if importlib.util.find_spec(f"{package}.{name}") is not None:
                return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_homes(package)})

    return get, names


@cache
def _homes(package: str) -> dict[str, str]:
    """The module of each name that the package imports under TYPE_CHECKING."""
    import ast  # slow to import

    loader: Any = sys.modules[package].__loader__
    homes: dict[str, str] = {}
    for block in ast.parse(loader.get_source(package)).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for statement in block.body:
                if isinstance(statement, ast.ImportFrom) and statement.module is not None:
                    homes |= {alias.name: statement.module for alias in statement.names}
    return homes
