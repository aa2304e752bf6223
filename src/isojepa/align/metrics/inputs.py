"""Two embeddings of the same states, checked before anything is computed from them.

Arrays of numpy or torch, of any float type, on any device, become float64 on the CPU. Columns that are constant
carry nothing and mostly mean that an encoder lost a unit; they are refused, or dropped when that is asked for.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, check_number
from isojepa.names import shown
from isojepa.seeds import generator

_LISTED = 8  # columns or ids that a message names


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
    x, y = read_rows("first", first), read_rows("second", second)
    if len(x) != len(y):
        raise ValueError(
            f"first and second must have the same rows, got {len(x)} and {len(y)}: match them by state first"
        )
    if len(x) < least:
        raise ValueError(f"first and second must have at least {least} rows, got {len(x)}")
    notes = []
    x, note = _without_constants("first", x, drop_constant)
    notes += note
    y, note = _without_constants("second", y, drop_constant)
    return Pair(x, y, "; ".join(notes + note))


def read_rows(name: str, value: Any) -> Tensor:
    """An array (n, d) as float64 on the CPU.

    Raises:
        ValueError: it is something else, empty, or has numbers that are not finite.
    """
    if isinstance(value, Tensor):
        array = value.detach().to("cpu")
        number = not array.is_complex()
    else:
        try:
            raw = np.asarray(value)
        except ValueError:
            raise ValueError(f"{name} must be an array (rows, columns), got rows of several lengths") from None
        number = raw.dtype.kind in "fiub"
        if number:  # torch has neither every type of numpy's, nor negative steps, nor read-only arrays
            array = torch.from_numpy(np.array(raw, dtype=np.float64, order="C"))
    if not number:
        raise ValueError(f"{name} must be an array (rows, columns) of numbers, got {shown(value)}")
    if array.ndim != 2:
        hint = ": a single column is array[:, None]" if array.ndim == 1 else ""
        raise ValueError(f"{name} must have the shape (rows, columns), got {tuple(array.shape)}{hint}")
    if array.numel() == 0:
        raise ValueError(f"{name} must not be empty, got the shape {tuple(array.shape)}")
    rows = array.double()
    if not bool(torch.isfinite(torch.linalg.vector_norm(rows, ord=torch.inf))):  # NaN is passed on
        bad = (~torch.isfinite(rows)).any(1).nonzero()[:, 0]
        raise ValueError(
            f"{name} must be finite, got NaN or Inf in {len(bad)} of {len(rows)} rows, the first of them row "
            f"{int(bad[0])}: leave those states out of both"
        )
    return rows


def read_ids(ids: Any, rows: int) -> np.ndarray:
    """Which state each row is of, as whole numbers from 0 on.

    Raises:
        ValueError: there are not as many as rows, or only one state.
    """
    values = ids.detach().cpu().numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if values.ndim != 1 or len(values) != rows:
        raise ValueError(f"ids must be one for each of the {rows} rows, got the shape {values.shape}")
    known, numbers = np.unique(values, return_inverse=True)
    if len(known) < 2:
        raise ValueError(f"ids must tell at least 2 states apart, got {len(known)}")
    return np.asarray(numbers).reshape(-1)


def matched(first_ids: Any, second_ids: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two sets in the order that makes their ids equal, for sets that are not matched yet.

    Args:
        first_ids, second_ids: (n,) and (m,); no id twice in one of them, every id in both.

    Raises:
        ValueError: an id occurs twice, or in one set alone.

    Example:
        >>> matched(["a", "b"], ["b", "a"])[1]
        array([1, 0])
    """
    sides = {"first_ids": np.asarray(first_ids), "second_ids": np.asarray(second_ids)}
    for name, values in sides.items():
        known, counts = np.unique(values, return_counts=True)
        if (counts > 1).any():
            twice = known[counts > 1]
            raise ValueError(
                f"{name} must name each state once, got {len(twice)} several times: {_listed(twice)}; average "
                "their rows, or choose one"
            )
    one, two = sides.values()
    for name, missing in (("second_ids", np.setdiff1d(one, two)), ("first_ids", np.setdiff1d(two, one))):
        if len(missing):
            raise ValueError(
                f"{name} must have every state of the other, got none for {len(missing)}: {_listed(missing)}; "
                "leave those out"
            )
    order = np.argsort(one, kind="stable")
    place = np.empty(len(one), dtype=np.int64)
    place[order] = np.argsort(two, kind="stable")
    return np.arange(len(one)), place


def split(rows: int, ids: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on and rows to score on, about half each; a state is on one side only."""
    states = rows if ids is None else int(ids.max()) + 1
    order = torch.randperm(states, generator=generator(seed, "halves")).numpy()
    fitted = np.zeros(states, dtype=bool)
    fitted[order[: states // 2]] = True
    member = fitted if ids is None else fitted[ids]
    return np.flatnonzero(member), np.flatnonzero(~member)


def centred(rows: Tensor, scale: bool = True) -> Tensor:
    """Rows (n, d) less their mean; divided by one number so that their mean square is 1, unless told not to."""
    x = rows - rows.mean(0)
    if scale:
        size = torch.linalg.vector_norm(x, ord=torch.inf)  # squares of huge numbers would overflow
        x /= size
        x *= math.sqrt(x.numel()) / torch.linalg.vector_norm(x)
    return x


def check_options(confidence: float, draws: int | None = None) -> None:
    """Settings that all comparisons share.

    Raises:
        ValueError: the confidence is not between 0 and 1, or there are fewer than 9 draws.
    """
    check_number("confidence", confidence, "lie between 0 and 1", lambda v: 0 < v < 1)
    if draws is not None:
        check_count("draws", draws, 9)


def _without_constants(name: str, rows: Tensor, drop: bool) -> tuple[Tensor, list[str]]:
    low, high = rows.aminmax(dim=0)
    # what is left of a constant after rounding is no spread
    flat = high - low <= 1e-12 * torch.maximum(low.abs(), high.abs())
    if not bool(flat.any()):
        return rows, []
    columns = flat.nonzero()[:, 0].numpy()
    if not drop:
        raise ValueError(
            f"{name} must have no constant columns, got {len(columns)} of {rows.shape[1]}: {_listed(columns)}; "
            "leave them out, or say drop_constant=True"
        )
    if len(columns) == rows.shape[1]:
        raise ValueError(f"{name} must have a column that is not constant, got {len(columns)} constant ones")
    return rows[:, ~flat], [f"constant columns of {name} left out: {_listed(columns)}"]


def _listed(values: np.ndarray) -> str:
    text = ", ".join(str(value) for value in values[:_LISTED].tolist())
    return text + (", ..." if len(values) > _LISTED else "")
