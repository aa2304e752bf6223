"""What certify was given, in one form: pairs of embeddings, their rho and where it comes from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.bound import NoBound
from isojepa.certificates.embeddings import Embeddings, check_dense, to_float64
from isojepa.certificates.inputs import draw_pairs, is_paths, of_paths
from isojepa.certificates.rho import RhoOrigin
from isojepa.data import Source
from isojepa.data.source import moving
from isojepa.encoders.model import embed
from isojepa.seeds import generator

_DECAYS = 4.0  # times the latents forget along a trajectory drawn from a world
_DRAWN = 100_000, 10_000_000  # embeddings and numbers of all trajectories at most


@dataclass(frozen=True)
class Case:
    """What certify was given, in one form."""

    embeddings: Embeddings
    rho: float | None
    missing: NoBound | None  # why there can be no bound
    origin: RhoOrigin | None = None  # of rho
    trajectories: np.ndarray | None = None
    encoder: Callable[[Tensor], Tensor] | None = None
    world: Source | None = None


def default_samples(dim: int) -> int:
    """Pairs to draw for a certificate: many in few dimensions, where they cost nothing."""
    return max(20_000, min(100_000, 3_200_000 // dim))


def in_world(
    encoder: Callable[[Tensor], Tensor],
    world: Source,
    known: tuple[float, RhoOrigin] | None,
    samples: int | None,
    seed: int,
    drop: bool,
    checks: bool,
) -> Case:
    """An encoder in a world: fresh pairs, and for the checks trajectories too, where the world has them.

    Raises:
        ValueError: the world gives no pairs.
    """
    facts = world.facts
    count = default_samples(facts.dim or 1) if samples is None else samples
    batch = draw_pairs(world, count, seed)
    if len(batch.views) < 2:
        raise ValueError(f"a certificate needs two views of each state, got {len(batch.views)}")
    z, z_next = (None, None) if batch.z is None else batch.z[:2]
    h, h_next = (embed(encoder, view) for view in batch.views[:2])
    embeddings = Embeddings(h, h_next, z, z_next, drop)
    rho, missing = _usable_rho(world) if known is None else (known[0], None)
    trajectories = None
    if checks and rho is not None and facts.dim is not None and moving(world):
        steps, count = _lengths(rho, facts.dim)
        path = world.trajectory(count, steps, generator(seed, "trajectories")).x
        flat = embed(encoder, path.flatten(0, 1))
        trajectories = flat.unflatten(0, path.shape[:2]).double().numpy()
    return Case(
        embeddings, rho, missing, "world" if known is None else known[1], trajectories, encoder, world
    )


def _lengths(rho: float, dim: int) -> tuple[int, int]:
    """Steps and number of trajectories: long enough to see the decay, as many as memory allows."""
    rho = min(max(rho, 1e-300), 1 - 1e-15)  # what rounding made 0 or 1
    steps = int(np.clip(_DECAYS / -math.log(rho), 16, 256))
    return steps, max(100, min(_DRAWN[0], _DRAWN[1] // dim) // steps)


def of_arrays(
    source: Any,
    second: Any,
    latents: Any,
    latents_next: Any,
    known: tuple[float, RhoOrigin] | None,
    trajectory: bool,
    drop: bool,
) -> Case:
    """Embeddings that are there: pairs (n, dim), trajectories (steps, paths, dim), or a list of paths.

    Raises:
        ValueError: their shapes do not go together.
    """
    rho, origin = known or (None, None)
    missing = None if rho is not None else NoBound("rho", "the correlation rho of the pairs is not known")
    if is_paths(source):
        if second is not None or latents_next is not None:
            raise ValueError("trajectories bring their own second views, the next steps: leave next out")
        embeddings, block = of_paths(source, latents, drop)
        return Case(embeddings, rho, missing, origin, trajectories=block)
    shape = _shape(source)
    if trajectory and len(shape) == 2:
        source, latents = (
            None if array is None else _as_array(array)[:, None] for array in (source, latents)
        )
        shape = (shape[0], 1, shape[1])
    elif trajectory and len(shape) != 3:
        raise ValueError(f"a trajectory must be (steps, dim) or (steps, paths, dim), got shape {shape}")
    if len(shape) != 3:
        if second is None:
            missing = NoBound("pairs", "it needs embeddings of both views of each pair")
        return Case(Embeddings(source, second, latents, latents_next, drop), rho, missing, origin)
    if second is not None or latents_next is not None:
        raise ValueError("trajectories bring their own second views, the next steps: leave next out")
    if shape[0] < 2 or 0 in shape:
        raise ValueError(
            f"trajectories must have at least 2 steps, 1 path and 1 dimension, got shape {shape}"
        )
    h = _as_array(source)
    z = None if latents is None else _as_array(latents)
    if z is not None and z.shape[:2] != h.shape[:2]:
        raise ValueError(
            f"latents must have the steps and paths of the embeddings, {h.shape[:2]}, got {z.shape}"
        )
    first, following = _pairs(h)
    z_first, z_following = (None, None) if z is None else _pairs(z)
    embeddings = Embeddings(first, following, z_first, z_following, drop)
    return Case(embeddings, rho, missing, origin, trajectories=h)


def _shape(source: Any) -> tuple[int, ...]:
    if source is None:
        raise ValueError("embeddings must be an array (samples, dim), got None")
    try:
        return tuple(np.shape(source))
    except ValueError as error:
        raise ValueError(
            "embeddings must be one array, (samples, dim) or (steps, paths, dim), or a list of arrays "
            "(steps, dim), one for each path, got a list of something else"
        ) from error


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        check_dense("embeddings", value)
    if isinstance(value, np.ma.MaskedArray) or (isinstance(value, Tensor) and value.dtype == torch.bfloat16):
        return to_float64(value.detach().cpu() if isinstance(value, Tensor) else value)
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _pairs(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each step with the next, path after path, so that a block of rows is a piece of time."""
    by_path = h.swapaxes(0, 1)
    return by_path[:, :-1].reshape(-1, h.shape[2]), by_path[:, 1:].reshape(-1, h.shape[2])


def _usable_rho(world: Source) -> tuple[float | None, NoBound | None]:
    correlation = world.facts.correlation
    if correlation is None:
        return None, NoBound("rho", "this world does not say how its pairs correlate")
    if not world.facts.gaussian:
        return None, NoBound("world", "Theorem 3 asks for Gaussian latents and this world's are not")
    if isinstance(correlation, tuple) and len(set(correlation)) > 1:
        return None, NoBound(
            "world", "Theorem 3 asks for one correlation for all latents and this world's differ"
        )
    return (correlation[0] if isinstance(correlation, tuple) else correlation), None
