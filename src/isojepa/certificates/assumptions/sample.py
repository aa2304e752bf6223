"""The samples that assumptions are checked on: verified, thinned out, in random order, and standardised."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.certificates.embeddings import check_dense, to_array
from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory
from isojepa.validation import unknown

LEAST = 20  # samples below which nothing is tested
FITTED = 4096  # samples for a regression at most, or more in many dimensions
KINDS = ("latents", "embeddings")
_ROWS, _NUMBERS = 20_000, 1 << 22  # rows kept, or numbers where those are more rows
_CHUNK = 1 << 24  # numbers looked at in one piece
_LARGEST = 1e100  # beyond, squares overflow


@dataclass(frozen=True)
class Sample:
    """Samples that are nearly independent, in random order: any two parts of them are two random samples.

    Columns are centered and scaled by the mean and deviation of both views together, and those that are
    constant in a view are left out.

    Attributes:
        z: (n, dim).
        z_next: (n, dim), or None.
        of: "latents" or "embeddings".
        columns: (dim,) where each dimension was in what was given.
        constant: dimensions that were left out.
        halted: those of them that differ between the views: constant in one only, or elsewhere in each.
        scale: (dim,) their standard deviations.
        given: number of samples before thinning.
        memory: rows of those looked at, of which one was taken; 1 where all are independent.
        seed: of everything drawn.
    """

    z: np.ndarray
    z_next: np.ndarray | None
    of: str
    columns: np.ndarray
    constant: tuple[int, ...]
    halted: tuple[int, ...]
    scale: np.ndarray
    given: int
    memory: int
    seed: int

    @property
    def dim(self) -> int:
        """Dimensions that vary."""
        return int(self.z.shape[1])

    def __len__(self) -> int:
        return len(self.z)

    @property
    def views(self) -> tuple[np.ndarray, np.ndarray]:
        """Both views; a ValueError where there is only one."""
        if self.z_next is None:
            raise ValueError("both views of each pair are needed, got one")
        return self.z, self.z_next

    @property
    def effective(self) -> int:
        """Rows that are nearly independent: those that are left."""
        return len(self.z)

    def count(self, rows: int, noun: str) -> str:
        """A number of rows in words, which tell where rows were left out since they depend on others."""
        return f"{rows} {noun}" if self.memory == 1 else f"{rows} independent {noun} of {self.given}"

    def label(self, column: int) -> str:
        """A dimension in words, by its place in what was given."""
        return f"dimension {int(self.columns[column])}"

    def stream(self, *name: str | int) -> torch.Generator:
        """The generator of one named purpose."""
        return generator(self.seed, "assumptions", *name)


def draw_sample(z: Any, z_next: Any, of: str, seed: int) -> Sample:
    """Verify arrays and take rows of them that are nearly independent, in random order.

    Rows come in their own order, paths one after the other: how far apart they must be is measured from it.

    Raises:
        ValueError: the arrays do not match, are not matrices of finite real numbers, or are empty.
    """
    if of not in KINDS:
        raise ValueError(unknown("of", of, KINDS))
    first = _matrix(of, z)
    n, dim = first.shape
    arrays = {of: first}
    paired = z_next is not None
    if paired:
        second = arrays[f"next {of}"] = _matrix(f"next {of}", z_next)
        if second.shape != first.shape:
            raise ValueError(f"both views must have one shape, got {first.shape} and {second.shape}")
    for name, array in arrays.items():
        _check_values(name, array)
    most = max(_ROWS, min(_NUMBERS // dim, n))
    rows = np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)
    views = [array[rows].astype(np.float64) for array in list(arrays.values())[: 1 + paired]]
    views, *_ = _standardize(views)
    stream = generator(seed, "assumptions", "memory")
    memory = measure_memory(views[0], views[1] if paired else None, stream) if views[0].shape[1] else 1
    rows = rows[::memory]
    rows = rows[torch.randperm(len(rows), generator=generator(seed, "assumptions", "rows")).numpy()]
    views = [array[rows].astype(np.float64, copy=False) for array in list(arrays.values())[: 1 + paired]]
    views, varies, moved, scale = _standardize(views)
    return Sample(
        z=views[0],
        z_next=views[1] if paired else None,
        of=of,
        columns=np.flatnonzero(varies),
        constant=tuple(int(column) for column in np.flatnonzero(~varies)),
        halted=tuple(int(column) for column in np.flatnonzero(~varies & moved)),
        scale=scale,
        given=n,
        memory=memory,
        seed=seed,
    )


def halves(n: int, most: int) -> tuple[slice, slice]:
    """A part to search on and another to judge on: each half of the samples, the second at most `most`."""
    judged = min(n // 2, most)
    return slice(judged, n), slice(0, judged)


def _matrix(name: str, value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        check_dense(name, value)
        value = value.detach().to("cpu")
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    array = to_array(name, value)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (samples, dim), both positive, got {array.shape}")
    return array


def _check_values(name: str, array: np.ndarray) -> None:
    rows = max(1, _CHUNK // array.shape[1])
    bad = 0
    for start in range(0, len(array), rows):
        part = array[start : start + rows]
        largest = float(max(part.max(), -part.min().astype(np.float64)))  # NaN passes through
        if not np.isfinite(largest):
            bad += int((~np.isfinite(part).all(1)).sum())
        elif largest > _LARGEST:
            raise ValueError(f"{name} must be at most {_LARGEST:g} in size, got {largest:.3g}")
    if bad:
        raise ValueError(f"{name} must be finite, got {bad} rows with NaN or Inf")


def _standardize(views: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Centre and scale views by their common mean and deviation.

    Returns:
        The views without the columns that are constant in one; which columns vary in all; which do in any or
        differ between views; and the deviations of those that are kept.
    """
    means = [view.mean(0) for view in views]
    center = np.mean(means, axis=0)
    varies = np.ones(len(center), bool)
    square = np.zeros(len(center))
    for view, mean in zip(views, means, strict=True):
        view -= mean  # a copy already
        own = np.einsum("ij,ij->j", view, view) / len(view)
        varies &= np.sqrt(own) > 1e-12 * (np.abs(mean) + np.sqrt(own))  # else what is left is rounding
        square += (own + (mean - center) ** 2) / len(views)
        view += mean - center
    scale = np.sqrt(square)
    moved = scale > 1e-12 * (np.abs(center) + scale)
    if not varies.all():
        views, scale = [view[:, varies] for view in views], scale[varies]
    for view in views:
        view /= scale
    return views, varies, moved, scale
