r"""All maps between several encoders, beside those through a hub, scored on states left out.

Maps are fitted on some states and scored on others, in the columns of the target divided by their standard
deviations on the fitted states, as `AlignmentMap.score` does:

    R^2 = 1 - sum_i |y_i - f(x_i)|^2 / sum_i |y_i - mean|^2

with the interval of a mean over states. n encoders have n (n - 1) direct maps and n through a hub.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from isojepa.alignment.explained import explained_share
from isojepa.alignment.gathering import Gathered, gather
from isojepa.alignment.hub import Hub
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import split_states
from isojepa.statistics.intervals import Interval
from isojepa.validation import check_number, validate_types


@dataclass(frozen=True)
class Pairwise:
    """Direct maps of every encoder to every other, and the states that they were not fitted on.

    Attributes:
        maps: by the names of source and target.
        fitted, held_out: rows of all encoders that maps were fitted on, and those left.
        confidence: of the intervals.
    """

    maps: dict[tuple[str, str], AlignmentMap]
    fitted: Gathered
    held_out: Gathered
    confidence: float = 0.95

    @property
    def names(self) -> list[str]:
        """Of the encoders."""
        return self.fitted.names

    def scores(self) -> dict[tuple[str, str], Interval]:
        """Held-out R^2 of each map."""
        return {pair: self.score(fitted.transform, *pair) for pair, fitted in self.maps.items()}

    def hub_scores(self, hub: Hub, *, expected: bool = False) -> dict[tuple[str, str], Interval]:
        """Held-out R^2 of each translation through a hub, which is to be fitted on `fitted.rows`.

        Args:
            hub: that has the encoders.
            expected: see `Hub.translate`.
        """
        return {
            (a, b): self.score(lambda rows, a=a, b=b: hub.translate(a, b, rows, expected=expected), a, b)  # type: ignore[misc]
            for a, b in self.maps
        }

    def score(self, translate: Callable[[np.ndarray], np.ndarray], source: str, target: str) -> Interval:
        """R^2 on the states left out of any translation of the source's rows into the target's."""
        wanted = self.held_out.rows[target]
        scale = self._scale(target)
        residual = (wanted - translate(self.held_out.rows[source])) / scale
        spread = (wanted - wanted.mean(0)) / scale
        squares = [(part**2).sum(1) for part in (residual, spread)]
        return explained_share(squares[0], squares[1], self.held_out.ids, self.confidence)

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
    standardise: bool = True,
    partial: bool = False,
    share: float = 0.5,
    confidence: float = 0.95,
    seed: int = 0,
) -> Pairwise:
    """Fit the map of every encoder to every other on a share of the states.

    Args:
        encoders: arrays (n, width) by name, or a list of them, whose names are then "0", "1", ...
        ids: (n,) states of rows in one order, or by name, to match rows by.
        kind, ridge, standardise: of the maps, see `AlignmentMap`.
        partial: whether states that not all have are left out.
        share: of the states that maps are fitted on.
        confidence: of the intervals.
        seed: draws which.

    Raises:
        ValueError: rows do not match, are not finite, a column is constant, or there are too few.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 2))
        >>> found = fit_pairwise([z, z @ [[2.0, 0], [1, 1]], z @ [[0.0, 1], [1, 0]]])
        >>> len(found.maps), round(found.scores()["0", "2"].estimate, 6)
        (6, 1.0)
    """
    check_number("confidence", confidence, "lie between 0 and 1", lambda value: 0 < value < 1)
    found = gather(encoders, ids, partial=partial)
    split = split_states(len(found), found.ids, share, seed)
    fitted = found.at(split.fit)
    maps = {
        (a, b): AlignmentMap(kind, ridge=ridge, standardise=standardise).fit(fitted.rows[a], fitted.rows[b])
        for a, b in permutations(found.names, 2)
    }
    return Pairwise(maps, fitted, found.at(split.score), confidence)
