"""What a study found, ready to be written as Markdown, CSV, pictures and a page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # matplotlib: only for those who draw
    from matplotlib.figure import Figure

from isojepa.report.charts import Panel

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: of the value in a row.
        title: what the page shows.
        form: format of numbers, e.g. ".4f".
    """

    key: str
    title: str
    form: str = ""


@dataclass(frozen=True)
class Table:
    """A table: raw values for the CSV, formatted ones for the page.

    Attributes:
        name: short and unique within the study; part of the CSV's name.
        title: above the table.
        columns: in their order.
        rows: key -> value.
        note: below the table.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Value]]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows.

    Attributes:
        name: short and unique within the study; part of the file's name.
        caption: what it shows, and what to look at.
        figure: to be drawn.
    """

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True)
class Plot:
    """A figure as data: small multiples that are drawn to files and by the page's script.

    Attributes:
        name, caption: as of a `Picture`.
        panels: charts and heat maps.
        columns, size, legend: see `isojepa.report.drawing.draw_panels`.
    """

    name: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3
    size: tuple[float, float] = (4.4, 4.0)
    legend: str = "shared"


Block = str | Table | Plot


@dataclass(frozen=True)
class Findings:
    """What a study found.

    Attributes:
        summary: paragraphs in Markdown, the numbers in them taken from the rows; the first is the answer.
        tables: in their order.
        pictures: in their order; the first is the study's own figure.
        notes: paragraphs on what differs from the published, why, and what was run.
        body: the whole page in reading order, paragraphs, tables and plots, of a study that has a story; its
            tables are `tables` too.
    """

    summary: Sequence[str]
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    body: Sequence[Block] = ()

    @property
    def plots(self) -> list[Plot]:
        """The plots of the body; the first is the study's own figure."""
        return [block for block in self.body if isinstance(block, Plot)]


COMPARISON = (
    Column("ours", "ours", ".6f"),
    Column("ours_std", "± std", ".1e"),
    Column("runs", "runs", "d"),
    Column("published", "published", ".6f"),
    Column("published_std", "± std", ".1e"),
    Column("difference", "difference", "+.1e"),
    Column("standard_error", "its error", ".1e"),
    Column("mark", "", ""),
)


def compare(
    ours: Sequence[float],
    published: float | None,
    published_std: float | None,
    published_runs: int = 5,
    rounding: float = 0.0,
) -> dict[str, Value]:
    """Our runs beside a published mean and standard deviation, as values for the columns of `COMPARISON`.

    The standard error of the difference joins both: sqrt(std^2 / runs + published_std^2 / published_runs);
    the spread of a single run, which is unknown, is taken to be the published one. The mark says on
    which side of the published spread, two standard deviations, our mean lies.

    Args:
        ours: one value per run, at least one.
        published: published mean; None where there is none.
        published_std: published standard deviation over runs.
        published_runs: number of published runs.
        rounding: half a unit of the last published digit; the published spread is that much wider.

    Raises:
        ValueError: there is no run, or no published run behind a deviation.

    Example:
        >>> row = compare([0.9, 0.92], 0.8, 0.01)
        >>> row["mark"], round(row["difference"], 2)
        ('above', 0.11)
    """
    if not ours:
        raise ValueError("ours must hold at least one value, got none")
    if published_runs < 1:
        raise ValueError(f"published_runs must be positive, got {published_runs}")
    finite = all(map(math.isfinite, ours))  # `statistics` fails on non-finite values
    mean = fmean(ours) if finite else sum(ours) / len(ours)
    spread = None if len(ours) == 1 else stdev(ours) if finite else math.nan
    row: dict[str, Value] = {
        "ours": mean,
        "ours_std": spread,
        "runs": len(ours),
        "published": published,
        "published_std": published_std,
        "difference": None,
        "standard_error": None,
        "mark": "",
    }
    if published is None:
        return row
    row["difference"] = mean - published
    if published_std is not None:
        own_spread = published_std if spread is None else spread
        row["standard_error"] = math.sqrt(own_spread**2 / len(ours) + published_std**2 / published_runs)
        if abs(mean - published) > 2 * published_std + rounding:
            row["mark"] = "above" if mean > published else "below"
    return row


def text_of(value: Value, form: str = "") -> str:
    """A value as a table shows it: formatted if it is a number, yes or no, a dash for what is missing.

    Example:
        >>> text_of(0.99949, ".4f"), text_of(None, ".4f"), text_of(True), text_of(3.0, "d")
        ('0.9995', '–', 'yes', '3')
    """
    if value is None:
        return "–" if form else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {"inf": "∞", "-inf": "-∞"}.get(str(value), "nan")
    if form.endswith("d") and isinstance(value, float):
        if value != int(value):
            return f"{value:g}"  # what was asked to be whole and is not shows it
        value = int(value)
    if form:
        return format(value, form)
    return f"{value:g}" if isinstance(value, float) else str(value)
