"""Tables of numbers as text: columns between commas, semicolons, tabs or blanks, header or not."""

from pathlib import Path

import numpy as np

from isojepa.certificates.left_out import leave_out
from isojepa.certificates.tables import grouped


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a text table.

    Columns whose names differ only in a number at the end belong together, in the order of the file: h0, h1,
    z0, z1 are two arrays of two columns. A table without a header is one array, h. Empty cells are NaN. A
    first column without a name is the index that pandas writes: it is left out, which is said.

    Raises:
        ValueError: a row has another length or holds no numbers.
    """
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError("it holds no rows")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0]), None)
    header = _cells(lines[0], separator)
    rest = lines[1:]
    unnamed = header[0] in ("", "Unnamed: 0")
    if separator is not None and unnamed and _names(header[1:], rest):
        leave_out(f"{path}: the first column left out: it has no name, as the index of a pandas table")
        header = header[1:]
        lines = [line.partition(separator)[2] for line in _unquoted(lines)]
    elif not _names(header, rest):
        header = []
    values = _numbers(lines[1:] if header else lines, separator, len(header), bool(header))
    if not header:
        return {"h": values}
    return {name: np.ascontiguousarray(values[:, columns]) for name, columns in grouped(header).items()}


def _names(cells: list[str], rows: list[str]) -> bool:
    """Whether the cells of the first line name columns rather than being numbers of the first row.

    pandas names columns 0, 1, 2, ... where nobody did: a header, unless the rows are such whole numbers too.
    """
    if not all(map(_is_number, cells)):
        return True
    numbered = cells == [str(column) for column in range(len(cells))]
    return numbered and bool(cells) and any("." in line or "e" in line for line in rows[:1])


def _unquoted(lines: list[str]) -> list[str]:
    """The lines, with a quoted first cell, which may hold separators, made empty."""
    return [
        line[line.index('"', 1) + 1 :] if line.startswith('"') and '"' in line[1:] else line for line in lines
    ]


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
