"""Random networks that can be undone: into more dimensions than there are latents, and a deep square one."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from isojepa.arguments import check_fields
from isojepa.registry import Context, register
from isojepa.seeds import generator
from isojepa.worlds.mixings import Mixing, MixingSpec, apply_shallow, check_last, check_positive, shallow


@dataclass(frozen=True)
class Lift:
    """An injective random network from dim into more dimensions: x = P (u(z), f(z)).

    u is an invertible network, `layers` rotations each followed by arsinh(gain y) on every coordinate; f is
    a random shallow network that fills the other dimensions; the rotation P mixes the two. No observed
    coordinate shows a latent, no linear map reads one off, and yet z can be computed back.

    Args:
        dim: number of latent coordinates.
        out_dim: number of observed coordinates, more than `dim`.
        layers: number of layers of u.
        gain: how nonlinear each layer is.
        hidden: width of f.
        seed: draws all of it.
    """

    dim: int
    out_dim: int
    layers: int = 2
    gain: float = 3.0
    hidden: int = 32
    seed: int = 0
    rotations: tuple[Tensor, ...] = field(init=False, repr=False, compare=False)
    network: tuple[Tensor, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(dim=self.dim, layers=self.layers, hidden=self.hidden)
        if self.out_dim <= self.dim:
            raise ValueError(f"out_dim must be above dim = {self.dim}, got {self.out_dim}")
        if not 0 < self.gain < math.inf:
            raise ValueError(f"gain must be positive and finite, got {self.gain}")
        sizes = [self.dim] * self.layers + [self.out_dim]
        rotations = tuple(
            orthogonal(size, generator(self.seed, "lift", "rotation", index))
            for index, size in enumerate(sizes)
        )
        fill = self.out_dim - self.dim
        network = shallow(self.dim, self.hidden, fill, generator(self.seed, "lift", "network"))
        object.__setattr__(self, "rotations", rotations)
        object.__setattr__(self, "network", network)

    def __call__(self, z: Tensor) -> Tensor:
        check_last(z, self.dim)
        *inner, outer = (rotation.to(z) for rotation in self.rotations)
        u = z
        for rotation in inner:
            u = torch.asinh(self.gain * (u @ rotation.T))
        return torch.cat((u, apply_shallow(self.network, z)), -1) @ outer.T

    def inverse(self, x: Tensor) -> Tensor:
        """Return z for an x on the image of the lift."""
        check_last(x, self.out_dim)
        *inner, outer = (rotation.to(x) for rotation in self.rotations)
        u = (x @ outer)[..., : self.dim]
        for rotation in reversed(inner):
            u = (torch.sinh(u) / self.gain) @ rotation
        return u


@register("mixing", "lift")
@dataclass(frozen=True)
class LiftSpec(MixingSpec):
    """An injective random network into more dimensions than there are latents."""

    costless: ClassVar = ("mixing_seed", "mixing_gain")
    observed_dim: int | None = None
    """Number of observed coordinates; twice the latents if none is given."""
    mixing_layers: int = 2
    """Number of layers of the invertible part."""
    mixing_gain: float = 3.0
    """How nonlinear each layer is."""
    mixing_hidden: int = 32
    """Width of the network that fills the other dimensions."""
    mixing_seed: int = 0
    """Draws all of it."""

    def resolve(self, context: Context) -> "LiftSpec":
        return replace(self, observed_dim=self.observed(context.latents))

    def build(self, context: Context) -> Mixing:
        dim = context.latents
        return Lift(
            dim,
            self.observed(dim),
            self.mixing_layers,
            self.mixing_gain,
            self.mixing_hidden,
            self.mixing_seed,
        )

    def observed(self, dim: int) -> int:
        return 2 * dim if self.observed_dim is None else self.observed_dim


@dataclass(frozen=True)
class Perceptron:
    """A random deep network: `layers` rotations, each but the last followed by a leaky ReLU.

    The mixing of the literature on nonlinear ICA (Hyvarinen & Morioka 2016): piecewise linear, with kinks
    wherever a hidden unit changes sign. Units are scaled to variance 1 for N(0, I) latents.

    Args:
        dim: number of latent and of observed coordinates.
        layers: number of rotations.
        slope: of the leaky ReLU below zero, in (0, 1].
        seed: draws the rotations.

    Example:
        >>> mixing = Perceptron(dim=3)
        >>> z = torch.tensor([[0.5, -1.0, 2.0]])
        >>> torch.allclose(mixing.inverse(mixing(z)), z, atol=1e-5)
        True
    """

    dim: int
    layers: int = 3
    slope: float = 0.2
    seed: int = 0
    rotations: tuple[Tensor, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(dim=self.dim, layers=self.layers)
        if not 0 < self.slope <= 1:
            raise ValueError(f"slope must lie in (0, 1], got {self.slope}")
        sources = (generator(self.seed, "perceptron", layer) for layer in range(self.layers))
        object.__setattr__(self, "rotations", tuple(orthogonal(self.dim, source) for source in sources))

    @property
    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation of a leaky ReLU of N(0, 1)."""
        mean = (1 - self.slope) / math.sqrt(2 * math.pi)
        return mean, math.sqrt((1 + self.slope**2) / 2 - mean**2)

    def __call__(self, z: Tensor) -> Tensor:
        check_last(z, self.dim)
        mean, deviation = self._moments
        *inner, outer = (rotation.to(z) for rotation in self.rotations)
        for rotation in inner:
            z = (torch.nn.functional.leaky_relu(z @ rotation.T, self.slope) - mean) / deviation
        return z @ outer.T

    def inverse(self, x: Tensor) -> Tensor:
        """Return z, layer by layer from the last."""
        check_last(x, self.dim)
        mean, deviation = self._moments
        *inner, outer = (rotation.to(x) for rotation in self.rotations)
        x = x @ outer
        for rotation in reversed(inner):
            x = torch.nn.functional.leaky_relu(x * deviation + mean, 1 / self.slope) @ rotation
        return x


@register("mixing", "perceptron")
@dataclass(frozen=True)
class PerceptronSpec(MixingSpec):
    """A random deep network: rotations and leaky ReLUs."""

    costless: ClassVar = ("mixing_seed", "mixing_slope")
    mixing_layers: int = 3
    """Number of rotations, with a leaky ReLU between two of them."""
    mixing_slope: float = 0.2
    """Slope of the leaky ReLU below zero, in (0, 1]."""
    mixing_seed: int = 0
    """Draws the rotations."""

    def build(self, context: Context) -> Mixing:
        return Perceptron(context.latents, self.mixing_layers, self.mixing_slope, self.mixing_seed)


def orthogonal(dim: int, source: torch.Generator) -> Tensor:
    """Draw an orthogonal (dim, dim) matrix from the uniform (Haar) law."""
    q, r = torch.linalg.qr(torch.randn(dim, dim, generator=source, dtype=torch.float64))
    # QR alone is not uniform: it fixes signs; dividing by the signs of R's diagonal undoes that
    uniform: Tensor = (q * torch.sign(torch.diagonal(r))).float()
    return uniform
