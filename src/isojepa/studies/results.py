"""What every study leaves: NAME.json with the numbers, NAME.md with the table, NAME.png where it draws."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isojepa.files import write_json, write_text, write_whole
from isojepa.report.colors import COLORS
from isojepa.report.drawing import plain_axes
from isojepa.training.records import versions

__all__ = ["COLORS", "markdown_table", "plain_axes", "write_figure", "write_results"]


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
        text: the page, in Markdown.
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
    write_text(out / f"{name}.md", text)


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all."""
    write_whole(path, FigureCanvasAgg(figure).print_png)
