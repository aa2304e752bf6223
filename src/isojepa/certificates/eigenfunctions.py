"""What an embedding should recover when the latents are not Gaussian, or not equally fast.

An embedding of m dimensions that is white and best aligned takes the m slowest functions of the latents. For
independent latents z_i with eigenfunctions phi_k of their laws (`isojepa.distributions.sturm_liouville`)
and rates K_i, these are products over latents,

    Phi_a(z) = prod_i phi_{a_i}(z_i),      Lambda_a = sum_i K_i lambda_{a_i},

in the order of Lambda (Sprekeler, Zito & Wiskott 2014; Klindt, LeCun & Balestriero 2026, Appendix E). Only
functions of z_i alone correlate with z_i, so a linear map reads it off with

    R^2_i = sum over the taken a with a_j = 0 for all j but i of corr(z_i, phi_{a_i}(z_i))^2,

and with equal latents and m of them R^2 = corr(z, phi_1(z))^2: 1 for the normal law alone. When one latent is
fast enough, a second harmonic of a slow one, or a product of two slow ones, is slower than its first:
from the ratio lambda_2 / lambda_1 or 2 on. Both are 2 for the normal law.

In the world of `isojepa.data.Copula` the functions are Hermite's polynomials of the hidden normal y_i, with
lambda_k = k for every law, and with equal latents R^2 = corr(z, y)^2.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isojepa.data.processes import Copula, Langevin, OrnsteinUhlenbeck
from isojepa.distributions.densities import Density, Normal
from isojepa.distributions.normal_scores import NormalScores
from isojepa.distributions.sturm_liouville import Eigensystem, eigensystem
from isojepa.validation import validate_types

_MOST_HARMONICS = 64
_TIE = 1e-6  # relative difference below which two eigenvalues count as equal


@dataclass(frozen=True)
class Mode:
    """One function of the latents: the product of phi_{index_i}(z_i).

    Attributes:
        index: one order per latent; all 0 but one for a function of one latent alone.
        eigenvalue: Lambda; the correlation across a pair is exp(-eigenvalue).
    """

    index: tuple[int, ...]
    eigenvalue: float

    @property
    def correlation(self) -> float:
        """Of the function with itself across a pair, when the rates are times."""
        return math.exp(-self.eigenvalue)

    def __str__(self) -> str:
        factors = [f"phi_{k}(z{i + 1})" for i, k in enumerate(self.index) if k]
        return " ".join(factors) or "1"


@dataclass(frozen=True)
class Prediction:
    """What the best white embedding of a product world takes.

    Attributes:
        taken: its modes, slowest first.
        left_out: the slowest mode it does not take.
        r2_per_latent: how well a linear map reads each latent off it.
        gap: (Lambda of left_out - Lambda of the last taken) / Lambda of the last taken.
        unique: whether the gap is above 0; otherwise any rotation of the tied modes is as good, and
            r2_per_latent is that of one choice.
        discrete: whether no latent has a continuous spectrum.
    """

    taken: tuple[Mode, ...]
    left_out: Mode
    r2_per_latent: tuple[float, ...]
    gap: float
    unique: bool
    discrete: bool

    @property
    def r2(self) -> float:
        """Mean over latents."""
        return float(np.mean(self.r2_per_latent))


@validate_types
def predict_r2(law: Density) -> float:
    """The best R^2 of a latent of this law: corr(z, phi_1(z))^2, 1 for the normal law alone.

    Warns:
        SpectrumWarning: the law has a continuous spectrum, and the number belongs to a cut of it.

    Example:
        >>> from isojepa.distributions import Uniform
        >>> round(predict_r2(Uniform()), 4)  # 96 / pi^4
        0.9855
    """
    return float(eigensystem(law, count=1).coefficients()[1] ** 2)


@validate_types
def predict_embedding(laws: Sequence[Density], rates: Sequence[float], dim: int | None = None) -> Prediction:
    """What the best white embedding of independent latents takes, and how well it shows each of them.

    Args:
        laws: one per latent.
        rates: one per latent, positive.
        dim: of the embedding; by default the number of latents.

    Example:
        >>> from isojepa.distributions import Normal
        >>> [round(r2, 6) for r2 in predict_embedding([Normal(), Normal()], [1.0, 2.5]).r2_per_latent]
        [1.0, 0.0]
    """
    count = len(laws) if dim is None else dim
    return _predict(_spectra(laws, rates, count + 1), rates, count)


@validate_types
def predict_process(process: Langevin | Copula | OrnsteinUhlenbeck, dim: int | None = None) -> Prediction:
    """The same for a latent process, whose correlations give the rates.

    Raises:
        ValueError: the process is no reversible diffusion of independent latents.

    Example:
        >>> from isojepa.distributions import Uniform
        >>> round(predict_process(Copula(2, Uniform())).r2, 4)  # 3 / pi
        0.9549
    """
    if isinstance(process, Langevin):
        return predict_embedding([process.law] * process.dim, process.times, dim)
    if isinstance(process, Copula) and process.scores is not None:
        rates = (-np.log(np.broadcast_to(process.hidden, process.dim))).tolist()
        count = process.dim if dim is None else dim
        _check(rates, process.dim, count + 1)
        spectrum = _Hermite(process.scores, count + 1)
        return _predict([spectrum] * process.dim, rates, count)
    if isinstance(process, Copula | OrnsteinUhlenbeck):
        correlations = np.broadcast_to(process.correlation, process.dim)
        return predict_embedding([Normal()] * process.dim, (-np.log(correlations)).tolist(), dim)
    raise ValueError(
        f"process must be a Langevin, a Copula or an OrnsteinUhlenbeck, got {type(process).__name__}"
    )


@validate_types
def breaking_ratio(law: Density, slow: int = 1) -> float:
    """How many times faster than the others a latent may be before the embedding loses its first harmonic.

    Args:
        law: of all latents.
        slow: number of slow latents; from two on their product counts too.

    Example:
        >>> from isojepa.distributions import Normal
        >>> round(breaking_ratio(Normal()), 6)
        2.0
    """
    if int(slow) != slow or slow < 1:
        raise ValueError(f"slow must be a positive integer, got {slow}")
    _, first, second = eigensystem(law, count=2).eigenvalues
    return float(second / first) if slow == 1 else float(min(second / first, 2.0))


class _Spectrum(Protocol):
    """What is needed of one latent's eigenfunctions."""

    @property
    def eigenvalues(self) -> np.ndarray: ...

    @property
    def count(self) -> int: ...

    @property
    def discrete(self) -> bool: ...

    def coefficients(self) -> np.ndarray: ...


class _Hermite:
    """The eigenfunctions of a copula world: Hermite's polynomials of what is hidden."""

    discrete = True

    def __init__(self, scores: NormalScores, count: int) -> None:
        self.count, self.eigenvalues = count, np.arange(count + 1.0)
        self._coefficients = scores.coefficients(count)

    def coefficients(self) -> np.ndarray:
        """(count + 1,) the correlations of z with each; the first is 0."""
        return self._coefficients


def _predict(spectra: Sequence[_Spectrum], rates: Sequence[float], count: int) -> Prediction:
    """The `count` slowest modes, and what they show of each latent."""
    *taken, left_out = _ordered(spectra, rates, count + 1)
    scores = np.zeros(len(spectra))
    for mode in taken:
        alone = np.flatnonzero(mode.index)
        if len(alone) == 1:
            latent = int(alone[0])
            scores[latent] += spectra[latent].coefficients()[mode.index[latent]] ** 2
    gap = left_out.eigenvalue / taken[-1].eigenvalue - 1
    return Prediction(
        taken=tuple(taken),
        left_out=left_out,
        r2_per_latent=tuple(scores.tolist()),
        gap=gap,
        unique=gap > _TIE,
        discrete=all(spectrum.discrete for spectrum in spectra),
    )


def _check(rates: Sequence[float], latents: int, count: int) -> None:
    if latents == 0 or latents != len(rates):
        raise ValueError(f"rates must be as many as laws, at least one, got {len(rates)} for {latents}")
    for rate in rates:
        if not 0 < rate < math.inf:
            raise ValueError(f"rates must be positive and finite, got {rate}")
    if int(count) != count or not 1 <= count <= _MOST_HARMONICS:
        raise ValueError(f"the number of modes must be an integer in 1..{_MOST_HARMONICS}, got {count}")


def _spectra(laws: Sequence[Density], rates: Sequence[float], count: int) -> list[Eigensystem]:
    """The spectrum of each latent's law, as far as `count` modes may need it; equal laws solved once."""
    _check(rates, len(laws), count)
    solved: list[tuple[Density, Eigensystem]] = []
    for law in laws:
        equal = [spectrum for other, spectrum in solved if other is law or other == law]
        solved.append((law, equal[0] if equal else eigensystem(law, count)))
    return [spectrum for _, spectrum in solved]


def _ordered(spectra: Sequence[_Spectrum], rates: Sequence[float], count: int) -> tuple[Mode, ...]:
    """Best first over multi-indices: a mode's neighbors one step up are never slower than it."""

    def entry(index: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        parts = (rate * s.eigenvalues[k] for rate, s, k in zip(rates, spectra, index, strict=True))
        return float(sum(parts)), tuple(-k for k in index)  # ties go to earlier latents

    start = (0,) * len(spectra)
    queue, visited = [entry(start)], {start}
    modes: list[Mode] = []
    while len(modes) <= count:
        value, negative = heapq.heappop(queue)
        index = tuple(-k for k in negative)
        modes.append(Mode(index, value))
        for i in range(len(index)):
            after = (*index[:i], index[i] + 1, *index[i + 1 :])
            if after[i] <= spectra[i].count and after not in visited:
                visited.add(after)
                heapq.heappush(queue, entry(after))
    return tuple(modes[1:])
