r"""Joint Gaussianity: are both views of a pair jointly Gaussian, as those of a rotation of the latents are?

In a Gaussian world an encoder that loses nothing and whose pairs (h, h') are jointly Gaussian is a rotation:
h and z then have transition operators that are unitarily equivalent, of which the linear functions are the
slowest, so h lies in the span of z (`isojepa theory joint-gaussian`). A map that only keeps N(0, I), such as
a swirl, passes every test of one view and fails this one. In a world of monotone images of Gaussian latents
it says that h is a rotation of these, the normal scores. Loss of information cannot be seen: an encoder that
drops a latent, or adds noise of its own, has jointly Gaussian pairs too.

What is left of the next view, e = h' - B h with B by least squares, is independent of h exactly for jointly
Gaussian pairs, whatever the rate of each direction. With h and e scaled to covariance I, Hermite
polynomials of degree 1 to 3 of two dimensions of h and those of degree 1 and 2 of the same two dimensions of
e are then uncorrelated; where those of degree 2 of both correlate, degree 2 of h and h' does not correlate by
r^2 (Mehler: degree d of jointly Gaussian pairs correlates by r^d). The effect is the root of the sum of their
squared correlations, without what chance adds. The two dimensions are those that look worst on a quarter of
the samples, judged on the others. The lengths |h| and |e| are compared too: in many dimensions they add up
what all of them show. Permuting e against h gives the p-value.

Slices: each dimension of e and of h + h' must be normal (`shape`); the root of its bend is the effect.

The threshold is a tenth: a bend of 1 %, or at rho 0.9 a swirl that misses 0.5 % of the latents' variance.
No bound excuses a failure: every bound rests on joint Gaussianity.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.certificates.assumptions.line import (
    Assumption,
    bounded,
    chance,
    judge,
    unmeasured,
)
from isojepa.certificates.assumptions.sample import Sample
from isojepa.certificates.assumptions.shape import bend, normal_bend, normal_pvalues
from isojepa.statistics.intervals import Interval, from_blocks

NAME = "joint Gaussianity"
MEASURE = "root of summed squared correlations of what is left of a step with where it started"
THRESHOLD = 0.1
_LEAST = 64  # pairs that judge
_SEARCHED = 4  # one in so many searches
_SHARE = 4  # pairs per dimension
_SLICED = 32  # dimensions whose slices are looked at
_JUDGED = 1 << 22  # numbers that search and judge at most
_BLOCKS = 20


@dataclass(frozen=True)
class _Pairs:
    """Both views: where a step starts (n, dim) and what is left of it (n, dim), each of covariance I."""

    start: np.ndarray
    left: np.ndarray


def check_joint(sample: Sample, rows: int, draws: int, confidence: float) -> Assumption:
    """The line of joint Gaussianity, for a sample with both views."""
    name, dim = NAME, sample.dim
    z, z_next = sample.views
    most = max(rows, _JUDGED // dim)
    judged = slice(0, min(most, len(z) if dim <= 2 else len(z) - len(z) // _SEARCHED))
    if judged.stop < max(_LEAST, _SHARE * dim):
        reason = f"{len(z)} pairs are too few to compare steps with where they start in {dim} dimensions."
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, "Take more pairs.")
    pairs = _separate(z[judged], z_next[judged])
    if pairs is None:
        reason = "The second view is a linear function of the first, with no noise that could be looked at."
        advice = "Take pairs farther apart, and check that the views are not the same array."
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, advice)
    plane: tuple[int, ...] = tuple(range(dim))
    if dim > 2:
        search = slice(judged.stop, judged.stop + most)
        searched = _separate(z[search], z_next[search])
        plane = (0, 1) if searched is None else worst_plane(searched.start, searched.left)
    return _judge_pairs(sample, pairs, z[judged] + z_next[judged], plane, rows, draws, confidence)


def _judge_pairs(
    sample: Sample,
    pairs: _Pairs,
    total: np.ndarray,
    plane: tuple[int, ...],
    rows: int,
    draws: int,
    confidence: float,
) -> Assumption:
    """The line, from pairs that had no part in the choice of the plane."""
    n, alpha, count = len(pairs.start), 1 - confidence, min(sample.dim, _SLICED)
    steps = _judge_steps(pairs, plane, draws, confidence, sample.stream("joint"))
    slices = np.concatenate([pairs.left[:rows, :count], total[:rows, :count]], axis=1)
    ps = normal_pvalues(slices)
    column, p_slices = int(ps.argmin()), min(1.0, len(ps) * float(ps.min()))
    bends = float(bend(np.sort(slices[:, [column]], axis=0))[0]) - normal_bend(len(slices))
    by_slice = p_slices <= alpha / 2 and (steps.p > alpha / 2 or _root(bends) > steps.effect.estimate)
    p, value = min(1.0, 2 * min(steps.p, p_slices)), _root(bends) if by_slice else steps.effect.estimate
    verdict = judge(p, alpha, value, THRESHOLD, steps.detectable)
    if by_slice:
        what = "what is left of a step of" if column < count else "the sum of both views of"
        words = f"The least Gaussian slice of the pairs, {what} {sample.label(column % count)}, bends by"
    elif steps.lengths:
        words = "The length of what is left of a step depends on the length of where it started by"
    else:
        where = " and ".join(sample.label(column) for column in plane)
        words = f"What is left of a step of {where} depends on where it started by"
    sentence = f"{words} {value:.3g} ({chance(p)})"
    advice = "" if verdict == "holds" else _ADVICE[sample.of]
    if p > alpha and verdict == "unclear":
        sentence += f"; {n} pairs show only values above {steps.detectable:.2g}"
        advice = "Take more pairs."
    detail = [*steps.detail, ("effect in slices", _root(bends))]
    detail += [("p of steps", steps.p), ("p of slices", p_slices)]
    return Assumption(
        NAME,
        sample.of,
        MEASURE,
        value,
        None if by_slice else steps.effect,
        THRESHOLD,
        p,
        verdict,
        sentence + ".",
        advice,
        bounded(detail),
    )


@dataclass(frozen=True)
class _Steps:
    """What steps have in common with where they started.

    Attributes:
        effect: the larger of that of the plane and that of the lengths, by their chance.
        lengths: whether it is that of the lengths.
        p: of both together.
        detectable: effect that chance alone reaches at the level.
        detail: both effects.
    """

    effect: Interval
    lengths: bool
    p: float
    detectable: float
    detail: list[tuple[str, float]]


def _judge_steps(
    pairs: _Pairs, plane: tuple[int, ...], draws: int, confidence: float, source: torch.Generator
) -> _Steps:
    start, left = pairs.start, pairs.left
    n = len(start)
    compared = [Comparison(start_functions(start[:, plane]), left_functions(left[:, plane]))]
    names = ["effect in the two worst dimensions"]
    if start.shape[1] > 2:
        lengths = [{2: (side**2).sum(1, keepdims=True)} for side in (start, left)]
        compared.append(Comparison(*lengths))
        names.append("effect in the lengths")
    seen, null = np.array([one.squares() for one in compared]), np.empty((draws, len(compared)))
    for draw in range(draws):
        order = torch.randperm(n, generator=source).numpy()
        null[draw] = [one.squares(order) for one in compared]
    center, spread = null.mean(0), np.maximum(null.std(0), 1e-300)  # one scale for both
    highest, own = ((null - center) / spread).max(1), (seen - center) / spread
    bias = np.array([one.cells / n for one in compared])
    cells = compared[0].cells  # n times the sum of squares has nearly the law of chi^2
    return _Steps(
        effect=compared[int(own.argmax())].interval(confidence),
        lengths=bool(own.argmax() == 1),
        p=(1 + int((highest >= own.max() - 1e-12).sum())) / (1 + draws),
        detectable=_root((float(scipy.special.chdtri(cells, 1 - confidence)) - cells) / n),
        detail=[(name, _root(value)) for name, value in zip(names, seen - bias, strict=True)],
    )


def _separate(z: np.ndarray, z_next: np.ndarray) -> _Pairs | None:
    """Where steps start and what is left of them; None where nothing is."""
    start = z - z.mean(0)
    left = z_next - z_next.mean(0)
    scale = np.sqrt((left**2).mean())
    left = left - start @ scipy.linalg.lstsq(start, left)[0]
    if np.sqrt((left**2).mean(0).min()) < 1e-6 * scale:
        return None
    start = _whitened(start)
    # least squares fits far samples best: what it leaves of them is too small by their leverage
    leverage = (1 + (start**2).sum(1, keepdims=True)) / len(start)
    return _Pairs(start, _whitened(left / np.sqrt(np.maximum(1 - leverage, 1e-3))))


def _whitened(x: np.ndarray) -> np.ndarray:
    """Samples of covariance I along the same axes: x C^(-1/2)."""
    values, vectors = scipy.linalg.eigh(x.T @ x / len(x))
    root = 1 / np.sqrt(np.maximum(values, 1e-9 * values[-1]))
    whitened: np.ndarray = x @ (vectors * root) @ vectors.T
    return whitened


def start_functions(x: np.ndarray) -> dict[int, np.ndarray]:
    """Orthonormal polynomials of degree 1, 2 and 3 of one or two columns, by degree."""
    second, third = _second(x), (x**3 - 3 * x) / math.sqrt(6)
    if x.shape[1] == 1:
        return {1: x, 2: second, 3: third}
    mixed = second * x[:, ::-1]
    return {1: x, 2: np.c_[second, x[:, 0] * x[:, 1]], 3: np.c_[third, mixed]}


def left_functions(x: np.ndarray) -> dict[int, np.ndarray]:
    """Those of degree 1 and 2."""
    return {degree: values for degree, values in start_functions(x).items() if degree < 3}


def _second(x: np.ndarray) -> np.ndarray:
    second: np.ndarray = (x**2 - 1) / math.sqrt(2)
    return second


class Comparison:
    """Correlations of functions of where steps start with functions of what is left of them.

    Degrees count together to 3 or 4: least squares made those of degree 2 vanish.

    Args:
        start, left: (n, count) functions of each degree.
    """

    def __init__(self, start: dict[int, np.ndarray], left: dict[int, np.ndarray]) -> None:
        self._start, self._left = _standardized(start), _standardized(left)
        degrees = [
            [d for d, values in side.items() for _ in range(values.shape[1])] for side in (start, left)
        ]
        total = np.add.outer(*degrees)
        self._counted = ((total == 3) | (total == 4)).astype(float)
        self.cells = int(self._counted.sum())

    def squares(self, order: np.ndarray | None = None) -> float:
        """Sum of squared correlations; with what is left in another order, of unrelated samples."""
        left = self._left if order is None else self._left[order]
        return float((((self._start.T @ left) * self._counted) ** 2).sum()) / len(left) ** 2

    def interval(self, confidence: float) -> Interval:
        """Of the root of the sum of squares, without what chance adds, by leaving out blocks."""
        n = len(self._start)
        edges = np.linspace(0, n, min(_BLOCKS, n // 2) + 1).astype(int)
        parts = np.stack([self._start[a:b].T @ self._left[a:b] for a, b in itertools.pairwise(edges)])
        parts *= self._counted
        kept = (n - np.diff(edges))[:, None, None]
        left_out = (((parts.sum(0) - parts) / kept) ** 2).sum((1, 2))
        whole = from_blocks(self.squares(), left_out, confidence)
        bias = self.cells / n
        return Interval(*(_root(end - bias) for end in (whole.estimate, whole.low, whole.high)))


def _standardized(functions: dict[int, np.ndarray]) -> np.ndarray:
    x = np.concatenate(list(functions.values()), axis=1)
    standardized: np.ndarray = (x - x.mean(0)) / np.maximum(x.std(0), 1e-300)
    return standardized


def worst_plane(start: np.ndarray, left: np.ndarray) -> tuple[int, int]:
    """The two dimensions whose products of start and left are farthest from 0, all pairs by matrix products.

    Args:
        start, left: (n, dim), of covariance I.
    """
    dim = start.shape[1]
    second, third, after = _second(start), (start**3 - 3 * start) / math.sqrt(6), _second(left)
    both = start * left
    single = np.einsum("ij,ij->j", second, after) ** 2 + np.einsum("ij,ij->j", second, left) ** 2
    single += np.einsum("ij,ij->j", third, left) ** 2 + np.einsum("ij,ij->j", start, after) ** 2
    # entry (i, j): a function of dimension i, or of i and j, with one of dimension j, or of i and j
    ordered = [
        second.T @ after,
        second.T @ left,
        third.T @ left,
        start.T @ after,
        (second * left).T @ left,
        (start * after).T @ start,
        (second * left).T @ start,
        both.T @ second,
        both.T @ start,
        both.T @ left,
    ]
    squares = sum(part**2 for part in ordered)
    score = squares + squares.T + (both.T @ both) ** 2 + single[:, None] + single[None, :]
    place = int(np.argmax(np.triu(score, 1)))
    return place // dim, place % dim


def _root(value: float) -> float:
    return math.sqrt(max(float(value), 0.0))


_ADVICE = {
    "latents": "The theorems speak of worlds whose pairs are jointly Gaussian: expect functions of the "
    "latents in place of the latents, or take coordinates in which their steps are Gaussian.",
    "embeddings": "In a Gaussian world these embeddings are no rotation of the latents: train longer, with a "
    "larger encoder or other weights, and compare with labels for a few samples.",
}
