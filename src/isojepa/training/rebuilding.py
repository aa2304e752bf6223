"""How a model that somebody made in Python can be made again: its class by import path, and its arguments.

Arguments are looked for among the model's attributes of the same names, as most modules keep them, and
tried at once: only where a model of the same weights comes out is anything noted. An argument that is itself
a module, such as a backbone behind a head, is noted the same way.

A record holds plain values and names of classes of torch modules. Importing a module runs its code, so only
those of isojepa, timm, torch.nn, packages that register components and what the user trusts are imported.
"""

import importlib
import inspect
import sys
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from isojepa.opening import size_of
from isojepa.registry import components, kinds
from isojepa.seeds import borrowed

_PLAIN = (bool, int, float, str, type(None))
_TRUSTED = ("isojepa", "timm", "torch.nn")
_MORE = 1 << 24  # numbers that a model may make beyond the bytes of its weights: masks, what it draws from
_LEAST = 256  # numbers that the smallest tensor counts for: a module around it takes memory and time


def recipe_of(module: nn.Module) -> dict[str, Any] | None:
    """Class and arguments that make a module of the same weights' names and shapes, if anybody knows."""
    cls = type(module)
    if cls.__module__ == "__main__" or "<" in cls.__qualname__:
        return None
    path = f"{_public_module(cls)}:{cls.__qualname__}"
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
        other = rebuild({"class": path, "arguments": arguments}, trust=to_trust(module))
    except Exception:  # whatever somebody's constructor raises
        return None
    return {"class": path, "arguments": arguments} if _shapes(other) == _shapes(module) else None


def to_trust(module: nn.Module) -> list[str]:
    """The Python modules that must be trusted to make a torch module again."""
    trusted, names = _trusted(), {type(part).__module__ for part in module.modules()}
    return sorted(name for name in names if not _within(name, trusted))


def rebuild(recipe: Any, trust: Collection[str] = ()) -> nn.Module:
    """Make the module that a recipe describes; its weights are not those of the record yet.

    Args:
        recipe: class and arguments, as `recipe_of` gives them.
        trust: Python modules whose import is allowed besides those of `_TRUSTED` and registered components.

    Raises:
        ValueError: the class is not trusted, cannot be imported, is no torch module, or does not take the
            arguments.
    """
    if not isinstance(recipe, Mapping):
        raise ValueError(f"how to make a model must be a class and its arguments, got {recipe!r}")
    path, arguments = str(recipe.get("class")), recipe.get("arguments")
    cls = _class_of(path, trust)
    if not isinstance(arguments, dict) or not all(
        isinstance(value, (*_PLAIN, dict)) for value in arguments.values()
    ):
        raise ValueError(f"arguments of {path} must be plain values by name, got {arguments!r}")
    inner = {name: rebuild(value, trust) for name, value in arguments.items() if isinstance(value, dict)}
    try:
        with borrowed(0, "rebuilding"):  # initial weights, which most modules draw from the global generator
            return cls(**arguments | inner)
    except TypeError as error:
        raise ValueError(f"class {path} does not take its arguments: {error}") from error


class Bounded(TorchDispatchMode):
    """Inside, a model is made that fits the file of its weights; what declares more is refused first.

    Args:
        weights: the file; one that is not there allows `_MORE` numbers.

    Raises:
        ValueError: tensors are made of more numbers than the file has bytes.
    """

    def __init__(self, weights: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weights = weights
        self.size = weights.stat().st_size if weights.is_file() else 0
        self.left = self.size + _MORE

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        count = _declared(func, args, kwargs)
        self.left -= max(count, _LEAST) if count else 0
        if self.left < 0:
            raise ValueError(
                f"a model must fit its weights, {self.weights} of {size_of(self.size)}, got one that makes "
                f"a tensor of {count:,} numbers"
            )
        return func(*args, **kwargs)


def _public_module(cls: type) -> str:
    """The shortest of the packages around a class that exports it: files stay valid when its module moves."""
    parts = cls.__module__.split(".")
    outer = [".".join(parts[:length]) for length in range(1, len(parts))]
    trusted = _trusted()
    for name in outer if _within(cls.__module__, trusted) else ():
        if _within(name, trusted) and getattr(sys.modules.get(name), cls.__qualname__, None) is cls:
            return name
    return cls.__module__


def _declared(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """How many numbers a call that makes a tensor asks for; 0 of other calls, and on the meta device."""
    name, first = str(func.overloadpacket), args[0] if args else None
    device = kwargs.get("device") or (first.device if isinstance(first, Tensor) else "cpu")
    if torch.device(device).type == "meta":
        return 0
    if isinstance(first, Tensor) and name.endswith("_like"):
        return first.numel()
    if isinstance(first, Tensor) and not name.startswith("aten.new_"):
        return 0
    shape = next((arg for arg in args if isinstance(arg, list | tuple)), args)
    sizes = [size for size in shape if isinstance(size, int)]
    return prod(abs(size) or 1 for size in sizes) ** (2 if name == "aten.eye" and len(args) == 1 else 1)


def _class_of(path: str, trust: Collection[str]) -> type[nn.Module]:
    """The class of a path MODULE:NAME, where its module and the module that defines it are trusted."""
    module_name, _, name = path.partition(":")
    trusted = _trusted() | {*([trust] if isinstance(trust, str) else trust)}
    _check_trusted(path, module_name, trusted)
    try:
        cls: Any = importlib.import_module(module_name)
        for part in name.split("."):
            cls = getattr(cls, part)
            if not isinstance(cls, type):  # an attribute may be any module that another one imported
                break
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        hint = "; add its folder to PYTHONPATH" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"class {path} cannot be imported: {error}{hint}") from error
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(f"class {path} must be a torch module, got {cls!r}")
    _check_trusted(path, cls.__module__, trusted)
    return cls


def _trusted() -> set[str]:
    """Modules and packages that may be imported: ours, and those that register components."""
    specs = (spec for kind in kinds() for spec in components(kind).values())
    return {*_TRUSTED, *(spec.__module__.partition(".")[0] for spec in specs)}


def _within(module: str, trusted: Iterable[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in trusted)


def _check_trusted(path: str, module: str, trusted: Iterable[str]) -> None:
    if not _within(module, trusted):
        raise ValueError(
            f"class {path} must be of {', '.join(_TRUSTED)} or of a registered component, got module "
            f"{module!r}, whose import may run any code: if you trust it, load with trust=[{module!r}], or "
            f"--trust {module} on the command line"
        )


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(value.shape) for name, value in module.state_dict().items() if isinstance(value, Tensor)
    }
