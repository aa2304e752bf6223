r"""Rank correlation with an interval that knows which runs belong together.

Spearman's correlation is Pearson's of ranks. Within strata (runs of one rho, say) the ranks are taken inside
each stratum, centered and divided by its size, and pooled:

    r = sum_s cov_s / sqrt(sum_s var_x,s  sum_s var_y,s),

which is Spearman's own for a single stratum and does not see what differs between strata.

Seeds of one cell are no independent runs, so the interval leaves out whole cells: a delete-a-block jackknife
of atanh r over up to 20 blocks of cells.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from isojepa.statistics.intervals import Interval, from_blocks
from isojepa_lab.studies.findings import Column, Table

_BLOCKS = 20
_LEAST_CELLS = 4
_LEAST_RUNS = 3  # of a stratum that counts
_ONE = 1 - 1e-9  # atanh of a perfect correlation is infinite


def rank_correlation(
    x: Sequence[float],
    y: Sequence[float],
    cells: Sequence[Hashable],
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval | None:
    """Spearman's correlation of x and y, within strata if they are given.

    Args:
        x, y: one value per run, finite.
        cells: what runs share that belong together; whole cells are left out for the interval.
        strata: ranks are taken within these; by default all runs are one.
        confidence: of the interval. Its ends are NaN for fewer than 4 cells.

    Returns:
        None where no correlation exists: too few runs, or one of the two is constant.

    Raises:
        ValueError: the lengths differ, or a value is not finite.

    Example:
        >>> round(rank_correlation([1, 2, 3, 4, 5], [1, 4, 9, 20, 7], range(5)).estimate, 2)
        0.7
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    layers = [0] * len(a) if strata is None else list(strata)
    if not len(a) == len(b) == len(cells) == len(layers):
        raise ValueError(
            f"x, y, cells and strata must have equal lengths, got {len(a)}, {len(b)}, {len(cells)}, "
            f"{len(layers)}"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("x and y must be finite, got NaN or Inf")
    _, layer = np.unique([repr(one) for one in layers], return_inverse=True)
    estimate = _pooled(a, b, layer)
    if estimate is None:
        return None
    number = {cell: index for index, cell in enumerate(dict.fromkeys(cells))}
    block = np.array([number[cell] % _BLOCKS for cell in cells])
    others = [block != one for one in np.unique(block)]
    left_out = [_pooled(a[keep], b[keep], layer[keep]) for keep in others]
    if len(number) < _LEAST_CELLS or any(value is None for value in left_out):
        return Interval(estimate, math.nan, math.nan)
    curved = np.arctanh(np.clip(np.array(left_out, float), -_ONE, _ONE))
    around = from_blocks(math.atanh(min(max(estimate, -_ONE), _ONE)), curved, confidence)
    return Interval(estimate, math.tanh(around.low), math.tanh(around.high))


def rank_table(
    name: str, title: str, lines: Sequence[Mapping[str, Any]], keys: Mapping[str, str], note: str
) -> Table:
    """A table of rank correlations with their intervals.

    Args:
        name, title, note: of the table.
        lines: "subset", "runs", and for every key an interval or None.
        keys: what is correlated -> its title.
    """
    columns = [Column("subset", "runs of"), Column("runs", "runs", "d")]
    for key, heading in keys.items():
        columns += [Column(key, heading, "+.2f"), Column(f"{key}_interval", "95 %")]
    rows = [
        {
            "subset": line["subset"],
            "runs": line["runs"],
            **{key: None if line[key] is None else line[key].estimate for key in keys},
            **{f"{key}_interval": interval_text(line[key]) for key in keys},
        }
        for line in lines
    ]
    return Table(name, title, columns, rows, note)


def interval_text(interval: Interval | None) -> str | None:
    """The ends of an interval; None where there are none."""
    if interval is None or interval.low != interval.low:
        return None
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _pooled(x: np.ndarray, y: np.ndarray, layer: np.ndarray) -> float | None:
    cross = own_x = own_y = 0.0
    for one in np.unique(layer):
        inside = layer == one
        n = int(inside.sum())
        if n < _LEAST_RUNS:
            continue
        a = (rankdata(x[inside]) - (n + 1) / 2) / n
        b = (rankdata(y[inside]) - (n + 1) / 2) / n
        cross, own_x, own_y = cross + float(a @ b), own_x + float(a @ a), own_y + float(b @ b)
    return cross / math.sqrt(own_x * own_y) if own_x > 0 and own_y > 0 else None
