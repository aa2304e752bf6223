r"""Cycles of maps: whether going round three encoders ends where it began.

For maps W_12, W_23, W_31 between standardised columns,

    defect = |W_31 W_23 W_12 - I|_F / |I|_F

which is 0 where the maps agree with each other, and about 1 where nothing comes back. R^2 is that of the rows
that went round against what they were, on states that no map was fitted on. Maps by regression shrink what
is shared in part, so that a cycle loses some each time; maps through a hub come back (`hub`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairwise import Pairwise
from isojepa.seeds import numpy_generator
from isojepa.statistics.intervals import Interval
from isojepa.validation import check_count, choose


@dataclass(frozen=True)
class Cycle:
    """One way round.

    Attributes:
        names: of the encoders, the first is also the end.
        defect: |W - I| / |I| of the product W of all maps, between standardised columns.
        r2: held out, of the rows that went round.
    """

    names: tuple[str, ...]
    defect: float
    r2: Interval


def cycle_defect(*maps: AlignmentMap) -> float:
    """|W_n ... W_2 W_1 - I|_F / |I|_F of maps that go round.

    Raises:
        ValueError: one does not begin where the one before ended.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 2))
        >>> there, back = AlignmentMap("ols").fit(x, 2 * x), AlignmentMap("ols").fit(2 * x, x)
        >>> round(cycle_defect(there, back), 9)
        0.0
    """
    if not maps:
        raise ValueError("maps must be at least one, got none")
    for before, after in zip((maps[-1], *maps), maps, strict=False):
        if before.matrix_.shape[0] != after.matrix_.shape[1]:
            raise ValueError(
                f"each map must begin where the one before ends, got {before.matrix_.shape[0]} columns and "
                f"then {after.matrix_.shape[1]}"
            )
    width = maps[0].matrix_.shape[1]
    whole = np.eye(width)
    for one in maps:
        whole = one.matrix_ @ whole
    return float(np.linalg.norm(whole - np.eye(width)) / np.sqrt(width))


def cycles(found: Pairwise, *, most: int | None = None, seed: int = 0) -> list[Cycle]:
    """All ways round three encoders, each with every beginning and in both directions, or some of them.

    Args:
        found: all maps.
        most: how many, drawn at random; None for all n (n - 1) (n - 2).
        seed: draws them.

    Raises:
        ValueError: there are fewer than three encoders.

    Example:
        >>> from isojepa.alignment import fit_pairwise
        >>> z = np.random.default_rng(0).normal(size=(100, 2))
        >>> once = cycles(fit_pairwise([z, -z, z + 1], kind="ols"))
        >>> len(once), round(once[0].defect, 9), round(once[0].r2.estimate, 9)
        (6, 0.0, 1.0)
    """
    if len(found.names) < 3:
        raise ValueError(f"cycles need at least three encoders, got {len(found.names)}")
    ways = list(permutations(found.names, 3))
    if most is not None and check_count("most", most) < len(ways):
        drawn = numpy_generator(seed, "cycles").permutation(len(ways))[:most]
        ways = [ways[number] for number in np.sort(drawn)]
    return [cycle(found, way) for way in ways]


def cycle(found: Pairwise, names: Iterable[str]) -> Cycle:
    """One way round, through two or more encoders and back to the first."""
    way = tuple(names)
    known = dict.fromkeys(found.names)
    for name in way:
        choose("encoder", name, known)
    if len(way) < 2 or len(set(way)) != len(way):
        raise ValueError(f"a cycle must go through two or more encoders, each once, got {list(way)}")
    maps = [found.maps[pair] for pair in zip(way, (*way[1:], way[0]), strict=True)]

    def round_trip(rows: np.ndarray) -> np.ndarray:
        for one in maps:
            rows = one.transform(rows)
        return rows

    return Cycle(way, cycle_defect(*maps), found.score(round_trip, way[0], way[0]))
