"""Laws of one latent coordinate, each with mean 0 and variance 1.

Normal               density ~ exp(-z^2 / 2)
GeneralizedNormal    density ~ exp(-|z / s|^alpha): alpha 1 is Laplace, 2 the normal, large alpha uniform
StudentT             heavy tails, df > 2
Uniform              flat on [-sqrt 3, sqrt 3]
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Law(Protocol):
    """A distribution with mean 0 and variance 1 that can be sampled."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        ...


@dataclass(frozen=True)
class Normal:
    """The standard normal law."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        return torch.randn(shape, generator=generator)


@dataclass(frozen=True)
class GeneralizedNormal:
    """The generalised normal law of shape alpha, scaled to variance 1.

    The density exp(-|x|^alpha) is a mixture of uniform laws: x = U G^(1/alpha) with U uniform on [-1, 1] and
    G of law Gamma(1 + 1/alpha). Its variance is Gamma(3/alpha) / Gamma(1/alpha), in gamma functions.
    """

    alpha: float = 2.0

    def __post_init__(self) -> None:
        if not 0.05 <= self.alpha < math.inf:
            raise ValueError(f"alpha must lie in [0.05, inf), got {self.alpha}")

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        shape_parameter = torch.full(shape, 1 + 1 / self.alpha, dtype=torch.float64)
        gamma = torch._standard_gamma(shape_parameter, generator=generator)
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
        deviation = math.exp(0.5 * (math.lgamma(3 / self.alpha) - math.lgamma(1 / self.alpha)))
        return (uniform * gamma ** (1 / self.alpha) / deviation).float()


@dataclass(frozen=True)
class StudentT:
    """Student's t with df degrees of freedom, scaled to variance 1."""

    df: float = 5.0

    def __post_init__(self) -> None:
        if not 2 < self.df < math.inf:
            raise ValueError(f"df must be above 2 for a finite variance, and finite, got {self.df}")

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        half = torch.full(shape, self.df / 2, dtype=torch.float64)
        chi_square = 2 * torch._standard_gamma(half, generator=generator)
        return (normal * torch.sqrt((self.df - 2) / chi_square)).float()


@dataclass(frozen=True)
class Uniform:
    """The uniform law on [-sqrt 3, sqrt 3]."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        return (torch.rand(shape, generator=generator) * 2 - 1) * math.sqrt(3)


def laplace() -> GeneralizedNormal:
    """The Laplace law: the generalised normal of shape 1."""
    return GeneralizedNormal(1.0)


LAWS: dict[str, Callable[..., Law]] = {
    "normal": Normal,
    "generalized-normal": GeneralizedNormal,
    "laplace": laplace,
    "student-t": StudentT,
    "uniform": Uniform,
}
