"""The sections of an alignment: pairs, scores, neighborhoods, maps, layers, cycles, and every number."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from isojepa.alignment.comparing import Comparisons, ScoreComparison
from isojepa.alignment.maps import AlignmentMap
from isojepa.report.aligning.encoders import Layers, letters, singular_values
from isojepa.report.aligning.page import Part, cell, note
from isojepa.report.aligning.spectrum import MapShape, spectrum_chart
from isojepa.report.aligning.states import cut
from isojepa.report.charts import Chart, HeatMap, Series, grid
from isojepa.report.looking.sections import rounded
from isojepa.report.numbers import short
from isojepa.report.sections.lead import lead, notes, section
from isojepa.report.study_page import Shown, ShownTable, table_section

Pairs = Mapping[tuple[int, int], Comparisons]
_SEVERAL = 3  # encoders from which pairs are a matrix
_OVERLAP_K = 10  # k of the overlap that stands for all
_CURVES = 3  # pairs whose curves are in one chart
_LAYER = 12  # letters of a layer's name
_DIGITS = 2
_LARGE = 100.0  # kappa that has all of the color


def overview(names: Sequence[str], pairs: Pairs, verdicts: Mapping[tuple[int, int], str]) -> Part:
    """The encoders, and of three or more a matrix of each score."""
    signs = letters(len(names))
    widths = _widths(pairs)
    header = "".join(
        f"<b>{sign}</b><span>{escape(name)}</span><small>{_columns(widths.get(place))}</small>"
        for place, (sign, name) in enumerate(zip(signs, names, strict=True))
    )
    key = f'<div class="encoders">{header}</div>'
    said = "; ".join(f"{signs[i]} and {signs[j]}: {verdict}" for (i, j), verdict in verdicts.items())
    sentence = f"Each encoder has a letter below. {'The same? ' + said + '.' if said else ''}".strip()
    if len(names) < _SEVERAL:
        return Part(section("encoders", lead("Encoders", sentence), key))
    r2 = {
        places: scores_of_pair.aligned["R2"].value
        for places, scores_of_pair in pairs.items()
        if "R2" in scores_of_pair.aligned
    }
    cka = {
        places: scores_of_pair.raw["unbiased CKA"].value
        for places, scores_of_pair in pairs.items()
        if "unbiased CKA" in scores_of_pair.raw
    }
    kappa = {
        places: MapShape.of(values).condition
        for places, scores_of_pair in pairs.items()
        if (values := singular_values(scores_of_pair)) is not None
    }
    largest = max((value for value in kappa.values() if math.isfinite(value)), default=2.0)
    maps = [
        _matrix("r2", "Held-out R²", "of the column, by a linear map of the row", signs, r2),
        _matrix(
            "cka",
            "CKA, unbiased",
            "of both as they are",
            signs,
            {**{(j, i): v for (i, j), v in cka.items()}, **cka},
            3,
        ),
        _matrix(
            "kappa",
            "κ(W)",
            "of the map from the row to the column",
            signs,
            kappa,
            4,
            1.0,
            min(max(largest, 1.1), _LARGE),
        ),
    ]
    return Part(section("encoders", lead("Encoders", sentence), key, grid(maps)), maps)


def neighborhoods(signs: Sequence[str], pairs: Pairs) -> Part:
    """NOS@k against k, after the map and before, with chance."""
    charts, captions = [], ""
    for places, scores_of_pair in list(pairs.items())[:_CURVES]:
        after, before = _by_k(scores_of_pair.aligned), _by_k(scores_of_pair.raw)
        ks = sorted({*after, *before})
        if not ks:
            continue
        name = f"{signs[places[0]]} to {signs[places[1]]}"
        chance = [(after.get(k) or before[k]).chance for k in ks]
        series = [
            Series("by chance", chance, dashed=True, color=0, bridged=True),
            _spread("as they are", before, ks, 2),
            _spread("after W⁻¹", after, ks, 1),
        ]
        charts.append(
            Chart(
                f"nos-{places[0]}-{places[1]}",
                f"NOS@k of {name}",
                "share of the k neighbors that differ; 0 is alike",
                ks,
                "k",
                series,
                across_scale="log" if len(ks) > 1 and ks[-1] > 5 * ks[0] else "linear",
                zero=True,
            )
        )
        if not captions and after:
            k = _OVERLAP_K if _OVERLAP_K in after else ks[len(ks) // 2]
            captions = (
                f"Of the {k} nearest neighbors in {signs[places[0]]}, {rounded(after[k].value)} are others "
                f"in {signs[places[1]]} after the map"
            )
            captions += f", {rounded(before[k].value)} before it." if k in before else "."
    if not charts:
        return Part("")
    more = f"The first {_CURVES} of {len(pairs)} pairs; the tables have all." if len(pairs) > _CURVES else ""
    head = lead("Neighborhoods of every size", captions or "Neighbors in both, each in its own coordinates.")
    return Part(section("neighborhoods", head, grid(charts), note(more) if more else ""), charts)


def maps(signs: Sequence[str], pairs: Pairs) -> Part:
    """The spectra of the maps."""
    shapes = {
        f"{signs[i]} to {signs[j]}": MapShape.of(values)
        for (i, j), scores_of_pair in pairs.items()
        if (values := singular_values(scores_of_pair)) is not None
    }
    if not shapes:
        return Part("")
    chart = spectrum_chart(shapes, {"1": 1.0})
    name, worst = max(shapes.items(), key=lambda item: item[1].condition)
    sentence = f"W of {name} stretches one direction up to {short(worst.condition)} times as much as another."
    key, of = short(worst.condition), "κ(W)" if len(shapes) == 1 else "the largest κ(W)"
    words = "Between standardized columns: a rotation of white embeddings has singular values of 1."
    if len(shapes) > len(chart.series) - 1:
        words += f" The chart has the first {len(chart.series) - 1} of {len(shapes)} maps."
    return Part(
        section("map", lead("The map W", sentence, key=key, of=of), grid([chart]), note(words)), [chart]
    )


def layers(names: Sequence[str], found: Sequence[Layers]) -> Part:
    """CKA between layers as heat maps."""
    if not found:
        return Part("")
    signs = letters(len(names))
    charts = [
        HeatMap(
            f"layers-{place}",
            f"Layers of {signs[one.pair[0]]} and {signs[one.pair[1]]}",
            "unbiased CKA",
            [cut(name, _LAYER) for name in one.second],
            [cut(name, _LAYER) for name in one.first],
            f"layer of {signs[one.pair[1]]}",
            f"layer of {signs[one.pair[0]]}",
            one.cka.tolist(),
            digits=_DIGITS,
            color=3,
        )
        for place, one in enumerate(found)
    ]
    one = found[0]
    row, column = divmod(int(one.cka.argmax()), one.cka.shape[1])
    sentence = (
        f"Most alike are {cut(one.first[row], 40)} of {signs[one.pair[0]]} and "
        f"{cut(one.second[column], 40)} of {signs[one.pair[1]]}, with a CKA of "
        f"{short(float(one.cka[row, column]))}."
    )
    tables = [
        table_section(
            ShownTable(
                f"layers-{place}-numbers",
                "",
                [("layer", False), *((cut(name, 40), True) for name in one.second)],
                [
                    (Shown(cut(name, 40)), *map(cell, values))
                    for name, values in zip(one.first, one.cka.tolist(), strict=True)
                ],
            )
        )
        for place, one in enumerate(found)
    ]
    folded = "".join(
        f'<details class="pair"><summary>Numbers of {signs[one.pair[0]]} and {signs[one.pair[1]]}</summary>'
        f"{table}</details>"
        for one, table in zip(found, tables, strict=True)
    )
    return Part(section("layers", lead("Layer by layer", sentence), grid(charts), folded), charts)


def cycles(signs: Sequence[str], found: Mapping[tuple[int, ...], float]) -> Part:
    """How far from where they began maps come back when they go round."""
    if not found:
        return Part("")
    worst = max(found, key=lambda places: found[places])
    table = ShownTable(
        "cycles",
        "",
        [("round", False), ("‖W … W − I‖ / ‖I‖", True)],
        [(Shown(_round(signs, places)), cell(value)) for places, value in found.items()],
    )
    sentence = (
        f"Maps from one encoder to the next and back to the first change what goes round most for "
        f"{_round(signs, worst)}; 0 is no change."
    )
    of = "‖W … W − I‖ / ‖I‖" + (", the largest" if len(found) > 1 else "")
    return Part(
        section("cycles", lead("Going round", sentence, key=short(found[worst]), of=of), table_section(table))
    )


def every_number(signs: Sequence[str], pairs: Pairs, verdicts: Mapping[tuple[int, int], str]) -> Part:
    """A table of all pairs, and what could not be had."""
    rows = []
    for (i, j), scores_of_pair in pairs.items():
        values = singular_values(scores_of_pair)
        shape = None if values is None else MapShape.of(values)
        rows.append(
            (
                Shown(f"{signs[i]} to {signs[j]}"),
                Shown(verdicts.get((i, j), "–")),
                *map(cell, _numbers(scores_of_pair)),
                cell(None if shape is None else shape.condition),
                cell(None if shape is None else shape.distance),
                cell(scores_of_pair.fitted),
                cell(scores_of_pair.scored),
            )
        )
    titles = (
        "R²",
        "CKA, unbiased",
        "DSC after",
        f"NOS@{_OVERLAP_K} after",
        "κ(W)",
        "‖WᵀW − I‖ / ‖I‖",
        "fitted on",
        "scored on",
    )
    columns = [("pair", False), ("verdict", False), *((title, True) for title in titles)]
    omitted = [
        f"{signs[i]} to {signs[j]}: {name} is left out, {reason}."
        for (i, j), scores_of_pair in pairs.items()
        for name, reason in scores_of_pair.left_out.items()
    ]
    words = "One row for each pair; every score of each is above. Columns sort by a click on their names."
    table = table_section(ShownTable("pairs", "", columns, rows))
    return Part(section("numbers", lead("All pairs", words), notes(omitted), table))


def _numbers(found: Comparisons) -> list[float | None]:
    columns = (
        (found.aligned, "R2"),
        (found.raw, "unbiased CKA"),
        (found.aligned, "DSC"),
        (found.aligned, f"NOS@{_OVERLAP_K}"),
    )
    return [scores[name].value if name in scores else None for scores, name in columns]


def _matrix(
    name: str,
    title: str,
    words: str,
    signs: Sequence[str],
    values: Mapping[tuple[int, int], float],
    color: int = 1,
    low: float = 0.0,
    high: float = 1.0,
) -> HeatMap:
    """Rows from top to bottom as columns from left to right."""
    order = list(reversed(range(len(signs))))
    table = [[values.get((row, column)) for column in range(len(signs))] for row in order]
    rows = [signs[row] for row in order]
    return HeatMap(
        name, title, words, signs, rows, "to", "from", table, low, high, _DIGITS if high <= 1 else 1, color
    )


def _by_k(found: Mapping[str, ScoreComparison]) -> dict[int, ScoreComparison]:
    return {int(name[4:]): one for name, one in found.items() if name.startswith("NOS@")}


def _spread(name: str, found: Mapping[int, ScoreComparison], ks: Sequence[int], color: int) -> Series:
    by_k = [found.get(k) for k in ks]
    ends = tuple(
        [None if one is None else getattr(one.interval, end) for one in by_k] for end in ("low", "high")
    )
    values = [None if one is None else one.value for one in by_k]
    return Series(name, values, ends=(ends[0], ends[1]), color=color, bridged=True)


def _widths(pairs: Pairs) -> dict[int, int]:
    widths: dict[int, int] = {}
    for (i, j), one in pairs.items():
        if isinstance(one.map, AlignmentMap):
            widths[j], widths[i] = one.map.matrix_.shape
    return widths


def _columns(width: int | None) -> str:
    return "" if width is None else "1 column" if width == 1 else f"{width:,} columns"


def _round(signs: Sequence[str], places: Sequence[int]) -> str:
    return " → ".join(signs[place] for place in (*places, places[0]))
