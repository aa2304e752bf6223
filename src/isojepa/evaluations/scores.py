"""What a probe is worth: its accuracy on held-out examples, with an interval, and by class.

The interval is Clopper and Pearson's (1934): from k right answers of n it goes from the share at which k or
more would be as rare as alpha/2 to that at which k or fewer would,

    low = BetaInv(alpha/2; k, n-k+1),    high = BetaInv(1 - alpha/2; k+1, n-k),

and it covers the true share in at least 1 - alpha of test sets, whatever n and the share. It speaks of the
test examples alone: another training set, or another seed of the model, moves the accuracy besides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.arguments import check_count, check_number


@dataclass(frozen=True)
class Score:
    """How a probe did on held-out examples.

    Attributes:
        probe: its name.
        accuracy: share of right answers.
        interval: of the accuracy, 95 % unless another confidence was asked for.
        per_class: accuracy on the examples of each class, NaN where there are none.
        samples: number of test examples.
        chosen: settings that were chosen from the training examples, such as the penalty.
    """

    probe: str
    accuracy: float
    interval: tuple[float, float]
    per_class: tuple[float, ...]
    samples: int
    chosen: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "probe": self.probe,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "per_class": list(self.per_class),
            "samples": self.samples,
            "chosen": dict(self.chosen),
        }


def share_interval(right: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share.

    Args:
        right: how many times it was so.
        samples: of how many.
        confidence: with which the interval covers the share, at least.

    Example:
        >>> low, high = share_interval(87, 100)
        >>> round(low, 3), round(high, 3)
        (0.788, 0.929)
    """
    samples = check_count("samples", samples)
    right = check_count("right", right, 0, samples)
    confidence = check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    tail = (1 - confidence) / 2
    low = 0.0 if right == 0 else float(scipy.stats.beta.ppf(tail, right, samples - right + 1))
    high = 1.0 if right == samples else float(scipy.stats.beta.ppf(1 - tail, right + 1, samples - right))
    return low, high


def score_of(
    probe: str,
    predicted: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    chosen: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> Score:
    """The score of predicted labels (n,) against true ones (n,)."""
    hits = predicted == labels
    counts = np.bincount(labels, minlength=classes)
    found = np.bincount(labels[hits], minlength=classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_class = found / counts  # 0 / 0 is NaN: nobody was asked
    interval = share_interval(int(hits.sum()), len(hits), confidence)
    return Score(probe, float(hits.mean()), interval, tuple(per_class.tolist()), len(hits), chosen or {})


def chance_level(labels: np.ndarray) -> float:
    """Accuracy of always answering the most common of the labels (n,).

    Example:
        >>> chance_level(np.array([0, 1, 2, 2]))
        0.5
    """
    return float(np.bincount(labels).max() / len(labels))


@dataclass(frozen=True)
class Examples:
    """Features with labels, as probes take them, looked at once.

    Attributes:
        x, y: training features (n, dim), float32 or float64, and labels (n,) int64 below `classes`.
        test_x, test_y: held-out ones.
        classes: number of classes.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: int


def examples(x: Any, y: Any, test_x: Any, test_y: Any) -> Examples:
    """Arrays or tensors as a probe needs them.

    Raises:
        ValueError: features are not finite numbers (n, dim) of one dimension, labels are not whole numbers
            from 0 on, one for each row, or the training examples have one class alone.
    """
    train, held = _features("features", x), _features("test features", test_x)
    if train.shape[1] != held.shape[1]:
        raise ValueError(
            f"test features must have {train.shape[1]} columns as the training features have, "
            f"got {held.shape[1]}"
        )
    labels, held_labels = _labels("labels", y, len(train)), _labels("test labels", test_y, len(held))
    if len(np.unique(labels)) < 2:
        raise ValueError(f"labels must have two classes at least to tell apart, got only {labels[0]}")
    unknown = np.setdiff1d(held_labels, labels)
    if len(unknown):
        raise ValueError(
            f"test labels must be among those of the training examples, got {unknown[:5].tolist()} besides"
        )
    return Examples(train, labels, held, held_labels, int(labels.max()) + 1)


def _features(name: str, value: Any) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be numbers (samples, dim), got shape {array.shape} of {array.dtype.name}"
        )
    array = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
    bad = ~np.isfinite(array).all(1)
    if bad.any():
        raise ValueError(
            f"{name} must be finite, got NaN or Inf in {int(bad.sum())} of {len(array)} rows, "
            f"the first is row {int(bad.argmax())}"
        )
    return array


def _labels(name: str, value: Any, rows: int) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.shape != (rows,) or array.dtype.kind not in "iub":
        raise ValueError(
            f"{name} must be {rows} whole numbers, one for each row of features, got shape {array.shape} "
            f"of {array.dtype.name}"
        )
    if array.min() < 0:
        raise ValueError(f"{name} must not be negative, got {array.min()}")
    return array.astype(np.int64)


def held_out(labels: np.ndarray, share: float, generator: torch.Generator) -> np.ndarray:
    """Which examples (n,) are put aside: of each class this share, rounded down, drawn at random."""
    aside = np.zeros(len(labels), dtype=bool)
    order = torch.randperm(len(labels), generator=generator).numpy()
    for label in np.unique(labels):
        own = order[labels[order] == label]
        aside[own[: int(share * len(own))]] = True
    return aside
