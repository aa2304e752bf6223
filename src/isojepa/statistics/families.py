"""Several tests, one verdict: the level that they keep together.

holm     p-values of different tests; no assumption on how they depend (Holm 1979)
joint_p  several statistics under one null: the largest of the standardized ones (Westfall & Young 1993)
"""

from collections.abc import Sequence

import numpy as np

_TIES = 1e-12  # difference up to which scores count as equal


def holm(ps: Sequence[float], level: float) -> np.ndarray:
    """Which of several tests reject, (tests,), with a family-wise error of at most `level`.

    Example:
        >>> holm([0.005, 0.02, 0.4], 0.05).tolist()
        [True, True, False]
    """
    order = np.argsort(np.asarray(ps, float), kind="stable")
    passed = np.asarray(ps, float)[order] * np.arange(len(order), 0, -1) <= level
    rejected = np.zeros(len(order), bool)
    rejected[order] = np.logical_and.accumulate(passed)
    return rejected


def permutation_p(score: float, null: np.ndarray) -> float:
    """p of a score among those of null draws (draws,), itself counted."""
    return (1 + int((null >= score - _TIES * max(1.0, abs(score))).sum())) / (1 + len(null))


def joint_p(scores: np.ndarray, null: np.ndarray) -> tuple[float, int]:
    """p of several scores (k,) with null draws (draws, k), and the one that stands out most."""
    center, spread = null.mean(0), np.maximum(null.std(0), 1e-300)
    standardized = (scores - center) / spread
    return permutation_p(float(standardized.max()), ((null - center) / spread).max(1)), int(
        standardized.argmax()
    )
