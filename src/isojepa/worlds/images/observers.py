"""Pictures of the same states by several observers: matched by key, split by state.

A key says what a picture shows, e.g. the code points of an emoji or the moment of a frame: pictures of two
observers with equal keys are one pair. A state is what splits go by, e.g. the base emoji or the drive: all
its pictures are on one side, whoever took them.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.names import shown
from isojepa.worlds.images.pictures import Part, Pictures, Shuffled
from isojepa.worlds.images.source import Images
from isojepa.worlds.images.views import Views
from isojepa.worlds.observers import Paired, Pairs, check_split, held_out_rows, observer_number


@dataclass(frozen=True)
class Observer:
    """What one observer saw.

    Attributes:
        name: of the observer.
        pictures: what it is trained on.
        keys: what each picture shows, each once.
        states: (pictures,) numbers of the states, which splits go by.
        views: how views are cut for training; by the pictures' size where None.
        compared: what is embedded afterwards in place of the pictures, as many; None for the same.

    Raises:
        ValueError: lengths differ, or a key occurs twice.
    """

    name: str
    pictures: Pictures
    keys: tuple[Hashable, ...]
    states: Tensor
    views: Views | None = None
    compared: Pictures | None = None

    def __post_init__(self) -> None:
        lengths = [len(self.pictures), len(self.keys), len(self.states)]
        lengths += [] if self.compared is None else [len(self.compared)]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"observer {self.name!r} must have a key and a state for each picture, got {lengths}"
            )
        if len(set(self.keys)) < len(self.keys):
            seen: set[Hashable] = set()
            twice = next(key for key in self.keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(f"observer {self.name!r} must show each thing once, got {shown(twice)} twice")


class PictureObservers:
    """Observers whose observations are pictures.

    Args:
        observers: two at least, with different names.
        held_out: share of the states that are the split "test", in (0, 1).
        seed: chooses them.
        test: the states of the split "test", where they are given, in place of `held_out` and `seed`.

    Raises:
        ValueError: there are fewer than two observers, names are the same, or two observers say that one
            thing belongs to different states.

    Example:
        >>> import numpy as np
        >>> from isojepa.worlds.images.pictures import Stack
        >>> grey = np.zeros((4, 8, 8), dtype=np.uint8)
        >>> states = torch.tensor([0, 0, 1, 1])
        >>> left = Observer("left", Stack(grey), ("a", "b", "c", "d"), states)
        >>> right = Observer("right", Stack(grey[:3]), ("d", "b", "a"), states[[3, 1, 0]])
        >>> found = PictureObservers([left, right], held_out=0.5)
        >>> found.pairs("left", "right", split=None).ids.tolist()
        [0, 0, 1]
    """

    @checked
    def __init__(
        self,
        observers: Sequence[Observer],
        *,
        held_out: float = 0.2,
        seed: int = 0,
        test: Collection[int] | None = None,
    ) -> None:
        self.observers = tuple(observers)
        self.names = tuple(observer.name for observer in self.observers)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(
                f"observers must be two at least with different names, got {', '.join(self.names) or 'none'}"
            )
        self._rows = [{key: row for row, key in enumerate(one.keys)} for one in self.observers]
        self._check_states()
        every = torch.cat([observer.states for observer in self.observers]).unique()
        if test is None:
            self.test = frozenset(every[held_out_rows(every, held_out, seed)].tolist())
        else:
            self.test = frozenset(int(state) for state in test)

    def pictures(self, observer: int | str, split: str | None = "train") -> Part:
        """The pictures of one observer, of a split."""
        one = self._one(observer)
        return Part(one.pictures, self._split(one, split))

    def states(self, observer: int | str, split: str | None = "train") -> Tensor:
        """The state of each of `pictures`."""
        one = self._one(observer)
        return one.states[self._split(one, split)]

    def source(self, observer: int | str, split: str | None = "train") -> Images:
        """What one agent is trained on: views of its own pictures alone."""
        return Images(self.pictures(observer, split), self._one(observer).views)

    def pairs(self, first: int | str, second: int | str, split: str | None = "test") -> Pairs[Part]:
        """Pictures of the same things by two observers, in the order of the first.

        Raises:
            ValueError: they have no thing in common.
        """
        rows, others = self._matched(first, second, split)
        one, two = self._one(first), self._one(second)
        parts = [
            Part(each.pictures if each.compared is None else each.compared, found)
            for each, found in ((one, rows), (two, others))
        ]
        return Pairs(parts[0], parts[1], one.states[rows], labels=parts[0].labels)

    def paired(self, first: int | str, second: int | str, split: str | None = "train") -> Paired:
        """A source with the views of both observers of the same things."""
        rows, others = self._matched(first, second, split)
        one, two = self._one(first), self._one(second)
        return Paired(
            Images(Part(one.pictures, rows), one.views),
            Images(Part(two.pictures, others), two.views),
            ids=one.states[rows],
        )

    def shuffled(self, patch: int, *, fixed: bool = False, seed: int = 0) -> "PictureObservers":
        """The same observers, of whose pictures the spatial structure is destroyed: see `Shuffled`.

        Each observer has permutations of its own.
        """
        changed = []
        for number, one in enumerate(self.observers):
            shuffle = partial(Shuffled, patch=patch, fixed=fixed, seed=seed, stream=number)
            compared = None if one.compared is None else shuffle(one.compared)
            changed.append(replace(one, pictures=shuffle(one.pictures), compared=compared))
        return PictureObservers(changed, test=self.test)

    def __repr__(self) -> str:
        told = ", ".join(f"{one.name}: {len(one.pictures)}" for one in self.observers)
        return f"PictureObservers({told})"

    def _one(self, observer: int | str) -> Observer:
        return self.observers[observer_number(observer, self.names)]

    def _split(self, one: Observer, split: str | None) -> Tensor:
        """Rows of a split."""
        if check_split(split) is None:
            return torch.arange(len(one.states))
        aside = torch.isin(one.states, torch.tensor(sorted(self.test), dtype=torch.int64))
        rows = (aside if split == "test" else ~aside).nonzero()[:, 0]
        if not len(rows):
            raise ValueError(f"split {split!r} must have pictures, got none of observer {one.name!r}")
        return rows

    def _matched(self, first: int | str, second: int | str, split: str | None) -> tuple[Tensor, Tensor]:
        one, two = observer_number(first, self.names), observer_number(second, self.names)
        theirs = self._rows[two]
        both = [
            (row, theirs[self.observers[one].keys[row]])
            for row in self._split(self.observers[one], split).tolist()
            if self.observers[one].keys[row] in theirs
        ]
        if not both:
            raise ValueError(
                f"observers {self.names[one]!r} and {self.names[two]!r} must have seen the same things, "
                f"got none in common{'' if split is None else f' in split {split!r}'}"
            )
        rows, others = torch.tensor(both).T
        return rows, others

    def _check_states(self) -> None:
        known: dict[Hashable, int] = {}
        for one in self.observers:
            for key, state in zip(one.keys, one.states.tolist(), strict=True):
                if known.setdefault(key, state) != state:
                    raise ValueError(
                        f"all observers must say which state {shown(key)} is, got {known[key]} and {state}"
                    )
