"""Directions of a sample from the slowest to the fastest."""

import numpy as np
import scipy

_SHARE = 4  # samples per direction that is whitened
_EMPTY = 1e-10  # variance over the largest below which a direction is rounding


def slow_to_fast(z: np.ndarray, z_next: np.ndarray) -> tuple[np.ndarray, bool]:
    """Directions (dim, k) of covariance I, from the largest lagged correlation to the smallest.

    Returns:
        The directions, and whether they are all that vary.
    """
    n, dim = z.shape
    first, second = z - z.mean(0), z_next - z_next.mean(0)
    covariance = (first.T @ first + second.T @ second) / (2 * n)
    lagged = first.T @ second / n
    values, vectors = scipy.linalg.eigh(covariance)
    usable = int((values > _EMPTY * values[-1]).sum())
    kept = min(usable, max(1, n // _SHARE))
    whitening = vectors[:, dim - kept :] / np.sqrt(values[dim - kept :])
    turned = whitening.T @ (lagged + lagged.T) @ whitening / 2
    return whitening @ scipy.linalg.eigh(turned)[1][:, ::-1], kept == usable
