"""The page of a verdict whether two encoders are the same: one self-contained HTML file, the answer first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.alignment.pairs import check_pairs
from isojepa.alignment.sameness import VERDICTS, EncoderComparison
from isojepa.report.aligning import same_sections
from isojepa.report.aligning.neighbors import Changed, changed
from isojepa.report.aligning.page import p_text, r2_text, write_parts
from isojepa.report.aligning.planes import paired
from isojepa.report.aligning.sections import neighbors_that_changed, picture
from isojepa.report.aligning.spectrum import MapShape
from isojepa.report.aligning.states import States, cut
from isojepa.report.glance import Tile, share_tone
from isojepa.report.lines import sentence_of, signs
from isojepa.report.looking.sections import rounded
from isojepa.report.numbers import short, with_span
from isojepa.statistics.intervals import Interval
from isojepa.validation import validate_types

_TONES = {"rotation": "good", "linear": "fair", "partly": "fair", "unrelated": "poor", "too-few": "plain"}
_NAME = 48  # letters of a name in the headline


@validate_types
def write_same(
    path: str | Path,
    sameness: EncoderComparison,
    first: Any,
    second: Any,
    *,
    names: Sequence[str] = ("the first", "the second"),
    ids: Any = None,
    labels: Any = None,
    classes: Sequence[str] = (),
    pictures: Any = None,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> int:
    """Write the page of a verdict.

    Args:
        path: the HTML file to create or replace.
        sameness: the verdict, as `isojepa.alignment.same` gives it of these rows.
        first, second: (n, p) and (n, q), rows of the same states in one order.
        names: of the two encoders.
        ids: (n,) which state each row is of; without them rows go by their number.
        labels: (n,) classes of the rows, for colors; numbers of `classes`, or whatever they are called.
        classes: names of the classes.
        pictures: of the states: uint8 (n, height, width) or (n, height, width, 3), or `ImageSet` of n.
        config: what the embeddings were made from; may be nested.
        seed: of the rows that are shown, where there are many.

    Returns:
        The size of the page in bytes.

    Raises:
        ValueError: rows do not match or are not finite, or there are not as many ids, labels or pictures.

    Example:
        >>> from isojepa.alignment import same
        >>> x = np.random.default_rng(0).normal(size=(200, 4))
        >>> write_same(getfixture("tmp_path") / "same.html", same(x, x[:, ::-1]), x, x[:, ::-1]) > 10_000
        True
    """
    if len(names) != 2:
        raise ValueError(f"names must be two, got {len(names)}")
    called = names[0], names[1]
    x, y = (np.asarray(rows, dtype=np.float64) for rows in check_pairs(first, second))
    states = States.of(len(x), ids, labels, classes, pictures)
    points = paired(x, y, sameness.map, states.ids, seed)
    near = changed(points)
    parts = [
        same_sections.explained(sameness),
        same_sections.directions(sameness, called),
        same_sections.map_of(sameness),
        picture(points, called, states, _no_map(sameness)),
        neighbors_that_changed(near, points, called, states),
        same_sections.every_number(sameness, called),
    ]
    numbers = sameness.sentence.partition(": ")[2]
    return write_parts(
        path,
        [part for part in parts if part.html],
        title=f"{names[0]} and {names[1]}",
        badge=(_TONES[sameness.verdict], sameness.verdict),
        verdict=_headline(sameness, called),
        more=[signs(sentence_of(numbers)).replace("−0.000", "0.000"), _meaning(sameness)],
        facts=_facts(sameness, len(x)),
        tiles=_tiles(sameness, near),
        config=config or {},
    )


def _headline(found: EncoderComparison, names: tuple[str, str]) -> str:
    one, two = (cut(name, _NAME) for name in names)
    if found.verdict == "too-few":
        return f"Too few pairs to decide whether {one} and {two} are the same."
    return (
        f"{one[:1].upper() + one[1:] if one == 'the first' else one} and {two} are {VERDICTS[found.verdict]}."
    )


def _meaning(found: EncoderComparison) -> str:
    """What follows from the verdict."""
    if found.verdict == "rotation":
        return (
            "A rotation keeps distances and angles up to one scale: neighbors, clusters and whatever is "
            "computed from them go over as they are, linear probes through W."
        )
    if found.verdict == "linear":
        return (
            "A linear probe of one works on the other through W. Distances and neighbors are stretched "
            "differently: compare them after the map."
        )
    if found.verdict == "partly":
        return (
            f"{found.shared} directions go over by a linear map. What one encoder has in its other "
            "directions cannot be had from the other by any linear map."
        )
    if found.verdict == "unrelated":
        return (
            "The true pairing is no better than wrong ones, by linear maps and by random cosines. "
            "Rows in different orders look the same."
        )
    lack = found.required - found.states
    if lack <= 0:
        return "Bring rows that depend less on each other: more states, longer recordings, or ids of repeats."
    return (
        f"Bring {lack:,} more states, or fewer dimensions: a verdict needs four states for each dimension "
        "and sixty more."
    )


def _no_map(found: EncoderComparison) -> str:
    if found.verdict == "unrelated":
        return "There is no picture after the map: nothing is shared that a map could carry."
    if found.verdict == "too-few":
        return "There is no picture after the map: none was fitted on so few states."
    return ""


def _facts(found: EncoderComparison, rows: int) -> list[str]:
    facts = [f"{rows:,} pairs"]
    if found.pairs != rows:
        facts.append(f"{found.pairs:,} of them compared")
    if found.states != found.pairs:
        facts.append(f"{found.states:,} states")
    facts.append(f"{found.first.width:,} and {found.second.width:,} columns")
    return [*facts, "all R² on states that were left out"] if found.linear is not None else facts


def _tiles(found: EncoderComparison, near: Changed | None) -> dict[str, Tile]:
    """The numbers behind the verdict at a glance."""
    wide = max(found.first.dimensions, found.second.dimensions)
    if found.linear is None or found.back is None or found.rotation is None:
        tiles = {
            "States": Tile("picture", f"{found.states:,}", "that there are", "plain"),
            "Needed": Tile("numbers", f"{found.required:,}", "four for each dimension, and sixty", "plain"),
            "Dimensions": Tile("numbers", f"{wide:,}", "of the wider side, that vary", "plain"),
        }
        return tiles | _neighbors(near)
    tiles = {
        "R² by a rotation": _r2(found.rotation.r2),
        "R² by a linear map": _r2(found.linear.r2),
        "R² back": _r2(found.back.r2),
    }
    chance = found.linear_chance
    if chance is not None:
        tiles["By chance"] = Tile(
            "explained",
            f"R² {r2_text(chance.mean)}",
            f"of random pairs, {r2_text(chance.largest)} at most; {p_text(chance.p)}",
            "plain",
        )
    narrow = min(found.first.dimensions, found.second.dimensions)
    tone = "good" if found.shared == narrow else "fair" if found.shared else "poor"
    tiles["Shared directions"] = Tile(
        "directions", f"{found.shared} of {narrow}", "correlate on states left out", tone
    )
    if found.map is not None:
        shape = MapShape.of(found.spectrum)
        tiles["κ(W)"] = Tile("map", short(shape.condition), "of the linear map; a rotation has 1", "plain")
        tiles["‖WᵀW − I‖ / ‖I‖"] = Tile(
            "map",
            short(shape.distance),
            f"{short(shape.turned)} after one scale of {short(shape.scale)}",
            "plain",
        )
    else:
        tiles |= _neighbors(near)
    if found.pairs_needed is not None:
        last = found.budget[-1][0]
        tiles["Pairs needed"] = Tile(
            "explained", f"{found.pairs_needed:,}", f"for R² within 0.01 of that of {last:,}", "plain"
        )
    return tiles


def _neighbors(near: Changed | None) -> dict[str, Tile]:
    if near is None:
        return {}
    kept_fraction, chance = rounded(near.overlap.value), rounded(near.overlap.chance or 0.0)
    return {
        "Neighbors": Tile("neighbors", kept_fraction, f"are the same in both; by chance {chance}", "plain")
    }


def _r2(interval: Interval) -> Tile:
    ends = with_span(interval.estimate, interval)[1]
    return Tile("explained", r2_text(interval.estimate), ends or "held out", share_tone(interval.estimate))
