r"""Procrustes distances: how far two embeddings are apart after the best rotation (Williams et al., 2021).

With centred X and Y (padded with columns of 0 to one width), s = ||X' Y||_* the sum of singular values,

    angular       arccos( s / (||X|| ||Y||) ), 0 to pi/2: rotation and scale do not matter
    orthogonal    min over rotations Q of ||X Q - Y|| = sqrt(||X||^2 + ||Y||^2 - 2 s): scale matters; it grows
                  with the root of the number of rows

as netrep's LinearMetric(alpha=1) with score_method "angular" and "euclidean". Small is alike. Chance is
what re-paired rows give. Intervals, from influence values of s, cover what the distance tends to be at this
number of rows; an angle's lower end is 0 where the cosine's upper end passes 1.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.align.metrics.comparison import Comparison, compared, null_of_draws
from isojepa.align.metrics.crossings import DRAWS, Axes, crossings, draws_in_words, singular_sum
from isojepa.align.metrics.inputs import Pair, centred, check_options, read_pair
from isojepa.arguments import checked
from isojepa.certificates.intervals import Interval, from_samples


@checked
def angular_procrustes(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Angular Procrustes distance.

    Args:
        first, second: (n, d1) and (n, d2).
        confidence: of the interval.
        null: whether to work out chance.
        draws: of re-paired rows.
        seed: of the draws.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them.
    """
    pair = read_pair(first, second, drop_constant=drop_constant)
    return distances(pair, _centred(pair), confidence, null, draws, seed)[0]


@checked
def orthogonal_procrustes(
    first: Any,
    second: Any,
    *,
    confidence: float = 0.95,
    null: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Orthogonal Procrustes distance, scale included. Arguments as for `angular_procrustes`."""
    pair = read_pair(first, second, drop_constant=drop_constant)
    return distances(pair, _centred(pair), confidence, null, draws, seed)[1]


def distances(
    pair: Pair,
    sides: tuple[Tensor, Tensor],
    confidence: float,
    null: bool,
    draws: int,
    seed: int,
    axes: tuple[Axes, Axes] | None = None,
    products: Tensor | None = None,
) -> tuple[Comparison, Comparison]:
    """Both distances of centred sides; `axes` and `products` (X' Y) if they are known."""
    check_options(confidence, draws)
    x, y = sides
    n = len(x)
    u, values, v = torch.linalg.svd(x.T @ y if products is None else products, full_matrices=False)
    size = float(values.sum())
    one, two = x.square().sum(1), y.square().sum(1)
    squares = float(one.sum()), float(two.sum())
    matched = ((x @ u) * (y @ v.T)).sum(1)  # sums to `size`
    root = math.sqrt(squares[0] * squares[1])
    cosine = size / root
    added = n * (matched / root - cosine / 2 * (one / squares[0] + two / squares[1]))
    along = from_samples(added.numpy(), confidence, cosine)
    angle = Interval(_angle(cosine), _angle(along.high), _angle(along.low))
    apart = _apart(x, y, u @ v, sum(squares), size)
    residual = n * (one + two - 2 * matched).numpy()
    squared = from_samples(residual, confidence, apart)
    far = Interval(*(math.sqrt(max(0.0, end)) for end in (apart, squared.low, squared.high)))
    angular = orthogonal = None
    if null:
        one_axes, two_axes = axes or (Axes.of(x), Axes.of(y))
        sizes = [_nuclear(one_axes, two_axes, c) for c in crossings(one_axes, two_axes, draws, seed)]
        how = draws_in_words(n, draws)
        drawn = np.array([_angle(s / root) for s in sizes])
        angular = null_of_draws(angle.estimate, drawn, False, how)
        drawn = np.array([math.sqrt(max(0.0, sum(squares) - 2 * s)) for s in sizes])
        orthogonal = null_of_draws(far.estimate, drawn, False, how)
    return (
        compared("angular Procrustes", angle, angular, best=0.0, rows=n, note=pair.note),
        compared("orthogonal Procrustes", far, orthogonal, best=0.0, rows=n, note=pair.note),
    )


def _apart(x: Tensor, y: Tensor, rotation: Tensor, squares: float, size: float) -> float:
    """min ||X Q - Y||^2: where it is small, from the rows: the difference of large numbers loses digits."""
    apart = squares - 2 * size
    if apart < 1e-6 * squares and x.shape[1] == y.shape[1]:
        return float((x @ rotation - y).square().sum())
    return max(0.0, apart)


def _nuclear(one: Axes, two: Axes, crossed: Tensor) -> float:
    return singular_sum(one.sizes[:, None] * crossed * two.sizes)


def _angle(cosine: float) -> float:
    return math.acos(min(1.0, max(-1.0, cosine)))  # rounding passes 1


def _centred(pair: Pair) -> tuple[Tensor, Tensor]:
    return centred(pair.first, scale=False), centred(pair.second, scale=False)
