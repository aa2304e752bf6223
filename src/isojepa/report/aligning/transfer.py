"""The page of a probe that was carried from one encoder to another: what it is worth, and the map."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.probe_transfer import ProbeScore, ProbeTransfer
from isojepa.report.aligning.page import Part, cell, note, r2_text, write_parts
from isojepa.report.aligning.spectrum import MapShape, spectrum_chart
from isojepa.report.charts import grid
from isojepa.report.glance import Tile, share_tone
from isojepa.report.numbers import finite, short
from isojepa.report.sections.lead import lead, section
from isojepa.report.sections.spectrum import share_bar
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa.statistics.intervals import Interval
from isojepa.validation import validate_types

HEADS = {
    "own": "a probe of encoder 2, fitted to its labels",
    "naive": "the head of encoder 1 as it is",
    "transferred": "the head of encoder 1 behind the map: no label, no training",
    "regressed": "the same by a map that was fitted backwards",
    "distilled": "a probe of encoder 2 fitted to the answers of the head of encoder 1",
}
_CLOSE = 0.02  # points below the own probe that are next to nothing
_COLUMNS = ("head", "accuracy", "low", "high", "less own", "low", "high")


@validate_types
def write_transfer(
    path: str | Path,
    fitted: AlignmentMap,
    scores: ProbeTransfer,
    *,
    title: str = "a probe for another encoder",
    backwards: bool = False,
    config: Mapping[str, Any] | None = None,
) -> int:
    """Write the page of a transferred probe.

    Args:
        path: the HTML file to create or replace.
        fitted: the map.
        scores: as `isojepa.alignment.share_probe` gives them.
        title: name of the page.
        backwards: whether the map goes from encoder 2 to encoder 1.
        config: what it was made from; may be nested.

    Returns:
        The size of the page in bytes.
    """
    own_score, carried = scores["own"], scores["transferred"]
    lost = own_score.accuracy - carried.accuracy
    tone = "good" if lost <= _CLOSE else "fair" if lost <= 5 * _CLOSE else "poor"
    shape = MapShape.of(fitted.singular_values_)
    how = "applied as it is" if backwards else "inverted with a cut" if fitted.pseudo_ else "inverted"
    tiles = {
        "Transferred": Tile("heads", f"{carried.accuracy:.3f}", "accuracy, without a label", tone),
        "Own probe": Tile("heads", f"{own_score.accuracy:.3f}", "accuracy, fitted to labels", "plain"),
        "Held-out R²": Tile("map", _r2(scores.r2), "of the map", _tone(scores.r2)),
        "κ(W)": Tile("map", short(fitted.condition_), f"the map is {how}", "plain"),
    }
    return write_parts(
        path,
        [_heads(scores), _map(shape, fitted, backwards)],
        title=title,
        badge=(tone, "transfer"),
        verdict=_verdict(lost),
        more=["Heads are scored on states that nothing was fitted on."],
        facts=[
            f"{scores.scored_rows:,} rows of {scores.scored_states:,} states",
            f"{scores.confidence:.0%} intervals",
        ],
        tiles=tiles,
        config={} if config is None else config,
    )


def _verdict(lost: float) -> str:
    if lost < 0:
        return f"The transferred probe is {-100 * lost:.1f} points above the encoder’s own."
    return f"The transferred probe loses {100 * lost:.1f} points against the encoder’s own."


def _heads(scores: ProbeTransfer) -> Part:
    scored = [one for one in scores.scores if not one.reason]
    bars = "".join(
        f'<div class="degree"><span>{escape(one.head)}</span><div>'
        f"{share_bar(k % 5 + 1, Interval(one.accuracy, *one.interval))}</div></div>"
        for k, one in enumerate(scored)
    )
    figure = (
        '<figure class="degrees scores"><h3>Accuracy of each head <small>on states left out</small></h3>'
        f"{bars}</figure>"
    )
    words = " ".join(f"{one.head}: {HEADS[one.head]}." for one in scored)
    missing = " ".join(f"{one.head}: {one.reason}." for one in scores.scores if one.reason)
    table = ShownTable(
        "heads-table",
        "Every number",
        [(name, k > 0) for k, name in enumerate(_COLUMNS)],
        [_row(one) for one in scored],
        missing,
    )
    head = lead("What each head is worth", "Less own is the difference to the own probe, on the same rows.")
    return Part(section("heads", head, figure, note(words), table_section(table)))


def _row(one: ProbeScore) -> tuple[Shown, ...]:
    apart = (None, None, None) if one.head == "own" else (one.difference, *one.difference_interval)
    return Shown(one.head), *map(cell, (one.accuracy, *one.interval, *apart))


def _map(shape: MapShape, fitted: AlignmentMap, backwards: bool) -> Part:
    chart = spectrum_chart({"W": shape}, {"1": 1.0})
    words = (
        "The map goes from encoder 2 to encoder 1 and is applied as it is."
        if backwards
        else "Its inverse multiplies by up to κ what encoder 1 does not explain; a map fitted back does not."
    )
    head = lead("The map W", words, key=short(fitted.condition_), of="κ(W)")
    small = f"Fitted on {fitted.pairs_:,} pairs by {fitted.kind}, between standardized columns."
    return Part(section("map", head, grid([chart]), note(small)), [chart])


def _r2(value: float) -> str:
    return "–" if finite(value) is None else r2_text(value)


def _tone(value: float) -> str:
    return "plain" if finite(value) is None else share_tone(value)
