"""Files of arrays: npy, npz, pt, safetensors, HDF5, Parquet and text, by the names of their arrays.

npy (one array), npz, pt, safetensors and HDF5 (named arrays), Parquet and CSV (columns, CSV with or without
a header). Names that are understood:

    h, embeddings              (n, m) embeddings of the first view
    h_next, embeddings_next    (n, m) embeddings of the second view of each pair
    z, latents                 (n, d) true latents of the first view
    z_next, latents_next       (n, d) true latents of the second view
    x, x_next                  observations of the two views, for an encoder to embed
    a, actions                 (n, k) actions between the two views, for the transition
    episodes                   (n,) episode of each row, for the transition

Other arrays are named by the user: `FILE::NAME`. Columns of a table whose names differ only in a number at
the end are one array, in the order of the file: h0, h1, z0, z1 are two arrays of two columns; columns that
are only numbered are h. npy, pt and HDF5 files stay on the disk and are read piece by piece; tables are
read into memory.
"""

import csv
import math
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.files import read_hdf5, read_npz
from isojepa.importing import install_hint
from isojepa.io import check_expanded, check_stored, open_plain, plain_file, size_of
from isojepa.validation import unknown, validate_types

NAMES = {
    "h": "h",
    "embeddings": "h",
    "h_next": "h_next",
    "embeddings_next": "h_next",
    "z": "z",
    "latents": "z",
    "z_next": "z_next",
    "latents_next": "z_next",
    "x": "x",
    "x_next": "x_next",
    "a": "a",
    "actions": "a",
    "episodes": "episodes",
}
KINDS = "npy, npz, pt, safetensors, HDF5, Parquet or CSV"
_MAX_TEXT_BYTES = 256 << 20  # of a text table; as numbers at most four times as many
_MAX_LINE = 16 << 20  # characters
_LISTED = 8  # names in a message
_PLAIN = (int, float, str, bool, type(None))  # values beside the tensors of a torch file
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # an unnamed index in Parquet


class DataWarning(UserWarning):
    """Part of the data was not used; the message says which and why."""


class UnsupportedFile(ValueError):
    """The file is whole, but of a form that is not read; the message says why and what to do."""


def warn(message: str) -> None:
    """Warn that part of the data is left out; the command line prints it as a note."""
    warnings.warn(message, DataWarning, stacklevel=3)


def split_name(path: str | Path) -> tuple[Path, str | None]:
    """FILE::NAME as the file and the array's name in it; None without the colons."""
    file, colons, name = str(path).rpartition("::")
    if Path(path).exists():  # a file whose own name has colons
        return Path(path), None
    return (Path(file), name) if colons else (Path(path), None)


@validate_types
def read_array(path: str | Path) -> Any:
    """Read one array: FILE::NAME, or a file that holds exactly one.

    Raises:
        ValueError: the file is missing, damaged, of another kind, or holds several arrays.
    """
    file, name = split_name(path)
    arrays = _read(file)
    if name is not None:
        if name not in arrays:
            raise ValueError(f"{file}: " + unknown("array name", name, arrays))
        return arrays[name]
    if len(arrays) != 1:
        raise ValueError(f"{file} must hold one array, got {_listed(arrays)}: name one as {file}::NAME")
    return next(iter(arrays.values()))


@validate_types
def read_embeddings(path: str | Path) -> Any:
    """Read the embeddings of a file: its array h, its only one, or FILE::NAME.

    Raises:
        ValueError: the file is missing or damaged, or several arrays could be the embeddings.
    """
    arrays = read_named(path)
    if "h" not in arrays:
        raise ValueError(
            f"{path} must hold embeddings 'h', got {_listed(arrays)}: name the array, {path}::NAME"
        )
    return arrays["h"]


@validate_types
def read_named(path: str | Path, more: str = "") -> dict[str, Any]:
    """Read the arrays of a file under the first of the names above, h, z, a, ...; of FILE::NAME one, as h.

    Args:
        path: of the file.
        more: how the caller takes further arrays, for the message that asks for names.

    Raises:
        ValueError: the file is missing or damaged, or its names are not understood.
    """
    file, name = split_name(path)
    if name is not None:
        return {"h": read_array(path)}
    arrays = _read(file)
    if len(arrays) == 1 and NAMES.get(next(iter(arrays))) in (None, "a", "episodes"):
        return {"h": next(iter(arrays.values()))}
    named: dict[str, Any] = {}
    for name, value in arrays.items():
        if name not in NAMES:
            if "h" in arrays or "embeddings" in arrays:
                raise ValueError(f"{file}: " + unknown("array name", name, NAMES))
            raise ValueError(
                f"{file} holds {_listed(arrays)}, and it is not clear which are the embeddings: name them h, "
                f"h_next and z in the file, or pass {file}::{name}{more}"
            )
        if NAMES[name] in named:
            raise ValueError(f"{file} holds {NAMES[name]!r} twice, under two names")
        named[NAMES[name]] = value
    if "h" not in named and "x" not in named:
        raise ValueError(f"{file} must hold an array 'h' or 'embeddings', got {_listed(arrays)}")
    return named


@validate_types
def read_actions(path: str | Path) -> Any:
    """Read the actions of a file: its array a or actions, its only one, or FILE::NAME.

    Raises:
        ValueError: the file is missing or damaged, or several arrays could be the actions.
    """
    file, name = split_name(path)
    arrays = {} if name is not None else _read(file)
    actions = [key for key in arrays if NAMES.get(key) == "a"]
    return arrays[actions[0]] if len(actions) == 1 else read_array(path)


def _listed(arrays: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "none"


def _read(path: Path) -> Mapping[str, Any]:
    plain_file(path)
    kind = path.suffix.lower()
    readers = {
        ".npy": _read_npy,
        ".npz": read_npz,
        ".pt": _read_torch,
        ".pth": _read_torch,
        ".parquet": _read_parquet,
        ".safetensors": _read_safetensors,
        ".h5": read_hdf5,
        ".hdf5": read_hdf5,
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".txt": _read_csv,
    }
    if kind not in readers:
        raise ValueError(f"{path} must be a run directory, or a file of kind {KINDS}, got {path.suffix!r}")
    try:
        return readers[kind](path)
    except (ImportError, UnsupportedFile):
        raise
    except Exception as error:  # numpy, zipfile, h5py, pyarrow and safetensors raise many kinds
        raise ValueError(f"{path} is damaged or not a plain {kind} file ({error})") from error


def _read_npy(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size == 0:
        raise ValueError("it is empty")
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it does not begin like one")
    return {"h": np.load(path, allow_pickle=False, mmap_mode="r")}


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _read_torch(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of `torch.save`, memory-mapped; a single one is h. Nothing is unpickled."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(2) not in (b"\x80\x02", b"\x80\x03", b"\x80\x04"):  # how a pickle begins
                raise ValueError("it is empty, cut short, or of another kind")
        raise UnsupportedFile(
            f"{path} must be in torch's format since 1.6, got an older one or a plain pickle: load it where "
            "you trust it, and save the tensor with torch.save(h, path)"
        )
    check_stored(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise UnsupportedFile(
            f"{path} must hold a tensor or a dict of tensors, got objects that would have to be unpickled, "
            "which can run code: save the tensors alone, torch.save({'h': h, 'h_next': h_next}, path)"
        ) from error
    content = {"h": content} if isinstance(content, Tensor) else content
    required = f"{path} must hold a tensor or a dict of tensors, got a"
    if not isinstance(content, dict):
        raise UnsupportedFile(f"{required} {type(content).__name__}")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    other = {name: value for name, value in content.items() if not isinstance(value, Tensor)}
    for name, value in other.items():
        if not isinstance(value, _PLAIN):
            raise UnsupportedFile(f"{required} {type(value).__name__} under {name!r}")
    if not tensors:
        raise UnsupportedFile(f"{required} dict without one")
    if other:
        warn(f"{path}: {', '.join(map(str, other))} left out: no tensors")
    for name, tensor in tensors.items():  # one number may be expanded to any shape
        declared = tensor.numel() * tensor.element_size()
        check_expanded(declared, path.stat().st_size, repr(name), "save what contiguous() gives")
    return tensors


def _grouped(names: Iterable[str]) -> dict[str, list[int]]:
    """Numbers of the columns of each array, by its name."""
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        stem = re.sub(r"[\s_.\[(]*\d+[\])]?$", "", name)
        groups.setdefault(stem or ("h" if name.isdecimal() else name), []).append(column)
    return groups


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    """Columns of numbers by the names of their arrays; a column of lists is an array by itself."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: {install_hint('data')}") from error
    file = pyarrow.parquet.ParquetFile(path)
    check_expanded(
        8 * file.metadata.num_rows * file.metadata.num_columns,
        path.stat().st_size,
        "its columns",
        "write them as npy files",
    )
    kinds = {field.name: field.type for field in file.schema_arrow}
    index = [name for name in kinds if _PANDAS_INDEX.fullmatch(name)]
    if index:
        warn(f"{path}: column {', '.join(index)} left out: it is the index of a pandas table")
    lists: list[str] = []
    numbers: list[str] = []
    for name, kind in kinds.items():
        if name in index:
            continue
        types = pyarrow.types
        nested = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        inner = kind.value_type if nested else kind
        if not (types.is_integer(inner) or types.is_floating(inner)):
            raise UnsupportedFile(
                f"{path} must hold columns of numbers, or of lists of numbers, got {kind} in column "
                f"{name!r}: leave it out when you write the file"
            )
        (lists if nested else numbers).append(name)
    table = file.read(columns=[*lists, *numbers])
    arrays = {name: _lists(path, table.column(name), name) for name in lists}
    for name, places in _grouped(numbers).items():
        if name in arrays:
            raise UnsupportedFile(
                f"{path} must hold {name!r} as one column of lists or as several of numbers, got both"
            )
        arrays[name] = np.stack([_floats(table.column(numbers[place])) for place in places], axis=1)
    return arrays


def _floats(column: Any) -> np.ndarray:
    """Numbers of a column, NaN for those that are missing."""
    import pyarrow

    return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _lists(path: Path, column: Any, name: str) -> np.ndarray:
    """Rows (n, width) of a column of lists, NaN for those that are missing."""
    column = column.combine_chunks()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    rows = column.drop_null()
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {0}:
        described = f"{min(widths)} and others" if widths - {0} else "none"
        raise UnsupportedFile(f"{path} must hold lists of one length in {name!r}, got {described}")
    array = np.full((len(column), widths.pop()), np.nan)
    array[valid] = _floats(rows.flatten()).reshape(len(rows), -1)
    return array


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a text table, its cells apart by commas, semicolons, tabs or blanks; empty cells are NaN.

    A first column without a name is the index that pandas writes, and is left out with a warning.
    """
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise ValueError(f"as text it must have at most {size_of(_MAX_TEXT_BYTES)}: write it as npy")
    first, second = (*islice(_lines(path), 2), "", "")[:2]
    if not first:
        raise ValueError("it holds no rows")
    separator = next((mark for mark in (",", ";", "\t") if mark in first), None)
    names = _cells(first, separator)
    indexed = separator is not None and names[0] in ("", "Unnamed: 0") and _is_header(names[1:], second)
    if indexed:
        warn(f"{path}: the first column left out: it has no name, as the index of a pandas table")
        names = names[1:]
    elif not _is_header(names, second):
        names = []
    values = _numbers(path, separator, len(names), indexed)
    if not names:
        return {"h": values}
    return {name: np.ascontiguousarray(values[:, columns]) for name, columns in _grouped(names).items()}


def _is_header(cells: list[str], second: str) -> bool:
    """Whether the first line names columns.

    pandas numbers unnamed columns 0, 1, 2, ...: a header, unless the rows are such whole numbers too.
    """
    if not all(map(_is_number, cells)):
        return True
    numbered = cells == [str(column) for column in range(len(cells))]
    return numbered and bool(cells) and ("." in second or "e" in second)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _cells(line: str, separator: str | None) -> list[str]:
    cells = line.split() if separator is None else next(csv.reader([line], delimiter=separator))
    return [cell.strip() for cell in cells]


def _lines(path: Path) -> Iterator[str]:
    """Lines that are not blank, one by one: a list of them would take many times the file's size."""
    with open_plain(path) as content, TextIOWrapper(content, encoding="utf-8-sig") as file:
        while line := file.readline(_MAX_LINE):
            if len(line) == _MAX_LINE:
                raise ValueError(f"a line must have less than {_MAX_LINE} characters")
            if line.strip():
                yield line


def _numbers(path: Path, separator: str | None, width: int, indexed: bool) -> np.ndarray:
    """Rows of a table: by NumPy's fast reader, else by one that takes empty cells and names bad rows."""

    def lines() -> Iterator[str]:
        return islice(_lines(path), int(width > 0), None)

    if next(lines(), None) is None:
        raise ValueError("it holds a header and no rows")
    if not indexed:
        try:
            values = np.loadtxt(lines(), delimiter=separator, ndmin=2)
            if values.shape[1] == (width or values.shape[1]):
                return values
        except ValueError:
            pass
    rows = []
    for number, line in enumerate(lines(), start=1 + (width > 0)):
        cells = _cells(line, separator)[int(indexed) :]
        width = width or len(cells)
        if len(cells) != width:
            raise ValueError(f"row {number} has {len(cells)} columns where the first has {width}")
        rows.append(np.array([float(cell) if cell else math.nan for cell in cells]))
    return np.stack(rows)
