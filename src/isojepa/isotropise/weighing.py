r"""Weights that bring recorded pairs nearer to a stationary Gaussian process of one rate.

Weights as functions of a pair: the methods behind `isotropise`.

Each takes a sample of pairs in the coordinates of the target, in which the wanted law of a pair is that of
the Ornstein-Uhlenbeck process of unit variance, and returns a function that gives log-weights to any pair.
All are symmetric in the two ends: features are even in the step v.

How far the law of recorded pairs is from that of the theorems' Gaussian world.

With the two ends of a pair whitened together, and rho their common correlation, the coordinates

    u = (z + z') / sqrt(2 (1 + rho)),    v = (z' - z) / sqrt(2 (1 - rho))

are jointly N(0, I) exactly when the pair is one of the Ornstein-Uhlenbeck process of correlation rho.
Distances are between characteristic functions along random directions a,

    D = E_a \int |phi_X(t a) - e^{-t^2/2}|^2 n(t) dt,    n the standard normal density,

0 for N(0, I) and 2 at most, with the bias of a finite sample, (1 - |phi_X|^2) / effective pairs, taken off.
That takes pairs as independent; on one path they are not, so that values near 0 may be off by more. They
can fall below 0 by chance and are kept as they are.

Maximum-entropy weights: the smallest change of a sample's weights that gives its features wanted means.

For base weights q_k and features f_k, the weights nearest to q in Kullback-Leibler divergence with mean m
are

    w_k = q_k exp(theta . f_k) / Z(theta),    theta = argmin log Z(theta) - theta . m + ridge |theta|^2 / 2,

a convex problem in as many unknowns as features, solved by Newton steps within a trust region (scipy). The
ridge lets a mean that no weights can give be missed by ridge |theta|; `missed` says by how much, in
standard deviations of the feature. Reference: Csiszar (1975), I-divergence geometry; Hainmueller (2012),
entropy balancing.

Stand-ins for latents that nobody has: a few coordinates computed from the observations.

Weights that make pairs more isotropic need coordinates to be isotropic in. Where the latents are not known,
principal components of the observations, or the embedding of an encoder trained on the data as they are, may
serve in their place; isotropy is then isotropy of the proxy.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.seeds import generator
from isojepa.worlds.trajectories import Arrays, Recorded, Trajectories

_SLICES = 16
_SAMPLES = 10_000  # pairs that distances are measured on
_KNOTS, _SHARES = np.polynomial.hermite_e.hermegauss(12)
_KNOTS, _SHARES = _KNOTS[6:], 2 * _SHARES[6:] / math.sqrt(2 * math.pi)  # even integrand: half the knots


@dataclass(frozen=True)
class PairLaw:
    """Measures of a law of pairs.

    Attributes:
        pairs: number of different pairs.
        effective_pairs: (sum w)^2 / sum w^2 of their weights.
        effective_paths: the same of the paths' total weights; pairs of one path are not independent.
        rho: correlation along each whitened direction, the slowest first.
        isotropy: largest over smallest rate -log(rho); 1 for the theorems, which need less than 2.
        gaussianity: distance of the whitened states from N(0, I).
        transition: distance of (u, v) from N(0, I): shape, rates and noise of the pairs together; NaN where
            a direction does not persist over the stride.
        stationarity: distance between the laws of the two ends.
    """

    pairs: int
    effective_pairs: float
    effective_paths: float
    rho: tuple[float, ...]
    isotropy: float
    gaussianity: float
    transition: float
    stationarity: float


@checked
def measure_pairs(recorded: Recorded, seed: int = 0) -> PairLaw:
    """Measure the law that a `Recorded` draws its pairs from.

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
        # a pair and its reverse have (u, v) and (u, -v): the alignment sees both
        both = np.concatenate((np.hstack((u, v)), np.hstack((u, -v))))
        transition = _from_normal(both @ _directions(2 * recorded.dim, source), noise)
    gap = _between(z @ slices, z_next @ slices, noise) * (1 - 2 * recorded.swap) ** 2
    return PairLaw(
        pairs=recorded.pairs,
        effective_pairs=effective_pairs,
        effective_paths=effective_paths,
        rho=tuple(values.tolist()),
        isotropy=isotropy_of(values),
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

    Symmetric, so that whitened coordinates stay as near as can be to those they come from.

    Raises:
        ValueError: a direction has no variance.
    """
    mean = np.average(states, axis=0, weights=weights)
    centred = states - mean
    share = np.full(len(states), 1 / len(states)) if weights is None else weights / weights.sum()
    values, vectors = np.linalg.eigh((centred * share[:, None]).T @ centred)
    if values[0] <= 1e-10 * values[-1]:
        raise ValueError(
            f"states must vary in every direction, got variances {values[0]:.2g} to {values[-1]:.2g}: leave "
            "out what is constant or follows from the rest"
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
    """The correlation whose rate -log(rho) is the geometric mean of those of several.

    Raises:
        ValueError: a direction does not persist over the stride, or does not move.
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


def isotropy_of(rho: np.ndarray) -> float:
    """Largest over smallest rate -log(rho); infinite where a direction does not persist or does not move."""
    if not persistent(rho):
        return math.inf
    rates = -np.log(rho)
    return float(rates.max() / rates.min())


def turn(z: np.ndarray, z_next: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """u and v of whitened pairs: the middle and the step, each of unit variance in the Gaussian world."""
    return (z + z_next) / math.sqrt(2 * (1 + rho)), (z_next - z) / math.sqrt(2 * (1 - rho))


def _systematic(recorded: Recorded) -> np.ndarray:
    """Numbers of pairs in proportion to their weights, evenly spaced: no more noise than needed."""
    count = min(_SAMPLES, recorded.pairs) if recorded.weights is None else _SAMPLES
    places = (np.arange(count) + 0.5) / count
    if recorded.weights is None:
        return (places * recorded.pairs).astype(np.int64)
    return np.searchsorted(np.cumsum(recorded.weights), places).clip(max=recorded.pairs - 1)


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
    own = _characteristic(projected)
    squared = np.abs(own - np.exp(-(_KNOTS**2) / 2)[:, None]) ** 2 - noise * (1 - np.abs(own) ** 2)
    return float((_SHARES @ squared).mean())


def _between(first: np.ndarray, second: np.ndarray, noise: float) -> float:
    one, two = _characteristic(first), _characteristic(second)
    # the ends of a pair are dependent: the noise is that of e^{itz} - e^{itz'}, of size 2 - 2 cos(t (z - z'))
    apart = np.stack([(2 - 2 * np.cos(knot * (first - second))).mean(0) for knot in _KNOTS])
    squared = np.abs(one - two) ** 2
    return float((_SHARES @ (squared - noise * (apart - squared))).mean())


RIDGE = 1e-4
_ITERATIONS = 200


@dataclass(frozen=True)
class Tilt:
    """A fitted tilting: log w = coefficients . features, up to a constant.

    Attributes:
        coefficients: (features,).
        missed: largest distance of a reached mean from the wanted one, in standard deviations.
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
    ridge: float = RIDGE,
) -> Tilt:
    """Find the tilting under which the features have the target as their mean.

    Args:
        features: (n, features); a constant one is ignored.
        target: (features,) wanted means.
        base: (n,) weights to start from; all alike by default.
        strength: how far to go from the means as they are, 0, to the target, 1.
        ridge: how far a mean may be missed for the sake of smaller coefficients.
    """
    share = np.full(len(features), 1 / len(features)) if base is None else base / base.sum()
    mean = share @ features
    deviation = np.sqrt(share @ (features - mean) ** 2)
    moving = deviation > 1e-12 * (np.abs(mean) + deviation)
    scaled = (features[:, moving] - mean[moving]) / deviation[moving]
    wanted = strength * (target - mean)[moving] / deviation[moving]
    dual = _Dual(scaled, wanted, share, ridge)
    found = scipy.optimize.minimize(
        dual.value,
        np.zeros(len(wanted)),
        jac=dual.slope,
        hess=dual.curvature,
        method="trust-exact",
        options={"maxiter": _ITERATIONS, "gtol": 1e-6},
    )
    coefficients = np.zeros(len(target))
    coefficients[moving] = found.x / deviation[moving]
    missed = np.abs(dual.weights(found.x) @ scaled - wanted).max(initial=0.0)
    return Tilt(coefficients, float(missed))


class _Dual:
    """The dual function of standardised features, its gradient and its Hessian."""

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


_NUMBERS = 20_000_000  # entries of the largest feature matrix
_BINS = 16  # of each coordinate, equally likely under the target
_LEAST_ENDS = 20  # ends of pairs in a bin
_NEIGHBOURS = 32
_REFERENCE = 50_000  # pairs of the density estimate
_MOST_REWEIGHTED = 6  # coordinates: the density estimate has twice as many dimensions
_MOST_JOINT, _MOST_PAIRED = 3, 8  # coordinates whose moments are all taken, and those taken two by two


@dataclass(frozen=True)
class Frame:
    """Coordinates in which the target is N(0, I) and its correlation rho.

    Attributes:
        mean: (dim,) of the states.
        matrix: (dim, dim) whitens them and divides by the scale.
        scale: (dim,) standard deviations of the target in whitened coordinates.
        rho: correlation aimed at.
    """

    mean: np.ndarray
    matrix: np.ndarray
    scale: np.ndarray
    rho: float

    def enter(self, z: np.ndarray, z_next: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of pairs in these coordinates."""
        return (z - self.mean) @ self.matrix, (z_next - self.mean) @ self.matrix


@dataclass(frozen=True)
class Sample:
    """Pairs (n, dim) in the frame's coordinates with base weights (n,) that sum to 1."""

    z: np.ndarray
    z_next: np.ndarray
    base: np.ndarray
    frame: Frame

    def thinned(self, count: int) -> "Sample":
        """At most `count` of the pairs, evenly spaced."""
        if count >= len(self.z):
            return self
        rows = np.linspace(0, len(self.z) - 1, count).astype(np.int64)
        base = self.base[rows]
        return Sample(self.z[rows], self.z_next[rows], base / base.sum(), self.frame)


class Weigher(Protocol):
    """A fitted method."""

    @property
    def missed(self) -> float: ...

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs in the frame's coordinates, up to a constant."""
        ...


@dataclass(frozen=True)
class Tilted:
    """Log-weights linear in features of the pair."""

    features: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coefficients: np.ndarray
    missed: float

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        return np.asarray(self.features(z, z_next) @ self.coefficients)


def rates(sample: Sample, strength: float) -> Tilted:
    """One rate for all directions: first and second moments of (u, v) are those of N(0, I)."""
    return _by_moments(sample, strength, degree=2)


def moments(sample: Sample, strength: float) -> Tilted:
    """Moments of (u, v) up to degree four are those of N(0, I), as many as the dimension allows."""
    return _by_moments(sample, strength, degree=4)


def exponents(dim: int, degree: int) -> np.ndarray:
    """Exponents (features, 2 dim) of the monomials in (u, v) that are even in v.

    All of them up to 3 coordinates; those of at most two coordinates at once up to 8; beyond, those of single
    coordinates, with all products of degree two.
    """
    together = dim if dim <= _MOST_JOINT else 2 if dim <= _MOST_PAIRED else 1
    found = set()
    for total in range(1, degree + 1):
        span = max(together, 2) if total == 2 else together
        for coordinates in itertools.combinations(range(dim), min(span, dim)):
            columns = [*coordinates, *(dim + i for i in coordinates)]
            for chosen in itertools.combinations_with_replacement(columns, total):
                powers = np.bincount(chosen, minlength=2 * dim)
                if powers[dim:].sum() % 2 == 0:
                    found.add(tuple(powers.tolist()))
    return np.array(sorted(found), dtype=np.int64)


def marginals(sample: Sample, strength: float) -> Tilted:
    """The two ends of the pairs, taken together, are normal in each coordinate, up to bins."""
    edges = [_edges(np.concatenate((a, b))) for a, b in zip(sample.z.T, sample.z_next.T, strict=True)]

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        columns = []
        for axis, inner in enumerate(edges):
            places = np.searchsorted(inner, z[:, axis]), np.searchsorted(inner, z_next[:, axis])
            # the last bin follows from the others
            columns += [((places[0] == k) * 0.5 + (places[1] == k) * 0.5) for k in range(len(inner))]
        return np.stack(columns, 1)

    target = np.concatenate([np.diff(scipy.special.ndtr(inner), prepend=0.0) for inner in edges])
    thin = sample.thinned(_NUMBERS // len(target))
    tilt = fit_tilt(features(thin.z, thin.z_next), target, thin.base, strength)
    return Tilted(features, tilt.coefficients, tilt.missed)


@dataclass(frozen=True)
class Ratio:
    """strength * log of the normal density over a nearest-neighbour estimate of the data's."""

    tree: "scipy.spatial.cKDTree"
    rho: float
    strength: float
    missed: float = 0.0

    def log_weights(self, z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        """(n,) log-weights of pairs."""
        y = np.hstack(turn(z, z_next, self.rho))
        reach = min(_NEIGHBOURS, self.tree.n)
        radius = np.asarray(self.tree.query(y, k=[reach])[0])[:, 0]
        # the density is k / (n volume r^d); constants cancel; equal points would make it infinite
        log_density = -y.shape[1] * np.log(np.maximum(radius, 1e-9))
        return np.asarray(self.strength * (-(y**2).sum(1) / 2 - log_density))


def reweight(sample: Sample, strength: float) -> Ratio:
    """The density ratio of the pair law, in few dimensions.

    Raises:
        ValueError: there are too many coordinates for a density estimate.
    """
    dim = sample.z.shape[1]
    if dim > _MOST_REWEIGHTED:
        raise ValueError(
            f"method 'reweight' estimates a density and takes at most {_MOST_REWEIGHTED} coordinates, got "
            f"{dim}: give a proxy of fewer, or use 'moments'"
        )
    thin = sample.thinned(_REFERENCE)
    rows = np.arange(len(thin.z))
    if np.ptp(thin.base) > 0:  # points of one weight in place of weighted ones
        places = (rows + 0.5) / len(rows)
        rows = np.searchsorted(np.cumsum(thin.base), places).clip(max=len(rows) - 1)
    u, v = turn(thin.z[rows], thin.z_next[rows], thin.frame.rho)
    # with every pair its reverse, so that the estimate is symmetric in time
    tree = scipy.spatial.cKDTree(np.concatenate((np.hstack((u, v)), np.hstack((u, -v)))))
    return Ratio(tree, sample.frame.rho, strength)


WEIGHERS: dict[str, Callable[[Sample, float], Weigher]] = {
    "rates": rates,
    "moments": moments,
    "marginals": marginals,
    "reweight": reweight,
}


def _by_moments(sample: Sample, strength: float, degree: int) -> Tilted:
    powers = exponents(sample.z.shape[1], degree)
    rho = sample.frame.rho

    def features(z: np.ndarray, z_next: np.ndarray) -> np.ndarray:
        return _monomials(np.hstack(turn(z, z_next, rho)), powers)

    # E y^k of a standard normal: (k - 1)!! for even k, 0 for odd
    normal = np.array([math.prod(range(k - 1, 0, -2)) if k % 2 == 0 else 0.0 for k in range(degree + 1)])
    thin = sample.thinned(_NUMBERS // len(powers))
    tilt = fit_tilt(features(thin.z, thin.z_next), normal[powers].prod(1), thin.base, strength)
    return Tilted(features, tilt.coefficients, tilt.missed)


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
    """Inner edges of bins equally likely under N(0, 1), without those that hold next to no data."""
    inner = scipy.special.ndtri(np.arange(1, _BINS) / _BINS)
    while len(inner):
        counts = np.bincount(np.searchsorted(inner, ends), minlength=len(inner) + 1)
        least = int(counts.argmin())
        if counts[least] >= _LEAST_ENDS:
            break
        # join the poorest bin to the poorer of its neighbours
        left = least > 0 and (least == len(inner) or counts[least - 1] <= counts[least + 1])
        inner = np.delete(inner, least - 1 if left else least)
    return np.asarray(inner)


_CHUNK = 4096  # observations that are mapped at once


@checked
def principal_components(
    observations: Arrays, dim: int, *, samples: int = 10_000, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """The projection of observations on their first principal components.

    Args:
        observations: (steps, paths, ...) or a list of (steps_i, ...).
        dim: number of components.
        samples: observations to find them from.
        seed: draws those.

    Returns:
        A function from observations (batch, ...) to (batch, dim).

    Raises:
        ValueError: there are not as many components, or an observation is not finite.
    """
    seen = Trajectories.of("observations", observations)
    drawn = torch.randperm(int(seen.lengths.sum()), generator=generator(seed, "principal-components"))
    path, step = _places(seen, np.sort(drawn[:samples].numpy()))
    x = torch.from_numpy(np.asarray(seen.gather(path, step), dtype=np.float64)).flatten(1)
    if not torch.isfinite(x).all():
        raise ValueError("observations must be finite, got NaN or Inf among those drawn")
    if not 1 <= dim <= min(x.shape):
        raise ValueError(f"dim must lie between 1 and {min(x.shape)}, got {dim}")
    mean = x.mean(0)
    _, _, right = torch.linalg.svd(x - mean, full_matrices=False)
    basis = right[:dim].T.contiguous()
    return lambda batch: (batch.double().flatten(1) - mean) @ basis


@torch.no_grad()
@checked
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
    seen = Trajectories.of("observations", observations)
    total, parts = int(seen.lengths.sum()), []
    for start in range(0, total, _CHUNK):
        place = np.arange(start, min(start + _CHUNK, total))
        x = torch.from_numpy(np.ascontiguousarray(seen.gather(*_places(seen, place))))
        value = function(x.float() if transform is None else transform(x))
        if not isinstance(value, Tensor) or value.ndim != 2 or len(value) != len(place):
            raise ValueError("proxy must map observations (batch, ...) to a tensor (batch, dim)")
        parts.append(value.detach().cpu().double().numpy())
    return np.split(np.concatenate(parts), np.cumsum(seen.lengths)[:-1])


def stand_in(recorded: Recorded, proxy: Arrays | Callable[[Tensor], Tensor]) -> Recorded:
    """The same pairs with the proxy in place of the states.

    Args:
        recorded: the trajectories.
        proxy: values beside the states, of the same lengths; or a function of observations (batch, ...).

    Raises:
        ValueError: the proxy's lengths are not those of the states, or there are no observations.
    """
    values: Arrays
    if callable(proxy):
        if recorded.observations is None:
            raise ValueError("observations must be given to Recorded for a proxy that maps them, got none")
        values = project(recorded.observations, proxy, recorded.transform)
    else:
        values = proxy
    shadow = Recorded(values, stride=recorded.stride, swap=recorded.swap)
    shadow.states.check_lengths("proxy", recorded.states)
    return shadow.reweighted(recorded.weights)


def _places(seen: Trajectories, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Path and step of numbers that count all steps of the first path, then of the second, ..."""
    ends = np.cumsum(seen.lengths)
    path = np.searchsorted(ends, place, side="right")
    return path, place - (ends - seen.lengths)[path]
