r"""Exact moments of T = sum_ij A_ij B_pi(i)pi(j) over all n! permutations pi, for symmetric A and B.

Linear CKA, the error of a regression and the correlation of two sets of distances are all of this form. The
mean of T^m is a sum over the ways in which its 2m indices can coincide: a way with v different indices
makes a graph g with v vertices and m edges, and counts

    S_g(A) S_g(B) / (n (n-1) ... (n-v+1)),

where S_g is the sum of the product of entries along the edges over all choices of *different* indices. Sums
over different indices follow from sums over all indices by Moebius inversion on partitions, and those fall
apart into the few connected graphs of at most three edges: `Form` holds them. For centred A and B this is
what Kazi-Aoual, Hitier, Sabatier and Lebreton (1995) give for the RV coefficient, for distances what Mantel
(1967) gives.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Graph = tuple[tuple[int, int], ...]
Partition = tuple[tuple[int, ...], ...]
COLUMNS = 128  # of a large matrix that its sums of three entries are estimated from


@dataclass(frozen=True)
class Form:
    """Sums over all indices of a symmetric matrix, one for each connected graph of at most three edges.

    Attributes:
        n: rows of the matrix.
        sums: by graph; an edge (0, 0) is an entry of the diagonal. What is not there is 0.
    """

    n: int
    sums: dict[Graph, float]

    @classmethod
    def of(
        cls,
        apply: Callable[[Tensor], Tensor],
        diagonal: Tensor,
        square: float,
        *,
        columns: Tensor | None,
        total: bool = False,
    ) -> "Form":
        """The form of a matrix that is only known by its products.

        Sums of one and two entries are exact. Those of three entries come from some columns, all of them
        where there are few: they only shape the tail.

        Args:
            apply: the matrix times (n, m).
            diagonal: (n,).
            square: the sum of its squared entries.
            columns: which of them to look at; None where the skewness does not matter.
            total: whether rows may sum to something else than 0.
        """
        n, a = len(diagonal), diagonal
        if columns is None:
            plain: dict[Graph, Tensor | float] = {
                ((0, 0),): a.sum(),
                ((0, 1), (0, 1)): square,
                ((0, 0), (0, 0)): a @ a,
            }
            return cls(n, {_canonical(graph): float(value) for graph, value in plain.items()})
        units = torch.zeros(n, len(columns), dtype=a.dtype)
        units[columns, torch.arange(len(columns))] = 1.0
        seen = apply(units)
        factor, squares = n / len(columns), seen**2
        sums: dict[Graph, Tensor | float] = {
            ((0, 0),): a.sum(),
            ((0, 1), (0, 1)): square,
            ((0, 0), (0, 0)): a @ a,
            ((0, 0), (0, 0), (0, 0)): (a**3).sum(),
            ((0, 0), (0, 1), (1, 1)): a @ apply(a[:, None])[:, 0],
            ((0, 0), (0, 1), (0, 1)): factor * (squares.sum(0) @ a[columns]),
            ((0, 1), (0, 1), (0, 1)): factor * (squares * seen).sum(),
            ((0, 1), (0, 2), (1, 2)): factor * (seen * apply(seen)).sum(),
        }
        if total:
            r = apply(torch.ones(n, 1, dtype=a.dtype))[:, 0]
            sums |= {
                ((0, 1),): r.sum(),
                ((0, 1), (0, 2)): r @ r,
                ((0, 0), (0, 1)): a @ r,
                ((0, 1), (0, 1), (0, 2)): factor * (squares.sum(0) @ r[columns]),
                ((0, 1), (0, 2), (0, 3)): (r**3).sum(),
                ((0, 1), (0, 2), (1, 3)): r @ apply(r[:, None])[:, 0],
                ((0, 0), (0, 1), (1, 2)): a @ apply(r[:, None])[:, 0],
                ((0, 0), (0, 1), (0, 2)): a @ r**2,
                ((0, 0), (0, 0), (0, 1)): a**2 @ r,
            }
        return cls(n, {_canonical(graph): float(value) for graph, value in sums.items()})


def moments(one: Form, two: Form) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness of T.

    Args:
        one, two: of A and B. Where the mean is large against the spread, take a multiple of the centring
            matrix from A and B first, so that it is not: that only moves T.
    """
    first, second, third = (_raw(one, two, power) for power in (1, 2, 3))
    variance = second - first**2
    # what rounding leaves of a T that never changes
    if variance <= 1e-13 * max(second, first**2):
        return first, 0.0, 0.0
    skewness = (third - 3 * first * second + 2 * first**3) / variance**1.5
    return first, math.sqrt(variance), skewness


def _raw(one: Form, two: Form, power: int) -> float:
    table = _table(power)
    different = [
        table.factors @ [math.prod(form.sums.get(part, 0.0) for part in kind) for kind in table.kinds]
        for form in (one, two)
    ]
    ways = np.array([math.perm(one.n, vertices) for vertices in table.vertices], dtype=np.float64)
    there = ways > 0  # with fewer rows than vertices there is no such choice
    return float((table.counts * different[0] * different[1])[there] @ (1 / ways[there]))


@dataclass(frozen=True)
class _Table:
    """All kinds of graphs with a number of edges.

    Attributes:
        kinds: connected parts of each.
        vertices: of each.
        counts: how many partitions of the indices make it.
        factors: sums over different indices are these times products of sums over all, (kinds, kinds).
    """

    kinds: tuple[tuple[Graph, ...], ...]
    vertices: tuple[int, ...]
    counts: np.ndarray
    factors: np.ndarray


@functools.cache
def _table(edges: int) -> _Table:
    counts: Counter[tuple[Graph, ...]] = Counter()
    example: dict[tuple[Graph, ...], Partition] = {}
    for partition in _partitions(tuple(range(2 * edges))):
        kind = _parts(partition)
        counts[kind] += 1
        example.setdefault(kind, partition)
    kinds = tuple(counts)
    place = {kind: number for number, kind in enumerate(kinds)}
    factors = np.zeros((len(kinds), len(kinds)))
    for row, kind in enumerate(kinds):
        fine = example[kind]
        for merging in _partitions(tuple(range(len(fine)))):
            coarse = tuple(tuple(slot for block in group for slot in fine[block]) for group in merging)
            sign = math.prod((-1) ** (len(group) - 1) * math.factorial(len(group) - 1) for group in merging)
            factors[row, place[_parts(coarse)]] += sign
    vertices = tuple(len(example[kind]) for kind in kinds)
    return _Table(kinds, vertices, np.array([float(counts[kind]) for kind in kinds]), factors)


def _partitions(items: tuple[int, ...]) -> Iterator[Partition]:
    if not items:
        yield ()
        return
    for rest in _partitions(items[1:]):
        yield ((items[0],), *rest)
        for place, block in enumerate(rest):
            yield (*rest[:place], (items[0], *block), *rest[place + 1 :])


def _parts(partition: Partition) -> tuple[Graph, ...]:
    """Connected parts of the graph with blocks of slots as vertices and edges (0, 1), (2, 3), ..."""
    vertex = {slot: number for number, block in enumerate(partition) for slot in block}
    edges = [(vertex[slot], vertex[slot + 1]) for slot in range(0, len(vertex), 2)]
    parts: list[tuple[set[int], list[tuple[int, int]]]] = []
    for edge in edges:
        reached, kept = set(edge), [edge]
        apart = []
        for other in parts:
            if other[0] & reached:
                reached |= other[0]
                kept += other[1]
            else:
                apart.append(other)
        parts = [*apart, (reached, kept)]
    return tuple(sorted(_canonical(tuple(kept)) for _, kept in parts))


@functools.cache
def _canonical(graph: Graph) -> Graph:
    vertices = sorted({vertex for edge in graph for vertex in edge})
    return min(
        tuple(sorted((min(name[a], name[b]), max(name[a], name[b])) for a, b in graph))
        for order in itertools.permutations(range(len(vertices)))
        for name in [dict(zip(vertices, order, strict=True))]
    )
