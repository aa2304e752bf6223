"""What a study shows of its rows, as data that its story calls by name: tables and charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isojepa.report.charts import HeatMap, Panel
from isojepa_lab.studies.rows import Rows


@dataclass(frozen=True)
class TableSpec:
    """A table of the story, which has its header and the form of its cells.

    Attributes:
        name: in the story; part of the CSV's name.
        lines: rows -> the lines of the table, key -> value; none where there is nothing to show.
    """

    name: str
    lines: Callable[[Rows], Sequence[dict[str, Any]]]

    @classmethod
    def named(cls, **lines: Callable[[Rows], Sequence[dict[str, Any]]]) -> "list[TableSpec]":
        """Several tables."""
        return [cls(name, group) for name, group in lines.items()]


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


def heat_map(lines: Sequence[Mapping[str, Any]], column: str, row: str, key: str, **options: Any) -> HeatMap:
    """Lines of a table as colors: what stands at a key over two others that are numbers."""
    columns, rows = (sorted({line[name] for line in lines}) for name in (column, row))
    cells = {(line[row], line[column]): line[key] for line in lines}
    table = [[cells.get((up, across)) for across in columns] for up in rows]
    names = [[f"{value:g}" for value in values] for values in (columns, rows)]
    return HeatMap("", options.pop("title"), "", names[0], names[1], values=table, **options)
