r"""Invariants of a linear transition under rotations, with intervals that hold together.

For h = Q z with Q orthogonal, z' = A z + B a becomes h' = (Q A Q^T) h + (Q B) a, and

    eigenvalues of A
    singular values of B
    eigenvalues of the controllability Gramian   W = sum_k A^k B B^T (A^T)^k
    singular values of [B, AB, ..., A^(n-1) B], whose rank counts the directions that actions reach
    inner products of impulse responses          B^T (A^T)^j A^k B

are those of the world itself: they need neither latents nor alignment. With a history of k embeddings A is
the companion matrix of the stacked state, and responses are those of the newest embedding.

**Intervals** come from draws E of the error of (A, B). A smooth function of the estimate has the spread of
the draws around their mean, stretched until the stated fraction of draws lies within all intervals of its
kind at once, and widened by the bias of the draws. Singular values and eigenvalues are smooth only where they
stand apart. A singular value nearer to another one, or to 0, than twice r, the quantile of the spectral norm
|E|, has Weyl's interval sigma -+ r, cut at 0. An eigenvalue nearer to another one than four times its
movement has a disk around it whose radius is that of all of its cluster: the quantile of the distance to the
eigenvalue of A + E that it is matched with, widened by half, since a cluster spreads less around the estimate
than around the truth. The Gramian sums all steps where A is stable beyond doubt, else twice as many as the
state has dimensions.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.statistics.intervals import Interval

LAGS = 3  # impulse responses with inner products
CLUSTER_GAP = 4.0  # distance to the next eigenvalue, over its movement, below which they form a cluster
CLUSTER_WIDENING = 1.5  # of the radius of a cluster
WEYL_GAP = (
    2.0  # distance to the next singular value, over the norm of the error, that is needed for smoothness
)
_DOUBLINGS = 16  # of the Gramian without end: 65,536 steps


@dataclass(frozen=True)
class Eigenvalue:
    """An eigenvalue with intervals of its parts; `alone` if it stands apart from the others."""

    real: Interval
    imag: Interval
    modulus: Interval
    alone: bool

    @property
    def estimate(self) -> complex:
        """The eigenvalue of the fitted matrix."""
        return complex(self.real.estimate, self.imag.estimate)


@dataclass(frozen=True)
class Invariants:
    """Numbers of a transition that no rotation changes.

    Attributes:
        eigenvalues: of A, the largest modulus first.
        singular_values: of B, the largest first.
        gramian: eigenvalues of the controllability Gramian, the largest first.
        horizon: steps of the Gramian; 0 for all.
        reach: singular values of [B, AB, ..., A^(n-1) B], the largest first.
        unreached: directions of the state that actions may not reach: the interval in `reach` contains 0.
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
        """Number of directions of the state that actions reach beyond doubt."""
        return sum(one.low > 0 for one in self.reach)

    @property
    def radius(self) -> Interval:
        """Spectral radius of A."""
        moduli = [one.modulus for one in self.eigenvalues]
        return Interval(*(max(getattr(one, end) for one in moduli) for end in ("estimate", "low", "high")))


def measure_invariants(
    matrix: np.ndarray, errors: np.ndarray, history: int, confidence: float, horizon: int | None = None
) -> Invariants:
    """Invariants of a fitted transition.

    Args:
        matrix: (dim, history * dim + actions), A and B beside each other.
        errors: (draws, dim, history * dim + actions) of the error of the matrix.
        history: embeddings in a state.
        confidence: of all intervals of one kind together.
        horizon: steps of the Gramian; None as in the module's docstring.
    """
    a, b = companion(matrix, history)
    a_drawn, b_drawn = companion(matrix + errors, history)
    dim = len(matrix)
    eigenvalues = _eigenvalues(a, a_drawn, confidence)
    if horizon is None:
        horizon = 0 if max(one.modulus.high for one in eigenvalues) < 1 else 2 * len(a)
    gramians = gramian(a_drawn, b_drawn, horizon)
    stable = np.isfinite(gramians).all((1, 2))  # draws without a Gramian count as beyond every interval
    level = confidence / max(float(stable.mean()), confidence)
    controls, controls_drawn = _controllability(a, b), _controllability(a_drawn, b_drawn)
    reach = singular_intervals(controls, controls_drawn, confidence)
    directions = np.linalg.svd(controls)[0].T.tolist()
    responses = inner_products(a, b, dim)
    ends = smooth_intervals(responses, inner_products(a_drawn, b_drawn, dim), confidence)
    return Invariants(
        eigenvalues,
        singular_intervals(b[:dim], b_drawn[:, :dim], confidence),
        singular_intervals(gramian(a, b, horizon), gramians[stable], level),
        horizon,
        reach,
        tuple(tuple(row) for row, one in zip(directions, reach, strict=True) if one.low <= 0),
        responses,
        *ends,
    )


def companion(matrix: np.ndarray, history: int) -> tuple[np.ndarray, np.ndarray]:
    """A (..., history * dim, history * dim) and B (..., history * dim, actions) of the stacked state."""
    dim = matrix.shape[-2]
    size = history * dim
    shift = np.zeros((*matrix.shape[:-2], size - dim, matrix.shape[-1]))
    shift[..., :size] = np.eye(size - dim, size)
    stacked = np.concatenate((matrix, shift), axis=-2)
    return stacked[..., :size], stacked[..., size:]


def gramian(a: np.ndarray, b: np.ndarray, horizon: int) -> np.ndarray:
    """Sum over k < horizon of A^k B B^T (A^T)^k, (..., dim, dim); of all k, by doubling, if horizon is 0."""
    total = term = b @ np.swapaxes(b, -1, -2)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range((horizon or _DOUBLINGS + 1) - 1):
            if horizon:
                term = a @ term @ np.swapaxes(a, -1, -2)
                total = total + term
            else:
                total = total + a @ total @ np.swapaxes(a, -1, -2)
                a = a @ a
        return np.asarray(np.where(np.abs(total) < 1e100, total, np.inf))


def inner_products(a: np.ndarray, b: np.ndarray, top: int, lags: int = LAGS) -> np.ndarray:
    """B^T (A^T)^j A^k B of the first `top` coordinates, (..., lags, lags, actions, actions)."""
    stacked = np.stack([response[..., :top, :] for response in _responses(a, b, lags)], axis=-3)
    return np.asarray(np.einsum("...jdm,...kdn->...jkmn", stacked, stacked))


def singular_intervals(matrix: np.ndarray, drawn: np.ndarray, confidence: float) -> tuple[Interval, ...]:
    """Intervals of the singular values of a matrix, the largest first.

    Args:
        matrix: (rows, columns), the estimate.
        drawn: (draws, rows, columns) of the estimate and its error.
        confidence: of all intervals together.
    """
    values = np.linalg.svd(matrix, compute_uv=False)
    low, high = smooth_intervals(values, np.linalg.svd(drawn, compute_uv=False), confidence)
    radius = float(np.quantile(np.linalg.norm(drawn - matrix, 2, axis=(1, 2)), confidence))
    gaps = -np.diff(values, append=0.0)
    apart = np.minimum(gaps, np.append(np.inf, gaps[:-1])) > WEYL_GAP * radius
    low, high = np.where(apart, low, values - radius), np.where(apart, high, values + radius)
    return tuple(map(Interval, values.tolist(), np.maximum(low, 0.0).tolist(), high.tolist()))


def smooth_intervals(
    estimate: np.ndarray, drawn: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of functions (...) of the estimate, from their values at draws (draws, ...)."""
    mean = drawn.mean(0)
    width = _joint_reach(drawn - mean, confidence)
    bias = mean - estimate
    return estimate - np.maximum(bias, 0.0) - width, estimate - np.minimum(bias, 0.0) + width


def _joint_reach(moves: np.ndarray, confidence: float) -> np.ndarray:
    """(...) movement of each number, such that a fraction of the draws lies within all at once."""
    scale = np.sqrt((moves**2).mean(0))
    scale = np.where(scale > 0, scale, 1.0)
    largest = (np.abs(moves) / scale).reshape(len(moves), -1).max(1, initial=0.0)
    return np.asarray(float(np.quantile(largest, confidence)) * scale)


def _eigenvalues(a: np.ndarray, drawn: np.ndarray, confidence: float) -> tuple[Eigenvalue, ...]:
    """Eigenvalues of a (dim, dim) with intervals, the largest modulus first."""
    values = np.linalg.eigvals(a).astype(complex)
    values = values[np.lexsort((-values.imag, -np.abs(values).round(12)))]
    matched = np.stack([_matched(values, one) for one in np.linalg.eigvals(drawn)])
    radius = _joint_reach(np.abs(matched - values), confidence)
    distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
    alone = distances.min(1, initial=np.inf) > CLUSTER_GAP * radius
    alone &= alone[np.abs(values[:, None] - values.conj()).argmin(1)]  # conjugates stand apart together
    radius = np.where(alone, radius, CLUSTER_WIDENING * radius)
    near = ~alone & ~alone[:, None] & (distances <= 2 * radius[:, None])
    radius = np.maximum(radius, np.where(near, radius, 0.0).max(1, initial=0.0))
    parts, drawn_parts = (np.stack((x.real, x.imag, np.abs(x)), axis=-1) for x in (values, matched))
    low, high = smooth_intervals(parts, drawn_parts, confidence)
    smooth = alone[:, None] & ((parts > 2 * radius[:, None]) | (np.arange(3) < 2))
    low = np.where(smooth, low, parts - radius[:, None])
    high = np.where(smooth, high, parts + radius[:, None])
    fixed = alone & (values.imag == 0)  # a real eigenvalue that stands apart stays real
    low[fixed, 1] = high[fixed, 1] = 0.0
    low[:, 2] = np.maximum(low[:, 2], 0.0)
    intervals = (
        [Interval(*ends) for ends in part] for part in np.stack((parts, low, high), axis=-1).tolist()
    )
    return tuple(
        Eigenvalue(real, imag, modulus, bool(one))
        for (real, imag, modulus), one in zip(intervals, alone, strict=True)
    )


def _matched(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The order of other eigenvalues in which they are nearest to these, one by one."""
    return np.asarray(others[scipy.optimize.linear_sum_assignment(np.abs(values[:, None] - others))[1]])


def _responses(a: np.ndarray, b: np.ndarray, count: int) -> list[np.ndarray]:
    """B, AB, ..., A^(count-1) B."""
    responses = [b]
    for _ in range(count - 1):
        responses.append(a @ responses[-1])
    return responses


def _controllability(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[B, AB, ..., A^(n-1) B]."""
    return np.concatenate(_responses(a, b, a.shape[-1]), axis=-1)
