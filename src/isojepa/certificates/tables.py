"""Tables: how columns make arrays, and Parquet files, whose columns stay on the disk.

Columns whose names differ only in a number at the end belong together, in the order of the file: h0, h1, z0,
z1 are two arrays of two columns; columns that are only numbered are h. A column of lists is an array by
itself, each list a row. A column that pandas wrote to number its rows is left out, and that is said.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.left_out import Refused, leave_out
from isojepa.importing import install_hint

_BATCH = 4_000_000  # numbers that are read at once
_INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name in Parquet


def grouped(names: Iterable[str]) -> dict[str, list[int]]:
    """The places of the columns of each array, by its name."""
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        stem = re.sub(r"[\s_.\[(]*\d+[\])]?$", "", name)
        groups.setdefault(stem or ("h" if name.isdecimal() else name), []).append(column)
    return groups


def read_parquet(path: Path) -> dict[str, "Columns"]:
    """The arrays of a Parquet file, read piece by piece when they are used.

    Raises:
        ImportError: pyarrow is not there.
        Refused: a column holds no numbers.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: {install_hint('data')}") from error
    file = parquet.ParquetFile(path)
    kinds = {field.name: field.type for field in file.schema_arrow}
    index = [name for name in kinds if _INDEX.fullmatch(name)]
    if index:
        leave_out(f"{path}: column {', '.join(index)} left out: it is the index of a pandas table")
    names = [name for name in kinds if name not in index]
    lists = [name for name in names if _is_list(kinds[name])]
    plain = [name for name in names if name not in lists]
    for name in names:
        inner = kinds[name].value_type if name in lists else kinds[name]
        if not _is_number(inner):
            raise Refused(
                f"{path} must hold columns of numbers, or of lists of numbers, got {kinds[name]} in column "
                f"{name!r}: leave it out when you write the file"
            )
    arrays = {name: Columns(path, file, [name], _width(path, file, name)) for name in lists}
    for name, places in grouped(plain).items():
        if name in arrays:
            raise Refused(
                f"{path} must hold {name!r} as one column of lists or as several of numbers, got both"
            )
        arrays[name] = Columns(path, file, [plain[place] for place in places])
    return arrays


class Columns:
    """Columns of a Parquet file as an array (rows, dim) of float64 that is read in pieces, front to back.

    Args:
        path: of the file, for messages.
        file: an open `pyarrow.parquet.ParquetFile`.
        names: of the columns.
        width: numbers in each list, of a single column of lists.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, path: Path, file: Any, names: list[str], width: int | None = None) -> None:
        self._path, self._file, self._names, self._width = path, file, names, width
        self.shape = file.metadata.num_rows, len(names) if width is None else width
        self._parts: Iterator[np.ndarray] | None = None  # those that follow; None before the first look
        self._part = np.zeros((0, self.shape[1]))
        self._start = 0  # of the part
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        self._groups = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[0 : len(self)], dtype=dtype)

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, tuple):
            (rows,) = rows
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            return self._between(start, max(start, stop))[::step]
        return np.asarray(self._between(int(rows), int(rows) + 1)[0])

    def _between(self, start: int, stop: int) -> np.ndarray:
        if start < self._start or start >= self._start + len(self._part):
            self._seek(start)
        found = []
        while start < stop:
            if start >= self._start + len(self._part):
                self._go_on()
                continue
            part = self._part[start - self._start : stop - self._start]
            found.append(part)
            start += len(part)
        return np.concatenate(found) if found else np.zeros((0, self.shape[1]))

    def _go_on(self) -> None:
        self._start += len(self._part)
        try:
            part = next(self._parts or iter(()), None)
        except Refused:
            raise
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            raise ValueError(f"{self._path} is damaged or not a plain .parquet file ({error})") from error
        if part is None:
            raise ValueError(f"{self._path} is damaged: it promises {len(self)} rows, got {self._start}")
        self._part = part

    def _seek(self, row: int) -> None:
        """Go on from a row: a little further in the same reading, else from its group of rows."""
        group = max(0, int(np.searchsorted(self._groups, row, side="right")) - 1)
        if (
            self._parts is not None
            and self._start <= row
            and self._groups[group] <= self._start + len(self._part)
        ):
            return
        groups = list(range(group, len(self._groups) - 1))
        self._start, self._part = int(self._groups[group]), np.zeros((0, self.shape[1]))
        batches = self._file.iter_batches(
            batch_size=max(1, _BATCH // max(1, self.shape[1])), row_groups=groups, columns=self._names
        )
        self._parts = (self._numbers(batch) for batch in batches)

    def _numbers(self, batch: Any) -> np.ndarray:
        """The rows of a batch; NaN where there is none."""
        if self._width is None:
            return np.stack([_floats(batch.column(name)) for name in self._names], axis=1)
        return _lists(self._path, batch.column(self._names[0]), self._names[0], self._width)


def _lists(path: Path, column: Any, name: str, width: int) -> np.ndarray:
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).fill_null(width)
    if compute.any(compute.not_equal(lengths, width)).as_py():
        raise Refused(f"{path} must hold lists of one length in {name!r}, got {width} and others")
    rows = np.full((len(column), width), np.nan)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    rows[known] = _floats(column.drop_null().flatten()).reshape(-1, width)
    return rows


def _floats(column: Any) -> np.ndarray:
    import pyarrow

    return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _width(path: Path, file: Any, name: str) -> int:
    """The length of the first list."""
    for batch in file.iter_batches(batch_size=1, columns=[name]):
        first = batch.column(0)[0]
        if first.is_valid and len(first):
            return len(first)
    raise Refused(f"{path} must hold lists of numbers in column {name!r}, got none")


def _is_list(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind))
