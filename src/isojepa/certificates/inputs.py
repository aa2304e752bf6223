"""What people hand to certify, in one form: files by name, paths of unequal lengths, pairs of a source."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.embeddings import Embeddings, to_float64
from isojepa.data.array_files import read_array, read_named, split_name, warn
from isojepa.data.batch import Batch
from isojepa.data.source import Source, Streams, finite, held_out, ordered
from isojepa.data.trajectories import Trajectories
from isojepa.seeds import generator

Brought = Tensor | np.ndarray | Sequence[Any] | str | os.PathLike[str]
"""Embeddings as people have them: an array, a list of paths of unequal lengths, or the name of a file."""


@dataclass(frozen=True)
class Given:
    """Embeddings and what belongs to them, each an array, a list of paths, or None."""

    h: Any
    h_next: Any = None
    z: Any = None
    z_next: Any = None


def read_given(given: Given) -> Given:
    """Arrays in the place of files, and lists of arrays in the place of lists of files.

    A file of embeddings may hold second views and latents too; what is given by itself goes before.

    Raises:
        ValueError: a file cannot be read, or holds no embeddings.
    """
    if _is_file(given.h):
        arrays = read_named(Path(given.h), " (and next=, latents= likewise)")
        if "h" not in arrays:
            raise ValueError(f"{given.h} must hold embeddings 'h', got {', '.join(arrays)}")
        known = {name: value for name, value in vars(given).items() if value is not None}
        given = Given(**(arrays_of(arrays) | {name: known[name] for name in known if name != "h"}))
    parts = {name: _read(value) for name, value in vars(given).items()}
    return replace(given, **parts)


def arrays_of(arrays: dict[str, Any]) -> dict[str, Any]:
    """Those of the arrays of a file that a certificate is about: observations are for encoders."""
    return {name: arrays[name] for name in ("h", "h_next", "z", "z_next") if name in arrays}


def is_record(source: Any) -> bool:
    """Whether a source names a folder, which can only be a record."""
    return _is_file(source) and split_name(Path(source))[0].is_dir()


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _read(value: Any) -> Any:
    if _is_file(value):
        return read_array(Path(value))
    if isinstance(value, list | tuple) and value and all(map(_is_file, value)):
        return [read_array(Path(path)) for path in value]
    return value


def is_paths(value: Any) -> bool:
    """Whether a value is a list of paths, each an array (steps, dim) of its own."""
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_path, value))


def _is_path(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray) and value.ndim == 2


@dataclass(frozen=True)
class Paths:
    """Embeddings along paths, as pairs of neighbours and as one block.

    Attributes:
        first, second: (pairs, dim), each step with the next, path after path.
        block: (steps, paths, dim) of equal length, for what compares steps far apart.
    """

    first: np.ndarray
    second: np.ndarray
    block: np.ndarray


def along_paths(name: str, paths: Sequence[Any]) -> Paths:
    """Pairs and block of a list of paths (steps_i, dim).

    The block takes, of all lengths, the one at which it holds the most: the first steps of every path that is
    so long. Paths then stay independent of one another, which pieces of one path would not be.

    Raises:
        ValueError: dimensions differ, there are no numbers, or no path has two steps.
    """
    arrays = [_numbers(path) for path in paths]
    known = Trajectories.of(name, arrays)  # says what is wrong with their shapes
    lengths = known.lengths
    if known.longest < 2:
        raise ValueError(f"{name} must have a path of 2 steps at least, got {known.longest}")
    best = max(
        sorted(set(lengths.tolist()), reverse=True), key=lambda steps: steps * (lengths >= steps).sum()
    )
    best = max(2, best)
    long = [path[:best] for path in arrays if len(path) >= best]
    return Paths(
        np.concatenate([path[:-1] for path in arrays if len(path) > 1]),
        np.concatenate([path[1:] for path in arrays if len(path) > 1]),
        np.stack(long, axis=1),
    )


def of_paths(paths: Sequence[Any], latents: Any, drop: bool) -> tuple[Embeddings, np.ndarray]:
    """Embeddings of all pairs of neighbours on a list of paths, and a block of them of equal length.

    Raises:
        ValueError: the latents are no list of paths of the same lengths.
    """
    h = along_paths("embeddings", paths)
    lengths = [len(path) for path in paths]
    length, kept = h.block.shape[:2]
    if kept * length < sum(lengths):
        warn(
            f"the spectrum without latents looks at the first {length} steps of {kept} of the {len(paths)} "
            f"paths, {kept * length} of {sum(lengths)} steps: it compares paths of one length; all else uses "
            "every step"
        )
    if latents is None:
        return Embeddings(h.first, h.second, drop=drop), h.block
    if not is_paths(latents):
        raise ValueError(
            f"latents must be a list of paths as the embeddings are, got {type(latents).__name__}"
        )
    off = [i for i, (a, b) in enumerate(zip(paths, latents, strict=False)) if len(a) != len(b)]
    if off or len(latents) != len(paths):
        at = off[0] if off else min(len(latents), len(paths))
        told = [len(given[at]) if at < len(given) else "no path" for given in (paths, latents)]
        raise ValueError(
            f"latents must have as many steps as embeddings in each path, {told[0]} in path {at}, "
            f"got {told[1]}"
        )
    z = along_paths("latents", latents)
    return Embeddings(h.first, h.second, z.first, z.second, drop), h.block


def draw_pairs(world: Source, count: int, seed: int) -> Batch:
    """Fresh pairs of a world; of a finite set each state once at most, since a second look is no news.

    Where a world holds states out from training, of those.
    """
    source, world = generator(seed, "certify"), held_out(world)
    if finite(world):
        ids = torch.randperm(world.facts.size or 0, generator=source)[:count].sort().values
        return world.take(ids, Streams(seed, torch.zeros_like(ids), ids))
    return (world.in_order() if ordered(world) else world).sample(count, source)


def _numbers(path: Any) -> np.ndarray:
    if isinstance(path, Tensor):
        path = path.detach().cpu()
        return to_float64(path) if path.dtype == torch.bfloat16 else path.numpy()
    return np.asarray(path)
