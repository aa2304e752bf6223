r"""Linear CKA (Kornblith et al., 2019), biased and unbiased, in feature space.

With centred rows x_i, y_i and Gram matrices K = X X', L = Y Y',

    CKA = <K, L> / sqrt(<K, K> <L, L>),        <K, L> = ||X' Y||^2,

which needs d x d matrices only, n d^2 operations and no n x n matrix. The unbiased form (Song et al., 2012;
Nguyen et al., 2021) puts for <K, L>

    <K, L>_u = ||X' Y||^2 - n/(n - 2) a . b + sum(a) sum(b) / ((n - 1)(n - 2)), a_i = |x_i|^2, b_i = |y_i|^2,

the same thing as their sums over different indices, where 0 is what chance gives. Where there are fewer
rows than columns, K and L are the smaller matrices and are taken instead.

Chance: both numerators are permutation statistics (`permutations`), whose mean and spread are exact; the
denominators do not change when rows are re-paired.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.metrics.comparison import Comparison, Null, compared, pearson_tail
from isojepa.align.metrics.inputs import Pair, centred, check_options, read_pair
from isojepa.align.metrics.permutations import COLUMNS, Form, moments
from isojepa.arguments import checked
from isojepa.certificates.intervals import from_samples
from isojepa.seeds import generator

UNBIASED_ROWS = 4


_PIECE = 1024  # rows
_TINY, _HUGE = 1e-200, 1e200


@dataclass(frozen=True)
class Gram:
    """One side: centred rows, and their products among themselves.

    Attributes:
        rows: (n, d), centred.
        products: X' X (d, d), or X X' (n, n) where that is smaller.
    """

    rows: Tensor
    products: Tensor

    @functools.cached_property
    def lengths(self) -> Tensor:
        """Of the rows, squared, (n,)."""
        lengths: Tensor = torch.linalg.vector_norm(self.rows, dim=1).square_()
        return lengths

    @classmethod
    def of(cls, rows: Tensor) -> "Gram":
        """Centre the rows (n, d) first, and scale them, which no CKA notices."""
        x = centred(rows)
        return cls(x, x @ x.T if len(x) < x.shape[1] else x.T @ x)

    def apply(self, v: Tensor) -> Tensor:
        """K v, for (n, m)."""
        return self.products @ v if len(self.rows) < self.rows.shape[1] else self.rows @ (self.rows.T @ v)


def cka_value(first: Any, second: Any, *, unbiased: bool = False) -> float:
    """Linear CKA alone.

    Args:
        first, second: (n, d1) and (n, d2).
        unbiased: the form whose mean is 0 at chance.

    Example:
        >>> x = torch.randn(50, 3, generator=generator(0, "example"))
        >>> round(cka_value(x, 2 * x.flip(1)), 6)
        1.0
    """
    pair = read_pair(first, second, least=UNBIASED_ROWS)
    quick = None if unbiased else _in_pieces(pair.first, pair.second)
    return _value(Gram.of(pair.first), Gram.of(pair.second), unbiased) if quick is None else quick


def _in_pieces(x: Tensor, y: Tensor) -> float | None:
    """CKA with rows centred piece by piece, each while it lies in the cache; None where that cannot serve."""
    n, widths = len(x), (x.shape[1], y.shape[1])
    if n < max(widths):
        return None
    given, means = (x.numpy(), y.numpy()), (x.mean(0).numpy(), y.mean(0).numpy())
    xx, yy, xy = np.zeros((widths[0], widths[0])), np.zeros((widths[1], widths[1])), np.zeros(widths)
    room = [np.empty((min(n, _PIECE), width)) for width in widths]
    for start in range(0, n, _PIECE):
        a, b = (
            np.subtract(rows[start : start + _PIECE], mean, out=out[: min(_PIECE, n - start)])
            for rows, mean, out in zip(given, means, room, strict=True)
        )
        xx += a.T @ a  # numpy, unlike torch, computes one half of a symmetric product
        yy += b.T @ b
        xy += a.T @ b
    shared, own = float(np.vdot(xy, xy)), float(np.vdot(xx, xx)) * float(np.vdot(yy, yy))
    # of huge and of tiny numbers squares are none
    return shared / math.sqrt(own) if _TINY < shared < _HUGE and _TINY < own < _HUGE else None


@checked
def cka(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Linear CKA, 0 to 1; inflated by width and small samples, e.g. about 0.2 for independent (32, 8) data.

    The interval, from influence values, covers what CKA tends to be at this number of rows.

    Args:
        first, second: (n, d1) and (n, d2).
        confidence: of the interval.
        null: whether to work out chance.
        draws: not used, for chance is exact; all comparisons take it.
        seed: of the columns that the skewness of the null is taken from.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them.
    """
    pair = read_pair(first, second, least=UNBIASED_ROWS, drop_constant=drop_constant)
    return cka_of(pair, Gram.of(pair.first), Gram.of(pair.second), False, confidence, null, seed)


@checked
def unbiased_cka(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Unbiased linear CKA: 1 for the same up to rotation and scale, 0 on average at chance, below 0 at times.

    The interval, from influence values, covers CKA of the whole population. Arguments as for `cka`.
    """
    pair = read_pair(first, second, least=UNBIASED_ROWS, drop_constant=drop_constant)
    return cka_of(pair, Gram.of(pair.first), Gram.of(pair.second), True, confidence, null, seed)


def cka_of(
    pair: Pair, one: Gram, two: Gram, unbiased: bool, confidence: float, null: bool, seed: int
) -> Comparison:
    """CKA of two sides that are already centred."""
    check_options(confidence)
    value = _value(one, two, unbiased)
    interval = from_samples(_influences(one, two, value, unbiased).numpy(), confidence, value)
    found = _null(one, two, value, unbiased, seed) if null else None
    name = "unbiased CKA" if unbiased else "CKA"
    return compared(name, interval, found, best=1.0, rows=pair.rows, note=pair.note)


def _value(one: Gram, two: Gram, unbiased: bool) -> float:
    squares = _inner(one, one, unbiased) * _inner(two, two, unbiased)
    if not squares > 0:
        raise ValueError(
            "first and second must vary enough for the unbiased CKA, got an unbiased size of 0 or less: use "
            "cka, or more rows"
        )
    return _inner(one, two, unbiased) / math.sqrt(squares)


def _inner(one: Gram, two: Gram, unbiased: bool) -> float:
    """<K, L>, or its unbiased form times n (n - 3)."""
    n = len(one.rows)
    if one is two:
        plain = float((one.products**2).sum())
    elif one.products.shape == two.products.shape == (n, n):
        plain = float((one.products * two.products).sum())
    else:
        plain = float(((one.rows.T @ two.rows) ** 2).sum())
    if not unbiased:
        return plain
    a, b = one.lengths, two.lengths
    return plain - n / (n - 2) * float(a @ b) + float(a.sum() * b.sum()) / ((n - 1) * (n - 2))


def _influences(one: Gram, two: Gram, value: float, unbiased: bool) -> Tensor:
    """What each row adds to the score, to first order: (n,) with mean 0."""
    n = len(one.rows)
    cross = (two.rows * (one.rows @ (one.rows.T @ two.rows))).sum(1)
    own = [(side.rows * _rows_times(side)).sum(1) for side in (one, two)]
    if unbiased:
        a, b = one.lengths, two.lengths
        for entries, left, right in ((cross, a, b), (own[0], a, a), (own[1], b, b)):
            entries -= n / (n - 2) * left * right
            entries += (left * right.sum() + right * left.sum()) / (2 * (n - 1) * (n - 2))
    parts = [2 * (part / part.sum() - 1 / n) for part in (cross, *own)]
    return n * value * (parts[0] - (parts[1] + parts[2]) / 2)


def _rows_times(side: Gram) -> Tensor:
    wide = len(side.rows) < side.rows.shape[1]
    return side.products @ side.rows if wide else side.rows @ side.products


def _null(one: Gram, two: Gram, value: float, unbiased: bool, seed: int) -> Null:
    n = len(one.rows)
    columns = torch.randperm(n, generator=generator(seed, "columns"))[:COLUMNS]
    form = _different_form if unbiased else _form
    _, spread, skewness = moments(form(one, columns), form(two, columns))
    size = math.sqrt(_inner(one, one, unbiased) * _inner(two, two, unbiased))
    mean = 0.0 if unbiased else float(one.lengths.sum() * two.lengths.sum()) / (n - 1) / size
    return Null(mean, spread / size, pearson_tail(value, mean, spread / size, skewness), "exact moments")


def _form(side: Gram, columns: Tensor) -> Form:
    """Of K - c H, H the centring matrix and c such that the trace is 0, so that the mean of T is 0 too."""
    n, trace = len(side.rows), float(side.lengths.sum())
    c = trace / (n - 1)
    apply = _shifted(side.apply, c)
    return Form.of(
        apply,
        side.lengths - c * (1 - 1 / n),
        float((side.products**2).sum()) - c * trace,
        columns=columns,
    )


def _shifted(apply: Callable[[Tensor], Tensor], c: float) -> Callable[[Tensor], Tensor]:
    return lambda v: apply(v) - c * (v - v.mean(0))


def _different_form(side: Gram, columns: Tensor) -> Form:
    """Of K with a diagonal of 0 and rows that sum to 0 nonetheless (Szekely and Rizzo, 2014)."""
    n, a = len(side.rows), side.lengths
    u = (a - float(a.sum()) / (2 * (n - 1))) / (n - 2)
    ones = torch.ones_like(u)

    def apply(v: Tensor) -> Tensor:
        outer = torch.outer(u, ones @ v) + torch.outer(ones, u @ v)
        return side.apply(v) + outer - (a + 2 * u)[:, None] * v

    return Form.of(apply, torch.zeros_like(a), _inner(side, side, True), columns=columns)
