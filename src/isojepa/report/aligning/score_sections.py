"""Every score of each pair of encoders: where it lies between chance and its best value, and its numbers."""

from collections.abc import Mapping, Sequence
from html import escape

from isojepa.alignment.comparing import Comparisons, ScoreComparison
from isojepa.report.aligning.page import Part, cell, chance_cell, note
from isojepa.report.numbers import short
from isojepa.report.sections.lead import lead, notes, section
from isojepa.report.sections.spectrum import share_bar
from isojepa.report.study_page import Shown, ShownTable, table_section
from isojepa.statistics.intervals import Interval

_OVERLAP_K = 10  # k of the overlap that stands for all
_WORSE = 0.1  # of CKA


def scores(signs: Sequence[str], pairs: Mapping[tuple[int, int], Comparisons]) -> Part:
    """Every score of each pair, calibrated, as bars, with its table."""
    folded = "".join(
        _pair(signs, places, scores_of_pair, k == 0)
        for k, (places, scores_of_pair) in enumerate(pairs.items())
    )
    sentence = (
        "Where each score lies between what rows paired at random give, 0 %, and its best value, 100 %: "
        "width and number of states inflate the scores themselves."
    )
    words = (
        "Calibrated: (value − chance) / (best − chance), not clipped. After W⁻¹: between the first and the "
        "second in its coordinates; R² and MSE are of the map itself. As they are: both standardized, no "
        "map."
    )
    return Part(section("scores", lead("Scores", sentence), folded, note(words)))


def _pair(signs: Sequence[str], places: tuple[int, int], found: Comparisons, opened: bool) -> str:
    rows = ""
    names = [name for name in dict.fromkeys((*found.aligned, *found.raw)) if _stands(name, found)]
    for name in names:
        bars = "".join(
            share_bar(color, interval)
            for color, scores in ((1, found.aligned), (2, found.raw))
            if name in scores and (interval := _calibrated(scores[name])) is not None
        )
        if bars:
            rows += f'<div class="degree"><span>{escape(_name(name))}</span><div>{bars}</div></div>'
    keys = "".join(
        f'<span style="--color:var(--line-{color})">{words}</span>'
        for color, words in ((1, "after W⁻¹"), (2, "as they are"))
    )
    figure = f'<figure class="degrees scores"><div class="legend">{keys}</div>{rows}</figure>' if rows else ""
    title = f"{signs[places[0]]} to {signs[places[1]]}"
    r2 = f"<span>R² {short(found.aligned['R2'].value)}</span>" if "R2" in found.aligned else ""
    return (
        f'<details class="pair"{" open" * opened}><summary>{title} {r2}</summary>{figure}'
        f'{notes(_magnified(found))}<details class="numbered"><summary>Numbers</summary>'
        f"{_score_table(places, found)}</details></details>"
    )


def _magnified(found: Comparisons) -> list[str]:
    """What to know where undoing the map makes two embeddings less alike."""
    name = "unbiased CKA"
    if name not in found.aligned or name not in found.raw:
        return []
    after, before = found.aligned[name].value, found.raw[name].value
    if after > before - _WORSE:
        return []
    return [
        f"Undoing W makes the two less alike, CKA {short(after)} where it was {short(before)}: W⁻¹ "
        "magnifies what W does not explain. Where R² is not near 1, go by the scores of both as they are, "
        "or fit a map back."
    ]


def _score_table(places: tuple[int, int], found: Comparisons) -> str:
    titles = ("value", "low", "high", "chance", "p", "calibrated", "rows")
    columns = [("score", False), ("space", False), *((title, True) for title in titles)]
    rows = [
        (
            Shown(_name(name)),
            Shown(space),
            *map(cell, (one.value, one.interval.low, one.interval.high, one.chance)),
            chance_cell(one.p),
            cell(one.calibrated),
            cell(one.rows),
        )
        for name in dict.fromkeys((*found.aligned, *found.raw))
        for space, scores in (("after W⁻¹", found.aligned), ("as they are", found.raw))
        if (one := scores.get(name)) is not None
    ]
    return table_section(ShownTable(f"scores-{places[0]}-{places[1]}", "", columns, rows))


def _stands(name: str, found: Comparisons) -> bool:
    """Whether a score has bars: of overlaps at many k one stands for all."""
    if name.startswith("NOS@") or name == "MSE":
        return False
    overlap_name = f"NO@{_OVERLAP_K}"
    return (
        not name.startswith("NO@") or name == overlap_name or overlap_name not in {*found.aligned, *found.raw}
    )


def _calibrated(one: ScoreComparison) -> Interval | None:
    """The interval of a score between chance, 0, and its best value, 1."""
    if one.chance is None or one.best == one.chance:
        return None
    value, *ends = (
        (end - one.chance) / (one.best - one.chance)
        for end in (one.value, one.interval.low, one.interval.high)
    )
    return Interval(value, min(ends), max(ends))


def _name(name: str) -> str:
    return "R²" if name == "R2" else name
