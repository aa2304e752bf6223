r"""How linear a transition is in (s, a): what a flexible regressor predicts beyond the linear one, held out.

Groups of rows are halved. On one half y = h' is fitted linearly in x = (s, a), and what is left by a ridge on
features from which the linear part is taken: squares and products of the whitened inputs, and cosines of
random directions of them. On the other half

    gain = (E |y - linear|^2 - E |y - linear - flexible|^2) / tr Cov(y)

with the halves in both roles. It may fall below 0: the flexible one then fitted noise. The test asks whether
the flexible prediction f, with its linear part on the scored half taken out, goes along with the residual e:

    T = mean_g s_g / (deviation_g s_g / sqrt(groups)),   s_g = sum over the rows of group g of e . f

Under a linear transition, whatever the law of its noise, E[e . f] = 0, so T of either half is about Student's
t of as many degrees as it has groups less one. The two halves nearly repeat each other (both multiply what
one half has along the features by what the other has), so their T are averaged, which makes the test
conservative if they do not. The p-value is one-sided and needs no tuning.

Features are smooth and see one row at a time. Two more products of residuals have mean 0 under a linear
transition with independent noise, and are tested in the same way:

    fast     e_i . e_j,     j the row of the other half whose state is nearest to that of i: functions too
             fast for the features, as far as rows are close
    memory   e_t . e_t-1,   successive steps of an episode: hidden variables such as a velocity, either sign
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.certificates.dynamics.regression import foretold
from isojepa.certificates.dynamics.steps import Steps
from isojepa.statistics.intervals import Interval, from_blocks

_COSINES = 96
_SQUARES = 12  # inputs at most for squares and products
_NEAR, _NEAR_WIDE, _NARROW = 100_000, 2_000, 8  # rows that neighbors are searched in, also in wide states
_PENALTIES = np.logspace(-4, 2, 13)  # of the ridge, against the mean variance of a feature


@dataclass(frozen=True)
class Linearity:
    """Held-out prediction of the next embedding.

    Attributes:
        r2: share of its variance that the linear map predicts.
        gain: what the flexible one predicts beyond.
        p: of the test that the transition is linear, by smooth features.
        features: of the flexible one.
        fast: share of the variance that residuals of nearest rows have in common.
        fast_p: of the test by these.
        memory: correlation of residuals of successive steps; None where no rows are successive.
        memory_p: of the test by these, two-sided.
    """

    r2: Interval
    gain: Interval
    p: float
    features: int
    fast: float
    fast_p: float
    memory: float | None
    memory_p: float | None

    @property
    def tests(self) -> int:
        """How many there are."""
        return 2 + (self.memory_p is not None)


def measure_linearity(
    steps: Steps, edges: np.ndarray, confidence: float, generator: torch.Generator
) -> Linearity:
    """Compare a linear and a flexible regressor on rows that they have not seen.

    Args:
        steps: the transitions.
        edges: of the groups of rows.
        confidence: of the intervals.
        generator: draws the directions of the features.
    """
    x, y = steps.inputs, steps.next
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    features = _Features(x.shape[1], len(x), generator)
    sums = np.zeros((len(edges) - 1, 4))  # of each group: spread, linear error, flexible error, score
    middle, left = y.mean(0), np.empty_like(y)
    for fold in (0, 1):
        scored = group % 2 == fold
        fit = _Fit(x[~scored], y[~scored], features)
        linear, flexible = fit.predict(x[scored])
        error = y[scored] - linear
        rest, along = (foretold(part, x[scored])[1] for part in (error, flexible))
        left[scored] = rest / np.sqrt(fit.noise)
        score = (rest * along / fit.noise).sum(1)
        parts = ((y[scored] - middle) ** 2, error**2, (error - flexible) ** 2, score[:, None])
        for column, part in enumerate(parts):
            np.add.at(sums[:, column], group[scored], part.sum(1))
    whole = sums.sum(0)
    without = whole - sums
    exact = whole[1] <= 1e-20 * whole[0]
    near = (left * left[_nearest(steps.state, group % 2)]).mean(1)
    after = _successive(steps)
    memory = (left[after] * left[after - 1]).mean(1)
    behind = np.bincount(group[after], memory, len(edges) - 1)
    p_behind = _p_value(behind[0::2], behind[1::2])
    return Linearity(
        from_blocks(1 - whole[1] / whole[0], 1 - without[:, 1] / without[:, 0], confidence),
        from_blocks(
            (whole[1] - whole[2]) / whole[0], (without[:, 1] - without[:, 2]) / without[:, 0], confidence
        ),
        1.0 if exact else _p_value(sums[0::2, 3], sums[1::2, 3]),
        features.count,
        float(near.mean() * whole[1] / whole[0]),
        1.0 if exact else _p_value(*(np.bincount(group, near)[half::2] for half in (0, 1))),
        float(memory.mean()) if len(after) else None,
        None if not len(after) else 1.0 if exact else 2 * min(p_behind, 1 - p_behind),
    )


def _nearest(state: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Of each row the one of the other half whose state is nearest, of those that are looked at."""
    z = (state - state.mean(0)) / state.std(0)
    most = _NEAR if z.shape[1] <= _NARROW else _NEAR_WIDE
    nearest = np.empty(len(z), int)
    for own in (0, 1):
        others = np.flatnonzero(half != own)
        others = others[:: max(1, len(others) // most)]
        nearest[half == own] = others[scipy.spatial.cKDTree(z[others]).query(z[half == own])[1]]
    return nearest


def _successive(steps: Steps) -> np.ndarray:
    """Rows that begin where the row before them ended."""
    same = steps.episode[1:] == steps.episode[:-1]
    return 1 + np.flatnonzero(same & (steps.state[1:, : steps.dim] == steps.next[:-1]).all(1))


def _p_value(*halves: np.ndarray) -> float:
    errors = [scores.std(ddof=1) / math.sqrt(len(scores)) for scores in halves]
    if not all(errors):
        return 1.0
    t = np.mean([scores.mean() / error for scores, error in zip(halves, errors, strict=True)])
    return float(scipy.special.stdtr(min(map(len, halves)) - 1, -t))


class _Features:
    """Squares, products and cosines of whitened inputs."""

    def __init__(self, inputs: int, rows: int, generator: torch.Generator) -> None:
        most = max(4, rows // 8)  # half of them are fitted on
        self._pairs = np.triu_indices(inputs) if inputs <= _SQUARES else (np.zeros(0, int), np.zeros(0, int))
        if len(self._pairs[0]) > most:
            self._pairs = (np.arange(inputs)[:most], np.arange(inputs)[:most])
        cosines = max(4, min(_COSINES, most - len(self._pairs[0])))
        drawn = torch.randn(inputs + 1, cosines, generator=generator, dtype=torch.float64).numpy()
        self._directions, self._phases = 1.5 * drawn[:-1] / math.sqrt(inputs), math.pi * drawn[-1]
        self.count = len(self._pairs[0]) + cosines

    def __call__(self, x: np.ndarray) -> np.ndarray:
        first, second = self._pairs
        # whitened inputs beyond 4 deviations would decide a fit of squares alone
        clipped = np.clip(x, -4, 4)
        waves = torch.from_numpy(x @ self._directions + self._phases).cos_().numpy()
        return np.concatenate((clipped[:, first] * clipped[:, second], waves), axis=1)


class _Fit:
    """A linear map, and a ridge of what it leaves on features without their linear part."""

    def __init__(self, x: np.ndarray, y: np.ndarray, features: _Features) -> None:
        self._features, self._centre = features, x.mean(0)
        values, vectors = np.linalg.eigh(np.cov(x, rowvar=False, bias=True))
        self._whitening = vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
        design = self._design(x)
        made = features(design[:, 1:])
        # the columns of the design are uncorrelated and of mean square 1: no system is to be solved
        self._linear, self._shared = design.T @ y / len(x), design.T @ made / len(x)
        left, made = y - design @ self._linear, made - design @ self._shared
        self.noise = left.var(0) + 1e-20 * y.var(0) + np.finfo(float).tiny
        self._weights = _ridge(made, left / np.sqrt(self.noise)) * np.sqrt(self.noise)

    def _design(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate((np.ones((len(x), 1)), (x - self._centre) @ self._whitening), axis=1)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the linear map predicts of rows, and what the flexible one adds."""
        design = self._design(x)
        made = self._features(design[:, 1:]) - design @ self._shared
        return design @ self._linear, made @ self._weights


def _ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ridge weights (in, out), the penalty by generalised cross-validation."""
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0.0)
    along = vectors.T @ (x.T @ y)
    mean, total = values.mean() + np.finfo(float).tiny, (y**2).sum()
    scores = []
    for penalty in _PENALTIES * mean:
        kept = values + penalty
        missed = total - (((values + 2 * penalty) / kept**2)[:, None] * along**2).sum()
        scores.append(missed / (1 - (values / kept).sum() / len(x)) ** 2)
    penalty = _PENALTIES[int(np.argmin(scores))] * mean
    return np.asarray(vectors @ (along / (values + penalty)[:, None]))
