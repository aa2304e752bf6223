"""States as readers know them: a name, a class, a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import torch

from isojepa.data.images.image_sets import ImageSet
from isojepa.report.looking.thumbnails import address, squares

_SIDE = 56  # of a picture in the page, at most
_LONGEST = 28  # letters of a name below a picture


@dataclass(frozen=True)
class States:
    """What is known of the states besides their embeddings.

    Attributes:
        count: how many rows there are.
        ids: (n,) names or numbers; without them rows go by their number.
        labels: (n,) numbers of classes; None without.
        classes: their names; numbers without.
        pictures: uint8 (n, side, side, 3), or pictures of which the n-th is of row n; None without.
    """

    count: int
    ids: np.ndarray | None = None
    labels: np.ndarray | None = None
    classes: Sequence[str] = ()
    pictures: np.ndarray | ImageSet | None = None

    @classmethod
    def of(
        cls,
        count: int,
        ids: Any = None,
        labels: Any = None,
        classes: Sequence[str] = (),
        pictures: Any = None,
    ) -> "States":
        """With everything checked.

        Raises:
            ValueError: something is not as long as there are rows, or labels have no class.
        """
        for name, argument in (("ids", ids), ("labels", labels), ("pictures", pictures)):
            if argument is not None and len(argument) != count:
                raise ValueError(f"{name} must be as many as rows, {count}, got {len(argument)}")
        class_names, numbers = list(map(str, classes or _own_classes(pictures, labels))), None
        if labels is not None:
            argument = np.asarray(labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
            if not class_names:
                values, numbers = np.unique(argument, return_inverse=True)
                class_names = [str(value) for value in values.tolist()]
            elif argument.dtype.kind not in "iu" or (
                count and not 0 <= argument.min() <= argument.max() < len(class_names)
            ):
                raise ValueError(f"labels must be numbers of the {len(class_names)} classes, got others")
            else:
                numbers = argument
        if isinstance(pictures, np.ndarray) and (pictures.dtype != np.uint8 or pictures.ndim not in (3, 4)):
            raise ValueError(
                f"pictures must be uint8 (n, height, width) or (n, height, width, 3), got {pictures.dtype} "
                f"{pictures.shape}"
            )
        named = None if ids is None else np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
        return cls(count, named, numbers, class_names, pictures)

    def name(self, row: int) -> str:
        """A state in words: its class and its name."""
        label = f"row {row}" if self.ids is None else self._id(row)
        return label if self.labels is None else f"{self.classes[int(self.labels[row])]}, {label}"

    def tag(self, row: int) -> str:
        """The few letters that stand below a picture."""
        if self.labels is not None:
            return cut(self.classes[int(self.labels[row])], _LONGEST)
        return cut(str(row) if self.ids is None else self._id(row), _LONGEST)

    def _id(self, row: int) -> str:
        assert self.ids is not None
        value = self.ids[row]
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def images(self, rows: Sequence[int]) -> dict[int, str]:
        """Data addresses of the pictures of some rows; nothing without pictures."""
        pictured = sorted(set(rows))
        if self.pictures is None or not pictured:
            return {}
        if isinstance(self.pictures, np.ndarray):
            pixels = self.pictures[pictured]
            step = max(1, -(-max(pixels.shape[1:3]) // (2 * _SIDE)))  # every step-th pixel of large ones
            pixels = pixels[:, ::step, ::step]
            if pixels.ndim == 3:
                pixels = np.repeat(pixels[..., None], 3, -1)
        else:
            pixels = squares(self.pictures, torch.tensor(pictured), _SIDE)
        return {row: address(one, photo=True) for row, one in zip(pictured, pixels, strict=True)}

    def cell(self, row: int, images: dict[int, str]) -> str:
        """The picture of a state, or its name where there is none."""
        text = escape(self.name(row))
        if row in images:
            return f'<img class="coarse" alt="{text}" title="{text}" src="{images[row]}">'
        return f'<span title="{text}">{escape(self.tag(row))}</span>'


def _own_classes(pictures: Any, labels: Any) -> Sequence[str]:
    """The classes of pictures whose labels these are."""
    if labels is None or pictures is None or isinstance(pictures, np.ndarray) or pictures.labels is None:
        return ()
    same = np.array_equal(np.asarray(pictures.labels), np.asarray(labels))
    return tuple(pictures.classes) if same else ()


def cut(text: str, most: int) -> str:
    """At most so many letters, the middle of longer text left out.

    Example:
        >>> cut("a name", 10), cut("runs/2024/encoder-left", 10)
        ('a name', 'runs…-left')
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 2 + (most - 1) % 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
