"""Embeddings from arrays and files, checked before anything is computed from them.

Files: npy (one array), npz, safetensors and HDF5 (named arrays), CSV (columns, with or without a header). The
names that are understood:

    h, embeddings              (n, m) embeddings of the first view
    h_next, embeddings_next    (n, m) embeddings of the second view of each pair
    z, latents                 (n, d) true latents of the first view
    z_next, latents_next       (n, d) true latents of the second view
    x, x_next                  observations of the two views, for an encoder to embed

Any other array is named by hand: `FILE::NAME`. The columns of a CSV file belong together by the name before
their number: h0, h1, z0, z1. npy and HDF5 files stay on the disk and are read piece by piece, so embeddings
may be larger than memory.
"""

import contextlib
import math
import mmap
import numbers
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.certificates.text import read_csv
from isojepa.names import unknown

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
}
_WORDS = {"h": "embeddings", "h_next": "next", "z": "latents", "z_next": "latents_next"}
_CHUNK = 4_000_000  # numbers read at once
_LARGEST = 1e70  # fourth powers of larger numbers leave float64
KINDS = "npy, npz, safetensors, HDF5 or CSV"


@dataclass(frozen=True)
class Chunk:
    """Rows of the embeddings, float64 and finite; `start` is the index of the first that was read."""

    h: np.ndarray
    h_next: np.ndarray | None
    z: np.ndarray | None
    z_next: np.ndarray | None = None
    start: int = 0

    def __len__(self) -> int:
        return len(self.h)


class Embeddings:
    """Embeddings of pairs, with latents where they are known.

    The arrays may be anything with a shape, a dtype and slices of rows: NumPy arrays, memory maps, tensors,
    HDF5 datasets. They are read in chunks by `chunks`, which is where values are checked.

    Args:
        h: (n, m).
        h_next: (n, m), or None when only single views are known.
        z: (n, d), or None when there are no labels.
        z_next: (n, d) latents of the second view, or None; `chunks` checks them, `some` gives them.
        drop: leave out rows with NaN or Inf in any array, instead of refusing them.

    Attributes:
        dropped: rows left out by the last complete pass over `chunks`.

    Raises:
        ValueError: the arrays have other shapes, too few rows, or no real numbers.
    """

    def __init__(
        self, h: Any, h_next: Any = None, z: Any = None, z_next: Any = None, drop: bool = False
    ) -> None:
        arrays = {"h": h, "h_next": h_next, "z": z, "z_next": z_next}
        self._arrays = {
            name: _check_shape(_WORDS[name], value) for name, value in arrays.items() if value is not None
        }
        self.drop = drop
        self.dropped = 0
        for name, value in self._arrays.items():
            if len(value) != len(self):
                raise ValueError(
                    f"embeddings and {_WORDS[name]} must have equal lengths, got {len(self)} and "
                    f"{len(value)}: row i of each must belong to the same sample"
                )
        if h_next is not None and self._arrays["h_next"].shape != self._arrays["h"].shape:
            shapes = f"{tuple(self._arrays['h'].shape)} and {tuple(self._arrays['h_next'].shape)}"
            raise ValueError(f"both views must have one shape, got {shapes}")
        if z_next is not None:
            if z is None:
                raise ValueError("latents_next goes with latents, got it alone")
            if self._arrays["z_next"].shape != self._arrays["z"].shape:
                shapes = f"{tuple(self._arrays['z'].shape)} and {tuple(self._arrays['z_next'].shape)}"
                raise ValueError(f"latents of both views must have one shape, got {shapes}")

    def __len__(self) -> int:
        return len(self._arrays["h"])

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return int(self._arrays["h"].shape[1])

    @property
    def latent_dim(self) -> int | None:
        """Dimension of the latents; None without them."""
        return int(self._arrays["z"].shape[1]) if "z" in self._arrays else None

    @property
    def paired(self) -> bool:
        """Whether second views are known."""
        return "h_next" in self._arrays

    def chunks(self, cuts: tuple[int, ...] = ()) -> Iterator[Chunk]:
        """Every row once, in order, in pieces that fit memory.

        Args:
            cuts: rows at which a chunk must end, ascending.

        Raises:
            ValueError: a row holds NaN or Inf and `drop` is False (told after the last row, with their
                number), or a number is too large to be raised to the fourth power.
        """
        arrays = self._arrays
        width = sum(int(value.shape[1]) for value in arrays.values())
        rows = max(4 * width, _CHUNK // width)
        bad: dict[str, int] = dict.fromkeys(arrays, 0)
        dropped = 0
        for start, stop in _pieces(len(self), rows, cuts):
            parts = {name: to_float64(value[start:stop]) for name, value in arrays.items()}
            for value in arrays.values():
                forget_pages(value)
            keep = np.ones(stop - start, bool)
            for name, part in parts.items():
                finite = np.isfinite(part).all(1)
                bad[name] += int((~finite).sum())
                keep &= finite
                largest = float(np.abs(part[finite]).max(initial=0))
                if largest > _LARGEST:
                    raise ValueError(f"{_WORDS[name]} must be below 1e70 in size, got {largest:.3g}")
            dropped += int((~keep).sum())
            if not keep.all():
                parts = {name: part[keep] for name, part in parts.items()}
            yield Chunk(parts["h"], parts.get("h_next"), parts.get("z"), start=start)
        for name, count in bad.items():
            if count and not self.drop:
                raise ValueError(
                    f"{_WORDS[name]} must be finite, got NaN or Inf in {count} of {len(self)} samples: "
                    "repair them, or leave those rows out with drop=True (--drop-bad-rows)"
                )
        self.dropped = dropped

    def whole(self) -> np.ndarray:
        """All embeddings of the first view, checked."""
        return np.concatenate([chunk.h for chunk in self.chunks()])

    def some(self, count: int) -> Chunk:
        """At most `count` rows at even distances, without those that are not finite."""
        index = np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(int))
        parts = {name: to_float64(take_rows(value, index)) for name, value in self._arrays.items()}
        keep = np.all([np.isfinite(part).all(1) for part in parts.values()], axis=0)
        return Chunk(*(parts[name][keep] if name in parts else None for name in _WORDS))  # type: ignore[arg-type]


def _pieces(n: int, rows: int, cuts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start = 0
    for end in (*cuts, n):
        while start < end:
            count = math.ceil((end - start) / rows)
            stop = start + math.ceil((end - start) / count)
            yield start, stop
            start = stop


def forget_pages(value: Any) -> None:
    """Give the pages of a memory-mapped file back: what was read need not stay in memory."""
    pages = getattr(value, "_mmap", None)
    if isinstance(pages, mmap.mmap) and value.mode in ("r", "r+"):  # pages of mode "c" may hold changes
        with contextlib.suppress(OSError, AttributeError, ValueError):
            pages.madvise(mmap.MADV_DONTNEED)


def take_rows(value: Any, index: np.ndarray) -> Any:
    """Rows by ascending index; of a file, one slice at a time, which memory maps and HDF5 do fast."""
    if not isinstance(value, np.memmap) and isinstance(value, np.ndarray | torch.Tensor):
        return value[index]
    rows = []
    for count, i in enumerate(index.tolist()):
        rows.append(np.array(value[i : i + 1]))
        if count % 32 == 31:
            forget_pages(value)  # the system may map megabytes around each row
    forget_pages(value)
    return np.concatenate(rows)


def _check_shape(name: str, value: Any) -> Any:
    """The array as it is, if it has rows of real numbers."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_meta or value.is_quantized:
            raise ValueError(f"{name} must be a dense tensor of plain numbers, got {_kind_of(value)}")
        value = value.detach().to("cpu")
        if value.dtype.is_floating_point:
            kind = "f"
        else:
            kind = "c" if value.dtype.is_complex else "b" if value.dtype == torch.bool else "i"
    else:
        value = value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)
        kind = value.dtype.kind
    if kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got {value.dtype}")
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be (samples, dim), got shape {tuple(value.shape)}")
    if len(value) < 2 or value.shape[1] < 1:
        raise ValueError(f"{name} must have at least 2 samples and 1 dimension, got {tuple(value.shape)}")
    return value


def _kind_of(value: torch.Tensor) -> str:
    return "one without data" if value.is_meta else f"{value.layout} of {value.dtype}"


def to_float64(value: Any) -> np.ndarray:
    """Numbers of any array or tensor; NaN where a masked array has none."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.float64).numpy()
    if isinstance(value, np.ma.MaskedArray):  # what is masked is missing
        return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value).astype(np.float64))
    return np.asarray(value, dtype=np.float64)


def split_name(path: str | Path) -> tuple[Path, str | None]:
    """FILE::NAME as the file and the array's name in it; no name without the colons."""
    file, colons, name = str(path).rpartition("::")
    if Path(path).exists():  # a file whose own name has colons
        return Path(path), None
    return (Path(file), name) if colons else (Path(path), None)


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


def read_named(path: str | Path) -> dict[str, Any]:
    """Read the arrays of a file under the names h, h_next, z, x and x_next; of FILE::NAME one, under h.

    Raises:
        ValueError: the file is missing or damaged, or its names are not understood.
    """
    file, name = split_name(path)
    if name is not None:
        return {"h": read_array(path)}
    arrays = _read(file)
    if len(arrays) == 1 and next(iter(arrays)) not in _NAMES:
        return {"h": next(iter(arrays.values()))}
    named: dict[str, Any] = {}
    for name, value in arrays.items():
        if name not in _NAMES:
            if "h" in arrays or "embeddings" in arrays:
                raise ValueError(f"{file}: " + unknown("array name", name, _NAMES))
            raise ValueError(
                f"{file} holds {_listed(arrays)}, and it is not clear which are the embeddings: name them h, "
                f"h_next and z in the file, or pass {file}::{name} (and --next, --latents likewise)"
            )
        if _NAMES[name] in named:
            raise ValueError(f"{file} holds {_NAMES[name]!r} twice, under two names")
        named[_NAMES[name]] = value
    if "h" not in named and "x" not in named:
        raise ValueError(f"{file} must hold an array 'h' or 'embeddings', got {_listed(arrays)}")
    return named


def _listed(arrays: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none"


def _read(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    kind = path.suffix.lower()
    readers = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".safetensors": _read_safetensors,
        ".h5": _read_hdf5,
        ".hdf5": _read_hdf5,
        ".csv": read_csv,
        ".tsv": read_csv,
        ".txt": read_csv,
    }
    if kind not in readers:
        raise ValueError(f"{path} must be a record, or a file of kind {KINDS}, got {path.suffix!r}")
    try:
        return readers[kind](path)
    except ImportError:
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


def _read_npz(path: Path) -> Mapping[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is empty, cut short, or of another kind")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _read_hdf5(path: Path) -> Mapping[str, Any]:
    """Every dataset of numbers by its path in the file, left on the disk."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"reading {path} needs h5py: pip install 'isojepa[hdf5]'") from error
    arrays: dict[str, Any] = {}
    file = h5py.File(path, "r")  # stays open for as long as its datasets are used
    file.visititems(
        lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    return arrays


def check_rho(rho: Any) -> float:
    """The correlation as a float in (0, 1)."""
    if isinstance(rho, np.ndarray | np.generic | torch.Tensor) and rho.ndim == 0:
        rho = rho.item()
    if not (isinstance(rho, numbers.Real) and 0 < float(rho) < 1):
        raise ValueError(f"rho must lie in (0, 1), got {rho!r}")
    return float(rho)
