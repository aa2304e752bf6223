"""The bar of long work on pictures: how much is done and the time left, on standard error."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from isojepa.terminal import Console, PlainProgress


@contextlib.contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A rich progress bar if standard error is a terminal, else a line every few seconds.

    Args:
        what: is done, in a word or two.
        total: units of work, whatever they are.

    Yields:
        A function to be called with the units that were done since it was last called.
    """
    if not sys.stderr.isatty():
        plain, finished = PlainProgress(what), 0

        def advance(done: int) -> None:
            nonlocal finished
            finished += done
            plain.update(finished, total)

        yield advance
        return
    # slow to import: only for those who wait
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what, markup=False), BarColumn(24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
