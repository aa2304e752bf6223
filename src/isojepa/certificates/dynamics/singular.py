r"""Intervals of singular values, of matrices and of controllability Gramians.

With an error E of the matrix C, drawn many times, sigma_i moves by u_i^T E v_i to first order, and never by
more than |E| in the spectral norm (Weyl). The first is narrow and right where sigma_i stands apart from its
neighbours and from 0 by more than the error; the second holds always and for all i at once. So a value that
stands apart by more than twice r, the quantile of |E|, has the interval of first order, widened by the bias
of second order where there is one; any other has sigma_i +- r, cut at 0, which no singular value passes.

All intervals of one matrix hold together at the stated confidence: what is made of draws is stretched until
the given share of draws lies within all of them at once.
"""

import numpy as np

from isojepa.statistics.intervals import Interval


def singular_intervals(matrix: np.ndarray, deviations: np.ndarray, confidence: float) -> tuple[Interval, ...]:
    """Intervals of the singular values of a matrix, largest first.

    Args:
        matrix: (rows, columns), the estimate.
        deviations: (draws, rows, columns), of its error.
        confidence: of all intervals together.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    moved = np.einsum("ri,krc,ic->ki", left, deviations, right)
    sizes = np.linalg.norm(deviations, 2, axis=(1, 2))
    biases = np.linalg.svd(matrix + deviations, compute_uv=False).mean(0) - values
    return separated_or_not(values, moved, sizes, biases, confidence)


def gramian_intervals(
    a: np.ndarray, b: np.ndarray, errors: tuple[np.ndarray, np.ndarray], horizon: int, confidence: float
) -> tuple[Interval, ...]:
    """Intervals of the eigenvalues of W = sum over k < horizon of A^k B B^T (A^T)^k, largest first.

    They are the squared singular values of C = [B, AB, A^2 B, ...]: intervals are made of those. C itself is
    never written out: |C* - C|^2 is the largest eigenvalue of W* - X - X^T + W, with X the cross Gramian.

    Args:
        a, b: (dim, dim) and (dim, actions), the estimates.
        errors: draws of theirs, (draws, dim, dim) and (draws, dim, actions).
        horizon: steps; 0 for no end, which needs a stable A.
        confidence: of all intervals together.
    """
    a_drawn, b_drawn = a + errors[0], b + errors[1]
    own = gramian(a, b, a, b, horizon)
    drawn = gramian(a_drawn, b_drawn, a_drawn, b_drawn, horizon)
    cross = gramian(a_drawn, b_drawn, a, b, horizon)
    values, vectors = np.linalg.eigh(own)
    roots, vectors = np.sqrt(np.maximum(values[::-1], 0.0)), vectors[:, ::-1]
    finite = np.isfinite(drawn).all((1, 2)) & np.isfinite(cross).all((1, 2))
    drawn, cross = np.where(finite[:, None, None], drawn, 0.0), np.where(finite[:, None, None], cross, 0.0)
    apart = drawn - cross - cross.transpose(0, 2, 1) + own
    sizes = np.where(finite, np.sqrt(np.maximum(np.linalg.eigvalsh(apart)[:, -1], 0.0)), np.inf)
    moved = np.einsum("ri,krs,si->ki", vectors, cross - own, vectors) / np.where(roots > 0, roots, 1.0)
    moved[~finite] = np.inf  # an unstable draw has no Gramian without end
    drawn_roots = np.sqrt(np.maximum(np.linalg.eigvalsh(drawn)[finite][:, ::-1], 0.0))
    biases = drawn_roots.mean(0) - roots if finite.any() else np.zeros_like(roots)
    found = separated_or_not(roots, moved, sizes, biases, confidence)
    return tuple(Interval(one.estimate**2, one.low**2, one.high**2) for one in found)


def gramian(a: np.ndarray, b: np.ndarray, a2: np.ndarray, b2: np.ndarray, horizon: int) -> np.ndarray:
    """Sum over k < horizon of A^k B B2^T (A2^T)^k, (..., dim, dim); by doubling where there is no end."""
    total = b @ np.swapaxes(b2, -1, -2)
    other = np.swapaxes(a2, -1, -2)
    with np.errstate(over="ignore", invalid="ignore"):
        if horizon:
            term = total
            for _ in range(horizon - 1):
                term = a @ term @ other
                total = total + term
            return np.asarray(total)
        for _ in range(16):  # 65,536 steps
            total = total + a @ total @ other
            a, other = a @ a, other @ other
        return np.asarray(np.where(np.isfinite(total) & (np.abs(total) < 1e100), total, np.inf))


def separated_or_not(
    values: np.ndarray, moved: np.ndarray, sizes: np.ndarray, biases: np.ndarray, confidence: float
) -> tuple[Interval, ...]:
    """The intervals of the module's docstring.

    Args:
        values: (k,) the singular values, largest first.
        moved: (draws, k) their changes to first order.
        sizes: (draws,) spectral norms of the errors.
        biases: (k,) how much the mean over draws lies above each.
        confidence: of all intervals together.
    """
    radius = float(np.quantile(sizes, confidence))
    reach = joint_reach(moved, confidence)
    around = np.concatenate(([np.inf], values, [0.0]))
    gaps = np.minimum(around[:-2] - values, values - around[2:])
    found = []
    for value, gap, width, bias in zip(values, gaps, reach, biases, strict=True):
        if gap > 2 * radius:
            low, high = value - max(bias, 0.0) - width, value - min(bias, 0.0) + width
        else:
            low, high = value - radius, value + radius
        found.append(Interval(float(value), float(max(low, 0.0)), float(high)))
    return tuple(found)


def joint_reach(moved: np.ndarray, confidence: float) -> np.ndarray:
    """(...) how far each number moves, so that a share of the draws (draws, ...) lies within all at once."""
    sizes = np.abs(moved).reshape(len(moved), -1)
    finite = np.where(np.isfinite(sizes), sizes, 0.0)
    scale = np.sqrt((finite**2).mean(0))
    scale = np.where(scale > 0, scale, 1.0)
    stretch = np.quantile((sizes / scale).max(1, initial=0.0), confidence)
    return np.asarray((stretch * scale).reshape(moved.shape[1:]))
