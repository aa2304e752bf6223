"""Pages from templates: files in `assets` inside one frame, filled in one pass."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


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


def page(name: str, parts: Mapping[str, str]) -> str:
    """A whole page: `frame.html` around the template of that name, filled.

    Args:
        name: a file in `assets`.
        parts: css, js, data (JSON for the scripts) and title, which every page has, and what the template
            asks for.
    """
    return fill(asset("frame.html").replace("{{main}}", asset(name)), parts)


def json_text(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")


def duration(seconds: float) -> str:
    """A duration in words.

    Example:
        >>> duration(12.34), duration(1700), duration(9000)
        ('12.3 s', '28 min', '2 h 30 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
