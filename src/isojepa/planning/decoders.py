"""From embeddings back to latents, by a library of states whose latents are known.

    nearest   the mean latents of the k nearest embeddings; k = 1 as published
    local     a linear regression over the k nearest ones, tricube weights, with a little ridge
    learned   a ridge regression on the embedding and 256 random tanh features of it, held out

All are functions of embeddings (m, d). Nearest neighbours can only give back states of the library: a
decoded line jumps from one to the next, and is longer than the line by that alone, the less dense the
library the more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from isojepa.align.rows import as_rows
from isojepa.arguments import check_count, checked
from isojepa.linear import errors, r2_of
from isojepa.names import choose
from isojepa.seeds import generator

_FEATURES = 256
_PENALTIES = np.logspace(-8, 1, 10)  # of ridge, relative to the mean square of a feature
_LEAST = 20  # rows of a library that a decoder can be learned from


@dataclass(frozen=True)
class Decoder:
    """A map from embeddings to latents.

    Attributes:
        name: how it was made.
        decode: (m, d) -> (m, dim).
        r2: of a learned one, on a fifth of the library that it was not fitted on; None for others.
    """

    name: str
    decode: Callable[[np.ndarray], np.ndarray]
    r2: float | None = None

    def __call__(self, embeddings: np.ndarray) -> np.ndarray:
        return self.decode(embeddings)


@checked
def make_decoder(name: str, embeddings: Any, latents: Any, k: int | None = None, seed: int = 0) -> Decoder:
    """Make a decoder of a library.

    Args:
        name: nearest, local or learned.
        embeddings: (n, d) of the library.
        latents: (n, dim) of the same states.
        k: neighbours; by default 1 of `nearest`, 4 (d + 1) of `local`.
        seed: draws features and the split of `learned`.

    Raises:
        ValueError: the name is unknown, rows differ in number or are not finite, or k is more than the
            library has.

    Example:
        >>> decoder = make_decoder("nearest", np.array([[0.0], [1.0]]), np.array([[5.0], [7.0]]))
        >>> decoder(np.array([[0.8]])).tolist()
        [[7.0]]
    """
    make = choose("decoder", name, DECODERS)
    embeddings, latents = library(embeddings, latents)
    if name == "learned":
        return _learned(embeddings, latents, seed)
    count = {"nearest": 1, "local": 4 * (embeddings.shape[1] + 1)}[name] if k is None else k
    check_count("k", count)
    if count > len(embeddings):
        raise ValueError(f"k must be at most the {len(embeddings)} states of the library, got {count}")
    return make(embeddings, latents, count)


def library(embeddings: Any, latents: Any) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings (n, d) and latents (n, dim) of the same states, float64.

    Raises:
        ValueError: their rows differ in number, or a number is not finite.
    """
    embeddings, latents = as_rows("embeddings", embeddings), as_rows("latents", latents)
    if len(embeddings) != len(latents):
        raise ValueError(
            f"embeddings and latents must have a row for each state, got {len(embeddings)} and {len(latents)}"
        )
    return embeddings, latents


def _nearest(embeddings: np.ndarray, latents: np.ndarray, k: int) -> Decoder:
    tree = cKDTree(embeddings)

    def decode(queries: np.ndarray) -> np.ndarray:
        _, places = tree.query(queries, k=[*range(1, k + 1)])
        return np.asarray(latents[places].mean(1))

    return Decoder(f"{k} nearest", decode)


def _local(embeddings: np.ndarray, latents: np.ndarray, k: int) -> Decoder:
    tree = cKDTree(embeddings)

    def decode(queries: np.ndarray) -> np.ndarray:
        distances, places = map(np.asarray, tree.query(queries, k=[*range(1, k + 1)]))
        reach = 1.001 * distances[:, -1:] + np.finfo(float).tiny  # the furthest counts a little
        weights = np.sqrt((1 - (distances / reach) ** 3) ** 3)[..., None]
        offsets = (embeddings[places] - queries[:, None]) / reach[..., None]
        design = np.concatenate((np.ones((*places.shape, 1)), offsets), axis=2) * weights
        normal = np.einsum("mki,mkj->mij", design, design)
        # where neighbours lie in fewer dimensions than the embedding has, slopes across them are taken as 0
        sizes = np.trace(normal, axis1=1, axis2=2)[:, None, None]
        normal += 1e-9 * sizes * np.diag([0.0, *np.ones(embeddings.shape[1])])
        target = np.einsum("mki,mkj->mij", design, latents[places] * weights)
        return np.asarray(np.linalg.solve(normal, target)[:, 0])

    return Decoder(f"local of {k}", decode)


def _learned(embeddings: np.ndarray, latents: np.ndarray, seed: int) -> Decoder:
    if len(embeddings) < _LEAST:
        raise ValueError(f"a learned decoder needs at least {_LEAST} states, got {len(embeddings)}")
    source = generator(seed, "plan", "decoder")
    centre, scale = embeddings.mean(0), embeddings.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    slopes = torch.randn(embeddings.shape[1], _FEATURES, generator=source, dtype=torch.float64).numpy()
    places = torch.randn(_FEATURES, generator=source, dtype=torch.float64).numpy()

    def features(rows: np.ndarray) -> np.ndarray:
        z = (rows - centre) / scale
        curved = np.tanh(z @ slopes / np.sqrt(embeddings.shape[1]) + places)
        return np.concatenate((np.ones((len(z), 1)), z, curved), axis=1)

    order = torch.randperm(len(embeddings), generator=source).numpy()
    fifth = len(order) // 5
    score, choice, fit = order[:fifth], order[fifth : 2 * fifth], order[2 * fifth :]
    design = features(embeddings[fit])
    mean = latents[fit].mean(0)
    values, vectors = np.linalg.eigh(design.T @ design / len(fit))
    target = vectors.T @ (design.T @ (latents[fit] - mean)) / len(fit)
    tried = [vectors @ (target / (np.maximum(values, 0) + one)[:, None]) for one in _PENALTIES]
    chosen = features(embeddings[choice])
    best = min(tried, key=lambda matrix: float(((latents[choice] - mean - chosen @ matrix) ** 2).sum()))

    def decode(queries: np.ndarray) -> np.ndarray:
        return np.asarray(mean + features(queries) @ best)

    residual, spread = errors(latents[score], decode(embeddings[score]))
    return Decoder("learned", decode, float(r2_of(residual.sum(0), spread.sum(0)).mean()))


DECODERS: dict[str, Callable[[np.ndarray, np.ndarray, int], Decoder]] = {
    "nearest": _nearest,
    "local": _local,
    "learned": _learned,
}
