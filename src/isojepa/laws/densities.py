"""Laws of one latent coordinate, each with mean 0 and variance 1.

Normal               density ~ exp(-z^2 / 2)
GeneralizedNormal    density ~ exp(-|z / s|^alpha): alpha 1 is Laplace, 2 the normal, large alpha uniform
StudentT             heavy tails, df > 2
Uniform              flat on [-sqrt 3, sqrt 3]
Mixture              of normals, with given weights, means and deviations

A law from a sample is `isojepa.laws.Empirical`. What is computed from a density alone (eigenfunctions, the
Langevin process) takes any object with `log_density` and `support`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import scipy
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isojepa.arguments import check_fields, checked
from isojepa.registry import Context, Spec, register

Support = tuple[float, float]
LINE: Support = (-math.inf, math.inf)
_BLOCK = 1 << 22  # numbers at a time in the density of a mixture


class Density(Protocol):
    """A density on the line, known by its logarithm.

    Attributes:
        support: the interval on which the density is positive; its ends may be infinite.
    """

    @property
    def support(self) -> Support: ...

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Logarithm of the density at each z, float64; a constant added to it changes nothing."""
        ...


class Law(Density, Protocol):
    """A distribution with mean 0 and variance 1 that can be sampled."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        ...


@dataclass(frozen=True)
class Normal:
    """The standard normal law."""

    @property
    def support(self) -> Support:
        return LINE

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64."""
        return -(_float64(z) ** 2) / 2 - 0.5 * math.log(2 * math.pi)

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
        check_fields(self)
        if not 0.05 <= self.alpha < math.inf:
            raise ValueError(f"alpha must lie in [0.05, inf), got {self.alpha}")

    @property
    def support(self) -> Support:
        return LINE

    @property
    def _log_deviation(self) -> float:
        """Of the law with density ~ exp(-|x|^alpha)."""
        return 0.5 * (math.lgamma(3 / self.alpha) - math.lgamma(1 / self.alpha))

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64; -inf where |z|^alpha overflows."""
        constant = math.log(self.alpha / 2) - math.lgamma(1 / self.alpha) + self._log_deviation
        with np.errstate(over="ignore"):
            return constant - np.abs(_float64(z) * math.exp(self._log_deviation)) ** self.alpha

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        shape_parameter = torch.full(shape, 1 + 1 / self.alpha, dtype=torch.float64)
        gamma = torch._standard_gamma(shape_parameter, generator=generator)
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
        return (uniform * gamma ** (1 / self.alpha) / math.exp(self._log_deviation)).float()


@dataclass(frozen=True)
class StudentT:
    """Student's t with df degrees of freedom, scaled to variance 1."""

    df: float = 5.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not 2 < self.df < math.inf:
            raise ValueError(f"df must be above 2 for a finite variance, and finite, got {self.df}")

    @property
    def support(self) -> Support:
        return LINE

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64."""
        constant = (
            scipy.special.gammaln((self.df + 1) / 2)
            - scipy.special.gammaln(self.df / 2)
            - 0.5 * math.log(math.pi * (self.df - 2))
        )
        with np.errstate(over="ignore"):
            return constant - (self.df + 1) / 2 * np.log1p(_float64(z) ** 2 / (self.df - 2))

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        half = torch.full(shape, self.df / 2, dtype=torch.float64)
        chi_square = 2 * torch._standard_gamma(half, generator=generator)
        return (normal * torch.sqrt((self.df - 2) / chi_square)).float()


@dataclass(frozen=True)
class Uniform:
    """The uniform law on [-sqrt 3, sqrt 3]."""

    @property
    def support(self) -> Support:
        return -math.sqrt(3), math.sqrt(3)

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64; -inf outside the support."""
        return np.where(np.abs(_float64(z)) <= math.sqrt(3), -math.log(2 * math.sqrt(3)), -np.inf)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        return (torch.rand(shape, generator=generator) * 2 - 1) * math.sqrt(3)


@dataclass(frozen=True)
class Mixture:
    """A mixture of normal laws, moved and scaled to mean 0 and variance 1.

    Args:
        weights: of the components, not negative; divided by their sum.
        means: of the components.
        deviations: standard deviations of the components, positive.

    The fields hold the weights, means and deviations after standardising.

    Example:
        >>> law = Mixture((1, 1), (-2, 2), (1, 1))
        >>> [round(mean, 3) for mean in law.means]
        [-0.894, 0.894]
    """

    weights: Sequence[float]
    means: Sequence[float]
    deviations: Sequence[float]

    def __post_init__(self) -> None:
        check_fields(self)
        parts = {
            name: np.array(getattr(self, name), np.float64) for name in ("weights", "means", "deviations")
        }
        sizes = {name: part.shape for name, part in parts.items()}
        if len(set(sizes.values())) > 1 or parts["weights"].ndim != 1 or parts["weights"].size == 0:
            raise ValueError(f"weights, means and deviations must be equally many, at least one, got {sizes}")
        for name, part in parts.items():
            if not np.isfinite(part).all():
                raise ValueError(f"{name} must be finite, got {part.tolist()}")
        weights, means, deviations = parts.values()
        if (weights < 0).any() or weights.sum() <= 0:
            raise ValueError(f"weights must not be negative, nor all zero, got {weights.tolist()}")
        if (deviations <= 0).any():
            raise ValueError(f"deviations must be positive, got {deviations.tolist()}")
        keep = weights > 0
        weights, means, deviations = weights[keep] / weights.sum(), means[keep], deviations[keep]
        means = means - weights @ means
        scale = math.sqrt(weights @ (means**2 + deviations**2))
        for name, part in zip(parts, (weights, means / scale, deviations / scale), strict=True):
            object.__setattr__(self, name, tuple(part.tolist()))

    @property
    def support(self) -> Support:
        return LINE

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64."""
        at = _float64(z)
        means, deviations = np.array(self.means), np.array(self.deviations)
        constants = np.log(self.weights) - np.log(deviations) - 0.5 * math.log(2 * math.pi)
        flat = at.reshape(-1)
        blocks = np.array_split(flat, max(1, math.ceil(flat.size * len(means) / _BLOCK)))
        values = [
            scipy.special.logsumexp(constants - ((block[:, None] - means) / deviations) ** 2 / 2, axis=1)
            for block in blocks
        ]
        return np.concatenate(values).reshape(at.shape)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values."""
        ends = torch.tensor(self.weights, dtype=torch.float64).cumsum(0)[:-1]
        which = torch.searchsorted(
            ends, torch.rand(shape, generator=generator, dtype=torch.float64), right=True
        )
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        means, deviations = (
            torch.tensor(part, dtype=torch.float64) for part in (self.means, self.deviations)
        )
        return (means[which] + deviations[which] * normal).float()


@checked
def bimodal(separation: float = 4.0) -> Mixture:
    """Two equal normals whose means lie `separation` of their deviations apart; two modes above 2."""
    if not 0 <= separation < math.inf:
        raise ValueError(f"separation must not be negative, and finite, got {separation}")
    return Mixture((0.5, 0.5), (-separation / 2, separation / 2), (1.0, 1.0))


@checked
def sparse(active: float = 0.1) -> Mixture:
    """A value is active with this probability, else 20 times as near to zero; variance 1."""
    if not 0 < active < 1:
        raise ValueError(f"active must lie in (0, 1), got {active}")
    return Mixture((1 - active, active), (0.0, 0.0), (0.05, 1.0))


@register("law", "normal", default=True)
@dataclass(frozen=True)
class NormalSpec(Spec):
    """The standard normal law."""

    def build(self, context: Context) -> Law:
        return Normal()


@register("law", "generalized-normal")
@dataclass(frozen=True)
class GeneralizedNormalSpec(Spec):
    """exp(-|z|^shape): Laplace at 1, normal at 2, flat for large shapes."""

    costless: ClassVar = ("shape",)
    shape: float = 2.0
    """Exponent, above 0.05."""

    def build(self, context: Context) -> Law:
        return GeneralizedNormal(self.shape)


@register("law", "laplace")
@dataclass(frozen=True)
class LaplaceSpec(Spec):
    """The Laplace law: the generalised normal of shape 1."""

    def build(self, context: Context) -> Law:
        return GeneralizedNormal(1.0)


@register("law", "student-t")
@dataclass(frozen=True)
class StudentTSpec(Spec):
    """Student's t: heavy tails."""

    costless: ClassVar = ("shape",)
    shape: float = 5.0
    """Degrees of freedom, above 2."""

    def build(self, context: Context) -> Law:
        return StudentT(self.shape)


@register("law", "uniform")
@dataclass(frozen=True)
class UniformSpec(Spec):
    """Flat on an interval."""

    def build(self, context: Context) -> Law:
        return Uniform()


@register("law", "bimodal")
@dataclass(frozen=True)
class BimodalSpec(Spec):
    """Two equal normals side by side."""

    costless: ClassVar = ("shape",)
    shape: float = 4.0
    """Distance of their means in their deviations; two modes above 2."""

    def build(self, context: Context) -> Law:
        return bimodal(self.shape)


@register("law", "sparse")
@dataclass(frozen=True)
class SparseSpec(Spec):
    """Mostly near zero: a narrow normal, and a wide one for the values that are active."""

    costless: ClassVar = ("shape",)
    shape: float = 0.1
    """Fraction of active values, in (0, 1)."""

    def build(self, context: Context) -> Law:
        return sparse(self.shape)


def _float64(z: ArrayLike) -> np.ndarray:
    return np.asarray(z, np.float64)
