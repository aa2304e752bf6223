"""Training: the curves of a run, and what it was made from."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from isojepa.report.charts import Chart, Part, Series, grid
from isojepa.report.numbers import finite
from isojepa.training.run_directory import GAUGES

_ROWS = 500  # evaluations drawn in a curve; more do not show on a screen
_NOT_TERMS = {"step", "r2", *GAUGES}  # a row's other entries are loss terms


def training(metrics: Sequence[Mapping[str, Any]]) -> Part:
    """The section of the training curves; nothing without metrics."""
    charts = [chart for chart in _charts(metrics) if not chart.empty]
    if not charts:
        return Part("")
    note = ""
    if len(metrics) > _ROWS:
        note = f'<p class="note">{_ROWS} of {len(metrics):,} evaluations are drawn.</p>'
    return Part(f'<section id="training"><h2>Training</h2>{grid(charts)}{note}</section>', charts)


def config_rows(config: Mapping[str, Any]) -> str:
    """One table row per setting; nested settings have dotted names."""
    rows = (
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in _flat(config)
    )
    return "\n".join(rows)


def _charts(metrics: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """R^2 and the loss terms; of many rows, some at even distances with the first and the last."""
    count = min(len(metrics), _ROWS)
    rows = [metrics[i] for i in np.linspace(0, len(metrics) - 1, count).round().astype(int)] if count else []
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [finite(row.get(name)) for row in rows] for name in names}
    columns_with_values = {
        name: column for name, column in columns.items() if any(v is not None for v in column)
    }
    steps = columns.get("step", [])
    finite_steps = [float(step) for step in steps if step is not None]
    x = (
        finite_steps
        if finite_steps and len(finite_steps) == count and finite_steps == sorted(finite_steps)
        else [k + 1.0 for k in range(count)]
    )
    charts = []
    if "r2" in columns_with_values:
        note = "each line is ten times closer to 1"
        series = [Series("R²", columns_with_values["r2"])]
        charts.append(Chart("r2", "Held-out R²", note, x, "step", series, scale="nines", unit="r2"))
    losses = [Series(name, column) for name, column in columns_with_values.items() if name not in _NOT_TERMS]
    if losses:
        positive = all(value > 0 for one in losses for value in one.values if value is not None)
        scale = "log" if positive else "linear"
        title, note = "Loss and its terms", "mean between evaluations"
        charts.append(Chart("losses", title, note, x, "step", losses, scale=scale))
    return charts


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
