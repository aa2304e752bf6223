r"""Direct maps between every two of several encoders, and cycles of them, scored on held-out states.

R^2 is in the columns of the target divided by their standard deviations on the fitted states,

    R^2 = 1 - sum_i |y_i - f(x_i)|^2 / sum_i |y_i - mean|^2.

A cycle of maps W_12, W_23, W_31 between standardized columns has the defect

    |W_31 W_23 W_12 - I|_F / |I|_F

which is 0 where the maps are consistent. Regression shrinks directions that are shared in part, so cycles
lose some each time; maps through a shared space do not (`shared_space`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import EncoderRows, gather, split_states
from isojepa.alignment.shared_space import SharedSpace
from isojepa.seeds import numpy_generator
from isojepa.statistics.intervals import Interval, r2_interval
from isojepa.validation import check_count, check_number, choose, validate_types

_BLOCKS = 20  # of states, left out in turn for the intervals


@dataclass(frozen=True)
class Pairwise:
    """Direct maps of every encoder to every other, and the states that they were not fitted on.

    Attributes:
        maps: by the names of source and target.
        fitted, held_out: rows of all encoders that maps were fitted on, and those left.
        confidence: of the intervals.
    """

    maps: dict[tuple[str, str], AlignmentMap]
    fitted: EncoderRows
    held_out: EncoderRows
    confidence: float = 0.95

    @property
    def names(self) -> list[str]:
        """Of the encoders."""
        return self.fitted.names

    def scores(self) -> dict[tuple[str, str], Interval]:
        """Held-out R^2 of each map."""
        return {pair: self.score(fitted.transform, *pair) for pair, fitted in self.maps.items()}

    def hub_scores(self, hub: SharedSpace, *, expected: bool = False) -> dict[tuple[str, str], Interval]:
        """Held-out R^2 of each translation through a hub, which is to be fitted on `fitted.rows`.

        Args:
            hub: that has the encoders.
            expected: see `SharedSpace.translate`.
        """
        return {
            (a, b): self.score(lambda rows, a=a, b=b: hub.translate(a, b, rows, expected=expected), a, b)  # type: ignore[misc]
            for a, b in self.maps
        }

    def score(self, translate: Callable[[np.ndarray], np.ndarray], source: str, target: str) -> Interval:
        """R^2 on the states left out of any translation of the source's rows into the target's."""
        target_rows = self.held_out.rows[target]
        scale = self._scale(target)
        residual = (target_rows - translate(self.held_out.rows[source])) / scale
        spread = (target_rows - target_rows.mean(0)) / scale
        squares = [(part**2).sum(1) for part in (residual, spread)]
        ids = self.held_out.ids
        state = np.arange(len(target_rows)) if ids is None else np.unique(ids, return_inverse=True)[1]
        count = int(state.max()) + 1
        return r2_interval(squares[0], squares[1], state * min(_BLOCKS, count) // count, self.confidence)[0]

    def _scale(self, name: str) -> np.ndarray:
        other = next(other for other in self.names if other != name)
        return self.maps[name, other].scale_in_


@validate_types
def fit_pairwise(
    encoders: Any,
    ids: Any = None,
    *,
    kind: str = "ridge",
    ridge: float | None = None,
    standardize: bool = True,
    partial: bool = False,
    share: float = 0.5,
    confidence: float = 0.95,
    seed: int = 0,
) -> Pairwise:
    """Fit the map of every encoder to every other on a share of the states.

    Args:
        encoders: arrays (n, width) by name, or a list of them, whose names are then "0", "1", ...
        ids: (n,) states of rows in one order, or by name, to match rows by.
        kind, ridge, standardize: of the maps, see `AlignmentMap`.
        partial: whether states that not all have are left out.
        share: of the states that maps are fitted on.
        confidence: of the intervals.
        seed: draws which.

    Raises:
        ValueError: rows do not match, are not finite, a column is constant, or there are too few.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 2))
        >>> maps_of = fit_pairwise([z, z @ [[2.0, 0], [1, 1]], z @ [[0.0, 1], [1, 0]]])
        >>> len(maps_of.maps), round(maps_of.scores()["0", "2"].estimate, 6)
        (6, 1.0)
    """
    check_number("confidence", confidence, "lie between 0 and 1", lambda value: 0 < value < 1)
    maps_of = gather(encoders, ids, partial=partial)
    split = split_states(len(maps_of), maps_of.ids, share, seed)
    fitted = maps_of.at(split.fit)
    maps = {
        (a, b): AlignmentMap(kind, ridge=ridge, standardize=standardize).fit(fitted.rows[a], fitted.rows[b])
        for a, b in permutations(maps_of.names, 2)
    }
    return Pairwise(maps, fitted, maps_of.at(split.score), confidence)


@dataclass(frozen=True)
class Cycle:
    """One way round.

    Attributes:
        names: of the encoders, the first is also the end.
        defect: |W - I| / |I| of the product W of all maps, between standardized columns.
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
        most: how many, numbers at random; None for all n (n - 1) (n - 2).
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
        numbers = numpy_generator(seed, "cycles").permutation(len(ways))[:most]
        ways = [ways[number] for number in np.sort(numbers)]
    return [cycle(found, way) for way in ways]


def cycle(found: Pairwise, names: Iterable[str]) -> Cycle:
    """One way round, through two or more encoders and back to the first."""
    way = tuple(names)
    names_of = dict.fromkeys(found.names)
    for name in way:
        choose("encoder", name, names_of)
    if len(way) < 2 or len(set(way)) != len(way):
        raise ValueError(f"a cycle must go through two or more encoders, each once, got {list(way)}")
    maps = [found.maps[pair] for pair in zip(way, (*way[1:], way[0]), strict=True)]

    def round_trip(rows: np.ndarray) -> np.ndarray:
        for one in maps:
            rows = one.transform(rows)
        return rows

    return Cycle(way, cycle_defect(*maps), found.score(round_trip, way[0], way[0]))
