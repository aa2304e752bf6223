"""Rows of several encoders, of the same states in the same order, whatever they were handed in as."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isojepa.alignment.pairs import match, state_ids
from isojepa.alignment.rows import as_array, as_rows
from isojepa.validation import short_repr


@dataclass(frozen=True)
class Gathered:
    """Embeddings of the same states.

    Attributes:
        rows: (n, width) in float64 by name; widths may differ.
        ids: (n,) of the states, or None.
    """

    rows: dict[str, np.ndarray]
    ids: np.ndarray | None

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    @property
    def names(self) -> list[str]:
        """Of the encoders."""
        return list(self.rows)

    def at(self, numbers: np.ndarray) -> "Gathered":
        """Some of the states."""
        kept = None if self.ids is None else self.ids[numbers]
        return Gathered({name: rows[numbers] for name, rows in self.rows.items()}, kept)


def gather(encoders: Any, ids: Any = None, *, partial: bool = False, least: int = 2) -> Gathered:
    """Rows of several encoders, matched by state.

    Args:
        encoders: arrays (n, width) by name, or a list of them, whose names are then "0", "1", ...
        ids: none if all rows are in one order; (n,) states if they are, and several rows may be of one; or
            ids by name (a list, if the encoders are one), by which rows are matched, each state once.
        partial: whether states that only some have are left out; else they are an error.
        least: number of encoders.

    Raises:
        ValueError: there are too few encoders, their rows do not match, or a number is not finite.

    Example:
        >>> found = gather({"a": [[1.0], [2.0]], "b": [[4.0], [3.0]]}, {"a": [7, 8], "b": [8, 7]})
        >>> found.rows["b"].ravel().tolist(), found.ids.tolist()
        ([3.0, 4.0], [7, 8])
    """
    given = _named("encoders", encoders)
    if len(given) < least:
        raise ValueError(f"encoders must be at least {least}, got {len(given)}")
    arrays = {name: as_array(f"rows of {short_repr(name)}", rows) for name, rows in given.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    own = _own_ids(ids, counts)
    if own is None:
        first = next(iter(counts.values()))
        for name, count in counts.items():
            if count != first:
                raise ValueError(
                    f"all encoders must have a row for each state, in one order, got {first} rows of "
                    f"{short_repr(next(iter(counts)))} and {count} of {short_repr(name)}: give the ids "
                    "of each"
                )
        kept = None if ids is None else state_ids("ids", ids)
        if kept is not None and len(kept) != first:
            raise ValueError(f"ids must be as many as rows, {first}, got {len(kept)}")
    else:
        names = list(own)
        kept = state_ids(f"ids of {short_repr(names[0])}", own[names[0]])
        for name in names[1:]:
            kept = kept[match(kept, own[name], partial)[0]]
        arrays = {name: arrays[name][match(kept, own[name], True)[1]] for name in names}
    return Gathered(
        {name: as_rows(f"rows of {short_repr(name)}", array) for name, array in arrays.items()}, kept
    )


def _named(what: str, values: Any) -> dict[str, Any]:
    if isinstance(values, Mapping):
        for name in values:
            if not isinstance(name, str) or not name:
                raise ValueError(f"{what} must have names that are text, got {short_repr(name)}")
        return dict(values)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return {str(number): value for number, value in enumerate(values)}
    raise ValueError(
        f"{what} must be arrays by name, or a list of them, got {short_repr(type(values).__name__)}"
    )


def _own_ids(ids: Any, counts: dict[str, int]) -> dict[str, Any] | None:
    """Ids by encoder, if they were given so."""
    nested = isinstance(ids, Sequence) and not isinstance(ids, str | bytes) and len(ids) == len(counts)
    if not isinstance(ids, Mapping) and not (nested and all(np.ndim(one) == 1 for one in ids)):
        return None
    own = _named("ids", ids)
    if set(own) != set(counts):
        raise ValueError(f"ids must be given of {_list(counts)}, got of {_list(own)}")
    for name, count in counts.items():
        if len(own[name]) != count:
            raise ValueError(
                f"ids of {short_repr(name)} must be as many as rows, {count}, got {len(own[name])}"
            )
    return {name: own[name] for name in counts}


def _list(names: Any) -> str:
    return ", ".join(short_repr(name) for name in names) or "none"
