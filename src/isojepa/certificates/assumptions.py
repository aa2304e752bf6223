r"""What the theorems assume of a world, checked on latents or embeddings: `check_assumptions`.

    stationarity        both views have one distribution
    Gaussianity         every direction is normal, whatever its mean and covariance
    independence        dimensions are independent (`rank_dependence`)
    additive noise      the noise of a step does not depend on where it starts (`rank_dependence`)
    joint Gaussianity   both views of a pair are jointly Gaussian (`joint_gaussianity`)
    isotropy            no direction decorrelates more than twice as fast as another
    dimension           no dimension is a function of the others (`dimension`)

**Stationarity.** With x from the first view and y from the second, in dimensions scaled by their common
deviations, the energy distance (Szekely & Rizzo 2004) over twice the distance between the views is

    H = (2 E|x - y| - E|x - x~| - E|y - y~|) / (2 E|x - y|),

which is 0 only for equal distributions. Two normal ones of d independent dimensions, apart by a small shift s
of the mean, have H = s^2 / (4 d) + O(s^4), so the effect is the equivalent shift sqrt(4 d H). The energy
distance is the squared length of the mean of D_i = phi(x_i) - phi(y_i) for a feature map phi. Swapping the
views of pair i turns the sign of D_i. Signs are drawn at random: exact where pairs are exchangeable, as in
every reversible stationary process, and right for many pairs whenever the distributions are equal.

**Gaussianity.** The departure of a direction is 1 - W', with W' = corr(x, q)^2 for its sorted values x and
the normal scores q: the statistic of Shapiro & Francia (1972). It is the share of the variance that a linear
probe misses if an encoder made the direction Gaussian, 4.5 % for a uniform distribution. For normal samples
log(1 - W') is nearly normal, with mean and deviation by Royston (1993, Statistics and Computing 3, 117); that
is accurate to 10 % at levels of 0.05 to 0.001 for 20 to 5,000 samples, and no more are used. Directions are
the dimensions as they are, and those that a search on one half of the samples finds least Gaussian, judged on
the other. The p-value is the smallest times the number of directions.

**Isotropy.** In whitened coordinates the symmetrized lagged covariance has eigenvalues rho_i and rates
K_i = -log rho_i. The slowest functions of the world are its latents, and not second harmonics of some, if

    max K < 2 min K                       (Klindt, LeCun & Balestriero 2026, Appendix F).

The extremes of a sample's eigenvalues are too far apart even where all rates are equal. So the slowest and
the fastest direction are found on one half of the samples, and their correlations measured on the other,
rho = 2 mean(a b) / mean(a^2 + b^2) for the centered projections a and b of the two views, with the interval
of log(K_fast / K_slow) by the delta method. For latents the slowest and the fastest coordinate are compared
likewise, and the pair with the larger lower end is reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
import torch

from isojepa import ranks
from isojepa.arrays import real_array
from isojepa.certificates.checks import FAILS, UNCLEAR, Check, CheckResult, CheckSample, Effect, check
from isojepa.certificates.gaussianity import worst_slices
from isojepa.objectives.gaussianity.univariate import normal_scores
from isojepa.seeds import generator
from isojepa.statistics.families import permutation_p
from isojepa.statistics.intervals import Interval, jackknife, reach_of
from isojepa.statistics.memory import measure_memory
from isojepa.statistics.slowness import slow_to_fast
from isojepa.validation import choose, unknown, validate_types

MIN_ROWS = 20  # independent samples, below which no statistic here is near its limit
MAX_SHIFT = 0.1  # its square is 1 % of the variance
MAX_DEPARTURE = 0.01  # a certificate calls R^2 >= 0.99 recovered; a departure of 1 % uses all of that up
MAX_RATE_RATIO = 2.0  # the theory's own
EQUAL_RATE_RATIO = 1.1  # rates surely further apart than this have no single rho
MIN_CORRELATION = 0.2  # rows of views that surely correlate less look shuffled

_MAX_ROWS, _MAX_NUMBERS = 20_000, 1 << 22  # rows used, or numbers where those are more rows
_MAX_NORMAL_ROWS = 5000  # range of Royston's fit
_DIRECTIONS = 4  # least Gaussian ones searched for
_SEARCH_ROWS, _SEARCH_WORK = (2000, 8192), 1 << 27  # rows of the search, by its cost
_ROWS_PER_DIMENSION = 4  # to whiten
_MAX_DIRECTIONS = 60  # whose rates are measured, half of them slowest and half fastest
_KINDS = ("latents", "embeddings")


@dataclass(frozen=True, kw_only=True)
class Sample(CheckSample):
    """Samples that are nearly independent, in random order: any two parts of them are two random samples.

    Columns are centered and scaled by the mean and deviation of both views together; those that are constant
    in a view are left out.

    Attributes:
        z: (n, dim).
        z_next: (n, dim), or None.
        columns: (dim,) places of the dimensions in the arrays.
        constant: dimensions that were left out.
        halted: those of them that differ between the views.
        scale: (dim,) standard deviations.
        memory: rows of which one was taken; 1 if all are independent.
        rows: for the tests, at most.
        draws: permutations behind each p-value.
    """

    z: np.ndarray
    z_next: np.ndarray | None
    columns: np.ndarray
    constant: tuple[int, ...]
    halted: tuple[int, ...]
    scale: np.ndarray
    memory: int
    rows: int = 2000
    draws: int = 199

    @property
    def dim(self) -> int:
        """Dimensions that vary."""
        return int(self.z.shape[1])

    def __len__(self) -> int:
        return len(self.z)

    @property
    def views(self) -> tuple[np.ndarray, np.ndarray]:
        """Both views; a ValueError where there is only one."""
        if self.z_next is None:
            raise ValueError("both views of each pair are needed, got one")
        return self.z, self.z_next

    @property
    def limiting(self) -> tuple[int, str]:
        """The rows of the arrays, or `samples` if fewer are tested than there are."""
        return (self.rows, "samples") if len(self) > self.rows else (self.total, "rows")

    def halves(self, rows: int) -> tuple[slice, slice]:
        """A part to search on and a part of at most `rows` samples to judge on."""
        judged = min(len(self) // 2, rows)
        return slice(judged, len(self)), slice(0, judged)

    def count(self, rows: int, noun: str) -> str:
        """A number of rows in words."""
        return f"{rows} {noun}" if self.memory == 1 else f"{rows} independent {noun} of {self.total}"

    def label(self, column: int) -> str:
        """A dimension in words, by its place in the arrays."""
        return f"dimension {int(self.columns[column])}"

    def stream(self, *name: str | int) -> torch.Generator:
        """The generator of one named purpose."""
        return generator(self.seed, "assumptions", *name)

    @cached_property
    def searched(self) -> tuple[np.ndarray, np.ndarray]:
        """The least Gaussian directions (dim, k) of one half, and projections (n, k) of the other on them."""
        return _search_directions(self)

    @cached_property
    def slowness(self) -> tuple[np.ndarray, bool]:
        """Directions (dim, k) of one half, from slow to fast; whether all were whitened."""
        half = len(self) // 2
        return slow_to_fast(*(view[half:] for view in self.views))


@validate_types
def check_assumptions(
    z: Any,
    z_next: Any = None,
    *,
    of: str = "latents",
    only: Sequence[str] | None = None,
    samples: int = 2000,
    draws: int = 199,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[CheckResult, ...]:
    """Check latents, or embeddings where there are none, against what the theorems assume.

    A rotation of Gaussian latents with one rate has all of these properties too, so the embeddings of a
    recovered world pass. To pass is no proof of it: embeddings can be made Gaussian and independent by force.

    Neighbors on one trajectory depend on each other. How far apart rows must be is measured from the rows
    in their order, paths one after the other, and rows in between are left out: `effective` of a result is
    the number that is left. Shuffled rows do not show their memory, and count as independent.

    Args:
        z: (n, dim) latents or embeddings of the first view, array or tensor, in the order of time if there
            is one.
        z_next: (n, dim) of the second view; without it, the checks that need pairs are unclear.
        of: "latents" or "embeddings".
        only: names of the checks; by default all.
        samples: rows for the tests, chosen at random of those that are independent. Rates and covariances
            use more.
        draws: permutations behind each p-value; the smallest is 1 / (draws + 1).
        seed: draws rows, directions and permutations.
        confidence: of the intervals; tests have level 1 - confidence.

    Returns:
        Results in the order stationarity, Gaussianity, independence, additive noise, joint Gaussianity,
        isotropy, dimension.

    Raises:
        ValueError: the arrays do not match or are not finite, or an option is out of its range.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> z, z_next = OrnsteinUhlenbeck(dim=2, rho=[0.9, 0.5]).sample(4000, generator(0, "data"))
        >>> [line.name for line in check_assumptions(z, z_next) if line.verdict == "fails"]
        ['isotropy']
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if samples < MIN_ROWS:
        raise ValueError(f"samples must be at least {MIN_ROWS}, got {samples}")
    if draws < 1 or 2 / (draws + 1) > 1 - confidence + 1e-12:
        least = 2 / (1 - confidence) - 1
        raise ValueError(f"draws must be at least {least:.0f} for confidence {confidence:g}, got {draws}")
    checks = _checks()
    chosen = [choose("assumption", name, checks) for name in (checks if only is None else only)]
    sample = replace(draw_sample(z, z_next, of, seed), rows=samples, draws=draws, level=1 - confidence)
    results = (_testable(one, sample)(sample) for one in chosen)
    return tuple(replace(result, effective=len(sample), memory=sample.memory) for result in results)


def _checks() -> dict[str, Check[Sample]]:
    """All checks by name; those of other modules read samples of this one."""
    from isojepa.certificates.dimension import dimension
    from isojepa.certificates.joint_gaussianity import joint_gaussianity
    from isojepa.certificates.rank_dependence import additive_noise, independence

    all_checks = (stationarity, gaussianity, independence, additive_noise, joint_gaussianity, isotropy)
    return {one.name: one for one in (*all_checks, dimension)}


def _testable(one: Check[Sample], sample: Sample) -> Check[Sample]:
    """The check itself, or one that says why nothing can be tested."""
    effect = None
    if len(sample) < MIN_ROWS:
        text = f"At least {MIN_ROWS} samples are needed, got {len(sample)}"
        advice = "Take more samples."
        if sample.memory > 1:
            text = (
                f"At least {MIN_ROWS} independent samples are needed, got {len(sample)} of {sample.total}: "
                "neighbors in the file depend on each other"
            )
            advice = "Take more or longer paths; draws that are independent but were sorted, shuffle."
        effect = Effect(text, advice=advice)
    elif sample.dim == 0 and one.name != "dimension":
        effect = Effect("Every dimension is constant", advice="Check the data.")
    elif sample.z_next is None and one.pairs:
        effect = Effect("It needs both views of each pair, got one", advice="Give z_next as well.")
    return one if effect is None else replace(one, effect=lambda _: effect)


def draw_sample(z: Any, z_next: Any, of: str, seed: int) -> Sample:
    """Verify arrays and take rows of them that are nearly independent, in random order.

    Rows come in their own order, paths one after the other: how far apart they must be is measured from it.

    Raises:
        ValueError: the arrays do not match, are not matrices of finite real numbers, or are empty.
    """
    if of not in _KINDS:
        raise ValueError(unknown("of", of, _KINDS))
    arrays = [real_array(of, z, "samples, dim")]
    if z_next is not None:
        arrays.append(real_array(f"next {of}", z_next, "samples, dim"))
        if arrays[0].shape != arrays[1].shape:
            raise ValueError(f"both views must have one shape, got {arrays[0].shape} and {arrays[1].shape}")
    n, dim = arrays[0].shape
    most = max(_MAX_ROWS, min(_MAX_NUMBERS // dim, n))
    rows = np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)
    views, *_ = _standardize([array[rows] for array in arrays])
    source = generator(seed, "assumptions", "memory")
    memory = measure_memory(views[0], views[1] if views[1:] else None, source) if views[0].size else 1
    rows = rows[::memory]
    rows = rows[torch.randperm(len(rows), generator=generator(seed, "assumptions", "rows")).numpy()]
    views, varies, moved, scale = _standardize([array[rows] for array in arrays])
    return Sample(
        z=views[0],
        z_next=views[1] if views[1:] else None,
        of=of,
        columns=np.flatnonzero(varies),
        constant=tuple(np.flatnonzero(~varies).tolist()),
        halted=tuple(np.flatnonzero(~varies & moved).tolist()),
        scale=scale,
        total=n,
        memory=memory,
        seed=seed,
    )


def _standardize(views: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Views with a common mean of 0 and deviation of 1, without columns that are constant in one of them.

    Returns the views; which columns vary in all; which do in any or differ between views; and deviations.
    """
    means = [view.mean(0) for view in views]
    center = np.mean(means, axis=0)
    variances = [((view - mean) ** 2).mean(0) for view, mean in zip(views, means, strict=True)]
    # a spread of 1e-12 of the size is rounding
    varies = np.all(
        [np.sqrt(v) > 1e-12 * (np.abs(m) + np.sqrt(v)) for v, m in zip(variances, means, strict=True)], axis=0
    )
    scale = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
    moved = scale > 1e-12 * (np.abs(center) + scale)
    scaled = [(view[:, varies] - center[varies]) / scale[varies] for view in views]
    return scaled, varies, moved, scale[varies]


def root(value: float) -> float:
    """The square root, 0 for what is negative by chance."""
    return math.sqrt(max(float(value), 0.0))


@check(
    "stationarity",
    measure="difference between the views, as a shift of the mean in standard deviations",
    threshold=MAX_SHIFT,
    pairs=True,
    advice="Take both views from one period, or remove the drift: subtract a running mean, or divide by a "
    "running deviation.",
)
def stationarity(sample: Sample) -> Effect:
    """Do both views have one distribution?"""
    if sample.halted:
        text = f"Dimension {sample.halted[0]} is constant in a view, and not the same in the other"
        return Effect(text, verdict=FAILS)
    x, y = (torch.from_numpy(view[: sample.rows]) for view in sample.views)
    n = len(x)
    across = torch.cdist(x, y).numpy()
    between = (across.sum() - np.trace(across)) / (n * (n - 1))
    gram = across + across.T - torch.cdist(x, x).numpy() - torch.cdist(y, y).numpy()  # <D_i, D_j>
    np.fill_diagonal(gram, 0.0)  # the rest is unbiased, and the diagonal does not see signs
    scale = 2 * sample.dim / between if between else 0.0
    signs = torch.randint(0, 2, (sample.draws, n), generator=sample.stream("swaps")).numpy() * 2.0 - 1
    null = ((signs @ gram) * signs).sum(1)

    def squared(rows: np.ndarray) -> float:
        weights = rows.astype(float)
        return float(scale * (weights @ gram @ weights) / (weights.sum() * (weights.sum() - 1)))

    interval = jackknife(squared, n, sample.confidence)
    value = root(interval.estimate)
    shift = (sample.views[1] - sample.views[0]).mean(0)
    return Effect(
        f"The views differ as by a shift of {value:.3g} standard deviations",
        value,
        Interval(value, root(interval.low), root(interval.high)),
        permutation_p(float(gram.sum()), null),
        root(scale * float(np.quantile(null, sample.confidence)) / (n * (n - 1))),
        [
            ("raw squared shift", interval.estimate),
            *((f"shift of {sample.label(j)}", shift[j]) for j in np.argsort(-np.abs(shift))),
        ],
        sample.count(n, "pairs"),
    )


def departure(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Departure from normality of columns (n, k), less that of normal samples on average, and its p.

    At most 5,000 rows are used, evenly spaced. Negative values are chance.

    Example:
        >>> value, p = departure(np.linspace(-1, 1, 2000)[:, None])
        >>> print(f"{value[0]:.3f}", p[0] < 1e-9)
        0.043 True
    """
    x = np.sort(x[:: -(-len(x) // _MAX_NORMAL_ROWS)], axis=0)
    x = x - x.mean(0)
    squares = (x**2).sum(0)
    q = normal_scores(len(x))
    raw = 1 - (q @ x) ** 2 / (q @ q * np.where(squares > 0, squares, 1.0))
    mean, deviation = _royston(len(x))
    p = scipy.special.ndtr((mean - np.log(np.maximum(raw, 1e-300))) / deviation)
    return raw - math.exp(mean + deviation**2 / 2), p


def _royston(n: int) -> tuple[float, float]:
    """Mean and deviation of log(1 - W') for n normal samples (Royston 1993)."""
    u = math.log(min(n, _MAX_NORMAL_ROWS))
    return -1.2725 + 1.0521 * (math.log(u) - u), 1.0308 - 0.26758 * (math.log(u) + 2 / u)


@check(
    "Gaussianity",
    measure="share of a direction's variance that bends away when it is made Gaussian",
    threshold=MAX_DEPARTURE,
    more="Take more samples.",
    order=1.0,
    advice={
        "latents": "Expect a monotone function of each latent in place of the latent: read it with a "
        "nonlinear probe, or change the latents' coordinates so that they are Gaussian.",
        "embeddings": "Train longer or raise the weight of the regularizer; if it stays, the latents may be "
        "non-Gaussian or fewer than the embedding's dimensions.",
    },
)
def gaussianity(sample: Sample) -> Effect:
    """Is every direction normal?"""
    coordinates, projections = sample.z[: sample.rows], sample.searched[1]
    ps = np.concatenate([departure(part)[1] for part in (coordinates, projections)])
    worst = int(ps.argmin())
    searched = worst >= sample.dim
    x = projections[:, [worst - sample.dim]] if searched else coordinates[:, [worst]]
    interval = jackknife(lambda rows: float(departure(x[rows])[0][0]), len(x), sample.confidence)
    fewest = len(coordinates) if sample.of == "latents" else min(len(coordinates), len(projections))
    mean, deviation = _royston(fewest)
    reach = -float(scipy.special.ndtri(sample.level / len(ps)))
    where = "a direction found by a search" if searched else sample.label(worst)
    amount = f"by {100 * interval.estimate:.2f} % of its variance"
    if interval.estimate <= 0:
        amount = "no more than normal samples do"
    detail = [(f"p of searched direction {k}", value) for k, value in enumerate(ps[sample.dim :])]
    detail += [(f"p of {sample.label(k)}", ps[k]) for k in np.argsort(ps[: sample.dim])]
    return Effect(
        f"The least Gaussian direction, {where}, departs from a normal distribution {amount}",
        interval.estimate,
        interval,
        min(1.0, len(ps) * float(ps.min())),
        math.exp(mean + reach * deviation) - math.exp(mean + deviation**2 / 2),
        detail,
        sample.count(len(coordinates), "samples"),
    )


@ranks.alone()  # these are all the samples, also in a distributed job
def _search_directions(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The least Gaussian directions of one half of the samples, and projections of the other on them."""
    dim, (least, most) = sample.dim, _SEARCH_ROWS
    half = min(len(sample) // 2, max(least, min(most, _SEARCH_WORK // (dim * min(dim, 256)))))
    x = sample.z[half : 2 * half]
    center = x.mean(0)
    whitening = np.diag(1 / np.maximum(x.std(0), 1e-300))
    if len(x) >= _ROWS_PER_DIMENSION * dim:
        whitening = whiten(x)
    both = np.concatenate([x, sample.z[:half]])
    slices = worst_slices(
        torch.from_numpy((both - center) @ whitening).float(), _DIRECTIONS, seed=sample.seed
    )
    weights = whitening @ np.stack([one.direction for one in slices], 1).astype(np.float64)
    return weights, sample.z[: min(half, sample.rows)] @ weights


def whiten(x: np.ndarray) -> np.ndarray:
    """Directions (dim, k) along which x (n, dim) has covariance I, without empty ones."""
    values, vectors = scipy.linalg.eigh(np.cov(x, rowvar=False, bias=True).reshape(x.shape[1], -1))
    keep = values > 1e-9 * values[-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def rate(correlation: np.ndarray) -> np.ndarray:
    """K = -log rho; infinite where rho is not positive."""
    positive = np.asarray(correlation) > 0
    return np.where(positive, -np.log(np.where(positive, correlation, 1.0)), np.inf)


def correlate(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlation of each column of two views (n, k) with a common variance, and its influences (n, k)."""
    a, b = a - a.mean(0), b - b.mean(0)
    variance = ((a**2).mean(0) + (b**2).mean(0)) / 2
    a, b = a / np.sqrt(variance), b / np.sqrt(variance)
    correlation = (a * b).mean(0)
    return correlation, a * b - correlation * (a**2 + b**2) / 2


def compare_rates(rho: np.ndarray, influence: np.ndarray, confidence: float) -> tuple[Interval, float]:
    """Ratio of the second rate to the first, and the p-value of equal rates.

    Args:
        rho: (2,) correlations, the first positive.
        influence: (n, 2).
        confidence: of the interval.
    """
    reach = reach_of(confidence)
    ratio = float(np.divide(*rate(rho)[::-1]))
    slow, fast = (reach * _error(column) for column in influence.T)
    if rho[1] - fast <= 0:  # the fast one may be 0, with an infinite rate
        low = float(rate(rho[1] + fast) / rate(np.minimum(rho[0] - slow, 1.0)))
        error = max(_error(influence[:, 0] - influence[:, 1]), 1e-300)
        return Interval(ratio, min(low, ratio), math.inf), float(
            scipy.special.ndtr((rho[1] - rho[0]) / error)
        )
    error = _error(influence @ (np.array([-1, 1]) / (rho * np.log(rho))))
    p = 1.0 if error <= 0 else float(scipy.special.ndtr(-math.log(ratio) / error))
    return Interval(ratio, ratio * math.exp(-reach * error), ratio * math.exp(reach * error)), p


def _error(influence: np.ndarray) -> float:
    return float(influence.std(ddof=1)) / math.sqrt(len(influence))


@check(
    "isotropy",
    measure="rate of the fastest direction over that of the slowest",
    threshold=MAX_RATE_RATIO,
    pairs=True,
    neutral=1.0,
    advice="Drop the fast latents, or train with an objective that allows for different rates, such as an "
    "anisotropic InfoNCE; else second harmonics of the slow latents take the place of the fast ones.",
)
def isotropy(sample: Sample) -> Effect:
    """Is the fastest direction less than twice as fast as the slowest?"""
    half = len(sample) // 2
    basis, whole = sample.slowness
    count = basis.shape[1]
    if count > _MAX_DIRECTIONS:
        basis = basis[:, np.r_[: _MAX_DIRECTIONS // 2, count - _MAX_DIRECTIONS // 2 : count]]
    z, z_next = sample.views
    rho, influence = correlate(z[:half] @ basis, z_next[:half] @ basis)
    detail = [(f"rate of direction {k}", value) for k, value in enumerate(rate(rho))]
    coordinates = sample.of == "latents" and sample.dim > 1
    if sample.of == "latents" and sample.dim <= 2 * MIN_ROWS:
        each = rate(correlate(z, z_next)[0])
        detail = [(f"rate of {sample.label(k)}", value) for k, value in enumerate(each)] + detail
    if (broken := _no_pairs(rho[0], reach_of(sample.confidence) * _error(influence[:, 0]))) is not None:
        return replace(broken, detail=detail)
    candidates = [("direction", rho[[0, -1]], influence[:, [0, -1]])]
    if coordinates:
        of_others = correlate(z[half:], z_next[half:])[0]
        ends = [int(of_others.argmax()), int(of_others.argmin())]
        candidates.append(("latent", *correlate(z[:half][:, ends], z_next[:half][:, ends])))
    level = 1 - sample.level / len(candidates)
    ratios = [compare_rates(*candidate[1:], level) for candidate in candidates]
    chosen = max(range(len(ratios)), key=lambda index: ratios[index][0].low)
    (ratio, p), (what, rho, _) = ratios[chosen], candidates[chosen]
    slow, fast = rate(rho)
    text = (
        f"The {what}s that are fastest and slowest on one half of the samples have rates {fast:.3g} and "
        f"{slow:.3g} on the other, a ratio of {ratio.estimate:.3g} (correlations {rho[1]:.3g}, {rho[0]:.3g})"
    )
    if sample.dim == 1:
        text = f"The only direction has rate {slow:.3g}, correlation {rho[0]:.3g}"
    if not whole:
        text += f"; only {basis.shape[1]} leading directions could be looked at"
    effect = Effect(text, ratio.estimate, ratio, min(1.0, len(candidates) * p), detail=detail)
    if ratio.low > EQUAL_RATE_RATIO and ratio.high < MAX_RATE_RATIO:
        advice = "The latents still come first, but bounds that assume one rho do not apply as they stand."
        return replace(effect, verdict=UNCLEAR, advice=advice)
    if not whole and ratio.low <= MAX_RATE_RATIO:
        return replace(effect, verdict=UNCLEAR, advice="Take more pairs.")
    return effect


def _no_pairs(best: float, reach: float) -> Effect | None:
    """What is wrong with views whose best direction correlates by `best` +- `reach`."""
    if 1 - best <= 1e-9:
        text = "The two views are the same along a direction: nothing moves, and rates cannot be compared"
        advice = "Take pairs farther apart, and check that the views are not the same array."
        return Effect(text, verdict=FAILS, advice=advice)
    if best + reach < 0:
        text = f"Every direction turns its sign between the views (the least by correlation {best:.2g})"
        advice = "Take pairs two steps apart: the theorems ask for a correlation between 0 and 1."
        return Effect(text, verdict=FAILS, advice=advice)
    if best - reach <= 0 or best + reach < MIN_CORRELATION:
        text = (
            f"No direction of the two views correlates to speak of (the best by {best:.2g}): their rows look "
            "shuffled, or lie too far apart in time"
        )
        advice = "Check that row i of both views is one pair, and take pairs closer in time."
        return Effect(text, verdict=FAILS if best + reach < MIN_CORRELATION else UNCLEAR, advice=advice)
    return None
