r"""Whitening of an embedding, and the rotation of white rows whose axes are independent components.

Whitening. Means, covariance S and, with second views, the lagged covariance C = E h h'^T stream over all
rows once, so a memory map of any size will do. White rows are W (h - mean) with W S W^T = I. Everything
else uses a sample of at most `MAX_SAMPLE_ROWS` rows (more where dimensions are many) in blocks of
consecutive rows, evenly spread: rows of a path depend on their neighbors, and statements about them rest on
blocks that hardly do.

Rotation. Rotate components i and j of white rows y by a small angle.

Shape. With scores g = -(log p)' of the marginal densities,

    psi_ij = E[g_i(y_i) y_j - g_j(y_j) y_i]        is 0 where components are independent,
    d psi_ij / d angle = kappa_i + kappa_j,         kappa = E g'(y) - E g(y) y >= 0,

and kappa is 0 for the normal density alone: two normal components cannot be told apart by shape (Comon 1994).
n (kappa_i + kappa_j) is the information of n independent rows about the angle. Scores are learned for each
component, as the combination a . b of b = (y, tanh y, y e, e), e = exp(-y^2 / 2), nearest to the true one, by
score matching (Hyvarinen 2005): E[b b^T] a = E b'.

Shape across views. Where pairs correlate by `MIN_ACROSS` or more, the second factor is that of the other
view:

    psi_ij = E[g_i(y_i) y_j' - g_j(y_j) y_i'],
    d psi_ij / d angle = c_j E g_i' - E g_i y_i' + c_i E g_j' - E g_j y_j',       c = E y y'.

Errors of an encoder are faster than latents and partly decorrelate from view to view, so they rotate these
axes less. The variance is at most (1 + c_i c_j) / 2 times that within a view.

Rate. Lagged covariances C = E y y'^T of a reversible process are diagonal at its axes, with
d C_ij / d angle = c_j - c_i (Tong et al. 1991; Belouchrani et al. 1997 for many lags).

All equations psi = 0, with slope J and variance V, are solved by Newton's steps for all pairs at once,

    angle_ij = - sum J psi / V  /  sum J^2 / V,

in which an equation without information (two normal shapes, two equal rates) has no weight. The first
rotation comes from the fixed point of FastICA (Hyvarinen 1999, with y^3) and from the eigenvectors of C.

Common cumulants. An encoder that compresses large embeddings, whatever their direction, correlates the
squares of all components and adds one fourth cumulant to every direction: mixtures can then look further
from normal than components do. Where squares correlate, slopes J are measured instead of taken from
independent components, and the fixed point also runs with the common cumulant removed, on both signs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.arrays import check_dense, to_array, to_float64
from isojepa.certificates.pairs import PairRows, join_paths
from isojepa.linear import nearest_rotation

MAX_SAMPLE_ROWS = 200_000
ROWS_PER_SQUARED_DIM = 8  # or 8 dim^2: in fewer rows a search misses uniform components
MAX_SAMPLE_NUMBERS = 1 << 27  # of one view, in memory
BLOCKS = 20  # half of them for each of two fits
MIN_BLOCKS = 2  # where rows depend on each other for long: with two, hardly anything exceeds chance
BLOCK_MEMORIES = 3.0  # least length of a block, in decorrelation times
PATH_LAGS = (2, 4, 8)  # besides 1, along paths
MIN_RELATIVE_VARIANCE = 1e-9  # of the largest, below which a direction does not vary
MIN_HALF_VARIANCE = 1e-6  # of a white direction in one half of the rows, likewise
MIN_VIEW_VARIANCE = 1e-6  # of a column in one view, against the other view
MAX_ROW_SHARE = 0.05  # of a column's variance in one row; above it the variance does not exist
MAX_MEAN_SHIFT = 0.5  # standard deviations between the means of both views of one distribution
_LISTED = 8  # columns that a message lists
SCORE_ROWS = 5_000  # that scores are learned from
_POOLED_VALUES = 100_000  # that one score of all components is learned from
MIN_ACROSS = 0.6  # mean correlation of pairs for equations across views
MIN_SQUARES_CORRELATION = 0.005  # mean over pairs of components, from which squares are correlated,
SQUARES_ERRORS = 4.0  # if it is so many standard errors
AGREEMENT = 0.9  # cosine of components of both halves, from which their mean is a component
_CUBIC = (26.638, -62.429, 31.608, 0.0)  # y^3 - 3 y of normal values, by b
_NORMAL = (1.0, 0.0, 0.0, 0.0)  # the score of a normal component: no information
_RIDGE = 1e-4  # distributions of a few values have no score
_SEARCH_STEPS = 30  # of the fixed point for each number of rows
_SEARCH_ROWS, _SEARCH_GROWTH = 10_000, 4  # rows it begins with (or dim^2), and their growth
_MIN_CUMULANT_ROWS = 500  # below which fourth cumulants are noise
_SETTLED = 0.02  # 1 - the smallest cosine of a step, from which Newton's steps take over
_NEWTON_STEPS = 40
_MAX_ANGLE, _MIN_ANGLE = 0.5, 1e-5  # radians of a step
_ERROR_FRACTION, _COARSE_FRACTION = 0.02, 0.1  # of its standard error, below which an angle has settled
_MAX_STALLED, _STALLED_ERRORS = 8, 2.0  # steps that do not shrink, in standard errors: nothing to settle at
_MIN_INFORMATION = 20.0  # over all rows, below which a pair hardly moves
_SLOPES = (0.2, 3.0)  # measured slopes against those of independent components
_MIN_VARIANCE = 1e-6  # of a lagged product: rounding
_PIECE = 1 << 18  # numbers at once
_SQUARES_NUMBERS = 1 << 22  # that the correlation of squares is measured on


@dataclass(frozen=True)
class Whitening:
    """A whitening transform, and lagged covariances of white rows.

    Attributes:
        mean: (width,) of the rows.
        matrix: (dim, width) to white coordinates.
        inverse: (width, dim) back.
        lagged: (dim, dim) symmetric, one for each lag; none without second views.
        rows: number of rows.
    """

    mean: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray
    lagged: tuple[np.ndarray, ...]
    rows: int

    def __call__(self, rows: np.ndarray) -> Tensor:
        """White rows, float32."""
        return torch.from_numpy((rows - self.mean) @ self.matrix.T).float()


@dataclass(frozen=True)
class Sample:
    """White rows in memory, in blocks of consecutive rows.

    Attributes:
        first: (n, dim) float32.
        second: (n, dim) of the second views; None without them.
        block: (n,) block of each row, ascending from 0.
    """

    first: Tensor
    second: Tensor | None
    block: np.ndarray

    def half(self, which: int) -> "Sample":
        """The rows of every other block, from block 0 or 1 on."""
        mask = torch.from_numpy(self.block % 2 == which)
        second = None if self.second is None else self.second[mask]
        return Sample(self.first[mask], second, self.block[mask.numpy()])

    def whitened(self) -> tuple["Sample", np.ndarray]:
        """The same rows, white among themselves, and the (dim, dim) matrix that does it."""
        views = [view for view in (self.first, self.second) if view is not None]
        covariance = np.mean([(view.T @ view).double().numpy() / len(view) for view in views], axis=0)
        values, vectors = np.linalg.eigh(covariance)
        # a direction that varies in the other half alone keeps no variance here: the halves disagree on it
        matrix = (vectors / np.sqrt(np.maximum(values, MIN_HALF_VARIANCE))) @ vectors.T
        first, *second = (view @ torch.from_numpy(matrix).to(view.dtype) for view in views)
        return Sample(first, second[0] if second else None, self.block), matrix

    def lagged(self) -> list[np.ndarray]:
        """The symmetric covariance of both views, if there are two."""
        if self.second is None:
            return []
        cross = (self.first.T @ self.second).double().numpy() / len(self.first)
        return [(cross + cross.T) / 2]


def sufficient_rows(dim: int) -> int:
    """Rows in which a search finds so many components, roughly."""
    return ROWS_PER_SQUARED_DIM * dim**2


def read_rows(
    h: Any, h_next: Any, paths: Any, drop: bool
) -> tuple[PairRows, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows in pairs, and rows of further lags along paths (`isojepa.unmixing.Unmixing.fit`)."""
    if paths is None:
        if h is None:
            raise ValueError("embeddings must be given, h or paths, got neither")
        return PairRows(h, h_next, drop=drop), []
    if h is not None or h_next is not None:
        raise ValueError("paths bring their own pairs, got h too: leave one out")
    if not isinstance(paths, list | tuple):
        block = to_array("paths", _to_numpy(paths))
        if block.ndim != 3:
            raise ValueError(
                f"paths must be (steps, paths, dim) or a list of (steps, dim), got shape {block.shape}"
            )
        paths = list(np.moveaxis(block, 1, 0))
    paths = [_to_numpy(path) for path in paths]
    pairs = join_paths("paths", paths)
    arrays = [to_float64(path) for path in paths]
    lags = []
    for lag in PATH_LAGS:
        longer = [path for path in arrays if len(path) > lag]
        if sum(len(path) - lag for path in longer) > 10 * arrays[0].shape[1]:
            first = np.concatenate([path[:-lag] for path in longer])
            second = np.concatenate([path[lag:] for path in longer])
            finite = np.isfinite(first).all(1) & np.isfinite(second).all(1)
            lags.append((first[finite], second[finite]))
    return PairRows(*pairs, drop=drop), lags


def _to_numpy(value: Any) -> Any:
    """A tensor as an array, bfloat16 as float32; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    check_dense("paths", value)
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def whiten(pairs: PairRows, dim: int | None, lags: Sequence[tuple[np.ndarray, np.ndarray]]) -> Whitening:
    """Read all rows once, and whiten them.

    Args:
        pairs: rows, with second views or without.
        dim: directions to keep: the slowest, without second views the leading principal ones; None for all.
        lags: rows and the rows of other lags after them, in memory.
    """
    width, paired = pairs.dim, pairs.paired
    _check_count(len(pairs), width)
    count, origin, largest = 0, np.zeros(width), np.zeros(width)
    squares, cross = np.zeros((2, width, width)), np.zeros((width, width))
    sums = np.zeros((2, width))
    for chunk in pairs.blocks():
        if not len(chunk):  # no finite row
            continue
        origin = origin if count else chunk.h.mean(0)
        views = [view - origin for view in (chunk.h, chunk.h_next) if view is not None]
        for place, view in enumerate(views):
            squares[place] += view.T @ view
            sums[place] += view.sum(0)
            largest = np.maximum(largest, np.abs(view).max(0) ** 2)
        if paired:
            cross += views[0].T @ views[1]
        count += len(chunk)
    _check_count(count, width, " without NaN or Inf")
    total = (1 + paired) * count
    center = sums.sum(0) / total
    covariance = squares.sum(0) / total - np.outer(center, center)
    _check_columns(covariance, origin, largest, total)
    scale = np.sqrt(np.diag(covariance))
    if paired:
        _check_views(np.stack([np.diag(square) for square in squares]) / count, sums / count, scale)
    # principal directions depend on the units of the columns; where all are kept, units must not matter
    units = scale if dim is None or paired else np.full(width, scale.max())
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    dim = width if dim is None else dim
    if dim > width:
        raise ValueError(f"dim must be at most the {width} dimensions that h has, got {dim}")
    rank = int((values > MIN_RELATIVE_VARIANCE * values[-1]).sum())
    if rank < dim:
        raise ValueError(f"h must vary in every direction, got {rank} of {width}: ask for dim={rank}")
    leading = rank if paired else dim
    values, vectors = values[::-1][:leading], vectors[:, ::-1][:, :leading]
    matrix, inverse = (vectors / np.sqrt(values)).T / units, vectors * np.sqrt(values) * units[:, None]
    lagged = []
    if paired:  # about the mean of both views, as the covariance is
        before, after = sums / count
        lagged.append(cross / count - np.outer(before, center) - np.outer(center, after - center))
    for rows, rows_later in lags:
        lagged.append((rows - origin - center).T @ (rows_later - origin - center) / len(rows))
    white = [matrix @ ((one + one.T) / 2) @ matrix.T for one in lagged]
    if leading > dim:
        slow = np.linalg.eigh(white[0])[1][:, ::-1][:, :dim]
        matrix, inverse = slow.T @ matrix, inverse @ slow
        white = [slow.T @ one @ slow for one in white]
    return Whitening(origin + center, matrix, inverse, tuple(white), count)


def take_sample(pairs: PairRows, whitening: Whitening) -> Sample:
    """White rows that fit in memory: all of them, or blocks of consecutive rows from everywhere."""
    rows, dim = len(pairs), len(whitening.matrix)
    most = min(max(MAX_SAMPLE_ROWS, sufficient_rows(dim)), MAX_SAMPLE_NUMBERS // dim)
    length = min(rows, max(most, 4 * dim + BLOCKS)) // BLOCKS
    starts = np.linspace(0, rows - length, BLOCKS).round().astype(int)
    ends = starts + length
    if length * BLOCKS >= rows - BLOCKS:  # all rows
        starts = np.arange(BLOCKS) * rows // BLOCKS
        ends = np.append(starts[1:], rows)
    chunks = [pairs.rows(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    first = torch.cat([whitening(chunk.h) for chunk in chunks])
    second = [whitening(chunk.h_next) for chunk in chunks if chunk.h_next is not None]
    _check_count(len(first), dim, " without NaN or Inf in the sample")
    block = np.arange(len(first)) * _count_blocks(first) // len(first)
    return Sample(first, torch.cat(second) if second else None, block)


def _count_blocks(white: Tensor) -> int:
    """Blocks of consecutive rows that hardly depend on each other, an even number of at most `BLOCKS`.

    As of a first-order autoregression, n (1 - r) of n rows, with r the correlation of neighbors: that of all
    directions together, or that of the slowest if it exceeds chance.
    """
    count, dim = white.shape
    near = (white[:-1].T @ white[1:]).double().numpy() / count
    slowest = float(np.linalg.eigvalsh((near + near.T) / 2)[-1])
    if slowest < 3 * np.sqrt(dim / count):
        slowest = 0.0
    r = min(max(float(np.trace(near)) / dim, slowest, 0.0), 1.0)
    return int(np.clip(count * (1 - r) / BLOCK_MEMORIES, MIN_BLOCKS, BLOCKS)) // 2 * 2


def _check_count(count: int, width: int, condition: str = "") -> None:
    least = 2 * width + 20
    if count < least:
        raise ValueError(
            f"h must have at least {least} rows{condition} to unmix {width} dimensions, got {count}"
        )


def _check_columns(covariance: np.ndarray, origin: np.ndarray, largest: np.ndarray, count: int) -> None:
    """Refuse constant columns, and variances that one row makes up."""
    variances = np.diag(covariance)
    constant = np.flatnonzero(variances <= (1e-12 * np.abs(origin)) ** 2 + 1e-200)
    if len(constant):
        raise ValueError(
            f"h must vary in every column, got constant ones: {_listed(constant)}; leave them out"
        )
    share = float((largest / (count * variances)).max())
    if share > MAX_ROW_SHARE + 20 / count:
        raise ValueError(
            f"h must have tails with a variance to be made white, got one row of {count} with {share:.0%} of "
            "a column's: leave out what is no measurement, or bring ranks"
        )


def _check_views(squares: np.ndarray, means: np.ndarray, scale: np.ndarray) -> None:
    """Refuse columns (2, width) that are constant in a view, or have other means in the second."""
    variances = squares - means**2
    constant = np.flatnonzero(variances.min(0) < MIN_VIEW_VARIANCE * scale**2)
    if len(constant):
        raise ValueError(
            "h and h_next must be two views of one thing, got columns that hardly vary in one view or both: "
            f"{_listed(constant)}"
        )
    shift = np.abs(means[1] - means[0]) / scale
    moved = np.flatnonzero(shift > MAX_MEAN_SHIFT)
    if len(moved):
        raise ValueError(
            f"h and h_next must have one distribution, got means that differ by up to {shift.max():.2g} "
            f"standard deviations, in columns {_listed(moved)}: both views of a stationary world have the "
            "same; if a drift is no part of it, subtract from each view its own mean"
        )


def _listed(columns: np.ndarray) -> str:
    return ", ".join(map(str, columns[:_LISTED].tolist())) + (", ..." if len(columns) > _LISTED else "")


@dataclass(frozen=True)
class Rotation:
    """Axes of white rows.

    Attributes:
        matrix: (dim, dim) orthogonal, a component in each row.
        scores: (4, dim) coefficients of the scores.
        information: (dim, dim) of one row about the angle of every pair.
        shaped: (dim,) components whose shape was used.
    """

    matrix: np.ndarray
    scores: Tensor
    information: np.ndarray
    shaped: np.ndarray

    def log_information(self, rows: int) -> float:
        """Information of so many rows about all angles together, in nats: starts are compared by it."""
        pairs = np.triu_indices(len(self.matrix), 1)
        return float(np.log1p(rows * self.information[pairs]).sum() / 2)


def find_rotation(
    views: Sequence[Tensor], lagged: Sequence[np.ndarray], rng: np.random.Generator
) -> Rotation:
    """Search from a random rotation.

    Args:
        views: (n, dim) white rows, and those of the second views where shapes are used across views.
        lagged: (dim, dim) symmetric lagged covariances of the same rows.
        rng: draws the first rotation.
    """
    starts = [_fixed_point(views[0], rng)]
    correlated = squares_correlate(views[0], starts[0])
    if correlated:
        starts += [_fixed_point(views[0], rng, sign) for sign in (1, -1)]
    if lagged:  # components of unequal rates, of any shape
        starts.append(np.linalg.eigh(np.sum(lagged, axis=0))[1].T)
    rotations = [
        refine_rotation(start, views, lagged, correlated, fraction=_COARSE_FRACTION) for start in starts
    ]
    return max(rotations, key=lambda rotation: rotation.log_information(len(views[0])))


def mean_rotation(halves: Sequence[Rotation], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The more informative of two rotations, moved halfway to the other where both agree; its `shaped`."""
    better, other = sorted(halves, key=lambda rotation: -rotation.log_information(rows))
    cosines = better.matrix @ other.matrix.T
    partner = scipy.optimize.linear_sum_assignment(-np.abs(cosines))[1]
    cosine = cosines[np.arange(len(partner)), partner]
    sign = np.where(np.abs(cosine) > AGREEMENT, np.sign(cosine), 0.0)
    return nearest_rotation(better.matrix + sign[:, None] * other.matrix[partner]), better.shaped


def squares_correlate(white: Tensor, matrix: np.ndarray) -> bool:
    """Whether the squares of components are correlated on average."""
    dim = len(matrix)
    if dim == 1:
        return False
    squares = rotate(white[:: max(1, white.numel() // _SQUARES_NUMBERS)], matrix).square() - 1
    # the sum over all pairs of components, row by row
    sums = squares.sum(0).double().square() - squares.square().sum(0).double()
    mean, error = float(sums.mean()), float(sums.std()) / np.sqrt(len(sums))
    return bool(abs(mean) > max(SQUARES_ERRORS * error, MIN_SQUARES_CORRELATION * dim * (dim - 1)))


def rotate(white: Tensor, matrix: np.ndarray) -> Tensor:
    """(dim, n) components of white rows (n, dim)."""
    return torch.from_numpy(np.ascontiguousarray(matrix)).to(white.dtype) @ white.T


def learn_scores(y: Tensor, count: int = SCORE_ROWS) -> Tensor:
    """(4, dim) coefficients of the score of each component (dim, n), from about `count` of its values."""
    y = y[:, :: max(1, y.shape[1] // count)].double()
    basis = torch.stack(_basis(y), 1)
    _, tanh, ye, e = basis.unbind(1)
    slopes = torch.stack((torch.ones_like(y), 1 - tanh * tanh, e - y * ye, -ye), 1).mean(2)
    products = basis @ basis.mT / y.shape[1]
    scores: Tensor = torch.linalg.solve(products + _RIDGE * torch.eye(4, dtype=y.dtype), slopes)
    return scores.T.contiguous()


def score(y: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """g of the values of components (dim, n), and the mean of g' of each, (dim,)."""
    a, b, c, d = scores.to(y.dtype)[:, :, None]
    _, tanh, ye, e = _basis(y)
    count = y.shape[1]
    sums = [part.double() for part in (tanh.square().sum(1), e.sum(1), ye.sum(1), (y * ye).sum(1))]
    first, second, third, fourth = scores.double()
    slope = first + second + (third * (sums[1] - sums[3]) - second * sums[0] - fourth * sums[2]) / count
    return torch.addcmul(a * y, b, tanh).addcmul_(c, ye).addcmul_(d, e), slope


def _basis(y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    e = torch.exp((y * y).mul_(-0.5))
    return y, torch.tanh(y), y * e, e


class _Moments(NamedTuple):
    """E g_i(y_i) y_j; E g_i'(y_i); the first across views, the mean of both directions."""

    products: np.ndarray
    slopes: np.ndarray
    across: np.ndarray | None


def _moments(matrix: np.ndarray, views: Sequence[Tensor], scores: Tensor) -> _Moments:
    dim, count = len(matrix), len(views[0])
    products, across = torch.zeros(2, dim, dim, dtype=torch.float64)
    slopes = torch.zeros(dim, dtype=torch.float64)
    for pieces in _pieces(views):
        y = [rotate(piece, matrix) for piece in pieces]
        g, slope = score(y[0], scores)
        products += g @ y[0].T
        slopes += slope * len(pieces[0])
        if len(y) == 2:
            across += (g @ y[1].T + score(y[1], scores)[0] @ y[0].T) / 2
    means = [(total / count).numpy() for total in (products, slopes, across)]
    return _Moments(means[0], means[1], means[2] if len(views) == 2 else None)


def _pieces(views: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    dim = views[0].shape[1]
    return zip(*(view.split(max(dim, _PIECE // dim)) for view in views), strict=True)


def _fixed_point(white: Tensor, rng: np.random.Generator, sign: int = 0) -> np.ndarray:
    """A rotation whose components are far from normal, by FastICA's fixed point, in growing numbers of rows.

    With a sign, the components of the largest, or the smallest, fourth cumulants: less than any component
    had on the way is subtracted from all of them, so that every step climbs.
    """
    dim = white.shape[1]
    matrix, common = nearest_rotation(rng.standard_normal((dim, dim))), np.inf
    count = max(_SEARCH_ROWS, dim**2) * (_SEARCH_GROWTH if sign else 1)
    pooled = len(white) < _MIN_CUMULANT_ROWS
    while True:
        rows = white[:: max(1, len(white) // count)]
        for _ in range(_SEARCH_STEPS):
            scores = _pooled_scores(rotate(rows, matrix)) if pooled else _repeated(_CUBIC, dim)
            moments = _moments(matrix, [rows], scores)
            move = moments.products - np.diag(moments.slopes)
            if sign:
                cumulants = sign * np.diag(move)
                common = min(common, 2 * cumulants.min() - cumulants.mean())
                move = sign * move - common * np.eye(dim)
            move = nearest_rotation(move)
            matrix = np.asarray(move @ matrix)
            if 1 - np.abs(np.diag(move)).min() < _SETTLED:
                return matrix
        if sign or (pooled and len(rows) == len(white)):
            return matrix
        pooled |= len(rows) == len(white)  # skewness may show where fourth cumulants do not
        count *= _SEARCH_GROWTH


def _pooled_scores(y: Tensor) -> Tensor:
    """(4, dim) one score for all components (dim, n) together, each flipped to its longer tail."""
    flip = torch.where((y**3).mean(1) < 0, -1.0, 1.0)
    scores = learn_scores((y * flip[:, None].to(y.dtype)).reshape(1, -1), _POOLED_VALUES).repeat(1, len(y))
    scores[3] *= flip  # the only even one of the four functions
    return scores


def _repeated(coefficients: tuple[float, ...], dim: int) -> Tensor:
    return torch.tensor(coefficients, dtype=torch.float64)[:, None].repeat(1, dim)


def refine_rotation(
    matrix: np.ndarray,
    views: Sequence[Tensor],
    lagged: Sequence[np.ndarray],
    correlated: bool,
    shaped: np.ndarray | None = None,
    fraction: float = _ERROR_FRACTION,
) -> Rotation:
    """Newton's steps from a rotation.

    Args:
        matrix: the first rotation.
        views, lagged: as in `find_rotation`.
        correlated: whether slopes are measured, see `squares_correlate`.
        shaped: (dim,) components whose shape is used; None for all.
        fraction: of its standard error, below which an angle has settled.
    """
    rows, dim = len(views[0]), len(matrix)
    shaped = np.ones(dim, bool) if shaped is None else shaped
    few = views[0][:: max(1, rows // SCORE_ROWS)]
    steps, stalled, least = 0, 0, np.inf
    while True:
        scores = learn_scores(rotate(few, matrix))
        scores[:, torch.from_numpy(~shaped)] = _repeated(_NORMAL, int((~shaped).sum()))
        psi, slope, variance = _shape_equations(_moments(matrix, views, scores), matrix, lagged)
        if correlated:
            slope = _measured_slopes(views, matrix, scores)
        pull, rate = rate_equations(matrix, lagged)
        steep = np.clip(slope / np.maximum(variance, _MIN_VARIANCE), *_SLOPES)
        # a learned score finds a little shape in normal rows too, which must not outweigh the rates
        trust = variance / (variance + _MIN_INFORMATION / min(rows, SCORE_ROWS))
        information = trust * steep**2 * variance + rate
        angles = -(trust * steep * psi + pull) / (information + _MIN_INFORMATION / rows)
        np.fill_diagonal(angles, 0.0)
        angles = np.clip(angles, -_MAX_ANGLE, _MAX_ANGLE)
        informed = information > 5 * _MIN_INFORMATION / rows  # the others have no angle to settle at
        errors = np.abs(angles) * np.sqrt(information * rows)  # steps in standard errors
        moved = float(np.sqrt((errors[informed] ** 2).mean())) if informed.any() else 0.0
        stalled = stalled + 1 if 0.5 * least < moved < _STALLED_ERRORS else 0
        least = min(least, moved)
        settled = not (informed & (np.abs(angles) >= _MIN_ANGLE) & (errors >= fraction)).any()
        if settled or steps == _NEWTON_STEPS or stalled == _MAX_STALLED:
            return Rotation(matrix, scores, steep**2 * variance + rate, shaped)
        half, eye = (angles - angles.T) / 4, np.eye(dim)  # Cayley's transform: an exact rotation
        matrix = np.asarray(np.linalg.solve(eye - half, (eye + half) @ matrix))
        steps += 1


def _shape_equations(
    moments: _Moments, matrix: np.ndarray, lagged: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """psi, its slope for independent components, and its variance; across views if there are two."""
    kappa = np.maximum(moments.slopes - np.diag(moments.products), 0.0)
    within = kappa[:, None] + kappa
    if moments.across is None:
        return moments.products - moments.products.T, within, within
    c = np.diag(matrix @ lagged[0] @ matrix.T)
    slope = c * moments.slopes[:, None] - np.diag(moments.across)
    variance = within * (1 + np.outer(c, c)) / 2
    return moments.across - moments.across.T, slope + slope.T, variance


def _measured_slopes(views: Sequence[Tensor], matrix: np.ndarray, scores: Tensor) -> np.ndarray:
    """d psi_ij / d angle = E[g_i' y_j^2 + g_j' y_i^2 - g_i y_i - g_j y_j], whatever components share."""
    dim = len(matrix)
    total = torch.zeros(dim, dim, dtype=torch.float64)
    a, b, c, d = scores.to(views[0].dtype)[:, :, None]
    for pieces in _pieces(views):
        y, later = rotate(pieces[0], matrix), rotate(pieces[-1], matrix)
        _, tanh, ye, e = _basis(y)
        slope = a + b * (1 - tanh * tanh) + c * (e - y * ye) - d * ye
        diagonal = (score(y, scores)[0] * later).sum(1)
        crossed = slope @ (y * later).T
        total += crossed + crossed.T - diagonal[:, None] - diagonal
    return np.asarray((total / len(views[0])).numpy())


def rate_equations(matrix: np.ndarray, lagged: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(dim, dim) sums over lagged covariances of J psi / V and of J^2 / V of every pair."""
    pull, information = np.zeros_like(matrix), np.zeros_like(matrix)
    for covariance in lagged:
        rotated = matrix @ covariance @ matrix.T
        c = np.diag(rotated)
        slope = c - c[:, None]
        # V of s = (y_i y_j' + y_j y_i') / 2 for independent components, less what whitening takes from it,
        # the part that s shares with w = (y_i y_j + y_i' y_j') / 2; lags of one path are nearly redundant
        own, shared = (1 + np.outer(c, c)) / 2, (c + c[:, None]) / 2
        variance = np.maximum(own * (1 + shared**2) - 2 * shared**2, _MIN_VARIANCE) * len(lagged)
        pull += rotated * slope / variance
        information += slope**2 / variance
    return pull, information
