"""Sections that both pages have: the points before and after the map, and the neighbors that changed."""

from html import escape

import numpy as np

from isojepa.report.aligning.neighbors import Changed
from isojepa.report.aligning.page import Part, note, p_text, r2_text
from isojepa.report.aligning.planes import Paired, Planes, planes
from isojepa.report.aligning.states import States, cut
from isojepa.report.glance import share_tone
from isojepa.report.looking.page import class_colors
from isojepa.report.looking.sections import rounded
from isojepa.report.numbers import percent_span
from isojepa.report.sections.lead import lead, missing, notes, section
from isojepa.report.sections.recovered import figures

_NAME = 34  # letters of an encoder's name above a panel
_WORSE = 0.1  # of R^2 in the plane
_CLASSES = 12  # named in the color legend


def picture(shown: Paired, names: tuple[str, str], states: States, reason: str = "") -> Part:
    """The same states in both planes, before and after the map.

    Args:
        shown: the rows.
        names: of the encoders.
        states: their labels, if any, are the colors.
        reason: why there is no map, if there is none.
    """
    labels = None if states.labels is None else states.labels[shown.rows]
    figure = planes(shown, (cut(names[0], _NAME), cut(names[1], _NAME)), labels, states.classes)
    sentence = (
        "The same states in both. Lines lead from where the first has a state, a ring, to where the second "
        "has it."
    )
    key = {}
    if figure.explained is not None:
        key = {
            "key": f"R² {r2_text(figure.explained)}",
            "of": "of the first’s plane, by the second after the map",
            "tone": share_tone(figure.explained),
        }
    colors = "their place in the first" if labels is None else "class"
    words = (
        f"{len(shown.rows):,} states, colored by {colors}. The plane of its two principal axes holds "
        f"{rounded(figure.share)} of the first’s variance. "
    )
    if shown.back is not None:
        words += (
            "After: W was fitted on four fifths of the states and undone on the fifth that was left out, for "
            "each fifth in turn. "
        )
    if figure.panels.outside:
        lie = "state lies" if figure.panels.outside == 1 else "states lie"
        words += f"{figure.panels.outside:,} {lie} outside a square. "
    words += "Point at one to see it, and its neighborhood, in every panel."
    html = section(
        "picture",
        lead("Before and after" if shown.back is not None else "Both embeddings", sentence, **key),
        "" if labels is None else _classes(states),
        f'<div class="panels">{figures(figure.panels)}</div>',
        '<div class="under"><output id="readout"></output></div>',
        missing(reason) if reason else "",
        notes(_magnified(figure)),
        note(words),
    )
    return Part(html, panels=figure.panels)


def neighbors_that_changed(
    found: Changed | None, shown: Paired, names: tuple[str, str], states: States
) -> Part:
    """For some states the nearest others in both embeddings, those in both marked."""
    title = "Neighbors that changed"
    if found is None:
        return Part(
            section(
                "neighbors",
                lead(title, "There are too few states to have neighbors."),
            )
        )
    value, ends = percent_span(found.overlap.interval)
    chance = found.overlap.chance or 0.0
    where = "after the map" if found.mapped else "each in its own coordinates"
    sentence = (
        f"Of the {found.k} nearest others of a state in the first, {value} are among its {found.k} nearest "
        f"in the second, {where}; by chance it would be {rounded(chance)}."
    )
    images = states.images(
        [
            int(shown.rows[k])
            for k in np.unique(np.concatenate((found.states, found.first.ravel(), found.second.ravel())))
        ]
    )
    rows = "".join(
        _row(found, place, shown, (cut(names[0], 24), cut(names[1], 24)), states, images)
        for place in range(len(found.states))
    )
    raw = f" Without the map it is {rounded(found.raw.value)}." if found.mapped else ""
    if found.direct is not None:
        raw += f" After a map that was fitted back rather than undone it is {rounded(found.direct.value)}."
    p = found.overlap.p
    words = (
        "From the state whose neighbors changed most to the one whose changed least, of "
        f"{len(shown.rows):,}, at even distances. Green: a neighbor in both.{raw}"
    )
    if p is not None:
        words += f" {p_text(p)} that random pairs agree as much."
    return Part(
        section(
            "neighbors",
            lead(title, sentence, key=value, span=ends, of=f"of {found.k} neighbors are kept"),
            f'<div class="rows">{rows}</div>',
            note(words),
        )
    )


def _magnified(drawn: Planes) -> list[str]:
    """What to know where undoing W is much worse than a map back."""
    if drawn.explained is None or drawn.direct is None or drawn.direct - drawn.explained < _WORSE:
        return []
    return [
        f"Undoing W magnifies what W does not explain: R² {r2_text(drawn.explained)} in this plane. A map "
        f"that was fitted back, from the second to the first, has {r2_text(drawn.direct)}: where R² is not "
        "near 1, prefer it."
    ]


def _row(
    found: Changed,
    place: int,
    shown: Paired,
    names: tuple[str, str],
    states: States,
    images: dict[int, str],
) -> str:
    query = int(shown.rows[found.states[place]])
    caption = states.name(query)
    strips = ""
    for name, near, other in (
        (names[0], found.first[place], found.second[place]),
        (names[1], found.second[place], found.first[place]),
    ):
        common = set(other.tolist())
        cells = "".join(
            f'<li class="{"good" if k in common else "plain"}">{states.cell(int(shown.rows[k]), images)}'
            f"{'<b>✓</b>' if k in common else ''}</li>"
            for k in near.tolist()
        )
        strips += f"<dt>{escape(name)}</dt><dd><ol>{cells}</ol></dd>"
    count = f"{int(found.common[place])} of {found.k} kept"
    image = states.cell(query, images) if query in images else ""
    return (
        f'<div class="state"><figure class="query">{image}<figcaption title="{escape(caption)}"><b>'
        f"{escape(cut(caption, 40))}</b> {count}</figcaption></figure><dl>{strips}</dl></div>"
    )


def _classes(states: States) -> str:
    """Which color is which class, for a few of them."""
    if len(states.classes) > _CLASSES:
        return note(f"{len(states.classes):,} classes, each with its color.")
    keys = "".join(
        f'<span style="--color:{color}">{escape(cut(name, 40))}</span>'
        for name, color in zip(states.classes, class_colors(len(states.classes)), strict=True)
    )
    return f'<div class="legend">{keys}</div>'
