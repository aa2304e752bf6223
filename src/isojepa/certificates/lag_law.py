r"""Whether slow functions of an embedding are jointly Gaussian along their paths, or of degree 2 and more.

A function of degree 2 decays like a linear one of twice the rate, so no curve tells them apart. Their law
does. Let y, of variance 1, be a linear and a quadratic function of N independent Gaussian latents with the
share s_2 of its variance quadratic. Then its excess kurtosis is at least that of the quadratic part, which
is least if all N eigenvalues are equal:

    kurtosis(y)  >=  12 s_2^2 / N,

6 / P for a sum of P products of different latents. Three more numbers are 0 for a Gaussian process; a
kurtosis that was hidden, by forcing the values to be Gaussian, shows in them. With r the correlation a lag
apart, y and y' the two ends,

    squares   E (He_2(y') - r^2 He_2(y)) He_2(y)    2/3 (r - r^2) kurtosis for such a quadratic function,
    cubes     E (y' - r y) He_3(y)                  1/4 (r - r^3) of a kurtosis that was hidden,
    bends     E (y' - r y) He_2(y)                  1/3 (r - r^2) of a skewness that was hidden.

They are given as a kurtosis or skewness, by blocks of paths or of time. The first three are means over the
slow functions: if one is linear the rate is known, and if none is, each has such a kurtosis. Every function
must also pass by itself. Where all directions of the embedding are as slow, its own coordinates are looked
at: turned ones would add up the latents of several.

What this cannot tell: a quadratic function of very many latents is Gaussian. So there is a number of latents
up to which the data rule one out, and an answer holds on the condition that no function needs more.
"""

import math
from dataclasses import dataclass

import numpy as np

from isojepa.statistics.intervals import Interval, from_blocks

LATENTS = 64  # that must be ruled out; more for embeddings of many dimensions
_PER_DIMENSION = 4  # latents to be ruled out
_BLOCKS = 16  # of each half of the paths
_ALIKE = 0.1  # difference of correlations at the lag of decay among functions of one rate
_SURE = 0.999  # confidence of the tests of single functions, all together
_TRIFLE = 0.25  # of the largest kurtosis allowed: less is no sign of another law however sure it is
_SKEW = 0.1  # skewness that is a trifle
_CLEAR = 0.99  # confidence beyond which a mean is not put down to chance
_FEWEST, _NOTHING = 4, 1e6  # blocks that make an interval; reach of one that says nothing
_SMALLEST = 1e-6  # kurtosis of functions that never change
_NEAR = 0.75  # correlation at the lag across which the law is looked at


@dataclass(frozen=True)
class JointLaw:
    """The excess kurtosis of slow functions, by themselves and across a lag.

    Attributes:
        kurtosis: of the functions by themselves, mean over them; 0 for Gaussians.
        squares, cubes: the same from their squares and cubes a lag apart.
        largest: the largest kurtosis that the data leave to what is not noise: the upper end, on one side, of
            the first two. An estimate below 0, which no quadratic function has, counts as 0.
        differs: whether the functions are not jointly Gaussian, beyond chance and trifles.
        functions: how many slow functions were looked at.
        wanted: latents of which a quadratic function must be ruled out.
    """

    kurtosis: Interval
    squares: Interval
    cubes: Interval
    largest: float
    differs: bool
    functions: int
    wanted: int

    @property
    def latents(self) -> float:
        """Up to how many latents a quadratic function is ruled out."""
        return 12 / max(self.largest, _SMALLEST)

    @property
    def quadratic(self) -> float:
        """The largest quadratic share that functions of the wanted number of latents may have."""
        return min(1.0, math.sqrt(self.wanted / self.latents))

    @property
    def gaussian(self) -> bool:
        """Whether the data rule out every quadratic function of the wanted number of latents."""
        return not self.differs and self.latents > self.wanted

    @property
    def more(self) -> int:
        """How many times as much data would rule them out, if the functions are Gaussian."""
        return max(2, math.ceil((self.wanted / self.latents) ** 2))


def measure_law(h: np.ndarray, slow: np.ndarray, lags: np.ndarray, lag: int, confidence: float) -> JointLaw:
    """The joint law of the slowest directions of an embedding.

    Args:
        h: the embedding (steps, paths, dim), centered.
        slow: its directions (steps, paths, count), the slowest first; in each half of the paths they may be
            others.
        lags: of the curves.
        lag: of decay, at which directions of one rate are told.
        confidence: of the intervals.
    """
    dim = h.shape[2]
    after = _after(slow, lag)
    fast = np.flatnonzero(after < after[0] - _ALIKE)
    count = int(fast[0]) if len(fast) else slow.shape[2]
    slow = h if count == dim else slow[..., :count]
    near = min((int(one) for one in lags), key=lambda one: abs(_after(slow, one).mean() - _NEAR))
    half = slow.shape[1] // 2
    wanted = max(LATENTS, _PER_DIMENSION * dim)
    parts = [_Law(part, near) for part in (slow[:, :half], slow[:, half:])]

    def means(sure: float) -> list[Interval]:
        return [_joined([part.mean(which, sure) for part in parts]) for which in range(3)]

    kurtosis, squares, _ = means(2 * confidence - 1 if confidence > 0.5 else confidence)  # one side of it
    trifle = _TRIFLE * 12 / wanted
    differs = max(part.beyond(12 / wanted) for part in parts) > 0
    differs |= any(one.low > trifle or one.high < -trifle for one in means(_CLEAR))
    upper = max(one.high - min(one.estimate, 0.0) for one in (kurtosis, squares))
    largest = upper / _signal(slow, int(lags[0])) ** 2
    own = means(confidence)
    return JointLaw(own[0], own[1], own[2], largest, differs, count, wanted)


def _after(y: np.ndarray, lag: int) -> np.ndarray:
    """(count,): correlation of each function a lag apart."""
    found: np.ndarray = (y[:-lag] * y[lag:]).mean((0, 1)) / (y**2).mean((0, 1))
    return found


def _signal(y: np.ndarray, lag: int) -> float:
    """What the curve would start with if it were one exponential: r(k)^2 / r(2k), at most 1."""
    if len(y) <= 2 * lag:
        return 1.0
    once, twice = float(_after(y, lag).mean()), float(_after(y, 2 * lag).mean())
    return min(1.0, max(0.1, once**2 / twice)) if twice > 0 else 0.1


class _Law:
    """Kurtosis and its like of functions (steps, paths, count), by blocks."""

    def __init__(self, y: np.ndarray, lag: int) -> None:
        flat = y.reshape(-1, y.shape[2])
        flat = flat - flat.mean(0)
        values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
        # symmetric, so that the functions stay what they are as nearly as uncorrelated ones can
        white = (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T
        self.functions = y.shape[2]
        along = (flat @ white).reshape(y.shape)
        sums = np.stack([_sums(block, lag) for block in _blocks(along, lag)])  # (blocks, sums, k)
        self.whole = _numbers(sums.sum(0))  # (4, k)
        self.left_out = np.stack([_numbers(sums.sum(0) - one) for one in sums]) if len(sums) > 1 else None

    def mean(self, which: int, confidence: float) -> Interval:
        """Mean of a number over all functions."""
        own = None if self.left_out is None else self.left_out[:, which].mean(1)
        return _interval(float(self.whole[which].mean()), own, confidence)

    def beyond(self, limit: float) -> float:
        """The largest distance of a number of a single function from what is allowed, less its reach."""
        confidence = 1 - (1 - _SURE) / (2 * 4 * self.functions)
        found = []
        for which, allowed in enumerate((limit, limit, limit, _SKEW)):
            for one in range(self.functions):
                left_out = None if self.left_out is None else self.left_out[:, which, one]
                own = _interval(float(self.whole[which, one]), left_out, confidence)
                found.append(max(own.low, -own.high) - allowed)
        return max(found)


def _blocks(along: np.ndarray, lag: int) -> list[np.ndarray]:
    """Pieces of functions (steps, paths, k): groups of paths, or of few paths pieces of time."""
    steps, paths, _ = along.shape
    in_time = min(_BLOCKS, steps // (2 * lag))
    if paths >= _BLOCKS or paths >= in_time:
        return np.array_split(along, min(_BLOCKS, paths), axis=1)
    return np.array_split(along, in_time, axis=0)


def _interval(estimate: float, left_out: np.ndarray | None, confidence: float) -> Interval:
    """By blocks; of too few of them, one that says nothing."""
    if left_out is None or len(left_out) < _FEWEST:
        return Interval(estimate, estimate - _NOTHING, estimate + _NOTHING)
    return from_blocks(estimate, left_out, confidence)


def _sums(block: np.ndarray, lag: int) -> np.ndarray:
    """(13, k): sums of powers over all steps, and of products of powers over pairs, both ways in time."""
    square = block**2
    a, b, a2, b2 = block[:-lag], block[lag:], square[:-lag], square[lag:]
    ab = a * b
    single = [np.ones_like(block), block, square, square**2]
    pairs = [np.ones_like(a), a + b, a2 + b2, a2 * a + b2 * b, a2**2 + b2**2, ab, a2 * b2]
    pairs += [a2 * b + b2 * a, ab * (a2 + b2)]
    return np.stack([one.sum((0, 1)) for one in (*single, *pairs)])


def _numbers(sums: np.ndarray) -> np.ndarray:
    """(4, k): excess kurtosis by itself, from squares and from cubes a lag apart, and skewness from bends."""
    n, first, second, fourth = sums[:4]
    mean = first / n
    variance = second / n - mean**2
    kurtosis = fourth / n / variance**2 - 3
    pairs = sums[4]
    m1, m2, m3, m4 = (one / pairs / 2 for one in sums[5:9])
    ab, a2b2 = sums[9] / pairs, sums[10] / pairs
    a2b, a3b = (one / pairs / 2 for one in sums[11:13])
    # y is centered but for the mean of a block's neighbours, which is as small as its error
    unit = m2 - m1**2
    m3, m4, ab, a2b2 = m3 / unit**1.5, m4 / unit**2, ab / unit, a2b2 / unit**2
    a2b, a3b = a2b / unit**1.5, a3b / unit**2
    r = ab
    kept = np.clip(r, 0.05, 0.98)
    squares = (a2b2 - 1) - r**2 * (m4 - 1)
    cubes = (a3b - 3 * r) - r * (m4 - 3)
    bends = a2b - r * m3
    found: np.ndarray = np.stack(
        (
            kurtosis,
            1.5 * squares / (kept - kept**2),
            4 * cubes / (kept - kept**3),
            3 * bends / (kept - kept**2),
        )
    )
    return found


def _joined(parts: list[Interval]) -> Interval:
    """The mean of two independent estimates."""
    estimate = (parts[0].estimate + parts[1].estimate) / 2
    reach = math.hypot(*(one.high - one.estimate for one in parts)) / 2
    return Interval(estimate, estimate - reach, estimate + reach)
