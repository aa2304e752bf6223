"""Named latents: which axes of the embedding are latents of their own, and what is known of each."""

from collections.abc import Sequence

from isojepa.certificates.named import NamedAxis, NamedLatents
from isojepa.report.charts import Chart, Part, Series, grid
from isojepa.report.glance import share_tone
from isojepa.report.lines import lines, signs
from isojepa.report.sections.lead import lead, notes, section

_SHOWN = 64  # axes of a chart


def named(found: NamedLatents | None) -> Part:
    """The section of identified latents; empty unless requested."""
    if found is None:
        return Part("")
    count, of = found.count, len(found.axes)
    head = lead(
        "Named latents",
        signs(found.verdict),
        key=f"{count} of {of}" if of else "",
        of="axes told apart, up to their signs",
        tone=named_tone(found),
    )
    charts = _charts(found.axes[:_SHOWN])
    footnotes = notes(signs(note) for note in found.notes())
    return Part(section("named", head, footnotes, grid(charts), lines(found.lines())), charts)


def named_tone(found: NamedLatents) -> str:
    """Good where all axes are named; that none can be is no fault."""
    if not found.axes or not found.count:
        return "plain"
    return "good" if found.count == len(found.axes) else "fair"


def match_tone(found: NamedLatents) -> str:
    """Of the mean correlation with the latents; axes of a block need not have any."""
    if found.match is None or found.count < len(found.axes):
        return "plain"
    return share_tone(found.match.linear.estimate)


def _charts(axes: Sequence[NamedAxis]) -> list[Chart]:
    """What identifies axes: their correlation across a pair, and how far they are from normal."""
    places = [axis.number for axis in axes]
    labels = [f"axis {axis.number}" for axis in axes]

    def chart(name: str, title: str, note: str, values: Sequence[float | None]) -> Chart:
        apart = [value if axis.named else None for axis, value in zip(axes, values, strict=True)]
        together = [None if axis.named else value for axis, value in zip(axes, values, strict=True)]
        series = [Series("named", apart, "dots", color=1), Series("in a block", together, "dots", color=0)]
        drawn_series = [one for one in series if any(value is not None for value in one.values)]
        return Chart(f"named-{name}", title, note, places, "axis", drawn_series, labels=labels, zero=True)

    return [
        chart(
            "pair", "Correlation across a pair", "rates identify axes", [axis.correlation for axis in axes]
        ),
        chart(
            "shape",
            "Departure from a normal law",
            "shapes identify axes",
            [axis.departure for axis in axes],
        ),
    ]
