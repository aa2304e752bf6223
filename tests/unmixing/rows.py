"""Embeddings of worlds whose axes are known, for the tests of what is said and drawn of them."""

import math
from functools import cache

import numpy as np

from isojepa.data import Langevin, OrnsteinUhlenbeck
from isojepa.distributions import Uniform
from isojepa.seeds import generator, numpy_generator

Rows = dict[str, np.ndarray]


def turned(dim: int, *views: np.ndarray) -> list[np.ndarray]:
    """Views (n, dim) in one rotation."""
    turn = np.linalg.qr(numpy_generator(0, "turn").normal(size=(dim, dim)))[0]
    return [view @ turn.T for view in views]


@cache
def bent(rows: int = 6000, dim: int = 2) -> Rows:
    """The best white embedding of uniform latents: every axis has a name, and is bent."""
    sides = Langevin(dim, Uniform(), 0.9).sample(rows, generator(0, "bent"))
    z, z_next = (side.double().numpy() for side in sides)
    h, h_next = turned(dim, *(np.sin(np.pi * side / (2 * math.sqrt(3))) for side in (z, z_next)))
    return {"h": h, "h_next": h_next, "z": z}


@cache
def normal(rows: int = 6000, rates: tuple[float, ...] = (0.9, 0.9, 0.9)) -> Rows:
    """A rotation of normal latents: named where their rates differ."""
    sides = OrnsteinUhlenbeck(len(rates), list(rates)).sample(rows, generator(0, "normal"))
    z, z_next = (side.double().numpy() for side in sides)
    h, h_next = turned(len(rates), z, z_next)
    return {"h": h, "h_next": h_next, "z": z}


def paths(
    steps: int = 300, count: int = 20, rates: tuple[float, ...] = (0.95, 0.6)
) -> tuple[np.ndarray, np.ndarray]:
    """Paths (steps, count, dim) of an embedding and of its normal latents."""
    source, rho = numpy_generator(0, "paths"), np.array(rates)
    z = source.normal(size=(steps, count, len(rates)))
    for step in range(1, steps):
        z[step] = rho * z[step - 1] + np.sqrt(1 - rho**2) * z[step]
    return turned(len(rates), z)[0], z
