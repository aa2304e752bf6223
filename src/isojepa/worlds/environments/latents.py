"""One latent process seen through two mixings or more: where the theorems say what maps between agents are.

Agent i sees x = g_i(z). If each recovers its world up to a rotation, h_i = Q_i z, then the map from one's
embeddings to another's is itself one, W = Q_2 Q_1^T (Theorem 1 of Klindt et al., 2026, twice).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.registry import Context, Spec, chosen, find, make, register, settings
from isojepa.seeds import generator
from isojepa.worlds.mixings import Mixing
from isojepa.worlds.observers import Paired, Pairs, check_split, observer_number
from isojepa.worlds.processes import OrnsteinUhlenbeckSpec, Process
from isojepa.worlds.world import World

_NAMES = ("first", "second", "third", "fourth")


class LatentObservers:
    """Observers of one latent process, each through a mixing of its own.

    There is no end of states: training draws new ones at every step, and the pairs of the splits "train" and
    "test" are drawn from two streams of the seed. The latents of pairs are told.

    Args:
        process: where latents come from.
        mixings: how each observer sees them.
        names: of the observers; first, second and so on by default.
        states: number of states of `pairs`, for each split.
        seed: draws them.

    Raises:
        ValueError: there are fewer than two observers, or names do not fit.

    Example:
        >>> from isojepa.worlds.mixings import Identity, Spiral
        >>> from isojepa.worlds.processes import OrnsteinUhlenbeck
        >>> worlds = LatentObservers(OrnsteinUhlenbeck(dim=2, rho=0.9), [Identity(), Spiral()], states=50)
        >>> pairs = worlds.pairs(0, 1)
        >>> bool((pairs.first == pairs.z).all()), tuple(pairs.second.shape)
        (True, (50, 2))
    """

    @checked
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
        wanted = ("train", "test") if split is None else (split,)
        z = torch.cat(
            [one.sample(self.states, generator(self.seed, "observers", name)).latents[0] for name in wanted]
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

    process: Spec = chosen("process", OrnsteinUhlenbeckSpec)
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
            drawn = "mixing_seed" in settings(find("mixing", name), {})
            spec = make("mixing", name, **({"mixing_seed": self.seed + number} if drawn else {}))
            mixings.append(spec.resolve(inner).build(inner))
        return LatentObservers(process, mixings, states=self.states, seed=self.seed)
