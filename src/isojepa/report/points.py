"""The points that a page and a picture show: some of a world's, or some of the arrays' own."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from isojepa.arrays import forget_pages
from isojepa.data import Source
from isojepa.encoders.model import embed
from isojepa.seeds import generator

_POINTS = 3000
_VALUES = 20_000_000  # of one array at most, in memory: fewer points of large images


def points_in_world(encoder: Callable[[Any], Any], world: Source) -> dict[str, Any]:
    """Fresh latents, observations and embeddings."""
    batch = world.sample(_POINTS, generator(1, "report"))
    return {
        "latents": None if batch.z is None else batch.z[0].numpy(),
        "observations": batch.views[0].numpy(),
        "embeddings": embed(encoder, batch.views[0]).numpy(),
    }


def points_of_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Rows at even distances of h, and of x and z where they are.

    Where h is of trajectories, (steps, paths, dim), every step of every path is a row, in x and z too. Arrays
    may be memory maps or HDF5 datasets: only the rows that are shown are read.

    Args:
        arrays: h, and where known x and z, with the same leading sizes as h.
    """
    arrays_by_name = {name: arrays[name] for name in ("h", "x", "z") if arrays.get(name) is not None}
    leading = tuple(arrays_by_name["h"].shape[: 2 if len(arrays_by_name["h"].shape) == 3 else 1])
    total = int(np.prod(leading))
    widest = max(int(np.prod(value.shape[len(leading) :])) for value in arrays_by_name.values())
    count = min(_POINTS, total, max(100, _VALUES // max(widest, 1)))
    rows = np.unique(np.linspace(0, total - 1, count).round().astype(int)) if total else np.zeros(0, int)
    places = (
        list(zip(*(axis.tolist() for axis in np.unravel_index(rows, leading)), strict=True)) if total else []
    )
    some = {name: _some(value, places, leading) for name, value in arrays_by_name.items()}
    return {"latents": some.get("z"), "observations": some.get("x"), "embeddings": some["h"]}


def _some(value: Any, places: list[tuple[int, ...]], leading: tuple[int, ...]) -> np.ndarray | None:
    """The rows at the places; None for an array of other leading sizes, which belongs to other rows."""
    if tuple(value.shape[: len(leading)]) != leading:
        return None
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    rows = []
    for count, place in enumerate(places):
        rows.append(np.array(value[place], dtype=np.float64).reshape(-1))
        if count % 32 == 31:
            forget_pages(value)
    return np.stack(rows) if rows else np.zeros((0, int(np.prod(value.shape[len(leading) :]))))
