r"""Do the same states have the same neighbours? Overlaps of nearest-neighbour lists, for many k in one pass.

With N_k(i) the k rows nearest to row i, itself left out, in each embedding,

    NO@k     mean_i |N_k^1(i) and N_k^2(i)| / k            (Equation 7 of Social-JEPA; Euclidean distance)
    NOS@k    1 - NO@k                                      (Equation 8: small is alike)
    mutual k-NN    the same with rows divided by their lengths, that is by cosine (Huh et al., 2024)
    cycle k-NN     the share of rows i that have a b in N_k^2(i) with i in N_k^1(b), by cosine (the same)

Equal distances are told apart by the row number.

Chance: a re-paired neighbour is any other row, so that NO@k is k / (n - 1) on average, exactly; the spread
is exact too, from the in-degrees and mutual edges of the two graphs. The number of common neighbours is
nearly Poisson where k is small: p is the tail of the negative binomial or binomial law with this mean and
spread. The mean of cycle k-NN is exact, too; its spread and p come from draws of the pairing. Intervals
come from leaving out each row in turn (the jackknife), of cycle k-NN from the spread over rows, and cover
what the score tends to be at this number of rows: neighbours get nearer as rows are added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.align.metrics.comparison import Comparison, Null, compared, mirrored, null_of_draws
from isojepa.align.metrics.inputs import Pair, check_options, read_pair
from isojepa.align.metrics.search import neighbours
from isojepa.arguments import check_count, checked
from isojepa.certificates.intervals import from_samples
from isojepa.seeds import generator

KS = (1, 5, 10, 20, 50)
K = 10
DRAWS = 99
_BLOCK = 1 << 23


@checked
def neighbour_overlaps(
    first: Any,
    second: Any,
    *,
    ks: Sequence[int] = KS,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> tuple[Comparison, ...]:
    """NO@k for each k, of one search.

    Args:
        first, second: (n, d1) and (n, d2).
        ks: numbers of neighbours, less than n.
        confidence: of the intervals.
        null: whether to work out chance, which is exact and draws nothing.
        draws: not used, for chance is exact; all comparisons take it.
        seed: not used; all comparisons take one.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them, or a k is not less than n.
    """
    pair = read_pair(first, second, drop_constant=drop_constant)
    most = min(max(check_ks(ks, pair.rows)) + 1, pair.rows - 1)
    return overlaps_of(
        "NO", pair, neighbours(pair.first, most), neighbours(pair.second, most), ks, confidence, null
    )


def neighbour_overlap(first: Any, second: Any, *, k: int = K, **options: Any) -> Comparison:
    """NO@k for one k; options as for `neighbour_overlaps`."""
    return neighbour_overlaps(first, second, ks=(k,), **options)[0]


def neighbour_disagreements(
    first: Any, second: Any, *, ks: Sequence[int] = KS, **options: Any
) -> tuple[Comparison, ...]:
    """NOS@k = 1 - NO@k for each k, of one search; options as for `neighbour_overlaps`."""
    return tuple(map(disagreement, neighbour_overlaps(first, second, ks=ks, **options)))


def neighbour_disagreement(first: Any, second: Any, *, k: int = K, **options: Any) -> Comparison:
    """NOS@k for one k; options as for `neighbour_overlaps`."""
    return neighbour_disagreements(first, second, ks=(k,), **options)[0]


@checked
def mutual_knn(
    first: Any,
    second: Any,
    *,
    k: int = K,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Mutual k-NN: the overlap of neighbours by cosine. Arguments as for `neighbour_overlaps`."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    (k,) = check_ks((k,), pair.rows)
    most = min(k + 1, pair.rows - 1)
    one, two = (neighbours(directions(rows), most) for rows in (pair.first, pair.second))
    return overlaps_of("mutual k-NN", pair, one, two, (k,), confidence, null)[0]


@checked
def cycle_knn(
    first: Any,
    second: Any,
    *,
    k: int = K,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Cycle k-NN: the share of rows that come back to themselves over a neighbour in the second embedding."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    (k,) = check_ks((k,), pair.rows)
    one, two = (neighbours(directions(rows), k) for rows in (pair.first, pair.second))
    return cycle_of(pair, one, two, k, confidence, null, draws, seed)


def overlaps_of(
    name: str, pair: Pair, one: Tensor, two: Tensor, ks: Sequence[int], confidence: float, null: bool
) -> tuple[Comparison, ...]:
    """Overlaps of two lists of neighbours, (n, largest k + 1) unless there are no more, for each k."""
    check_options(confidence)
    places = _places(one, two), _places(two, one)
    graphs = (_Graphs.of(one), _Graphs.of(two)) if null else None
    found = []
    for k in ks:
        shared, without = _left_out(one, two, *places, k)
        value = shared / (k * pair.rows)
        interval = from_samples((pair.rows - 1) * (value - without), confidence, value)
        chance = None if graphs is None else _overlap_null(shared, k, *graphs)
        found.append(compared(f"{name}@{k}", interval, chance, best=1.0, rows=pair.rows, note=pair.note))
    return tuple(found)


def disagreement(overlap: Comparison) -> Comparison:
    """NOS@k of NO@k."""
    return mirrored(overlap, overlap.name.replace("NO@", "NOS@"))


def cycle_of(
    pair: Pair, one: Tensor, two: Tensor, k: int, confidence: float, null: bool, draws: int, seed: int
) -> Comparison:
    """Cycle k-NN of two lists of neighbours (n, k or more)."""
    check_options(confidence, draws)
    n = pair.rows
    one, two = one[:, :k].contiguous(), two[:, :k].contiguous()
    back = _edges(one)
    value = _back(back, two, n)
    interval = from_samples(value.numpy(), confidence)
    found = None
    if null:
        source = generator(seed, "pairing")
        drawn = np.empty(draws)
        for place in range(draws):
            order = torch.randperm(n, generator=source)
            whose = torch.empty_like(order)
            whose[order] = torch.arange(n)
            drawn[place] = float(_back(back, whose[two[order]], n).mean())
        how = f"exact mean, {draws} draws on {n} rows"
        found = null_of_draws(interval.estimate, drawn, True, how)
        found = Null(_cycle_mean(one, k), found.spread, found.p, how)
    return compared(f"cycle k-NN@{k}", interval, found, best=1.0, rows=n, note=pair.note)


def directions(rows: Tensor) -> Tensor:
    """Rows divided by their lengths.

    Raises:
        ValueError: a row has length 0.
    """
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if bool((lengths == 0).any()):
        row = int((lengths[:, 0] == 0).nonzero()[0])
        raise ValueError(f"rows must have a length to be compared by cosine, got zeros in row {row}")
    found: Tensor = rows / lengths
    return found


def check_ks(ks: Sequence[int], rows: int) -> tuple[int, ...]:
    """Numbers of neighbours that there are.

    Raises:
        ValueError: there is none, or one that is not between 1 and rows - 1.
    """
    found = tuple(check_count("k", k) for k in ks)
    if not found or max(found) >= rows:
        raise ValueError(
            f"k must be less than the {rows} rows, which have {rows - 1} neighbours each, got "
            f"{max(found) if found else 'none'}: use more rows or a smaller k"
        )
    return found


def _places(one: Tensor, two: Tensor) -> Tensor:
    """Where the neighbours in one list (n, most) stand in the other; most for those that do not."""
    n, most = one.shape
    found = torch.full((n, most), most)
    step = max(1, _BLOCK // most**2)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        row, place, other = (one[rows, :, None] == two[rows, None, :]).nonzero().T
        found[row + start, place] = other
    return found


def _left_out(one: Tensor, two: Tensor, there: Tensor, back: Tensor, k: int) -> tuple[float, np.ndarray]:
    """The number of common neighbours, and NO@k without each of the rows, (n,).

    Where a row is left out that is among the k neighbours of another, the neighbour k + 1 takes its place.
    """
    n, most = one.shape
    both = there[:, :k] < k
    # the next neighbour of one list is in the other, and the reverse; it is the same
    zero = torch.zeros(n, dtype=torch.int64)
    next_one, next_two = ((p[:, k] < k).long() if most > k else zero for p in (there, back))
    same = (there[:, k] == k).long() if most > k else zero
    shared = both.sum(1)
    total = int(shared.sum())
    change = -shared
    gain = torch.where(both, (next_one + next_two + same - 1)[:, None], next_one[:, None])
    change.index_add_(0, one[:, :k].flatten(), gain.flatten())
    gain = torch.where(back[:, :k] < k, 0, next_two[:, None])
    change.index_add_(0, two[:, :k].flatten(), gain.flatten())
    return float(total), (total + change).double().numpy() / ((n - 1) * k)


@dataclass(frozen=True)
class _Graphs:
    """What the moments of an overlap need of a neighbour graph, for every k.

    Attributes:
        n: rows.
        mutual: edges whose reverse is an edge, (most,).
        in_squares: sum of the squared in-degrees, (most,).
    """

    n: int
    mutual: np.ndarray
    in_squares: np.ndarray

    @classmethod
    def of(cls, lists: Tensor) -> "_Graphs":
        n, most = lists.shape
        rows = torch.arange(n)[:, None].expand(n, most)
        ranks = torch.arange(most).expand(n, most)
        there, order = (rows * n + lists).flatten().sort()
        back = (lists * n + rows).flatten()
        place = torch.searchsorted(there, back).clamp_max(len(there) - 1)
        known = there[place] == back
        at = torch.maximum(ranks.flatten()[order[place]], ranks.flatten())[known]
        mutual = torch.bincount(at, minlength=most).cumsum(0)
        degrees = torch.zeros(n, dtype=torch.int64)
        squares = []
        for k in range(most):
            degrees += torch.bincount(lists[:, k], minlength=n)
            squares.append(int(degrees @ degrees))
        return cls(n, mutual.double().numpy(), np.array(squares, dtype=np.float64))

    def sums(self, k: int) -> np.ndarray:
        """Products of two edges: the same one, reversed, from one row, into one row, in line, apart."""
        n, mutual = self.n, self.mutual[k - 1]
        edges = float(n * k)
        same = np.array(
            [edges, mutual, edges * k - edges, self.in_squares[k - 1] - edges, 2 * (edges * k - mutual)]
        )
        return np.append(same, edges**2 - same.sum())


def _overlap_null(shared: float, k: int, one: _Graphs, two: _Graphs) -> Null:
    n = one.n
    pairs, triples = n * (n - 1.0), n * (n - 1.0) * (n - 2)
    counts = np.array([pairs, pairs, triples, triples, 2 * triples, triples * max(1, n - 3)])
    mean = float(n * k) ** 2 / pairs
    variance = max(0.0, float((one.sums(k) * two.sums(k) / counts).sum()) - mean**2)
    p = _count_tail(shared, mean, variance)
    return Null(k / (n - 1), math.sqrt(variance) / (n * k), p, "exact moments")


def _count_tail(count: float, mean: float, variance: float) -> float:
    """P(T >= count) of a count with this mean and variance: negative binomial, Poisson or binomial."""
    if count <= 0:
        return 1.0
    ratio = variance / mean
    if ratio > 1 + 1e-9:
        return float(scipy.special.betainc(count, mean / (ratio - 1), 1 - 1 / ratio))
    if ratio < 1 - 1e-9:
        trials = max(mean / max(1 - ratio, 1e-300), count)
        return float(scipy.special.betainc(count, trials - count + 1, mean / trials))
    return float(scipy.special.gammainc(count, mean))


def _edges(lists: Tensor) -> Tensor:
    n = len(lists)
    return (torch.arange(n)[:, None] * n + lists).flatten().sort().values


def _back(edges: Tensor, lists: Tensor, n: int) -> Tensor:
    """Whether row i is in the list of one of its neighbours, (n,); `edges` are those of the first side."""
    wanted = lists * n + torch.arange(n)[:, None]
    place = torch.searchsorted(edges, wanted).clamp_max(len(edges) - 1)
    return (edges[place] == wanted).any(1).double()


def _cycle_mean(lists: Tensor, k: int) -> float:
    """1 - mean_i of the chance that k of n - 1 others miss those that have i in their list."""
    n = len(lists)
    into = torch.bincount(lists.flatten(), minlength=n).double().numpy()
    log = scipy.special.gammaln
    free = n - 1 - into
    miss = np.where(
        free >= k, np.exp(log(free + 1) - log(np.maximum(free - k, 0) + 1) - log(n) + log(n - k)), 0.0
    )
    return float(1 - miss.mean())
