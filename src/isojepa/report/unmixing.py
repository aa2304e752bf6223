"""The page of an unmixing: verdict, a table of the components, and charts of each.

Charts of a component: its density beside the normal one; its map to the latent z, with intervals; the
spread of its increments, before and after linearization; and with latents its partner.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.named import IdentifiedLatents
from isojepa.certificates.pairs import PairRows
from isojepa.report.aligning.page import Part, cell, note, write_parts
from isojepa.report.charts import Chart, Reference, Series, grid
from isojepa.report.glance import Tile
from isojepa.report.lines import lines, sentence_of, signs
from isojepa.report.numbers import near_one, short, signed
from isojepa.report.sections.lead import lead, notes, section
from isojepa.report.sections.named import match_tone, named_tone
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa.unmixing import Component, Partner

MAX_COMPONENTS = 16  # with charts
MAX_ROWS = 20_000  # of the charts
_BINS = 40  # of a law
_REACH = 4.0  # deviations that are shown of it
_PIECES = 20  # along an axis, of equal counts
_POINTS = 400  # of an axis against its latent


def write_unmixing(
    path: str | Path,
    named: IdentifiedLatents,
    pairs: PairRows,
    *,
    title: str,
    config: Mapping[str, Any] | None = None,
) -> int:
    """Write the page and return its size in bytes.

    Args:
        path: the HTML file to create or replace.
        named: a fitted unmixing.
        pairs: its rows, with latents where they are known; the page shows some of them.
        title: names the source.
        config: what it was made from.
    """
    some = pairs.sample(MAX_ROWS)
    if named.unmixing is None:
        raise ValueError("named must hold a fitted unmixing, got none")
    transform = named.unmixing.transform
    rows = _Rows(transform(some.h), None if some.h_next is None else transform(some.h_next), some.z)
    parts = [_table(named), _numbers(named)]
    parts += [_component(one, named, rows) for one in named.components[:MAX_COMPONENTS]]
    if len(named.components) > MAX_COMPONENTS:
        rest = f"{len(named.components) - MAX_COMPONENTS} more components are in the table alone."
        parts.append(Part(section("more", note(rest))))
    count, of = named.count, len(named.components)
    first, _, more = signs(named.verdict).partition(". ")
    return write_parts(
        path,
        parts,
        title=title,
        badge=(named_tone(named), f"{count} of {of} identified"),
        verdict=sentence_of(first),
        more=[more] if more else [],
        facts=(
            f"{named.rows:,} rows",
            f"{of} components" if of != 1 else "1 component",
            "pairs" if pairs.paired else "single views",
        ),
        tiles=_tiles(named),
        config=config or {},
    )


def _tiles(named: IdentifiedLatents) -> dict[str, Tile]:
    total = len(named.components)
    phrases = ", ".join(f"{count} by {name}" for name, count in named.identified_by.items())
    detail = phrases or "nothing identifies them"
    tiles = {"Identified": Tile("axes", f"{named.count} of {total}", detail, named_tone(named))}
    detail = "by one method" if named.linearized else "only identified components can be"
    if named.agreement is not None:
        detail = f"two methods agree by {near_one(named.agreement)}"
    tiles["Linearized"] = Tile("numbers", f"{named.linearized} of {total}", detail, "plain")
    if named.match is not None and named.match_before is not None:
        linear, before = named.match.linear.estimate, named.match_before.linear.estimate
        detail = f"mean correlation with the latents; {near_one(before)} as found"
        tiles["Latents"] = Tile("numbers", near_one(linear), detail, match_tone(named))
    return tiles


def _table(named: IdentifiedLatents) -> Part:
    columns = [("component", True), ("identified", False)]
    columns += [(name, True) for name in ("error, rad", "across a pair", "departure")]
    columns += [(name, True) for name in ("the world’s", "dependence")]
    columns += [("linearized by", False), ("agreement", True)]
    if named.match is not None:
        columns += [(name, True) for name in ("latent", "rank", "linear")]
    rows = [_row(named, one) for one in named.components]
    words = (
        "Error: of the direction. Across a pair: its correlation with itself in the second view. "
        "Departure: from a normal law, 1 − corr(y, normal scores)²; the world’s: that of the function of "
        "it which predicts itself best, to which no encoder adds. Dependence: the largest correlation "
        "of a function of it with one of another. Agreement: of two ways to linearize. Rank and linear: "
        "correlation with its own latent, after linearization."
    )
    head = lead("Components", "What identifies each component, and how surely.")
    table = table_section(ShownTable("table", "", columns, rows))
    return Part(section("axes", head, table, note(words)))


def _row(named: IdentifiedLatents, one: Component) -> list[Shown]:
    block = f"block {one.block[0]} to {one.block[-1]}" if len(one.block) > 1 else "by nothing"
    to_latent, partner = one.to_latent, named.partner(one)
    cells = [
        Shown(str(one.number), one.number),
        Shown(f"by {one.identified_by}" if one.identified else block),
        _number(one.error if one.identified else None, short),
        _number(one.correlation, short),
        _number(one.departure, short),
        _number(one.world_departure, short),
        _number(one.dependence, short),
        Shown("–" if to_latent is None else to_latent.method),
        _number(None if to_latent is None else to_latent.agreement, near_one),
    ]
    if named.match is None:
        return cells
    if partner is None:
        return [*cells, *(cell(None) for _ in range(3))]
    latent = Shown(str(partner.latent), partner.latent)
    return [*cells, latent, _number(partner.rank, _correlation), _number(partner.linear, _correlation)]


def _number(value: float | None, text: Callable[[float], str]) -> Shown:
    return cell(None) if value is None else Shown(text(value), value)


def _correlation(value: float) -> str:
    return signed(f"{value:.4f}")


def _numbers(named: IdentifiedLatents) -> Part:
    words = "Numbers of all components together."
    footnotes = notes(signs(text) for text in named.notes())
    return Part(section("numbers", lead("Together", words), footnotes, lines(named.lines())))


class _Rows:
    """Some rows of all components, in both views, and the latents."""

    def __init__(self, y: np.ndarray, y_next: np.ndarray | None, z: np.ndarray | None) -> None:
        self.y, self.y_next, self.z = y, y_next, z


def _component(one: Component, named: IdentifiedLatents, rows: _Rows) -> Part:
    partner = named.partner(one)
    charts = [_law(one, rows), _warp(one), _spread(one, rows), _partner(one, partner, rows)]
    charts_shown = [chart for chart in charts if chart is not None]
    head = lead(
        f"Component {one.number}",
        sentence_of(signs(named.sentence(one))),
        key="" if partner is None else near_one(abs(partner.linear)),
        of="" if partner is None else f"correlation with latent {partner.latent}",
    )
    return Part(section(f"axis-{one.number}", head, grid(charts_shown)), charts_shown)


def _law(one: Component, rows: _Rows) -> Chart:
    """The density of a component beside the normal one."""
    y = rows.y[:, one.number]
    edges = np.linspace(max(-_REACH, y.min()), min(_REACH, y.max()), _BINS + 1)
    counts = np.histogram(y, edges)[0]
    centers = (edges[1:] + edges[:-1]) / 2
    density = counts / (len(y) * np.diff(edges))
    normal = np.exp(-(centers**2) / 2) / np.sqrt(2 * np.pi)
    series = [
        Series("component", density.tolist()),
        Series("normal", normal.tolist(), dashed=True, color=0),
    ]
    return Chart(
        f"law-{one.number}",
        "Law",
        "density, and that of a normal law",
        centers.tolist(),
        "y",
        series,
        zero=True,
    )


def _warp(one: Component) -> Chart | None:
    """The map to the latent, with its interval."""
    if one.to_latent is None:
        return None
    warp = one.to_latent
    series = [
        Series("z", warp.z.tolist(), ends=(warp.low.tolist(), warp.high.tolist())),
        Series("as found", warp.y.tolist(), dashed=True, color=0),
    ]
    return Chart(
        f"warp-{one.number}",
        "Map to the latent",
        f"from the component y to the latent z, by {warp.method}",
        warp.y.tolist(),
        "y",
        series,
    )


def _spread(one: Component, rows: _Rows) -> Chart | None:
    """Deviation of the increments along the component, in units of that of all of them."""
    if rows.y_next is None:
        return None
    y, after = rows.y[:, one.number], rows.y_next[:, one.number]
    piece = np.argsort(np.argsort(y)) * _PIECES // len(y)
    series = [Series("as found", _deviations(after - y, piece), color=0)]
    if one.to_latent is not None:
        straight = _deviations(one.to_latent(after) - one.to_latent(y), piece)
        series.append(Series("linearized", straight, color=1))
    places = [float(y[piece == at].mean()) for at in range(_PIECES)]
    return Chart(
        f"spread-{one.number}",
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
    return [value / scale if scale > 0 else None for value in each]


def _partner(one: Component, partner: Partner | None, rows: _Rows) -> Chart | None:
    """The latent that belongs to a component, over it."""
    if rows.z is None or partner is None:
        return None
    chosen = np.linspace(0, len(rows.y) - 1, min(_POINTS, len(rows.y))).round().astype(int)
    y = rows.y[chosen, one.number]
    places = y if one.to_latent is None else one.to_latent(y)
    order = np.argsort(places, kind="stable")
    z = rows.z[chosen, partner.latent][order]
    across = "component, linearized" if one.to_latent is not None else "component"
    return Chart(
        f"partner-{one.number}",
        f"Latent {partner.latent}",
        "over the component; a line up to noise, if it is the latent",
        places[order].tolist(),
        across,
        [Series(f"latent {partner.latent}", z.tolist(), "dots")],
    )
