"""What every section begins with: its name, its number with the interval, and one plain sentence."""

from collections.abc import Iterable
from html import escape


def lead(
    title: str, sentence: str, *, key: str = "", span: str = "", of: str = "", tone: str = "plain"
) -> str:
    """The head of a section.

    Args:
        title: its name.
        sentence: what its number means here.
        key: the number; may be empty.
        span: its interval; may be empty.
        of: what the number is.
        tone: good, fair, poor or plain.
    """
    number = ""
    if key:
        number = (
            f'<p class="key {tone}"><b>{escape(key)}</b> <span>{escape(span)}</span> '
            f"<small>{escape(of)}</small></p>"
        )
    return f'<div class="lead"><h2>{escape(title)}</h2>{number}<p class="plain">{escape(sentence)}</p></div>'


def missing(reason: str, hint: str = "", *commands: str) -> str:
    """Why something is not there, and what to pass to get it, in Python and on the command line."""
    hint_html = f"<p>{escape(hint)}</p>" if hint else ""
    commands_html = "".join(f"<p><code>{escape(command)}</code></p>" for command in commands)
    return f'<div class="missing"><p>{escape(reason)}</p>{hint_html}{commands_html}</div>'


def notes(texts: Iterable[str]) -> str:
    """Notices, one paragraph each."""
    return "".join(f'<p class="notice">{escape(text)}</p>' for text in texts)


def section(name: str, *pieces: str) -> str:
    """A section with the name that links lead to."""
    return f'<section id="{name}">{"".join(pieces)}</section>'
