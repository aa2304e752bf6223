"""The page of how two or more encoders align: one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.alignment.comparing import Comparisons
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import check_pairs
from isojepa.report.aligning import alignment_sections, score_sections
from isojepa.report.aligning.encoders import Layers, letters, singular_values
from isojepa.report.aligning.neighbors import changed
from isojepa.report.aligning.page import Part, r2_text, write_parts
from isojepa.report.aligning.planes import paired
from isojepa.report.aligning.sections import neighbors_that_changed, picture
from isojepa.report.aligning.spectrum import MapShape
from isojepa.report.aligning.states import States, cut
from isojepa.report.glance import Tile, share_tone
from isojepa.report.numbers import percent, short
from isojepa.validation import validate_types

_NAME = 48  # letters of a name in the headline


@dataclass(frozen=True)
class Alignment:
    """What is known of some encoders.

    Attributes:
        names: of the encoders, two at least.
        pairs: (i, j) -> scores of encoder i beside j, whose map goes from i to j; one pair at least.
        verdicts: (i, j) -> whether they are the same, as `EncoderComparison.verdict` says; may be empty.
        layers: CKA of layers of one with layers of another; may be empty.
        cycles: (i, j, ..., k) -> |W_ki ... W_ij - I| / |I|, the maps going round; of three or more.
    """

    names: Sequence[str]
    pairs: Mapping[tuple[int, int], Comparisons]
    verdicts: Mapping[tuple[int, int], str] = field(default_factory=dict)
    layers: Sequence[Layers] = ()
    cycles: Mapping[tuple[int, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.names) < 2 or not self.pairs:
            raise ValueError(
                f"an alignment must have two encoders and a pair, got {len(self.names)} and {len(self.pairs)}"
            )
        for places in (*self.pairs, *self.verdicts, *self.cycles, *(one.pair for one in self.layers)):
            if len(set(places)) < 2 or not all(0 <= place < len(self.names) for place in places):
                raise ValueError(f"pairs must be of the {len(self.names)} encoders, got {places}")


@validate_types
def write_alignment(
    path: str | Path,
    alignment: Alignment,
    *,
    embeddings: Sequence[Any] = (),
    ids: Any = None,
    labels: Any = None,
    classes: Sequence[str] = (),
    pictures: Any = None,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> int:
    """Write the page of an alignment.

    Args:
        path: the HTML file to create or replace.
        alignment: what is known.
        embeddings: of each encoder (n, d), rows of the same states in one order; with them the page shows the
            first pair before and after the map, and the neighbors that changed.
        ids, labels, classes, pictures, config, seed: as of `write_same`.

    Returns:
        The size of the page in bytes.

    Raises:
        ValueError: there are not as many embeddings as encoders, or they do not match.

    Example:
        >>> from isojepa.alignment import compare
        >>> x = np.random.default_rng(0).normal(size=(200, 4))
        >>> page = Alignment(["left", "right"], {(0, 1): compare(x, x[:, ::-1], ks=(1, 5))})
        >>> write_alignment(getfixture("tmp_path") / "align.html", page) > 10_000
        True
    """
    if len(embeddings) not in (0, len(alignment.names)):
        raise ValueError(
            f"embeddings must be one for each encoder, {len(alignment.names)}, got {len(embeddings)}"
        )
    signs = letters(len(alignment.names))
    parts = [
        alignment_sections.overview(alignment.names, alignment.pairs, alignment.verdicts),
        score_sections.scores(signs, alignment.pairs),
        alignment_sections.neighborhoods(signs, alignment.pairs),
        alignment_sections.maps(signs, alignment.pairs),
        *_seen(alignment, embeddings, (ids, labels, classes, pictures), seed),
        alignment_sections.layers(alignment.names, alignment.layers),
        alignment_sections.cycles(signs, alignment.cycles),
        alignment_sections.every_number(signs, alignment.pairs, alignment.verdicts),
    ]
    return write_parts(
        path,
        [part for part in parts if part.html],
        title=" and ".join(alignment.names) if len(alignment.names) == 2 else ", ".join(alignment.names),
        badge=("plain", "alignment"),
        verdict=_headline(alignment),
        more=[
            "All scores are of states that no map was fitted on. Those that need a common space are taken "
            "after the map was undone, W⁻¹, and beside it of both as they are."
        ],
        facts=_facts(alignment),
        tiles=_tiles(alignment),
        config=config or {},
    )


def _seen(alignment: Alignment, embeddings: Sequence[Any], given: tuple[Any, ...], seed: int) -> list[Part]:
    """The first pair before and after its map, and the neighbors that changed."""
    if not len(embeddings):
        return []
    one, two = next(iter(alignment.pairs))
    x, y = (np.asarray(rows, dtype=np.float64) for rows in check_pairs(embeddings[one], embeddings[two]))
    ids, labels, classes, pictures = given
    states = States.of(len(x), ids, labels, classes, pictures)
    fitted = alignment.pairs[one, two].map
    points = paired(x, y, fitted if isinstance(fitted, AlignmentMap) else None, states.ids, seed)
    names = alignment.names[one], alignment.names[two]
    return [picture(points, names, states), neighbors_that_changed(changed(points), points, names, states)]


def _r2s(alignment: Alignment) -> list[float]:
    return [
        all_pairs.aligned["R2"].value for all_pairs in alignment.pairs.values() if "R2" in all_pairs.aligned
    ]


def _headline(alignment: Alignment) -> str:
    r2s, count = _r2s(alignment), len(alignment.names)
    one, two = (cut(alignment.names[place], _NAME) for place in next(iter(alignment.pairs)))
    if not r2s:
        return f"{one} and {two}, compared." if count == 2 else f"{count} encoders, compared."
    low, high = min(r2s), max(r2s)
    if high < 0:
        return "No linear map of one encoder predicts another better than its mean does."
    if len(alignment.pairs) == 1:
        return f"A linear map of {one} explains {percent(high)} of {two}."
    return f"A linear map of one encoder explains {percent(max(low, 0.0))} to {percent(high)} of another."


def _facts(alignment: Alignment) -> list[str]:
    first_pair = next(iter(alignment.pairs.values()))
    count = len(alignment.pairs)
    facts = [f"{len(alignment.names)} encoders", "1 map" if count == 1 else f"{count} maps"]
    if first_pair.fitted:
        facts.append(f"fitted on {first_pair.fitted:,} states")
    return [
        *facts,
        f"scored on {first_pair.scored:,} others"
        if first_pair.fitted
        else f"scored on {first_pair.scored:,}",
    ]


def _tiles(alignment: Alignment) -> dict[str, Tile]:
    """The scores at a glance: of one pair, or from the least to the largest."""
    scores_of_pairs, tiles = list(alignment.pairs.values()), {}
    r2s = _r2s(alignment)
    if r2s:
        tiles["Held-out R²"] = Tile("scores", _range(r2s, r2_text), "of a linear map", share_tone(min(r2s)))
    conditions = [
        MapShape.of(spectrum).condition
        for one in scores_of_pairs
        if (spectrum := singular_values(one)) is not None
    ]
    if conditions:
        tiles["κ(W)"] = Tile("map", _range(conditions, short), "a rotation has 1", "plain")
    ckas = [one.raw["unbiased CKA"].value for one in scores_of_pairs if "unbiased CKA" in one.raw]
    if ckas:
        tiles["CKA, unbiased"] = Tile("scores", _range(ckas, short), "of both as they are", "plain")
    near = [name for name in scores_of_pairs[0].aligned if name.startswith("NOS@")]
    if near:
        name = "NOS@10" if "NOS@10" in near else near[len(near) // 2]
        values = [one.aligned[name].value for one in scores_of_pairs if name in one.aligned]
        chance = scores_of_pairs[0].aligned[name].chance
        caption = "neighbors that differ" + ("" if chance is None else f"; by chance {short(chance)}")
        tiles[name] = Tile("neighborhoods", _range(values, short), caption, "plain")
    return tiles


def _range(values: Sequence[float], text: Any) -> str:
    low, high = text(min(values)), text(max(values))
    return str(low) if low == high else f"{low} to {high}"
