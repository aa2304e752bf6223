"""Arguments of public functions, held against the types that they declare before anything is made of them.

    @checked
    def __init__(self, slices: int | None = None, pooled: bool = False) -> None: ...

refuses `slices="many"`, `slices=10**400` and `pooled="no"` with a sentence that names the argument. What a
value must be besides, such as positive, the function says itself. Only plain types are looked at: numbers,
text, True or False, paths, tensors, modules, things that can be called, and sequences of numbers.
"""

import dataclasses
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
import torch

from isojepa.names import choose, shown

P = ParamSpec("P")
T = TypeVar("T")
MOST = 1 << 31  # of anything that is counted, samples, dimensions or layers: nobody has the memory for more


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """A function that looks at the types of its arguments first.

    Raises:
        ValueError: an argument is of another type than is declared, or a number that is too large.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python names what is missing or too much
        given = bound.arguments
        hints = _hints(function)
        for name, value in given.items():
            if name in hints and signature.parameters[name].kind not in _MANY:
                given[name] = check_type(name, value, hints[name])
        return function(*bound.args, **bound.kwargs)

    return call


class Parameters:
    """Arguments of a class that are kept as attributes, by name: the verbs of scikit-learn for its own."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments by name.

        Raises:
            ValueError: there is no such argument.
        """
        for name, value in params.items():
            choose("parameter", name, dict.fromkeys(inspect.signature(type(self)).parameters))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({told})"


def check_fields(instance: Any) -> None:
    """The same for the fields of a dataclass.

    Raises:
        ValueError: a field is of another type than is declared.
    """
    kind: Any = type(instance)
    hints = _hints(kind)
    for item in dataclasses.fields(instance):
        if item.init:
            value = check_type(item.name, getattr(instance, item.name), hints[item.name])
            object.__setattr__(instance, item.name, value)


def check_type(name: str, value: Any, kind: Any) -> Any:
    """A value of a declared type, as far as the type is a plain one; 8.0 where an integer is declared is 8.

    Raises:
        ValueError: it is not.
    """
    options = typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)
    if not any(_fits(value, option) for option in options):
        told = [_words(option) for option in options]
        raise ValueError(f"{name} must be {' or '.join(dict.fromkeys(told))}, got {shown(value)}")
    if int not in options or float in options or isinstance(value, bool | None):
        return value
    if not _is_whole(value):
        if name.endswith("seed"):
            raise ValueError(f"{name} must be an integer, got {shown(value)}")
        return value
    if abs(value) > MOST and not name.endswith("seed"):  # a seed may be any integer
        raise ValueError(f"{name} must be at most {MOST}, got {shown(value)}")
    return int(value)


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> int:
    """A whole number within bounds.

    Raises:
        ValueError: it is something else.
    """
    if not (_is_whole(value) and least <= value <= most):
        kind = {0: "an integer that is not negative", 1: "a positive integer"}.get(
            least, f"an integer of at least {least}"
        )
        bound = f" of at most {most}" if _is_whole(value) and value > most else ""
        raise ValueError(f"{name} must be {kind}{bound}, got {shown(value)}")
    return int(value)


def check_number(
    name: str, value: Any, words: str, fits: Callable[[float], bool] = lambda value: True
) -> float:
    """A finite number for which something holds.

    Args:
        name: what the message calls it.
        value: what was given.
        words: what it must, e.g. "be positive and finite".
        fits: whether a finite number is so.

    Raises:
        ValueError: it is not.
    """
    number = as_float(value)
    if number is None or not math.isfinite(number) or not fits(number):
        raise ValueError(f"{name} must {words}, got {shown(value)}")
    return number


def as_float(value: Any) -> float | None:
    """A number of any library as a float, NaN and Inf too; None if it is no number that a float can hold."""
    if isinstance(value, np.ndarray | torch.Tensor) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


_UNIONS = (types.UnionType, typing.Union)
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_INSTANCES: dict[Any, str] = {
    torch.Tensor: "a tensor",
    torch.nn.Module: "a module",
    torch.Generator: "a torch.Generator",
    str: "text",
}
_ANY = (Any, object, np.ndarray)  # arrays are told from other things where they are read


def _is_whole(value: Any) -> bool:
    """Whether it is an integer, of whatever type, that a float can hold."""
    number = as_float(value)
    return number is not None and number.is_integer()


def _fits(value: Any, option: Any) -> bool:
    if option is type(None) or option is None:
        return value is None
    if option is bool:
        return isinstance(value, bool | np.bool_)
    if option is int:  # that 2.5 is none, who counts says in words of its own
        return (number := as_float(value)) is not None and math.isfinite(number)
    if option is float:
        return as_float(value) is not None
    if option is Path:
        return isinstance(value, str | os.PathLike)
    if option in _INSTANCES:
        return isinstance(value, option)
    origin, inside = typing.get_origin(option), typing.get_args(option)
    if origin is Callable:
        return callable(value)
    if origin in (Sequence, tuple):
        if inside[0] in (int, float) and isinstance(value, np.ndarray | torch.Tensor):
            return value.ndim == 1
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and all(_fits(entry, inside[0]) for entry in value)
    if origin in (Mapping, dict):
        return isinstance(value, Mapping)
    if isinstance(option, type) and option not in _ANY and not _is_protocol(option):
        return isinstance(value, option)
    return True


def _is_protocol(option: type) -> bool:
    return typing.Protocol in option.__mro__  # what has its methods is one; who uses it looks


def _words(option: Any) -> str:
    plain = {type(None): "None", None: "None", bool: "True or False", int: "an integer", float: "a number"}
    if option in plain:
        return plain[option]
    if option in _INSTANCES:
        return _INSTANCES[option]
    if option is Path:
        return "a path"
    origin, inside = typing.get_origin(option), typing.get_args(option)
    if origin is Callable:
        return "something that can be called"
    if origin in (Sequence, tuple):
        return "a sequence of numbers" if inside and inside[0] in (int, float) else "a sequence"
    if origin in (Mapping, dict):
        return "a mapping"
    if not isinstance(option, type):
        return str(option)
    return f"{'an' if option.__name__[0] in 'AEIOU' else 'a'} {option.__name__}"


@functools.cache
def _hints(thing: Any) -> dict[str, Any]:
    return typing.get_type_hints(thing)
