r"""Families of functions of an embedding, among which the estimate of rho looks for the best correlated.

A few rows with huge values would decide every sum, so functions are made of normal scores: each dimension is
brought to a normal law by its own quantiles, which bounds it and keeps what it orders. The families:

    linear    the dimensions as they are
    scores    the normal scores s of the dimensions
    cosines   s beside cos(w.s + b) with random w (Rahimi & Recht 2007), up to 8 dimensions
    radius    s_j cos(k pi u), u the rank of |s|: dimensions that turn or fold with the distance
    plane     the cosines of two dimensions, chosen by `PlaneScreen`, from 3 dimensions on

One function that correlates by rho is enough, and it may live in a plane: this is how many dimensions are
borne, where the cosines of all of them would need more pairs than anybody has.

Nothing here looks across the views but the screen of planes, whose sums are kept by block of rows so that
planes can be chosen without the rows that judge them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.certificates.waves import cosines
from isojepa.seeds import generator

Features = Callable[[np.ndarray], np.ndarray]
_KNOTS = 513  # quantiles of a dimension
_COSINES = 224  # of a family
_LENGTHS = (1.6, 0.8, 0.4)  # of the cosines, in deviations
_IN_PLANES = (1.6, 0.6)
_WHOLE = 8  # dimensions up to which cosines of all of them are used
_WAVES, _WAVING = 6, 256  # of the radius: at most so many, and so many products with dimensions
_ROUNDING = 1e-12  # deviation over size below which a dimension is constant


@dataclass(frozen=True)
class Family:
    """Functions of `Inputs`: call `features` for their values (n, count), the first `plain` linear."""

    words: str
    features: Features
    plain: int


class Inputs:
    """What functions are made of: each dimension standardised, and after them their normal scores.

    Args:
        h: (n, m) rows to learn means, deviations and quantiles from. Scores are bounded by the largest row.
        directions: (m, dim) to project on first, or None for the dimensions as they are.
    """

    def __init__(self, h: np.ndarray, directions: np.ndarray | None = None) -> None:
        self._directions = directions
        x = h if directions is None else h @ directions
        self._centre, deviation = x.mean(0), x.std(0)
        self._varies = deviation > _ROUNDING * (np.abs(self._centre) + deviation)
        self._scale = np.where(self._varies, deviation, 1.0)
        self.dim = int(self._varies.sum())
        levels = (np.arange(_KNOTS) + 0.5) / _KNOTS
        inner = levels[(levels > 1 / len(x)) & (levels < 1 - 1 / len(x))]
        levels = np.r_[0.5 / len(x), inner, 1 - 0.5 / len(x)]
        standard = self._standardized(h)
        places = np.quantile(standard, np.r_[0.0, inner, 1.0], axis=0)
        values = np.asarray(scipy.special.ndtri(levels))
        self._knots = [_distinct(column, values) for column in places.T]
        self.labels = tuple(int(j) for j in np.flatnonzero(self._varies))
        self.radii = np.linalg.norm(self(h)[:, self.dim :], axis=1)

    def _standardized(self, h: np.ndarray) -> np.ndarray:
        x = h if self._directions is None else h @ self._directions
        standard: np.ndarray = ((x - self._centre) / self._scale)[:, self._varies]
        return standard

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """Inputs (n, 2 dim) of embeddings (n, m)."""
        x = self._standardized(h)
        scores = [np.interp(x[:, j], *knots) for j, knots in enumerate(self._knots)]
        return np.concatenate([x, *[score[:, None] for score in scores]], axis=1)


def _distinct(places: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots of rising places; those at one place are joined at the mean of their values."""
    kept, index = np.unique(places, return_inverse=True)
    return kept, np.bincount(index, values) / np.bincount(index)


def standard_families(inputs: Inputs, seed: int) -> list[Family]:
    """The families of all dimensions."""
    dim = inputs.dim
    families = [
        Family("linear functions of the embedding", lambda x: x[:, :dim], dim),
        Family("sums of monotone functions of the dimensions", lambda x: x[:, dim:], dim),
    ]
    if dim <= _WHOLE:
        families += [_cosines(inputs, tuple(range(dim)), length, seed) for length in _LENGTHS]
    if dim > 1:
        families.append(_radius(inputs))
    return families


def plane_families(inputs: Inputs, plane: tuple[int, int], seed: int) -> list[Family]:
    """The families of cosines of two of the dimensions."""
    return [_cosines(inputs, plane, length, seed) for length in _IN_PLANES]


def _cosines(inputs: Inputs, columns: tuple[int, ...], length: float, seed: int) -> Family:
    dim = len(columns)
    source = generator(seed, "maximal correlation", f"{length:g}", *columns)
    frequencies = torch.randn((dim, _COSINES), generator=source, dtype=torch.float64).numpy()
    frequencies /= length * math.sqrt(max(1.0, dim / 2))
    phases = 2 * np.pi * torch.rand(_COSINES, generator=source, dtype=torch.float64).numpy()
    scores = [inputs.dim + column for column in columns]

    def features(x: np.ndarray) -> np.ndarray:
        s = x[:, scores]
        return np.concatenate([s, cosines(s @ frequencies + phases)], axis=1)

    labels = " and ".join(str(inputs.labels[column]) for column in columns)
    of = "all dimensions" if dim == inputs.dim else f"dimensions {labels}"
    return Family(f"waves over {of}", features, dim)


def _radius(inputs: Inputs) -> Family:
    dim = inputs.dim
    places = np.unique(np.quantile(inputs.radii, np.linspace(0, 1, _KNOTS)))
    levels = np.linspace(0, np.pi, len(places))
    count = int(np.clip(_WAVING // dim, 1, _WAVES))

    def features(x: np.ndarray) -> np.ndarray:
        s = x[:, dim:]
        angle = np.interp(np.linalg.norm(s, axis=1), places, levels)[:, None]
        waves = [np.cos(k * angle) for k in range(1, count + 1)]
        return np.concatenate([s, *[s * wave for wave in waves], *waves], axis=1)

    return Family("dimensions times waves of their common length", features, dim)


class PlaneScreen:
    """Which two dimensions bend together, by block of rows.

    In a world whose embedding is linear, e = s' - r s knows nothing more of s. Where two dimensions are a
    bent image of a plane, e depends on their products of degree 2 and 3; their correlations with e, squared
    and added, rank the planes.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._sums: list[np.ndarray] = []
        self._plain: list[np.ndarray] = []

    def add(self, s: np.ndarray, s_next: np.ndarray) -> None:
        """Add a block of rows (n, dim) of both views."""
        both = np.concatenate([s, s_next]), np.concatenate([s_next, s])
        second, third = (both[0] ** 2 - 1) / math.sqrt(2), (both[0] ** 3 - 3 * both[0]) / math.sqrt(6)
        # of s' and of s itself, so that their difference s' - r s can be made with any r
        self._sums.append(
            np.stack(
                [
                    [
                        (e * second).T @ both[0],
                        (e * both[0]).T @ second,
                        e.T @ third,
                        (e * both[0]).T @ both[0],
                        e.T @ second,
                    ]
                    for e in both[::-1]
                ]
            )
        )
        self._plain.append(np.stack([(both[1] * both[0]).sum(0), (both[0] ** 2).sum(0)]))

    def best(self, blocks: tuple[int, ...]) -> tuple[int, int]:
        """The plane that bends most in the rows of some blocks."""
        chosen = list(blocks)
        moments, plain = np.stack(self._sums)[chosen].sum(0), np.stack(self._plain)[chosen].sum(0)
        r = (plain[0] / np.maximum(plain[1], 1e-300))[:, None]
        score = ((moments[0] - r * moments[1]) ** 2).sum(0)
        place = int(np.argmax(np.triu(score + score.T, 1) - np.tri(self.dim)))
        return place // self.dim, place % self.dim
