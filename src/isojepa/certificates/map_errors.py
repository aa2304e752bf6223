r"""Errors of a fitted linear map on rows, block by block, and where the error of the best map lies.

A map that was fitted on one half of the rows does worse on the other half than the best map of all rows there
could be, and better on its own half. In many dimensions the two factors are 1 / (1 - g) and 1 - g, with g
unknowns per row, so the error of the best map is close to the geometric mean

    q = sqrt(q_own q_other),

on whose logarithm intervals are built, as jackknives over blocks of successive rows. The shares q = 1 - R^2
are ratios of means; what the jackknife says of their bias is taken off. Squared errors have long tails: rows
that are rare decide the mean, and a symmetric interval ends too early. With s the skewness of the estimate,
that of single rows over the square root of their number, the ends are those of Hall's transformation (Hall
1992, "On the removal of skewness by transformation"), which solves

    x + s x^2 / 3 + s^2 x^3 / 27 + s / 6 = +-t,

or the logarithm's, whichever is farther. The skewness of a sample of such rows is too small, so s is taken
half as large again, and for shares it is at least that of the squared residuals. Where even the variance of
what goes in, what comes out or what is left over is not known to a fifth, the rows that decide may all be
missing, and there are too few for an interval. `tests/certificates/coverage.py` counts how often they hold.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from isojepa.linear import LinearMap, r2_of
from isojepa.statistics.intervals import Interval, from_blocks

Quantity = Literal["r2", "error"]
_TINY = float(np.finfo(np.float64).tiny)
_STRETCH = 1.5  # the skewness of a sample is too small
_KNOWN = 0.2  # error of a variance, over the variance, from which rows are too few
_ROUNDING = 1e-9  # deviation of the rows' shares in the error that is none
_LOOKED = 4096  # rows of one piece whose tails are looked at, at least
_UNKNOWNS = 2  # rows per unknown of an output, below which a map is hardly determined


@dataclass(frozen=True)
class Fit:
    """A map and how it does on the rows it was fitted to.

    Attributes:
        linear: the map.
        n: those rows.
        residual, spread: (out,) means of the squared residuals, and of the squares about the mean.
        inputs: (in,) mean squares of the inputs about theirs.
    """

    linear: LinearMap
    n: int
    residual: np.ndarray
    spread: np.ndarray
    inputs: np.ndarray

    def share(self) -> np.ndarray:
        """(out,) residual over spread; 1 for an output that is constant."""
        flat = np.sqrt(self.spread) <= 1e-12 * np.abs(self.linear.offset)
        return _share(self.residual, np.where(flat, 0.0, self.spread))


class Scores:
    """Sums over rows, block by block, of the errors of a map."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        out = len(fit.spread)
        self._blocks: dict[int, list[np.ndarray]] = {}  # rows, residuals, sums and squares about the offset
        self._first: np.ndarray | None = None  # row
        self._reach = np.zeros(out)  # largest distance from it, and largest value
        self._size = np.zeros(out)
        self._tails = [np.zeros((2, width)) for width in (len(fit.inputs), out, out)]  # second, fourth powers
        self._powers = np.zeros((2, 3))  # of each row's share in the errors: first, second and third
        self._looked = 0  # rows whose powers were summed
        self._found: dict[Quantity, tuple[float, np.ndarray]] = {}
        share = fit.share()
        self._weights = share / max(float(share.sum()), _TINY)

    @property
    def n(self) -> int:
        """Rows."""
        return int(sum(block[0] for block in self._blocks.values()))

    @property
    def blocks(self) -> int:
        """Blocks that have rows."""
        return len(self._blocks)

    def add(self, x: np.ndarray, y: np.ndarray, block: int) -> None:
        """Add rows x (n, in) and y (n, out) of one block."""
        self._found.clear()
        linear = self._fit.linear
        squares = (y - linear(x)) ** 2
        about = y - linear.offset
        sums = [np.array(len(y)), squares.sum(0), about.sum(0), (about**2).sum(0)]
        found = self._blocks.get(block)
        self._blocks[block] = sums if found is None else [a + b for a, b in zip(found, sums, strict=True)]
        if self._first is None:
            self._first = about[0]
        self._reach = np.maximum(self._reach, np.abs(about - self._first).max(0))
        self._size = np.maximum(self._size, np.abs(y).max(0))
        some = slice(None, None, max(1, len(x) // _LOOKED))
        self._looked += len(x[some])
        self._look_at_tails(x[some] - linear.center, about[some], squares[some])

    def _look_at_tails(self, x: np.ndarray, about: np.ndarray, squares: np.ndarray) -> None:
        """Powers of everything, over what it is on the rows of the fit: no number is too large."""
        fit = self._fit
        inside = _over(x**2, fit.inputs)
        # a fit without an error has errors on other rows that are any multiple of it
        residual = np.maximum(fit.residual, _ROUNDING**2 * fit.spread)
        outside, left = _over(about**2, fit.spread), _over(squares, residual)
        for sums, part in zip(self._tails, (inside, outside, left), strict=True):
            sums += part.sum(0), (part**2).sum(0)
        total = float(residual.sum())
        total = total if total > _TINY else math.inf
        for sums, row in zip(
            self._powers, ((left - outside) @ self._weights, squares.sum(1) / total - 1), strict=True
        ):
            square = row**2
            sums += row.sum(), square.sum(), (square * row).sum()  # NumPy's third power is slow

    def _totals(self) -> tuple[np.ndarray, ...]:
        n, residual, first, second = (np.stack(part) for part in zip(*self._blocks.values(), strict=True))
        return n[:, None].astype(float), residual, first, second

    def _spread(self, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        flat = self._reach <= 1e-12 * self._size  # what rounding leaves of a constant is no spread
        return np.where(flat, 0.0, second - first**2 / n)

    def per_output(self) -> np.ndarray:
        """(out,) R^2 of each output."""
        n, residual, first, second = (part.sum(0) for part in self._totals())
        return r2_of(residual, self._spread(n, first, second))

    def value(self, of: Quantity) -> float:
        """The mean of 1 - R^2 over outputs, or the mean squared distance."""
        return self._summary(of)[0]

    def left_out(self, of: Quantity) -> np.ndarray:
        """(blocks,) the value without each block."""
        return self._summary(of)[1]

    def _summary(self, of: Quantity) -> tuple[float, np.ndarray]:
        """The value of all rows, and that without each block."""
        if of not in self._found:
            totals = self._totals()
            # one more row for all: nothing is left out there
            rests = (np.concatenate([part.sum(0) - part, part.sum(0)[None]]) for part in totals)
            n, residual, first, second = rests
            values = residual.sum(1) / n[:, 0]
            if of == "r2":
                values = _share(residual, self._spread(n, first, second)).mean(1)
            self._found[of] = float(values[-1]), values[:-1]
        return self._found[of]

    def powers(self, of: Quantity) -> np.ndarray:
        """(4,) number of rows looked at, and sums of the first three powers of their shares in the error."""
        return np.concatenate([[float(self._looked)], self._powers[0 if of == "r2" else 1]])

    @property
    def tails(self) -> list[np.ndarray]:
        """Sums (2, columns) of second and fourth powers of inputs, outputs and residuals."""
        return self._tails


@dataclass(frozen=True)
class Halves:
    """One map on the rows it was fitted to and on the others.

    Attributes:
        fit: the map.
        own: its own rows, block by block; None where they were too many to keep: their blocks are then taken
            to differ as those of the others do.
        other: the rows it has not seen.
    """

    fit: Fit
    own: Scores | None
    other: Scores

    def few(self, of: Quantity) -> bool:
        """Whether there are too few rows for an interval."""
        if self.fit.n < _UNKNOWNS * (len(self.fit.inputs) + 1):
            return True
        if self.fit.residual.sum() <= _ROUNDING**2 * self.fit.spread.sum():
            return False  # what is left over is rounding, whose tails say nothing
        looked = self._powers(of)[0]
        worst = 0.0
        for parts in zip(*(scores.tails for scores in self._scored), strict=True):
            second, fourth = np.sum(parts, axis=0)
            kurtosis = looked * fourth / np.where(second > 0, second, 1.0) ** 2
            worst = max(worst, float(np.sqrt(np.maximum(kurtosis - 1, 0.0)).mean()))
        return worst * math.sqrt(self._memory(of) / self._n) > _KNOWN

    def center(self, of: Quantity) -> float:
        """The error of the best map: 1 - R^2, or the squared distance."""
        own, other = self._values(of)
        if min(own, other) <= 0:
            return max(own, other)
        return math.sqrt(own) * math.sqrt(other) * math.exp(-self._bias(of))

    def interval(self, of: Quantity, confidence: float) -> Interval:
        """Of 1 - R^2, or of the squared distance, with the value on other rows as its estimate."""
        other, center = self.other.value(of), self.center(of)
        if min(self._values(of)) <= 0:  # nothing is left over: there is nothing to be uncertain of
            return Interval(other, min(other, 0.0), max(center, other))
        error, freedom = self._error(of)
        t = float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2))
        low, high = skewed_ends(error, _STRETCH * self._skewness(of), t)
        low, high = min(max(low, 0.0), math.exp(-t * error)), max(high, math.exp(min(t * error, 700.0)))
        return Interval(other, min(center * low, other), max(center * high, other))

    def _values(self, of: Quantity) -> tuple[float, float]:
        own = float(self.fit.share().mean()) if of == "r2" else float(self.fit.residual.sum())
        return own, self.other.value(of)

    @property
    def _scored(self) -> list[Scores]:
        return [self.other] if self.own is None else [self.own, self.other]

    @property
    def _n(self) -> int:
        return self.fit.n + self.other.n

    def _bias(self, of: Quantity) -> float:
        """Of the logarithm of the geometric mean, by the jackknife."""
        bias = np.mean([_jackknife(scores, of)[1] for scores in self._scored])
        return float(np.clip(bias, -0.5, 0.5))  # blocks that differ wildly say little of a bias

    def _error(self, of: Quantity) -> tuple[float, float]:
        """Standard error of the logarithm, and its degrees of freedom."""
        variances = [_jackknife(scores, of)[0] for scores in self._scored]
        freedom = float(self.other.blocks - 1)
        if len(variances) > 1 and max(variances) > 0:
            shares = np.array(variances) / max(variances)
            freedom *= float(shares.sum() ** 2 / (shares**2).sum())
        return max(math.sqrt(float(np.mean(variances)) / 2), self._alone(of)), freedom

    def _powers(self, of: Quantity) -> np.ndarray:
        total: np.ndarray = np.sum([scores.powers(of) for scores in self._scored], axis=0)
        return total

    def _rows(self, of: Quantity) -> tuple[float, float]:
        """Variance and third moment of the rows' shares in the error."""
        looked, *sums = self._powers(of)
        first, second, third = np.array(sums) / max(looked, 1.0)
        return float(second - first**2), float(third - 3 * first * second + 2 * first**3)

    def _alone(self, of: Quantity) -> float:
        """Standard error if rows were independent."""
        return math.sqrt(max(self._rows(of)[0], 0.0) / self._n)

    def _memory(self, of: Quantity) -> float:
        """Rows that count as one, by their blocks."""
        alone = self._alone(of)
        return 1.0 if alone <= _ROUNDING else max(1.0, (self._error(of)[0] / alone) ** 2)

    def _skewness(self, of: Quantity) -> float:
        """Of the estimate, or of the mean squared residual where that is more skewed: its tail is longer."""
        found = [0.0]
        for one in (of, "error"):
            variance, third = self._rows(one)
            if variance > _ROUNDING**2:
                found.append(third / variance**1.5)
        return max(found) * math.sqrt(self._memory(of) / self._n)


def skewed_ends(error: float, skewness: float, t: float) -> tuple[float, float]:
    """Ends of an interval around 1, for an estimate with a standard error and a skewness of 0 or more.

    The transformation bends back where skewness is large, so the upper end is the farthest up to there.
    """
    grid = skewness * np.linspace(1e-3, 1, 64) + 1e-6

    def inverse(x: float) -> np.ndarray:
        solved: np.ndarray = 3 / grid * (np.cbrt(1 + grid * (x - grid / 6)) - 1)
        return solved

    return float(1 - inverse(t)[-1] * error), float(1 - inverse(-t).min() * error)


def _jackknife(scores: Scores, of: Quantity) -> tuple[float, float]:
    """Variance and bias of a value, over the value, from leaving out each block."""
    value, left_out = scores.value(of), scores.left_out(of)
    blocks = len(left_out)
    if blocks < 2 or value <= 0:
        return 0.0, 0.0
    relative = left_out / value
    variance = (blocks - 1) / blocks * float(((relative - relative.mean()) ** 2).sum())
    return variance, (blocks - 1) * (float(relative.mean()) - 1)


def gap_of(linear: Halves, turned: Halves, confidence: float) -> Interval:
    """What the best linear map gains in R^2 over the best rotation."""
    estimate = turned.other.value("r2") - linear.other.value("r2")
    center = turned.center("r2") - linear.center("r2")
    pairs = [(linear.other, turned.other)]
    if linear.own is not None and turned.own is not None:
        pairs.append((linear.own, turned.own))
    reaches = []
    for one, two in pairs:
        around_0 = from_blocks(0.0, two.left_out("r2") - one.left_out("r2"), confidence)
        reaches.append(around_0.high)
    size = max(*reaches, _TINY)  # squares of huge numbers would overflow
    reach = size * math.sqrt(float(np.mean((np.array(reaches) / size) ** 2)) / 2)
    return Interval(estimate, min(center - reach, estimate), max(center + reach, estimate))


def _share(residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """1 - R^2 of each output, as exact as it can be; 1 where there is no spread."""
    flat = spread <= _TINY
    share: np.ndarray = np.where(flat, 1.0, residual / np.where(flat, 1.0, spread))
    return share


def _over(squares: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Squares over their means on other rows; 0 where those are nothing."""
    small = means <= _TINY
    ratio: np.ndarray = np.where(small, 0.0, squares / np.where(small, 1.0, means))
    return ratio
