"""What people hand to unmix, in one form: pairs of rows, or paths of any lengths as pairs of several lags."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isojepa.certificates.embeddings import Embeddings, check_dense, to_array, to_float64
from isojepa.certificates.inputs import along_paths

_LAGS = (2, 4, 8)  # besides 1, along paths


def read_rows(
    h: Any, h_next: Any, paths: Any, drop: bool
) -> tuple[Embeddings, Sequence[tuple[np.ndarray, np.ndarray]]]:
    """Rows in pairs, and rows of further lags along paths.

    Args:
        h: (n, dim) embeddings.
        h_next: (n, dim) of the second views.
        paths: in place of both, (steps, paths, dim) or a list of (steps_i, dim).
        drop: whether rows with NaN or Inf are left out.

    Raises:
        ValueError: there is neither or both, or shapes do not fit.
    """
    if paths is None:
        if h is None:
            raise ValueError("embeddings must be given, h or paths, got neither")
        return Embeddings(h, h_next, drop=drop), ()
    if h is not None or h_next is not None:
        raise ValueError("paths bring their own pairs, got h too: leave one out")
    block = list(paths) if isinstance(paths, list | tuple) else list(np.moveaxis(_block(paths), 1, 0))
    block = [_in_memory("paths", path) for path in block]
    along = along_paths("paths", block)
    arrays = [to_float64(path) for path in block]
    later = []
    for lag in _LAGS:
        long = [path for path in arrays if len(path) > lag]
        if sum(len(path) - lag for path in long) > 10 * arrays[0].shape[1]:
            first = np.concatenate([path[:-lag] for path in long])
            second = np.concatenate([path[lag:] for path in long])
            keep = np.isfinite(first).all(1) & np.isfinite(second).all(1)  # `Embeddings` says if they may be
            later.append((first[keep], second[keep]))
    return Embeddings(along.first, along.second, drop=drop), later


def _block(paths: Any) -> np.ndarray:
    paths = _in_memory("paths", paths)
    if isinstance(paths, torch.Tensor) and paths.dtype == torch.bfloat16:  # which NumPy does not know
        paths = paths.float()
    found = to_array("paths", paths)
    if found.ndim != 3:
        raise ValueError(
            f"paths must be (steps, paths, dim) or a list of (steps, dim), got shape {found.shape}"
        )
    return found


def _in_memory(name: str, value: Any) -> Any:
    """A tensor on the processor, without its graph; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    check_dense(name, value)
    return value.detach().cpu()
