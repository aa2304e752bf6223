"""Where a density lives on the line, a coordinate that resolves it, and how fast its tails fall.

A density p is known by log p alone, so far tails do not underflow. The domain of drop T is the interval where
log p is within T of its maximum, cut to the support. On it the coordinate s with

    z(s) = median + S sinh(s),   S twice the interquartile range,

is even near the middle and logarithmic far out: one grid serves light and heavy tails. Between two finite
ends the coordinate is z itself.

The generator f'' + (log p)' f' has the spectrum of the Schroedinger operator -f'' + V f with the potential
V = s^2 / 4 + s' / 2, s = (log p)'. Where V stays bounded far out, the spectrum above its limit is continuous
(Persson 1960). With log p ~ -|z|^b the potential diverges exactly for b > 1, i.e. where the score does; the
exponent is read off as b = d log|log p| / d log|z| where p has dropped by e^-10000, and b <= 1.005 counts as
bounded.
"""

import math
from dataclasses import dataclass

import numpy as np

from isojepa.laws.densities import Density

_FALL = 1.0  # of log p at least, at the farthest place that is looked at
DROP = 50.0  # e^-50 of the peak: far beyond what the first eigenfunctions weigh
_FAR_DROP = 1e4
_EXPONENT = 1.005  # above it the score diverges; slowly varying factors move the estimate by about 0.001
_STEP = 1e-3  # relative, of the differences that read the exponent off
_PROBES = 4001
_FARTHEST = 45.0  # sinh of it is 2e19


class SpectrumWarning(UserWarning):
    """Eigenvalues that are not what was asked for: a continuous spectrum, or too coarse a grid."""


@dataclass(frozen=True)
class Domain:
    """An interval with a coordinate s on it.

    Attributes:
        low, high: its ends in z.
        centre, scale: of the coordinate z = centre + scale sinh(s); scale inf for z = centre + s.
        drop: log p at the ends is this far below its maximum, but at ends of the support.
    """

    low: float
    high: float
    centre: float
    scale: float
    drop: float

    def to_z(self, s: np.ndarray) -> np.ndarray:
        """z of s."""
        return self.centre + (s if math.isinf(self.scale) else self.scale * np.sinh(s))

    def to_s(self, z: np.ndarray) -> np.ndarray:
        """s of z."""
        offset = np.asarray(z, np.float64) - self.centre
        return offset if math.isinf(self.scale) else np.arcsinh(offset / self.scale)

    def log_slope(self, s: np.ndarray) -> np.ndarray:
        """log dz/ds."""
        return np.zeros_like(s) if math.isinf(self.scale) else np.log(self.scale * np.cosh(s))

    def nodes(self, cells: int) -> np.ndarray:
        """The ends and middles of equal cells in s: (2 cells + 1,), middles at the odd places."""
        low, high = self.to_s(np.array([self.low, self.high]))
        return np.linspace(low, high, 2 * cells + 1)


def log_density_of(law: Density, z: np.ndarray) -> np.ndarray:
    """log p at z, checked.

    Raises:
        ValueError: the law gives another shape, NaN or +inf.
    """
    values = np.asarray(law.log_density(z), np.float64)
    if values.shape != z.shape:
        raise ValueError(f"log_density must keep the shape {z.shape}, got {values.shape}")
    if np.isnan(values).any() or (values == np.inf).any():
        worst = z[np.isnan(values) | (values == np.inf)][0]
        raise ValueError(f"log_density must be a number or -inf, got NaN or inf at z = {worst:.6g}")
    return values


def find_domain(law: Density, drop: float = DROP) -> Domain:
    """The interval where log p is within `drop` of its maximum.

    Raises:
        ValueError: the support is no interval, or the density is zero wherever it was looked at.
    """
    low, high = checked_support(law)
    probes = _probes(low, high)
    values = log_density_of(law, probes)
    if not np.isfinite(values).any():
        raise ValueError(
            f"the density must be positive somewhere on its support, got support ({low}, {high})"
        )
    for end, value in ((low, values[0]), (high, values[-1])):
        if math.isinf(end) and value >= values.max() - _FALL:
            raise ValueError(f"the density must fall to 0 towards {end:g}, got one without a finite integral")
    inside = np.flatnonzero(values >= values.max() - drop)
    level = float(values.max()) - drop
    first, last = int(inside[0]), int(inside[-1])
    left = low if first == 0 else _crossing(law, probes[first], probes[first - 1], level)
    right = high if last == len(probes) - 1 else _crossing(law, probes[last], probes[last + 1], level)
    left = float(probes[0]) if math.isinf(left) else left
    right = float(probes[-1]) if math.isinf(right) else right
    if math.isfinite(low) and math.isfinite(high):
        return Domain(left, right, (left + right) / 2, math.inf, drop)
    first_quarter, median, last_quarter = _quartiles(probes, values)
    return Domain(left, right, median, 2 * (last_quarter - first_quarter), drop)


def checked_support(law: Density) -> tuple[float, float]:
    """The support of a law.

    Raises:
        ValueError: the law has none, or its ends are not in order.
    """
    if not hasattr(law, "log_density") or not hasattr(law, "support"):
        raise ValueError(f"law must have log_density and support, got {type(law).__name__}")
    if isinstance(law, type):
        raise ValueError(f"law must be an object, got the class {law.__name__}: write {law.__name__}()")
    try:
        low, high = (float(end) for end in law.support)
    except (TypeError, ValueError) as error:
        raise ValueError(f"support must be an interval (low, high), got {law.support!r}") from error
    if not low < high:
        raise ValueError(f"support must be an interval (low, high) with low < high, got ({low}, {high})")
    return low, high


def continuum(law: Density) -> float:
    """Where the continuous spectrum of the generator begins; inf if there is none.

    Read off the tails as the module says; for a law that was given as numbers alone it is an estimate.
    """
    low, high = checked_support(law)
    probes = _probes(low, high)
    values = log_density_of(law, probes)
    top, begins = float(values.max()), math.inf
    for end, outward, heights in ((low, probes[::-1], values[::-1]), (high, probes, values)):
        if math.isfinite(end):
            continue
        far = int(np.flatnonzero(heights >= top - _FAR_DROP)[-1])
        z = float(outward[far])
        if far + 1 < len(outward):
            z = _crossing(law, z, float(outward[far + 1]), top - _FAR_DROP)
        inner, here = top - log_density_of(law, np.array([z * (1 - _STEP), z]))
        if inner > 0 and np.log(here / inner) <= -_EXPONENT * math.log1p(-_STEP):
            begins = min(begins, max(_potential(law, z), 0.0))
    return begins


def _potential(law: Density, z: float) -> float:
    """V at z, by central differences."""
    step = _STEP * abs(z)
    a, b, c = log_density_of(law, np.array([z - step, z, z + step]))
    score, bend = (c - a) / (2 * step), (c - 2 * b + a) / step**2
    return float(score**2 / 4 + bend / 2)


def _probes(low: float, high: float) -> np.ndarray:
    """Points to look at: even near the middle, logarithmic far out, inside the support."""
    if math.isfinite(low) and math.isfinite(high):
        edges = np.linspace(low, high, 2 * _PROBES + 1)
        return edges[1::2]
    far = np.sinh(np.linspace(0, _FARTHEST, _PROBES))
    near = np.linspace(0, 10, _PROBES)[1:]
    reach = np.union1d(far, near)
    if math.isfinite(low):
        return low + reach[1:]
    if math.isfinite(high):
        return high - reach[:0:-1]
    return np.concatenate((-reach[:0:-1], reach))


def _crossing(law: Density, inside: float, outside: float, level: float) -> float:
    """The point between two where log p falls below a level, by cutting into 64 again and again."""
    for _ in range(9):
        points = np.linspace(inside, outside, 65)
        fallen = log_density_of(law, points[1:-1]) < level
        first = int(np.argmax(fallen)) + 1 if fallen.any() else 64
        inside, outside = float(points[first - 1]), float(points[first])
    return inside


def _quartiles(z: np.ndarray, values: np.ndarray) -> list[float]:
    """Quartiles of the density on the points z, by the trapezoid rule."""
    density = np.exp(values - values.max())
    mass = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(z))))
    quartiles: list[float] = np.interp([0.25, 0.5, 0.75], mass / mass[-1], z).tolist()
    return quartiles
