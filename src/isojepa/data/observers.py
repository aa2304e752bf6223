"""Several observers of the same states, apart or in one batch.

The same states seen by several observers: each is learned apart, pairs of observations are compared after.

An environment of several observers answers three questions, and nothing else:

    source(i)     what one agent is trained on: its own observations, and nothing of the others
    pairs(i, j)   observations of the same states by two observers, row by row, to embed and to align
    paired(i, j)  a source of both at once, for teaching, which needs synchronised views

Each takes a split: "train", "test", or None for all. A split goes by state: all rows of one state (the skin
tones of an emoji, the frames of a drive, the images of one toy) lie on one side, for every observer, and on
the same side for the same seed.

Two observers of the same states in one batch: for objectives that need both at once.

Agents that are trained apart never see this: each has a source of its own. Teaching does: a batch of `Paired`
has the views of the first observer and then those of the second, and row k of all of them is one state. Its
`pairing` says which views are whose, and `pairing.divide(batch)` gives each observer's batch back.

Two finite sets are matched by row: row k of the first and row k of the second show the same state, and each
cuts its views by a random stream of its own. Two endless sources are matched by their latents: the first
draws them, the second is observed there.

One latent process seen through two mixings or more: where the theorems say what maps between agents are.

Agent i sees x = g_i(z). If each recovers its world up to a rotation, h_i = Q_i z, then the map from one's
embeddings to another's is itself one, W = Q_2 Q_1^T (Theorem 1 of Klindt et al., 2026, twice).

One observer of an environment as the world of a run: what one agent is trained on, apart from others.

Two observers of an environment as one world: for objectives that need both at once, by name.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.processes import OrnsteinUhlenbeckSpec, Process, check_samples
from isojepa.data.source import Facts, Finite, Source, Streams, check_source, described, finite, observable
from isojepa.data.world import Mixing, World
from isojepa.registry import Context, Spec, build_spec, component_field, find, register, settings
from isojepa.seeds import generator
from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, choose, unknown, validate_types


@dataclass(frozen=True)
class Pairing:
    """Which views of a batch are the first observer's: the first `views[0]`; the rest are the second's.

    Attributes:
        views: how many views each observer has.
        global_views: how many of the first of them make each observer's own center.

    Example:
        >>> pairing = Pairing((2, 1), (2, 1))
        >>> first, second = pairing.divide(Batch((torch.zeros(4, 3), torch.zeros(4, 3), torch.ones(4, 2))))
        >>> len(first.views), tuple(second.views[0].shape)
        (2, (4, 2))
    """

    views: tuple[int, int]
    global_views: tuple[int, int]

    def divide(self, batch: Batch) -> tuple[Batch, Batch]:
        """The batch of each observer, of the same states in the same rows.

        Raises:
            ValueError: the batch has another number of views.
        """
        count = self.views[0]
        if len(batch.views) != sum(self.views):
            raise ValueError(
                f"a batch of two observers must have {self.views[0]} + {self.views[1]} views, "
                f"got {len(batch.views)}"
            )
        parts = (batch.views[:count], batch.views[count:])
        latents = (None, None) if batch.z is None else (batch.z[:count], batch.z[count:])
        first, second = (
            Batch(views, globals_, z, batch.labels, batch.actions, batch.ids)
            for views, globals_, z in zip(parts, self.global_views, latents, strict=True)
        )
        return first, second


class Paired:
    """A source whose batches have the views of two observers of the same states.

    The joint `global_views` are all views where neither observer has local ones, else the global ones of the
    first observer: a center of both is for an objective to make, from `pairing.divide`.

    Args:
        first: a source. Finite with as many states as the second, or one that brings latents.
        second: a source. Where the two are endless, one that can be observed at latents.
        ids: (states,) which state each row of two finite sets is, for splits; what the first says by default.

    Raises:
        ValueError: the two cannot be matched.

    Example:
        >>> import numpy as np
        >>> from isojepa.seeds import generator
        >>> from isojepa.data.as_source import Arrays
        >>> x = np.arange(20, dtype="float32").reshape(10, 2)
        >>> source = Paired(Arrays((x, x)), Arrays((-x, -x, -x)))
        >>> batch = source.sample(4, generator(0, "data"))
        >>> source.pairing.views, torch.equal(batch.views[0], -batch.views[2])
        ((2, 3), True)
    """

    @validate_types
    def __init__(self, first: Source, second: Source, ids: Tensor | Sequence[int] | None = None) -> None:
        self.first, self.second = check_source(first, "first"), check_source(second, "second")
        self.ids = None if ids is None else torch.as_tensor(ids).long()
        one, two = first.facts, second.facts
        if one.size != two.size:
            raise ValueError(
                "two observers must both be endless, or have the same number of states, got "
                f"{_count(one.size)} and {_count(two.size)}"
            )
        if one.size is None and (one.dim is None or not observable(second)):
            raise ValueError(
                "endless observers must be matched by latents: the first must bring them and the second must "
                f"be observable at them, got {first!r} and {second!r}"
            )
        if one.size is None and one.dim != two.dim:
            raise ValueError(f"observers must have the same latents, got {one.dim} and {two.dim}")
        if self.ids is not None and self.ids.shape != (one.size,):
            raise ValueError(
                f"ids must be one for each of {_count(one.size)} states, got shape {tuple(self.ids.shape)}"
            )
        probe = tuple(source.sample(1, make_generator(0, "probe")) for source in (first, second))
        counts = tuple(len(batch.views) for batch in probe)
        self.pairing = Pairing((counts[0], counts[1]), (probe[0].global_views, probe[1].global_views))
        shapes = tuple(tuple(view.shape[1:]) for batch in probe for view in batch.views)
        self.facts = Facts(
            dim=one.dim if one.dim == two.dim else None,
            correlation=one.correlation if one.correlation == two.correlation else None,
            gaussian=one.gaussian if one.gaussian == two.gaussian else None,
            shapes=shapes,
            size=one.size,
            classes=one.classes,
            described=described(first) and described(second),
        )

    @validate_types
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n states, each seen by both."""
        check_samples(n)
        if self.facts.size is None:
            return self._observed(n, generator)
        ids = torch.randint(self.facts.size, (n,), generator=generator)
        seed = int(torch.randint(1 << 31, (), generator=generator))
        return self.take(ids, Streams(seed, torch.zeros_like(ids), ids))

    def take(self, ids: Tensor, streams: Streams) -> Batch:
        """The states of given numbers; the second observer's views are drawn apart from the first's.

        Raises:
            ValueError: the two do not agree which states these are.
        """
        other = replace(streams, seed=_other_seed(streams.seed))
        first, second = _finite(self.first).take(ids, streams), _finite(self.second).take(ids, other)
        if self.ids is not None:
            return self._joined(first, second, self.ids[ids])
        if first.ids is not None and second.ids is not None and not torch.equal(first.ids, second.ids):
            raise ValueError(
                "row k of two observers must be the same state, but their ids differ: sort both by state, or "
                "say which state each row is by ids"
            )
        return self._joined(first, second, ids if first.ids is None else first.ids)

    def describe(self) -> dict[str, Any]:
        """What each observer says of its data."""
        return {
            name: source.describe()
            for name, source in (("first", self.first), ("second", self.second))
            if described(source)
        }

    def _observed(self, n: int, generator: torch.Generator) -> Batch:
        first = self.first.sample(n, generator)
        if not observable(self.second):  # the constructor has seen to it
            raise ValueError("the second observer must be observable at latents")
        other = Batch(tuple(self.second.observe(z) for z in first.latents), z=first.latents)
        return self._joined(first, other, first.ids)

    def _joined(self, first: Batch, second: Batch, ids: Tensor | None) -> Batch:
        views = first.views + second.views
        alike = all(a == b for a, b in zip(self.pairing.views, self.pairing.global_views, strict=True))
        return Batch(
            views,
            len(views) if alike else first.global_views,
            z=None if first.z is None or second.z is None else first.z + second.z,
            labels=second.labels if first.labels is None else first.labels,
            actions=first.actions,
            ids=ids,
        )

    def __repr__(self) -> str:
        return f"Paired({self.first!r}, {self.second!r})"


def _finite(source: Source) -> Finite:
    if not finite(source):  # the constructor has seen to it
        raise ValueError("the observer must be a finite set")
    return source


def _other_seed(seed: int) -> int:
    """Another seed that follows from one."""
    return int.from_bytes(hashlib.blake2b(f"second {seed}".encode(), digest_size=6).digest(), "little")


def _count(size: int | None) -> str:
    return "no end of" if size is None else str(size)


T = TypeVar("T")
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Pairs(Generic[T]):
    """Observations of the same states by two observers: row k of both is one state.

    Attributes:
        first, second: what each saw, tensors (n, ...) or `ImageSet` of n.
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
        name: e.g. "emoji", "toys", "rig", "recipes", "latents"; see `isojepa list environments`.
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
    built: Observers = build_spec("environment", name, **where, **settings).build(Context())
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


@validate_types
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


_NAMES = ("first", "second", "third", "fourth")


class LatentObservers:
    """Observers of one latent process, each through a mixing of its own.

    There is no end of states: training draws new ones at every step, and the pairs of the splits "train" and
    "test" are drawn from two streams of the seed. Pairs come with their latents.

    Args:
        process: where latents come from.
        mixings: how each observer sees them.
        names: of the observers; first, second and so on by default.
        states: number of states of `pairs`, for each split.
        seed: draws them.

    Raises:
        ValueError: there are fewer than two observers, or names do not fit.

    Example:
        >>> from isojepa.data.world import Identity, Spiral
        >>> from isojepa.data.processes import OrnsteinUhlenbeck
        >>> worlds = LatentObservers(OrnsteinUhlenbeck(dim=2, rho=0.9), [Identity(), Spiral()], states=50)
        >>> pairs = worlds.pairs(0, 1)
        >>> bool((pairs.first == pairs.z).all()), tuple(pairs.second.shape)
        (True, (50, 2))
    """

    @validate_types
    def __init__(
        self,
        process: Process,
        mixings: Sequence[Mixing],
        *,
        names: Sequence[str] | None = None,
        states: int = 10_000,
        seed: int = 0,
    ) -> None:
        self.worlds = tuple(World(process, mixing) for mixing in mixings)
        count = len(self.worlds)
        self.names = (
            tuple(_NAMES[:count] if count <= len(_NAMES) else map(str, range(count)))
            if names is None
            else tuple(names)
        )
        if count < 2 or len(set(self.names)) != count:
            raise ValueError(
                f"observers must be two at least, each with a name of its own, got {count} mixings and "
                f"the names {', '.join(self.names) or 'none'}"
            )
        self.states, self.seed = check_count("states", states), seed

    def source(self, observer: int | str, split: str | None = "train") -> World:
        """The world as one observer sees it; there is no end of states, so splits are alike."""
        check_split(split)
        return self.worlds[observer_number(observer, self.names)]

    def pairs(self, first: int | str, second: int | str, split: str | None = "test") -> Pairs[Tensor]:
        """What two observers see at the same latents; without a split, those of both."""
        one, two = self.source(first), self.source(second)
        check_split(split)
        splits = ("train", "test") if split is None else (split,)
        z = torch.cat(
            [one.sample(self.states, generator(self.seed, "observers", name)).latents[0] for name in splits]
        )
        start = self.states if split == "test" else 0
        return Pairs(one.observe(z), two.observe(z), torch.arange(start, start + len(z)), z=z)

    def paired(self, first: int | str, second: int | str, split: str | None = "train") -> Paired:
        """A source with the views of both observers at the same latents."""
        return Paired(self.source(first, split), self.source(second, split))

    def __repr__(self) -> str:
        return f"LatentObservers({', '.join(map(repr, self.worlds))})"


@register("environment", "latents", default=True)
@dataclass(frozen=True)
class LatentsSpec(Spec):
    """One latent process seen through several mixings."""

    process: Spec = component_field("process", OrnsteinUhlenbeckSpec)
    """Latent process; `isojepa list processes`."""
    mixings: tuple[str, ...] = ("additive-coupling", "affine-coupling")
    """How each observer sees the latents; those that are drawn have seeds of their own."""
    states: int = 10_000
    """Number of states of the pairs of a split."""
    seed: int = 0
    """Draws the mixings and the states of the pairs."""

    def resolve(self, context: Context) -> "LatentsSpec":
        return replace(self, process=self.process.resolve(context))

    def build(self, context: Context) -> LatentObservers:
        """The process, and a mixing for each observer."""
        inner = replace(context, dim=int(vars(self.process)["dim"]), seed=self.seed)
        process = self.process.resolve(inner).build(inner)
        mixings = []
        for number, name in enumerate(self.mixings):
            random = "mixing_seed" in settings(find("mixing", name), {})
            spec = build_spec("mixing", name, **({"mixing_seed": self.seed + number} if random else {}))
            mixings.append(spec.resolve(inner).build(inner))
        return LatentObservers(process, mixings, states=self.states, seed=self.seed)


@register("world", "observer")
@dataclass(frozen=True)
class ObserverSpec(Spec):
    """What one observer of an environment sees, of the states of the split train."""

    environment: Spec = component_field("environment", LatentsSpec)
    """Environment; `isojepa list environments`."""
    observer: str = "0"
    """Name of the observer, or its number from 0 on."""

    def resolve(self, context: Context) -> "ObserverSpec":
        return replace(self, environment=self.environment.resolve(context))

    def build(self, context: Context) -> Source:
        observers = self.environment.build(context)
        named = self.observer in observers.names or not self.observer.isdecimal()
        source: Source = observers.source(self.observer if named else int(self.observer))
        return source


@register("world", "together")
@dataclass(frozen=True)
class TogetherSpec(Spec):
    """Two observers of the same states in one batch, the first one's views before the second's."""

    environment: Spec = component_field("environment", LatentsSpec)
    """What they observe; `isojepa list environments`."""
    first: int = 0
    """Number of the first observer: the student's, in teaching."""
    second: int = 1
    """Number of the second: the teacher's."""

    def build(self, context: Context) -> Paired:
        observers: Observers = self.environment.build(context)
        return observers.paired(self.first, self.second)
