"""What chance gives: scores of rows that are paired wrongly.

    permutations    rows of the second side in random order: exact where the rows of one side are exchangeable
    shifts          rows r .. n - r of the first side with rows s steps on of the second, |s| <= r

A score of the true pairing is compared with those of the plan. Of random pairings p = (1 + larger) / (1 +
draws). Of K shifts to each side m have a score as large as the true one, itself counted; p = m / (K + 1)
bounds the level for every autocorrelation, random walks included (Harris 2020, arXiv:2012.06862; Yuan &
Shou 2024). A score must
be computed inside the window alone: centering or whitening by all rows would break the bound.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.seeds import numpy_generator

MAX_SHIFTS = 99  # to each side; the smallest p is 1 in 100
MIN_SHIFTS = 9  # below, no p under 0.1 exists
_TIES = 1e-12  # relative difference up to which scores count as equal


@dataclass(frozen=True)
class Null:
    """Scores of wrong pairings.

    Attributes:
        mean, spread: mean and standard deviation of the score.
        p: one-sided probability of a score at least as good as the true one.
        how: where the three come from.
    """

    mean: float
    spread: float
    p: float
    how: str


@dataclass(frozen=True)
class PairingPlan:
    """Pairings of n rows: the true one, then wrong ones.

    Attributes:
        rows: (w,) of the first side, the same for all pairings.
        steps: shifts of the second side, the first 0; None for random pairings.
        draws: number of wrong pairings.
        seed: of the random pairings.
    """

    rows: np.ndarray
    steps: np.ndarray | None
    draws: int
    seed: int = 0

    @classmethod
    def permutations(cls, n: int, draws: int, seed: int) -> "PairingPlan":
        """Random pairings of n rows."""
        return cls(np.arange(n), None, draws, seed)

    @classmethod
    def shifts(cls, n: int, most: int = MAX_SHIFTS) -> "PairingPlan | None":
        """Shifts by up to a quarter of n rows; None if there are too few rows."""
        count = min(most, n // 4)
        if count < MIN_SHIFTS:
            return None
        step = n // (4 * count)
        reach = count * step
        away = np.arange(1, count + 1) * step
        return cls(np.arange(reach, n - reach), np.concatenate(([0], away, -away)), 2 * count)

    @property
    def name(self) -> str:
        """The plan in words."""
        if self.steps is None:
            return f"{self.draws} random pairings of {len(self.rows)} rows"
        return f"{self.draws} shifts of {len(self.rows)} rows"

    def partners(self) -> Iterator[np.ndarray]:
        """Rows (w,) of the second side of each pairing, the true one first."""
        if self.steps is not None:
            for step in self.steps:
                yield self.rows + step
            return
        yield self.rows
        rng = numpy_generator(self.seed, "pairings")
        for _ in range(self.draws):
            yield rng.permutation(self.rows)

    def p_value(self, scores: np.ndarray, higher_is_better: bool = True) -> float:
        """p of the first of scores (1 + draws,), without a model of their distribution."""
        sign = 1.0 if higher_is_better else -1.0
        true = sign * scores[0]
        larger = int((sign * scores[1:] >= true - _TIES * max(1.0, abs(true))).sum())
        if self.steps is None:
            return (1 + larger) / (1 + self.draws)
        return min(1.0, (1 + larger) / (1 + self.draws // 2))

    def null(self, scores: np.ndarray, higher_is_better: bool = True) -> Null:
        """Chance from the scores (1 + draws,) of all pairings.

        Where no random pairing is as good, the tail of Student's distribution around them is taken if it is
        smaller: an approximation, but only below 1 / (1 + draws). Of shifts, which depend on each other, p is
        the bound itself.
        """
        wrong = scores[1:]
        mean, spread = float(wrong.mean()), float(wrong.std(ddof=1))
        p = self.p_value(scores, higher_is_better)
        if self.steps is None and p == 1 / (1 + self.draws) and spread > 0:
            t = (scores[0] - mean) * (1 if higher_is_better else -1)
            t /= spread * math.sqrt(1 + 1 / len(wrong))
            p = min(p, float(scipy.special.stdtr(len(wrong) - 1, -t)))
        return Null(mean, spread, p, self.name)


def tame(rows: np.ndarray) -> np.ndarray:
    """Rows (n, p) whitened robustly, with far ones shrunk until they vanish: an outlier cannot make a
    relation.

    Centered by medians, scaled by median absolute deviations and whitened by two passes of Tyler's
    estimator; a row of length r above c = 2.5 median lengths is shrunk to c^2 / r.
    """
    x = rows - np.median(rows, 0)
    scale = np.median(np.abs(x), 0)
    x = x / np.where(scale > 0, scale, np.where(x.std(0) > 0, x.std(0), 1.0))
    n, p = x.shape
    width = min(p, max(2, n // 10), 64)
    if width < p:
        weights = 1 / np.maximum((x**2).sum(1), 1e-12)
        x = x @ scipy.linalg.eigh((x * weights[:, None]).T @ x)[1][:, -width:]
    for _ in range(2):
        weights = 1 / np.maximum((x**2).mean(1), 1e-12)
        shape = (x * weights[:, None]).T @ x
        shape = shape / np.trace(shape) * width + 1e-6 * np.eye(width)
        x = scipy.linalg.solve_triangular(np.linalg.cholesky(shape), x.T, lower=True).T
    lengths = np.linalg.norm(x, axis=1)
    far = 2.5 * float(np.median(lengths))
    shrunk: np.ndarray = x * np.minimum(1.0, far / np.maximum(lengths, 1e-12))[:, None] ** 2
    return shrunk
