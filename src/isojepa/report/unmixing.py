"""The page of an unmixing: verdict, a table of the axes, and for each what was seen of it.

Charts of an axis: its law beside the normal one; its warp from the axis y to the latent z, with intervals;
the spread of its increments along it, before straightening and after; and with latents its partner.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.named import NamedAxis, NamedLatents
from isojepa.report.aligning.page import Part, cell, note, write_parts
from isojepa.report.charts import Chart, Reference, Series, grid
from isojepa.report.glance import Tile
from isojepa.report.lines import lines, sentence_of, signs
from isojepa.report.numbers import near_one, short, signed
from isojepa.report.sections.lead import lead, notes, section
from isojepa.report.sections.named import match_tone, named_tone
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa.unmixing import Axis, Unmixing

_AXES = 16  # with charts
_ROWS = 20_000  # that charts are made of
_BINS = 40  # of a law
_REACH = 4.0  # deviations that are shown of it
_PIECES = 20  # along an axis, of equal counts
_POINTS = 400  # of an axis against its latent


def write_unmixing(
    path: str | Path,
    found: Unmixing,
    named: NamedLatents,
    embeddings: Embeddings,
    *,
    title: str,
    config: Mapping[str, Any] | None = None,
) -> int:
    """Write the page and return its size in bytes.

    Args:
        path: the HTML file to create or replace.
        found: the axes.
        named: what is known of them.
        embeddings: that they were found in, with latents where they are known; some rows are shown.
        title: names the source.
        config: what it was made from.
    """
    some = embeddings.some(_ROWS)
    y = found.transform(some.h)
    rows = _Rows(y, None if some.h_next is None else found.transform(some.h_next), some.z)
    parts = [_table(named), _numbers(named)]
    parts += [
        _axis(axis, axis_summary, rows)
        for axis, axis_summary in list(zip(found.axes_, named.axes, strict=True))[:_AXES]
    ]
    if len(named.axes) > _AXES:
        parts.append(
            Part(section("more", note(f"{len(named.axes) - _AXES} more axes are in the table alone.")))
        )
    count, of = named.count, len(named.axes)
    first, _, more = signs(named.verdict).partition(". ")
    return write_parts(
        path,
        parts,
        title=title,
        badge=(named_tone(named), f"{count} of {of} named"),
        verdict=sentence_of(first),
        more=[more] if more else [],
        facts=(
            f"{named.rows:,} rows",
            f"{of} axes" if of != 1 else "1 axis",
            "pairs" if embeddings.paired else "single views",
        ),
        tiles=_tiles(named),
        config=config or {},
    )


def _tiles(named: NamedLatents) -> dict[str, Tile]:
    cues = ", ".join(f"{count} by {cue}" for cue, count in named.cues.items()) or "nothing identifies them"
    tiles = {"Named": Tile("axes", f"{named.count} of {len(named.axes)}", cues, named_tone(named))}
    straight = f"{named.straightened} of {len(named.axes)}"
    says = "by one method" if named.straightened else "only axes with a name can be"
    if named.agreement is not None:
        says = f"two methods agree by {near_one(named.agreement)}"
    tiles["Straightened"] = Tile("numbers", straight, says, "plain")
    if named.match is not None:
        linear, before = named.match.linear.estimate, named.match.linear_before.estimate
        says = f"mean correlation with the latents; {near_one(before)} as found"
        tiles["Latents"] = Tile("numbers", near_one(linear), says, match_tone(named))
    return tiles


def _table(named: NamedLatents) -> Part:
    columns = [("axis", True), ("told apart", False)]
    columns += [(name, True) for name in ("error, rad", "across a pair", "departure")]
    columns += [(name, True) for name in ("the world’s", "dependence")]
    columns += [("straightened by", False), ("agreement", True)]
    if named.match is not None:
        columns += [(name, True) for name in ("latent", "rank", "linear")]
    rows = [_row(axis, named.match is not None) for axis in named.axes]
    words = (
        "Error: of the direction. Across a pair: correlation of the axis with itself in the second view. "
        "Departure: from a normal law, 1 − corr(y, normal scores)²; the world’s: that of the function of "
        "the axis which predicts itself best, to which no encoder adds. Dependence: the largest correlation "
        "of a function of it with one of another. Agreement: of two ways to straighten. Rank and linear: "
        "correlation with its own latent, after straightening."
    )
    head = lead("Axes", "What identifies each axis, and how surely.")
    table = table_section(ShownTable("table", "", columns, rows))
    return Part(section("axes", head, table, note(words)))


def _row(axis: NamedAxis, matched: bool) -> list[Shown]:
    block = f"block {axis.block[0]} to {axis.block[-1]}" if len(axis.block) > 1 else "by nothing"
    cells = [
        Shown(str(axis.number), axis.number),
        Shown(f"by {axis.cue}" if axis.named else block),
        _number(axis.error, short),
        _number(axis.correlation, short),
        _number(axis.departure, short),
        _number(axis.world_departure, short),
        _number(axis.dependence, short),
        Shown(axis.method or "–"),
        _number(axis.agreement, near_one),
    ]
    if not matched:
        return cells
    latent = cell(None) if axis.latent is None else Shown(str(axis.latent), axis.latent)
    return [*cells, latent, _number(axis.rank, _correlation), _number(axis.linear, _correlation)]


def _number(value: float | None, text: Callable[[float], str]) -> Shown:
    return cell(None) if value is None else Shown(text(value), value)


def _correlation(value: float) -> str:
    return signed(f"{value:.4f}")


def _numbers(named: NamedLatents) -> Part:
    words = "What holds of all axes together."
    footnotes = notes(signs(text) for text in named.notes())
    return Part(section("numbers", lead("Together", words), footnotes, lines(named.lines())))


class _Rows:
    """Some rows along all axes: of both views, and the latents."""

    def __init__(self, y: np.ndarray, y_next: np.ndarray | None, z: np.ndarray | None) -> None:
        self.y, self.y_next, self.z = y, y_next, z


def _axis(axis: Axis, told: NamedAxis, rows: _Rows) -> Part:
    charts = [_law(axis, rows), _warp(axis), _spread(axis, rows), _partner(axis, told, rows)]
    charts_shown = [chart for chart in charts if chart is not None]
    key = "" if told.latent is None or told.linear is None else near_one(abs(told.linear))
    head = lead(
        f"Axis {axis.number}",
        sentence_of(signs(told.sentence)),
        key=key,
        of=f"correlation with latent {told.latent}" if key else "",
    )
    return Part(section(f"axis-{axis.number}", head, grid(charts_shown)), charts_shown)


def _law(axis: Axis, rows: _Rows) -> Chart:
    """The density of an axis beside the normal one."""
    y = rows.y[:, axis.number]
    edges = np.linspace(max(-_REACH, y.min()), min(_REACH, y.max()), _BINS + 1)
    counts = np.histogram(y, edges)[0]
    centers = (edges[1:] + edges[:-1]) / 2
    density = counts / (len(y) * np.diff(edges))
    normal = np.exp(-(centers**2) / 2) / np.sqrt(2 * np.pi)
    series = [
        Series("axis", density.tolist()),
        Series("normal", normal.tolist(), dashed=True, color=0),
    ]
    return Chart(
        f"law-{axis.number}",
        "Law",
        "density, and that of a normal law",
        centers.tolist(),
        "y",
        series,
        zero=True,
    )


def _warp(axis: Axis) -> Chart | None:
    """The warp with its interval."""
    if axis.warp is None:
        return None
    warp = axis.warp
    series = [
        Series("z", warp.z.tolist(), ends=(warp.low.tolist(), warp.high.tolist())),
        Series("as found", warp.y.tolist(), dashed=True, color=0),
    ]
    return Chart(
        f"warp-{axis.number}",
        "Warp",
        f"from the axis y to the latent z, by {warp.method}",
        warp.y.tolist(),
        "y",
        series,
    )


def _spread(axis: Axis, rows: _Rows) -> Chart | None:
    """Deviation of the increments along the axis, in units of that of all of them."""
    if rows.y_next is None:
        return None
    y, after = rows.y[:, axis.number], rows.y_next[:, axis.number]
    piece = np.argsort(np.argsort(y)) * _PIECES // len(y)
    series = [Series("as found", _deviations(after - y, piece), color=0)]
    if axis.warp is not None:
        straight = _deviations(axis.warp(after) - axis.warp(y), piece)
        series.append(Series("straightened", straight, color=1))
    places = [float(y[piece == at].mean()) for at in range(_PIECES)]
    return Chart(
        f"spread-{axis.number}",
        "Spread of increments",
        "local deviation over the mean one; flat where diffusion is constant, but for the ends",
        places,
        "y",
        series,
        zero=True,
        references=(Reference(1.0),),
    )


def _deviations(steps: np.ndarray, piece: np.ndarray) -> list[float | None]:
    """Of the steps in each piece, in units of their root mean square; gaps where nothing moves."""
    each = [float(steps[piece == at].std()) for at in range(_PIECES)]
    scale = float(np.sqrt(np.square(each).mean()))
    return [one / scale if scale > 0 else None for one in each]


def _partner(axis: Axis, told: NamedAxis, rows: _Rows) -> Chart | None:
    """The latent that belongs to an axis, over the axis."""
    if rows.z is None or told.latent is None:
        return None
    chosen = np.linspace(0, len(rows.y) - 1, min(_POINTS, len(rows.y))).round().astype(int)
    y = rows.y[chosen, axis.number]
    places = y if axis.warp is None else axis.warp(y)
    order = np.argsort(places, kind="stable")
    z = rows.z[chosen, told.latent][order]
    across = "axis, straightened" if axis.warp is not None else "axis"
    return Chart(
        f"partner-{axis.number}",
        f"Latent {told.latent}",
        "over the axis; a line up to noise, if the axis is the latent",
        places[order].tolist(),
        across,
        [Series(f"latent {told.latent}", z.tolist(), "dots")],
    )
