"""What every study leaves: NAME.json with the numbers, NAME.md with the table, NAME.png where it draws."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isojepa.io import write_json, write_text, write_whole
from isojepa.report.colors import COLORS
from isojepa.report.drawing import plain_axes
from isojepa.training.run_directory import versions

__all__ = ["COLORS", "markdown_table", "plain_axes", "verdict_first", "write_figure", "write_results"]

_VERDICT = "\n## What we saw\n"  # the last section of a page's text


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as a Markdown table.

    Example:
        >>> print(markdown_table(["a", "b"], [[1, 2]]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "|" + "|".join(str(cell) if cell == "---" else f" {cell} " for cell in line) + "|" for line in lines
    )


def write_results(
    out: Path,
    name: str,
    *,
    rows: Sequence[Mapping[str, Any]],
    text: str,
    settings: Mapping[str, Any],
    seconds: float,
) -> None:
    """Write a study's numbers, with what they were made from, and its page.

    Args:
        out: folder, e.g. docs/results.
        name: of the study and of its files.
        rows: the numbers, one mapping per line of the table.
        text: the page, in Markdown; see `verdict_first`.
        settings: seed and everything else that decides the numbers.
        seconds: how long the study took.
    """
    content = {
        "study": name,
        "settings": settings,
        "seconds": round(seconds, 1),
        "versions": versions(),
        "rows": rows,
    }
    write_json(out / f"{name}.json", content)
    write_text(out / f"{name}.md", verdict_first(text))


def verdict_first(text: str) -> str:
    """A page whose last section, what was seen, stands below the title; one without it stays as it is.

    Example:
        >>> verdict_first("# Title\\n\\nClaim.\\n\\n## What we saw\\n\\n- It holds.\\n")
        '# Title\\n\\n## What we saw\\n\\n- It holds.\\n\\nClaim.\\n'
    """
    head, _, verdict = text.partition(_VERDICT)
    title, _, rest = head.partition("\n\n")
    return f"{title}\n{_VERDICT}{verdict.rstrip()}\n\n{rest.rstrip()}\n" if verdict else text


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all."""
    write_whole(path, FigureCanvasAgg(figure).print_png)
