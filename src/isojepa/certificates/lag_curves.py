r"""Autocorrelation curves of embeddings along trajectories, with redrawn copies of them.

For centered h over steps t of paths n, the curve at lag k is

    r(k) = sum_t,n <h_t, h_{t+k}>  /  sum_t,n (|h_t|^2 + |h_{t+k}|^2) / 2,

numerator and denominator over the same pairs, so that their errors cancel at short lags. The sample mean that
is subtracted makes r too small by about the mean's own variance, which is estimated and added again.

The slowest directions are the top eigenvectors of the symmetrised lagged covariance in whitened coordinates:
of the embedding, or of its monomials where it has few dimensions, since a warped latent may be unwarped by
them. They are found on one half of the data and seen on the other, and vice versa.

Redrawing: whole paths with replacement; of few paths, overlapping blocks of time.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.certificates.embeddings import real_array
from isojepa.certificates.mixture import Whitener

PATHS = 20  # from so many on, paths are redrawn; below, blocks of time
_UNITS = 1000  # paths are put together into at most so many
_COUNT = 14  # lags
_FLOOR = 0.05  # correlation at which the lags end
_BLOCK = 4  # length of a block of time, in longest lags
_NUGGET = 0.02  # in the working covariance: noise that no curve is without
_SHORTEST = 16  # steps of a quarter of a path
_TINY = 1e-10  # variance of a direction, against the largest, below which it is left out
_FEATURES = 40  # monomials, at most
_PER_FEATURE = 30  # decorrelated samples for each


@dataclass(frozen=True)
class Curves:
    """Curves at several lags.

    Attributes:
        lags: (t,).
        values: (curves, t).
        draws: (draws, curves, t), redrawn.
        units: independent pieces behind them.
    """

    lags: np.ndarray
    values: np.ndarray
    draws: np.ndarray
    units: float


def trajectories(h: object) -> np.ndarray:
    """Embeddings (steps, paths, dim) or (steps, dim) as (steps, paths, dim), centered, float64.

    Fewer than 20 paths are cut in two in time, so that there is always one half to search and one to see.

    Raises:
        ValueError: another shape, too few steps, values that are not finite, or a constant.
    """
    axes = "steps, dim" if getattr(h, "ndim", np.ndim(h)) == 2 else "steps, paths, dim"  # type: ignore[arg-type]
    array = real_array("embeddings", h, axes)
    if array.ndim == 2:
        array = array[:, None]
    steps, paths, _ = array.shape
    if paths < PATHS:
        half = steps // 2
        array = np.concatenate((array[:half], array[half : 2 * half]), axis=1)
    if steps < 2 or (paths < PATHS and steps < 4 * _SHORTEST):
        raise ValueError(
            f"embeddings must have at least {PATHS} paths of 2 steps, or {4 * _SHORTEST} steps, "
            f"got {paths} paths of {steps} steps"
        )
    size = float(np.abs(array).max())
    centered: np.ndarray = array - array.mean((0, 1))
    if not np.abs(centered).max() > 1e-12 * size:
        raise ValueError("embeddings must vary, got a constant")
    return centered


def redraws_paths(h: np.ndarray) -> bool:
    """Whether whole paths are redrawn, and not blocks of time; of paths cut in two there are fewer."""
    many: bool = h.shape[1] >= 2 * PATHS
    return many


def longest_lag(h: np.ndarray) -> int:
    """The longest lag that leaves enough pairs."""
    return len(h) - 1 if redraws_paths(h) else max(1, len(h) // 8)


def choose_lags(h: np.ndarray, reach: float = 0.0) -> np.ndarray:
    """Lags from 1 to where the correlation has fallen to 5 %, about evenly spaced on a logarithmic scale.

    Args:
        h: centered embeddings (steps, paths, dim).
        reach: in steps; the lags go at least so far, where the paths do.
    """
    limit = longest_lag(h)
    end = 1
    while end < limit and (end < reach or correlation(h, end) > _FLOOR):
        end = min(limit, math.ceil(1.25 * end))
    return np.unique(np.round(np.geomspace(1, end, _COUNT)).astype(int))


def correlation(h: np.ndarray, lag: int) -> float:
    """Pooled r at one lag."""
    first, second = h[:-lag], h[lag:]
    energy = (np.vdot(first, first) + np.vdot(second, second)) / 2
    return float(np.vdot(first, second) / energy)


def decay_lag(h: np.ndarray, lags: np.ndarray) -> int:
    """The lag at which the pooled correlation is nearest to 0.4."""
    return int(lags[np.argmin([abs(correlation(h, int(lag)) - 0.4) for lag in lags])])


def slow_functions(h: np.ndarray, lag: int, count: int) -> np.ndarray:
    """The slowest linear combinations of functions h (steps, paths, p): (steps, paths, count), unit variance.

    Args:
        h: functions of the embedding, or the embedding itself, centered.
        lag: at which slowness is judged.
        count: at most so many; fewer where fewer vary.
    """
    half = h.shape[1] // 2
    halves = (h[:, :half], h[:, half:])
    first, second = (
        seen @ _slow_directions(searched, lag)[:, :count] for seen, searched in (halves, halves[::-1])
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
    kept = values > _TINY * values[-1]
    whitening = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
    first, second = (part.reshape(-1, h.shape[2]) @ whitening for part in (h[:-lag], h[lag:]))
    lagged = first.T @ second / len(first)
    directions: np.ndarray = whitening @ scipy.linalg.eigh((lagged + lagged.T) / 2)[1][:, ::-1]
    return directions


def monomials(h: np.ndarray, independent: float) -> np.ndarray:
    """The embedding with its monomials to degree 3 or 2, as many as the independent samples can carry."""
    dim = h.shape[2]
    unit: np.ndarray = h / np.maximum(np.sqrt((h**2).mean((0, 1))), np.finfo(float).tiny)
    for degree in (3, 2):
        count = math.comb(dim + degree, degree) - 1
        if count <= _FEATURES and count * _PER_FEATURE <= independent:
            chosen = itertools.chain.from_iterable(
                itertools.combinations_with_replacement(range(dim), total) for total in range(2, degree + 1)
            )
            more = [np.prod([unit[..., j] for j in one], axis=0) for one in chosen]
            whole = np.concatenate((unit, np.stack(more, -1)), axis=-1)
            centered: np.ndarray = whole - whole.mean((0, 1))
            return centered
    return unit


def measure_curves(groups: list[np.ndarray], lags: np.ndarray, draws: int, source: torch.Generator) -> Curves:
    """Curves of several functions of the embedding, redrawn together.

    Args:
        groups: each (steps, paths, any), centered; one curve for each.
        lags: (t,).
        draws: how many copies.
        source: of the redrawing.
    """
    steps, paths, _ = groups[0].shape
    longest, by_path = int(lags[-1]), redraws_paths(groups[0])
    length = 0 if by_path else max(2, min(_BLOCK * longest, (steps - longest) // 5))
    measured = [[_sums(group, int(k), by_path, length, steps - longest) for k in lags] for group in groups]
    units = np.stack(
        [np.stack([unit for unit, _ in row], 1) for row in measured], 1
    )  # (units, curves, lags, 2)
    values = np.array([[total for _, total in row] for row in measured])
    picks = len(units) if by_path else max(1, paths * (steps - longest) // length)
    chosen = torch.randint(len(units), (draws, picks), generator=source).numpy()
    times = np.stack([np.bincount(row, minlength=len(units)) for row in chosen]).astype(np.float64)
    drawn = (times @ units.reshape(len(units), -1)).reshape(draws, *units.shape[1:])
    added = np.array([_mean_variance(group, by_path, max(length, longest)) for group in groups])[:, None]
    return Curves(
        lags,
        (values[..., 0] / values[..., 1] + added) / (1 + added),
        (drawn[..., 0] / drawn[..., 1] + added) / (1 + added),
        float(picks),
    )


def _sums(
    group: np.ndarray, lag: int, by_path: bool, length: int, usable: int
) -> tuple[np.ndarray, tuple[float, float]]:
    """Products and mean squares of the pairs one lag apart, summed over units (units, 2) and over all."""
    products = np.einsum("tnd,tnd->tn", group[:-lag], group[lag:])
    squares = np.einsum("tnd,tnd->tn", group, group)
    both = np.stack((products, (squares[:-lag] + squares[lag:]) / 2), -1)
    total = both.sum((0, 1))
    if by_path:
        ends = np.linspace(0, both.shape[1], min(both.shape[1], _UNITS) + 1).astype(int)[:-1]
        return np.add.reduceat(both.sum(0), ends, axis=0), (total[0], total[1])
    running = np.concatenate((np.zeros((1, *both.shape[1:])), np.cumsum(both, axis=0)))
    starts = np.arange(0, max(1, usable - length + 1), max(1, length // 8))  # overlapping blocks of time
    return (running[starts + length] - running[starts]).reshape(-1, 2), (total[0], total[1])


def _mean_variance(group: np.ndarray, by_path: bool, length: int) -> float:
    """Variance of the sample mean that was subtracted, as a share of the variance."""
    total = float((group**2).sum(2).mean())
    if by_path:
        means = group.mean(0)
        return float((means**2).sum(1).mean() / (len(means) - 1) / total)
    pieces = [piece.mean((0, 1)) for piece in np.array_split(group, max(2, len(group) // max(1, length)))]
    return float(np.mean([(piece**2).sum() for piece in pieces]) / (len(pieces) - 1) / total)


def working_metric(lags: np.ndarray, rate: float, samples: float) -> Whitener:
    """The metric of curves: Bartlett's covariance of the autocorrelations of a process of one rate."""
    step = max(1, int(0.05 / rate))  # a fine process is summed in strides
    u = np.arange(1, int(12 / rate) + int(lags[-1]) + 2, step)

    def c(k: np.ndarray) -> np.ndarray:
        return np.where(k == 0, 1.0, (1 - _NUGGET) * np.exp(-rate * np.abs(k)))

    at = lags[:, None]
    terms = c(u + at) + c(u - at) - 2 * c(u) * c(at)
    return Whitener.of(step * terms @ terms.T / samples)
