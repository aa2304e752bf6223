"""Transition: what is known of A and B under actions."""

from isojepa.certificates.dynamics.certificate import DynamicsCertificate
from isojepa.report.charts import Part
from isojepa.report.lines import lines, signs
from isojepa.report.numbers import near_one, with_span
from isojepa.report.sections.lead import lead, notes, section

_TONES = {"true": "good", "linear": "good", "unclear": "fair"}


def transition(found: DynamicsCertificate | None) -> Part:
    """The section of the transition; nothing where there were no actions."""
    if found is None:
        return Part("")
    key, span = "", ""
    if found.linearity is not None:
        r2 = found.linearity.r2
        key, span = near_one(r2.estimate), with_span(r2.estimate, r2)[1]
    head = lead(
        "Transition",
        signs(found.sentence),
        key=key,
        span=span,
        of="R² of the next embedding from this one and the action, held out",
        tone=_TONES.get(found.verdict, "poor"),
    )
    footnotes = notes(signs(reason.sentence) for reason in found.reasons)
    return Part(section("transition", head, footnotes, lines(found.lines())))
