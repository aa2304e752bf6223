"""What every study leaves: NAME.json with the numbers, NAME.md with the table, NAME.png where it draws."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isojepa.files import write_json, write_text, write_whole
from isojepa.report.colors import FRAME, INK, QUIET
from isojepa.training.records import versions

COLORS = ("#2f6db5", "#d1662a", "#3a8f5c", "#8a5bb0", "#b8485f", "#7a6a4f", "#4aa3b8", "#a89a2c")


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


def plain_axes(axes: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Give axes the quiet look that all figures share."""
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=9, color=QUIET)
    axes.set_ylabel(y, fontsize=9, color=QUIET)
    axes.tick_params(labelsize=8, colors=QUIET, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FRAME)
    return axes


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all."""
    write_whole(path, FigureCanvasAgg(figure).print_png)
