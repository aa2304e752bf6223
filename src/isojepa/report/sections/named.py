"""Identified latents: components of the embedding that are latents of their own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isojepa.certificates.named import IdentifiedLatents
from isojepa.report.charts import Chart, Part, Series, grid
from isojepa.report.glance import share_tone
from isojepa.report.lines import lines, signs
from isojepa.report.sections.lead import lead, notes, section

if TYPE_CHECKING:
    from isojepa.unmixing import Component

MAX_COMPONENTS = 64  # of a chart


def named(found: IdentifiedLatents | None) -> Part:
    """The section of identified latents; empty unless requested."""
    if found is None:
        return Part("")
    count, of = found.count, len(found.components)
    head = lead(
        "Identified latents",
        signs(found.verdict),
        key=f"{count} of {of}" if of else "",
        of="components identified, up to their signs",
        tone=named_tone(found),
    )
    charts = _charts(found.components[:MAX_COMPONENTS])
    footnotes = notes(signs(note) for note in found.notes())
    return Part(section("named", head, footnotes, grid(charts), lines(found.lines())), charts)


def named_tone(found: IdentifiedLatents) -> str:
    """Good where all components are identified; plain where none can be."""
    if not found.components or not found.count:
        return "plain"
    return "good" if found.count == len(found.components) else "fair"


def match_tone(found: IdentifiedLatents) -> str:
    """Of the mean correlation with the latents; components of a block need not have any."""
    if found.match is None or found.count < len(found.components):
        return "plain"
    return share_tone(found.match.linear.estimate)


def _charts(components: "Sequence[Component]") -> list[Chart]:
    """What identifies components: their correlation across a pair, and their departure from normal."""
    places = [one.number for one in components]
    labels = [f"component {one.number}" for one in components]

    def chart(name: str, title: str, note: str, values: Sequence[float | None]) -> Chart:
        pairs = list(zip(components, values, strict=True))
        series = [
            Series(
                "identified", [value if one.identified else None for one, value in pairs], "dots", color=1
            ),
            Series(
                "in a block", [None if one.identified else value for one, value in pairs], "dots", color=0
            ),
        ]
        shown = [one for one in series if any(value is not None for value in one.values)]
        return Chart(f"named-{name}", title, note, places, "component", shown, labels=labels, zero=True)

    correlations = [one.correlation for one in components]
    departures = [one.departure for one in components]
    return [
        chart("pair", "Correlation across a pair", "rates identify components", correlations),
        chart("shape", "Departure from normal", "shapes identify components", departures),
    ]
