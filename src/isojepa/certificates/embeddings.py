"""Embeddings from arrays of any kind, read in pieces and checked before anything is computed from them.

Arrays may be NumPy's, tensors, memory maps or HDF5 datasets; those on the disk stay there and are read piece
by piece, so embeddings may be larger than memory.
"""

import contextlib
import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.validation import check_number, validate_types

_WORDS = {"h": "embeddings", "h_next": "next", "z": "latents", "z_next": "latents_next"}
_CHUNK = 4_000_000  # numbers read at once
_SMALLEST = 1e-100  # correlation that a bound may be divided by
_LARGEST = 1e50  # fourth powers of larger numbers leave float64


class NotFinite(ValueError):
    """Values hold NaN or Inf where numbers are needed."""


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

    @validate_types
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

    def array(self, name: str) -> Any:
        """The array h, h_next, z or z_next as it was given; None where there is none."""
        return self._arrays.get(name)

    def chunks(self, cuts: tuple[int, ...] = ()) -> Iterator[Chunk]:
        """Every row once, in order, in pieces that fit memory.

        Args:
            cuts: rows at which a chunk must end, ascending.

        Raises:
            NotFinite: a row holds NaN or Inf and `drop` is False; told after the last row,
                with their number.
            ValueError: a number is too large to be raised to the fourth power.
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
                largest = _largest(part)
                if not np.isfinite(largest):  # which the largest tells, without a look at every number
                    finite = np.isfinite(part).all(1)
                    bad[name] += int((~finite).sum())
                    keep &= finite
                    largest = _largest(part[finite])
                if largest > _LARGEST:
                    raise ValueError(f"{_WORDS[name]} must be below {_LARGEST:g} in size, got {largest:.3g}")
            dropped += int((~keep).sum())
            if not keep.all():
                parts = {name: part[keep] for name, part in parts.items()}
            yield Chunk(parts["h"], parts.get("h_next"), parts.get("z"), start=start)
        for name, count in bad.items():
            if count and not self.drop:
                raise NotFinite(
                    f"{_WORDS[name]} must be finite, got NaN or Inf in {count} of {len(self)} samples: "
                    "repair them, or leave those rows out with drop=True (--drop-bad-rows)"
                )
        self.dropped = dropped

    def whole(self) -> np.ndarray:
        """All embeddings of the first view, checked."""
        return np.concatenate([chunk.h for chunk in self.chunks()])

    def rows(self, start: int, stop: int) -> Chunk:
        """The rows from `start` to before `stop`, without those that are not finite."""
        parts = {name: to_float64(value[start:stop]) for name, value in self._arrays.items()}
        for value in self._arrays.values():
            forget_pages(value)
        return _finite(parts, start)

    def some(self, count: int) -> Chunk:
        """At most `count` rows at even distances, without those that are not finite."""
        index = np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(int))
        parts = {name: to_float64(take_rows(value, index)) for name, value in self._arrays.items()}
        return _finite(parts)


def _largest(part: np.ndarray) -> float:
    """The largest size of a number, NaN if one of them is."""
    return float(max(part.max(initial=0), -part.min(initial=0)))


def _finite(parts: dict[str, np.ndarray], start: int = 0) -> Chunk:
    """Rows that are finite in every array."""
    keep = np.all([np.isfinite(part).all(1) for part in parts.values()], axis=0)
    if not keep.all():
        parts = {name: part[keep] for name, part in parts.items()}
    return Chunk(parts["h"], parts.get("h_next"), parts.get("z"), parts.get("z_next"), start)


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
        check_dense(name, value)
        value = value.detach().to("cpu")
        if value.dtype.is_floating_point:
            kind = "f"
        else:
            kind = "c" if value.dtype.is_complex else "b" if value.dtype == torch.bool else "i"
    else:
        value = value if hasattr(value, "dtype") and hasattr(value, "shape") else to_array(name, value)
        kind = value.dtype.kind
    if kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got {value.dtype}")
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be (samples, dim), got shape {tuple(value.shape)}")
    if len(value) < 2 or value.shape[1] < 1:
        raise ValueError(f"{name} must have at least 2 samples and 1 dimension, got {tuple(value.shape)}")
    return value


def to_array(name: str, value: Any) -> np.ndarray:
    """An array of something that may be one.

    Raises:
        ValueError: its rows have different lengths.
    """
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be one array, got rows of different lengths") from error


def check_dense(name: str, value: torch.Tensor) -> None:
    """Say that a tensor has no plain numbers in memory.

    Raises:
        ValueError: it is sparse, quantised, or without data.
    """
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        raise ValueError(f"{name} must be a dense tensor of plain numbers, got {_kind_of(value)}")


def _kind_of(value: torch.Tensor) -> str:
    return "one without data" if value.is_meta else f"{value.layout} of {value.dtype}"


def to_float64(value: Any) -> np.ndarray:
    """Numbers of any array or tensor; NaN where a masked array has none."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.float64).numpy()
    if isinstance(value, np.ma.MaskedArray):  # what is masked is missing
        return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value).astype(np.float64))
    return np.asarray(value, dtype=np.float64)


def real_array(name: str, value: Any, axes: str) -> np.ndarray:
    """A whole array or tensor as float64, checked.

    Args:
        name: what the message calls it.
        value: the array.
        axes: of the shape, e.g. "samples, dim".

    Raises:
        NotFinite: there are values that are not finite.
        ValueError: another number of axes, no entries, or values that are no real numbers.
    """
    if isinstance(value, torch.Tensor):
        check_dense(name, value)
        value = value.detach().to("cpu", torch.float64)
    elif to_array(name, value).dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got {np.asarray(value).dtype}")
    array = to_float64(value)
    if array.ndim != axes.count(",") + 1 or 0 in array.shape:
        raise ValueError(f"{name} must be ({axes}), got shape {array.shape}")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(-1).sum())
        rows = array.size // array.shape[-1]
        raise NotFinite(f"{name} must be finite, got NaN or Inf in {bad} of {rows} samples")
    if (largest := float(np.abs(array).max())) > _LARGEST:
        raise ValueError(f"{name} must be below {_LARGEST:g} in size, got {largest:.3g}")
    return array


def check_rho(rho: Any) -> float:
    """The correlation as a float in (0, 1)."""
    if isinstance(rho, np.ndarray | np.generic | torch.Tensor) and rho.ndim == 0:
        rho = rho.item()
    number = check_number("rho", rho, "lie in (0, 1)", lambda value: 0 < value < 1)
    if number < _SMALLEST:
        raise ValueError(f"rho must be at least {_SMALLEST:g}, or the bound leaves float64, got {number:g}")
    return number
