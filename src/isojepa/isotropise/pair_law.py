r"""How far the law of recorded pairs is from that of the theorems' Gaussian world.

With the two ends of a pair whitened together, and rho their common correlation, the coordinates

    u = (z + z') / sqrt(2 (1 + rho)),    v = (z' - z) / sqrt(2 (1 - rho))

are jointly N(0, I) exactly when the pair is one of the Ornstein-Uhlenbeck process of correlation rho.
Distances are between characteristic functions along random directions a,

    D = E_a \int |phi_X(t a) - e^{-t^2/2}|^2 n(t) dt,    n the standard normal density,

0 for N(0, I) and 2 at most, with the bias of a finite sample, (1 - |phi_X|^2) / effective pairs, taken off.
That takes pairs as independent; on one path they are not, so that values near 0 may be off by more. They
can fall below 0 by chance and are kept as they are.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.arguments import checked
from isojepa.seeds import generator
from isojepa.worlds.recorded import Recorded

_SLICES = 16
_SAMPLES = 10_000  # pairs that distances are measured on
_KNOTS, _SHARES = np.polynomial.hermite_e.hermegauss(12)
_KNOTS, _SHARES = _KNOTS[6:], 2 * _SHARES[6:] / math.sqrt(2 * math.pi)  # even integrand: half the knots


@dataclass(frozen=True)
class PairLaw:
    """Measures of a law of pairs.

    Attributes:
        pairs: number of different pairs.
        effective_pairs: (sum w)^2 / sum w^2 of their weights.
        effective_paths: the same of the paths' total weights; pairs of one path are not independent.
        rho: correlation along each whitened direction, the slowest first.
        isotropy: largest over smallest rate -log(rho); 1 for the theorems, which need less than 2.
        gaussianity: distance of the whitened states from N(0, I).
        transition: distance of (u, v) from N(0, I): shape, rates and noise of the pairs together; NaN where
            a direction does not persist over the stride.
        stationarity: distance between the laws of the two ends.
    """

    pairs: int
    effective_pairs: float
    effective_paths: float
    rho: tuple[float, ...]
    isotropy: float
    gaussianity: float
    transition: float
    stationarity: float


@checked
def measure_pairs(recorded: Recorded, seed: int = 0) -> PairLaw:
    """Measure the law that a `Recorded` draws its pairs from.

    Args:
        recorded: the trajectories with their stride, weights and swap.
        seed: draws the directions.

    Raises:
        ValueError: the states do not span their space.
    """
    index = _systematic(recorded)
    z, z_next = recorded.states_at(index)
    effective_pairs, effective_paths = effective(recorded)
    noise = 1 / min(effective_pairs, len(index))
    mean, whiten = whitening(np.concatenate((z, z_next)))
    z, z_next = (z - mean) @ whiten, (z_next - mean) @ whiten
    values, _ = lagged(z, z_next)
    source = generator(seed, "pair-law")
    slices = _directions(recorded.dim, source)
    transition = math.nan
    if persistent(values):
        u, v = turn(z, z_next, common_rho(values))
        # a pair and its reverse have (u, v) and (u, -v): the alignment sees both
        both = np.concatenate((np.hstack((u, v)), np.hstack((u, -v))))
        transition = _from_normal(both @ _directions(2 * recorded.dim, source), noise)
    gap = _between(z @ slices, z_next @ slices, noise) * (1 - 2 * recorded.swap) ** 2
    return PairLaw(
        pairs=recorded.pairs,
        effective_pairs=effective_pairs,
        effective_paths=effective_paths,
        rho=tuple(values.tolist()),
        isotropy=isotropy_of(values),
        gaussianity=_from_normal(np.concatenate((z, z_next)) @ slices, noise),
        transition=transition,
        stationarity=gap,
    )


def effective(recorded: Recorded) -> tuple[float, float]:
    """Effective numbers of pairs and of paths."""
    counts = np.maximum(recorded.states.lengths - recorded.stride, 0).astype(np.float64)
    if recorded.weights is None:
        return float(recorded.pairs), float(counts.sum() ** 2 / (counts**2).sum())
    starts = np.concatenate(([0.0], np.cumsum(recorded.weights)))
    ends = np.cumsum(counts).astype(np.int64)
    totals = np.diff(starts[np.concatenate(([0], ends))])
    weights = recorded.weights
    return float(weights.sum() ** 2 / (weights**2).sum()), float(totals.sum() ** 2 / (totals**2).sum())


def whitening(states: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean (dim,) and symmetric square root of the inverse covariance (dim, dim) of states (n, dim).

    Symmetric, so that whitened coordinates stay as near as can be to those they come from.

    Raises:
        ValueError: a direction has no variance.
    """
    mean = np.average(states, axis=0, weights=weights)
    centred = states - mean
    share = np.full(len(states), 1 / len(states)) if weights is None else weights / weights.sum()
    values, vectors = np.linalg.eigh((centred * share[:, None]).T @ centred)
    if values[0] <= 1e-10 * values[-1]:
        raise ValueError(
            f"states must vary in every direction, got variances {values[0]:.2g} to {values[-1]:.2g}: leave "
            "out what is constant or follows from the rest"
        )
    return mean, (vectors / np.sqrt(values)) @ vectors.T


def lagged(
    z: np.ndarray, z_next: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Correlations (dim,) of whitened pairs, descending, and their directions as columns."""
    share = np.full(len(z), 1 / len(z)) if weights is None else weights / weights.sum()
    product = (z * share[:, None]).T @ z_next
    values, vectors = np.linalg.eigh((product + product.T) / 2)
    return values[::-1], vectors[:, ::-1]


def common_rho(rho: np.ndarray) -> float:
    """The correlation whose rate -log(rho) is the geometric mean of those of several.

    Raises:
        ValueError: a direction does not persist over the stride, or does not move.
    """
    if not persistent(rho):
        raise ValueError(
            "pairs must correlate within (0, 1) in every direction, got "
            f"{np.array2string(rho, precision=4)}: change the stride"
        )
    return math.exp(-math.exp(float(np.log(-np.log(rho)).mean())))


def persistent(rho: np.ndarray) -> bool:
    """Whether all correlations lie in (0, 1)."""
    return bool(((rho > 0) & (rho < 1)).all())


def isotropy_of(rho: np.ndarray) -> float:
    """Largest over smallest rate -log(rho); infinite where a direction does not persist or does not move."""
    if not persistent(rho):
        return math.inf
    rates = -np.log(rho)
    return float(rates.max() / rates.min())


def turn(z: np.ndarray, z_next: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """u and v of whitened pairs: the middle and the step, each of unit variance in the Gaussian world."""
    return (z + z_next) / math.sqrt(2 * (1 + rho)), (z_next - z) / math.sqrt(2 * (1 - rho))


def _systematic(recorded: Recorded) -> np.ndarray:
    """Numbers of pairs in proportion to their weights, evenly spaced: no more noise than needed."""
    count = min(_SAMPLES, recorded.pairs) if recorded.weights is None else _SAMPLES
    places = (np.arange(count) + 0.5) / count
    if recorded.weights is None:
        return (places * recorded.pairs).astype(np.int64)
    return np.searchsorted(np.cumsum(recorded.weights), places).clip(max=recorded.pairs - 1)


def _directions(dim: int, source: torch.Generator) -> np.ndarray:
    slices = torch.randn(dim, _SLICES, generator=source, dtype=torch.float64)
    units: np.ndarray = (slices / slices.norm(dim=0)).numpy()
    return units


def _characteristic(projected: np.ndarray) -> np.ndarray:
    """Characteristic functions of the columns of (n, slices) at the knots: (knots, slices)."""
    return np.stack([_wave(knot * projected).mean(0) for knot in _KNOTS])


def _wave(angle: np.ndarray) -> np.ndarray:
    """e^{i angle}; twice as fast as the complex exponential."""
    out = np.empty(angle.shape, dtype=np.complex128)
    out.real, out.imag = np.cos(angle), np.sin(angle)
    return out


def _from_normal(projected: np.ndarray, noise: float) -> float:
    own = _characteristic(projected)
    squared = np.abs(own - np.exp(-(_KNOTS**2) / 2)[:, None]) ** 2 - noise * (1 - np.abs(own) ** 2)
    return float((_SHARES @ squared).mean())


def _between(first: np.ndarray, second: np.ndarray, noise: float) -> float:
    one, two = _characteristic(first), _characteristic(second)
    # the ends of a pair are dependent: the noise is that of e^{itz} - e^{itz'}, of size 2 - 2 cos(t (z - z'))
    apart = np.stack([(2 - 2 * np.cos(knot * (first - second))).mean(0) for knot in _KNOTS])
    squared = np.abs(one - two) ** 2
    return float((_SHARES @ (squared - noise * (apart - squared))).mean())
