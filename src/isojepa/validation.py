"""Validation of arguments against their declared types, and error messages for unknown names.

    @validate_types
    def __init__(self, slices: int | None = None, pooled: bool = False) -> None: ...

rejects `slices="many"`, `slices=10**400` and `pooled="no"` with a message that names the argument. Further
requirements, such as positive, are checked by the function itself. Only plain types are checked: numbers,
strings, bools, paths, tensors, modules, callables, and sequences of numbers. torch and numpy are imported
when a value is checked, so that the command line starts without them.
"""

import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

V = TypeVar("V")
_LONGEST = 200  # characters of a value in a message
_DIGITS = 40  # of an integer


def short_repr(value: object) -> str:
    """The repr of a value for a message: one line of limited length.

    Example:
        >>> short_repr(10**400), short_repr("a" * 300)[-30:]
        ('an integer of 401 digits', 'aaaaaaaaa ... (302 characters)')
    """
    if isinstance(value, int) and abs(value) >= 10**_DIGITS:
        return f"an integer of {int(value.bit_length() * 0.30102999566398120) + 1} digits"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr that fails, or an integer within that is too long to print
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"


def unknown(kind: str, name: object, choices: Iterable[str]) -> str:
    """Error message for an unknown name, with the valid names and the nearest one."""
    listed = sorted(choices)
    near = (
        difflib.get_close_matches(name[:_LONGEST], listed, n=1, cutoff=0.5) if isinstance(name, str) else []
    )
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{kind} must be one of {', '.join(listed)}, got {short_repr(name)}{hint}"


def choose(kind: str, name: str, table: Mapping[str, V]) -> V:
    """Look a name up.

    Raises:
        ValueError: the name is not in the table; the message lists the choices and the nearest.
    """
    if not isinstance(name, str) or name not in table:
        raise ValueError(unknown(kind, name, table))
    return table[name]


def build(kind: str, name: str, table: Mapping[str, Callable[..., V]], options: Mapping[str, Any]) -> V:
    """Look up a factory and call it with the options that are not None.

    Raises:
        ValueError: the name is unknown, or the factory takes no such option.
    """
    factory = choose(kind, name, table)
    keywords = {key: value for key, value in options.items() if value is not None}
    parameters = inspect.signature(factory).parameters
    for key in keywords:
        if key not in parameters:
            raise ValueError(
                f"{kind} {name!r} takes no option {key!r}; it takes {', '.join(sorted(parameters)) or 'none'}"
            )
    return factory(**keywords)


P = ParamSpec("P")
T = TypeVar("T")
MAX_COUNT = 1 << 31  # of samples, dimensions, layers: beyond the memory of any machine


def validate_types(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: check the types of the arguments against the annotations before the call.

    Raises:
        ValueError: an argument has another type, or is a number that is too large.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's own error names the argument
        arguments = bound.arguments
        hints = _hints(function)
        for name, value in arguments.items():
            if name in hints and signature.parameters[name].kind not in _MANY:
                arguments[name] = validate_type(name, value, hints[name])
        return function(*bound.args, **bound.kwargs)

    return call


class Parameters:
    """Mixin: `get_params` and `set_params` of scikit-learn; arguments are attributes."""

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
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({arguments})"


def validate_fields(instance: Any) -> None:
    """Check the fields of a dataclass against their declared types.

    Raises:
        ValueError: a field has another type.
    """
    kind: Any = type(instance)
    hints = _hints(kind)
    for item in dataclasses.fields(instance):
        if item.init:
            value = validate_type(item.name, getattr(instance, item.name), hints[item.name])
            object.__setattr__(instance, item.name, value)


def validate_type(name: str, value: Any, kind: Any) -> Any:
    """Check a value against a declared plain type; an integral float for an int is converted.

    Raises:
        ValueError: it is not.
    """
    options = typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)
    if not any(_fits(value, option) for option in options):
        words = dict.fromkeys(_words(option) for option in options)
        raise ValueError(f"{name} must be {' or '.join(words)}, got {short_repr(value)}")
    if int not in options or float in options or isinstance(value, bool | None):
        return value
    if not _is_whole(value):
        if name.endswith("seed"):
            raise ValueError(f"{name} must be an integer, got {short_repr(value)}")
        return value
    if abs(value) > MAX_COUNT and not name.endswith("seed"):  # a seed may be any integer
        raise ValueError(f"{name} must be at most {MAX_COUNT}, got {short_repr(value)}")
    return int(value)


def check_count(name: str, value: Any, least: int = 1, most: int = MAX_COUNT) -> int:
    """Check that a value is an integer within bounds.

    Raises:
        ValueError: otherwise.
    """
    if not (_is_whole(value) and least <= value <= most):
        kind = {0: "an integer that is not negative", 1: "a positive integer"}.get(
            least, f"an integer of at least {least}"
        )
        bound = f" of at most {most}" if _is_whole(value) and value > most else ""
        raise ValueError(f"{name} must be {kind}{bound}, got {short_repr(value)}")
    return int(value)


def check_number(
    name: str, value: Any, words: str, fits: Callable[[float], bool] = lambda value: True
) -> float:
    """Check that a value is a finite number that meets a requirement.

    Args:
        name: what the message calls it.
        value: the argument.
        words: the requirement, e.g. "be positive and finite".
        fits: whether a finite number meets it.

    Raises:
        ValueError: it is not.
    """
    number = as_float(value)
    if number is None or not math.isfinite(number) or not fits(number):
        raise ValueError(f"{name} must {words}, got {short_repr(value)}")
    return number


def as_float(value: Any) -> float | None:
    """A number of any library as a float, NaN and Inf too; None if it is no number that a float can hold."""
    if isinstance(value, _array_types()) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


_UNIONS = (types.UnionType, typing.Union)
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@functools.cache
def _array_types() -> tuple[Any, ...]:
    import numpy as np
    import torch

    return np.ndarray, torch.Tensor


@functools.cache
def _named_types() -> dict[Any, str]:
    import torch

    names = {torch.Tensor: "a tensor", torch.nn.Module: "a module", torch.Generator: "a torch.Generator"}
    return {**names, str: "text"}


def _is_whole(value: Any) -> bool:
    """Whether the value is integral, of any numeric type, and fits in a float."""
    number = as_float(value)
    return number is not None and number.is_integer()


def _fits(value: Any, option: Any) -> bool:
    if option is type(None) or option is None:
        return value is None
    if option is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if option is int:  # 2.5 is rejected by the function that counts
        return (number := as_float(value)) is not None and math.isfinite(number)
    if option is float:
        return as_float(value) is not None
    if option is Path:
        return isinstance(value, str | os.PathLike)
    if option in _named_types():
        return isinstance(value, option)
    origin, inside = typing.get_origin(option), typing.get_args(option)
    if origin is Callable:
        return callable(value)
    if origin in (Sequence, tuple):
        if inside[0] in (int, float) and isinstance(value, _array_types()):
            return bool(value.ndim == 1)
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and all(_fits(entry, inside[0]) for entry in value)
    if origin in (Mapping, dict):
        return isinstance(value, Mapping)
    unchecked = (Any, object, _array_types()[0])  # arrays are checked where they are read
    if isinstance(option, type) and option not in unchecked and not _is_protocol(option):
        return isinstance(value, option)
    return True


def _is_protocol(option: type) -> bool:
    return typing.Protocol in option.__mro__  # its methods are checked by the code that calls them


def _words(option: Any) -> str:
    plain = {type(None): "None", None: "None", bool: "True or False", int: "an integer", float: "a number"}
    if option in plain:
        return plain[option]
    if option in _named_types():
        return _named_types()[option]
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
