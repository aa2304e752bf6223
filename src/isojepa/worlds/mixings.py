"""Mixings x = g(z): how a world hides its latents, with inverses where they exist.

    Spiral            g(z) = R(turns * |z|) z, a rotation by an angle that grows with the radius
    Sinusoid          g(z1, z2) = (z1 + sin(1.5 z2), z2)
    Parabola          g(z1, z2) = (z1, z2 + z1^2)
    AdditiveCoupling  layers a, b -> a, b + tanh(2 W a), W orthogonal, halves taking turns
    AffineCoupling    layers a, b -> a, b exp(s(a)) + t(a), s and t small random networks
    Lift              an injective random network into more dimensions (in lift.py)

The first three and the couplings are those of Klindt, LeCun & Balestriero (2026), Appendix H. A mixing is
any callable from (..., dim) to (..., observed dim); these add `inverse` and check their input.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields, check_number
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator

Mixing = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Identity:
    """No mixing: x = z."""

    def __call__(self, z: Tensor) -> Tensor:
        return z

    def inverse(self, x: Tensor) -> Tensor:
        """Return z."""
        return x


@dataclass(frozen=True)
class Spiral:
    """Rotate each point of the plane by an angle proportional to its radius.

    The map keeps every circle, so it preserves N(0, I): the observations are exactly Gaussian and only
    alignment can undo it. Its Jacobian has determinant 1 everywhere.

    Args:
        rate: angle per unit of radius; pi is the published one.
    """

    rate: float = math.pi

    def __post_init__(self) -> None:
        check_number("rate", self.rate, "be a finite number")

    def __call__(self, z: Tensor) -> Tensor:
        return _turn(_planar(z, "Spiral"), self.rate)

    def inverse(self, x: Tensor) -> Tensor:
        """Turn back: the radius is unchanged, so the angle is known."""
        return _turn(_planar(x, "Spiral"), -self.rate)


@dataclass(frozen=True)
class Sinusoid:
    """Shear the plane by a sine: (z1 + sin(frequency z2), z2)."""

    frequency: float = 1.5

    def __post_init__(self) -> None:
        check_number("frequency", self.frequency, "be a finite number")

    def __call__(self, z: Tensor) -> Tensor:
        z1, z2 = _planar(z, "Sinusoid").unbind(-1)
        return torch.stack((z1 + torch.sin(self.frequency * z2), z2), -1)

    def inverse(self, x: Tensor) -> Tensor:
        """Return z."""
        x1, x2 = _planar(x, "Sinusoid").unbind(-1)
        return torch.stack((x1 - torch.sin(self.frequency * x2), x2), -1)


@dataclass(frozen=True)
class Parabola:
    """Shear the plane by a parabola: (z1, z2 + z1^2)."""

    def __call__(self, z: Tensor) -> Tensor:
        z1, z2 = _planar(z, "Parabola").unbind(-1)
        return torch.stack((z1, z2 + z1**2), -1)

    def inverse(self, x: Tensor) -> Tensor:
        """Return z."""
        x1, x2 = _planar(x, "Parabola").unbind(-1)
        return torch.stack((x1, x2 - x1**2), -1)


@dataclass(frozen=True)
class AdditiveCoupling:
    """Layers a, b -> a, b + tanh(2 W a) with W a random orthogonal matrix; the halves take turns.

    The mixing of the published scaling experiment, in any even dimension.

    Args:
        dim: number of coordinates, even.
        layers: number of coupling layers.
        seed: draws the matrices.
    """

    dim: int
    layers: int = 4
    seed: int = 0
    weights: tuple[Tensor, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        half = check_even(self.dim)
        check_positive(layers=self.layers)
        weights = tuple(
            2 * _published_orthogonal(half, generator(self.seed, "additive-coupling", layer))
            for layer in range(self.layers)
        )
        object.__setattr__(self, "weights", weights)

    def __call__(self, z: Tensor) -> Tensor:
        a, b = _halves(z, self.dim)
        for weight in self.weights:
            a, b = b + torch.tanh(a @ weight.to(z).T), a
        return torch.cat((a, b), -1)

    def inverse(self, x: Tensor) -> Tensor:
        """Return z, layer by layer from the last."""
        a, b = _halves(x, self.dim)
        for weight in reversed(self.weights):
            a, b = b, a - torch.tanh(b @ weight.to(x).T)
        return torch.cat((a, b), -1)


@dataclass(frozen=True)
class AffineCoupling:
    """Layers a, b -> a, b exp(s(a)) + t(a) with s and t small random networks; the halves take turns.

    Args:
        dim: number of coordinates, even.
        layers: number of coupling layers.
        hidden: width of the networks s and t.
        seed: draws the networks.
    """

    dim: int
    layers: int = 1
    hidden: int = 16
    seed: int = 0
    networks: tuple[tuple[Tensor, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        half = check_even(self.dim)
        check_positive(layers=self.layers, hidden=self.hidden)
        networks = tuple(
            shallow(half, self.hidden, half, generator(self.seed, "affine-coupling", layer, part))
            for layer in range(self.layers)
            for part in ("scale", "shift")
        )
        object.__setattr__(self, "networks", networks)

    def __call__(self, z: Tensor) -> Tensor:
        a, b = _halves(z, self.dim)
        for scale, shift in self._pairs():
            # tanh keeps the log-scale within [-1, 1]: the layer stays well conditioned in the tails
            a, b = b * torch.exp(torch.tanh(apply_shallow(scale, a))) + apply_shallow(shift, a), a
        return torch.cat((a, b), -1)

    def inverse(self, x: Tensor) -> Tensor:
        """Return z, layer by layer from the last."""
        a, b = _halves(x, self.dim)
        for scale, shift in reversed(self._pairs()):
            a, b = b, (a - apply_shallow(shift, b)) * torch.exp(-torch.tanh(apply_shallow(scale, b)))
        return torch.cat((a, b), -1)

    def _pairs(self) -> list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
        return list(zip(self.networks[::2], self.networks[1::2], strict=True))


class MixingSpec(Spec):
    """What the spec of a mixing answers besides."""

    def observed(self, dim: int) -> int:
        """Number of observed coordinates of `dim` latents."""
        return dim


@register("mixing", "identity")
@dataclass(frozen=True)
class IdentitySpec(MixingSpec):
    """No mixing: x = z."""

    def build(self, context: Context) -> Mixing:
        return Identity()


@register("mixing", "spiral", default=True)
@dataclass(frozen=True)
class SpiralSpec(MixingSpec):
    """Rotate each point of the plane by an angle proportional to its radius."""

    costless: ClassVar = ("mixing_rate",)
    mixing_rate: float = math.pi
    """Angle per unit of radius."""

    def build(self, context: Context) -> Mixing:
        return Spiral(self.mixing_rate)


@register("mixing", "sinusoid")
@dataclass(frozen=True)
class SinusoidSpec(MixingSpec):
    """Shear the plane by a sine."""

    costless: ClassVar = ("mixing_frequency",)
    mixing_frequency: float = 1.5
    """Frequency of the sine."""

    def build(self, context: Context) -> Mixing:
        return Sinusoid(self.mixing_frequency)


@register("mixing", "parabola")
@dataclass(frozen=True)
class ParabolaSpec(MixingSpec):
    """Shear the plane by a parabola."""

    def build(self, context: Context) -> Mixing:
        return Parabola()


@register("mixing", "additive-coupling")
@dataclass(frozen=True)
class AdditiveCouplingSpec(MixingSpec):
    """Layers a, b -> a, b + tanh(2 W a) with W a random orthogonal matrix; the halves take turns."""

    costless: ClassVar = ("mixing_seed",)
    mixing_layers: int = 4
    """Number of coupling layers."""
    mixing_seed: int = 0
    """Draws the matrices."""

    def build(self, context: Context) -> Mixing:
        return AdditiveCoupling(context.latents, self.mixing_layers, self.mixing_seed)


@register("mixing", "affine-coupling")
@dataclass(frozen=True)
class AffineCouplingSpec(MixingSpec):
    """Layers a, b -> a, b exp(s(a)) + t(a) with s and t small random networks; the halves take turns."""

    costless: ClassVar = ("mixing_seed",)
    mixing_layers: int = 1
    """Number of coupling layers."""
    mixing_hidden: int = 16
    """Width of the networks s and t."""
    mixing_seed: int = 0
    """Draws the networks."""

    def build(self, context: Context) -> Mixing:
        return AffineCoupling(context.latents, self.mixing_layers, self.mixing_hidden, self.mixing_seed)


def _published_orthogonal(dim: int, source: torch.Generator) -> Tensor:
    """Q of a Gaussian matrix's QR decomposition, signs as they come.

    Not uniform, unlike `orthogonal`, but what the published mixing has: in its two-dimensional case, where
    the matrix is a single sign, the sign is always the same (R^2 from x to z of 0.781 for every seed).
    """
    q: Tensor = torch.linalg.qr(torch.randn(dim, dim, generator=source, dtype=torch.float64))[0].float()
    return q


def check_positive(**values: int) -> None:
    """Say which value is no positive integer."""
    for name, value in values.items():
        check_count(name, value)


def check_even(dim: int) -> int:
    """Return dim / 2, or say that a coupling needs an even dimension."""
    if int(dim) != dim or dim < 2 or dim % 2:
        raise ValueError(f"dim must be even and at least 2 for a coupling, got {dim}")
    return int(dim) // 2


def _turn(points: Tensor, rate: float) -> Tensor:
    angle = rate * points.norm(dim=-1)
    c, s = torch.cos(angle), torch.sin(angle)
    a, b = points.unbind(-1)
    return torch.stack((c * a - s * b, s * a + c * b), -1)


def shallow(n_in: int, hidden: int, n_out: int, source: torch.Generator) -> tuple[Tensor, ...]:
    """Weights of a one-hidden-layer tanh network with outputs of order one on N(0, I)."""
    first = torch.randn(hidden, n_in, generator=source) * math.sqrt(2 / n_in)
    bias = torch.randn(hidden, generator=source)
    last = torch.randn(n_out, hidden, generator=source) * math.sqrt(1 / hidden)
    return first, bias, last


def apply_shallow(network: tuple[Tensor, ...], x: Tensor) -> Tensor:
    """The network of `shallow` at points (..., n_in)."""
    first, bias, last = (part.to(x) for part in network)
    return torch.tanh(x @ first.T + bias) @ last.T


def _planar(x: Tensor, name: str) -> Tensor:
    if x.shape[-1] != 2:
        raise ValueError(f"{name} mixes 2 dimensions, got points of shape {tuple(x.shape)}")
    return x


def check_last(x: Tensor, dim: int) -> None:
    """Say that points have another number of coordinates than `dim`."""
    if x.shape[-1] != dim:
        raise ValueError(f"points must have {dim} coordinates, got shape {tuple(x.shape)}")


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    check_last(x, dim)
    a, b = x.split(dim // 2, -1)
    return a, b
