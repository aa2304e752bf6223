"""The report of a run: one self-contained HTML page, verdict first.

The page is `page.html` with `page.css` and `page.js` inside it. Text is rendered here and escaped; what is
drawn (panels and curves) travels as JSON in a script element that the browser does not run. The page loads
nothing: its Content-Security-Policy forbids it to.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.certificate import Certificate
from isojepa.files import write_text
from isojepa.report import tables
from isojepa.report.panels import Panels, Points, arrange
from isojepa.training.records import GAUGES
from isojepa.version import __version__

_POINTS = 3000
_ROWS = 500  # evaluations drawn in a curve; more do not show on a screen
_NOT_TERMS = {"step", "r2", *GAUGES}  # a row's other entries are loss terms


def write_page(
    path: str | Path,
    *,
    title: str,
    config: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    certificate: Certificate,
    latents: Points | None,
    observations: Points | None,
    embeddings: Points,
    seconds: float | None,
    status: str,
    reason: str,
) -> None:
    """Write the report of a run.

    Args:
        path: the HTML file to create or replace.
        title: names the run.
        config: what the run was made from; may be nested, may be empty.
        metrics: one row per evaluation, as in `Run.metrics`; may be empty.
        certificate: what is known about the representation.
        latents: (n, d), or None when they are not known.
        observations: (n, ...), or None.
        embeddings: (n, m); at most 3,000 of the n are shown.
        seconds: training time, if there was training.
        status: how the run ended; anything but "done" or "" is shown as a warning with `reason`.
        reason: one sentence when the run did not end well.

    Raises:
        ValueError: latents, observations and embeddings differ in length.
    """
    shown = arrange(latents, observations, embeddings, limit=_POINTS)
    data = {**_panel_data(shown), **_curve_data(metrics)}
    page = _fill(
        {
            "css": _read("page.css"),
            "js": _read("page.js"),
            "data": _json(data),
            "title": escape(title),
            "badge": tables.badge(certificate),
            "verdict": escape(certificate.verdict),
            "facts": _facts(certificate, seconds),
            "warning": _warning(status, reason),
            "panels": _figures(shown),
            "toggle": _toggle(shown),
            "panels_note": _panels_note(shown),
            "curves": _curves(data, len(metrics)),
            "certificate": tables.certificate_rows(certificate),
            "bound_picture": tables.bound_picture(certificate),
            "bound_numbers": tables.bound_numbers(certificate),
            "config": tables.config_rows({**config, **_timing(seconds), "isojepa": __version__}),
        }
    )
    write_text(Path(path), page)


def _fill(parts: Mapping[str, str]) -> str:
    """The template with its {{names}} replaced, in one pass: a name inside a part stays as it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def _read(name: str) -> str:
    return files("isojepa.report").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")


def _panel_data(shown: Panels) -> dict[str, Any]:
    """The points of every panel as flat lists x0, y0, x1, y1, ... with four digits of the panel's width."""
    embedding = shown.panels[-1]
    data: dict[str, Any] = {
        "panels": [
            {
                "symbol": panel.symbol,
                "dim": min(panel.dim, 2),
                "points": _short(panel.points, panel.half),
                "centre": panel.centre.tolist(),
                "half": panel.half,
            }
            for panel in shown.panels
        ],
        "colors": ["#" + bytes(rgb).hex() for rgb in (255 * shown.colors).round().astype(np.uint8)],
        "turned": None if shown.turned is None else _short(shown.turned, embedding.half),
        "startTurned": shown.prefer_turned,
        "rotation": None,
    }
    if shown.rotation is not None and len(shown.rotation.matrix) == 2:
        data["rotation"] = {
            "matrix": shown.rotation.matrix.tolist(),
            "centre": shown.rotation.centre.tolist(),
            "offset": shown.rotation.offset.tolist(),
        }
    return data


def _short(points: np.ndarray, half: float) -> list[float]:
    digits = max(0, 4 - math.floor(math.log10(half)) - 1)
    return [round(value, digits) for value in points.ravel().tolist()]


def _curve_data(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The curves' columns; of many rows, some at even distances with the first and the last."""
    count = min(len(metrics), _ROWS)
    rows = [metrics[i] for i in np.linspace(0, len(metrics) - 1, count).round().astype(int)] if count else []
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_finite(row.get(name)) for row in rows] for name in names}
    drawn = {name: column for name, column in columns.items() if any(v is not None for v in column)}
    steps = columns.get("step", [])
    return {
        "steps": list(range(1, count + 1)) if None in steps or not steps else steps,
        "r2": drawn.get("r2"),
        "losses": {name: column for name, column in drawn.items() if name not in _NOT_TERMS},
    }


def _finite(value: Any) -> float | None:
    """A number for JSON; None for what is missing, not a number, or not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _facts(certificate: Certificate, seconds: float | None) -> str:
    facts = [
        f"{certificate.samples:,} embeddings",
        f"{certificate.dim} dimension" + "s" * (certificate.dim != 1),
        f"{100 * certificate.confidence:g} % intervals",
    ]
    if seconds is not None:
        facts.append(f"trained in {_duration(seconds)}")
    return " · ".join(facts)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _timing(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"training time": f"{seconds:.2f} s"}


def _warning(status: str, reason: str) -> str:
    if status in ("", "done"):
        return ""
    because = f": {escape(reason)}" if reason else ""
    return f'<p class="warning"><b>The run {escape(status)}</b>{because}.</p>'


def _figures(shown: Panels) -> str:
    figures = []
    for panel in shown.panels:
        caption = escape(panel.caption)
        if panel.symbol == "h" and shown.rotation is not None:
            hidden = "" if shown.prefer_turned else " hidden"
            caption += f' <span id="when-turned"{hidden}>after the best rotation</span>'
        figures.append(
            f"<figure><h3>{escape(panel.name)} <i>{escape(panel.symbol)}</i></h3>"
            f'<canvas role="img" aria-label="{escape(panel.name)} as coloured points"></canvas>'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return "\n".join(figures)


def _toggle(shown: Panels) -> str:
    if shown.rotation is None:
        return ""
    state = str(shown.prefer_turned).lower()
    return (
        f'<button id="turn" type="button" role="switch" aria-checked="{state}">'
        "<span></span>Turn the embedding onto the latents</button>"
    )


def _panels_note(shown: Panels) -> str:
    count = len(shown.colors)
    source = "latents" if shown.panels[0].symbol == "z" else "embedding"
    note = f"{count:,} points, coloured by the angle and radius of the {source}."
    if shown.left_out:
        note += f" {shown.left_out:,} samples with NaN or Inf are not shown."
    if len(shown.panels) > 1:
        note += " Point at one to see it, and its neighbourhood, in every panel."
    if shown.rotation is not None:
        note += f" The best rotation is {_describe(shown.rotation.matrix)}."
    return note


def _describe(matrix: np.ndarray) -> str:
    """A rotation in words; counterclockwise counts as positive."""
    reflects = np.linalg.det(matrix) < 0
    if len(matrix) == 1:
        return "a change of sign" if reflects else "the identity"
    if len(matrix) > 2:
        return f"one of {len(matrix)} dimensions, found by orthogonal Procrustes"
    if reflects:
        return "a turn with a reflection"
    degrees = math.degrees(math.atan2(matrix[0, 1], matrix[0, 0]))
    return f"a turn by {degrees:.0f}°".replace("-", "−")


def _curves(data: Mapping[str, Any], evaluations: int) -> str:
    """The section of the training curves; nothing without metrics."""
    charts = []
    if data["r2"]:
        charts.append(_chart("r2", "Held-out R²", "each line is ten times closer to 1"))
    if data["losses"]:
        charts.append(_chart("losses", "Loss and its terms", "mean between evaluations"))
    if not charts:
        return ""
    note = ""
    if evaluations > _ROWS:
        note = f'<p class="note">{_ROWS} of {evaluations:,} evaluations are drawn.</p>'
    return f'<section><h2>Training</h2><div class="charts">{"".join(charts)}</div>{note}</section>'


def _chart(name: str, title: str, note: str) -> str:
    return (
        f'<figure><h3>{title} <small>{note}</small></h3><div class="legend"></div>'
        f'<div class="chart" id="{name}" tabindex="0" role="group" '
        f'aria-label="{title} over training steps; arrow keys read the values"></div></figure>'
    )
