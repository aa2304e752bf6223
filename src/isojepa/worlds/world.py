"""A world is a latent process seen through a mixing: batches of two views x = g(z) and x' = g(z')."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.names import shown
from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.batch import Batch
from isojepa.worlds.mixings import Identity, Mixing, MixingSpec, SpiralSpec
from isojepa.worlds.processes import (
    MovingProcess,
    OrderedProcess,
    OrnsteinUhlenbeckSpec,
    Process,
    ProcessSpec,
)
from isojepa.worlds.source import Facts, Path


class World:
    """A latent process and the mixing through which it is observed.

    Args:
        process: where latent pairs come from.
        mixing: any callable from (batch, dim) latents to (batch, observed dim) observations.

    Raises:
        ValueError: the mixing does not map the process's latents to finite observations.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.worlds import OrnsteinUhlenbeck, Spiral
        >>> batch = World(OrnsteinUhlenbeck(dim=2, rho=0.95), Spiral()).sample(8, generator(0, "data"))
        >>> [tuple(view.shape) for view in batch.views]
        [(8, 2), (8, 2)]
    """

    def __init__(self, process: Process, mixing: Mixing | None = None) -> None:
        if not isinstance(process, Process):
            raise ValueError(f"process must have dim, correlation, gaussian and sample, got {shown(process)}")
        self.process = process
        self.mixing: Mixing = Identity() if mixing is None else mixing
        if not callable(self.mixing):
            raise ValueError(f"mixing must be callable, got {shown(mixing)}")
        try:
            with torch.no_grad():
                probe = self.mixing(torch.linspace(-1, 1, 3 * process.dim).reshape(3, process.dim))
        except RuntimeError as error:
            raise ValueError(f"mixing does not take {process.dim} latents: {error}") from error
        if not isinstance(probe, Tensor) or probe.ndim < 2 or len(probe) != 3:
            raise ValueError(
                "mixing must map (batch, dim) to (batch, ...), got "
                f"{tuple(probe.shape) if isinstance(probe, Tensor) else type(probe).__name__} for batch 3"
            )
        if not torch.isfinite(probe).all():
            raise ValueError("mixing must give finite observations, got NaN or Inf for latents in [-1, 1]")
        self._observed_shape = tuple(probe.shape[1:])

    @property
    def dim(self) -> int:
        """Number of latent coordinates."""
        return self.process.dim

    @property
    def observed_dim(self) -> int:
        """Number of observed coordinates (the last axis of an observation)."""
        return self._observed_shape[-1]

    @property
    def correlation(self) -> float | tuple[float, ...]:
        """Correlation of each latent across a pair."""
        return self.process.correlation

    @property
    def gaussian(self) -> bool:
        """Whether the latents are exactly N(0, I)."""
        return self.process.gaussian

    @cached_property
    def facts(self) -> Facts:
        """What is known of the world, and what it can do."""
        return Facts(
            dim=self.dim,
            correlation=self.correlation,
            gaussian=self.gaussian,
            shapes=(self._observed_shape, self._observed_shape),
            observable=True,
            moving=isinstance(self.process, MovingProcess),
            ordered=isinstance(self.process, OrderedProcess),
        )

    @torch.no_grad()
    @checked
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n pairs."""
        z, z_next = self.process.sample(n, generator)
        return Batch((self.mixing(z), self.mixing(z_next)), z=(z, z_next))

    @torch.no_grad()
    def observe(self, z: Tensor) -> Tensor:
        """What is seen at latents (batch, dim): (batch, ...)."""
        return self.mixing(z)

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Path:
        """Draw n paths of the process, and what is seen along them.

        Raises:
            ValueError: the process has no trajectories.
        """
        if not isinstance(self.process, MovingProcess):
            raise ValueError(f"{self.process!r} gives pairs only: it has no trajectories")
        z = self.process.trajectory(n, steps, generator)
        return Path(self.observe(z.flatten(0, 1)).unflatten(0, z.shape[:2]), z)

    def in_order(self) -> "World":
        """The same world, whose pairs come path after path where its process has recorded ones."""
        if not isinstance(self.process, OrderedProcess):
            return self
        return World(self.process.in_order(), self.mixing)

    def __repr__(self) -> str:
        return f"World({self.process!r}, {self.mixing!r})"


@register("world", "synthetic", default=True)
@dataclass(frozen=True)
class WorldSpec(Spec):
    """A latent process seen through a mixing."""

    process: Spec = chosen("process", OrnsteinUhlenbeckSpec)
    """Latent process; `isojepa list processes`."""
    mixing: Spec = chosen("mixing", SpiralSpec)
    """How latents become observations; `isojepa list mixings`."""

    @property
    def dim(self) -> int:
        """Number of latents."""
        return int(vars(self.process)["dim"])

    def resolve(self, context: Context) -> "WorldSpec":
        inner = replace(context, dim=self.dim)
        return WorldSpec(self.process.resolve(inner), self.mixing.resolve(inner))

    def build(self, context: Context) -> World:
        inner = replace(context, dim=self.dim)
        return World(self.process.build(inner), self.mixing.build(inner))

    def facts(self) -> Facts:
        """What is known of the latents without building the world."""
        if isinstance(self.process, ProcessSpec):
            return self.process.facts()
        return self.build(Context()).facts

    def around(self, seed: int) -> Context:
        """Known without building anything, but for the correlation: large mixings take their time."""
        if not isinstance(self.mixing, MixingSpec):
            return super().around(seed)
        shape = (self.mixing.observed(self.dim),)
        return Context(self.dim, (shape, shape), seed=seed)
