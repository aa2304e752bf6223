"""A law cut into cells, and the reversible jump process between them.

The line is cut where equal shares of p^(1/3) lie, which for a given number of cells makes the variance
within them smallest (Panter & Dite 1951), mixed with a small share of even cells so that tails stay resolved.
With the mass m_i and the mean c_i of each cell and the density p_f at each face, jumps go at the rates

    i -> i + 1:  p_f / (m_i (c_{i+1} - c_i)),        i + 1 -> i:  p_f / (m_{i+1} (c_{i+1} - c_i)).

They are reversible with respect to m whatever the cells are, and approach the Langevin diffusion of
`isojepa.laws.sturm_liouville` like the square of the cells' width. For a normal law c is an eigenvector
with the eigenvalue 1 exactly, since p' = -z p. The transition matrix over a time t is symmetric up to the
masses and comes from the eigenvectors of a symmetric tridiagonal matrix.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.laws.densities import Density
from isojepa.laws.domains import find_domain, log_density_of

PIECES = 16  # equally likely pieces of each cell, within which a draw is uniform
_FINE = 64  # points per cell from which masses and means are summed
_EVEN = 0.1  # share of the cells that is even in the domain's coordinate
_TAIL = 1e-12  # mass beyond which there is only the last cell: less would drown in rounding


@dataclass(frozen=True)
class Cells:
    """A law cut into K cells, with the spectrum of the jumps between them.

    Attributes:
        faces: (K - 1,) inner ends of the cells.
        mass: (K,) probabilities.
        means: (K,) of z within each cell, centred and divided by the law's deviation.
        pieces: (K, PIECES + 1) ends of the equally likely pieces of each cell.
        within: share of the variance of z that lies within cells.
        blur: the same without the two outermost cells, which hold the tails.
        eigenvalues: (K,) of the jumps' generator, in increasing order from 0.
        vectors: (K, K) orthonormal columns; sqrt(mass) is the first.
    """

    faces: np.ndarray
    mass: np.ndarray
    means: np.ndarray
    pieces: np.ndarray
    within: float
    blur: float
    eigenvalues: np.ndarray
    vectors: np.ndarray

    def correlation(self, time: float) -> float:
        """Correlation of z with itself a time later."""
        return float(self._shares() @ np.exp(-self.eigenvalues * time))

    def time_of(self, rho: float) -> float:
        """The time after which the correlation of z is rho, below 1 - within."""
        shares = self._shares()
        if self.eigenvalues[1] <= 1e-14 * self.eigenvalues[-1]:  # rounding: eigenvalues below are unknown
            raise ValueError("the law must not fall into parts that are never left, got wells too deep")

        def excess(time: float) -> float:
            return float(shares @ np.exp(-self.eigenvalues * time)) - rho

        high = 1.0 / float(self.eigenvalues[1])
        while excess(high) > 0:
            high *= 2
        return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=1000))

    def _shares(self) -> np.ndarray:
        """Shares of the variance of z by eigenvector; they sum to 1 - within."""
        shares: np.ndarray = (self.vectors.T @ (np.sqrt(self.mass) * self.means)) ** 2
        shares[0] = 0.0
        return shares

    def transition(self, time: float) -> np.ndarray:
        """(K, K) probabilities of jumping from each cell to each other within a time."""
        half = self.vectors * np.exp(-self.eigenvalues * time / 2)
        root = np.sqrt(self.mass)
        # exact probabilities are positive: what is below 0 is rounding, of order 1e-16
        joint = np.maximum(half @ half.T, 0.0) * np.outer(root, root)
        joint = (joint + joint.T) / 2
        transition: np.ndarray = joint / joint.sum(1, keepdims=True)
        return transition


def cut(law: Density, count: int) -> Cells:
    """Cut a law into cells.

    Args:
        law: anything with `log_density` and `support`.
        count: number of cells; fewer where some would be empty.

    Raises:
        ValueError: the density is not positive and finite on an interval.
    """
    domain = find_domain(law)
    nodes = domain.nodes(_FINE * count)
    ends, middles = nodes[::2], nodes[1::2]
    log_p = log_density_of(law, domain.to_z(middles))
    positive = np.flatnonzero(np.isfinite(log_p))
    if len(positive) < positive[-1] - positive[0] + 1:
        raise ValueError("the density must be positive on one interval, got a gap inside its support")
    weight = np.exp(log_p - log_p.max() + domain.log_slope(middles))
    share = weight / weight.sum()
    z = domain.to_z(middles)
    below = np.concatenate(([0.0], np.cumsum(share)))
    spread = np.exp((log_p - log_p.max()) / 3 + domain.log_slope(middles))
    even = ((below[1:] > _TAIL) & (_reversed_sum(share) > _TAIL)).astype(np.float64)
    density = (1 - _EVEN) * spread / spread.sum() + _EVEN * even / even.sum()
    place = np.cumsum(density * (even > 0)) / (density * (even > 0)).sum()
    inner = np.unique(np.searchsorted(place, np.arange(1, count) / count) + 1)
    inner = inner[(inner > 0) & (inner < len(share))]
    starts = np.concatenate(([0], inner))
    mass = np.add.reduceat(share, starts)
    means = np.add.reduceat(share * z, starts) / mass
    centre = share @ z
    variance = float(share @ (z - centre) ** 2)
    faces = domain.to_z(ends[inner])
    # p at the faces in the units of `share`: probability per length
    log_total = math.log(weight.sum() * (ends[1] - ends[0]))
    at_faces = np.exp(log_density_of(law, faces) - log_p.max() - log_total)
    eigenvalues, vectors = _spectrum(mass, at_faces / np.diff(means))
    cell = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(share))))
    inside = np.add.reduceat(share * (z - means[cell]) ** 2, starts) / variance
    return Cells(
        faces=faces,
        mass=mass,
        means=(means - centre) / math.sqrt(variance),
        pieces=_pieces(domain.to_z(ends), share, starts),
        within=float(inside.sum()),
        blur=float(inside[1:-1].sum()),
        eigenvalues=eigenvalues,
        vectors=vectors,
    )


def _reversed_sum(share: np.ndarray) -> np.ndarray:
    return np.cumsum(share[::-1])[::-1]


def _spectrum(mass: np.ndarray, conductance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the jumps, the constant one exact."""
    diagonal = np.zeros(len(mass))
    diagonal[:-1] += conductance / mass[:-1]
    diagonal[1:] += conductance / mass[1:]
    between = -conductance / np.sqrt(mass[:-1] * mass[1:])
    eigenvalues, vectors = scipy.linalg.eigh_tridiagonal(diagonal, between)
    eigenvalues[0] = 0.0
    vectors[:, 0] = np.sqrt(mass)
    return np.maximum(eigenvalues, 0.0), vectors


def _pieces(ends: np.ndarray, share: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(K, PIECES + 1) points that cut every cell into equally likely pieces."""
    table = np.empty((len(starts), PIECES + 1))
    stops = np.concatenate((starts[1:], [len(share)]))
    for row, start, stop in zip(table, starts, stops, strict=True):
        below = np.concatenate(([0.0], np.cumsum(share[start:stop])))
        row[:] = np.interp(np.linspace(0, below[-1], PIECES + 1), below, ends[start : stop + 1])
    return table


def alias_tables(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables to draw from many discrete laws in constant time (Walker 1977), built for all of them at once.

    A column drawn uniformly is kept with the probability `keep` and replaced by `other` else. Light columns
    are filled up by heavy ones in the order of their places (Huebschle-Schneider & Sanders 2022).

    Args:
        rows: (n, K) probabilities, each row of sum 1.

    Returns:
        keep (n, K) float64 and other (n, K) int32.
    """
    n, count = rows.shape
    weights = np.concatenate((rows * (count / rows.sum(1, keepdims=True)), np.zeros((n, 1))), axis=1)
    heavy = weights > 1
    places = np.arange(count + 1)
    heavy[:, -1] = True
    next_heavy = np.minimum.accumulate(np.where(heavy, places, count)[:, ::-1], axis=1)[:, ::-1]
    heavy[:, -1] = False
    next_light = np.minimum.accumulate(np.where(heavy, count, places)[:, ::-1], axis=1)[:, ::-1]
    keep = np.ones((n, count + 1))
    other = np.broadcast_to(places, (n, count + 1)).astype(np.int32)
    row = np.arange(n)
    light, big = next_light[:, 0].copy(), next_heavy[:, 0].copy()
    rest = weights[row, big]
    for _ in range(count):
        fill = (rest > 1) & (light < count)  # the heavy column gives to a light one
        drop = ~fill & (big < count)  # the heavy column has become light: the next one gives to it
        at = row[fill], light[fill]
        keep[at], other[at] = weights[at], big[fill]
        rest[fill] += weights[at] - 1
        light[fill] = next_light[at[0], at[1] + 1]
        at = row[drop], big[drop]
        after = next_heavy[at[0], at[1] + 1]
        keep[at] = np.where(after < count, rest[drop], 1.0)
        other[at] = np.where(after < count, after, at[1])
        rest[drop] += weights[at[0], after] - 1
        big[drop] = after
    return np.ascontiguousarray(keep[:, :-1]), np.ascontiguousarray(other[:, :-1])
