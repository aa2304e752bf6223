"""A linear model of an embedding from what was recorded: its transition, costs, and distance to a rotation.

    h' ~ A h + B a    least squares over rows (h, a, h'); the noise is the covariance of what is left
    z ~ C h           least squares at calibration points, so that z^T W z becomes h^T C^T W C h
    e = h - Q z       with the rotation Q fitted on one half of the rows, seen on the other

The first two are as biased as h is far from a rotation of the latents: how far is what the radii of the
planning bound (`isojepa.planning.regret`) are for. Rows must be of recorded actions; pairs that no action
made tell nothing of B.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from isojepa.align.rows import as_rows
from isojepa.arguments import check_number, checked
from isojepa.certificates.closed_loop import Radii
from isojepa.certificates.dynamics import fit_transition
from isojepa.certificates.intervals import Interval, from_samples
from isojepa.linear import halves, least_squares, procrustes
from isojepa.planning.lqr import LinearSystem, Lqr, check_weight

_USUAL = 0.99  # share of neighbours
_NEIGHBORS = 5  # of each state, between which slopes are looked at


@dataclass(frozen=True)
class FittedSystem:
    """A transition in the embedding.

    Attributes:
        system: of h - centre.
        centre: (dim,) mean embedding, where the regulator leads.
    """

    system: LinearSystem
    centre: np.ndarray

    def act(self, lqr: Lqr, h: Any) -> np.ndarray:
        """Actions (n, inputs) of a regulator of this system for embeddings (n, dim)."""
        return lqr.act(as_rows("h", h) - self.centre)

    def radii(self, truth: LinearSystem, q: Any) -> Radii:
        """How far it is from the true system of the latents, turned by q (dim, dim) so that h ~ Q z."""
        turned = truth.turned(q)
        off = [getattr(self.system, name) - getattr(turned, name) for name in ("a", "b", "noise")]
        return Radii(*(float(np.linalg.norm(one, 2)) for one in off))


@dataclass(frozen=True)
class EncoderError:
    """What an embedding is besides a rotation of the latents.

    Attributes:
        q: (dim, dim) of h ~ Q z, both centred.
        power: mean |e|^2 of rows that q was not fitted on.
        slope: the largest |e_i - e_j| / |z_i - z_j| that was seen: a lower bound of the Lipschitz constant,
            so that a planning bound made with it is a diagnostic.
        usual_slope: what 99 % of neighbours are below: the largest is that of the rarest states, where a
            closed loop seldom is.
    """

    q: np.ndarray
    power: Interval
    slope: float
    usual_slope: float


@checked
def fit_system(h: Any, actions: Any, h_next: Any) -> FittedSystem:
    """Fit the transition of an embedding.

    Args:
        h, h_next: (n, dim) embeddings before and after.
        actions: (n, inputs) what was done in between.

    Raises:
        ValueError: rows do not match, are not finite or too few, or actions do not vary beyond what the
            embedding tells: then B cannot be told; the message names the direction.
    """
    found = fit_transition(h, actions, h_next)
    return FittedSystem(LinearSystem(found.A, found.B, found.noise), as_rows("h", h).mean(0))


@checked
def push_cost(w: Any, h: Any, z: Any) -> np.ndarray:
    """The cost h^T C^T W C h of embeddings that z^T W z is, by z ~ C h at calibration points.

    Args:
        w: (d, d) cost of latents.
        h: (n, dim) embeddings of the calibration points.
        z: (n, d) their latents.

    Returns:
        (dim, dim) weight for centred embeddings.

    Raises:
        ValueError: rows do not match or are not finite, or w is no weight.
    """
    h, z = as_rows("h", h), as_rows("z", z)
    if len(h) != len(z):
        raise ValueError(f"h and z must have the same rows, got {len(h)} and {len(z)}")
    back = least_squares(h, z).matrix  # (dim, d)
    return np.asarray(back @ check_weight("w", w, z.shape[1]) @ back.T)


@checked
def measure_error(h: Any, z: Any, confidence: float = 0.95) -> EncoderError:
    """Measure the error of an encoder at states drawn from N(0, I) whose latents are known.

    Args:
        h: (n, dim) embeddings.
        z: (n, dim) latents.
        confidence: of the interval.

    Raises:
        ValueError: shapes differ, numbers are not finite, or there are fewer than 4 rows.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    h, z = as_rows("h", h), as_rows("z", z)
    if h.shape != z.shape:
        raise ValueError(f"h and z must have the same shape, got {h.shape} and {z.shape}")
    fit, score = halves(len(h))
    turn = procrustes(z[fit], h[fit])
    error = h - turn(z)
    others = [*range(2, min(_NEIGHBORS, len(z)) + 1)]  # the nearest of all is the state itself
    distances, places = map(np.asarray, cKDTree(z).query(z, k=others))
    apart = np.linalg.norm(error[:, None] - error[places], axis=2)
    slopes = np.append(apart[distances > 0] / distances[distances > 0], 0.0)  # equal states tell of none
    usual, largest = np.quantile(slopes, (_USUAL, 1.0))
    power = from_samples((error[score] ** 2).sum(1), confidence)
    return EncoderError(turn.matrix.T, power, float(largest), float(usual))
