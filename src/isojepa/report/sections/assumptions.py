"""Assumptions: what the theorems ask of the world; every line opens to its details and its equation.

A value is placed against its threshold t by v / (v + t): the threshold is always in the middle, what is
smaller lies on the left, and infinity at the right end.
"""

import math
import re
from html import escape

from isojepa.certificates.certificate import Certificate
from isojepa.certificates.checks import CheckResult, format_p
from isojepa.report.charts import Chart, Part, Series, scale_for
from isojepa.report.formulas import ASSUMPTIONS
from isojepa.report.glance import measured_on, tally, troubles
from isojepa.report.lines import signs
from isojepa.report.numbers import number, short, with_span
from isojepa.report.sections.lead import lead, missing, section

_TONES = {"holds": "good", "fails": "poor", "unclear": "fair"}
_MARKS = {"holds": "✓", "fails": "✕", "unclear": "?"}
_HINT = (
    "They are measured unless checks are switched off. Some of them need both views of each pair.",
    "certify(h, next=h_next)",
    "isojepa certify h.npy --next h_next.npy",
)
_TITLES = {
    "p": "p-value of each direction",
    "rate": "Rate of each direction",
    "shift": "Shift of each dimension",
    "share": "Share of each direction",
    "variance": "Variances, largest first",
    "pairs": "Distance correlation of each pair",
}
_MIN_POINTS = 3  # numbers of a kind from which they are drawn


def assumptions(certificate: Certificate) -> Part:
    """The section of assumptions, or why there is none."""
    items = certificate.assumptions
    if not items:
        head = lead("Assumptions", "Whether this world is one that the theorems speak of was not checked.")
        return Part(section("assumptions", head, missing("No assumption was measured.", *_HINT)))
    counts = tally(certificate)
    tone = "poor" if "fails" in counts else "fair" if "unclear" in counts else "good"
    head = lead(
        "Assumptions",
        _sentence(certificate),
        key=f"{len(counts.get('holds', []))} of {len(items)} hold",
        of=f"measured on the {measured_on(certificate)}",
        tone=tone,
    )
    rows = ""
    charts: list[Chart] = []
    for place, item in enumerate(items):
        part = check_line(item, f"assumption-{place}")
        rows += part.html
        charts += part.charts
    note = (
        "The mark in the middle of a scale is the threshold from which the effect matters. Every line opens."
    )
    return Part(
        section("assumptions", head, f'<div class="checks">{rows}</div><p class="note">{note}</p>'), charts
    )


def _sentence(certificate: Certificate) -> str:
    text = troubles(certificate)
    if not text:
        return "Nothing measured here speaks against the theorems."
    return text[0].upper() + text[1:] + ": open the lines to see why and what to do."


def check_line(item: CheckResult, name: str) -> Part:
    """One assumption as a row that opens; `name` is the id of its charts."""
    tone = _TONES.get(item.verdict, "plain")
    advice = f'<span class="advice">{escape(signs(item.advice))}</span>' if item.advice else ""
    mark = f'role="img" aria-label="{escape(item.verdict)}">{_MARKS.get(item.verdict, "·")}'
    odds = "" if item.p is None or math.isnan(item.p) else format_p(item.p)
    head = (
        f'<span class="mark {tone}" {mark}</span>'
        f'<span class="name">{escape(item.name)} <small class="{tone}">{escape(item.verdict)}</small></span>'
        f'<span class="says">{escape(signs(item.sentence))} {advice}</span>'
        f'<span class="against">{_scale(item, tone)}<small>{escape(odds)}</small></span>'
    )
    facts, charts = _details(item, name)
    equation = ASSUMPTIONS.get(item.name)
    formula = f'<div class="equation">{equation.html()}</div>' if equation else ""
    figures = "".join(chart.figure() for chart in charts if not chart.empty)
    value = " ".join(with_span(item.value, item.interval)).strip()
    measured = (
        f"<dt>measured</dt><dd>{escape(item.measure)}</dd><dt>value</dt><dd>{escape(value)}</dd>"
        f"<dt>threshold</dt><dd>{escape(number(item.threshold))}</dd>{facts}"
    )
    body = f'<div class="detail"><div><dl>{measured}</dl>{formula}</div><div>{figures}</div></div>'
    return Part(f'<details class="check"><summary>{head}</summary>{body}</details>', charts)


def _scale(item: CheckResult, tone: str) -> str:
    """Value and interval against the threshold; the words alone where the value is not known."""
    if math.isnan(item.value):
        return "<small>not measured</small>"
    middle = _place(item.value, item.threshold)
    bar = ""
    if item.interval is not None and not math.isnan(item.interval.low + item.interval.high):
        low, high = (_place(end, item.threshold) for end in (item.interval.low, item.interval.high))
        bar = f'<s style="left:{low:.4g}%;width:{high - low:.4g}%"></s>'
    text = f"{short(item.value)}, threshold {short(item.threshold)}"
    return (
        f'<span class="scale {tone}" role="img" aria-label="{escape(text)}"><i></i>{bar}'
        f'<b style="left:{middle:.4g}%"></b></span><small>{escape(text)}</small>'
    )


def _place(value: float, threshold: float) -> float:
    """Percent of the scale; negative estimates of what cannot be negative stand at its beginning."""
    if value == math.inf:
        return 100.0
    value = max(value, 0.0)
    return 100 * value / (value + threshold) if value + threshold > 0 else 0.0


def _details(item: CheckResult, name: str) -> tuple[str, list[Chart]]:
    """Numbers of one kind together: a chart of many, a line of text for each of few."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for label, value in item.detail:
        groups.setdefault(_kind(label), []).append((label, value))
    facts, charts = "", []
    for place, (kind, entries) in enumerate(groups.items()):
        if len(entries) < _MIN_POINTS:
            facts += "".join(
                f"<dt>{escape(label)}</dt><dd>{escape(number(value))}</dd>" for label, value in entries
            )
            continue
        values = [value for _, value in entries]
        charts.append(
            Chart(
                f"{name}-{place}",
                _TITLES.get(kind, kind[:1].upper() + kind[1:]),
                "",
                list(range(len(values))),
                "",
                [Series(kind, values, "stems")],
                scale=scale_for(values),
                labels=[label for label, _ in entries],
            )
        )
    return facts, charts


def _kind(label: str) -> str:
    """What a number is, without which one it is of: "rate of direction 3" is a "rate"."""
    return "pairs" if " and " in label else re.split(r" of | up to | \d", label)[0]
