"""The same states seen by several observers: each is learned apart, pairs of observations are compared after.

An environment of several observers answers three questions, and nothing else:

    source(i)     what one agent is trained on: its own observations, and nothing of the others
    pairs(i, j)   observations of the same states by two observers, row by row, to embed and to align
    paired(i, j)  a source of both at once, for teaching, which needs synchronised views

Each takes a split: "train", "test", or None for all. A split goes by state: all rows of one state (the skin
tones of an emoji, the frames of a drive, the pictures of one toy) lie on one side, for every observer, and on
the same side for the same seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.names import choose, unknown
from isojepa.registry import Context, make
from isojepa.seeds import generator
from isojepa.worlds.paired import Paired
from isojepa.worlds.source import Source

T = TypeVar("T")
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Pairs(Generic[T]):
    """Observations of the same states by two observers: row k of both is one state.

    Attributes:
        first, second: what each saw, tensors (n, ...) or `Pictures` of n.
        ids: (n,) numbers of the states, which splits go by; a state may have several rows.
        labels: (n,) where there are any.
        z: (n, dim) the latents, where the world knows them.

    Raises:
        ValueError: lengths differ, or there are no rows.
    """

    first: T
    second: T
    ids: Tensor
    labels: Tensor | None = None
    z: Tensor | None = None

    def __post_init__(self) -> None:
        parts: dict[str, Any] = {"first": self.first, "second": self.second, "ids": self.ids}
        parts |= {"labels": self.labels, "z": self.z}
        lengths = {name: len(part) for name, part in parts.items() if part is not None}
        if len(set(lengths.values())) > 1 or not lengths["ids"]:
            raise ValueError(f"pairs must have rows, as many in each part, got {lengths}")

    def __len__(self) -> int:
        return len(self.ids)


@runtime_checkable
class Observers(Protocol):
    """The same states seen by several observers, who are named."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the observers, in their order."""
        ...

    def source(self, observer: int | str, split: str | None = "train") -> Source:
        """What one agent is trained on: its own observations alone."""
        ...

    def pairs(self, first: int | str, second: int | str, split: str | None = "test") -> Pairs[Any]:
        """Observations of the same states by two observers, of a split."""
        ...

    def paired(self, first: int | str, second: int | str, split: str | None = "train") -> Paired:
        """A source with the views of both observers of the same states."""
        ...


def environment(name: str, data: str | Path | None = None, **settings: Any) -> Observers:
    """The observers of an environment, by its name.

    Args:
        name: e.g. "emoji", "toys", "rig", "recipes", "latents"; `isojepa list environments` tells all.
        data: where its files are, for those that are read or kept somewhere.
        settings: of the environment, by name.

    Raises:
        ValueError: there is no such environment or setting, or its files cannot be read.
        ImportError: a library is missing; the message names the command that installs it.

    Example:
        >>> environment("latents", dim=4).names
        ('first', 'second')
    """
    where = {} if data is None else {"data": str(data)}
    built: Observers = make("environment", name, **where, **settings).build(Context())
    return built


def observer_number(observer: int | str, names: Sequence[str]) -> int:
    """Which of the observers is meant, by number or name.

    Raises:
        ValueError: there is none such.

    Example:
        >>> observer_number("rear", ("front", "rear"))
        1
    """
    if isinstance(observer, str):
        return choose("observer", observer, {name: number for number, name in enumerate(names)})
    if isinstance(observer, bool) or not isinstance(observer, int) or not 0 <= observer < len(names):
        raise ValueError(unknown(f"observer (or its number from 0 to {len(names) - 1})", observer, names))
    return observer


def check_split(split: str | None) -> str | None:
    """A split of states: "train", "test" or None.

    Raises:
        ValueError: it is something else.
    """
    if split is not None and split not in SPLITS:
        raise ValueError(unknown("split (or None for all)", split, SPLITS))
    return split


@checked
def held_out_rows(states: Tensor, held_out: float, seed: int) -> Tensor:
    """Which rows are held out, by state: all rows of one state are on one side.

    Args:
        states: (rows,) any whole numbers.
        held_out: share of the states, in (0, 1); one at least on each side.
        seed: any integer.

    Returns:
        (rows,) bool.

    Raises:
        ValueError: the share is not in (0, 1), or there are fewer than two states.

    Example:
        >>> aside = held_out_rows(torch.tensor([5, 5, 7, 7, 9]), 0.4, seed=0)
        >>> bool(aside[0] == aside[1]), bool(aside[2] == aside[3]), int(aside[[0, 2, 4]].sum())
        (True, True, 1)
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie in (0, 1), got {held_out}")
    _, numbers = torch.unique(states, return_inverse=True)
    count = int(numbers.max()) + 1 if len(numbers) else 0
    check_count("the number of states", count, 2)
    aside = min(count - 1, max(1, round(held_out * count)))
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[torch.randperm(count, generator=generator(seed, "divide"))[:aside]] = True
    return chosen[numbers]
