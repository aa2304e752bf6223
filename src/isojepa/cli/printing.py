"""Output of commands: text, tables, JSON and progress bars.

In a table at most one column is prose, which is wrapped; all others are short. If the prose column would
have only a few words per line, it goes below its row over the whole width. If the short columns do not fit
beside each other, the first one stands alone above the others.
"""

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from isojepa.io import to_jsonable
from isojepa.terminal import Console, PlainProgress, escape_control

out = Console(soft_wrap=True)
_UNSEEN = re.compile(r"[^\n -~]")


def print_json(value: Any) -> None:
    """Print plain values as JSON; NaN and Inf as strings, control characters escaped."""
    text = json.dumps(to_jsonable(value), indent=2, ensure_ascii=False)
    print(_UNSEEN.sub(lambda match: _by_number(match[0]), text))


@contextlib.contextmanager
def print_notes() -> Iterator[None]:
    """Context manager: print warnings about omitted data as notes on standard error."""
    from isojepa.data.array_files import DataWarning  # imports torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        try:
            yield
        finally:
            notes = [one for one in caught if issubclass(one.category, DataWarning)]
            for note in dict.fromkeys(str(one.message) for one in notes):
                Console(stderr=True, soft_wrap=True).print(f"note: {note}")
    for one in caught:
        if one not in notes:  # other warnings are not affected
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextlib.contextmanager
def progress_bar(verb: str) -> Iterator[Callable[[int, int, str], None]]:
    """Progress on standard error, a bar on a terminal, else a line every few seconds.

    Yields:
        A function of done, total and a description of the next step.
    """
    if not sys.stderr.isatty():
        plain = PlainProgress(verb)
        yield plain.update
        return
    bar = Progress(
        TextColumn(verb, markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)


def _by_number(char: str) -> str:
    return char if escape_control(char) == char else json.dumps(char)[1:-1]


Cell = str | Text
_DEFAULT_WIDTH = 140  # of output to a file or a program without COLUMNS
_ROOM = 36  # of prose beside other columns, at least
_GAPS = (2, 1)  # between columns, as it is liked and as it is where there is little room
_STEP = 4  # by which what stands below a row is indented


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        title: above it; a table whose titles are all empty has none.
        right: align to the right, as numbers.
        prose: sentences, to be broken into lines.
    """

    title: str = ""
    right: bool = False
    prose: bool = False


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    indent: int = 0,
    console: Console = out,
) -> None:
    """Print a table.

    Args:
        columns: one of them prose at most.
        rows: cells; those that are strings are printed as they are, without markup.
        title: a line above.
        indent: blanks on the left.
        console: where to.
    """
    if title:
        console.print(Text(title, style="bold"))
    for line in lay_out(columns, rows, width_of(console) - indent):
        console.print(Text(" " * indent) + line, soft_wrap=True)


def width_of(console: Console = out) -> int:
    """Width of the screen, or COLUMNS; `_DEFAULT_WIDTH` if both are unknown."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return console.width if console.is_terminal else _DEFAULT_WIDTH


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[Text]:
    """The lines of a table that is at most so wide, if its short columns allow it."""
    texts = [[cell if isinstance(cell, Text) else Text(escape_control(cell)) for cell in row] for row in rows]
    if any(column.title for column in columns):
        texts.insert(0, [Text(column.title, style="dim") for column in columns])
    if not texts:
        return []
    short = [place for place, column in enumerate(columns) if not column.prose]
    prose = next((place for place, column in enumerate(columns) if column.prose), None)
    widths = {place: max(row[place].cell_len for row in texts) for place in short}
    longest = 0 if prose is None else max(_longest(row[prose]) for row in texts)
    for gap in _GAPS:
        room = width - sum(widths.values()) - gap * (len(columns) - 1)
        if room >= min(longest, _ROOM):
            shape = _Shape(columns, widths, prose, gap, min(longest, room))
            return [line for row in texts for line in shape.beside(row, range(len(columns)))]
    shape = _Shape(columns, widths, prose, _GAPS[0], room)
    lines = [line for row in texts for line in shape.below(row, short, width)]
    return [line for line in lines if line.plain.strip()]


@dataclass(frozen=True)
class _Shape:
    """How wide the parts of a table are: the short columns, the gaps between them, the room for prose."""

    columns: Sequence[Column]
    widths: dict[int, int]
    prose: int | None
    gap: int
    room: int

    def beside(self, row: Sequence[Text], places: Sequence[int]) -> list[Text]:
        """A row with its cells side by side; several lines if its prose is long."""
        prose = self.prose if self.prose in places else None
        parts = [Text("")] if prose is None else _wrap(row[prose], self.room)
        lines = []
        for index, part in enumerate(parts):
            cells = [
                _pad(part, self.room, False)
                if place == prose
                else _pad(
                    row[place] if index == 0 else Text(""), self.widths[place], self.columns[place].right
                )
                for place in places
            ]
            lines.append(_trim(Text(" " * self.gap).join(cells)))
        return lines

    def below(self, row: Sequence[Text], short: list[int], width: int) -> list[Text]:
        """A row whose prose stands below it; and whose first cell stands above the others, if they are wide.

        Of a name and its value, a value that fits stays beside the name.
        """
        prose = self.prose
        if prose is not None and len(self.columns) == 2 and _longest(row[prose]) <= self.room:
            return self.beside(row, range(2))
        if sum(self.widths.values()) + self.gap * (len(short) - 1) > width and len(short) > 1:
            lines = [row[short[0]].copy()]
            lines += [Text(" " * self.gap) + line for line in self.beside(row, short[1:])]
        else:
            lines = self.beside(row, short)
        if prose is not None:
            lines += [Text(" " * _STEP) + part for part in _wrap(row[prose], max(1, width - _STEP))]
        return lines


def _wrap(text: Text, width: int) -> list[Text]:
    """Lines of at most so many columns, broken between words."""
    lines = [_trim(line) for line in text.wrap(Console(width=max(1, width)), max(1, width))]
    return lines or [Text("")]


def _longest(text: Text) -> int:
    return max((line.cell_len for line in text.split("\n", allow_blank=True)), default=0)


def _pad(text: Text, width: int, right: bool) -> Text:
    padded = text.copy()
    blanks = max(0, width - padded.cell_len)
    if right:
        padded.pad_left(blanks)
    else:
        padded.pad_right(blanks)
    return padded


def _trim(text: Text) -> Text:
    text.rstrip()
    return text
