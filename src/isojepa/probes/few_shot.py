"""Few-shot probes and transfer to other images.

The linear probe from few labels: so many examples of each class, drawn again for each seed.

The accuracy is the mean over the draws. Its interval is wide for two reasons that are independent, and adds
their squares: the examples that happened to be drawn, by Student's t on the accuracies of the draws; and the
test examples, as many as there are, by the normal law of a share,

    half width^2 = (t_{draws-1} s)^2 / draws + z^2 p (1 - p) / tests.

All examples together, `shots=None`, are one draw: the interval is then that of the test examples alone.

Transfer: a model pretrained elsewhere, probed on other pictures from 1, 10 and all labels of each class.

The protocol of LeJEPA's Table 2: the backbone is frozen, a linear probe is fitted to so many examples of each
class of the training pictures and scored on all test pictures. The paper gives no interval and no number of
draws; here both are reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.encoders.model import Encoder, Model
from isojepa.probes.features import features_of
from isojepa.probes.linear import PENALTIES, Examples, choose_logistic, examples, share_interval
from isojepa.seeds import generator
from isojepa.validation import check_count

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
    counts = [None if one is None else check_count("shots", one) for one in shots]
    rows = []
    for index, one in enumerate(counts):
        progress(index, len(counts), "all examples" if one is None else f"{one} of each class")
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
    results = []
    for draw in range(draws):
        source = generator(seed, "shots", shots, draw)
        order = torch.randperm(len(data.y), generator=source).numpy()
        rows = np.concatenate([order[data.y[order] == label][:shots] for label in classes])
        results.append(_hits(data, rows, penalties, source) / len(data.test_y))
    mean, spread = float(np.mean(results)), float(np.std(results, ddof=1))
    tail = (1 + confidence) / 2
    student, normal = scipy.stats.t.ppf(tail, draws - 1), scipy.stats.norm.ppf(tail)
    tests = normal**2 * mean * (1 - mean) / len(data.test_y)
    half = float(np.sqrt(student**2 * spread**2 / draws + tests))
    return FewShot(shots, mean, (max(0.0, mean - half), min(1.0, mean + half)), tuple(results))


def _hits(data: Examples, rows: np.ndarray, penalties: Sequence[float], source: torch.Generator) -> int:
    """Right answers on the test examples of a probe fitted to some training examples."""
    part = Examples(data.x[rows], data.y[rows], data.test_x, data.test_y, data.classes)
    _, classifier = choose_logistic(part, penalties, source)
    return int((classifier(data.test_x) == data.test_y).sum())


TRANSFER_SHOTS = (1, 10, None)


def transfer(
    model: Encoder | Model,
    train: ImageSet,
    test: ImageSet,
    *,
    shots: Sequence[int | None] = TRANSFER_SHOTS,
    draws: int = 5,
    seed: int = 0,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
    **statistics: Any,
) -> tuple[FewShot, ...]:
    """Accuracy of the linear probe of a model on pictures that it was not pretrained on.

    Args:
        model: the pretrained model.
        train, test: pictures with labels of the same classes.
        shots: labelled examples of each class; None for all.
        draws: how many times they are drawn.
        seed: of the draws.
        progress: is called with done, total and what is next.
        seen: how the model sees pictures, see `features_of`: size, batch, channels, mean, std.

    Returns:
        One row for each of `shots`.

    Raises:
        ValueError: labels are missing or differ between the two.
    """
    y, test_y = common_labels(train, test)
    if statistics.get("channels") not in (None, train.channels):
        train, test = (ImageSubset(pictures, channels=statistics["channels"]) for pictures in (train, test))
    statistics = {
        "mean": train.mean,
        "std": train.std,
        **statistics,
    }  # the test pictures as the training ones are seen
    x, test_x = (features_of(model, pictures, progress=progress, **statistics) for pictures in (train, test))
    return few_shot(x, y, test_x, test_y, shots=shots, draws=draws, seed=seed, progress=progress)


def common_labels(train: ImageSet, test: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    """Labels of two sets of pictures in the numbers of the first, matched by the names of classes.

    Raises:
        ValueError: one has no labels, or pictures of a class that the other has not.

    Example:
        >>> from isojepa.data.images.image_sets import Stack
        >>> images = np.zeros((2, 4, 4), dtype=np.uint8)
        >>> cats = Stack(images, np.array([0, 1]), ("cat", "dog"))
        >>> dogs = Stack(images, np.array([0, 1]), ("dog", "cat"))
        >>> common_labels(cats, dogs)[1].tolist()
        [1, 0]
    """
    train_labels, other = _labels("training", train), _labels("test", test)
    names = {name: number for number, name in enumerate(train.classes)}
    there = torch.bincount(train_labels, minlength=len(names))
    present = torch.bincount(other, minlength=len(test.classes)).nonzero()[:, 0].tolist()
    used = [test.classes[number] for number in present]
    strange = [name for name in used if name not in names or not there[names[name]]]
    if strange:
        raise ValueError(
            f"test pictures must be of classes that the training pictures have, got {_told(strange)}; "
            f"training has {_told([name for name in names if there[names[name]]])}"
        )
    table = torch.tensor([names.get(name, -1) for name in test.classes])
    return train_labels.numpy(), table[other].numpy()


def _labels(which: str, pictures: ImageSet) -> Tensor:
    if pictures.labels is None:
        raise ValueError(f"a probe needs labels, got {which} pictures without any")
    return pictures.labels


def _told(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
