r"""What no rotation of the latents changes in z' = A z + B a: the invariants of a transition, with intervals.

For h = Q z the transition is (Q A Q^T, Q B), and

    eigenvalues of A
    singular values of B
    eigenvalues of the controllability Gramian   W = sum_k A^k B B^T (A^T)^k
    singular values of [B, AB, ..., A^(n-1) B], whose rank says which latents actions reach
    inner products of impulse responses          B^T (A^T)^j A^k B

are those of the world itself. They need no latents and no alignment. With a history of k embeddings A is the
companion matrix of the stacked state, which is turned by the same Q in each block; the inner products are of
the responses of the newest embedding.

The Gramian has no end where A is stable beyond doubt; else it is that of twice as many steps as the state has
dimensions.
"""

from dataclasses import dataclass

import numpy as np

from isojepa.certificates.dynamics.eigenvalues import Eigenvalue, eigenvalue_intervals, smooth_intervals
from isojepa.certificates.dynamics.singular import gramian_intervals, singular_intervals
from isojepa.statistics.intervals import Interval

LAGS = 3  # impulse responses whose inner products are told


@dataclass(frozen=True)
class Invariants:
    """What no rotation changes.

    Attributes:
        eigenvalues: of A, the largest modulus first.
        singular_values: of B, the largest first.
        gramian: eigenvalues of the controllability Gramian, the largest first.
        horizon: steps of the Gramian; 0 for no end.
        reach: singular values of [B, AB, ..., A^(n-1) B], the largest first.
        unreached: directions of the state that actions may not reach, those of `reach` whose interval has 0.
        responses: (lags, lags, actions, actions) B^T (A^T)^j A^k B.
        responses_low, responses_high: ends of their intervals.
    """

    eigenvalues: tuple[Eigenvalue, ...]
    singular_values: tuple[Interval, ...]
    gramian: tuple[Interval, ...]
    horizon: int
    reach: tuple[Interval, ...]
    unreached: tuple[tuple[float, ...], ...]
    responses: np.ndarray
    responses_low: np.ndarray
    responses_high: np.ndarray

    @property
    def rank(self) -> int:
        """How many directions of the state actions reach for certain."""
        return sum(one.low > 0 for one in self.reach)

    @property
    def radius(self) -> Interval:
        """The largest modulus of an eigenvalue of A."""
        moduli = [one.modulus for one in self.eigenvalues]
        return Interval(*(max(getattr(one, end) for one in moduli) for end in ("estimate", "low", "high")))


def measure_invariants(
    matrix: np.ndarray, deviations: np.ndarray, history: int, confidence: float, horizon: int | None = None
) -> Invariants:
    """Invariants of a fitted transition.

    Args:
        matrix: (dim, history * dim + actions), A and B beside each other.
        deviations: (draws, ...) of its error.
        history: embeddings in a state.
        confidence: of each interval.
        horizon: steps of the Gramian; by default as the module's docstring says.
    """
    a, b = companion(matrix, history)
    a_drawn, b_drawn = companion(matrix + deviations, history)
    errors = (a_drawn - a, b_drawn - b)
    size, top = len(a), len(matrix)
    eigenvalues = eigenvalue_intervals(a, errors[0], confidence)
    if horizon is None:
        stable = max(one.modulus.high for one in eigenvalues) < 1
        horizon = 0 if stable else 2 * size
    controllability, drawn = _controllability(a, b), _controllability(a_drawn, b_drawn)
    reach = singular_intervals(controllability, drawn - controllability, confidence)
    directions = np.linalg.svd(controllability)[0].T
    responses = inner_products(a, b, top)
    low, high = smooth_intervals(responses, inner_products(a_drawn, b_drawn, top), confidence)
    return Invariants(
        eigenvalues,
        singular_intervals(b[:top], errors[1][:, :top], confidence),
        gramian_intervals(a, b, errors, horizon, confidence),
        horizon,
        reach,
        tuple(
            tuple(map(float, direction))
            for direction, one in zip(directions, reach, strict=True)
            if one.low <= 0
        ),
        responses,
        low,
        high,
    )


def companion(matrix: np.ndarray, history: int) -> tuple[np.ndarray, np.ndarray]:
    """A (..., history * dim, history * dim) and B (..., history * dim, actions) of the stacked state.

    Args:
        matrix: (..., dim, history * dim + actions).
        history: embeddings in a state.
    """
    dim = matrix.shape[-2]
    size = history * dim
    a, b = matrix[..., :size], matrix[..., size:]
    if history == 1:
        return a, b
    shift = np.broadcast_to(np.eye(size - dim, size), (*matrix.shape[:-2], size - dim, size))
    still = np.zeros((*matrix.shape[:-2], size - dim, b.shape[-1]))
    return np.concatenate((a, shift), axis=-2), np.concatenate((b, still), axis=-2)


def inner_products(a: np.ndarray, b: np.ndarray, top: int, lags: int = LAGS) -> np.ndarray:
    """B^T (A^T)^j A^k B of the first `top` coordinates, (..., lags, lags, actions, actions)."""
    responses, power = [], b
    for _ in range(lags):
        responses.append(power[..., :top, :])
        power = a @ power
    stacked = np.stack(responses, axis=-3)  # (..., lags, top, actions)
    return np.asarray(np.einsum("...jdm,...kdn->...jkmn", stacked, stacked))


def _controllability(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    blocks, power = [], b
    for _ in range(a.shape[-1]):
        blocks.append(power)
        power = a @ power
    return np.concatenate(blocks, axis=-1)
