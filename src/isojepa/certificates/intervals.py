"""Estimates with confidence intervals, by standard errors or by leaving out blocks of samples.

    around         an estimate with its standard error
    from_samples   a mean of independent values: estimate +- z * standard error
    from_blocks    any statistic recomputed with one block of samples left out (the delete-a-block jackknife)

A nonlinear statistic of means is turned into a mean by its influence values, so one formula serves R^2,
gaps and errors alike.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def scaled(self, factor: float) -> "Interval":
        """The interval of a positive multiple."""
        return Interval(self.estimate * factor, self.low * factor, self.high * factor)


def reach_of(confidence: float) -> float:
    """Standard errors on each side of a normal estimate."""
    return float(scipy.special.ndtri(0.5 + confidence / 2))


def around(estimate: float, error: float, confidence: float) -> Interval:
    """Interval of a normal estimate with a standard error."""
    reach = reach_of(confidence) * error
    return Interval(estimate, estimate - reach, estimate + reach)


def from_samples(values: np.ndarray, confidence: float, estimate: float | None = None) -> Interval:
    """Interval of a mean.

    Args:
        values: (n,) independent values, or influence values of a statistic.
        confidence: e.g. 0.95.
        estimate: the statistic when `values` are influences; by default their mean.
    """
    middle = float(values.mean()) if estimate is None else float(estimate)
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return around(middle, error, confidence)


def from_blocks(estimate: float, left_out: np.ndarray, confidence: float) -> Interval:
    """Interval from the statistic recomputed without each of K equal blocks (Student's t, K - 1)."""
    blocks = len(left_out)
    deviations = left_out - left_out.mean()
    largest = float(np.abs(deviations).max())
    size = largest if 0 < largest < math.inf else 1.0  # squares of huge numbers would overflow
    error = size * math.sqrt((blocks - 1) / blocks * ((deviations / size) ** 2).sum())
    reach = float(scipy.special.stdtrit(blocks - 1, 0.5 + confidence / 2) * error)
    return Interval(float(estimate), float(estimate) - reach, float(estimate) + reach)
