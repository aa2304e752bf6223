"""Bound: what Theorem 3 allows without labels, beside what was measured, and what it is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from isojepa.certificates.bound import Bound
from isojepa.certificates.certificate import Certificate
from isojepa.certificates.rho import WORDS, BoundCurve
from isojepa.certificates.verdicts import listed
from isojepa.report.charts import Chart, Part, Reference, Series
from isojepa.report.formulas import LINES
from isojepa.report.lines import equation, lines, sentence_of, signs
from isojepa.report.numbers import number, percent, percent_span, short, span, with_span
from isojepa.report.sections.lead import lead, missing, section
from isojepa.statistics.intervals import Interval

_TIGHT = 0.1


@dataclass(frozen=True)
class Piece:
    """A part of a stacked bar: what it is, how long, and the number of its color."""

    name: str
    value: float
    color: int


def bound(certificate: Certificate) -> Part:
    """The section of the bound, or why there is none."""
    number_lines = [line for line in certificate.lines() if line.section == "bound"]
    measured = certificate.bound
    if measured is None:
        reason = certificate.bound_missing or "it was not asked for"
        head = lead("Bound", "There is no bound on the error here.")
        gap = missing(sentence_of(f"No bound: {signs(reason)}"), *_hint(certificate, reason))
        return Part(section("bound", head, gap, equation(LINES[_NAME], "Theorem 3"), lines(number_lines)))
    head = lead("Bound", _sentence(certificate, measured), **_key(certificate, measured))
    curve = [] if certificate.curve is None else [_curve(certificate, measured, certificate.curve)]
    figures = "".join(chart.figure() for chart in curve)
    figures += _against(certificate, measured) + _made_of(certificate, measured)
    charts = f'<div class="charts">{figures}</div>'
    return Part(
        section("bound", head, equation(LINES[_NAME], "Theorem 3"), charts, lines(number_lines)), curve
    )


_NAME = "bound D + (eps + D)^2"


def _curve(certificate: Certificate, measured: Bound, curve: BoundCurve) -> Chart:
    """What the bound would be for every correlation of the pairs, up to the whole variance."""
    high = [one if one <= 1 else None for one in curve.high]
    middle = [one if one <= 1 else None for one in curve.estimate]
    ends = "the promise holds for no ρ"
    if curve.ends is not None:
        ends = f"the promise ends at ρ = {curve.ends:.3g}"
    here = f"here ρ = {measured.rho:.4g}, {WORDS[certificate.rho_from or 'given']}"
    return Chart(
        "bound-rho",
        "The bound for every ρ",
        f"{ends}; {here}",
        curve.rho,
        "ρ",
        [
            Series("upper end", high, color=1),
            Series("estimate", middle, dashed=True, color=6),
            Series("here", _at(curve.rho, measured.rho, measured.per_dimension.high), "dots", color=2),
        ],
        unit="percent",
        zero=True,
        references=[Reference(curve.promise, "what a certificate promises at most")],
    )


def _at(places: Sequence[float], place: float, value: float) -> list[float | None]:
    """The value at the nearest of the places."""
    nearest = min(range(len(places)), key=lambda index: abs(places[index] - place))
    return [value if index == nearest and value <= 1 else None for index in range(len(places))]


def _hint(certificate: Certificate, reason: str) -> tuple[str, ...]:
    """What to pass to get a bound; nothing where no argument can help."""
    if "both views" in reason:
        return ("Pass the embeddings of the second views too.", "certify(h, next=h_next, rho=0.95)", _COMMAND)
    if "rho" not in reason:
        return ()
    if certificate.correlation is not None:
        rho_hint = "Pass the correlation of the latents across a pair, if you know it."
        return (rho_hint, "certify(..., rho=0.95)", "isojepa certify ... --rho 0.95")
    advice = "Pass the embeddings of the second view of each pair, and the correlation ρ of their latents."
    return (advice, "certify(h, next=h_next, rho=0.95)", _COMMAND)


_COMMAND = "isojepa certify h.npy --next h_next.npy --rho 0.95"


def _key(certificate: Certificate, measured: Bound) -> dict[str, str]:
    """The number of the section; that of a bound which means nothing would mislead."""
    if certificate.refuted and not measured.refuted and certificate.maximal is not None:
        value = certificate.maximal.value
        of = "a correlation across views that this ρ does not allow"
        return {"key": short(value.estimate), "span": span(value), "of": of, "tone": "poor"}
    if measured.refuted:
        of = "the alignment loss above that of a linear encoder"
        return {
            "key": f"δ = {short(measured.delta.estimate)}",
            "span": span(measured.delta),
            "of": of,
            "tone": "poor",
        }
    share = measured.per_dimension
    poor = certificate.unpaired or certificate.holds is False or _void(certificate)
    good = share.high <= _TIGHT and (certificate.recovery is not None or certificate.certified)
    key, ends = percent_span(share, share.high)
    return {
        "key": f"≤ {key}",
        "span": ends,
        "of": "of the variance may be wrong, by the upper end",
        "tone": "poor" if poor else "good" if good else "plain",
    }


def _void(certificate: Certificate) -> bool:
    """Whether the bound rests on an assumption that fails, with no labels that show more."""
    return certificate.recovery is None and bool(certificate.failed)


def _sentence(certificate: Certificate, measured: Bound) -> str:
    if measured.refuted:
        return "The bound means nothing here: δ lies below 0 beyond chance, so ρ or the world is another."
    if certificate.refuted:
        return (
            "The bound means nothing here: a function of the embedding correlates across views by more than "
            "ρ, so ρ is larger, or the latents are not Gaussian."
        )
    if certificate.unpaired:
        return (
            "The two views hardly correlate: their rows may belong to different pairs, and mean nothing then."
        )
    if certificate.holds is False:
        return "The measured error exceeds the bound: the world breaks one of the theorem’s assumptions."
    if measured.per_dimension.high >= 1:
        return "The bound allows more than the whole variance: it excludes nothing."
    if _void(certificate):
        return f"The bound rests on what does not hold here: {listed(certificate.failed)}."
    text = (
        f"If the latents are Gaussian with ρ = {measured.rho:.6g}, the embedding is a rotation of them up to "
        f"{percent(measured.per_dimension.high)} of the variance"
    )
    if certificate.holds:
        return f"{text}. The measured error lies within the bound."
    if certificate.rho_from == "data":
        return text + ". That ρ was found in the embedding itself: nothing bounds it from above."
    return text + ", and no label was used to find out."


def _against(certificate: Certificate, measured: Bound) -> str:
    """Two bars on one scale, the measured error and the bound; only the bound where nothing was measured."""
    if certificate.refuted:
        return ""
    rows = [
        ("Theorem 3’s bound, no labels used", "allowed", measured.bound),
        ("the sharper bound", "allowed", measured.sharper),
    ]
    recovery = certificate.recovery
    if recovery is not None and recovery.procrustes_error is not None:
        rows.insert(0, ("measured error", "measured", recovery.procrustes_error))
    reach = max((one.high for *_, one in rows if math.isfinite(one.high)), default=0.0)
    if not reach > 0:
        return ""
    bars = "".join(_bar(label, kind, one, reach) for label, kind, one in rows)
    title = "Error and bounds" if len(rows) > 2 else "The bounds"
    note = "squared distance to the best rotation, all dimensions together"
    return f'<figure class="versus"><h3>{title} <small>{note}</small></h3>{bars}</figure>'


def _bar(label: str, kind: str, interval: Interval, reach: float) -> str:
    low, middle, high = (
        100 * min(max(end, 0.0) / reach, 1.0) if not math.isnan(end) else 0.0
        for end in (interval.low, interval.estimate, interval.high)
    )
    text = "  ".join(with_span(interval.estimate, interval))
    return (
        f'<div class="versus-label">{escape(label)}<span>{escape(text)}</span></div>'
        f'<div class="versus-track"><div class="{kind}" style="width:{middle:.4g}%"></div>'
        f'<s style="left:{low:.4g}%;width:{high - low:.4g}%"></s></div>'
    )


def _made_of(certificate: Certificate, measured: Bound) -> str:
    """What the alignment loss and the bound consist of, as two stacked bars."""
    epsilon, d = measured.epsilon.estimate, measured.d_clipped
    trace = certificate.dim * certificate.mean_variance
    linear = 2 * (1 - measured.rho) * trace
    delta = measured.delta.estimate
    loss = [Piece("of every linear encoder", linear, 6), Piece("δ, above it", delta, 2)]
    if delta < 0:
        loss = [Piece("measured", linear + delta, 6), Piece("−δ, missing to a linear encoder’s", -delta, 5)]
    terms = [
        Piece("D, nonlinear", d, 2),
        Piece("ε², not white", epsilon**2, 1),
        Piece("2εD + D²", 2 * epsilon * d + d * d, 4),
    ]
    stacks = _stack("alignment loss of a pair", loss)
    note = f"ρ = {measured.rho:.6g}."
    if not certificate.refuted:
        stacks += _stack("bound D + (ε + D)²", terms)
        total = f"{number(d)} + ({number(epsilon)} + {number(d)})² = {number(measured.bound.estimate)}"
        note = f"ρ = {measured.rho:.6g}, ε = {number(epsilon)}, D = {number(d)}: the bound is {total}."
    if delta < 0:
        note += f" δ is {number(delta)}, below 0" + (" beyond chance." if measured.refuted else " by chance.")
    return (
        '<figure class="stacks"><h3>What it is made of <small>each bar by its own scale</small></h3>'
        f"{stacks}<figcaption>{escape(note)}</figcaption></figure>"
    )


def _stack(label: str, pieces: Sequence[Piece]) -> str:
    """One bar; pieces of no length are named but not drawn."""
    total = math.fsum(piece.value for piece in pieces)
    is_drawn = total > 0 and math.isfinite(total)
    boxes, keys = "", ""
    for piece in pieces:
        share = 100 * piece.value / total if is_drawn else 0.0
        color = f"--color:var(--line-{piece.color})"
        if share > 0:
            boxes += f'<div style="width:{share:.4g}%;{color}"></div>'
        keys += f'<span style="{color}">{escape(piece.name)} <b>{escape(number(piece.value))}</b></span>'
    return (
        f'<div class="versus-label">{escape(label)}<span>{escape(number(total))}</span></div>'
        f'<div class="stack">{boxes}</div><div class="legend">{keys}</div>'
    )
