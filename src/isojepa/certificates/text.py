"""Tables of numbers as text: columns between commas, semicolons, tabs or blanks, header or not."""

import math
from array import array
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

import numpy as np

from isojepa.certificates.left_out import leave_out
from isojepa.certificates.tables import grouped
from isojepa.io import open_plain, size_of

_LARGEST = 256 << 20  # bytes of a file; as numbers four times as many at most
_LONGEST = 16 << 20  # characters of a line


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a text table.

    Columns whose names differ only in a number at the end belong together, in the order of the file: h0, h1,
    z0, z1 are two arrays of two columns. A table without a header is one array, h. Empty cells are NaN. A
    first column without a name is the index that pandas writes: it is left out, which is said.

    Raises:
        ValueError: a row has another length or holds no numbers.
    """
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"as text it must have at most {size_of(_LARGEST)}: write it as npy")
    first = next(_lines(path), None)
    if first is None:
        raise ValueError("it holds no rows")
    second = next(islice(_lines(path), 1, None), "")
    separator = next((mark for mark in (",", ";", "\t") if mark in first), None)
    header = _cells(first, separator)
    unnamed = header[0] in ("", "Unnamed: 0")
    skipped = separator is not None and unnamed and _names(header[1:], second)
    if skipped:
        leave_out(f"{path}: the first column left out: it has no name, as the index of a pandas table")
        header = header[1:]
    elif not _names(header, second):
        header = []
    values = _numbers(path, separator, len(header), bool(header), skipped)
    if not header:
        return {"h": values}
    return {name: np.ascontiguousarray(values[:, columns]) for name, columns in grouped(header).items()}


def _names(cells: list[str], second: str) -> bool:
    """Whether the cells of the first line name columns rather than being numbers of the first row.

    pandas names columns 0, 1, 2, ... where nobody did: a header, unless the rows are such whole numbers too.
    """
    if not all(map(_is_number, cells)):
        return True
    numbered = cells == [str(column) for column in range(len(cells))]
    return numbered and bool(cells) and ("." in second or "e" in second)


def _without_first(line: str, separator: str | None) -> str:
    """A line without its first cell, which may be quoted and then hold separators."""
    if line.startswith('"') and '"' in line[1:]:
        line = line[line.index('"', 1) + 1 :]
    return line.partition(separator or " ")[2]


def _cells(line: str, separator: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(separator)]


def _lines(path: Path) -> Iterator[str]:
    """The lines that hold anything, one by one: as a list they would take many times the file's size."""
    with open_plain(path) as content, TextIOWrapper(content, encoding="utf-8-sig") as file:
        while line := file.readline(_LONGEST):
            if len(line) == _LONGEST:
                raise ValueError(f"a line must have less than {_LONGEST} characters")
            if line.strip():
                yield line


def _numbers(path: Path, separator: str | None, width: int, header: bool, skipped: bool) -> np.ndarray:
    """The rows as numbers: by NumPy's fast reader, and where it refuses, by one that says why."""

    def rows() -> Iterator[str]:
        lines = islice(_lines(path), int(header), None)
        return (_without_first(line, separator) for line in lines) if skipped else lines

    if next(rows(), None) is None:
        raise ValueError("it holds a header and no rows")
    try:
        values = np.loadtxt(rows(), delimiter=separator, ndmin=2)
        if values.shape[1] == (width or values.shape[1]):
            return values
    except ValueError:
        pass
    found = array("d")
    for index, line in enumerate(rows()):
        row = _cells(line, separator)
        width = width or len(row)
        if len(row) != width:
            raise ValueError(f"row {index + 1 + header} has {len(row)} columns where the first has {width}")
        found.extend(float(cell) if cell else math.nan for cell in row)
    return np.frombuffer(found, np.float64).reshape(-1, width)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
