"""The linear probe from few labels: so many examples of each class, drawn again for each seed.

The accuracy is the mean over the draws. Its interval is wide for two reasons that are independent, and adds
their squares: the examples that happened to be drawn, by Student's t on the accuracies of the draws; and the
test examples, as many as there are, by the normal law of a share,

    half width^2 = (t_{draws-1} s)^2 / draws + z^2 p (1 - p) / tests.

All examples together, `shots=None`, are one draw: the interval is then that of the test examples alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.arguments import check_count
from isojepa.evaluations.linear import PENALTIES, choose_logistic
from isojepa.evaluations.scores import Examples, examples, share_interval
from isojepa.seeds import generator

SHOTS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True)
class FewShot:
    """Accuracy from so many labelled examples of each class.

    Attributes:
        shots: examples of each class; None for all there are.
        accuracy: mean over draws; NaN where it could not be measured.
        interval: of it.
        accuracies: of each draw.
        reason: why it could not be measured; else empty.
    """

    shots: int | None
    accuracy: float
    interval: tuple[float, float]
    accuracies: tuple[float, ...]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "shots": "all" if self.shots is None else self.shots,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "accuracies": list(self.accuracies),
            "reason": self.reason,
        }


def few_shot(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    shots: Sequence[int | None] = SHOTS,
    draws: int = 5,
    seed: int = 0,
    penalties: Sequence[float] = PENALTIES,
    confidence: float = 0.95,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> tuple[FewShot, ...]:
    """Accuracy of the linear probe from few examples of each class.

    The penalty is chosen on a fifth of the examples, by class; with fewer than five of each it is 1/n, as
    `linear_probe` does.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on, to draw from.
        test_x, test_y: those that are scored.
        shots: examples of each class; None for all.
        draws: how many times they are drawn, two at least.
        seed: of the draws.
        penalties: to choose from.
        confidence: of the intervals.
        progress: is called with done, total and what is next.

    Returns:
        One for each of `shots`; where a class has too few examples, with the reason in place of numbers.

    Raises:
        ValueError: features or labels are no such thing, or there are fewer than two draws.
    """
    data = examples(x, y, test_x, test_y)
    draws = check_count("draws", draws, 2)
    wanted = [None if one is None else check_count("shots", one) for one in shots]
    rows = []
    for index, one in enumerate(wanted):
        progress(index, len(wanted), "all examples" if one is None else f"{one} of each class")
        rows.append(_measured(data, one, draws, seed, penalties, confidence))
    return tuple(rows)


def _measured(
    data: Examples, shots: int | None, draws: int, seed: int, penalties: Sequence[float], confidence: float
) -> FewShot:
    if shots is None:
        hits = _hits(data, np.arange(len(data.y)), penalties, generator(seed, "validation"))
        interval = share_interval(hits, len(data.test_y), confidence)
        accuracy = hits / len(data.test_y)
        return FewShot(None, accuracy, interval, (accuracy,))
    classes, counts = np.unique(data.y, return_counts=True)
    if counts.min() < shots:
        reason = f"class {classes[counts.argmin()]} has {counts.min()} examples, {shots} are needed"
        return FewShot(shots, float("nan"), (float("nan"), float("nan")), (), reason)
    found = []
    for draw in range(draws):
        source = generator(seed, "shots", shots, draw)
        order = torch.randperm(len(data.y), generator=source).numpy()
        rows = np.concatenate([order[data.y[order] == label][:shots] for label in classes])
        found.append(_hits(data, rows, penalties, source) / len(data.test_y))
    mean, spread = float(np.mean(found)), float(np.std(found, ddof=1))
    tail = (1 + confidence) / 2
    student, normal = scipy.stats.t.ppf(tail, draws - 1), scipy.stats.norm.ppf(tail)
    tests = normal**2 * mean * (1 - mean) / len(data.test_y)
    half = float(np.sqrt(student**2 * spread**2 / draws + tests))
    return FewShot(shots, mean, (max(0.0, mean - half), min(1.0, mean + half)), tuple(found))


def _hits(data: Examples, rows: np.ndarray, penalties: Sequence[float], source: torch.Generator) -> int:
    """Right answers on the test examples of a probe fitted to some training examples."""
    part = Examples(data.x[rows], data.y[rows], data.test_x, data.test_y, data.classes)
    _, classifier = choose_logistic(part, penalties, source)
    return int((classifier(data.test_x) == data.test_y).sum())
