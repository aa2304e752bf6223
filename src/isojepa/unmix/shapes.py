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
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LEARNED = 5_000  # rows that scores are learned from
POOLED = 100_000  # numbers that one score of all axes is learned from
_RIDGE = 1e-4  # laws of a few values have no score, and what smaller ones find there is rounding


@dataclass(frozen=True)
class Shapes:
    """What rows say of the axes they were rotated to.

    Attributes:
        products: (dim, dim) E g_i(y_i) y_j.
        slopes: (dim,) E g_i'(y_i).
    """

    products: np.ndarray
    slopes: np.ndarray

    @property
    def kappa(self) -> np.ndarray:
        """(dim,) how far from normal each axis is, by its score: 0 for a normal one."""
        return np.asarray(self.slopes - np.diag(self.products))

    @property
    def psi(self) -> np.ndarray:
        """(dim, dim) 0 where axes are independent, antisymmetric."""
        return np.asarray(self.products - self.products.T)


def learn_scores(y: Tensor, rows: int = LEARNED) -> Tensor:
    """(4, dim) coefficients of the score of every axis, from so many of the rows (n, dim)."""
    y = y[:: max(1, len(y) // rows)].double()
    bell = torch.exp(-y * y / 2)
    bent = torch.tanh(y)
    functions = (y, bent, y * bell, bell)
    slopes = torch.stack((torch.ones_like(y), 1 - bent * bent, (1 - y * y) * bell, -y * bell), 2).mean(0)
    products = y.new_empty(y.shape[1], 4, 4)
    for one in range(4):
        for other in range(one + 1):
            # entry by entry: a batch of thin matrices is slower
            mean = (functions[one] * functions[other]).mean(0)
            products[:, one, other] = products[:, other, one] = mean
    found: Tensor = torch.linalg.solve(products + _RIDGE * torch.eye(4, dtype=y.dtype), slopes)
    return found.T.contiguous()


def pooled_scores(y: Tensor) -> Tensor:
    """(4, dim) the score of all axes together, each turned to its longer tail: what a search begins with."""
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


def measure_shapes(y: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over rows (n, dim) of g_i(y_i) y_j and of g_i'(y_i)."""
    g, slope = score_and_slope(y, scores)
    return g.T @ y, slope.sum(0)
