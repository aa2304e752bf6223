"""Tables of numbers as text: columns between commas, semicolons, tabs or blanks, header or not."""

import re
from pathlib import Path

import numpy as np


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a text table.

    Columns whose names differ only in a number at the end belong together, in the order of the file: h0, h1,
    z0, z1 are two arrays of two columns. A table without a header is one array, h. Empty cells are NaN.

    Raises:
        ValueError: a row has another length or holds no numbers.
    """
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError("it holds no rows")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0]), None)
    header = _cells(lines[0], separator)
    if all(map(_is_number, header)):
        header = []
    values = _numbers(lines[1:] if header else lines, separator, len(header), bool(header))
    if not header:
        return {"h": values}
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(header):
        groups.setdefault(re.sub(r"[\s_.\[(]*\d+[\])]?$", "", name) or name, []).append(column)
    return {name: np.ascontiguousarray(values[:, columns]) for name, columns in groups.items()}


def _cells(line: str, separator: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(separator)]


def _numbers(lines: list[str], separator: str | None, width: int, header: bool) -> np.ndarray:
    """The rows as numbers: by NumPy's fast reader, and where it refuses, by one that says why."""
    if not lines:
        raise ValueError("it holds a header and no rows")
    try:
        values = np.loadtxt(lines, delimiter=separator, ndmin=2)
        if values.shape[1] == (width or values.shape[1]):
            return values
    except ValueError:
        pass
    rows = [_cells(line, separator) for line in lines]
    width = width or len(rows[0])
    for index, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"row {index + 1 + header} has {len(row)} columns where the first has {width}")
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
