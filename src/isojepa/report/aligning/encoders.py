"""Encoders in charts: a letter for each, layers of two of them, and the singular values of a map."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np

from isojepa.alignment.comparing import Comparisons
from isojepa.alignment.maps import AlignmentMap


@dataclass(frozen=True)
class Layers:
    """CKA of the layers of two encoders.

    Attributes:
        pair: which two.
        first, second: names of their layers.
        cka: (layers of the first, layers of the second), as `layer_cka` gives it.
    """

    pair: tuple[int, int]
    first: Sequence[str]
    second: Sequence[str]
    cka: np.ndarray

    def __post_init__(self) -> None:
        if np.shape(self.cka) != (len(self.first), len(self.second)):
            raise ValueError(
                f"cka must be {len(self.first)} layers by {len(self.second)}, got shape {np.shape(self.cka)}"
            )


def letters(count: int) -> list[str]:
    """A sign for each encoder: letters, or numbers where these are too few.

    Example:
        >>> letters(3), letters(40)[-1]
        (['A', 'B', 'C'], '40')
    """
    if count <= len(ascii_uppercase):
        return list(ascii_uppercase[:count])
    return [str(place) for place in range(1, count + 1)]


def singular_values(found: Comparisons) -> np.ndarray | None:
    """Of the map of a pair, largest first; None of a map that is none of ours."""
    return found.map.singular_values_ if isinstance(found.map, AlignmentMap) else None
