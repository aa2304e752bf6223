"""The page of stress tests: measured values with their intervals, and the predictions under the points."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isojepa.report.aligning.page import Part, cell, note, r2_text, write_parts
from isojepa.report.aligning.states import cut
from isojepa.report.charts import Chart, Series, grid, scale_for
from isojepa.report.numbers import short
from isojepa.report.sections.lead import lead, section
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa_lab.stress.curves import StressCurve, StressPoint

_TITLES = {
    "pair_noise": "Mismatched pairs",
    "pair_budget": "Few pairs and many",
    "shift": "Other states than were fitted",
    "capacity": "Other widths",
    "seeds": "Other seeds",
    "neighborhoods": "Neighborhoods of every size, predicted",
}
_METRICS = {"r2": "Held-out R²", "condition": "κ(W)", "dsc": "DSC", "mse": "MSE"}
_NAMED = ("shift", "seeds")  # tests whose places are names and not numbers
_NAME = 30  # letters of a place's name
_NINES = 0.9  # an R^2 above which a chart has room for nines


def write_stress(
    path: str | Path,
    names: Sequence[str],
    curves: Sequence[StressCurve],
    config: Mapping[str, Any] | None = None,
) -> int:
    """Write the page of the stress tests of one pair of encoders.

    Args:
        path: the HTML file to create or replace.
        names: of the two encoders.
        curves: of the tests, one at least.
        config: settings of the fits.

    Returns:
        The size of the page in bytes.
    """
    settings = sum(len({point.label for point in curve.points}) for curve in curves)
    return write_parts(
        path,
        [stress(curve, place) for place, curve in enumerate(curves)],
        title=" and ".join(names),
        badge=("plain", "stress tests"),
        verdict=f"The map from {names[0]} to {names[1]} at {settings} settings",
        more=["All scores are of states that no map was fitted on. Predictions use the fitted pairs alone."],
        facts=[f"{len(curve.points)} numbers of {curve.axis}" for curve in curves],
        tiles={},
        config=config or {},
    )


def stress(curve: StressCurve, place: int) -> Part:
    """Charts of every metric, and the table.

    Args:
        curve: of the test.
        place: of the test in the page, for names that are used once.
    """
    charts = [
        _chart(curve, metric, points, f"stress-{place}-{k}")
        for k, (metric, points) in enumerate(_by_metric(curve).items())
        if len(points) > 1
    ]
    title = _TITLES.get(curve.test, curve.test)
    rows = [
        (
            Shown(cut(point.label, 60)),
            *map(cell, (point.x, point.pairs)),
            Shown(_metric(point.metric)),
            *map(cell, (point.value, point.low, point.high, point.predicted, point.repeats)),
        )
        for point in curve.points
    ]
    columns = [("setting", False), (curve.axis, True), ("pairs", True), ("score", False)]
    columns += [(name, True) for name in ("measured", "low", "high", "predicted", "repeats")]
    table = table_section(ShownTable(f"stress-{place}-numbers", "", columns, rows))
    folded = f'<details class="pair"{"" if charts else " open"}><summary>Numbers</summary>{table}</details>'
    order = ""
    if charts and curve.test in _NAMED:
        names = dict.fromkeys(cut(point.label, _NAME) for point in curve.points)
        order = note(f"From left to right: {', '.join(names)}.")
    return Part(section(f"stress-{place}", lead(title, _words(curve)), grid(charts), order, folded), charts)


def _by_metric(curve: StressCurve) -> dict[str, list[StressPoint]]:
    """Points in the order of their places; those of neighborhoods of every size are one curve."""
    points = sorted(curve.points, key=lambda point: point.x)
    if curve.test == "neighborhoods":
        return {"nos@k": points}
    names = sorted({point.metric for point in points}, key=lambda name: ((*_METRICS, name).index(name), name))
    return {name: [point for point in points if point.metric == name] for name in names}


def _chart(curve: StressCurve, metric: str, points: list[StressPoint], name: str) -> Chart:
    values = [point.value for point in points]
    reach = [end for point in points for end in (point.value, point.low, point.high)]
    series = [
        Series("measured", values, "dots", ([p.low for p in points], [p.high for p in points]), color=1),
    ]
    if any(point.predicted is not None for point in points):
        series.insert(0, Series("predicted", [p.predicted for p in points], dashed=True, color=2))
    x = [point.x for point in points]
    named = curve.test in _NAMED
    return Chart(
        name,
        _metric(metric),
        "",
        x,
        curve.axis,
        series,
        scale="nines" if metric == "r2" and min(values) > _NINES else scale_for(reach),
        unit="r2" if metric == "r2" else "number",
        labels=[point.label for point in points] if named else None,
        across_scale="log" if min(x) > 0 and max(x) > 5 * min(x) and not named else "linear",
    )


def _words(curve: StressCurve) -> str:
    """From the first place to the last, and how far predictions are off."""
    metric, points = next(iter(_by_metric(curve).items()))
    first, last = points[0], points[-1]
    text = f"{_metric(metric)} is {_value(first)} at {first.label or short(first.x)}"
    if len(points) > 1:
        text += f" and {_value(last)} at {last.label or short(last.x)}"
    off = [abs(point.value - point.predicted) for point in points if point.predicted is not None]
    errors = [value for value in off if math.isfinite(value)]
    if errors:
        text += f"; predictions from the fitted pairs alone are off by {short(max(errors))} at most"
    return text + "."


def _value(point: StressPoint) -> str:
    return r2_text(point.value) if point.metric == "r2" else short(point.value)


def _metric(name: str) -> str:
    return _METRICS.get(name, name.replace("nos@", "NOS@"))
