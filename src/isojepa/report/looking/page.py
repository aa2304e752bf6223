"""The page of a look: one self-contained HTML file.

It is `assets/look.html` with the style sheets and scripts beside it put inside. All thumbnails of the map are
one picture; what is drawn travels as JSON in a script element that the browser does not run. The page loads
nothing: its Content-Security-Policy forbids it to.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.io import write_text
from isojepa.report.colors import COLORS, polar_colors
from isojepa.report.looking import sections
from isojepa.report.looking.look import Look
from isojepa.report.looking.sections import rounded
from isojepa.report.looking.thumbnails import address, sheet
from isojepa.report.numbers import finite, short
from isojepa.report.page import bind, warning
from isojepa.report.sections.training import config_rows
from isojepa.report.template import asset, json_text, page
from isojepa.version import __version__

_STYLES = ("page.css", "lines.css", "look.css")
_SCRIPTS = ("start.js", "look.js", "atlas.js")
_FLAT = 1e-6  # of a box's longer side, below which the other is none
_LINES_TO_NEIGHBORS = 5  # neighbors that lines on the map lead to
_NUMBERS = {"probe": "linear probe", "knn": "20-NN", "rankme": "RankMe", "loss": "loss"}


def write_look(
    path: str | Path,
    look: Look,
    *,
    model: str,
    data: str,
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    status: str = "",
    reason: str = "",
) -> int:
    """Write the page of a look.

    Args:
        path: the HTML file to create or replace.
        look: what there is to see.
        model: its name.
        data: name of the pictures.
        config: what the model was made from; may be nested.
        metrics: what was last measured while it trained, by name.
        status: how its training ended; anything but "done" or "" is shown as a warning with `reason`.
        reason: one sentence when the run did not end well.

    Returns:
        The size of the page in bytes.
    """
    pieces = (
        sections.atlas(look),
        sections.neighbors(look),
        sections.maps(look),
        sections.attention(look),
    )
    pixels, columns = sheet(look.thumbnails)
    text = page(
        "look.html",
        {
            "css": asset(*_STYLES),
            "js": asset(*_SCRIPTS),
            "data": json_text(_drawn(look, columns)),
            "title": escape(f"{model} looks at {data}"),
            "badge": _badge(look),
            "verdict": bind(escape(_verdict(look, model))),
            "facts": escape(_facts(look, metrics or {})),
            "warning": warning(status, reason) + _collapse(look),
            "tiles": bind(_tiles(look)),
            "sections": bind("\n\n".join(pieces)),
            "sprite": address(pixels, photo=True),
            "config": config_rows({**(config or {}), "isojepa": __version__}),
        },
    )
    write_text(Path(path), text)
    return len(text.encode())


def _drawn(look: Look, columns: int) -> dict[str, Any]:
    """What the map's script draws; places are thousandths of the map's half."""
    labelled = look.labels is not None and len(look.classes) > 0
    return {
        "side": look.thumbnails.shape[1],
        "columns": columns,
        "names": list(look.names),
        "labels": look.labels.tolist() if look.labels is not None else None,
        "classes": list(look.classes) if labelled else [],
        "colors": class_colors(len(look.classes)) if labelled else [],
        "places": {"neighbors": _scaled(look.places), "axes": _scaled(look.plane.scores)},
        "aspect": {"neighbors": None, "axes": _aspect(look.plane.scores)},
        "order": look.order.tolist(),
        "nearest": look.nearest.ids[:, :_LINES_TO_NEIGHBORS].tolist(),
    }


def class_colors(count: int) -> list[str]:
    """A color for each class: those of lines for a few, hues at even distances for more.

    Example:
        >>> class_colors(2), len(set(class_colors(30)))
        (['#2f6db5', '#d1662a'], 30)
    """
    if count <= len(COLORS):
        return list(COLORS[:count])
    angles = 2 * np.pi * np.arange(count) / count
    rgb = polar_colors(np.stack((np.cos(angles), np.sin(angles)), 1))
    return ["#" + bytes(one).hex() for one in (255 * rgb).round().astype(np.uint8)]


def _scaled(points: np.ndarray) -> list[int]:
    """Flat x0, y0, x1, y1, ...: the middle of the box at 0, its halves 1000."""
    middle = (points.max(0) + points.min(0)) / 2
    half = np.abs(points - middle).max(0)
    half[half <= _FLAT * half.max()] = 1.0  # a line, or one point
    coordinates: list[int] = ((points - middle) / half * 1000).round().astype(int).ravel().tolist()
    return coordinates


def _aspect(points: np.ndarray) -> float:
    """Height of the box by its width, for a map whose two axes have one measure."""
    across, down = np.ptp(points, axis=0)
    return float(down / across) if across and down > _FLAT * across else 1.0


def _badge(look: Look) -> str:
    tone, words = ("poor", "collapsed") if look.collapsed else ("plain", "a look at the features")
    return f'<span class="badge {tone}">{words}</span>'


def _verdict(look: Look, model: str) -> str:
    if look.collapsed:
        return "All pictures have nearly the same features: this model has collapsed or was not trained."
    if look.agreement is not None:
        k = look.nearest.ids.shape[1]
        return (
            f"{rounded(look.agreement.share)} of the {k} nearest neighbors are of a picture's own class; "
            f"by chance it would be {rounded(look.agreement.chance)}."
        )
    pictures = "one picture" if len(look.names) == 1 else f"{len(look.names):,} pictures"
    return f"What {model} makes of {pictures}."


def _facts(look: Look, metrics: Mapping[str, Any]) -> str:
    facts = [f"{len(look.names):,} of {look.total:,} pictures"]
    if len(look.names) == look.total:
        facts = ["1 picture" if look.total == 1 else f"all {look.total:,} pictures"]
    if look.labels is not None:
        facts.append("1 class" if len(look.classes) == 1 else f"{len(look.classes):,} classes")
    facts += [f"seen at {look.size} × {look.size} pixels", f"{look.dim:,} features"]
    measured = [
        f"{words} {short(value)}"
        for name, words in _NUMBERS.items()
        if (value := finite(metrics.get(name))) is not None
    ]
    if measured:
        facts.append("when training ended: " + ", ".join(measured))
    return " · ".join(facts)


def _collapse(look: Look) -> str:
    if not look.collapsed:
        return ""
    return (
        '<p class="warning"><b>Collapsed:</b> the features of these pictures differ by '
        f"{escape(short(look.spread))} of their length. What is below shows rounding, not content.</p>"
    )


def _tiles(look: Look) -> str:
    """The sections at a glance."""
    agreed, attention_maps = look.agreement, look.attention
    tiles = [
        (
            "map",
            "All pictures",
            f"{len(look.names):,}",
            f"the two main axes have {rounded(sum(look.plane.shares))} of the variance",
        ),
        (
            "neighbors",
            "Neighbors",
            rounded(agreed.share) if agreed else "",
            f"of the same class; by chance {rounded(agreed.chance)}" if agreed else "no classes to compare",
        ),
        (
            "maps",
            "What is where",
            "" if look.maps is None else "{1} × {2}".format(*look.maps.first.shape),
            "no maps of positions" if look.maps is None else "positions in three colors",
        ),
        (
            "attention",
            "Where [CLS] looks",
            rounded(float(attention_maps.covered[0])) if attention_maps else "",
            f"of the patches hold {rounded(attention_maps.share)} of the attention"
            if attention_maps
            else "no [CLS] attention",
        ),
    ]
    return "".join(
        f'<a class="tile plain" href="#{name}"><span>{escape(title)}</span><b>{escape(value or "–")}</b>'
        f"<small>{escape(words)}</small></a>"
        for name, title, value, words in tiles
    )
