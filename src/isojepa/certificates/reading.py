"""Files of embeddings: npy, npz, pt, safetensors, HDF5, Parquet and text, by the names of their arrays.

Kinds: npy (one array), npz, pt, safetensors and HDF5 (named arrays), Parquet and CSV (columns, CSV with or
without a header). The names that are understood:

    h, embeddings              (n, m) embeddings of the first view
    h_next, embeddings_next    (n, m) embeddings of the second view of each pair
    z, latents                 (n, d) true latents of the first view
    z_next, latents_next       (n, d) true latents of the second view
    x, x_next                  observations of the two views, for an encoder to embed
    a, actions                 (n, k) what was done between the two views, for the transition
    episodes                   (n,) which episode each row is of, for the transition

Any other array is named by hand: `FILE::NAME`. The columns of a table belong together by the name before
their number: h0, h1, z0, z1. npy, pt, HDF5 and Parquet files stay on the disk and are read piece by piece, so
embeddings may be larger than memory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.left_out import Refused
from isojepa.certificates.tables import read_parquet
from isojepa.certificates.tensors import read_torch
from isojepa.certificates.text import read_csv
from isojepa.data.files import read_hdf5, read_npz
from isojepa.io import plain_file
from isojepa.validation import unknown, validate_types

_NAMES = {
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


def split_name(path: str | Path) -> tuple[Path, str | None]:
    """FILE::NAME as the file and the array's name in it; no name without the colons."""
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
        ValueError: the file is missing or damaged, or it is not clear which array they are.
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
        more: how the caller is told of further arrays, for the message that asks for names.

    Raises:
        ValueError: the file is missing or damaged, or its names are not understood.
    """
    file, name = split_name(path)
    if name is not None:
        return {"h": read_array(path)}
    arrays = _read(file)
    if len(arrays) == 1 and _NAMES.get(next(iter(arrays))) in (None, "a", "episodes"):
        return {"h": next(iter(arrays.values()))}
    named: dict[str, Any] = {}
    for name, value in arrays.items():
        if name not in _NAMES:
            if "h" in arrays or "embeddings" in arrays:
                raise ValueError(f"{file}: " + unknown("array name", name, _NAMES))
            raise ValueError(
                f"{file} holds {_listed(arrays)}, and it is not clear which are the embeddings: name them h, "
                f"h_next and z in the file, or pass {file}::{name}{more}"
            )
        if _NAMES[name] in named:
            raise ValueError(f"{file} holds {_NAMES[name]!r} twice, under two names")
        named[_NAMES[name]] = value
    if "h" not in named and "x" not in named:
        raise ValueError(f"{file} must hold an array 'h' or 'embeddings', got {_listed(arrays)}")
    return named


@validate_types
def read_actions(path: str | Path) -> Any:
    """Read the actions of a file: its array a or actions, its only one, or FILE::NAME.

    Raises:
        ValueError: the file is missing or damaged, or it is not clear which array they are.
    """
    file, name = split_name(path)
    arrays = {} if name is not None else _read(file)
    known = [key for key in arrays if _NAMES.get(key) == "a"]
    return arrays[known[0]] if len(known) == 1 else read_array(path)


def _listed(arrays: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none"


def _read(path: Path) -> Mapping[str, Any]:
    plain_file(path)
    kind = path.suffix.lower()
    readers = {
        ".npy": _read_npy,
        ".npz": read_npz,
        ".pt": read_torch,
        ".pth": read_torch,
        ".parquet": read_parquet,
        ".safetensors": _read_safetensors,
        ".h5": read_hdf5,
        ".hdf5": read_hdf5,
        ".csv": read_csv,
        ".tsv": read_csv,
        ".txt": read_csv,
    }
    if kind not in readers:
        raise ValueError(f"{path} must be a record, or a file of kind {KINDS}, got {path.suffix!r}")
    try:
        return readers[kind](path)
    except (ImportError, Refused):
        raise
    except Exception as error:  # numpy, zipfile, h5py and safetensors raise many kinds for a damaged file
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
