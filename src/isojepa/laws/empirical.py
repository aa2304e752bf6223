"""The law of a sample: a smooth density estimate whose smoothest case is the normal law.

The sample is standardised and counted in narrow bins, and g = log of the expected counts is found by
maximum penalised likelihood (Silverman 1982; Eilers & Marx 1996):

    maximise   sum_j (c_j g_j - e^{g_j})  -  (smoothing / 2) sum_j (g_{j+3} - 3 g_{j+2} + 3 g_{j+1} - g_j)^2.

Third differences leave quadratics free: total smoothing gives a normal density, and for any smoothing the
mean and the variance of the estimate are those of the counts. The smoothing is the one of the largest
marginal likelihood in Laplace's approximation, divided by 10: eigenfunctions average over the density, and
for averages less smoothing is better. Beyond the bins log p goes on as a parabola that bends down at least as
much as the normal law's: a sample knows nothing of a heavier tail beyond it. An isolated outlier remains a
bump of its own, which the slowest eigenfunction singles out: take outliers out first if they are errors.
"""

import math

import numpy as np
import scipy
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isojepa.laws.densities import LINE, Support
from isojepa.names import shown

_LEAST = 16  # values
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
        x, centre, scale = _standardised(values)
        low, high = float(support[0]), float(support[1])
        raw = x * scale + centre
        if not low < high or raw.min() < low - 1e-9 * scale or raw.max() > high + 1e-9 * scale:
            raise ValueError(
                f"support must contain the values, which lie in [{raw.min():.6g}, {raw.max():.6g}], "
                f"got ({low:.6g}, {high:.6g})"
            )
        if smoothing is not None and not 0 < smoothing < math.inf:
            raise ValueError(f"smoothing must be positive and finite, got {smoothing}")
        self.size = len(x)
        ends = ((low - centre) / scale, (high - centre) / scale)
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
        self.mean, self.deviation = float(centre + scale * shift), scale * stretch

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
    """A cubic spline that goes on as a parabola, bending down at least as much as the normal law."""

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


def _standardised(values: ArrayLike) -> tuple[np.ndarray, float, float]:
    given = np.asarray(values)
    if given.dtype.kind not in "fiu":
        raise ValueError(f"values must be real numbers, got {shown(values)}")
    x = given.astype(np.float64)
    if x.ndim != 1:
        raise ValueError(f"values must be one-dimensional, one latent at a time, got shape {x.shape}")
    if len(x) < _LEAST:
        raise ValueError(f"values must be at least {_LEAST} for a density estimate, got {len(x)}")
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite, got {int((~np.isfinite(x)).sum())} NaN or Inf")
    size = float(np.abs(x).max()) or 1.0  # in whose units squares neither overflow nor vanish
    centre, scale = float((x / size).mean()) * size, float((x / size).std()) * size
    if not scale > 1e-12 * size:
        raise ValueError(f"values must not all be equal, got {len(x)} times {centre:.6g}")
    levels = len(np.unique(x))
    if levels < _LEAST:
        raise ValueError(f"values must take at least {_LEAST} levels to have a density, got {levels}")
    return (x - centre) / scale, centre, scale


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
