"""Latent processes: where pairs (z, z') come from.

    OrnsteinUhlenbeck   z ~ N(0, I),  z' = r z + sqrt(1 - r^2) eta,  r = rho^lag       corr(z, z') = r
    Langevin            z ~ law,  z' = z a time later, dz = (log p)'(z) dt + sqrt 2 dW    (in langevin.py)
    Copula              z = F^-1(Phi(y)) of an Ornstein-Uhlenbeck process y, F of any law   (in copula.py)
    NoisyCopies         c ~ law,  z = rho c + sqrt(1 - rho^2) eta,  z' likewise        corr(z, z') = rho^2

The first is the Gaussian world of Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World
Model?", Section 3.1; the second that of their Theorem 2. The third has the law and the copula chosen apart.
The last is what their released code trains on; it is exchangeable, so both views share one marginal, but with
a non-Gaussian law that marginal is not the law itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from isojepa.laws.densities import GeneralizedNormal, Law, Normal, NormalSpec
from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.arguments import check_count, check_dim, check_lag, check_rho
from isojepa.worlds.copula import Copula
from isojepa.worlds.langevin import Langevin
from isojepa.worlds.source import Facts


@runtime_checkable
class Process(Protocol):
    """A source of latent pairs.

    Attributes:
        dim: number of latent coordinates.
        correlation: correlation of each coordinate across a pair; a tuple when they differ.
        gaussian: whether the latents are exactly N(0, I), which the theorems ask for.
    """

    @property
    def dim(self) -> int: ...

    @property
    def correlation(self) -> float | tuple[float, ...]: ...

    @property
    def gaussian(self) -> bool: ...

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        ...


@runtime_checkable
class MovingProcess(Process, Protocol):
    """A process that can be followed in time."""

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n paths: (steps, n, dim), neighbours as far apart as the two ends of a pair."""
        ...


@runtime_checkable
class OrderedProcess(Process, Protocol):
    """A process of recorded paths."""

    def in_order(self) -> Self:
        """The same process, whose pairs come path after path."""
        ...


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """The stationary Gaussian process of unit variance, seen at two times `lag` apart.

    Args:
        dim: number of coordinates.
        rho: correlation after one unit of time, in (0, 1); one number, or one per coordinate.
        lag: time between the two views, any positive number.

    Example:
        >>> from isojepa.seeds import generator
        >>> z, z_next = OrnsteinUhlenbeck(dim=2, rho=0.95).sample(8, generator(0, "data"))
    """

    dim: int
    rho: float | Sequence[float] = 0.95
    lag: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))
        check_lag(self.lag)

    @property
    def correlation(self) -> float | tuple[float, ...]:
        if isinstance(self.rho, tuple):
            return tuple(r**self.lag for r in self.rho)
        after: float = float(self.rho) ** self.lag  # type: ignore[arg-type]
        return after

    @property
    def gaussian(self) -> bool:
        return True

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        z = torch.randn(check_count(n), self.dim, generator=generator)
        return z, self.step(z, generator)

    def step(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Move every latent `lag` forward in time: (..., dim) to (..., dim)."""
        r = torch.tensor(self.correlation, dtype=torch.float64)
        noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        return r.to(z.dtype) * z + torch.sqrt(1 - r**2).to(z.dtype) * noise

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n stationary paths: (steps, n, dim), neighbours `lag` apart."""
        path = [torch.randn(check_count(n), self.dim, generator=generator)]
        for _ in range(check_count(steps) - 1):
            path.append(self.step(path[-1], generator))
        return torch.stack(path)


@dataclass(frozen=True)
class NoisyCopies:
    """Two noisy copies of a hidden centre.

    Args:
        dim: number of coordinates.
        rho: correlation of each copy with the centre, in (0, 1); the copies correlate by rho^2.
        law: law of the centre and of the noise, mean 0 and variance 1.
    """

    dim: int
    rho: float | Sequence[float] = 0.95
    law: Law = field(default_factory=Normal)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))

    @property
    def correlation(self) -> float | tuple[float, ...]:
        if isinstance(self.rho, tuple):
            return tuple(r**2 for r in self.rho)
        return float(self.rho) ** 2  # type: ignore[arg-type]

    @property
    def gaussian(self) -> bool:
        return self.law in (Normal(), GeneralizedNormal(2.0))

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        shape = (check_count(n), self.dim)
        exact = torch.tensor(self.rho, dtype=torch.float64)
        rho, noise = exact.float(), torch.sqrt(1 - exact**2).float()
        centre = self.law.sample(shape, generator)
        z = rho * centre + noise * self.law.sample(shape, generator)
        return z, rho * centre + noise * self.law.sample(shape, generator)


Rho = float | tuple[float, ...]


class ProcessSpec(Spec):
    """What the spec of a process answers besides."""

    def facts(self) -> Facts:
        """Dimension, whether the latents are Gaussian and, where it is cheap, their correlation."""
        process: Process = self.build(Context())
        return Facts(process.dim, process.correlation, process.gaussian)


@register("process", "ornstein-uhlenbeck", default=True)
@dataclass(frozen=True)
class OrnsteinUhlenbeckSpec(ProcessSpec):
    """The stationary Gaussian process of unit variance."""

    costless: ClassVar = ("rho", "lag")
    dim: int = 2
    """Number of latents."""
    rho: Rho = 0.95
    """Correlation after one unit of time, in (0, 1): one for all latents, or one each."""
    lag: float = 1.0
    """Time between the views of a pair."""

    def build(self, context: Context) -> Process:
        return OrnsteinUhlenbeck(self.dim, self.rho, self.lag)


@register("process", "langevin")
@dataclass(frozen=True)
class LangevinSpec(OrnsteinUhlenbeckSpec):
    """The stationary, reversible diffusion of a law."""

    law: Spec = chosen("law", NormalSpec)
    """Law of each latent; `isojepa list laws`."""

    def build(self, context: Context) -> Process:
        return Langevin(self.dim, self.law.build(context), self.rho, self.lag)

    def facts(self) -> Facts:
        if self.law.build(Context()) in (Normal(), GeneralizedNormal(2.0)):
            return OrnsteinUhlenbeckSpec(self.dim, self.rho, self.lag).facts()
        return Facts(self.dim, None, False)  # the correlation of other laws takes their diffusion


@register("process", "copula")
@dataclass(frozen=True)
class CopulaSpec(LangevinSpec):
    """Any law with the dependence of an Ornstein-Uhlenbeck process."""

    def build(self, context: Context) -> Process:
        return Copula(self.dim, self.law.build(context), self.rho, self.lag)


@register("process", "noisy-copies")
@dataclass(frozen=True)
class NoisyCopiesSpec(ProcessSpec):
    """Two noisy copies of a hidden centre, which correlate by rho^2."""

    costless: ClassVar = ("rho",)
    dim: int = 2
    """Number of latents."""
    rho: Rho = 0.95
    """Correlation of each copy with the centre, in (0, 1): one for all latents, or one each."""
    law: Spec = chosen("law", NormalSpec)
    """Law of the centre and of the noise; `isojepa list laws`."""

    def build(self, context: Context) -> Process:
        return NoisyCopies(self.dim, self.rho, self.law.build(context))
