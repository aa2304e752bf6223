"""Distance correlation from its definition, in O(n^2)."""

import numpy as np
from scipy.stats import rankdata


def distance_correlation_of_ranks(x: np.ndarray, y: np.ndarray) -> float:
    """Squared distance correlation (V-statistic) of the ranks of two samples (n,)."""
    a, b = (_centred(rankdata(v)) for v in (x, y))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def _centred(x: np.ndarray) -> np.ndarray:
    d = np.abs(x[:, None] - x)
    return d - d.mean(0) - d.mean(1)[:, None] + d.mean()
