"""How commands speak: text for people, JSON for programs, a bar while they work."""

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isojepa.files import plain


class _Console(Console):
    """One that leaves a closed pipe to the command: rich would exit with an error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = _Console(highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print plain values as JSON; NaN and Inf as strings."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


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
                Console(stderr=True, soft_wrap=True, highlight=False).print(f"note: {note}", markup=False)
    for one in caught:
        if one not in notes:  # others are shown as ever
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextlib.contextmanager
def progress_bar(verb: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error if it is a terminal; gives what to call with done, total and what is next."""
    bar = Progress(
        TextColumn(verb),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)
