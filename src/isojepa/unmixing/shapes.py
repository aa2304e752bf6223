r"""What the shapes of marginal laws tell of a rotation: scores of the axes, and an equation for every angle.

Turn axes i and j of a white embedding by a small angle. With scores g = -(log p)' of the axes' laws,

    psi_ij = E[g_i(y_i) y_j - g_j(y_j) y_i]        is 0 where the axes are independent,
    d psi_ij / d angle = kappa_i + kappa_j,         kappa = E g'(y) - E g(y) y >= 0,

and kappa is 0 for the normal law alone: two normal axes cannot be told apart, all others can (Comon 1994).
One step of Newton for every pair at once, angle = -psi / (kappa_i + kappa_j), is exact to first order where
the axes are independent, so that few steps are needed.

Scores are learned for each axis, as the combination of y, tanh y, y exp(-y^2 / 2) and exp(-y^2 / 2) nearest
to the true one, by score matching (Hyvarinen 2005): E[b b^T] a = E b'. Then E g y = 1, kappa = E g^2 - 1, and
n (kappa_i + kappa_j) is the information of n independent rows about the angle.

Where there are pairs the second factor may be taken from the other view, the mean of both directions:

    psi_ij = E[g_i(y_i) y_j' - g_j(y_j) y_i']      is 0 where the axes are independent, too,
    d psi_ij / d angle = c_j E g_i' - E g_i y_i' + c_i E g_j' - E g_j y_j',       c = E y y'.

Errors of an encoder are faster than latents and partly forgotten from view to view: axes at which this one is
0 are turned by less. The linear parts of the scores cancel in it, and its variance is at most (1 + c_i c_j)/2
times that within a view: at c = 0.8 it tells much the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isojepa.objectives.gaussianity import threads

LEARNED = 5_000  # rows that scores are learned from
POOLED = 100_000  # numbers that one score of all axes is learned from
_COMPILED = 1 << 17  # numbers that are worth a compiler, which takes half a second to import
_CUBIC = (26.638, -62.429, 31.608, 0.0)
_RIDGE = 1e-4  # laws of a few values have no score, and what smaller ones find there is rounding
# where the ten different entries of b b^T stand among the moments of `loops`
_PLACES = torch.tensor([[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]])


@dataclass(frozen=True)
class Shapes:
    """What rows say of the axes they were rotated to.

    Attributes:
        products: (dim, dim) E g_i(y_i) y_j.
        slopes: (dim,) E g_i'(y_i).
        across: (dim, dim) E g_i(y_i) y_j', the mean of both directions; None without second views.
    """

    products: np.ndarray
    slopes: np.ndarray
    across: np.ndarray | None = None

    @property
    def kappa(self) -> np.ndarray:
        """(dim,) how far from normal each axis is, by its score: 0 for a normal one."""
        return np.asarray(self.slopes - np.diag(self.products))

    @property
    def psi(self) -> np.ndarray:
        """(dim, dim) 0 where axes are independent, antisymmetric."""
        return np.asarray(self.products - self.products.T)


class Sums(NamedTuple):
    """Sums of g_i(y_i) y_j, of g_i'(y_i) and, with second views, of g_i(y_i) y_j' + g_i(y_i') y_j."""

    products: Tensor
    slopes: Tensor
    across: Tensor | None


def learn_scores(y: Tensor, rows: int = LEARNED) -> Tensor:
    """(4, dim) coefficients of the score of every axis, from so many of the rows (n, dim)."""
    y = y[:: max(1, len(y) // rows)]
    products, slopes = _compiled_moments(y) if _is_compiled(y) else _moments(y.double())
    found: Tensor = torch.linalg.solve(products + _RIDGE * torch.eye(4, dtype=torch.float64), slopes)
    return found.T.contiguous()


def _moments(y: Tensor) -> tuple[Tensor, Tensor]:
    """(dim, 4, 4) E b b^T and (dim, 4) E b' of rows."""
    bell, bent = torch.exp(-y * y / 2), torch.tanh(y)
    functions = (y, bent, y * bell, bell)
    slopes = torch.stack((torch.ones_like(y), 1 - bent * bent, (1 - y * y) * bell, -y * bell), 2).mean(0)
    products = y.new_empty(y.shape[1], 4, 4)
    for one in range(4):
        for other in range(one + 1):
            # entry by entry: a batch of thin matrices is slower
            mean = (functions[one] * functions[other]).mean(0)
            products[:, one, other] = products[:, other, one] = mean
    return products, slopes


def _compiled_moments(y: Tensor) -> tuple[Tensor, Tensor]:
    """The same of float32 rows, to float32's accuracy."""
    from isojepa.unmixing import loops  # compiled on first use: keep it out of the import

    values = y.T.contiguous().numpy()
    sums = np.empty((len(values), loops.MOMENTS))
    threads.run(loops.moment_axes, loops.moment_team, values, sums)
    means = torch.from_numpy(sums / len(y))
    square, bell = means[:, 4], means[:, 10]
    slopes = torch.stack((torch.ones_like(bell), 1 - square, bell - means[:, 2], -means[:, 3]), 1)
    return means[:, _PLACES], slopes


def cubic_scores(dim: int) -> Tensor:
    """(4, dim) what is nearest to y^3 - 3 y among normal values: what a search begins with.

    Near normal, all that axes without skewness show are fourth cumulants, to which the others' noise is added
    least by this one. It has nine tenths and more of the cube, whose noise grows with tails.
    """
    return torch.tensor(_CUBIC, dtype=torch.float64)[:, None].repeat(1, dim)


def pooled_scores(y: Tensor) -> Tensor:
    """(4, dim) the score of all axes together, each turned to its longer tail."""
    side = torch.where((y**3).mean(0) < 0, -1.0, 1.0)
    every = (y * side).reshape(-1, 1)
    found = learn_scores(every, len(every)).repeat(1, y.shape[1])
    found[3] *= side  # the one of the four functions that is even
    return found


def score_and_slope(y: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """g and g' of every entry of rows (n, dim)."""
    a, b, c, d = scores.to(y.dtype)
    bent, bell = torch.tanh(y), torch.exp(y * y * -0.5)
    slope = torch.addcmul(a + b, bent * bent, b, value=-1)
    slope += bell * torch.addcmul(c - d * y, y * y, c, value=-1)
    return torch.addcmul(a * y + b * bent, torch.addcmul(d, c, y), bell), slope


def measure_shapes(y: Tensor, scores: Tensor, later: Tensor | None = None) -> Sums:
    """Sums over the values of axes (dim, n), and over those of the second views if there are such."""
    g, slopes = _scored(y, scores)
    across = None if later is None else g @ later.T + _scored(later, scores)[0] @ y.T
    return Sums(g @ y.T, slopes, across)


def sum_shapes(turn: Tensor, pieces: Iterable[Sequence[Tensor]], scores: Tensor) -> Shapes:
    """What rows say of the axes they are turned to.

    Args:
        turn: (axes, dim).
        pieces: of rows (n, dim), each with its second view or without.
        scores: (4, axes).
    """
    axes, count = len(turn), 0
    products, across, slopes = np.zeros((axes, axes)), np.zeros((axes, axes)), np.zeros(axes)
    paired = False
    for views in pieces:
        found = measure_shapes(turn @ views[0].T, scores, *(turn @ view.T for view in views[1:]))
        products += found.products.double().numpy()
        slopes += found.slopes.double().numpy()
        count += len(views[0])
        if found.across is not None:
            across += found.across.double().numpy() / 2
            paired = True
    return Shapes(products / count, slopes / count, across / count if paired else None)


def measure_slopes(y: Tensor, scores: Tensor, later: Tensor | None = None) -> Tensor:
    """Sums of g_i' y_j^2 + g_j' y_i^2 - g_i y_i - g_j y_j over the values of axes (dim, n).

    The mean is d psi_ij / d angle whatever the axes share: with independent ones, kappa_i + kappa_j. With the
    values of a second view it is that of psi across views.
    """
    g, slope = score_and_slope(y.T, scores)
    other = y if later is None else later
    crossed, own = slope.T @ (y * other).T, (g.T * other).sum(1)
    return crossed + crossed.T - own[:, None] - own


def measure_kappa(y: Tensor, scores: Tensor) -> Tensor:
    """(dim,) E g' - E g y over the values of axes (dim, n)."""
    g, slopes = _scored(y, scores)
    return (slopes - g.mul_(y).sum(1, dtype=torch.float64)) / y.shape[1]


def _scored(y: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """g of the values of axes (dim, n), and (dim,) the sums of g'."""
    if not _is_compiled(y):
        g, slope = score_and_slope(y.T, scores)
        return g.T, slope.sum(0, dtype=torch.float64)
    from isojepa.unmixing import loops

    y, own = y.contiguous(), scores.to(y.dtype).contiguous()
    g, slopes = torch.empty_like(y), np.empty(len(y))
    threads.run(loops.score_axes, loops.score_team, y.numpy(), own.numpy(), g.numpy(), slopes)
    return g, torch.from_numpy(slopes)


def _is_compiled(y: Tensor) -> bool:
    return y.dtype == torch.float32 and y.device.type == "cpu" and y.numel() >= _COMPILED and threads.COMPILER
