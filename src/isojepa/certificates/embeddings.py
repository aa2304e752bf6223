"""Embeddings from arrays and files, checked before anything is computed from them.

Files: npy (one array), npz and safetensors (named arrays). The names that are understood:

    h, embeddings              (n, m) embeddings of the first view
    h_next, embeddings_next    (n, m) embeddings of the second view of each pair
    z, latents                 (n, d) true latents of the first view
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.names import unknown

_NAMES = {
    "h": "h",
    "embeddings": "h",
    "h_next": "h_next",
    "embeddings_next": "h_next",
    "z": "z",
    "latents": "z",
}
_IGNORED = {"z_next", "latents_next", "x", "x_next"}  # what a world's pairs carry besides


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of pairs, float64, with latents where they are known.

    Attributes:
        h: (n, m).
        h_next: (n, m), or None when only single views are known.
        z: (n, d), or None when there are no labels.
    """

    h: np.ndarray
    h_next: np.ndarray | None = None
    z: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, value in {"embeddings": self.h, "next": self.h_next, "latents": self.z}.items():
            if value is None:
                continue
            checked = _check(name, value)
            if len(checked) != len(self.h):
                raise ValueError(
                    f"embeddings and {name} must have equal lengths, got {len(self.h)} and {len(checked)}"
                )
            object.__setattr__(self, {"embeddings": "h", "next": "h_next", "latents": "z"}[name], checked)
        if self.h_next is not None and self.h_next.shape != self.h.shape:
            raise ValueError(f"both views must have one shape, got {self.h.shape} and {self.h_next.shape}")


def read_array(path: str | Path) -> np.ndarray:
    """Read one array: an npy file, or an npz or safetensors file that holds exactly one.

    Raises:
        ValueError: the file is missing, damaged, of another kind, or holds several arrays.
    """
    arrays = _read(Path(path))
    if len(arrays) != 1:
        raise ValueError(f"{path} must hold one array, got {', '.join(sorted(arrays))}")
    return next(iter(arrays.values()))


def read_named(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of a file under the names h, h_next and z.

    Raises:
        ValueError: the file is missing or damaged, or its names are not understood.
    """
    arrays = _read(Path(path))
    if list(arrays) == ["arr_0"]:  # numpy's name for an array that was given none
        return {"h": arrays["arr_0"]}
    named: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if name in _IGNORED:
            continue
        if name not in _NAMES:
            raise ValueError(f"{path}: " + unknown("array name", name, _NAMES))
        if _NAMES[name] in named:
            raise ValueError(f"{path} holds {_NAMES[name]!r} twice, under two names")
        named[_NAMES[name]] = value
    if "h" not in named:
        raise ValueError(f"{path} must hold an array 'h' or 'embeddings', got {', '.join(sorted(arrays))}")
    return named


def _read(path: Path) -> Mapping[str, np.ndarray]:
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    try:
        if path.suffix == ".npy":
            return {"h": np.load(path, allow_pickle=False)}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return {name: _to_numpy(value) for name, value in load_file(path).items()}
    except Exception as error:  # numpy, zipfile and safetensors raise many kinds for a damaged file
        raise ValueError(f"{path} is damaged or not a plain {path.suffix} file ({error})") from error
    raise ValueError(f"{path} must be a record, or an npy, npz or safetensors file, got {path.suffix!r}")


def _to_numpy(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().to("cpu", torch.float64).numpy()
    return np.asarray(value)


def _check(name: str, value: Any) -> np.ndarray:
    array = _to_numpy(value)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    array = array.astype(np.float64)
    if array.ndim != 2:
        raise ValueError(f"{name} must be (samples, dim), got shape {array.shape}")
    if len(array) < 2 or array.shape[1] < 1:
        raise ValueError(f"{name} must have at least 2 samples and 1 dimension, got shape {array.shape}")
    if np.abs(array).max(initial=0, where=np.isfinite(array)) > 1e100:
        raise ValueError(f"{name} must be below 1e100 in size, got {np.nanmax(np.abs(array)):.3g}")
    bad = ~np.isfinite(array)
    if bad.any():
        rows = int(bad.any(1).sum())
        raise ValueError(f"{name} must be finite, got NaN or Inf in {rows} of {len(array)} samples")
    return array
