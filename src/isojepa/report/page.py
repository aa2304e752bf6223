"""The report of a certificate: one self-contained HTML page, verdict first.

The page is `assets/page.html` with the style sheets and scripts beside it put inside. Text is rendered by
`sections` and escaped; what is drawn (points and charts) travels as JSON in a script element that the browser
does not run. The page loads nothing: its Content-Security-Policy forbids it to.
"""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.certificate import Certificate
from isojepa.certificates.transition import DynamicsCertificate
from isojepa.io import write_text
from isojepa.report import glance
from isojepa.report.charts import chart_data
from isojepa.report.lines import sentence_of, signs
from isojepa.report.panels import Panels, Points, arrange
from isojepa.report.sections.assumptions import assumptions
from isojepa.report.sections.bound import bound
from isojepa.report.sections.named import named
from isojepa.report.sections.recovered import recovered
from isojepa.report.sections.spectrum import spectrum
from isojepa.report.sections.training import config_rows, training
from isojepa.report.sections.transition import transition as transition_section
from isojepa.report.template import asset, duration, json_text, page
from isojepa.version import __version__

_POINTS = 3000
_STYLES = ("page.css", "plots.css", "lines.css")
_SCRIPTS = ("start.js", "panels.js", "scales.js", "charts.js", "end.js")


def write_page(
    path: str | Path,
    *,
    title: str,
    config: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    certificate: Certificate,
    latents: Points | None,
    observations: Points | None,
    embeddings: Points | None,
    seconds: float | None,
    status: str,
    reason: str,
    transition: DynamicsCertificate | None = None,
) -> None:
    """Write the report of a certificate, and of the run behind it where there was one.

    Args:
        path: the HTML file to create or replace.
        title: names the run or the source.
        config: what it was made from; may be nested, may be empty.
        metrics: one row per evaluation, as in `Run.metrics`; may be empty.
        certificate: what is known about the representation.
        latents: (n, d), or None when they are not known.
        observations: (n, ...), or None.
        embeddings: (n, m), of which at most 3,000 are shown; or None to show no points.
        seconds: training time, if there was training.
        status: how the run ended; anything but "done" or "" is shown as a warning with `reason`.
        reason: one sentence when the run did not end well.
        transition: what is known of the transition under actions, where there were any.

    Raises:
        ValueError: latents, observations and embeddings differ in length.
    """
    points = None if embeddings is None else arrange(latents, observations, embeddings, limit=_POINTS)
    parts = [
        recovered(certificate, points),
        bound(certificate),
        spectrum(certificate),
        assumptions(certificate),
        named(certificate.named),
        transition_section(transition),
        training(metrics),
    ]
    data = {**panel_data(points), "charts": chart_data([chart for part in parts for chart in part.charts])}
    text = page(
        "page.html",
        {
            "css": asset(*_STYLES),
            "js": asset(*_SCRIPTS),
            "data": json_text(data),
            "title": escape(title),
            "badge": glance.badge(certificate),
            "verdict": bind(_verdict(certificate)),
            "next": bind(escape(signs(sentence_of(certificate.next_step)))),
            "facts": _facts(certificate, seconds),
            "warning": warning(status, reason),
            "tiles": bind(glance.tiles(certificate)),
            "sections": bind("\n\n".join(part.html for part in parts if part.html)),
            "config": config_rows({**config, **_timing(seconds), "isojepa": __version__}),
        },
    )
    write_text(Path(path), text)


def panel_data(shown: Panels | None) -> dict[str, Any]:
    """The points of every panel as flat lists x0, y0, x1, y1, ... with four digits of the panel's width."""
    data: dict[str, Any] = {
        "panels": [],
        "colors": [],
        "turned": None,
        "startTurned": False,
        "rotation": None,
    }
    if shown is None or not len(shown.colors):
        return data
    embedding = shown.panels[-1]
    data |= {
        "panels": [
            {
                "symbol": panel.symbol,
                "dim": min(panel.dim, 2),
                "points": _short(panel.points, panel.half),
                "center": panel.center.tolist(),
                "half": panel.half,
                "joined": [] if panel.joined is None else _short(panel.joined, panel.half),
            }
            for panel in shown.panels
        ],
        "colors": ["#" + bytes(rgb).hex() for rgb in (255 * shown.colors).round().astype(np.uint8)],
        "turned": None if shown.turned is None else _short(shown.turned, embedding.half),
        "startTurned": shown.prefer_turned,
    }
    if shown.rotation is not None and len(shown.rotation.matrix) == 2:
        data["rotation"] = {
            "matrix": shown.rotation.matrix.tolist(),
            "center": shown.rotation.center.tolist(),
            "offset": shown.rotation.offset.tolist(),
        }
    return data


def _short(points: np.ndarray, half: float) -> list[float]:
    digits = 4 - math.floor(math.log10(half)) - 1
    return [round(value, digits) for value in points.ravel().tolist()]


def bind(html: str) -> str:
    """Keep each number on one line with its percent sign."""
    return re.sub(r"(?<=\d) %", "\u00a0%", html)


def _verdict(certificate: Certificate) -> str:
    """The first sentence large, the others below it."""
    first, *others = re.split(r"(?<=\.)\s+(?=[A-Z])", signs(certificate.verdict), maxsplit=1)
    more = "".join(f'\n<p class="more">{escape(text)}</p>' for text in others)
    return f"<h1>{escape(first)}</h1>{more}"


def _facts(certificate: Certificate, seconds: float | None) -> str:
    facts = [
        f"{certificate.samples:,} embeddings",
        f"{certificate.dim} dimension" + "s" * (certificate.dim != 1),
        f"{100 * certificate.confidence:g} % intervals",
    ]
    if certificate.dropped:
        rows = "1 row" if certificate.dropped == 1 else f"{certificate.dropped:,} rows"
        facts.append(f"{rows} with NaN or Inf left out")
    if seconds is not None:
        facts.append(f"trained in {duration(seconds)}")
    return " · ".join(facts)


def _timing(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"training time": f"{seconds:.2f} s"}


def warning(status: str, reason: str) -> str:
    """How a run ended, where it did not end well; else nothing."""
    if status in ("", "done"):
        return ""
    because = f": {escape(reason)}" if reason else ""
    return f'<p class="warning"><b>The run {escape(status)}</b>{because}.</p>'
