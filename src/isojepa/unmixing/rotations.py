r"""The rotation of a white embedding whose axes are told apart by shape, by rate, or by both at once.

Two kinds of equations speak of the angle between axes i and j: `shapes` of marginal laws, and lagged
covariances C = E y y'^T, whose entry C_ij is 0 at the axes of a reversible process and changes by c_j - c_i
with the angle: axes of unequal rates are eigenvectors (Tong et al. 1991; Belouchrani et al. 1997 for many
lags). Each equation psi = 0 with slope J and variance V has the information J^2 / V, and all of them together
give

    angle_ij = - sum J psi / V  /  sum J^2 / V :

what says nothing of a pair (two normal shapes, two equal rates) has no weight in it.

An encoder that is not done compresses large embeddings, whatever their direction. Then the squares of any
two axes go together, and all directions have a fourth cumulant in common besides that of their latents: one
below 0 makes mixtures of heavy-tailed latents look further from normal than the latents are. It moves no
solution, but slopes are not those of independent axes, and a search goes astray. So where squares go together
slopes are measured, and axes are searched on both sides: those of the largest fourth cumulants, and of the
smallest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.linear import nearest_rotation
from isojepa.unmixing.shapes import (
    LEARNED,
    POOLED,
    Shapes,
    cubic_scores,
    learn_scores,
    measure_slopes,
    pooled_scores,
    sum_shapes,
)

_SEARCH = 30  # steps of the search at most until axes settle, each time that it begins with more rows
_SEARCH_PASSES = 60  # over rows that are not in memory, at most
_FEWEST = 10_000  # rows that it begins with, at least
_FEW = 500  # rows whose cumulants say little
_MORE = 4  # times as many rows the next time
_SETTLED = 0.02  # 1 - the smallest cosine of a step, from which Newton's steps are taken
_LOCKED = 0.01  # the same of an axis that is left alone,
_LEFT_ALONE = 0.2  # once so many of them are
_NEWTON = 40
_SMALL = 1e-5  # angle of a step that ends it,
_FRACTION = 0.02  # or one that is so small against its standard error;
_COARSE = 0.1  # in half of the rows, that are to show which axes there are
_WANDERING = 2.0  # standard errors that axes move by where nothing holds them, at most
_STALLED = 8  # steps of that size in a row that do not get smaller: there is nothing to settle at
_LARGEST = 0.5  # angle of a step
_AGREED = 0.9  # cosine of axes of both halves, from which their mean is an axis
_FAINT = 20.0  # information over all rows below which a pair is hardly moved
_TOGETHER = 0.005  # mean covariance of the squares of two axes, from which they go together,
_SURE = 4.0  # if it is so many standard errors
_ASKED = 1 << 22  # numbers that are asked for it
_STEEP = (0.2, 3.0)  # slopes against those of independent axes, at least and at most
_STILL = 1e-6  # variance that a lagged product has at least: rounding
_PIECE = 1 << 20  # numbers at once

_NORMAL = torch.tensor([1.0, 0.0, 0.0, 0.0])  # the score of a normal axis, which says nothing of its angles

Pass = Callable[[np.ndarray, Tensor], Shapes]
"""A pass over all rows: what they say of the axes of a rotation, by given scores."""


@dataclass(frozen=True)
class Rotation:
    """Axes of a white embedding.

    Attributes:
        matrix: (dim, dim) orthogonal, an axis in each row.
        scores: (4, dim) of the axes.
        shape: (dim, dim) information of one row about the angle of each pair, by shape.
        rate: (dim, dim) the same by rate.
        steps: of Newton, in all.
        shaped: (dim,) whether the shape of each axis was heard; None if all were.
    """

    matrix: np.ndarray
    scores: Tensor
    shape: np.ndarray
    rate: np.ndarray
    steps: int
    shaped: np.ndarray | None = None

    @property
    def information(self) -> np.ndarray:
        """(dim, dim) of one row about the angle of every pair."""
        return np.asarray(self.shape + self.rate)

    def told(self, rows: int) -> float:
        """How much so many rows tell of all angles together, in nats: what a start is chosen by."""
        pairs = np.triu_indices(len(self.shape), 1)
        return float(np.log1p(rows * self.information[pairs]).sum() / 2)


def find_rotation(
    white: Tensor,
    lagged: Sequence[np.ndarray],
    source: np.random.Generator,
    start: np.ndarray | None = None,
) -> Rotation:
    """Search the axes of white rows from a random rotation.

    Args:
        white: (n, dim) float32, of covariance I.
        lagged: (dim, dim) symmetric lagged covariances of the same rows, as many as there are lags.
        source: draws the first rotation.
        start: what a search among more rows than these has found; None to search among these.
    """
    starts = [_search(white, source) if start is None else start]
    together = squares_go_together(white, starts[0])
    if together:
        starts += [_search_side(white, source, side) for side in (1.0, -1.0)]
    if lagged:  # axes of unequal rates, of any shape
        starts.append(np.linalg.eigh(np.sum(lagged, axis=0))[1].T)
    found = [
        refine_rotation(
            start, pass_over(white), (white,), lagged, len(white), fraction=_COARSE, slopes=together
        )
        for start in starts
    ]
    return max(found, key=lambda one: one.told(len(white)))


def squares_go_together(white: Tensor, matrix: np.ndarray) -> bool:
    """Whether the squares of axes are correlated, on the whole, as those of independent ones are not."""
    dim = len(matrix)
    if dim == 1:
        return False
    some = white[:: max(1, white.numel() // _ASKED)]
    squares = (some @ _transposed(matrix, some)).square_() - 1
    # over all pairs of axes, row by row
    each = squares.sum(1).double().square_() - squares.square_().sum(1).double()
    mean, error = float(each.mean()), float(each.std()) / np.sqrt(len(each))
    return bool(abs(mean) > max(_SURE * error, _TOGETHER * dim * (dim - 1)))


def _search(white: Tensor, source: np.random.Generator) -> np.ndarray:
    """A rotation whose axes are not normal, from a random one.

    By the fixed point of FastICA (Hyvarinen 1999), which goes far in one step. Axes settle one after another,
    and those that have are left alone: what follows is a search of fewer dimensions, among fewer rows.
    """
    dim = white.shape[1]
    inner, basis = nearest_rotation(source.standard_normal((dim, dim))), np.eye(dim)
    rows, times = _some(white, dim, 1), 1
    settled: list[np.ndarray] = []
    steps, pooled = 0, len(white) < _FEW  # whose fourth cumulants are those of the farthest of them
    while True:
        few = rows[:: -(-rows.numel() // POOLED)]
        scores = pooled_scores(few @ _transposed(inner, few)) if pooled else cubic_scores(len(inner))
        found = pass_over(rows)(inner, scores)
        move = nearest_rotation(found.products - np.diag(found.slopes))
        inner = np.asarray(move @ inner)
        moved = 1 - np.abs(np.diag(move))
        steps += 1
        if moved.max() < _SETTLED:
            break
        if not pooled and (moved < _LOCKED).mean() > _LEFT_ALONE:
            axes = inner @ basis
            settled.append(axes[moved < _LOCKED])
            basis = axes[moved >= _LOCKED]
            rows = _some(rows, len(basis), times) @ _transposed(inner[moved >= _LOCKED], rows)
            inner, steps = np.eye(len(basis)), 0
        elif steps == _SEARCH:
            if len(rows) == len(white) and pooled:
                break
            # more rows may tell, and skewness where fourth cumulants do not
            pooled |= len(rows) == len(white)
            times *= _MORE
            rows, steps = _some(white, len(basis), times) @ _transposed(basis, white), 0
    return nearest_rotation(np.concatenate((*settled, inner @ basis)))


def search_passes(one_pass: Pass, dim: int, source: np.random.Generator) -> np.ndarray:
    """The same in more rows than memory holds, each step one pass over all of them."""
    matrix = nearest_rotation(source.standard_normal((dim, dim)))
    for _ in range(_SEARCH_PASSES):
        found = one_pass(matrix, cubic_scores(dim))
        move = nearest_rotation(found.products - np.diag(found.slopes))
        matrix = np.asarray(move @ matrix)
        if 1 - np.abs(np.diag(move)).min() < _SETTLED:
            break
    return matrix


def _search_side(white: Tensor, source: np.random.Generator, side: float) -> np.ndarray:
    """A rotation whose axes have the largest fourth cumulants, or with side -1 the smallest.

    The same fixed point, from which what all directions have in common is taken away: less than any axis was
    seen to have on its way. So every step climbs, and it still goes far in one.
    """
    dim = white.shape[1]
    matrix, common = nearest_rotation(source.standard_normal((dim, dim))), np.inf
    rows = _some(white, dim, _MORE)
    for _ in range(_SEARCH):
        found = pass_over(rows)(matrix, cubic_scores(dim))
        move = side * (found.products - np.diag(found.slopes))
        own = np.diag(move)
        common = min(common, 2 * own.min() - own.mean())
        move = nearest_rotation(move - common * np.eye(dim))
        matrix = np.asarray(move @ matrix)
        if 1 - np.abs(np.diag(move)).min() < _SETTLED:
            break
    return matrix


def _some(white: Tensor, dim: int, times: int) -> Tensor:
    """Rows enough to find so many axes in, or so many times as many, at even distances.

    The way to axes begins with overlaps of 1 / sqrt(dim): finding it takes rows in proportion to dim^2.
    """
    return white[:: max(1, len(white) // (times * max(_FEWEST, dim**2)))]


def refine_rotation(
    matrix: np.ndarray,
    one_pass: Pass,
    some: Sequence[Tensor],
    lagged: Sequence[np.ndarray],
    rows: int,
    most: int = _NEWTON,
    fraction: float = _FRACTION,
    shaped: np.ndarray | None = None,
    slopes: bool = False,
) -> Rotation:
    """Steps of Newton from a rotation, each one pass over the rows.

    Args:
        matrix: where they begin.
        one_pass: over all rows.
        some: white rows that scores are learned from; with second views, if the pass sees both.
        lagged: lagged covariances.
        rows: that a pass sees.
        most: steps at most.
        fraction: of its standard error, below which an angle has settled.
        shaped: (dim,) whether the shape of each axis is heard; None if all are.
        slopes: whether those of the equations are measured, see `squares_go_together`.
    """
    steps, stalled, least, last = 0, 0, np.inf, np.inf
    few = some[0][:: max(1, len(some[0]) // LEARNED)]
    while True:
        scores = learn_scores(few @ _transposed(matrix, few))
        if shaped is not None:
            scores[:, torch.from_numpy(~shaped)] = _NORMAL[:, None].to(scores.dtype)
        shapes = one_pass(matrix, scores)
        pull, rate = _rates(matrix, lagged)
        psi, slope, variance = _equations(shapes, matrix, lagged)
        if slopes:
            slope = _measured_slopes(some, matrix, scores)
        steep = np.clip(slope / np.maximum(variance, _STILL), *_STEEP)
        # a learned score finds a little shape in normal rows too, which must not outweigh the rates
        trust = variance / (variance + _FAINT / min(rows, LEARNED))
        information = trust * steep**2 * variance + rate
        angles = -(trust * steep * psi + pull) / (information + _FAINT / rows)
        np.fill_diagonal(angles, 0.0)
        angles = np.clip(angles, -_LARGEST, _LARGEST)
        told = information > 5 * _FAINT / rows  # the others have no angle to settle at
        strain = np.abs(angles) * np.sqrt(information * rows)  # steps in standard errors
        unsettled = told & (np.abs(angles) >= _SMALL) & (strain >= fraction)
        # axes on their way move by many standard errors; in normal rows of one rate they only wander
        moved = float(np.sqrt((strain[told] ** 2).mean())) if told.any() else 0.0
        stalled = stalled + 1 if 0.5 * least < moved < _WANDERING else 0
        shrinking, last = moved / last if steps else 1.0, moved
        least = min(least, moved)
        if steps == most or stalled == _STALLED or not unsettled.any():
            return Rotation(matrix, scores, steep**2 * variance, rate, steps, shaped)
        matrix = _turned(matrix, angles)
        steps += 1
        # steps shrink by much the same factor: that the next one has settled need not be seen by a pass
        if not (unsettled & (strain * shrinking >= fraction)).any():
            return Rotation(matrix, scores, steep**2 * variance, rate, steps, shaped)


def _equations(
    shapes: Shapes, matrix: np.ndarray, lagged: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """psi of every pair, its slope of independent axes, and its variance; across views if there are two."""
    kappa = np.maximum(shapes.kappa, 0.0)
    within = kappa[:, None] + kappa
    if shapes.across is None:
        return shapes.psi, within, within
    own, kept = np.diag(shapes.across), np.diag(matrix @ lagged[0] @ matrix.T)
    slope = kept * shapes.slopes[:, None] - own
    return shapes.across - shapes.across.T, slope + slope.T, within * (1 + np.outer(kept, kept)) / 2


def _turned(matrix: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Axes turned by small angles, by Cayley's transform: a rotation to the last digit."""
    half, eye = (angles - angles.T) / 4, np.eye(len(angles))
    return np.asarray(np.linalg.solve(eye - half, (eye + half) @ matrix))


def _rates(matrix: np.ndarray, lagged: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(dim, dim) what lagged covariances add to J psi / V and to J^2 / V of every pair."""
    pull = np.zeros_like(matrix)
    information = np.zeros_like(matrix)
    for one in lagged:
        turned = matrix @ one @ matrix.T
        own = np.diag(turned)
        slope = own - own[:, None]
        # of s = (y_i y_j' + y_j y_i') / 2 for independent axes, from which making rows white takes shared w,
        # w = (y_i y_j + y_i' y_j') / 2 of the same variance; lags of one path tell much the same
        whole, shared = (1 + np.outer(own, own)) / 2, (own + own[:, None]) / 2
        variance = np.maximum(whole * (1 + shared**2) - 2 * shared**2, _STILL) * len(lagged)
        pull += turned * slope / variance
        information += slope**2 / variance
    return pull, information


def mean_rotation(halves: Sequence[Rotation], rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The axes of that of two rotations that tells more, in its order, and between both where they agree.

    What all rows say is nearer to the mean of what their halves say than to either. With them comes which of
    their shapes were heard.
    """
    better, other = sorted(halves, key=lambda one: -one.told(rows))
    cosines = better.matrix @ other.matrix.T
    match = scipy.optimize.linear_sum_assignment(-np.abs(cosines))[1]
    own = cosines[np.arange(len(match)), match]
    agreed = np.where(np.abs(own) > _AGREED, np.sign(own), 0.0)
    return nearest_rotation(better.matrix + agreed[:, None] * other.matrix[match]), better.shaped


def pass_over(*views: Tensor) -> Pass:
    """A pass over white rows that are in memory, of one view or of two, some at a time."""

    def one_pass(matrix: np.ndarray, scores: Tensor) -> Shapes:
        turn = torch.from_numpy(matrix).to(views[0].dtype)
        return sum_shapes(turn, _split(views), scores)

    return one_pass


def _measured_slopes(views: Sequence[Tensor], matrix: np.ndarray, scores: Tensor) -> np.ndarray:
    """(dim, dim) d psi_ij / d angle as white rows have it, within a view or across two, some at a time."""
    turn = torch.from_numpy(matrix).to(views[0].dtype)
    total = np.sum(
        [
            measure_slopes(turn @ first.T, scores, *(turn @ view.T for view in second)).double().numpy()
            for first, *second in _split(views)
        ],
        axis=0,
    )
    return np.asarray(total / len(views[0]))


def _split(views: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Rows of all views, so many at once as stay near the processor."""
    dim = views[0].shape[1]
    return zip(*(view.split(max(dim, _PIECE // dim)) for view in views), strict=True)


def _transposed(matrix: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix.T)).to(like.dtype)
