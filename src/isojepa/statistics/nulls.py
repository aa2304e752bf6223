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
_RELATION_DRAWS = 199  # random pairings of a relation test
_ROWS_PER_DIRECTION, _MAX_DIRECTIONS = 10, 64  # of the principal directions that Pillai's trace compares
_WAVES, _WAVE_ROWS = 32, 1000  # cosines of a nonlinear relation, and rows that they are compared on
_WAVE_PHASE = 1.5  # standard deviation of their arguments


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
    """Rows (n, p) whitened robustly in at most 64 directions, with far ones shrunk until they vanish.

    An outlier cannot make a relation of them. Centered by medians, scaled by median absolute deviations and
    whitened by two passes of Tyler's estimator; a row of length r above c = 2.5 median lengths is shrunk to
    c^2 / r.
    """
    white = _whitened_robustly(rows)
    return np.asarray(white * _shrinkage(white))


def shrink_far(rows: np.ndarray) -> np.ndarray:
    """Rows (n, p) about their medians, far ones shrunk as by `tame`, in their own coordinates."""
    return np.asarray((rows - np.median(rows, 0)) * _shrinkage(_whitened_robustly(rows)))


def _whitened_robustly(rows: np.ndarray) -> np.ndarray:
    x = rows - np.median(rows, 0)
    scale = np.median(np.abs(x), 0)
    x = x / np.where(scale > 0, scale, np.where(x.std(0) > 0, x.std(0), 1.0))
    n, p = x.shape
    width = min(p, max(2, n // _ROWS_PER_DIRECTION), _MAX_DIRECTIONS)
    if width < p:
        weights = 1 / np.maximum((x**2).sum(1), 1e-12)
        x = x @ scipy.linalg.eigh((x * weights[:, None]).T @ x)[1][:, -width:]
    for _ in range(2):
        weights = 1 / np.maximum((x**2).mean(1), 1e-12)
        shape = (x * weights[:, None]).T @ x
        shape = shape / np.trace(shape) * width + 1e-6 * np.eye(width)
        x = scipy.linalg.solve_triangular(np.linalg.cholesky(shape), x.T, lower=True).T
    return np.asarray(x)


def _shrinkage(white: np.ndarray) -> np.ndarray:
    """(n, 1) factors of rows: 1 up to 2.5 median lengths."""
    lengths = np.linalg.norm(white, axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, 2.5 * float(np.median(lengths)) / np.maximum(lengths, 1e-12)) ** 2)


def relation_test(x: np.ndarray, y: np.ndarray, memory: int, seed: int = 0) -> float:
    """p that rows (n, p), (n, q) go together as well by chance, linearly or not.

    Two statistics share the level: Pillai's trace, the sum of squared canonical correlations of the largest
    principal directions, and Pillai's trace of fixed random cosines, which sees relations without a linear
    part. Both are of tamed rows, and are computed inside the window of the plan alone.

    Args:
        x, y: rows, in the order of time where there is one.
        memory: rows of which one is nearly independent; 1 allows random pairings, else rows are shifted.
        seed: draws pairings and cosines.

    Example:
        >>> walk = lambda seed: np.random.default_rng(seed).normal(size=(400, 2)).cumsum(0)
        >>> relation_test(walk(0), walk(0), 50) < 0.04, relation_test(walk(0), walk(2), 50) > 0.1
        (True, True)
        >>> z = np.random.default_rng(0).normal(size=(400, 2))
        >>> relation_test(z, z**2, 1) < 0.02
        True
    """
    p = 1.0
    for waves in (False, True):
        thin = -(-len(x) // _WAVE_ROWS) if waves else 1
        one, two = tame(x[::thin]), tame(y[::thin])
        n = len(one)
        plan = PairingPlan.permutations(n, _RELATION_DRAWS, seed) if memory == 1 else PairingPlan.shifts(n)
        if plan is None:
            continue
        rngs = [numpy_generator(seed, "relation", name) for name in ("first", "second")]
        turns = [
            (rng.normal(size=(side.shape[1], _WAVES)), rng.uniform(0, 2 * np.pi, _WAVES))
            for rng, side in zip(rngs, (one, two), strict=True)
        ]

        def basis(rows: np.ndarray, turn: tuple[np.ndarray, np.ndarray], waves: bool = waves) -> np.ndarray:
            white = _orthonormal(rows)
            if not waves:
                return white
            scale = _WAVE_PHASE * math.sqrt(len(rows) / white.shape[1])
            return _orthonormal(np.cos(scale * white @ turn[0][: white.shape[1]] + turn[1]))

        window = basis(one[plan.rows], turns[0])
        whole = basis(two, turns[1]) if plan.steps is None else None
        scores = [
            float(((window.T @ (basis(two[rows], turns[1]) if whole is None else whole[rows])) ** 2).sum())
            for rows in plan.partners()
        ]
        p = min(p, 2 * plan.p_value(np.array(scores)))
    return p


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns (n, k) that span the largest principal directions of centered rows (n, p)."""
    centered = rows - rows.mean(0)
    values, vectors = scipy.linalg.eigh(centered.T @ centered)
    count = min(max(2, len(rows) // _ROWS_PER_DIRECTION), _MAX_DIRECTIONS, len(values))
    values, vectors = values[-count:], vectors[:, -count:]
    varied = values > 1e-12 * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray(centered @ (vectors[:, varied] / np.sqrt(values[varied])))
