"""Estimates with confidence intervals: standard errors, blocks of samples, Wilson, bootstrap.

    around         an estimate with its standard error
    from_samples   a mean of independent values: estimate +- z * standard error
    from_blocks    any statistic recomputed with one block of samples left out (the delete-a-block jackknife)
    r2_interval    1 - sum of squared residuals / sum of squares, by blocks
    jackknife      the same, with blocks of successive rows or of whole groups
    wilson         a rate of successes (Wilson 1927): inverts the score test, so it lies in [0, 1]
    bootstrap      a mean of independent values: percentiles of the means of resamples

A nonlinear statistic of means is turned into a mean by its influence values, so one formula serves R^2,
gaps and errors alike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.seeds import generator

RESAMPLES = 4000  # of the bootstrap
BLOCKS = 20  # of the jackknife, at most; those of 10 cover less


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


def r2_interval(
    residual: np.ndarray, spread: np.ndarray, block: np.ndarray, confidence: float
) -> tuple[Interval, np.ndarray]:
    """1 - sum e_i / sum s_i with its interval, and its values without each block.

    Args:
        residual, spread: (n,) squared residuals and squared deviations of the rows.
        block: (n,) number of the block of each row; blocks are left out in turn.
        confidence: of the interval.
    """
    errors, spreads = (np.bincount(block, values) for values in (residual, spread))
    left_out = 1 - (errors.sum() - errors) / (spreads.sum() - spreads)
    estimate = 1 - float(errors.sum() / spreads.sum())
    if len(left_out) < 2:
        return Interval(estimate, math.nan, math.nan), left_out
    return from_blocks(estimate, left_out, confidence), left_out


def jackknife(
    statistic: Callable[[np.ndarray], float], rows: int | np.ndarray, confidence: float
) -> Interval:
    """Interval of a statistic by leaving out each of at most 20 blocks.

    Args:
        statistic: of a mask (n,) of rows.
        rows: their number, for blocks of successive rows; or the group (n,) of each, for blocks of groups.
        confidence: e.g. 0.95.

    Returns:
        The interval; of no width where there are fewer than two blocks.

    Example:
        >>> x = np.arange(100.0)
        >>> print(jackknife(lambda mask: x[mask].mean(), 100, 0.95))
        49.5 [35.66, 63.34]
    """
    if isinstance(rows, int):
        block = np.arange(rows) * min(BLOCKS, rows // 2) // rows
    else:
        block = np.unique(rows, return_inverse=True)[1] % BLOCKS
    whole = statistic(np.ones(len(block), bool))
    left_out = np.array([statistic(block != one) for one in range(block.max() + 1)] if block.max() else [])
    return from_blocks(whole, left_out, confidence) if len(left_out) else Interval(whole, whole, whole)


def wilson(successes: int, trials: int, confidence: float) -> Interval:
    """Interval of a success rate by Wilson's score test.

    Example:
        >>> print(wilson(8, 10, 0.95))
        0.8 [0.4902, 0.9433]
    """
    rate, reach = successes / trials, reach_of(confidence)
    shrink = 1 + reach**2 / trials
    center = (rate + reach**2 / (2 * trials)) / shrink
    half = reach / shrink * math.sqrt(rate * (1 - rate) / trials + (reach / (2 * trials)) ** 2)
    # exact where no trial, or every one, succeeds; rounding would miss the end
    low = 0.0 if successes == 0 else center - half
    high = 1.0 if successes == trials else center + half
    return Interval(rate, low, high)


def bootstrap(values: np.ndarray, confidence: float) -> Interval:
    """Interval of the mean of values (n,) by percentiles over resamples, drawn from a fixed seed."""
    indices = torch.randint(
        len(values), (RESAMPLES, len(values)), generator=generator(0, "bootstrap")
    ).numpy()
    low, high = np.quantile(values[indices].mean(1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(values.mean()), float(low), float(high))
