"""How commands speak: text for people, JSON for programs, a bar while they work."""

import contextlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isojepa.files import plain
from isojepa.terminal import Console, PlainProgress, visible

out = Console(soft_wrap=True)
_UNSEEN = re.compile(r"[^\n -~]")


def print_json(value: Any) -> None:
    """Print plain values as JSON; NaN and Inf as strings, characters that a terminal obeys by number."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    print(_UNSEEN.sub(lambda found: _by_number(found[0]), text))


@contextlib.contextmanager
def notes_told() -> Iterator[None]:
    """Inside, what readers of data say that they left out is told in a line on standard error."""
    from isojepa.certificates.left_out import LeftOut  # with all of torch: not for those who only print

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeftOut)
        try:
            yield
        finally:
            notes = [one for one in caught if issubclass(one.category, LeftOut)]
            for note in dict.fromkeys(str(one.message) for one in notes):
                Console(stderr=True, soft_wrap=True).print(f"note: {note}")
    for one in caught:
        if one not in notes:  # others are shown as ever
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextlib.contextmanager
def progress_bar(verb: str) -> Iterator[Callable[[int, int, str], None]]:
    """Progress on standard error, a bar on a terminal, else a line every few seconds.

    Yields:
        A function to be called with done, total and what is next.
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
    return char if visible(char) == char else json.dumps(char)[1:-1]
