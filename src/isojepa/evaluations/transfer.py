"""Transfer: a model pretrained elsewhere, probed on other pictures from 1, 10 and all labels of each class.

The protocol of LeJEPA's Table 2: the backbone is frozen, a linear probe is fitted to so many examples of each
class of the training pictures and scored on all test pictures. The paper gives no interval and no number of
draws; here both are told.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.encoders.model import Encoder, Model
from isojepa.evaluations.features import features_of
from isojepa.evaluations.few_shot import FewShot, few_shot
from isojepa.worlds.images.parts import Part
from isojepa.worlds.images.pictures import Pictures

SHOTS = (1, 10, None)


def transfer(
    model: Encoder | Model,
    train: Pictures,
    test: Pictures,
    *,
    shots: Sequence[int | None] = SHOTS,
    draws: int = 5,
    seed: int = 0,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
    **seen: Any,
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
    if seen.get("channels") not in (None, train.channels):
        train, test = (Part(pictures, channels=seen["channels"]) for pictures in (train, test))
    seen = {"mean": train.mean, "std": train.std, **seen}  # the test pictures as the training ones are seen
    x, test_x = (features_of(model, pictures, progress=progress, **seen) for pictures in (train, test))
    return few_shot(x, y, test_x, test_y, shots=shots, draws=draws, seed=seed, progress=progress)


def common_labels(train: Pictures, test: Pictures) -> tuple[np.ndarray, np.ndarray]:
    """Labels of two sets of pictures in the numbers of the first, matched by the names of classes.

    Raises:
        ValueError: one has no labels, or pictures of a class that the other has not.

    Example:
        >>> from isojepa.worlds.images.pictures import Stack
        >>> images = np.zeros((2, 4, 4), dtype=np.uint8)
        >>> cats = Stack(images, np.array([0, 1]), ("cat", "dog"))
        >>> dogs = Stack(images, np.array([0, 1]), ("dog", "cat"))
        >>> common_labels(cats, dogs)[1].tolist()
        [1, 0]
    """
    own, other = _labels("training", train), _labels("test", test)
    names = {name: number for number, name in enumerate(train.classes)}
    there = torch.bincount(own, minlength=len(names))
    found = torch.bincount(other, minlength=len(test.classes)).nonzero()[:, 0].tolist()
    used = [test.classes[number] for number in found]
    strange = [name for name in used if name not in names or not there[names[name]]]
    if strange:
        raise ValueError(
            f"test pictures must be of classes that the training pictures have, got {_told(strange)}; "
            f"training has {_told([name for name in names if there[names[name]]])}"
        )
    table = torch.tensor([names.get(name, -1) for name in test.classes])
    return own.numpy(), table[other].numpy()


def _labels(which: str, pictures: Pictures) -> Tensor:
    if pictures.labels is None:
        raise ValueError(f"a probe needs labels, got {which} pictures without any")
    return pictures.labels


def _told(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
