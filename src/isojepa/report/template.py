"""Pages from templates: the files in `assets`, put together in one pass."""

import re
from collections.abc import Mapping
from importlib.resources import files


def asset(*names: str) -> str:
    """The text of files in `assets`, one after another."""
    folder = files("isojepa.report").joinpath("assets")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The template with its {{names}} replaced, in one pass: a name inside a part stays as it is.

    Example:
        >>> fill("{{a}} {{b}}", {"a": "{{b}}", "b": "2"})
        '{{b}} 2'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def duration(seconds: float) -> str:
    """A time as a person says it.

    Example:
        >>> duration(12.34), duration(1700), duration(9000)
        ('12.3 s', '28 min', '2 h 30 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
