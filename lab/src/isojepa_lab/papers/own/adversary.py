"""What an adversary is: embeddings along paths that try to fool a certificate, with the truth about them.

    @adversary("cosine 2z + 0.3", since="0.3")
    def _(source: torch.Generator) -> Case:
        return mapped(lambda z: np.cos(2 * z + 0.3), 2, source)

adds one to the set; nothing else is to be done. The set only grows: a certificate that was fooled once is
asked again in every version. `since` is the version in which the adversary came.

The truth. For h = f(z), whitened, of latents z ~ N(0, I) in n dimensions and M = E h z^T, (m, n),

    linear share             |M|_F^2 / m
    recovery error           2 - 2 |M|_* / m = min over Q Q^T = I of E |h - Q z|^2 / m,

by as many draws as make their error small, unless they are known.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.seeds import generator
from isojepa.validation import choose

RHO = 0.8  # correlation of the latents after a step, where nothing else is said
STEPS, PATHS = 200, 250
_DRAWS = 2_000_000  # numbers drawn for a truth
_CHANCE = 1.2  # singular values of M below so many of the largest that chance makes are 0

Map = Callable[[np.ndarray], np.ndarray]
Maker = Callable[[torch.Generator], "Case"]


@dataclass(frozen=True)
class Case:
    """Embeddings and the truth about them.

    Attributes:
        h: (steps, paths, dim) along paths.
        rho: correlation of the latents after a step; None where there is no single one.
        linear: share of the variance that is linear in Gaussian latents; NaN if no latents are Gaussian.
        error: squared distance to the best rotation of the latents, per dimension; NaN if there is none.
        products: of how many products of latents a direction is the sum, where it is one; 0 where it is not.
    """

    h: np.ndarray
    rho: float | None
    linear: float
    error: float
    products: int = 0


@dataclass(frozen=True)
class Adversary:
    """One of the set.

    Attributes:
        name: for people; also what a record is found by.
        since: the version in which it came.
        make: a generator -> embeddings and truth.
    """

    name: str
    since: str
    make: Maker

    def case(self, seed: int) -> Case:
        """Embeddings of a seed."""
        return self.make(generator(seed, "adversary", self.name))


ADVERSARIES: dict[str, Adversary] = {}


def adversary(name: str, since: str) -> Callable[[Maker], Maker]:
    """Enter a maker into the set.

    Raises:
        ValueError: the name is taken.
    """

    def enter(make: Maker) -> Maker:
        if name in ADVERSARIES:
            raise ValueError(f"the name of an adversary must be new, got {name!r}")
        ADVERSARIES[name] = Adversary(name, since, make)
        return make

    return enter


def find_adversary(name: str) -> Adversary:
    """The adversary of a name.

    Raises:
        ValueError: there is none.
    """
    return choose("adversary", name, ADVERSARIES)


def normal(shape: tuple[int, ...], source: torch.Generator) -> np.ndarray:
    """Standard normal numbers."""
    values: np.ndarray = torch.randn(shape, generator=source, dtype=torch.float64).numpy()
    return values


def walk(
    dim: int,
    source: torch.Generator,
    rho: float | tuple[float, ...] = RHO,
    steps: int = STEPS,
    paths: int = PATHS,
) -> np.ndarray:
    """Stationary paths of an Ornstein-Uhlenbeck process of variance 1: (steps, paths, dim)."""
    r = np.broadcast_to(np.asarray(rho, dtype=float), dim)
    z = normal((steps, paths, dim), source)
    for t in range(1, steps):
        z[t] = r * z[t - 1] + np.sqrt(1 - r**2) * z[t]
    return z


def mapped(
    f: Map,
    latents: int,
    source: torch.Generator,
    rho: float = RHO,
    noise: float = 0.0,
    steps: int = STEPS,
    paths: int = PATHS,
) -> Case:
    """A whitened function of the latents along paths.

    Args:
        f: (..., latents) -> (..., dim).
        latents: how many.
        source: of the paths.
        rho: correlation after a step.
        noise: share of the variance that is observation noise.
        steps, paths: how many.
    """
    truth_generator = generator(0, "adversary", "truth")
    draws = f(samples := normal((_DRAWS // max(latents, 2), latents), truth_generator))
    mean = draws.mean(0)
    whitening = _whitening(draws - mean)
    z = walk(latents, source, rho, steps, paths)
    h = (f(z) - mean) @ whitening
    linear, error = truth_of((draws - mean) @ whitening, samples, noise)
    if noise:
        h = math.sqrt(1 - noise) * h + math.sqrt(noise) * normal(h.shape, source)
    return Case(h, rho, linear, error)


def truth_of(h: np.ndarray, z: np.ndarray, noise: float = 0.0) -> tuple[float, float]:
    """Linear share and recovery error per dimension of whitened rows h (n, m) of latents z (n, k)."""
    together = h.T @ (z @ _whitening(z)) / len(h)
    size = h.shape[1]
    values = np.linalg.svd(together, compute_uv=False)
    chance = _CHANCE * (math.sqrt(size) + math.sqrt(z.shape[1])) / math.sqrt(len(h))
    values = np.where(values > chance, values, 0.0)
    share, turned = float((values**2).sum()) / size, float(values.sum()) / size
    return min(1.0, (1 - noise) * share), max(0.0, 2 - 2 * math.sqrt(1 - noise) * turned)


def whitened(h: np.ndarray) -> np.ndarray:
    """Embeddings (steps, paths, dim) with mean 0 and covariance I."""
    flat = h.reshape(-1, h.shape[2])
    centered = flat - flat.mean(0)
    white: np.ndarray = (centered @ _whitening(centered)).reshape(h.shape)
    return white


def _whitening(rows: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    matrix: np.ndarray = (vectors / np.sqrt(values)) @ vectors.T
    return matrix
