"""What a reader sees first: the badge of the grade, and four tiles that lead to the four sections."""

from dataclasses import dataclass
from html import escape

from isojepa.certificates.certificate import Certificate
from isojepa.certificates.verdicts import listed
from isojepa.report.numbers import near_one, percent

_GRADES = {
    "rotation": "good",
    "bounded": "good",
    "linear": "fair",
    "partial": "fair",
    "conditional": "fair",
    "unproven": "plain",
}
_SHOWN = {"none": "not recovered"}  # a grade that says little by itself
_GOOD, _FAIR = 0.99, 0.9  # R^2 and linear shares
_TIGHT = 0.1  # share of the variance that a useful bound allows


@dataclass(frozen=True)
class Tile:
    """One thing to know: its section, a number, what that is, and a tone (good, fair, poor or plain)."""

    section: str
    value: str
    says: str
    tone: str


def badge(certificate: Certificate) -> str:
    """The grade in its color."""
    tone = _GRADES.get(certificate.grade, "poor")
    return f'<span class="badge {tone}">{escape(_SHOWN.get(certificate.grade, certificate.grade))}</span>'


def tiles(certificate: Certificate) -> str:
    """The four tiles."""
    summary_tiles = (
        _recovered(certificate),
        _bound(certificate),
        _spectrum(certificate),
        _assumptions(certificate),
    )
    return "".join(
        f'<a class="tile {tile.tone}" href="#{tile.section}"><span>{tile.section.capitalize()}</span>'
        f"<b>{escape(tile.value)}</b><small>{escape(tile.says)}</small></a>"
        for tile in summary_tiles
    )


def share_tone(share: float) -> str:
    """The tone of an R^2 or of a linear share; of one that is not known, plain."""
    if share >= _GOOD:
        return "good"
    return "fair" if share >= _FAIR else "poor" if share < _FAIR else "plain"


def tally(certificate: Certificate) -> dict[str, list[str]]:
    """Names of the assumptions by verdict."""
    counts: dict[str, list[str]] = {}
    for item in certificate.assumptions:
        counts.setdefault(item.verdict, []).append(item.name)
    return counts


def troubles(certificate: Certificate) -> str:
    """Which assumptions fail and which are unclear; empty if all hold."""
    counts, parts = tally(certificate), []
    for verdict, one, several in (("fails", "fails", "fail"), ("unclear", "is unclear", "are unclear")):
        names = counts.get(verdict, [])
        if names:
            parts.append(f"{listed(names)} {one if len(names) == 1 else several}")
    return "; ".join(parts)


def _recovered(c: Certificate) -> Tile:
    if c.recovery is None:
        return Tile("recovered", "–", "no latents to compare with", "plain")
    r2 = c.recovery.r2_h_to_z.estimate
    return Tile("recovered", f"R² {near_one(r2)}", "of the latents, by a linear map", share_tone(r2))


def _bound(c: Certificate) -> Tile:
    if c.bound is None:
        unknown = c.correlation is not None and c.bound_lacks == "rho"
        return Tile("bound", "–", "ρ is not known" if unknown else "none for this source", "plain")
    if c.refuted:
        return Tile("bound", "refuted", "the pairs contradict this ρ", "poor")
    if c.unpaired:
        return Tile("bound", "unpaired", "the two views hardly correlate", "poor")
    if c.holds is False:
        return Tile("bound", "exceeded", "the measured error is above it", "poor")
    high = c.bound.per_dimension.high
    if high >= 1:
        return Tile("bound", "excludes nothing", "it allows more than the whole variance", "plain")
    tone = "good" if c.certified and high <= _TIGHT else "fair"
    says = "of the variance wrong, without labels"
    if c.failed and c.recovery is None:
        says, tone = f"if {listed(c.failed)} held", "poor"
    elif c.rho_from == "data":
        says = f"if ρ is at most {c.bound.rho:.3g}"
    return Tile("bound", f"≤ {percent(high)}", says, tone)


def _spectrum(c: Certificate) -> Tile:
    if c.spectrum is not None:
        share = c.spectrum.linear.estimate
        says = "linear in the latents"
        if c.lags is not None and c.lags.identifiable:
            says += f"; {percent(c.lags.linear.estimate)} from the decay alone"
        return Tile("spectrum", percent(share), says, share_tone(share))
    if c.lags is None:
        needs = "needs latents or trajectories" if c.recovery is None else "not measured; see below"
        return Tile("spectrum", "–", needs, "plain")
    if not c.lags.identifiable:
        return Tile("spectrum", "cannot be told", "from how the embedding decays", "plain")
    share = c.lags.linear.estimate
    return Tile("spectrum", percent(share), "linear, without labels", share_tone(share))


def _assumptions(c: Certificate) -> Tile:
    if not c.assumptions:
        return Tile("assumptions", "–", "not checked", "plain")
    counts = tally(c)
    tone = "poor" if "fails" in counts else "fair" if "unclear" in counts else "good"
    value = f"{len(counts.get('holds', []))} of {len(c.assumptions)} hold"
    return Tile("assumptions", value, troubles(c) or "on the " + measured_on(c), tone)


def measured_on(c: Certificate) -> str:
    """What the assumptions were measured on; where that differs, the exceptions by name."""
    of = c.assumptions[0].of
    others = [item for item in c.assumptions if item.of != of]
    return of + (f"; {listed([item.name for item in others])} on the {others[0].of}" if others else "")
