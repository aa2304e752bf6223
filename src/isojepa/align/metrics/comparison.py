"""What every comparison of two embeddings answers: a value, its interval, and what chance gives.

Chance is what the same rows give when they are paired at random: row i of one embedding with row pi(i) of the
other. Width and sample size inflate most scores, so that a value alone says little; the calibrated value is

    calibrated = (value - chance) / (best - chance),

0 at chance and 1 at the best possible value. It is never clipped: worse than chance is below 0.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from isojepa.certificates.intervals import Interval


@dataclass(frozen=True)
class Null:
    """What random re-pairing of the rows gives.

    Attributes:
        mean, spread: mean and standard deviation of the score.
        p: probability of a score at least as good as the one that was found.
        how: where the three come from.
    """

    mean: float
    spread: float
    p: float
    how: str


@dataclass(frozen=True)
class Comparison:
    """One score of two embeddings.

    Attributes:
        name: of the score.
        value: what was found.
        interval: of the value; each function says what it covers.
        chance: mean of the score when rows are re-paired at random; None if no null was asked for.
        chance_spread: its standard deviation.
        p: one-sided probability that re-paired rows score at least as well.
        calibrated: 0 at chance, 1 at the best possible value.
        best: the best possible value.
        higher_is_better: whether larger values mean more alike.
        rows: how many rows the value comes from.
        subsample: whether rows or pairs were left out to save time.
        null: how chance was obtained.
        note: anything else a reader must know; mostly empty.
    """

    name: str
    value: float
    interval: Interval
    chance: float | None
    chance_spread: float | None
    p: float | None
    calibrated: float | None
    best: float
    higher_is_better: bool
    rows: int
    subsample: bool
    null: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON; numbers that are not finite are None."""
        plain = dataclasses.asdict(self)
        plain["interval"] = [self.interval.low, self.interval.high]
        return {key: _finite(value) for key, value in plain.items()}

    def __str__(self) -> str:
        text = f"{self.name} {self.interval}"
        if self.chance is None or self.p is None or self.calibrated is None:
            return text
        return f"{text}, chance {self.chance:.4g}, p {self.p:.2g}, calibrated {self.calibrated:.4g}"


def compared(
    name: str,
    interval: Interval,
    null: Null | None,
    *,
    best: float,
    rows: int,
    subsample: bool = False,
    note: str = "",
) -> Comparison:
    """A comparison of its parts; a score whose best value is 0 is a distance, and lower is better."""
    calibrated = None
    if null is not None:
        room = best - null.mean
        calibrated = (interval.estimate - null.mean) / room if room else math.nan
    return Comparison(
        name=name,
        value=interval.estimate,
        interval=interval,
        chance=None if null is None else null.mean,
        chance_spread=None if null is None else null.spread,
        p=None if null is None else null.p,
        calibrated=calibrated,
        best=best,
        higher_is_better=best > 0,
        rows=rows,
        subsample=subsample,
        null="not asked for" if null is None else null.how,
        note=note,
    )


def mirrored(comparison: Comparison, name: str) -> Comparison:
    """The same as 1 - value, e.g. disagreement for overlap."""
    interval, chance = comparison.interval, comparison.chance
    return dataclasses.replace(
        comparison,
        name=name,
        value=1 - comparison.value,
        interval=Interval(1 - interval.estimate, 1 - interval.high, 1 - interval.low),
        chance=None if chance is None else 1 - chance,
        best=1 - comparison.best,
        higher_is_better=not comparison.higher_is_better,
    )


def pearson_tail(value: float, mean: float, spread: float, skewness: float = 0.0) -> float:
    """P(T >= value) for the law of Pearson's type III with these moments: normal, if there is no skewness.

    Example:
        >>> round(pearson_tail(1.96, 0.0, 1.0), 3), pearson_tail(3.0, 3.0, 0.0)
        (0.025, 1.0)
    """
    if not spread > 0:
        return 1.0 if value <= mean else 0.0
    z = (value - mean) / spread
    if abs(skewness) < 1e-3:
        return float(scipy.special.ndtr(-z))
    shape = 4 / skewness**2  # z = skewness / 2 (g - shape) with g of the gamma law
    place = max(0.0, shape + 2 * z / skewness)
    tail = scipy.special.gammaincc if skewness > 0 else scipy.special.gammainc
    return float(tail(shape, place))


def null_of_draws(value: float, draws: np.ndarray, higher_is_better: bool, how: str) -> Null:
    """Chance from the scores of re-paired rows.

    p is (1 + draws at least as good) / (1 + draws). Where none is as good, the tail of Student's law around
    the draws is taken if it is smaller: an approximation, but only below 1 / (1 + draws).

    Args:
        value: the score.
        draws: (m,) scores of re-paired rows, two at least.
        higher_is_better: which tail.
        how: what the draws are.
    """
    sign = 1.0 if higher_is_better else -1.0
    mean, spread = float(draws.mean()), float(draws.std(ddof=1))
    better = int((sign * draws >= sign * value).sum())
    p = (1 + better) / (1 + len(draws))
    if better == 0 and spread > 0:
        t = sign * (value - mean) / (spread * math.sqrt(1 + 1 / len(draws)))
        p = min(p, float(scipy.special.stdtr(len(draws) - 1, -t)))
    return Null(mean, spread, p, how)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
