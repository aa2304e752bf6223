"""The sections of a verdict: what is explained, which directions are shared, the map, and every number."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from isojepa.alignment.sameness import EncoderComparison, EncoderSide, HeldOutR2, PairingNull, thresholds
from isojepa.report.aligning.page import Part, cell, note, p_text, r2_text
from isojepa.report.aligning.spectrum import MapShape, spectrum_chart
from isojepa.report.aligning.states import cut
from isojepa.report.charts import Chart, Curve, Reference, Series, curves_chart, grid
from isojepa.report.glance import share_tone
from isojepa.report.lines import sentence_of, signs
from isojepa.report.looking.sections import rounded
from isojepa.report.numbers import percent, short, with_span
from isojepa.report.sections.lead import lead, missing, notes, section
from isojepa.report.sections.spectrum import share_bar
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa.statistics.intervals import Interval

_KINDS = {
    "rotation": "the nearest rotation with one scale",
    "linear": "it",
    "partly": "the part of it that carries the shared directions",
}  # what the map of a verdict is
_R2_COLUMNS = ("quantity", "value", "low", "high", "best map", "random pairs", "largest", "p", "draws")
_SIDE_COLUMNS = (
    *("encoder", "columns", "constant", "compared"),
    *("variance not shared", "directions not shared"),
)
_NOTHING = 0.005  # an R^2 below which nothing is explained
_NINES = 0.9  # an R^2 above which a chart has room for nines
_ONE = 0.01  # how near to 1 a scale or a condition number is as good as 1
_ROWS = 64  # correlations and singular values in a table


def explained(found: EncoderComparison) -> Part:
    """Held-out R^2 as bars, and after more and more pairs."""
    title = "How much one explains of the other"
    if found.linear is None or found.back is None or found.rotation is None:
        words = (
            f"With {found.effective:,} effective rows for these widths a map would fit whatever the encoders "
            "are: nothing is reported."
        )
        return Part(section("explained", lead(title, "This cannot be told yet."), missing(words)))
    best = found.rotation if found.verdict == "rotation" else found.linear
    kind = "by a rotation" if found.verdict == "rotation" else "by a linear map"
    bars = [
        ("by a rotation", 1, found.rotation.r2),
        ("by a linear map", 2, found.linear.r2),
        ("the first, by a linear map back", 3, found.back.r2),
    ]
    if found.nonlinear is not None:
        bars.append(("by a nonlinear map", 4, found.nonlinear))
    chance = found.linear_chance
    if chance is not None:
        bars.append(("random pairs, linear map", 6, Interval(chance.mean, chance.mean, chance.largest)))
    rows = "".join(
        f'<div class="degree"><span>{escape(name)}</span><div>{share_bar(color, one)}</div></div>'
        for name, color, one in bars
    )
    figure = (
        '<figure class="degrees scores"><h3>Share of the variance that is explained '
        f"<small>R² on states left out</small></h3>{rows}</figure>"
    )
    chart = _budget(found)
    charts = [chart] if chart is not None else []
    return Part(
        section(
            "explained",
            lead(
                title,
                _explained_words(found),
                key=f"R² {r2_text(best.r2.estimate)}",
                span=with_span(best.r2.estimate, best.r2)[1],
                of=f"of the second, {kind}",
                tone=share_tone(best.r2.estimate),
            ),
            figure,
            grid(charts),
            note(
                "R² is of centered rows as they are, each fifth of the states predicted by a fit on the "
                "others; below 0 a map predicts worse than the mean does. Random pairs: the mean, and as "
                "its upper end the largest of all draws."
            ),
        ),
        charts,
    )


def _explained_words(found: EncoderComparison) -> str:
    assert found.linear is not None
    assert found.rotation is not None
    lost = found.linear.asymptotic - found.rotation.asymptotic
    text = f"A linear map explains {percent(found.linear.r2.estimate)} of the second’s variance"
    if found.linear.r2.estimate < _NOTHING:
        text = "A linear map predicts states it has not seen no better than their mean does"
    elif lost > 0:
        text += f"; holding it to a rotation with one scale costs {percent(lost)}"
    if found.pairs_needed is not None:
        text += f". {found.pairs_needed:,} pairs were enough for the map"
    return text + "."


def _budget(found: EncoderComparison) -> Chart | None:
    if not found.budget:
        return None
    linear = {float(size): one for size, one, _ in found.budget}
    rotation = {float(size): other for size, _, other in found.budget}
    curves = [Curve("by a linear map", linear, 2), Curve("by a rotation", rotation, 1)]
    if found.pairs_needed is not None:
        source = rotation if found.verdict == "rotation" else linear
        at = float(found.pairs_needed)
        curves.append(Curve("enough", {at: source[at]}, 3, "dots"))
    top = max(*linear.values(), *rotation.values())
    return replace(
        curves_chart(
            "R² after more and more pairs",
            "pairs",
            "R²",
            curves,
            scale="nines" if top > _NINES else "linear",
            unit="r2",
            references=[Reference(0.0)],
        ),
        name="budget",
        note="on one fifth that was left out",
    )


def directions(found: EncoderComparison, names: tuple[str, str]) -> Part:
    """Held-out canonical correlations with the thresholds, and what of each side is not shared."""
    if not found.correlations:
        return Part("")
    least, strong = thresholds(found.states)
    ranks = list(range(1, len(found.correlations) + 1))
    shared = [value if value > least else None for value in found.correlations]
    rest = [value if value <= least else None for value in found.correlations]
    series = [
        Series(f"shared above {short(least)}", [least] * len(ranks), dotted=True, color=0),
        Series("shared", shared, "dots", color=3),
        Series("not shared", rest, "dots", color=2),
    ]
    if strong > least:
        series.insert(
            0, Series(f"related above {short(strong)}", [strong] * len(ranks), dashed=True, color=0)
        )
    chart = Chart(
        "correlations",
        "Correlation of each pair of directions",
        "canonical pairs, on states left out",
        ranks,
        "rank",
        [one for one in series if any(value is not None for value in one.values)],
        labels=[f"direction {k}" for k in ranks],
        zero=True,
    )
    narrow = min(found.first.dimensions, found.second.dimensions)
    count = f"{found.shared} of {narrow}"
    one, two = (cut(name, 40) for name in names)
    sentence = (
        f"{rounded(found.first.unshared_variance)} of the variance of {one} and "
        f"{rounded(found.second.unshared_variance)} of that of {two} lie in directions that the other does "
        "not have."
    )
    words = (
        f"A direction is shared where its correlation exceeds {short(least)}, which is 0.05 or three "
        f"standard errors, and shows a relation above {short(strong)}. Wrong pairings are as closely related "
        f"with {p_text(found.p)}."
    )
    tone = "good" if found.shared == narrow else "fair" if found.shared else "poor"
    head = lead("Shared directions", sentence, key=count, of="directions are shared", tone=tone)
    return Part(section("directions", head, grid([chart]), note(words)), [chart])


def map_of(found: EncoderComparison) -> Part:
    """The spectrum of W, or why there is none."""
    if found.map is None:
        if found.verdict == "too-few":
            return Part("")
        return Part(section("map", lead("The map W", "Nothing is shared that a map could carry."), ""))
    shape = MapShape.of(found.spectrum)
    levels = {f"one scale for all, {short(shape.scale)}": shape.scale, "1": 1.0}
    if abs(shape.scale - 1) < _ONE:
        levels = {"1": 1.0}
    chart = spectrum_chart({"singular value": shape}, levels)
    stretched = f"one direction up to {short(shape.condition)} times as much as another"
    if shape.condition < 1 + _ONE:
        stretched = "all directions alike"
    lost = f" {shape.lost} other singular values are 0." if shape.lost else ""
    sentence = f"The linear map by ridge regression stretches {stretched}.{lost}"
    words = (
        f"W between rows as they are, in the {found.first.dimensions} and {found.second.dimensions} "
        "directions that were compared, fitted on all pairs. Points and neighbors below are mapped by "
        f"{_KINDS[found.verdict]}. ‖WᵀW − I‖ / ‖I‖ is {short(shape.distance)}, and {short(shape.turned)} "
        f"after one scale of {short(shape.scale)}: 0 for a rotation."
    )
    head = lead(
        "The map W", sentence, key=short(shape.condition), of="κ(W), largest by smallest singular value"
    )
    return Part(section("map", head, grid([chart]), note(words)), [chart])


def every_number(found: EncoderComparison, names: tuple[str, str]) -> Part:
    """All numbers in tables, and what was left out."""
    tables = []
    rows = [
        _r2_row(name, one, chance)
        for name, one, chance in (
            ("R² of the second by a rotation", found.rotation, None),
            ("R² of the second by a linear map", found.linear, found.linear_chance),
            ("R² of the first by a linear map back", found.back, None),
        )
        if one is not None
    ]
    if rows:
        tables.append(_table("r2", "Held-out R²", _R2_COLUMNS, rows))
    sides = [
        _side_row(cut(name, 60), side) for name, side in zip(names, (found.first, found.second), strict=True)
    ]
    tables.append(_table("sides", "Both sides", _SIDE_COLUMNS, sides))
    counts = {
        "pairs": found.pairs,
        "states": found.states,
        "states required": found.required,
        "pairs needed": found.pairs_needed,
        "shared directions": found.shared if found.correlations else None,
        "p of any relation": found.p if found.correlations else None,
        "R² of the worst direction": found.worst,
    }
    if found.map is not None:
        shape = MapShape.of(found.spectrum)
        counts |= {
            "κ(W)": shape.condition,
            "‖WᵀW − I‖ / ‖I‖": shape.distance,
            "the same after one scale": shape.turned,
            "scale of W": shape.scale,
            "singular values that are 0": shape.lost,
        }
    tables.append(
        _table(
            "counts",
            "Counts and the map",
            ("quantity", "value"),
            [(Shown(name), cell(value)) for name, value in counts.items()],
        )
    )
    if found.budget:
        titles = ("pairs", "R² by a linear map", "R² by a rotation")
        tables.append(
            _table(
                "pairs", "After more and more pairs", titles, [tuple(map(cell, row)) for row in found.budget]
            )
        )
    tables += _ranks(found)
    footnotes = notes(signs(sentence_of(text)) for text in found.notes)
    words = "Columns sort by a click on their names."
    head = lead("Every number", words)
    return Part(section("numbers", head, footnotes, *tables))


def _ranks(found: EncoderComparison) -> list[str]:
    """Correlations and singular values by rank, the first ones of many."""
    if not found.correlations:
        return []
    values = found.spectrum if found.map is not None else []
    count = max(len(found.correlations), len(values))
    rows = [
        (
            cell(k + 1),
            cell(found.correlations[k] if k < len(found.correlations) else None),
            cell(values[k] if k < len(values) else None),
        )
        for k in range(min(count, _ROWS))
    ]
    more = f"The first {_ROWS} of {count}; the charts have all." if count > _ROWS else ""
    return [_table("ranks", "By rank", ("rank", "held-out correlation", "singular value of W"), rows, more)]


def _table(
    name: str, title: str, titles: Sequence[str], rows: Sequence[Sequence[Shown]], note: str = ""
) -> str:
    numeric = [rows[0][k].value is not None or k > 0 for k in range(len(titles))]
    return table_section(ShownTable(name, title, list(zip(titles, numeric, strict=True)), rows, note))


def _r2_row(name: str, one: HeldOutR2, chance: PairingNull | None) -> tuple[Shown, ...]:
    beside = (None,) * 4 if chance is None else (chance.mean, chance.largest, chance.p, chance.draws)
    return Shown(name), *map(cell, (one.r2.estimate, one.r2.low, one.r2.high, one.asymptotic, *beside))


def _side_row(name: str, side: EncoderSide) -> tuple[Shown, ...]:
    counts = side.width, len(side.constant), side.dimensions, side.unshared_variance, side.unshared_directions
    return Shown(name), *map(cell, counts)
