"""The synthetic world, a latent process seen through a mixing, and the mixings with their inverses.

A `World` gives batches of two views x = g(z) and x' = g(z'). Mixings:

    Spiral            g(z) = R(turns * |z|) z, a rotation by an angle that grows with the radius
    Sinusoid          g(z1, z2) = (z1 + sin(1.5 z2), z2)
    Parabola          g(z1, z2) = (z1, z2 + z1^2)
    AdditiveCoupling  layers a, b -> a, b + tanh(2 W a), W orthogonal, halves taking turns
    AffineCoupling    layers a, b -> a, b exp(s(a)) + t(a), s and t small random networks
    Lift              an injective random network into more dimensions
    Perceptron        a deep random network that is square and invertible

The first three and the couplings are those of Klindt, LeCun & Balestriero (2026), Appendix H. A mixing is
any callable from (..., dim) to (..., observed dim); these add `inverse` and check their input.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.processes import (
    MovingProcess,
    OrderedProcess,
    OrnsteinUhlenbeckSpec,
    Process,
    ProcessSpec,
)
from isojepa.data.source import Facts, Path
from isojepa.registry import Context, Spec, component_field, register
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, short_repr, validate_fields, validate_types

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
        validate_fields(self)
        half = check_even(self.dim)
        _check_positive(layers=self.layers)
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
        validate_fields(self)
        half = check_even(self.dim)
        _check_positive(layers=self.layers, hidden=self.hidden)
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
            a, b = b * torch.exp(torch.tanh(_apply_shallow(scale, a))) + _apply_shallow(shift, a), a
        return torch.cat((a, b), -1)

    def inverse(self, x: Tensor) -> Tensor:
        """Return z, layer by layer from the last."""
        a, b = _halves(x, self.dim)
        for scale, shift in reversed(self._pairs()):
            a, b = b, (a - _apply_shallow(shift, b)) * torch.exp(-torch.tanh(_apply_shallow(scale, b)))
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


def _check_positive(**values: int) -> None:
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


def _apply_shallow(network: tuple[Tensor, ...], x: Tensor) -> Tensor:
    """The network of `shallow` at points (..., n_in)."""
    first, bias, last = (part.to(x) for part in network)
    return torch.tanh(x @ first.T + bias) @ last.T


def _planar(x: Tensor, name: str) -> Tensor:
    if x.shape[-1] != 2:
        raise ValueError(f"{name} mixes 2 dimensions, got points of shape {tuple(x.shape)}")
    return x


def _check_last(x: Tensor, dim: int) -> None:
    """Say that points have another number of coordinates than `dim`."""
    if x.shape[-1] != dim:
        raise ValueError(f"points must have {dim} coordinates, got shape {tuple(x.shape)}")


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    _check_last(x, dim)
    a, b = x.split(dim // 2, -1)
    return a, b


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
        validate_fields(self)
        _check_positive(dim=self.dim, layers=self.layers, hidden=self.hidden)
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
        _check_last(z, self.dim)
        *inner, outer = (rotation.to(z) for rotation in self.rotations)
        u = z
        for rotation in inner:
            u = torch.asinh(self.gain * (u @ rotation.T))
        return torch.cat((u, _apply_shallow(self.network, z)), -1) @ outer.T

    def inverse(self, x: Tensor) -> Tensor:
        """Return z for an x on the image of the lift."""
        _check_last(x, self.out_dim)
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
        validate_fields(self)
        _check_positive(dim=self.dim, layers=self.layers)
        if not 0 < self.slope <= 1:
            raise ValueError(f"slope must lie in (0, 1], got {self.slope}")
        sources = (generator(self.seed, "perceptron", layer) for layer in range(self.layers))
        object.__setattr__(self, "rotations", tuple(orthogonal(self.dim, source) for source in sources))

    @property
    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation for a leaky ReLU of N(0, 1)."""
        mean = (1 - self.slope) / math.sqrt(2 * math.pi)
        return mean, math.sqrt((1 + self.slope**2) / 2 - mean**2)

    def __call__(self, z: Tensor) -> Tensor:
        _check_last(z, self.dim)
        mean, deviation = self._moments
        *inner, outer = (rotation.to(z) for rotation in self.rotations)
        for rotation in inner:
            z = (torch.nn.functional.leaky_relu(z @ rotation.T, self.slope) - mean) / deviation
        return z @ outer.T

    def inverse(self, x: Tensor) -> Tensor:
        """Return z, layer by layer from the last."""
        _check_last(x, self.dim)
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


class World:
    """A latent process and the mixing through which it is observed.

    Args:
        process: where latent pairs come from.
        mixing: any callable from (batch, dim) latents to (batch, observed dim) observations.

    Raises:
        ValueError: the mixing does not map the process's latents to finite observations.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import OrnsteinUhlenbeck, Spiral
        >>> batch = World(OrnsteinUhlenbeck(dim=2, rho=0.95), Spiral()).sample(8, generator(0, "data"))
        >>> [tuple(view.shape) for view in batch.views]
        [(8, 2), (8, 2)]
    """

    def __init__(self, process: Process, mixing: Mixing | None = None) -> None:
        if not isinstance(process, Process):
            raise ValueError(
                f"process must have dim, correlation, gaussian and sample, got {short_repr(process)}"
            )
        self.process = process
        self.mixing: Mixing = Identity() if mixing is None else mixing
        if not callable(self.mixing):
            raise ValueError(f"mixing must be callable, got {short_repr(mixing)}")
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
    @validate_types
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

    process: Spec = component_field("process", OrnsteinUhlenbeckSpec)
    """Latent process; `isojepa list processes`."""
    mixing: Spec = component_field("mixing", SpiralSpec)
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
