r"""Reweight recorded pairs towards the Gaussian world of the theorems.

The data stay as they are; the probability with which each pair is drawn changes. At strength 0 that is the
empirical distribution, at 1 the full correction, as far as the data allow. Latents, or a proxy for them, are
whitened. The target is N(0, scale^2) in each coordinate, with a scale below 1 where the data do not reach two
standard deviations, and the Ornstein-Uhlenbeck process as the distribution of pairs. With rho the common
correlation of a pair (z, z'), the coordinates

    u = (z + z') / sqrt(2 (1 + rho)),    v = (z' - z) / sqrt(2 (1 - rho))

are jointly N(0, I) exactly for that process. Methods:

    rates      second moments of (u, v): every direction gets the same correlation rho; the shape stays
    moments    all moments of (u, v) up to degree four: shape, rates, and equal noise at every state
    marginals  the distribution of each coordinate, in bins; transitions are unconstrained
    reweight   the density ratio of (u, v): normal over a nearest-neighbor estimate of the data's density
    stride     no weights: the stride whose (u, v) are nearest to N(0, I), or whose correlation is nearest to
               a given rho

The first three are maximum-entropy weights, the nearest to the base weights q in Kullback-Leibler divergence
among those with feature means m:

    w_k = q_k exp(theta . f_k) / Z(theta),    theta = argmin log Z(theta) - theta . m + ridge |theta|^2 / 2,

a convex problem with one unknown per feature, solved by Newton steps within a trust region (scipy). Target
means move from the data's to those of the target in proportion to the strength. The ridge allows a mean that
no weights reach to be missed by ridge |theta|; `missed` is the largest such miss in standard deviations of
the feature. The density ratio is raised to the power of the strength. The strength also sets how often a pair
is reversed, up to one half, which makes both ends equally distributed. Weights only select among existing
pairs: where there are none, for example slow motion through a region that is only crossed fast, the effective
number of pairs falls or a distance to the target remains.

Distances are between characteristic functions along random directions a,

    D = E_a \int |phi_X(t a) - e^{-t^2/2}|^2 n(t) dt,    n the standard normal density,

0 for N(0, I) and at most 2, corrected for the bias of a finite sample, (1 - |phi_X|^2) / effective pairs. The
correction assumes independent pairs; pairs of one path are dependent, so values near 0 may be off by more.
Estimates can be negative and are not clipped.

References: Csiszar (1975), I-divergence geometry; Hainmueller (2012), entropy balancing.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.data.trajectories import Arrays, Recorded, Trajectories
from isojepa.seeds import generator
from isojepa.validation import choose, validate_types

_SLICES = 16
_MAX_PAIRS = 10_000  # pairs that distances are measured on
_KNOTS, _KNOT_WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
_KNOTS, _KNOT_WEIGHTS = _KNOTS[6:], 2 * _KNOT_WEIGHTS[6:] / math.sqrt(2 * math.pi)  # even integrand


@dataclass(frozen=True)
class PairMeasures:
    """Measures of the distribution of pairs.

    Attributes:
        pairs: number of distinct pairs.
        effective_pairs: (sum w)^2 / sum w^2 of their weights.
        effective_paths: the same for the total weights of paths; pairs of one path are dependent.
        rho: correlation along each whitened direction, the slowest first.
        isotropy: largest over smallest rate -log(rho); 1 for the theorems, which need less than 2.
        gaussianity: distance of the whitened states from N(0, I).
        transition: distance of (u, v) from N(0, I): shape, rates and noise of the pairs together; NaN if a
            direction has a correlation outside (0, 1).
        stationarity: distance between the distributions of the two ends.
    """

    pairs: int
    effective_pairs: float
    effective_paths: float
    rho: tuple[float, ...]
    isotropy: float
    gaussianity: float
    transition: float
    stationarity: float


@validate_types
def measure_pairs(recorded: Recorded, seed: int = 0) -> PairMeasures:
    """Measure the distribution from which a `Recorded` draws its pairs.

    Args:
        recorded: the trajectories with their stride, weights and swap.
        seed: draws the directions.

    Raises:
        ValueError: the states do not span their space.
    """
    index = _systematic(recorded)
    z, z_next = recorded.states_at(index)
    effective_pairs, effective_paths = effective(recorded)
    noise = 1 / min(effective_pairs, len(index))
    mean, whiten = whitening(np.concatenate((z, z_next)))
    z, z_next = (z - mean) @ whiten, (z_next - mean) @ whiten
    values, _ = lagged(z, z_next)
    source = generator(seed, "pair-law")
    slices = _directions(recorded.dim, source)
    transition = math.nan
    if persistent(values):
        u, v = turn(z, z_next, common_rho(values))
        # a pair and its reverse have (u, v) and (u, -v): alignment is symmetric in both
        both = np.concatenate((np.hstack((u, v)), np.hstack((u, -v))))
        transition = _from_normal(both @ _directions(2 * recorded.dim, source), noise)
    gap = _between(z @ slices, z_next @ slices, noise) * (1 - 2 * recorded.swap) ** 2
    return PairMeasures(
        pairs=recorded.pairs,
        effective_pairs=effective_pairs,
        effective_paths=effective_paths,
        rho=tuple(values.tolist()),
        isotropy=_isotropy_of(values),
        gaussianity=_from_normal(np.concatenate((z, z_next)) @ slices, noise),
        transition=transition,
        stationarity=gap,
    )


def effective(recorded: Recorded) -> tuple[float, float]:
    """Effective numbers of pairs and of paths."""
    counts = np.maximum(recorded.states.lengths - recorded.stride, 0).astype(np.float64)
    if recorded.weights is None:
        return float(recorded.pairs), float(counts.sum() ** 2 / (counts**2).sum())
    starts = np.concatenate(([0.0], np.cumsum(recorded.weights)))
    ends = np.cumsum(counts).astype(np.int64)
    totals = np.diff(starts[np.concatenate(([0], ends))])
    weights = recorded.weights
    return float(weights.sum() ** 2 / (weights**2).sum()), float(totals.sum() ** 2 / (totals**2).sum())


def whitening(states: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean (dim,) and symmetric square root of the inverse covariance (dim, dim) of states (n, dim).

    The symmetric root keeps whitened coordinates as near as possible to the original ones.

    Raises:
        ValueError: a direction has no variance.
    """
    mean = np.average(states, axis=0, weights=weights)
    centered = states - mean
    share = np.full(len(states), 1 / len(states)) if weights is None else weights / weights.sum()
    values, vectors = np.linalg.eigh((centered * share[:, None]).T @ centered)
    if values[0] <= 1e-10 * values[-1]:
        raise ValueError(
            f"states must vary in every direction, got variances {values[0]:.2g} to {values[-1]:.2g}: drop "
            "coordinates that are constant or depend linearly on the others"
        )
    return mean, (vectors / np.sqrt(values)) @ vectors.T


def lagged(
    z: np.ndarray, z_next: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Correlations (dim,) of whitened pairs, descending, and their directions as columns."""
    share = np.full(len(z), 1 / len(z)) if weights is None else weights / weights.sum()
    product = (z * share[:, None]).T @ z_next
    values, vectors = np.linalg.eigh((product + product.T) / 2)
    return values[::-1], vectors[:, ::-1]


def common_rho(rho: np.ndarray) -> float:
    """The correlation whose rate -log(rho) is the geometric mean of the rates of several.

    Raises:
        ValueError: a correlation lies outside (0, 1).
    """
    if not persistent(rho):
        raise ValueError(
            "pairs must correlate within (0, 1) in every direction, got "
            f"{np.array2string(rho, precision=4)}: change the stride"
        )
    return math.exp(-math.exp(float(np.log(-np.log(rho)).mean())))


def persistent(rho: np.ndarray) -> bool:
    """Whether all correlations lie in (0, 1)."""
    return bool(((rho > 0) & (rho < 1)).all())


def _isotropy_of(rho: np.ndarray) -> float:
    """Largest over smallest rate -log(rho); infinite if a correlation lies outside (0, 1)."""
    if not persistent(rho):
        return math.inf
    rates = -np.log(rho)
    return float(rates.max() / rates.min())


def turn(z: np.ndarray, z_next: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """u and v of whitened pairs: the middle and the step, each of unit variance in the Gaussian world."""
    return (z + z_next) / math.sqrt(2 * (1 + rho)), (z_next - z) / math.sqrt(2 * (1 - rho))


def _systematic(recorded: Recorded) -> np.ndarray:
    """Indices of pairs in proportion to their weights: systematic sampling, of least variance."""
    count = min(_MAX_PAIRS, recorded.pairs) if recorded.weights is None else _MAX_PAIRS
    levels = (np.arange(count) + 0.5) / count
    if recorded.weights is None:
        return (levels * recorded.pairs).astype(np.int64)
    return np.searchsorted(np.cumsum(recorded.weights), levels).clip(max=recorded.pairs - 1)


def _directions(dim: int, source: torch.Generator) -> np.ndarray:
    slices = torch.randn(dim, _SLICES, generator=source, dtype=torch.float64)
    units: np.ndarray = (slices / slices.norm(dim=0)).numpy()
    return units


def _characteristic(projected: np.ndarray) -> np.ndarray:
    """Characteristic functions of the columns of (n, slices) at the knots: (knots, slices)."""
    return np.stack([_wave(knot * projected).mean(0) for knot in _KNOTS])


def _wave(angle: np.ndarray) -> np.ndarray:
    """e^{i angle}; twice as fast as the complex exponential."""
    out = np.empty(angle.shape, dtype=np.complex128)
    out.real, out.imag = np.cos(angle), np.sin(angle)
    return out


def _from_normal(projected: np.ndarray, noise: float) -> float:
    phi = _characteristic(projected)
    squared = np.abs(phi - np.exp(-(_KNOTS**2) / 2)[:, None]) ** 2 - noise * (1 - np.abs(phi) ** 2)
    return float((_KNOT_WEIGHTS @ squared).mean())


def _between(first: np.ndarray, second: np.ndarray, noise: float) -> float:
    one, two = _characteristic(first), _characteristic(second)
    # the ends of a pair are dependent: the noise is that of e^{itz} - e^{itz'}, of size 2 - 2 cos(t (z - z'))
    apart = np.stack([(2 - 2 * np.cos(knot * (first - second))).mean(0) for knot in _KNOTS])
    squared = np.abs(one - two) ** 2
    return float((_KNOT_WEIGHTS @ (squared - noise * (apart - squared))).mean())


_RIDGE = 1e-4
_MAX_ITERATIONS = 200


@dataclass(frozen=True)
class _Tilt:
    """Exponential tilting: log w = coefficients . features, up to a constant.

    Attributes:
        coefficients: (features,).
        missed: largest distance of a mean from its target, in standard deviations.
    """

    coefficients: np.ndarray
    missed: float

    def log_weights(self, features: np.ndarray) -> np.ndarray:
        """(n,) of features (n, features), up to a constant."""
        logarithms: np.ndarray = features @ self.coefficients
        return logarithms


def fit_tilt(
    features: np.ndarray,
    target: np.ndarray,
    base: np.ndarray | None = None,
    strength: float = 1.0,
    ridge: float = _RIDGE,
) -> _Tilt:
    """Fit the tilting under which the features have the target as their mean.

    Args:
        features: (n, features); constant ones are ignored.
        target: (features,) target means.
        base: (n,) base weights; equal by default.
        strength: from 0, the means of the data, to 1, the target.
        ridge: penalty on the coefficients.
    """
    share = np.full(len(features), 1 / len(features)) if base is None else base / base.sum()
    mean = share @ features
    std = np.sqrt(share @ (features - mean) ** 2)
    varying = std > 1e-12 * (np.abs(mean) + std)
    scaled = (features[:, varying] - mean[varying]) / std[varying]
    goal = strength * (target - mean)[varying] / std[varying]
    dual = _Dual(scaled, goal, share, ridge)
    solution = scipy.optimize.minimize(
        dual.value,
        np.zeros(len(goal)),
        jac=dual.slope,
        hess=dual.curvature,
        method="trust-exact",
        options={"maxiter": _MAX_ITERATIONS, "gtol": 1e-6},
    )
    coefficients = np.zeros(len(target))
    coefficients[varying] = solution.x / std[varying]
    missed = np.abs(dual.weights(solution.x) @ scaled - goal).max(initial=0.0)
    return _Tilt(coefficients, float(missed))


class _Dual:
    """The dual function of standardized features, its gradient and its Hessian."""

    def __init__(self, features: np.ndarray, target: np.ndarray, base: np.ndarray, ridge: float) -> None:
        self.features, self.target, self.ridge = features, target, ridge
        with np.errstate(divide="ignore"):
            self.log_base = np.log(base)  # -inf for a pair of weight 0, which stays at 0
        self._at: np.ndarray | None = None
        self._weights, self._log_total = base, 0.0

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """(n,) weights that sum to 1."""
        if self._at is None or not np.array_equal(theta, self._at):
            logits = self.log_base + self.features @ theta
            top = logits.max()
            raised = np.exp(logits - top)
            total = raised.sum()
            self._at, self._weights, self._log_total = theta.copy(), raised / total, top + np.log(total)
        return self._weights

    def value(self, theta: np.ndarray) -> float:
        self.weights(theta)
        return float(self._log_total - theta @ self.target + self.ridge / 2 * theta @ theta)

    def slope(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(self.weights(theta) @ self.features - self.target + self.ridge * theta)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        weights = self.weights(theta)
        mean = weights @ self.features
        second = (self.features * weights[:, None]).T @ self.features
        return np.asarray(second - np.outer(mean, mean) + self.ridge * np.eye(len(theta)))


_MAX_ENTRIES = 20_000_000  # entries of the largest feature matrix
_BINS = 16  # of each coordinate, equally likely under the target
_MIN_ENDS = 20  # ends of pairs in a bin
_NEIGHBORS = 32
_MAX_REFERENCE = 50_000  # pairs of the density estimate
_MAX_REWEIGHTED = 6  # coordinates: the density estimate has twice as many dimensions
_MAX_JOINT, _MAX_PAIRED = 3, 8  # most coordinates for all joint moments, and for pairwise moments


@dataclass(frozen=True)
class TargetFrame:
    """Coordinates in which the target is N(0, I) with correlation rho.

    Attributes:
        mean: (dim,) of the states.
        matrix: (dim, dim) whitens them and divides by the scale.
        scale: (dim,) standard deviations of the target in whitened coordinates.
        rho: target correlation.
    """

    mean: np.ndarray
    matrix: np.ndarray
    scale: np.ndarray
    rho: float

    def enter(self, z: np.ndarray, z_next: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of pairs in these coordinates."""
        return (z - self.mean) @ self.matrix, (z_next - self.mean) @ self.matrix


@dataclass(frozen=True)
class PairSample:
    """Pairs (n, dim) in the frame's coordinates with base weights (n,) that sum to 1."""

    z: np.ndarray
    z_next: np.ndarray
    base: np.ndarray
    frame: TargetFrame

    def thinned(self, count: int) -> "PairSample":
        """At most `count` of the pairs, evenly spaced."""
        if count >= len(self.z):
            return self
        rows = np.linspace(0, len(self.z) - 1, count).astype(np.int64)
        base = self.base[rows]
        return PairSample(self.z[rows], self.z_next[rows], base / base.sum(), self.frame)


class _Weigher(Protocol):
    """A fitted method."""

    @property
    def missed(self) -> float: ...

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs in the frame's coordinates, up to a constant."""
        ...


@dataclass(frozen=True)
class _Tilted:
    """Log-weights linear in features of the pair."""

    features: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    missed: float

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        return np.asarray(self.features(z, z_next) @ self.coefficients)


def rates(sample: PairSample, strength: float) -> _Tilted:
    """One rate for all directions: first and second moments of (u, v) are those of N(0, I)."""
    return _by_moments(sample, strength, degree=2)


def moments(sample: PairSample, strength: float) -> _Tilted:
    """Moments of (u, v) up to degree four are those of N(0, I), as many as the dimension allows."""
    return _by_moments(sample, strength, degree=4)


def exponents(dim: int, degree: int) -> np.ndarray:
    """Exponents (features, 2 dim) of the monomials in (u, v) that are even in v.

    All of them up to 3 coordinates; those of at most two coordinates at once up to 8; beyond, those of single
    coordinates, with all products of degree two.
    """
    together = dim if dim <= _MAX_JOINT else 2 if dim <= _MAX_PAIRED else 1
    rows = set()
    for total in range(1, degree + 1):
        span = max(together, 2) if total == 2 else together
        for coordinates in itertools.combinations(range(dim), min(span, dim)):
            columns = [*coordinates, *(dim + i for i in coordinates)]
            for chosen in itertools.combinations_with_replacement(columns, total):
                powers = np.bincount(chosen, minlength=2 * dim)
                if powers[dim:].sum() % 2 == 0:
                    rows.add(tuple(powers.tolist()))
    return np.array(sorted(rows), dtype=np.int64)


def marginals(sample: PairSample, strength: float) -> _Tilted:
    """Both ends of the pairs together are normal in each coordinate, up to bins."""
    edges = [_edges(np.concatenate((a, b))) for a, b in zip(sample.z.T, sample.z_next.T, strict=True)]

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        columns = []
        for axis, inner in enumerate(edges):
            bins = np.searchsorted(inner, z[:, axis]), np.searchsorted(inner, z_next[:, axis])
            # the last bin follows from the others
            columns += [((bins[0] == k) * 0.5 + (bins[1] == k) * 0.5) for k in range(len(inner))]
        return np.stack(columns, 1)

    target = np.concatenate([np.diff(scipy.special.ndtr(inner), prepend=0.0) for inner in edges])
    thin = sample.thinned(_MAX_ENTRIES // len(target))
    tilt = fit_tilt(features(thin.z, thin.z_next), target, thin.base, strength)
    return _Tilted(features, tilt.coefficients, tilt.missed)


@dataclass(frozen=True)
class _DensityRatio:
    """strength * log of the normal density over a nearest-neighbor estimate of the data's."""

    tree: "scipy.spatial.cKDTree"
    rho: float
    strength: float
    missed: float = 0.0

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        y = np.hstack(turn(z, z_next, self.rho))
        reach = min(_NEIGHBORS, self.tree.n)
        radius = np.asarray(self.tree.query(y, k=[reach])[0])[:, 0]
        # the density is k / (n volume r^d); constants cancel; equal points would make it infinite
        log_density = -y.shape[1] * np.log(np.maximum(radius, 1e-9))
        return np.asarray(self.strength * (-(y**2).sum(1) / 2 - log_density))


def reweight(sample: PairSample, strength: float) -> _DensityRatio:
    """The density ratio of pairs, in few dimensions.

    Raises:
        ValueError: there are too many coordinates for a density estimate.
    """
    dim = sample.z.shape[1]
    if dim > _MAX_REWEIGHTED:
        raise ValueError(
            f"method 'reweight' estimates a density and takes at most {_MAX_REWEIGHTED} coordinates, got "
            f"{dim}: give a proxy of fewer, or use 'moments'"
        )
    thin = sample.thinned(_MAX_REFERENCE)
    rows = np.arange(len(thin.z))
    if np.ptp(thin.base) > 0:  # points of one weight in place of weighted ones
        levels = (rows + 0.5) / len(rows)
        rows = np.searchsorted(np.cumsum(thin.base), levels).clip(max=len(rows) - 1)
    u, v = turn(thin.z[rows], thin.z_next[rows], thin.frame.rho)
    # every pair with its reverse: the estimate is symmetric in time
    tree = scipy.spatial.cKDTree(np.concatenate((np.hstack((u, v)), np.hstack((u, -v)))))
    return _DensityRatio(tree, sample.frame.rho, strength)


WEIGHERS: dict[str, Callable[[PairSample, float], _Weigher]] = {
    "rates": rates,
    "moments": moments,
    "marginals": marginals,
    "reweight": reweight,
}


def _by_moments(sample: PairSample, strength: float, degree: int) -> _Tilted:
    powers = exponents(sample.z.shape[1], degree)
    rho = sample.frame.rho

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        return _monomials(np.hstack(turn(z, z_next, rho)), powers)

    # E y^k of a standard normal: (k - 1)!! for even k, 0 for odd
    normal = np.array([math.prod(range(k - 1, 0, -2)) if k % 2 == 0 else 0.0 for k in range(degree + 1)])
    thin = sample.thinned(_MAX_ENTRIES // len(powers))
    tilt = fit_tilt(features(thin.z, thin.z_next), normal[powers].prod(1), thin.base, strength)
    return _Tilted(features, tilt.coefficients, tilt.missed)


def _monomials(y: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(n, features) products of powers of the columns of y."""
    table = [np.ones_like(y), y]
    for _ in range(2, int(powers.max()) + 1):
        table.append(table[-1] * y)
    out = np.ones((len(y), len(powers)))
    for column, row in enumerate(powers):
        for axis in np.flatnonzero(row):
            out[:, column] *= table[row[axis]][:, axis]
    return out


def _edges(ends: np.ndarray) -> np.ndarray:
    """Inner edges of bins equally likely under N(0, 1), merged until each holds enough data."""
    inner = scipy.special.ndtri(np.arange(1, _BINS) / _BINS)
    while len(inner):
        counts = np.bincount(np.searchsorted(inner, ends), minlength=len(inner) + 1)
        least = int(counts.argmin())
        if counts[least] >= _MIN_ENDS:
            break
        # merge the smallest bin with its smaller neighbor
        to_left = least > 0 and (least == len(inner) or counts[least - 1] <= counts[least + 1])
        inner = np.delete(inner, least - 1 if to_left else least)
    return np.asarray(inner)


_CHUNK = 4096  # observations per call of the function


@validate_types
def principal_components(
    observations: Arrays, dim: int, *, samples: int = 10_000, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """The projection of observations on their first principal components.

    Args:
        observations: (steps, paths, ...) or a list of (steps_i, ...).
        dim: number of components.
        samples: number of observations they are fitted on.
        seed: selects the observations.

    Returns:
        A function from observations (batch, ...) to (batch, dim).

    Raises:
        ValueError: dim exceeds the rank of the sample, or an observation is not finite.
    """
    trajectories = Trajectories.of("observations", observations)
    order = torch.randperm(int(trajectories.lengths.sum()), generator=generator(seed, "principal-components"))
    path, step = _path_and_step(trajectories, np.sort(order[:samples].numpy()))
    x = torch.from_numpy(np.asarray(trajectories.gather(path, step), dtype=np.float64)).flatten(1)
    if not torch.isfinite(x).all():
        raise ValueError("observations must be finite, got NaN or Inf in the sample")
    if not 1 <= dim <= min(x.shape):
        raise ValueError(f"dim must lie between 1 and {min(x.shape)}, got {dim}")
    mean = x.mean(0)
    _, _, right = torch.linalg.svd(x - mean, full_matrices=False)
    basis = right[:dim].T.contiguous()
    return lambda batch: (batch.double().flatten(1) - mean) @ basis


@torch.no_grad()
@validate_types
def project(
    observations: Arrays,
    function: Callable[[Tensor], Tensor],
    transform: Callable[[Tensor], Tensor] | None = None,
) -> list[np.ndarray]:
    """A function of the observations along every path: a list of (steps_i, dim), as `Recorded` takes states.

    Args:
        observations: (steps, paths, ...) or a list of (steps_i, ...).
        function: maps observations (batch, ...) to (batch, dim), e.g. an encoder in evaluation mode.
        transform: applied to observations before the function; by default they become float32.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(20, 3, 8))
        >>> states = project(x, principal_components(x, dim=2))
        >>> len(states), states[0].shape
        (3, (20, 2))
    """
    trajectories = Trajectories.of("observations", observations)
    total, parts = int(trajectories.lengths.sum()), []
    for start in range(0, total, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, total))
        x = torch.from_numpy(np.ascontiguousarray(trajectories.gather(*_path_and_step(trajectories, rows))))
        value = function(x.float() if transform is None else transform(x))
        if not isinstance(value, Tensor) or value.ndim != 2 or len(value) != len(rows):
            raise ValueError("proxy must map observations (batch, ...) to a tensor (batch, dim)")
        parts.append(value.detach().cpu().double().numpy())
    return np.split(np.concatenate(parts), np.cumsum(trajectories.lengths)[:-1])


def use_proxy(recorded: Recorded, proxy: Arrays | Callable[[Tensor], Tensor]) -> Recorded:
    """The same pairs with a proxy in place of the states.

    Args:
        recorded: the trajectories.
        proxy: one value per state, of the same lengths; or a function of observations (batch, ...).

    Raises:
        ValueError: the proxy's lengths differ from those of the states, or there are no observations.
    """
    values: Arrays
    if callable(proxy):
        if recorded.observations is None:
            raise ValueError("observations must be given to Recorded for a proxy that maps them, got none")
        values = project(recorded.observations, proxy, recorded.transform)
    else:
        values = proxy
    by_proxy = Recorded(values, stride=recorded.stride, swap=recorded.swap)
    by_proxy.states.check_lengths("proxy", recorded.states)
    return by_proxy.reweighted(recorded.weights)


def _path_and_step(trajectories: Trajectories, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Path and step of row numbers of the concatenated paths."""
    ends = np.cumsum(trajectories.lengths)
    path = np.searchsorted(ends, rows, side="right")
    return path, rows - (ends - trajectories.lengths)[path]


_DESCRIPTIONS = {
    "effective_pairs": "effective number of pairs",
    "effective_paths": "effective number of paths",
    "gaussianity": "distance of the states from a Gaussian",
    "transition": "distance of the pairs from a Gaussian process of one rate",
    "isotropy": "fastest over slowest rate; should be below 2",
    "stationarity": "distance between the two ends of the pairs",
}


@dataclass(frozen=True)
class ReweightingEffect:
    """Measures of the pairs before and after reweighting.

    Attributes:
        method, strength: arguments of `isotropize`.
        of: what the weights and measures are computed from, "states" or "proxy".
        stride: of the pairs, before and after.
        rho: target correlation; NaN for "stride".
        scale: target standard deviations relative to those of the data, per coordinate.
        before, after: measures of the distribution of pairs.
        clipped: number of pairs whose weight was clipped.
        effective_unclipped: effective pairs without clipping.
        missed: largest distance of a moment from its target, in standard deviations of the feature.
    """

    method: str
    strength: float
    of: str
    stride: tuple[int, int]
    rho: float
    scale: tuple[float, ...]
    before: PairMeasures
    after: PairMeasures
    clipped: int
    effective_unclipped: float
    missed: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [f"{self.method}, strength {self.strength:g}, measured on the {self.of}"]
        for name, sentence in _DESCRIPTIONS.items():
            before, after = getattr(self.before, name), getattr(self.after, name)
            rows.append(f"  {name:<16} {before:>10.4g} -> {after:<10.4g} {sentence}")
        if self.stride[0] != self.stride[1]:
            rows.append(f"  {'stride':<16} {self.stride[0]:>10} -> {self.stride[1]:<10} steps of a pair")
        if self.clipped:
            rows.append(
                f"  {self.clipped} weights were clipped; without clipping {self.effective_unclipped:.4g} "
                "effective pairs"
            )
        if self.missed > 0.05:
            rows.append(f"  Targets were missed by up to {self.missed:.2g} standard deviations of a moment")
        return "\n".join(rows)


METHODS = (*WEIGHERS, "stride")
_MIN_RANGE = 2.0  # standard deviations of the target within the data's range


@dataclass(frozen=True)
class Isotropized:
    """Reweighted trajectories, and the effect of the weights.

    Attributes:
        recorded: the same trajectories with other weights or another stride.
        effect: measures before and after.
        apply: reweights other trajectories, e.g. held-out ones, by the same function of a pair.
    """

    recorded: Recorded
    effect: ReweightingEffect
    apply: Callable[[Recorded], Recorded] = field(repr=False)


@validate_types
def isotropize(
    source: Recorded | Arrays,
    strength: float = 1.0,
    method: str = "moments",
    *,
    stride: int | None = None,
    strides: Sequence[int] | None = None,
    proxy: Arrays | Callable[[Tensor], Tensor] | None = None,
    rho: float | None = None,
    scale: Sequence[float] | None = None,
    least: float = 500.0,
    clip: float = 1000.0,
    samples: int = 100_000,
    seed: int = 0,
) -> Isotropized:
    """Reweight recorded pairs towards a Gaussian process with one rate.

    Args:
        source: recorded trajectories, or their states as `Recorded` takes them.
        strength: from 0, the empirical distribution, to 1, the full correction.
        method: rates, moments, marginals, reweight or stride.
        stride: steps between the ends of a pair, if the source is not `Recorded`; 1 by default.
        strides: candidates for the method "stride"; by default powers of two up to a third of a path.
        proxy: coordinates to isotropize in place of the states, such as principal components or an encoder
            in evaluation mode: one value per state, or a function of observations.
        rho: target correlation; by default that of the geometric mean of the data's rates.
        scale: target standard deviation per whitened coordinate, in (0, 1]; by default the largest that
            the range of the data allows.
        least: smallest effective number of pairs.
        clip: largest weight of a pair, in mean weights.
        samples: pairs that the weights are fitted on; they are then computed for all.
        seed: selects those pairs, and draws the directions of the measures.

    Returns:
        The trajectories with their new weights, and measures before and after.

    Raises:
        ValueError: the strength is outside [0, 1] or leaves too few pairs (the message has the largest
            strength that leaves enough), or the method is unknown.

    Example:
        >>> from isojepa.data.processes import GoalReaching
        >>> paths = GoalReaching().trajectory(100, 120, generator(0, "data"))
        >>> effect = isotropize(paths, 1.0, "rates", stride=8).effect
        >>> effect.after.isotropy < effect.before.isotropy
        True
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"strength must lie in [0, 1], got {strength}")
    choose("method", method, dict.fromkeys(METHODS))
    if rho is not None and not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1), got {rho}")
    if not clip > 1:
        raise ValueError(f"clip must be above 1 mean weight, got {clip}")
    if int(samples) != samples or samples < 100:
        raise ValueError(f"samples must be an integer of at least 100, got {samples}")
    if strides is not None and method != "stride":
        raise ValueError(f"strides are candidates of the method 'stride', got method {method!r}")
    if isinstance(source, Recorded):
        if stride is not None:
            raise ValueError(f"stride belongs to the recording: use recorded.strided({stride})")
        recorded = source
    else:
        recorded = Recorded(source, stride=1 if stride is None else stride)
    shadow = recorded if proxy is None else use_proxy(recorded, proxy)
    target_scale = _check_scale(scale, shadow.dim)
    before = measure_pairs(shadow, seed)
    if method == "stride":
        chosen, after = _choose_stride(shadow, before, strength, strides, rho, seed)
        effect = _effect(method, strength, proxy, before, after, stride=(recorded.stride, chosen))
        return Isotropized(recorded.strided(chosen), effect, lambda other: other.strided(chosen))
    if strength == 0:
        effect = _effect(method, strength, proxy, before, before, stride=(recorded.stride, recorded.stride))
        return Isotropized(recorded, effect, lambda other: other)
    sample = _sample(shadow, samples, seed, rho, target_scale, shaped=method != "rates")
    weigher = WEIGHERS[method](sample, float(strength))
    weights, unclipped, cut = _pair_weights(shadow, sample.frame, weigher, clip)
    remaining = float(weights.sum() ** 2 / (weights**2).sum())
    if remaining < least:
        raise ValueError(_too_few(method, sample, shadow, strength, remaining, least, clip))
    swap = recorded.swap + (0.5 - recorded.swap) * strength
    effect = _effect(
        method,
        strength,
        proxy,
        before,
        measure_pairs(shadow.reweighted(weights, swap), seed),
        stride=(recorded.stride, recorded.stride),
        rho=sample.frame.rho,
        scale=tuple(sample.frame.scale.tolist()),
        clipped=cut,
        effective_unclipped=unclipped,
        missed=weigher.missed,
    )

    def apply(other: Recorded) -> Recorded:
        if proxy is not None and not callable(proxy):
            raise ValueError("proxy must be a function of observations to weigh other trajectories")
        like = other if proxy is None else use_proxy(other, proxy)
        other_weights = _pair_weights(like.standardized(shadow.standardizer), sample.frame, weigher, clip)[0]
        return other.reweighted(other_weights, other.swap + (0.5 - other.swap) * strength)

    return Isotropized(recorded.reweighted(weights, swap), effect, apply)


def _effect(
    method: str, strength: float, proxy: Any, before: PairMeasures, after: PairMeasures, **rest: Any
) -> ReweightingEffect:
    defaults: dict[str, Any] = {
        "rho": math.nan,
        "scale": (1.0,) * len(before.rho),
        "clipped": 0,
        "effective_unclipped": after.effective_pairs,
        "missed": 0.0,
    }
    of = "states" if proxy is None else "proxy"
    return ReweightingEffect(method, float(strength), of, before=before, after=after, **(defaults | rest))


def _check_scale(scale: Sequence[float] | None, dim: int) -> np.ndarray | None:
    if scale is None:
        return None
    values = np.asarray(scale, dtype=np.float64)
    if values.shape != (dim,) or not ((values > 0) & (values <= 1)).all():
        raise ValueError(f"scale must be {dim} numbers in (0, 1], got {scale}")
    return values


def _sample(
    shadow: Recorded, samples: int, seed: int, rho: float | None, scale: np.ndarray | None, shaped: bool
) -> PairSample:
    """The pairs that weights are fitted on, in the coordinates of the target."""
    index = np.arange(shadow.pairs)
    if shadow.pairs > samples:
        order = torch.randperm(shadow.pairs, generator=generator(seed, "isotropise"))[:samples]
        index = np.sort(order.numpy())
    z, z_next = shadow.states_at(index)
    base = np.full(len(index), 1 / len(index)) if shadow.weights is None else shadow.weights[index]
    base = base / base.sum()
    ends, share = np.concatenate((z, z_next)), np.concatenate((base, base)) / 2
    mean, matrix = whitening(ends, share)
    white = (ends - mean) @ matrix
    if scale is None:
        scale = _fitting(white, share) if shaped else np.ones(shadow.dim)
    half = len(index)
    if rho is None:
        rho = common_rho(lagged(white[:half], white[half:], base)[0])
    frame = TargetFrame(mean, matrix / scale, scale, rho)
    return PairSample(white[:half] / scale, white[half:] / scale, base, frame)


def _fitting(white: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The largest scale, up to 1, such that two standard deviations lie within each coordinate's range."""
    scales = []
    for column in white.T:
        order = np.argsort(column)
        levels = np.cumsum(share[order])
        low, high = column[order[np.searchsorted(levels, [0.005, 0.995]).clip(max=len(order) - 1)]]
        scales.append(min(-low, high) / _MIN_RANGE)
    return np.asarray(np.clip(np.array(scales), 0.1, 1.0))


def _pair_weights(
    shadow: Recorded, frame: TargetFrame, weigher: _Weigher, clip: float
) -> tuple[np.ndarray, float, int]:
    """Weights of all pairs, effective pairs before clipping, and the number of clipped weights."""
    logs, base = [], []
    for z, z_next, weight in shadow.chunks():
        logs.append(weigher.log_weights(*frame.enter(z, z_next)))
        base.append(weight)
    return clipped(np.concatenate(logs), np.concatenate(base), clip)


def clipped(logs: np.ndarray, base: np.ndarray, clip: float) -> tuple[np.ndarray, float, int]:
    """base exp(logs), clipped at `clip` means; the effective number before; the number of clipped weights."""
    logs = np.where(base > 0, logs, -np.inf)
    weights = base * np.exp(logs - logs.max())
    weights /= weights.mean()
    unclipped = float(weights.sum() ** 2 / (weights**2).sum())
    cut = int((weights > clip).sum())
    return np.minimum(weights, clip), unclipped, cut


def _too_few(
    method: str,
    sample: PairSample,
    shadow: Recorded,
    strength: float,
    remaining: float,
    least: float,
    clip: float,
) -> str:
    """Message with the remaining pairs and, by bisection, the largest strength that leaves enough."""
    low, high = 0.0, float(strength)
    for _ in range(7):
        middle = (low + high) / 2
        logs = WEIGHERS[method](sample, middle).log_weights(sample.z, sample.z_next)
        weights, _, _ = clipped(logs, sample.base, clip)
        share = weights.sum() ** 2 / (weights**2).sum() / len(weights)
        low, high = (middle, high) if share * shadow.pairs >= least else (low, middle)
    largest = math.floor(100 * low) / 100
    hint = f"a strength up to {largest:g} does" if largest > 0 else "no strength does: collect more data"
    return (
        f"strength must leave at least {least:g} effective pairs, got {remaining:.0f} of {shadow.pairs} at "
        f"{strength:g} with method {method!r}; {hint}"
    )


def _choose_stride(
    shadow: Recorded,
    before: PairMeasures,
    strength: float,
    strides: Sequence[int] | None,
    rho: float | None,
    seed: int,
) -> tuple[int, PairMeasures]:
    """Interpolate geometrically from the present stride to the best candidate."""
    if strength == 0:
        return shadow.stride, before
    if strides is None:
        largest = max(1, shadow.states.longest // 3)
        strides = [2**power for power in range(largest.bit_length())]
    laws = {int(stride): measure_pairs(shadow.strided(stride), seed) for stride in strides}
    usable = {stride: law for stride, law in laws.items() if math.isfinite(law.transition)}
    if not usable:
        raise ValueError(f"strides must have one over which all directions persist, got {list(strides)}")

    def distance(stride: int) -> float:
        law = usable[stride]
        return law.transition if rho is None else abs(math.log(common_rho(np.array(law.rho)) / rho))

    best = min(usable, key=distance)
    chosen = round(shadow.stride * (best / shadow.stride) ** strength)
    if chosen == shadow.stride:
        return chosen, before
    return chosen, laws[chosen] if chosen in laws else measure_pairs(shadow.strided(chosen), seed)
