r"""Scores of two embeddings of the same states: plain functions of rows (n, p) and (n, q).

With centered X (n, p), Y (n, q), singular values S of a product, and U the principal axes of a side:

    CKA                      ||X'Y||^2 / (||X'X|| ||Y'Y||)                             (Kornblith et al. 2019)
    unbiased CKA             the same, each <K, L> summed over different rows only     (Song et al., 2012)
    mean CCA                 mean of rho = S(U_x' U_y)
    SVCCA                    the same, of the axes that hold 99 % of the variance      (Raghu et al., 2017)
    PWCCA                    rho_k weighted by sum_j |h_k . x_j|                       (Morcos et al., 2018)
    angular Procrustes       arccos( sum S(X'Y) / (||X|| ||Y||) )                      (Williams et al., 2021)
    orthogonal Procrustes    sqrt( ||X||^2 + ||Y||^2 - 2 sum S(X'Y) )
    DSC                      Spearman correlation of Euclidean distances between rows  (Social-JEPA)
    RSA                      the same of 1 - correlation of two rows over columns  (Kriegeskorte et al. 2008)
    NO@k, NOS@k              share of the k nearest neighbors in common; 1 - NO@k   (Social-JEPA, Eqs. 7, 8)
    mutual k-NN              NO@k by cosine                                            (Huh et al., 2024)
    cycle k-NN               fraction of i with a b in N_k^2(i) and i in N_k^1(b), by cosine
    MSE, R2                  of a linear map, on rows that it was not fitted on

All but the last three groups are functions of second moments, of [x, |x|^2] for the unbiased CKA: leaving
out a block of rows and pairing rows wrongly only add and subtract products.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.statistics.nulls import PairingPlan
from isojepa.validation import check_count, choose

SVCCA_VARIANCE = 0.99
DISTANCE_ROWS = 1000  # rows whose distances are compared, evenly spaced
PAIRWISE_ROWS = 500  # the same for the nulls of distances and neighbors
_SMALLEST = 1e-140  # size of rows whose squares a float holds
_RANK = 1e-12  # variance against the largest of a direction that is rounding
_CANCELED = 1e-6  # squared distance against the squares below which digits are lost
_TIED = 1e-12  # differences of distances against the largest that are rounding
_SPARE = 0.25  # neighbors listed beyond k, for blocks of rows that are left out


DISTANCES = {"DSC": "euclidean", "RSA": "correlation"}
NEIGHBORS = ("NO", "NOS", "mutual k-NN", "cycle k-NN")


class Side:
    """Second moments of one embedding in a window.

    Args:
        count: rows.
        sums: (p + 1,) of [x, |x|^2].
        products: (p + 1, p + 1) of [x, |x|^2].
    """

    def __init__(self, count: int, sums: np.ndarray, products: np.ndarray) -> None:
        self.count = count
        self.mean = sums[:-1] / count
        self.products = products[:-1, :-1] - count * np.outer(self.mean, self.mean)
        # |x - mean|^2 = weights . [x, |x|^2] + constant
        self.weights = np.append(-2 * self.mean, 1.0)
        self.constant = float(self.mean @ self.mean)
        self.weighted = float(self.weights @ sums)
        self.length = self.weighted + count * self.constant
        self.squares = float(
            self.weights @ products @ self.weights + self.constant * (self.weighted + self.length)
        )

    @functools.cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Variances (r,), falling, and directions (p, r) divided by their square roots."""
        values, vectors = scipy.linalg.eigh(self.products)
        significant = values > _RANK * max(values[-1], 0.0)
        values, vectors = values[significant][::-1], vectors[:, significant][:, ::-1]
        return values, vectors / np.sqrt(values)

    def leading(self, share: float) -> int:
        """Number of axes that hold a share of the variance."""
        held = np.cumsum(self.axes[0])
        return int(np.searchsorted(held / held[-1], share * (1 - 1e-12))) + 1


class Crossing:
    """Two sides, and their products as rows are paired.

    Args:
        one, two: moments of the sides.
        products: (p + 1, q + 1) of [x, |x|^2] and [y, |y|^2].
    """

    def __init__(self, one: Side, two: Side, products: np.ndarray) -> None:
        self.one, self.two, self.count = one, two, one.count
        self.products = products[:-1, :-1] - self.count * np.outer(one.mean, two.mean)
        self.squares = float(one.weights @ products @ two.weights)
        self.squares += two.constant * one.weighted + one.constant * two.length

    @functools.cached_property
    def crossed(self) -> np.ndarray:
        """(r1, r2) products of the principal axes."""
        crossed: np.ndarray = self.one.axes[1].T @ self.products @ self.two.axes[1]
        return crossed

    @functools.cached_property
    def nuclear(self) -> float:
        """Sum of the singular values of X'Y."""
        return _singular_sum(self.products)

    def enough(self, name: str, widths: tuple[int, ...]) -> None:
        """Check that canonical correlations are not all 1."""
        if self.count < max(widths) + 2:
            raise ValueError(
                f"{name} must have at least 2 rows more than dimensions, got {self.count} rows and "
                f"{max(widths)} dimensions, where every correlation is 1: use more rows, or unbiased CKA"
            )


def _cka(c: Crossing) -> float:
    squares = float((c.one.products**2).sum()) * float((c.two.products**2).sum())
    return float((c.products**2).sum()) / math.sqrt(squares)


def _unbiased_cka(c: Crossing) -> float:
    n = c.count

    def inner(products: np.ndarray, squares: float, a: float, b: float) -> float:
        return float((products**2).sum()) - n / (n - 2) * squares + a * b / ((n - 1) * (n - 2))

    one, two = c.one, c.two
    squares = inner(one.products, one.squares, one.length, one.length)
    squares *= inner(two.products, two.squares, two.length, two.length)
    if not squares > 0:
        raise ValueError(
            "first and second must vary enough for the unbiased CKA, got an unbiased size of 0 or less: use "
            "cka, or more rows"
        )
    return inner(c.products, c.squares, one.length, two.length) / math.sqrt(squares)


def _mean_cca(c: Crossing) -> float:
    c.enough("mean CCA", c.crossed.shape)
    return _singular_sum(c.crossed) / float(min(c.crossed.shape))


def _svcca(c: Crossing, variance: float = SVCCA_VARIANCE) -> float:
    widths = c.one.leading(variance), c.two.leading(variance)
    c.enough("SVCCA", widths)
    return _singular_sum(c.crossed[: widths[0], : widths[1]]) / min(widths)


def _pwcca(c: Crossing) -> float:
    c.enough("PWCCA", c.crossed.shape)
    left, correlations, _ = scipy.linalg.svd(c.crossed, full_matrices=False)
    weights = np.abs((c.one.axes[1] @ left).T @ c.one.products).sum(1)
    return float(weights @ correlations / weights.sum())


def _cosine(c: Crossing) -> float:
    return c.nuclear / math.sqrt(float(np.trace(c.one.products)) * float(np.trace(c.two.products)))


def _angular(c: Crossing) -> float:
    return math.acos(min(1.0, max(-1.0, _cosine(c))))


MOMENT_SCORES: dict[str, Callable[[Crossing], float] | None] = {
    "CKA": _cka,
    "unbiased CKA": _unbiased_cka,
    "mean CCA": _mean_cca,
    "SVCCA": _svcca,
    "PWCCA": _pwcca,
    "angular Procrustes": _angular,
    "orthogonal Procrustes": None,  # in the units of the rows: `MomentScores`
}


class MomentScores:
    """Scores of second moments, of the rows as they are paired, without blocks, and of wrong pairings.

    Args:
        first, second: (n, p) and (n, q).
        names: of `MOMENT_SCORES`.
    """

    def __init__(self, first: np.ndarray, second: np.ndarray, names: Sequence[str]) -> None:
        self.names = list(names)
        self.scales = []
        self.sides = []
        for rows in (first, second):
            n, p = rows.shape
            side = np.empty((n, p + 1))
            np.subtract(rows, rows.mean(0), out=side[:, :p])
            size = math.sqrt(float(np.vdot(side[:, :p], side[:, :p])) / (n * p))
            if not _SMALLEST < size < 1 / _SMALLEST:  # squares overflow, or vanish
                largest = float(np.abs(side[:, :p]).max())
                size = largest * math.sqrt(float(((side[:, :p] / largest) ** 2).sum()) / (n * p))
            side[:, :p] /= size
            if p >= n:
                x = _principal(side[:, :p])
                side = np.concatenate((x, np.empty((n, 1))), 1)
            np.einsum("ij,ij->i", side[:, :-1], side[:, :-1], out=side[:, -1])
            self.scales.append(size)
            self.sides.append(side)

    def values(self, crossing: Crossing) -> np.ndarray:
        """Scores (names,) of moments; NaN where one cannot be had."""
        return np.array([self._value(name, crossing) for name in self.names])

    def whole(self, name: str) -> float:
        """A score of all rows.

        Raises:
            ValueError: it cannot be had.
        """
        score = self._score(name, self._crossing)
        if name == "orthogonal Procrustes" and score**2 < _CANCELED * self._squares(self._crossing):
            return self._residual()
        return score

    def without(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """Scores (blocks, names) of all rows but a block."""
        x, y = self.sides
        left_out = []
        for block in blocks:
            a, b = x[block], y[block]
            sides = [
                Side(len(x) - len(block), total[0] - part[0], total[1] - part[1])
                for total, part in zip(self._totals[:2], (_sums(a), _sums(b)), strict=True)
            ]
            left_out.append(self.values(Crossing(sides[0], sides[1], self._totals[2] - a.T @ b)))
        return np.stack(left_out)

    def null(self, plan: PairingPlan) -> np.ndarray:
        """Scores (1 + draws, names) of all pairings of a plan."""
        x, y = self.sides
        window = np.ascontiguousarray(x[plan.rows])
        one = Side(len(window), *_sums(window))
        two = self._crossing.two if plan.steps is None else None
        scores = []
        for partners in plan.partners():
            other = y[partners]
            side = two or Side(len(other), *_sums(other))
            scores.append(self.values(Crossing(one, side, window.T @ other)))
        return np.stack(scores)

    @functools.cached_property
    def _totals(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], np.ndarray]:
        x, y = self.sides
        return _sums(x), _sums(y), x.T @ y

    @functools.cached_property
    def _crossing(self) -> Crossing:
        one, two, products = self._totals
        return Crossing(Side(len(self.sides[0]), *one), Side(len(self.sides[1]), *two), products)

    def _value(self, name: str, crossing: Crossing) -> float:
        try:
            return self._score(name, crossing)
        except ValueError:
            return math.nan

    def _score(self, name: str, crossing: Crossing) -> float:
        score = MOMENT_SCORES[name]
        return self._orthogonal(crossing) if score is None else score(crossing)

    def _squares(self, c: Crossing) -> float:
        one, two = self.scales
        return one**2 * float(np.trace(c.one.products)) + two**2 * float(np.trace(c.two.products))

    def _orthogonal(self, c: Crossing) -> float:
        return math.sqrt(max(0.0, self._squares(c) - 2 * self.scales[0] * self.scales[1] * c.nuclear))

    def _residual(self) -> float:
        """Orthogonal distance of all rows from the rows: the difference of large numbers loses digits."""
        x, y = (
            scale * (side[:, :-1] - side[:, :-1].mean(0))
            for scale, side in zip(self.scales, self.sides, strict=True)
        )
        width = max(x.shape[1], y.shape[1])
        x, y = (np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in (x, y))
        u, _, v = scipy.linalg.svd(x.T @ y)
        return float(np.linalg.norm(x @ (u @ v) - y))


class NeighborSide:
    """Nearest neighbors in one embedding.

    Args:
        rows: (n, p).
        most: largest number of neighbors.
        cosine: by cosine in place of Euclidean distance.
    """

    def __init__(self, rows: np.ndarray, most: int, cosine: bool) -> None:
        self.rows = unit_rows(rows) if cosine else rows
        listed = min(len(rows) - 1, math.ceil((1 + _SPARE) * most) + 5)
        self.lists = nearest(torch.from_numpy(self.rows), listed).numpy()


class NeighborScores:
    """Overlaps of nearest neighbors for several k, and the share of cycles.

    Args:
        first, second: sides of the same states, with at least as many neighbors as the largest k.
        ks: numbers of neighbors.
        cycle: number of neighbors of cycles; None for none.
    """

    def __init__(
        self, first: NeighborSide, second: NeighborSide, ks: Sequence[int], cycle: int | None
    ) -> None:
        self.rows, self.lists = (first.rows, second.rows), (first.lists, second.lists)
        self.ks, self.cycle = list(ks), cycle

    def whole(self) -> np.ndarray:
        """Scores (ks and cycle,) of all rows."""
        whole: np.ndarray = self.without([np.zeros(0, np.int64)])[0]
        return whole

    def without(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """Scores (blocks, ks and cycle) of all rows but a block."""
        one, two = self.lists
        n = len(one)
        place = _places(one, two)  # of the first's neighbors in the second's list, `listed` if absent
        scores = []
        for block in blocks:
            stays = np.ones(n, bool)
            stays[block] = False
            here, there = stays[one], stays[two]
            ranks = [np.where(kept, np.cumsum(kept, 1), n) for kept in (here, there)]
            other = np.concatenate((ranks[1], np.full((n, 1), n)), 1)
            both = np.maximum(ranks[0], np.take_along_axis(other, place, 1))[stays]
            line = [float((both <= k).sum()) / (k * stays.sum()) for k in self.ks]
            if self.cycle is not None:
                line.append(float(_cycles(one, two, ranks, self.cycle)[stays].mean()))
            scores.append(line)
        return np.array(scores)

    def null(self, plan: PairingPlan, rows: np.ndarray) -> np.ndarray:
        """Scores (1 + draws, ks and cycle) of all pairings of a plan, of some rows."""
        squares = [_squares(side[rows]) for side in self.rows]
        most = max((*self.ks, self.cycle or 1))
        if len(plan.rows) <= most:
            return np.full((1 + plan.draws, len(self.ks) + (self.cycle is not None)), np.nan)
        one, scores = _nearest(squares[0][np.ix_(plan.rows, plan.rows)], most), []
        two = _nearest(squares[1], most) if plan.steps is None else None
        w = len(one)
        rank = np.full((w, w), w, np.int32)
        np.put_along_axis(rank, one, np.arange(1, most + 1, dtype=np.int32)[None], 1)
        for partners in plan.partners():
            if two is None:
                other = _nearest(
                    squares[1][partners[0] : partners[-1] + 1, partners[0] : partners[-1] + 1], most
                )
            else:
                back = np.empty_like(partners)
                back[partners] = np.arange(w)
                other = back[two[partners]]
            ranks = np.take_along_axis(rank, other, 1)
            line = [float((ranks[:, :k] <= k).sum()) / (k * w) for k in self.ks]
            if self.cycle is not None:
                k = self.cycle
                line.append(float((rank[other[:, :k], np.arange(w)[:, None]] <= k).any(1).mean()))
            scores.append(line)
        return np.array(scores)


class DistanceSide:
    """Ranks of distances in one embedding, between at most 1,000 rows that are evenly spaced.

    Args:
        rows: (n, p).
        kind: euclidean, cosine or correlation.
    """

    def __init__(self, rows: np.ndarray, kind: str) -> None:
        self.rows = choose("dissimilarity", kind, DISSIMILARITIES)(rows)
        self.chosen = thin(len(rows), DISTANCE_ROWS)
        self.ranks = _rank_matrix(self.rows[self.chosen])
        self.few = _rank_matrix(self.rows[thin(len(rows), PAIRWISE_ROWS)]).astype(np.float32)


class DistanceScores:
    """Spearman correlation of distances between rows.

    Args:
        first, second: sides of the same states.
    """

    def __init__(self, first: DistanceSide, second: DistanceSide) -> None:
        self.one, self.two = first, second

    def whole(self) -> float:
        """The score of all chosen rows."""
        return _correlation(self.one.ranks, self.two.ranks)

    def without(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """Scores (blocks,) of all rows but a block, ranks as they are."""
        one, two, chosen = self.one.ranks, self.two.ranks, self.one.chosen
        lines = [matrix.sum(1) for matrix in (one, two)]
        lines += [np.einsum("ij,ij->i", a, b) for a, b in ((one, two), (one, one), (two, two))]
        scores = []
        for block in blocks:
            rows = np.flatnonzero(np.isin(chosen, block))
            a, b = (matrix[np.ix_(rows, rows)] for matrix in (one, two))
            inside = (a.sum(), b.sum(), np.vdot(a, b), np.vdot(a, a), np.vdot(b, b))
            sums = [
                line.sum() - 2 * line[rows].sum() + both for line, both in zip(lines, inside, strict=True)
            ]
            scores.append(_pearson(len(one) - len(rows), *map(float, sums)))
        return np.array(scores)

    def null(self, plan: PairingPlan) -> np.ndarray:
        """Scores (1 + draws,) of all pairings of a plan of some rows, `thin(n, PAIRWISE_ROWS)`."""
        one, two = self.one.few[np.ix_(plan.rows, plan.rows)], self.two.few
        return np.array([_correlation(one, two[np.ix_(other, other)]) for other in plan.partners()])


@dataclass(frozen=True)
class MapScores:
    """MSE and R2 of a map on rows that it was not fitted on.

    Attributes:
        predicted, second: (m, q) of the scored rows, standardized.
    """

    predicted: np.ndarray
    second: np.ndarray

    def whole(self) -> np.ndarray:
        """MSE and R2 (2,)."""
        return self._scores(*self._parts())

    def without(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """MSE and R2 (blocks, 2) of all rows but a block."""
        errors, spread = self._parts()
        scores = []
        for block in blocks:
            stays = np.ones(len(errors), bool)
            stays[block] = False
            scores.append(self._scores(errors[stays], spread[stays]))
        return np.stack(scores)

    def null(self, plan: PairingPlan) -> np.ndarray:
        """MSE and R2 (1 + draws, 2) of all pairings of a plan, the map held fixed."""
        predicted = self.predicted[plan.rows]
        scores = []
        for partners in plan.partners():
            scores.append(MapScores(predicted, self.second[partners]).whole())
        return np.stack(scores)

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        errors = ((self.second - self.predicted) ** 2).sum(1)
        return errors, ((self.second - self.second.mean(0)) ** 2).sum(1)

    @staticmethod
    def _scores(errors: np.ndarray, spread: np.ndarray) -> np.ndarray:
        if not spread.sum() > 0:
            raise ValueError("second must vary among the rows that are scored, got equal rows")
        return np.array([errors.mean(), 1 - errors.sum() / spread.sum()])


@dataclass(frozen=True)
class FittedScores:
    """MSE and R2 of a ridge map fitted anew for each pairing: on one part of the rows, scored on another.

    Attributes:
        fitted, scored: (a, p), (m, p) rows of the first, standardized by the fitted ones.
        second_fitted, second_scored: (a, q), (m, q) of the second, likewise.
        penalty: of the ridge.
    """

    fitted: np.ndarray
    scored: np.ndarray
    second_fitted: np.ndarray
    second_scored: np.ndarray
    penalty: float

    def null(self, plans: tuple[PairingPlan, PairingPlan]) -> np.ndarray:
        """MSE and R2 (1 + draws, 2) of the pairings of both parts."""
        scores = []
        x, z = self.fitted[plans[0].rows], self.scored[plans[1].rows]
        x, z = x - x.mean(0), z - x.mean(0)
        gram, scored = x.T @ x, z.T @ z
        gram[np.diag_indices(len(gram))] += self.penalty + 1e-10 * np.trace(gram) / len(gram)
        inverse, sums = scipy.linalg.inv(gram), z.sum(0)
        for one, two in zip(plans[0].partners(), plans[1].partners(), strict=True):
            y, w = self.second_fitted[one], self.second_scored[two]
            middle, center = y.mean(0), w.mean(0)
            matrix = inverse @ (x.T @ y)  # x is centered
            spread = float(np.vdot(w, w)) - len(w) * float(center @ center)
            away = spread + len(w) * float(((center - middle) ** 2).sum())
            cross = z.T @ w - np.outer(sums, middle)
            errors = away - 2 * float((matrix * cross).sum()) + float((matrix * (scored @ matrix)).sum())
            scores.append((errors / len(w), 1 - errors / spread))
        return np.array(scores)


def value_of(score: str, first: np.ndarray, second: np.ndarray) -> float:
    """A score of rows (n, p) and (n, q) alone; its name as for `measure`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(value_of("CKA", x, x[:, ::-1]), 6), value_of("NOS@5", x, x)
        (1.0, 0.0)
    """
    family, _, neighbors = score.partition("@")
    if not neighbors:
        choose("score", score, dict.fromkeys((*MOMENT_SCORES, *DISTANCES)))
        if score not in DISTANCES:
            return MomentScores(first, second, (score,)).whole(score)
        sides = (DistanceSide(rows, DISTANCES[score]) for rows in (first, second))
        return DistanceScores(*sides).whole()
    choose("score", family, dict.fromkeys(NEIGHBORS))
    k = check_count("k", int(neighbors) if neighbors.isdecimal() else 0)
    cosine, cycle = family.endswith("k-NN"), k if family == "cycle k-NN" else None
    one, two = (NeighborSide(rows, k, cosine) for rows in (first, second))
    value = float(NeighborScores(one, two, () if cycle else (k,), cycle).whole()[0])
    return 1 - value if family == "NOS" else value


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths.

    Raises:
        ValueError: a row has length 0.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not lengths.all():
        row = int(np.flatnonzero(lengths[:, 0] == 0)[0])
        raise ValueError(f"rows must have a length to be compared by cosine, got zeros in row {row}")
    divided: np.ndarray = rows / lengths
    return divided


def thin(n: int, most: int) -> np.ndarray:
    """Every so-many-th of n rows, at most `most`: evenly spaced, so that the order of time remains."""
    return np.arange(0, n, -(-n // most))


def _sums(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.sum(0), rows.T @ rows


def _principal(x: np.ndarray) -> np.ndarray:
    """Centered rows (n, p) in at most n - 1 coordinates; an isometry."""
    values, vectors = scipy.linalg.eigh(x @ x.T)
    significant = values > _RANK * values[-1]
    return np.asarray(vectors[:, significant] * np.sqrt(values[significant]))


def _singular_sum(matrix: np.ndarray) -> float:
    """Sum of singular values, by the eigenvalues of the smaller product: to 8 digits."""
    tall = len(matrix) > matrix.shape[1]
    values = np.linalg.eigvalsh(matrix.T @ matrix if tall else matrix @ matrix.T)
    return float(np.sqrt(values.clip(0)).sum())


def _squares(rows: np.ndarray) -> np.ndarray:
    """Squared distances (n, n), infinite on the diagonal."""
    x = rows - rows.mean(0)
    lengths = (x**2).sum(1)
    squares: np.ndarray = lengths[:, None] + lengths[None] - 2 * (x @ x.T)
    np.fill_diagonal(squares, np.inf)
    return squares


def _nearest(squares: np.ndarray, k: int) -> np.ndarray:
    """(n, k) nearest by a matrix of distances, the nearest first."""
    near = (
        np.argpartition(squares, k - 1, axis=1)[:, :k] if k < len(squares) else np.argsort(squares, 1)[:, :k]
    )
    order = np.take_along_axis(squares, near, 1).argsort(1, kind="stable")
    return np.take_along_axis(near, order, 1)


def _places(one: np.ndarray, two: np.ndarray, block: int = 1 << 23) -> np.ndarray:
    """Where the entries of one list (n, most) stand in the other; most for those that do not."""
    n, most = one.shape
    places = np.full((n, most), most)
    step = max(1, block // most**2)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        row, place, other = np.nonzero(one[rows, :, None] == two[rows, None, :])
        places[row + start, place] = other
    return places


def _cycles(one: np.ndarray, two: np.ndarray, ranks: Sequence[np.ndarray], k: int) -> np.ndarray:
    """Whether row i is among the k neighbors, in the first, of one of its k neighbors in the second, (n,)."""
    n = len(one)
    row, place = np.nonzero(ranks[0] <= k)
    edges = np.sort(row * n + one[row, place])
    row, place = np.nonzero(ranks[1] <= k)
    edges_back = two[row, place] * n + row
    present = edges[np.searchsorted(edges, edges_back).clip(max=len(edges) - 1)] == edges_back
    return np.bincount(row[present], minlength=n) > 0


def _rank_matrix(rows: np.ndarray) -> np.ndarray:
    """Ranks of the distances between rows (n, n), ties shared, with mean 0 off the diagonal and 0 on it."""
    x = rows - rows.mean(0)
    lengths = (x**2).sum(1)
    i, j = np.triu_indices(len(x), 1)
    squares = (lengths[:, None] + lengths[None] - 2 * (x @ x.T))[i, j]
    step = _TIED * float(np.abs(squares).max()) or 1.0
    values = scipy.stats.rankdata(np.round(squares / step))
    values -= values.mean()
    if not values.any():
        raise ValueError("rows must differ in their distances to have ranks, got all distances equal")
    ranks = np.zeros((len(x), len(x)))
    ranks[i, j] = ranks[j, i] = values / np.abs(values).max()
    return ranks


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Pearson correlation of the entries off the diagonals, which are 0."""
    products = float(np.vdot(one, two)), float(np.vdot(one, one)), float(np.vdot(two, two))
    return _pearson(len(one), float(one.sum(dtype=np.float64)), float(two.sum(dtype=np.float64)), *products)


def _pearson(n: int, a: float, b: float, ab: float, aa: float, bb: float) -> float:
    """Pearson correlation from sums over the n (n - 1) entries off the diagonals."""
    pairs = n * (n - 1)
    variances = (aa - a * a / pairs) * (bb - b * b / pairs)
    return (ab - a * b / pairs) / math.sqrt(variances) if variances > 0 else 0.0


def _profiles(rows: np.ndarray) -> np.ndarray:
    if rows.shape[1] < 3:
        raise ValueError(
            f"rows must have at least 3 columns to be correlated, got {rows.shape[1]}: use euclidean"
        )
    means = rows.mean(1, keepdims=True)
    profiles = rows - means
    profiles[np.abs(profiles).max(1) <= 1e-12 * np.abs(means[:, 0])] = 0.0  # rounding of a constant row
    return unit_rows(profiles)


def _scaled(rows: np.ndarray) -> np.ndarray:
    x = rows - rows.mean(0)
    return np.asarray(x / np.abs(x).max())


DISSIMILARITIES = {"euclidean": _scaled, "cosine": unit_rows, "correlation": _profiles}


def blocks_of(n: int, count: int) -> Iterator[np.ndarray]:
    """Consecutive rows of n in blocks of nearly equal size."""
    yield from np.array_split(np.arange(n), min(count, n))


_BLOCK = 1 << 24  # distances at once
_CANDIDATES = 8  # beyond those asked for, ranked again by exact differences


def nearest(rows: Tensor, k: int) -> Tensor:
    """The k nearest other rows of each row, the nearest first; ties go to the smaller number.

    Args:
        rows: (n, d), float64.
        k: at most n - 1.

    Returns:
        (n, k) row numbers.

    Example:
        >>> nearest(torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64), 1)[:, 0]
        tensor([1, 0, 1])
    """
    size = float(torch.linalg.vector_norm(rows, ord=torch.inf))
    # a power of 2: distances that are equal stay equal
    x = rows * 2.0 ** -math.frexp(size)[1] if not 1e-100 < size < 1e100 else rows
    keys = x - x.mean(0)
    lengths, count = keys.square().sum(1), min(len(x) - 1, k + _CANDIDATES)
    error = 64 * torch.finfo(x.dtype).eps * x.shape[1] * (size**2 if 1e-100 < size < 1e100 else 1.0)
    neighbors = []
    for part in torch.arange(len(x)).split(max(1, _BLOCK // max(len(x), count * x.shape[1]))):
        squares = torch.addmm(lengths[None], keys[part], keys.T, alpha=-2)  # less the query's own length
        squares[torch.arange(len(part)), part] = torch.inf
        near, places = squares.topk(count, dim=1, largest=False)
        places = places.sort(dim=1).values
        exact, order = (x[places] - x[part, None]).square_().sum(2).sort(dim=1, stable=True)
        listed = places.gather(1, order[:, :k])
        if count < len(x) - 1:  # rows that a tie or rounding may have cut off are compared with all others
            for row in torch.nonzero(exact[:, k - 1] + error >= near[:, -1] + lengths[part])[:, 0].tolist():
                all_squares = (x - x[part[row]]).square_().sum(1)
                all_squares[part[row]] = torch.inf
                listed[row] = all_squares.sort(stable=True).indices[:k]
        neighbors.append(listed)
    return torch.cat(neighbors)
