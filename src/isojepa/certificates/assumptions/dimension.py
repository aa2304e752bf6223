r"""Dimension: are there as many dimensions as latents?

Too many (m > n). A dimension may be constant, a direction may have next to no variance (a thousandth of the
mean, as for duplicates), or a direction may be a nonlinear function of the others, such as the second
harmonic (z^2 - 1) / sqrt(2), which forgets twice as fast as z. The last is measured by

    1 - residual of a regression that bends / residual of a linear one,        held out,

of the direction t on the others, for dimensions as they are and, in whitened coordinates y, for the
directions that forget fastest, are least Gaussian, or have most third moments. A function of two of a hundred
others would drown, so the inputs are chosen first: the dimensions that t depends on most by ranks, or the
leading eigenvectors of the mean of t y y^T, along which t curves (Li 1992, "principal Hessian directions").
All is chosen and fitted on one half of the samples and scored on the other. Dimensions that are merely
correlated are no surplus. The p-value is that of a share of at most 2 %, times the number of directions.

Effective ranks of the covariance, with eigenvalues l_i and shares p_i = l_i / sum l:

    exp(-sum p log p)                        of the entropy
    (sum l)^2 / sum l^2                      participation ratio, with sum l^2 free of bias for normal samples

Too few (m < n). Embeddings alone do not show it: what is left of the latents looks like fewer latents.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from isojepa.certificates.assumptions.dependence import all_values, pair_weights, rank_cosines
from isojepa.certificates.assumptions.line import FAILS, HOLDS, Assumption, bounded, judge, unmeasured
from isojepa.certificates.assumptions.rates import Rates, correlate, rate
from isojepa.certificates.assumptions.regression import fit_regression
from isojepa.certificates.assumptions.sample import FITTED, Sample, halves
from isojepa.certificates.assumptions.shape import Directions
from isojepa.statistics.intervals import Interval, from_samples, reach_of

MEASURE = "largest share of what is not linear in a direction that the other dimensions explain, held out"
THRESHOLD = 0.5
_EMPTY = 1e-3  # variance over the mean below which a direction counts as empty
_TRIFLE = 0.02  # share that is no sign of anything
_LEAST = 64  # samples for the regressions
_INPUTS, _TARGETS = 6, 12
_SHARE, _WISHED = 4, 8  # samples per direction that is whitened, at least and at best
_LOST = 1.4  # shares below this, times sqrt(dimensions / samples), are lost when inputs are chosen
_COVARIANCE = 4000  # samples for the covariance, or more in many dimensions
_PRECISE = 128  # dimensions up to which directions are chosen in float64 by a full decomposition
_FASTEST = 4
_SKEWED, _PAIRED = 2, 2048  # directions of most third moments, and samples to find them
_HARMONIC = (1.6, 2.4)  # rates over the slowest that count as about twice
_SHOWN = 40  # eigenvalues


@dataclass(frozen=True)
class Redundancy:
    """One direction as a function of the others: its name, the share, and its rate over the slowest."""

    name: str
    share: Interval
    relative_rate: float


def effective_ranks(values: np.ndarray, n: int) -> tuple[float, float]:
    """Of the entropy, and participation ratio, of the eigenvalues of a covariance of n samples."""
    values = np.maximum(values, 0.0)
    total = values.sum()
    if total <= 0:
        return 0.0, 0.0
    values, total = values / total, 1.0  # squares of tiny ones would vanish
    shares = values[values > 0]
    squares = (values**2).sum()
    if n > 2:  # tr S^2 of a sample is larger than tr Sigma^2 by about (tr Sigma)^2 / n
        squares = n**2 / ((n - 1) * (n + 2)) * max(squares - total**2 / n, squares / n)
    return float(np.exp(-(shares * np.log(shares)).sum())), float(min(total**2 / squares, len(values)))


def check_dimension(
    sample: Sample, rates: Rates | None, directions: Directions, rows: int, confidence: float
) -> Assumption:
    """The line of dimension.

    Args:
        sample: with one view or both.
        rates: directions by speed, with both views.
        directions: the least Gaussian ones.
        rows: that score the regressions.
        confidence: of the interval.
    """
    n, given = len(sample), sample.dim + len(sample.constant)
    scale = sample.scale if sample.of == "embeddings" else np.ones(sample.dim)
    used = min(n, max(_COVARIANCE, 8 * sample.dim))
    covariance = _covariance(sample.z[:used]) * np.outer(scale, scale)
    values = scipy.linalg.eigh(covariance, eigvals_only=True)[::-1]
    entropy, participation = effective_ranks(values, used)
    detail = [("effective rank", entropy), ("participation ratio", participation)]
    detail += [(f"variance {k}", value) for k, value in enumerate(values[:_SHOWN])]
    empty = int((values < _EMPTY * values.mean()).sum()) if n > 2 * sample.dim else 0
    if sample.constant or empty:
        return degenerate(sample, empty, participation, detail)
    blind = "" if sample.of == "latents" else "; whether latents are missing cannot be seen from embeddings"
    ranks = f"{participation:.4g} of {given} dimensions are in use"
    if sample.dim == 1:
        sentence = f"There is one dimension, and it varies{blind}."
        return Assumption(
            "dimension", sample.of, MEASURE, 0.0, None, THRESHOLD, None, HOLDS, sentence, "", bounded(detail)
        )
    search, judged = halves(n, rows // 2)
    if judged.stop < _LEAST // 2:
        few = f"{sample.count(n, 'samples')} are too few"
        reason = f"{few} to see whether a dimension is a function of others; {ranks}."
        line = unmeasured("dimension", sample.of, MEASURE, THRESHOLD, reason, "Take more samples.")
        return replace(line, detail=bounded(detail))
    search = slice(search.start, search.start + max(FITTED, _WISHED * sample.dim))
    fitted = len(sample.z[search])
    found = [
        *_coordinate_redundancies(sample, search, judged, confidence),
        *_direction_redundancies(sample, rates, directions, search, judged, confidence),
    ]
    worst = max(found, key=lambda one: one.share.estimate)
    error = (worst.share.high - worst.share.low) / (2 * reach_of(confidence))
    tail = float(scipy.special.ndtr((_TRIFLE - worst.share.estimate) / max(error, 1e-300)))
    p = min(1.0, len(found) * tail)
    critical = -float(scipy.special.ndtri((1 - confidence) / len(found))) * 2 / math.sqrt(judged.stop)
    critical = max(critical, _LOST * math.sqrt(sample.dim / fitted))
    verdict = judge(p, 1 - confidence, worst.share.estimate, THRESHOLD, critical)
    percent = f"{100 * worst.share.estimate:.1f} %"
    sentence = f"{worst.name} is most a function of other directions, by {percent} ({ranks}){blind}"
    if worst.share.estimate < _TRIFLE:
        sentence = f"No direction looks like a function of others ({ranks}){blind}"
    if verdict != HOLDS and _HARMONIC[0] < worst.relative_rate < _HARMONIC[1]:
        speed = f"{worst.relative_rate:.3g} times as fast as the slowest"
        sentence += f"; it forgets {speed}, as a second harmonic does"
    advice = "" if verdict == HOLDS else _SURPLUS
    if p > 1 - confidence and verdict != HOLDS:
        sentence += f"; {judged.stop} held-out samples show only shares above {100 * critical:.0f} %"
        advice = "Take more samples."
    return Assumption(
        "dimension",
        sample.of,
        MEASURE,
        worst.share.estimate,
        worst.share,
        THRESHOLD,
        p,
        verdict,
        sentence[0].upper() + sentence[1:] + ".",
        advice,
        bounded([*detail[:2], *((f"share of {one.name}", one.share.estimate) for one in found), *detail[2:]]),
    )


_SURPLUS = (
    "Use fewer dimensions: a direction that is a function of others adds no latent, and whitening makes it "
    "look like one."
)


def degenerate(
    sample: Sample, empty: int = 0, participation: float = 0.0, detail: Sequence[tuple[str, float]] = ()
) -> Assumption:
    """The line where dimensions are constant or linear functions of others."""
    given = sample.dim + len(sample.constant)
    parts = []
    if sample.constant:
        listed = ", ".join(map(str, sample.constant[:8])) + (", ..." if len(sample.constant) > 8 else "")
        parts.append(f"{len(sample.constant)} of {given} dimensions are constant ({listed})")
    if empty:
        parts.append(f"{empty} of {sample.dim} directions have next to no variance")
    sentence = f"{' and '.join(parts)}; {participation:.4g} are in use."
    advice = (
        "Drop constant dimensions and duplicates. In embeddings this is collapse: use fewer dimensions, or "
        "raise the weight of the regularizer."
    )
    value = Interval(1.0, 1.0, 1.0)
    return Assumption(
        "dimension",
        sample.of,
        MEASURE,
        1.0,
        value,
        THRESHOLD,
        None,
        FAILS,
        sentence,
        advice,
        bounded(list(detail)),
    )


def _coordinate_redundancies(
    sample: Sample, search: slice, judged: slice, confidence: float
) -> list[Redundancy]:
    """The dimensions that depend most on others, regressed on those."""
    fit, score = sample.z[search], sample.z[judged]
    values = all_values(
        rank_cosines(fit[: 2 * len(score)], sample.stream("ties"), 3), pair_weights(3), np.arange(sample.dim)
    )
    np.fill_diagonal(values, -1.0)  # no dimension is chosen for itself
    found = []
    for target in np.argsort(-values.max(1), kind="stable")[:_TARGETS]:
        inputs = np.argsort(-values[target], kind="stable")[: min(_INPUTS, sample.dim - 1)]
        share = _held_out(
            sample, fit[:, inputs], fit[:, target], score[:, inputs], score[:, target], confidence
        )
        found.append(Redundancy(sample.label(int(target)), share, math.nan))
    return found


def _direction_redundancies(
    sample: Sample,
    rates: Rates | None,
    directions: Directions,
    search: slice,
    judged: slice,
    confidence: float,
) -> list[Redundancy]:
    """The fastest, least Gaussian and most skewed directions, regressed on those along which they curve."""
    fit = sample.z[search]
    if len(fit) < _SHARE * sample.dim:
        return []
    # neither basis has seen the samples that judge
    basis = rates.basis if rates is not None else _whitening(fit)
    y, y_score = fit @ basis, sample.z[judged] @ basis
    few = basis.shape[1] > _PRECISE  # where each direction costs much
    targets: list[tuple[str, np.ndarray]] = []
    if rates is not None:
        for k in range(min(_FASTEST // 2 if few else _FASTEST, basis.shape[1] - 1)):
            targets.append((_fast_name(k), np.eye(basis.shape[1])[-1 - k]))
    for k, weight in enumerate(directions.weights.T[: 2 if few else None]):
        unit = y.T @ (fit @ weight)
        targets.append((f"searched direction {k}", unit / np.linalg.norm(unit)))
    for k, unit in enumerate(skewed_directions(y, _SKEWED).T):
        targets.append((_skewed_name(k), unit))
    found = []
    for name, unit in targets:
        t = y @ unit
        inputs = curved_directions(y, t - t.mean(), unit)
        share = _held_out(sample, y @ inputs, t, y_score @ inputs, y_score @ unit, confidence)
        found.append(Redundancy(name, share, _relative_rate(sample, rates, basis @ unit)))
    return found


def curved_directions(y: np.ndarray, t: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Directions (dim, k) at right angles to `unit` along which t curves most, for whitened y (n, dim)."""
    dim = y.shape[1]
    count = min(_INPUTS, dim - 1)
    exact = y.astype(np.float32) if dim > _PRECISE else y
    moment = ((exact * t[:, None].astype(exact.dtype)).T @ exact / len(y)).astype(np.float64)
    moment -= np.outer(unit, unit @ moment)  # what is left is at right angles on both sides
    moment -= np.outer(moment @ unit, unit)
    if dim > _PRECISE:
        from scipy.sparse.linalg import eigsh  # slow to import, and seldom needed

        _, vectors = eigsh((moment + moment.T) / 2, count, v0=np.ones(dim))
    else:
        values, vectors = scipy.linalg.eigh((moment + moment.T) / 2)
        along = np.abs(unit @ vectors) > 0.5  # the unit itself, with eigenvalue 0
        vectors = vectors[:, np.argsort(np.where(along, 1.0, -np.abs(values)), kind="stable")[:count]]
    vectors = vectors - np.outer(unit, unit @ vectors)
    units: np.ndarray = vectors / np.linalg.norm(vectors, axis=0)
    return units


def skewed_directions(y: np.ndarray, count: int) -> np.ndarray:
    """Directions (dim, count) of most third moments, for whitened y (n, dim).

    With T_kij the mean of y_k y_i y_j, they are the leading eigenvectors of sum_ij T_kij T_lij, here summed
    over pairs of different samples so that chance adds nothing on average. For a second harmonic among normal
    dimensions T is 2 sqrt 2 at the harmonic with itself and sqrt 2 with its latent twice, so that the sum is
    10 for the harmonic, 4 for the latent, and 0 for all else.
    """
    y = (y - y.mean(0))[:_PAIRED].astype(np.float32)
    products = (y @ y.T) ** 2
    np.fill_diagonal(products, 0.0)
    _, vectors = scipy.linalg.eigh((y.T @ (products @ y)).astype(np.float64))
    leading: np.ndarray = vectors[:, ::-1][:, :count]
    return leading


def _whitening(x: np.ndarray) -> np.ndarray:
    values, vectors = scipy.linalg.eigh(_covariance(x))
    keep = values > 1e-10 * values[-1]
    whitening: np.ndarray = vectors[:, keep] / np.sqrt(values[keep])
    return whitening


def _covariance(x: np.ndarray) -> np.ndarray:
    mean = x.mean(0)
    covariance: np.ndarray = x.T @ x / len(x) - np.outer(mean, mean)
    return covariance


def _held_out(
    sample: Sample, x: np.ndarray, t: np.ndarray, x_score: np.ndarray, t_score: np.ndarray, confidence: float
) -> Interval:
    """What a regression of t on x explains of what a linear one leaves, with its interval."""
    x, t = x[:FITTED], t[:FITTED]
    bent = fit_regression(x, t[:, None], sample.stream("redundancy"))
    straight = fit_regression(x, t[:, None], sample.stream("redundancy"), cosines=0, hinges=False)
    residual, linear = ((t_score - fit(x_score)[:, 0]) ** 2 for fit in (bent, straight))
    constant = (t_score - t.mean()) ** 2
    left = min(linear, constant, key=np.mean)  # a line fitted to chance is worse than none
    share = float(residual.mean() / max(left.mean(), np.finfo(float).tiny))
    influence = (residual - share * left) / max(left.mean(), np.finfo(float).tiny)
    return from_samples(-influence, confidence, estimate=1 - share)


def _relative_rate(sample: Sample, rates: Rates | None, weight: np.ndarray) -> float:
    """Rate of a direction over the slowest, on samples that chose neither; NaN where that is not known."""
    if rates is None or not 0 < rates.rates[0] < math.inf:
        return math.nan
    half = slice(0, len(sample) // 2)
    correlation, _ = correlate(*(view[half] @ weight[:, None] for view in sample.views))
    return float(rate(correlation)[0] / rates.rates[0])


def _fast_name(place: int) -> str:
    return "the fastest direction" if place == 0 else f"the fastest direction but {place}"


def _skewed_name(place: int) -> str:
    return "the most skewed direction" if place == 0 else f"the most skewed direction but {place}"
