"""The rows of a study and what is made of them: selections, means, lines of a table, curves, ratios."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from isojepa.report.charts import Curve
from isojepa_lab.studies.cells import Label, Row
from isojepa_lab.studies.measured import grouped, mean, measured, values


class Lines(list[dict[str, Any]]):
    """Lines of a table, key -> value, in their order."""

    def where(self, **keys: Any) -> "Lines":
        """Lines that have a value at a key, one of a tuple of values, or one that passes a test."""
        return Lines(line for line in self if _fits(line, keys))

    def known(self, *keys: str) -> "Lines":
        """Lines in which nothing is missing at some keys."""
        return Lines(line for line in self if all(line.get(key) is not None for key in keys))


class Rows(list[Row]):
    """Finished runs, in their order."""

    def where(self, **labels: Any) -> "Rows":
        """Rows whose labels have a value, one of a tuple of values, or one that passes a test."""
        return Rows(row for row in self if _fits(row.labels, labels))

    def by(self, *labels: str) -> "dict[tuple[Label, ...], Rows]":
        """Rows by the values of some labels: numbers ascending, text in order of appearance."""
        groups = grouped(self, *labels)
        levels = [list(dict.fromkeys(place[k] for place in groups)) for k in range(len(labels))]

        def order(place: tuple[Label, ...]) -> list[float]:
            pairs = zip(place, levels, strict=True)
            return [
                value_rank.index(value) if isinstance(value, str) else value for value, value_rank in pairs
            ]

        return {place: Rows(groups[place]) for place in sorted(groups, key=order)}

    def label(self, name: str) -> Any:
        """The value of a label that all rows share."""
        return self[0].labels[name]

    def values(self, score: str) -> list[float]:
        """A score of all rows that have it."""
        return values(self, score)

    def mean(self, score: str) -> float | None:
        """Mean of a score over the rows that have it; None if none has."""
        return mean(self, score)

    def points(self, label: str, score: str) -> dict[float, float | None]:
        """Means of a score by the value of a label that is a number, ascending: the points of a curve."""
        return {float(value): group.mean(score) for (value,), group in self.by(label).items()}

    def lines(
        self,
        by: Sequence[str],
        *parts: "str | Callable[[Rows], Mapping[str, Any]]",
        **columns: "str | Callable[[Rows], Any]",
    ) -> Lines:
        """Lines of a table, one for each combination of labels.

        Args:
            by: the labels, each a key of the lines.
            parts: scores whose means are taken, or functions of a line's rows that give several keys.
            columns: key -> a score whose mean is taken, or a function of a line's rows.
        """
        lines = Lines()
        for place, group in self.by(*by).items():
            line: dict[str, Any] = dict(zip(by, place, strict=True))
            for part in parts:
                line |= {part: group.mean(part)} if isinstance(part, str) else part(group)
            for key, made in columns.items():
                line[key] = group.mean(made) if isinstance(made, str) else made(group)
            lines.append(line)
        return lines

    def pivot(
        self, by: Sequence[str], across: str, score: str, **columns: "str | Callable[[Rows], Any]"
    ) -> Lines:
        """Lines of means of a score, with a key for each value of further labels.

        Args:
            by: see `lines`.
            across: labels in a text, such as "d = {dim}, {kind}"; every text that there is, is a key.
            score: whose means stand at those keys.
            columns: see `lines`.
        """
        keys = list(self._named(across))

        def means(own: Rows) -> dict[str, float | None]:
            named = own._named(across)
            return {key: named.get(key, Rows()).mean(score) for key in keys}

        return self.lines(by, means, **columns)

    def curves(
        self,
        x: str,
        score: str,
        name: str,
        styles: Mapping[str, str] | None = None,
        height: Callable[[float], float] = float,
    ) -> list[Curve]:
        """Means of a score over a label, a curve for each name.

        Args:
            x: label of the places.
            score: whose means are the values.
            name: labels in a text, such as "d = {dim}, {kind}": the curves' names. Those that agree in the
                first label of it have the same color; without labels it is one curve in grey.
            styles: value of a label -> style of a curve that has it.
            height: what is drawn of a mean.
        """
        groups = self._named(name)
        first = name.partition("{")[2].partition("}")[0]
        hues = list(dict.fromkeys(group.label(first) for group in groups.values())) if first else []
        curves = []
        for title, group in groups.items():
            named = [style for value, style in (styles or {}).items() if value in group[0].labels.values()]
            color = hues.index(group.label(first)) + 1 if first else 0
            points = {place: height(at) for place, at in group.points(x, score).items() if at is not None}
            curves.append(Curve(title, points, color, *named[:1]))
        return curves

    def over(self, other: Iterable[Row], score: str, *on: str) -> "Rows":
        """Each row with its score divided by that of each other row that agrees in some labels.

        Others whose score is zero or was not measured are left out.
        """
        below = grouped(list(other), *on)
        return Rows(
            replace(row, scores={score: one / base})
            for place, group in grouped(self, *on).items()
            for row in group
            for base in values(below.get(place, ()), score)
            if base and (one := measured(row, score)) is not None
        )

    def split(self, label: str, names: Iterable[str], score: str) -> "Rows":
        """A row for each of some scores, whose name becomes a label and whose value the score of that row."""
        return Rows(
            replace(row, labels={**row.labels, label: name}, scores={score: row.scores[name]})
            for row in self
            for name in names
        )

    def _named(self, text: str) -> "dict[str, Rows]":
        """Rows by a text that their labels fill, in order of appearance."""
        groups: dict[str, Rows] = {}
        for row in self:
            groups.setdefault(text.format_map(row.labels), Rows()).append(row)
        return groups


def _fits(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in found and _passes(found[name], test) for name, test in wanted.items())


def _passes(value: Any, test: Any) -> bool:
    if callable(test):
        return bool(test(value))
    return value in test if isinstance(test, tuple) else value == test
