r"""Text for a terminal: what others named or wrote is shown, never obeyed.

Names of files, values of configs and lines of records may hold anything: brackets that rich would take for
markup, and characters that a terminal obeys (ESC begins the sequences that move the cursor, set the title or
answer as if typed) or that turn the order of what is read. All text of the package passes here on its way to
the screen: a `Console` takes no markup and shows such characters as Python writes them, `\x1b`; what does not
go through one goes through `visible`.
"""

import datetime
import re
import shlex
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console as _Console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_PLAIN = re.compile(r"[\n\t -~]*")
_ALLOWED = ("\n", "\t")
_PERIOD = 5.0  # seconds between lines of progress
_MAX_LINE = 2000  # characters of an error message


class Console(_Console):
    """A console for people: text is text, and styles are given apart from it.

    A closed pipe is left to the caller: rich would exit with an error.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as it will be shown, so that tables know how wide it is."""
        return super().render_str(escape_control(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is printed passes here; rich's own control codes are marked as such."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_control(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class PlainProgress:
    """Progress where there is no terminal: a line on standard error every few seconds, with the time left.

    Args:
        verb: what is done, in a word or two.
        done: units that were done before, as of a run that is resumed.
    """

    def __init__(self, verb: str, done: int = 0) -> None:
        self._verb, self._before = verb, done
        self._start = self._last = time.monotonic()

    def update(self, done: int, total: int | None, detail: str = "") -> None:
        """Print a line if the last one is `_PERIOD` seconds old; less often in work of many minutes."""
        now = time.monotonic()
        elapsed = now - self._start
        if now - self._last < max(_PERIOD, elapsed / 50):
            return
        self._last = now
        text = f"{self._verb} {done:,}"
        if total:
            text += f" of {total:,}"
            if done > self._before:
                seconds = round(elapsed * (total - done) / (done - self._before))
                text += f", {datetime.timedelta(seconds=seconds)} left"
        print(escape_control(", ".join(filter(None, (text, detail)))), file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Lines of cells in columns, of which the first `left` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def escape_control(text: str) -> str:
    r"""Text whose characters are all seen: others than letters, signs, blanks and line ends are spelt out.

    Example:
        >>> print(escape_control("a\x1b[31mb"))
        a\x1b[31mb
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(char if _shown(char) else repr(char)[1:-1] for char in text)


def truncate(text: str, most: int = _MAX_LINE) -> str:
    """Text of at most so many characters, and how many there were."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters in all)"


def shell_quote(argument: object) -> str:
    """A path or name as one word of a command that may be copied into a shell."""
    return shlex.quote(escape_control(str(argument)))


def _shown(char: str) -> bool:
    return char in _ALLOWED or char.isprintable() or unicodedata.category(char) == "Zs"
