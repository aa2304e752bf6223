r"""What two axes share: how far a function of one is correlated with a function of the other.

Axes of one latent each share nothing. Two functions of one latent, which need not be correlated themselves,
and axes that mix latents, share a lot. With polynomials of each axis up to degree `_DEGREE`, made white, and
M their correlations, the largest singular value of M is the correlation of the two that share most (the
maximal correlation of Gebelein 1941, restricted to them). The two are found on every other block of rows and
correlated on the blocks between, and the other way round, so that chance does not add to it.

Polynomials are of values, not of ranks, and those that hardly vary count little: on an axis of two values all
that they show is the trace of other axes that any estimate leaves.

A harmonic of an axis is a function of it, to the share of its variance that is no other latent's. Of the two
halves of a circle neither is a function of the other: their squares are. So it is also told how far an axis
itself, and not a function of it, is one of another.
"""

import math

import numpy as np
import torch
from torch import Tensor

_DEGREE = 4
_FAR = 4.0  # deviations beyond which a value counts as that: powers of larger ones are those of few rows
_RIDGE = 0.03  # of the variance of each polynomial, that is added to it
_STILL = 0.5  # deviation below which a polynomial hardly varies
_STEPS = 12  # of the power iteration: what is asked is whether there is much, not how much exactly
_SURE = 4.0  # standard errors of a correlation of 0


def shared_functions(y: Tensor, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations of functions of every two axes, and whether both halves of the rows show them.

    Args:
        y: (n, dim) axes.
        block: (n,) to which each row belongs, from 0.

    Returns:
        (dim, dim) the mean of what both halves say; (dim, dim) what is beyond chance in both; and (dim, dim)
        the correlation of a function of each axis with each other axis itself, the mean of both halves.
    """
    n, dim = y.shape
    spread = y.std(0).clamp_min(1e-30)  # an axis may stand still in every so many rows
    values = ((y - y.mean(0)) / spread).clamp_(-_FAR, _FAR).T.float()
    table = torch.stack(_polynomials(values), 1)  # (dim, degree, n)
    table -= table.mean(2, keepdim=True)
    table /= (torch.linalg.vector_norm(table, dim=2, keepdim=True) / np.sqrt(n - 1)).clamp_min_(_STILL)
    gram = table @ table.transpose(1, 2) / n + _RIDGE * torch.eye(_DEGREE)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), table, upper=False)
    rows = white.reshape(dim * _DEGREE, n)
    halves = [rows[:, torch.from_numpy(block % 2 == which)] for which in (0, 1)]
    sizes = [half.shape[1] for half in halves]
    pairs = [
        (half @ half.T / size).reshape(dim, _DEGREE, dim, _DEGREE).transpose(1, 2)
        for half, size in zip(halves, sizes, strict=True)
    ]
    turns = pairs, pairs[::-1]
    found = torch.stack([_held_out(*turn) for turn in turns])
    # the first polynomial is the axis itself, and whitening leaves it as it is but for its size
    carried = torch.stack([_held_out(*(part[..., :1] for part in turn)) for turn in turns])
    for one in (*found, *carried):
        one.fill_diagonal_(0)
    chance = _SURE / np.sqrt(min(sizes))
    sure = (found.amin(0) > chance).numpy()
    return found.mean(0).double().numpy(), sure, carried.mean(0).double().numpy()


def _polynomials(x: Tensor) -> list[Tensor]:
    """Hermite's, from the first degree on, of variance 1 for normal values."""
    found = [torch.ones_like(x), x]
    for k in range(1, _DEGREE):
        found.append((x * found[k] - math.sqrt(k) * found[k - 1]) / math.sqrt(k + 1))
    return found[1:]


def _held_out(found_on: Tensor, shown_on: Tensor) -> Tensor:
    """(dim, dim) correlations on some rows of the functions that share most on others."""
    right = torch.ones_like(found_on[..., :1, :]).transpose(2, 3)
    for _ in range(_STEPS):
        left = found_on @ right
        left = left / left.norm(dim=2, keepdim=True).clamp_min(1e-12)
        right = found_on.transpose(2, 3) @ left
        right = right / right.norm(dim=2, keepdim=True).clamp_min(1e-12)
    return (left.transpose(2, 3) @ shown_on @ right)[..., 0, 0]
