r"""The Hermite spectrum of an embedding: how much of its variance is linear in the latents, quadratic, ...

w_d is the energy at degree d (see `hermite`). An embedding is a linear map of the latents if and only if all
of its variance is w_1; what lies above is what the pairs' alignment pays for, 2 sum_d (1 - rho^d) w_d.

    method        for                                        error
    quadrature    an encoder of at most 3 latents            difference of two orders, no chance in it
    regression    samples (h, z), few enough features        jackknife; raw, may fall below zero
    curve         an encoder of any number of latents        bootstrap; shares lie in [0, 1]

The latents must be N(0, I): elsewhere the degrees mean nothing. How pairs correlate does not matter here.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.certificates.correlation_curve import curve_energy
from isojepa.certificates.embeddings import real_array
from isojepa.certificates.hermite import (
    ORDERS,
    hermite_table,
    quadrature_energy,
    regression_energy,
)
from isojepa.certificates.mixture import percentile_interval
from isojepa.data import Source
from isojepa.data.source import Observable, observable
from isojepa.encoders.model import embed
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import unknown, validate_types

METHODS = ("auto", "quadrature", "regression", "curve")
_HIGHEST = 30  # degree
_CONVERGED = 0.01  # difference of two orders, as a share, above which there is a notice
_OFF, _CHANCE = 0.1, 5.0  # mean of a normalized Hermite polynomial that N(0, I) does not have


@dataclass(frozen=True)
class Spectrum:
    """Energy of an embedding per Hermite degree.

    Attributes:
        method: quadrature, regression or curve.
        degree: the highest that is told apart.
        samples: latents or quadrature points behind the numbers.
        confidence: of the intervals; quadrature's are its error instead.
        energy: per dimension, w_0 .. w_degree.
        variance: per dimension.
        rest: per dimension, the variance above the degree; raw.
        shares: pooled w_d / variance for d = 1 .. degree: sums over dimensions divided by each other.
        above: pooled share above the degree.
        linear: pooled share of degree 1.
        linear_per_dimension: w_1 / variance of each dimension; NaN for one that does not vary.
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
    degree: int = 6,
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
        degree: the highest to tell apart.
        method: quadrature, regression, curve, or auto: quadrature up to 3 latents, else curve; regression for
            embeddings.
        samples: latents to draw for method curve; and for regression with an encoder.
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
    _check(degree, method, confidence)
    if world is None:
        if callable(source):
            raise ValueError(
                "an encoder needs a world: measure_spectrum(encoder, world); for a function of the latents "
                "themselves, World(OrnsteinUhlenbeck(dim=...))"
            )
        if latents is None:
            raise ValueError("embeddings need their latents; without any, see measure_lags")
        if method not in ("auto", "regression"):
            raise ValueError(f"method must be auto or regression for embeddings, got {method!r}")
        h, z = (
            real_array("embeddings", source, "samples, dim"),
            real_array("latents", latents, "samples, dim"),
        )
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
    function = composed(source, world)
    if method == "auto":
        method = "quadrature" if dim in ORDERS else "curve"
    if method == "quadrature":
        return _integrated(function, dim, degree, confidence)
    if method == "curve":
        return _from_curve(function, dim, degree, samples, seed, confidence)
    z = _normal(samples, dim, seed)
    return _regressed(function(z), z, degree, confidence)


def composed(encoder: Callable[..., Any], world: Observable) -> Callable[[np.ndarray], np.ndarray]:
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


def _of_arrays(encoder: Callable[..., Any], x: Tensor) -> Any:
    return encoder(x.numpy())


def _accepted(
    encoder: Callable[..., Any], world: Observable
) -> tuple[Callable[[Callable[..., Any], Tensor], Any], torch.dtype]:
    """How an encoder without parameters wants to be called."""
    for dtype in (torch.float64, torch.float32):
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("error", DeprecationWarning)  # numpy's word on taking a tensor
                _of_tensors(encoder, world.observe(torch.zeros(2, world.facts.dim or 1, dtype=dtype)))
            return _of_tensors, dtype
        except (TypeError, ValueError, RuntimeError, DeprecationWarning):
            continue
    return _of_arrays, torch.float64


def _check(degree: int, method: str, confidence: float) -> None:
    if int(degree) != degree or not 1 <= degree <= _HIGHEST:
        raise ValueError(f"degree must be an integer from 1 to {_HIGHEST}, got {degree}")
    if method not in METHODS:
        raise ValueError(unknown("method", method, METHODS))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")


def _normal(samples: int, dim: int, seed: int) -> np.ndarray:
    source = generator(seed, "spectrum", "latents")
    return torch.randn(samples, dim, generator=source, dtype=torch.float64).numpy()


def _integrated(
    function: Callable[[np.ndarray], np.ndarray], dim: int, degree: int, confidence: float
) -> Spectrum:
    found = quadrature_energy(function, dim, degree)
    total = _positive(found.variance.sum())
    shares = found.energy[:, 1:].sum(0) / total
    coarse = found.coarse_energy[:, 1:].sum(0) / _positive(found.coarse_variance.sum())
    intervals = [Interval(s, s - e, s + e) for s, e in zip(shares, np.abs(shares - coarse), strict=True)]
    rest, coarse_rest = 1 - shares.sum(), 1 - coarse.sum()
    error = abs(rest - coarse_rest)
    notices = []
    worst = max(float(np.abs(shares - coarse).max()), error)
    if worst > _CONVERGED:
        notices.append(
            f"The two orders of quadrature differ by {100 * worst:.1f} % of the variance: the function is "
            "too rough for them; compare with method='curve'."
        )
    return _spectrum(
        "quadrature",
        degree,
        found.points,
        confidence,
        found.energy,
        found.variance,
        intervals,
        Interval(rest, rest - error, rest + error),
        notices,
    )


def _regressed(h: np.ndarray, z: np.ndarray, degree: int, confidence: float) -> Spectrum:
    notices = check_latents(z)
    _positive(float(h.var(0).sum()) if np.ptp(h, axis=0).any() else 0.0)
    found = regression_energy(h, z, degree)
    pooled = found.energy[:, 1:].sum(0)
    left_out = found.left_out[..., 1:].sum(1)
    shares = pooled / pooled.sum()
    left_out /= left_out.sum(1, keepdims=True)
    intervals = [from_blocks(s, one, confidence) for s, one in zip(shares, left_out.T, strict=True)]
    return _spectrum(
        "regression",
        degree,
        len(h),
        confidence,
        found.energy[:, :-1],
        found.energy[:, 1:].sum(1),
        intervals[:-1],
        intervals[-1],
        notices,
    )


def _from_curve(
    function: Callable[[np.ndarray], np.ndarray],
    dim: int,
    degree: int,
    samples: int,
    seed: int,
    confidence: float,
) -> Spectrum:
    found = curve_energy(function, dim, degree, samples, seed)
    energy = np.c_[
        found.mean**2 - found.variance / samples,  # unbiased, so it may fall below zero
        found.variance[:, None] * found.shares,
    ]
    intervals = [
        percentile_interval(found.pooled[d], found.draws[:, d], confidence) for d in range(degree + 1)
    ]
    return _spectrum(
        "curve", degree, samples, confidence, energy, found.variance, intervals[:-1], intervals[-1], []
    )


def _spectrum(
    method: str,
    degree: int,
    samples: int,
    confidence: float,
    energy: np.ndarray,
    variance: np.ndarray,
    shares: list[Interval],
    above: Interval,
    notices: list[str],
) -> Spectrum:
    flat = variance <= 1e-12 * (energy[:, 0] + variance.max())
    linear = np.where(flat, np.nan, energy[:, 1] / np.where(flat, 1.0, variance))
    if flat.any():
        notices = [*notices, f"{int(flat.sum())} of {len(flat)} embedding dimensions do not vary."]
    plain = [Interval(float(i.estimate), float(i.low), float(i.high)) for i in (*shares, above)]
    return Spectrum(
        method=method,
        degree=int(degree),
        samples=int(samples),
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


def check_latents(z: np.ndarray) -> list[str]:
    """Check that latents (n, dim) are N(0, I), by the means of Hermite polynomials up to degree 4.

    Each normalized polynomial has mean 0 and variance 1 under N(0, I). Returns notices for deviations that
    are certain but small.

    Raises:
        ValueError: a mean is off by more than 0.1 beyond chance; the message says what to do.
    """
    n = len(z)
    table = hermite_table(z, 4)[..., 1:].mean(0)  # (dim, 4)
    cross = z.T @ z / n
    cross[np.diag_indices(len(cross))] = 0.0
    worst = {
        "mean": np.abs(table[:, 0]).max(),
        "variance": max(np.abs(table[:, 1]).max(), np.abs(cross).max()),
        "shape": np.abs(table[:, 2:]).max(),
    }
    chance = _CHANCE / math.sqrt(n)
    if max(worst["mean"], worst["variance"]) > max(_OFF, chance):
        raise ValueError(
            "latents must have mean 0 and covariance I, got one off by "
            f"{max(worst['mean'], worst['variance']):.2g}: whiten them first, degrees do not change by that"
        )
    if worst["shape"] > max(_OFF, chance):
        raise ValueError(
            "latents must be Gaussian for Hermite degrees to mean anything, got a skewness or kurtosis whose "
            f"Hermite mean is {worst['shape']:.2g} in place of 0"
        )
    off = max(worst.values())
    if off > chance:
        return [f"The latents differ from N(0, I) a little: a Hermite mean is {off:.2g} in place of 0."]
    return []


def _positive(total: float) -> float:
    if not total > 0:
        raise ValueError("the embedding must vary, got a constant")
    return float(total)
