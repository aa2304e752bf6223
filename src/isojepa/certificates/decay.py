r"""The linear share of an embedding without latents, from the decay of its autocorrelation along paths.

A component of degree d of a function of Gaussian latents whose correlation decays as e^{-K k} decays as
e^{-K d k} (Mehler). The curve of an embedding h along trajectories is therefore

    r(k) = sum_t <h_t, h_{t+k}> / sum_t (|h_t|^2 + |h_{t+k}|^2) / 2
         = sum over d >= 1 of s_d e^{-K d k} + s_noise [k = 0],        s >= 0, sum s = 1,

and s_1 is the linear share. For a given rate K the shares are non-negative least squares in the metric of
Bartlett's covariance, so only K is searched (variable projection).

The rate. K/2 with even degrees alone fits as well as K, so no curve fixes the rate. The joint distribution of
the slowest functions does. Let y, of variance 1, be a linear and a quadratic function of N latents with the
share s_2 quadratic; its excess kurtosis is at least 12 s_2^2 / N. With r the correlation of y and y', one lag
apart, three more means vanish for a Gaussian process and show a kurtosis or skewness that is hidden in the
marginal distribution:

    squares   E He_2(y) He_2(y') - r^2 E He_2(y)^2 = 2/3 (r - r^2) kurtosis of such a quadratic function
    cubes     E He_3(y) (y' - r y)                 = 1/4 (r - r^3) kurtosis that is hidden
    bends     E He_2(y) (y' - r y)                 = 1/3 (r - r^2) skewness that is hidden

So quadratic functions of up to N = 12 / (largest kurtosis left possible) latents are ruled out. An answer
without the rate has this condition: sums of more terms of degree 2 are Gaussian and cannot be distinguished.

The marginals. The linear part of y is Gaussian, and no Gaussian correlates more with y than its normal
scores do, so s_1 <= W(y) = corr(y, normal scores of y)^2, the statistic of Shapiro and Francia.

Approximate: one rate for all latents, which must be Gaussian, stationary and reversible (each checked);
errors of curves by bootstrap over paths or blocks of time; the interval of the linear share inverts a test
at the rate and at both ends of the rate's region.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.arrays import real_array
from isojepa.objectives.gaussianity.univariate import normal_scores
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import validate_types

LATENTS = 64  # quadratic functions of so many latents must be ruled out,
LATENTS_PER_DIMENSION = 4  # or of so many per dimension of the embedding

# thresholds that decide whether there is an answer
MIN_PIECES = 20  # independent pieces, below which no bootstrap is right
MAX_WIDTH = 0.2  # width of the interval of the linear share that is still an answer
MIN_DECAYS = 0.7  # decays that the lags must span for the rate to be visible
MISFIT_DEVIATIONS, MIN_MISFIT = 5.0, 0.01  # of the curve, beyond chance and beyond what matters
MAX_STRAIN = 10.0  # excess misfit at the best rate that the slowest functions' distribution allows
MAX_NONLINEAR = 0.5  # share above degree 1 that contradicts Gaussian slow functions
MIN_SECOND_RATE = 1.1  # ratio of two rates that differ
DECISIVE_GAIN = 6.0  # difference of misfits that decides between degrees and rates
MIN_GAUSSIAN_W = 0.985  # W from which a marginal counts as Gaussian
ALLOWED_CEILING_ERROR = 5.0  # what W of n Gaussians falls short of 1 by, times n; 3 is rare
MAX_SKEW = 0.1  # skewness without consequence
NEGLIGIBLE_KURTOSIS = 0.25  # of the largest kurtosis allowed: no sign of another distribution
MIN_DIRECTION = 0.1  # antisymmetric part of the lagged covariance of an irreversible process
MIN_NOISE = 0.02  # share of noise worth a notice

_PATHS = 20  # from so many on, paths are resampled; below, blocks of time
_SHORTEST = 16  # steps of a quarter of a path
_LAGS, _FLOOR = 14, 0.05  # number of lags, and correlation at which they end
_RATE_GROUPS, _DIRECTION_GROUPS = 4, 16  # curves for the rate, and for the comparison of directions
_BLOCK_LAGS = 4  # length of a block of time, in longest lags
_MAX_UNITS = 1000  # paths are joined into at most so many units
_EMPTY = 1e-10  # variance of a direction, against the largest, that is rounding
_NUGGET = 0.02  # noise in the working covariance
_SUM_WEIGHT = 1e5  # of the row that makes shares add up to 1, against rows of unit error
_COARSE_RATES, _FINE_RATES, _RATE_RANGE = 60, 25, 5.0  # grid of the search
_REGION, _MARGIN = (
    3.84,
    9.0,
)  # excess misfit that chance explains (95 %), and of rates that redraws may choose
_HEAVY = 1.25  # bootstrap errors of products with heavy tails are too small by this factor
_ROUNDING = 1e-6  # of a misfit
_INTERVAL_STEP = 2e-3  # to which the ends of the interval of the linear share are found
_SAME_RATE = 0.1  # difference of correlations at the decay lag among functions of one rate
_LAW_CORRELATION = 0.75  # correlation at the lag of squares, cubes and bends
_LAW_BLOCKS, _MIN_BLOCKS = 16, 4  # per half of the paths
_SINGLE_CONFIDENCE, _MEAN_CONFIDENCE = 0.999, 0.99  # of single functions, together; of means over functions
_MAX_ROWS, _TESTED_ROWS, _MAX_TESTED = 20_000, 1000, 64  # of W; of its p-value; dimensions tested
_BLOCKS = 20  # of the reversibility test


@dataclass(frozen=True)
class DecaySpectrum:
    """The linear share of an embedding and the shares of higher degrees, from its decay.

    Where `identifiable` is False the numbers are those of the fit, or NaN without one, and `reasons` say why
    not to use them.

    Attributes:
        steps, paths, dim: of the trajectories.
        degree: the highest that is distinguished.
        confidence: of the intervals.
        rate: K per step; e^{-K} is the correlation of the latents one step apart.
        rate_known: whether the user passed it.
        shares: of the variance at degrees 1 .. degree.
        linear: share of degree 1.
        above: share of higher degrees that is still visible after one lag.
        noise: share that is gone after the shortest lag: observation noise, or degrees far above.
        lags, curve, fitted: the pooled autocorrelation, measured and fitted.
        rates: decay rate of each direction, slowest first; of groups of neighbors if they are many.
        ceiling: largest linear share that the marginal distributions allow; NaN without a fit.
        ruled_out: number of latents up to which a quadratic function is ruled out; NaN where the rate is
        known. condition: what an answer without the rate rests on, in a sentence.
        identifiable: whether the linear share may be used.
        reasons: why not, and what to do.
        notices: further remarks.
    """

    steps: int
    paths: int
    dim: int
    degree: int
    confidence: float
    rate: Interval
    rate_known: bool
    shares: tuple[Interval, ...]
    linear: Interval
    above: Interval
    noise: Interval
    lags: tuple[int, ...]
    curve: tuple[Interval, ...]
    fitted: tuple[float, ...]
    rates: tuple[Interval, ...] = ()
    ceiling: float = math.nan
    ruled_out: float = math.nan
    condition: str = ""
    identifiable: bool = False
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer in words."""
        if not self.identifiable:
            return f"The linear share cannot be determined from the decay. {self.reasons[0]}"
        text = (
            f"This embedding is {100 * self.linear.estimate:.1f} % linear "
            f"[{100 * self.linear.low:.1f}, {100 * self.linear.high:.1f}]"
        )
        if self.noise.estimate >= MIN_NOISE:
            text += f"; {100 * self.noise.estimate:.1f} % are noise or of degree far above {self.degree}"
        return f"{text}. {self.condition}".strip()


@validate_types
def measure_decay(
    h: Any,
    *,
    rate: float | None = None,
    degree: int = 6,
    confidence: float = 0.95,
    draws: int = 200,
    seed: int = 0,
) -> DecaySpectrum:
    """Estimate the linear share of an embedding without latents, from the decay of its autocorrelation.

    Args:
        h: (steps, paths, dim) embeddings along trajectories, or (steps, dim) of one.
        rate: K per step, if it is known: -log of the latents' correlation after one step.
        degree: the highest to distinguish.
        confidence: of the intervals.
        draws: bootstrap copies of the curves.
        seed: of the bootstrap, whose errors weight the curves and so move the estimate a little.

    Raises:
        ValueError: h has another shape, is too short or constant, or an option is out of range.

    Example:
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> path = OrnsteinUhlenbeck(dim=2, rho=0.9).trajectory(100, 200, generator(0, "example"))
        >>> measure_decay(path, rate=-math.log(0.9), draws=50).linear.high > 0.99
        True
    """
    shape = tuple(np.shape(h))
    paths = _trajectories(h)
    _check_options(rate, degree, confidence, draws)
    lags = _choose_lags(paths, 0.0 if rate is None else 2 / rate)
    curve = tuple(Interval(_correlation(paths, int(k)), math.nan, math.nan) for k in lags)
    unknown = Interval(math.nan, 0.0, 1.0)
    empty = DecaySpectrum(
        steps=shape[0],
        paths=shape[1] if len(shape) == 3 else 1,
        dim=shape[-1],
        degree=degree,
        confidence=confidence,
        rate=Interval(math.nan, 0.0, math.inf) if rate is None else Interval(rate, rate, rate),
        rate_known=rate is not None,
        shares=(unknown,) * degree,
        linear=unknown,
        above=unknown,
        noise=unknown,
        lags=tuple(int(lag) for lag in lags),
        curve=curve,
        fitted=(math.nan,) * len(lags),
    )
    least = 3 if rate is None else 2
    if len(lags) < least:
        reason = (
            f"There must be at least {least} lags, got {', '.join(map(str, lags))} with correlation "
            f"{curve[0].estimate:.2f}: many spectra give a curve of so few points; record longer paths, or "
            "more densely in time."
        )
        return replace(empty, reasons=(reason,))
    return _measure(paths, lags, rate, draws, seed, empty)


def _measure(
    h: np.ndarray, lags: np.ndarray, rate: float | None, draws: int, seed: int, empty: DecaySpectrum
) -> DecaySpectrum:
    """The spectrum of centered paths (steps, paths, dim) that have enough lags."""
    dim, degree, confidence = h.shape[2], empty.degree, empty.confidence
    lag = int(lags[np.argmin([abs(_correlation(h, int(one)) - 0.4) for one in lags])])
    directions = _slow_functions(h, lag, dim)
    latents, differs, kurtosis, squares = _rule_out_quadratic(h, directions, lags, lag, confidence)
    required = max(LATENTS, LATENTS_PER_DIMENSION * dim)
    quadratic = min(1.0, math.sqrt(required / latents))  # the largest quadratic share left possible
    gaussian = not differs and latents > required
    groups, fine = _split(directions, _RATE_GROUPS), _split(directions, _DIRECTION_GROUPS)
    curves = _measure_curves([h, *groups, *fine], lags, draws, generator(seed, "lags"))
    if curves.pieces < MIN_PIECES:
        reason = (
            f"The paths hold only {curves.pieces:.0f} independent pieces as long as the decay, where "
            f"{MIN_PIECES} are needed: record more or longer paths."
        )
        return replace(empty, reasons=(reason,))
    pooled, slowest = curves.part(slice(0, 1)), curves.part(slice(1, 1 + len(groups)))
    rest = curves.part(slice(1 + len(groups), None))
    rates = _direction_rates(rest, confidence)
    if rate is None:  # half the rate fits as well, but for how linear the slowest functions must be
        searches = [_search(part, degree, 1 - quadratic) for part in (pooled, slowest)]
        unstrained = [search for search in searches if search[3] <= MAX_STRAIN] or searches[1:]
        best, rate_draws, region, strain = min(unstrained, key=lambda search: search[2][1] / search[2][0])
    else:
        best, rate_draws, region, strain = rate, np.full(draws, rate), (rate, rate), 0.0
    columns = _basis(best, lags, degree)
    shares, misfit = _fit(columns, pooled.values[0], pooled.whitener)
    fitted = columns @ shares[0]
    share_draws = np.empty((draws, degree + 2))
    for one in np.unique(rate_draws):
        at = rate_draws == one
        share_draws[at] = _grouped(
            _fit(_basis(one, lags, degree), pooled.draws[at, 0], pooled.whitener)[0], degree
        )
    linear = _linear_interval(pooled, (best, *region), degree, confidence)
    if rate is None and not gaussian:
        linear = Interval(linear.estimate, 0.0, 1.0)
    ceiling, tested = _gaussian_ceiling(h, lag, seed)
    reasons = _check_shape(pooled, lags[-1] >= _longest_lag(h))
    reasons += _check_reversible(h, lag) + _check_stationary(h, lag)
    if rate is None and differs:
        reasons.append(
            "The slowest functions of the embedding are not Gaussian along the paths (excess kurtosis "
            f"{kurtosis:.2g}, by squares a lag apart {squares:.2g}), so none of them need be linear, and one "
            "of degree 2 decays like a linear one of twice the rate: pass the rate if you know it."
        )
    elif rate is None and not gaussian:
        more = max(2, math.ceil((required / latents) ** 2))
        reasons.append(
            "The rate cannot be found: a linear embedding decays like a quadratic one of half the rate, and "
            f"these data rule out quadratic functions of up to {latents:.0f} latents, where {required} are "
            f"needed; record about {more} times as much, or pass the rate if you know it."
        )
    if linear.low > ceiling + ALLOWED_CEILING_ERROR / max(tested, 1):
        reasons.append(
            f"The decay would make the embedding {100 * linear.low:.0f} % linear, but its marginals are not "
            f"Gaussian and allow at most {100 * ceiling:.1f} %: it may be of degree 2 alone, which decays "
            "like a linear one of twice the rate, or the latents are not Gaussian; pass the rate if known."
        )
    reasons += _check_rates(rates, rest, best, degree, np.array([_lowest_w(one) for one in fine]))
    if strain > MAX_STRAIN:
        reasons.append(
            "Even the slowest function of the embedding is no single exponential as far as its distribution "
            "says that it is linear, so the rate cannot be found: pass the rate if you know it."
        )
    if rate is None and gaussian and float(shares[0, 1:degree].sum()) > MAX_NONLINEAR:
        reasons.append(
            "Its decay reads as degrees above 1 where its distribution along the paths is that of a linear "
            "embedding, so the estimated rate is not that of the latents: record more, or pass the rate."
        )
    if best * lags[-1] < MIN_DECAYS:
        reasons.append(
            f"The rate, {best:.2g} per step, is too slow to be seen within the longest lag, {lags[-1]}: "
            "record longer paths, or keep only every few steps."
        )
    redrawn = _fit(columns, fitted + pooled.draws[:, 0] - pooled.values[0], pooled.whitener)[1]
    off = float(np.abs(fitted - pooled.values[0]).max())
    if misfit[0] > redrawn.mean() + MISFIT_DEVIATIONS * redrawn.std() and off > MIN_MISFIT:
        cause = "" if rate is None else "the rate that was given is wrong, or "
        reasons.append(
            f"No mixture of degrees gives this curve: it is off by {off:.3f}, beyond chance; {cause}the "
            "latents are not Gaussian with one rate."
        )
    if linear.high - linear.low > MAX_WIDTH and not reasons:
        times = ((linear.high - linear.low) / MAX_WIDTH) ** 2
        if rate is None:  # the rate is wide; it narrows with the fourth root of the data
            times = min(times, max(2.0, (quadratic / 0.6) ** 4))
        advice = ", or pass the rate if you know it" if rate is None else ""
        reasons.append(
            f"The interval of the linear share, {100 * linear.low:.0f} to {100 * linear.high:.0f} %, is too "
            f"wide to be an answer: record about {max(2, math.ceil(times))} times as much{advice}."
        )
    intervals = [
        _percentiles(one, copies, confidence)
        for one, copies in zip(_grouped(shares, degree)[0], share_draws.T, strict=True)
    ]
    spread = _percentiles(best, rate_draws, confidence)
    noise = intervals[-1]
    lost = (
        f"{100 * noise.estimate:.1f} % of the variance are gone after the shortest lag: observation noise or "
        f"degrees far above {degree}, which no curve can distinguish."
    )
    condition = (
        "The rate was estimated from the embedding: this holds if no slow direction of it is a sum of more "
        f"than {latents / 2:.0f} products of latents, which would look the same."
    )
    return replace(
        empty,
        rate=Interval(best, min(spread.low, region[0]), max(spread.high, region[1])),
        shares=(linear, *intervals[1:degree]),
        linear=linear,
        above=intervals[degree],
        noise=noise,
        curve=tuple(
            _percentiles(value, copies, confidence)
            for value, copies in zip(pooled.values[0], pooled.draws[:, 0].T, strict=True)
        ),
        fitted=tuple(fitted.tolist()),
        rates=rates,
        ceiling=ceiling,
        ruled_out=math.nan if rate is not None else latents,
        condition="" if rate is not None or reasons else condition,
        identifiable=not reasons,
        reasons=tuple(reasons),
        notices=(lost,) if noise.low > MIN_NOISE else (),
    )


def _check_options(rate: float | None, degree: int, confidence: float, draws: int) -> None:
    if rate is not None and not 0 < rate < math.inf:
        raise ValueError(
            f"rate must be positive and finite, -log of the correlation after a step, got {rate}"
        )
    if int(degree) != degree or not 1 <= degree <= 20:
        raise ValueError(f"degree must be an integer from 1 to 20, got {degree}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if int(draws) != draws or draws < 20:
        raise ValueError(f"draws must be an integer of at least 20, got {draws}")


def _trajectories(h: Any) -> np.ndarray:
    """Centered embeddings (steps, paths, dim); fewer than 20 paths are cut in two halves."""
    axes = "steps, dim" if np.ndim(h) == 2 else "steps, paths, dim"
    array = real_array("embeddings", h, axes)
    if array.ndim == 2:
        array = array[:, None]
    steps, paths, _ = array.shape
    if paths < _PATHS:
        half = steps // 2
        array = np.concatenate((array[:half], array[half : 2 * half]), axis=1)
    if steps < 2 or (paths < _PATHS and steps < 4 * _SHORTEST):
        raise ValueError(
            f"embeddings must have at least {_PATHS} paths of 2 steps, or {4 * _SHORTEST} steps, "
            f"got {paths} paths of {steps} steps"
        )
    size = float(np.abs(array).max())
    centered: np.ndarray = array - array.mean((0, 1))
    spread = float(np.abs(centered).max())
    if not spread > 1e-12 * size:
        raise ValueError("embeddings must vary, got a constant")
    return centered / spread  # squares and products of tiny and huge units stay within float64


def _resamples_paths(h: np.ndarray) -> bool:
    """Whether whole paths are resampled; paths cut in two count half."""
    return bool(h.shape[1] >= 2 * _PATHS)


def _longest_lag(h: np.ndarray) -> int:
    return len(h) - 1 if _resamples_paths(h) else max(1, len(h) // 8)


def _choose_lags(h: np.ndarray, reach: float) -> np.ndarray:
    """Lags from 1 to where the correlation has fallen to 5 %, at least to `reach`, in geometric distances."""
    limit, end = _longest_lag(h), 1
    while end < limit and (end < reach or _correlation(h, end) > _FLOOR):
        end = min(limit, math.ceil(1.25 * end))
    return np.unique(np.round(np.geomspace(1, end, _LAGS)).astype(int))


def _correlation(h: np.ndarray, lag: int) -> float:
    """Pooled r at one lag."""
    first, second = h[:-lag], h[lag:]
    return float(2 * np.vdot(first, second) / (np.vdot(first, first) + np.vdot(second, second)))


def _split(functions: np.ndarray, most: int) -> list[np.ndarray]:
    """At most so many groups of neighboring functions (steps, paths, count)."""
    count = functions.shape[2]
    return [functions[..., group] for group in np.array_split(np.arange(count), min(most, count))]


def _slow_functions(h: np.ndarray, lag: int, count: int) -> np.ndarray:
    """The slowest linear combinations (steps, paths, count) of unit variance; each half's from the other."""
    half = h.shape[1] // 2
    halves = (h[:, :half], h[:, half:])
    first, second = (
        part @ _slow_directions(other, lag)[:, :count]
        for part, other in zip(halves, halves[::-1], strict=True)
    )
    rank = min(first.shape[2], second.shape[2])
    whole = np.concatenate((first[..., :rank], second[..., :rank]), axis=1)
    whole = whole - whole.mean((0, 1))
    standardized: np.ndarray = whole / np.sqrt((whole**2).mean((0, 1)))
    return standardized


def _slow_directions(h: np.ndarray, lag: int) -> np.ndarray:
    lag = min(lag, len(h) - 1)
    flat = h.reshape(-1, h.shape[2])
    scale = np.sqrt((flat**2).mean(0))
    scale = np.where(scale > 0, scale, np.inf)
    values, vectors = scipy.linalg.eigh((flat / scale).T @ (flat / scale) / len(flat))
    usable = values > _EMPTY * values[-1]
    whitening = vectors[:, usable] / np.sqrt(values[usable]) / scale[:, None]
    first, second = (part.reshape(-1, h.shape[2]) @ whitening for part in (h[:-lag], h[lag:]))
    lagged = first.T @ second / len(first)
    directions: np.ndarray = whitening @ scipy.linalg.eigh((lagged + lagged.T) / 2)[1][:, ::-1]
    return directions


# ---- curves and their bootstrap copies


@dataclass(frozen=True)
class _Curves:
    """Curves (curves, t) at lags (t,), bootstrap copies (draws, curves, t), and the metric of their errors.

    `pieces` is the number of independent pieces behind them; `whitener` (t, t) gives errors of a working
    model unit covariance; `dispersion` (curves,) is the mean squared error in its metric, 1 where it is
    exact.
    """

    lags: np.ndarray
    values: np.ndarray
    draws: np.ndarray
    pieces: float
    whitener: np.ndarray
    dispersion: np.ndarray

    def part(self, chosen: slice) -> "_Curves":
        """Some of the curves."""
        return replace(
            self,
            values=self.values[chosen],
            draws=self.draws[:, chosen],
            dispersion=self.dispersion[chosen],
        )


def _measure_curves(
    groups: list[np.ndarray], lags: np.ndarray, draws: int, source: torch.Generator
) -> _Curves:
    """One curve for each group of functions (steps, paths, any), resampled together."""
    steps, paths, _ = groups[0].shape
    longest, by_path = int(lags[-1]), _resamples_paths(groups[0])
    length = 0 if by_path else max(2, min(_BLOCK_LAGS * longest, (steps - longest) // 5))
    sums = [[_sums(group, int(k), by_path, length, steps - longest) for k in lags] for group in groups]
    units = np.stack([np.stack([unit for unit, _ in row], 1) for row in sums], 1)  # (units, curves, lags, 2)
    totals = np.array([[total for _, total in row] for row in sums])
    picks = len(units) if by_path else max(1, paths * (steps - longest) // length)
    chosen = torch.randint(len(units), (draws, picks), generator=source).numpy()
    times = np.stack([np.bincount(row, minlength=len(units)) for row in chosen]).astype(np.float64)
    copies = (times @ units.reshape(len(units), -1)).reshape(draws, *units.shape[1:])
    # the subtracted mean makes r too small by the mean's own variance
    added = np.array([_mean_variance(group, by_path, max(length, longest)) for group in groups])[:, None]
    values = (totals[..., 0] / totals[..., 1] + added) / (1 + added)
    redrawn = (copies[..., 0] / copies[..., 1] + added) / (1 + added)
    lag = int(lags[np.argmin(np.abs(values[0] - 0.4))])
    rate = -math.log(min(max(_correlation(groups[0], lag), 0.02), 0.98)) / lag
    whitener = _working_whitener(lags, rate, groups[0].size)
    dispersion = (((redrawn - values) @ whitener.T) ** 2).sum(-1).mean(0) / len(lags)
    # curves that never change have no errors
    return _Curves(lags, values, redrawn, float(picks), whitener, np.maximum(dispersion, 1e-12))


def _sums(
    group: np.ndarray, lag: int, by_path: bool, length: int, usable: int
) -> tuple[np.ndarray, tuple[float, float]]:
    """Products and mean squares of pairs one lag apart, summed over units (units, 2) and over all."""
    products = np.einsum("tnd,tnd->tn", group[:-lag], group[lag:])
    squares = np.einsum("tnd,tnd->tn", group, group)
    both = np.stack((products, (squares[:-lag] + squares[lag:]) / 2), -1)
    total = both.sum((0, 1))
    if by_path:
        ends = np.linspace(0, both.shape[1], min(both.shape[1], _MAX_UNITS) + 1).astype(int)[:-1]
        return np.add.reduceat(both.sum(0), ends, axis=0), (total[0], total[1])
    running = np.concatenate((np.zeros((1, *both.shape[1:])), np.cumsum(both, axis=0)))
    starts = np.arange(0, max(1, usable - length + 1), max(1, length // 8))  # overlapping blocks of time
    return (running[starts + length] - running[starts]).reshape(-1, 2), (total[0], total[1])


def _mean_variance(group: np.ndarray, by_path: bool, length: int) -> float:
    """Variance of the subtracted mean, as a fraction of the variance."""
    total = float((group**2).sum(2).mean())
    if by_path:
        means = group.mean(0)
        return float((means**2).sum(1).mean() / (len(means) - 1) / total)
    pieces = [piece.mean((0, 1)) for piece in np.array_split(group, max(2, len(group) // max(1, length)))]
    return float(np.mean([(piece**2).sum() for piece in pieces]) / (len(pieces) - 1) / total)


def _working_whitener(lags: np.ndarray, rate: float, samples: float) -> np.ndarray:
    """Inverse Cholesky factor of Bartlett's covariance of the autocorrelations of a process of one rate."""
    step = max(1, int(0.05 / rate))  # a fine process is summed in strides
    u = np.arange(1, int(12 / rate) + int(lags[-1]) + 2, step)

    def c(k: np.ndarray) -> np.ndarray:
        return np.where(k == 0, 1.0, (1 - _NUGGET) * np.exp(-rate * np.abs(k)))

    at = lags[:, None]
    terms = c(u + at) + c(u - at) - 2 * c(u) * c(at)
    covariance = step * terms @ terms.T / samples
    level = max(float(np.trace(covariance)) / len(lags), np.finfo(float).tiny)
    lower = np.linalg.cholesky(covariance / level + 1e-6 * np.eye(len(lags)))
    inverse: np.ndarray = scipy.linalg.solve_triangular(lower, np.eye(len(lags)), lower=True)
    return inverse / math.sqrt(level)


# ---- the fit: shares at a rate, and the rate


def _basis(rate: float, lags: np.ndarray, degree: int) -> np.ndarray:
    """(t, columns): degrees 1 .. degree, sparser ones above until they are gone after one lag, and noise."""
    degrees = [float(d) for d in range(1, degree + 1)]
    while degrees[-1] * rate * lags[0] < 3:
        degrees.append(max(degrees[-1] + 1, 1.4 * degrees[-1]))
    columns: np.ndarray = np.c_[np.exp(-rate * np.outer(lags, degrees)), np.zeros(len(lags))]
    return columns


def _grouped(shares: np.ndarray, degree: int) -> np.ndarray:
    """(count, degree + 2): degrees 1 .. degree, those above together, and noise."""
    grouped: np.ndarray = np.c_[shares[:, :degree], shares[:, degree:-1].sum(1), shares[:, -1]]
    return grouped


def _fit(
    basis: np.ndarray, curves: np.ndarray, whitener: np.ndarray, first: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Shares (count, columns) and squared misfits of curves (count, t); `first` fixes the first share."""
    rows, targets = whitener @ basis, np.atleast_2d(curves) @ whitener.T
    scale = _SUM_WEIGHT * max(1.0, float(np.abs(rows).max()) ** 0.5)
    free, total = (rows, 1.0) if first is None else (rows[:, 1:], 1 - first)
    matrix = np.vstack((free, np.full((1, free.shape[1]), scale)))
    targets = targets if first is None else targets - first * rows[:, 0]
    solutions = [
        scipy.optimize.nnls(matrix, np.append(target, scale * total), maxiter=50 * free.shape[1])
        for target in targets
    ]
    shares, lengths = np.stack([one for one, _ in solutions]), np.array([one for _, one in solutions])
    if first is not None:
        return np.c_[np.full(len(shares), first), shares], lengths**2
    return shares / shares.sum(1, keepdims=True), lengths**2  # the sum is 1 but for rounding


def _linear_interval(curve: _Curves, rates: tuple[float, ...], degree: int, confidence: float) -> Interval:
    """First shares that a test does not reject, over several rates; the estimate is that of the first rate.

    Percentiles of bootstrapped shares are no interval where a share is 0 or 1. So each share is tested: how
    much worse the best mixture with that share fits the curve, against how much worse it fits itself plus
    bootstrap errors, which are larger the fewer pieces they come from.
    """
    pieces = max(curve.pieces, 3.0)
    student = scipy.special.stdtrit(pieces - 1, 0.975) / scipy.special.ndtri(0.975)
    errors = curve.draws[:, 0] - curve.draws[:, 0].mean(0)
    errors = _HEAVY * student * math.sqrt(pieces / (pieces - 1)) * errors
    estimates, lows, highs = [], [], []
    for rate in dict.fromkeys(rates):
        basis = _basis(rate, curve.lags, degree)
        shares, least = _fit(basis, curve.values[0], curve.whitener)

        def accepted(first: float, basis: np.ndarray = basis, least: float = float(least[0])) -> bool:
            mixture, misfit = _fit(basis, curve.values[0], curve.whitener, first)
            copies = basis @ mixture[0] + errors
            excess = _fit(basis, copies, curve.whitener, first)[1] - _fit(basis, copies, curve.whitener)[1]
            allowed = max(float(np.quantile(excess, confidence)), _ROUNDING * least)
            return float(misfit[0]) - least <= allowed

        estimates.append(float(shares[0, 0]))
        ends = []
        for outside in (0.0, 1.0):
            inside = estimates[-1]
            if accepted(outside):
                inside = outside
            while abs(outside - inside) > _INTERVAL_STEP:
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
            ends.append(outside)
        lows.append(ends[0])
        highs.append(ends[1])
    return Interval(estimates[0], min(lows), max(highs))


def _search(
    curves: _Curves, degree: int, least: float
) -> tuple[float, np.ndarray, tuple[float, float], float]:
    """The rate that fits all curves together, its bootstrap copies, its region, and the strain.

    The slowest curve must be linear by the share `least`, or as nearly as any rate makes it; the strain is
    how much worse the fit is for that.
    """
    slow = curves.values.max(0)
    at = int(np.argmin(np.abs(slow - 0.4)))
    top = 1.15 * float(-np.log(np.clip(slow[at], 1e-3, 1 - 1e-6)) / curves.lags[at])  # no less than K
    coarse = np.geomspace(top, top / _RATE_RANGE, _COARSE_RATES)
    free, bound = _profile(coarse, curves, curves.values[None], degree, least)
    near = np.flatnonzero(bound[0] <= bound[0].min() + _MARGIN)
    step = coarse[0] / coarse[1]
    rates = np.geomspace(coarse[near[0]] * step, coarse[near[-1]] / step, _FINE_RATES)
    misfits = _profile(rates, curves, curves.values[None], degree, least)[1][0]
    redrawn = rates[np.argmin(_profile(rates, curves, curves.draws, degree, least)[1], axis=1)]
    region = rates[misfits <= misfits.min() + _REGION]
    strain = float(max(0.0, misfits.min() - free.min()))
    return float(rates[np.argmin(misfits)]), redrawn, (float(region.min()), float(region.max())), strain


def _profile(
    rates: np.ndarray, curves: _Curves, values: np.ndarray, degree: int, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Misfits (count, rates) of curves (count, curves, t) at each rate, and those of allowed rates alone."""
    count, number, lags = values.shape
    misfits, linear = np.empty((2, count, len(rates)))
    for index, rate in enumerate(rates):
        shares, squares = _fit(_basis(rate, curves.lags, degree), values.reshape(-1, lags), curves.whitener)
        misfits[:, index] = (squares.reshape(count, number) / curves.dispersion).sum(1)
        linear[:, index] = shares.reshape(count, number, -1)[:, 0, 0]
    allowed = linear >= np.minimum(least, linear.max(1, keepdims=True))
    return misfits, np.where(allowed, misfits, np.inf)


def _percentiles(estimate: float, draws: np.ndarray, confidence: float) -> Interval:
    """The middle of the bootstrap values; it always holds the estimate."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(estimate), float(min(low, estimate)), float(max(high, estimate)))


# ---- the joint distribution of slow functions


def _rule_out_quadratic(
    h: np.ndarray, slow: np.ndarray, lags: np.ndarray, lag: int, confidence: float
) -> tuple[float, bool, float, float]:
    """Latents up to which quadratic functions are ruled out, whether any function is not Gaussian, kurtoses.

    `slow` holds directions (steps, paths, count), slowest first; those as slow as the first are examined.
    Where that is all of them, the embedding's own coordinates are: rotated ones would add up the latents of
    several.
    """
    dim = h.shape[2]
    after = _autocorrelations(slow, lag)
    faster = np.flatnonzero(after < after[0] - _SAME_RATE)
    count = int(faster[0]) if len(faster) else slow.shape[2]
    slow = h if count == dim else slow[..., :count]
    near = min(
        (int(one) for one in lags), key=lambda k: abs(_autocorrelations(slow, k).mean() - _LAW_CORRELATION)
    )
    half = slow.shape[1] // 2
    limit = 12 / max(LATENTS, LATENTS_PER_DIMENSION * dim)  # kurtosis of a quadratic function of so many
    parts = [_departures(part, near) for part in (slow[:, :half], slow[:, half:])]
    means = [part.mean(2) for part in parts]
    kurtosis, squares, _, _ = _joined(means, 2 * confidence - 1 if confidence > 0.5 else confidence)
    allowed = np.array([limit, limit, limit, MAX_SKEW])
    negligible = NEGLIGIBLE_KURTOSIS * limit
    differs = any(
        one.low > negligible or one.high < -negligible for one in _joined(means, _MEAN_CONFIDENCE)[:3]
    )
    single = 1 - (1 - _SINGLE_CONFIDENCE) / (2 * 4 * count)
    for part in parts:
        for index, function in itertools.product(range(4), range(part.shape[2])):
            one = _interval(part[:, index, function], single)
            differs |= max(one.low, -one.high) > allowed[index]
    # an estimate below 0, which no quadratic function has, counts as 0
    upper = max(one.high - min(one.estimate, 0.0) for one in (kurtosis, squares))
    once, twice = (
        (float(_autocorrelations(slow, k * int(lags[0])).mean()) for k in (1, 2))
        if len(slow) > 2 * lags[0]
        else (1.0, 1.0)
    )
    signal = min(1.0, max(0.1, once**2 / twice)) if twice > 0 else 0.1  # variance that is not noise
    return 12 / max(upper / signal**2, 1e-6), bool(differs), kurtosis.estimate, squares.estimate


def _autocorrelations(y: np.ndarray, lag: int) -> np.ndarray:
    """(count,): correlation of each function with itself a lag later."""
    return np.asarray((y[:-lag] * y[lag:]).mean((0, 1)) / (y**2).mean((0, 1)))


def _departures(y: np.ndarray, lag: int) -> np.ndarray:
    """(blocks, 4, count): kurtosis, the same by squares and by cubes, skewness by bends, of each block.

    The terms are first-order unaffected by the error of mean, variance and r: Hermite polynomials of whitened
    functions, symmetric in time.
    """
    flat = y.reshape(-1, y.shape[2])
    flat = flat - flat.mean(0)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    # symmetric whitening: each function stays as nearly itself as uncorrelated ones can
    white = (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T
    along = (flat @ white).reshape(y.shape)
    r = (along[:-lag] * along[lag:]).mean((0, 1))
    scale = np.clip(r, 0.05, 0.98)
    in_time = min(_LAW_BLOCKS, len(y) // (2 * lag))
    by_path = y.shape[1] >= min(_LAW_BLOCKS, in_time)
    blocks = np.array_split(
        along, max(1, min(_LAW_BLOCKS, y.shape[1]) if by_path else in_time), axis=1 if by_path else 0
    )
    rows = []
    for block in blocks:
        a, b = block[:-lag], block[lag:]
        a2, b2, product = a**2, b**2, a * b
        fourth = (a2**2 + b2**2) / 2 - 3 * (a2 + b2) + 3
        square = (a2 - 1) * (b2 - 1) - 4 * r * product + 2 * r**2 - r**2 * fourth
        cube = ((a2 - 3) * a * (b - r * a) + (b2 - 3) * b * (a - r * b)) / 2
        bend = ((a2 - 1) * (b - r * a) + (b2 - 1) * (a - r * b)) / 2
        terms = (
            fourth,
            1.5 * square / (scale - scale**2),
            4 * cube / (scale - scale**3),
            3 * bend / (scale - scale**2),
        )
        rows.append([term.mean((0, 1)) for term in terms])
    return np.array(rows)


def _interval(blocks: np.ndarray, confidence: float) -> Interval:
    """Of the mean of blocks; too few of them say nothing."""
    mean, count = float(blocks.mean()), len(blocks)
    if count < _MIN_BLOCKS:
        return Interval(mean, mean - 1e6, mean + 1e6)
    return from_blocks(mean, (blocks.sum() - blocks) / (count - 1), confidence)


def _joined(halves: list[np.ndarray], confidence: float) -> list[Interval]:
    """Means of two independent estimates, each by blocks (blocks, 4)."""
    intervals = []
    for first, second in zip(*(half.T for half in halves), strict=True):
        pair = [_interval(first, confidence), _interval(second, confidence)]
        estimate = (pair[0].estimate + pair[1].estimate) / 2
        reach = math.hypot(*(one.high - one.estimate for one in pair)) / 2
        intervals.append(Interval(estimate, estimate - reach, estimate + reach))
    return intervals


# ---- checks that the curve may be read as degrees


def _quantile_correlation(y: np.ndarray) -> np.ndarray:
    """W of samples (n, k): squared correlation with normal scores, (k,); 1 for a constant."""
    scores = normal_scores(len(y))
    centered = np.sort(y, axis=0) - y.mean(0)
    energy = (centered**2).sum(0)
    constant = energy <= 1e-20 * (y**2).sum(0)
    squares = np.where(constant, 1.0, energy * (scores @ scores))
    return np.where(constant, 1.0, (scores @ centered) ** 2 / squares)


def _lowest_w(functions: np.ndarray) -> float:
    """Smallest W of functions (steps, paths, count), each half of the paths by itself: signs may differ."""
    half = functions.shape[1] // 2
    rows = [part.reshape(-1, part.shape[2]) for part in (functions[:, :half], functions[:, half:])]
    return float(min(_quantile_correlation(part[:: max(1, len(part) // _MAX_ROWS)]).min() for part in rows))


def _gaussian_ceiling(h: np.ndarray, lag: int, seed: int) -> tuple[float, int]:
    """Largest linear share that the marginals allow, pooled; and nearly independent samples behind it."""
    rows = h.swapaxes(0, 1).reshape(-1, h.shape[2])
    rows = rows[:: max(1, len(rows) // _MAX_ROWS)]
    rotated = rows @ np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))[1]
    pooled = [(_quantile_correlation(x) * x.var(0)).sum() / x.var(0).sum() for x in (rows, rotated)]
    independent = min(len(h[:: 3 * lag]) * h.shape[1], _TESTED_ROWS)
    return float(min(pooled)), independent


def _check_shape(curve: _Curves, limited: bool) -> list[str]:
    """Whether the pooled curve falls to near 0 and stays there."""
    values, errors, lags = curve.values[0], curve.draws[:, 0].std(0), curve.lags
    reasons = []
    if limited and values[-1] > 0.5:
        reasons.append(
            f"The curve has only fallen to {values[-1]:.2f} at the longest usable lag, {lags[-1]}: record "
            "longer paths, or keep only every few steps."
        )
    low = int(np.argmin(values + 3 * errors))
    if values[low] + 3 * errors[low] < -0.02:
        reasons.append(
            f"The curve falls below 0, to {values[low]:.2f} at lag {lags[low]}: the world oscillates, which "
            "no reversible process does; the degrees cannot be read off it."
        )
    rises = np.diff(values) - 4 * np.sqrt(errors[1:] ** 2 + errors[:-1] ** 2)
    if len(rises) and rises.max() > 0.02:
        reasons.append("The curve rises again: the world oscillates or is periodic.")
    if values[0] < 0.1:
        reasons.append(
            f"After the shortest lag, {lags[0]}, the correlation is only {values[0]:.2f}: record more "
            "densely in time, or the embedding is mostly noise."
        )
    return reasons


def _check_reversible(h: np.ndarray, lag: int) -> list[str]:
    """Whether the lagged covariance is symmetric: its antisymmetric part, debiased over blocks."""
    _, paths, dim = h.shape
    flat = h.reshape(-1, dim)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    usable = np.flatnonzero(values > 1e-8 * values[-1])[::-1][:_MAX_TESTED]
    white = h @ (vectors[:, usable] / np.sqrt(values[usable]))
    if paths >= _BLOCKS:
        parts = np.array_split(white, _BLOCKS, axis=1)
    else:
        parts = [part for part in np.array_split(white, _BLOCKS, axis=0) if len(part) > 2 * lag]
    if len(parts) < 5 or dim < 2:
        return []
    lagged = [np.einsum("tni,tnj->ij", part[:-lag], part[lag:]) / part[lag:, :, 0].size for part in parts]
    skew = np.stack([(matrix - matrix.T) / 2 for matrix in lagged]).reshape(len(parts), -1)
    products = skew @ skew.T
    off = products - np.diag(np.diag(products))
    count, total = len(parts), off.sum()
    left_out = (total - 2 * off.sum(1)) / ((count - 1) * (count - 2))
    square = from_blocks(total / (count * (count - 1)), left_out, 0.99)
    effect = math.sqrt(max(square.estimate, 0.0)) / float(np.linalg.norm(np.mean(lagged, axis=0)))
    if square.low <= 0 or effect <= MIN_DIRECTION:
        return []
    return [
        f"Time has a direction: the antisymmetric part of the lagged covariance is {effect:.2f} of the "
        "whole, "
        "and 0 for a reversible process; the degrees assume one."
    ]


def _check_stationary(h: np.ndarray, lag: int) -> list[str]:
    """Whether mean and variance are the same early and late."""
    steps, paths, _ = h.shape
    if steps < 4:
        return []
    energy = (h**2).sum(2)
    early, late = h[: steps // 2], h[-(steps // 2) :]
    before, after = (float((part**2).sum(2).mean() / energy.mean()) for part in (early, late))
    shift = float(((early.mean((0, 1)) - late.mean((0, 1))) ** 2).sum() / energy.mean())
    independent = max(2.0, paths * max(1.0, steps / (4 * lag)))
    spread = 5 * float(energy.std() / energy.mean()) * math.sqrt(2 / independent)
    if abs(before - after) <= max(0.2, spread) and shift <= max(0.1, 40 / independent):
        return []
    return [
        f"Mean or variance change along the paths (variance {before:.3g} of the whole early, {after:.3g} "
        "late): "
        "leave out the start, or the process is not stationary."
    ]


def _direction_rates(curves: _Curves, confidence: float) -> tuple[Interval, ...]:
    """Decay rate of each curve between the shortest lag and that near 0.4; noise cancels in the ratio."""
    rates, lags = [], curves.lags
    for values, draws in zip(curves.values, curves.draws.swapaxes(0, 1), strict=True):
        at = max(1, int(np.argmin(np.abs(values - 0.4 * values[0])))) if len(values) > 1 else 0
        span = lags[at] - lags[0]
        if span == 0 or values[at] <= 0 or values[0] <= 0:
            rates.append(Interval(math.nan, math.nan, math.nan))
            continue
        copies = np.log(np.maximum(draws[:, 0], 1e-6) / np.maximum(draws[:, at], 1e-6)) / span
        rates.append(_percentiles(float(np.log(values[0] / values[at]) / span), copies, confidence))
    return tuple(rates)


def _check_rates(
    rates: tuple[Interval, ...], curves: _Curves, rate: float, degree: int, normality: np.ndarray
) -> list[str]:
    """Whether directions that decay differently hold other degrees, or latents of other rates.

    Degrees make a curve a mixture of exponentials, another rate a single one: the misfits of both are
    compared; where they tie, Gaussian marginals (`normality`, W of each direction) speak for another rate.
    """
    finite = [one for one in rates if not math.isnan(one.estimate)]
    if len(finite) < 2:
        return []
    slow, fast = min(finite, key=lambda one: one.estimate), max(finite, key=lambda one: one.estimate)
    if fast.low < MIN_SECOND_RATE * slow.high:
        return []
    by_degree = _fit(_basis(rate, curves.lags, degree), curves.values, curves.whitener)[1]
    by_rate = np.array([_single_misfit(curve, curves) for curve in curves.values])
    gain = float(((by_degree - by_rate) / curves.dispersion).sum())
    faster = np.array([one.low > MIN_SECOND_RATE * slow.high for one in rates])
    if gain <= DECISIVE_GAIN and not (gain > -DECISIVE_GAIN and (normality[faster] > MIN_GAUSSIAN_W).all()):
        return []
    evidence = "each as one exponential" if gain > DECISIVE_GAIN else "with Gaussian marginals"
    return [
        f"The directions decay at rates from {slow.estimate:.3g} to {fast.estimate:.3g} per step, "
        f"{evidence}: "
        "their latents have unequal rates, and degrees look like rates; measure groups of directions of one "
        "rate by themselves."
    ]


def _single_misfit(curve: np.ndarray, curves: _Curves) -> float:
    """Least misfit of one exponential and noise, over its rate."""
    at = int(np.argmin(np.abs(curve - 0.4)))
    middle = -math.log(min(max(float(curve[at]), 1e-3), 1 - 1e-6)) / curves.lags[at]
    rates = middle * np.geomspace(0.6, 1.4, 81)
    bases = [np.c_[np.exp(-rate * curves.lags), np.zeros(len(curves.lags))] for rate in rates]
    return min(float(_fit(basis, curve, curves.whitener)[1][0]) for basis in bases)
