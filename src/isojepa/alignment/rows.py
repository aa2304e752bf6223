"""Rows of embeddings as people hand them in: two arrays (n, dim) of the same states, checked before use."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from isojepa.certificates.embeddings import check_dense, to_array
from isojepa.validation import short_repr

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
        told = ", ".join(map(str, columns[:_NAMED])) + (", ..." if len(columns) > _NAMED else "")
        raise ValueError(
            f"{name} must vary in every column, got {len(columns)} constant ones ({told}): {advice}"
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
