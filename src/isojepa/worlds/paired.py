"""Two observers of the same states in one batch: for objectives that need both at once.

Agents that are trained apart never see this: each has a source of its own. Teaching does: a batch of `Paired`
has the views of the first observer and then those of the second, and row k of all of them is one state. Its
`pairing` says which views are whose, and `pairing.divide(batch)` gives each observer's batch back.

Two finite sets are matched by row: row k of the first and row k of the second show the same state, and each
cuts its views by a random stream of its own. Two endless sources are matched by their latents: the first
draws them, the second is observed there.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.seeds import generator as make_generator
from isojepa.worlds.arguments import check_count
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts, Finite, Source, Streams, check_source, described, finite, observable


@dataclass(frozen=True)
class Pairing:
    """Which views of a batch are the first observer's: the first `views[0]`; the rest are the second's.

    Attributes:
        views: how many views each observer has.
        global_views: how many of the first of them make each observer's own centre.

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
    first observer: a centre of both is for an objective to make, from `pairing.divide`.

    Args:
        first: a source. Finite with as many states as the second, or one that brings latents.
        second: a source. Where the two are endless, one that can be observed at latents.
        ids: (states,) which state each row of two finite sets is, for splits; what the first says by default.

    Raises:
        ValueError: the two cannot be matched.

    Example:
        >>> import numpy as np
        >>> from isojepa.seeds import generator
        >>> from isojepa.worlds.arrays import Arrays
        >>> x = np.arange(20, dtype="float32").reshape(10, 2)
        >>> source = Paired(Arrays((x, x)), Arrays((-x, -x, -x)))
        >>> batch = source.sample(4, generator(0, "data"))
        >>> source.pairing.views, torch.equal(batch.views[0], -batch.views[2])
        ((2, 3), True)
    """

    @checked
    def __init__(self, first: Source, second: Source, ids: Tensor | Sequence[int] | None = None) -> None:
        self.first, self.second = check_source(first, "first"), check_source(second, "second")
        self.ids = None if ids is None else torch.as_tensor(ids).long()
        one, two = first.facts, second.facts
        if one.size != two.size:
            raise ValueError(
                "two observers must both be endless, or have the same number of states, got "
                f"{_told(one.size)} and {_told(two.size)}"
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
                f"ids must be one for each of {_told(one.size)} states, got shape {tuple(self.ids.shape)}"
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

    @checked
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n states, each seen by both."""
        check_count(n)
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
        seen = Batch(tuple(self.second.observe(z) for z in first.latents), z=first.latents)
        return self._joined(first, seen, first.ids)

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


def _told(size: int | None) -> str:
    return "no end of" if size is None else str(size)
