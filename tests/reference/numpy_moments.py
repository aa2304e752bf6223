"""VICReg's terms and the whitening penalty, element by element in numpy, float64.

Bardes, Ponce & LeCun 2022, equations 1 (variance), 3 and 4 (covariance), 5 (invariance).
"""

import numpy as np


def covariance(z: np.ndarray) -> np.ndarray:
    """C(Z) = sum_i (z_i - mean)(z_i - mean)^T / (n - 1), by the definition."""
    n, dim = z.shape
    mean = z.sum(0) / n
    out = np.zeros((dim, dim))
    for row in z:
        out += np.outer(row - mean, row - mean)
    return out / (n - 1)


def vicreg_variance(z: np.ndarray, eps: float) -> float:
    """v(Z): the mean over dimensions of max(0, 1 - sqrt(Var + eps))."""
    return float(np.mean([max(0.0, 1 - np.sqrt(column.var(ddof=1) + eps)) for column in z.T]))


def vicreg_covariance(z: np.ndarray) -> float:
    """c(Z): the sum of squared off-diagonal covariances over dim."""
    matrix = covariance(z)
    dim = len(matrix)
    return sum(matrix[i, j] ** 2 for i in range(dim) for j in range(dim) if i != j) / dim


def vicreg_invariance(z: np.ndarray, z_next: np.ndarray) -> float:
    """s(Z, Z'): the mean over the batch of |z - z'|^2."""
    return sum(float((a - b) @ (a - b)) for a, b in zip(z, z_next, strict=True)) / len(z)


def whitening(z: np.ndarray) -> float:
    """(|mean|^2 + |Cov - I|_F^2) / dim."""
    dim = z.shape[1]
    return float((z.mean(0) ** 2).sum() + ((np.cov(z.T).reshape(dim, dim) - np.eye(dim)) ** 2).sum()) / dim
