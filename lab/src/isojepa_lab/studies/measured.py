"""Numbers out of rows: what was measured, and means over the runs of one place."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import fmean, stdev

from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Label, Row


def measured(row: Row, name: str) -> float | None:
    """A score of a row as a finite number; None where it was not measured or is not finite."""
    value = row.scores.get(name)
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def values(rows: Iterable[Row], name: str) -> list[float]:
    """A score of all rows that have it."""
    measured_values = (measured(row, name) for row in rows)
    return [value for value in measured_values if value is not None]


def mean(rows: Iterable[Row], name: str) -> float | None:
    """Mean of a score over the rows that have it; None if none has."""
    measured_values = values(rows, name)
    return fmean(measured_values) if measured_values else None


def spread(rows: Iterable[Row], name: str) -> float | None:
    """Standard deviation (std) of a score over the rows that have it; None for fewer than two."""
    measured_values = values(rows, name)
    return stdev(measured_values) if len(measured_values) > 1 else None


def grouped(rows: Sequence[Row], *labels: str) -> dict[tuple[Label, ...], list[Row]]:
    """Rows by the values of some labels, in order of appearance; rows without one of them are left out."""
    groups: dict[tuple[Label, ...], list[Row]] = {}
    for row in rows:
        if all(label in row.labels for label in labels):
            groups.setdefault(tuple(row.labels[label] for label in labels), []).append(row)
    return groups


def select(rows: Iterable[Row], **labels: Label) -> list[Row]:
    """Rows that have these labels."""
    return [row for row in rows if all(row.labels.get(name) == value for name, value in labels.items())]


def lowest_loss(rows: Sequence[Row], *labels: str) -> list[Row]:
    """Of the rows that agree in some labels, the one of lowest training loss; diverged ones come last."""

    def order(row: Row) -> tuple[bool, float]:
        has_loss = row.loss is not None and math.isfinite(row.loss)
        return row.status == "diverged", row.loss if has_loss and row.loss is not None else math.inf

    return [min(group, key=order) for group in grouped(rows, *labels).values()]


def pairs_of(row: Row) -> int:
    """Pairs that a run was trained on."""
    return _pairs(Recipe(**row.config["training"]), row.steps)


@lru_cache(maxsize=1024)
def _pairs(recipe: Recipe, steps: int) -> int:
    return sum(recipe.batch_at(step) for step in range(steps))


def cpu_seconds(rows: Sequence[Row]) -> float | None:
    """Mean processor time of training; None where some run's was not kept."""
    spent = [row.cpu_seconds for row in rows if row.cpu_seconds is not None]
    return fmean(spent) if spent and len(spent) == len(rows) else None


def microseconds_a_pair(rows: Sequence[Row]) -> float | None:
    """Processor time of training for one pair; None where some run's was not kept."""
    seconds = cpu_seconds(rows)
    return None if seconds is None else 1e6 * seconds / fmean(map(pairs_of, rows))


def share(rows: Iterable[Row], name: str) -> str | None:
    """How many of the rows that have a score which is true or false have it true; None if none has it."""
    flags = [bool(row.scores[name]) for row in rows if row.scores.get(name) is not None]
    return f"{sum(flags)} of {len(flags)}" if flags else None


def unscored(rows: Iterable[Row]) -> list[Row]:
    """Rows of which no recovery could be measured, such as diverged runs."""
    return [row for row in rows if measured(row, "r2") is None]


def told(rows: Sequence[Row]) -> str:
    """What was run, in a sentence: runs, steps, CPU time, and how they ended."""
    if not rows:
        return "No run is there yet."
    rows = list({row.record: row for row in rows}.values())  # a run may stand under several labels
    steps = sorted({row.steps for row in rows})
    length = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    ends = ", ".join(
        f"{count} {status}"
        for status in ("collapsed", "diverged")
        if (count := sum(row.status == status for row in rows))
    )
    minutes = sum(row.seconds for row in rows) / 60
    text = f"{len(rows)} runs of {length} steps, {minutes:.0f} minutes of training in all"
    return f"{text}; {ends}." if ends else f"{text}."


def gain_at_end(row: Row, share: float = 0.2) -> float | None:
    """By how much the curve of a run rose in the last share of its steps; None where it has no such curve.

    Example:
        >>> row = Row({}, {}, {"curve": [[10, 0.5], [80, 0.6], [100, 0.7]]}, "done", 100, 1.0, 0.1, "")
        >>> round(gain_at_end(row), 3)
        0.1
    """
    curve = [(step, value) for step, value in row.scores.get("curve") or () if math.isfinite(value)]
    if not curve:
        return None
    last, end = curve[-1]
    earlier = [value for step, value in curve if step <= (1 - share) * last]
    return end - earlier[-1] if earlier else None


def trend(rows: Iterable[Row], tolerance: float) -> str | None:
    """Return "still rising" if a curve gained more than a tolerance in its last fifth, else "flat"."""
    gains = [gain for row in rows if (gain := gain_at_end(row)) is not None]
    if not gains:
        return None
    return "still rising" if max(gains) > tolerance else "flat"
