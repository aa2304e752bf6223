"""A source: where batches come from, what is known of it, and what it can do besides sampling.

A source has `facts` and `sample`. What some can do besides is declared in its facts and typed here:

    Observable   observe(z): what would be seen at chosen latents
    Moving       trajectory(n, steps, generator): observations along paths
    Ordered      in_order(): the same source, whose samples come path after path
    Finite       take(ids, streams): the states of a finite set by number; facts.size is how many there are
    Deferring    defer(ids, streams): the same, with views that are made on the device that uses them
    Described    describe(): plain values that identify the data, kept in the run directory
    Holding      held_out(): the same source at states that training never sees

`observable(source)` and so on read the facts and narrow the type; attributes are not inspected.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.seeds import generator as make_generator

Correlation = float | tuple[float, ...]


@dataclass(frozen=True)
class Facts:
    """Properties of a source; None means unknown.

    Attributes:
        dim: number of latents, if batches bring them.
        correlation: of each latent across two views; a tuple when they differ.
        gaussian: whether the latents are exactly N(0, I), which the theorems ask for.
        shapes: of one observation in each view.
        size: number of states of a finite set; None if there is no end of them.
        classes: number of classes, if batches bring labels in [0, classes).
        actions: dimensions of an action, if batches bring actions (batch, views - 1, actions).
        observable, moving, ordered, deferring, described, holding: what the source can do besides, see
            `isojepa.data.source`.
    """

    dim: int | None = None
    correlation: Correlation | None = None
    gaussian: bool | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None
    size: int | None = None
    observable: bool = False
    moving: bool = False
    ordered: bool = False
    deferring: bool = False
    classes: int | None = None
    described: bool = False
    holding: bool = False
    actions: int | None = None


@runtime_checkable
class Source(Protocol):
    """Where batches come from: worlds, recordings, images, simulators."""

    @property
    def facts(self) -> Facts:
        """What is known of it."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw a batch of n states."""
        ...


class Observable(Source, Protocol):
    """A source whose observations are a function of its latents."""

    def observe(self, z: Tensor) -> Tensor:
        """What is seen at latents (batch, dim): (batch, ...)."""
        ...


@dataclass(frozen=True)
class Path:
    """Observations along paths, (steps, paths, ...), with latents and actions where they are known."""

    x: Tensor
    z: Tensor | None = None
    actions: Tensor | None = None


class Moving(Source, Protocol):
    """A source that can be followed in time."""

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Path:
        """Draw n paths whose neighboring steps are as far apart as the views of a pair."""
        ...


class SequentialSource(Source, Protocol):
    """A source whose states lie along recorded paths."""

    def in_order(self) -> Source:
        """The same source, whose samples come path after path: a block of rows is then a piece of time."""
        ...


@dataclass(frozen=True)
class Streams:
    """A generator for each row of a batch of a finite set, for what is random in its views.

    It depends on the seed, the epoch and the state alone: not on the batch, the rank or the process that
    loads it.

    Attributes:
        seed: of the run.
        epochs, ids: (batch,) the epoch and the state of each row.
    """

    seed: int
    epochs: Tensor
    ids: Tensor

    def of(self, row: int) -> torch.Generator:
        """The generator of one row."""
        return make_generator(self.seed, "views", int(self.epochs[row]), int(self.ids[row]))


class Finite(Source, Protocol):
    """A finite set of states, which training goes through in epochs."""

    def take(self, ids: Tensor, streams: Streams) -> Batch:
        """The states of given numbers, (batch,) in [0, facts.size)."""
        ...


class Pending(Protocol):
    """A batch, or what becomes one when it is put on the device that uses it."""

    def __len__(self) -> int: ...

    def rows(self, index: slice | Tensor) -> "Pending":
        """Some of the states."""
        ...

    def to(self, device: torch.device | str) -> Batch:
        """The batch, on a device."""
        ...

    def pin_memory(self) -> "Pending":
        """The same in pinned memory, from which a device copies by itself."""
        ...


class Deferring(Finite, Protocol):
    """A finite set that can leave the making of its views to the device that uses them."""

    def defer(self, ids: Tensor, streams: Streams) -> Pending:
        """What `take` returns, once it is put on a device."""
        ...


class Described(Source, Protocol):
    """A source that describes its data for the run directory."""

    def describe(self) -> dict[str, Any]:
        """Plain values by name, as JSON can hold them."""
        ...


class Holding(Source, Protocol):
    """A source with states that training never sees, which evaluations and certificates look at."""

    def held_out(self) -> Source:
        """The same source at those states."""
        ...


def observable(source: Source) -> TypeGuard[Observable]:
    """Whether a source declares that it can be observed at chosen latents."""
    return source.facts.observable


def moving(source: Source) -> TypeGuard[Moving]:
    """Whether a source declares that it can be followed in time."""
    return source.facts.moving


def ordered(source: Source) -> TypeGuard[SequentialSource]:
    """Whether a source declares that its states lie along recorded paths."""
    return source.facts.ordered


def finite(source: Source) -> TypeGuard[Finite]:
    """Whether a source declares that it is a finite set."""
    return source.facts.size is not None


def deferring(source: Source) -> TypeGuard[Deferring]:
    """Whether a source declares that its views can be made where they are used."""
    return source.facts.deferring


def described(source: Source) -> TypeGuard[Described]:
    """Whether a source declares that it can say what its data are."""
    return source.facts.described


def holding(source: Source) -> TypeGuard[Holding]:
    """Whether a source declares that it holds states out."""
    return source.facts.holding


def held_out(source: Source) -> Source:
    """The states that a source holds out from training; the source itself if it holds none."""
    return source.held_out() if holding(source) else source


def summary(source: Source) -> dict[str, Any]:
    """What a record keeps of its source: shapes of views, number of states and classes, what it describes."""
    facts = source.facts
    values = {
        "shapes": facts.shapes,
        "size": facts.size,
        "classes": facts.classes,
        "actions": facts.actions,
    }
    return values | (source.describe() if described(source) else {})


def check_source(source: Any, name: str = "world") -> Source:
    """The source, or an error that says what one is."""
    if isinstance(source, Source):
        return source
    raise ValueError(
        f"{name} must be a source with `facts` and `sample`, such as World(process, mixing), "
        f"got {type(source).__name__}"
    )
