"""The bar of long work on pictures: how much is done and the time left, on standard error."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A rich progress bar if standard error is a terminal, else nothing.

    Args:
        what: is done, in a word or two.
        total: units of work, whatever they are.

    Yields:
        A function to be called with the units that were done since it was last called.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    # slow to import: only for those who wait
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from isojepa.terminal import Console

    columns = (TextColumn(what, markup=False), BarColumn(24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
