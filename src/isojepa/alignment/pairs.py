"""Rows of several encoders of the same states: validation, matching by state, and splits by state.

Encoders are compared on the rows that they give for the same states. Rows are matched by the id of their
state. A map that is fitted on some states is scored on others: all rows of a state are on one side of a
split.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.arrays import check_dense, to_array
from isojepa.seeds import numpy_generator
from isojepa.statistics.splits import Split, random_folds
from isojepa.validation import check_number, short_repr

CHUNK = 8192  # rows that are turned into float64 at once
_NAMED = 8  # columns that a message names


def as_array(name: str, values: Any) -> np.ndarray:
    """An array (n, dim) of numbers, of whatever float type; a memory map stays one.

    Raises:
        ValueError: it has another number of dimensions, no rows or columns, or is not made of numbers.
    """
    if isinstance(values, torch.Tensor):
        check_dense(name, values)
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    array: np.ndarray = values if isinstance(values, np.ndarray) else to_array(name, values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be rows (n, dim), got shape {array.shape}")
    return array


def check_pairs(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays whose rows are the same states.

    Raises:
        ValueError: they have different numbers of rows, or one is no array (n, dim).
    """
    first, second = as_array("first", first), as_array("second", second)
    if len(first) != len(second):
        raise ValueError(
            "first and second must have a row for each state, in one order, got "
            f"{len(first)} and {len(second)} rows: match them by their ids first (isojepa.alignment.match)"
        )
    return first, second


def as_rows(name: str, values: Any) -> np.ndarray:
    """All rows in float64.

    Raises:
        ValueError: it is no array (n, dim), or has numbers that are not finite.
    """
    return _finite(name, np.asarray(as_array(name, values), dtype=np.float64), 0)


def chunks(name: str, array: np.ndarray, size: int = CHUNK) -> Iterator[tuple[slice, np.ndarray]]:
    """The rows in float64, some at a time, with where they stand.

    Raises:
        ValueError: a number is not finite.
    """
    for start in range(0, len(array), size):
        where = slice(start, min(start + size, len(array)))
        yield where, _finite(name, np.asarray(array[where], dtype=np.float64), start)


def check_varied(name: str, scale: np.ndarray, mean: np.ndarray, advice: str) -> None:
    """That no column is constant.

    Args:
        name: of the array.
        scale, mean: standard deviation and mean of each column.
        advice: what to do.

    Raises:
        ValueError: some are; the message names the first.
    """
    flat = constant(scale, mean)
    if flat.any():
        columns = np.flatnonzero(flat)
        listed = ", ".join(map(str, columns[:_NAMED])) + (", ..." if len(columns) > _NAMED else "")
        raise ValueError(
            f"{name} must vary in every column, got {len(columns)} constant ones ({listed}): {advice}"
        )


def constant(scale: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Which columns have no spread beyond rounding."""
    flat: np.ndarray = scale <= 1e-9 * np.abs(mean) + np.finfo(np.float64).tiny
    return flat


def _finite(name: str, rows: np.ndarray, start: int) -> np.ndarray:
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(
            f"{name} must be finite, got {short_repr(float(rows[row, column]))} in row {start + row}, "
            f"column {column}"
        )
    return rows


def read_sides(
    first: Any, second: Any, *, least: int = 4, drop_constant: bool = False
) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows of two embeddings in float64, and a note on columns that were left out.

    Args:
        first, second: (n, d1) and (n, d2), numpy or torch, of any float type.
        least: rows that are needed.
        drop_constant: leave out constant columns, and note it, rather than raise an error.

    Raises:
        ValueError: they have different numbers of rows or too few, numbers that are not finite, or constant
            columns.

    Example:
        >>> read_sides(np.eye(4), np.eye(4)[:, :2])[1].shape
        (4, 2)
    """
    sides = check_pairs(first, second)
    if len(sides[0]) < least:
        raise ValueError(
            f"first and second must have at least {least} rows, got {len(sides[0])}: bring more states"
        )
    rows, notes = [], []
    for name, side in zip(("first", "second"), sides, strict=True):
        x = as_rows(name, side)
        low, high = x.min(0), x.max(0)
        flat = constant((high - low) / 2, np.maximum(np.abs(low), np.abs(high)))
        if flat.all():
            raise ValueError(f"{name} must have a column that varies, got {len(flat)} constant ones")
        if flat.any():
            if not drop_constant:
                advice = "leave them out, or say drop_constant=True"
                check_varied(name, np.where(flat, 0.0, 1.0), np.ones(len(flat)), advice)
            columns = np.flatnonzero(flat)
            listed = ", ".join(map(str, columns[:_NAMED])) + (", ..." if len(columns) > _NAMED else "")
            notes.append(f"constant columns of {name} left out: {listed}")
            x = np.ascontiguousarray(x[:, ~flat])
        rows.append(x)
    return rows[0], rows[1], "; ".join(notes)


def match(first_ids: Any, second_ids: Any, partial: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two arrays that are the same states.

    Args:
        first_ids, second_ids: (n,) and (m,) ids, numbers or text, each once.
        partial: whether states that only one has are left out; else they are an error.

    Returns:
        Rows of the first and of the second, in the order of the first.

    Raises:
        ValueError: an id stands twice, or has no partner.

    Example:
        >>> match(["b", "a"], ["a", "b"])
        (array([0, 1]), array([1, 0]))
    """
    first, second = state_ids("first_ids", first_ids), state_ids("second_ids", second_ids)
    if (first.dtype.kind in "iu") != (second.dtype.kind in "iu"):
        raise ValueError(f"both ids must be numbers, or both text, got {first.dtype} and {second.dtype}")
    for name, ids in (("first_ids", first), ("second_ids", second)):
        values, counts = np.unique(ids, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"{name} must name each state once, got {_listed(values[counts > 1])} more often"
            )
    if not partial:
        for name, ids, other in (("first_ids", first, second), ("second_ids", second, first)):
            lonely = ids[~np.isin(ids, other)]
            if len(lonely):
                raise ValueError(
                    f"{name} must have partners, got {len(lonely)} without one ({_listed(lonely)}): "
                    "say partial=True to leave them out"
                )
    order = np.argsort(second)
    at = np.searchsorted(second, first, sorter=order).clip(max=max(len(second) - 1, 0))
    matched = second[order[at]] == first if len(second) else np.zeros(len(first), bool)
    if not matched.any():
        raise ValueError("first_ids and second_ids must have states in common, got none")
    return np.flatnonzero(matched), order[at[matched]]


def split_states(rows: int, ids: Any = None, share: float = 0.5, seed: int = 0) -> Split:
    """Rows to fit on and rows to score on; all rows of one state are on one side.

    Args:
        rows: how many there are.
        ids: (rows,) of their states; by default each row is one of its own.
        share: of the states that are fitted on.
        seed: draws which.

    Raises:
        ValueError: there are not as many ids as rows, or fewer than two states.

    Example:
        >>> split_states(6, ids=[7, 7, 8, 8, 9, 9], share=0.7).score.tolist()
        [0, 1]
    """
    check_number("share", share, "lie between 0 and 1", lambda value: 0 < value < 1)
    named = np.arange(rows) if ids is None else state_ids("ids", ids)
    if len(named) != rows:
        raise ValueError(f"ids must be as many as rows, {rows}, got {len(named)}")
    states, state = np.unique(named, return_inverse=True)
    if len(states) < 2:
        raise ValueError(
            f"at least two states are needed to fit on some and score on others, got {len(states)}"
        )
    count = min(max(round(share * len(states)), 1), len(states) - 1)
    chosen = np.zeros(len(states), bool)
    chosen[numpy_generator(seed, "split").permutation(len(states))[:count]] = True
    return Split(np.flatnonzero(chosen[state]), np.flatnonzero(~chosen[state]))


def folds(rows: int, count: int, ids: Any = None, seed: int = 0) -> list[Split]:
    """Splits of which every state is scored in exactly one.

    Raises:
        ValueError: there are fewer states than folds, or not as many ids as rows.
    """
    named = np.arange(rows) if ids is None else state_ids("ids", ids)
    if len(named) != rows:
        raise ValueError(f"ids must be as many as rows, {rows}, got {len(named)}")
    return random_folds(np.unique(named, return_inverse=True)[1], count, seed)


def state_ids(name: str, ids: Any) -> np.ndarray:
    """Ids (n,), whole numbers or text.

    Raises:
        ValueError: they are something else.
    """
    array = np.asarray(ids.detach().cpu() if isinstance(ids, torch.Tensor) else ids)
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise ValueError(
            f"{name} must be a list of whole numbers or of text, got {array.dtype} {array.shape}"
        )
    return array


def _listed(ids: np.ndarray) -> str:
    return ", ".join(short_repr(value.item()) for value in ids[:3]) + (", ..." if len(ids) > 3 else "")


@dataclass(frozen=True)
class EncoderRows:
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

    def at(self, numbers: np.ndarray) -> "EncoderRows":
        """Some of the states."""
        ids = None if self.ids is None else self.ids[numbers]
        return EncoderRows({name: rows[numbers] for name, rows in self.rows.items()}, ids)


def gather(encoders: Any, ids: Any = None, *, partial: bool = False, least: int = 2) -> EncoderRows:
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
        >>> matched = gather({"a": [[1.0], [2.0]], "b": [[4.0], [3.0]]}, {"a": [7, 8], "b": [8, 7]})
        >>> matched.rows["b"].ravel().tolist(), matched.ids.tolist()
        ([3.0, 4.0], [7, 8])
    """
    arrays_given = _named("encoders", encoders)
    if len(arrays_given) < least:
        raise ValueError(f"encoders must be at least {least}, got {len(arrays_given)}")
    arrays = {name: as_array(f"rows of {short_repr(name)}", rows) for name, rows in arrays_given.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    ids_by_encoder = _own_ids(ids, counts)
    if ids_by_encoder is None:
        first = next(iter(counts.values()))
        for name, count in counts.items():
            if count != first:
                raise ValueError(
                    f"all encoders must have a row for each state, in one order, got {first} rows of "
                    f"{short_repr(next(iter(counts)))} and {count} of {short_repr(name)}: give the ids "
                    "of each"
                )
        states = None if ids is None else state_ids("ids", ids)
        if states is not None and len(states) != first:
            raise ValueError(f"ids must be as many as rows, {first}, got {len(states)}")
    else:
        names = list(ids_by_encoder)
        states = state_ids(f"ids of {short_repr(names[0])}", ids_by_encoder[names[0]])
        for name in names[1:]:
            states = states[match(states, ids_by_encoder[name], partial)[0]]
        arrays = {name: arrays[name][match(states, ids_by_encoder[name], True)[1]] for name in names}
    return EncoderRows(
        {name: as_rows(f"rows of {short_repr(name)}", array) for name, array in arrays.items()}, states
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
    named = _named("ids", ids)
    if set(named) != set(counts):
        raise ValueError(f"ids must be given of {_list(counts)}, got of {_list(named)}")
    for name, count in counts.items():
        if len(named[name]) != count:
            raise ValueError(
                f"ids of {short_repr(name)} must be as many as rows, {count}, got {len(named[name])}"
            )
    return {name: named[name] for name in counts}


def _list(names: Any) -> str:
    return ", ".join(short_repr(name) for name in names) or "none"
