"""Normal scores of the values of one axis, the cells they are counted in, and smooth slopes along them.

    u = Phi^-1(rank),     dz/du = exp(g(u)),     g = sum_j theta_j b_j(u)   with cubic B-splines b_j.

A coordinate z that increases with y is a slope g along u. Ranks do not change under increasing functions of
y, so neither do u and what is fitted to it. The normal law is g constant, the uniform one g = -u^2 / 2 +
constant; third differences of theta, which are penalised, leave both free. The penalty is a tenth of the one
of the largest marginal likelihood, as in `isojepa.distributions.densities`.

Cells are cut where equal shares of phi(u)^(1/3) lie (Panter & Dite 1951); the two last ones hold the tails.
Knots are the means of u in each cell and the two extremes.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

BLOCKS = 20  # of successive rows, left out in turn
_FEWEST, _MOST = 24, 128  # cells
_PER_CELL = 80  # values, before there are more cells
_TAIL = 20  # values beyond which the slope is constant
_BEYOND = 0.01  # distance of the extremes from the means of the last cells, in u, at least
_SPACING = 0.15  # of the spline's knots, in u
_PENALTIES = [10.0**power for power in np.arange(2.0, -7.0, -0.5)]  # on the squared third derivative
_LESS = 10.0  # penalty than the likeliest: z is an average of slopes, for which less is better


@dataclass(frozen=True, eq=False)
class Scores:
    """Values of one axis by rank.

    Attributes:
        u: (n,) normal scores; ties share one.
        block: (n,) which of `BLOCKS` blocks of successive rows a value belongs to.
        cell: (n,) which of K cells.
        edges: (K - 1,) inner ends of the cells, in u.
        mass: (K,) of the cells.
        knots: (K + 2,) in u, ascending: the smallest score, the means of the cells, the largest.
        values: (K + 2,) of the axis at the knots.
        reach: |u| beyond which slopes are constant.
    """

    u: np.ndarray
    block: np.ndarray
    cell: np.ndarray
    edges: np.ndarray
    mass: np.ndarray
    knots: np.ndarray
    values: np.ndarray
    reach: float
    _segment: np.ndarray
    _share: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, block: np.ndarray) -> "Scores":
        """Scores of values (n,), each in a block."""
        n = len(values)
        order, ordered, sorted_u = _ranked(values)
        count, reach = int(np.clip(n // _PER_CELL, _FEWEST, _MOST)), -float(scipy.special.ndtri(_TAIL / n))
        wide = math.sqrt(3.0)  # phi^(1/3) is a normal density of variance 3
        end = float(scipy.special.ndtr(reach / wide))
        edges = wide * np.asarray(scipy.special.ndtri(np.linspace(1 - end, end, count + 1)[1:-1]))
        outer = np.concatenate(([-np.inf], edges, [np.inf]))
        mass = np.diff(scipy.special.ndtr(outer))
        means = -np.diff(normal_density(outer)) / mass
        # values that are equal at an end share a score, which may lie within the last cell
        ends = min(sorted_u[0], means[0] - _BEYOND), max(sorted_u[-1], means[-1] + _BEYOND)
        knots = np.concatenate((ends[:1], means, ends[1:]))
        place = np.interp(scipy.special.ndtr(knots) * n - 0.5, [0, n - 1], [0, n - 1])
        low = np.minimum(place.astype(np.int64), n - 2)
        at_knots = ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])
        # where each value lies between its knots: the fit asks for z of all of them at every step
        segment = np.clip(_places(knots, sorted_u) - 1, 0, len(knots) - 2)
        share = (sorted_u - knots[segment]) / np.diff(knots)[segment]
        u, cell, own, at_own = (
            _unsorted(order, one) for one in (sorted_u, _places(edges, sorted_u), segment, share)
        )
        return cls(u, block, cell, edges, mass, knots, at_knots, reach, own, at_own)

    def tallied(self, weights: np.ndarray | None = None) -> np.ndarray:
        """(BLOCKS, K) number of values, or sum of weights (n,), by block and cell."""
        count = len(self.mass)
        table: np.ndarray = np.bincount(self.block * count + self.cell, weights, BLOCKS * count)
        return table.reshape(BLOCKS, count)

    def at(self, z: np.ndarray) -> np.ndarray:
        """(n,) of each value, from z at the knots (K + 2,)."""
        found: np.ndarray = z[self._segment] + self._share * np.diff(z)[self._segment]
        return found


def normal_scores(values: np.ndarray) -> np.ndarray:
    """(n,) Phi^-1 of the ranks of values; ties share one."""
    order, _, scores = _ranked(values)
    return _unsorted(order, scores)


def _ranked(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order of values, the values in it, and their normal scores."""
    n = len(values)
    order = np.argsort(values)  # ties, which share a score, in any order
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] > ordered[:-1])))
    counts = np.diff(np.append(starts, n))
    return order, ordered, np.repeat(scipy.special.ndtri((starts + counts / 2) / n), counts)


def _places(edges: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """np.searchsorted(edges, ordered) of many ascending values and few edges."""
    ends = np.searchsorted(ordered, edges, side="right")
    return np.repeat(np.arange(len(edges) + 1), np.diff(ends, prepend=0, append=len(ordered)))


def _unsorted(order: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Sorted values where they came from."""
    found = np.empty_like(ordered)
    found[order] = ordered
    return found


def left_out(table: np.ndarray) -> np.ndarray:
    """(BLOCKS + 1, ...) sums over all blocks, and over all but each, from sums by block (BLOCKS, ...)."""
    total = table.sum(0)
    return np.concatenate((total[None], total - table))


def normal_density(u: np.ndarray) -> np.ndarray:
    """Density of N(0, 1)."""
    density: np.ndarray = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    return density


class Splines:
    """Smooth functions of u: cubic B-splines, constant beyond `reach`, with a penalised third derivative.

    Attributes:
        penalty: (J, J) the squared third derivative, integrated, as a form in the coefficients.
    """

    def __init__(self, reach: float) -> None:
        steps = max(4, round(2 * reach / _SPACING))
        width = 2 * reach / steps
        self._knots = -reach + width * np.arange(-3, steps + 4)
        third = np.diff(np.eye(steps + 3), 3, axis=0) / width**2.5
        self.penalty = third.T @ third

    @property
    def count(self) -> int:
        """Coefficients."""
        return len(self.penalty)

    def basis(self, u: np.ndarray) -> np.ndarray:
        """(len(u), J) values of the splines."""
        inside = np.clip(u, self._knots[3], self._knots[-4])
        matrix: np.ndarray = scipy.interpolate.BSpline.design_matrix(inside, self._knots, 3).toarray()
        return matrix

    def solve(
        self, design: np.ndarray, target: np.ndarray, weights: np.ndarray, penalty: float | None = None
    ) -> tuple[np.ndarray, float]:
        """Coefficients of the penalised least squares of target (m,) on design (m, J), and the penalty.

        Args:
            design, target: of the regression.
            weights: (m,) 1 / variance of each target.
            penalty: by default a tenth of the one of the largest marginal likelihood.
        """
        gram, moment = design.T @ (weights[:, None] * design), design.T @ (weights * target)

        def solution(weight: float) -> tuple[np.ndarray, float]:
            """For one penalty, and its log evidence."""
            # stiffer by a rounding: where a spline has next to no weight, all are equally good
            matrix = gram + weight * self.penalty + 1e-12 * np.trace(gram) * np.eye(self.count)
            factor = scipy.linalg.cho_factor(matrix)
            found = scipy.linalg.cho_solve(factor, moment)
            misfit = weights @ (target - design @ found) ** 2 + weight * found @ self.penalty @ found
            determinant = 2 * np.log(np.diag(factor[0])).sum()
            return found, float((self.count - 3) * math.log(weight) - determinant - misfit) / 2

        if penalty is None:
            penalty = max(_PENALTIES, key=lambda weight: solution(weight)[1]) / _LESS
        return solution(penalty)[0], penalty
