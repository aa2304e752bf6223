r"""Joint Gaussianity: are both views of a pair jointly Gaussian, as those of a rotation of the latents are?

In a Gaussian world an encoder that loses nothing and whose pairs (h, h') are jointly Gaussian is a rotation:
h and z then have transition operators that are unitarily equivalent, of which the linear functions are the
slowest, so h lies in the span of z (`isojepa theory joint-gaussian`). A map that only keeps N(0, I), such as
a swirl, passes every test of one view and fails this one. In a world of monotone images of Gaussian latents
it says that h is a rotation of these, the normal scores. Loss of information cannot be seen: an encoder that
drops a latent, or adds noise of its own, has jointly Gaussian pairs too.

The residual of a step, e = h' - B h with B by least squares, is independent of h exactly for jointly Gaussian
pairs, whatever the rate of each direction. With h and e scaled to covariance I, Hermite polynomials of degree
1 to 3 of two dimensions of h and those of degree 1 and 2 of the same two dimensions of e are then
uncorrelated; where those of degree 2 of both correlate, degree 2 of h and h' does not correlate by r^2
(Mehler: degree d of jointly Gaussian pairs correlates by r^d). The effect is the root of the sum of their
squared correlations, without what chance adds. The two dimensions are those that look worst on a quarter of
the samples, judged on the others. The lengths |h| and |e| are compared too: in many dimensions they add up
what all of them show. Permuting e against h gives the p-value.

Slices: each dimension of e and of h + h' must be normal (`assumptions.departure`); the root of its departure
is the effect. The smaller of both p-values counts twice.
"""

import math

import numpy as np
import scipy
import torch

from isojepa.certificates.assumptions import Sample, departure, root
from isojepa.certificates.checks import Effect, check
from isojepa.statistics.families import joint_p
from isojepa.statistics.intervals import Interval, jackknife

# a departure of 1 %, or at rho 0.9 a swirl that misses 0.5 % of the latents' variance; no bound excuses a
# failure, since every bound rests on joint Gaussianity
MAX_JOINT_EFFECT = 0.1

_MIN_PAIRS = 64  # that judge
_PAIRS_PER_DIMENSION = 4
_SEARCH_PART = 4  # one pair in so many searches for the worst plane
_MAX_SLICES = 32  # dimensions
_MAX_NUMBERS = 1 << 22  # that search and judge
_ADVICE = {
    "latents": "The theorems speak of worlds whose pairs are jointly Gaussian: expect functions of the "
    "latents in place of the latents, or take coordinates in which their steps are Gaussian.",
    "embeddings": "In a Gaussian world these embeddings are no rotation of the latents: train longer, with a "
    "larger encoder or other weights, and compare with labels for a few samples.",
}


@check(
    "joint Gaussianity",
    measure="root of summed squared correlations of what is left of a step with where it started",
    threshold=MAX_JOINT_EFFECT,
    pairs=True,
    advice=_ADVICE,
)
def joint_gaussianity(sample: Sample) -> Effect:
    """Are the two views of a pair jointly Gaussian?"""
    z, z_next = sample.views
    n, dim = z.shape
    most = max(sample.rows, _MAX_NUMBERS // dim)
    judged = min(most, n if dim <= 2 else n - n // _SEARCH_PART)
    if judged < max(_MIN_PAIRS, _PAIRS_PER_DIMENSION * dim):
        text = f"{n} pairs are too few to compare steps with where they start in {dim} dimensions"
        return Effect(text, advice="Take more pairs.")
    pairs = _separate(z[:judged], z_next[:judged])
    if pairs is None:
        text = "The second view is a linear function of the first, with no noise that could be looked at"
        advice = "Take pairs farther apart, and check that the views are not the same array."
        return Effect(text, advice=advice)
    plane = list(range(dim))
    if dim > 2:
        search = slice(judged, judged + most)
        searched = _separate(z[search], z_next[search])
        plane = [0, 1] if searched is None else list(worst_plane(*searched))
    start, residual = pairs
    compared = [correlated_functions(start[:, plane], residual[:, plane])]
    if dim > 2:
        compared.append(correlated_functions(*pairs, lengths=True))
    p_steps, worst = _permute(compared, sample.draws, sample.stream("joint"))
    cells = [int(counted.sum()) for *_, counted in compared]
    effects = [
        _effect(one, np.ones(judged, bool)) - k / judged for one, k in zip(compared, cells, strict=True)
    ]
    interval = jackknife(lambda rows: _effect(compared[worst], rows), judged, sample.confidence)
    value, low, high = (
        root(end - cells[worst] / judged) for end in (interval.estimate, interval.low, interval.high)
    )
    count = min(dim, _MAX_SLICES)
    departures, ps = departure(
        np.hstack([residual[: sample.rows, :count], (z + z_next)[: min(sample.rows, judged), :count]])
    )
    column, p_slices = int(ps.argmin()), min(1.0, len(ps) * float(ps.min()))
    by_slice = p_slices <= sample.level / 2 and (
        p_steps > sample.level / 2 or root(departures[column]) > value
    )
    names = ["effect in the two worst dimensions", "effect in the lengths"]
    if by_slice:
        what = "what is left of a step of" if column < count else "the sum of both views of"
        text = f"The least Gaussian slice of the pairs, {what} {sample.label(column % count)}, departs by"
    elif worst:
        text = "The length of what is left of a step depends on the length of where it started by"
    else:
        where = " and ".join(sample.label(k) for k in plane)
        text = f"What is left of a step of {where} depends on where it started by"
    # n times the sum of squares has nearly the distribution chi^2
    detectable = root((float(scipy.special.chdtri(cells[0], sample.level)) - cells[0]) / judged)
    effect = root(departures[column]) if by_slice else value
    return Effect(
        f"{text} {effect:.3g}",
        effect,
        None if by_slice else Interval(value, low, high),
        min(1.0, 2 * min(p_steps, p_slices)),
        detectable,
        [
            *((name, root(one)) for name, one in zip(names, effects, strict=False)),
            ("effect in slices", root(departures[column])),
            ("p of steps", p_steps),
            ("p of slices", p_slices),
        ],
        sample.count(judged, "pairs"),
    )


Functions = tuple[np.ndarray, np.ndarray, np.ndarray]  # of start and residual, (n, k) each; pairs that count


def correlated_functions(start: np.ndarray, residual: np.ndarray, lengths: bool = False) -> Functions:
    """Standardized functions of both sides (n, k), and which of their correlations count, (k, k').

    Degrees count together to 3 or 4: least squares made those of degree 2 vanish.
    """
    sides = [hermite_functions(start, 3), hermite_functions(residual, 2)]
    if lengths:
        sides = [((side**2).sum(1, keepdims=True), np.array([2])) for side in (start, residual)]
    (x, degrees), (y, others) = sides
    total = np.add.outer(degrees, others)
    x, y = ((side - side.mean(0)) / np.maximum(side.std(0), 1e-300) for side in (x, y))
    return x, y, (total == 3) | (total == 4)


def hermite_functions(x: np.ndarray, highest: int) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal polynomials of degrees 1 to `highest` of one or two columns, (n, k), and degrees (k,)."""
    single = [np.ones_like(x), x, (x**2 - 1) / math.sqrt(2), (x**3 - 3 * x) / math.sqrt(6)]
    orders = [(i, total - i) for total in range(1, highest + 1) for i in range(total, -1, -1)]
    if x.shape[1] == 1:
        orders = [(total, 0) for total in range(1, highest + 1)]
    values = [single[i][:, 0] * single[j][:, -1] for i, j in orders]
    return np.stack(values, 1), np.array([i + j for i, j in orders])


def _effect(functions: Functions, rows: np.ndarray) -> float:
    """Sum of the squared correlations that count, on some rows."""
    x, y, counted = functions
    return float(((x[rows].T @ y[rows] * counted) ** 2).sum() / rows.sum() ** 2)


def _permute(compared: list[Functions], draws: int, source: torch.Generator) -> tuple[float, int]:
    """p of all comparisons together, and the one that stands out most."""
    n = len(compared[0][0])

    def scores(order: np.ndarray) -> list[float]:
        return [float(((x.T @ y[order] * counted) ** 2).sum()) for x, y, counted in compared]

    null = np.array([scores(torch.randperm(n, generator=source).numpy()) for _ in range(draws)])
    return joint_p(np.array(scores(np.arange(n))), null)


def _separate(z: np.ndarray, z_next: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Where steps start and their residuals (n, dim), each of covariance I; None without residuals."""
    start, residual = z - z.mean(0), z_next - z_next.mean(0)
    scale = np.sqrt((residual**2).mean())
    residual = residual - start @ scipy.linalg.lstsq(start, residual)[0]
    if np.sqrt((residual**2).mean(0).min()) < 1e-6 * scale:
        return None
    start = _whitened(start)
    # least squares fits far samples best: their residuals are too small by their leverage
    leverage = (1 + (start**2).sum(1, keepdims=True)) / len(start)
    return start, _whitened(residual / np.sqrt(np.maximum(1 - leverage, 1e-3)))


def _whitened(x: np.ndarray) -> np.ndarray:
    """Samples of covariance I along the same axes: x C^(-1/2)."""
    values, vectors = scipy.linalg.eigh(x.T @ x / len(x))
    inverse_root = 1 / np.sqrt(np.maximum(values, 1e-9 * values[-1]))
    return np.asarray(x @ (vectors * inverse_root) @ vectors.T)


def worst_plane(start: np.ndarray, residual: np.ndarray) -> tuple[int, int]:
    """The two dimensions whose products of start and residual are farthest from 0, by matrix products.

    Args:
        start, residual: (n, dim), of covariance I.
    """
    dim = start.shape[1]
    second, after = ((side**2 - 1) / math.sqrt(2) for side in (start, residual))
    third, both = (start**3 - 3 * start) / math.sqrt(6), start * residual
    single = sum(
        np.einsum("ij,ij->j", x, y) ** 2
        for x, y in ((second, after), (second, residual), (third, residual), (start, after))
    )
    # entry (i, j): a function of dimension i, or of i and j, with one of dimension j, or of i and j
    ordered = [
        second.T @ after,
        second.T @ residual,
        third.T @ residual,
        start.T @ after,
        (second * residual).T @ residual,
        (start * after).T @ start,
        (second * residual).T @ start,
        both.T @ second,
        both.T @ start,
        both.T @ residual,
    ]
    squares = sum(part**2 for part in ordered)
    score = squares + squares.T + (both.T @ both) ** 2 + single[:, None] + single[None, :]
    i, j = np.unravel_index(np.argmax(np.triu(score, 1)), (dim, dim))
    return int(i), int(j)
