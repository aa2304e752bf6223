"""Who is nearest to whom: the other pictures with the largest cosine, and how often they are of one class."""

from dataclasses import dataclass

import numpy as np
import torch

from isojepa.probes.linear import directions
from isojepa.validation import check_count, validate_types

_ROWS = 1_024  # of a block of cosines


@dataclass(frozen=True)
class Nearest:
    """The nearest others of each row.

    Attributes:
        ids: (rows, k), nearest first.
        cosines: (rows, k), theirs.
    """

    ids: np.ndarray
    cosines: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """How often the nearest others are of the same class.

    Attributes:
        share: of all rows' neighbors; every row counts alike.
        chance: the share that neighbors drawn at random would have.
    """

    share: float
    chance: float


@validate_types
def nearest_others(features: np.ndarray, k: int) -> Nearest:
    """The k rows with the largest cosine to each row, itself left out.

    Args:
        features: (n, dim) finite numbers; a row of length 0 has cosine 0 with all.
        k: how many; n - 1 where there are no more.

    Raises:
        ValueError: features are no such thing.

    Example:
        >>> lists = nearest_others(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 1)
        >>> lists.ids[:, 0].tolist()
        [1, 0, 1]
    """
    check_count("k", k)
    if features.ndim != 2 or 0 in features.shape or not np.isfinite(features).all():
        raise ValueError(f"features must be finite numbers (n, dim), got shape {features.shape}")
    rows = directions(features)
    k = min(k, len(rows) - 1)
    ids, cosines = [], []
    for start in range(0, len(rows), _ROWS):
        products = rows[start : start + _ROWS] @ rows.T
        products.diagonal(start).fill_(-torch.inf)  # who is nearest to oneself is known
        nearest = products.topk(k, dim=1)
        ids.append(nearest.indices)
        cosines.append(nearest.values)
    return Nearest(torch.cat(ids).numpy(), torch.cat(cosines).numpy())


@validate_types
def agreement(ids: np.ndarray, labels: np.ndarray) -> Agreement:
    """How often neighbors are of the same class.

    Args:
        ids: (n, k) numbers of each row's neighbors, one at least.
        labels: (n,) whole numbers.

    Raises:
        ValueError: there are no neighbors, or not as many labels as rows.

    Example:
        >>> agreement(np.array([[1], [0], [0]]), np.array([4, 4, 7]))
        Agreement(share=0.666..., chance=0.333...)
    """
    if ids.ndim != 2 or 0 in ids.shape or labels.shape != (len(ids),):
        raise ValueError(
            f"ids must be (n, k) and labels (n,), n and k one at least, got {ids.shape} and {labels.shape}"
        )
    n, counts = len(labels), np.unique(labels, return_counts=True)[1]
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    return Agreement(float((labels[ids] == labels[:, None]).mean()), chance)
