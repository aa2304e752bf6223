r"""Memory: how many rows apart do rows stop telling of each other?

Tests count rows as independent, and neighbours on a path are not. With r(j) the correlation of a function
of the rows with itself j rows on, the mean of every s-th row varies

    1 + 2 sum_j r(j s)

times as much as that of as many independent rows. The memory is the smallest s at which this is at most 1.5
for functions that rise with a dimension, and 1.2 for functions of its size: for a path of correlation rho
the second is rho^2 where the first is rho, and what the tests look at, shapes and products, is of the
second kind.

The functions are cos(pi u) and cos(2 pi u) of the ranks u of dimensions, of the slowest directions, found
on the first half of the rows and looked at on the second, and for pairs of the step from one view to the
other. Ranks are bounded: no two rows can look like memory by being large. Rows in any order are equally
likely where they are independent, so r(j) has variance (n - j) / n^2. There is memory where chance does not
explain them, at the level of 1 % for all together: single ones, for paths that take turns in the file, or
sums over 2^i <= j < 2^(i + 1), for what is weak and lasts. Independent rows have memory 1. Where there is
memory, those above two standard errors count, up to twice the last that chance does not explain.

Rows in random order hide what they know of each other, and no look at them can tell. Only repeats of a few
states show in any order, where they lie apart from all other rows: of rows with a density in D dimensions,
k D log(d_k+1 / d_k) of the distances d_k to the k-th neighbors is exponential of mean 1.
"""

import numpy as np
import scipy
import torch

from isojepa.statistics.slowness import slow_to_fast

_LEVEL = 0.01  # chance of any memory of independent rows
_RISING, _SIZE = 1.5, 1.2  # variance over that of independent rows, allowed for both kinds of functions
_COLUMNS, _SLOWEST = 8, 4  # dimensions and directions looked at
_FAR = 5.0  # standard errors of a correlation that is looked for at all distances
_SEEN = 2.0  # standard errors from which a correlation counts, once there is memory
_FEW = 12  # rows below which nothing can be seen
_GAP_ROWS, _GAP_DIRECTIONS, _GAP_NEIGHBORS = 200, 8, 1000  # that gaps between neighbors are searched in
_GAP_RATIO, _GAP_LOG = 1.6, 8.0  # distances this ratio apart, by chance in one of exp(8) rows, are a gap
_GAP_SHARE, _GAP_NEAR = 0.5, 0.4  # least share of rows with a gap; largest of pairs that are nearer than it
_REPEATED = 0.7  # states over rows from which on rows do not count as repeated


def measure_memory(z: np.ndarray, z_next: np.ndarray | None, source: torch.Generator) -> int:
    """Every how many rows are nearly independent: 1 if all are.

    Args:
        z: (n, dim) rows in their own order.
        z_next: (n, dim) of the second view, or None.
        source: chooses dimensions where there are many.

    Returns:
        The memory in rows, at most n.
    """
    n, dim = z.shape
    if n < _FEW:
        return 1
    chosen = np.sort(torch.randperm(dim, generator=source)[:_COLUMNS].numpy())
    groups = [_decay(_functions(z[:, chosen], z_next[:, chosen] if z_next is not None else None))]
    half = n // 2
    if dim > 1 and half >= _FEW:
        mean = groups[0][::2].mean(0)[: half // 4]
        far = int(mean.argmax())  # paths that take turns are slow at their number
        lag = 1 + (far if mean[far] * np.sqrt(n) > _FAR else 0)
        slowest = slow_to_fast(z[: half - lag], z[lag:half])[0][:, :_SLOWEST]
        if slowest.shape[1]:  # none where the first half does not vary
            second = None if z_next is None else z_next[half:] @ slowest
            groups.append(_decay(_functions(z[half:] @ slowest, second)))
    tests = sum(correlations.size for correlations in groups)
    reach = -float(scipy.special.ndtri(_LEVEL / (2 * tests)))
    lengths = [n, n - half][: len(groups)]
    least = 1
    for correlations, rows in zip(groups, lengths, strict=True):
        for place, one in enumerate(correlations):
            allowed = _RISING if place % 2 == 0 else _SIZE
            least = max(least, _distance(one, rows, allowed, reach, least))
    return int(min(least, n))


def rank_waves(columns: np.ndarray) -> np.ndarray:
    """Two functions of the ranks of each column of (n, k), cos(pi u) and cos(2 pi u), white: (2 k, n)."""
    n = len(columns)
    functions = []
    for column in columns.T:
        ordered = np.sort(column)
        # ties share their middle rank: an order among them would look like memory
        u = (np.searchsorted(ordered, column) + np.searchsorted(ordered, column, side="right")) / (2 * n)
        for degree in (1, 2):
            wave = np.cos(degree * np.pi * u)
            wave -= wave.mean()
            size = wave.std()
            functions.append(wave / size if size > 1e-9 else np.zeros(n))
    return np.stack(functions)


def _functions(z: np.ndarray, z_next: np.ndarray | None) -> np.ndarray:
    """Functions of the ranks of every column, and of its step: (2 columns or 4 columns, n), white."""
    return rank_waves(z if z_next is None else np.concatenate([z, z_next - z], axis=1))


def _decay(functions: np.ndarray) -> np.ndarray:
    """Correlations (functions, lags) of each function with itself, from 1 row apart to a quarter of all."""
    n = functions.shape[1]
    waves = scipy.fft.rfft(functions, scipy.fft.next_fast_len(2 * n, real=True), axis=1)
    products = scipy.fft.irfft(np.abs(waves) ** 2, scipy.fft.next_fast_len(2 * n, real=True), axis=1)
    correlations: np.ndarray = products[:, 1 : n // 4 + 1] / n
    return correlations


def _distance(correlations: np.ndarray, n: int, allowed: float, reach: float, start: int) -> int:
    """The smallest distance, from `start` on, at which one function's rows are nearly independent."""
    lags = np.arange(1, len(correlations) + 1)
    variances = (n - lags) / n**2
    if not _last(correlations, variances, reach):
        return 1
    # where there is memory, correlations vary more by chance, as they add up themselves (Bartlett 1946)
    growth = 1 + 2 * np.concatenate([[0.0], np.cumsum(correlations**2)[:-1]])
    end = 2 * max(start, _last(correlations, variances * growth, reach))  # beyond, all is chance
    correlations = np.where(lags <= end, correlations, 0.0)
    for distance in range(start, len(correlations) + 1):
        every = slice(distance - 1, None, distance)
        noise = variances[every] * growth[every]
        together = 1 + (growth[every] - 1) / distance  # lags whose errors move together
        if 1 + 2 * _sum(correlations[every], noise, together) <= allowed:
            return distance
    return n  # to be slow all along is to have no independent rows


def _last(correlations: np.ndarray, variances: np.ndarray, reach: float) -> int:
    """The last lag that chance does not explain, alone or in a sum over 2^i <= j < 2^(i + 1); 0 for none."""
    alone = np.flatnonzero(correlations > reach * np.sqrt(variances))
    edges = _edges(len(correlations))
    summed = np.add.reduceat(correlations, edges) > reach * np.sqrt(np.add.reduceat(variances, edges))
    windows = np.flatnonzero(summed)
    return max(int(alone[-1]) + 1 if len(alone) else 0, 2 ** (int(windows[-1]) + 1) if len(windows) else 0)


def _sum(correlations: np.ndarray, variances: np.ndarray, together: np.ndarray) -> float:
    """Sum of the correlations that can be seen, alone or in the same sums."""
    alone = float(correlations[correlations > _SEEN * np.sqrt(variances)].sum())
    edges = _edges(len(correlations))
    sums, spread = np.add.reduceat(correlations, edges), np.add.reduceat(variances * together, edges)
    return max(alone, float(sums[sums > _SEEN * np.sqrt(spread)].sum()))


def _edges(lags: int) -> np.ndarray:
    """Where the sums over 2^i <= j < 2^(i + 1) begin."""
    edges: np.ndarray = 2 ** np.arange(int(np.log2(lags)) + 1) - 1
    return edges


def repeated_states(*sides: np.ndarray) -> np.ndarray | None:
    """States (n,) of rows that lie together, apart from all others, in every side (n, dim), or None."""
    n = len(sides[0])
    if n < 4 * _FEW:
        return None
    asked = np.unique(np.linspace(0, n - 1, _GAP_ROWS).astype(int))
    links = []
    for rows in sides:
        u, sizes, _ = scipy.linalg.svd(rows - rows.mean(0), full_matrices=False)
        z = u[:, sizes > 1e-9 * sizes[0]][:, :_GAP_DIRECTIONS]
        if not z.shape[1]:
            return None
        tree = scipy.spatial.cKDTree(z)
        near = np.asarray(tree.query(z[asked], min(_GAP_NEIGHBORS, n // 4) + 1)[0])[:, 1:]
        near = np.maximum(near, max(1e-9 * np.median(near[:, -1]), np.finfo(float).tiny))
        logs = np.log(near[:, 1:] / near[:, :-1])
        weights = logs * (1 + np.arange(logs.shape[1])) * z.shape[1] * (logs > np.log(_GAP_RATIO))
        at = np.arange(len(asked)), weights.argmax(1)
        gap = weights[at] > _GAP_LOG
        if gap.mean() < _GAP_SHARE:
            return None
        cut = float(np.median(np.sqrt(near[at] * near[at[0], at[1] + 1])[gap]))
        if (scipy.spatial.distance.cdist(z[asked], z[asked]) < cut).mean() > _GAP_NEAR:
            return None
        links.append(tree.query_pairs(cut, output_type="ndarray"))
    pairs = np.concatenate(links)
    graph = scipy.sparse.coo_matrix((np.ones(len(pairs)), pairs.T), (n, n))
    states, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    return np.asarray(labels) if states <= _REPEATED * n else None
