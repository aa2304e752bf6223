"""Numeric arrays of any kind as float64: NumPy arrays, masked arrays, tensors, memory maps, HDF5 datasets.

Arrays on the disk stay there: callers read slices of rows and give the pages back.
"""

import contextlib
import mmap
from typing import Any

import numpy as np
import torch

MAX_SIZE = 1e50  # fourth powers of larger numbers leave float64
_PAGES_PER_RELEASE = 32  # single rows read before pages are given back: the system maps megabytes around each


class NotFinite(ValueError):
    """Values hold NaN or Inf where numbers are needed."""


def real_array(name: str, value: Any, axes: str) -> np.ndarray:
    """A whole array or tensor as float64, checked.

    Args:
        name: for messages.
        value: the array.
        axes: of the shape, e.g. "samples, dim".

    Raises:
        NotFinite: there are values that are not finite.
        ValueError: another number of axes, no entries, or values that are no real numbers.
    """
    array = to_float64(_real(name, value))
    if array.ndim != axes.count(",") + 1 or 0 in array.shape:
        raise ValueError(f"{name} must be ({axes}), got shape {array.shape}")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(-1).sum())
        rows = array.size // array.shape[-1]
        raise NotFinite(f"{name} must be finite, got NaN or Inf in {bad} of {rows} samples")
    check_size(name, largest(array))
    return array


def real_rows(name: str, value: Any) -> Any:
    """The array as it is, on the CPU, if it is (samples, dim) of real numbers; nothing is read."""
    value = _real(name, value)
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be (samples, dim), got shape {tuple(value.shape)}")
    if len(value) < 2 or value.shape[1] < 1:
        raise ValueError(f"{name} must have at least 2 samples and 1 dimension, got {tuple(value.shape)}")
    return value


def _real(name: str, value: Any) -> Any:
    """The array as it is, on the CPU, if its type is one of real numbers."""
    if isinstance(value, torch.Tensor):
        check_dense(name, value)
        value = value.detach().to("cpu")
        real = value.dtype != torch.bool and not value.dtype.is_complex
    else:
        value = value if hasattr(value, "dtype") and hasattr(value, "shape") else to_array(name, value)
        real = value.dtype.kind in "fiu"
    if not real:
        raise ValueError(f"{name} must hold real numbers, got {value.dtype}")
    return value


def to_array(name: str, value: Any) -> np.ndarray:
    """The value as an array.

    Raises:
        ValueError: its rows have different lengths.
    """
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be one array, got rows of different lengths") from error


def check_dense(name: str, value: torch.Tensor) -> None:
    """Check that a tensor has plain numbers in memory.

    Raises:
        ValueError: it is sparse, quantised, or without data.
    """
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        kind = "one without data" if value.is_meta else f"{value.layout} of {value.dtype}"
        raise ValueError(f"{name} must be a dense tensor of plain numbers, got {kind}")


def check_size(name: str, size: float) -> None:
    """Check that the fourth power of the largest number lies within float64."""
    if size > MAX_SIZE:
        raise ValueError(f"{name} must be below {MAX_SIZE:g} in size, got {size:.3g}")


def largest(values: np.ndarray) -> float:
    """The largest size of a number, NaN if one of them is."""
    return float(max(values.max(initial=0), -values.min(initial=0)))


def to_float64(value: Any) -> np.ndarray:
    """Numbers of any array or tensor; NaN where a masked array has none."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", torch.float64).numpy()
    if isinstance(value, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value).astype(np.float64))
    return np.asarray(value, dtype=np.float64)


def take_rows(value: Any, index: slice | np.ndarray) -> Any:
    """A slice of rows, or rows by ascending index: of a file one by one, which maps and HDF5 do fast."""
    if isinstance(index, slice) or (
        not isinstance(value, np.memmap) and isinstance(value, np.ndarray | torch.Tensor)
    ):
        return value[index]
    rows = []
    for count, i in enumerate(index.tolist()):
        rows.append(np.array(value[i : i + 1]))
        if count % _PAGES_PER_RELEASE == _PAGES_PER_RELEASE - 1:
            forget_pages(value)
    return np.concatenate(rows)


def forget_pages(value: Any) -> None:
    """Give the pages of a memory-mapped file back: what was read need not stay in memory."""
    pages = getattr(value, "_mmap", None)
    if isinstance(pages, mmap.mmap) and value.mode in ("r", "r+"):  # pages of mode "c" may hold changes
        with contextlib.suppress(OSError, AttributeError, ValueError):
            pages.madvise(mmap.MADV_DONTNEED)
