"""Embeddings whose axes are known: slowest eigenfunctions of Langevin latents, normal ones, rotations."""

import functools
from collections.abc import Sequence

import numpy as np

from isojepa.data import Langevin
from isojepa.distributions import Eigensystem, GeneralizedNormal, Normal, Uniform, bimodal, eigensystem
from isojepa.seeds import generator
from isojepa.unmixing import Unmixing

LAWS = {
    "uniform": Uniform(),
    "bimodal": bimodal(),
    "4": GeneralizedNormal(4.0),
    "3": GeneralizedNormal(3.0),
    "2.5": GeneralizedNormal(2.5),
    "1.5": GeneralizedNormal(1.5),
    "normal": Normal(),
}
Pair = tuple[np.ndarray, np.ndarray]


@functools.cache
def functions(law: str) -> Eigensystem:
    return eigensystem(LAWS[law], count=2)


@functools.cache
def latent(law: str, rho: float, n: int, seed: int) -> Pair:
    """phi_1 of one latent in both views."""
    pair = Langevin(dim=1, law=LAWS[law], rho=rho).sample(n, generator(seed, "unmix", law, str(rho)))
    first, second = (functions(law)(1, view[:, 0].double().numpy()) for view in pair)
    return first, second


def latents(laws: Sequence[str], rho: float | Sequence[float] = 0.9, n: int = 20_000) -> Pair:
    """Independent latents, (n, latents) in both views."""
    rates = [rho] * len(laws) if isinstance(rho, float) else rho
    drawn = [latent(law, rate, n, seed) for seed, (law, rate) in enumerate(zip(laws, rates, strict=True))]
    return np.stack([one[0] for one in drawn], 1), np.stack([one[1] for one in drawn], 1)


def normal_pairs(n: int, dim: int, rho: float, rng: np.random.Generator) -> Pair:
    z = rng.standard_normal((n, dim))
    return z, rho * z + np.sqrt(1 - rho**2) * rng.standard_normal((n, dim))


def normal_paths(steps: int, paths: int, dim: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """(steps, paths, dim) of one rate."""
    found = [rng.standard_normal((paths, dim))]
    for _ in range(steps - 1):
        found.append(rho * found[-1] + np.sqrt(1 - rho**2) * rng.standard_normal((paths, dim)))
    return np.stack(found)


def rotation(dim: int, seed: int = 0) -> np.ndarray:
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))


def overlaps(found: Unmixing, mixing: np.ndarray) -> np.ndarray:
    """(axes, latents) |cosines| of axes with latents that were mixed as h = y mixing^T, y of variance 1."""
    product = found.matrix_ @ mixing
    return np.abs(product / np.linalg.norm(product, axis=1, keepdims=True))


def partners(found: Unmixing, mixing: np.ndarray) -> list[int]:
    """The latent of each axis."""
    return overlaps(found, mixing).argmax(1).tolist()
