r"""What two axes share: how far a function of one is correlated with a function of the other.

Axes of one latent each share nothing. Two functions of one latent, which need not be correlated themselves,
and axes that mix latents, share a lot. With polynomials of each axis up to degree `_DEGREE`, made white, and
M their correlations, the largest singular value of M is the correlation of the two that share most (the
maximal correlation of Gebelein 1941, restricted to them). The two are found on every other block of rows and
correlated on the blocks between, and the other way round, so that chance does not add to it.

Polynomials are of values, not of ranks, and those that hardly vary count little: on an axis of two values all
that they show is the trace of other axes that any estimate leaves.
"""

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.hermite import hermite_table

_DEGREE = 4
_FAR = 4.0  # deviations beyond which a value counts as that: powers of larger ones are those of few rows
_RIDGE = 0.03  # of the variance of each polynomial, that is added to it
_STILL = 0.5  # deviation below which a polynomial hardly varies
_STEPS = 12  # of the power iteration: what is asked is whether there is much, not how much exactly
_SURE = 4.0  # standard errors of a correlation of 0


def shared_functions(y: Tensor, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of functions of every two axes, and whether both halves of the rows show them.

    Args:
        y: (n, dim) axes.
        block: (n,) to which each row belongs, from 0.

    Returns:
        (dim, dim) the mean of what both halves say, and (dim, dim) what is beyond chance in both.
    """
    n, dim = y.shape
    values = (y - y.mean(0)) / y.std(0).clamp_min(1e-30)  # an axis may stand still in every so many rows
    table = torch.from_numpy(hermite_table(values.clamp(-_FAR, _FAR).double().numpy(), _DEGREE)[..., 1:])
    table = ((table - table.mean(0)) / table.std(0).clamp_min(_STILL)).transpose(0, 1)
    gram = table.transpose(1, 2) @ table / n + _RIDGE * torch.eye(_DEGREE, dtype=table.dtype)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), table.transpose(1, 2), upper=False)
    rows = white.permute(2, 0, 1).reshape(n, dim * _DEGREE).float()
    halves = [rows[torch.from_numpy(block % 2 == which)] for which in (0, 1)]
    pairs = [
        (half.T @ half / len(half)).reshape(dim, _DEGREE, dim, _DEGREE).transpose(1, 2) for half in halves
    ]
    found = torch.stack([_held_out(pairs[0], pairs[1]), _held_out(pairs[1], pairs[0])])
    for one in found:
        one.fill_diagonal_(0)
    chance = _SURE / np.sqrt(min(map(len, halves)))
    return found.mean(0).double().numpy(), (found.amin(0) > chance).numpy()


def _held_out(found_on: Tensor, shown_on: Tensor) -> Tensor:
    """(dim, dim) correlations on some rows of the functions that share most on others."""
    right = torch.ones_like(found_on[..., :1])
    for _ in range(_STEPS):
        left = found_on @ right
        left = left / left.norm(dim=2, keepdim=True).clamp_min(1e-12)
        right = found_on.transpose(2, 3) @ left
        right = right / right.norm(dim=2, keepdim=True).clamp_min(1e-12)
    return (left.transpose(2, 3) @ shown_on @ right)[..., 0, 0]
