"""The monotone map between a normal variable and one of any law, precise in both tails.

    z = T(y) = F^-1(Phi(y)),      y = T^-1(z) = Phi^-1(F(z)),      dz/dy = phi(y) / p(z),

with F the distribution function of the density p, and Phi, phi those of N(0, 1). F is summed from log p by
Gauss's rule on cells, from the left in the lower half and from the right in the upper one, in logarithms, so
that neither tail is lost in rounding. Cells are halved until the masses, and the cubic through the nodes with
these slopes, are right to `TOLERANCE` of the quartiles' distance or of |z|, whichever is larger. The map
ends at |y| = 13, beyond which lies a mass of 1e-38. Only a law whose variance hangs on less is cut by that:
Student's t below 2.5 degrees of freedom.

Averages over y are sums over the same cells. With T = sum_k a_k He_k(y) / sqrt(k!), the correlation of z
across a pair whose y correlate by r is sum_k a_k^2 r^k / sum_k a_k^2 over k > 0 (Mehler 1866). The series is
slow where T is steep or r near 1; instead

    E T(y) T(y') = E G(u)^2,     G(u) = E T(sqrt(r) u + sqrt(1 - r) e),     u, e ~ N(0, 1) independent,

where G is so smooth that the trapezoid rule in u is exact to rounding.
"""

import math

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.distributions.densities import Density
from isojepa.distributions.sturm_liouville import Domain, find_domain, log_density_of

TOLERANCE = 1e-7
_SCORE_TOLERANCE = 1e-5  # of y
_END = 13.0  # largest |y|
_DROP = 140.0  # of log p at the ends of the domain: heavy tails hold more mass than their density says
_FIRST = 1024  # cells
_NARROW = 1e-4  # cell in z, in errors allowed, that is never halved
_EMPTY = 1e-12  # of y across a cell: a gap or a well of the law, whose mass is next to rounding
_ROUNDS = 60  # of halving
_MAX_CELLS = 200_000  # cells
_WIDEST = 1 / 16  # cell in y
_STEPS = (1 / 256, 1 / 1024, 1 / 4096)  # of even tables, the first that serves
_KNOTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NEAREST = 1 - 1e-6  # largest correlation of y that is summed over
_REACH = 9.0  # deviations of a normal kernel that count
_FINE = 0.5  # step of the trapezoid rule, in deviations of the kernel: errors of exp(-4 pi^2)


class NormalScores:
    """The map of a law to the normal one and back.

    Args:
        law: anything with `log_density` and `support`.

    Attributes:
        y, z: (n,) nodes of the map, increasing.

    Raises:
        ValueError: the law has no density with a finite integral.

    Example:
        >>> from isojepa.distributions import Uniform
        >>> z = NormalScores(Uniform()).to_z(torch.tensor([0.0, 1.0], dtype=torch.float64))
        >>> [round(value, 6) for value in z.tolist()]  # sqrt(3) (2 Phi(y) - 1)
        [0.0, 1.182453]
    """

    def __init__(self, law: Density) -> None:
        domain = find_domain(law, _DROP)
        self.y, self.z, log_slope = _nodes(law, domain)
        self._forward = _Cubic(self.y, self.z, np.exp(log_slope))
        self._backward = _Cubic(self.z, self.y, np.exp(-log_slope))
        self._even = _even(self._forward, _unit(domain))
        self._correlations: dict[float, float] = {}

    def to_z(self, y: Tensor) -> Tensor:
        """z of each y, float64."""
        return (self._even or self._forward)(y.double())

    def to_y(self, z: Tensor) -> Tensor:
        """y of each z, float64; the farthest that is known beyond the nodes."""
        return self._backward(z.double())

    def correlation(self, r: float) -> float:
        """Correlation of z across a pair whose y correlate by r in (0, 1)."""
        if r > _NEAREST:
            # linear in 1 - r from here to 1, where the kernel would be too narrow to sum over
            return 1 - (1 - self.correlation(_NEAREST)) * (1 - r) / (1 - _NEAREST)
        if r not in self._correlations:
            self._correlations[r] = self._correlation(r)
        return self._correlations[r]

    def coefficients(self, count: int) -> np.ndarray:
        """(count + 1,) correlations of z with Hermite's polynomials of y; the first is 0."""
        y, weights, z = self._quadrature(_WIDEST)
        z = _standardized(z, weights)
        expansion, before, now = np.zeros(count + 1), np.zeros_like(y), np.ones_like(y)
        for k in range(1, count + 1):
            before, now = now, (y * now - math.sqrt(k - 1) * before) / math.sqrt(k)
            expansion[k] = weights @ (z * now)
        return expansion

    def _quadrature(self, widest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points in y, weights of N(0, 1) that sum to 1, and z; at least 8 points in every `widest`."""
        parts = np.maximum(1, np.ceil(np.diff(self.y) / widest).astype(int))
        width = np.repeat(np.diff(self.y) / parts, parts)
        inside = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        low = np.repeat(self.y[:-1], parts) + inside * width
        y = (low[:, None] + width[:, None] * (_KNOTS + 1) / 2).reshape(-1)
        weights = (width[:, None] * _WEIGHTS / 2).reshape(-1) * np.exp(-(y**2) / 2)
        return y, weights / weights.sum(), self._forward(torch.from_numpy(y)).numpy()

    def _correlation(self, r: float) -> float:
        deviation = math.sqrt(1 - r)
        y, weights, z = self._quadrature(min(_WIDEST, deviation))
        z = _standardized(z, weights)
        # E G^2 = sum_u h phi(u) (sum_i q_i z_i)^2 with q_i = weights_i * (density of u given y_i) / phi(u);
        # u given y is normal around sqrt(r) y with this deviation too
        step = _FINE * deviation
        offsets = np.arange(-math.ceil(_REACH / _FINE) - 1, math.ceil(_REACH / _FINE) + 2)
        middle = np.round(math.sqrt(r) * y / step).astype(int)
        lowest = int(middle.min() + offsets[0])
        sums = np.zeros(int(middle.max() + offsets[-1]) - lowest + 1)
        for offset in offsets:
            away = ((middle + offset) * step - math.sqrt(r) * y) / deviation
            share = weights * z * np.exp(-(away**2) / 2)
            sums += np.bincount(middle + offset - lowest, share, len(sums))
        u = (lowest + np.arange(len(sums))) * step
        sums /= deviation * math.sqrt(2 * math.pi)
        with np.errstate(divide="ignore"):
            logs = 2 * np.log(np.abs(sums)) + u**2 / 2
        return float(np.exp(logs[np.isfinite(logs)]).sum() * step * math.sqrt(2 * math.pi))


class _Cubic:
    """Hermite's cubic through increasing nodes, kept monotone; constant beyond them."""

    def __init__(self, x: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> None:
        width, rise = np.diff(x), np.diff(values)
        # slopes up to three times the secant keep a cubic monotone (Fritsch & Carlson 1980)
        left_slopes, right = (np.minimum(slope * width, 3 * rise) for slope in (slopes[:-1], slopes[1:]))
        self.x = torch.from_numpy(x)
        self.width = torch.from_numpy(width)
        self.parts = [
            torch.from_numpy(part)
            for part in (
                values[:-1].copy(),
                left_slopes,
                3 * rise - 2 * left_slopes - right,
                left_slopes + right - 2 * rise,
            )
        ]

    def __call__(self, at: Tensor) -> Tensor:
        inside = at.clamp(self.x[0], self.x[-1]).contiguous()
        cell = torch.searchsorted(self.x, inside, right=True).sub_(1).clamp_(0, len(self.width) - 1)
        share = (inside - self.x.take(cell)) / self.width.take(cell)
        return _horner(self.parts, cell, share)


class _Even:
    """The same on even nodes, whose cells are found by a division."""

    def __init__(self, cubic: _Cubic, step: float) -> None:
        first, last = (float(cubic.x[at]) for at in (0, -1))
        count = math.ceil((last - first) / step)
        self.first, self.per_cell, self.count = first, count / (last - first), count
        nodes = torch.linspace(first, last, count + 1, dtype=torch.float64)
        values = cubic(nodes)
        # slopes from the cubic itself, a thousandth of a cell apart
        near = 1e-3 / self.per_cell
        slopes = (cubic(nodes + near) - cubic(nodes - near)) / (
            (nodes + near).clamp(first, last) - (nodes - near).clamp(first, last)
        )
        self.parts = _Cubic(nodes.numpy(), values.numpy(), slopes.numpy()).parts

    def __call__(self, at: Tensor) -> Tensor:
        place = ((at - self.first) * self.per_cell).clamp_(0, self.count)
        cell = place.long().clamp_(max=self.count - 1)
        return _horner(self.parts, cell, place.sub_(cell))


def _horner(parts: list[Tensor], cell: Tensor, share: Tensor) -> Tensor:
    total = parts[3].take(cell)
    for part in parts[2::-1]:
        total = total.mul_(share).add_(part.take(cell))
    return total


def _even(cubic: _Cubic, unit: float) -> _Even | None:
    """An even table, if it is as right as it must be at all nodes and between its own."""
    for step in _STEPS:
        even = _Even(cubic, step)
        between = even.first + (torch.arange(4 * even.count, dtype=torch.float64) + 0.5) / (4 * even.per_cell)
        places = torch.cat((cubic.x, between))
        truth = cubic(places)
        allowed = TOLERANCE * truth.abs().clamp(min=unit)
        if ((even(places) - truth).abs() <= allowed).all():
            return even
    return None


def _unit(domain: Domain) -> float:
    """What errors are measured by: the quartiles' distance, or a quarter of a bounded domain."""
    return (domain.high - domain.low) / 4 if math.isinf(domain.scale) else domain.scale / 2


def _nodes(law: Density, domain: Domain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, z and log dz/dy at the ends of cells that are fine enough."""
    low, high = domain.to_s(np.array([domain.low, domain.high]))
    s = np.linspace(low, high, _FIRST + 1)
    log_mass = _log_masses(law, domain, s[:-1], s[1:])
    if not np.isfinite(log_mass).any():
        raise ValueError("the density must have mass on its support, got none")
    unsettled = np.ones(_FIRST, bool)
    for _ in range(_ROUNDS):
        at = np.flatnonzero(unsettled)
        middle = (s[at] + s[at + 1]) / 2
        left_mass = _log_masses(law, domain, s[at], middle)
        right = _log_masses(law, domain, middle, s[at + 1])
        split = ~_fine(law, domain, s, log_mass, at, left_mass, right)
        log_mass[at] = np.where(split, left_mass, np.logaddexp(left_mass, right))
        unsettled[at] = split
        after = at[split] + 1
        s = np.insert(s, after, middle[split])
        log_mass = np.insert(log_mass, after, right[split])
        unsettled = np.insert(unsettled, after, True)
        if not unsettled.any() or len(s) > _MAX_CELLS:
            break
    y, z = _distinct(_scores(log_mass), domain.to_z(s))
    log_p = log_density_of(law, z) - scipy.special.logsumexp(log_mass)
    return y, z, _log_normal(y) - log_p


def _log_masses(law: Density, domain: Domain, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Logarithm of the mass between places of the coordinate s, by Gauss's rule with 8 knots."""
    half = (high - low)[:, None] / 2
    s = low[:, None] + half * (_KNOTS + 1)
    logs = log_density_of(law, domain.to_z(s)) + domain.log_slope(s) + np.log(_WEIGHTS)
    return np.asarray(scipy.special.logsumexp(logs, axis=1) + np.log(half[:, 0]))


def _fine(
    law: Density,
    domain: Domain,
    s: np.ndarray,
    log_mass: np.ndarray,
    at: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> np.ndarray:
    """Whether cells need no halving: by their masses, and by both cubics in their middles."""
    y, z = _scores(log_mass), domain.to_z(s)
    below, above = _tails(log_mass)
    total = scipy.special.logsumexp(log_mass)
    middle = _score(np.logaddexp(below[at], left - total), np.logaddexp(right - total, above[at + 1]))
    z_middle = domain.to_z((s[at] + s[at + 1]) / 2)
    allowed = TOLERANCE * np.maximum(_unit(domain), np.abs(z_middle))
    y0, y1, z0, z1 = y[at], y[at + 1], z[at], z[at + 1]
    with np.errstate(all="ignore"):  # infinite ends, empty cells and zeros of p are distinguished below
        slope0, slope1 = (
            np.exp(_log_normal(score) + total - np.asarray(law.log_density(place), np.float64))
            for score, place in ((y0, z0), (y1, z1))
        )
        share = (middle - y0) / (y1 - y0)
        z_error = _hermite(share, z0, z1, slope0 * (y1 - y0), slope1 * (y1 - y0)) - z_middle
        share = (z_middle - z0) / (z1 - z0)
        y_error = _hermite(share, y0, y1, (z1 - z0) / slope0, (z1 - z0) / slope1) - middle
        mass_error = np.abs(np.expm1(np.logaddexp(left, right) - log_mass[at]))  # relative
        good = (np.abs(z_error) <= allowed) & (np.abs(y_error) <= _SCORE_TOLERANCE) & (y1 - y0 <= _WIDEST)
        # an error of the mass moves z by as much of the cell, and all beyond it by its share of the mass
        good &= mass_error * (z1 - z0) <= allowed / 8
        good &= mass_error * np.exp(log_mass[at] - total) <= TOLERANCE / 64
        done = (z1 - z0 <= _NARROW * allowed) | (y1 - y0 <= _EMPTY) | (y1 < -_END) | (y0 > _END)
    settled: np.ndarray = good | done
    return settled


def _hermite(
    share: np.ndarray, start: np.ndarray, end: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """The cubic with given ends and slopes, these per cell."""
    rise = end - start
    left, right = np.minimum(left, 3 * rise), np.minimum(right, 3 * rise)
    bend = share * (left + right - 2 * rise)
    value: np.ndarray = start + share * (left + share * (3 * rise - 2 * left - right + bend))
    return value


def _tails(log_mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n + 1,) logarithms of the share below and above each end of n cells."""
    total = scipy.special.logsumexp(log_mass)
    below = np.logaddexp.accumulate(np.concatenate(([-np.inf], log_mass - total)))
    above = np.logaddexp.accumulate(np.concatenate(([-np.inf], log_mass[::-1] - total)))[::-1]
    return below, above


def _scores(log_mass: np.ndarray) -> np.ndarray:
    """(n + 1,) Phi^-1(F) at the ends of n cells."""
    return _score(*_tails(log_mass))


def _score(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Phi^-1 of a share known by its logarithm and that of its complement: by the smaller of the two."""
    score: np.ndarray = np.where(
        below < above,
        scipy.special.ndtri_exp(np.minimum(below, -0.1)),
        -scipy.special.ndtri_exp(np.minimum(above, -0.1)),
    )
    return score


def _distinct(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with increasing y up to the end; both sides of a gap in the law stay, a rounding apart."""
    inside = np.abs(y) <= _END
    y, z = y[inside], z[inside]
    repeated = np.concatenate(([False], y[1:] <= y[:-1]))
    last = np.concatenate((~repeated[1:], [True]))
    keep = ~repeated | last
    y, z, repeated = y[keep], z[keep], repeated[keep]
    y = np.where(repeated, np.nextafter(y, np.inf), y)
    rises = np.concatenate(([True], (np.diff(y) > 0) & (np.diff(z) > 0)))
    return y[rises], z[rises]


def _log_normal(y: np.ndarray) -> np.ndarray:
    return -(y**2) / 2 - 0.5 * math.log(2 * math.pi)


def _standardized(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    centered = z - weights @ z
    return np.asarray(centered / math.sqrt(weights @ centered**2))
