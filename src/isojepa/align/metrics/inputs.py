"""Two embeddings of the same states, checked before anything is computed from them.

Arrays of numpy or torch, of any float type, on any device, become float64 on the CPU. Columns that are
constant carry nothing and mostly mean that an encoder lost a unit; they are refused, or dropped when that
is asked for.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.rows import as_rows, check_pairs, check_varied, constant
from isojepa.arguments import check_count, check_number

ADVICE = "leave them out, or say drop_constant=True"
_LISTED = 8  # columns that a note names
_FIRST = 256  # rows that are looked at for constant columns before all are
_SMALLEST, _LARGEST = 1e-140, 1e140  # lengths whose squares a float holds


@dataclass(frozen=True)
class Pair:
    """Rows of two embeddings of the same states in the same order.

    Attributes:
        first, second: (n, d1) and (n, d2), float64 on the CPU.
        note: what was dropped, if anything was.
    """

    first: Tensor
    second: Tensor
    note: str = ""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.first)


def read_pair(first: Any, second: Any, *, least: int = 4, drop_constant: bool = False) -> Pair:
    """Two embeddings, checked.

    Args:
        first, second: (n, d1) and (n, d2), numpy or torch.
        least: rows that the score needs.
        drop_constant: leave out constant columns, and say so, rather than refuse them.

    Raises:
        ValueError: they are no such arrays, have different numbers of rows or too few, numbers that are not
            finite, or constant columns.

    Example:
        >>> read_pair(np.eye(4), np.eye(4)[:, :2]).second.shape
        torch.Size([4, 2])
    """
    one, two = check_pairs(first, second)
    if len(one) < least:
        raise ValueError(
            f"first and second must have at least {least} rows, got {len(one)}: bring more states"
        )
    x, left_out = _without_constants("first", as_rows("first", one), drop_constant)
    y, more = _without_constants("second", as_rows("second", two), drop_constant)
    return Pair(x, y, "; ".join(left_out + more))


def centred(rows: Tensor, scale: bool = True) -> Tensor:
    """Rows (n, d) less their mean, divided by one number so that their mean square is 1, by default."""
    x = rows - rows.mean(0)
    if scale:
        length = float(torch.linalg.vector_norm(x))
        if not _SMALLEST < length < _LARGEST:  # squares overflow, or vanish
            x /= torch.linalg.vector_norm(x, ord=torch.inf)
            length = float(torch.linalg.vector_norm(x))
        x *= math.sqrt(x.numel()) / length
    return x


def check_options(confidence: float, draws: int | None = None) -> None:
    """Settings that all comparisons share.

    Raises:
        ValueError: the confidence is not between 0 and 1, or there are fewer than 9 draws.
    """
    check_number("confidence", confidence, "lie between 0 and 1", lambda v: 0 < v < 1)
    if draws is not None:
        check_count("draws", draws, 9)


def _without_constants(name: str, rows: np.ndarray, drop: bool) -> tuple[Tensor, list[str]]:
    found = torch.from_numpy(np.ascontiguousarray(rows))
    if not _flat(found[:_FIRST], 2.0).any():  # what varies among the first rows varies
        return found, []
    flat = _flat(found, 1.0)
    if not flat.any():
        return found, []
    if not drop:
        check_varied(name, np.where(flat, 0.0, 1.0), np.ones(len(flat)), ADVICE)
    if flat.all():
        raise ValueError(f"{name} must have a column that varies, got {len(flat)} constant ones")
    columns = np.flatnonzero(flat)
    told = ", ".join(map(str, columns[:_LISTED])) + (", ..." if len(columns) > _LISTED else "")
    return found[:, torch.from_numpy(~flat)], [f"constant columns of {name} left out: {told}"]


def _flat(rows: Tensor, caution: float) -> np.ndarray:
    """Which columns are constant: half their range is at least the deviation."""
    low, high = rows.aminmax(dim=0)
    spread = (high - low).numpy() / (2 * caution)
    return constant(spread, torch.maximum(low.abs(), high.abs()).numpy())
