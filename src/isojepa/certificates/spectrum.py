r"""The Hermite spectrum of an embedding with its latents: how much of the variance is linear, quadratic, ...

With z ~ N(0, I) and the orthonormal polynomials H_a(z) = prod_j He_{a_j}(z_j) / sqrt(a_j!), every h of finite
variance is sum_a c_a H_a (Klindt, LeCun & Balestriero 2026, Appendix A). Its energy at degree d is

    w_d = sum over |a| = d of c_a^2,        w_0 = (E h)^2,        sum over d >= 1 of w_d = Var h.

An embedding is a linear map of the latents if and only if all of its variance is w_1; what lies above is what
the alignment of pairs pays for, 2 sum_d (1 - rho^d) w_d. The latents must be N(0, I).

Quadrature, for a function of at most 3 latents: c_a = E[h H_a] by the tensor Gauss-Hermite rule at two
orders, whose difference is the error.

Regression, for samples. Least squares on the other half of the samples give a guess b; with
q = (h - b.H) H_a, whose mean is c_a - b_a,

    c_a^2 = b_a^2 + 2 b_a E q + (E q)^2,

and (E q)^2 is estimated by the mean of q_i q_j over i != j. Given b every term is unbiased, whatever b is; a
good b makes the variance small. Above the degree lies E (h - b.H)^2 - sum_a (c_a - b_a)^2. Values below zero
by chance stay. High polynomials have heavy tails, so a guess of all degrees can be worse than a linear one;
it is used only where it makes the linear share far more certain, so that the choice does not bias the answer.
Approximate: the intervals, jackknives over blocks with b held fixed; those of high degrees need thousands of
samples.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from isojepa.arrays import NotFinite, real_array
from isojepa.data import Source
from isojepa.data.source import Observable, observable
from isojepa.encoders.model import embed
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import unknown, validate_types

METHODS = ("auto", "quadrature", "regression")
MAX_DEGREE, DEFAULT_DEGREE = 30, 6
MAX_FEATURES, AUTO_FEATURES = 4000, 600  # least squares is cubic in them; degree None stays below the second
SAMPLES_PER_FEATURE = 10
MAX_DIFFERENCE = 0.01  # of two orders of quadrature, as a share, without a notice
MAX_DEPARTURE, CHANCE = 0.1, 5.0  # mean of a normalized Hermite polynomial of the latents; times 1 / sqrt(n)
_ORDERS = {1: (256, 192), 2: (128, 96), 3: (48, 36)}  # points per latent, and those of the comparison
_BLOCKS = 20  # of the jackknife, per half
_CELLS = 4_000_000  # numbers held at once
_BETTER = 0.3  # ratio of two errors that chance does not explain
_NEGLIGIBLE = 1e-30  # weight of a quadrature point that is not evaluated

_Function = Callable[[np.ndarray], np.ndarray]
_Values = TypeVar("_Values", np.ndarray, Tensor)


@dataclass(frozen=True)
class Spectrum:
    """Energy of an embedding per Hermite degree.

    Attributes:
        method: quadrature or regression.
        degree: the highest that is distinguished.
        samples: latents or quadrature points behind the numbers.
        confidence: of the intervals; those of quadrature are its error instead.
        energy: per dimension, w_0 .. w_degree.
        variance: per dimension.
        rest: per dimension, the variance above the degree; raw.
        shares: pooled w_d / variance for d = 1 .. degree: sums over dimensions divided by each other.
        above: pooled share above the degree.
        linear: pooled share of degree 1.
        linear_per_dimension: w_1 / variance of each dimension; NaN for a constant one.
        notices: what to know before trusting the numbers.
    """

    method: str
    degree: int
    samples: int
    confidence: float
    energy: tuple[tuple[float, ...], ...]
    variance: tuple[float, ...]
    rest: tuple[float, ...]
    shares: tuple[Interval, ...]
    above: Interval
    linear: Interval
    linear_per_dimension: tuple[float, ...]
    notices: tuple[str, ...] = ()

    def correlation(self, rho: float) -> float:
        """sum_d s_d rho^d: the pooled correlation of pairs; what is above the degree counts as zero."""
        return math.fsum(share.estimate * rho**d for d, share in enumerate(self.shares, 1))

    def alignment(self, rho: float) -> float:
        """2 sum_d (1 - rho^d) w_d = E |h' - h|^2; what is above the degree counts fully."""
        return 2 * math.fsum(self.variance) * (1 - self.correlation(rho))

    @property
    def sentence(self) -> str:
        """The answer in words."""
        low, high = 100 * self.linear.low, 100 * self.linear.high
        return (
            f"The embedding is {100 * self.linear.estimate:.2f} % linear in the latents "
            f"[{low:.2f}, {high:.2f}]."
        )


@validate_types
def measure_spectrum(
    source: nn.Module | Callable[..., Any] | Tensor | np.ndarray,
    world: Source | None = None,
    *,
    latents: Tensor | np.ndarray | None = None,
    degree: int | None = None,
    method: str = "auto",
    samples: int = 20_000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Spectrum:
    """Measure the Hermite spectrum of an encoder in a Gaussian world, or of embeddings with their latents.

    Args:
        source: an encoder or function of observations, with `world`; or (n, m) embeddings, with `latents`.
        world: of Gaussian latents; the function that is measured is the encoder after the world's mixing.
        latents: (n, d) latents of the embeddings, independent samples of N(0, I).
        degree: the highest to distinguish; None: 6, for regression as far as samples and time allow.
        method: quadrature, regression, or auto: quadrature for an encoder of up to 3 latents.
        samples: latents to draw for regression with an encoder.
        seed: draws them.
        confidence: of the intervals.

    Raises:
        ValueError: latents that are not N(0, I), too few samples for the degree, or a method that does not
            fit the source.

    Example:
        >>> from isojepa.data import OrnsteinUhlenbeck, World
        >>> spectrum = measure_spectrum(torch.sin, World(OrnsteinUhlenbeck(dim=1)))
        >>> round(spectrum.energy[0][3], 6) == round(math.exp(-1) / 6, 6)
        True
    """
    if degree is not None and (int(degree) != degree or not 1 <= degree <= MAX_DEGREE):
        raise ValueError(f"degree must be an integer from 1 to {MAX_DEGREE}, got {degree}")
    if method not in METHODS:
        raise ValueError(unknown("method", method, METHODS))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if world is None:
        if callable(source):
            raise ValueError(
                "an encoder needs a world: measure_spectrum(encoder, world); for a function of the latents "
                "themselves, World(OrnsteinUhlenbeck(dim=...))"
            )
        if latents is None:
            raise ValueError("embeddings need their latents; without any, see measure_decay")
        if method == "quadrature":
            raise ValueError(f"method must be auto or regression for embeddings, got {method!r}")
        h = real_array("embeddings", source, "samples, dim")
        z = real_array("latents", latents, "samples, dim")
        if len(h) != len(z):
            raise ValueError(f"embeddings and latents must have equal lengths, got {len(h)} and {len(z)}")
        return _regressed(h, z, degree, confidence)
    if latents is not None:
        raise ValueError("an encoder with a world brings its own latents")
    if not callable(source):
        raise ValueError(f"with a world, the source must be an encoder, got {type(source).__name__}")
    dim = world.facts.dim
    if not world.facts.gaussian or dim is None or not observable(world):
        raise ValueError(
            "the world's latents must be N(0, I), and it must be observable at any of them, for Hermite "
            f"degrees, got {world!r}"
        )
    function = _composed(source, world)
    if method == "quadrature" or (method == "auto" and dim in _ORDERS):
        return _integrated(function, dim, DEFAULT_DEGREE if degree is None else degree, confidence)
    latent_samples = torch.randn(
        samples, dim, generator=generator(seed, "spectrum", "latents"), dtype=torch.float64
    ).numpy()
    return _regressed(_finite_values(function, latent_samples), latent_samples, degree, confidence)


def hermite_polynomials(x: _Values, degree: int) -> list[_Values]:
    """He_k(x) / sqrt(k!) for k = 0 .. degree, of an array or a tensor."""
    polynomials = [0 * x + 1, x][: degree + 1]
    for k in range(1, degree):
        # He_{k+1} = x He_k - k He_{k-1}, each divided by the root of its factorial
        polynomials.append((x * polynomials[k] - math.sqrt(k) * polynomials[k - 1]) / math.sqrt(k + 1))
    return polynomials


def _composed(encoder: Callable[..., Any], world: Observable) -> _Function:
    """The encoder after the world's mixing, from (n, dim) to (n, m) arrays of float64.

    A module is called with tensors of its parameters' type; anything else with tensors of float64, or of
    float32 or with arrays if it takes nothing else.
    """
    parameters = encoder.parameters() if isinstance(encoder, nn.Module) else iter(())
    dtype = next((p.dtype for p in parameters if p.is_floating_point()), None)
    call, dtype = (_of_tensors, dtype) if dtype is not None else _accepted(encoder, world)

    def function(z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            h = call(encoder, world.observe(torch.from_numpy(np.ascontiguousarray(z)).to(dtype)))
        if isinstance(h, Tensor):
            h = h.detach().to("cpu", torch.float64).numpy()
        return np.asarray(h, dtype=np.float64)

    return function


def _of_tensors(encoder: Callable[..., Any], x: Tensor) -> Any:
    return embed(encoder, x) if isinstance(encoder, nn.Module) else encoder(x)


def _accepted(
    encoder: Callable[..., Any], world: Observable
) -> tuple[Callable[[Callable[..., Any], Tensor], Any], torch.dtype]:
    """How an encoder without parameters accepts to be called."""
    for dtype in (torch.float64, torch.float32):
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("error", DeprecationWarning)  # numpy warns where it takes a tensor
                _of_tensors(encoder, world.observe(torch.zeros(2, world.facts.dim or 1, dtype=dtype)))
            return _of_tensors, dtype
        except (TypeError, ValueError, RuntimeError, DeprecationWarning):
            continue
    return lambda call, x: call(x.numpy()), torch.float64


def _finite_values(function: _Function, z: np.ndarray) -> np.ndarray:
    """Values (n, m) of a function at latents (n, dim), checked."""
    h = np.asarray(function(z), dtype=np.float64)
    if h.ndim != 2 or len(h) != len(z) or h.shape[1] < 1:
        raise ValueError(f"the function must map ({len(z)}, {z.shape[1]}) to ({len(z)}, m), got {h.shape}")
    if not np.isfinite(h).all():
        bad = int((~np.isfinite(h)).any(1).sum())
        raise NotFinite(f"the function must be finite, got NaN or Inf at {bad} of {len(z)} latents")
    return h


def _spectrum(
    method: str,
    samples: int,
    confidence: float,
    energy: np.ndarray,
    variance: np.ndarray,
    shares: list[Interval],
    notices: list[str],
) -> Spectrum:
    """The result from energies (m, degree + 1) and pooled shares, the last of which lies above the degree."""
    constant = variance <= 1e-12 * (energy[:, 0] + variance.max())
    linear = np.where(constant, np.nan, energy[:, 1] / np.where(constant, 1.0, variance))
    if constant.any():
        notices = [*notices, f"{int(constant.sum())} of {len(constant)} embedding dimensions do not vary."]
    plain = [Interval(float(i.estimate), float(i.low), float(i.high)) for i in shares]
    return Spectrum(
        method=method,
        degree=energy.shape[1] - 1,
        samples=samples,
        confidence=confidence,
        energy=tuple(tuple(row) for row in energy.tolist()),
        variance=tuple(variance.tolist()),
        rest=tuple((variance - energy[:, 1:].sum(1)).tolist()),
        shares=tuple(plain[:-1]),
        above=plain[-1],
        linear=plain[0],
        linear_per_dimension=tuple(linear.tolist()),
        notices=tuple(notices),
    )


def _positive(total: float) -> float:
    if not total > 0:
        raise ValueError("the embedding must vary, got a constant")
    return float(total)


# ---- polynomials of several latents


def _multi_indices(dim: int, degree: int) -> np.ndarray:
    """All multi-indices of total degree up to `degree`, by degree: (count, dim)."""
    rows = [
        np.bincount(chosen, minlength=dim) if chosen else np.zeros(dim, dtype=np.int64)
        for total in range(degree + 1)
        for chosen in itertools.combinations_with_replacement(range(dim), total)
    ]
    return np.stack(rows)


def _features(z: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """H_a(z) for latents (n, dim) and multi-indices (count, dim): (n, count)."""
    table = np.stack(hermite_polynomials(z, int(indices.max(initial=0))), -1)
    values = np.ones((len(z), len(indices)))
    for j in range(z.shape[1]):
        used = np.flatnonzero(indices[:, j])  # in many dimensions nearly all powers are zero
        values[:, used] *= table[:, j, indices[used, j]]
    return values


def _by_degree(squares: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Sums (m, degree + 1) of squares (count, m) over the multi-indices of each degree."""
    degrees = indices.sum(1)
    totals = np.zeros((int(degrees.max()) + 1, squares.shape[1]))
    np.add.at(totals, degrees, squares)
    return totals.T


def _parts(n: int, width: int) -> list[slice]:
    step = max(1, _CELLS // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


# ---- quadrature


def _integrated(function: _Function, dim: int, degree: int, confidence: float) -> Spectrum:
    if dim not in _ORDERS:
        raise ValueError(
            f"quadrature needs at most {max(_ORDERS)} latents, got {dim}: pass method='regression'"
        )
    (energy, variance, points), (coarse, coarse_variance, _) = (
        _integrate(function, dim, degree, order) for order in _ORDERS[dim]
    )
    shares, coarse_shares = (
        np.append(part[:, 1:].sum(0) / _positive(total.sum()), 1 - part[:, 1:].sum() / _positive(total.sum()))
        for part, total in ((energy, variance), (coarse, coarse_variance))
    )
    errors = np.abs(shares - coarse_shares)
    notices = []
    if errors.max() > MAX_DIFFERENCE:
        notices.append(
            f"The two orders of quadrature differ by {100 * errors.max():.1f} % of the variance: the "
            "function is too rough for them; compare with method='regression'."
        )
    intervals = [Interval(s, s - e, s + e) for s, e in zip(shares, errors, strict=True)]
    return _spectrum("quadrature", points, confidence, energy, variance, intervals, notices)


def _integrate(function: _Function, dim: int, degree: int, order: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Energies (m, degree + 1) and variances (m,) with so many points per latent, and points evaluated."""
    nodes, weights = scipy.special.roots_hermitenorm(order)
    weights = weights / weights.sum()
    weight, points = np.array([1.0]), np.zeros((1, 0))
    for _ in range(dim):
        weight = np.outer(weight, weights).ravel()
        points = np.c_[np.repeat(points, order, axis=0), np.tile(nodes, len(points))]
        relevant = weight > _NEGLIGIBLE
        weight, points = weight[relevant], points[relevant]
    indices = _multi_indices(dim, degree)
    coefficients = squares = np.zeros(())
    for part in _parts(len(points), len(indices)):
        h = _finite_values(function, points[part])
        weighted = weight[part, None] * h
        coefficients = coefficients + _features(points[part], indices).T @ weighted
        squares = squares + (weighted * h).sum(0)
    return _by_degree(coefficients**2, indices), squares - coefficients[0] ** 2, len(points)


# ---- regression


def _regressed(h: np.ndarray, z: np.ndarray, degree: int | None, confidence: float) -> Spectrum:
    notices = _check_latents(z)
    _positive(float(h.var(0).sum()) if np.ptp(h, axis=0).any() else 0.0)
    energies, left_out = _regression_energy(h, z, _allowed_degree(len(z), z.shape[1], degree))
    pooled, copies = energies[:, 1:].sum(0), left_out[..., 1:].sum(1)
    shares, copies = pooled / pooled.sum(), copies / copies.sum(1, keepdims=True)
    intervals = [from_blocks(s, one, confidence) for s, one in zip(shares, copies.T, strict=True)]
    return _spectrum(
        "regression", len(h), confidence, energies[:, :-1], energies[:, 1:].sum(1), intervals, notices
    )


def _allowed_degree(n: int, dim: int, degree: int | None) -> int:
    """The degree if n samples can carry its features; None becomes the highest up to 6 that they can."""

    def largest(features: int) -> int:
        room = min(features, n // SAMPLES_PER_FEATURE)
        top = DEFAULT_DEGREE if degree is None else degree
        return max((d for d in range(top + 1) if math.comb(dim + d, d) <= room), default=0)

    fitting = largest(AUTO_FEATURES) if degree is None else largest(MAX_FEATURES)
    fitting = max(fitting, min(1, largest(MAX_FEATURES)))  # many latents: at least the linear share
    chosen = max(fitting, 1) if degree is None else degree
    if fitting == chosen and n >= 4 * _BLOCKS:
        return chosen
    count = math.comb(dim + chosen, chosen)
    advice = [f"degree={fitting}"] if 0 < fitting < chosen else []
    if count <= MAX_FEATURES:
        advice.append(f"at least {max(SAMPLES_PER_FEATURE * count, 4 * _BLOCKS)} samples")
    raise ValueError(
        f"degree must leave {SAMPLES_PER_FEATURE} samples per feature and at most {MAX_FEATURES} features, "
        f"got {count} features of degree {chosen} in {dim} dimensions for {n} samples"
        + (f": pass {' or '.join(advice)}" if advice else "")
    )


def _check_latents(z: np.ndarray) -> list[str]:
    """Check that latents (n, dim) are N(0, I), by the means of Hermite polynomials up to degree 4.

    Each normalized polynomial has mean 0 and variance 1 under N(0, I). Returns notices for departures that
    are certain but small.

    Raises:
        ValueError: a mean is off by more than 0.1 beyond chance; the message says what to do.
    """
    n = len(z)
    means = np.stack([p.mean(0) for p in hermite_polynomials(z, 4)[1:]], -1)  # (dim, 4)
    cross = z.T @ z / n
    cross[np.diag_indices(len(cross))] = 0.0
    moments = max(np.abs(means[:, :2]).max(), np.abs(cross).max())
    shape = np.abs(means[:, 2:]).max()
    chance = CHANCE / math.sqrt(n)
    if moments > max(MAX_DEPARTURE, chance):
        raise ValueError(
            f"latents must have mean 0 and covariance I, got one off by {moments:.2g}: whiten them first, "
            "degrees do not change by that"
        )
    if shape > max(MAX_DEPARTURE, chance):
        raise ValueError(
            "latents must be Gaussian for Hermite degrees to mean anything, got a skewness or kurtosis whose "
            f"Hermite mean is {shape:.2g} in place of 0"
        )
    off = max(moments, shape)
    if off <= chance:
        return []
    return [f"The latents differ from N(0, I) a little: a Hermite mean is {off:.2g} in place of 0."]


def _regression_energy(h: np.ndarray, z: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Energies (m, degree + 2), the last above the degree, and those without each block (blocks, m, ...)."""
    indices = _multi_indices(z.shape[1], degree)
    linear = _regress(h, z, indices, 1)
    full = _regress(h, z, indices, degree) if degree > 1 else linear

    def linear_error(left_out: np.ndarray) -> float:
        pooled = left_out[..., 1:].sum(1)
        return float((pooled[:, 0] / pooled.sum(1)).std())

    return full if linear_error(full[1]) < _BETTER * linear_error(linear[1]) else linear


def _regress(h: np.ndarray, z: np.ndarray, indices: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Energies, and without each block, with a guess of some degree from the other half."""
    n = len(z)
    halves = (slice(0, n // 2), slice(n // 2, n))
    guesses = [_guess(h[other], z[other], indices, degree) for other in halves[::-1]]
    sums = [_score(h[half], z[half], b, indices) for half, b in zip(halves, guesses, strict=True)]
    totals = [[part.sum(0) for part in one] for one in sums]
    means = [_energies(total, b, indices) for total, b in zip(totals, guesses, strict=True)]
    left_out = [
        (_energies([a - p[block] for a, p in zip(total, one, strict=True)], b, indices) + other) / 2
        for one, total, b, other in zip(sums, totals, guesses, means[::-1], strict=True)
        for block in range(_BLOCKS)
    ]
    return (means[0] + means[1]) / 2, np.stack(left_out)


def _guess(h: np.ndarray, z: np.ndarray, indices: np.ndarray, degree: int) -> np.ndarray:
    """Least-squares coefficients (count, m) of the features up to a degree; the others are zero."""
    used = indices[indices.sum(1) <= degree]
    count = len(used)
    gram, moment = np.zeros((count, count)), np.zeros((count, h.shape[1]))
    for part in _parts(len(z), count):
        values = _features(z[part], used)
        gram += values.T @ values
        moment += values.T @ h[part]
    gram[np.diag_indices(count)] += 1e-9 * np.trace(gram) / count  # keeps the coefficients finite
    guess = np.zeros((len(indices), h.shape[1]))
    guess[:count] = scipy.linalg.solve(gram, moment, assume_a="pos")
    return guess


def _score(h: np.ndarray, z: np.ndarray, guess: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """Per block: samples, sum of q, sum of q^2 and sum of squared residuals, with q = (h - guess.H) H."""
    shape = (_BLOCKS, len(indices), h.shape[1])
    sizes, squares = np.zeros(_BLOCKS), np.zeros((_BLOCKS, h.shape[1]))
    first, second = np.zeros(shape), np.zeros(shape)
    for block, rows in enumerate(np.array_split(np.arange(len(z)), _BLOCKS)):
        sizes[block] = len(rows)
        for part in _parts(len(rows), len(indices)):
            values = _features(z[rows[part]], indices)
            residual = h[rows[part]] - values @ guess
            first[block] += values.T @ residual
            second[block] += (values**2).T @ residual**2
            squares[block] += (residual**2).sum(0)
    return [sizes, first, second, squares]


def _energies(totals: list[np.ndarray], guess: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """(m, degree + 2) unbiased energies per degree and above."""
    n, first, second, squares = totals
    pairs = (first**2 - second) / (n * (n - 1))  # mean of q_i q_j over i != j
    degrees = _by_degree(guess**2 + 2 * guess * first / n + pairs, indices)
    energies: np.ndarray = np.c_[degrees, squares / n - pairs.sum(0)]
    return energies
