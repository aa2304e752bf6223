"""Univariate distributions with mean 0 and variance 1, by formula or estimated from samples.

Laws of one latent coordinate, each with mean 0 and variance 1.

Normal               density ~ exp(-z^2 / 2)
GeneralizedNormal    density ~ exp(-|z / s|^alpha): alpha 1 is Laplace, 2 the normal, large alpha uniform
StudentT             heavy tails, df > 2
Uniform              flat on [-sqrt 3, sqrt 3]
Mixture              of normals, with given weights, means and deviations

A law from a sample is `isojepa.distributions.Empirical`. What is computed from a density alone
(eigenfunctions, the Langevin process) takes any object with `log_density` and `support`.

The law of a sample: a smooth density estimate whose smoothest case is the normal law.

The sample is standardized and counted in narrow bins, and g = log of the expected counts is found by
maximum penalised likelihood (Silverman 1982; Eilers & Marx 1996):

    maximise   sum_j (c_j g_j - e^{g_j})  -  (smoothing / 2) sum_j (g_{j+3} - 3 g_{j+2} + 3 g_{j+1} - g_j)^2.

Third differences leave quadratics free: total smoothing gives a normal density, and for any smoothing the
mean and the variance of the estimate are those of the counts. The smoothing is the one of the largest
marginal likelihood in Laplace's approximation, divided by 10: eigenfunctions average over the density, and
for averages less smoothing is better. Beyond the bins log p continues as a parabola that bends down at
least as much as the normal law's: a sample knows nothing of a heavier tail beyond it. An isolated outlier
remains a
bump of its own, which the slowest eigenfunction singles out: take outliers out first if they are errors.
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

from isojepa.registry import Context, Spec, register
from isojepa.validation import short_repr, validate_fields, validate_types

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
        validate_fields(self)
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
        validate_fields(self)
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

    The fields hold the weights, means and deviations after standardizing.

    Example:
        >>> law = Mixture((1, 1), (-2, 2), (1, 1))
        >>> [round(mean, 3) for mean in law.means]
        [-0.894, 0.894]
    """

    weights: Sequence[float]
    means: Sequence[float]
    deviations: Sequence[float]

    def __post_init__(self) -> None:
        validate_fields(self)
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


@validate_types
def bimodal(separation: float = 4.0) -> Mixture:
    """Two equal normals whose means lie `separation` of their deviations apart; two modes above 2."""
    if not 0 <= separation < math.inf:
        raise ValueError(f"separation must not be negative, and finite, got {separation}")
    return Mixture((0.5, 0.5), (-separation / 2, separation / 2), (1.0, 1.0))


@validate_types
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


_MIN_VALUES = 16  # values
_WIDTH = 0.04  # of a bin, in deviations of the sample
_MOST_BINS = 4000
_PAD = 1.0  # empty bins on both sides, in deviations
_SMOOTHINGS = 10.0 ** np.arange(12.0, -1.0, -0.5)
_LESS = 10.0  # smoothing than the likeliest
_TABLE = 1 << 14


class Empirical:
    """A law estimated from a sample, moved and scaled to mean 0 and variance 1.

    Args:
        values: at least 16 finite, different numbers, of any mean and scale.
        support: the interval the values come from, in their own units, when it is known to end.
        smoothing: of the estimate; by default a tenth of the one of the largest marginal likelihood.

    Attributes:
        mean, deviation: value = mean + deviation * z leads back to the units of the sample.
        smoothing: the one that was used.
        size: number of values.

    Raises:
        ValueError: too few values, not finite, all equal, or outside the support.

    Example:
        >>> import numpy as np
        >>> law = Empirical(np.random.default_rng(0).normal(5.0, 2.0, size=4000))
        >>> round(law.mean), round(law.deviation)
        (5, 2)
    """

    def __init__(self, values: ArrayLike, support: Support = LINE, *, smoothing: float | None = None) -> None:
        x, center, scale = _standardized(values)
        low, high = float(support[0]), float(support[1])
        raw = x * scale + center
        if not low < high or raw.min() < low - 1e-9 * scale or raw.max() > high + 1e-9 * scale:
            raise ValueError(
                f"support must contain the values, which lie in [{raw.min():.6g}, {raw.max():.6g}], "
                f"got ({low:.6g}, {high:.6g})"
            )
        if smoothing is not None and not 0 < smoothing < math.inf:
            raise ValueError(f"smoothing must be positive and finite, got {smoothing}")
        self.size = len(x)
        ends = ((low - center) / scale, (high - center) / scale)
        edges = _bins(x, ends)
        counts = np.histogram(x, edges)[0].astype(np.float64)
        height, self.smoothing = _fit(counts, edges, smoothing)
        self._curve = _Curve((edges[1:] + edges[:-1]) / 2, height - math.log(len(x) * (edges[1] - edges[0])))
        self._shift, self._stretch, self._constant = 0.0, 1.0, 0.0
        self._support = ends
        nodes, log_p = self._table(edges)
        mass = np.exp(log_p) * np.gradient(nodes)
        shift = mass @ nodes / mass.sum()
        stretch = math.sqrt(mass @ (nodes - shift) ** 2 / mass.sum())
        self._shift, self._stretch, self._constant = float(shift), stretch, -math.log(mass.sum() / stretch)
        self._support = ((ends[0] - shift) / stretch, (ends[1] - shift) / stretch)
        self._nodes = (nodes - shift) / stretch
        below = np.concatenate(
            ([0.0], np.cumsum((np.exp(log_p)[1:] + np.exp(log_p)[:-1]) / 2 * np.diff(nodes)))
        )
        self._below = below / below[-1]
        self.mean, self.deviation = float(center + scale * shift), scale * stretch

    @property
    def support(self) -> Support:
        return self._support

    def log_density(self, z: ArrayLike) -> np.ndarray:
        """Logarithm of the density, float64; -inf outside the support."""
        at = np.asarray(z, np.float64)
        values = self._curve(self._shift + self._stretch * at) + self._constant
        return np.where((at >= self._support[0]) & (at <= self._support[1]), values, -np.inf)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw independent float32 values by inverting the distribution function on 16,384 points."""
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64).numpy()
        return torch.from_numpy(np.interp(uniform, self._below, self._nodes)).float()

    def __repr__(self) -> str:
        return (
            f"Empirical({self.size} values, mean={self.mean:.6g}, deviation={self.deviation:.6g}, "
            f"smoothing={self.smoothing:.3g})"
        )

    def _table(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points that reach to where the density is below e^-40 of its peak, and log p there."""
        low, high, top = edges[0], edges[-1], self._curve(edges).max()
        while not math.isfinite(self._support[0]) and self._curve(np.array([low]))[0] > top - 40:
            low -= 0.25 * (high - low)
        while not math.isfinite(self._support[1]) and self._curve(np.array([high]))[0] > top - 40:
            high += 0.25 * (high - low)
        nodes = np.linspace(low, high, _TABLE)
        return nodes, self._curve(nodes)


class _Curve:
    """A cubic spline that continues as a parabola, bending down at least as much as the normal law."""

    def __init__(self, z: np.ndarray, values: np.ndarray) -> None:
        self.spline = scipy.interpolate.CubicSpline(
            z, values, bc_type="natural" if len(z) < 8 else "not-a-knot"
        )
        self.ends = []
        span = z[-1] - z[0]
        for at, inner, way in ((z[0], z[3], -1.0), (z[-1], z[-4], 1.0)):
            slope = way * float(self.spline(at, 1))  # outwards
            bend = min(float(self.spline(inner, 2)), -1.0)
            self.ends.append((at, way, float(self.spline(at)), min(slope, -1 / span), bend))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        values = self.spline(z)
        for at, way, height, slope, bend in self.ends:
            out = np.maximum(way * (z - at), 0.0)
            values = np.where(out > 0, height + slope * out + bend * out**2 / 2, values)
        return values


def _standardized(values: ArrayLike) -> tuple[np.ndarray, float, float]:
    values_array = np.asarray(values)
    if values_array.dtype.kind not in "fiu":
        raise ValueError(f"values must be real numbers, got {short_repr(values)}")
    x = values_array.astype(np.float64)
    if x.ndim != 1:
        raise ValueError(f"values must be one-dimensional, one latent at a time, got shape {x.shape}")
    if len(x) < _MIN_VALUES:
        raise ValueError(f"values must be at least {_MIN_VALUES} for a density estimate, got {len(x)}")
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite, got {int((~np.isfinite(x)).sum())} NaN or Inf")
    size = float(np.abs(x).max()) or 1.0  # in whose units squares neither overflow nor vanish
    center, scale = float((x / size).mean()) * size, float((x / size).std()) * size
    if not scale > 1e-12 * size:
        raise ValueError(f"values must not all be equal, got {len(x)} times {center:.6g}")
    levels = len(np.unique(x))
    if levels < _MIN_VALUES:
        raise ValueError(f"values must take at least {_MIN_VALUES} levels to have a density, got {levels}")
    return (x - center) / scale, center, scale


def _bins(x: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    low, high = max(x.min() - _PAD, ends[0]), min(x.max() + _PAD, ends[1])
    count = int(np.clip(math.ceil((high - low) / _WIDTH), 32, _MOST_BINS))
    return np.linspace(low, high, count + 1)


def _fit(counts: np.ndarray, edges: np.ndarray, smoothing: float | None) -> tuple[np.ndarray, float]:
    """The penalised maximum and its smoothing."""
    at = (edges[1:] + edges[:-1]) / 2
    height = -(at**2) / 2
    height += math.log(counts.sum()) - np.logaddexp.reduce(height)
    best = (-math.inf, height, math.nan)
    # from the smoothest down, each from the last: Newton then needs a few steps
    for weight in _SMOOTHINGS if smoothing is None else (max(smoothing, 1e6), smoothing):
        height, evidence = _newton(counts, height, float(weight))
        if smoothing is not None or evidence > best[0]:
            best = (evidence, height, float(weight))
        elif evidence < best[0] - 20:
            break
    if smoothing is not None:
        return best[1], best[2]
    return _newton(counts, best[1], best[2] / _LESS)[0], best[2] / _LESS


def _penalty(count: int) -> np.ndarray:
    """D'D of third differences D, in upper banded form: (4, count)."""
    stencil = np.array([-1.0, 3.0, -3.0, 1.0])
    bands = np.zeros((4, count))
    for i in range(4):
        for j in range(i, 4):
            bands[3 - (j - i), j : count - 3 + j] += stencil[i] * stencil[j]
    return bands


def _newton(counts: np.ndarray, height: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
    """Maximise for one smoothing, by damped Newton steps; the maximum and its log evidence."""

    def value(g: np.ndarray) -> float:
        return float(counts @ g - np.exp(g).sum() - weight / 2 * (np.diff(g, 3) ** 2).sum())

    penalty = _penalty(len(counts))
    now = value(height)
    for _ in range(100):
        mean = np.exp(height)
        bands = _curvature(mean, weight, penalty)
        slope = counts - mean - weight * _transposed(np.diff(height, 3))
        step = scipy.linalg.solveh_banded(bands, slope)
        size = min(1.0, 5.0 / max(np.abs(step).max(), 1e-300))
        while value(height + size * step) < now - 1e-9 * abs(now) and size > 1e-6:
            size /= 2
        height = height + size * step
        after = value(height)
        done, now = abs(after - now) <= 1e-9 * (1 + abs(now)) and size == 1.0, after
        if done:
            break
    factor = scipy.linalg.cholesky_banded(_curvature(np.exp(height), weight, penalty))
    evidence = now + (len(counts) - 3) / 2 * math.log(weight) - float(np.log(factor[3]).sum())
    return height, evidence


def _curvature(mean: np.ndarray, weight: float, penalty: np.ndarray) -> np.ndarray:
    """Minus the second derivative; stiffer by 1e-13, or rounding would leave it indefinite far out."""
    bands = weight * penalty
    bands[3] *= 1 + 1e-13
    bands[3] += mean + 1e-10
    return bands


def _transposed(third: np.ndarray) -> np.ndarray:
    """D' of third differences."""
    return -np.diff(np.pad(third, 3), 3)
