"""Which rows belong together: states by their ids, and splits that never cut through a state.

Two encoders were shown different observations of the same states. Their rows are matched by the state's id,
and whatever is fitted on some states is scored on others: a state whose rows stand on both sides of a split
would be known before it is asked for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.seeds import numpy_generator
from isojepa.validation import check_number, short_repr


@dataclass(frozen=True)
class Split:
    """Rows that a map is fitted on and rows that it is scored on.

    Attributes:
        fit, score: numbers of rows, in order.
    """

    fit: np.ndarray
    score: np.ndarray


def match(first_ids: Any, second_ids: Any, partial: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two arrays that are the same states.

    Args:
        first_ids, second_ids: (n,) and (m,) ids, numbers or text, each once.
        partial: whether states that only one has are left out; else they are an error.

    Returns:
        Rows of the first and of the second, in the order of the first.

    Raises:
        ValueError: an id stands twice, or has no partner.

    Example:
        >>> match(["b", "a"], ["a", "b"])
        (array([0, 1]), array([1, 0]))
    """
    first, second = state_ids("first_ids", first_ids), state_ids("second_ids", second_ids)
    if (first.dtype.kind in "iu") != (second.dtype.kind in "iu"):
        raise ValueError(f"both ids must be numbers, or both text, got {first.dtype} and {second.dtype}")
    for name, ids in (("first_ids", first), ("second_ids", second)):
        values, counts = np.unique(ids, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"{name} must name each state once, got {_told(values[counts > 1])} more often")
    if not partial:
        for name, ids, other in (("first_ids", first, second), ("second_ids", second, first)):
            lonely = ids[~np.isin(ids, other)]
            if len(lonely):
                raise ValueError(
                    f"{name} must have partners, got {len(lonely)} without one ({_told(lonely)}): "
                    "say partial=True to leave them out"
                )
    order = np.argsort(second)
    at = np.searchsorted(second, first, sorter=order).clip(max=max(len(second) - 1, 0))
    found = second[order[at]] == first if len(second) else np.zeros(len(first), bool)
    if not found.any():
        raise ValueError("first_ids and second_ids must have states in common, got none")
    return np.flatnonzero(found), order[at[found]]


def split_states(rows: int, ids: Any = None, share: float = 0.5, seed: int = 0) -> Split:
    """Rows to fit on and rows to score on; all rows of one state are on one side.

    Args:
        rows: how many there are.
        ids: (rows,) of their states; by default each row is one of its own.
        share: of the states that are fitted on.
        seed: draws which.

    Raises:
        ValueError: there are not as many ids as rows, or fewer than two states.

    Example:
        >>> split_states(6, ids=[7, 7, 8, 8, 9, 9], share=0.7).score.tolist()
        [0, 1]
    """
    check_number("share", share, "lie between 0 and 1", lambda value: 0 < value < 1)
    named = np.arange(rows) if ids is None else state_ids("ids", ids)
    if len(named) != rows:
        raise ValueError(f"ids must be as many as rows, {rows}, got {len(named)}")
    states, state = np.unique(named, return_inverse=True)
    if len(states) < 2:
        raise ValueError(
            f"at least two states are needed to fit on some and score on others, got {len(states)}"
        )
    count = min(max(round(share * len(states)), 1), len(states) - 1)
    chosen = np.zeros(len(states), bool)
    chosen[numpy_generator(seed, "split").permutation(len(states))[:count]] = True
    return Split(np.flatnonzero(chosen[state]), np.flatnonzero(~chosen[state]))


def folds(rows: int, count: int, ids: Any = None, seed: int = 0) -> list[Split]:
    """Splits of which every state is scored in exactly one.

    Raises:
        ValueError: there are fewer states than folds, or not as many ids as rows.
    """
    named = np.arange(rows) if ids is None else state_ids("ids", ids)
    if len(named) != rows:
        raise ValueError(f"ids must be as many as rows, {rows}, got {len(named)}")
    states, state = np.unique(named, return_inverse=True)
    if len(states) < count:
        raise ValueError(f"at least {count} states are needed for {count} folds, got {len(states)}")
    fold = np.empty(len(states), np.int64)
    fold[numpy_generator(seed, "folds").permutation(len(states))] = np.arange(len(states)) % count
    return [Split(np.flatnonzero(fold[state] != k), np.flatnonzero(fold[state] == k)) for k in range(count)]


def state_ids(name: str, ids: Any) -> np.ndarray:
    """Ids (n,), whole numbers or text.

    Raises:
        ValueError: they are something else.
    """
    array = np.asarray(ids.detach().cpu() if isinstance(ids, torch.Tensor) else ids)
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise ValueError(
            f"{name} must be a list of whole numbers or of text, got {array.dtype} {array.shape}"
        )
    return array


def _told(ids: np.ndarray) -> str:
    return ", ".join(short_repr(value.item()) for value in ids[:3]) + (", ..." if len(ids) > 3 else "")
