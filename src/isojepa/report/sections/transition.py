"""Transition: what is known of A and B under actions."""

from isojepa.certificates.transition import DynamicsCertificate
from isojepa.report.charts import Part
from isojepa.report.lines import lines, signs
from isojepa.report.numbers import near_one, with_span
from isojepa.report.sections.lead import lead, notes, section

_TONES = {"true": "good", "linear": "good", "unclear": "fair"}


def transition(certificate: DynamicsCertificate | None) -> Part:
    """The section of the transition; nothing where there were no actions."""
    if certificate is None:
        return Part("")
    key, span = "", ""
    if certificate.r2 is not None:
        r2 = certificate.r2
        key, span = near_one(r2.estimate), with_span(r2.estimate, r2)[1]
    head = lead(
        "Transition",
        signs(certificate.sentence),
        key=key,
        span=span,
        of="R² of the next embedding from this one and the action, held out",
        tone=_TONES.get(certificate.verdict, "poor"),
    )
    footnotes = notes(signs(reason.sentence) for reason in certificate.reasons)
    return Part(section("transition", head, footnotes, lines(certificate.lines())))
