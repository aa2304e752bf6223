"""Parts of a set of pictures.

A part keeps the mean and standard deviation of the whole, so that a model sees both alike. Splits go by
state: what shows one thing, such as the skin tones of one emoji, lies on one side.
"""

import hashlib
import json
from collections.abc import Sequence

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.observers import held_out_rows

_LUMA = (0.299, 0.587, 0.114)  # of ITU-R 601, by which Pillow turns colours into grey


class Part:
    """Some of the pictures of a set, in a given order, as grey or as colour.

    Args:
        pictures: the whole.
        ids: (n,) numbers of the pictures; None for all.
        channels: 1 or 3, to which pictures are turned; None as they are.

    Raises:
        ValueError: a number is none of a picture, or channels are neither 1 nor 3.

    Example:
        >>> from isojepa.worlds.images import Stack
        >>> grey = torch.arange(4, dtype=torch.uint8).view(4, 1, 1)
        >>> pictures = Stack(grey, labels=torch.tensor([0, 1, 0, 1]))
        >>> part = Part(pictures, torch.tensor([3, 0]), channels=3)
        >>> part.read(torch.tensor([0, 1])).tolist(), part.labels.tolist()
        ([[[[3]], [[3]], [[3]]], [[[0]], [[0]], [[0]]]], [1, 0])
    """

    @checked
    def __init__(self, pictures: Pictures, ids: Tensor | None = None, channels: int | None = None) -> None:
        ids = torch.arange(len(pictures)) if ids is None else ids.long()
        if ids.ndim != 1 or not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= len(pictures):
            raise ValueError(
                f"ids must be numbers of pictures, one at least, each from 0 to {len(pictures) - 1}, got "
                f"{'none' if not ids.numel() else f'some from {int(ids.min())} to {int(ids.max())}'}"
            )
        if channels not in (None, 1, 3):
            raise ValueError(f"channels must be 1 or 3, got {channels}")
        self._whole, self._ids = pictures, ids
        self.channels = pictures.channels if channels is None else channels
        self.shape = None if pictures.shape is None else (self.channels, *pictures.shape[1:])
        self.labels = None if pictures.labels is None else pictures.labels[ids]
        self.classes: Sequence[str] = pictures.classes
        self.mean, self.std = (self._turned_moment(value) for value in (pictures.mean, pictures.std))
        self.skipped = pictures.skipped

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, ids: Tensor) -> Tensor | list[Tensor]:
        """The pictures of given numbers as uint8: (n, channels, height, width), a list where sizes differ."""
        found = self._whole.read(self._ids[ids])
        return (
            self._turned(found) if isinstance(found, Tensor) else [self._turned(picture) for picture in found]
        )

    def __repr__(self) -> str:
        return f"Part({len(self)} of {self._whole!r}, channels={self.channels})"

    def _turned(self, picture: Tensor) -> Tensor:
        if picture.shape[-3] == self.channels:
            return picture
        if self.channels == 3:
            return picture.expand(*picture.shape[:-3], 3, *picture.shape[-2:]).contiguous()
        weights = torch.tensor(_LUMA).view(3, 1, 1)
        return (picture.float() * weights).sum(-3, keepdim=True).round().to(torch.uint8)

    def _turned_moment(self, value: Sequence[float]) -> tuple[float, ...]:
        if len(value) == self.channels:
            return tuple(value)
        if self.channels == 3:
            return (value[0],) * 3
        # of grey, nearly: the standard deviation of a weighted sum of channels that go together
        return (sum(weight * entry for weight, entry in zip(_LUMA, value, strict=True)),)


@checked
def divide(
    pictures: Pictures, held_out: float = 0.1, seed: int = 0, states: Tensor | Sequence[int] | None = None
) -> tuple[Part, Part]:
    """Two parts of a set, to learn from and to choose by; the same for the same seed.

    Args:
        pictures: the whole.
        held_out: the share of states that goes into the second part, in (0, 1).
        seed: any integer.
        states: (pictures,) which of them show one thing; each by itself by default.

    Raises:
        ValueError: the share is not in (0, 1), states are not one for each picture, or are fewer than two.
    """
    groups = torch.arange(len(pictures)) if states is None else torch.as_tensor(states)
    if groups.shape != (len(pictures),):
        raise ValueError(
            f"states must be {len(pictures)} numbers, one for each picture, got {tuple(groups.shape)}"
        )
    aside = held_out_rows(groups, held_out, seed)
    return Part(pictures, (~aside).nonzero()[:, 0]), Part(pictures, aside.nonzero()[:, 0])


def fingerprint(pictures: Pictures) -> str:
    """A short hash of what a set is, by which ranks can see that they have the same one.

    Of its length, sizes, mean and std, classes, labels, and the pixels of its first and last picture.
    """
    ends = pictures.read(torch.tensor([0, len(pictures) - 1]))
    facts = [
        len(pictures),
        pictures.channels,
        pictures.shape,
        pictures.mean,
        pictures.std,
        list(pictures.classes),
    ]
    told = hashlib.blake2b(json.dumps(facts).encode(), digest_size=8)
    for picture in ends:
        told.update(picture.contiguous().numpy().tobytes())
    if pictures.labels is not None:
        told.update(pictures.labels.contiguous().numpy().tobytes())
    return told.hexdigest()
