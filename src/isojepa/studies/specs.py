"""What a study shows of its rows, as data that its story calls by name: tables and charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from isojepa.report.charts import Panel
from isojepa.studies.cells import Row

Rows = Sequence[Row]
Lines = list[dict[str, Any]]  # of a table: key -> value


@dataclass(frozen=True)
class TableSpec:
    """A table of the story, which has its header and the form of its cells.

    Attributes:
        name: in the story; part of the CSV's name.
        lines: rows -> the lines of the table, key -> value; none where there is nothing to show.
    """

    name: str
    lines: Callable[[Rows], Lines]

    @classmethod
    def named(cls, **lines: Callable[[Rows], Lines]) -> "list[TableSpec]":
        """Several tables."""
        return [cls(name, own) for name, own in lines.items()]


@dataclass(frozen=True)
class ChartSpec:
    """A figure of the story: one panel, or small multiples.

    Attributes:
        name: in the story; part of the file's name.
        panels: rows -> what is drawn; panels with nothing to show are left out.
        columns: panels side by side.
        size: width and height of a panel in inches.
        legend: "shared" below all panels, or "own" below each.
    """

    name: str
    panels: Callable[[Rows], Sequence[Panel]]
    columns: int = 3
    size: tuple[float, float] = (4.4, 4.0)
    legend: str = "shared"
