"""A world is a latent process seen through a mixing: it samples pairs (z, z', x = g(z), x' = g(z'))."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.worlds.mixings import Identity, Mixing
from isojepa.worlds.processes import Process


@dataclass(frozen=True)
class Pairs:
    """Latents and observations of positive pairs, each (batch, dim)."""

    z: Tensor
    z_next: Tensor
    x: Tensor
    x_next: Tensor

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in ("z", "z_next", "x", "x_next")}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"pairs must have equal lengths, got {sizes}")

    def __len__(self) -> int:
        return len(self.z)


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
        >>> pairs = World(OrnsteinUhlenbeck(dim=2, rho=0.95), Spiral()).sample(8, generator(0, "data"))
        >>> pairs.x.shape
        torch.Size([8, 2])
    """

    def __init__(self, process: Process, mixing: Mixing | None = None) -> None:
        self.process = process
        self.mixing: Mixing = Identity() if mixing is None else mixing
        if not callable(self.mixing):
            raise ValueError(f"mixing must be callable, got {mixing!r}")
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

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Pairs:
        """Draw n pairs."""
        z, z_next = self.process.sample(n, generator)
        return Pairs(z, z_next, self.mixing(z), self.mixing(z_next))

    def __repr__(self) -> str:
        return f"World({self.process!r}, {self.mixing!r})"
