"""Pictures before they are decoded: a stream of them with names and labels, and what it is known by.

Folders, Parquet files and shards are each turned into an `Origin`; the cache decodes it. An item that is
known to be lost, such as the rest of a shard that was cut, is an item too, whose reading raises
`BadPicture`: so it is counted and told with those that turn out to be damaged.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from torch import Tensor

from isojepa.worlds.images.decoding import BadPicture

Label = str | int | None
_SPARSE = 1_000  # numbers beyond ten times as many as pictures, and this, are names and no counts


class PicturesWarning(UserWarning):
    """Something in a set of pictures was not used; the message says what and why."""


@dataclass(frozen=True)
class Item:
    """One picture that is not decoded yet.

    Attributes:
        name: of its file, or its key.
        read: decodes it, given the shorter side to which it may be reduced; raises BadPicture.
        label: a class by name or number; None where there is none.
        size: units of work, in which the origin's total is counted.
    """

    name: str
    read: Callable[[int | None], Tensor]
    label: Label = None
    size: int = 1


@dataclass(frozen=True)
class Origin:
    """A set of pictures that is not decoded yet.

    Attributes:
        data: where it is, for messages.
        identity: what tells it from other sets and from itself after a change, as JSON can hold it.
        items: goes through all of them, each time from the start.
        total: the sum of their sizes, or nearly.
        classes: names of the labels in their order, where the data have an order of their own.
    """

    data: str
    identity: Any
    items: Callable[[], Iterator[Item]]
    total: int
    classes: tuple[str, ...] | None = None


def lost(name: str, reason: str, size: int = 0) -> Item:
    """An item that is known to be lost, and why."""

    def read(largest: int | None) -> NoReturn:
        raise BadPicture(reason)

    return Item(name, read, None, size)


def identity_of(paths: Sequence[Path], root: Path) -> list[Any]:
    """What files are known by: where they are, their names, sizes and times of change.

    The place belongs to it since files of other data may have the same names, sizes and times: packages
    give all their files one time, and MNIST's files are as long as those of Fashion-MNIST.
    """
    found = [(path, path.stat()) for path in paths]
    return [
        str(root.resolve()),
        *([str(path.relative_to(root)), stat.st_size, stat.st_mtime_ns] for path, stat in found),
    ]


def natural(name: str) -> tuple[Any, ...]:
    """What names are sorted by: numbers in them as numbers, letters without regard to case, then as they are.

    Example:
        >>> sorted(["b10", "b9", "B1", "a"], key=natural)
        ['a', 'B1', 'b9', 'b10']
    """
    parts = re.split(r"([0-9]+)", name)
    return (*map(_sortable, parts), (0, 0, name))


def numbered(
    labels: Sequence[Label], classes: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...], str]:
    """Labels as numbers, the names of all of them, and a sentence where labels were left out.

    Negative numbers are what the hubs write where a label is not told. Labels that only some pictures have
    are left out, as is a single class, from which there is nothing to learn.

    Raises:
        ValueError: a label is none of the classes.
    """
    told = [None if isinstance(label, int) and label < 0 else label for label in labels]
    missing = sum(label is None for label in told)
    if missing:
        some = missing < len(told)
        return (
            None,
            (),
            f"labels are left out, since {missing} of {len(told)} pictures have none" if some else "",
        )
    whole = [label for label in told if isinstance(label, int)]
    if len(whole) == len(told) and max(whole) < 10 * len(whole) + _SPARSE:
        names = tuple(map(str, range(max(whole) + 1))) if classes is None else tuple(classes)
        numbers = np.array(whole, dtype=np.int64)
        if max(whole) >= len(names):
            raise ValueError(f"labels must be below the {len(names)} classes, got {max(whole)}")
    else:
        words = list(map(str, told))
        names = tuple(sorted(set(words), key=natural)) if classes is None else tuple(classes)
        places = {name: place for place, name in enumerate(names)}
        strange = sorted(set(words) - set(places))
        if strange:
            raise ValueError(f"labels must be among the {len(names)} classes, got {strange[0]!r}")
        numbers = np.array([places[word] for word in words], dtype=np.int64)
    if len(names) == 1:
        return (
            None,
            (),
            f"all pictures are of one class, {names[0]!r}: they are taken as pictures without labels",
        )
    return numbers, names, ""


def _sortable(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 0, 0, part.lower()
    digits = part.lstrip("0")
    return 1, len(digits), digits  # Python makes no integer of thousands of digits
