"""The neighbors that changed: of some states, who is nearest in the first embedding and in the second."""

from dataclasses import dataclass

import numpy as np
import torch

from isojepa.alignment.comparing import ScoreComparison, measure
from isojepa.alignment.scores import nearest
from isojepa.report.aligning.planes import Paired

K = 10
_STATES = 8  # whose neighbors are shown


@dataclass(frozen=True)
class Changed:
    """Neighbors in two embeddings, by distance.

    Attributes:
        k: how many of each state.
        overlap: NO@k with interval and chance, after the map; between both as they are without one.
        raw: between both as they are.
        direct: after a map that was fitted back; None without.
        mapped: whether there was a map.
        states: numbers of some shown rows, from the least to the largest overlap, at even distances.
        first, second: (states, k) numbers of their neighbors, nearest first.
        common: (states,) how many are in both.
    """

    k: int
    overlap: ScoreComparison
    raw: ScoreComparison
    direct: ScoreComparison | None
    mapped: bool
    states: np.ndarray
    first: np.ndarray
    second: np.ndarray
    common: np.ndarray


def changed(shown: Paired) -> Changed | None:
    """Find them; None for fewer than four rows.

    Args:
        shown: rows of both, and of the second after the map where there is one.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> near = changed(Paired(np.arange(50), x, -x, None))
        >>> near.overlap.value, near.common.tolist()
        (1.0, [10, 10, 10, 10, 10, 10, 10, 10])
    """
    count = len(shown.rows)
    k = min(K, count - 2)
    if k < 2:
        return None
    second = shown.second if shown.back is None else shown.back
    raw = measure(f"NO@{k}", shown.first, shown.second, drop_constant=True)
    overlap = raw if shown.back is None else measure(f"NO@{k}", shown.first, second, drop_constant=True)
    near = [
        nearest(torch.from_numpy(np.ascontiguousarray(rows)), k).numpy() for rows in (shown.first, second)
    ]
    common = (near[0][:, :, None] == near[1][:, None, :]).any(2).sum(1)
    order = np.argsort(common, kind="stable")
    some = order[np.linspace(0, count - 1, min(_STATES, count)).round().astype(int)]
    direct = None
    if shown.direct is not None:
        direct = measure(f"NO@{k}", shown.first, shown.direct, drop_constant=True)
    return Changed(
        k, overlap, raw, direct, shown.back is not None, some, near[0][some], near[1][some], common[some]
    )
