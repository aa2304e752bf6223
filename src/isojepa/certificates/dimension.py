r"""Dimension: are there as many dimensions as latents?

Too many (m > n). A dimension may be constant, a direction may have next to no variance (a thousandth of the
mean, as for duplicates), or a direction may be a nonlinear function of the others, such as the second
harmonic (z^2 - 1) / sqrt(2), which decorrelates twice as fast as z. The last is measured by

    1 - residual of a nonlinear regression / residual of a linear one,        held out,

of the direction t on the others, for dimensions as they are and, in whitened coordinates y, for the
directions that decorrelate fastest, are least Gaussian, or have most third moments. A function of two of a
hundred others would drown, so the inputs are chosen first: the dimensions that t depends on most by ranks, or
the leading eigenvectors of the mean of t y y^T, along which t curves (Li 1992, "principal Hessian
directions"). All is chosen and fitted on one half of the samples and scored on the other. Dimensions that are
merely correlated are no surplus. The p-value is that of a share of at most 2 %, times the number of
directions.

Effective ranks of the covariance, with eigenvalues l_i and shares p_i = l_i / sum l:

    exp(-sum p log p)                        of the entropy
    (sum l)^2 / sum l^2                      participation ratio, with sum l^2 unbiased for normal samples

Too few (m < n). Embeddings alone do not show it: what is left of the latents looks like fewer latents.
"""

import math
from collections.abc import Iterator

import numpy as np
import scipy

from isojepa.certificates.assumptions import Sample, correlate, rate, whiten
from isojepa.certificates.checks import FAILS, HOLDS, Effect, check
from isojepa.certificates.rank_dependence import MIN_FITTED_ROWS, all_values
from isojepa.statistics.intervals import Interval, from_samples, reach_of
from isojepa.statistics.regression import NonlinearRegression

MAX_SHARE = 0.5  # more a function of the others than not
NEGLIGIBLE_SHARE = 0.02  # the null of the test: no regression finds exactly nothing
MIN_VARIANCE = 1e-3  # over the mean, below which a direction counts as empty
HARMONIC_RATES = (1.6, 2.4)  # over the slowest, that count as about twice as fast

_MIN_JUDGED = 32
_MAX_INPUTS, _MAX_DIMENSIONS = 6, 12  # of a regression; dimensions that are regressed as they are
_FASTEST, _SKEWED = 4, 2  # directions
_FULL_DIMENSIONS = 128  # up to which all directions are looked at, in float64
_ROWS_PER_DIRECTION = 4, 8  # to whiten at least, and at best
_LOST = 1.4  # shares below this, times sqrt(dimensions / samples), are lost when inputs are chosen
_COVARIANCE_ROWS, _SKEWNESS_ROWS = 4000, 2048


def effective_ranks(values: np.ndarray, n: int) -> tuple[float, float]:
    """Of the entropy, and participation ratio, of the eigenvalues of a covariance of n samples.

    Example:
        >>> effective_ranks(np.array([1.0, 1.0, 0.0]), 10**18)
        (2.0, 2.0)
    """
    values = np.maximum(values, 0.0)
    if values.sum() <= 0:
        return 0.0, 0.0
    shares = values / values.sum()
    squares = (shares**2).sum()
    if n > 2:  # tr S^2 of a sample is larger than tr Sigma^2 by about (tr Sigma)^2 / n
        squares = n**2 / ((n - 1) * (n + 2)) * max(squares - 1 / n, squares / n)
    return float(np.exp(scipy.special.entr(shares).sum())), float(min(1 / squares, len(values)))


@check(
    "dimension",
    measure="largest share of what is not linear in a direction that the other dimensions explain, held out",
    threshold=MAX_SHARE,
    more="Take more samples.",
    advice="Use fewer dimensions: a direction that is a function of others adds no latent, and whitening "
    "makes it look like one.",
)
def dimension(sample: Sample) -> Effect:
    """Is no dimension constant, empty or a function of others?"""
    if sample.dim == 0:
        return _degenerate(sample, 0, 0.0, [])
    n, columns = len(sample), sample.dim + len(sample.constant)
    scale = sample.scale if sample.of == "embeddings" else np.ones(sample.dim)
    used = min(n, max(_COVARIANCE_ROWS, 8 * sample.dim))
    covariance = np.cov(sample.z[:used], rowvar=False, bias=True).reshape(sample.dim, -1)
    values = scipy.linalg.eigh(covariance * np.outer(scale, scale), eigvals_only=True)[::-1]
    entropy, participation = effective_ranks(values, used)
    detail = [("effective rank", entropy), ("participation ratio", participation)]
    variances = [(f"variance {k}", value) for k, value in enumerate(values[:40])]
    empty = int((values < MIN_VARIANCE * values.mean()).sum()) if n > 2 * sample.dim else 0
    if sample.constant or empty:
        return _degenerate(sample, empty, participation, detail + variances)
    blind = "" if sample.of == "latents" else "; whether latents are missing cannot be seen from embeddings"
    in_use = f"{participation:.4g} of {columns} dimensions are in use"
    if sample.dim == 1:
        text = f"There is one dimension, and it varies{blind}"
        return Effect(text, 0.0, detail=detail + variances, verdict=HOLDS)
    search, judged = sample.halves(sample.rows // 2)
    if judged.stop < _MIN_JUDGED:
        few = f"{sample.count(n, 'samples')} are too few"
        text = f"{few} to see whether a dimension is a function of others; {in_use}"
        return Effect(text, detail=detail + variances, advice="Take more samples.")
    least, wished = _ROWS_PER_DIRECTION
    search = slice(search.start, search.start + max(MIN_FITTED_ROWS, wished * sample.dim))
    fitted = len(sample.z[search])
    redundancies = list(_dimensions(sample, search, judged))
    if fitted >= least * sample.dim:
        redundancies += _directions(sample, search, judged)
    name, share, relative_rate = max(redundancies, key=lambda one: one[1].estimate)
    error = (share.high - share.low) / (2 * reach_of(sample.confidence))
    tail = float(scipy.special.ndtr((NEGLIGIBLE_SHARE - share.estimate) / max(error, 1e-300)))
    critical = -float(scipy.special.ndtri(sample.level / len(redundancies))) * 2 / math.sqrt(judged.stop)
    text = f"{name.capitalize()} is most a function of other directions, by {100 * share.estimate:.1f} %"
    if share.estimate < NEGLIGIBLE_SHARE:
        text = "No direction looks like a function of others"
    elif share.estimate > MAX_SHARE / 2 and HARMONIC_RATES[0] < relative_rate < HARMONIC_RATES[1]:
        text += (
            f", and decorrelates {relative_rate:.3g} times as fast as the slowest, as a second harmonic does"
        )
    return Effect(
        f"{text} ({in_use}){blind}",
        share.estimate,
        share,
        min(1.0, len(redundancies) * tail),
        max(critical, _LOST * math.sqrt(sample.dim / fitted)),
        [*detail, *((f"share of {one}", share.estimate) for one, share, _ in redundancies), *variances],
        f"{judged.stop} held-out samples",
    )


def _degenerate(sample: Sample, empty: int, participation: float, detail: list[tuple[str, float]]) -> Effect:
    """The effect where dimensions are constant or linear functions of others."""
    parts = []
    if sample.constant:
        listed = ", ".join(map(str, sample.constant[:8])) + (", ..." if len(sample.constant) > 8 else "")
        columns = sample.dim + len(sample.constant)
        parts.append(f"{len(sample.constant)} of {columns} dimensions are constant ({listed})")
    if empty:
        parts.append(f"{empty} of {sample.dim} directions have next to no variance")
    advice = (
        "Drop constant dimensions and duplicates. In embeddings this is collapse: use fewer dimensions, or "
        "raise the weight of the regularizer."
    )
    text = f"{' and '.join(parts)}; {participation:.4g} are in use"
    return Effect(text, 1.0, Interval(1.0, 1.0, 1.0), detail=detail, verdict=FAILS, advice=advice)


Redundancy = tuple[str, Interval, float]  # a direction, its share that others explain, rate over the slowest


def _dimensions(sample: Sample, search: slice, judged: slice) -> Iterator[Redundancy]:
    """The dimensions that depend most on others, regressed on those."""
    fit, score = sample.z[search], sample.z[judged]
    values = all_values(fit[: 2 * len(score)], sample.stream("ties"), sample.dim)
    np.fill_diagonal(values, -1.0)  # no dimension is chosen for itself
    for target in np.argsort(-values.max(1), kind="stable")[:_MAX_DIMENSIONS]:
        inputs = np.argsort(-values[target], kind="stable")[: min(_MAX_INPUTS, sample.dim - 1)]
        share = _held_out(sample, fit[:, inputs], fit[:, target], score[:, inputs], score[:, target])
        yield sample.label(int(target)), share, math.nan


def _directions(sample: Sample, search: slice, judged: slice) -> Iterator[Redundancy]:
    """The fastest, least Gaussian and most skewed directions, regressed on those along which they curve."""
    fit = sample.z[search]
    paired = sample.z_next is not None
    basis = sample.slowness[0] if paired else whiten(fit)  # neither has seen the samples that judge
    y, y_score = fit @ basis, sample.z[judged] @ basis
    fewer = 2 if basis.shape[1] > _FULL_DIMENSIONS else 1  # each direction costs much
    targets = []
    if paired:
        fastest = np.eye(basis.shape[1])[: -1 - min(_FASTEST // fewer, basis.shape[1] - 1) : -1]
        targets += [
            (f"the fastest direction but {k}" if k else "the fastest direction", unit)
            for k, unit in enumerate(fastest)
        ]
    for k, weight in enumerate(sample.searched[0].T[: 4 // fewer]):
        unit = y.T @ (fit @ weight)
        targets.append((f"searched direction {k}", unit / np.linalg.norm(unit)))
    targets += [(f"skewed direction {k}", unit) for k, unit in enumerate(skewed_directions(y, _SKEWED).T)]
    slowest = _rate_along(sample, basis[:, 0]) if paired else math.nan
    for name, unit in targets:
        t = y @ unit
        inputs = curved_directions(y, t - t.mean(), unit)
        share = _held_out(sample, y @ inputs, t, y_score @ inputs, y_score @ unit)
        yield name, share, _rate_along(sample, basis @ unit) / slowest if 0 < slowest < math.inf else math.nan


def _rate_along(sample: Sample, weight: np.ndarray) -> float:
    """Rate of a direction, on the half of the samples that did not choose it."""
    half = slice(0, len(sample) // 2)
    return float(rate(correlate(*(view[half] @ weight[:, None] for view in sample.views))[0])[0])


def curved_directions(y: np.ndarray, t: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Directions (dim, k) at right angles to `unit` along which t curves most, for whitened y (n, dim)."""
    dim = y.shape[1]
    exact = y.astype(np.float32) if dim > _FULL_DIMENSIONS else y
    moment = ((exact * t[:, None].astype(exact.dtype)).T @ exact / len(y)).astype(np.float64)
    across = np.eye(dim) - np.outer(unit, unit)
    moment = across @ (moment + moment.T) @ across / 2
    count = min(_MAX_INPUTS, dim - 1)
    if dim > _FULL_DIMENSIONS:
        from scipy.sparse.linalg import eigsh  # slow to import, and seldom needed

        vectors = eigsh(moment, count, v0=np.ones(dim))[1]
    else:
        values, vectors = scipy.linalg.eigh(moment)
        along = np.abs(unit @ vectors) > 0.5  # the unit itself, with eigenvalue 0
        vectors = vectors[:, np.argsort(np.where(along, 1.0, -np.abs(values)), kind="stable")[:count]]
    vectors = across @ vectors
    return np.asarray(vectors / np.linalg.norm(vectors, axis=0))


def skewed_directions(y: np.ndarray, count: int) -> np.ndarray:
    """Directions (dim, count) of most third moments, for whitened y (n, dim).

    With T_kij the mean of y_k y_i y_j, they are the leading eigenvectors of sum_ij T_kij T_lij, here summed
    over pairs of different samples so that chance adds nothing on average. For a second harmonic among normal
    dimensions T is 2 sqrt 2 at the harmonic with itself and sqrt 2 with its latent twice, so that the sum is
    10 for the harmonic, 4 for the latent, and 0 for all else.
    """
    y = (y - y.mean(0))[:_SKEWNESS_ROWS].astype(np.float32)
    products = (y @ y.T) ** 2
    np.fill_diagonal(products, 0.0)
    _, vectors = scipy.linalg.eigh((y.T @ (products @ y)).astype(np.float64))
    return np.asarray(vectors[:, ::-1][:, :count])


def _held_out(
    sample: Sample, x: np.ndarray, t: np.ndarray, x_score: np.ndarray, t_score: np.ndarray
) -> Interval:
    """What a regression of t on x explains of what a linear one leaves, with its interval."""
    x, t = x[:MIN_FITTED_ROWS], t[:MIN_FITTED_ROWS, None]
    nonlinear = NonlinearRegression(x, t, sample.stream("redundancy"))
    linear = NonlinearRegression(x, t, sample.stream("redundancy"), cosines=0, hinges=False)
    residual, unexplained = ((t_score - fit(x_score)[:, 0]) ** 2 for fit in (nonlinear, linear))
    # a line fitted to chance is worse than none
    unexplained = min(unexplained, (t_score - t.mean()) ** 2, key=np.mean)
    mean = max(unexplained.mean(), np.finfo(float).tiny)
    share = float(residual.mean() / mean)
    return from_samples((share * unexplained - residual) / mean, sample.confidence, estimate=1 - share)
