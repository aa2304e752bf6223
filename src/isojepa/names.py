"""Names a person may type, and the errors they get for the ones that do not exist."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_LONGEST = 200  # characters of a value in a message
_DIGITS = 40  # of an integer


def shown(value: object) -> str:
    """A value as a message tells it: as Python writes it, in one line that is not long.

    Example:
        >>> shown(10**400), shown("a" * 300)[-30:]
        ('an integer of 401 digits', 'aaaaaaaaa ... (302 characters)')
    """
    if isinstance(value, int) and abs(value) >= 10**_DIGITS:
        return f"an integer of {int(value.bit_length() * 0.30102999566398120) + 1} digits"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever somebody's class raises, or an integer within it that is too long to be told
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"


def unknown(kind: str, name: object, choices: Iterable[str]) -> str:
    """Say that a name is unknown, which names exist, and which is nearest."""
    listed = sorted(choices)
    near = (
        difflib.get_close_matches(name[:_LONGEST], listed, n=1, cutoff=0.5) if isinstance(name, str) else []
    )
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{kind} must be one of {', '.join(listed)}, got {shown(name)}{hint}"


def choose(kind: str, name: str, table: Mapping[str, T]) -> T:
    """Look a name up.

    Raises:
        ValueError: the name is not in the table; the message lists the choices and the nearest.
    """
    if not isinstance(name, str) or name not in table:
        raise ValueError(unknown(kind, name, table))
    return table[name]


def build(kind: str, name: str, table: Mapping[str, Callable[..., T]], options: Mapping[str, Any]) -> T:
    """Look a factory up and call it with the options that were given (those that are not None).

    Raises:
        ValueError: the name is unknown, or the factory takes no such option.
    """
    factory = choose(kind, name, table)
    given = {key: value for key, value in options.items() if value is not None}
    taken = inspect.signature(factory).parameters
    for key in given:
        if key not in taken:
            raise ValueError(
                f"{kind} {name!r} takes no option {key!r}; it takes {', '.join(sorted(taken)) or 'none'}"
            )
    return factory(**given)
