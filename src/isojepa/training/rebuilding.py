"""How a model that somebody made in Python can be made again: its class by import path, and its arguments.

Arguments are looked for among the model's attributes of the same names, as most modules keep them, and
tried at once: only where a model of the same weights comes out is anything noted. An argument that is itself
a module, such as a backbone behind a head, is noted the same way. A record is never trusted with more than
the names of classes of torch modules that are importable here, and plain values.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from isojepa.seeds import borrowed

_PLAIN = (bool, int, float, str, type(None))


def recipe_of(module: nn.Module) -> dict[str, Any] | None:
    """Class and arguments that make a module of the same weights' names and shapes, if anybody knows."""
    cls = type(module)
    path = f"{cls.__module__}:{cls.__qualname__}"
    if cls.__module__ == "__main__" or "<" in cls.__qualname__:
        return None
    known = vars(module)
    parts = dict(module.named_children())
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in known and isinstance(known[name], _PLAIN):
            arguments[name] = known[name]
        elif name in parts and (inner := recipe_of(parts[name])) is not None:
            arguments[name] = inner
        elif parameter.default is parameter.empty:
            return None
    try:
        other = rebuild({"class": path, "arguments": arguments})
    except Exception:  # whatever somebody's constructor raises
        return None
    return {"class": path, "arguments": arguments} if _shapes(other) == _shapes(module) else None


def rebuild(recipe: Any) -> nn.Module:
    """Make the module that a recipe describes; its weights are not those of the record yet.

    Raises:
        ValueError: the class cannot be imported, is no torch module, or does not take the arguments.
    """
    if not isinstance(recipe, Mapping):
        raise ValueError(f"how to make a model must be a class and its arguments, got {recipe!r}")
    path, arguments = str(recipe.get("class")), recipe.get("arguments")
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"class {path} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ValueError(f"class {path} must be a torch module, got {found!r}")
    if not isinstance(arguments, dict) or not all(
        isinstance(value, (*_PLAIN, dict)) for value in arguments.values()
    ):
        raise ValueError(f"arguments of {path} must be plain values by name, got {arguments!r}")
    inner = {name: rebuild(value) for name, value in arguments.items() if isinstance(value, dict)}
    try:
        with borrowed(0, "rebuilding"):  # initial weights, which most modules draw from the global generator
            return found(**arguments | inner)
    except TypeError as error:
        raise ValueError(f"class {path} does not take its arguments: {error}") from error


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(value.shape) for name, value in module.state_dict().items() if isinstance(value, Tensor)
    }
