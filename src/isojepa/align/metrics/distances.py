r"""Are the same states far apart? Spearman correlation of the distances between rows in two embeddings.

    DSC    distance-structure consistency of Social-JEPA: Euclidean distances
    RSA    representational similarity analysis (Kriegeskorte et al., 2008): by default 1 - the correlation
           of two rows over their columns; "cosine" is 1 - cosine, "euclidean" makes it DSC

Equal distances share their mean rank; those that differ by less than 1e-12 of the largest are equal. All
pairs of up to 3,000 rows are compared. Beyond, rows are put into groups at random, and the pairs within
groups are: some 4.5 million pairs in which every row has the same part, as long as groups of 256 suffice
for that; then some rows are left out.

Chance: the correlation of re-paired rows has mean 0. Its moments are exact (Mantel, 1967; `permutations`),
where there are groups for rows that are re-paired within them. Intervals, from the influence of each row on
Spearman's correlation, its ranks included, cover the correlation over all pairs of states.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.metrics.comparison import Comparison, Null, compared, pearson_tail
from isojepa.align.metrics.inputs import Pair, check_options, read_pair
from isojepa.align.metrics.permutations import COLUMNS, Form, moments
from isojepa.arguments import checked
from isojepa.certificates.intervals import from_samples
from isojepa.names import choose
from isojepa.seeds import generator

EXACT = 3_000  # rows
_LEAST = 256  # rows of a group
_TIED = 1e-12


def dsc_value(first: Any, second: Any, *, seed: int = 0) -> float:
    """DSC alone; exact up to 3,000 rows.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(dsc_value(x, 1 - 2 * x[:, ::-1]), 6)
        1.0
    """
    pair = read_pair(first, second)
    places = groups(pair.rows, seed)
    one, two = (Ranks.of(rows, places, "euclidean") for rows in (pair.first, pair.second))
    return float(one.scores @ two.scores)


@checked
def dsc(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Distance-structure consistency.

    Args:
        first, second: (n, d1) and (n, d2).
        confidence: of the interval.
        null: whether to work out chance.
        draws: not used, for chance is exact; all comparisons take it.
        seed: of the groups.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them.
    """
    pair = read_pair(first, second, drop_constant=drop_constant)
    places = groups(pair.rows, seed)
    one, two = (Ranks.of(rows, places, "euclidean") for rows in (pair.first, pair.second))
    return correlation_of("DSC", pair, one, two, confidence, null)


@checked
def rsa(
    first: Any,
    second: Any,
    *,
    dissimilarity: str = "correlation",
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Representational similarity analysis; `dissimilarity` is correlation, cosine or euclidean."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    places = groups(pair.rows, seed)
    one, two = (Ranks.of(rows, places, dissimilarity) for rows in (pair.first, pair.second))
    return correlation_of("RSA", pair, one, two, confidence, null)


def groups(rows: int, seed: int) -> Tensor:
    """Which rows are compared with each other: (groups, rows of a group), one group where all are."""
    if rows <= EXACT:
        return torch.arange(rows)[None]
    pairs = EXACT**2 / 2
    size = max(_LEAST, min(EXACT, int(2 * pairs / rows)))
    count = min(-(-rows // size), int(2 * pairs / size**2))
    size = min(size, rows // count)
    order = torch.randperm(rows, generator=generator(seed, "groups"))
    return order[: count * size].reshape(count, size)


@dataclass(frozen=True)
class Ranks:
    """Ranks of the distances between rows of one group, over all groups.

    Attributes:
        places: the rows, (groups, size).
        scores: ranks with mean 0 and length 1, (groups * pairs,).
        order: pairs from the nearest to the farthest.
    """

    places: Tensor
    scores: Tensor
    order: Tensor

    @classmethod
    def of(cls, rows: Tensor, places: Tensor, dissimilarity: str) -> "Ranks":
        """Measure and rank.

        Raises:
            ValueError: the dissimilarity is unknown, or is not defined for these rows.
        """
        measured = choose("dissimilarity", dissimilarity, DISSIMILARITIES)(rows)
        count, size = places.shape
        i, j = torch.triu_indices(size, size, 1)
        flat = i * size + j
        found = torch.empty(count, len(flat), dtype=torch.float64)
        for group in range(count):
            x = measured[places[group]]
            x = x - x.mean(0)
            lengths = x.square().sum(1)
            squares = torch.addmm(lengths[None], x, x.T, alpha=-2).add_(lengths[:, None])
            found[group] = squares.view(-1)[flat]
        step = _TIED * float(found.max()) or 1.0
        values = found.flatten().div_(step).round_().numpy()
        order = np.argsort(values)
        ranks = _mean_ranks(values, order)
        ranks -= ranks.mean()
        size_of_all = np.linalg.norm(ranks)
        if not size_of_all > 0:
            raise ValueError("rows must differ in their distances to have ranks, got all distances equal")
        return cls(places, torch.from_numpy(ranks / size_of_all), torch.from_numpy(order))

    def matrices(self) -> Tensor:
        """The scores as symmetric matrices (groups, size, size) with a diagonal of 0."""
        count, size = self.places.shape
        i, j = torch.triu_indices(size, size, 1)
        found = torch.zeros(count, size * size, dtype=torch.float64)
        scores = self.scores.view(count, -1)
        found[:, i * size + j] = scores
        found[:, j * size + i] = scores
        return found.view(count, size, size)


def correlation_of(
    name: str, pair: Pair, one: Ranks, two: Ranks, confidence: float, null: bool
) -> Comparison:
    """Spearman's correlation of two sets of ranks, with interval and chance."""
    check_options(confidence)
    value = float(one.scores @ two.scores)
    count, size = one.places.shape
    interval = from_samples(_influences(one, two, value), confidence, value)
    found = _null(one, two, value) if null else None
    whole = count == 1
    return compared(name, interval, found, best=1.0, rows=count * size, subsample=not whole, note=pair.note)


def _influences(one: Ranks, two: Ranks, value: float) -> np.ndarray:
    """What each row adds: twice the mean influence of its pairs, (rows,)."""
    a, b = one.scores, two.scores
    pairs = len(a)
    # a pair moves the ranks of all that are farther: sums of the other side's scores over those
    moved = torch.empty_like(a)
    moved[one.order] = b[one.order].flip(0).cumsum(0).flip(0)
    added = torch.empty_like(b)
    added[two.order] = a[two.order].flip(0).cumsum(0).flip(0)
    unit = (12 / pairs) ** 0.5  # of a rank in these scores, over the number of pairs
    added.add_(moved).mul_(unit).add_(a * b, alpha=pairs)
    added -= added.mean()
    count, size = one.places.shape
    i, j = torch.triu_indices(size, size, 1)
    rows = torch.zeros(count, size, dtype=torch.float64)
    each = added.view(count, -1)
    rows.index_add_(1, i, each).index_add_(1, j, each)
    found: np.ndarray = (2 * rows / (size - 1)).flatten().numpy()
    return found


def _null(one: Ranks, two: Ranks, value: float) -> Null:
    count, size = one.places.shape
    mean = variance = third = 0.0
    for first, second in zip(one.matrices(), two.matrices(), strict=True):
        middle, spread, skewness = moments(_form(first), _form(second))
        # every pair stands twice in a matrix
        mean += middle / 2
        variance += spread**2 / 4
        third += skewness * spread**3 / 8
    spread = variance**0.5
    skewness = third / spread**3 if spread > 0 else 0.0
    how = "exact moments" if count == 1 else f"exact moments, re-paired within groups of {size}"
    return Null(mean, spread, pearson_tail(value, mean, spread, skewness), how)


def _form(matrix: Tensor) -> Form:
    columns = torch.arange(len(matrix))
    if len(columns) > COLUMNS:
        columns = columns[:: len(columns) // COLUMNS]
    square = float(matrix.square().sum())
    return Form.of(lambda v: matrix @ v, matrix.diagonal().clone(), square, columns=columns, total=True)


def _mean_ranks(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Ranks from 0 on; equal values have the mean of theirs."""
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ranks = np.empty(len(values))
    if len(starts) == len(values):
        ranks[order] = np.arange(len(values), dtype=np.float64)
        return ranks
    ends = np.append(starts[1:], len(values))
    ranks[order] = np.repeat((starts + ends - 1) / 2, ends - starts)
    return ranks


def _as_they_are(rows: Tensor) -> Tensor:
    size = torch.linalg.vector_norm(rows - rows.mean(0), ord=torch.inf)
    found: Tensor = (rows - rows.mean(0)) / size
    return found


def _directions(rows: Tensor) -> Tensor:
    """Of length 1: half the squared distance of two is 1 - their cosine."""
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if bool((lengths == 0).any()):
        row = int((lengths[:, 0] == 0).nonzero()[0])
        raise ValueError(f"rows must not be 0 or constant for this dissimilarity, got row {row}: euclidean")
    found: Tensor = rows / lengths
    return found


def _profiles(rows: Tensor) -> Tensor:
    if rows.shape[1] < 3:
        raise ValueError(
            f"rows must have at least 3 columns to be correlated, got {rows.shape[1]}: use euclidean"
        )
    means = rows.mean(1, keepdim=True)
    left = rows - means
    left[left.abs().amax(1) <= 1e-12 * means[:, 0].abs()] = 0.0  # what rounding leaves of a constant
    return _directions(left)


DISSIMILARITIES = {"euclidean": _as_they_are, "cosine": _directions, "correlation": _profiles}
