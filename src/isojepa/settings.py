"""The fields of a dataclass as settings: type, default, and the docstring that Python forgets.

A field of metadata {"kind": ...} chooses a component, see `isojepa.registry`.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting of a component.

    Attributes:
        key: its name in flags, YAML and records.
        type: of its values.
        default: its value where nothing is said.
        help: one sentence.
        choice: the kind of component that the setting chooses; else empty.
    """

    key: str
    type: Any
    default: Any
    help: str
    choice: str = ""


def default_of(item: "dataclasses.Field[Any]") -> Any:
    """The value of a field where nothing is said; MISSING if it has none."""
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


@cache
def own_settings(cls: type) -> tuple[tuple[Setting, Any], ...]:
    """The fields of a spec as settings, each with its default: that of a choice is a component."""
    hints, helps = typing.get_type_hints(cls), _helps(cls)
    found = []
    for item in dataclasses.fields(cls):
        kind, default = item.metadata.get("kind", ""), default_of(item)
        known, value = (str, default.name) if kind else (hints[item.name], default)
        found.append((Setting(item.name, known, value, helps.get(item.name, ""), kind), default))
    return tuple(found)


def _helps(cls: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields, which Python itself forgets; those of its bases too."""
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        helps |= dict(_documented(base))
    return helps


def _documented(cls: type) -> Iterator[tuple[str, str]]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # a class made at a prompt has no source
        return
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, doc in itertools.pairwise(statements):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = doc.value if isinstance(doc, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield field.target.id, " ".join(text.value.split())
