r"""Isotropy: how fast does each direction forget, and is the fastest less than twice as fast as the slowest?

In whitened coordinates the symmetrised lagged covariance has eigenvalues rho_i and rates K_i = -log rho_i.
The slowest functions of the world are its latents, and not second harmonics of some of them, only if

    max K < 2 min K                       (Klindt, LeCun & Balestriero 2026, Appendix F).

The eigenvalues of a sample spread also where all rates are equal, more so the more dimensions there are:
their extremes are too far apart. So the slowest and the fastest direction are found on one half of the
samples, and their correlations measured on the other,

    rho = 2 mean(a b) / mean(a^2 + b^2)    for the projections a and b of the two views, centered,

with the interval of log(K_fast / K_slow) by the delta method. For latents, the slowest and the fastest
coordinate are compared likewise, and the pair with the larger lower end is reported.

The verdict follows the interval: the assumption fails where all of it lies above 2, holds where it lies
below 2 and reaches down to 1.1, and is unclear in between: rates that differ less than twofold keep the
latents first, but no single rho describes them.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from isojepa.certificates.assumptions.line import FAILS, HOLDS, UNCLEAR, Assumption, bounded, unmeasured
from isojepa.certificates.assumptions.sample import LEAST, Sample
from isojepa.statistics.intervals import Interval, reach_of
from isojepa.statistics.slowness import slow_to_fast

MEASURE = "rate of the fastest direction over that of the slowest"
THRESHOLD = 2.0
_EQUAL = 1.1  # ratio up to which rates count as equal
_PAIRED = 0.2  # correlation below which pairs are no pairs
_KEPT = 60  # directions measured, half of them slowest and half fastest


@dataclass(frozen=True)
class Rates:
    """Directions ordered from slow to fast on one half of the samples, and measured on the other.

    Attributes:
        basis: (dim, all) directions that whiten the standardised samples, from slow to fast.
        directions: (dim, k) those that were measured, the slowest and the fastest.
        correlations: (k,) of the projections of both views on them.
        influences: (n, k) of the correlations: their mean is 0 and their deviation over sqrt(n) the error.
        whole: whether all directions were whitened; with few samples only the leading ones are.
    """

    basis: np.ndarray
    directions: np.ndarray
    correlations: np.ndarray
    influences: np.ndarray
    whole: bool

    @property
    def rates(self) -> np.ndarray:
        """K = -log rho of each direction; infinite where it is not positive."""
        return rate(self.correlations)


def rate(correlation: np.ndarray) -> np.ndarray:
    """K = -log rho; infinite where rho is not positive."""
    positive = np.asarray(correlation) > 0
    return np.where(positive, -np.log(np.where(positive, correlation, 1.0)), np.inf)


def measure_rates(sample: Sample, kept: int = _KEPT) -> Rates:
    """Find directions on one half of the samples and measure their rates on the other."""
    z, z_next = sample.views
    half = len(z) // 2
    basis, whole = slow_to_fast(z[half:], z_next[half:])
    count = basis.shape[1]
    directions = basis
    if count > kept:
        directions = basis[:, np.r_[: kept - kept // 2, count - kept // 2 : count]]
    return Rates(basis, directions, *correlate(z[:half] @ directions, z_next[:half] @ directions), whole)


def correlate(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlation of each column of two views (n, k) with a common variance, and its influences (n, k)."""
    a, b = a - a.mean(0), b - b.mean(0)
    variance = ((a**2).mean(0) + (b**2).mean(0)) / 2
    a, b = a / np.sqrt(variance), b / np.sqrt(variance)
    correlation = (a * b).mean(0)
    return correlation, a * b - correlation * (a**2 + b**2) / 2


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As `correlate`, without influences and copies."""
    first, second = a.mean(0), b.mean(0)
    squares = sum(np.einsum("ij,ij->j", x, x) / len(x) - mean**2 for x, mean in ((a, first), (b, second)))
    correlations: np.ndarray = 2 * (np.einsum("ij,ij->j", a, b) / len(a) - first * second) / squares
    return correlations


def check_isotropy(sample: Sample, rates: Rates, confidence: float) -> Assumption:
    """The line of isotropy, for a sample with both views."""
    best, error = rates.correlations[0], _error(rates.influences[:, 0])
    reach = reach_of(confidence) * error
    detail = _detail(sample, rates)
    if 1 - best <= 1e-9:
        line = unmeasured("isotropy", sample.of, MEASURE, THRESHOLD, _EQUAL_VIEWS, _APART)
        return replace(line, detail=detail, verdict=FAILS)
    if best + reach < 0:
        sentence = f"Every direction turns its sign between the views (the least by correlation {best:.2g})."
        line = unmeasured("isotropy", sample.of, MEASURE, THRESHOLD, sentence, _TURNING)
        return replace(line, detail=detail, verdict=FAILS)
    if best - reach <= 0 or best + reach < _PAIRED:
        sentence = (
            f"No direction of the two views correlates to speak of (the best by {best:.2g}): their rows look "
            "shuffled, or lie too far apart in time."
        )
        line = unmeasured("isotropy", sample.of, MEASURE, THRESHOLD, sentence, _SHUFFLED)
        return replace(line, detail=detail, verdict=FAILS if best + reach < _PAIRED else UNCLEAR)
    candidates = [("direction", rates.correlations[[0, -1]], rates.influences[:, [0, -1]])]
    if sample.of == "latents" and sample.dim > 1:
        candidates.append(_coordinates(sample))
    level = 1 - (1 - confidence) / len(candidates)
    ratios = [compare_rates(rho, influence, level) for _, rho, influence in candidates]
    chosen = max(range(len(ratios)), key=lambda index: ratios[index][0].low)
    (ratio, p), (what, rho, _) = ratios[chosen], candidates[chosen]
    p = min(1.0, len(candidates) * p)
    slow, fast = (float(value) for value in rate(rho))
    sentence = (
        f"The {what}s that are fastest and slowest on one half of the samples have rates {fast:.3g} and "
        f"{slow:.3g} on the other, a ratio of {ratio.estimate:.3g} (correlations {rho[1]:.3g} and "
        f"{rho[0]:.3g})"
    )
    verdict, advice = _verdict(ratio, rates.whole)
    if sample.dim == 1:
        sentence = f"The only direction has rate {slow:.3g}, correlation {rho[0]:.3g}"
    if not rates.whole:
        sentence += f"; only {rates.directions.shape[1]} leading directions could be looked at"
    return Assumption(
        "isotropy",
        sample.of,
        MEASURE,
        ratio.estimate,
        ratio,
        THRESHOLD,
        p,
        verdict,
        sentence + ".",
        advice,
        detail,
    )


def compare_rates(rho: np.ndarray, influence: np.ndarray, confidence: float) -> tuple[Interval, float]:
    """Ratio of the second rate to the first, and the p-value of equal rates.

    Args:
        rho: (2,) correlations, the first positive.
        influence: (n, 2).
        confidence: of the interval.
    """
    z = reach_of(confidence)
    slow, fast = (float(value) for value in rate(rho))
    errors = [_error(influence[:, k]) for k in range(2)]
    ratio = fast / slow
    if rho[1] - z * errors[1] <= 0:  # the fast one is not told from 0: its rate may be infinite
        highest = float(rate(np.array(min(rho[0] - z * errors[0], 1.0))))
        lowest = float(rate(np.array(rho[1] + z * errors[1])))
        difference = _error(influence[:, 0] - influence[:, 1])
        p = float(scipy.special.ndtr((rho[1] - rho[0]) / max(difference, 1e-300)))
        return Interval(ratio, min(lowest / highest, ratio), math.inf), p
    slopes = [1 / (r * math.log(r)) for r in rho]
    error = _error(slopes[1] * influence[:, 1] - slopes[0] * influence[:, 0])
    p = 1.0 if error <= 0 else float(scipy.special.ndtr(-math.log(ratio) / error))
    return Interval(ratio, ratio * math.exp(-z * error), ratio * math.exp(z * error)), p


_EQUAL_VIEWS = "The two views are the same along a direction: nothing moves, and rates cannot be compared."
_APART = "Take pairs farther apart, and check that the views are not the same array."
_TURNING = "Take pairs two steps apart: the theorems ask for a correlation between 0 and 1."
_SHUFFLED = "Check that row i of both views is one pair, and take pairs closer in time."
_ANISOTROPIC = (
    "Drop the fast latents, or train with an objective that allows for different rates, such as an "
    "anisotropic InfoNCE; else second harmonics of the slow latents take the place of the fast ones."
)
_ONE_RHO = "The latents still come first, but bounds that assume one rho do not apply as they stand."


def _verdict(ratio: Interval, whole: bool) -> tuple[str, str]:
    if ratio.low > THRESHOLD:
        return FAILS, _ANISOTROPIC
    if ratio.high < THRESHOLD and ratio.low > _EQUAL:
        return UNCLEAR, _ONE_RHO
    if ratio.high < THRESHOLD and whole:
        return HOLDS, ""
    return UNCLEAR, "Take more pairs."


def _coordinates(sample: Sample) -> tuple[str, np.ndarray, np.ndarray]:
    """The slowest and the fastest coordinate of one half of the samples, measured on the other."""
    z, z_next = sample.views
    half = len(z) // 2
    found = _correlations(z[half:], z_next[half:])
    extremes = [int(found.argmax()), int(found.argmin())]
    return ("latent", *correlate(z[:half][:, extremes], z_next[:half][:, extremes]))


def _detail(sample: Sample, rates: Rates) -> tuple[tuple[str, float], ...]:
    entries = [(f"rate of direction {k}", value) for k, value in enumerate(rates.rates)]
    if sample.of == "latents" and sample.dim <= 2 * LEAST:
        z, z_next = sample.views
        found = rate(_correlations(z, z_next))
        entries = [(f"rate of {sample.label(k)}", found[k]) for k in range(sample.dim)] + entries
    return bounded(entries)


def _error(influence: np.ndarray) -> float:
    return float(influence.std(ddof=1)) / math.sqrt(len(influence))
