"""Make a model again that was built in Python, from its class path and arguments.

Arguments are read from the model's attributes of the same names, as most modules keep them, and verified at
once: they are stored only if a model with the same weight names and shapes results. An argument that is
itself a module, such as a backbone behind a head, is stored the same way.

Files hold plain values and class paths of torch modules. Importing a module runs its code, so only modules of
isojepa, timm, torch.nn, packages that register components and those that the user trusts are imported.

`save_model` writes one safetensors file: the tensors of the `state_dict` under their own names, and a header
note "isojepa" in JSON, whose entry "model" is the class and its arguments, or null if they are unknown.
`describe` is the config of a run that was made from Python objects.
"""

import hashlib
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from isojepa.data import Source
from isojepa.data.as_source import Streamed
from isojepa.io import parse_json, size_of, to_jsonable
from isojepa.probes import Evaluation
from isojepa.registry import component_packages
from isojepa.seeds import borrowed, generator
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.training.recipe import Recipe

_PLAIN = (bool, int, float, str, type(None))
_TRUSTED = ("isojepa", "timm", "torch.nn")
_EXTRA_NUMBERS = 1 << 24  # that a model may allocate beyond the bytes of its weights, e.g. for masks
_MIN_TENSOR_NUMBERS = 256  # counted for the smallest tensor: its module takes memory and time too


def recipe_of(module: nn.Module) -> dict[str, Any] | None:
    """Class and arguments that build a module with the same weight names and shapes, or None."""
    cls = type(module)
    if cls.__module__ == "__main__" or "<" in cls.__qualname__:
        return None
    path = f"{_public_module(cls)}:{cls.__qualname__}"
    attributes = vars(module)
    parts = dict(module.named_children())
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in attributes and isinstance(attributes[name], _PLAIN):
            arguments[name] = attributes[name]
        elif name in parts and (inner := recipe_of(parts[name])) is not None:
            arguments[name] = inner
        elif parameter.default is parameter.empty:
            return None
    try:
        other = rebuild({"class": path, "arguments": arguments}, trust=to_trust(module))
    except Exception:  # constructors may raise anything
        return None
    return {"class": path, "arguments": arguments} if _shapes(other) == _shapes(module) else None


def to_trust(module: nn.Module) -> list[str]:
    """The Python modules that must be trusted to make a torch module again."""
    trusted, names = _trusted(), {type(part).__module__ for part in module.modules()}
    return sorted(name for name in names if not _within(name, trusted))


def rebuild(recipe: Any, trust: Collection[str] = ()) -> nn.Module:
    """Build the module that a recipe describes, with fresh weights.

    Args:
        recipe: class and arguments, from `recipe_of`.
        trust: further Python modules that may be imported.

    Raises:
        ValueError: the class is not trusted, cannot be imported, is no torch module, or rejects the
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
    """Context manager: limit the tensors that a model allocates by the size of its weights file.

    Args:
        weights: the file; a missing one allows `_EXTRA_NUMBERS` numbers.

    Raises:
        ValueError: tensors have more numbers than the file has bytes.
    """

    def __init__(self, weights: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weights = weights
        self.size = weights.stat().st_size if weights.is_file() else 0
        self.remaining = self.size + _EXTRA_NUMBERS

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        count = _declared(func, args, kwargs)
        self.remaining -= max(count, _MIN_TENSOR_NUMBERS) if count else 0
        if self.remaining < 0:
            raise ValueError(
                f"a model must fit its weights, {self.weights} of {size_of(self.size)}, got one that makes "
                f"a tensor of {count:,} numbers"
            )
        return func(*args, **kwargs)


def _public_module(cls: type) -> str:
    """The shortest package path that exports a class: files stay valid when its module moves."""
    parts = cls.__module__.split(".")
    outer = [".".join(parts[:length]) for length in range(1, len(parts))]
    trusted = _trusted()
    for name in outer if _within(cls.__module__, trusted) else ():
        if _within(name, trusted) and getattr(sys.modules.get(name), cls.__qualname__, None) is cls:
            return name
    return cls.__module__


def _declared(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Numbers allocated by a factory call; 0 for other calls, and on the meta device."""
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
    """Modules and packages that may be imported without the user's trust."""
    return {*_TRUSTED, *component_packages()}


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


_NOTE = "isojepa"


def save_model(path: Path, module: nn.Module, notes: Mapping[str, Any]) -> bool:
    """Write a module, and notes about it, to one file.

    Returns:
        Whether the module can be built from the file alone.
    """
    made = recipe_of(module)
    note = json.dumps(to_jsonable({**notes, "model": made}), allow_nan=False)
    save_tensors(path, module.state_dict(), {"format": "pt", _NOTE: note})
    return made is not None


def load_model(
    path: Path, module: nn.Module | None = None, trust: Collection[str] = ()
) -> tuple[nn.Module, dict[str, Any]]:
    """The module of a file, in evaluation mode, and the notes about it.

    Args:
        path: what `save_model` wrote.
        module: receives the weights; by default it is built from the file.
        trust: further Python modules that may be imported to build it.

    Raises:
        ValueError: the file is damaged or of another kind, or does not say how to build the module.
    """
    tensors, header = load_tensors(path)
    if _NOTE not in header:
        raise ValueError(f"{path} must be a model that isojepa exported, got a file without its notes")
    try:
        notes = parse_json(header[_NOTE].encode())
        if not isinstance(notes, dict):
            raise ValueError("they are no object")
    except ValueError as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    if module is None:
        if notes.get("model") is None:
            raise ValueError(
                f"{path} does not say how its module is made: hand one in, load(file, model=MyModel(...))"
            )
        with Bounded(path):
            module = rebuild(notes["model"], trust)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the module: {error}") from error
    return module.eval(), notes


def describe(
    models: Mapping[str, nn.Module],
    source: Source,
    objective: Callable[..., Any],
    recipe: Recipe,
    seed: int,
    evaluations: Sequence[Evaluation] | None = None,
) -> dict[str, Any]:
    """A config for a run that was made from Python objects: readable, and distinct for distinct runs.

    Whatever a repr omits, such as the body of a function, shows in the fingerprints of the initial weights
    and of a few states of the source. If a model can be built again from its class and arguments, the config
    holds them.

    Raises:
        ValueError: the source is a stream, which cannot be read again.
    """
    if isinstance(source, Streamed):
        raise ValueError(
            "a run with a record must be resumable, which a stream of batches is not: give the "
            "DataLoader a set with items by number and a plain or shuffled order, or leave record out"
        )
    modules = [*models.values(), *([objective] if isinstance(objective, nn.Module) else [])]
    start = [value for module in modules for value in module.state_dict().values()]
    sample = source.sample(8, generator(0, "fingerprint"))
    tensors = [*(sample.z or ()), *sample.views]
    spelled = {name: _spelled(module) for name, module in models.items()}
    # default evaluations are omitted: they follow from the source and the recipe
    measured = {} if evaluations is None else {"evaluations": [_measure(one) for one in evaluations]}
    return {
        "made_from": "python",
        "world": _spelled(source),
        "encoder": spelled["encoder"] if list(spelled) == ["encoder"] else spelled,
        "objective": _spelled(objective),
        "training": asdict(recipe),
        "seed": seed,
        "initial_weights": _fingerprint(start),
        "world_sample": _fingerprint(tensors),
        "models": {name: made for name, module in models.items() if (made := recipe_of(module)) is not None},
        **measured,
    }


def _measure(evaluation: Evaluation) -> dict[str, Any]:
    """The attributes of an evaluation that determine its metrics and their steps."""
    return {"name": evaluation.name, "primary": evaluation.primary, "every": evaluation.every}


def _spelled(thing: object) -> str:
    """The repr without memory addresses, which differ from one process to the next."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _fingerprint(tensors: Sequence[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
