"""From rows to what is shown of them: lines of a table, curves, heat maps, and one side over another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from isojepa.report.charts import Curve, HeatMap
from isojepa.studies.cells import Label, Row
from isojepa.studies.measured import grouped, mean, select


def pivot(rows: Sequence[Row], by: Sequence[str], across: str, score: str) -> list[dict[str, Any]]:
    """Lines of a table: means of a score by the values of some labels, sorted.

    Args:
        rows: whose scores.
        by: labels, each a key of the lines.
        across: labels in a text, such as "d = {dim}, {kind}"; every text that there is, is a key too.
        score: whose means stand at those keys.
    """
    names = [across.format_map(row.labels) for row in rows]
    keys = dict.fromkeys(names)
    lines: dict[tuple[Label, ...], dict[str, list[Row]]] = {}
    for row, name in zip(rows, names, strict=True):
        place = tuple(row.labels[label] for label in by)
        lines.setdefault(place, {key: [] for key in keys})[name].append(row)
    return [
        {**dict(zip(by, place, strict=True)), **{key: mean(own, score) for key, own in named.items()}}
        for place, named in sorted(lines.items())
    ]


def curves(
    rows: Sequence[Row],
    x: str,
    score: str,
    name: str,
    styles: Mapping[str, str] | None = None,
    height: Callable[[float], float] = float,
) -> list[Curve]:
    """Means of a score over a label, a curve for each name.

    Args:
        rows: whose scores.
        x: label of the places.
        score: whose means are the values.
        name: labels in a text, such as "d = {dim}, {kind}": the curves' names. Those that agree in the first
            label of it have the same colour.
        styles: value of a label -> style of a curve that has it.
        height: what is drawn of a mean.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name.format_map(row.labels), []).append(row)
    first = name.partition("{")[2].partition("}")[0]
    hues = list(dict.fromkeys(own[0].labels[first] for own in groups.values()))
    found = []
    for title, own in groups.items():
        named = [style for value, style in (styles or {}).items() if value in own[0].labels.values()]
        color = hues.index(own[0].labels[first]) + 1
        points = {place: height(at) for place, at in by_label(own, x, score).items() if at is not None}
        found.append(Curve(title, points, color, *named[:1]))
    return found


def heat_map(lines: Sequence[Mapping[str, Any]], column: str, row: str, key: str, **options: Any) -> HeatMap:
    """Lines of a table as colours: what stands at a key over two others that are numbers."""
    columns, rows = (sorted({line[name] for line in lines}) for name in (column, row))
    found = {(line[row], line[column]): line[key] for line in lines}
    table = [[found.get((up, across)) for across in columns] for up in rows]
    names = [[f"{value:g}" for value in values] for values in (columns, rows)]
    return HeatMap("", options.pop("title"), "", names[0], names[1], values=table, **options)


def by_label(rows: Sequence[Row], label: str, score: str) -> dict[float, float | None]:
    """Means of a score by the value of a label that is a number, ascending: the points of a curve."""
    return {float(value): mean(own, score) for (value,), own in sorted(grouped(rows, label).items())}


def ratios(
    rows: Sequence[Row], label: str, one: Label, other: Label, score: str, on: Sequence[str]
) -> dict[tuple[Label, ...], float]:
    """Mean score of the rows where a label has one value over that where it has another, place by place.

    Args:
        rows: whose scores.
        label, one, other: what differs.
        score: of which the means are taken.
        on: labels that make a place; one that lacks either side is left out.
    """
    sides = [grouped(select(rows, **{label: value}), *on) for value in (one, other)]
    means = [{place: mean(own, score) for place, own in side.items()} for side in sides]
    return {
        place: above / below
        for place, above in means[0].items()
        if above is not None and (below := means[1].get(place))
    }
